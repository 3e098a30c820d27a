//! Several processes teach one small network which of two spirals a point is on.
//!
//! ```text
//! cargo build -p consort-train --features candle --example candle
//! cargo run --bin consort -- run -n 4 -- target/debug/examples/candle
//! ```

use candle_core::{DType, Device, Tensor};
use candle_nn::{AdamW, Linear, Module, VarBuilder, VarMap, linear, loss};
use consort::ReduceOp;
use consort_train::candle::DistributedDataParallel;
use consort_train::{DistributedSampler, Result};

/// Two hidden layers.
struct Net([Linear; 3]);

impl Net {
    fn new(vb: VarBuilder<'static>) -> candle_core::Result<Self> {
        let first = linear(2, HIDDEN, vb.pp("first"))?;
        let second = linear(HIDDEN, HIDDEN, vb.pp("second"))?;
        Ok(Self([first, second, linear(HIDDEN, 2, vb.pp("last"))?]))
    }
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let [first, second, last] = &self.0;
        last.forward(&second.forward(&first.forward(x)?.tanh()?)?.tanh()?)
    }
}

fn main() -> Result<()> {
    let group = consort::init()?;
    let variables = VarMap::new();
    let (ddp, net) = DistributedDataParallel::new(&group, &variables, DType::F32, Net::new)?;
    let mut optimizer = AdamW::new_lr(ddp.vars(), 0.01)?;
    let sampler = DistributedSampler::new(POINTS, &group).shuffled(1);
    for epoch in 0..EPOCHS {
        let mut sum = [0.0, 0.0];
        for batch in sampler.indices(epoch).chunks((BATCH / group.world()).max(1)) {
            let (x, y) = points(batch)?;
            let loss = loss::cross_entropy(&net.forward(&x)?, &y)?;
            ddp.backward_step(&mut optimizer, &loss)?;
            sum = [sum[0] + loss.to_scalar::<f32>()?, sum[1] + 1.0];
        }
        if (epoch + 1).is_multiple_of(20) {
            group.all_reduce(&mut sum, ReduceOp::Sum)?;
            if group.rank() == 0 {
                println!("epoch {}: a loss of {:.3}", epoch + 1, sum[0] / sum[1]);
            }
        }
    }
    ddp.verify()?;
    // Every rank tries a part of the points.
    let mine = sampler.in_order().uneven().indices(0);
    let (x, y) = points(&mine)?;
    let is_right = net.forward(&x)?.argmax(1)?.eq(&y)?.to_dtype(DType::F32)?;
    let mut right = [is_right.sum_all()?.to_scalar::<f32>()?];
    group.all_reduce(&mut right, ReduceOp::Sum)?;
    println!(
        "rank {}: all {} ranks have learned the same, and know {:.1} % of {POINTS} points",
        group.rank(),
        group.world(),
        right[0] * 100.0 / POINTS as f32
    );
    Ok(())
}

/// Some of the points, and which spiral each is on.
fn points(which: &[usize]) -> candle_core::Result<(Tensor, Tensor)> {
    let (mut places, mut spirals) = (Vec::new(), Vec::new());
    for &at in which {
        let (spiral, way) = (at % 2, (at / 2) as f32 * 2.0 / POINTS as f32);
        let angle = way * 6.0 + spiral as f32 * std::f32::consts::PI;
        places.extend([way * angle.cos(), way * angle.sin()]);
        spirals.push(spiral as u32);
    }
    let places = Tensor::from_vec(places, (which.len(), 2), &Device::Cpu)?;
    Ok((places, Tensor::from_vec(spirals, which.len(), &Device::Cpu)?))
}

const HIDDEN: usize = 24;
const POINTS: usize = 800;
/// Points in a step, of all ranks together.
const BATCH: usize = 80;
const EPOCHS: u64 = 100;
