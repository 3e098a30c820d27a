//! Training in which no rank has the whole model: each keeps a part of every layer, and gathers the rest
//! when the layer's turn comes.
//!
//! ```text
//! cargo build --release -p consort-cli -p consort-train --features consort-train/candle --example fully_sharded --bins
//! target/release/consort run -n 2 -- target/release/examples/fully_sharded
//! target/release/consort run -n 2 -- target/release/examples/fully_sharded --blocking
//! ```
//!
//! Every rank has its own part of the batch. Forward, the weights of the next layer are gathered while this one
//! computes. Backward, the gradient of a layer is added up over all ranks and cut into parts again, while
//! the layers before it compute theirs; so each rank has the gradient of what it keeps, and changes that.
//!
//! ```text
//! forward   gather 0 │ gather 1 │ gather 2 │
//!                    │ layer 0  │ layer 1  │ layer 2
//! backward           │ layer 2  │ layer 1          │ layer 0          │
//!                               │ reduce_scatter 2 │ reduce_scatter 1 │ reduce_scatter 0
//! ```
//!
//! Candle's graph keeps the gathered weights until backward has used them: what is saved here is the memory
//! of gradients and of whatever an optimizer keeps.
//!
//! At the end rank 0 says how much of the calls' time was hidden behind computation, and `parts/overlap.rs` how
//! that is known. The time of a call includes waiting for other ranks. With `--blocking`, backward waits for
//! every reduce_scatter before it goes on, as candle's own does: then nothing of them is hidden.

use std::ops::Range;

use candle_core::{Tensor, Var};
use consort::Group;
use consort::trace::CallTrace;
use consort_train::candle::functional::{all_gather, backward};
use consort_train::{Error, Result};

#[path = "parts/overlap.rs"]
mod overlap;
#[allow(dead_code, reason = "each of the examples needs some of it")]
mod parts;

use overlap::Overlap;
use parts::{descend, distance, inputs, weights};

/// What a rank keeps of the model.
struct Model {
    /// Some rows of every layer's weights.
    shards: Vec<Var>,
    is_blocking: bool,
    overlap: Overlap,
}

impl Model {
    fn forward(&mut self, x: &Tensor, group: &Group) -> Result<Tensor> {
        let mut x = x.clone();
        let mut next = all_gather(&self.shards[0], 0, group)?;
        for shard in &self.shards[1..] {
            let weights = next.wait()?;
            next = all_gather(shard, 0, group)?;
            x = self.overlap.computing(|| x.matmul(&weights)?.tanh())?;
        }
        Ok(x.matmul(&next.wait()?)?)
    }

    /// Learns from this rank's rows of a batch of so many. Gives this rank's part of the loss before.
    fn step(
        &mut self,
        step: usize,
        rows: Range<usize>,
        batch: usize,
        group: &Group,
    ) -> Result<f32> {
        let x = inputs(step, rows, WIDTH)?;
        // What it is to say: the numbers of the other half, and no more than half of them.
        let half = WIDTH / 2;
        let wanted = (Tensor::cat(&[x.narrow(1, half, half)?, x.narrow(1, 0, half)?], 1)? * 0.5)?;
        let errors = (self.forward(&x, group)? - wanted)?.sqr()?;
        // What is differentiated is the sum of all ranks' losses: the mean over the whole batch.
        let loss = (errors.sum_all()? / (batch * WIDTH) as f64)?;
        let gradients = if self.is_blocking { loss.backward()? } else { backward(&loss)? };
        descend(&self.shards, &gradients, RATE)?;
        Ok(loss.to_scalar()?)
    }

    fn new(is_blocking: bool, group: &Group) -> Result<Self> {
        let (rank, world) = (group.rank().index(), group.world());
        if !WIDTH.is_multiple_of(world) {
            return Err(Error::Argument(format!(
                "{world} ranks cannot share {WIDTH} rows equally"
            )));
        }
        let rows = rank * WIDTH / world..(rank + 1) * WIDTH / world;
        let shard = |layer| weights(&format!("layer {layer}"), rows.clone(), 0..WIDTH, WIDTH);
        let shards = (0..LAYERS).map(shard).collect::<candle_core::Result<_>>()?;
        Ok(Self { shards, is_blocking, overlap: Overlap::default() })
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => train(false, &consort::init()?),
        ["--blocking"] => train(true, &consort::init()?),
        _ => {
            eprintln!("usage: fully_sharded [--blocking]");
            std::process::exit(2)
        }
    }
}

/// All ranks train one model. Beside it every rank trains the whole of it alone, with all data, to compare.
fn train(is_blocking: bool, group: &Group) -> Result<()> {
    let (rank, world, alone) = (group.rank().index(), group.world(), Group::fake(0, 1)?);
    let (mut model, mut whole) =
        (Model::new(is_blocking, group)?, Model::new(is_blocking, &alone)?);
    for step in 0..STEPS {
        let mine = rank * BATCH..(rank + 1) * BATCH;
        let together = model.step(step, mine, world * BATCH, group)?;
        let by_itself = whole.step(step, 0..world * BATCH, world * BATCH, &alone)?;
        // That of all ranks is the sum of theirs.
        let mut sum = [together];
        group.all_reduce(&mut sum, consort::ReduceOp::Sum)?;
        assert!((sum[0] - by_itself).abs() < 1e-4, "{} is not {by_itself}", sum[0]);
        if rank == 0 && (step + 1) % 10 == 0 {
            println!("step {}: loss {:.5}, in one process {by_itself:.5}", step + 1, sum[0]);
        }
    }
    let mut far: f32 = 0.0;
    for (shard, whole) in model.shards.iter().zip(&whole.shards) {
        let all = all_gather(&shard.as_detached_tensor(), 0, group)?.wait()?;
        far = far.max(distance(&all, whole)?);
    }
    assert!(far < 1e-4, "weights are {far} apart");
    let (kept, all) = (model.shards[0].elem_count() * LAYERS, WIDTH * WIDTH * LAYERS);
    if rank == 0 {
        println!(
            "{world} ranks keep {kept} of {all} weights each, at most {far:.1e} from one process"
        );
        let calls = recorded(group);
        let gathers = model.overlap.of_gathers(&calls, LAYERS);
        let scatters = model.overlap.of_scatters(&calls, LAYERS);
        println!("while other layers computed: {gathers} of gathering weights");
        println!("while other layers computed: {scatters} of adding up gradients");
        println!(
            "this includes waiting for other ranks; where ranks use all cores, calls take theirs from \
             layers, and less is hidden"
        );
    }
    Ok(())
}

/// The calls of all steps.
fn recorded(group: &Group) -> Vec<CallTrace> {
    let Some(mut trace) = group.trace() else { return Vec::new() };
    let mut calls = std::mem::take(&mut trace.groups[0].calls);
    calls.retain(|call| call.number <= CALLS_OF_A_STEP * STEPS as u64);
    calls
}

const STEPS: usize = 40;
const LAYERS: usize = 4;
const WIDTH: usize = 240;
/// How many rows each rank learns from in a step.
const BATCH: usize = 32;
const RATE: f64 = 2.0;
/// A gather and a reduce_scatter of every layer, and the sum of losses.
const CALLS_OF_A_STEP: u64 = 2 * LAYERS as u64 + 1;
