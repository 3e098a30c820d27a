//! Groups of calls, streams, and several ranks in one process.

mod support;

use std::ffi::c_int;
use std::time::Duration;

use consort_nccl::api::collectives::*;
use consort_nccl::api::communicators::*;
use consort_nccl::api::extensions::*;
use consort_nccl::api::groups::*;
use consort_nccl::raw::{Grown, Handle};
use consort_nccl::{Config, SimInfo, Status};
use consort_testkit::ranks;

use support::*;

#[test]
fn one_thread_makes_the_calls_of_all_ranks_in_a_group() {
    let comms = all_here(4);
    let streams: Vec<Handle> = comms.iter().map(|_| stream()).collect();
    for streams in
        [vec![NOW; 4], streams.clone(), vec![streams[0]; 4], vec![streams[0], NOW, streams[1], NOW]]
    {
        let inputs: Vec<Vec<f64>> =
            (0..4).map(|rank| (0..1013).map(|at| (rank * 1000 + at) as f64).collect()).collect();
        let mut sums = vec![vec![0.0; 1013]; 4];
        let mut first = vec![vec![0.0; 1013]; 4];
        ok(ncclGroupStart());
        for rank in 0..4 {
            let (comm, stream) = (comms[rank], streams[rank]);
            ok(all_reduce(&inputs[rank], &mut sums[rank], SUM, comm, stream));
            let (from, to) = (read(&inputs[rank]), write(&mut first[rank]));
            ok(ncclBroadcast(from, to, 1013, code::<f64>(), 2, comm, stream));
        }
        assert!(
            sums.iter().flatten().all(|sum| *sum == 0.0),
            "calls wait for the end of the group"
        );
        ok(ncclGroupEnd());
        streams.iter().for_each(|stream| ok(consortStreamSynchronize(*stream)));
        for rank in 0..4 {
            assert!(sums[rank].iter().enumerate().all(|(at, sum)| *sum == (6000 + 4 * at) as f64));
            assert_eq!(first[rank], inputs[2]);
        }
    }
    streams.into_iter().for_each(|stream| ok(consortStreamDestroy(stream)));
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn nested_groups_end_with_the_outermost() {
    let comms = all_here(2);
    let mut numbers = vec![[1_i32], [2]];
    ok(ncclGroupStart());
    for (comm, numbers) in comms.iter().zip(&mut numbers) {
        ok(ncclGroupStart());
        let buffer = write(numbers);
        ok(ncclAllReduce(buffer, buffer, 1, code::<i32>(), SUM, *comm, NOW));
        ok(ncclGroupEnd());
    }
    assert_eq!(numbers, [[1], [2]]);
    ok(ncclGroupEnd());
    assert_eq!(numbers, [[3], [3]]);
    fails(ncclGroupEnd(), Status::INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn a_group_with_a_call_that_makes_no_sense_does_nothing() {
    let comms = all_here(2);
    let mut numbers = [1_i32];
    let buffer = write(&mut numbers);
    ok(ncclGroupStart());
    ok(ncclAllReduce(buffer, buffer, 1, code::<i32>(), SUM, comms[0], NOW));
    let status = ncclAllReduce(buffer, buffer, 1, 77, SUM, comms[1], NOW);
    fails(status, Status::INVALID_ARGUMENT, "ncclAllReduce: datatype is 77");
    fails(ncclGroupEnd(), Status::INVALID_ARGUMENT, "datatype is 77");
    assert_eq!(numbers, [1]);
    // Nobody waits for anything: the next group is whole.
    ok(ncclGroupStart());
    let mut both = vec![[1_i32], [2]];
    for (comm, numbers) in comms.iter().zip(&mut both) {
        let buffer = write(numbers);
        ok(ncclAllReduce(buffer, buffer, 1, code::<i32>(), MAX, *comm, NOW));
    }
    ok(ncclGroupEnd());
    assert_eq!(both, [[2], [2]]);
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn messages_of_a_group_go_on_at_once_and_in_order() {
    ranks(3, |ctx| {
        let comm = meet(ctx);
        let (me, world) = (ctx.rank() as usize, ctx.world() as usize);
        let queue = stream();
        for stream in [NOW, queue] {
            // Sizes from nothing to more than is ever on its way at once, to every rank, also to itself.
            let sizes = [3, 0, 100_003, 1];
            let number = |from: usize, to: usize, which: usize, at: usize| {
                (from * 1000 + to * 100 + which * 10) as f32 + (at % 7) as f32
            };
            let data: Vec<Vec<Vec<f32>>> = (0..world)
                .map(|to| {
                    let parts = sizes.iter().enumerate();
                    parts
                        .map(|(which, size)| {
                            (0..*size).map(|at| number(me, to, which, at)).collect()
                        })
                        .collect()
                })
                .collect();
            let mut came: Vec<Vec<Vec<f32>>> =
                vec![sizes.iter().map(|size| vec![-1.0; *size]).collect(); world];
            ok(ncclGroupStart());
            for peer in 0..world {
                data[peer].iter().for_each(|part| ok(send(part, peer, comm, stream)));
                came[peer].iter_mut().for_each(|part| ok(recv(part, peer, comm, stream)));
            }
            ok(ncclGroupEnd());
            ok(consortStreamSynchronize(stream));
            for (peer, parts) in came.iter().enumerate() {
                for (which, part) in parts.iter().enumerate() {
                    let expected = (0..sizes[which]).map(|at| number(peer, me, which, at));
                    assert!(part.iter().copied().eq(expected), "{peer} {which}");
                }
            }
        }
        ok(consortStreamDestroy(queue));
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn a_message_each_way_is_one_exchange_in_whichever_order_it_is_written() {
    ranks(3, |ctx| {
        let comm = meet(ctx);
        let (me, world) = (ctx.rank() as usize, ctx.world() as usize);
        let queue = stream();
        // Around a ring, to oneself, and more than is ever on its way at once: two that only send would wait for ever.
        for (stream, distance, count) in [
            (NOW, 1, 7),
            (NOW, 0, 7),
            (NOW, 2, 0),
            (queue, 1, 7),
            (NOW, 1, 1_000_003),
            (queue, 2, 1_000_003),
        ] {
            let (next, previous) = ((me + distance) % world, (me + world - distance) % world);
            let number = |from: usize, at: usize| (from * 1_000_000 + at) as f64;
            let mine: Vec<f64> = (0..count).map(|at| number(me, at)).collect();
            let mut theirs = vec![-1.0; count];
            ok(ncclGroupStart());
            if me % 2 == 0 {
                ok(send(&mine, next, comm, stream));
                ok(recv(&mut theirs, previous, comm, stream));
            } else {
                ok(recv(&mut theirs, previous, comm, stream));
                ok(send(&mine, next, comm, stream));
            }
            ok(ncclGroupEnd());
            ok(consortStreamSynchronize(stream));
            assert!(
                theirs.iter().copied().eq((0..count).map(|at| number(previous, at))),
                "{distance}"
            );
        }
        ok(consortStreamDestroy(queue));
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn calls_on_a_stream_return_at_once_and_are_done_in_order() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        let (first, second) = (stream(), stream());
        let mut numbers = [1.0_f64; 257];
        let buffer = write(&mut numbers);
        if ctx.rank() == 1 {
            std::thread::sleep(Duration::from_millis(100));
        }
        // Each on what the one before has left, on whichever stream.
        for turn in 0..10 {
            let stream = if turn % 2 == 0 { first } else { second };
            ok(ncclAllReduce(buffer, buffer, 257, code::<f64>(), SUM, comm, stream));
        }
        if ctx.rank() == 0 {
            assert_eq!(consortStreamQuery(first), Status::IN_PROGRESS);
        }
        ok(consortStreamSynchronize(first));
        ok(consortStreamSynchronize(second));
        assert_eq!(consortStreamQuery(first), Status::SUCCESS);
        assert_eq!(numbers, [1024.0; 257]);
        ok(consortStreamDestroy(first));
        ok(consortStreamDestroy(second));
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn a_stream_that_was_destroyed_does_what_it_was_given() {
    let comms = all_here(1);
    let queue = stream();
    let mut sums = [0.0_f32];
    ok(ncclGroupStart());
    ok(all_reduce(&[7.0], &mut sums, SUM, comms[0], queue));
    ok(consortStreamDestroy(queue));
    ok(ncclGroupEnd());
    // It waits for the calls that were made.
    ok(ncclCommDestroy(comms[0]));
    assert_eq!(sums, [7.0]);
}

#[test]
fn communicators_of_a_group_come_into_being_together() {
    let id = unique_id();
    let mut comms = [Handle::NULL; 3];
    ok(ncclGroupStart());
    for (rank, comm) in (0..).zip(&mut comms) {
        ok(ncclCommInitRank(out(comm), 3, id, rank));
    }
    ok(ncclGroupEnd());
    // Parted together, too.
    let mut parts = [Handle::NULL; 3];
    ok(ncclGroupStart());
    for (rank, part) in parts.iter_mut().enumerate() {
        let colour = c_int::from(rank == 1);
        ok(ncclCommSplit(comms[rank], colour, 0, out(part), no_config()));
    }
    ok(ncclGroupEnd());
    assert_eq!(parts.map(world_of), [2, 1, 2]);
    assert_eq!(parts.map(rank_of), [0, 0, 1]);
    parts.into_iter().chain(comms).for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn a_group_has_communicators_of_one_kind() {
    let (mut waits, mut goes_on) = (Handle::NULL, Handle::NULL);
    let mut asked = Config { blocking: 0, ..Config::INITIAL };
    let status = ncclCommInitRankConfig(out(&mut goes_on), 1, unique_id(), 0, config(&mut asked));
    assert_eq!(status, Status::IN_PROGRESS);
    assert_eq!(settled(goes_on), Status::SUCCESS);
    ok(ncclCommInitRank(out(&mut waits), 1, unique_id(), 0));
    let (mut one, mut other) = ([0.0_f32], [0.0_f32]);
    ok(ncclGroupStart());
    ok(all_reduce(&[1.0], &mut one, SUM, waits, NOW));
    let status = all_reduce(&[1.0], &mut other, SUM, goes_on, NOW);
    fails(status, Status::INVALID_USAGE, "make two groups");
    fails(ncclGroupEnd(), Status::INVALID_USAGE, "make two groups");
    ok(ncclCommDestroy(waits));
    ok(ncclCommDestroy(goes_on));
}

#[test]
fn devices_are_those_of_the_list() {
    let mut comms = [Handle::NULL; 2];
    ok(ncclCommInitAll(outs(&mut comms), 2, list(&[5, 3])));
    for (rank, device) in [(0, 5), (1, 3)] {
        let mut found = -1;
        ok(ncclCommCuDevice(comms[rank], out(&mut found)));
        assert_eq!((rank_of(comms[rank]), found), (rank, device));
    }
    let mut none = [Handle::NULL; 2];
    let status = ncclCommInitAll(outs(&mut none), 2, list(&[1, 1]));
    fails(status, Status::INVALID_USAGE, "device 1 twice");
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn a_simulated_group_moves_nothing_and_costs_more_if_it_is_larger() {
    let comms = all_here(1);
    let estimate = |count: usize| {
        let (input, mut output) = (vec![1.0_f32; count], vec![0.0_f32; count]);
        ok(ncclGroupStart());
        ok(all_reduce(&input, &mut output, SUM, comms[0], NOW));
        let mut info = SimInfo::INITIAL;
        // SAFETY: it lives until the call has returned.
        ok(ncclGroupSimulateEnd(unsafe { Grown::from_raw(&mut info) }));
        assert!(output.iter().all(|number| *number == 0.0));
        info.estimatedTime
    };
    let (small, large) = (estimate(10), estimate(1_000_000));
    assert!(0.0 < small && small < large, "{small} {large}");
    ok(ncclCommDestroy(comms[0]));
}
