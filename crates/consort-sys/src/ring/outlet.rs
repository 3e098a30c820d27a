//! The writing end of a ring.

use std::sync::atomic::Ordering;

use super::bell::Bell;
use super::block::Block;
use super::envelope::{self, Where};
use super::flow::Writer;
use super::{Envelope, LINE, LINES, Progress, RingError, Rings};
use crate::arena::Piece;
use crate::view::{Source, Target};

/// The ring from this rank to another. It takes its memory with the first message.
#[derive(Debug)]
pub struct Outlet {
    block: Block,
    to: usize,
    bell: Bell,
    ring: Option<Piece>,
    writer: Writer,
    /// How many messages were begun.
    number: u32,
    /// Whether the other rank can fetch messages from this one's memory.
    reachable: bool,
    /// How many messages are for it to fetch, from the beginning.
    handed: u32,
}

/// How far a message has come on its way into a ring.
#[derive(Debug)]
pub struct Sending {
    envelope: Envelope,
    begun: bool,
    sent: usize,
    /// Which of the messages that the other rank fetches it is, once it has begun.
    handed: Option<u32>,
}

impl Sending {
    /// A message that has not begun.
    pub fn new(envelope: Envelope) -> Self {
        Self { envelope, begun: false, sent: 0, handed: None }
    }

    /// Whether some of it is in the ring, so that the rest has to follow.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// How many lines are to come.
    fn lines_left(&self) -> u32 {
        let lines = (self.envelope.bytes - self.sent).div_ceil(LINE);
        u32::try_from(lines).unwrap_or(u32::MAX).saturating_add(u32::from(!self.begun))
    }
}

impl Outlet {
    pub(super) fn new(mine: &Block, theirs: &Block, to: usize, reachable: bool) -> Self {
        let (block, bell, writer) = (mine.clone(), Bell::new(theirs), Writer::new(LINES));
        Self { block, to, bell, ring: None, writer, number: 0, reachable, handed: 0 }
    }

    /// Writes as much of a message as there is room for, but no more at once than a ring holds: who
    /// sees to several messages is not kept by one whose reader is as fast. `data` is the message,
    /// as long as its envelope says. A message that has begun has to be done before another one
    /// begins.
    ///
    /// # Errors
    /// When there is no memory for the ring, or what the reader wrote makes no sense.
    pub fn go_on(
        &mut self,
        message: &mut Sending,
        data: Source<'_>,
    ) -> Result<Progress, RingError> {
        self.open()?;
        if self.reachable && Rings::FETCHED.contains(&message.envelope.bytes) {
            return self.hand_over(message, data);
        }
        let enough = message.sent + Rings::BYTES;
        let mut progress = Progress::Stuck;
        while progress != Progress::Done && message.sent < enough {
            let tail = self.block.tail(self.to);
            let room = self.writer.room(tail, message.lines_left().min(CHUNK))?.min(CHUNK);
            if room == 0 {
                break;
            }
            let lines = self.write(message, data, room);
            self.writer.publish(self.block.head(self.to), lines);
            self.bell.ring();
            let done = message.lines_left() == 0;
            progress = if done { Progress::Done } else { Progress::Moved };
        }
        Ok(progress)
    }

    /// Says where the message is, and waits until the other rank has fetched it.
    fn hand_over(
        &mut self,
        message: &mut Sending,
        data: Source<'_>,
    ) -> Result<Progress, RingError> {
        if let Some(number) = message.handed {
            let fetched = self.block.fetched(self.to).load(Ordering::Acquire);
            let is_fetched = fetched.wrapping_sub(number) as i32 >= 0;
            return Ok(if is_fetched { Progress::Done } else { Progress::Stuck });
        }
        if self.writer.room(self.block.tail(self.to), 1)? == 0 {
            return Ok(Progress::Stuck);
        }
        let address = data.as_ptr().expose_provenance() as u64;
        self.write_line(message.envelope, Where::There(address));
        self.handed = self.handed.wrapping_add(1);
        (message.begun, message.handed) = (true, Some(self.handed));
        self.writer.publish(self.block.head(self.to), 1);
        self.bell.ring();
        Ok(Progress::Moved)
    }

    /// Leaves the messages that were sent to whoever has yet to receive them. No more are sent.
    pub fn abandon(&mut self) {
        if let Some(ring) = self.ring.take() {
            ring.abandon();
        }
    }

    fn open(&mut self) -> Result<(), RingError> {
        if self.ring.is_none() {
            let ring = self.block.arena().alloc(Rings::BYTES, LINE)?;
            self.block.place(self.to).store(ring.offset() as u64, Ordering::Relaxed);
            self.ring = Some(ring);
        }
        Ok(())
    }

    /// Writes what fits into so many lines, at least one, and says into how many it went.
    fn write(&mut self, message: &mut Sending, data: Source<'_>, room: u32) -> u32 {
        let mut lines = 0;
        if !message.begun {
            message.begun = true;
            self.write_envelope(message, data);
            lines = 1;
        }
        let bytes = (message.envelope.bytes - message.sent).min((room - lines) as usize * LINE);
        let data = data.slice(message.sent..message.sent + bytes);
        let start = self.writer.place(lines) * LINE;
        let until_end = bytes.min(Rings::BYTES - start);
        self.bytes(start, until_end).copy_from(data.slice(0..until_end));
        if until_end < bytes {
            self.bytes(0, bytes - until_end).copy_from(data.slice(until_end..bytes));
        }
        message.sent += bytes;
        lines + bytes.div_ceil(LINE) as u32
    }

    /// Writes the envelope, and all of the message if it is small.
    fn write_envelope(&mut self, message: &mut Sending, data: Source<'_>) {
        let line = self.write_line(message.envelope, Where::Here);
        if message.envelope.is_alone() {
            line.slice(envelope::SIZE..envelope::SIZE + data.len()).copy_from(data);
            message.sent = data.len();
        }
    }

    fn write_line(&mut self, envelope: Envelope, place: Where) -> Target<'_> {
        let number = self.number;
        self.number = self.number.wrapping_add(1);
        let line = self.bytes(self.writer.place(0) * LINE, LINE);
        let envelope = envelope.to_bytes(number, place);
        line.slice(0..envelope.len()).copy_from((&envelope[..]).into());
        line
    }

    fn bytes(&self, start: usize, len: usize) -> Target<'_> {
        self.ring.as_ref().expect("it was opened").view().slice(start..start + len)
    }
}

/// So many lines are published at once: a reader can begin before all is written.
const CHUNK: u32 = (8 << 10) / LINE as u32;
