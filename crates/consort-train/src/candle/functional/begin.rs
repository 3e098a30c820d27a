//! How calls on tensors begin.

use candle_core::{Device, Tensor, Var};
use consort::Group;
use consort::functional::{self as values, Adjoint, Collective, Ranks};

use super::Pending;
use super::on_device;
use super::passage::{Passage, wants_gradient};
use super::rows::Rows;
use crate::error::{Error, Result};

/// Begins any of the calls. The functions of this module that are called after one are the same with fewer
/// words.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use consort::functional::Collective;
/// use consort_train::candle::functional::start;
///
/// # fn main() -> consort_train::Result<()> {
/// let group = consort::Group::fake(0, 4)?;
/// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &Device::Cpu)?;
/// let all = start(Collective::AllGather { dim: 1 }, &x, &group)?;
/// assert_eq!(all.get()?.dims(), [2, 8]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the call makes no sense, or has no gradient and one is wanted. Nothing is moved then, and the group
/// goes on. What happens later is told by the [`Pending`].
#[track_caller]
pub fn start(collective: Collective, x: &Tensor, ranks: impl Ranks) -> Result<Pending> {
    let group = ranks.group()?;
    let mut passage = Passage::of(&collective, x, &group)?;
    let begun = begin(collective, x, &group)?;
    passage = Passage::begun(passage, &group);
    let x = x.clone();
    Ok(begun.then(move |result| arrive(passage, &x, result)))
}

/// Begins several calls that are carried out together, with nothing between them, and gives all results at
/// once, in the order of the calls.
///
/// # Errors
/// As [`start`]. None of the calls was made then.
#[track_caller]
pub fn coalesced(
    calls: &[(Collective, &Tensor)],
    ranks: impl Ranks,
) -> Result<Pending<Vec<Tensor>>> {
    let group = ranks.group()?;
    let passages = calls.iter().map(|(collective, x)| Passage::of(collective, x, &group));
    let passages = passages.collect::<consort::Result<Vec<_>>>()?;
    let pending = begin_together(calls, &group)?;
    let begun = |passage| Passage::begun(passage, &group);
    let passages: Vec<_> = passages.into_iter().map(begun).collect();
    let xs: Vec<Tensor> = calls.iter().map(|&(_, x)| x.clone()).collect();
    Ok(pending.map(move |results| {
        let each = xs.into_iter().zip(passages).zip(results);
        each.map(|((x, passage), result)| arrive(passage, &x, result)).collect()
    }))
}

/// Begins a call whose result replaces the numbers of a variable.
#[track_caller]
pub(super) fn start_into(
    collective: Collective,
    x: &Tensor,
    out: &Var,
    ranks: impl Ranks,
) -> Result<Pending<Var>> {
    let begun = begin(collective, &x.detach(), &ranks.group()?)?;
    let out = out.clone();
    Ok(begun.then(move |result| {
        out.set(&result.to_device(out.device())?)?;
        Ok(out)
    }))
}

/// Begins a call on each of several variables, whose numbers are replaced by the results.
#[track_caller]
pub(super) fn start_all_in_place(
    collective: &Collective,
    variables: &[&Var],
    ranks: impl Ranks,
) -> Result<Pending<Vec<Var>>> {
    let xs: Vec<Tensor> = variables.iter().map(|var| var.as_detached_tensor()).collect();
    let calls: Vec<_> = xs.iter().map(|x| (collective.clone(), x)).collect();
    let pending = begin_together(&calls, &ranks.group()?)?;
    let variables: Vec<Var> = variables.iter().map(|&var| var.clone()).collect();
    Ok(pending.map(move |results| {
        for (variable, result) in variables.iter().zip(results) {
            variable.set(&result)?;
        }
        Ok(variables)
    }))
}

/// Begins a call where its tensor is: on the host, or on a CUDA device. What changes hands by messages goes by
/// way of the host, and back to where it was.
#[track_caller]
fn begin(collective: Collective, x: &Tensor, group: &Group) -> Result<Begun> {
    if is_on_device(&collective, x) {
        return on_device::start(collective, x, None, group).map(Begun::OnDevice);
    }
    let pending = values::start(collective, &Rows(x.clone()), group)?;
    Ok(Begun::OnHost(pending, x.device().clone()))
}

/// A call that was begun: what comes of it, or what becomes of that on a device.
pub(super) enum Begun {
    OnHost(values::Pending<Rows>, Device),
    OnDevice(Pending),
}

impl Begun {
    /// What is made of the tensor that has come.
    pub(super) fn then<T>(self, f: impl FnOnce(Tensor) -> Result<T> + Send + 'static) -> Pending<T>
    where
        T: Clone + Send + Sync + 'static,
    {
        match self {
            Self::OnDevice(pending) => pending.map(f),
            Self::OnHost(pending, device) => {
                pending.map_with(move |Rows(result)| f(result.to_device(&device)?))
            }
        }
    }
}

/// Begins to take a gradient back through a call of this number.
#[track_caller]
pub(super) fn begin_back(
    back: &Adjoint,
    gradient: &Tensor,
    number: u64,
    group: &Group,
) -> Result<Begun> {
    if is_on_device(&back.collective, gradient) {
        let collective = back.collective.clone();
        return on_device::start(collective, gradient, Some(number), group).map(Begun::OnDevice);
    }
    let pending = back.start(&Rows(gradient.clone()), number, group)?;
    Ok(Begun::OnHost(pending, gradient.device().clone()))
}

/// Begins several as one, which all have their tensors on the host, or all on CUDA devices.
#[track_caller]
fn begin_together(calls: &[(Collective, &Tensor)], group: &Group) -> Result<Pending<Vec<Tensor>>> {
    let there = calls.iter().filter(|(collective, x)| is_on_device(collective, x)).count();
    if there == 0 {
        let xs: Vec<Rows> = calls.iter().map(|&(_, x)| Rows(x.clone())).collect();
        let devices: Vec<_> = calls.iter().map(|&(_, x)| x.device().clone()).collect();
        let calls: Vec<_> = calls.iter().zip(&xs).map(|((call, _), x)| (call.clone(), x)).collect();
        return Ok(values::coalesced(&calls, group)?.map_with(move |results| {
            let each = results.into_iter().zip(&devices);
            each.map(|(Rows(result), device)| Ok(result.to_device(device)?)).collect()
        }));
    }
    if there == calls.len() {
        return on_device::coalesced(calls, group);
    }
    let what = "calls that are carried out together are all on tensors of the host, or all on tensors of CUDA \
                devices, where a permute is one of the host's";
    Err(Error::Argument(what.to_owned()))
}

/// Whether a call is carried out on the device that its tensor is on.
fn is_on_device(collective: &Collective, x: &Tensor) -> bool {
    x.device().is_cuda() && !matches!(collective, Collective::Permute { .. })
}

/// The same value on every rank, whose gradients are added up: nothing moves forward, and what comes back
/// is the sum of all ranks' gradients.
pub(super) fn replicate(x: &Tensor, group: &Group) -> Result<Tensor> {
    let passage = wants_gradient(x).then(|| Passage::of_replicas(group));
    match Passage::begun(passage, group) {
        Some(passage) => Ok(passage.stay(x)?),
        None => Ok(x.clone()),
    }
}

/// What has come out, with the way back if there is one.
fn arrive(passage: Option<Passage>, x: &Tensor, result: Tensor) -> Result<Tensor> {
    match passage {
        None => Ok(result),
        Some(passage) => Ok(passage.arrive(x, &result)?),
    }
}
