//! Calls on tensors of CUDA devices.
//!
//! A tensor is copied to memory of consort's on its device, in the order in which its numbers travel, and what
//! comes out is copied to memory of candle's there. Candle lays numbers out where a call cuts or joins them along
//! another dimension than the first.

use std::sync::Arc;

use candle_core::{Device, Shape, Tensor};
use consort::Group;
use consort::device::Memory;
use consort::functional::{self as values, Collective, Meta, OnDevice};

use super::{Pending, meta};
use crate::candle::cuda::{copy_out, settle, take_over, upload};
use crate::error::Result;

/// Begins a call on a tensor of a CUDA device. A gradient goes back through the call of this number.
#[track_caller]
pub(super) fn start(
    collective: Collective,
    x: &Tensor,
    back_through: Option<u64>,
    group: &Group,
) -> Result<Pending> {
    let (arrival, x) = depart(&collective, x, back_through, group)?;
    let pending = values::start_on_device(collective, x, group)?;
    Ok(pending.map_with(move |memory| arrival.tensor(&memory)))
}

/// Begins several, as one.
#[track_caller]
pub(super) fn coalesced(
    calls: &[(Collective, &Tensor)],
    group: &Group,
) -> Result<Pending<Vec<Tensor>>> {
    let (mut arrivals, mut leaving) = (Vec::new(), Vec::new());
    for (collective, x) in calls {
        let (arrival, x) = depart(collective, x, None, group)?;
        arrivals.push(arrival);
        leaving.push((collective.clone(), x));
    }
    let pending = values::coalesced_on_device(leaving, group)?;
    Ok(pending.map_with(move |results| {
        results.iter().zip(&arrivals).map(|(memory, arrival)| arrival.tensor(memory)).collect()
    }))
}

/// How numbers become a tensor again.
struct Arrival {
    y: Meta,
    dtype: candle_core::DType,
    device: Device,
    /// If the values of this many ranks are to be joined: how many numbers of each are before the dimension.
    joined: Option<(usize, usize)>,
}

/// A copy of a tensor, as it travels.
fn depart(
    collective: &Collective,
    x: &Tensor,
    back_through: Option<u64>,
    group: &Group,
) -> Result<(Arrival, OnDevice)> {
    let (of_x, world) = (meta(x.shape(), x.dtype())?, group.world());
    let y = collective.meta(&of_x, group.rank(), world)?;
    let before = |dim: usize| x.dims()[..dim].iter().product::<usize>();
    let joined = match collective {
        Collective::AllGather { dim } => Some((world, before(*dim))).filter(|it| it.1 != 1),
        _ => None,
    };
    let memory = match collective {
        Collective::ReduceScatter { dim, .. } if before(*dim) != 1 => {
            // All that belongs to a rank in one piece.
            let rest = x.elem_count() / before(*dim).max(1) / world;
            upload(&x.reshape((before(*dim), world, rest))?.transpose(0, 1)?)?
        }
        _ => upload(x)?,
    };
    let (dtype, device) = (x.dtype(), x.device().clone());
    Ok((Arrival { y, dtype, device, joined }, OnDevice { meta: of_x, memory, back_through }))
}

impl Arrival {
    fn tensor(&self, memory: &Arc<Memory>) -> Result<Tensor> {
        let device = self.device.as_cuda_device()?;
        // What comes of a call may have been filled with zeroes on the way, in the default stream.
        take_over(device)?;
        let shape = Shape::from(&self.y.shape[..]);
        let tensor = match self.joined {
            None => copy_out(memory.source(), self.dtype, &shape, device)?,
            Some((ranks, before)) => {
                let rest = shape.elem_count() / ranks / before.max(1);
                let parts = Shape::from((ranks, before, rest));
                let parts = copy_out(memory.source(), self.dtype, &parts, device)?;
                parts.transpose(0, 1)?.contiguous()?.reshape(&shape)?
            }
        };
        // The memory is given back to the driver after this.
        settle(device)?;
        Ok(tensor)
    }
}
