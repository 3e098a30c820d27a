//! The way back for gradients is the adjoint of the way there: of all linear maps A between values of all
//! ranks, it is the one for which the sum of all A(x)·y is that of all x·A*(y).

use consort::ReduceOp;
use consort::functional::{Array, Collective};
use proptest::prelude::*;

use crate::exercise::Round;
use crate::numbers::scramble;
use crate::oracle::results;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn gradients_go_back_by_the_adjoint(
        world in 1_usize..5,
        kind in 0_usize..15,
        shape in prop::collection::vec(1_usize..4, 0..4),
        seed in any::<u64>(),
    ) {
        let round = linear(world, kind, shape, seed);
        let x = numbers(&round.shapes, seed);
        let there = results(&round.calls, &x, combine);
        let shapes: Vec<Vec<usize>> = there.iter().map(|it| it.shape().to_vec()).collect();
        let y = numbers(&shapes, scramble(seed));
        let adjoint = |call: &Collective| call.adjoint(world).unwrap();
        let calls: Vec<_> = round.calls.iter().map(|call| adjoint(call).collective).collect();
        let back = results(&calls, &y, combine);
        let factors = round.calls.iter().map(|call| adjoint(call).factor);

        let one: f64 = there.iter().zip(&y).map(|(one, other)| product(one, other)).sum();
        let products = x.iter().zip(&back).zip(factors);
        let other: f64 = products.map(|((x, y), factor)| factor * product(x, y)).sum();
        prop_assert!((one - other).abs() <= 1e-9 * (1.0 + one.abs()), "{:?}: {one} {other}", round);
    }
}

/// One of the calls that are linear, with values of shapes that it takes.
fn linear(world: usize, kind: usize, mut shape: Vec<usize>, seed: u64) -> Round {
    let pick = |count: usize| (scramble(seed ^ 77) % count as u64) as usize;
    let by = pick(world) as u32;
    let root = by.into();
    let op = [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::PremulSum(-0.75)][kind % 3];
    if shape.is_empty() && kind >= 9 {
        shape.push(2);
    }
    let dim = pick(shape.len().max(1));
    let call = match kind {
        0..3 => Collective::AllReduce { op },
        3..6 => Collective::Reduce { op, root },
        6 => Collective::Broadcast { root },
        7 => Collective::AllGather { dim },
        8 => {
            // Some rotate, and some of them send nothing.
            let ranks = (0..world as u32).filter(|rank| seed >> rank & 1 == 1);
            let to = |rank: u32| (rank + by) % world as u32;
            Collective::Permute { pairs: ranks.map(|it| (it.into(), to(it).into())).collect() }
        }
        9..12 => {
            shape[dim] *= world;
            Collective::ReduceScatter { op, dim }
        }
        12 => {
            shape[0] *= world;
            Collective::AllToAll
        }
        _ => return uneven(world, &shape, seed),
    };
    Round::alike(world, &call, &shape)
}

fn uneven(world: usize, shape: &[usize], seed: u64) -> Round {
    let rows = |from: usize, to: usize| (seed >> (2 * (from * world + to)) & 3) as usize;
    let of = |me: usize| Collective::AllToAllUneven {
        to: (0..world).map(|to| rows(me, to)).collect(),
        from: (0..world).map(|from| rows(from, me)).collect(),
    };
    let shape_of = |me: usize| {
        let mut shape = shape.to_vec();
        shape[0] = (0..world).map(|to| rows(me, to)).sum();
        shape
    };
    Round { calls: (0..world).map(of).collect(), shapes: (0..world).map(shape_of).collect() }
}

/// Between -1 and 1.
fn numbers(shapes: &[Vec<usize>], seed: u64) -> Vec<Array<f64>> {
    let mut state = seed;
    let mut next = || {
        state = scramble(state >> 1);
        state as i64 as f64 / 2_f64.powi(63)
    };
    let value = |shape: &Vec<usize>| {
        let numbers = (0..shape.iter().product()).map(|_| next()).collect();
        Array::new(shape.clone(), numbers).unwrap()
    };
    shapes.iter().map(value).collect()
}

fn combine(op: ReduceOp, all: &[f64]) -> f64 {
    let sum: f64 = all.iter().sum();
    match op {
        ReduceOp::Sum => sum,
        ReduceOp::Avg => sum / all.len() as f64,
        ReduceOp::PremulSum(factor) => sum * factor,
        _ => unreachable!("{op} is not linear"),
    }
}

/// Single numbers that were gathered come back as rows of one.
fn product(one: &Array<f64>, other: &Array<f64>) -> f64 {
    assert_eq!(one.numbers().len(), other.numbers().len());
    one.numbers().iter().zip(other.numbers()).map(|(one, other)| one * other).sum()
}
