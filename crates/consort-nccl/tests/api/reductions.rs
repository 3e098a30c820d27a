//! Every dtype and every operation, against numbers reckoned by hand.

use consort::nccl::{Comm, PreMulSum, Stream};
use consort::{Dtype, ReduceOp, Source, Target};
use consort_testkit::ranks;

use crate::meet::comm;
use crate::numbers::{NUMBERS, combined, encode, is_whole, number};

#[test]
fn one_rank_combines_its_own() {
    ranks(1, |ctx| combine_everything(comm(ctx)));
}

#[test]
fn two_ranks_combine_every_dtype_in_every_way() {
    ranks(2, |ctx| combine_everything(comm(ctx)));
}

#[test]
fn three_ranks_combine_every_dtype_in_every_way() {
    ranks(3, |ctx| combine_everything(comm(ctx)));
}

#[test]
fn four_ranks_combine_every_dtype_in_every_way() {
    ranks(4, |ctx| combine_everything(comm(ctx)));
}

#[test]
fn truths_are_combined_by_max_and_min() {
    ranks(3, |ctx| {
        let comm = comm(ctx);
        let mine: Vec<u8> = (0..5).map(|at| u8::from(at == ctx.rank() || at == 4)).collect();
        for (op, expected) in [(ReduceOp::Max, [1, 1, 1, 0, 1]), (ReduceOp::Min, [0, 0, 0, 0, 1])] {
            let mut all = [true; 5];
            let target = Target::from(&mut all[..]);
            // SAFETY: the default stream is done when the call returns; all ranks make the same call.
            unsafe {
                comm.all_reduce((&mine[..]).into(), target, Dtype::Bool, op, Stream::DEFAULT)
            }
            .unwrap();
            assert_eq!(all.map(u8::from), expected, "{op}");
        }
        comm.destroy().unwrap();
    });
}

#[test]
fn a_premultiplied_sum_is_good_for_many_calls() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let half = PreMulSum::new(&comm, Dtype::F64, 0.5).unwrap();
        let factor = 0.25_f64.to_ne_bytes();
        // SAFETY: the factor outlives the sum.
        let quarter =
            unsafe { PreMulSum::of_memory(&comm, Dtype::F64, Source::from(&factor[..])) }.unwrap();
        for at in 0..4 {
            for (sum, factor) in [(&half, 0.5), (&quarter, 0.25)] {
                let mut bytes = encode(Dtype::F64, [number(ctx.rank(), at)].into_iter());
                let target = Target::from(&mut bytes[..]);
                // SAFETY: the default stream is done when the call returns; all ranks make the same call.
                unsafe { comm.all_reduce(target.into(), target, Dtype::F64, sum, Stream::DEFAULT) }
                    .unwrap();
                let expected = combined(2, at, ReduceOp::PremulSum(factor));
                assert_eq!(bytes, expected.to_ne_bytes());
            }
        }
        drop((half, quarter));
        comm.destroy().unwrap();
    });
}

fn combine_everything(comm: Comm) {
    for dtype in NUMBERS {
        let factor = if is_whole(dtype) { 2.0 } else { 0.5 };
        for op in [
            ReduceOp::Sum,
            ReduceOp::Product,
            ReduceOp::Max,
            ReduceOp::Min,
            ReduceOp::Avg,
            ReduceOp::PremulSum(factor),
        ] {
            for len in [0, 1, 7, 1021] {
                combine(&comm, dtype, op, len);
            }
        }
    }
    comm.destroy().unwrap();
}

/// All-reduce apart and in place, reduce to every root, reduce-scatter.
fn combine(comm: &Comm, dtype: Dtype, op: ReduceOp, len: usize) {
    let (rank, world) = (comm.rank(), comm.world());
    let all = len * world as usize;
    let mine = encode(dtype, (0..all).map(|at| number(rank, at)));
    let expected = encode(dtype, (0..all).map(|at| combined(world, at, op)));
    let what = format!("{op} of {len} {dtype} at rank {rank} of {world}");
    let mut apart = vec![0xaa; mine.len()];
    let target = Target::from(&mut apart[..]);
    // SAFETY: the default stream is done when the call returns; all ranks make the same call. So below.
    unsafe { comm.all_reduce((&mine[..]).into(), target, dtype, op, Stream::DEFAULT) }.unwrap();
    assert_eq!(apart, expected, "all-reduce: {what}");
    let mut in_place = mine.clone();
    let target = Target::from(&mut in_place[..]);
    // SAFETY: as above.
    unsafe { comm.all_reduce(target.into(), target, dtype, op, Stream::DEFAULT) }.unwrap();
    assert_eq!(in_place, expected, "all-reduce in place: {what}");
    for root in 0..world {
        let mut result = vec![0xaa; mine.len()];
        let target = (rank == root).then(|| Target::from(&mut result[..]));
        // SAFETY: as above.
        unsafe { comm.reduce((&mine[..]).into(), target, dtype, op, root, Stream::DEFAULT) }
            .unwrap();
        let untouched = vec![0xaa; mine.len()];
        assert_eq!(result, if rank == root { &expected[..] } else { &untouched }, "reduce: {what}");
    }
    let part = len * dtype.size();
    let mut own = vec![0xaa; part];
    let target = Target::from(&mut own[..]);
    // SAFETY: as above.
    unsafe { comm.reduce_scatter((&mine[..]).into(), target, dtype, op, Stream::DEFAULT) }.unwrap();
    let at = rank as usize * part;
    assert_eq!(own, expected[at..at + part], "reduce-scatter: {what}");
    let mut in_place = mine.clone();
    let whole = Target::from(&mut in_place[..]);
    let target = whole.slice(at..at + part);
    // SAFETY: as above.
    unsafe { comm.reduce_scatter(whole.into(), target, dtype, op, Stream::DEFAULT) }.unwrap();
    assert_eq!(in_place[at..at + part], expected[at..at + part], "in place: {what}");
}
