//! Communicators that take no more calls.

mod support;

use std::ffi::c_int;
use std::thread;
use std::time::Duration;

use consort_nccl::api::communicators::*;
use consort_nccl::api::extensions::*;
use consort_nccl::raw::Handle;
use consort_nccl::{Config, Status};
use consort_testkit::{Context, ranks};

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
fn what_was_to_be_made_of_it_before_is_made() {
    ranks(2, |ctx| {
        for shrinks in [false, true] {
            let name = if shrinks { "shrinks" } else { "splits" };
            let (comm, queue) = (meet_as(ctx, name, 0), stream());
            if ctx.rank() == 1 {
                await_mark(ctx, name);
            }
            let mut sums = [0.0_f32; 9];
            ok(all_reduce(&[1.0; 9], &mut sums, SUM, comm, queue));
            let mut child = Handle::NULL;
            let (place, config) = (out(&mut child), no_config());
            let begun = match shrinks {
                true => ncclCommShrink(comm, nothing(), 0, place, config, 0),
                false => ncclCommSplit(comm, 0, 0, place, config),
            };
            assert_eq!(begun, Status::IN_PROGRESS, "{}", last_error());
            assert_eq!(ncclCommFinalize(comm), Status::IN_PROGRESS, "{}", last_error());
            // Only now the other rank makes the call that all this comes after.
            std::fs::write(ctx.dir().join(name), "").unwrap();
            assert_eq!(settled(child), Status::SUCCESS, "{}", last_error_of(child));
            assert_eq!(settled(comm), Status::SUCCESS, "{}", last_error_of(comm));
            counts_all(child);
            ok(consortStreamDestroy(queue));
            [child, comm].into_iter().for_each(|it| ok(ncclCommDestroy(it)));
        }
    });
}

fn await_mark(ctx: &Context, name: &str) {
    while !ctx.dir().join(name).exists() {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn without_a_thread_for_it_a_communicator_is_finalized_at_once() {
    ranks(1, |ctx| {
        let comm = meet_so(ctx, 0);
        let (status, then) = without_threads(|| (ncclCommFinalize(comm), condition(comm)));
        assert_eq!((status, then), (Status::SUCCESS, Status::SUCCESS));
        ok(ncclCommDestroy(comm));
    });
}

fn meet_so(ctx: &Context, blocking: c_int) -> Handle {
    meet_as(ctx, &blocking.to_string(), blocking)
}

fn meet_as(ctx: &Context, name: &str, blocking: c_int) -> Handle {
    let id = share(ctx, 0, &format!("id-{name}"));
    let mut asked = Config { blocking, ..Config::INITIAL };
    let (mut comm, world, rank) = (Handle::NULL, ctx.world() as c_int, ctx.rank() as c_int);
    let status = ncclCommInitRankConfig(out(&mut comm), world, id, rank, config(&mut asked));
    assert!(matches!(status, Status::SUCCESS | Status::IN_PROGRESS), "{}", last_error());
    assert_eq!(settled(comm), Status::SUCCESS);
    comm
}
