//! Random orders of everything that can happen, held against what one process would compute.

use consort::Group;
use consort_testkit::{Case, Context, conformance};
use consort_train::{Caps, Options, Reducer};

use super::model::{average, gradient, meet, parameters};

conformance! { [shm in_process]
    parameters_stay_those_of_one_process_under_random_schedules
}

/// The same numbers on every rank.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

fn parameters_stay_those_of_one_process_under_random_schedules(case: Case) {
    let all = case.run(4, |ctx| {
        let group = meet(ctx);
        (0..40).map(|seed| train(ctx, &group, seed)).collect::<Vec<u64>>()
    });
    assert!(all.iter().all(|digests| *digests == all[0]));
}

/// Some steps of a model whose parameters are whole numbers. Gives a number that stands for them.
fn train(ctx: &Context, group: &Group, seed: u64) -> u64 {
    let mut common = Dice(seed * 2 + 1);
    let mut own = Dice((seed * 64 + u64::from(ctx.rank())) * 2 + 1);
    let count = 1 + common.below(25);
    let caps = Caps::list([1 + common.below(3000), 1 + common.below(9000)]).unwrap();
    let reducer = Reducer::new(group, parameters(count), Options::new().caps(caps)).unwrap();
    let mut weights: Vec<Vec<f32>> =
        reducer.parameters().iter().map(|parameter| vec![0.0; parameter.len()]).collect();
    let mut expected = weights.clone();
    for _ in 0..3 {
        let mut sums = vec![None::<Vec<f32>>; count];
        let locals = common.below(3);
        for turn in 0..=locals {
            let local = turn < locals;
            let pass = if local { reducer.begin_local() } else { reducer.begin() }.unwrap();
            let number = pass.number();
            // Who has which, known to all.
            let has: Vec<Vec<bool>> =
                (0..4).map(|_| (0..count).map(|_| common.below(5) > 0).collect()).collect();
            let mut order: Vec<usize> =
                (0..count).filter(|&at| has[ctx.rank() as usize][at]).collect();
            (1..order.len()).for_each(|at| order.swap(at, own.below(at + 1)));
            let threads = 1 + own.below(3);
            std::thread::scope(|scope| {
                for part in 0..threads {
                    let mine = order.iter().skip(part).step_by(threads);
                    let (pass, reducer) = (&pass, &reducer);
                    scope.spawn(move || {
                        for &index in mine {
                            let len = reducer.parameters()[index].len();
                            let rank = group.rank().index();
                            pass.ready(index, &gradient(group, rank, number, index, len)).unwrap();
                        }
                    });
                }
            });
            for (index, sum) in sums.iter_mut().enumerate() {
                let users: Vec<usize> = (0..4).filter(|&rank| has[rank][index]).collect();
                if users.is_empty() {
                    continue;
                }
                let len = reducer.parameters()[index].len();
                let one = average(group, users.into_iter(), number, index, len);
                let sum = sum.get_or_insert_with(|| vec![0.0; len]);
                sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
            }
            let averages = pass.finish().unwrap();
            if local {
                continue;
            }
            for index in 0..count {
                let found = averages.gradient::<f32>(index).unwrap();
                assert_eq!(found, sums[index].as_deref(), "seed {seed}, parameter {index}");
                for (weights, gradient) in
                    [(&mut weights, found), (&mut expected, sums[index].as_deref())]
                {
                    let Some(gradient) = gradient else { continue };
                    weights[index]
                        .iter_mut()
                        .zip(gradient)
                        .for_each(|(weight, one)| *weight -= one);
                }
            }
            assert_eq!(weights, expected, "seed {seed}");
        }
    }
    let bits = weights.iter().flatten().map(|weight| u64::from(weight.to_bits()));
    bits.fold(0, |sum, bits| sum.wrapping_mul(31).wrapping_add(bits))
}
