//! Which gradient is where, and the memory of all buckets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use consort::{Dtype, ReduceOp, Target};
use consort_sys::reduce::Kernel;

use crate::bucket::{Bucket, Plan};
use crate::convert::convert;
use crate::error::Result;
use crate::parameter::Parameter;

/// All buckets, and what is in them.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The parameters in each bucket.
    members: Vec<Vec<usize>>,
    /// Where each parameter's gradient is: bucket, and place in it.
    seats: Vec<(usize, usize)>,
    slots: Vec<Mutex<Slot>>,
}

/// A bucket's memory, while it is here.
#[derive(Debug)]
struct Slot {
    bucket: Option<Bucket>,
    /// Which parts hold something of this pass, or of those since the last that was reduced.
    is_filled: Vec<bool>,
}

impl Layout {
    /// With memory for gradients that are reduced as numbers of `dtype`, or as what they are.
    pub(crate) fn new(
        parameters: &[Parameter],
        members: Vec<Vec<usize>>,
        dtype: Option<Dtype>,
    ) -> Self {
        let mut seats = vec![(0, 0); parameters.len()];
        let count = members.len();
        let slot = |(index, bucket): (usize, &Vec<usize>)| {
            for (place, &parameter) in bucket.iter().enumerate() {
                seats[parameter] = (index, place);
            }
            let dtype = dtype.unwrap_or(parameters[bucket[0]].dtype());
            let plan = Plan::new((index, count), dtype, bucket, parameters);
            let is_filled = vec![false; bucket.len()];
            Mutex::new(Slot { bucket: Some(Bucket::new(Arc::new(plan))), is_filled })
        };
        let slots = members.iter().enumerate().map(slot).collect();
        Self { members, seats, slots }
    }

    /// The parameters in each bucket.
    pub(crate) fn members(&self) -> &[Vec<usize>] {
        &self.members
    }

    /// Puts a gradient into its bucket, or adds it to what is there of this parameter.
    pub(crate) fn fill(&self, index: usize, dtype: Dtype, gradient: &[u8]) -> Result<()> {
        let (bucket, place) = self.seats[index];
        let mut slot = self.slot(bucket);
        let Slot { bucket, is_filled } = &mut *slot;
        let bucket = bucket.as_mut().expect("it is not launched before all have come");
        let target = bucket.dtype();
        if !std::mem::replace(&mut is_filled[place], true) {
            return convert((dtype, gradient), (target, bucket.part_mut(place)));
        }
        let converted;
        let gradient = if dtype == target {
            gradient
        } else {
            let mut there = vec![0_u64; bucket.part(place).len().div_ceil(size_of::<u64>())];
            let bytes = &mut bytemuck::cast_slice_mut(&mut there)[..bucket.part(place).len()];
            convert((dtype, gradient), (target, bytes))?;
            converted = there;
            &bytemuck::cast_slice(&converted)[..bucket.part(place).len()]
        };
        let sum = Kernel::new(target, ReduceOp::Sum, 2).map_err(consort::Error::from)?;
        let there = Target::from(bucket.part_mut(place));
        sum.reduce(&[there], &[there.into(), gradient.into()]);
        Ok(())
    }

    /// Whether something of a parameter's gradient is in its bucket. If not, zeroes are put there.
    pub(crate) fn complete(&self, index: usize) -> bool {
        let (bucket, place) = self.seats[index];
        let mut slot = self.slot(bucket);
        let is_filled = slot.is_filled[place];
        if !is_filled && let Some(bucket) = &mut slot.bucket {
            bucket.part_mut(place).fill(0);
        }
        is_filled
    }

    /// Takes over what was added up in other buckets of the same parameters.
    pub(crate) fn adopt(&self, other: &Self) {
        for (&(bucket, place), &(theirs, there)) in self.seats.iter().zip(&other.seats) {
            let (mut slot, other) = (self.slot(bucket), other.slot(theirs));
            slot.is_filled[place] = other.is_filled[there];
            if other.is_filled[there]
                && let (Some(new), Some(old)) = (&mut slot.bucket, &other.bucket)
            {
                new.part_mut(place).copy_from_slice(old.part(there));
            }
        }
    }

    /// Takes a bucket out.
    pub(crate) fn take(&self, bucket: usize) -> Option<Bucket> {
        self.slot(bucket).bucket.take()
    }

    /// Puts a bucket back, in which nothing is then.
    pub(crate) fn put(&self, bucket: Bucket) {
        let mut slot = self.slot(bucket.index());
        slot.is_filled.fill(false);
        slot.bucket = Some(bucket);
    }

    /// Forgets what was added up.
    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| lock(slot).is_filled.fill(false));
    }

    /// Where a parameter's gradient is.
    pub(crate) fn seat(&self, index: usize) -> (usize, usize) {
        self.seats[index]
    }

    fn slot(&self, bucket: usize) -> MutexGuard<'_, Slot> {
        lock(&self.slots[bucket])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
