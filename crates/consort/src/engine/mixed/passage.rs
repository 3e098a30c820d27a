//! A call on its way inside and across.

use std::ops::Range;

use consort_plan::Layout;
use consort_sys::view::{Source, Target};

use crate::call::Call;
use crate::engine::lane::Lane;
use crate::engine::ops::slice_of;
use crate::engine::patient::Patient;
use crate::engine::wired::{Column, Wired};
use crate::error::Result;
use crate::group::Rank;

/// What carries out the phases of a call.
pub(super) struct Passage<'m, 'p> {
    lane: &'m mut Lane,
    wired: &'m mut Wired,
    layout: &'m Layout,
    column: &'m Column,
    patient: &'m mut Patient<'p>,
}

impl<'m, 'p> Passage<'m, 'p> {
    pub(super) fn new(
        lane: &'m mut Lane,
        wired: &'m mut Wired,
        layout: &'m Layout,
        column: &'m Column,
        patient: &'m mut Patient<'p>,
    ) -> Self {
        Self { lane, wired, layout, column, patient }
    }

    /// This rank's host.
    pub(super) fn host(&self) -> usize {
        self.layout.host(self.wired.me() as u32) as usize
    }

    /// This rank's number on its host.
    pub(super) fn seat(&self) -> usize {
        self.lane.me()
    }

    /// How many hosts there are.
    pub(super) fn hosts(&self) -> usize {
        self.layout.count() as usize
    }

    /// How many ranks each host has.
    pub(super) fn seats(&self) -> usize {
        self.lane.world()
    }

    /// Whether the ranks of a host follow each other, host after host.
    pub(super) fn is_in_order(&self) -> bool {
        self.layout.is_in_order()
    }

    /// The ranks of a host.
    pub(super) fn ranks(&self, host: usize) -> impl Iterator<Item = usize> + use<'m> {
        self.layout.ranks(host as u32).iter().map(|&rank| rank as usize)
    }

    /// The ranks of this rank's column.
    pub(super) fn peers(&self) -> impl Iterator<Item = usize> + use<'m> {
        let (layout, seat) = (self.layout, self.seat());
        (0..layout.count()).map(move |host| layout.ranks(host)[seat] as usize)
    }

    /// Where a rank is: its host, and its number there.
    pub(super) fn find(&self, rank: Rank) -> (usize, usize) {
        let Rank(rank) = rank;
        (self.layout.host(rank) as usize, self.layout.local(rank) as usize)
    }

    /// The slices of so many bytes of which every rank of a host has one.
    pub(super) fn slices(&self, len: usize, element: usize) -> Vec<Range<usize>> {
        (0..self.seats()).map(|seat| slice_of(len, element, seat, self.seats())).collect()
    }

    /// Carries out a part of the call among the ranks of this host.
    pub(super) async fn inside(&mut self, part: &Call<'_>) -> Result<()> {
        self.lane.run_part(part, self.patient).await
    }

    /// Carries out a part of the call among the ranks of this column.
    pub(super) async fn across(&mut self, part: &Call<'_>) -> Result<()> {
        self.wired.carry_out(part, Some(self.column), self.patient).await
    }

    /// Carries out the call from every rank to every rank.
    pub(super) async fn flat(&mut self, call: &Call<'_>) -> Result<()> {
        self.wired.carry_out(call, None, self.patient).await
    }
}

/// These parts of something.
pub(super) fn parts_of<'a>(whole: Source<'a>, ranges: &[Range<usize>]) -> Vec<Source<'a>> {
    ranges.iter().map(|range| whole.slice(range.clone())).collect()
}

/// These parts of something to be written.
pub(super) fn targets_of<'a>(whole: Target<'a>, ranges: &[Range<usize>]) -> Vec<Target<'a>> {
    ranges.iter().map(|range| whole.slice(range.clone())).collect()
}

/// So much memory, with anything in it.
pub(super) fn room(scratch: &mut Vec<u8>, len: usize) -> Target<'_> {
    if scratch.len() < len {
        scratch.clear();
        scratch.resize(len, 0);
    }
    Target::from(&mut scratch[..len])
}
