//! Messages between this rank and another, by MPI, on a communicator of their own.
//!
//! A message is a number of packets, all of one sender in their order. The first is small, and has the envelope
//! before as much of the message as fits: MPI takes it at once, whether or not the receiver looks for it. So that
//! one who sends much to a rank that does not look is stopped, every so often a packet is sent so that MPI says when
//! it is being received, and only so many of those are on their way. What follows the first packet is always sent
//! like that.
//!
//! What a rank has sent may still be on its way when others hear, elsewhere, that it has left; and so may be the word that
//! it has received what was sent to it. So it says goodbye here, too, with the numbers of packets that it has sent and
//! received: only who knows these knows what will not come. Until all have, a communicator is [kept](parting).
//!
//! MPI gives what was never received, because a group has ended badly, to the next communicator of the same number, which a
//! later group of the same ranks may have. So every first packet has a mark of its group, and so has a goodbye; others are thrown away.

mod goodbye;
mod inflow;
mod parting;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::ring::{Envelope, Progress};
use consort_sys::view::{Source, Target};

use self::goodbye::Goodbye;
use self::inflow::MpiInflow;
use crate::engine::lookout::Lookout;
use crate::engine::post::{Broken, Inlet, Outflow, Outlet};
use crate::engine::verdict::Cause;
use crate::mpi::{Class, Communicator, Memory, MpiError, Pending};

/// Ends of ways for messages to and from every other rank of the group that this is for; and what is on its way.
pub(super) fn mail(
    communicator: &Communicator,
    lookout: &Lookout,
) -> (Vec<Option<(Outlet, Inlet)>>, Mailbag) {
    let bag = Mailbag::new(communicator, lookout);
    let ends = |rank| {
        let outflow = MpiOutflow { bag: bag.clone(), to: rank, message: None };
        let inflow = MpiInflow::new(&bag, rank);
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
    lookout: Lookout,
    /// For each rank what goes to it and comes from it.
    traffic: SharedTraffic,
}

/// What goes to each rank and comes from it.
type SharedTraffic = Arc<Mutex<Vec<Traffic>>>;

/// What goes to a rank and comes from it.
#[derive(Debug, Default)]
struct Traffic {
    /// Packets on their way to it, in their order.
    packets: VecDeque<Packet>,
    /// How many of them are done only when they are being received.
    noticed: usize,
    /// How many packets were sent to it,
    sent: u64,
    /// and received from it.
    taken: u64,
    /// How much of the message that it is sending is in packets to come.
    rest: usize,
    /// What it has said last, or is saying.
    goodbye: Goodbye,
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
    fn new(communicator: &Communicator, lookout: &Lookout) -> Self {
        let traffic = (0..communicator.world()).map(|_| Traffic::default()).collect();
        let traffic = Arc::new(Mutex::new(traffic));
        Self { communicator: communicator.clone(), lookout: lookout.clone(), traffic }
    }

    /// Says goodbye to all, and waits a little until everything is out, for one who leaves. What is not then is left to
    /// MPI.
    pub(super) fn empty(&self) {
        if self.communicator.is_over() {
            let group = self.lookout.group();
            // Whether what was sent is out is not to be had of it any more.
            return tracing::warn!(
                "group {group} is dropped after the program has ended MPI: drop groups before MPI_Finalize, so that \
                 the others hear which messages were the last"
            );
        }
        let began = Instant::now();
        if !self.lookout.has_ended() {
            self.say_goodbye();
        }
        loop {
            match self.is_empty() {
                Ok(true) => return,
                Ok(false) if !self.lookout.has_ended() && began.elapsed() < LINGER => {
                    thread::sleep(Duration::from_micros(100));
                }
                Ok(false) => return self.communicator.spoil(),
                Err(error) => {
                    // Whoever waits for what is lost would do so until its deadline.
                    let reason = format!("its last messages are lost: MPI has failed: {error}");
                    self.lookout.decide(Cause::Unable { reason });
                    return self.communicator.spoil();
                }
            }
        }
    }

    /// Has what comes later received for nobody, when the others can know that this rank has left.
    pub(super) fn leave(&self) {
        let is_used = !self.lookout.has_ended() && !self.communicator.is_over();
        if is_used && self.is_empty() == Ok(true) {
            self.communicator.part(self.part());
        }
    }

    /// Whether everything is out.
    fn is_empty(&self) -> Result<bool, MpiError> {
        let mut is_empty = true;
        for (rank, it) in self.lock().iter_mut().enumerate() {
            match it.reap() {
                // It has left, and needs nothing.
                Err(_) if self.lookout.is_leaving(rank) => it.forget(),
                reaped => reaped?,
            }
            is_empty &= it.packets.is_empty();
        }
        Ok(is_empty)
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let me = self.communicator.me();
        (0..self.communicator.world()).filter(move |&rank| rank != me)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Traffic>> {
        lock(&self.traffic)
    }
}

fn lock(traffic: &SharedTraffic) -> MutexGuard<'_, Vec<Traffic>> {
    traffic.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Traffic {
    /// Takes notice of a packet that MPI has begun to send.
    fn add(&mut self, pending: Pending, is_noticed: bool) {
        self.noticed += usize::from(is_noticed);
        self.packets.push_back(Packet { pending, is_noticed });
    }

    /// Leaves all packets to MPI.
    fn forget(&mut self) {
        self.packets.clear();
        self.noticed = 0;
    }

    /// Takes back what MPI is done with.
    ///
    /// # Errors
    /// When a packet has failed: it stays the first, so that nothing behind it is taken for sent.
    fn reap(&mut self) -> Result<(), MpiError> {
        while let Some(first) = self.packets.front_mut() {
            if !first.pending.is_done()? {
                break;
            }
            let packet = self.packets.pop_front().expect("there is one");
            self.noticed -= usize::from(packet.is_noticed);
            if self.spare.len() < SPARE {
                self.spare.push(packet.pending.into_memory());
            }
        }
        Ok(())
    }

    /// Counts a packet that was received, in a group of this mark, but none of another group.
    fn count(&mut self, packet: &[u8], mark: u64) {
        if self.rest > 0 {
            // It has no head.
            self.rest = self.rest.saturating_sub(packet.len());
        } else {
            match read(packet, mark) {
                Some(Head::Message(it)) => self.rest = it.bytes.saturating_sub(packet.len() - HEAD),
                Some(Head::Stray) => return,
                // It makes no sense, which is for those to say who want it.
                None => {}
            }
        }
        self.taken += 1;
    }

    /// Whether one more packet may go.
    fn has_room(&self) -> bool {
        self.noticed < WINDOW && self.packets.len() < MOST
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
                    let head = write(&message.envelope, self.bag.communicator.mark());
                    packet[..HEAD].copy_from_slice(&head);
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
            let (to, class) = (self.to, Class::Message);
            let pending = self.bag.communicator.send(to, class, bytes, memory, is_noticed);
            sent.sent += 1;
            sent.add(pending.map_err(lost)?, is_noticed);
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

    fn may_be_done(&mut self) -> bool {
        let is_out = |message: &Outgoing| message.done == Some(message.envelope.bytes);
        self.message.as_ref().is_some_and(is_out) && self.bag.may_have_gone(self.to)
    }
}

/// What a first packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// It begins this message.
    Message(Envelope),
    /// It is of another group.
    Stray,
}

/// The head of a message in a group of this mark.
fn write(envelope: &Envelope, mark: u64) -> [u8; HEAD] {
    let rest = u64::from(envelope.tag) | u64::from(envelope.kind) << 32;
    bytemuck::must_cast([mark, envelope.bytes as u64, rest])
}

/// What a packet says where a message begins, in a group of this mark; `None` if that makes no sense. One that is
/// shorter than a head is the end of another group's message: this group's heads are whole, and what follows them comes
/// while their message is open.
fn read(packet: &[u8], expected: u64) -> Option<Head> {
    let Some(head) = packet.first_chunk::<HEAD>() else { return Some(Head::Stray) };
    let [mark, bytes, rest]: [u64; 3] = bytemuck::must_cast(*head);
    if mark != expected {
        return Some(Head::Stray);
    }
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| isize::try_from(bytes).is_ok())?;
    let kind = u8::try_from(rest >> 32).ok()?;
    Some(Head::Message(Envelope { bytes, tag: rest as u32, kind }))
}

fn lost(error: MpiError) -> Broken {
    Broken::Lost(format!("MPI has failed: {error}"))
}

/// How long a head is.
const HEAD: usize = 3 * size_of::<u64>();
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
/// How much memory is kept for packets, for each rank.
const SPARE: usize = 4;
/// How long a rank that leaves waits for its last words to be out.
const LINGER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_read_as_it_was_written() {
        let envelope = Envelope { bytes: 1 << 40, tag: u32::MAX, kind: 200 };
        let packet = write(&envelope, 7);
        assert_eq!(read(&packet, 7), Some(Head::Message(envelope)));
        assert_eq!(read(&packet, 8), Some(Head::Stray));
        assert_eq!(read(&packet[1..], 7), Some(Head::Stray));
        assert_eq!(read(&[], 7), Some(Head::Stray));
        let mut senseless = write(&envelope, 7);
        senseless[HEAD - 2] = 1;
        assert_eq!(read(&senseless, 7), None);
    }

    #[test]
    fn packets_of_another_group_are_not_counted_and_those_that_follow_a_head_are() {
        let first = |bytes, mark| {
            let mut packet = write(&Envelope { bytes, tag: 4, kind: 0 }, mark).to_vec();
            packet.resize(HEAD + bytes.min(FIRST), 9);
            packet
        };
        let (large, small) = (FIRST + NEXT + 1, 3);
        let mut it = Traffic::default();
        // What nobody has received of a group that ended in the middle of a message.
        for packet in [&first(large, 8), &vec![9; NEXT], &vec![9; 1], &first(small, 8)] {
            it.count(packet, 7);
        }
        assert_eq!(it.taken, 0);
        let own = [first(large, 7), vec![9; NEXT], vec![9; 1], first(small, 7), first(0, 7)];
        own.iter().for_each(|packet| it.count(packet, 7));
        assert_eq!((it.taken, it.rest), (5, 0));
    }
}
