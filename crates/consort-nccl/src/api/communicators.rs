//! Communicators.

use std::ffi::c_int;
use std::sync::Arc;
use std::thread;

use crate::batch;
use crate::birth::{Birth, bring};
use crate::comm::{Bond, Communicator, REVOKED};
use crate::config::Settings;
use crate::failure::{Failure, Result};
use crate::gathering::Gathering;
use crate::id::Invitation;
use crate::membership;
use crate::raw::{Grown, Handle, In, Out};
use crate::{Config, Status, UniqueId};

exports! {
    /// Meets the other ranks of an id.
    fn ncclCommInitRank, pncclCommInitRank(
        comm: Out<Handle>, nranks: c_int, commId: UniqueId, rank: c_int,
    ) {
        batch::checked(|| {
            none_yet(&comm, "comm")?;
            init_rank(&comm, nranks, &[commId], rank, None)
        })
    }

    /// As [`ncclCommInitRank`], with a configuration, which may be `NULL`.
    fn ncclCommInitRankConfig, pncclCommInitRankConfig(
        comm: Out<Handle>, nranks: c_int, commId: UniqueId, rank: c_int, config: Grown<Config>,
    ) {
        batch::checked(|| {
            none_yet(&comm, "comm")?;
            init_rank(&comm, nranks, &[commId], rank, Some(&config))
        })
    }

    /// As [`ncclCommInitRankConfig`], with several ids, which have to be the same on all ranks. They meet by the
    /// first.
    fn ncclCommInitRankScalable, pncclCommInitRankScalable(
        newcomm: Out<Handle>, nranks: c_int, myrank: c_int, nId: c_int, commIds: In<UniqueId>, config: Grown<Config>,
    ) {
        batch::checked(|| {
            none_yet(&newcomm, "newcomm")?;
            let count = at_least("nId", nId, 1)?;
            if nId > nranks {
                let what = format!("nId is {nId}, which is more than nranks, {nranks}");
                return Err(Failure::argument(what));
            }
            let ids = commIds.list("commIds", count as usize)?;
            init_rank(&newcomm, nranks, &ids, myrank, Some(&config))
        })
    }

    /// As many ranks as there are devices, all in this process. The list of devices may be `NULL`.
    fn ncclCommInitAll, pncclCommInitAll(comm: Out<Handle>, ndev: c_int, devlist: In<c_int>) {
        batch::checked(|| init_all(&comm, ndev, &devlist))
    }

    /// Takes no more calls, and waits for those that were made; in the background, if the communicator does not
    /// block and there is a thread for it.
    fn ncclCommFinalize, pncclCommFinalize(comm: Handle) {
        let comm = Communicator::find(comm)?;
        comm.begin_to_finalize()?;
        if comm.settings.blocking {
            return comm.finalize();
        }
        let finalized = comm.clone();
        let body = move || {
            // The communicator knows.
            let _ = finalized.finalize();
        };
        match thread::Builder::new().name("consort-finalize".to_owned()).spawn(body) {
            Ok(_) => Err(Failure::in_progress()),
            // If nobody did it, it would be in progress for ever.
            Err(_) => comm.finalize(),
        }
    }

    /// Waits for its calls and lets go of it. `NULL` is nothing to let go of. One that is asked for in a group of calls
    /// that has not ended cannot be waited for, and stays.
    fn ncclCommDestroy, pncclCommDestroy(comm: Handle) {
        if comm.is_null() {
            return Ok(());
        }
        let Some(comm) = Communicator::take_issued(comm)? else {
            return Ok(());
        };
        comm.leave();
        Ok(())
    }

    /// Ends it for all ranks, from whichever thread: what is on its way fails, here and elsewhere. When it returns
    /// its memory is the program's again: what was at it is over, which is all that it waits for, and what has not
    /// begun never does. `NULL` is nothing to end.
    fn ncclCommAbort, pncclCommAbort(comm: Handle) {
        if comm.is_null() {
            return Ok(());
        }
        let Some(comm) = Communicator::take(comm)? else {
            return Ok(());
        };
        comm.abort();
        // To leave may take a while, for which nobody who aborts wants to wait.
        let leaving = comm.clone();
        let spawned = thread::Builder::new().name("consort-abort".to_owned()).spawn(move || leaving.leave());
        if spawned.is_err() {
            // If nobody did it, its windows would stay for ever.
            comm.leave();
        }
        Ok(())
    }

    /// Ends what is on its way, for all ranks, and keeps the communicator for `ncclCommShrink`, `ncclCommSplit`
    /// and `ncclCommDestroy`. Unlike an abort it does not wait until calls are over: they may use the program's
    /// memory until they have returned, or their stream was synchronized.
    fn ncclCommRevoke, pncclCommRevoke(comm: Handle, revokeFlags: c_int) {
        if revokeFlags != 0 {
            return Err(Failure::argument(format!("revokeFlags is {revokeFlags}, and has to be 0")));
        }
        Communicator::find(comm)?.revoke()
    }

    /// Parts a communicator: those of one colour become a new one, in the order of their keys. With
    /// `NCCL_SPLIT_NOCOLOR` a rank is in none, and gets `NULL`. Every rank has to call it.
    fn ncclCommSplit, pncclCommSplit(
        comm: Handle, color: c_int, key: c_int, newcomm: Out<Handle>, config: Grown<Config>,
    ) {
        batch::checked(|| {
            none_yet(&newcomm, "newcomm")?;
            split(comm, color, key, &newcomm, &config)
        })
    }

    /// A new communicator without some ranks, which do not call it. With `NCCL_SHRINK_ABORT` what is on its way is
    /// ended first, and ranks that are gone are left out, too.
    fn ncclCommShrink, pncclCommShrink(
        comm: Handle, excludeRanksList: In<c_int>, excludeRanksCount: c_int, newcomm: Out<Handle>,
        config: Grown<Config>, shrinkFlags: c_int,
    ) {
        batch::checked(|| {
            none_yet(&newcomm, "newcomm")?;
            let excluded = (&excludeRanksList, excludeRanksCount);
            shrink(comm, excluded, &newcomm, &config, shrinkFlags)
        })
    }

    /// An id for ranks that a communicator is to have more: see [`ncclCommGrow`]. It is used once.
    fn ncclCommGetUniqueId, pncclCommGetUniqueId(comm: Handle, uniqueId: Out<UniqueId>) {
        uniqueId.check("uniqueId")?;
        Communicator::find(comm)?.bond()?;
        uniqueId.set("uniqueId", membership::invite()?)
    }

    /// A new communicator of all ranks of one and others. Ranks that are in `comm` keep their numbers, and give
    /// -1; the one that has the id gives it, and others may give it or `NULL`. New ones give `NULL` for `comm`,
    /// the id, and their rank.
    fn ncclCommGrow, pncclCommGrow(
        comm: Handle, nRanks: c_int, uniqueId: In<UniqueId>, rank: c_int, newcomm: Out<Handle>,
        config: Grown<Config>,
    ) {
        batch::checked(|| {
            none_yet(&newcomm, "newcomm")?;
            if !comm.is_null() {
                return grow(comm, nRanks, &uniqueId, rank, &newcomm, &config);
            }
            let id = uniqueId.get("uniqueId")?;
            init_rank(&newcomm, nRanks, &[id], rank, Some(&config))
        })
    }

    /// Whether something went wrong, or is still going on.
    fn ncclCommGetAsyncError, pncclCommGetAsyncError(comm: Handle, asyncError: Out<Status>) {
        asyncError.check("asyncError")?;
        let condition = Communicator::find(comm)?.condition();
        asyncError.set("asyncError", condition.status)
    }

    /// How many ranks it has.
    fn ncclCommCount, pncclCommCount(comm: Handle, count: Out<c_int>) {
        count.set("count", Communicator::find(comm)?.known()?.group.world() as c_int)
    }

    /// The device that this rank is said to run on: as in the list of `ncclCommInitAll`, or its number among those
    /// on its host.
    fn ncclCommCuDevice, pncclCommCuDevice(comm: Handle, device: Out<c_int>) {
        device.set("device", Communicator::find(comm)?.device()?)
    }

    /// This rank's number.
    fn ncclCommUserRank, pncclCommUserRank(comm: Handle, rank: Out<c_int>) {
        rank.set("rank", Communicator::find(comm)?.known()?.group.rank().get() as c_int)
    }
}

/// C has no communicator until there is one, whatever stood in its place before: so this comes before all that
/// could be wrong with a call.
fn none_yet(out: &Out<Handle>, name: &str) -> Result<()> {
    out.set(name, Handle::NULL)
}

/// How many ranks there are to be, at least so many.
///
/// # Errors
/// When there are less; or so many that it would take long to find out that they do not come.
fn world(name: &str, count: c_int, least: c_int) -> Result<u32> {
    let world = at_least(name, count, least)?;
    if count > MOST {
        let what = format!("{name} is {count}, and a communicator has {MOST} ranks at most");
        return Err(Failure::argument(what));
    }
    Ok(world)
}

fn init_rank(
    out: &Out<Handle>,
    nranks: c_int,
    ids: &[UniqueId],
    rank: c_int,
    config: Option<&Grown<Config>>,
) -> Result<()> {
    let default = Settings::default();
    let settings = match config {
        Some(config) => Settings::read(config, &default)?,
        None => default,
    };
    let world = world("nranks", nranks, 1)?;
    let rank = below("rank", rank, world)?;
    ids.iter().try_for_each(|id| Invitation::read(id).map(drop))?;
    let id = ids[0];
    let comm = Communicator::asked_for(settings, None);
    bring(out, "comm", Birth::new(comm, move || membership::meet(&id, rank, world)))
}

fn init_all(out: &Out<Handle>, ndev: c_int, devlist: &In<c_int>) -> Result<()> {
    out.check("comm")?;
    let world = at_least("ndev", ndev, 1)?;
    if ndev > MOST_HERE {
        let what = format!("ndev is {ndev}, and a process has no more than {MOST_HERE} ranks here");
        return Err(Failure::argument(what));
    }
    (0..world as usize).try_for_each(|rank| none_yet(&out.nth(rank), "comm"))?;
    let devices = match devlist.is_null() {
        true => (0..ndev).collect(),
        false => devlist.list("devlist", world as usize)?,
    };
    for (at, device) in devices.iter().enumerate() {
        at_least("a device of devlist", *device, 0)?;
        if devices[..at].contains(device) {
            return Err(Failure::usage(format!("devlist has device {device} twice")));
        }
    }
    let gathering = Arc::new(Gathering::of(world)?);
    let comms: Vec<_> = devices
        .into_iter()
        .map(|device| Communicator::asked_for(Settings::default(), Some(device)))
        .collect();
    batch::start();
    let begun = (0..world).zip(&comms).try_for_each(|(rank, comm)| {
        let gathering = gathering.clone();
        let birth = Birth::new(comm.clone(), move || gathering.meet(rank));
        bring(&out.nth(rank as usize), "comm", birth)
    });
    let result = batch::end().and(begun).map_err(|failure| gathering.cause().unwrap_or(failure));
    if result.is_err() {
        for (rank, comm) in comms.iter().enumerate() {
            comm.forget();
            out.nth(rank).set("comm", Handle::NULL)?;
        }
    }
    result
}

fn split(
    comm: Handle,
    color: c_int,
    key: c_int,
    out: &Out<Handle>,
    config: &Grown<Config>,
) -> Result<()> {
    let parent = Communicator::find(comm)?;
    parent.kinship()?;
    let settings = Settings::read(config, &parent.settings)?;
    let colour = match color {
        NO_COLOUR => None,
        other => Some(at_least("color", other, 0)?),
    };
    let child = colour.map(|_| Communicator::asked_for(settings.clone(), None));
    let of = parent.clone();
    let make = move || {
        let bond = whole(&of)?;
        let part = bond.group.split(colour, i64::from(key));
        let part = part.map_err(|error| why_childless(error, &bond, &of))?;
        Ok(part.map(|group| bond.membership.bond(group)))
    };
    bring(out, "newcomm", Birth::of(parent, child, &settings, make))
}

/// A communicator's bond. One that was revoked has another group from here on, of all ranks that are left.
fn whole(comm: &Communicator) -> Result<Bond> {
    let (bond, was_revoked) = comm.kinship_at_work()?;
    if !was_revoked || bond.group.error().is_none() {
        return Ok(bond);
    }
    let before = bond.group.world();
    let group = bond.group.shrink()?;
    let after = group.world();
    let bond = bond.membership.bond(group);
    comm.succeed(bond.clone());
    match before == after {
        true => Ok(bond),
        false => Err(Failure {
            status: Status::REMOTE_ERROR,
            text: format!("only {after} of {before} ranks are left: use ncclCommShrink"),
        }),
    }
}

fn shrink(
    comm: Handle,
    (excluded, count): (&In<c_int>, c_int),
    out: &Out<Handle>,
    config: &Grown<Config>,
    flags: c_int,
) -> Result<()> {
    let parent = Communicator::find(comm)?;
    let bond = parent.kinship()?;
    let settings = Settings::read(config, &parent.settings)?;
    if flags != SHRINK_DEFAULT && flags != SHRINK_ABORT {
        return Err(Failure::argument(format!("shrinkFlags is {flags}, and has to be 0 or 1")));
    }
    let (me, world) = (bond.group.rank().get(), bond.group.world() as u32);
    let count = below("excludeRanksCount", count, world)?;
    let mut without = Vec::new();
    for rank in excluded.list("excludeRanksList", count as usize)? {
        let rank = below("a rank of excludeRanksList", rank, world)?;
        if rank == me {
            return Err(Failure::argument(format!(
                "excludeRanksList has this rank, {me}: a rank that is left out does not call this"
            )));
        }
        if without.contains(&rank) {
            return Err(Failure::argument(format!("excludeRanksList has rank {rank} twice")));
        }
        without.push(rank);
    }
    if flags == SHRINK_ABORT {
        bond.group.abort("ncclCommShrink with NCCL_SHRINK_ABORT");
    }
    let child = Communicator::asked_for(settings.clone(), None);
    let of = parent.clone();
    let make = move || {
        let (bond, was_revoked) = of.kinship_at_work()?;
        let group = match flags == SHRINK_ABORT || was_revoked {
            true => bond.group.shrink_without(&without)?,
            false => rest(&bond, &of, &without)?,
        };
        Ok(Some(bond.membership.bond(group)))
    };
    bring(out, "newcomm", Birth::of(parent, Some(child), &settings, make))
}

/// The ranks of a communicator that goes on, without some of them.
fn rest(bond: &Bond, comm: &Communicator, without: &[u32]) -> Result<consort::Group> {
    if let Some(error) = bond.group.error() {
        return Err(why_childless(error, bond, comm));
    }
    let all = 0..bond.group.world() as u32;
    let (without, ranks): (Vec<u32>, Vec<u32>) = all.partition(|rank| without.contains(rank));
    // Just those who are left call this, so that all of them have as often left out the same.
    let count = comm.count_shrink(&without);
    let without: Vec<String> = without.iter().map(u32::to_string).collect();
    let name = format!("without-{}-{count}", without.join("+"));
    bond.group.among(&name, &ranks).map_err(|error| why_childless(error, bond, comm))
}

/// Why nothing comes of a communicator; and what to do, if it has failed.
fn why_childless(error: consort::Error, bond: &Bond, comm: &Communicator) -> Failure {
    if bond.group.error().is_none() {
        return error.into();
    }
    let name = comm.name();
    let advice = match &error {
        consort::Error::Aborted { reason, .. } if reason == REVOKED => format!(
            "{name} was revoked by another rank: call ncclCommRevoke on this one, too, before ncclCommSplit, or \
             ncclCommShrink with shrinkFlags 0"
        ),
        _ => format!("{name} has failed, so that it can be shrunk with NCCL_SHRINK_ABORT only"),
    };
    let failure = Failure::from(error);
    Failure { text: format!("{advice}: {}", failure.text), ..failure }
}

fn grow(
    comm: Handle,
    nranks: c_int,
    id: &In<UniqueId>,
    rank: c_int,
    out: &Out<Handle>,
    config: &Grown<Config>,
) -> Result<()> {
    let parent = Communicator::find(comm)?;
    let bond = parent.bond()?;
    let settings = Settings::read(config, &parent.settings)?;
    if rank != -1 {
        return Err(Failure::argument(format!(
            "rank is {rank}, and has to be -1 for a rank of comm, which keeps its number"
        )));
    }
    let world = world("nRanks", nranks, bond.group.world() as c_int + 1)?;
    let id = if id.is_null() { None } else { Some(id.get("uniqueId")?) };
    id.iter().try_for_each(|id| Invitation::read(id).map(drop))?;
    let child = Communicator::asked_for(settings.clone(), None);
    let make = move || {
        let id = agree_on(&bond, id)?;
        membership::meet(&id, bond.group.rank().get(), world).map(Some)
    };
    bring(out, "newcomm", Birth::of(parent, Some(child), &settings, make))
}

/// The id that the first rank has which has one.
fn agree_on(bond: &Bond, id: Option<UniqueId>) -> Result<UniqueId> {
    let mine = id.map_or([0; 128], |id| id.internal.map(|byte| byte as u8));
    let mut all = vec![0_u8; mine.len() * bond.group.world()];
    bond.group.all_gather(&mine, &mut all)?;
    let ids = all.chunks_exact(mine.len());
    let found = ids.into_iter().find(|id| id.iter().any(|&byte| byte != 0));
    let found = found.and_then(|id| <[u8; 128]>::try_from(id).ok()).ok_or_else(|| {
        Failure::argument(
            "uniqueId is NULL on all ranks of comm: the one that asked for it has to give it",
        )
    })?;
    Ok(UniqueId { internal: found.map(|byte| byte as std::ffi::c_char) })
}

/// A number that may not be less.
fn at_least(name: &str, number: c_int, least: c_int) -> Result<u32> {
    match u32::try_from(number) {
        Ok(value) if number >= least => Ok(value),
        _ => Err(Failure::argument(format!("{name} is {number}, and has to be at least {least}"))),
    }
}

/// A number from 0 on that has to be less.
fn below(name: &str, number: c_int, end: u32) -> Result<u32> {
    match u32::try_from(number) {
        Ok(value) if value < end => Ok(value),
        _ => Err(Failure::argument(format!("{name} is {number}, and has to be 0 to {}", end - 1))),
    }
}

const NO_COLOUR: c_int = -1;
/// More than anybody has, and few enough to ask who is missing.
const MOST: c_int = 1 << 17;
/// Each rank has threads.
const MOST_HERE: c_int = 1024;
const SHRINK_DEFAULT: c_int = 0;
const SHRINK_ABORT: c_int = 1;
