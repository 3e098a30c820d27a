//! One backward pass.

use std::sync::Arc;

use consort::symm::Plain;
use consort::{Dtype, Element, Source, Space};

use crate::bucket::{Bucket, not_on_device};
use crate::convert::converted;
use crate::error::{Error, Result};
use crate::layout::{Layout, Parcel};
use crate::parameter::Parameter;
use crate::places::Places;
use crate::reduced::Reduced;
use crate::reducer::Inner;

/// What becomes of a pass's gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They are averaged over all ranks, with what local passes have left.
    Averaged,
    /// They are added to this rank's.
    Local,
    /// There are none: others have some, and this rank has to be there.
    Shadow,
}

/// A backward pass that has begun. Gradients may come from any thread.
///
/// If it is dropped before its [end](Self::finish), its gradients are lost, and with them, if any has come,
/// those that earlier local passes have added up. That is fine as long as nothing has travelled, as for an
/// output that nobody differentiates. If something has, the other ranks wait for the rest, and the group is
/// ended for all.
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
        self.check(index, dtype, gradient.len())?;
        self.bring(index, || self.layout.fill(index, dtype, gradient))
    }

    /// The same, for a gradient in the memory of the device where the reducer has its buckets
    /// ([`Options::on_device`](crate::Options::on_device)), whoever owns it: it is copied there. Nobody waits for
    /// the copy, which is in order with the device's default stream: what the engine has put into that stream
    /// before belongs to the gradient, and what it puts there later may change it. An engine that works in a
    /// stream of its own has the default one wait for it first.
    ///
    /// ```no_run
    /// # use consort::Dtype;
    /// # use consort_train::{Options, Parameter, Reducer};
    /// # let group = consort::init()?;
    /// # let device = consort::device::Driver::load()?.device(0)?;
    /// let parameters = vec![Parameter::new("weight", Dtype::F32, &[1000])];
    /// let reducer = Reducer::new(&group, parameters, Options::new().on_device(device.clone()))?;
    /// let gradient = device.allocate(4000)?; // … which backward computes …
    /// let pass = reducer.begin()?;
    /// pass.ready_on_device(0, Dtype::F32, gradient.source())?;
    /// # Ok::<(), consort_train::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the buckets, or the gradient, lie elsewhere; when a part of it is there already, as parts are not
    /// added up on a device; otherwise as [`ready`](Self::ready).
    pub fn ready_on_device(&self, index: usize, dtype: Dtype, gradient: Source<'_>) -> Result<()> {
        self.check(index, dtype, gradient.len())?;
        let own = self.inner.settings.rules.space();
        if own == Space::Host {
            return Err(not_on_device());
        }
        if gradient.space() != own {
            let (name, given) = (self.parameter(index)?.name(), gradient.space());
            let what = format!(
                "the gradient of parameter {name:?} is in memory of {given}, and buckets are in that of {own}: \
                 compute it there, or give it from the host's memory by Pass::ready"
            );
            return Err(Error::Argument(what));
        }
        self.bring(index, || self.layout.fill_on_device(index, gradient))
    }

    /// The same, with the gradient's memory: if it is as large as
    /// [`Options::adopt`](crate::Options::adopt) says, nothing is copied. The averages are there, too, and
    /// [`Reduced::take`] gives it back.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub fn ready_owned<T: Plain>(&self, index: usize, gradient: Vec<T>) -> Result<()> {
        self.check(index, T::DTYPE, size_of_val(&gradient[..]))?;
        self.bring(index, || self.layout.adopt(index, T::DTYPE, gradient))
    }

    /// Lets an engine compute a gradient where it travels, so that nothing is copied: `write` is given the
    /// memory, and whether a gradient is there to which it has to be added, of a local pass, say. What is
    /// there otherwise has no meaning. Numbers are of the parameter's dtype, or of that of
    /// [`Options::reduce_as`](crate::Options::reduce_as).
    ///
    /// Gradients of one bucket are written one after the other: `write` must not bring another gradient,
    /// and should take no longer than it needs.
    ///
    /// ```
    /// # use consort::Dtype;
    /// # use consort_train::{Options, Parameter, Reducer};
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// # let parameters = vec![Parameter::new("weight", Dtype::F32, &[2])];
    /// # let reducer = Reducer::new(&group, parameters, Options::new())?;
    /// let pass = reducer.begin()?;
    /// pass.ready_with(0, |gradient: &mut [f32], is_there| {
    ///     assert!(!is_there);
    ///     gradient.copy_from_slice(&[1.0, 2.0]);
    ///     Ok(())
    /// })?;
    /// assert_eq!(pass.finish()?.gradient::<f32>(0)?, Some(&[1.0, 2.0][..]));
    /// # Ok::<(), consort_train::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ready`](Self::ready), and that of `write`; and when gradients are
    /// [on a device](crate::Options::on_device), where `write` could not.
    pub fn ready_with<T: Plain>(
        &self,
        index: usize,
        write: impl FnOnce(&mut [T], bool) -> Result<()>,
    ) -> Result<()> {
        let parameter = self.parameter(index)?;
        if let Space::Device(number) = self.inner.settings.rules.space() {
            let name = parameter.name();
            let what = format!(
                "the gradient of parameter {name:?} travels in the memory of device {number}, where the host \
                 cannot write it: use Pass::ready_on_device, or Pass::ready, or Pass::ready_in_place"
            );
            return Err(Error::Argument(what));
        }
        let dtype = self.inner.settings.rules.dtype.unwrap_or(parameter.dtype());
        if dtype != T::DTYPE || parameter.is_sparse() {
            return Err(self.misfit(parameter, T::DTYPE, parameter.len()));
        }
        self.bring(index, || {
            self.layout
                .write(index, |room, is_there| write(bytemuck::cast_slice_mut(room), is_there))
        })
    }

    /// Takes the gradient of a parameter that the engine has put where it travels ([`Places`] says where, and
    /// who may touch what when), with what was there before if it is to be added. Until the pass has
    /// finished, the engine may not touch it. A second part of the same gradient, of a
    /// [static graph](crate::Options::static_graph), is added by the engine before it says so.
    ///
    /// # Errors
    /// When [`Options::in_place`](crate::Options::in_place) was not said; otherwise as
    /// [`ready`](Self::ready).
    pub fn ready_in_place(&self, index: usize) -> Result<()> {
        let parameter = self.parameter(index)?;
        self.places()?;
        if parameter.is_sparse() {
            return Err(self.misfit(parameter, parameter.dtype(), parameter.len()));
        }
        self.bring(index, || self.layout.note(index))
    }

    /// Where the gradients of this pass are to be put by the engine itself.
    ///
    /// # Errors
    /// When [`Options::in_place`](crate::Options::in_place) was not said.
    pub fn places(&self) -> Result<&Places> {
        self.layout.places().ok_or_else(not_in_place)
    }

    /// Takes some rows of the gradient of a parameter that is [sparse](Parameter::sparse): their numbers, in
    /// any order, and their values, one row behind the other. A row that comes more than once is added up.
    ///
    /// Every rank gets everybody's rows, so that what travels grows with the number of ranks; unless all
    /// give the same rows, perhaps with zeroes, as may be known from the inputs: then only sums travel.
    ///
    /// ```
    /// # use consort::Dtype;
    /// # use consort_train::{Options, Parameter, Reducer};
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let table = Parameter::new("embedding", Dtype::F32, &[1000, 2]).sparse()?;
    /// let reducer = Reducer::new(&group, vec![table], Options::new())?;
    /// let pass = reducer.begin()?;
    /// pass.ready_rows(0, &[7, 3], &[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let averages = pass.finish()?;
    /// let (rows, values) = averages.rows::<f32>(0)?.expect("some rank has some");
    /// assert_eq!((rows, values), (&[3, 7][..], &[3.0, 4.0, 1.0, 2.0][..]));
    /// # Ok::<(), consort_train::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ready`](Self::ready); and when there is no such row.
    pub fn ready_rows<T: Plain>(&self, index: usize, rows: &[u64], values: &[T]) -> Result<()> {
        self.ready_rows_bytes(index, rows, T::DTYPE, <T as Element>::bytes(values))
    }

    /// The same, for an engine that knows its types only at run time.
    ///
    /// # Errors
    /// As [`ready_rows`](Self::ready_rows).
    pub fn ready_rows_bytes(
        &self,
        index: usize,
        rows: &[u64],
        dtype: Dtype,
        values: &[u8],
    ) -> Result<()> {
        let parameter = self.parameter(index)?;
        let width: usize = parameter.shape().iter().skip(1).product();
        let is_whole = values.len() == rows.len() * width * dtype.size();
        if !parameter.is_sparse() || dtype != parameter.dtype() || !is_whole {
            return Err(self.misfit(parameter, dtype, values.len() / dtype.size()));
        }
        let count = parameter.shape()[0];
        if let Some(row) = rows.iter().find(|&&row| row >= count as u64) {
            let name = parameter.name();
            let what = format!("parameter {name:?} has {count} rows, and no row {row}");
            return Err(Error::Argument(what));
        }
        let target = self.inner.settings.rules.dtype.unwrap_or(dtype);
        let values = converted((dtype, values), target)?;
        self.bring(index, || self.layout.add_rows(index, (rows, values.bytes())))
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
    /// optimizer's step, say. `each` is given parameters and their averages, copied from the
    /// [device](crate::Options::on_device) if they are there; those of
    /// [sparse](Parameter::sparse) ones are in what comes at the end.
    ///
    /// # Errors
    /// As [`finish`](Self::finish), and that of `each`, which ends the group for all.
    pub fn finish_with(self, mut each: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<Reduced> {
        let mut copy = Vec::new();
        self.finish_each(|index, bucket, place| {
            if bucket.device_memory().is_none() {
                return each(index, bucket.part(place));
            }
            copy.resize(bucket.part_source(place).len(), 0);
            bucket.download(place, &mut copy)?;
            each(index, &copy)
        })
    }

    /// The same for averages by their names, wherever they lie: on a
    /// [device](crate::Options::on_device) nothing is copied.
    ///
    /// # Errors
    /// As [`finish_with`](Self::finish_with).
    pub fn finish_with_views(
        self,
        mut each: impl FnMut(usize, Source<'_>) -> Result<()>,
    ) -> Result<Reduced> {
        self.finish_each(|index, bucket, place| each(index, bucket.part_source(place)))
    }

    fn finish_each(
        mut self,
        each: impl FnMut(usize, &Bucket, usize) -> Result<()>,
    ) -> Result<Reduced> {
        let (inner, layout, number) = (self.inner.clone(), self.layout.clone(), self.number);
        if self.mode == Mode::Local {
            self.is_over = true;
            inner.release(number);
            return Ok(Reduced::nothing(inner, layout, number));
        }
        let done = self.average(each);
        // If that panics, the pass is dropped before its end.
        self.is_over = true;
        if let Err(error) = &done {
            inner.break_off(number, error);
        }
        let (buckets, is_used) = done?;
        inner.hold(number, &is_used);
        Ok(Reduced::new(inner, layout, number, buckets, is_used))
    }

    /// Backward has failed, and the pass is given up, as if it were dropped. If any of its gradients has
    /// come, the other ranks wait for the rest, or will: the group is ended for all, with the reason.
    pub fn fail(mut self, why: &str) {
        self.is_over = true;
        self.inner.abandon(self.number, &self.layout, (Some(why), true));
    }

    /// Waits for all buckets, and gives them with which parameters are used.
    fn average(
        &self,
        mut each: impl FnMut(usize, &Bucket, usize) -> Result<()>,
    ) -> Result<(Vec<Parcel>, Vec<bool>)> {
        let Self { inner, layout, number, .. } = self;
        let mut each = |(index, bucket, place): (usize, &Bucket, usize)| {
            each(index, bucket, place).map_err(|error| inner.give_up(error))
        };
        let (pending, used_here) = inner.close(*number, layout)?;
        let mut parcels: Vec<Parcel> = Vec::with_capacity(pending.len());
        for (index, pending) in pending.into_iter().enumerate() {
            let parcel = inner.came_back((*number, index), pending)?;
            parcel.gradients().filter(|it| used_here[it.0]).try_for_each(&mut each)?;
            parcels.push(parcel);
        }
        let is_used = inner.used_anywhere(&used_here)?;
        let late = parcels.iter().flat_map(Parcel::gradients);
        late.filter(|it| is_used[it.0] && !used_here[it.0]).try_for_each(&mut each)?;
        Ok((parcels, is_used))
    }

    /// Whether a gradient that is given with its memory is averaged there.
    #[cfg(feature = "candle")]
    pub(crate) fn is_adopted(&self, index: usize) -> bool {
        let parameter = self.inner.parameters.get(index);
        parameter.is_some_and(|parameter| self.inner.settings.rules.is_adopted(parameter))
    }

    /// Is dropped before its end for a reason, which the other ranks hear of if they are waiting.
    #[cfg(feature = "candle")]
    pub(crate) fn abandon_because(mut self, why: &str) {
        self.is_over = true;
        self.inner.abandon(self.number, &self.layout, (Some(why), false));
    }

    /// Notes that a gradient has come, puts it where it belongs, and sends what is complete.
    fn bring(&self, index: usize, put: impl FnOnce() -> Result<()>) -> Result<()> {
        self.inner.take(self.number, index)?;
        let copying = Copying { pass: self, index };
        put()?;
        std::mem::forget(copying);
        self.inner.put(self.number, index, &self.layout)
    }

    fn parameter(&self, index: usize) -> Result<&Parameter> {
        self.inner.parameters.get(index).ok_or_else(|| {
            let count = self.inner.parameters.len();
            Error::Argument(format!("there is no parameter {index} of {count}"))
        })
    }

    /// Whether so many bytes of this dtype can be the gradient of a parameter.
    fn check(&self, index: usize, dtype: Dtype, bytes: usize) -> Result<()> {
        let parameter = self.parameter(index)?;
        if dtype == parameter.dtype() && bytes == parameter.bytes() && !parameter.is_sparse() {
            return Ok(());
        }
        Err(self.misfit(parameter, dtype, bytes / dtype.size()))
    }

    fn misfit(&self, parameter: &Parameter, given_dtype: Dtype, given: usize) -> Error {
        let (name, expected, dtype) =
            (parameter.name().to_owned(), parameter.len(), parameter.dtype());
        let by_rows = if parameter.is_sparse() { ", by rows (Pass::ready_rows)" } else { "" };
        Error::Gradient { name, given, given_dtype, expected, dtype, by_rows }
    }
}

/// An engine wants to write gradients itself, and has not said so.
pub(crate) fn not_in_place() -> Error {
    Error::Argument(
        "gradients are at places of the engine's only with Options::in_place".to_owned(),
    )
}

/// A gradient that is being put into its bucket. If that ends before it is there, by an error or a panic, it
/// may come again.
struct Copying<'a> {
    pass: &'a Pass,
    index: usize,
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.pass.inner.take_back(self.pass.number, self.index);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.is_over {
            self.inner.abandon(self.number, &self.layout, (None, false));
        }
    }
}
