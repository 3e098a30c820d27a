//! Groups of calls that end in thought only.

mod support;

use consort_nccl::Status;
use consort_nccl::api::communicators::*;
use consort_nccl::api::groups::*;
use consort_nccl::raw::{Grown, Handle};

use support::*;

#[test]
fn a_communicator_of_a_simulated_group_has_failed_and_can_be_destroyed() {
    let mut comm = Handle::NULL;
    ok(ncclGroupStart());
    ok(ncclCommInitRank(out(&mut comm), 1, unique_id(), 0));
    fails(simulate(), Status::INVALID_USAGE, "only simulated");
    assert_eq!(condition(comm), Status::INVALID_USAGE);
    assert!(last_error_of(comm).contains("only simulated"), "{}", last_error_of(comm));
    ok(ncclCommDestroy(comm));
}

#[test]
fn all_communicators_of_a_simulated_group_have_failed_as_its_call_did() {
    let whole = all_here(1)[0];
    let [mut new, mut part] = [Handle::NULL; 2];
    ok(ncclGroupStart());
    ok(ncclCommInitRank(out(&mut new), 1, unique_id(), 0));
    ok(ncclCommSplit(whole, 0, 0, out(&mut part), no_config()));
    let status = all_reduce(&[1.0_f32], &mut [0.0], 77, whole, NOW);
    fails(status, Status::INVALID_ARGUMENT, "op is 77");
    fails(simulate(), Status::INVALID_ARGUMENT, "op is 77");
    for comm in [new, part] {
        assert_eq!(condition(comm), Status::INVALID_ARGUMENT);
        ok(ncclCommDestroy(comm));
    }
    counts_all(whole);
    ok(ncclCommDestroy(whole));
}

/// Ends a group of calls, and asks for no estimate.
fn simulate() -> Status {
    // SAFETY: null leads nowhere.
    ncclGroupSimulateEnd(unsafe { Grown::from_raw(std::ptr::null_mut()) })
}
