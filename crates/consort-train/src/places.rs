//! Where gradients lie in memory.

use std::sync::Arc;

use consort::{Dtype, Space};

use crate::memory::Attic;

/// Where the gradients of a reducer lie, for an engine that writes them there by itself
/// ([`Options::in_place`](crate::Options::in_place)): its tensors are laid over the buckets.
///
/// The memory stays where it is for as long as any clone of this lives, even if the reducer has made its
/// buckets anew, has failed or is gone. Only, nobody averages what is written there then: each pass says by
/// its [generation](Self::generation) where gradients are wanted.
///
/// # Who may touch the memory
///
/// It is reached past what Rust knows of references, so the engine has to mind whose it is:
///
/// | when | whose |
/// |---|---|
/// | no pass has begun, and nobody holds a [`Reduced`](crate::Reduced) | the engine's |
/// | in [`Reducer::begin`](crate::Reducer::begin) and [`set_group`](crate::Reducer::set_group) | the reducer's |
/// | in a pass, before the engine has said that a gradient is there | that gradient's place is the engine's |
/// | from then on, until [`Pass::finish`](crate::Pass::finish) is done and what it gave is dropped | the reducer's |
/// | after a pass that was dropped, or has failed | the engine's, but what is there has no meaning: calls that the pass had begun may still write it |
///
/// The reducer has no reference to any place that is the engine's, from whatever thread it is asked for
/// something: it makes them when it works on a bucket, which is when all gradients of it are there, and
/// within the calls above. A gradient that is *copied* to its place by [`Pass::ready`](crate::Pass::ready)
/// needs the whole bucket for a moment, so an engine that writes places from several threads at once brings
/// all gradients in place.
///
/// On a [device](Self::space) addresses are the device's, and what the engine does there is in order with the
/// device's default stream: what it has put into that before it says that a gradient is there belongs to the
/// gradient.
///
/// ```
/// use consort::Dtype;
/// use consort_train::{Options, Parameter, Reducer};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let parameters = vec![Parameter::new("weight", Dtype::F32, &[2])];
/// let reducer = Reducer::new(&group, parameters, Options::new().in_place())?;
/// let places = reducer.places()?;
/// let place = places.of(0).expect("it is not sparse");
/// assert_eq!((place.bytes, place.dtype), (8, Dtype::F32));
///
/// let pass = reducer.begin()?;
/// assert_eq!(pass.places()?.generation(), places.generation());
/// // … backward writes its numbers to `place.address` …
/// pass.ready_in_place(0)?;
/// assert_eq!(pass.finish()?.gradient::<f32>(0)?, Some(&[0.0, 0.0][..]));
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Places {
    generation: u64,
    space: Space,
    all: Arc<[Option<Place>]>,
    _attic: Arc<Attic>,
}

/// Where one parameter's gradient lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its first byte: the beginning of a cache line, in the memory that [`Places::space`] says. The provenance of the
    /// memory is exposed.
    pub address: usize,
    /// How many bytes it has.
    pub bytes: usize,
    /// What its numbers are: the parameter's dtype, or that of
    /// [`Options::reduce_as`](crate::Options::reduce_as).
    pub dtype: Dtype,
    /// The bucket that it travels in.
    pub bucket: usize,
}

impl Places {
    pub(crate) fn new(
        (generation, space): (u64, Space),
        all: Vec<Option<Place>>,
        attic: Arc<Attic>,
    ) -> Self {
        Self { generation, space, all: all.into(), _attic: attic }
    }

    /// Which buckets these are the places in: another number whenever they were made anew.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Which memory they are in: the host's, or that of the device of
    /// [`Options::on_device`](crate::Options::on_device).
    pub fn space(&self) -> Space {
        self.space
    }

    /// Where a parameter's gradient lies; `None` if there is no such parameter, or it is
    /// [sparse](crate::Parameter::sparse).
    pub fn of(&self, index: usize) -> Option<Place> {
        self.all.get(index).copied().flatten()
    }
}
