//! What comes of a backward pass.

use std::sync::Arc;

use consort::symm::Plain;

use crate::bucket::Bucket;
use crate::convert::convert;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::reducer::Inner;

/// The averages of a pass, where they have travelled: nothing is copied. The next pass begins when this
/// is dropped.
#[derive(Debug)]
pub struct Reduced {
    inner: Arc<Inner>,
    layout: Arc<Layout>,
    number: u64,
    buckets: Vec<Bucket>,
    is_used: Vec<bool>,
}

impl Reduced {
    pub(crate) fn new(
        inner: Arc<Inner>,
        layout: Arc<Layout>,
        number: u64,
        buckets: Vec<Bucket>,
        is_used: Vec<bool>,
    ) -> Self {
        Self { inner, layout, number, buckets, is_used }
    }

    /// After a pass that was not averaged.
    pub(crate) fn nothing(inner: Arc<Inner>, layout: Arc<Layout>, number: u64) -> Self {
        let is_used = vec![false; inner.parameters.len()];
        Self::new(inner, layout, number, Vec::new(), is_used)
    }

    /// Whether a parameter has a gradient on any rank. One that has none is to be left as it is.
    pub fn is_used(&self, index: usize) -> bool {
        self.is_used.get(index).copied().unwrap_or(false)
    }

    /// The average of a parameter's gradient, if it has one on any rank.
    ///
    /// # Errors
    /// When it is of another dtype: of the parameter's, or that of
    /// [`Options::reduce_as`](crate::Options::reduce_as).
    pub fn gradient<T: Plain>(&self, index: usize) -> Result<Option<&[T]>> {
        let Some((bucket, bytes)) = self.find(index) else { return Ok(None) };
        if bucket.dtype() == T::DTYPE {
            return Ok(Some(bytemuck::cast_slice(bytes)));
        }
        let name = self.inner.parameters[index].name();
        let what = format!("gradients of {name:?} are of {}, not {}", bucket.dtype(), T::DTYPE);
        Err(Error::Argument(what))
    }

    /// Copies the average of a parameter's gradient, as numbers of the parameter's own dtype. Says
    /// whether it has one on any rank.
    ///
    /// # Errors
    /// When the room is not as large as the gradient.
    pub fn copy_to(&self, index: usize, room: &mut [u8]) -> Result<bool> {
        let Some((bucket, bytes)) = self.find(index) else { return Ok(false) };
        let parameter = &self.inner.parameters[index];
        if room.len() != parameter.bytes() {
            let (name, bytes) = (parameter.name(), parameter.bytes());
            let what = format!("room of {} bytes for {bytes} of {name:?}", room.len());
            return Err(Error::Argument(what));
        }
        convert((bucket.dtype(), bytes), (parameter.dtype(), room))?;
        Ok(true)
    }

    fn find(&self, index: usize) -> Option<(&Bucket, &[u8])> {
        if !self.is_used(index) {
            return None;
        }
        let (bucket, place) = self.layout.seat(index);
        let bucket = self.buckets.get(bucket)?;
        Some((bucket, bucket.part(place)))
    }
}

impl Drop for Reduced {
    fn drop(&mut self) {
        if self.buckets.is_empty() {
            return;
        }
        self.buckets.drain(..).for_each(|bucket| self.layout.put(bucket));
        self.inner.release(self.number);
    }
}
