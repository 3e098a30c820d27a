//! Every type, every way to combine numbers and every collective, against what they are said to compute.

mod support;

use std::ffi::c_int;

use consort::{Element, F8E4m3, F8E5m2, bf16, f16};
use consort_nccl::api::collectives::*;
use consort_nccl::api::communicators::*;
use consort_nccl::api::reductions::*;
use consort_nccl::raw::Handle;
use consort_testkit::ranks;

use support::*;

const WORLD: usize = 3;

/// A type, and how to get its numbers.
trait Number: Element {
    /// A small number, which it has exactly.
    fn small(number: u32) -> Self;
    /// The mean of numbers with this sum.
    fn mean(sum: u32) -> Self;
}

macro_rules! numbers {
    ($($type:ty: $small:expr, $mean:expr;)*) => {$(
        impl Number for $type {
            fn small(number: u32) -> Self {
                $small(number)
            }
            fn mean(sum: u32) -> Self {
                $mean(sum)
            }
        }
    )*};
}

numbers! {
    i8: |n| n as i8, |sum| (sum / WORLD as u32) as i8;
    u8: |n| n as u8, |sum| (sum / WORLD as u32) as u8;
    i32: |n| n as i32, |sum| (sum / WORLD as u32) as i32;
    u32: |n| n, |sum| sum / WORLD as u32;
    i64: |n| n as i64, |sum| (sum / WORLD as u32) as i64;
    u64: |n| n as u64, |sum| (sum / WORLD as u32) as u64;
    f32: |n| n as f32, |sum| sum as f32 / WORLD as f32;
    f64: |n| n as f64, |sum| sum as f64 / WORLD as f64;
    f16: |n| f16::from_f32(n as f32), |sum| f16::from_f32(sum as f32 / WORLD as f32);
    bf16: |n| bf16::from_f32(n as f32), |sum| bf16::from_f32(sum as f32 / WORLD as f32);
    F8E4m3: |n| F8E4m3::from_f32(n as f32), |sum| F8E4m3::from_f32(sum as f32 / WORLD as f32);
    F8E5m2: |n| F8E5m2::from_f32(n as f32), |sum| F8E5m2::from_f32(sum as f32 / WORLD as f32);
}

/// What a rank has at a place: 0, 1 or 2, so that all results are small.
fn at(rank: usize, place: usize) -> u32 {
    ((rank * 5 + place * 7 + place / 3) % 3) as u32
}

fn of_rank<T: Number>(rank: usize, count: usize) -> Vec<T> {
    (0..count).map(|place| T::small(at(rank, place))).collect()
}

fn combined<T: Number>(op: c_int, place: usize) -> T {
    let all = (0..WORLD).map(|rank| at(rank, place));
    match op {
        SUM => T::small(all.sum()),
        PROD => T::small(all.product()),
        MAX => T::small(all.max().expect("there are some")),
        MIN => T::small(all.min().expect("there are some")),
        AVG => T::mean(all.sum()),
        // Each rank's numbers times one more than its own.
        _ => T::small(all.zip(1..).map(|(number, factor)| number * factor).sum()),
    }
}

fn reductions<T: Number>(comm: Handle, count: usize) {
    let (me, dtype) = (rank_of(comm), code::<T>());
    let factor = [T::small(me as u32 + 1)];
    let mut scaled = -1;
    ok(ncclRedOpCreatePreMulSum(out(&mut scaled), read(&factor), dtype, 1, comm));
    for op in [SUM, PROD, MAX, MIN, AVG, scaled] {
        let expected: Vec<T> = (0..count).map(|place| combined(op, place)).collect();
        let mine = of_rank::<T>(me, count);
        let mut result = vec![T::small(9); count];
        ok(all_reduce(&mine, &mut result, op, comm, NOW));
        assert_eq!(result, expected, "all-reduce {op} of {:?}", T::DTYPE);
        assert_eq!(mine, of_rank::<T>(me, count));

        let mut here = mine.clone();
        let buffer = write(&mut here);
        ok(ncclAllReduce(buffer, buffer, count, dtype, op, comm, NOW));
        assert_eq!(here, expected, "in place");

        for root in 0..WORLD {
            let mut result = vec![T::small(9); count];
            let room = if root == me { write(&mut result) } else { null() };
            ok(ncclReduce(read(&mine), room, count, dtype, op, root as c_int, comm, NOW));
            let expected = if root == me { &expected } else { &vec![T::small(9); count] };
            assert_eq!(&result, expected, "reduce to {root}");
        }

        let all = of_rank::<T>(me, count * WORLD);
        let expected: Vec<T> = (0..count).map(|place| combined(op, me * count + place)).collect();
        let mut result = vec![T::small(9); count];
        ok(ncclReduceScatter(read(&all), write(&mut result), count, dtype, op, comm, NOW));
        assert_eq!(result, expected, "reduce-scatter {op} of {:?}", T::DTYPE);

        let mut here = all.clone();
        let (input, output) = (write(&mut here), write(&mut here[me * count..]));
        ok(ncclReduceScatter(input, output, count, dtype, op, comm, NOW));
        assert_eq!(here[me * count..][..count], expected, "in place");
    }
    ok(ncclRedOpDestroy(scaled, comm));
}

fn copies<T: Number>(comm: Handle, count: usize) {
    let (me, dtype) = (rank_of(comm), code::<T>());
    let mine = of_rank::<T>(me, count);
    let everyone: Vec<T> = (0..WORLD).flat_map(|rank| of_rank::<T>(rank, count)).collect();

    let mut all = vec![T::small(9); count * WORLD];
    ok(ncclAllGather(read(&mine), write(&mut all), count, dtype, comm, NOW));
    assert_eq!(all, everyone);
    let mut here = vec![T::small(9); count * WORLD];
    here[me * count..][..count].copy_from_slice(&mine);
    let (input, output) = (write(&mut here[me * count..]), write(&mut here));
    ok(ncclAllGather(input, output, count, dtype, comm, NOW));
    assert_eq!(here, everyone, "in place");

    for root in 0..WORLD {
        let at = root as c_int;
        let mut theirs = vec![T::small(9); count];
        let input = if root == me { read(&mine) } else { null() };
        ok(ncclBroadcast(input, write(&mut theirs), count, dtype, at, comm, NOW));
        assert_eq!(theirs, of_rank::<T>(root, count));
        let mut here = mine.clone();
        ok(ncclBcast(write(&mut here), count, dtype, at, comm, NOW));
        assert_eq!(here, of_rank::<T>(root, count));

        let mut all = vec![T::small(9); count * WORLD];
        let room = if root == me { write(&mut all) } else { null() };
        ok(ncclGather(read(&mine), room, count, dtype, at, comm, NOW));
        if root == me {
            assert_eq!(all, everyone);
        }
        let mut share = vec![T::small(9); count];
        let input = if root == me { read(&everyone) } else { null() };
        ok(ncclScatter(input, write(&mut share), count, dtype, at, comm, NOW));
        assert_eq!(share, mine);
        // In place on the root.
        let mut here = if root == me { everyone.clone() } else { vec![T::small(9); count] };
        let output = if root == me { write(&mut here[me * count..]) } else { write(&mut here) };
        let input = if root == me { write(&mut here) } else { null() };
        ok(ncclScatter(input, output, count, dtype, at, comm, NOW));
        let share = if root == me { &here[me * count..][..count] } else { &here[..] };
        assert_eq!(share, mine);
    }

    let to: Vec<T> = (0..WORLD).flat_map(|rank| of_rank::<T>(me * WORLD + rank, count)).collect();
    let from: Vec<T> = (0..WORLD).flat_map(|rank| of_rank::<T>(rank * WORLD + me, count)).collect();
    let mut came = vec![T::small(9); count * WORLD];
    ok(ncclAlltoAll(read(&to), write(&mut came), count, dtype, comm, NOW));
    assert_eq!(came, from);
    let mut here = to.clone();
    let buffer = write(&mut here);
    ok(ncclAlltoAll(buffer, buffer, count, dtype, comm, NOW));
    assert_eq!(here, from, "in place");
}

#[test]
fn every_type_is_combined_in_every_way() {
    ranks(WORLD as u32, |ctx| {
        let comm = meet(ctx);
        for count in [1, 17, 1013] {
            reductions::<i8>(comm, count);
            reductions::<u8>(comm, count);
            reductions::<i32>(comm, count);
            reductions::<u32>(comm, count);
            reductions::<i64>(comm, count);
            reductions::<u64>(comm, count);
            reductions::<f16>(comm, count);
            reductions::<f32>(comm, count);
            reductions::<f64>(comm, count);
            reductions::<bf16>(comm, count);
            reductions::<F8E4m3>(comm, count);
            reductions::<F8E5m2>(comm, count);
        }
        reductions::<f32>(comm, 70_001);
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn every_type_is_moved_by_every_collective() {
    ranks(WORLD as u32, |ctx| {
        let comm = meet(ctx);
        for count in [1, 17, 1013] {
            copies::<i8>(comm, count);
            copies::<u8>(comm, count);
            copies::<i32>(comm, count);
            copies::<u32>(comm, count);
            copies::<i64>(comm, count);
            copies::<u64>(comm, count);
            copies::<f16>(comm, count);
            copies::<f32>(comm, count);
            copies::<f64>(comm, count);
            copies::<bf16>(comm, count);
            copies::<F8E4m3>(comm, count);
            copies::<F8E5m2>(comm, count);
        }
        copies::<f64>(comm, 30_011);
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn all_ranks_have_the_same_bits() {
    let bits: Vec<Vec<u32>> = ranks(4, |ctx| {
        let comm = meet(ctx);
        let mut state = u64::from(ctx.rank()) + 1;
        let numbers: Vec<f32> = (0..5003)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as f32 / 3e5 - 20.0
            })
            .collect();
        let mut sums = vec![0.0_f32; numbers.len()];
        ok(all_reduce(&numbers, &mut sums, SUM, comm, NOW));
        ok(ncclCommDestroy(comm));
        sums.into_iter().map(f32::to_bits).collect()
    });
    assert!(bits.iter().all(|of_rank| *of_rank == bits[0]));
    assert!(bits[0].iter().any(|bits| *bits != bits & 0xffff_0000));
}

#[test]
fn a_factor_in_memory_is_read_when_it_is_used() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        let mut factor = [2_i64];
        let mut scaled = -1;
        ok(ncclRedOpCreatePreMulSum(out(&mut scaled), read(&factor), code::<i64>(), 0, comm));
        for turn in 1..4 {
            factor[0] = turn * (i64::from(ctx.rank()) + 1);
            let mut sums = [0_i64; 3];
            ok(all_reduce(&[1, 10, 100], &mut sums, scaled, comm, NOW));
            assert_eq!(sums, [3 * turn, 30 * turn, 300 * turn]);
        }
        ok(ncclCommDestroy(comm));
    });
}

#[test]
fn what_has_no_elements_needs_no_memory_and_no_others() {
    ranks(2, |ctx| {
        let comm = meet(ctx);
        if ctx.rank() == 0 {
            ok(ncclAllReduce(null(), null(), 0, code::<f32>(), SUM, comm, NOW));
            ok(ncclAllGather(null(), null(), 0, code::<f32>(), comm, NOW));
        }
        counts_all(comm);
        ok(ncclCommDestroy(comm));
    });
}
