//! What calls leave in the memory of devices.

use consort::device::calls;
use consort::{
    Call, Dtype, Element, Engine, Error, Inputs, Lists, Outputs, OwnedCall, ReduceOp, bf16, f16,
};
use consort_testkit::Context;

use crate::stage::{
    device, download, in_worlds, invited, meet, upload, with_devices, without_nccl,
};

in_worlds! {
    sums_of_all_types_are_those_of_all_ranks
    every_collective_leaves_what_it_leaves_in_host_memory
}

/// A number that tells whose it is and where it was.
fn coded(rank: usize, at: usize) -> i64 {
    (rank * 7 + at * 3 + 1) as i64 % 100
}

fn coded_by<T>(rank: usize, count: usize, make: impl Fn(i64) -> T) -> Vec<T> {
    (0..count).map(|at| make(coded(rank, at))).collect()
}

/// What all ranks together have at a place.
fn combined(op: ReduceOp, world: usize, at: usize) -> i64 {
    let all = (0..world).map(|rank| coded(rank, at));
    match op {
        ReduceOp::Sum => all.sum(),
        ReduceOp::Max => all.max().unwrap(),
        ReduceOp::Min => all.min().unwrap(),
        ReduceOp::Avg => all.sum::<i64>() / world as i64,
        ReduceOp::Product => all.product(),
        _ => unreachable!("nothing else is asked for"),
    }
}

fn sums_of_all_types_are_those_of_all_ranks(ctx: &Context) {
    let group = meet(ctx);
    let (me, world) = (group.rank().index(), group.world());
    macro_rules! try_out {
                ($($type:ty: $make:expr),*) => {$(
                    for count in [1_usize, 3, 1000, 70_001] {
                        for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min] {
                            let mine = upload(&device(&group), &coded_by(me, count, $make));
                            let call = calls::all_reduce(mine, <$type>::DTYPE, op);
                            let sums = group.call_async(call).unwrap().wait().unwrap().output;
                            let wanted: Vec<$type> =
                                (0..count).map(|at| $make(combined(op, world, at))).collect();
                            assert!(download::<$type>(&sums) == wanted, "{op} of {count} {}", stringify!($type));
                        }
                    }
                )*};
            }
    try_out! {
        f32: |it| it as f32, f64: |it| it as f64, i32: |it| it as i32, i64: |it| it,
        u64: |it| it as u64, f16: |it| f16::from_f32(it as f32), u32: |it| it as u32
    }
}

fn every_collective_leaves_what_it_leaves_in_host_memory(ctx: &Context) {
    let group = meet(ctx);
    let device = device(&group);
    let (me, world, count) = (group.rank().index(), group.world(), 257);
    let mine = coded_by(me, count, |it| it as f32);
    let all = coded_by(me, count * world, |it| it as f32);

    // The host's engine is the oracle.
    let mut wanted = vec![0.0; count * world];
    group.all_gather(&mine, &mut wanted).unwrap();
    let there = calls::all_gather(
        upload(&device, &mine),
        device.allocate(4 * count * world).unwrap(),
        Dtype::F32,
    );
    let there = group.call_async(there).unwrap().wait().unwrap();
    assert_eq!(download::<f32>(&there.output), wanted);

    let mut wanted = vec![0.0; count];
    group.reduce_scatter(&all, &mut wanted, ReduceOp::Sum).unwrap();
    let room = device.allocate(4 * count).unwrap();
    let there = calls::reduce_scatter(upload(&device, &all), room, Dtype::F32, ReduceOp::Sum);
    let there = group.call_async(there).unwrap().wait().unwrap();
    assert_eq!(download::<f32>(&there.output), wanted);

    let mut wanted = vec![0.0; count * world];
    group.all_to_all(&all, &mut wanted).unwrap();
    let room = device.allocate(4 * count * world).unwrap();
    let there = calls::all_to_all(upload(&device, &all), room, Dtype::F32);
    let there = group.call_async(there).unwrap().wait().unwrap();
    assert_eq!(download::<f32>(&there.output), wanted);

    let root = group.world() as u32 - 1;
    let there = calls::broadcast(upload(&device, &mine), Dtype::F32, root);
    let there = group.call_async(there).unwrap().wait().unwrap();
    assert_eq!(download::<f32>(&there.output), coded_by(root as usize, count, |it| it as f32));
}

/// Calls with a part for each rank, on one block of memory each for what is read and written.
#[test]
fn parts_of_any_size_go_where_they_belong() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let device = device(&group);
            let (me, world) = (group.rank().index(), group.world());
            let dtype = Dtype::I32;
            // Rank r has 10 + r numbers for each.
            let len = |rank: usize| 10 + rank;
            let mine = upload(&device, &coded_by(me, len(me), |it| it as i32));
            let total: usize = (0..world).map(len).sum();
            let mut room = device.allocate(4 * total).unwrap();
            let all = room.target();
            let mut at = 0;
            let mut parts = Vec::new();
            for rank in 0..world {
                parts.push(all.slice(at..at + 4 * len(rank)));
                at += 4 * len(rank);
            }
            let outputs = Outputs::List(&parts);
            group.call(&Call::AllGather { dtype, input: mine.source(), outputs }).unwrap();
            let wanted: Vec<i32> =
                (0..world).flat_map(|rank| coded_by(rank, len(rank), |it| it as i32)).collect();
            assert_eq!(download::<i32>(&room), wanted);

            // To the last rank, and from it.
            let root = (world as u32 - 1).into();
            let mut room = device.allocate(4 * total).unwrap();
            let all = room.target();
            let mut at = 0;
            let parts: Vec<_> = (0..world)
                .map(|rank| {
                    at += 4 * len(rank);
                    all.slice(at - 4 * len(rank)..at)
                })
                .collect();
            let outputs = (group.rank() == root).then_some(Outputs::List(&parts));
            group
                .call(&Call::Gather { dtype, root, uneven: true, input: mine.source(), outputs })
                .unwrap();
            let sources: Vec<_> = parts.iter().map(|&part| part.into()).collect();
            let inputs = (group.rank() == root).then_some(Inputs::List(&sources));
            let mut back = device.allocate(4 * len(me)).unwrap();
            let output = back.target();
            group.call(&Call::Scatter { dtype, root, uneven: true, inputs, output }).unwrap();
            assert_eq!(download::<i32>(&back), coded_by(me, len(me), |it| it as i32));
            if group.rank() == root {
                assert_eq!(download::<i32>(&room), wanted);
            }
        })
        .expect_all();
}

#[test]
fn host_and_device_have_an_engine_each_in_one_group() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let device = device(&group);
            let mut works = Vec::new();
            for round in 1..=20_i64 {
                let there =
                    calls::all_reduce(upload(&device, &[round; 100]), Dtype::I64, ReduceOp::Sum);
                works.push(group.call_async(there).unwrap());
                let mut here = [round];
                group.all_reduce(&mut here, ReduceOp::Sum).unwrap();
                assert_eq!(here, [2 * round]);
                let mut blocking = upload(&device, &[round]);
                let output = blocking.target();
                let (dtype, op, input) = (Dtype::I64, ReduceOp::Max, output.into());
                group.call(&Call::AllReduce { dtype, op, input, output }).unwrap();
                assert_eq!(download::<i64>(&blocking), [round]);
            }
            for (round, work) in (1..).zip(works) {
                assert_eq!(download::<i64>(&work.wait().unwrap().output), [2 * round; 100]);
            }
            group.barrier().unwrap();
            assert_eq!(group.calls(), 20 + 40 + 1);
            let can = group.device_capabilities().unwrap().unwrap();
            assert!(can.supports(
                consort::Operation::AllReduce,
                Some(Dtype::Bf16),
                Some(ReduceOp::Sum)
            ));
            assert!(!can.supports(
                consort::Operation::AllReduce,
                Some(Dtype::I16),
                Some(ReduceOp::Sum)
            ));
        })
        .expect_all();
}

#[test]
fn parts_of_a_group_have_communicators_of_their_own() {
    with_devices(4)
        .start(|ctx| {
            let group = meet(ctx);
            let device = device(&group);
            let half = group.split(Some(group.rank().get() % 2), 0).unwrap().unwrap();
            for part in [&group, &half, &group] {
                let mine = upload(&device, &[bf16::from_f32(group.rank().as_f32())]);
                let there = calls::all_reduce(mine, Dtype::Bf16, ReduceOp::Sum);
                let sum = part.call_async(there).unwrap().wait().unwrap().output;
                let wanted: u32 = part.world_ranks().iter().sum();
                assert_eq!(download::<bf16>(&sum), [bf16::from_f32(wanted as f32)]);
            }
        })
        .expect_all();
}

#[test]
fn calls_that_nccl_has_not_are_refused_and_the_group_goes_on() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let device = device(&group);
            let mut numbers = upload(&device, &[1_i16; 4]);
            let output = numbers.target();
            let (dtype, op, input) = (Dtype::I16, ReduceOp::Sum, output.into());
            let error = group.call(&Call::AllReduce { dtype, op, input, output }).unwrap_err();
            assert!(
                matches!(&error, Error::Argument(what) if what.contains("NCCL does not combine i16")),
                "{error}"
            );
            let (inputs, outputs) = (Inputs::Equal(input), Outputs::Equal(output));
            let error =
                group.call(&Call::AllToAll { dtype, uneven: false, inputs, outputs }).unwrap_err();
            assert!(error.to_string().contains("in place"), "{error}");
            let other = consort::device::Driver::load().unwrap().device(7).unwrap();
            let elsewhere = calls::all_reduce(upload(&other, &[1_f32]), Dtype::F32, ReduceOp::Sum);
            let error = group.call_async(elsewhere).unwrap_err().error;
            assert!(error.to_string().contains("lies on device 7"), "{error}");
            let incoming =
                consort::Incoming { dtype, buffer: output, from: Some(0.into()), tag: 0.into() };
            let error = group.exchange(None, Some(incoming)).unwrap_err();
            assert!(error.to_string().contains("consort::nccl::Comm"), "{error}");
            // What can only be moved is.
            let moved = calls::broadcast(numbers, dtype, 1);
            group.call_async(moved).unwrap().wait().unwrap();
        })
        .expect_all();
}

#[test]
fn a_rank_without_nccl_is_named_on_all() {
    without_nccl(2)
        .start(|ctx| {
            let group = meet(ctx);
            // It has the driver, and not what is meant to go with it.
            let device =
                consort::device::Driver::open(&crate::stage::library()).unwrap().device(0).unwrap();
            let there = || calls::all_reduce(upload(&device, &[1_f32]), Dtype::F32, ReduceOp::Sum);
            for _ in 0..2 {
                let error = group.call_async(there()).map(drop).unwrap_err().error;
                let Error::PeerUnable { rank: 0, reason, .. } = &error else { panic!("{error}") };
                assert!(reason.contains("CONSORT_NCCL_LIBRARY"), "{error}");
            }
            group.barrier().unwrap();
            let _ = there().call(&mut Lists::default());
        })
        .expect_all();
}

#[test]
fn the_hosts_engine_reaches_the_hosts_memory_alone() {
    with_devices(2)
        .start(|ctx| {
            let group = invited(ctx).engine(Engine::Host).init().unwrap();
            let there =
                calls::all_reduce(upload(&device(&group), &[1_f32]), Dtype::F32, ReduceOp::Sum);
            let error = group.call_async(there).map(drop).unwrap_err().error;
            assert!(
                error.to_string().contains("the engine that was chosen is the host's"),
                "{error}"
            );
            group.barrier().unwrap();
        })
        .expect_all();
}
