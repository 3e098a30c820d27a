//! The reading end of a ring.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::bell::Bell;
use super::block::Block;
use super::envelope::{self, Envelope, Where};
use super::flow::Reader;
use super::{LINE, LINES, Progress, RingError, Rings};
use crate::reach::Reach;
use crate::view::{Source, Target};

/// The ring from another rank to this one.
#[derive(Debug)]
pub struct Inlet {
    block: Block,
    me: usize,
    bell: Bell,
    /// Where the ring is, once something has come.
    ring: Option<usize>,
    reader: Reader,
    /// How many messages have ended.
    number: u32,
    front: Option<Front>,
    /// The other rank's memory, if it can be reached.
    reach: Option<Reach>,
    /// How many messages were fetched from there.
    fetched: u32,
}

/// The message that is being read.
#[derive(Debug)]
struct Front {
    envelope: Envelope,
    place: Where,
    /// Whether its envelope's line is read.
    opened: bool,
    taken: usize,
}

impl Inlet {
    pub(super) fn new(theirs: &Block, me: usize, reach: Option<Reach>) -> Self {
        let (block, bell, reader) = (theirs.clone(), Bell::new(theirs), Reader::new(LINES));
        let (ring, front) = (None, None);
        Self { block, me, bell, ring, reader, number: 0, front, reach, fetched: 0 }
    }

    /// The message that comes next, or is being taken, if it has begun to arrive.
    ///
    /// # Errors
    /// When what the writer wrote makes no sense.
    pub fn front(&mut self) -> Result<Option<Envelope>, RingError> {
        if self.front.is_none() && self.reader.ready(self.block.head(self.me))? > 0 {
            self.find_ring()?;
            let mut envelope = [0; envelope::WITH_ADDRESS];
            let line = self.bytes(self.reader.place() * LINE, envelope.len());
            Target::from(&mut envelope[..]).copy_from(line);
            let (envelope, place) = Envelope::from_bytes(envelope, self.number)?;
            self.front = Some(Front { envelope, place, opened: false, taken: 0 });
        }
        Ok(self.front.as_ref().map(|front| front.envelope))
    }

    /// Copies what has arrived of the front message to where it belongs in a target as long as the
    /// message, but no more at once than a ring holds.
    ///
    /// # Errors
    /// When what the writer wrote makes no sense.
    pub fn take(&mut self, target: Target<'_>) -> Result<Progress, RingError> {
        if let Some(Front { place: Where::There(address), taken, .. }) = self.front {
            return self.fetch(target, address, taken);
        }
        if target.len() >= Rings::FETCHED.end {
            return self.drain(|range, data| target.slice(range).stream_from(data));
        }
        self.drain(|range, data| target.slice(range).copy_from(data))
    }

    /// Throws away what has arrived of the front message.
    ///
    /// # Errors
    /// When what the writer wrote makes no sense.
    pub fn skip(&mut self) -> Result<Progress, RingError> {
        if let Some(Front { place: Where::There(_), .. }) = self.front {
            self.finish_fetched();
            return Ok(Progress::Done);
        }
        self.drain(|_, _| {})
    }

    /// Copies some of the front message from where it is.
    fn fetch(
        &mut self,
        target: Target<'_>,
        address: u64,
        taken: usize,
    ) -> Result<Progress, RingError> {
        let reach = self.reach.ok_or_else(|| damaged("a message is out of reach".to_owned()))?;
        let end = target.len().min(taken + AT_ONCE);
        match reach.read(address.saturating_add(taken as u64), target.slice(taken..end)) {
            Ok(()) if end == target.len() => {
                self.finish_fetched();
                Ok(Progress::Done)
            }
            Ok(()) => {
                self.front.iter_mut().for_each(|front| front.taken = end);
                Ok(Progress::Moved)
            }
            // Whoever waits for it will notice.
            Err(error) if error.is_its_end() => Ok(Progress::Stuck),
            Err(error) => Err(RingError::Unread(error)),
        }
    }

    /// Lets the other rank have its memory back.
    fn finish_fetched(&mut self) {
        self.front = None;
        self.number = self.number.wrapping_add(1);
        self.advance(1);
        self.fetched = self.fetched.wrapping_add(1);
        self.block.fetched(self.me).store(self.fetched, Ordering::Release);
        self.bell.ring();
    }

    fn drain(&mut self, give: impl FnMut(Range<usize>, Source<'_>)) -> Result<Progress, RingError> {
        if self.front()?.is_none() {
            return Ok(Progress::Stuck);
        }
        let mut front = self.front.take().expect("there is a message");
        let progress = self.drain_front(&mut front, give);
        match progress {
            Ok(Progress::Done) => self.number = self.number.wrapping_add(1),
            _ => self.front = Some(front),
        }
        progress
    }

    fn drain_front(
        &mut self,
        front: &mut Front,
        mut give: impl FnMut(Range<usize>, Source<'_>),
    ) -> Result<Progress, RingError> {
        let total = front.envelope.bytes;
        let mut progress = Progress::Stuck;
        if !front.opened {
            if front.envelope.is_alone() {
                let start = self.reader.place() * LINE + envelope::SIZE;
                give(0..total, self.bytes(start, total));
                front.taken = total;
            }
            front.opened = true;
            self.advance(1);
            progress = Progress::Moved;
        }
        let enough = total.min(front.taken + Rings::BYTES);
        while front.taken < enough {
            let ready = self.reader.ready(self.block.head(self.me))? as usize;
            if ready == 0 {
                return Ok(progress);
            }
            let lines = ready.min(CHUNK).min(LINES as usize - self.reader.place());
            let bytes = (lines * LINE).min(total - front.taken);
            let data = self.bytes(self.reader.place() * LINE, bytes);
            give(front.taken..front.taken + bytes, data);
            front.taken += bytes;
            self.advance(bytes.div_ceil(LINE));
            progress = Progress::Moved;
        }
        Ok(if front.taken == total { Progress::Done } else { progress })
    }

    fn advance(&mut self, lines: usize) {
        if self.reader.advance(self.block.tail(self.me), lines as u32) {
            self.bell.ring();
        }
    }

    /// The writer says where the ring is before it says that there is something in it.
    fn find_ring(&mut self) -> Result<(), RingError> {
        if self.ring.is_some() {
            return Ok(());
        }
        let place = self.block.place(self.me).load(Ordering::Relaxed);
        let ring = usize::try_from(place).ok().filter(|&place| {
            place.is_multiple_of(LINE) && self.block.arena().view(place, Rings::BYTES).is_some()
        });
        self.ring = ring;
        let nowhere = || damaged(format!("there is no ring at {place} of an arena"));
        ring.map(|_| ()).ok_or_else(nowhere)
    }

    fn bytes(&self, start: usize, len: usize) -> Source<'_> {
        let ring = self.ring.expect("a message has come");
        let bytes = self.block.arena().view(ring + start, len);
        bytes.expect("all of the ring is within its arena").into()
    }
}

fn damaged(what: String) -> RingError {
    RingError::Damaged(what)
}

/// So many bytes are fetched at once: who sees to several messages is not kept by one.
const AT_ONCE: usize = 1 << 20;
/// So many lines are read before the writer may hear of it.
const CHUNK: usize = (8 << 10) / LINE;
