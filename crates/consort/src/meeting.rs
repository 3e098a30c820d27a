//! The meeting itself: find the store, show cards, compare them.

mod attendance;
mod carrier;
mod claim;
mod lobby;
mod lost;
mod processors;
mod timely;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_store::PROTOCOL_VERSION;
use consort_store::{
    Deadline, Dial, Error as StoreError, FileStore, MemStore, Place, PrefixStore, Secret, Server,
    Store, TcpStore,
};
use consort_sys::host::HostId;
use consort_sys::net::{Choice, choose};
use consort_sys::origin::Own;

use self::attendance::Attendance;
use self::carrier::{begin_mpi, carrier};
use self::claim::{place_of, take_place};
pub(crate) use self::lobby::{Lobby, Ticket, Welcome};
use self::lost::Lost;
pub(crate) use self::processors::Processors;
use self::processors::cores;
use self::timely::Timely;
use crate::backend::check_equipment;
use crate::builder::{Invitation, Listening};
use crate::card::Card;
use crate::duration;
use crate::error::{Error, Result};
use crate::group::{Group, Job, Member, Rank};
use crate::home::{Home, HomeStore};
use crate::neighbourhood::{Neighbourhood, Round, Settled, set_apart};
use crate::options::{Engine, Transport};
use crate::recorder::Recorder;
use crate::verdict::{self, LAST_LOOK, Verdict, name_absent};
use crate::wire::{self, Site};

/// Waits until the ranks of a job that runs take this process in, and meets them.
pub(crate) fn join(invitation: &Invitation) -> Result<Group> {
    let until = Deadline::after(invitation.timeout);
    let Venue { store, .. } = open(invitation, until)?;
    let Welcome { rank, world, growth } = Rooms::new(invitation, store).lobby.enter(until)?;
    let group = hold(&Invitation { rank, world, growth, ..invitation.clone() }, Vec::new())?;
    // Those who were there before may have thought better of it.
    group.barrier()?;
    Ok(group)
}

/// The parts of the store for a process that is invited.
struct Rooms {
    /// Of those who are invited with it.
    meeting: PrefixStore,
    /// Of those who want to join the round.
    lobby: Lobby,
    /// The program's own, the same for all who ever are in the round.
    program: PrefixStore,
}

impl Rooms {
    fn new(invitation: &Invitation, store: Arc<dyn Store>) -> Self {
        let Invitation { job, epoch, growth, .. } = invitation;
        let round = format!("{job}/{epoch}");
        let gathering = match growth {
            0 => round.clone(),
            growth => format!("{round}+{growth}"),
        };
        let room =
            |place: &str, name| PrefixStore::new(name, PrefixStore::new(place, store.clone()));
        Self {
            meeting: room(&gathering, "meeting"),
            lobby: Lobby::new(Arc::new(room(&round, "lobby"))),
            program: room(&round, "program"),
        }
    }
}

/// Meets the other ranks as the invitation says. `exits` are from meetings that this one follows.
pub(crate) fn hold(invitation: &Invitation, exits: Vec<Arc<Own<Exit>>>) -> Result<Group> {
    let until = Deadline::after(invitation.timeout);
    let Venue { store, remote, peer } = open(invitation, until)?;
    let choice = choose(peer.or_else(|| leader(invitation)), invitation.interface.as_deref())?;
    let Choice { interface, address, reason, .. } = &choice;
    let using = format_args!("using {interface} ({address}): {reason}");
    invitation.debug.say(invitation.rank, using);

    let Rooms { program, .. } = Rooms::new(invitation, store.clone());
    let timely = remote.as_ref().map(|remote| {
        let place = remote.hasty.place();
        Arc::new(Timely::new(store.clone(), place, until))
    });
    let here: Arc<dyn Store> = match &timely {
        Some(timely) => timely.clone(),
        None => store.clone(),
    };
    let Rooms { meeting, .. } = Rooms::new(invitation, here);
    let mut attendance = Attendance::sign(&meeting, invitation.rank, invitation.world)?;
    take_place(&meeting, invitation)?;
    let hasty = remote.as_ref().map_or(store, |remote| Arc::new(remote.hasty.clone()));
    let Rooms { meeting: registry, lobby, .. } = Rooms::new(invitation, hasty);
    // From here on even a failed meeting is left in order.
    let exit = remote.zip(timely).map(|(Remote { server, .. }, meeting)| {
        let (hasty, world) = (registry.clone(), i64::from(invitation.world));
        Arc::new(Own::new(Exit { hasty, world, server, meeting }))
    });
    let cards = exchange(invitation, &meeting, &mut attendance, choice.address, until)?;
    // All want it, and are here: they begin it together.
    let mpi = begin_mpi(invitation, &meeting, &cards, until)?;
    let cores = cores(&cards, invitation.rank);
    let mut members: Vec<Member> =
        (0..).zip(cards).map(|(rank, card)| member(rank, card)).collect();
    set_apart(&meeting, invitation.rank, &mut members, until)?;
    let wired = needs_wire(invitation, &members)?;
    let carrier = carrier(invitation, mpi.as_ref(), &members)?;
    must_be_reachable(invitation, &members)?;
    let Settled { neighbourhood, places, hatches } =
        Neighbourhood::settle(&meeting, invitation.rank, &members, wired, until)?;
    let wire = match wired {
        true => {
            let site = site(invitation, &members, peer, cores);
            let round = Round::new(&meeting, invitation.rank, &members, until);
            let wire = wire::meet(&site, hatches, &meeting, &round);
            Some(wire.map_err(|error| match error {
                // They find that out by themselves.
                Error::Missing { .. } | Error::Store(_) => error,
                other => round.give_up(other),
            })?)
        }
        false => None,
    };
    let home = Home::of(invitation.rank);
    let recorder = Recorder::begin(invitation);
    neighbourhood.show_record(&recorder);
    let job = Job {
        name: invitation.job.clone(),
        epoch: invitation.epoch,
        home,
        store: Arc::new(HomeStore::new(home, Arc::new(program))),
        registry: Arc::new(HomeStore::new(home, Arc::new(registry))),
        options: invitation.options.clone(),
        warn_after: invitation.warn_after,
        recorder: Own::new(recorder),
        neighbourhood: Some(Own::new(neighbourhood)),
        ledger: None,
        wire: wire.map(Own::new),
        mpi,
        lobby: Some((lobby, invitation.clone())),
        exits: exits.into_iter().chain(exit).collect(),
    };
    let group = name_of(invitation);
    let (rank, timeout) = (invitation.rank, invitation.timeout);
    let group = Group::of_all(group, rank, members, places, job, timeout, carrier)?;
    if invitation.options.engine == Engine::Nccl {
        check_equipment(&group)?;
    }
    Ok(group)
}

/// Whether there are ranks that are reached over TCP.
///
/// # Errors
/// When that is not to be.
fn needs_wire(invitation: &Invitation, members: &[Member]) -> Result<bool> {
    let is_on_one_host = members.iter().all(|member| member.host == members[0].host);
    match invitation.options.transport {
        Transport::Tcp => Ok(members.len() > 1),
        Transport::Shm if !is_on_one_host => {
            let what = "the ranks are on several hosts, and transport shm is for one".to_owned();
            Err(Error::Argument(what))
        }
        _ => Ok(!is_on_one_host),
    }
}

/// Somebody whom the others can reach, if the meeting place does not say.
fn leader(invitation: &Invitation) -> Option<SocketAddr> {
    match (&invitation.place, &invitation.leader) {
        (Some(Place::File(_)), Some((host, port))) => {
            (host.as_str(), *port).to_socket_addrs().ok()?.next()
        }
        _ => None,
    }
}

/// A meeting in a file tells nothing of networks.
///
/// # Errors
/// When this rank could be reached on its own host only, and others are elsewhere.
fn must_be_reachable(invitation: &Invitation, members: &[Member]) -> Result<()> {
    let Member { rank, host, address, .. } = &members[invitation.rank as usize];
    let is_file = matches!(invitation.place, Some(Place::File(_)));
    let stranger = members.iter().find(|member| member.host != *host);
    match stranger {
        Some(other) if is_file && address.is_loopback() && invitation.interface.is_none() => {
            Err(Error::Argument(format!(
                "rank {} on {} cannot reach rank {rank} on {host} at {address}, and the meeting in a \
                 file does not say where hosts are: set CONSORT_INTERFACE to the interface that \
                 leads to the others",
                other.rank, other.host
            )))
        }
        _ => Ok(()),
    }
}

/// Where this rank listens.
fn site<'a>(
    invitation: &'a Invitation,
    members: &[Member],
    peer: Option<SocketAddr>,
    cores: usize,
) -> Site<'a> {
    let Invitation { rank: me, epoch, options, .. } = invitation;
    let Member { address, .. } = members[*me as usize];
    // Where the store is it has the port.
    let known = peer.filter(|peer| peer.ip() != address && !peer.ip().is_loopback());
    let port = known.map(|peer| peer.port());
    let mut first_on = HashMap::new();
    let firsts = members.iter().map(|it| *first_on.entry(&it.host).or_insert(it.rank.get()));
    let (firsts, liveness) = (firsts.collect(), invitation.liveness);
    Site { me: *me, firsts, epoch: *epoch, address, port, cores, liveness, options }
}

/// How a rank leaves its group, if the store is in some process.
#[derive(Debug)]
pub(crate) struct Exit {
    hasty: PrefixStore,
    world: i64,
    /// Rank 0's, if no launcher holds the store: the store ends with this process.
    server: Option<Server>,
    /// As it was when the ranks met.
    meeting: Arc<Timely<Arc<dyn Store>>>,
}

impl Drop for Exit {
    /// Whoever holds the store leaves last, so that the others' last words can still be heard;
    /// but it does not wait long for those who may have died. Where the ranks have not met because the
    /// store did not answer, nobody waits for it once more.
    fn drop(&mut self) {
        if self.meeting.is_lost() {
            return;
        }
        let until = Deadline::after(LINGER);
        let Ok(mut left) = self.hasty.add(LEFT, 1) else { return };
        while self.server.is_some() && left < self.world {
            match self.hasty.get_changed(LEFT, left.to_string().as_bytes(), until) {
                Ok(_) => left = self.hasty.add(LEFT, 0).unwrap_or(self.world),
                Err(_) => return,
            }
        }
    }
}

/// Where the meeting takes place.
struct Venue {
    store: Arc<dyn Store>,
    /// If the store is in some process.
    remote: Option<Remote>,
    /// Somebody who must be reachable, if one is known.
    peer: Option<SocketAddr>,
}

struct Remote {
    /// The same connection for one who is about to leave: that process may be stopped or gone.
    hasty: TcpStore,
    /// If it is this process.
    server: Option<Server>,
}

fn open(invitation: &Invitation, until: Deadline) -> Result<Venue> {
    let Invitation { rank, timeout, .. } = *invitation;
    let local = |store: Arc<dyn Store>| Venue { store, remote: None, peer: None };
    match (&invitation.place, &invitation.secret) {
        (None, _) => Ok(local(Arc::new(MemStore::new()))),
        (Some(Place::File(path)), _) => Ok(local(Arc::new(FileStore::open_with(path, timeout)?))),
        (Some(place @ Place::Tcp { host, port }), Some(secret)) => {
            let endpoint = place.endpoint().expect("a server has an endpoint");
            let bears = invitation.liveness;
            let server = if rank == 0 { serve(invitation, host, *port, secret)? } else { None };
            let dial = Dial::new(endpoint, secret).named(format!("rank {rank}")).bearing(bears);
            let store = TcpStore::dial(dial, until)?.with_patience(timeout);
            let hasty = store.clone().with_patience(HASTE);
            let peer = Some(store.peer_address());
            Ok(Venue { store: Arc::new(store), remote: Some(Remote { hasty, server }), peer })
        }
        (Some(Place::Tcp { .. }), None) => unreachable!("an invitation over TCP has a secret"),
    }
}

/// Rank 0 holds the store unless somebody does already: the launcher, then.
fn serve(
    invitation: &Invitation,
    host: &str,
    port: u16,
    secret: &Secret,
) -> Result<Option<Server>> {
    let bears = invitation.liveness;
    let addresses = (host, port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    if let Some(listener) = invitation.listener.as_ref().and_then(Listening::take) {
        must_be_at(&listener, &addresses, (host, port))?;
        return Ok(Some(Server::bearing(bears, listener, secret)?));
    }
    for address in addresses {
        let listening = Server::listen(address);
        match listening.and_then(|listener| Server::bearing(bears, listener, secret)) {
            Ok(server) => return Ok(Some(server)),
            Err(StoreError::Listen { source, .. }) if is_elsewhere(&source) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(None)
}

/// Ranks that go where they were told have to come to this socket.
///
/// # Errors
/// When they would not.
fn must_be_at(
    listener: &TcpListener,
    addresses: &[SocketAddr],
    (host, port): (&str, u16),
) -> Result<()> {
    let here = listener.local_addr().map_err(|error| Error::Port(error.into()))?;
    match Listening::is_reached_at(here, addresses) {
        true => Ok(()),
        false => Err(Error::Argument(format!(
            "Builder::listener listens at {here}, but the ranks are to meet at {host}:{port}, which does \
             not lead there: give the address that the listener has"
        ))),
    }
}

/// The port is somebody's already, or the address another host's.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// The name of the group of all.
fn name_of(invitation: &Invitation) -> String {
    match invitation.growth {
        0 => "world".to_owned(),
        growth => format!("world+{growth}"),
    }
}

/// Shows this rank's card and hears the verdict, with everyone's cards if they agree.
///
/// Rank 0 judges for all: it takes the cards as they come, so that ranks which were set up
/// differently find out at once instead of waiting for ranks that may not exist.
fn exchange(
    invitation: &Invitation,
    meeting: &dyn Store,
    attendance: &mut Attendance<'_>,
    address: IpAddr,
    until: Deadline,
) -> Result<Vec<Card>> {
    let Invitation { rank, world, .. } = *invitation;
    let started = Instant::now();
    let mine = Card {
        same: must_be_the_same(invitation),
        host: HostId::here().map_err(|error| Error::Host(error.into()))?,
        address,
        process: std::process::id(),
        processors: Processors::here(),
    };
    verdict::show(meeting, rank, &mine)?;
    let verdict = match rank {
        0 => give_verdict(world, meeting, attendance, until)?,
        _ => hear_verdict(world, meeting, attendance, until)?,
    };
    match verdict {
        Verdict::Agreed(cards) => match misfit(&cards, rank, world, &mine) {
            None => Ok(cards),
            Some(differences) => Err(Error::Differs { rank, differences }),
        },
        Verdict::Differs(differences) => Err(Error::Differs { rank, differences }),
        Verdict::Missing(missing) => {
            Err(Error::Missing { rank, world, waited: started.elapsed(), missing })
        }
        Verdict::Ended { rank, process, host, by } => {
            let when = ("the meeting", started.elapsed());
            Err(Lost { rank, process, host, by }.error(invitation, when))
        }
    }
}

fn give_verdict(
    world: u32,
    meeting: &dyn Store,
    attendance: &mut Attendance<'_>,
    until: Deadline,
) -> Result<Verdict> {
    let attendance = RefCell::new(attendance);
    let slice = || attendance.borrow().slice();
    let look_round = || attendance.borrow_mut().look_round();
    let verdict = verdict::judge(world, meeting, until, slice, look_round)?;
    attendance.into_inner().settle(verdict)
}

/// Everyone else's part. Rank 0's word comes a little after the deadline if ranks are missing; if
/// it does not come at all, rank 0 is one of them, or has died since it came.
fn hear_verdict(
    world: u32,
    meeting: &dyn Store,
    attendance: &mut Attendance<'_>,
    until: Deadline,
) -> Result<Verdict> {
    let later = until.instant().map_or(Deadline::never(), |at| Deadline::at(at + LAST_LOOK));
    if let Some(verdict) = attendance.await_verdict(later)? {
        return Ok(verdict);
    }
    let came: HashSet<String> = meeting.list_keys()?.into_iter().collect();
    let absent = (0..world).filter(|rank| !came.contains(&place_of(*rank)));
    let silent = "rank 0 came but gave no verdict, so it has probably died";
    let missing = name_absent(absent).unwrap_or_else(|| silent.to_owned());
    // The others would take this one for dead, which is about to end.
    attendance.settle(Verdict::Missing(missing))
}

/// Why this rank has no place among those who agreed without it, if so: rank 0 cannot know of
/// ranks beyond its own world that come after its verdict.
fn misfit(cards: &[Card], rank: u32, world: u32, mine: &Card) -> Option<String> {
    if cards.len() != world as usize {
        return Some(format!("  world: {} on rank 0, {world} on rank {rank}", cards.len()));
    }
    (cards.get(rank as usize) != Some(mine)).then(|| {
        format!(
            "  card: rank 0 took another process for rank {rank}; does this store still hold an \
             earlier job?"
        )
    })
}

fn must_be_the_same(invitation: &Invitation) -> BTreeMap<String, String> {
    let rows = [
        ("consort version", env!("CARGO_PKG_VERSION").to_owned()),
        ("protocol version", PROTOCOL_VERSION.to_string()),
        ("features", FEATURES.join(" ")),
        ("world", invitation.world.to_string()),
        ("timeout", duration::write(invitation.timeout)),
        ("liveness", duration::write(invitation.liveness)),
    ];
    let rows = rows.into_iter().chain(invitation.options.must_be_the_same());
    rows.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn member(rank: u32, Card { host, address, process, .. }: Card) -> Member {
    Member { rank: Rank(rank), host, address, process }
}

/// What this build can do that another might not.
const FEATURES: [&str; 1] = ["meeting"];
const LEFT: &str = "left";
const VERDICT: &str = "verdict";
/// How long a rank that leaves may take for it, whatever the store does.
const LINGER: Duration = Duration::from_secs(2);
/// How long it waits for one answer meanwhile.
const HASTE: Duration = Duration::from_secs(1);
