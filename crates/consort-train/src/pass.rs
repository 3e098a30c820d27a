//! One backward pass.

use std::sync::Arc;

use consort::symm::Plain;
use consort::{Dtype, Element};

use crate::bucket::{Bucket, Gradient};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::reduced::Reduced;
use crate::reducer::Inner;

/// What becomes of a pass's gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They are averaged over all ranks, with what local passes have left.
    Averaged,
    /// They are added to this rank's.
    Local,
}

/// A backward pass that has begun. Gradients may come from any thread.
///
/// If it is dropped before its [end](Self::finish), its gradients are lost. That is fine as long as
/// nothing has travelled, as for an output that nobody differentiates. If something has, the other ranks
/// wait for the rest, and the group is ended for all.
#[derive(Debug)]
#[must_use = "gradients are averaged by `finish`"]
pub struct Pass {
    inner: Arc<Inner>,
    layout: Arc<Layout>,
    number: u64,
    mode: Mode,
    is_over: bool,
}

impl Pass {
    pub(crate) fn new(inner: Arc<Inner>, layout: Arc<Layout>, number: u64, mode: Mode) -> Self {
        Self { inner, layout, number, mode, is_over: false }
    }

    /// Which pass of the reducer it is, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes the gradient of a parameter, whose elements lie as the parameter's do. When all of its
    /// bucket have come, and the buckets before it have gone, it is on its way.
    ///
    /// # Errors
    /// When it is not what the parameter says, or has come before; when the pass is over; and why the
    /// group has ended, if it has.
    pub fn ready<T: Plain>(&self, index: usize, gradient: &[T]) -> Result<()> {
        self.ready_bytes(index, T::DTYPE, <T as Element>::bytes(gradient))
    }

    /// The same, for an engine that knows its types only at run time.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub fn ready_bytes(&self, index: usize, dtype: Dtype, gradient: &[u8]) -> Result<()> {
        let Some(parameter) = self.inner.parameters.get(index) else {
            let count = self.inner.parameters.len();
            return Err(Error::Argument(format!("there is no parameter {index} of {count}")));
        };
        if dtype != parameter.dtype() || gradient.len() != parameter.bytes() {
            return Err(Error::Gradient {
                name: parameter.name().to_owned(),
                given: gradient.len() / dtype.size(),
                given_dtype: dtype,
                expected: parameter.len(),
                dtype: parameter.dtype(),
            });
        }
        let is_last = self.inner.take(self.number, index)?;
        self.layout.fill(index, dtype, gradient)?;
        if is_last { self.inner.put(self.number, index, &self.layout) } else { Ok(()) }
    }

    /// Backward has ended: waits for the averages. After a local pass there are none, and nothing is
    /// waited for.
    ///
    /// # Errors
    /// [`Error::Unused`] or [`Error::Changed`] when gradients are missing that have to come, which ends
    /// the group for all; and why the group has ended, if it has.
    pub fn finish(self) -> Result<Reduced> {
        self.finish_with(|_, _| Ok(()))
    }

    /// The same, with something done as soon as a bucket is there, while others are on their way: an
    /// optimizer's step, say. `each` is given parameters and their averages.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and that of `each`, which ends the group for all.
    pub fn finish_with(mut self, each: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<Reduced> {
        self.is_over = true;
        let Self { inner, layout, number, mode, .. } = &self;
        if *mode == Mode::Local {
            inner.release(*number);
            return Ok(Reduced::nothing(inner.clone(), layout.clone(), *number));
        }
        let done = self.average(each);
        if let Err(error) = &done {
            inner.break_off(*number, error);
        }
        let (buckets, is_used) = done?;
        inner.hold(*number);
        Ok(Reduced::new(inner.clone(), layout.clone(), *number, buckets, is_used))
    }

    /// Waits for all buckets, and gives them with which parameters are used.
    fn average(
        &self,
        mut each: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<(Vec<Bucket>, Vec<bool>)> {
        let Self { inner, layout, number, .. } = self;
        let mut each = |gradient: Gradient<'_>| {
            let done = each(gradient.index, gradient.bytes);
            done.map_err(|error| inner.give_up(error))
        };
        let (pending, used_here) = inner.close(*number, layout)?;
        let mut buckets: Vec<Bucket> = Vec::with_capacity(pending.len());
        for (index, pending) in pending.into_iter().enumerate() {
            let bucket = inner.came_back(index, pending.wait())?;
            bucket.gradients().filter(|it| used_here[it.index]).try_for_each(&mut each)?;
            buckets.push(bucket);
        }
        let is_used = inner.used_anywhere(&used_here)?;
        let late = buckets.iter().flat_map(Bucket::gradients);
        late.filter(|it| is_used[it.index] && !used_here[it.index]).try_for_each(&mut each)?;
        Ok((buckets, is_used))
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.is_over {
            self.inner.abandon(self.number, &self.layout);
        }
    }
}
