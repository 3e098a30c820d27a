//! Ranks that do not have the same number of inputs.

use consort::Group;
use consort_testkit::{Case, conformance};
use consort_train::{CommHook, Int8, Options, PowerSgd, Reducer, Uneven};

use super::{distance, gradient, parameters, wave};
use crate::model::meet;

conformance! { [shm in_process]
    what_is_lost_is_not_mistaken_for_what_is_missing
}

/// How many inputs each rank has.
const INPUTS: [usize; 3] = [6, 1, 3];

/// Looks at each average: it may be so far from what is exact.
fn train(group: &Group, hook: impl CommHook + 'static, uneven: Uneven, may_be: f64) {
    let options = Options::new().hook(hook);
    let reducer = Reducer::new(group, parameters(&[&[9, 14], &[5]]), options).unwrap();
    let me = group.rank().index();
    let mut join = reducer.join(uneven).unwrap();
    for input in 0..INPUTS[me] {
        let pass = join.begin().unwrap().unwrap();
        for index in [1, 0] {
            let len = reducer.parameters()[index].len();
            pass.ready(index, &gradient(me, input, index, len)).unwrap();
        }
        let averages = pass.finish().unwrap();
        let live: Vec<usize> = (0..3).filter(|&rank| INPUTS[rank] > input).collect();
        let divisor = if uneven == Uneven::DivideByLive { live.len() } else { 3 };
        for index in 0..2 {
            let found = averages.gradient::<f32>(index).unwrap().unwrap();
            let sum = |at| live.iter().map(|&rank| wave(rank, input, index, at)).sum::<f64>();
            let exact: Vec<f64> = (0..found.len()).map(|at| sum(at) / divisor as f64).collect();
            let far = distance(found, &exact);
            assert!(far < may_be, "{uneven:?}, input {input}, {index}: {far}");
        }
    }
    join.finish().unwrap();
}

fn what_is_lost_is_not_mistaken_for_what_is_missing(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        for uneven in [Uneven::DivideByWorld, Uneven::DivideByLive] {
            let full = PowerSgd::of_rank(9).unwrap().min_compression_rate(0.01).unwrap();
            train(&group, full.after(0), uneven, 1e-4);
            train(&group, Int8::new().error_feedback(true), uneven, 0.03);
        }
    });
}
