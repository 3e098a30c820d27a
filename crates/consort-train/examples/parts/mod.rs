//! What the examples of parted models share: numbers that are the same whoever makes them, and steps.

use std::ops::Range;

use candle_core::backprop::GradStore;
use candle_core::{Device, Result, Tensor, Var};

/// A part of a matrix of weights, which is the same whether one rank has all of it or each has some.
pub(crate) fn weights(
    name: &str,
    rows: Range<usize>,
    columns: Range<usize>,
    width: usize,
) -> Result<Var> {
    let shape = (rows.len(), columns.len());
    let scale = 1.0 / (width as f32).sqrt();
    let all = rows.flat_map(|row| columns.clone().map(move |column| (row, column)));
    let numbers = all.map(|(row, column)| scale * chance(name, row, column)).collect::<Vec<_>>();
    Var::from_vec(numbers, shape, &Device::Cpu)
}

/// Some rows of inputs, of which a step has its own.
pub(crate) fn inputs(step: usize, rows: Range<usize>, width: usize) -> Result<Tensor> {
    let shape = (rows.len(), width);
    let all = rows.flat_map(|row| (0..width).map(move |column| (row, column)));
    let numbers = all.map(|(row, column)| chance("inputs", step * 1_000 + row, column));
    Tensor::from_vec(numbers.collect(), shape, &Device::Cpu)
}

/// One step down the gradients.
pub(crate) fn descend<'a>(
    variables: impl IntoIterator<Item = &'a Var>,
    gradients: &GradStore,
    rate: f64,
) -> Result<()> {
    for variable in variables {
        if let Some(gradient) = gradients.get(variable) {
            variable.set(&(variable.as_tensor() - (gradient * rate)?)?)?;
        }
    }
    Ok(())
}

/// How far apart the numbers of two tensors are at the most.
pub(crate) fn distance(one: &Tensor, other: &Tensor) -> Result<f32> {
    (one - other)?.abs()?.max_all()?.to_scalar()
}

/// A number between -1 and 1 that depends on nothing but its name and place.
fn chance(name: &str, row: usize, column: usize) -> f32 {
    let fold = |bits: u64, byte| bits.wrapping_mul(31).wrapping_add(u64::from(byte));
    let mut bits = name.bytes().fold(1, fold);
    for word in [row, column] {
        bits = (bits ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits ^= bits >> 29;
    }
    (bits >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
}
