//! All TCP connections of this process, for all its groups.
//!
//! Two processes are connected when one of them first needs it, by one connection or several; groups
//! share them. No thread serves them: whoever waits for something moves what comes. A frame for a
//! call that is being made goes straight to where it belongs. One that nobody asks for stays where it
//! is, in the connection, until somebody waits for something behind it; then it is kept at its group's
//! *station*. How much that can be is bounded: a process sends no more of a group's bytes than the
//! other has used up, and a window.
//!
//! ```text
//!  call ──▶ send ───────▶ stream ═══════▶ stream ──▶ receive ──▶ call
//!                         stream ═══════▶ stream ──▶ station       (not asked for yet)
//! ```
//!
//! Only at the door stands a thread ([porter]), so that others can connect whatever this process does.
//!
//! One lock guards it all, and is held for as long as a system call takes. Who has nothing to move
//! [dozes](Switch::doze) on all sockets at once, and is rung for when another thread has moved something
//! of its group.

mod caller;
mod door;
mod ending;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod joining;
mod knock;
mod letters;
mod meet;
mod mourning;
mod parts;
mod peer;
mod pipe;
mod porter;
mod rest;
mod signal;
mod sorting;
mod station;
mod stream;
mod tuning;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use consort_store::Secret;
use consort_sys::view::{Source, Target};

use self::door::Door;
pub(crate) use self::ending::{Ended, Ending};
pub(crate) use self::frame::{Header, Kind};
pub(crate) use self::letters::Letter;
pub(crate) use self::meet::{Site, meet};
pub(crate) use self::parts::checksum_of_all;
use self::peer::{Peer, word};
use self::porter::Porter;
use self::signal::Signal;
use self::station::Station;
use self::stream::{Broken, Kept, Stream};
use self::tuning::Tuning;
use crate::exec::{Label, Moved};

/// The wire. What is on its way when it is dropped still arrives.
///
/// Who is part of the job owns it; all others have its [`Switch`] only. A thread that has yet to find out that a
/// group was left does not keep the wire open then, nor does it have to close it: it may end with the process.
#[derive(Debug)]
pub(crate) struct Wire {
    switch: Arc<Switch>,
    porter: Porter,
}

impl Deref for Wire {
    type Target = Arc<Switch>;

    fn deref(&self) -> &Arc<Switch> {
        &self.switch
    }
}

/// What moves frames.
#[derive(Debug)]
pub(crate) struct Switch {
    me: u32,
    epoch: u64,
    /// How many cores this host has, as all of its ranks believe.
    cores: usize,
    secret: Secret,
    /// After so much silence a host is gone.
    liveness: Duration,
    /// Whether data are sealed.
    encrypt: bool,
    /// Whether data carry checksums.
    integrity: bool,
    signal: Signal,
    hub: Mutex<Hub>,
}

/// What is behind the lock.
#[derive(Debug)]
struct Hub {
    /// By rank in the world.
    peers: Vec<Peer>,
    stations: BTreeMap<u64, Station>,
    door: Door,
    /// Groups that this process has left, the last ones: nothing is kept for them.
    left: VecDeque<u64>,
    /// Ranks of the world that are dead, in the order in which this process has heard of it.
    mourned: Vec<u32>,
    /// How many connections two processes have.
    tuning: Tuning,
    /// How many threads doze.
    dozing: usize,
    /// How often somebody has begun to look at what has come.
    glance: u64,
}

/// Why a call cannot go on.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A rank of the world makes another call.
    Differs { from: u32, header: Header },
    /// What it sends of the call is not as long as is expected.
    Length { from: u32, header: Header, expected: usize },
    /// What came from it cannot be, or is not what was sent.
    Damaged { from: u32, what: String },
}

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) group: u64,
    pub(crate) number: u64,
    pub(crate) digest: u64,
    pub(crate) label: Label,
}

impl Switch {
    /// How many calls of a group a rank can tell of: more than it can be ahead of another by.
    pub(crate) const ASKS: usize = 128;

    /// This process's rank in the world.
    pub(crate) fn me(&self) -> u32 {
        self.me
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many cores this host has, as all of its ranks believe.
    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    /// Begins to look at what has come. Until the next time, a connection that is found empty is
    /// believed to be.
    pub(crate) fn glance(&self) {
        self.lock().glance += 1;
    }

    /// Goes on with a frame to a rank, of whose data `done` bytes are out.
    pub(crate) fn send(
        &self,
        to: u32,
        header: &Header,
        parts: &[Source<'_>],
        done: &mut usize,
    ) -> Result<Moved, Trouble> {
        let mut hub = self.lock();
        self.connect(&mut hub, to);
        let Hub { peers, tuning, .. } = &mut *hub;
        let peer = &mut peers[to as usize];
        if let Some(what) = peer.damage.clone() {
            return Err(Trouble::Damaged { from: to, what });
        }
        if peer.streams.is_empty() {
            return Ok(Moved::Nothing);
        }
        // A frame that was begun goes on where it was, however many connections there are meanwhile.
        let begun = peer.streams.iter().position(|stream| stream.is_sending(header));
        let at = begun.unwrap_or_else(|| {
            usize::from(header.label.track) % peer.streams.len().min(tuning.streams())
        });
        match send_on(peer, at, header, parts, done) {
            Ok(moved) => Ok(moved),
            Err(Broken::Gone(_)) => {
                // What it has sent before is read first, and then the end.
                peer.streams[at].fall_silent();
                Ok(Moved::Nothing)
            }
            Err(broken) => self.break_off(&mut hub, to, at, broken),
        }
    }

    /// Goes on with a frame from a rank, of whose data `done` bytes are in these parts.
    pub(crate) fn receive(
        &self,
        from: u32,
        wanted: &Wanted,
        parts: &[Target<'_>],
        done: &mut usize,
    ) -> Result<Moved, Trouble> {
        let mut hub = self.lock();
        if let Some(kept) = hub.take_kept(from, wanted)? {
            return self.unpack(&mut hub, from, kept, parts, done);
        }
        self.connect(&mut hub, from);
        let expected = parts::total(parts);
        for at in 0..hub.peers[from as usize].streams.len() {
            let Some(header) = self.front(&mut hub, from, at, wanted.group)? else { continue };
            wanted.compare(from, &header)?;
            if header.number != wanted.number || header.label != wanted.label {
                self.tell_news(&mut hub, from, at);
                continue;
            }
            if header.bytes as usize != expected {
                return Err(Trouble::Length { from, header, expected });
            }
            let Some(stream) = hub.peers[from as usize].streams.get_mut(at) else { break };
            if stream.keeps() {
                self.keep(&mut hub, from, at)?;
                return match hub.take_kept(from, wanted)? {
                    Some(kept) => self.unpack(&mut hub, from, kept, parts, done),
                    None => Ok(Moved::Nothing),
                };
            }
            return match stream.take(parts, done) {
                Ok(moved) => {
                    if moved == Moved::Whole {
                        let concerns_others = stream.concerns_others();
                        hub.peers[from as usize].use_up(&header);
                        if concerns_others {
                            self.ring_if_dozing(&hub);
                        }
                    }
                    Ok(moved)
                }
                Err(broken) => self.break_off(&mut hub, from, at, broken),
            };
        }
        match hub.peers[from as usize].damage.clone() {
            Some(what) => Err(Trouble::Damaged { from, what }),
            None => Ok(Moved::Nothing),
        }
    }

    /// Whether there is room for the beginning of a message to a rank.
    pub(crate) fn has_room(&self, to: u32, group: u64) -> bool {
        let mut hub = self.lock();
        self.connect(&mut hub, to);
        let peer = &mut hub.peers[to as usize];
        let may_send = peer.may_send(&Header {
            bytes: frame::LETTER as u32,
            ..word(Kind::Letter, group, self.epoch, 0)
        });
        let first = peer.streams.first_mut();
        may_send && first.is_some_and(|stream| matches!(stream.is_free(), Ok(true)))
    }

    /// A call of a group waits for these frames, and none of them has come: what stands before them is
    /// put away. Whether there was something.
    pub(crate) fn make_way(
        &self,
        group: u64,
        number: u64,
        asked: &[(u32, Label)],
    ) -> Result<bool, Trouble> {
        let mut hub = self.lock();
        let mut moved = false;
        for &(from, label) in asked {
            for at in 0..hub.peers[from as usize].streams.len() {
                if label == Label::NONE {
                    // It waits for room, which the rank may have told of.
                    self.front(&mut hub, from, at, group)?;
                }
                let stream = hub.peers[from as usize].streams.get(at);
                let front = stream.and_then(Stream::front);
                if front.is_some_and(|it| it.number != number || !asked.contains(&(from, it.label)))
                {
                    moved |= self.keep(&mut hub, from, at)?;
                }
            }
        }
        let station = hub.stations.entry(group).or_default();
        station.awaited.clear();
        station.awaited.extend(asked.iter().map(|(from, _)| from));
        station.awaits_on = Some(thread::current().id());
        Ok(moved)
    }

    /// A group's call waits for nobody any more.
    pub(crate) fn await_nobody(&self, group: u64) {
        if let Some(station) = self.lock().stations.get_mut(&group) {
            station.awaited.clear();
        }
    }

    /// Takes notice of how long a call took that sent so many bytes.
    pub(crate) fn note(&self, bytes: usize, took: Duration) {
        self.lock().tuning.note(bytes, took);
    }

    /// Tells ranks of the world that a call waits for them: they may be making another.
    pub(crate) fn ask(&self, header: &Header, ranks: impl Iterator<Item = u32>) {
        let mut hub = self.lock();
        for rank in ranks {
            hub.peers[rank as usize].say(header, &[]);
        }
    }

    /// Tells these ranks of the world that this process waits in a group, in the end for one of them.
    pub(crate) fn say_whom(&self, group: u64, ranks: &[u32], awaited: u32) {
        let header = word(Kind::Await, group, self.epoch, u64::from(awaited));
        self.lock().peers_of(ranks, self.me).for_each(|peer| peer.say(&header, &[]));
    }

    /// For which rank of the world one waits in a group, as it has said lately and since a moment.
    pub(crate) fn whom(&self, group: u64, rank: u32, since: Instant) -> Option<u32> {
        let hub = self.lock();
        let (awaited, said) = hub.stations.get(&group)?.awaits.get(&rank)?;
        let awaited = u32::try_from(*awaited).ok()?;
        (*said >= since && said.elapsed() < LATELY).then_some(awaited)
    }

    /// Who has told of which call of a group, up to a number of calls. What is told once is not told
    /// again.
    pub(crate) fn asks(&self, group: u64, number: u64) -> Vec<(u32, Header)> {
        let mut hub = self.lock();
        let Some(station) = hub.stations.get_mut(&group) else { return Vec::new() };
        let is_known = |(_, header): &mut (u32, Header)| header.number <= number;
        station.asks.extract_if(.., is_known).collect()
    }

    /// Keeps all that has come from a rank: no call is going to take it.
    pub(crate) fn clear(&self, rank: u32) {
        let mut hub = self.lock();
        for at in 0..hub.peers[rank as usize].streams.len() {
            while let Some(stream) = hub.peers[rank as usize].streams.get_mut(at)
                && matches!(stream.look(), Ok(Some(_)))
                && matches!(self.keep(&mut hub, rank, at), Ok(true))
            {}
        }
    }

    /// Looks whether what has come from these ranks belongs to the calls of a group that were made, for
    /// one who waits for nobody.
    pub(crate) fn peek(&self, wanted: &Wanted, ranks: &[u32]) -> Result<(), Trouble> {
        let mut hub = self.lock();
        for &from in ranks {
            for at in 0..hub.peers[from as usize].streams.len() {
                if let Some(header) = self.front(&mut hub, from, at, wanted.group)? {
                    wanted.compare(from, &header)?;
                }
            }
        }
        Ok(())
    }

    /// Enters a group of these ranks of the world. Gives what tells whether it has ended.
    pub(crate) fn enter(&self, group: u64, ranks: &[u32]) -> Arc<Ended> {
        let mut hub = self.lock();
        let station = hub.stations.entry(group).or_default();
        station.ranks = ranks.into();
        station.ended.clone()
    }

    /// Leaves a group of these ranks of the world: says so to them, and forgets what came. If the group
    /// has ended it says that first: they would take its leaving for the reason.
    pub(crate) fn leave(&self, group: u64, ranks: &[u32]) {
        let mut hub = self.lock();
        let ending = hub.stations.get(&group).and_then(|station| station.ended.get().cloned());
        for peer in hub.peers_of(ranks, self.me) {
            peer.forget(group);
            if let Some(ending) = &ending {
                peer.say(&ending.word(group, self.epoch), &ending.verdict);
            }
            peer.say_farewell(group, self.epoch);
        }
        hub.stations.remove(&group);
        hub.left.push_back(group);
        if hub.left.len() > REMEMBERED {
            hub.left.pop_front();
        }
    }

    /// Tells these ranks of the world that a group has ended, and has this process know it.
    pub(crate) fn halt(&self, group: u64, ranks: &[u32], ending: Ending) {
        let mut hub = self.lock();
        if hub.left.contains(&group) {
            return;
        }
        let header = ending.word(group, self.epoch);
        for peer in hub.peers_of(ranks, self.me) {
            peer.streams.iter_mut().for_each(|stream| stream.abandon(group));
            peer.say(&header, &ending.verdict);
        }
        let station = hub.stations.entry(group).or_default();
        station.ended.hear(ending);
        self.ring_if_dozing(&hub);
    }

    /// Whether there is a connection to a rank of the world.
    pub(crate) fn is_connected(&self, rank: u32) -> bool {
        !self.lock().peers[rank as usize].streams.is_empty()
    }

    /// Whether a rank of the world cannot be heard any more, or not even its host.
    pub(crate) fn is_lost(&self, rank: u32) -> bool {
        let mut hub = self.lock();
        let peer = &mut hub.peers[rank as usize];
        if let Some(silence) = peer.silence(self.liveness) {
            peer.lose_host(silence);
        }
        let is_lost = peer.is_lost();
        if is_lost {
            self.mourn_with(&mut hub, rank);
        }
        is_lost
    }

    /// Whether nothing is heard of the host of a rank of the world that is lost.
    pub(crate) fn is_out_of_reach(&self, rank: u32) -> bool {
        self.lock().peers[rank as usize].is_out_of_reach()
    }

    /// Whether a rank of the world has left a group.
    pub(crate) fn has_left(&self, group: u64, rank: u32) -> bool {
        self.lock().peers[rank as usize].has_left(group)
    }

    /// Whether a rank of the world has said on any connection that it has left a group.
    pub(crate) fn is_leaving(&self, group: u64, rank: u32) -> bool {
        self.lock().peers[rank as usize].is_leaving(group)
    }

    fn lock(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    fn peers_of(&mut self, ranks: &[u32], me: u32) -> impl Iterator<Item = &mut Peer> {
        let mut is_meant = vec![false; self.peers.len()];
        ranks.iter().filter(|&&rank| rank != me).for_each(|&rank| is_meant[rank as usize] = true);
        self.peers.iter_mut().zip(is_meant).filter_map(|(peer, is_meant)| is_meant.then_some(peer))
    }

    fn has_ended(&self, group: u64) -> bool {
        self.stations.get(&group).is_some_and(Station::has_ended)
    }

    /// A frame that was kept for a call.
    fn take_kept(&mut self, from: u32, wanted: &Wanted) -> Result<Option<Kept>, Trouble> {
        let Wanted { group, number, digest, label } = *wanted;
        let Some(station) = self.stations.get_mut(&group) else { return Ok(None) };
        if let Some((from, header)) = station.stranger(number, digest) {
            return Err(Trouble::Differs { from, header });
        }
        Ok(station.parts.remove(&(number, from, label.track, label.position)))
    }
}

/// Goes on with a frame on one connection to a rank.
fn send_on(
    peer: &mut Peer,
    at: usize,
    header: &Header,
    parts: &[Source<'_>],
    done: &mut usize,
) -> Result<Moved, Broken> {
    let may_send = peer.may_send(header);
    let stream = &mut peer.streams[at];
    if stream.is_sending(header) {
        return stream.send(header, parts, done);
    }
    if !stream.is_free()? || !may_send {
        return Ok(Moved::Nothing);
    }
    let moved = stream.send(header, parts, done);
    peer.has_sent(header);
    moved
}

impl Wanted {
    /// Whether a rank makes the same calls.
    fn compare(&self, from: u32, header: &Header) -> Result<(), Trouble> {
        let differs = header.number < self.number
            || (header.number == self.number && header.digest != self.digest);
        if differs { Err(Trouble::Differs { from, header: *header }) } else { Ok(()) }
    }
}

impl Drop for Wire {
    /// What was sent has to arrive: a connection that is closed while the other side sends is cut off,
    /// and with it what is on its way.
    fn drop(&mut self) {
        self.porter.leave();
        let mut hub = self.lock();
        hub.peers.iter_mut().for_each(|peer| peer.say_bye(self.epoch));
        let mut streams: Vec<Stream> =
            hub.peers.iter_mut().flat_map(|peer| std::mem::take(&mut peer.streams)).collect();
        drop(hub);
        let until = Instant::now() + LINGER;
        loop {
            streams.retain_mut(|stream| stream.close().is_ok_and(|left| left > 0));
            if streams.is_empty() || Instant::now() > until {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Who waits says so several times meanwhile.
const LATELY: Duration = Duration::from_secs(1);
/// So many groups that were left are remembered.
const REMEMBERED: usize = 256;
/// How long a process that leaves waits for what it sent to arrive.
const LINGER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
