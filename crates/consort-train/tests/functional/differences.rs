//! Gradients are how the sum of all ranks' losses changes, as far as can be seen by changing a little.

use candle_core::{DType, Tensor, Var};
use consort::{Group, ReduceOp};
use consort_testkit::{Case, Context, conformance};
use consort_train::candle::functional;

use super::meet::{coded, gradient, loss_of, meet, numbers, tensor};
use super::programs::{Program, calls, compositions};

conformance! { [shm]
    gradients_of_one_rank_are_differences
    gradients_of_two_ranks_are_differences
    gradients_of_three_ranks_are_differences
    gradients_of_four_ranks_are_differences
}
conformance! { [tcp mixed in_process]
    gradients_are_differences_over_everything_that_data_travels_over
}

fn gradients_of_one_rank_are_differences(case: Case) {
    case.run(1, |ctx| check_all(ctx, &[DType::F64, DType::F32]));
}

fn gradients_of_two_ranks_are_differences(case: Case) {
    case.run(2, |ctx| check_all(ctx, &[DType::F64, DType::F32]));
}

fn gradients_of_three_ranks_are_differences(case: Case) {
    case.run(3, |ctx| check_all(ctx, &[DType::F64, DType::F32]));
}

fn gradients_of_four_ranks_are_differences(case: Case) {
    case.run(4, |ctx| check_all(ctx, &[DType::F64, DType::F32]));
}

fn gradients_are_differences_over_everything_that_data_travels_over(case: Case) {
    case.run(3, |ctx| check_all(ctx, &[DType::F64]));
}

fn check_all(ctx: &Context, dtypes: &[DType]) {
    let group = meet(ctx);
    let mut checked = 0;
    for program in calls(group.world()).into_iter().chain(compositions()) {
        for &dtype in dtypes {
            check(&program, dtype, &group);
            checked += 1;
        }
    }
    assert!(checked > 40 * dtypes.len(), "{checked} programs");
}

/// Compares the gradients of all ranks' variables with differences, in each of their places.
fn check(program: &Program, dtype: DType, group: &Group) {
    let (rank, world) = (group.rank().index(), group.world());
    let shapes: Vec<_> = (0..world).map(|rank| (program.shapes)(rank, world)).collect();
    // Whose numbers change, one after the other, and which of them are this rank's.
    let (changing, me) = if program.is_shared { (1, 0) } else { (world, rank) };
    let at_rest: Vec<Vec<f64>> = numbers_of(me, &shapes[rank]);
    let vars = at_rest
        .iter()
        .zip(&shapes[rank])
        .map(|(numbers, shape)| Var::from_tensor(&tensor(numbers, shape, dtype)).unwrap());
    let vars: Vec<Var> = vars.collect();
    let inputs: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
    // Candle's own way, and the one in which gradients travel while it goes on.
    let by_candle = loss(program, &inputs, group).backward().unwrap();
    let deferred = functional::backward(&loss(program, &inputs, group)).unwrap();

    // The loss of this rank when one number of one of the ranks is a little larger, or smaller.
    let (h, tolerance) = if dtype == DType::F64 { (1e-5, 2e-8) } else { (1.0 / 256.0, 3e-3) };
    let (own, mut losses) = (&shapes[rank], Vec::new());
    for (changed, shapes) in shapes[..changing].iter().enumerate() {
        for (variable, shape) in shapes.iter().enumerate() {
            for at in 0..shape.iter().product() {
                for step in [h, -h] {
                    let mut now = at_rest.clone();
                    if changed == me {
                        now[variable][at] += step;
                    }
                    let now = now.iter().zip(own);
                    let now: Vec<_> =
                        now.map(|(numbers, shape)| tensor(numbers, shape, dtype)).collect();
                    losses.push(numbers(&loss(program, &now, group))[0]);
                }
            }
        }
    }
    group.all_reduce(&mut losses[..], ReduceOp::Sum).unwrap();

    let differences: Vec<f64> = losses.chunks(2).map(|two| (two[0] - two[1]) / (2.0 * h)).collect();
    let places = |shapes: &[Vec<usize>]| -> usize {
        shapes.iter().map(|shape| shape.iter().product::<usize>()).sum()
    };
    let before: usize = shapes[..me].iter().map(|shapes| places(shapes)).sum();
    let mine = &differences[before..before + places(&shapes[rank])];
    for (way, gradients) in [("candle's", by_candle), ("ours", deferred)] {
        let all: Vec<f64> =
            vars.iter().flat_map(|var| numbers(&gradient(&gradients, var))).collect();
        assert_eq!(all.len(), mine.len());
        for (at, (a, b)) in all.iter().zip(mine).enumerate() {
            assert!(
                (a - b).abs() <= tolerance * (1.0 + b.abs()),
                "{}, {dtype:?}, {world} ranks, {way} backward, rank {rank}, place {at}: the gradient is \
                 {a}, the difference {b}",
                program.name
            );
        }
    }
}

fn numbers_of(rank: usize, shapes: &[Vec<usize>]) -> Vec<Vec<f64>> {
    let each = shapes.iter().enumerate();
    each.map(|(seed, shape)| coded(rank, seed, shape.iter().product())).collect()
}

/// The loss of this rank.
fn loss(program: &Program, inputs: &[Tensor], group: &Group) -> Tensor {
    let outputs = (program.forward)(inputs, group).unwrap();
    let rank = group.rank().index();
    let losses = outputs.iter().enumerate().map(|(seed, y)| loss_of(y, rank, seed).unwrap());
    losses.reduce(|sum, loss| (sum + loss).unwrap()).unwrap()
}
