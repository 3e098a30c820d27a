//! What is about devices, and has little meaning on a CPU.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::comm::Communicator;
use crate::deed::rank_called;
use crate::failure::{Failure, Result};
use crate::raw::{Buffer, Handle, Out};
use crate::window::{self, Window};

exports! {
    /// There are no device communicators on a CPU.
    fn ncclDevCommCreate, pncclDevCommCreate(comm: Handle, reqs: Buffer, outDevComm: Buffer) {
        let _ = (reqs, outDevComm);
        not_here(comm, "device communicators are for kernels on a GPU")
    }

    /// There are no device communicators on a CPU.
    fn ncclDevCommDestroy, pncclDevCommDestroy(comm: Handle, devComm: Buffer) {
        let _ = devComm;
        not_here(comm, "device communicators are for kernels on a GPU")
    }

    /// What is asked for are properties of GPUs.
    fn ncclCommQueryProperties, pncclCommQueryProperties(comm: Handle, props: Buffer) {
        let _ = props;
        not_here(comm, "the properties are those of GPUs and of what is between them")
    }

    /// There is no device memory that could be released.
    fn ncclCommSuspend, pncclCommSuspend(comm: Handle, flags: c_int) {
        let _ = flags;
        not_here(comm, "there is no device memory to release")
    }

    /// There is no device memory that could be taken again.
    fn ncclCommResume, pncclCommResume(comm: Handle) {
        not_here(comm, "there is no device memory to take again")
    }

    /// How much device memory a communicator has: none.
    fn ncclCommMemStats, pncclCommMemStats(comm: Handle, stat: c_int, value: Out<u64>) {
        value.check("value")?;
        Communicator::find(comm)?;
        match stat {
            0..=3 => value.set("value", 0),
            other => Err(Failure::argument(format!("stat is {other}, and has to be 0 to 3"))),
        }
    }

    /// Where a rank's part of a window is in this process; `NULL` if it is not reached by a pointer.
    fn ncclGetPeerDevicePointer, pncclGetPeerDevicePointer(
        window: Handle, offset: usize, peer: c_int, outPtr: Out<*mut c_void>,
    ) {
        outPtr.check("outPtr")?;
        let window = window::known(window)?;
        let rank = rank_called("peer", peer, window.sizes.len())?;
        outPtr.set("outPtr", pointer(&window, rank.index(), offset)?)
    }

    /// The same, for one of the ranks that are reached by pointers.
    fn ncclGetLsaDevicePointer, pncclGetLsaDevicePointer(
        window: Handle, offset: usize, lsaRank: c_int, outPtr: Out<*mut c_void>,
    ) {
        outPtr.check("outPtr")?;
        let window = window::known(window)?;
        let group = Communicator::find(Handle::new(window.comm))?.known()?.group;
        let team = near(&group);
        let rank = rank_called("lsaRank", lsaRank, team.nRanks as usize)?;
        let first = group.rank().index() - team.rank as usize;
        outPtr.set("outPtr", pointer(&window, first + rank.index(), offset)?)
    }

    /// There is no memory that writes to several GPUs at once.
    fn ncclGetLsaMultimemDevicePointer, pncclGetLsaMultimemDevicePointer(
        window: Handle, offset: usize, outPtr: Out<*mut c_void>,
    ) {
        let _ = (window, offset, outPtr);
        Err(Failure::usage(MULTIMEM))
    }

    /// There is no memory that writes to several GPUs at once.
    fn ncclGetMultimemDevicePointer, pncclGetMultimemDevicePointer(
        window: Handle, offset: usize, multimem: Handle, outPtr: Out<*mut c_void>,
    ) {
        let _ = (window, offset, multimem, outPtr);
        Err(Failure::usage(MULTIMEM))
    }
}

/// Ranks at equal distances: `ncclTeam_t`.
#[allow(missing_docs, non_snake_case)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Team {
    pub nRanks: c_int,
    pub rank: c_int,
    pub stride: c_int,
}

/// # Errors
/// Always: that there is no such thing, or no such communicator.
fn not_here(comm: Handle, why: &str) -> Result<()> {
    Communicator::find(comm)?;
    Err(Failure::usage(format!("{why}, and this library works on CPU memory")))
}

fn team_of(comm: Handle, make: impl FnOnce(&consort::Group) -> Team) -> Team {
    let group = Communicator::find(comm).and_then(|comm| comm.known()).map(|bond| bond.group);
    group.map_or(Team { nRanks: 0, rank: 0, stride: 0 }, |group| make(&group))
}

fn world(group: &consort::Group) -> Team {
    Team { nRanks: group.world() as c_int, rank: group.rank().get() as c_int, stride: 1 }
}

/// All ranks, or this one alone.
fn near(group: &consort::Group) -> Team {
    if window::is_near(group) { world(group) } else { ALONE }
}

fn rail(group: &consort::Group) -> Team {
    if window::is_near(group) { ALONE } else { world(group) }
}

fn pointer(window: &Window, rank: usize, offset: usize) -> Result<*mut c_void> {
    let found = window.pointer(rank, offset)?;
    Ok(found.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut))
}

/// Exports functions that say something instead of how it went.
macro_rules! teams {
    ($($(#[$meta:meta])* fn $name:ident, $alias:ident($($arg:ident: $type:ty),*) -> $said:ty = $body:expr;)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) -> $said {
            $body
        }

        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $alias($($arg: $type),*) -> $said {
            $body
        }
    )*};
}

teams! {
    /// All ranks; none if there is no such communicator.
    fn ncclTeamWorld, pncclTeamWorld(comm: Handle) -> Team = team_of(comm, world);
    /// The ranks whose memory this one reaches by pointers: all if they are on one host, otherwise itself.
    fn ncclTeamLsa, pncclTeamLsa(comm: Handle) -> Team = team_of(comm, near);
    /// The ranks that are in the same place of their own such team.
    fn ncclTeamRail, pncclTeamRail(comm: Handle) -> Team = team_of(comm, rail);
    /// The number in the world of a rank of a team; -1 if there is none.
    fn ncclTeamRankToWorld, pncclTeamRankToWorld(comm: Handle, team: Team, rank: c_int) -> c_int =
        rank_in(team_of(comm, world), team, rank);
    /// The number of a rank of a team among those that this one reaches by pointers; -1 if it is none of them.
    fn ncclTeamRankToLsa, pncclTeamRankToLsa(comm: Handle, team: Team, rank: c_int) -> c_int =
        rank_in(team_of(comm, near), team, rank);
}

/// The number that a rank of a team has in another one, of neighbours. This rank is in both.
fn rank_in(other: Team, team: Team, rank: c_int) -> c_int {
    let [here, there, stride, mine] = [team.rank, rank, team.stride, other.rank].map(i128::from);
    let number = mine + (there - here) * stride;
    let is_there = (0..team.nRanks).contains(&rank) && (0..other.nRanks.into()).contains(&number);
    if is_there { number as c_int } else { NO_RANK }
}

const NO_RANK: c_int = -1;
const ALONE: Team = Team { nRanks: 1, rank: 0, stride: 1 };
const MULTIMEM: &str =
    "there is no memory that writes to several GPUs at once, as this library works on CPU memory";
