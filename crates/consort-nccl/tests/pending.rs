//! Communicators that are asked for in a group of calls that has not ended.

mod support;

use std::thread;

use consort_nccl::Status;
use consort_nccl::api::communicators::*;
use consort_nccl::api::groups::*;
use consort_nccl::raw::Handle;
use consort_testkit::ranks;

use support::*;

#[test]
fn one_is_not_waited_for_before_its_group_ends_and_is_there_then() {
    ranks(1, |_| {
        let [mut alone, mut others] = [Handle::NULL, Handle::NULL];
        ok(ncclGroupStart());
        ok(ncclCommInitRank(out(&mut alone), 1, unique_id(), 0));
        ok(ncclCommInitAll(out(&mut others), 1, nothing()));
        for comm in [alone, others] {
            refuses_to_end(comm);
            thread::scope(|scope| scope.spawn(|| refuses_to_end(comm)).join()).unwrap();
            assert_eq!(condition(comm), Status::IN_PROGRESS);
        }
        ok(ncclGroupEnd());
        for comm in [alone, others] {
            counts_all(comm);
            ok(ncclCommFinalize(comm));
            ok(ncclCommDestroy(comm));
        }
    });
}

#[track_caller]
fn refuses_to_end(comm: Handle) {
    for end in [ncclCommDestroy, ncclCommFinalize] {
        fails(end(comm), Status::INVALID_USAGE, "call ncclGroupEnd first");
    }
}

#[test]
fn one_is_given_up_before_its_group_ends_and_the_others_hear_of_it() {
    ranks(2, |ctx| {
        let (id, mut comm) = (share(ctx, 0, "id"), Handle::NULL);
        ok(ncclGroupStart());
        ok(ncclCommInitRank(out(&mut comm), 2, id, ctx.rank() as i32));
        if ctx.rank() == 0 {
            ok(ncclCommAbort(comm));
            fails(ncclCommDestroy(comm), Status::INVALID_ARGUMENT, "was destroyed before");
            fails(ncclGroupEnd(), Status::INVALID_USAGE, "was aborted before it was ready");
        } else {
            ok(ncclGroupEnd());
            let mut sum = [0.0_f32];
            fails(
                all_reduce(&[1.0], &mut sum, SUM, comm, NOW),
                Status::REMOTE_ERROR,
                "ncclCommAbort",
            );
            ok(ncclCommDestroy(comm));
        }
    });
}

#[test]
fn one_whose_group_never_ends_is_given_up() {
    ranks(1, |_| {
        let asks = || {
            let mut comm = Handle::NULL;
            ok(ncclGroupStart());
            ok(ncclCommInitRank(out(&mut comm), 1, unique_id(), 0));
            comm
        };
        let comm = thread::scope(|scope| scope.spawn(asks).join()).unwrap();
        refuses_to_end(comm);
        ok(ncclCommAbort(comm));
        fails(ncclCommDestroy(comm), Status::INVALID_ARGUMENT, "was destroyed before");
    });
}
