//! Random orders of everything that can happen, held against what one process would compute.

use consort::Group;
use consort_testkit::{Case, Context, conformance};
use consort_train::{Caps, Options, Reducer, Uneven};

use super::model::{average, gradient, meet, parameters};

conformance! { [shm in_process]
    parameters_stay_those_of_one_process_under_random_schedules
}
conformance! { [in_process]
    inputs_that_are_uneven_at_random_are_averaged_as_one_process_would
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
    let all = case.run(5, |ctx| {
        let group = meet(ctx);
        in_worlds(&group, |group, seed| train(ctx, group, seed))
    });
    for rank in 0..4 {
        // The last ones are of larger worlds, of which a rank is in fewer.
        let (mine, next) = (&all[rank], &all[rank + 1]);
        assert!(!next.is_empty() && mine.ends_with(next), "{rank}");
    }
}

fn inputs_that_are_uneven_at_random_are_averaged_as_one_process_would(case: Case) {
    case.run(5, |ctx| {
        let group = meet(ctx);
        in_worlds(&group, train_unevenly);
    });
}

/// Does something with the first 2, 3, 4 and 5 ranks, for some seeds.
fn in_worlds<T>(group: &Group, mut act: impl FnMut(&Group, u64) -> T) -> Vec<T> {
    let mut done = Vec::new();
    for world in 2..=5 {
        let is_in = group.rank().get() < world;
        if let Some(part) = group.split(is_in.then_some(0), 0).unwrap() {
            done.extend((0..15).map(|seed| act(&part, seed * 8 + u64::from(world))));
        }
    }
    done
}

/// As many passes as each rank's dice say, with and without gradients of each parameter.
fn train_unevenly(group: &Group, seed: u64) {
    let (me, world) = (group.rank().index(), group.world());
    let mut common = Dice(seed * 2 + 1);
    let count = 1 + common.below(12);
    let caps = Caps::list([1 + common.below(3000), 1 + common.below(9000)]).unwrap();
    let mut options = Options::new().caps(caps);
    if common.below(2) == 0 {
        options = options.adopt(1 + common.below(2000));
    }
    let reducer = Reducer::new(group, parameters(count), options).unwrap();
    let inputs: Vec<usize> = (0..world).map(|_| common.below(5)).collect();
    let longest = inputs.iter().copied().max().unwrap_or(0);
    let mut join = reducer.join(Uneven::DivideByWorld).unwrap();
    for input in 0..longest {
        let has = |rank: usize, index: usize| {
            inputs[rank] > input && !(index + rank * 3 + input + seed as usize).is_multiple_of(5)
        };
        if inputs[me] <= input {
            break;
        }
        let pass = join.begin().unwrap().unwrap();
        for index in (0..count).filter(|&index| has(me, index)) {
            let len = reducer.parameters()[index].len();
            pass.ready_owned(index, gradient(group, me, input as u64, index, len)).unwrap();
        }
        let averages = pass.finish().unwrap();
        for (index, parameter) in reducer.parameters().iter().enumerate() {
            let users: Vec<usize> = (0..world).filter(|&rank| has(rank, index)).collect();
            let expected = (!users.is_empty())
                .then(|| average(group, users.into_iter(), input as u64, index, parameter.len()));
            let found = averages.gradient::<f32>(index).unwrap();
            assert_eq!(found, expected.as_deref(), "seed {seed}, input {input}, {index}");
        }
    }
    let end = join.finish().unwrap();
    assert_eq!(end.shadowed as usize, longest - inputs[me], "seed {seed}");
    if longest > 0 {
        let last = inputs.iter().rposition(|&count| count == longest).unwrap();
        assert_eq!(end.last as usize, last, "seed {seed}");
    }
}

/// Some steps of a model whose parameters are whole numbers. Gives a number that stands for them.
fn train(ctx: &Context, group: &Group, seed: u64) -> u64 {
    let world = group.world();
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
                (0..world).map(|_| (0..count).map(|_| common.below(5) > 0).collect()).collect();
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
                let users: Vec<usize> = (0..world).filter(|&rank| has[rank][index]).collect();
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
