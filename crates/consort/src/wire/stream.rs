//! Frames over one connection. Nothing waits.
//!
//! **In.** The frame at the front is [looked at](Stream::look); then whoever it is for
//! [takes](Stream::take) its data straight to where they belong, or they are [kept](Stream::keep) for
//! it. A frame that was taken in part may be kept from there on: a thread that waits for something
//! behind it cannot wait for whoever takes it.
//!
//! **Out.** One frame goes at a time, in as many goes as it takes. What is [said](Stream::say) goes
//! between frames. A frame that was begun has to be brought to its end, even if nobody wants to any
//! more: then it is [abandoned](Stream::abandon), and zeroes are sent in place of its rest. The byte
//! behind it tells the other side that it is not whole.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use consort_sys::view::{Source, Target};

use super::Trouble;
use super::frame::{HEADER, Header, Kind, Label, WHOLE};
use super::parts::{self, Parts};
use super::pipe::Pipe;
use crate::exec::Moved;

/// One connection to another process.
#[derive(Debug)]
pub(super) struct Stream {
    pipe: Pipe,
    /// Whether all frames have checksums.
    integrity: bool,
    /// What was read ahead: from `start` to `end`.
    ahead: Box<[u8; AHEAD]>,
    start: usize,
    end: usize,
    coming: Option<Coming>,
    going: Option<Going>,
    /// Said, but not out.
    words: Vec<u8>,
    /// Zeroes that have to go before the words.
    owed: usize,
    /// Whether nothing goes any more.
    is_mute: bool,
    /// Whether nothing comes any more, either.
    over: bool,
    /// The last glance that found nothing.
    empty_at: u64,
    /// Whether something was read ahead that nobody was told of.
    has_news: bool,
    /// Whether somebody sleeps who does not watch it, because of the frame at the front.
    is_left_out: bool,
}

/// The frame at the front.
#[derive(Debug)]
struct Coming {
    header: Header,
    /// How much of it was taken.
    taken: usize,
    /// What came after that.
    kept: Vec<u8>,
    /// The checksum of all that came.
    sum: u32,
}

/// A frame on its way out.
#[derive(Debug)]
struct Going {
    name: Name,
    head: [u8; HEADER],
    /// How much of it is out, the header and the seal included.
    sent: usize,
    bytes: usize,
    seal: &'static [u8],
}

impl Going {
    fn total(&self) -> usize {
        HEADER + self.bytes + self.seal.len()
    }
}

/// What tells a frame from all others.
type Name = (u64, Kind, u64, Label);

/// A frame that was kept, at least its end.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) header: Header,
    /// How much of its data was taken before.
    pub(super) taken: usize,
    pub(super) rest: Vec<u8>,
    /// Whether it is not what was sent.
    changed: bool,
    /// Whether its sender has not given up on the way.
    pub(super) is_whole: bool,
}

impl Kept {
    /// Whether it is what was sent.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn check(&self, from: u32) -> Result<(), Trouble> {
        match self.changed {
            true => Err(Trouble::Damaged { from, what: Broken::Changed(self.header).to_string() }),
            false => Ok(()),
        }
    }
}

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub(super) enum Broken {
    /// It has ended, or the network has.
    Gone(io::Error),
    /// What came cannot be.
    Nonsense(String),
    /// What came is not what was sent.
    Changed(Header),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("it has closed the connection")
            }
            Self::Gone(error) => error.fmt(f),
            Self::Nonsense(what) => f.write_str(what),
            Self::Changed(Header { kind, bytes, number, .. }) => {
                let what = if *kind == Kind::Letter { "message" } else { "call" };
                write!(
                    f,
                    "{bytes} bytes of {what} {number} are not what was sent: their checksum differs"
                )
            }
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Nonsense(error.to_string()),
            _ => Self::Gone(error),
        }
    }
}

impl Stream {
    pub(super) fn new(pipe: Pipe, integrity: bool) -> Self {
        let ahead = Box::new([0; AHEAD]);
        let (coming, going, words) = (None, None, Vec::new());
        Self {
            pipe,
            integrity,
            ahead,
            start: 0,
            end: 0,
            coming,
            going,
            words,
            owed: 0,
            is_mute: false,
            over: false,
            empty_at: 0,
            has_news: false,
            is_left_out: false,
        }
    }

    pub(super) fn socket(&self) -> &Arc<TcpStream> {
        self.pipe.socket()
    }

    /// Takes notice that nothing goes any more. What has come can still be read.
    pub(super) fn fall_silent(&mut self) {
        self.is_mute = true;
        self.going = None;
        self.words.clear();
        self.owed = 0;
    }

    /// Takes notice that the other side, or the network, has closed it.
    pub(super) fn end(&mut self) {
        self.fall_silent();
        self.over = true;
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The frame at the front, once its header has come.
    pub(super) fn look(&mut self) -> Result<Option<Header>, Broken> {
        if let Some(coming) = &self.coming {
            return Ok(Some(coming.header));
        }
        if self.over {
            return Ok(None);
        }
        while self.end - self.start < HEADER {
            if !self.read_ahead()? {
                return Ok(None);
            }
        }
        let head = self.ahead[self.start..].first_chunk().expect("it is all there");
        let header = Header::decode(head).map_err(Broken::Nonsense)?;
        if self.integrity && header.sum.is_none() {
            return Err(Broken::Nonsense("a frame without a checksum".to_owned()));
        }
        self.start += HEADER;
        self.coming = Some(Coming { header, taken: 0, kept: Vec::new(), sum: 0 });
        Ok(Some(header))
    }

    /// The same, without asking the system twice during one glance.
    pub(super) fn glance(&mut self, glance: u64) -> Result<Option<Header>, Broken> {
        if self.coming.is_none() && self.empty_at == glance {
            return Ok(None);
        }
        let found = self.look()?;
        if found.is_none() {
            self.empty_at = glance;
        }
        Ok(found)
    }

    /// Looks at the frame at the front if its header was read ahead.
    pub(super) fn look_ahead(&mut self) -> Result<(), Broken> {
        if self.end - self.start < HEADER { Ok(()) } else { self.look().map(drop) }
    }

    /// The frame at the front, if one was looked at and has not ended.
    pub(super) fn front(&self) -> Option<&Header> {
        self.coming.as_ref().map(|coming| &coming.header)
    }

    /// Whether something was read ahead of what was taken: the system does not know of it any more.
    pub(super) fn has_read_ahead(&self) -> bool {
        self.start < self.end || self.pipe.has_read_ahead()
    }

    /// Whether there is something that was read ahead and not told of. It is told of now.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news) && (self.coming.is_some() || self.has_read_ahead())
    }

    /// Takes notice that somebody goes to sleep without watching it.
    pub(super) fn leave_out(&mut self) {
        self.is_left_out = true;
    }

    #[cfg(test)]
    pub(super) fn is_left_out(&self) -> bool {
        self.is_left_out
    }

    /// The frame at the front is gone: whether others have to look at what is behind it.
    pub(super) fn concerns_others(&mut self) -> bool {
        std::mem::take(&mut self.is_left_out) || self.has_read_ahead()
    }

    /// Whether the frame at the front is being kept.
    pub(super) fn keeps(&self) -> bool {
        self.coming.as_ref().is_some_and(|coming| !coming.kept.is_empty())
    }

    /// Takes what has come of the frame at the front, to where it belongs in parts that are as long as
    /// its data, of which `done` bytes are there.
    pub(super) fn take(&mut self, parts: &[Target<'_>], done: &mut usize) -> Result<Moved, Broken> {
        let coming = self.coming.as_mut().expect("a frame was found");
        let before = coming.taken;
        let total = coming.header.bytes as usize;
        while coming.taken < total {
            let ready = self.end - self.start;
            let ahead = ready.min(total - coming.taken);
            if ahead > 0 {
                let from = &self.ahead[self.start..self.start + ahead];
                parts::fill(parts, coming.taken, from.into());
                self.start += ahead;
                coming.taken += ahead;
                continue;
            }
            (self.start, self.end) = (0, 0);
            let mut list = Parts::of_targets(parts, coming.taken);
            list.push(Target::from(&mut self.ahead[..]));
            match self.pipe.read(list.as_slice())? {
                None => break,
                Some(read) => {
                    let taken = read.min(total - coming.taken);
                    coming.taken += taken;
                    self.end = read - taken;
                }
            }
        }
        *done = coming.taken;
        let moved = coming.taken - before;
        if coming.header.sum.is_some() {
            coming.sum = parts::checksum(parts, before..coming.taken, coming.sum);
        }
        let how_far = if moved > 0 { Moved::Some } else { Moved::Nothing };
        if coming.taken < total {
            return Ok(how_far);
        }
        match self.is_whole()? {
            None => return Ok(how_far),
            // Its sender has given up, and says why.
            Some(false) => {
                self.coming = None;
                return Ok(Moved::Nothing);
            }
            Some(true) => {}
        }
        match self.finish() {
            (header, true) => Err(Broken::Changed(header)),
            _ => Ok(Moved::Whole),
        }
    }

    /// Keeps what has come of the frame at the front. Gives it when it has come to its end.
    pub(super) fn keep(&mut self) -> Result<Option<Kept>, Broken> {
        let coming = self.coming.as_mut().expect("a frame was found");
        let total = coming.header.bytes as usize - coming.taken;
        while coming.kept.len() < total {
            let ready = (self.end - self.start).min(total - coming.kept.len());
            if ready > 0 {
                coming.kept.extend_from_slice(&self.ahead[self.start..self.start + ready]);
                self.start += ready;
                continue;
            }
            (self.start, self.end) = (0, 0);
            let at = coming.kept.len();
            // No more than has come, whatever the header says.
            coming.kept.resize(total.min(at + STEP), 0);
            let read = self.pipe.read(&[Target::from(&mut coming.kept[at..])]);
            coming.kept.truncate(at + read.as_ref().map_or(0, |read| read.unwrap_or(0)));
            if read?.is_none() {
                return Ok(None);
            }
        }
        let Some(is_whole) = self.is_whole()? else { return Ok(None) };
        let coming = self.coming.as_mut().expect("a frame was found");
        if coming.header.sum.is_some() {
            coming.sum = crc32c::crc32c_append(coming.sum, &coming.kept);
        }
        let (taken, rest) = (coming.taken, std::mem::take(&mut coming.kept));
        match self.finish() {
            (header, true) if !header.kind.is_data() => Err(Broken::Changed(header)),
            (header, changed) => Ok(Some(Kept { header, taken, rest, changed, is_whole })),
        }
    }

    /// Sends what there is room for of a frame whose data are these parts, of which `done` bytes are
    /// out. It was begun, or [can be](Self::is_free).
    pub(super) fn send(
        &mut self,
        header: &Header,
        parts: &[Source<'_>],
        done: &mut usize,
    ) -> Result<Moved, Broken> {
        let name = name(header);
        if self.going.is_none() {
            let sum = self.integrity.then(|| parts::checksum_of_all(parts));
            let (head, bytes) = (Header { sum, ..*header }.encode(), header.bytes as usize);
            let seal = header.seal();
            self.going = Some(Going { name, head, sent: 0, bytes, seal });
        }
        let going = self.going.as_mut().expect("it was put there");
        assert_eq!(going.name, name, "one frame goes at a time");
        let before = going.sent;
        while going.sent < going.total() {
            let head = &going.head[going.sent.min(HEADER)..];
            let mut list = Parts::starting_with(head.into());
            list.extend_from(parts, going.seal.into(), going.sent.saturating_sub(HEADER));
            match self.pipe.write(list.as_slice())? {
                None => break,
                Some(sent) => going.sent += sent,
            }
        }
        *done = going.sent.saturating_sub(HEADER).min(going.bytes);
        let how_far = if going.sent > before { Moved::Some } else { Moved::Nothing };
        // What is sealed in this process's memory is not sent.
        if going.sent < going.total() || !self.pipe.flush()? {
            return Ok(how_far);
        }
        self.going = None;
        Ok(Moved::Whole)
    }

    /// Whether this very frame is on its way.
    pub(super) fn is_sending(&self, header: &Header) -> bool {
        self.going.as_ref().is_some_and(|going| going.name == name(header))
    }

    /// Whether a frame can be begun: none is on its way, and all that was said is out.
    pub(super) fn is_free(&mut self) -> Result<bool, Broken> {
        Ok(!self.over && !self.is_mute && self.going.is_none() && self.flush()?)
    }

    /// Says something, when there is room.
    pub(super) fn say(&mut self, header: &Header, data: &[u8]) {
        let sum = self.integrity.then(|| crc32c::crc32c(data));
        self.words.extend_from_slice(&Header { sum, ..*header }.encode());
        self.words.extend_from_slice(data);
    }

    /// Gives up a group's frame that is on its way.
    pub(super) fn abandon(&mut self, group: u64) {
        let Some(going) = self.going.take_if(|going| going.name.0 == group) else { return };
        if going.sent == 0 || self.is_mute {
            return;
        }
        let rest = &going.head[going.sent.min(HEADER)..];
        self.words.splice(0..0, rest.iter().copied());
        if rest.is_empty() {
            self.owed = going.total() - going.sent;
        } else {
            let zeroes = std::iter::repeat_n(0, going.bytes + going.seal.len());
            let at = rest.len();
            self.words.splice(at..at, zeroes);
        }
    }

    /// Sends what was said and is owed, if no frame is on its way. Whether all of it is out.
    pub(super) fn flush(&mut self) -> Result<bool, Broken> {
        if self.is_mute || self.over {
            self.words.clear();
            self.owed = 0;
        }
        if self.going.is_some() {
            return Ok(self.words.is_empty());
        }
        while self.owed > 0 {
            let len = self.owed.min(ZEROES.len());
            match self.pipe.write(&[ZEROES[..len].into()])? {
                None => return Ok(false),
                Some(sent) => self.owed -= sent,
            }
        }
        let mut sent = 0;
        while sent < self.words.len() {
            match self.pipe.write(&[self.words[sent..].into()])? {
                None => break,
                Some(more) => sent += more,
            }
        }
        self.words.drain(..sent);
        Ok(self.pipe.flush()? && self.words.is_empty())
    }

    /// Whether it waits for room to send something.
    pub(super) fn is_full(&self) -> bool {
        self.going.is_some() || self.owed > 0 || !self.words.is_empty() || self.pipe.has_backlog()
    }

    /// Brings all to an end that was begun or said. Says how many bytes are still on their way.
    pub(super) fn close(&mut self) -> Result<usize, Broken> {
        if let Some(group) = self.going.as_ref().map(|going| going.name.0) {
            self.abandon(group);
        }
        if !self.flush()? {
            return Ok(usize::MAX);
        }
        // What nobody reads would have the connection cut off, and what is on its way with it.
        while let Some(read) = self.pipe.read(&[Target::from(&mut self.ahead[..])])? {
            debug_assert!(read > 0, "the end is an error");
        }
        Ok(self.pipe.close())
    }

    /// Whether the data that have come to their end are whole; `None` if that has not come.
    fn is_whole(&mut self) -> Result<Option<bool>, Broken> {
        let header = &self.coming.as_ref().expect("a frame was found").header;
        if header.seal().is_empty() {
            return Ok(Some(true));
        }
        if self.start == self.end && !self.read_ahead()? {
            return Ok(None);
        }
        self.start += 1;
        Ok(Some(self.ahead[self.start - 1] == WHOLE))
    }

    fn read_ahead(&mut self) -> Result<bool, Broken> {
        self.ahead.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let room = Target::from(&mut self.ahead[self.end..]);
        let read = self.pipe.read(&[room])?;
        self.end += read.unwrap_or(0);
        self.has_news |= read.is_some();
        Ok(read.is_some())
    }

    /// The frame at the front has come to its end. Whether it is not what was sent.
    fn finish(&mut self) -> (Header, bool) {
        let Coming { header, sum, .. } = self.coming.take().expect("a frame was found");
        (header, header.sum.is_some_and(|sent| sent != sum))
    }
}

fn name(header: &Header) -> Name {
    (header.group, header.kind, header.number, header.label)
}

/// As much as is read with a header in one go: a small call's data come with it.
const AHEAD: usize = 8 << 10;
/// As much as is kept in one go.
const STEP: usize = 256 << 10;
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
