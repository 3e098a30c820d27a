//! Every dtype in every way on devices, against numbers reckoned by hand; and what is not combined there.

use consort::device::calls;
use consort::{Call, Dtype, ErrorKind, Group, Inputs, ReduceOp, Target};
use consort_testkit::Context;

use crate::numbers::{NUMBERS, combined, encode, is_whole, number};
use crate::stage::{device, download, in_worlds, meet, upload, with_devices};
use crate::sums::next;

in_worlds! {
    every_dtype_is_combined_in_every_way
    truths_are_combined_by_max_and_min
}

fn every_dtype_is_combined_in_every_way(ctx: &Context) {
    let group = meet(ctx);
    for dtype in NUMBERS {
        for op in ops_of(dtype) {
            for len in [1, 7, 1021] {
                combine(&group, dtype, op, len);
            }
        }
    }
}

/// Integers have no premultiplied sum.
fn ops_of(dtype: Dtype) -> Vec<ReduceOp> {
    use ReduceOp::{Avg, Max, Min, PremulSum, Product, Sum};
    let mut ops = vec![Sum, Product, Max, Min, Avg];
    if !is_whole(dtype) {
        ops.push(PremulSum(0.5));
    }
    ops
}

/// All-reduce, reduce to the last rank, reduce-scatter.
fn combine(group: &Group, dtype: Dtype, op: ReduceOp, len: usize) {
    let (device, me, world) = (device(group), group.rank().get(), group.world() as u32);
    let all = len * group.world();
    let mine = encode(dtype, (0..all).map(|at| number(me, at)));
    let expected = encode(dtype, (0..all).map(|at| combined(world, at, op)));
    let what = format!("{op} of {len} {dtype} at rank {me} of {world}");

    let call = calls::all_reduce(upload(&device, &mine), dtype, op);
    let there = group.call_async(call).unwrap().wait().unwrap().output;
    assert_eq!(download::<u8>(&there), expected, "all_reduce: {what}");

    let root = world - 1;
    let (input, mut room) = (upload(&device, &mine), device.allocate(mine.len()).unwrap());
    let output = (me == root).then(|| room.target());
    let (source, to) = (input.source(), root.into());
    group.call(&Call::Reduce { dtype, op, root: to, input: source, output }).unwrap();
    assert!(me != root || download::<u8>(&room) == expected, "reduce: {what}");

    let part = len * dtype.size();
    let room = device.allocate(part).unwrap();
    let call = calls::reduce_scatter(input, room, dtype, op);
    let there = group.call_async(call).unwrap().wait().unwrap().output;
    let at = me as usize * part;
    assert_eq!(download::<u8>(&there), expected[at..at + part], "reduce_scatter: {what}");
}

/// Each rank has a truth of its own, and all have the last.
fn truths_are_combined_by_max_and_min(ctx: &Context) {
    let group = meet(ctx);
    let (me, world) = (group.rank().index(), group.world());
    let mine: Vec<bool> = (0..=world + 1).map(|at| at == me || at == world).collect();
    for (op, wanted) in [
        (ReduceOp::Max, (0..=world + 1).map(|at| at <= world).collect::<Vec<_>>()),
        (ReduceOp::Min, (0..=world + 1).map(|at| at == world || world == 1 && at == 0).collect()),
    ] {
        let call = calls::all_reduce(upload(&device(&group), &mine), Dtype::Bool, op);
        let there = group.call_async(call).unwrap().wait().unwrap().output;
        assert_eq!(download::<bool>(&there), wanted, "{op}");
    }
}

#[test]
fn what_is_not_combined_is_refused_with_the_reason_and_the_group_goes_on() {
    let refused = [
        (
            Dtype::Bool,
            ReduceOp::Sum,
            "NCCL has no bool, whose bytes it would take for numbers: sum of it",
        ),
        (Dtype::Bool, ReduceOp::Product, "max is true where any is, min where all are"),
        (Dtype::Bool, ReduceOp::BitXor, "NCCL has no bool"),
        (Dtype::Bool, ReduceOp::Avg, "bool has no avg: it can be reduced with sum"),
        (Dtype::I16, ReduceOp::Product, "NCCL does not combine i16; it has i8, u8"),
        (Dtype::U16, ReduceOp::Max, "NCCL does not combine u16"),
        (Dtype::C64, ReduceOp::Avg, "NCCL does not combine c64"),
        (Dtype::C128, ReduceOp::PremulSum(0.5), "NCCL does not combine c128"),
        (Dtype::C64, ReduceOp::Min, "c64 has no min"),
        (Dtype::U8, ReduceOp::BitAnd, "NCCL has no bit_and; it has sum, product"),
        (Dtype::I8, ReduceOp::PremulSum(2.0), "i8 has no premul_sum"),
        (Dtype::F8E4m3, ReduceOp::BitOr, "f8e4m3 has no bit_or"),
    ];
    let ran = with_devices(2).start(move |ctx| {
        let group = meet(ctx);
        let mut memory = upload(&device(&group), &[1_u8; 64]);
        for (dtype, op, reason) in refused {
            for call in reductions(&group, dtype, op, memory.target()) {
                let error = group.call(&call).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Mistake, "{error}");
                assert!(error.to_string().contains(reason), "{reason:?} in {error}");
            }
        }
        assert_eq!(download::<u8>(&memory), [1; 64]);
        assert_eq!(next(&group, &[1.5; 8]).unwrap(), [3.0; 8]);
    });
    ran.expect_all();
}

#[test]
fn what_is_said_to_be_combined_is_and_nothing_else() {
    let ran = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        next(&group, &[1.0]).unwrap();
        let can = group.device_capabilities().unwrap().unwrap();
        let mut memory = upload(&device(&group), &[1_u8; 64]);
        for dtype in Dtype::ALL {
            for op in ReduceOp::ALL {
                for call in reductions(&group, dtype, op, memory.target()) {
                    let is_said = can.supports(call.operation(), Some(dtype), Some(op));
                    let done = group.call(&call);
                    assert_eq!(done.is_ok(), is_said, "{op} of {dtype}: {done:?}");
                }
            }
        }
    });
    ran.expect_all();
}

/// Every operation that combines numbers, in place.
fn reductions<'a>(group: &Group, dtype: Dtype, op: ReduceOp, all: Target<'a>) -> [Call<'a>; 3] {
    let (me, root) = (group.rank().index(), 0.into());
    let part = all.len() / group.world();
    let input = all.into();
    let output = (me == 0).then_some(all);
    let own = all.slice(me * part..(me + 1) * part);
    [
        Call::AllReduce { dtype, op, input, output: all },
        Call::Reduce { dtype, op, root, input, output },
        Call::ReduceScatter { dtype, op, inputs: Inputs::Equal(input), output: own },
    ]
}
