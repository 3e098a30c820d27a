//! What comes of a backward pass.

use std::sync::Arc;

use consort::symm::Plain;
use consort::{Dtype, Source, Target};

use crate::bucket::{Bucket, not_on_device};
use crate::convert::convert;
use crate::error::{Error, Result};
use crate::layout::{Layout, Parcel};
use crate::reducer::Inner;

/// The averages of a pass, where they have travelled: nothing is copied. The next pass begins when this
/// is dropped.
#[derive(Debug)]
pub struct Reduced {
    inner: Arc<Inner>,
    layout: Arc<Layout>,
    number: u64,
    parcels: Vec<Parcel>,
    is_used: Vec<bool>,
}

impl Reduced {
    pub(crate) fn new(
        inner: Arc<Inner>,
        layout: Arc<Layout>,
        number: u64,
        parcels: Vec<Parcel>,
        is_used: Vec<bool>,
    ) -> Self {
        Self { inner, layout, number, parcels, is_used }
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
    /// [`Options::reduce_as`](crate::Options::reduce_as); when it is [by rows](Self::rows); when it was
    /// [taken](Self::take); when it is [on a device](Self::gradient_on_device).
    pub fn gradient<T: Plain>(&self, index: usize) -> Result<Option<&[T]>> {
        let Some((bucket, place)) = self.find(index)? else { return Ok(None) };
        self.check::<T>(index, bucket.dtype())?;
        if let Some(memory) = bucket.device_memory() {
            let (name, number) = (bucket.name_of(place), memory.device().number());
            let what = format!(
                "the gradient of {name:?} is in the memory of device {number}: Reduced::gradient_on_device has \
                 it there, Reduced::copy_to_device copies it within the device, and Reduced::copy_to to the host"
            );
            return Err(Error::Argument(what));
        }
        let bytes = bucket.part(place);
        Ok(Some(bytemuck::cast_slice(bytes)))
    }

    /// The average of a parameter's gradient in the memory of a device
    /// ([`Options::on_device`](crate::Options::on_device)), if it has one on any rank: where it has travelled, nothing
    /// is copied. What is put into the device's default stream before this is dropped may read it, and so may what
    /// is done by then in others.
    ///
    /// # Errors
    /// When gradients are on the host.
    pub fn gradient_on_device(&self, index: usize) -> Result<Option<Source<'_>>> {
        let Some((bucket, place)) = self.find(index)? else { return Ok(None) };
        bucket.device_memory().ok_or_else(not_on_device)?;
        Ok(Some(bucket.part_source(place)))
    }

    /// Copies the average of a parameter's gradient to other memory of the device where it is. Nobody waits for
    /// the copy, which is in order with the device's default stream. Says whether the parameter has a gradient on
    /// any rank.
    ///
    /// ```no_run
    /// # use consort::Dtype;
    /// # fn example(averages: &consort_train::Reduced, device: &consort::device::Device) -> consort_train::Result<()> {
    /// let mut gradient = device.allocate(4000)?; // an engine's tensor
    /// if averages.copy_to_device(0, gradient.target())? {
    ///     // … the optimizer reads it …
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the room is not as large as the gradient, or on another device; otherwise as
    /// [`gradient_on_device`](Self::gradient_on_device).
    pub fn copy_to_device(&self, index: usize, room: Target<'_>) -> Result<bool> {
        let Some((bucket, place)) = self.find(index)? else { return Ok(false) };
        self.check_room(index, room.len())?;
        bucket.copy_to(place, room)?;
        Ok(true)
    }

    /// Copies the average of a parameter's gradient to the host, as numbers of the parameter's own dtype. Says
    /// whether it has one on any rank.
    ///
    /// # Errors
    /// When the room is not as large as the gradient; otherwise as [`gradient`](Self::gradient).
    pub fn copy_to(&self, index: usize, room: &mut [u8]) -> Result<bool> {
        let Some((bucket, place)) = self.find(index)? else { return Ok(false) };
        self.check_room(index, room.len())?;
        if bucket.download(place, room)? {
            return Ok(true);
        }
        let parameter = &self.inner.parameters[index];
        convert((bucket.dtype(), bucket.part(place)), (parameter.dtype(), room))?;
        Ok(true)
    }

    /// The average of a parameter's gradient as a vector of the parameter's own dtype, if it has one on any
    /// rank: in the very memory that was [given](crate::Pass::ready_owned) if it travelled from there, and
    /// copied otherwise.
    ///
    /// # Errors
    /// As [`gradient`](Self::gradient).
    pub fn take<T: Plain>(&mut self, index: usize) -> Result<Option<Vec<T>>> {
        if self.find(index)?.is_none() {
            return Ok(None);
        }
        self.check::<T>(index, self.inner.parameters[index].dtype())?;
        let (bucket, _) = self.layout.seat(index);
        if let Some(Parcel::Dense(bucket)) = self.parcels.get_mut(bucket)
            && let Some(memory) = bucket.give_back::<Vec<T>>()
        {
            return Ok(Some(memory));
        }
        let mut copy = vec![T::default(); self.inner.parameters[index].len()];
        self.copy_to(index, bytemuck::cast_slice_mut(&mut copy))?;
        Ok(Some(copy))
    }

    /// The average of the gradient of a parameter that is [sparse](crate::Parameter::sparse), if it has one
    /// on any rank: the numbers of all rows that any rank gave, in rising order, and their values.
    ///
    /// # Errors
    /// When it is of another dtype, as [`gradient`](Self::gradient), or not by rows.
    pub fn rows<T: Plain>(&self, index: usize) -> Result<Option<(&[u64], &[T])>> {
        let Some((rows, values)) = self.rows_bytes(index)? else { return Ok(None) };
        let own = self.inner.parameters[index].dtype();
        self.check::<T>(index, self.inner.settings.rules.dtype.unwrap_or(own))?;
        Ok(Some((rows, bytemuck::cast_slice(values))))
    }

    /// The same, for an engine that knows its types only at run time.
    ///
    /// # Errors
    /// When it is not by rows.
    pub fn rows_bytes(&self, index: usize) -> Result<Option<(&[u64], &[u8])>> {
        if !self.is_used(index) {
            return Ok(None);
        }
        match self.parcels.get(self.layout.seat(index).0) {
            None => Ok(None),
            Some(Parcel::Rows(rows)) => Ok(Some((rows.numbers(), rows.values()))),
            Some(Parcel::Dense(_)) => {
                let name = self.inner.parameters[index].name();
                let what =
                    format!("the gradient of {name:?} is not by rows: ask for it as a whole");
                Err(Error::Argument(what))
            }
        }
    }

    /// Where a parameter's gradient is, if it is used.
    fn find(&self, index: usize) -> Result<Option<(&Bucket, usize)>> {
        if !self.is_used(index) {
            return Ok(None);
        }
        let name = || self.inner.parameters[index].name();
        let (bucket, place) = self.layout.seat(index);
        match self.parcels.get(bucket) {
            None => Ok(None),
            Some(Parcel::Dense(bucket)) if bucket.is_there() => Ok(Some((bucket, place))),
            Some(Parcel::Dense(_)) => {
                Err(Error::Argument(format!("the gradient of {:?} was taken before", name())))
            }
            Some(Parcel::Rows(_)) => {
                let what = format!("the gradient of {:?} is by rows: Reduced::rows has it", name());
                Err(Error::Argument(what))
            }
        }
    }

    /// Whether so many bytes are as many as a parameter's gradient has.
    fn check_room(&self, index: usize, given: usize) -> Result<()> {
        let parameter = &self.inner.parameters[index];
        let (name, bytes) = (parameter.name(), parameter.bytes());
        if given == bytes {
            return Ok(());
        }
        Err(Error::Argument(format!("room of {given} bytes for {bytes} of {name:?}")))
    }

    fn check<T: Plain>(&self, index: usize, dtype: Dtype) -> Result<()> {
        if dtype == T::DTYPE {
            return Ok(());
        }
        let name = self.inner.parameters[index].name();
        Err(Error::Argument(format!("gradients of {name:?} are of {dtype}, not {}", T::DTYPE)))
    }
}

impl Drop for Reduced {
    fn drop(&mut self) {
        self.layout.put(self.parcels.drain(..));
        self.inner.release(self.number);
    }
}
