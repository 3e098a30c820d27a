//! Calls on values in the memory of devices.

use std::sync::Arc;

use super::collective::Collective;
use super::meta::Meta;
use super::moving::Moving;
use super::pending::Pending;
use super::plan::Plan;
use super::ranks::Ranks;
use crate::device::{DeviceError, Memory};
use crate::error::{Error, Result};
use crate::group::Group;

/// A value in the memory of a device, for [`start_on_device`].
#[derive(Debug)]
pub struct OnDevice {
    /// What it is.
    pub meta: Meta,
    /// Its numbers. Whoever gets a value by [`broadcast`](super::broadcast) has room for it here.
    pub memory: Memory,
    /// If it is a gradient: the number of the call through which it goes back, as for
    /// [`Adjoint::start`](super::Adjoint::start).
    pub back_through: Option<u64>,
}

/// Begins a call on a value in the memory of a device. It is [`start`](super::start) for libraries that have
/// tensors there, and lay them out by themselves: a call that cuts or joins values along a dimension does so with
/// numbers that lie as they travel.
///
/// | call | numbers that go in | numbers that come out |
/// |---|---|---|
/// | [`reduce_scatter`](super::reduce_scatter) along a dimension | the part of each rank in one piece, in their order | row by row |
/// | [`all_gather`](super::all_gather) along a dimension | row by row | the value of each rank in one piece, in their order |
/// | all others | row by row | row by row |
///
/// Along the first dimension these are the same. Values change hands ([`permute`](super::permute)) by messages,
/// which [devices do not carry](crate::Group#memory-of-devices).
///
/// ```no_run
/// use consort::device::Driver;
/// use consort::functional::{Collective, Meta, OnDevice, start_on_device};
/// use consort::{Dtype, ReduceOp};
///
/// let group = consort::init()?;
/// let device = Driver::load().and_then(|driver| driver.device(0)).expect("there is an accelerator");
/// let memory = device.allocate(4 * 6).expect("it has memory left");
/// let x = OnDevice { meta: Meta::new(Dtype::F32, [2, 3]), memory, back_through: None };
/// let sum = start_on_device(Collective::AllReduce { op: ReduceOp::Sum }, x, &group)?;
/// let memory = sum.wait()?; // six numbers
/// # assert_eq!(memory.len(), 24);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// As [`start`](super::start); and when the memory has another size than the value, the device has no room for the
/// result, or nobody carries out such calls.
#[track_caller]
pub fn start_on_device(
    collective: Collective,
    x: OnDevice,
    ranks: impl Ranks,
) -> Result<Pending<Arc<Memory>>> {
    let group = ranks.group()?;
    let (plan, moving) = prepare(collective, x, &group)?;
    let work = group.call_async(moving)?;
    Ok(Pending::after(work, move |moved| arrive(moved?, &plan, &group)))
}

/// Begins several such calls that are carried out together, as [`coalesced`](super::coalesced) does.
///
/// # Errors
/// As [`start_on_device`]. None of the calls was made then.
#[track_caller]
pub fn coalesced_on_device(
    calls: Vec<(Collective, OnDevice)>,
    ranks: impl Ranks,
) -> Result<Pending<Vec<Arc<Memory>>>> {
    let group = ranks.group()?;
    if calls.is_empty() {
        return Ok(Pending::ready(Vec::new()));
    }
    let prepared = calls.into_iter().map(|(collective, x)| prepare(collective, x, &group));
    let (plans, moving): (Vec<_>, Vec<_>) =
        prepared.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let work = group.coalesced(|calls| {
        moving.into_iter().map(|moving| Ok(calls.call(moving)?)).collect::<Result<Vec<_>>>()
    })?;
    Ok(Pending::after(work, move |moved| {
        let each = moved?.into_iter().zip(plans);
        each.map(|(moved, plan)| arrive(moved, &plan, &group)).collect()
    }))
}

/// A call, and the memory that it owns.
fn prepare(collective: Collective, x: OnDevice, group: &Group) -> Result<(Plan, Moving<Memory>)> {
    let OnDevice { meta, memory, back_through } = x;
    let plan = Plan { back_through, ..Plan::of(collective, meta, group)? };
    let name = plan.collective.name();
    if memory.len() != plan.x.bytes() {
        let (x, bytes) = (&plan.x, memory.len());
        return Err(Error::Argument(format!("{name}: {bytes} bytes of a device are not {x}")));
    }
    let (input, output) = match plan.collective {
        Collective::Broadcast { .. } | Collective::AllReduce { .. } | Collective::Reduce { .. } => {
            (None, memory)
        }
        Collective::Permute { .. } => {
            let what = "permute: values change hands by messages, which are not carried in memory of devices: copy \
                        the value to the host first";
            return Err(Error::Argument(what.to_owned()));
        }
        _ => {
            let room = memory.device().allocate(plan.y.bytes());
            let room = room.map_err(|error| {
                Error::Argument(format!("{name}: there is no room for {}: {error}", plan.y))
            })?;
            (Some(memory), room)
        }
    };
    let moving = Moving::new(&plan, group, input, output);
    Ok((plan, moving))
}

/// The result, when the call is done.
fn arrive(moved: Moving<Memory>, plan: &Plan, group: &Group) -> Result<Arc<Memory>> {
    let mut result = moved.into_output();
    if let Collective::Reduce { root, .. } = plan.collective
        && root != group.rank()
    {
        let all = 0..result.len();
        result.fill(all, 0).map_err(failed)?;
    }
    Ok(Arc::new(result))
}

fn failed(error: DeviceError) -> Error {
    Error::Argument(error.to_string())
}
