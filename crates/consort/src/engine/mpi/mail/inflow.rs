//! What comes from another rank.

use consort_sys::ring::{Envelope, Progress};
use consort_sys::view::{Source, Target};

use super::{HEAD, Head, Mailbag, NEXT, lost, read};
use crate::engine::post::{Broken, Inflow};
use crate::mpi::{Class, Memory, Pending};

/// The way from another rank.
#[derive(Debug)]
pub(super) struct MpiInflow {
    bag: Mailbag,
    from: usize,
    /// A packet that MPI is at.
    coming: Option<Pending>,
    /// The packet that was received last, how long it is, and how much of it was taken.
    packet: Memory,
    len: usize,
    used: usize,
    /// The message at the front, and how much of it was taken.
    front: Option<Envelope>,
    taken: usize,
}

impl MpiInflow {
    pub(super) fn new(bag: &Mailbag, from: usize) -> Self {
        Self {
            bag: bag.clone(),
            from,
            coming: None,
            packet: Memory::default(),
            len: 0,
            used: 0,
            front: None,
            taken: 0,
        }
    }

    /// Whether there is something of a packet, which is looked for if there is not.
    fn has_packet(&mut self) -> Result<bool, Broken> {
        if self.used < self.len {
            return Ok(true);
        }
        if self.coming.is_none() {
            let Self { bag, from, packet, .. } = self;
            let come = bag.communicator.receive(*from, Class::Message, NEXT, packet);
            self.coming = come.map_err(lost)?;
        }
        let Some(coming) = &mut self.coming else { return Ok(false) };
        if !coming.is_done().map_err(lost)? {
            return Ok(false);
        }
        let coming = self.coming.take().expect("it is there");
        (self.len, self.used) = (coming.bytes(), 0);
        self.packet = coming.into_memory();
        let packet = &self.packet.receive.bytes()[..self.len];
        self.bag.lock()[self.from].count(packet, self.bag.communicator.mark());
        Ok(self.len > 0)
    }

    /// Takes what has arrived, to where it belongs if there is such a place.
    fn go_on(&mut self, target: Option<Target<'_>>) -> Result<Progress, Broken> {
        let Some(front) = self.front()? else { return Ok(Progress::Stuck) };
        let mut progress = Progress::Stuck;
        for _ in 0..AT_ONCE {
            if self.taken == front.bytes {
                self.front = None;
                return Ok(Progress::Done);
            }
            if !self.has_packet()? {
                break;
            }
            let bytes = self.len - self.used;
            if bytes > front.bytes - self.taken {
                let what = format!("{bytes} bytes where {} were left", front.bytes - self.taken);
                return Err(Broken::Damaged(what));
            }
            if let Some(target) = target {
                let data = Source::from(&self.packet.receive.bytes()[self.used..self.len]);
                target.slice(self.taken..self.taken + bytes).copy_from(data);
            }
            (self.taken, self.used) = (self.taken + bytes, self.len);
            progress = Progress::Moved;
        }
        if self.taken == front.bytes {
            self.front = None;
            progress = Progress::Done;
        }
        Ok(progress)
    }
}

impl Inflow for MpiInflow {
    fn front(&mut self) -> Result<Option<Envelope>, Broken> {
        while self.front.is_none() && self.has_packet()? {
            let packet = &self.packet.receive.bytes()[self.used..self.len];
            let head = read(packet, self.bag.communicator.mark()).ok_or_else(|| {
                let len = packet.len();
                Broken::Damaged(format!("a packet of {len} bytes that begins no message"))
            })?;
            match head {
                Head::Message(envelope) => {
                    self.front = Some(envelope);
                    (self.used, self.taken) = (self.used + HEAD, 0);
                }
                Head::Stray => self.used = self.len,
            }
        }
        Ok(self.front)
    }

    fn take(&mut self, target: Target<'_>) -> Result<Progress, Broken> {
        self.go_on(Some(target))
    }

    fn skip(&mut self) -> Result<Progress, Broken> {
        self.go_on(None)
    }

    fn may_go_on(&mut self) -> bool {
        self.bag.may_come(self.from)
    }
}

/// How many packets one who receives takes before others have their turn.
const AT_ONCE: usize = 8;
