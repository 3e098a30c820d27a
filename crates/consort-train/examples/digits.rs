//! Ranks learn together to read digits: what `consort demo` shows, without the showing.
//!
//! ```text
//! cargo build --release -p consort-cli -p consort-train --features consort-train/candle --example digits --bins
//! target/release/consort run -n 2 -- target/release/examples/digits
//! ```
//!
//! The same on many hosts, and on GPUs: docs/cluster.md.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::loss::cross_entropy;
use candle_nn::{AdamW, Conv2d, Conv2dConfig, Linear, Module, VarBuilder, VarMap, conv2d, linear};
use consort::ReduceOp;
use consort_train::candle::{DistributedDataParallel, Options};

use digits::{SIDE, Set, draw};

// Where the pictures come from.
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../../consort-cli/src/demo/digits.rs"]
mod digits;
#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../../consort-cli/src/demo/random.rs"]
mod random;
#[path = "../../consort-cli/src/demo/strokes.rs"]
mod strokes;

fn main() -> consort_train::Result<()> {
    let group = consort::init()?;
    let (rank, world) = (group.rank().get() as usize, group.world());
    // The GPU of this rank's number on its host, if the program is built for GPUs; the host if not.
    let device = Device::cuda_if_available(group.local_rank())?;
    if rank == 0 {
        let (here, by, place) = (group.local_world(), group.backend_name()?, device.location());
        println!("{world} ranks, {here} on this host; tensors on {place:?}; calls by {by}");
    }
    let (variables, here) = (VarMap::new(), Options::new().device(&device));
    let (ddp, net) =
        DistributedDataParallel::with_options(&group, &variables, DType::F32, here, Net::new)?;
    let mut optimizer = AdamW::new_lr(ddp.vars(), 2e-3)?;

    let each = (BATCH / world).max(1);
    for step in 0..STEPS {
        // Every rank learns from another part of the batch.
        let first = (step * world + rank) * each % Set::Training.len();
        let (pictures, labels) = load(Set::Training, first, each, &device)?;
        let loss = cross_entropy(&net.forward(&pictures)?, &labels)?;
        // The one line that is different with several ranks.
        ddp.backward_step(&mut optimizer, &loss)?;
        if rank == 0 && (step + 1) % 20 == 0 {
            println!("step {}: loss {:.3}", step + 1, loss.to_scalar::<f32>()?);
        }
    }

    let tests = (Set::Test.len() / world).max(1);
    let (pictures, labels) = load(Set::Test, rank * tests, tests, &device)?;
    let answers = net.forward(&pictures)?.argmax(D::Minus1)?;
    let right = answers.eq(&labels)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?;
    let mut counts = [right, tests as f32];
    group.all_reduce(&mut counts, ReduceOp::Sum)?;
    ddp.verify()?;
    if rank == 0 {
        let percent = 100.0 * counts[0] / counts[1];
        println!("{percent:.1} % of {} pictures it has not seen are read rightly", counts[1]);
    }
    Ok(())
}

/// Some pictures of a set, and what they show.
fn load(set: Set, first: usize, count: usize, device: &Device) -> Result<(Tensor, Tensor)> {
    let digits = (0..count).map(|at| draw(1, set, (first + at) % set.len()));
    let (pixels, labels): (Vec<_>, Vec<_>) =
        digits.map(|digit| (digit.pixels, u32::from(digit.label))).unzip();
    let pictures = Tensor::from_vec(pixels.concat(), (count, 1, SIDE, SIDE), device)?;
    Ok((pictures, Tensor::from_vec(labels, count, device)?))
}

/// Two convolutions, each of which halves width and height, and two full layers.
struct Net(Conv2d, Conv2d, Linear, Linear);

impl Net {
    fn new(vb: VarBuilder<'_>) -> Result<Self> {
        let stride = Conv2dConfig { padding: 1, stride: 2, ..Conv2dConfig::default() };
        Ok(Self(
            conv2d(1, 16, 3, stride, vb.pp("edges"))?,
            conv2d(16, 32, 3, stride, vb.pp("shapes"))?,
            linear(32 * SIDE * SIDE / 16, 64, vb.pp("parts"))?,
            linear(64, 10, vb.pp("digit"))?,
        ))
    }

    fn forward(&self, pictures: &Tensor) -> Result<Tensor> {
        let shapes = self.1.forward(&self.0.forward(pictures)?.relu()?)?.relu()?;
        self.3.forward(&self.2.forward(&shapes.flatten_from(1)?)?.relu()?)
    }
}

const STEPS: usize = 200;
const BATCH: usize = 128;
