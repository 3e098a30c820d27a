//! Which gradient is where, and the memory of all buckets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use consort::device::Device;
use consort::{Dtype, Group, ReduceOp, Source, Space, Target};
use consort_sys::reduce::Kernel;

use crate::agreement::all_well;
use crate::bucket::{Bucket, Plan};
use crate::convert::{convert, converted};
use crate::error::{Error, Result};
use crate::memory::{Attic, Given};
use crate::parameter::Parameter;
use crate::places::{Place, Places};
use crate::rows::{Part, Rows, Shape};

/// All buckets, and what is in them.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The parameters in each bucket.
    members: Vec<Vec<usize>>,
    /// Where each parameter's gradient is: bucket, and place in it.
    seats: Vec<(usize, usize)>,
    /// How many bytes each bucket has when it is empty: 0 for rows.
    bytes: Vec<usize>,
    /// Where gradients are in memory, if the engine writes them there.
    places: Option<Places>,
    slots: Vec<Mutex<Slot>>,
}

/// What travels as one.
#[derive(Debug)]
pub(crate) enum Parcel {
    /// The gradients of some parameters.
    Dense(Bucket),
    /// Some rows of the gradient of one parameter.
    Rows(Rows),
}

/// A bucket's memory, while it is here.
#[derive(Debug)]
struct Slot {
    parcel: Option<Parcel>,
    /// Which parts hold something of this pass, or of those since the last that was reduced.
    is_filled: Vec<bool>,
}

impl Parcel {
    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Dense(bucket) => bucket.size(),
            Self::Rows(rows) => rows.bytes(),
        }
    }

    /// The gradients in it, unless they are rows: each parameter's number, the bucket, and the place there.
    pub(crate) fn gradients(&self) -> impl Iterator<Item = (usize, &Bucket, usize)> {
        let bucket = match self {
            Self::Dense(bucket) => Some(bucket),
            Self::Rows(_) => None,
        };
        bucket.into_iter().flat_map(|bucket| {
            let parts = bucket.plan().parts.iter().enumerate();
            parts.map(move |(place, part)| (part.index, bucket, place))
        })
    }

    /// An empty one for some parameters.
    fn new(
        place: (usize, usize),
        members: &[usize],
        parameters: &[Parameter],
        (rules, group): (&Rules, &Group),
    ) -> Result<Self> {
        let first = &parameters[members[0]];
        let dtype = rules.dtype.unwrap_or(first.dtype());
        if first.is_sparse() {
            return Ok(Self::Rows(Rows::none(Shape::of(first, dtype))));
        }
        let plan = Plan::new(place, dtype, members, parameters);
        let plan = Arc::new(if rules.is_adopted(first) { plan.adopted() } else { plan });
        Ok(Self::Dense(match &rules.device {
            Some(device) => Bucket::on_device(plan, device)?,
            None => Bucket::shared(plan, group)?,
        }))
    }

    /// The same, whose memory an engine may look at for as long as it has the attic. Says where gradients
    /// are.
    fn kept_by(self, attic: &Arc<Attic>, places: &mut [Option<Place>]) -> Self {
        let Self::Dense(bucket) = self else { return self };
        let mut bucket = bucket.kept_by(attic);
        let (dtype, number) = (bucket.dtype(), bucket.index());
        for (index, range) in bucket.addresses() {
            let (address, bytes) = (range.start, range.len());
            places[index] = Some(Place { address, bytes, dtype, bucket: number });
        }
        Self::Dense(bucket)
    }
}

/// How gradients are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// As numbers of this dtype, whatever they are.
    pub(crate) dtype: Option<Dtype>,
    /// Those of so many bytes and more are sent from where the engine has them.
    pub(crate) adopt: Option<usize>,
    /// The engine may write them where they travel.
    pub(crate) in_place: bool,
    /// In the memory of this device.
    pub(crate) device: Option<Device>,
}

impl Rules {
    /// Which memory they lie in.
    pub(crate) fn space(&self) -> Space {
        self.device.as_ref().map_or(Space::Host, |device| Space::Device(device.number()))
    }

    /// Whether a parameter has a bucket of its own.
    pub(crate) fn is_alone(&self, parameter: &Parameter) -> bool {
        parameter.is_sparse() || self.is_adopted(parameter)
    }

    /// Whether its gradient is sent from where the engine has it.
    pub(crate) fn is_adopted(&self, parameter: &Parameter) -> bool {
        let is_large = self.adopt.is_some_and(|least| parameter.bytes() >= least);
        is_large && !parameter.is_sparse() && self.dtype.is_none_or(|it| it == parameter.dtype())
    }
}

impl Layout {
    /// With memory for all gradients. Every rank of the group has to call it.
    ///
    /// # Errors
    /// On every rank, when the device of one has not so much memory; why the group has ended, if it has.
    pub(crate) fn new(
        parameters: &[Parameter],
        members: Vec<Vec<usize>>,
        rules: &Rules,
        (group, generation): (&Group, u64),
    ) -> Result<Self> {
        let attic = rules.in_place.then(Arc::default);
        let mut places = vec![None; parameters.len()];
        let mut seats = vec![(0, 0); parameters.len()];
        let count = members.len();
        let (mut bytes, mut slots) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let parcels: Result<Vec<Parcel>> = (members.iter().enumerate())
            .map(|(index, it)| Parcel::new((index, count), it, parameters, (rules, group)))
            .collect();
        if rules.device.is_some() {
            // The others have theirs, and would wait for this rank's buckets.
            let lack = parcels.as_ref().err().map(Error::to_string);
            all_well(group, "keep gradients on its device", lack)?;
        }
        for (index, (bucket, mut parcel)) in members.iter().zip(parcels?).enumerate() {
            for (place, &parameter) in bucket.iter().enumerate() {
                seats[parameter] = (index, place);
            }
            if let Some(attic) = &attic {
                parcel = parcel.kept_by(attic, &mut places);
            }
            bytes.push(parcel.bytes());
            let is_filled = vec![false; bucket.len()];
            slots.push(Mutex::new(Slot { parcel: Some(parcel), is_filled }));
        }
        let places = attic.map(|attic| Places::new((generation, rules.space()), places, attic));
        Ok(Self { members, seats, bytes, places, slots })
    }

    /// Where gradients are in memory, if the engine writes them there.
    pub(crate) fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }

    /// The parameters in each bucket.
    pub(crate) fn members(&self) -> &[Vec<usize>] {
        &self.members
    }

    /// How many bytes each bucket has; 0 if it is for rows.
    pub(crate) fn bytes(&self) -> &[usize] {
        &self.bytes
    }

    /// Puts a gradient into its bucket, or adds it to what is there of this parameter.
    pub(crate) fn fill(&self, index: usize, dtype: Dtype, gradient: &[u8]) -> Result<()> {
        self.with_bucket(index, |bucket, place, was_filled| {
            put((dtype, gradient), (bucket, place), was_filled)
        })
    }

    /// Takes a gradient that is on the device where its bucket is.
    pub(crate) fn fill_on_device(&self, index: usize, gradient: Source<'_>) -> Result<()> {
        self.with_bucket(index, |bucket, place, was_filled| match was_filled {
            true => Err(not_added(bucket.name_of(place))),
            false => bucket.copy_from(place, gradient),
        })
    }

    /// Lets somebody write a gradient where it travels, as numbers of the bucket's dtype. What is there
    /// already is told; a first gradient replaces what is left of another pass.
    pub(crate) fn write(
        &self,
        index: usize,
        write: impl FnOnce(&mut [u8], bool) -> Result<()>,
    ) -> Result<()> {
        self.with_bucket(index, |bucket, place, was_filled| {
            bucket.ensure();
            write(bucket.part_mut(place), was_filled)
        })
    }

    /// Notes that a gradient is at its place, where the engine has put it: nobody looks at it yet.
    pub(crate) fn note(&self, index: usize) -> Result<()> {
        self.with_bucket(index, |_, _, _| Ok(()))
    }

    /// Takes a gradient with its memory, if it is to be sent from there; copies it otherwise.
    pub(crate) fn adopt<M: Given>(&self, index: usize, dtype: Dtype, memory: M) -> Result<()> {
        self.with_bucket(index, |bucket, place, was_filled| {
            let memory = match was_filled {
                true => memory,
                false => match bucket.adopt(memory) {
                    Ok(()) => return Ok(()),
                    Err(memory) => memory,
                },
            };
            put((dtype, memory.bytes()), (bucket, place), was_filled)
        })
    }

    /// Adds rows of a gradient.
    pub(crate) fn add_rows(&self, index: usize, part: Part<'_>) -> Result<()> {
        let (bucket, _) = self.seats[index];
        let mut slot = self.slot(bucket);
        let Slot { parcel: Some(Parcel::Rows(rows)), is_filled } = &mut *slot else {
            unreachable!("gradients of parameters that are sparse come by rows");
        };
        *rows = Rows::merge(rows.shape(), &[rows.part(), part])?;
        is_filled[0] = true;
        Ok(())
    }

    /// Whether something of a parameter's gradient is in its bucket. If not, zeroes are put there.
    ///
    /// # Errors
    /// When a device fails.
    pub(crate) fn complete(&self, index: usize) -> Result<bool> {
        let (bucket, place) = self.seats[index];
        let mut slot = self.slot(bucket);
        let is_filled = slot.is_filled[place];
        if !is_filled && let Some(Parcel::Dense(bucket)) = &mut slot.parcel {
            bucket.clear(place)?;
        }
        Ok(is_filled)
    }

    /// Takes over what was added up in other buckets of the same parameters, and makes these empty.
    ///
    /// # Errors
    /// When a device fails.
    pub(crate) fn take_over(&self, other: &Self) -> Result<()> {
        for (&(bucket, place), &(theirs, there)) in self.seats.iter().zip(&other.seats) {
            let (mut slot, mut other) = (self.slot(bucket), other.slot(theirs));
            slot.is_filled[place] = other.is_filled[there];
            if !other.is_filled[there] {
                continue;
            }
            match (&mut slot.parcel, &mut other.parcel) {
                (Some(Parcel::Dense(new)), Some(Parcel::Dense(old))) => {
                    new.take_over(place, old, there)?;
                }
                (Some(Parcel::Rows(new)), Some(Parcel::Rows(old))) => std::mem::swap(new, old),
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives the memory of all buckets back, unless something is in them.
    pub(crate) fn release(&self) {
        let mut slots: Vec<_> = self.slots.iter().map(lock).collect();
        if slots.iter().all(|slot| !slot.is_filled.contains(&true)) {
            slots.iter_mut().for_each(|slot| slot.parcel = None);
        }
    }

    /// Takes a bucket out.
    pub(crate) fn take(&self, bucket: usize) -> Option<Parcel> {
        self.slot(bucket).parcel.take()
    }

    /// Puts buckets back, in which nothing is then.
    pub(crate) fn put(&self, parcels: impl IntoIterator<Item = Parcel>) {
        for (index, parcel) in parcels.into_iter().enumerate() {
            let mut slot = self.slot(index);
            slot.is_filled.fill(false);
            slot.parcel = Some(match parcel {
                Parcel::Dense(bucket) => Parcel::Dense(bucket),
                Parcel::Rows(rows) => Parcel::Rows(Rows::none(rows.shape())),
            });
        }
    }

    /// Forgets what was added up.
    pub(crate) fn clear(&self) {
        for slot in &self.slots {
            let mut slot = lock(slot);
            slot.is_filled.fill(false);
            if let Some(Parcel::Rows(rows)) = &mut slot.parcel {
                *rows = Rows::none(rows.shape());
            }
        }
    }

    /// Where a parameter's gradient is.
    pub(crate) fn seat(&self, index: usize) -> (usize, usize) {
        self.seats[index]
    }

    /// Does something with a parameter's bucket, its place there, and whether something of it was there
    /// already.
    fn with_bucket<R>(
        &self,
        index: usize,
        act: impl FnOnce(&mut Bucket, usize, bool) -> Result<R>,
    ) -> Result<R> {
        let (bucket, place) = self.seats[index];
        let mut slot = self.slot(bucket);
        let Slot { parcel: Some(Parcel::Dense(bucket)), is_filled } = &mut *slot else {
            unreachable!("it is not launched before all have come, and only rows come by rows");
        };
        let done = act(bucket, place, is_filled[place])?;
        is_filled[place] = true;
        Ok(done)
    }

    fn slot(&self, bucket: usize) -> MutexGuard<'_, Slot> {
        lock(&self.slots[bucket])
    }
}

/// Copies a gradient to its place, or adds it to what is there.
fn put(
    (dtype, gradient): (Dtype, &[u8]),
    (bucket, place): (&mut Bucket, usize),
    was_filled: bool,
) -> Result<()> {
    if was_filled && bucket.device_memory().is_some() {
        return Err(not_added(bucket.name_of(place)));
    }
    if bucket.upload(place, gradient)? {
        return Ok(());
    }
    bucket.ensure();
    match was_filled {
        true => add((dtype, gradient), bucket, place),
        false => convert((dtype, gradient), (bucket.dtype(), bucket.part_mut(place))),
    }
}

/// Adds a gradient to what is there.
fn add((dtype, gradient): (Dtype, &[u8]), bucket: &mut Bucket, place: usize) -> Result<()> {
    let target = bucket.dtype();
    let gradient = converted((dtype, gradient), target)?;
    let sum = Kernel::new(target, ReduceOp::Sum, 2).map_err(consort::Error::from)?;
    let there = Target::from(bucket.part_mut(place));
    sum.reduce(&[there], &[there.into(), gradient.bytes().into()]);
    Ok(())
}

/// A device has no kernels of ours.
fn not_added(name: &str) -> Error {
    Error::Argument(format!(
        "another part of the gradient of parameter {name:?} is on the device, and gradients are not added up \
         there: let the engine add them, and give the sum once, or have it write gradients in place \
         (Options::in_place)"
    ))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
