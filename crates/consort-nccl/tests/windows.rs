//! Windows that other ranks write to.

mod support;

use std::ffi::{c_int, c_void};

use consort_nccl::api::communicators::*;
use consort_nccl::api::extensions::*;
use consort_nccl::api::groups::*;
use consort_nccl::api::memory::*;
use consort_nccl::api::windows::*;
use consort_nccl::raw::Handle;
use consort_nccl::{Status, WaitSignalDesc};
use consort_testkit::{Outcome, Ranks, ranks};

use support::*;

fn room(bytes: usize) -> *mut c_void {
    let mut memory = std::ptr::null_mut();
    ok(ncclMemAlloc(out(&mut memory), bytes));
    memory
}

fn open(comm: Handle, memory: *mut c_void, bytes: usize) -> Handle {
    let mut window = Handle::NULL;
    ok(ncclCommWindowRegister(comm, at(memory), bytes, out(&mut window), 1));
    window
}

/// Windows of two ranks of this process, of a page each.
fn open_both(comms: &[Handle], memories: [*mut c_void; 2]) -> [Handle; 2] {
    let mut windows = [Handle::NULL; 2];
    ok(ncclGroupStart());
    for rank in 0..2 {
        let (memory, window) = (at(memories[rank]), out(&mut windows[rank]));
        ok(ncclCommWindowRegister(comms[rank], memory, 4096, window, 1));
    }
    ok(ncclGroupEnd());
    windows
}

/// What is there.
fn numbers(memory: *mut c_void, count: usize) -> Vec<f32> {
    // SAFETY: there is as much memory, and nobody writes to it once the signals were taken.
    unsafe { std::slice::from_raw_parts(memory.cast::<f32>(), count) }.to_vec()
}

/// Has what is to be put lie in a window, so many bytes behind its beginning.
fn lay(data: &[f32], memory: *mut c_void, offset: usize) -> Words {
    let start = memory.wrapping_byte_add(offset).cast::<f32>();
    // SAFETY: there is as much memory, and nobody else looks at it.
    unsafe { std::slice::from_raw_parts_mut(start, data.len()) }.copy_from_slice(data);
    (start, data.len())
}

/// Where numbers are, and how many.
type Words = (*mut f32, usize);

fn put(
    (data, count): Words,
    peer: usize,
    window: Handle,
    offset: usize,
    comm: Handle,
    stream: Handle,
) -> Status {
    let (dtype, peer) = (code::<f32>(), peer as c_int);
    ncclPutSignal(at(data.cast()), count, dtype, peer, window, offset, 0, 0, 0, comm, stream)
}

fn wait(from: &[usize], times: c_int, comm: Handle, stream: Handle) -> Status {
    let descs: Vec<WaitSignalDesc> = from
        .iter()
        .map(|&peer| WaitSignalDesc { opCnt: times, peer: peer as c_int, sigIdx: 0, ctx: 0 })
        .collect();
    ncclWaitSignal(descs.len() as c_int, list(&descs), comm, stream)
}

const PUTS: usize = 8;

#[test]
fn nobody_writes_to_the_windows_of_a_communicator_that_has_ended() {
    ranks(2, |ctx| {
        for (end, name) in [
            (ncclCommAbort as extern "C" fn(Handle) -> Status, "abort"),
            (ncclCommDestroy, "destroy"),
        ] {
            let comm = share_and_meet(ctx, name);
            let (count, queue) = (1 << 20, stream());
            // What is written comes first, and behind it what each put writes.
            let bytes = 4 * count * (1 + PUTS);
            let memory = room(bytes);
            let window = open(comm, memory, bytes);
            counts_all(comm);
            if ctx.rank() == 1 {
                // It is still putting when the other ends it, which the program should not do.
                for number in 1..=PUTS {
                    let data = lay(&vec![number as f32; count], memory, number * 4 * count);
                    ok(put(data, 0, window, 0, comm, queue));
                }
                let _ = consortStreamSynchronize(queue);
                ok(end(comm));
            } else {
                // SAFETY: it is there.
                while unsafe { memory.cast::<f32>().read_volatile() } == 0.0 {
                    std::hint::spin_loop();
                }
                ok(end(comm));
                let then = numbers(memory, count);
                std::thread::sleep(std::time::Duration::from_millis(100));
                assert!(then == numbers(memory, count), "{name}: somebody wrote");
            }
            ok(consortStreamDestroy(queue));
            ok(ncclMemFree(at(memory)));
        }
    });
}

#[test]
fn every_rank_writes_to_every_window() {
    ranks(3, |ctx| {
        let comm = meet(ctx);
        let (me, world) = (ctx.rank() as usize, ctx.world() as usize);
        let queue = stream();
        for (count, stream) in [(1, NOW), (257, queue), (40_009, NOW)] {
            let bytes = 4 * count * world;
            // As much behind it is for what the others are to get.
            let memory = room(2 * bytes);
            let window = open(comm, memory, 2 * bytes);
            let mut found = std::ptr::null_mut();
            ok(ncclWinGetUserPtr(comm, window, out(&mut found)));
            assert_eq!(found, memory);
            let all: Vec<usize> = (0..world).collect();
            let value = |from: usize, to: usize, at: usize| (from * 100 + to * 10 + at % 7) as f32;
            let data: Vec<Vec<f32>> =
                all.iter().map(|&to| (0..count).map(|at| value(me, to, at)).collect()).collect();
            let data: Vec<Words> = data
                .iter()
                .enumerate()
                .map(|(to, data)| lay(data, memory, bytes + 4 * count * to))
                .collect();
            for (to, &data) in data.iter().enumerate() {
                ok(put(data, to, window, 4 * count * me, comm, stream));
            }
            ok(wait(&all, 1, comm, stream));
            ok(consortStreamSynchronize(stream));
            let expected: Vec<f32> = all
                .iter()
                .flat_map(|&from| (0..count).map(move |at| value(from, me, at)))
                .collect();
            assert_eq!(numbers(memory, count * world), expected);
            ok(ncclCommWindowDeregister(comm, window));
            let status = put(data[0], 0, window, 0, comm, NOW);
            fails(status, Status::INVALID_ARGUMENT, "deregistered before");
            ok(ncclMemFree(at(memory)));
        }
        ok(consortStreamDestroy(queue));
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn what_was_put_is_there_when_the_window_is_closed() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        for turn in 0..20 {
            let memory = room(4096);
            let window = open(comm, memory, 4096);
            let other = 1 - ctx.rank() as usize;
            let data = lay(&[turn as f32 + other as f32; 3], memory, 1000);
            ok(put(data, other, window, 8, comm, NOW));
            // Nobody waits for the signal.
            ok(ncclCommWindowDeregister(comm, window));
            let mine = turn as f32 + ctx.rank() as f32;
            assert_eq!(numbers(memory, 6), [0.0, 0.0, mine, mine, mine, 0.0]);
            ok(ncclMemFree(at(memory)));
        }
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn signals_are_counted_apart_by_peer_and_index() {
    ranks(3, |ctx| {
        let comm = meet(ctx);
        let status = ncclSignal(0, 0, 0, 0, comm, NOW);
        fails(status, Status::INVALID_USAGE, "has had no window");
        let memory = room(4096);
        let window = open(comm, memory, 4096);
        if ctx.rank() > 0 {
            (0..3).for_each(|_| ok(ncclSignal(0, ctx.rank() as c_int, 0, 0, comm, NOW)));
        } else {
            let desc = |times, peer| WaitSignalDesc { opCnt: times, peer, sigIdx: peer, ctx: 0 };
            ok(ncclWaitSignal(2, list(&[desc(2, 2), desc(3, 1)]), comm, NOW));
            ok(ncclWaitSignal(1, list(&[desc(1, 2)]), comm, NOW));
        }
        ok(ncclCommWindowDeregister(comm, window));
        ok(ncclMemFree(at(memory)));
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn one_thread_writes_and_waits_for_all_ranks() {
    let comms = all_here(2);
    let memories = [room(4096), room(4096)];
    let windows = open_both(&comms, memories);
    let data = [lay(&[1.0], memories[0], 64), lay(&[2.0], memories[1], 64)];
    ok(ncclGroupStart());
    for rank in 0..2 {
        ok(wait(&[1 - rank], 1, comms[rank], NOW));
        ok(put(data[rank], 1 - rank, windows[rank], 12, comms[rank], NOW));
    }
    ok(ncclGroupEnd());
    assert_eq!(memories.map(|memory| numbers(memory, 4)[3]), [2.0, 1.0]);
    ok(ncclGroupStart());
    (0..2).for_each(|rank| ok(ncclCommWindowDeregister(comms[rank], windows[rank])));
    ok(ncclGroupEnd());
    memories.into_iter().for_each(|memory| ok(ncclMemFree(at(memory))));
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn a_group_of_calls_closes_windows_when_all_was_put_into_them() {
    let comms = all_here(2);
    let queue = stream();
    for stream in [NOW, queue] {
        let memories = [room(4096), room(4096)];
        let windows = open_both(&comms, memories);
        ok(ncclGroupStart());
        for rank in 0..2 {
            let data = lay(&[rank as f32 + 3.0], memories[rank], 64);
            ok(put(data, 1 - rank, windows[rank], 8, comms[rank], stream));
            ok(ncclCommWindowDeregister(comms[rank], windows[rank]));
        }
        ok(ncclGroupEnd());
        assert_eq!(memories.map(|memory| numbers(memory, 3)[2]), [4.0, 3.0]);
        ok(consortStreamSynchronize(stream));
        memories.into_iter().for_each(|memory| ok(ncclMemFree(at(memory))));
    }
    ok(consortStreamDestroy(queue));
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn windows_are_closed_where_that_is_called_among_the_calls_of_a_group() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        let (queue, other) = (stream(), 1 - ctx.rank() as usize);
        for stream in [NOW, queue] {
            let memory = room(4096);
            let windows = [(); 2].map(|()| open(comm, memory, 4096));
            let data = lay(&[7.0], memory, 64);
            let mut sums = [[0.0_f32]; 3];
            // What is alone on one rank is in a group of calls on the other.
            let in_group = |body: &mut dyn FnMut()| {
                if ctx.rank() == 1 {
                    return body();
                }
                ok(ncclGroupStart());
                body();
                ok(ncclGroupEnd());
            };
            in_group(&mut || {
                ok(all_reduce(&[1.0], &mut sums[0], SUM, comm, stream));
                ok(put(data, other, windows[0], 8, comm, stream));
                ok(ncclCommWindowDeregister(comm, windows[0]));
                ok(all_reduce(&[2.0], &mut sums[1], SUM, comm, stream));
            });
            in_group(&mut || {
                ok(ncclCommWindowDeregister(comm, windows[1]));
                ok(all_reduce(&[3.0], &mut sums[2], SUM, comm, stream));
            });
            ok(consortStreamSynchronize(stream));
            assert_eq!(sums, [[2.0], [4.0], [6.0]]);
            assert_eq!(numbers(memory, 3)[2], 7.0);
            ok(ncclMemFree(at(memory)));
        }
        ok(consortStreamDestroy(queue));
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn ranks_of_a_thread_close_a_window_together_though_only_one_has_put_something_into_it() {
    let comms = all_here(2);
    let memories = [room(4096), room(4096)];
    let windows = open_both(&comms, memories);
    let data = lay(&[7.0], memories[1], 64);
    let mut sums = [[0.0_f32]; 2];
    ok(ncclGroupStart());
    for rank in 0..2 {
        if rank == 1 {
            ok(put(data, 0, windows[1], 8, comms[1], NOW));
        }
        ok(ncclCommWindowDeregister(comms[rank], windows[rank]));
        ok(all_reduce(&[1.0], &mut sums[rank], SUM, comms[rank], NOW));
    }
    ok(ncclGroupEnd());
    assert_eq!(sums, [[2.0]; 2]);
    assert_eq!(numbers(memories[0], 3)[2], 7.0);
    memories.into_iter().for_each(|memory| ok(ncclMemFree(at(memory))));
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn what_a_group_puts_into_a_window_that_it_has_closed_is_refused_where_it_is_called() {
    let comms = all_here(1);
    let memory = room(4096);
    let windows = [(); 2].map(|()| open(comms[0], memory, 4096));
    ok(ncclGroupStart());
    ok(ncclCommWindowDeregister(comms[0], windows[0]));
    ok(put(lay(&[7.0], memory, 64), 0, windows[0], 8, comms[0], NOW));
    fails(ncclGroupEnd(), Status::INVALID_ARGUMENT, "the window was deregistered before this");
    assert_eq!(numbers(memory, 3)[2], 0.0);
    ok(ncclCommAbort(comms[0]));
    ok(ncclMemFree(at(memory)));
}

#[test]
fn a_group_of_calls_opens_windows_of_all_ranks_and_closes_others() {
    let comms = all_here(2);
    let memories = [room(4096), room(4096)];
    let register = |rank: usize, window: &mut Handle| {
        ok(ncclCommWindowRegister(comms[rank], at(memories[rank]), 4096, out(window), 1));
    };
    let (mut before, mut after) = (open_both(&comms, memories), [Handle::NULL; 2]);
    ok(ncclGroupStart());
    for rank in 0..2 {
        register(rank, &mut after[rank]);
        ok(ncclCommWindowDeregister(comms[rank], before[rank]));
    }
    ok(ncclGroupEnd());
    ok(ncclGroupStart());
    for rank in 0..2 {
        ok(ncclCommWindowDeregister(comms[rank], after[rank]));
        register(rank, &mut before[rank]);
    }
    ok(ncclGroupEnd());
    ok(ncclGroupStart());
    (0..2).for_each(|rank| ok(ncclCommWindowDeregister(comms[rank], before[rank])));
    ok(ncclGroupEnd());
    memories.into_iter().for_each(|memory| ok(ncclMemFree(at(memory))));
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn all_ranks_hear_of_one_that_can_have_no_window() {
    ranks(3, |ctx| {
        let comm = meet(ctx);
        let memory = room(4096);
        let mut window = Handle::new(7);
        let mut register = || ncclCommWindowRegister(comm, at(memory), 4096, out(&mut window), 1);
        if ctx.rank() == 1 {
            let status = without_threads(register);
            fails(status, Status::SYSTEM_ERROR, "Register: there is no thread for windows");
        } else {
            let words = "rank 1 could not have a window: there is no thread for windows";
            fails(register(), Status::REMOTE_ERROR, words);
        }
        assert_eq!(window, Handle::NULL);
        ok(ncclMemFree(at(memory)));
        counts_all(comm);
        let memory = room(4096);
        let window = open(comm, memory, 4096);
        ok(ncclCommWindowDeregister(comm, window));
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn who_waits_for_a_dead_rank_is_told() {
    let mut job = Ranks::new(2).start(|ctx| {
        let comm = meet(ctx);
        let memory = room(4096);
        let _window = open(comm, memory, 4096);
        if ctx.rank() == 1 {
            ctx.reach("ready");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        fails(wait(&[1], 1, comm, NOW), Status::REMOTE_ERROR, "rank 1 is gone");
        ok(ncclCommAbort(comm));
    });
    job.await_point(1, "ready");
    job.kill(1);
    assert!(matches!(job.wait()[..], [Outcome::Done(()), Outcome::Signalled(9)]));
}

/// A peer that puts what is no longer there would end the process whose memory it was.
#[test]
fn memory_stays_until_its_window_is_closed_and_no_window_is_larger_than_it() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        let (me, other) = (ctx.rank() as usize, 1 - ctx.rank() as usize);
        let memory = room(4096);
        let mut window = Handle::NULL;
        let larger = ncclCommWindowRegister(comm, at(memory), 65_536, out(&mut window), 1);
        fails(larger, Status::INVALID_ARGUMENT, "ncclMemAlloc has given 4096 from there on");
        let window = open(comm, memory, 4096);
        fails(ncclMemFree(at(memory)), Status::INVALID_USAGE, "there is a window on it");
        let data = lay(&[me as f32 + 7.0; 25], memory, 2048);
        ok(put(data, other, window, 0, comm, NOW));
        ok(wait(&[other], 1, comm, NOW));
        assert_eq!(numbers(memory, 25), [other as f32 + 7.0; 25]);
        ok(ncclCommWindowDeregister(comm, window));
        ok(ncclMemFree(at(memory)));
        let left_open = room(4096);
        open(comm, left_open, 4096);
        ok(ncclCommDestroy(comm));
        ok(ncclMemFree(at(left_open)));
    });
}

#[test]
fn windows_are_looked_at() {
    let comms = all_here(1);
    let (comm, bad) = (comms[0], Status::INVALID_ARGUMENT);
    let memory = room(8192);
    let mut window = Handle::NULL;
    let register = |address: *mut c_void, size, flags, window: &mut Handle| {
        ncclCommWindowRegister(comm, at(address), size, out(window), flags)
    };
    fails(register(memory.wrapping_byte_add(64), 100, 0, &mut window), bad, "multiple of 4096");
    fails(register(memory, 0, 0, &mut window), bad, "size is 0");
    window = Handle::new(7);
    fails(register(memory, 100, 8, &mut window), bad, "winFlags is 0x8");
    assert_eq!(window, Handle::NULL);
    fails(register(std::ptr::null_mut(), 100, 0, &mut window), bad, "buff is NULL");
    ok(register(memory, 100, 3, &mut window));
    let one = (memory.cast::<f32>(), 1);
    fails(put((one.0, 26), 0, window, 0, comm, NOW), bad, "not within the 100 bytes");
    fails(put(one, 0, window, 97, comm, NOW), bad, "not within the 100 bytes");
    fails(put(one, 0, window, usize::MAX, comm, NOW), bad, "not within the 100 bytes");
    fails(put(one, 1, window, 0, comm, NOW), bad, "peer is 1");
    fails(put(one, 0, comm, 0, comm, NOW), bad, "the window is");
    let outside = (memory.wrapping_byte_add(4096).cast(), 1);
    fails(put(outside, 0, window, 0, comm, NOW), bad, "NCCL_WIN_COLL_SYMMETRIC");
    fails(put((one.0.wrapping_add(24), 2), 0, window, 0, comm, NOW), bad, "not in a window");
    fails(wait(&[0], 0, comm, NOW), bad, "opCnt is 0");
    fails(ncclSignal(0, 0, 0, 1, comm, NOW), bad, "flags is 0x1");
    fails(ncclSignal(0, 300, 0, 0, comm, NOW), bad, "sigIdx is 300");
    ok(ncclCommWindowDeregister(comm, window));
    ok(ncclMemFree(at(memory)));
    ok(ncclCommDestroy(comm));
}
