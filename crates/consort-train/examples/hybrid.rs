//! Three ways to part the work at once: layers parted among ranks, weights fully sharded, and data-parallel
//! training around both.
//!
//! ```text
//! cargo build --release -p consort-cli -p consort-train --features consort-train/candle --example hybrid --bins
//! target/release/consort run -n 8 -- target/release/examples/hybrid
//! ```
//!
//! Ranks are laid out in a mesh of three dimensions, each of which has groups of its own:
//!
//! - along `tensor`, ranks have some hidden numbers of each layer, and the same data;
//! - along `shards`, ranks have some rows of each matrix, which they gather when they need it, and data of
//!   their own;
//! - along `replicas`, ranks have the same part of the model and data of their own; their gradients are
//!   averaged by `DistributedDataParallel`, which knows nothing of the rest.

use std::ops::Range;

use candle_core::{DType, Tensor, Var};
use candle_nn::{Optimizer, SGD, VarMap};
use consort::{Group, Mesh, ReduceOp};
use consort_train::candle::DistributedDataParallel;
use consort_train::candle::functional::{Pending, all_gather, all_reduce};
use consort_train::{Error, Result};

#[allow(dead_code, reason = "each of the examples needs some of it")]
mod parts;

use parts::{descend, distance, inputs, weights};

fn main() -> Result<()> {
    let group = consort::init()?;
    let world = group.world();
    if !world.is_multiple_of(4) {
        let what = format!("{world} ranks are not so many replicas of 2 by 2: start 4 or 8");
        return Err(Error::Argument(what));
    }
    let mesh = Mesh::new(&group, &[world / 4, 2, 2], &["replicas", "shards", "tensor"])?;
    if group.rank() == 0 {
        println!("{mesh}");
    }
    let place = Place::new(&mesh)?;
    let variables = VarMap::new();
    place.fill(&variables)?;
    let replicas = mesh.group("replicas")?;
    let (ddp, model) = DistributedDataParallel::new(&replicas, &variables, DType::F32, |vb| {
        let get = |(name, rows, columns): Part| vb.get((rows.len(), columns.len()), &name);
        Ok(Model { matrices: place.parts().map(get).collect::<candle_core::Result<_>>()? })
    })?;
    let mut optimizer = SGD::new(ddp.vars(), RATE)?;

    // To compare: one process with the whole model and all data.
    let alone = Place::new(&Mesh::new(
        &Group::fake(0, 1)?,
        &[1, 1, 1],
        &["replicas", "shards", "tensor"],
    )?)?;
    let whole = alone.whole()?;

    for step in 0..STEPS {
        let loss = model.loss(step, place.rows(), &place)?;
        ddp.backward_step(&mut optimizer, &loss)?;
        let by_itself = alone.step(&whole, step, 0..place.batch())?;
        // Ranks along `tensor` have the same loss, the others some of it, and replicas are averaged.
        let mut together = [loss.to_scalar::<f32>()? / replicas.world() as f32];
        group.all_reduce(&mut together, ReduceOp::Sum)?;
        assert!((together[0] - by_itself).abs() < 1e-4, "{} is not {by_itself}", together[0]);
        if group.rank() == 0 && (step + 1) % 10 == 0 {
            println!("step {}: loss {:.5}, in one process {by_itself:.5}", step + 1, together[0]);
        }
    }
    let far = place.distance(&variables, &whole)?;
    assert!(far < 1e-4, "weights are {far} apart");
    if group.rank() == 0 {
        let count = |vars: &[Var]| vars.iter().map(|var| var.elem_count()).sum::<usize>();
        let (mine, all) = (count(&variables.all_vars()), count(&whole));
        println!(
            "{world} ranks have {mine} of {all} weights each, at most {far:.1e} from one process"
        );
    }
    Ok(())
}

/// A matrix: its name, and which rows and columns of it a rank has.
type Part = (String, Range<usize>, Range<usize>);

/// Where in the mesh a rank is.
struct Place {
    mesh: Mesh,
    /// How many there are along each dimension, and which of them this one is.
    replicas: (usize, usize),
    shards: (usize, usize),
    tensor: (usize, usize),
}

impl Place {
    fn new(mesh: &Mesh) -> Result<Self> {
        let along = |dim: &str| Ok::<_, Error>((mesh.len(dim)?, mesh.local_rank(dim)?));
        let (replicas, shards, tensor) = (along("replicas")?, along("shards")?, along("tensor")?);
        Ok(Self { mesh: mesh.clone(), replicas, shards, tensor })
    }

    /// The parts of all matrices: a layer's first one is parted by columns along `tensor`, its second one by
    /// rows, and what is left of each by rows along `shards`.
    fn parts(&self) -> impl Iterator<Item = Part> {
        let share = |all: Range<usize>, (count, at): (usize, usize)| {
            let len = all.len() / count;
            all.start + at * len..all.start + (at + 1) * len
        };
        let (tensor, shards) = (self.tensor, self.shards);
        (0..LAYERS).flat_map(move |layer| {
            let inward = (share(0..WIDTH, shards), share(0..HIDDEN, tensor));
            let outward = (share(share(0..HIDDEN, tensor), shards), 0..WIDTH);
            [
                (format!("{layer} in"), inward.0, inward.1),
                (format!("{layer} out"), outward.0, outward.1),
            ]
        })
    }

    fn variables(&self) -> impl Iterator<Item = candle_core::Result<(String, Var)>> {
        self.parts().map(|(name, rows, columns)| {
            let variable =
                weights(&name, rows, columns, if name.ends_with("in") { WIDTH } else { HIDDEN })?;
            Ok((name, variable))
        })
    }

    fn fill(&self, variables: &VarMap) -> Result<()> {
        let mut data = variables.data().lock().expect("nobody has panicked");
        for variable in self.variables() {
            data.extend([variable?]);
        }
        Ok(())
    }

    fn whole(&self) -> Result<Vec<Var>> {
        let variables = self.variables().map(|variable| Ok(variable?.1));
        variables.collect()
    }

    /// One step of a process that has all of the model.
    fn step(&self, whole: &[Var], step: usize, rows: Range<usize>) -> Result<f32> {
        let matrices = whole.iter().map(|matrix| matrix.as_tensor().clone()).collect();
        let loss = Model { matrices }.loss(step, rows, self)?;
        descend(whole, &loss.backward()?, RATE)?;
        Ok(loss.to_scalar()?)
    }

    /// How many rows all ranks learn from in a step.
    fn batch(&self) -> usize {
        self.replicas.0 * self.shards.0 * ROWS
    }

    /// This rank's rows of them. Those along `tensor` have the same.
    fn rows(&self) -> Range<usize> {
        let at = self.replicas.1 * self.shards.0 + self.shards.1;
        at * ROWS..(at + 1) * ROWS
    }

    /// How far all parts, put together, are from a whole model.
    fn distance(&self, variables: &VarMap, whole: &[Var]) -> Result<f32> {
        let data = variables.data().lock().expect("nobody has panicked");
        let mut far: f32 = 0.0;
        for ((name, ..), whole) in self.parts().zip(whole) {
            let part = data[&name].as_detached_tensor();
            let rows = all_gather(&part, 0, (&self.mesh, "shards"))?.wait()?;
            let dim = if name.ends_with("in") { 1 } else { 0 };
            let all = all_gather(&rows, dim, (&self.mesh, "tensor"))?.wait()?;
            far = far.max(distance(&all, whole)?);
        }
        Ok(far)
    }
}

/// What a rank has of the model: two matrices for each layer.
struct Model {
    matrices: Vec<Tensor>,
}

impl Model {
    /// This rank's part of the mean over its replica's rows, of which these are some.
    fn loss(&self, step: usize, rows: Range<usize>, place: &Place) -> Result<Tensor> {
        let count = rows.len() * place.shards.0 * place.tensor.0 * WIDTH;
        let x = inputs(step, rows, WIDTH)?;
        // What it is to say: the numbers in another order, and not so large.
        let wanted = (Tensor::cat(&[x.narrow(1, 1, WIDTH - 1)?, x.narrow(1, 0, 1)?], 1)? * 0.5)?;
        Ok(((self.forward(&x, place)? - wanted)?.sqr()?.sum_all()? / count as f64)?)
    }

    fn forward(&self, x: &Tensor, place: &Place) -> Result<Tensor> {
        let mut x = x.clone();
        let mut gathered = Some(self.gather(0, place)?);
        for layer in 0..LAYERS {
            let Some((inward, outward)) = gathered else { break };
            // The next layer's are on their way while this one computes.
            let next = layer + 1;
            gathered = (next < LAYERS).then(|| self.gather(next, place)).transpose()?;
            let hidden = x.matmul(&inward.wait()?)?.gelu()?;
            let mine = hidden.matmul(&outward.wait()?)?;
            x = (x + all_reduce(&mine, ReduceOp::Sum, (&place.mesh, "tensor"))?.wait()?)?;
        }
        Ok(x)
    }

    fn gather(&self, layer: usize, place: &Place) -> Result<(Pending, Pending)> {
        let gather = |at: usize| all_gather(&self.matrices[at], 0, (&place.mesh, "shards"));
        Ok((gather(2 * layer)?, gather(2 * layer + 1)?))
    }
}

const STEPS: usize = 40;
const LAYERS: usize = 3;
const WIDTH: usize = 16;
const HIDDEN: usize = 32;
/// How many rows a rank learns from in a step.
const ROWS: usize = 8;
const RATE: f64 = 0.5;
