//! All the connections of one exchange, driven by one loop.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::credentials::Credentials;
use super::error::{PassError, Refusal};
use super::frame::Hello;
use super::talk::Talk;
use super::{Door, Offer, Peer, PeerDoor, address_of, size_of, socket};
use crate::life::{Life, Sign};
use crate::root::Root;

pub(super) struct Meeting<'a> {
    door: Door,
    offer: Offer<'a>,
    size: u64,
    user: u32,
    /// Those who have not come yet.
    missing: BTreeMap<u32, Absent<'a>>,
    found: BTreeMap<u32, Peer>,
    talks: Vec<Talk>,
    most_talks: usize,
    turned_away: Vec<String>,
}

struct Absent<'a> {
    door: &'a PeerDoor,
    life: Option<Life>,
    /// When to dial, if we dial.
    dial_at: Option<Instant>,
}

impl<'a> Meeting<'a> {
    pub(super) fn new(
        door: Door,
        offer: Offer<'a>,
        peers: &'a [PeerDoor],
    ) -> Result<Self, PassError> {
        let size = size_of(offer.descriptor).map_err(PassError::Offer)?;
        let now = Instant::now();
        let mut missing = BTreeMap::new();
        for door in peers {
            let dial_at = (door.rank > offer.rank).then_some(now);
            let absent = Absent { door, life: door.process.map(Life::of), dial_at };
            if door.rank == offer.rank || missing.insert(door.rank, absent).is_some() {
                return Err(PassError::ListedTwice(door.rank));
            }
        }
        Ok(Self {
            door,
            offer,
            size,
            user: rustix::process::geteuid().as_raw(),
            most_talks: missing.len() + STRANGERS,
            missing,
            found: BTreeMap::new(),
            talks: Vec::new(),
            turned_away: Vec::new(),
        })
    }

    pub(super) fn hold<E: From<PassError>>(
        mut self,
        until: Instant,
        mut look_round: impl FnMut() -> Result<(), E>,
    ) -> Result<Vec<Peer>, E> {
        let start = Instant::now();
        let mut looked = start;
        loop {
            // Looked for first: what they have said before is heard below.
            let ended = self.ended();
            self.dial()?;
            self.let_in()?;
            self.go_on()?;
            self.let_go_of_the_silent();
            if self.missing.is_empty() {
                return Ok(self.found.into_values().collect());
            }
            if let Some((rank, process)) = ended.filter(|(rank, _)| self.missing.contains_key(rank))
            {
                return Err(PassError::Ended { rank, process }.into());
            }
            if looked.elapsed() >= LOOK {
                look_round()?;
                looked = Instant::now();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let ranks = self.missing.into_keys().collect();
                let turned_away = self.turned_away;
                return Err(
                    PassError::Missing { ranks, waited: start.elapsed(), turned_away }.into()
                );
            }
            self.sleep(left.min(TICK));
        }
    }

    fn dial(&mut self) -> Result<(), PassError> {
        let now = Instant::now();
        for (&rank, absent) in &mut self.missing {
            if absent.dial_at.is_none_or(|at| at > now) {
                continue;
            }
            let closed = |source| PassError::Closed { rank, source };
            let refused = |why| PassError::Refused { rank, why };
            let socket = socket().map_err(|source| PassError::Door { call: "socket", source })?;
            let address = address_of(&absent.door.name).map_err(closed)?;
            absent.dial_at = match rustix::net::connect(&socket, &address) {
                Ok(()) => None,
                // So many dial it at once that it has no place to keep us waiting.
                Err(Errno::AGAIN | Errno::INTR) => Some(now + TICK),
                Err(source) => return Err(closed(source)),
            };
            if absent.dial_at.is_none() {
                let hung_up = |_| refused(Refusal::HungUp(Errno::NOTCONN));
                let who = Credentials::of_peer(socket.as_fd()).map_err(hung_up)?;
                check_user(who, self.user).map_err(refused)?;
                match Talk::begin(socket, who, &self.offer, Some(rank)) {
                    Ok(talk) => self.talks.push(talk),
                    Err(_) => absent.dial_at = Some(now + TICK),
                }
            }
        }
        Ok(())
    }

    fn let_in(&mut self) -> Result<(), PassError> {
        // Not for ever: those who are in must come to speak.
        for _ in 0..STRANGERS {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = match accept_with(&self.door.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => break,
                Err(source) => {
                    // Most likely too many open files. Strangers will be let go, but what ranks have
                    // handed over stays.
                    if !self.talks.iter().any(is_stranger) {
                        return Err(PassError::Door { call: "accept", source });
                    }
                    self.note(format!("nobody can be let in: {source}"));
                    // It stays to be accepted, so the loop would turn at full speed.
                    std::thread::sleep(TICK);
                    break;
                }
            };
            let Ok(who) = Credentials::of_peer(socket.as_fd()) else { continue };
            let begun = check_user(who, self.user)
                .and_then(|()| Talk::begin(socket, who, &self.offer, None));
            match begun {
                Ok(talk) => self.talks.push(talk),
                Err(why) => self.turn_away(who, &why),
            }
            self.make_room();
        }
        Ok(())
    }

    /// When there are too many, the stranger that came first goes.
    fn make_room(&mut self) {
        if self.talks.len() > self.most_talks
            && let Some(first) = self.talks.iter().position(is_stranger)
        {
            let talk = self.talks.remove(first);
            self.turn_away(talk.who, &Refusal::Crowded);
        }
    }

    fn go_on(&mut self) -> Result<(), PassError> {
        for mut talk in std::mem::take(&mut self.talks) {
            let admit = |hello: &Hello, who| admit(hello, who, &self.offer, &self.missing);
            match talk.go_on(&self.offer, self.size, admit) {
                Ok(None) => self.talks.push(talk),
                Ok(Some(rank)) => self.welcome(rank, talk),
                Err(why) => self.part(&talk, why)?,
            }
        }
        Ok(())
    }

    fn welcome(&mut self, rank: u32, talk: Talk) {
        if let Some(peer) = talk.into_gift()
            && self.missing.remove(&rank).is_some()
        {
            self.found.insert(rank, peer);
        }
    }

    /// A stranger is turned away; from a rank that fails it is an error, unless it may dial again
    /// or be dialled again.
    fn part(&mut self, talk: &Talk, why: Refusal) -> Result<(), PassError> {
        let known = talk.dialled.or(talk.proven()).filter(|rank| self.missing.contains_key(rank));
        if let Some(rank) = known.filter(|_| !why.is_passing()) {
            return Err(match why {
                Refusal::NoPlace => PassError::Full(rank),
                why => PassError::Refused { rank, why },
            });
        }
        if let Some(absent) = talk.dialled.and_then(|rank| self.missing.get_mut(&rank)) {
            absent.dial_at = Some(Instant::now() + TICK);
        }
        self.turn_away(talk.who, &why);
        Ok(())
    }

    fn let_go_of_the_silent(&mut self) {
        let silent = |talk: &mut Talk| is_stranger(talk) && talk.began.elapsed() > SILENCE;
        let gone: Vec<_> = self.talks.extract_if(.., silent).collect();
        for talk in gone {
            self.turn_away(talk.who, &Refusal::Silent(SILENCE));
        }
    }

    /// A rank that will not come any more, and its process.
    fn ended(&self) -> Option<(u32, u32)> {
        self.missing.iter().find_map(|(&rank, absent)| {
            let ended = absent.life.as_ref().is_some_and(|life| life.sign() == Sign::Ended);
            absent.door.process.filter(|_| ended).map(|process| (rank, process))
        })
    }

    fn sleep(&self, limit: Duration) {
        let mut polled = vec![PollFd::new(&self.door.listener, PollFlags::IN)];
        polled.extend(self.talks.iter().map(|talk| PollFd::new(talk, PollFlags::IN)));
        let limit = Timespec::try_from(limit).ok();
        // Whatever ended it, everything is looked at again.
        let _ = poll(&mut polled, limit.as_ref());
    }

    fn turn_away(&mut self, who: Credentials, why: &Refusal) {
        let Credentials { process, user } = who;
        let command = Root(Path::new("/")).text(format!("proc/{process}/comm"));
        let command = command.map(|name| format!(" ({name})")).unwrap_or_default();
        self.note(format!("process {process}{command} of user {user}: {why}"));
    }

    /// Says it once.
    fn note(&mut self, text: String) {
        if self.turned_away.len() < NOTES && !self.turned_away.contains(&text) {
            tracing::warn!(rank = self.offer.rank, "turned away at the door: {text}");
            self.turned_away.push(text);
        }
    }
}

fn is_stranger(talk: &Talk) -> bool {
    talk.dialled.is_none() && talk.proven().is_none()
}

pub(super) fn check_user(who: Credentials, ours: u32) -> Result<(), Refusal> {
    if who.user == ours { Ok(()) } else { Err(Refusal::User { found: who.user, ours }) }
}

/// Whether this is one of those who are to come, and the process that was announced.
fn admit(
    hello: &Hello,
    who: Credentials,
    offer: &Offer<'_>,
    missing: &BTreeMap<u32, Absent<'_>>,
) -> Result<(), Refusal> {
    let absent = missing.get(&hello.from).filter(|_| hello.to == offer.rank);
    let Some(absent) = absent else {
        return Err(Refusal::Unexpected { from: hello.from, to: hello.to });
    };
    match absent.door.process {
        Some(announced) if who.process != 0 && who.process != announced => {
            Err(Refusal::Process { found: who.process, announced })
        }
        _ => Ok(()),
    }
}

/// How long to wait before looking at what sends no event.
const TICK: Duration = Duration::from_millis(20);
/// How often to look round whether it makes sense to wait any longer.
const LOOK: Duration = Duration::from_millis(100);
/// How long someone who was let in may take to prove itself.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
/// How many may be in beyond the ranks that are expected.
pub(super) const STRANGERS: usize = 64;
/// How many of those turned away are remembered.
const NOTES: usize = 16;
