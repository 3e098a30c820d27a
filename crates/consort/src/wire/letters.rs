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
        self.fetch(&mut hub, from)?;
        let first = hub.letters(group, from).and_then(|kept| kept.front());
        Ok(first.map(|kept| Letter::unpack(kept.header.call)))
    }

    /// Takes what has come of the message at the front, of which `taken` bytes were taken, to where it
    /// belongs; or throws it away.
    pub(crate) fn take_letter(
        &self,
        group: u64,
        from: u32,
        target: Option<Target<'_>>,
        taken: &mut usize,
    ) -> Result<Moved, Trouble> {
        let mut hub = self.lock();
        let before = *taken;
        loop {
            self.fetch(&mut hub, from)?;
            let next = hub.letters(group, from).and_then(|kept| kept.pop_front());
            let Some(kept) = next else {
                return Ok(if *taken > before { Moved::Some } else { Moved::Nothing });
            };
            kept.check(from)?;
            let Kept { header, rest, .. } = kept;
            let total = Letter::unpack(header.call).bytes as usize;
            let end = *taken + rest.len();
            if end > total || target.is_some_and(|target| target.len() != total) {
                let what = format!("{end} bytes of a message of {total}");
                return Err(Trouble::Damaged { from, what });
            }
            if let Some(target) = target {
                target.slice(*taken..end).copy_from(rest[..].into());
            }
            *taken = end;
            hub.peers[from as usize].use_up(&header);
            if end == total {
                return Ok(Moved::Whole);
            }
        }
    }

    /// Keeps what has come from a rank, but for what a call will take.
    fn fetch(&self, hub: &mut Hub, from: u32) -> Result<(), Trouble> {
        self.connect(hub, from);
        for at in 0..hub.peers[from as usize].streams.len() {
            loop {
                match hub.peers[from as usize].streams[at].look() {
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
        }
        Ok(())
    }
}

impl Hub {
    /// Whether a call is going to take a frame.
    fn is_awaited(&self, header: &Header, from: u32) -> bool {
        let station = self.stations.get(&header.group);
        header.kind == Kind::Part && station.is_some_and(|it| it.awaited.contains(&from))
    }

    fn letters(&mut self, group: u64, from: u32) -> Option<&mut VecDeque<Kept>> {
        self.stations.get_mut(&group)?.letters.get_mut(&from)
    }
}
