//! The forms in which a call can be made.

use std::mem::{replace, take};

use candle_core::{Device, Tensor, Var};
use consort::functional::{self as values, Array, Collective};
use consort::{Group, ReduceOp};
use consort_train::Result;
use consort_train::candle::functional as tensors;

use crate::point::{Point, numbers};

/// A call that can be made again and again. Gives the numbers of the result if they are to be looked at;
/// otherwise it is dropped.
pub(crate) type Form<'a> = Box<dyn FnMut(bool) -> Result<Vec<f32>> + 'a>;

/// All there are for a point, with their names.
pub(crate) fn forms<'a>(
    point: &'a Point,
    group: &'a Group,
) -> Result<Vec<(&'static str, Form<'a>)>> {
    if point.op == "all_reduce_backward" {
        return Ok(vec![("candle", tracked(point, group)?)]);
    }
    let mut forms =
        vec![("functional", functional(point, group)?), ("candle", candle(point, group)?)];
    // Memory has no other dimensions.
    if point.dim == 0 {
        forms.extend([("floor", blocking(point, group)), ("async", owned(point, group))]);
    }
    Ok(forms)
}

/// Slices, out of place.
fn blocking<'a>(point: &'a Point, group: &'a Group) -> Form<'a> {
    let mut output = vec![0.0; point.expected.len()];
    Box::new(move |look| {
        let (from, to) = (&point.given, &mut output);
        match point.collective {
            Collective::AllGather { .. } => group.all_gather(from, to)?,
            Collective::ReduceScatter { .. } => group.reduce_scatter(from, to, SUM)?,
            _ => group.all_reduce_into(from, to, SUM)?,
        }
        Ok(if look { output.clone() } else { Vec::new() })
    })
}

/// Buffers that the call owns meanwhile; an all_reduce has one, which is replaced.
fn owned<'a>(point: &'a Point, group: &'a Group) -> Form<'a> {
    let zeroes = vec![0.0; point.expected.len()];
    let (mut input, mut output) = (point.given.clone(), zeroes.clone());
    if matches!(point.collective, Collective::AllReduce { .. }) {
        output.clone_from(&input);
    }
    let mut call = move |look| -> consort::Result<Vec<f32>> {
        let (from, to) = (take(&mut input), take(&mut output));
        (input, output) = match point.collective {
            Collective::AllGather { .. } => group.all_gather_async(from, to)?.wait()?,
            Collective::ReduceScatter { .. } => {
                group.reduce_scatter_async(from, to, SUM)?.wait()?
            }
            _ => (from, group.all_reduce_async(to, SUM)?.wait()?),
        };
        // Sums of nothing stay finite, however often they are taken.
        Ok(if look { replace(&mut output, zeroes.clone()) } else { Vec::new() })
    };
    Box::new(move |look| Ok(call(look)?))
}

/// Arrays.
fn functional<'a>(point: &'a Point, group: &'a Group) -> Result<Form<'a>> {
    let x = Array::new(point.shape, point.given.clone())?;
    Ok(Box::new(move |look| {
        let result = values::start(point.collective.clone(), &x, group)?.wait()?;
        Ok(if look { result.into_numbers() } else { Vec::new() })
    }))
}

/// Candle's tensors without gradients.
fn candle<'a>(point: &'a Point, group: &'a Group) -> Result<Form<'a>> {
    let x = Tensor::from_slice(&point.given, &point.shape, &Device::Cpu)?;
    Ok(Box::new(move |look| {
        let result = tensors::start(point.collective.clone(), &x, group)?.wait()?;
        Ok(if look { numbers(&result)? } else { Vec::new() })
    }))
}

/// A variable, and its backward from a gradient of ones.
fn tracked<'a>(point: &'a Point, group: &'a Group) -> Result<Form<'a>> {
    let x = Var::from_slice(&point.given, &point.shape, &Device::Cpu)?;
    Ok(Box::new(move |look| {
        let mut y = tensors::start(point.collective.clone(), &x, group)?.wait()?;
        if look {
            // So that the gradients are the numbers themselves.
            y = (y * x.as_detached_tensor())?;
        }
        let gradient = tensors::backward(&y)?.remove(&x).expect("a variable has a gradient");
        Ok(if look { numbers(&gradient)? } else { Vec::new() })
    }))
}

const SUM: ReduceOp = ReduceOp::Sum;
