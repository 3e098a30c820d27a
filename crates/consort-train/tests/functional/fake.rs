//! Programs of many ranks that are tried out on one.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor, Var};
use consort::{Group, ReduceOp};
use consort_train::candle::functional::{
    all_gather, all_reduce, all_to_all, all_to_all_uneven, backward, broadcast, permute, reduce,
    reduce_scatter, replicate,
};

use super::meet::{circle, coded_var, gradient};

const WORLD: usize = 1024;

/// How often each operation was called, and with how many bytes.
fn traffic(group: &Group) -> BTreeMap<&'static str, (u64, u64)> {
    let rows = group.traffic().unwrap().rows;
    rows.iter().map(|row| (row.operation, (row.calls, row.bytes))).collect()
}

/// Calls something, makes sure of its shape, goes back, and tells what was called.
fn there_and_back(
    x: &Var,
    shape: &[usize],
    call: impl Fn(&Group) -> consort_train::Result<Tensor>,
) -> BTreeMap<&'static str, (u64, u64)> {
    let group = Group::fake(0, WORLD as u32).unwrap();
    let y = call(&group).unwrap();
    assert_eq!((y.dims(), y.dtype()), (shape, x.dtype()));
    let gradients = backward(&y.sqr().unwrap().sum_all().unwrap()).unwrap();
    gradient(&gradients, x);
    traffic(&group)
}

#[test]
fn both_directions_are_tried_out_and_counted_in_a_group_that_is_not_there() {
    let x = coded_var(0, 1, &[2, 3], DType::F32);
    let large = coded_var(0, 1, &[WORLD, 3], DType::F32);
    let (bytes, all) = (24, 12 * WORLD as u64);
    let one = |name, calls, bytes| BTreeMap::from([(name, (calls, bytes))]);
    let two = |a, of_a: u64, b, of_b: u64| BTreeMap::from([(a, (1, of_a)), (b, (1, of_b))]);
    let sum = ReduceOp::Sum;
    for op in [sum, ReduceOp::Avg] {
        let seen = there_and_back(&x, &[2, 3], |group| all_reduce(&x, op, group)?.wait());
        assert_eq!(seen, one("all_reduce", 2, 2 * bytes));
    }
    for (dim, shape) in [(0, [2 * WORLD, 3]), (1, [2, 3 * WORLD])] {
        let seen = there_and_back(&x, &shape, |group| all_gather(&x, dim, group)?.wait());
        assert_eq!(seen, two("all_gather", bytes, "reduce_scatter", bytes * WORLD as u64));
    }
    let seen = there_and_back(&large, &[1, 3], |group| {
        reduce_scatter(&large, ReduceOp::Avg, 0, group)?.wait()
    });
    assert_eq!(seen, two("reduce_scatter", all, "all_gather", 12));
    let seen = there_and_back(&x, &[2, 3], |group| broadcast(&x, 0, group)?.wait());
    assert_eq!(seen, two("broadcast", bytes, "reduce", bytes));
    let seen = there_and_back(&x, &[2, 3], |group| reduce(&x, sum, 7, group)?.wait());
    assert_eq!(seen, two("reduce", bytes, "broadcast", bytes));
    let seen = there_and_back(&large, &[WORLD, 3], |group| all_to_all(&large, group)?.wait());
    assert_eq!(seen, one("all_to_all", 2, 2 * all));
    let seen = there_and_back(&x, &[5, 3], |group| {
        let (mut to, mut from) = (vec![0; WORLD], vec![0; WORLD]);
        (to[0], to[7]) = (1, 1);
        (from[0], from[9]) = (1, 4);
        all_to_all_uneven(&x, &to, &from, group)?.wait()
    });
    assert_eq!(seen, one("all_to_all", 2, bytes + 5 * 12));
    let seen = there_and_back(&x, &[2, 3], |group| permute(&x, &circle(WORLD), group)?.wait());
    assert_eq!(seen, one("send", 2, 2 * bytes));
    let seen = there_and_back(&x, &[2, 3], |group| replicate(&x, group));
    assert_eq!(seen, one("all_reduce", 1, bytes));
}

#[test]
fn what_is_detached_is_counted_in_one_direction_only() {
    let x = coded_var(0, 1, &[2, 3], DType::F32);
    let group = Group::fake(0, WORLD as u32).unwrap();
    let y = all_reduce(&x.detach(), ReduceOp::Max, &group).unwrap().wait().unwrap();
    backward(&(y * x.as_tensor()).unwrap()).unwrap();
    assert_eq!(traffic(&group), BTreeMap::from([("all_reduce", (1, 24))]));
}

/// A layer of which every rank has a slice, far larger in all than this process has memory for.
#[test]
fn a_layer_in_parts_is_planned_without_the_other_parts() {
    let group = Group::fake(3, WORLD as u32).unwrap();
    let (columns, rows) =
        (coded_var(0, 1, &[16, 4], DType::F32), coded_var(0, 2, &[4, 16], DType::F32));
    let x = coded_var(0, 3, &[8, 16], DType::F32);
    let hidden = replicate(&x, &group).unwrap().matmul(&columns).unwrap().tanh().unwrap();
    let y = all_reduce(&hidden.matmul(&rows).unwrap(), ReduceOp::Sum, &group).unwrap();
    let gradients = backward(&y.wait().unwrap().sum_all().unwrap()).unwrap();
    for var in [&columns, &rows, &x] {
        gradient(&gradients, var);
    }
    // One forward, one for its gradient, and one for the gradient of the input.
    assert_eq!(traffic(&group), BTreeMap::from([("all_reduce", (3, 3 * 8 * 16 * 4))]));
}
