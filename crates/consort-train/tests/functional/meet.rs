//! How the ranks of a test meet, and what they have then.

use std::time::Duration;

use candle_core::{
    CpuStorage, CustomOp1, DType, Device, Layout, Result, Shape, Tensor, Var, backprop::GradStore,
};
use consort::Group;
use consort_testkit::Context;

use super::invitation::invited;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).timeout(LONG).init().unwrap()
}

/// Says something to all ranks, by the store.
pub(crate) fn signal(group: &Group, what: &str) {
    group.store().add(what, 1).unwrap();
}

/// Waits until so many have said it.
pub(crate) fn await_signal(group: &Group, what: &str, count: usize) {
    while group.store().add(what, 0).unwrap() < count as i64 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until all ranks are past their last call: whoever is still in it when a group fails would fail
/// there.
pub(crate) fn await_all(group: &Group, what: &str) {
    signal(group, what);
    await_signal(group, what, group.world());
}

/// Numbers between -0.5 and 0.5 of which each rank and each place has its own. All are multiples of a
/// hundred-and-twenty-eighth, which every dtype has.
pub(crate) fn coded(rank: usize, seed: usize, count: usize) -> Vec<f64> {
    let number = |at: usize| ((at * 29 + rank * 47 + seed * 71 + 11) % 127) as f64 / 128.0 - 0.5;
    (0..count).map(number).collect()
}

/// These numbers as a tensor.
pub(crate) fn tensor(numbers: &[f64], shape: &[usize], dtype: DType) -> Tensor {
    let tensor = Tensor::from_vec(numbers.to_vec(), shape, &Device::Cpu);
    tensor.unwrap().to_dtype(dtype).unwrap()
}

/// Such numbers as a tensor.
pub(crate) fn coded_tensor(rank: usize, seed: usize, shape: &[usize], dtype: DType) -> Tensor {
    tensor(&coded(rank, seed, shape.iter().product()), shape, dtype)
}

/// Such numbers as a variable.
pub(crate) fn coded_var(rank: usize, seed: usize, shape: &[usize], dtype: DType) -> Var {
    Var::from_tensor(&coded_tensor(rank, seed, shape, dtype)).unwrap()
}

/// How far a tensor is from what one rank wants of it: each place has a weight of its own.
pub(crate) fn loss_of(y: &Tensor, rank: usize, seed: usize) -> Result<Tensor> {
    let weights = coded_tensor(rank, seed + 1000, y.dims(), y.dtype());
    ((y.tanh()? * weights)? * 3.0)?.sum_all()
}

/// All numbers of a tensor.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The same as bits.
pub(crate) fn bits(tensor: &Tensor) -> Vec<u64> {
    numbers(tensor).into_iter().map(f64::to_bits).collect()
}

/// The gradient of a variable, which has its shape and dtype.
pub(crate) fn gradient(gradients: &GradStore, of: &Var) -> Tensor {
    let gradient = gradients.get(of).expect("it has a part in the loss");
    assert_eq!((gradient.shape(), gradient.dtype()), (of.shape(), of.dtype()));
    gradient.clone()
}

/// Makes sure that two tensors differ by rounding at the most.
pub(crate) fn assert_close(one: &Tensor, other: &Tensor, tolerance: f64, what: &str) {
    assert_eq!(one.shape(), other.shape(), "{what}");
    for (at, (a, b)) in numbers(one).into_iter().zip(numbers(other)).enumerate() {
        let allowed = tolerance * (1.0 + b.abs());
        assert!((a - b).abs() <= allowed, "{what}, place {at}: {a} instead of {b}");
    }
}

/// Each rank's to the next.
pub(crate) fn circle(world: usize) -> Vec<(u32, u32)> {
    let world = world as u32;
    (0..world).map(|rank| (rank, (rank + 1) % world)).collect()
}

/// Changes nothing, and does something when backward comes by.
pub(crate) struct Mark<F>(pub(crate) F);

impl<F: Fn() -> Result<()> + Send + Sync> Mark<F> {
    /// Backward comes by before it goes on with what led to this tensor.
    pub(crate) fn on(self, x: &Tensor) -> Tensor
    where
        F: 'static,
    {
        x.contiguous().unwrap().apply_op1(self).unwrap()
    }
}

impl<F: Fn() -> Result<()>> CustomOp1 for Mark<F> {
    fn name(&self) -> &'static str {
        "mark"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        assert!(layout.is_contiguous() && layout.start_offset() == 0);
        Ok((storage.clone(), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        self.0()?;
        Ok(Some(gradient.clone()))
    }
}

/// Longer than anything takes, even if others use the cores.
const LONG: Duration = Duration::from_secs(50);
