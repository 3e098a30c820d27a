//! Making one buffer of many.
//!
//! A [`Kernel`] combines the buffers of all ranks, element by element and in the order of ranks:
//! ((rank 0 ∘ rank 1) ∘ rank 2) and so on. Ranks that combine the same buffers get the same bits,
//! whichever processors they have, wherever the buffers lie and however they are cut into pieces;
//! as long as their threads round to nearest and keep subnormal numbers, as all threads do that
//! were not told otherwise.
//!
//! | dtype | operations |
//! |---|---|
//! | `f32` `f64` `f16` `bf16` `f8e4m3` `f8e5m2` | sum avg product min max premul_sum |
//! | `i8` … `i64`, `u8` … `u64` | sum avg product min max bit_and bit_or bit_xor |
//! | `bool` | sum (or), product (and), min (and), max (or), bit_and bit_or bit_xor |
//! | `c64` `c128` | sum avg product premul_sum |
//!
//! - **Sums and products** of floating-point numbers are rounded after every rank, in the dtype
//!   itself. For the formats of 16 and 8 bits everything is computed in `f32` and rounded once, at
//!   the end. Integers wrap around.
//! - **Averages** are the sum divided by the number of ranks. For integers the sum is exact and the
//!   quotient is rounded toward zero.
//! - **Premultiplied sums** round the factor to `f32`, or for `f64` and `c128` not at all, multiply
//!   each input by it, and add the products up.
//! - **Minimum and maximum** are NaN where any input is NaN. −0 is less than +0.
//! - **NaN** results always have the same bits: the positive quiet NaN, in `f8e4m3` 0x7f.
//! - **Overflow** gives infinity, and in `f8e4m3`, which has none, NaN.
//! - **Truths**: every byte but 0 is true, and true is written as 1.
//! - **Complex products** are (a + bi)(c + di) = (ac − bd) + (ad + bc)i, each step rounded.

mod blocks;
mod choice;
mod combine;
mod lane;
mod number;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::dtype::{Dtype, ReduceOp};
use crate::view::{Source, Target};
use blocks::Run;
use choice::Level;
use combine::Scale;

/// A way to combine the buffers of all ranks.
///
/// ```
/// use consort_sys::dtype::{Dtype, Element, ReduceOp};
/// use consort_sys::reduce::Kernel;
///
/// let (mine, yours) = ([1.0_f32, 2.0], [10.0, 20.0]);
/// let mut both = [0.0; 2];
/// let kernel = Kernel::new(Dtype::F32, ReduceOp::Sum, 2)?;
/// kernel.reduce(&[f32::target(&mut both)], &[f32::source(&mine), f32::source(&yours)]);
/// assert_eq!(both, [11.0, 22.0]);
/// # Ok::<(), consort_sys::reduce::Unsupported>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    dtype: Dtype,
    op: ReduceOp,
    world: usize,
    /// What an average divides by.
    divisor: usize,
    size: usize,
    run: Run,
}

impl Kernel {
    /// The kernel that combines as many buffers of this dtype in this way, as fast as this
    /// processor can.
    ///
    /// # Errors
    /// When the dtype does not have the operation.
    pub fn new(dtype: Dtype, op: ReduceOp, world: usize) -> Result<Self, Unsupported> {
        Self::at_level(Level::here(), dtype, op, world)
    }

    /// The same, but averages are divided by this: for sums of several ranks each, by the number of
    /// all these ranks.
    ///
    /// ```
    /// use consort_sys::dtype::{Dtype, Element, ReduceOp};
    /// use consort_sys::reduce::Kernel;
    ///
    /// let (mine, yours) = ([1.0_f32 + 2.0], [3.0 + 4.0]);
    /// let mut mean = [0.0];
    /// let kernel = Kernel::new(Dtype::F32, ReduceOp::Avg, 2)?.dividing_by(4);
    /// kernel.reduce(&[f32::target(&mut mean)], &[f32::source(&mine), f32::source(&yours)]);
    /// assert_eq!(mean, [2.5]);
    /// # Ok::<(), consort_sys::reduce::Unsupported>(())
    /// ```
    ///
    /// # Panics
    /// When it is 0.
    #[must_use]
    pub fn dividing_by(self, divisor: usize) -> Self {
        assert_ne!(divisor, 0, "there are ranks");
        let run = choice::run(Level::here(), self.dtype, self.op, divisor);
        Self { divisor, run: run.expect("the dtype has the operation"), ..self }
    }

    /// What it combines.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// How it combines.
    pub fn op(&self) -> ReduceOp {
        self.op
    }

    /// How many buffers it combines.
    pub fn world(&self) -> usize {
        self.world
    }

    /// Combines all sources, in their order, and writes the result to every target.
    ///
    /// A target may be one of the sources, from its first byte to its last, or else overlap none of
    /// them nor another target. If it overlaps in another way, it ends up with some mixture.
    ///
    /// # Panics
    /// When there are not as many sources as the world has ranks, when the lengths differ or are
    /// not whole numbers of elements, and when a target is made of `bool` and the dtype is another.
    pub fn reduce(&self, targets: &[Target<'_>], sources: &[Source<'_>]) {
        self.check(targets, sources);
        let scale = Scale { factor: self.op.factor(), divisor: self.divisor };
        // SAFETY: the lengths and numbers were checked just now, and the function was chosen for
        // this processor.
        unsafe { (self.run)(scale, targets, sources) }
    }

    fn at_level(
        level: Level,
        dtype: Dtype,
        op: ReduceOp,
        world: usize,
    ) -> Result<Self, Unsupported> {
        let run = choice::run(level, dtype, op, world).ok_or(Unsupported { dtype, op })?;
        Ok(Self { dtype, op, world, divisor: world, size: dtype.size(), run })
    }

    fn check(&self, targets: &[Target<'_>], sources: &[Source<'_>]) {
        assert_eq!(sources.len(), self.world, "there is a source of every rank");
        let len = sources.first().expect("a world has ranks").len();
        assert!(sources.iter().all(|source| source.len() == len), "sources are equally long");
        // Sizes are powers of two, and a division would take as long as a small reduction.
        assert_eq!(len & (self.size - 1), 0, "sources are whole numbers of elements");
        for target in targets {
            assert_eq!(target.len(), len, "targets are as long as sources");
            assert!(
                !target.holds_truths() || self.dtype == Dtype::Bool,
                "only truths are written to truths"
            );
        }
    }
}

/// A dtype that was asked for an operation it does not have.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{dtype} has no {}: it can be reduced with {}", op.name(), names(*dtype).join(", "))]
pub struct Unsupported {
    /// The dtype.
    pub dtype: Dtype,
    /// The operation it does not have.
    pub op: ReduceOp,
}

/// The names of all operations that a dtype has.
fn names(dtype: Dtype) -> Vec<&'static str> {
    let has = |op: &ReduceOp| Kernel::new(dtype, *op, 1).is_ok();
    ReduceOp::ALL.into_iter().filter(has).map(ReduceOp::name).collect()
}

#[cfg(test)]
mod tests;
