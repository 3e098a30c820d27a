//! Gradients that are averaged among a few, and models that are averaged now and then.

use consort::{Dtype, ErrorKind, Group, bf16};
use consort_testkit::{Case, conformance};
use consort_train::{
    Cast, HierarchicalAverager, Noop, Options, PeriodicAverager, PostLocalSgd, Reducer,
};

use super::{parameters, pass};
use crate::model::{begin_to_fail, fail, meet};

conformance! { [shm tcp mixed in_process]
    all_average_at_first_and_then_those_of_a_part
    models_that_have_drifted_apart_are_one_again
    what_fails_in_a_part_is_told_to_the_others
}
conformance! { [shm in_process]
    everyone_keeps_its_own_gradients_if_there_is_no_part
    parts_are_made_anew_with_another_group
    larger_periods_average_among_more
}

/// Whole numbers, which can be divided by the number of any ranks.
fn gradient(rank: usize, turn: usize, index: usize, len: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7 + rank * 31 + index * 101 + turn * 13) % 97 * 12) as f32).collect()
}

fn average(ranks: &[usize], turn: usize, index: usize, len: usize) -> Vec<f32> {
    let mut sum = vec![0.0; len];
    for &rank in ranks {
        let one = gradient(rank, turn, index, len);
        sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
    }
    sum.iter().map(|sum| sum / ranks.len() as f32).collect()
}

/// Half of the ranks, those beside this one.
fn half(group: &Group) -> consort::Result<Option<Group>> {
    group.split(Some(2 * group.rank().get() / group.world() as u32), 0)
}

fn reducer(group: &Group, options: Options) -> Reducer {
    let caps = consort_train::Caps::of(100).unwrap();
    // The last is so large that it is averaged where it lies, if ranks share memory.
    let shapes: [&[usize]; 3] = [&[5, 9], &[31], &[70, 30]];
    Reducer::new(group, parameters(&shapes), options.caps(caps)).unwrap()
}

/// One pass, in which the averages have to be those of these ranks.
fn check(reducer: &Reducer, rank: u32, turn: usize, ranks: &[usize]) {
    let found = pass(reducer, |index, len| gradient(rank as usize, turn, index, len));
    for (index, found) in found.iter().enumerate() {
        assert_eq!(*found, average(ranks, turn, index, found.len()), "pass {turn}, {index}");
    }
}

fn all_average_at_first_and_then_those_of_a_part(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let given = PostLocalSgd::new(3).within(half(&group).unwrap());
        let made = PostLocalSgd::new(3).within_part(half);
        for hook in [given, made] {
            let reducer = reducer(&group, Options::new().hook(hook));
            let mine = if ctx.rank() < 2 { [0, 1] } else { [2, 3] };
            for turn in 0..6 {
                // Local passes do not count.
                reducer.begin_local().unwrap().finish().unwrap();
                let ranks = if turn < 3 { &[0, 1, 2, 3][..] } else { &mine };
                check(&reducer, ctx.rank(), turn, ranks);
            }
        }
    });
}

fn everyone_keeps_its_own_gradients_if_there_is_no_part(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let alone = [ctx.rank() as usize];
        let hook = Cast::bf16().with(PostLocalSgd::new(1));
        let reducer_of_few = reducer(&group, Options::new().hook(hook));
        for turn in 0..3 {
            let mine = |index, len| gradient(ctx.rank() as usize, turn, index, len);
            let found = pass(&reducer_of_few, mine);
            let ranks: &[usize] = if turn < 1 { &[0, 1] } else { &alone };
            for (index, found) in found.iter().enumerate() {
                let exact = average(ranks, turn, index, found.len());
                let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= b.abs() / 128.0;
                assert!(found.iter().zip(&exact).all(is_near), "{found:?} {exact:?}");
            }
        }
        let idle = reducer(&group, Options::new().hook(Noop));
        (0..3).for_each(|turn| check(&idle, ctx.rank(), turn, &alone));
    });
}

fn parts_are_made_anew_with_another_group(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        // The same ranks in another order: 0, 2, 1, 3.
        let shuffled = group.split(Some(0), i64::from(ctx.rank() % 2)).unwrap().unwrap();
        let made = reducer(&group, Options::new().hook(PostLocalSgd::new(1).within_part(half)));
        check(&made, ctx.rank(), 0, &[0, 1, 2, 3]);
        check(&made, ctx.rank(), 1, if ctx.rank() < 2 { &[0, 1] } else { &[2, 3] });
        made.set_group(&shuffled).unwrap();
        check(&made, ctx.rank(), 2, &[0, 1, 2, 3]);
        check(&made, ctx.rank(), 3, if ctx.rank() % 2 == 0 { &[0, 2] } else { &[1, 3] });

        let part = half(&group).unwrap();
        let given = reducer(&group, Options::new().hook(PostLocalSgd::new(5).within(part)));
        check(&given, ctx.rank(), 0, &[0, 1, 2, 3]);
        let other = group.split(Some(0), 0).unwrap().unwrap();
        given.set_group(&other).unwrap();
        // All fail at once: none before all have begun.
        let pass = begin_to_fail(&group, &given, true);
        let error = fail(&given, pass, (0..3).rev());
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        assert!(error.to_string().contains("PostLocalSgd::within_part"), "{error}");
    });
}

fn what_fails_in_a_part_is_told_to_the_others(case: Case) {
    let told = case.run(4, |ctx| {
        let group = meet(ctx);
        let part = half(&group).unwrap().unwrap();
        let hook = PostLocalSgd::new(1).within(part.clone());
        let reducer = reducer(&group, Options::new().hook(hook));
        check(&reducer, ctx.rank(), 0, &[0, 1, 2, 3]);
        let pass = begin_to_fail(&group, &reducer, ctx.rank() == 3);
        if ctx.rank() == 3 {
            part.abort("it is full");
        }
        let error = fail(&reducer, pass, (0..3).rev());
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        error.to_string()
    });
    assert!(told.iter().all(|text| text.contains("it is full")), "{told:?}");
}

/// Many parameters of several dtypes, which each rank has moved by itself.
struct Model {
    singles: Vec<Vec<f32>>,
    doubles: Vec<f64>,
    halves: Vec<bf16>,
    counts: Vec<i64>,
}

impl Model {
    fn of(rank: usize) -> Self {
        let single = |index: usize| gradient(rank, 0, index, index * 37 % 300);
        let numbers = |len| gradient(rank, 1, 0, len).into_iter();
        Self {
            singles: (0..40).map(single).collect(),
            doubles: numbers(53).map(f64::from).collect(),
            // Few bits are enough for the sum of few ranks' small numbers.
            halves: numbers(29).map(|number| bf16::from_f32(number % 8.0 * 4.0)).collect(),
            counts: numbers(3).map(|number| number as i64).collect(),
        }
    }

    fn average_of(ranks: &[usize]) -> Self {
        let mut sum = Self::of(ranks[0]);
        let count = ranks.len() as f32;
        for &rank in &ranks[1..] {
            let other = Self::of(rank);
            let pairs = sum.singles.iter_mut().flatten().zip(other.singles.iter().flatten());
            pairs.for_each(|(sum, one)| *sum += one);
            sum.doubles.iter_mut().zip(other.doubles).for_each(|(sum, one)| *sum += one);
            sum.halves.iter_mut().zip(other.halves).for_each(|(sum, one)| *sum += one);
            sum.counts.iter_mut().zip(other.counts).for_each(|(sum, one)| *sum += one);
        }
        sum.singles.iter_mut().flatten().for_each(|sum| *sum /= count);
        sum.doubles.iter_mut().for_each(|sum| *sum /= f64::from(count));
        sum.halves.iter_mut().for_each(|sum| *sum = bf16::from_f32(sum.to_f32() / count));
        sum.counts.iter_mut().for_each(|sum| *sum /= ranks.len() as i64);
        sum
    }

    fn pieces(&mut self) -> Vec<(Dtype, &mut [u8])> {
        let Self { singles, doubles, halves, counts } = self;
        let single = |single| (Dtype::F32, bytemuck::cast_slice_mut(Vec::as_mut_slice(single)));
        let mut pieces: Vec<(Dtype, &mut [u8])> = singles.iter_mut().map(single).collect();
        pieces.insert(0, (Dtype::F64, bytemuck::cast_slice_mut(doubles)));
        pieces.insert(20, (Dtype::I64, bytemuck::cast_slice_mut(counts)));
        pieces.push((Dtype::Bf16, bytemuck::cast_slice_mut(halves)));
        pieces
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.pieces().iter().flat_map(|(_, piece)| piece.to_vec()).collect()
    }
}

fn models_that_have_drifted_apart_are_one_again(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let mut averager = PeriodicAverager::new(&group, 3).unwrap().after(1);
        for step in 1..=7 {
            let mut model = Model::of(ctx.rank() as usize);
            let is_time = step == 4 || step == 7;
            let calls = group.calls();
            assert_eq!(averager.step(&mut model.pieces()).unwrap(), is_time, "{step}");
            // One call for each dtype.
            assert_eq!(group.calls() - calls, if is_time { 4 } else { 0 });
            let own = [ctx.rank() as usize];
            let ranks = if is_time { &[0, 1, 2][..] } else { &own };
            assert_eq!(model.bytes(), Model::average_of(ranks).bytes(), "{step}");
        }
        assert_eq!(averager.steps(), 7);
        // What makes no sense is refused before anything moves.
        let mut odd = [0_u8; 5];
        assert!(consort_train::average(&group, &mut [(Dtype::F32, &mut odd)]).is_err());
        group.barrier().unwrap();
    });
}

fn larger_periods_average_among_more(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        let part = half(&group).unwrap().unwrap();
        let levels = [(4, group.clone()), (2, part)];
        let mut averager = HierarchicalAverager::new(levels).unwrap();
        let own = [ctx.rank() as usize];
        let beside = if ctx.rank() < 2 { [0, 1] } else { [2, 3] };
        for step in 1..=8 {
            let mut model = Model::of(ctx.rank() as usize);
            let world = averager.step(&mut model.pieces()).unwrap().map(Group::world);
            let ranks = match step {
                4 | 8 => &[0, 1, 2, 3][..],
                2 | 6 => &beside,
                _ => &own,
            };
            assert_eq!(world.unwrap_or(1), ranks.len(), "{step}");
            assert_eq!(model.bytes(), Model::average_of(ranks).bytes(), "{step}");
        }
        assert!(HierarchicalAverager::new([(2, group.clone()), (2, group)]).is_err());
    });
}
