//! What an abort waits for, and what it does not.

mod support;

use std::ffi::c_void;
use std::thread;
use std::time::{Duration, Instant};

use consort_nccl::api::collectives::*;
use consort_nccl::api::communicators::*;
use consort_nccl::api::device::*;
use consort_nccl::api::extensions::*;
use consort_nccl::api::groups::*;
use consort_nccl::api::memory::*;
use consort_nccl::api::windows::*;
use consort_nccl::raw::Handle;
use consort_nccl::{Config, Status, UniqueId};
use consort_testkit::{Context, Ranks};

use support::*;

#[test]
fn a_call_that_waits_on_a_stream_behind_another_communicators_is_over_at_once() {
    job(2)
        .start(|ctx| {
            let [stuck, behind] = ["stuck", "behind"].map(|name| share_and_meet(ctx, name));
            if ctx.rank() == 1 {
                return follow(&[stuck, behind]);
            }
            let (queue, mut sums) = (stream(), [0.0_f32; 9]);
            ok(all_reduce(&[1.0; 9], &mut sums, SUM, stuck, queue));
            // The root copies what it broadcasts, as soon as it begins.
            let [from, to] = [pages(), pages()];
            ok(ncclBroadcast(at(from), at(to), PAGES, code::<u8>(), 0, behind, queue));
            thread::sleep(Duration::from_millis(50));
            abort_soon(behind);
            // It is gone: whoever touched it would not live.
            [from, to].into_iter().for_each(|memory| ok(ncclMemFree(at(memory))));
            assert_eq!(consortStreamQuery(queue), Status::IN_PROGRESS);
            abort_soon(stuck);
            assert_ne!(consortStreamSynchronize(queue), Status::SUCCESS);
            ok(consortStreamDestroy(queue));
        })
        .expect_all();
}

#[test]
fn of_a_group_of_calls_each_communicator_ends_by_itself() {
    job(2)
        .start(|ctx| {
            for (round, order) in [[0, 1], [1, 0]].into_iter().enumerate() {
                let comms = [0, 1].map(|it| share_and_meet(ctx, &format!("{round}-{it}")));
                if ctx.rank() == 1 {
                    follow(&comms);
                    continue;
                }
                let (queue, mut sums) = (stream(), [[0.0_f32; 9]; 2]);
                ok(ncclGroupStart());
                for (comm, sums) in comms.iter().zip(&mut sums) {
                    ok(all_reduce(&[1.0; 9], sums, SUM, *comm, queue));
                }
                ok(ncclGroupEnd());
                thread::sleep(Duration::from_millis(50));
                order.into_iter().for_each(|it| abort_soon(comms[it]));
                assert_ne!(consortStreamSynchronize(queue), Status::SUCCESS);
                ok(consortStreamDestroy(queue));
            }
        })
        .expect_all();
}

#[test]
fn a_group_of_calls_that_waits_for_one_communicator_holds_no_other_up() {
    job(2)
        .start(|ctx| {
            let [free, stuck] = ["free", "stuck"].map(|name| share_and_meet(ctx, name));
            if ctx.rank() == 1 {
                return follow(&[free, stuck]);
            }
            let (queues, mut sums) = ([stream(), stream()], [[0.0_f32; 9]; 3]);
            ok(all_reduce(&[1.0; 9], &mut sums[2], SUM, stuck, queues[1]));
            ok(ncclGroupStart());
            for (comm, sums) in [free, stuck].iter().zip(&mut sums) {
                ok(all_reduce(&[1.0; 9], sums, SUM, *comm, queues[0]));
            }
            ok(ncclGroupEnd());
            thread::sleep(Duration::from_millis(50));
            [free, stuck].into_iter().for_each(abort_soon);
            for queue in queues {
                assert_ne!(consortStreamSynchronize(queue), Status::SUCCESS);
                ok(consortStreamDestroy(queue));
            }
        })
        .expect_all();
}

#[test]
fn ranks_that_are_to_join_a_communicator_are_not_waited_for() {
    job(2)
        .start(|ctx| {
            let comm = meet(ctx);
            let mut more = UniqueId { internal: [0; 128] };
            if ctx.rank() == 0 {
                ok(ncclCommGetUniqueId(comm, out(&mut more)));
            }
            let id = if ctx.rank() == 0 { list(std::slice::from_ref(&more)) } else { nothing() };
            let (mut larger, mut apart) = (Handle::NULL, in_background());
            let status = ncclCommGrow(comm, 3, id, -1, out(&mut larger), config(&mut apart));
            assert_eq!(status, Status::IN_PROGRESS);
            thread::sleep(Duration::from_millis(300));
            assert_eq!(condition(larger), Status::IN_PROGRESS, "nobody else comes");
            all_come(ctx, "waits");
            [comm, larger].into_iter().for_each(abort_soon);
            all_come(ctx, "has given up");
        })
        .expect_all();
}

#[test]
fn ranks_that_are_to_make_a_communicator_smaller_are_not_waited_for() {
    job(3)
        .start(|ctx| {
            for flags in [0, 1] {
                let comm = share_and_meet(ctx, &format!("id-{flags}"));
                let given_up = format!("has given up {flags}");
                if ctx.rank() != 0 {
                    // One that leaves is not waited for anyway.
                    all_come(ctx, &given_up);
                    ok(ncclCommAbort(comm));
                    continue;
                }
                let (mut rest, mut apart) = (Handle::NULL, in_background());
                let (without, config) = (list(&[2]), config(&mut apart));
                let status = ncclCommShrink(comm, without, 1, out(&mut rest), config, flags);
                assert_eq!(status, Status::IN_PROGRESS);
                thread::sleep(Duration::from_millis(300));
                assert_eq!(condition(rest), Status::IN_PROGRESS, "rank 1 does not come");
                [comm, rest].into_iter().for_each(abort_soon);
                all_come(ctx, &given_up);
            }
        })
        .expect_all();
}

#[test]
fn without_a_thread_for_it_a_communicator_is_left_at_once() {
    job(1)
        .start(|ctx| {
            let (comm, memory) = (meet(ctx), pages());
            let (mut window, mut place) = (Handle::NULL, std::ptr::null_mut());
            ok(ncclCommWindowRegister(comm, at(memory), PAGES, out(&mut window), 1));
            ok(ncclGetPeerDevicePointer(window, 0, 0, out(&mut place)));
            // From here on it has no thread, whose stack another could have when it ends.
            ok(ncclCommRevoke(comm, 0));
            ok(without_threads(|| ncclCommAbort(comm)));
            let status = ncclGetPeerDevicePointer(window, 0, 0, out(&mut place));
            fails(status, Status::INVALID_ARGUMENT, "which is none");
            ok(ncclMemFree(at(memory)));
        })
        .expect_all();
}

/// Ranks that would wait for longer than a test may take.
fn job(ranks: u32) -> Ranks {
    Ranks::new(ranks).env("CONSORT_TIMEOUT", "100s")
}

/// Waits until all ranks have come so far, without a communicator.
fn all_come(ctx: &Context, place: &str) {
    let mark = |rank| ctx.dir().join(format!("{rank} {place}"));
    std::fs::write(mark(ctx.rank()), "").expect("there is room");
    while !(0..ctx.world()).all(|rank| mark(rank).exists()) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Hears that another rank has given up, and gives up.
fn follow(comms: &[Handle]) {
    for comm in comms {
        while condition(*comm) == Status::SUCCESS {
            thread::sleep(Duration::from_millis(5));
        }
        ok(ncclCommAbort(*comm));
    }
}

#[track_caller]
fn abort_soon(comm: Handle) {
    let began = Instant::now();
    ok(ncclCommAbort(comm));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

fn pages() -> *mut c_void {
    let mut memory = std::ptr::null_mut();
    ok(ncclMemAlloc(out(&mut memory), PAGES));
    memory
}

fn in_background() -> Config {
    Config { blocking: 0, ..Config::INITIAL }
}

const PAGES: usize = 1 << 16;
