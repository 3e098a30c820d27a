//! Messages between two ranks: pieces that follow each other on one connection.

use std::collections::VecDeque;

use consort_sys::view::{Source, Target};

use super::frame::{Header, Kind, LETTER, Label};
use super::stream::Kept;
use super::{Hub, Switch, Trouble};
use crate::exec::Moved;

/// What a message says of itself, in the header of each of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) bytes: u64,
    pub(crate) tag: u32,
    pub(crate) kind: u8,
}

impl Letter {
    fn pack(self) -> [u64; 2] {
        [u64::from(self.tag) | u64::from(self.kind) << 32, self.bytes]
    }

    fn unpack([word, bytes]: [u64; 2]) -> Self {
        Self { bytes, tag: word as u32, kind: (word >> 32) as u8 }
    }
}

impl Switch {
    /// Goes on with a message to a rank, which is the `number`th of this group, and of which `done`
    /// bytes are out.
    pub(crate) fn send_letter(
        &self,
        to: u32,
        (group, number): (u64, u64),
        letter: Letter,
        data: Source<'_>,
        done: &mut usize,
    ) -> Result<Moved, Trouble> {
        let before = *done;
        loop {
            // Where in the message the piece begins that is on its way.
            let start = *done / LETTER * LETTER;
            let piece = data.slice(start..data.len().min(start + LETTER));
            let header = Header {
                kind: Kind::Letter,
                label: Label { track: 0, position: (start / LETTER) as u32 },
                bytes: piece.len() as u32,
                sum: None,
                group,
                epoch: self.epoch(),
                number,
                digest: 0,
                call: letter.pack(),
            };
            let mut out = *done - start;
            let moved = self.send(to, &header, &[piece], &mut out)?;
            *done = start + out;
            match moved {
                Moved::Whole if *done == data.len() => return Ok(Moved::Whole),
                Moved::Whole => {}
                _ if *done > before => return Ok(Moved::Some),
                other => return Ok(other),
            }
        }
    }

    /// The message from a rank that comes next, or is being taken, once it has begun to arrive.
    pub(crate) fn front_letter(&self, group: u64, from: u32) -> Result<Option<Letter>, Trouble> {
        let mut hub = self.lock();
        let arriving = self.fetch(&mut hub, group, from)?.map(|(_, header)| header);
        let first = hub.letters(group, from).and_then(|kept| kept.front());
        let header = first.map(|kept| kept.header).or(arriving);
        Ok(header.map(|header| Letter::unpack(header.call)))
    }

    /// Takes what has come of the message at the front, of whose pieces `taken` bytes were taken, to
    /// where it belongs; or throws it away.
    pub(crate) fn take_letter(
        &self,
        group: u64,
        from: u32,
        target: Option<Target<'_>>,
        taken: &mut usize,
    ) -> Result<Moved, Trouble> {
        let mut hub = self.lock();
        let (before, mut so_far) = (*taken, Moved::Nothing);
        loop {
            let arriving = self.fetch(&mut hub, group, from)?;
            let kept = hub.letters(group, from).and_then(VecDeque::pop_front);
            let header = match (&kept, arriving) {
                (Some(kept), _) => kept.header,
                (None, Some((_, header))) => header,
                (None, None) => return Ok(so_far),
            };
            let piece = Piece::new(&header, *taken, target);
            let piece = piece.map_err(|what| Trouble::Damaged { from, what })?;
            let moved = match (kept, arriving) {
                (Some(kept), _) => {
                    kept.check(from)?;
                    if let Some(target) = piece.target {
                        target.slice(kept.taken..target.len()).copy_from(kept.rest[..].into());
                    }
                    Moved::Whole
                }
                (None, Some((at, _))) => self.take_arriving(&mut hub, from, at, piece.target)?,
                (None, None) => unreachable!("it has a header"),
            };
            match moved {
                Moved::Whole => {}
                Moved::Some => return Ok(Moved::Some),
                Moved::Nothing => return Ok(so_far),
            }
            hub.peers[from as usize].use_up(&header);
            *taken = piece.end;
            if piece.is_last {
                return Ok(Moved::Whole);
            }
            so_far = Moved::Some;
            if *taken - before >= AT_ONCE {
                return Ok(so_far);
            }
        }
    }

    /// Takes what has come of a piece that is on its way, to where it belongs; or keeps it, to be thrown
    /// away.
    fn take_arriving(
        &self,
        hub: &mut Hub,
        from: u32,
        at: usize,
        target: Option<Target<'_>>,
    ) -> Result<Moved, Trouble> {
        let Some(target) = target else {
            return Ok(if self.keep(hub, from, at)? { Moved::Some } else { Moved::Nothing });
        };
        let stream = &mut hub.peers[from as usize].streams[at];
        match stream.take(&[target], &mut 0) {
            Ok(moved) => {
                if moved == Moved::Whole && stream.concerns_others() {
                    self.ring_if_dozing(hub);
                }
                Ok(moved)
            }
            Err(broken) => self.break_off(hub, from, at, broken),
        }
    }

    /// Keeps what has come from a rank, but for what a call will take, and for the piece that comes next
    /// of this group's messages: that can be taken where it is.
    fn fetch(
        &self,
        hub: &mut Hub,
        group: u64,
        from: u32,
    ) -> Result<Option<(usize, Header)>, Trouble> {
        self.connect(hub, from);
        let mut next = None;
        for at in 0..hub.peers[from as usize].streams.len() {
            loop {
                let stream = &mut hub.peers[from as usize].streams[at];
                let keeps = stream.keeps();
                match stream.look() {
                    Ok(Some(header))
                        if !keeps
                            && header.epoch == self.epoch
                            && hub.is_next(&header, group, from) =>
                    {
                        next = Some((at, header));
                        break;
                    }
                    Ok(Some(header)) if !hub.is_awaited(&header, from) => {
                        if !self.keep(hub, from, at)? {
                            break;
                        }
                    }
                    Ok(_) => break,
                    Err(broken) => {
                        self.break_off(hub, from, at, broken)?;
                        break;
                    }
                }
            }
            self.tell_news(hub, from, at);
        }
        Ok(next)
    }
}

/// A piece of a message, and where it belongs.
struct Piece<'t> {
    target: Option<Target<'t>>,
    /// Where in the message it ends.
    end: usize,
    is_last: bool,
}

impl<'t> Piece<'t> {
    /// The piece that begins so far in a message which goes into a target.
    ///
    /// # Errors
    /// When it has no room there.
    fn new(header: &Header, start: usize, target: Option<Target<'t>>) -> Result<Self, String> {
        let total = Letter::unpack(header.call).bytes as usize;
        let end = start + header.bytes as usize;
        if end > total || target.is_some_and(|target| target.len() != total) {
            return Err(format!("{end} bytes of a message of {total}"));
        }
        let target = target.map(|target| target.slice(start..end));
        Ok(Self { target, end, is_last: end == total })
    }
}

impl Hub {
    /// Whether a call is going to take a frame.
    fn is_awaited(&self, header: &Header, from: u32) -> bool {
        let station = self.stations.get(&header.group);
        header.kind == Kind::Part && station.is_some_and(|it| it.awaited.contains(&from))
    }

    /// Whether a frame is the piece that comes next of a group's messages.
    fn is_next(&self, header: &Header, group: u64, from: u32) -> bool {
        let station = self.stations.get(&group);
        let has_none =
            || station.is_none_or(|it| it.letters.get(&from).is_none_or(VecDeque::is_empty));
        header.kind == Kind::Letter && header.group == group && !self.has_ended(group) && has_none()
    }

    fn letters(&mut self, group: u64, from: u32) -> Option<&mut VecDeque<Kept>> {
        self.stations.get_mut(&group)?.letters.get_mut(&from)
    }
}

/// No more is taken at once, so that others have their turn.
const AT_ONCE: usize = 4 * LETTER;
