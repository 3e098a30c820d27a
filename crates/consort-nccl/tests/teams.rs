//! Ranks at equal distances, and what they are called elsewhere.

mod support;

use std::ffi::c_int;

use consort_nccl::Team;
use consort_nccl::api::communicators::*;
use consort_nccl::api::device::*;
use consort_nccl::raw::Handle;
use consort_testkit::Ranks;

use support::*;

#[test]
fn ranks_of_a_team_are_found_in_the_world_and_among_those_nearby() {
    let comms = all_here(4);
    // The odd ones, of which this is the second.
    let (comm, odd) = (comms[3], Team { nRanks: 2, rank: 1, stride: 2 });
    for find in [ncclTeamRankToWorld, ncclTeamRankToLsa] {
        assert_eq!([-1, 0, 1, 2].map(|rank| find(comm, odd, rank)), [-1, 1, 3, -1]);
        let world = ncclTeamWorld(comm);
        assert_eq!([0, 1, 2, 3].map(|rank| find(comm, world, rank)), [0, 1, 2, 3]);
        assert_eq!(find(Handle::NULL, odd, 0), -1, "there is no such communicator");
        let absurd = Team { nRanks: c_int::MAX, rank: c_int::MIN, stride: c_int::MAX };
        assert_eq!(find(comm, absurd, c_int::MAX - 1), -1);
    }
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn a_rank_that_reaches_nobody_is_alone_nearby() {
    let job = Ranks::new(2).env("NCCL_P2P_DISABLE", "1");
    job.start(|ctx| {
        let (comm, me) = (meet(ctx), ctx.rank() as c_int);
        let world = ncclTeamWorld(comm);
        assert_eq!(ncclTeamRankToLsa(comm, world, me), 0);
        assert_eq!(ncclTeamRankToLsa(comm, world, 1 - me), -1);
        assert_eq!(ncclTeamRankToWorld(comm, ncclTeamLsa(comm), 0), me);
        ok(ncclCommDestroy(comm));
    })
    .expect_all();
}
