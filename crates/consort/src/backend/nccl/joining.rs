//! How the ranks of a group come to have a communicator.

use std::fmt::Display;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use consort_store::Deadline;
use consort_sys::origin::Own;

use super::context::{Failed, on_device};
use super::watch::LAST_BREATH;
use super::{Inner, Nccl, Office, Order, give_up, why_give_up};
use crate::device::{Device, Driver, Stream};
use crate::engine::{Cause, Lookout, Waiting};
use crate::engines;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::nccl::{self, Bootstrap, Code, Comm, Config, Library, UniqueId, watched};

impl Nccl {
    /// For the calls of a group on these devices, of which this rank has one. All ranks call it.
    ///
    /// # Errors
    /// On every rank, if one of them has no NCCL, or no such device, or cannot reach the others over it: it is
    /// named with the reason. What has ended the group, if it has meanwhile.
    pub(crate) fn join(group: &Group, number: u16) -> Result<Self> {
        let lookout = group.lookout().ok_or(Error::Fake)?;
        let joined = group.beside(NAME, MAKING).and_then(|control| {
            let _heard = group.ends_with_it(&control);
            join_in(group, lookout, control, number)
        });
        joined.map_err(|error| in_the_group(group, lookout, MAKING, error))
    }
}

/// Whether every rank of a group has NCCL and a device. Which device it takes is known by its first call only.
///
/// # Errors
/// On every rank, if one of them has not: it is named with the reason. When a rank does not come to tell.
pub(crate) fn check_equipment(group: &Group) -> Result<()> {
    let lookout = group.lookout().ok_or(Error::Fake)?;
    // The program's own calls are counted from the first on.
    let checked = group.beside(CHECK, ASKING).and_then(|control| {
        let _heard = group.ends_with_it(&control);
        let missing = engines::nccl().err().map(|unusable| unusable.to_string());
        report(&control, PURPOSE, missing.as_ref())
    });
    checked.map_err(|error| in_the_group(group, lookout, ASKING, error))
}

/// What has kept ranks from coming together, as what has ended their group if it has. They have the same numbers
/// there.
#[cold]
pub(super) fn in_the_group(group: &Group, lookout: &Lookout, call: &str, error: Error) -> Error {
    // Another rank may have given up because of what this one is about to hear.
    let is_told_soon = matches!(error, Error::PeerUnable { .. });
    let began = Instant::now();
    let mut known = group.error();
    while known.is_none() && is_told_soon && began.elapsed() < LAST_BREATH {
        thread::sleep(Duration::from_millis(1));
        known = group.error();
    }
    match (known, error) {
        (Some(known), _) => known,
        // Who was looked at a moment ago is not looked at again by those who only ask.
        (None, Error::PeerLost { rank, waited, .. }) => {
            let waiting = Waiting { call: call.to_owned(), number: 0, waited };
            lookout.decide(Cause::Dead { rank, waiting })
        }
        (None, Error::PeerUnable { rank, call, reason, .. }) => {
            Error::PeerUnable { group: group.name().to_owned(), rank, call, reason }
        }
        (None, error) => error,
    }
}

/// Joins the ranks that agree in this group on what they do for the other, of which so much is known.
fn join_in(group: &Group, lookout: &Lookout, control: Group, number: u16) -> Result<Nccl> {
    let mine = Equipment::of_this_rank(number);
    report(&control, PURPOSE, mine.as_ref().err())?;
    let Equipment { library, device, stream } = mine.map_err(Error::Argument)?;
    let stream = Arc::new(stream);
    let until = Deadline::after(control.timeout());
    let comm = meet(&control, lookout, library, &device, until);
    let undo = |comm| give_up(&device, [&comm]);
    let comm = Some(agreed((&control, until), "a communicator of NCCL", comm, undo)?);
    let (me, world) = (group.rank().index(), group.world());
    let lookout = group.recorded_aside(lookout, control.name());
    // A rank that does not come to agree keeps all waiting whose calls come later.
    let order = control.lookout().map(|it| Order::keeping(it.deadlines().clone()));
    let order = order.ok_or(Error::Fake)?;
    let (sides, keepers) = Default::default();
    let inner = Inner { me, world, lookout, control, device, stream, comm, order, sides, keepers };
    let (worker, requests) = Default::default();
    Ok(Nccl(Own::new(Office { inner: Arc::new(Own::new(inner)), worker, requests })))
}

/// What a rank needs.
struct Equipment {
    library: Library,
    device: Device,
    stream: Stream,
}

impl Equipment {
    fn of_this_rank(number: u16) -> Result<Self, String> {
        let library = Library::find_whole().map_err(|error| error.to_string())?;
        let device = Driver::load().and_then(|driver| driver.device(number));
        let device = device.map_err(|error| error.to_string())?;
        let stream = device.stream().map_err(|error| error.to_string())?;
        Ok(Self { library, device, stream })
    }
}

/// Rank 0 makes an id, and all come to it.
pub(super) fn meet(
    control: &Group,
    lookout: &Lookout,
    library: Library,
    device: &Device,
    until: Deadline,
) -> Result<Arc<Comm>, Lack> {
    let (me, world) = (control.rank().get(), control.world() as u32);
    let made = (me == 0).then(|| on_device(device, || Bootstrap::new(library)));
    // All zero: there is none, and rank 0 says why.
    let mut bytes = [0_u8; UniqueId::LEN];
    if let Some(Ok(bootstrap)) = &made {
        bytes = *bootstrap.id().as_bytes();
    }
    control.broadcast(&mut bytes, 0).map_err(Lack::of)?;
    if let Some(Err(error)) = made {
        return Err(Lack::of(error));
    }
    if bytes == [0; UniqueId::LEN] {
        await_word(control);
        return Err(Lack::Own("rank 0 has no id to meet by".to_owned()));
    }
    let id = UniqueId::from_bytes(&bytes).map_err(Lack::of)?;
    // What a call has is kept by whoever watches it; but a thread may wait for another's.
    let config = Config::new().timeout(control.timeout().max(PATIENCE));
    let init = || Comm::init_rank_with(library, world, &id, me, &config);
    let comm = watched_with(control, lookout, until, || on_device(device, init));
    comm.map(Arc::new).map_err(|error| Lack::in_time(&error, until))
}

/// Lets another rank be the first to say why all have to give up, of whom it is known that it is about to.
#[cold]
fn await_word(control: &Group) {
    let began = Instant::now();
    while control.error().is_none() && began.elapsed() < GRACE {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Why a rank has not made its part of something.
#[derive(Debug)]
pub(super) enum Lack {
    /// It cannot.
    Own(String),
    /// NCCL says that another rank cannot, which may be about to say so itself.
    Others(String),
    /// NCCL has not come back in time, which may be any rank's fault.
    Time(String),
}

impl Lack {
    pub(super) fn of(error: impl Display) -> Self {
        Self::Own(error.to_string())
    }

    /// What NCCL says of something that was to be done until then.
    pub(super) fn in_time(error: &Failed, until: Deadline) -> Self {
        use nccl::Error::{Deadline, GivenUp};
        let Failed::Nccl(of_nccl) = error else { return Self::of(error) };
        match (of_nccl, of_nccl.code()) {
            (GivenUp { .. } | Deadline { .. }, _) if until.has_passed() => {
                Self::Time(error.to_string())
            }
            // Its own clock may be a moment ahead.
            (_, Some(Code::TIMEOUT)) => Self::Time(error.to_string()),
            (_, Some(Code::REMOTE_ERROR)) => Self::Others(error.to_string()),
            _ => Self::of(error),
        }
    }
}

/// Lets NCCL wait for the ranks of a group, who do the same, for as long as none of them is
/// [unable](agreed) to.
pub(super) fn watched_with<T>(
    control: &Group,
    lookout: &Lookout,
    until: Deadline,
    call: impl FnOnce() -> T,
) -> T {
    let (control, lookout, until) = (control.clone(), lookout.clone(), until.into());
    let ask = move || {
        let heard = control.error().map(|error| error.to_string());
        heard.or_else(|| why_give_up(&lookout, &until))
    };
    watched(ask, call)
}

/// What this rank has made, if all ranks of a group have made theirs until then. If one cannot, the others hear of it at
/// once, wherever they wait for it; what they have made is undone, and the group has ended.
///
/// # Errors
/// On every rank, when one has failed. When the time is up: who has not come then, even so far as to say so.
pub(super) fn agreed<T>(
    (control, until): (&Group, Deadline),
    call: &'static str,
    made: Result<T, Lack>,
    undo: impl FnOnce(T),
) -> Result<T> {
    let agreed = match made {
        Ok(made) => all_in_time((control, until), call, Ok(made), undo),
        Err(Lack::Time(reason)) => all_in_time((control, until), call, Err(reason), undo),
        Err(Lack::Own(reason)) => Err(give_word(control, reason)),
        Err(Lack::Others(reason)) => {
            await_word(control);
            Err(give_word(control, reason))
        }
    };
    agreed.map_err(|error| match error {
        Error::Aborted { group, by, reason } => Error::PeerUnable { group, rank: by, call, reason },
        other => other,
    })
}

/// Tells the others why all have to give up.
#[cold]
fn give_word(control: &Group, reason: String) -> Error {
    control.abort(&reason);
    // Another may have been first.
    control.error().unwrap_or(Error::Argument(reason))
}

/// What this rank has made in time, or why it has not, if all have made theirs in time.
///
/// # Errors
/// When one has not: it is named if it does not even say so.
fn all_in_time<T>(
    (control, until): (&Group, Deadline),
    call: &'static str,
    made: Result<T, String>,
    undo: impl FnOnce(T),
) -> Result<T> {
    let left = until.remaining().unwrap_or(Duration::MAX).max(GRACE);
    let mut all = vec![false; control.world()];
    let told = control.within(left).all_gather(&[made.is_ok()], &mut all);
    let late = all.iter().position(|is_done| !is_done);
    let there = "NCCL has not come back there in time, though all ranks have come";
    let reason = match made {
        Ok(made) if told.is_ok() && late.is_none() => return Ok(made),
        Ok(made) => {
            undo(made);
            there.to_owned()
        }
        Err(why) => format!("{there}: {why}"),
    };
    told?;
    let rank = late.map_or(control.rank().get(), |rank| rank as u32);
    Err(Error::PeerUnable { group: control.name().to_owned(), rank, call, reason })
}

/// Tells the others what this rank lacks, if it does, and hears what they lack.
///
/// # Errors
/// When a rank lacks something.
fn report(control: &Group, call: &'static str, lack: Option<&String>) -> Result<()> {
    let mut mine = [0_u8; TEXT];
    if let Some(text) = lack {
        mine[0] = 1;
        let cut = text.floor_char_boundary(TEXT - 2);
        mine[1..=cut].copy_from_slice(&text.as_bytes()[..cut]);
    }
    let mut all = vec![0_u8; TEXT * control.world()];
    control.all_gather(&mine, &mut all)?;
    let mut texts = all.chunks_exact(TEXT).enumerate();
    let Some((rank, text)) = texts.find(|(_, text)| text[0] != 0) else { return Ok(()) };
    let text = &text[1..];
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let reason = String::from_utf8_lossy(&text[..end]).into_owned();
    Err(Error::PeerUnable { group: control.name().to_owned(), rank: rank as u32, call, reason })
}

/// What the ranks call themselves when they agree on calls. A program does not use such names.
const NAME: &str = "(devices)";
/// And when they tell each other at the beginning what they have.
const CHECK: &str = "(equipment)";
/// What they are in then.
const ASKING: &str = "asking each rank for NCCL";
/// What they need it for.
const PURPOSE: &str = "calls on memory of devices";
/// What ranks are in meanwhile.
const MAKING: &str = "the first call on devices";
/// How long NCCL may take for anything at least: the first call's time may be short, and others' long.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long ranks whose time is up wait for each other to say so.
const GRACE: Duration = Duration::from_secs(2);
/// How many bytes a reason may have.
const TEXT: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::Failure;

    /// What is made of an answer of NCCL's, a minute before the time is up and after it.
    fn lacks(error: &nccl::Error) -> [Lack; 2] {
        [Deadline::after(Duration::from_secs(60)), Deadline::now()]
            .map(|until| Lack::in_time(&Failed::Nccl(error.clone()), until))
    }

    #[test]
    fn only_what_is_this_ranks_own_fault_is_told_as_such() {
        let failed = |code| {
            let (text, last) = Default::default();
            let failure = Failure { function: "ncclCommInitRank", code, text, last, rank: None };
            lacks(&nccl::Error::Failed(Box::new(failure)))
        };
        assert!(matches!(failed(Code::TIMEOUT), [Lack::Time(_), Lack::Time(_)]));
        assert!(matches!(failed(Code::REMOTE_ERROR), [Lack::Others(_), Lack::Others(_)]));
        assert!(matches!(failed(Code::SYSTEM_ERROR), [Lack::Own(_), Lack::Own(_)]));
        let reason = "the time is up".to_owned();
        let given_up = nccl::Error::GivenUp { function: "ncclCommInitRank", rank: 0, reason };
        assert!(matches!(lacks(&given_up), [Lack::Own(_), Lack::Time(_)]));
    }
}
