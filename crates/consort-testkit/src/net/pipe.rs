//! One direction of a connection.

use std::collections::VecDeque;
use std::io;

use super::Dice;

/// Bytes on their way to one side, and those that have come.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    flying: VecDeque<u8>,
    arrived: VecDeque<u8>,
    /// What comes behind what is flying.
    last: Option<Closing>,
    /// What has come behind what is here.
    over: Option<Closing>,
    /// Whether something of it is due.
    pub(super) is_moving: bool,
    /// Whether its sender waits for room.
    pub(super) wants_room: bool,
}

/// How a direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The other side closed it.
    Closed,
    /// It was cut off.
    Reset,
    /// Nothing came through for too long.
    Lost,
}

impl Pipe {
    /// Takes as many bytes as there is room for.
    pub(super) fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.last.is_some() || self.over.is_some() {
            // Nobody will read them, and the sender will hear of it.
            return Ok(bytes.len());
        }
        let room = WINDOW.saturating_sub(self.flying.len() + self.arrived.len());
        let count = bytes.len().min(room);
        if count == 0 && !bytes.is_empty() {
            self.wants_room = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.flying.extend(&bytes[..count]);
        Ok(count)
    }

    /// Gives bytes that have come, or says that there are none, yet or any more.
    pub(super) fn give(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.arrived.len());
        for (place, byte) in buffer.iter_mut().zip(self.arrived.drain(..count)) {
            *place = byte;
        }
        match (count, self.over) {
            (0, None) => Err(io::ErrorKind::WouldBlock.into()),
            (0, Some(Closing::Reset)) => Err(io::ErrorKind::ConnectionReset.into()),
            (0, Some(Closing::Lost)) => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(count),
        }
    }

    /// Brings a piece of what is flying, or the end behind it. Whether there was either.
    pub(super) fn bring(&mut self, dice: &mut Dice, pieces: &mut u64) -> bool {
        if self.flying.is_empty() {
            self.over = self.over.or(self.last.take());
            return self.over.is_some();
        }
        let all = self.flying.len();
        let count = if dice.once_in(2) { all } else { 1 + dice.index(all) };
        *pieces += u64::from(count < all);
        self.arrived.extend(self.flying.drain(..count));
        true
    }

    /// Whether there is more to bring.
    pub(super) fn has_more(&self) -> bool {
        !self.flying.is_empty() || self.last.is_some()
    }

    /// Nothing is sent any more; all that is flying comes.
    pub(super) fn finish(&mut self, how: Closing) {
        if self.over.is_none() {
            self.last.get_or_insert(how);
        }
    }

    /// Nothing comes any more but a part of what is flying, which may end within anything.
    pub(super) fn cut_off(&mut self, how: Option<Closing>, dice: &mut Dice) {
        self.flying.truncate(dice.index(self.flying.len() + 1));
        if let Some(how) = how {
            self.finish(how);
        }
    }

    /// Nothing comes any more.
    pub(super) fn lose(&mut self) {
        self.flying.clear();
        self.last = None;
        self.over.get_or_insert(Closing::Lost);
    }

    /// Nobody reads any more.
    pub(super) fn forget(&mut self) {
        self.flying.clear();
        self.arrived.clear();
        self.finish(Closing::Reset);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flying.is_empty() && self.arrived.is_empty()
    }
}

/// How far a sender gets ahead of what is read.
const WINDOW: usize = 16 << 10;
