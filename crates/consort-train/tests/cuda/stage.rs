//! Ranks that have a CUDA device each.

use std::time::Duration;

use candle_core::{DType, Device, Tensor, WithDType};
use consort::Group;
use consort_testkit::Context;

use super::invitation::invited;

/// The group of all ranks, and this rank's device.
pub(crate) fn meet(ctx: &Context) -> (Group, Device) {
    let group = invited(ctx).timeout(LONG).init().unwrap();
    let device = Device::new_cuda(group.local_rank()).unwrap();
    (group, device)
}

/// Whole numbers of which each rank and each place has its own, so that sums are the same in any order.
pub(crate) fn coded(rank: usize, shape: &[usize], on: &Device) -> Tensor {
    let count = shape.iter().product::<usize>();
    let numbers = (0..count).map(|at| ((at * 29 + rank * 47 + 11) % 127) as f32 - 60.0);
    Tensor::from_vec(numbers.collect::<Vec<_>>(), shape, &Device::Cpu)
        .unwrap()
        .to_device(on)
        .unwrap()
}

/// All numbers of a tensor, wherever it is.
pub(crate) fn numbers<T: WithDType>(tensor: &Tensor) -> Vec<T> {
    let there = tensor.to_device(&Device::Cpu).unwrap();
    there.flatten_all().unwrap().to_vec1().unwrap()
}

/// The same as numbers of one kind.
pub(crate) fn plain(tensor: &Tensor) -> Vec<f64> {
    let there = tensor.to_device(&Device::Cpu).unwrap().to_dtype(DType::F64).unwrap();
    numbers(&there)
}

/// Whether numbers are the same but for rounding, which is NCCL's own where averages are not exact.
pub(crate) fn assert_near(one: &[f64], other: &[f64]) {
    assert_eq!(one.len(), other.len());
    let far = |(a, b): (&f64, &f64)| (a - b).abs() / (1.0 + b.abs());
    let far = one.iter().zip(other).map(far).fold(0.0, f64::max);
    assert!(far < 1e-5, "{far} apart");
}

pub(crate) const LONG: Duration = Duration::from_secs(60);
