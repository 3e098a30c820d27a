//! A road whose ranks compare their results now and then.
//!
//! What a collective gives to all ranks alike is the same bit by bit, so ranks that differ in it have
//! one among them that computes or stores wrongly. Every rank keeps a digest of all such results; after
//! so many calls they gather each other's, which is a call of its own behind the last.

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use consort_sys::dtype::Dtype;
use consort_sys::view::{Source, Target};

use super::lookout::Lookout;
use super::pace::Notes;
use super::queue::Queue;
use super::road::Road;
use super::verdict::{Cause, Ranks};
use crate::backend::Terms;
use crate::call::{Call, Outputs, Purpose};
use crate::error::Result;
use crate::wire::checksum_of_all;

/// The road, and what the ranks compare.
#[derive(Debug)]
pub(crate) struct Audited {
    pub(super) road: Road,
    audit: Audit,
}

impl Audited {
    /// A road whose ranks compare the results of this many calls at once.
    pub(crate) fn new(road: Road, every: NonZeroU32) -> Self {
        Self { road, audit: Audit { every, calls: 0, digest: 0, first: None } }
    }

    pub(super) fn run(
        &mut self,
        call: &Call<'_>,
        terms: Terms,
        line: Option<&Queue>,
    ) -> Result<u64> {
        let Self { road, audit } = self;
        let number = road.run(call, terms, line)?;
        if let Some(calls) = audit.note(call) {
            let (mine, mut all) = audit.digests(road.lookout());
            let terms = Terms { purpose: Purpose::Verification, ..Terms::within(terms.timeout) };
            road.run(&gather(&mine, &mut all), terms, line)?;
            compare(&all, calls, road.lookout())?;
        }
        Ok(number)
    }

    pub(super) async fn run_elsewhere(
        &mut self,
        call: &Call<'_>,
        terms: Terms,
        notes: &Notes,
    ) -> Result<()> {
        let Self { road, audit } = self;
        Box::pin(road.run_elsewhere(call, terms, notes)).await?;
        let Some(calls) = audit.note(call) else { return Ok(()) };
        let (mine, mut all) = audit.digests(road.lookout());
        let call = gather(&mine, &mut all);
        let terms = Terms { purpose: Purpose::Verification, ..Terms::within(terms.timeout) };
        Box::pin(road.run_elsewhere(&call, terms, notes)).await?;
        compare(&all, calls, road.lookout())
    }
}

/// What this rank knows of its results.
#[derive(Debug)]
struct Audit {
    every: NonZeroU32,
    /// How many calls there were.
    calls: u64,
    /// Of all results so far that have to be the same.
    digest: u64,
    /// The first call whose result was not compared.
    first: Option<u64>,
}

impl Audit {
    /// Takes notice of a call that is done. If it is time to compare, says which calls.
    fn note(&mut self, call: &Call<'_>) -> Option<RangeInclusive<u64>> {
        self.calls += 1;
        if let Some(sum) = sum_of_result(call) {
            self.digest = mix(self.digest, sum);
            self.first.get_or_insert(self.calls);
        }
        let is_time = self.calls.is_multiple_of(u64::from(self.every.get()));
        let first = self.first.take_if(|_| is_time)?;
        Some(first..=self.calls)
    }

    /// This rank's digest, and room for everyone's.
    fn digests(&self, lookout: &Lookout) -> ([u8; WORD], Vec<u8>) {
        (self.digest.to_le_bytes(), vec![0; lookout.world() * WORD])
    }
}

/// A number that stands for what a call has given to all ranks alike, if it does that.
fn sum_of_result(call: &Call<'_>) -> Option<u32> {
    match *call {
        Call::AllReduce { output, .. } => Some(sum(output)),
        Call::Broadcast { buffer, .. } => Some(sum(buffer)),
        Call::AllGather { outputs: Outputs::Equal(all), .. } => Some(sum(all)),
        Call::AllGather { outputs: Outputs::List(parts), .. } => {
            let parts: Vec<Source<'_>> = parts.iter().map(|&part| part.into()).collect();
            Some(checksum_of_all(&parts))
        }
        _ => None,
    }
}

fn sum(result: Target<'_>) -> u32 {
    checksum_of_all(&[result.into()])
}

fn gather<'a>(mine: &'a [u8], all: &'a mut [u8]) -> Call<'a> {
    let (input, outputs) = (Source::from(mine), Outputs::Equal(Target::from(all)));
    Call::AllGather { dtype: Dtype::U64, input, outputs }
}

/// Ends the group if the ranks' digests differ.
fn compare(all: &[u8], calls: RangeInclusive<u64>, lookout: &Lookout) -> Result<()> {
    let digests: Vec<&[u8]> = all.chunks_exact(WORD).collect();
    let ranks = strangers(&digests);
    if ranks.is_empty() {
        return Ok(());
    }
    let (first, last) = calls.into_inner();
    let ranks: Ranks = ranks.into_iter().collect();
    Err(lookout.decide(Cause::Diverged { ranks, first, last }))
}

/// Who differs from most. If there are no most, it may be anyone.
fn strangers<T: PartialEq>(all: &[T]) -> Vec<usize> {
    let like = |one: &T| all.iter().filter(|other| *other == one).count();
    match all.iter().find(|one| 2 * like(one) > all.len()) {
        Some(usual) => (0..all.len()).filter(|&rank| all[rank] != *usual).collect(),
        None => (0..all.len()).collect(),
    }
}

/// A word that depends on all bits of both.
fn mix(digest: u64, sum: u32) -> u64 {
    let product = (digest ^ u64::from(sum)).wrapping_add(SPREAD).wrapping_mul(SPREAD);
    product ^ (product >> 29)
}

const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD: usize = size_of::<u64>();
