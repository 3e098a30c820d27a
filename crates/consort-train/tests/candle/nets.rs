//! Small models, data for them, and the same training in one process.

use std::time::Duration;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{
    Conv2dConfig, Module, Optimizer, SGD, VarBuilder, VarMap, conv2d, embedding, layer_norm, linear,
};
use consort::Group;
use consort_testkit::Context;
use consort_train::candle::DistributedDataParallel;

use super::invitation::invited;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).timeout(LONG).init().unwrap()
}

/// Waits until all ranks are past their last call: whoever is still in it when a group fails would fail
/// there.
pub(crate) fn await_all(group: &Group) {
    let mut begun = group.store().add("begun", 1).unwrap();
    while begun < group.world() as i64 {
        std::thread::sleep(Duration::from_millis(1));
        begun = group.store().add("begun", 0).unwrap();
    }
}

/// A model without its types.
pub(crate) type Net = Box<dyn Fn(&Tensor) -> Result<Tensor>>;

/// A model, and what one example looks like.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub(crate) name: &'static str,
    pub(crate) build: fn(VarBuilder<'static>) -> Result<Net>,
    pub(crate) example: &'static [usize],
}

pub(crate) const MLP: Task = Task { name: "layers", build: mlp, example: &[7] };
pub(crate) const CONVOLUTION: Task =
    Task { name: "a convolution", build: convolution, example: &[2, 6, 5] };
pub(crate) const WORDS: Task = Task { name: "an embedding", build: words, example: &[9] };
pub(crate) const NORM: Task = Task { name: "a layer norm", build: norm, example: &[7] };
pub(crate) const TIED: Task = Task { name: "tied weights", build: tied, example: &[9] };

fn mlp(vb: VarBuilder<'static>) -> Result<Net> {
    let (first, last) = (linear(7, 13, vb.pp("first"))?, linear(13, 5, vb.pp("last"))?);
    Ok(Box::new(move |x| last.forward(&first.forward(x)?.tanh()?)))
}

fn convolution(vb: VarBuilder<'static>) -> Result<Net> {
    let filter =
        conv2d(2, 3, 3, Conv2dConfig { padding: 1, ..Default::default() }, vb.pp("filter"))?;
    let last = linear(3 * 6 * 5, 4, vb.pp("last"))?;
    Ok(Box::new(move |x| last.forward(&filter.forward(x)?.tanh()?.flatten_from(1)?)))
}

fn words(vb: VarBuilder<'static>) -> Result<Net> {
    let (table, last) = (embedding(11, 6, vb.pp("table"))?, linear(6, 3, vb.pp("last"))?);
    Ok(Box::new(move |x| last.forward(&table.forward(&ids(x)?)?.mean(1)?)))
}

fn norm(vb: VarBuilder<'static>) -> Result<Net> {
    let first = linear(7, 12, vb.pp("first"))?;
    let norm = layer_norm(12, 1e-5, vb.pp("norm"))?;
    let last = linear(12, 2, vb.pp("last"))?;
    Ok(Box::new(move |x| {
        let (weight, bias) = (norm.weight(), norm.bias().unwrap());
        // What the layer itself calls has no backward.
        let x = candle_nn::ops::layer_norm_slow(&first.forward(x)?, weight, bias, 1e-5)?;
        last.forward(&x)
    }))
}

/// The table is used twice: for what comes in and for what goes out.
fn tied(vb: VarBuilder<'static>) -> Result<Net> {
    let (table, hidden) = (embedding(11, 6, vb.pp("table"))?, linear(6, 6, vb.pp("hidden"))?);
    Ok(Box::new(move |x| {
        let x = hidden.forward(&table.forward(&ids(x)?)?.mean(1)?)?.tanh()?;
        x.matmul(&table.embeddings().t()?)
    }))
}

/// Numbers from -1 to 1 as words from 0 to 10.
fn ids(x: &Tensor) -> Result<Tensor> {
    (x.to_dtype(DType::F32)? + 1.0)?.affine(5.0, 0.1)?.to_dtype(DType::U32)
}

/// The examples of a rank in a step: each place has a number of its own.
pub(crate) fn batch(
    task: Task,
    dtype: DType,
    rank: usize,
    step: usize,
    examples: usize,
) -> Result<Tensor> {
    let mut shape = vec![examples];
    shape.extend(task.example);
    let len: usize = shape.iter().product();
    let number = |at: usize| ((at * 17 + rank * 31 + step * 13) % 41) as f32 / 20.0 - 1.0;
    Tensor::from_vec((0..len).map(number).collect(), shape, &Device::Cpu)?.to_dtype(dtype)
}

/// How far a model is from what it should say of some examples: something that each place of the
/// answer has its own of.
pub(crate) fn loss(net: &Net, x: &Tensor) -> Result<Tensor> {
    let answer = net(x)?;
    let width = answer.dim(D::Minus1)?;
    let target: Vec<f32> = (0..width).map(|at| (at as f32 - 1.0) / width as f32).collect();
    let target = Tensor::from_vec(target, width, &Device::Cpu)?.to_dtype(answer.dtype())?;
    let sums = x.flatten_from(1)?.mean_keepdim(1)?;
    answer.broadcast_sub(&target)?.broadcast_sub(&sums)?.sqr()?.mean_all()
}

/// One step of a rank.
pub(crate) fn step(ddp: &DistributedDataParallel, net: &Net, task: Task, step: usize) {
    let (dtype, rank) = (ddp.vars()[0].dtype(), ddp.reducer().group().rank().index());
    let x = batch(task, dtype, rank, step, EXAMPLES).unwrap();
    let mut optimizer = SGD::new(ddp.vars(), RATE).unwrap();
    ddp.backward_step(&mut optimizer, &loss(net, &x).unwrap()).unwrap();
}

/// The same training in one process, with the examples of all ranks.
pub(crate) struct Alone {
    task: Task,
    dtype: DType,
    variables: VarMap,
    names: Vec<String>,
    net: Net,
}

impl Alone {
    /// Begins with what a model is now.
    pub(crate) fn like(task: Task, ddp: &DistributedDataParallel) -> Self {
        let (variables, vars) = (VarMap::new(), ddp.vars());
        let dtype = vars[0].dtype();
        let vb = VarBuilder::from_varmap(&variables, dtype, &Device::Cpu);
        let net = (task.build)(vb).unwrap();
        let parameters = ddp.reducer().parameters();
        let names: Vec<String> = parameters.iter().map(|it| it.name().to_owned()).collect();
        let alone = Self { task, dtype, variables, names, net };
        for (mine, its) in alone.vars().iter().zip(&vars) {
            mine.set(its).unwrap();
        }
        alone
    }

    pub(crate) fn vars(&self) -> Vec<Var> {
        let all = self.variables.data().lock().unwrap();
        self.names.iter().map(|name| all[name].clone()).collect()
    }

    pub(crate) fn step(&self, world: usize, step: usize) {
        let mut optimizer = SGD::new(self.vars(), RATE).unwrap();
        optimizer.backward_step(&self.loss(world, step)).unwrap();
    }

    /// That of all ranks' examples.
    pub(crate) fn loss(&self, world: usize, step: usize) -> Tensor {
        let of_rank = |rank| batch(self.task, self.dtype, rank, step, EXAMPLES).unwrap();
        let all = Tensor::cat(&(0..world).map(of_rank).collect::<Vec<_>>(), 0).unwrap();
        loss(&self.net, &all).unwrap()
    }
}

/// All numbers of some variables.
pub(crate) fn numbers(variables: &[Var]) -> Vec<f64> {
    let of = |var: &Var| var.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
    variables.iter().flat_map(|var| of(var).unwrap()).collect()
}

/// The same as bits.
pub(crate) fn bits(variables: &[Var]) -> Vec<u64> {
    numbers(variables).into_iter().map(f64::to_bits).collect()
}

/// The largest difference.
pub(crate) fn distance(one: &[Var], other: &[Var]) -> f64 {
    let (one, other) = (numbers(one), numbers(other));
    assert_eq!(one.len(), other.len());
    one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// How much numbers of a dtype may differ after ten steps that were added up in another order: some
/// units of the last place of 1.
pub(crate) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-14,
        DType::F32 => 1e-6,
        DType::F16 => 1e-2,
        _ => 5e-2,
    }
}

pub(crate) const EXAMPLES: usize = 6;
pub(crate) const RATE: f64 = 0.2;
/// Longer than anything takes, even if others use the cores.
const LONG: Duration = Duration::from_secs(50);
