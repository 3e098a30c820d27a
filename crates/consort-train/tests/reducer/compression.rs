//! Hooks that send less than they were given.

mod bytes;
mod columns;
mod learning;
mod local;
mod uneven;

use consort::{Dtype, ErrorKind, Group, bf16, f16};
use consort_testkit::{Case, conformance};
use consort_train::{
    Bucket, Caps, Cast, CommHook, Error, Int8, Options, Parameter, Pending, PowerSgd, Reducer,
    Round,
};

use super::model::{begin_to_fail, meet};

conformance! { [shm tcp mixed in_process]
    every_hook_gives_all_ranks_the_same_bits
    a_newcomer_and_those_who_were_there_compress_from_the_same_pass_on
    what_fails_behind_a_hook_is_named_on_all
}
conformance! { [shm in_process]
    what_was_kept_is_forgotten_with_the_group
    ranks_with_different_hooks_are_all_shown_both
    local_passes_do_not_bring_compression_nearer
}

/// A number that every rank, pass and place has of its own, nearly.
fn wave(rank: usize, turn: usize, index: usize, at: usize) -> f64 {
    let code = (at * 7919 + rank * 3571 + index * 1237 + turn * 541 + 1) * 2_654_435_761 % 10_007;
    (code as f64 - 5003.0) / 3000.0
}

/// A rank's gradient of a parameter.
fn gradient(rank: usize, turn: usize, index: usize, len: usize) -> Vec<f32> {
    (0..len).map(|at| wave(rank, turn, index, at) as f32).collect()
}

/// The average over all ranks.
fn average(world: usize, turn: usize, index: usize, len: usize) -> Vec<f64> {
    let sum = |at| (0..world).map(|rank| wave(rank, turn, index, at)).sum::<f64>();
    (0..len).map(|at| sum(at) / world as f64).collect()
}

/// One pass with gradients of `f32`, in this order. Gives all averages.
fn pass_in_order(
    reducer: &Reducer,
    order: impl Iterator<Item = usize>,
    gradient: impl Fn(usize, usize) -> Vec<f32>,
) -> Vec<Vec<f32>> {
    let pass = reducer.begin().unwrap();
    for index in order {
        pass.ready(index, &gradient(index, reducer.parameters()[index].len())).unwrap();
    }
    let averages = pass.finish().unwrap();
    let count = reducer.parameters().len();
    (0..count).map(|index| averages.gradient::<f32>(index).unwrap().unwrap().to_vec()).collect()
}

/// The same from the last parameter to the first.
fn pass(reducer: &Reducer, gradient: impl Fn(usize, usize) -> Vec<f32>) -> Vec<Vec<f32>> {
    pass_in_order(reducer, (0..reducer.parameters().len()).rev(), gradient)
}

/// The same with this turn's wave.
fn turn(group: &Group, reducer: &Reducer, turn: usize) -> Vec<Vec<f32>> {
    pass(reducer, |index, len| gradient(group.rank().index(), turn, index, len))
}

fn bits(averages: &[Vec<f32>]) -> Vec<u32> {
    averages.iter().flatten().map(|number| number.to_bits()).collect()
}

fn parameters(shapes: &[&[usize]]) -> Vec<Parameter> {
    let named =
        |(at, shape): (usize, &&[usize])| Parameter::new(format!("layer {at}"), Dtype::F32, shape);
    shapes.iter().enumerate().map(named).collect()
}

/// How far apart two lists are, as a part of how large the second is.
fn distance(found: &[f32], exact: &[f64]) -> f64 {
    let apart: f64 = found.iter().zip(exact).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum();
    let size: f64 = exact.iter().map(|number| number * number).sum();
    (apart / size).sqrt()
}

/// Numbers as bytes of any dtype. Whole ones if it has no others.
fn as_bytes(dtype: Dtype, numbers: &[f64]) -> Vec<u8> {
    let each = |number: &f64| match dtype {
        Dtype::F32 => (*number as f32).to_ne_bytes().to_vec(),
        Dtype::F64 => number.to_ne_bytes().to_vec(),
        Dtype::F16 => f16::from_f64(*number).to_ne_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f64(*number).to_ne_bytes().to_vec(),
        _ => (*number as i32).to_ne_bytes().to_vec(),
    };
    numbers.iter().flat_map(each).collect()
}

/// All bits of some passes with every dtype that hooks know, and one that they do not.
fn bits_of_some_passes(group: &Group, hook: impl CommHook + 'static) -> Vec<u8> {
    let shapes: [(Dtype, &[usize]); 8] = [
        (Dtype::F32, &[40, 30]),
        (Dtype::F64, &[24, 20]),
        (Dtype::Bf16, &[16, 33]),
        (Dtype::F16, &[12, 50]),
        (Dtype::I32, &[7, 9]),
        (Dtype::F32, &[0, 5]),
        (Dtype::F32, &[3]),
        (Dtype::F32, &[16, 3, 5]),
    ];
    let parameters = shapes.map(|(dtype, shape)| Parameter::new("w", dtype, shape));
    let options = Options::new().hook(hook).caps(Caps::list([2000, 5000]).unwrap());
    let reducer = Reducer::new(group, parameters.to_vec(), options).unwrap();
    let mut all = Vec::new();
    for turn in 0..4 {
        let pass = reducer.begin().unwrap();
        for (index, parameter) in parameters.iter().enumerate().rev() {
            let size = if parameter.dtype() == Dtype::I32 { 3e6 } else { 1.0 };
            let number = |at| size * wave(group.rank().index(), turn, index, at);
            let mine: Vec<f64> = (0..parameter.len()).map(number).collect();
            pass.ready_bytes(index, parameter.dtype(), &as_bytes(parameter.dtype(), &mine))
                .unwrap();
        }
        let averages = pass.finish().unwrap();
        for (index, parameter) in parameters.iter().enumerate() {
            let mut bytes = vec![0; parameter.bytes()];
            assert!(averages.copy_to(index, &mut bytes).unwrap());
            assert!(bytes.is_empty() || bytes.iter().any(|byte| *byte != 0), "{turn} {index}");
            all.extend(bytes);
        }
    }
    all
}

fn every_hook_gives_all_ranks_the_same_bits(case: Case) {
    let all = case.run(3, |ctx| {
        let group = meet(ctx);
        [
            bits_of_some_passes(&group, PowerSgd::of_rank(2).unwrap().after(1)),
            bits_of_some_passes(&group, PowerSgd::new().after(0).error_feedback(false)),
            bits_of_some_passes(&group, PowerSgd::new().after(0).warm_start(false)),
            bits_of_some_passes(&group, PowerSgd::new().after(0).batched()),
            bits_of_some_passes(&group, Int8::new()),
            bits_of_some_passes(&group, Int8::new().error_feedback(true)),
        ]
        .concat()
    });
    assert!(all.iter().all(|bits| *bits == all[0]));
}

/// After another group a hook is as a new one, and its passes are counted anew.
fn what_was_kept_is_forgotten_with_the_group(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let part = world.split(Some(u32::from(ctx.rank() == 0)), 0).unwrap().unwrap();
        let new = |group: &Group, hook: fn() -> Options| {
            let parameters = parameters(&[&[12, 20], &[7], &[300]]);
            Reducer::new(group, parameters, hook().caps(Caps::of(100).unwrap())).unwrap()
        };
        let hooks: [fn() -> Options; 3] = [
            || Options::new().hook(PowerSgd::new().after(2)),
            || Options::new().hook(Int8::new().error_feedback(true)),
            || Options::new().hook(Cast::bf16().with(PowerSgd::new().after(1).batched())),
        ];
        for hook in hooks {
            let old = new(&world, hook);
            (0..5).for_each(|at| drop(turn(&world, &old, at)));
            old.set_group(&part).unwrap();
            let fresh = new(&part, hook);
            for at in 5..9 {
                let (one, other) = (turn(&part, &old, at), turn(&part, &fresh, at));
                assert_eq!(bits(&one), bits(&other), "{at}");
            }
        }
    });
}

fn a_newcomer_and_those_who_were_there_compress_from_the_same_pass_on(case: Case) {
    let all = case.run(3, |ctx| {
        let world = meet(ctx);
        let is_new = ctx.rank() == 2;
        let part = world.split(Some(u32::from(is_new)), 0).unwrap().unwrap();
        let hook = || PowerSgd::of_rank(2).unwrap().after(2);
        let new = |group, hook| {
            Reducer::new(group, parameters(&[&[30, 20], &[9]]), Options::new().hook(hook)).unwrap()
        };
        let mine = if is_new {
            new(&world, hook())
        } else {
            let hook = hook();
            let stats = hook.stats();
            let mine = new(&part, hook);
            (0..4).for_each(|at| drop(turn(&part, &mine, at)));
            assert!(stats.ratio().unwrap() > 2.0);
            mine.set_group(&world).unwrap();
            mine
        };
        let all: Vec<Vec<Vec<f32>>> = (0..5).map(|at| turn(&world, &mine, at)).collect();
        for (at, averages) in all.iter().enumerate() {
            let far = distance(&averages[0], &average(3, at, 0, 600));
            assert_eq!(far > 1e-3, at >= 2, "{at}: {far}");
        }
        all.iter().flat_map(|averages| bits(averages)).collect::<Vec<u32>>()
    });
    assert!(all.iter().all(|bits| *bits == all[0]));
}

/// Fails on rank 1 in the third pass, when the second bucket has come back.
struct Brittle {
    inner: PowerSgd,
    rank: u32,
}

impl CommHook for Brittle {
    fn name(&self) -> &str {
        "brittle"
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending, Error> {
        let is_time = (self.rank, round.pass, bucket.index()) == (1, 3, 1);
        let pending = self.inner.start(bucket, round)?;
        Ok(pending.and_then(move |bucket| match is_time {
            true => Err(Error::Argument("it has burst".to_owned())),
            false => Ok(bucket),
        }))
    }
}

fn what_fails_behind_a_hook_is_named_on_all(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let hook = Brittle { inner: PowerSgd::new().after(1), rank: ctx.rank() };
        let parameters = parameters(&[&[20, 20], &[20, 20], &[20, 20]]);
        let options = Options::new().hook(hook).caps(Caps::of(1000).unwrap());
        let reducer = Reducer::new(&group, parameters, options).unwrap();
        (0..2).for_each(|at| drop(turn(&group, &reducer, at)));
        let pass = begin_to_fail(&group, &reducer, ctx.rank() == 1);
        let error = super::model::fail(&reducer, pass, (0..3).rev());
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        error.to_string()
    });
    for text in told {
        assert!(text.contains("brittle") && text.contains("bucket 1: it has burst"), "{text}");
    }
}

fn ranks_with_different_hooks_are_all_shown_both(case: Case) {
    let told = case.run(2, |ctx| {
        let group = meet(ctx);
        let hook = PowerSgd::of_rank(1 + ctx.rank() as usize).unwrap();
        let options = Options::new().hook(Cast::f16().with(hook));
        let error = Reducer::new(&group, parameters(&[&[2, 2]]), options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        error.to_string()
    });
    for text in told {
        assert!(text.contains("rank 0 has f16 PowerSGD of rank 1 (after 1000 passes"), "{text}");
        assert!(text.contains("rank 1 has f16 PowerSGD of rank 2 (after 1000 passes"), "{text}");
    }
}

fn local_passes_do_not_bring_compression_nearer(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let hook = PowerSgd::new().after(2);
        let stats = hook.stats();
        let options = Options::new().hook(hook);
        let reducer = Reducer::new(&group, parameters(&[&[20, 20]]), options).unwrap();
        for at in 0..3 {
            for _ in 0..4 {
                reducer.begin_local().unwrap().finish().unwrap();
            }
            turn(&group, &reducer, at);
            assert_eq!(stats.before() > 0, at == 2, "{at}");
        }
    });
}
