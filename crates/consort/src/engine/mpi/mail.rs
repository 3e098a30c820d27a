//! Messages between this rank and another, by MPI, on a communicator of their own.
//!
//! A message is a number of packets, all of one sender in their order. The first is small, and has the envelope
//! before as much of the message as fits: MPI takes it at once, whether or not the receiver looks for it. So that
//! one who sends much to a rank that does not look is stopped, every so often a packet is sent so that MPI says when
//! it is being received, and only so many of those are on their way. What follows the first packet is always sent
//! like that.
//!
//! MPI gets on only when it is called. A rank that has sent a small message and computes for long may have some of
//! it still with itself; it goes on with its next call of whatever kind, at the latest when it leaves the group.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::ring::{Envelope, Progress};
use consort_sys::view::{Source, Target};

use crate::engine::lookout::Lookout;
use crate::engine::post::{Broken, Inflow, Inlet, Outflow, Outlet};
use crate::mpi::{Communicator, Memory, MpiError, Pending};

/// Ends of ways for messages to and from every other rank of the group that this is for; and what is on its way.
pub(super) fn mail(
    communicator: &Communicator,
    lookout: &Lookout,
) -> (Vec<Option<(Outlet, Inlet)>>, Mailbag) {
    let bag = Mailbag::new(communicator);
    let ends = |rank| {
        let outflow = MpiOutflow { bag: bag.clone(), to: rank, message: None };
        let inflow = MpiInflow::new(communicator, lookout, rank);
        (Outlet::Other(Box::new(outflow)), Inlet::Other(Box::new(inflow)))
    };
    let me = communicator.me();
    let all = (0..communicator.world()).map(|rank| (rank != me).then(|| ends(rank))).collect();
    (all, bag)
}

/// Packets that MPI is at. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Mailbag {
    communicator: Communicator,
    /// For each rank those to it, in their order.
    packets: Arc<Mutex<Vec<Sent>>>,
}

/// What is on its way to a rank.
#[derive(Debug, Default)]
struct Sent {
    packets: VecDeque<Packet>,
    /// How much was sent since it could last be known that it is received.
    unnoticed: usize,
    /// Memory that was used before.
    spare: Vec<Memory>,
}

#[derive(Debug)]
struct Packet {
    pending: Pending,
    /// Whether it is done only when it is being received.
    is_noticed: bool,
}

impl Mailbag {
    fn new(communicator: &Communicator) -> Self {
        let sent = (0..communicator.world()).map(|_| Sent::default()).collect();
        Self { communicator: communicator.clone(), packets: Arc::new(Mutex::new(sent)) }
    }

    /// Waits a little until everything is out, for one who leaves. What is not then is left to MPI.
    pub(super) fn empty(&self, lookout: &Lookout) {
        let began = Instant::now();
        loop {
            let mut all = self.lock();
            let is_out = |sent: &mut Sent| sent.reap().is_ok() && sent.packets.is_empty();
            let are_out = all.iter_mut().all(is_out);
            drop(all);
            if are_out {
                return;
            }
            if lookout.has_ended() || began.elapsed() >= LINGER {
                return self.communicator.spoil();
            }
            thread::sleep(Duration::from_micros(100));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    /// Takes back what MPI is done with.
    fn reap(&mut self) -> Result<(), MpiError> {
        while let Some(first) = self.packets.front_mut() {
            if !first.pending.is_done()? {
                break;
            }
            let packet = self.packets.pop_front().expect("there is one");
            if self.spare.len() < SPARE {
                self.spare.push(packet.pending.into_memory());
            }
        }
        Ok(())
    }

    /// Whether one more packet may go.
    fn has_room(&self) -> bool {
        let noticed = self.packets.iter().filter(|packet| packet.is_noticed).count();
        noticed < WINDOW && self.packets.len() < MOST
    }
}

/// The way to another rank.
#[derive(Debug)]
struct MpiOutflow {
    bag: Mailbag,
    to: usize,
    /// The message that has begun.
    message: Option<Outgoing>,
}

/// A message on its way.
#[derive(Debug)]
struct Outgoing {
    envelope: Envelope,
    /// How much of it was sent; nothing, not even the envelope, if that is `None`.
    done: Option<usize>,
}

impl Outflow for MpiOutflow {
    fn begin(&mut self, envelope: Envelope) -> Result<bool, Broken> {
        let mut all = self.bag.lock();
        let sent = &mut all[self.to];
        sent.reap().map_err(lost)?;
        if !sent.has_room() {
            return Ok(false);
        }
        self.message = Some(Outgoing { envelope, done: None });
        Ok(true)
    }

    fn go_on(&mut self, data: Source<'_>) -> Result<Progress, Broken> {
        let Some(message) = &mut self.message else { return Ok(Progress::Done) };
        let mut all = self.bag.lock();
        let sent = &mut all[self.to];
        sent.reap().map_err(lost)?;
        let mut progress = Progress::Stuck;
        while message.done.is_none_or(|done| done < data.len()) && sent.has_room() {
            let mut memory = sent.spare.pop().unwrap_or_default();
            let (bytes, done) = match message.done {
                None => {
                    let first = data.len().min(FIRST);
                    let packet = memory.send.of(HEAD + first);
                    packet[..HEAD].copy_from_slice(&write(&message.envelope));
                    Target::from(&mut packet[HEAD..]).copy_from(data.slice(0..first));
                    (HEAD + first, first)
                }
                Some(done) => {
                    let next = (data.len() - done).min(NEXT);
                    let packet = memory.send.of(next);
                    Target::from(packet).copy_from(data.slice(done..done + next));
                    (next, done + next)
                }
            };
            sent.unnoticed += bytes + BURDEN;
            let is_noticed = message.done.is_some() || sent.unnoticed >= UNNOTICED;
            if is_noticed {
                sent.unnoticed = 0;
            }
            let pending = self.bag.communicator.send(self.to, bytes, memory, is_noticed);
            sent.packets.push_back(Packet { pending: pending.map_err(lost)?, is_noticed });
            message.done = Some(done);
            progress = Progress::Moved;
        }
        let is_out = message.done.is_some_and(|done| done == data.len());
        // What is larger than a packet is the sender's business until it is received.
        if is_out && (data.len() <= FIRST || sent.packets.is_empty()) {
            self.message = None;
            progress = Progress::Done;
        }
        Ok(progress)
    }
}

/// The way from another rank.
#[derive(Debug)]
struct MpiInflow {
    communicator: Communicator,
    lookout: Lookout,
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
    fn new(communicator: &Communicator, lookout: &Lookout, from: usize) -> Self {
        Self {
            communicator: communicator.clone(),
            lookout: lookout.clone(),
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
            // What one has sent who has left is there, but MPI may have to be asked a few times.
            let looks = if self.lookout.has_left(self.from) { LOOKS } else { 1 };
            for _ in 0..looks {
                let Self { communicator, from, packet, .. } = self;
                self.coming = communicator.receive(*from, HEAD.max(NEXT), packet).map_err(lost)?;
                if self.coming.is_some() {
                    break;
                }
            }
        }
        let Some(coming) = &mut self.coming else { return Ok(false) };
        if !coming.is_done().map_err(lost)? {
            return Ok(false);
        }
        let coming = self.coming.take().expect("it is there");
        (self.len, self.used) = (coming.bytes(), 0);
        self.packet = coming.into_memory();
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
        if self.front.is_none() && self.has_packet()? {
            let packet = &self.packet.receive.bytes()[self.used..self.len];
            self.front = Some(read(packet).ok_or_else(|| {
                Broken::Damaged(format!(
                    "a packet of {} bytes that begins no message",
                    packet.len()
                ))
            })?);
            (self.used, self.taken) = (self.used + HEAD, 0);
        }
        Ok(self.front)
    }

    fn take(&mut self, target: Target<'_>) -> Result<Progress, Broken> {
        self.go_on(Some(target))
    }

    fn skip(&mut self) -> Result<Progress, Broken> {
        self.go_on(None)
    }
}

fn write(envelope: &Envelope) -> [u8; HEAD] {
    let words = [envelope.bytes as u64, u64::from(envelope.tag) | u64::from(envelope.kind) << 32];
    bytemuck::must_cast(words)
}

fn read(packet: &[u8]) -> Option<Envelope> {
    let [bytes, rest]: [u64; 2] = bytemuck::must_cast(*packet.first_chunk::<HEAD>()?);
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| isize::try_from(bytes).is_ok())?;
    let kind = u8::try_from(rest >> 32).ok()?;
    Some(Envelope { bytes, tag: rest as u32, kind })
}

fn lost(error: MpiError) -> Broken {
    Broken::Lost(format!("MPI has failed: {error}"))
}

/// How long an envelope is.
const HEAD: usize = 2 * size_of::<u64>();
/// How much of a message is in its first packet: MPI takes so much at once.
const FIRST: usize = (8 << 10) - HEAD;
/// How much of it is in each that follows.
const NEXT: usize = 256 << 10;
/// How much may be sent before it has to be known that it is received.
const UNNOTICED: usize = 64 << 10;
/// What a packet costs its receiver besides.
const BURDEN: usize = 64;
/// How many packets may be on their way of which that is known.
const WINDOW: usize = 4;
/// And how many of all.
const MOST: usize = 1024;
/// How many packets one who receives takes before others have their turn.
const AT_ONCE: usize = 8;
/// How much memory is kept for packets, for each rank.
const SPARE: usize = 4;
/// How often MPI is asked for what must be there.
const LOOKS: usize = 50;
/// How long a rank that leaves waits for its last words to be out.
const LINGER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_read_as_it_was_written() {
        let envelope = Envelope { bytes: 1 << 40, tag: u32::MAX, kind: 200 };
        assert_eq!(read(&write(&envelope)), Some(envelope));
        assert_eq!(read(&[0; HEAD - 1]), None);
        assert_eq!(read(&[0xff; HEAD]), None);
    }
}
