//! A model whose gradients every rank can compute for all others.

use std::time::Duration;

use consort::{Dtype, Group};
use consort_testkit::Context;
use consort_train::{Error, Options, Parameter, Pass, Reduced, Reducer};

use super::invitation::invited;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).timeout(LONG).init().unwrap()
}

/// So many parameters, of all sizes from none to more than a bucket of 4 KiB holds.
pub(crate) fn parameters(count: usize) -> Vec<Parameter> {
    let parameter = |at: usize| {
        let rows = [1, 7, 40, 3, 64, 0, 300][at % 7];
        Parameter::new(format!("layer {at}"), Dtype::F32, &[rows, 1 + at % 5])
    };
    (0..count).map(parameter).collect()
}

/// A rank's gradient of a parameter in a pass: whole numbers, of which each place has its own, and whose
/// sums over all ranks can be divided by their number without a remainder.
pub(crate) fn gradient(
    group: &Group,
    rank: usize,
    pass: u64,
    index: usize,
    len: usize,
) -> Vec<f32> {
    let code = |at: usize| (at * 7 + rank * 31 + index * 101 + pass as usize * 13) % 251;
    (0..len).map(|at| (code(at) * group.world()) as f32).collect()
}

/// The average over those of the ranks that have one.
pub(crate) fn average(
    group: &Group,
    ranks: impl Iterator<Item = usize>,
    pass: u64,
    index: usize,
    len: usize,
) -> Vec<f32> {
    let mut sum = vec![0.0; len];
    for rank in ranks {
        let mine = gradient(group, rank, pass, index, len);
        sum.iter_mut().zip(mine).for_each(|(sum, mine)| *sum += mine);
    }
    sum.iter().map(|sum| sum / group.world() as f32).collect()
}

/// Gives all of this rank's gradients, in this order.
pub(crate) fn give(
    group: &Group,
    reducer: &Reducer,
    pass: &Pass,
    order: impl Iterator<Item = usize>,
) {
    for index in order {
        let len = reducer.parameters()[index].len();
        let mine = gradient(group, group.rank().index(), pass.number(), index, len);
        pass.ready(index, &mine).unwrap();
    }
}

/// Looks at all averages of a pass in which every rank had every gradient.
pub(crate) fn check(group: &Group, reducer: &Reducer, pass: u64, averages: &Reduced) {
    for (index, parameter) in reducer.parameters().iter().enumerate() {
        let expected = average(group, 0..group.world(), pass, index, parameter.len());
        let found = averages.gradient::<f32>(index).unwrap();
        assert_eq!(found, Some(&expected[..]), "pass {pass}, {}", parameter.name());
    }
}

/// One whole pass.
pub(crate) fn step(group: &Group, reducer: &Reducer) {
    let pass = reducer.begin().unwrap();
    let number = pass.number();
    give(group, reducer, &pass, (0..reducer.parameters().len()).rev());
    check(group, reducer, number, &pass.finish().unwrap());
}

/// Begins with a pass that fails. The one who does harm in it waits until the others have begun, too:
/// whoever is still in an earlier pass would fail there.
pub(crate) fn begin_to_fail(group: &Group, reducer: &Reducer, does_harm: bool) -> Pass {
    let pass = reducer.begin().unwrap();
    come_to_fail(group, does_harm);
    pass
}

/// The same before something else that fails.
pub(crate) fn come_to_fail(group: &Group, does_harm: bool) {
    let mut begun = group.store().add("begun", 1).unwrap();
    while does_harm && begun < group.world() as i64 {
        std::thread::sleep(Duration::from_millis(1));
        begun = group.store().add("begun", 0).unwrap();
    }
}

/// Gives these gradients of a pass that fails somewhere. Says why.
pub(crate) fn fail(reducer: &Reducer, pass: Pass, order: impl Iterator<Item = usize>) -> Error {
    for index in order {
        let len = reducer.parameters()[index].len();
        if let Err(error) = pass.ready(index, &vec![1.0_f32; len]) {
            return error;
        }
    }
    pass.finish().unwrap_err()
}

/// A reducer with several buckets.
pub(crate) fn reducer(group: &Group, options: Options) -> Reducer {
    let caps = consort_train::Caps::list([512, 4096]).unwrap();
    Reducer::new(group, parameters(20), options.caps(caps)).unwrap()
}

/// Longer than anything takes, even if others use the cores.
pub(crate) const LONG: Duration = Duration::from_secs(50);
