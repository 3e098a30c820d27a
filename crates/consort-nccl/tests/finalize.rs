//! Communicators that take no more calls.

mod support;

use std::ffi::c_int;
use std::thread;
use std::time::Duration;

use consort_nccl::api::communicators::*;
use consort_nccl::api::extensions::*;
use consort_nccl::raw::Handle;
use consort_nccl::{Config, Status};
use consort_testkit::{Context, limit, ranks, used_addresses};
use rustix::process::Resource;

use support::*;

#[test]
fn calls_that_were_made_before_are_carried_out() {
    ranks(2, |ctx| {
        for blocking in [0, 1] {
            let (comm, queue) = (meet_so(ctx, blocking), stream());
            if ctx.rank() == 1 {
                thread::sleep(Duration::from_millis(200));
            }
            let mut sums = [[0.0_f32; 9]; 2];
            for sums in &mut sums {
                ok(all_reduce(&[1.0; 9], sums, SUM, comm, queue));
            }
            let expected = if blocking == 1 { Status::SUCCESS } else { Status::IN_PROGRESS };
            assert_eq!(ncclCommFinalize(comm), expected, "{}", last_error());
            assert_eq!(settled(comm), Status::SUCCESS, "{}", last_error_of(comm));
            ok(consortStreamSynchronize(queue));
            assert_eq!(sums, [[2.0; 9]; 2]);
            let status = all_reduce(&[1.0_f32], &mut [0.0], SUM, comm, NOW);
            fails(status, Status::INVALID_USAGE, "was finalized");
            ok(consortStreamDestroy(queue));
            ok(ncclCommDestroy(comm));
        }
    });
}

#[test]
fn without_a_thread_for_it_a_communicator_is_finalized_at_once() {
    ranks(1, |ctx| {
        let comm = meet_so(ctx, 0);
        limit(Resource::As, Some(used_addresses() + (1 << 20)));
        // Stacks of threads that have ended would do for another.
        let parked: Vec<_> =
            std::iter::from_fn(|| thread::Builder::new().spawn(thread::park).ok()).collect();
        let status = ncclCommFinalize(comm);
        let then = condition(comm);
        limit(Resource::As, None);
        parked.iter().for_each(|parked| parked.thread().unpark());
        assert_eq!((status, then), (Status::SUCCESS, Status::SUCCESS));
        ok(ncclCommDestroy(comm));
    });
}

fn meet_so(ctx: &Context, blocking: c_int) -> Handle {
    let id = share(ctx, 0, &format!("id-{blocking}"));
    let mut asked = Config { blocking, ..Config::INITIAL };
    let (mut comm, world, rank) = (Handle::NULL, ctx.world() as c_int, ctx.rank() as c_int);
    let status = ncclCommInitRankConfig(out(&mut comm), world, id, rank, config(&mut asked));
    assert!(matches!(status, Status::SUCCESS | Status::IN_PROGRESS), "{}", last_error());
    assert_eq!(settled(comm), Status::SUCCESS);
    comm
}
