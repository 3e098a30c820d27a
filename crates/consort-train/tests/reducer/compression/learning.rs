//! Whether a model learns with less.

use consort::{Dtype, Group};
use consort_testkit::{Case, conformance};
use consort_train::{
    Average, Caps, Cast, Int8, Options, Parameter, PeriodicAverager, PostLocalSgd, PowerSgd,
    Reducer,
};

use super::wave;
use crate::model::meet;

conformance! { [shm in_process]
    a_model_learns_nearly_as_much_whatever_the_hook
}

const INPUTS: usize = 12;
const OUTPUTS: usize = 10;
const SAMPLES: usize = 40;
const STEPS: usize = 240;
const PERIOD: u64 = 4;

/// What a linear model is to find: outputs of these inputs, with a disturbance.
struct Data {
    inputs: Vec<f64>,
    outputs: Vec<f64>,
}

impl Data {
    /// A rank's share.
    fn of(rank: usize) -> Self {
        let inputs: Vec<f64> = (0..SAMPLES * INPUTS).map(|at| wave(rank, 0, 0, at)).collect();
        let mut outputs = Vec::with_capacity(SAMPLES * OUTPUTS);
        for sample in inputs.chunks(INPUTS) {
            for output in 0..OUTPUTS {
                let exact: f64 = sample.iter().zip(0..).map(|(x, at)| x * weight(output, at)).sum();
                let disturbance = 0.1 * wave(rank, 1, 1, outputs.len());
                outputs.push(exact + 0.5 * output as f64 + disturbance);
            }
        }
        Self { inputs, outputs }
    }

    /// The mean square of what is wrong, and how it changes with each weight and each bias.
    fn loss(&self, weights: &[f32], biases: &[f32]) -> (f64, Vec<f32>, Vec<f32>) {
        let (mut loss, count) = (0.0, self.outputs.len() as f64);
        let (mut by_weight, mut by_bias) = (vec![0.0_f32; weights.len()], vec![0.0; biases.len()]);
        let samples = self.inputs.chunks(INPUTS).zip(self.outputs.chunks(OUTPUTS));
        for (inputs, outputs) in samples {
            for (output, exact) in outputs.iter().enumerate() {
                let row = output * INPUTS..(output + 1) * INPUTS;
                let products = weights[row.clone()].iter().zip(inputs);
                let found: f64 = products.map(|(weight, x)| f64::from(*weight) * x).sum();
                let wrong = found + f64::from(biases[output]) - exact;
                loss += wrong * wrong / count;
                by_bias[output] += (2.0 * wrong / count) as f32;
                for (by, x) in by_weight[row].iter_mut().zip(inputs) {
                    *by += (2.0 * wrong * x / count) as f32;
                }
            }
        }
        (loss, by_weight, by_bias)
    }
}

/// What is to be found.
fn weight(output: usize, input: usize) -> f64 {
    wave(0, 7, 7, output * INPUTS + input)
}

/// Learns for a while. Gives the loss over all ranks' data at the beginning and at the end.
fn learn(group: &Group, options: Options, mut averager: Option<PeriodicAverager>) -> [f64; 2] {
    let parameters = vec![
        Parameter::new("weights", Dtype::F32, &[OUTPUTS, INPUTS]),
        Parameter::new("biases", Dtype::F32, &[OUTPUTS]),
    ];
    let options = options.caps(Caps::of(64).unwrap());
    let reducer = Reducer::new(group, parameters, options).unwrap();
    let mine = Data::of(group.rank().index());
    let (mut weights, mut biases) = (vec![0.0_f32; OUTPUTS * INPUTS], vec![0.0_f32; OUTPUTS]);
    let all: Vec<Data> = (0..group.world()).map(Data::of).collect();
    let loss_of_all = |weights: &[f32], biases: &[f32]| {
        all.iter().map(|data| data.loss(weights, biases).0).sum::<f64>() / all.len() as f64
    };
    let first = loss_of_all(&weights, &biases);
    for _ in 0..STEPS {
        let (_, by_weight, by_bias) = mine.loss(&weights, &biases);
        let pass = reducer.begin().unwrap();
        pass.ready(1, &by_bias).unwrap();
        pass.ready(0, &by_weight).unwrap();
        let averages = pass.finish().unwrap();
        for (index, numbers) in [&mut weights, &mut biases].into_iter().enumerate() {
            let by = averages.gradient::<f32>(index).unwrap().unwrap();
            numbers.iter_mut().zip(by).for_each(|(number, by)| *number -= RATE * by);
        }
        if let Some(averager) = &mut averager {
            let pieces = &mut [
                (Dtype::F32, bytemuck::cast_slice_mut(&mut weights)),
                (Dtype::F32, bytemuck::cast_slice_mut(&mut biases)),
            ];
            averager.step(pieces).unwrap();
        }
    }
    [first, loss_of_all(&weights, &biases)]
}

fn a_model_learns_nearly_as_much_whatever_the_hook(case: Case) {
    let all = case.run(3, |ctx| {
        let world = meet(ctx);
        let two = world.new_group(&[0, 1]).unwrap();
        let mut told = Vec::new();
        for group in [Some(world), two].iter().flatten() {
            let [first, exact] = learn(group, Options::new().hook(Average), None);
            assert!(first > 5.0 && exact < 0.01, "{first} {exact}");
            let rank_2 = || PowerSgd::of_rank(2).unwrap().min_compression_rate(1.0).unwrap();
            let hooks = [
                ("columns", Options::new().hook(rank_2().after(10))),
                ("columns from the first pass on", Options::new().hook(rank_2().after(0))),
                ("columns by chance", Options::new().hook(rank_2().after(10).warm_start(false))),
                ("one matrix", Options::new().hook(rank_2().after(10).batched())),
                ("small columns", Options::new().hook(Cast::bf16().with(rank_2().after(10)))),
                ("bytes", Options::new().hook(Int8::new())),
                ("bytes added up", Options::new().hook(Int8::new().error_feedback(true))),
                ("small bytes", Options::new().hook(Cast::bf16().with(Int8::new()))),
            ];
            for (name, options) in hooks {
                let [_, last] = learn(group, options, None);
                assert!(last < exact + 0.0002, "{name}: {last}, and {exact} as they are");
                told.push(last);
            }
            let averager = PeriodicAverager::new(group, PERIOD).unwrap().after(20);
            let options = Options::new().hook(PostLocalSgd::new(20));
            let [_, last] = learn(group, options, Some(averager));
            assert!(last < exact + 0.0002, "apart: {last}, and {exact} together");
            told.push(last);
        }
        told
    });
    // All ranks have the same model.
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0][..all[2].len()], all[2]);
}

const RATE: f32 = 2.0;
