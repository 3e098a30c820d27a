//! Data that is read from where it lies in its rank's private memory.
//!
//! Where ranks can [reach](consort_sys::reach) each other's memory, medium sizes are copied once
//! instead of twice: a rank says where its data is, takes what it needs from the others, and leaves
//! when the others have taken theirs.

use consort_sys::view::{Source, Target};

use super::super::drive::{Need, Trouble, Turns, View};
use super::spread::Takes;
use super::way::LARGE;
use crate::call::{Inputs, Outputs};

/// What a rank has for the others.
#[derive(Debug)]
pub(super) enum Offers<'a> {
    /// The same for all.
    Same(Source<'a>),
    /// A part for each.
    Each(Inputs<'a>),
    /// A part for each, which had to be put away because the results go where they were.
    Copied(Vec<Vec<u8>>),
}

impl<'a> Offers<'a> {
    /// The parts of an all_to_all whose results go there.
    pub(super) fn of_parts(inputs: Inputs<'a>, outputs: Outputs<'a>, world: usize) -> Self {
        let parts = || (0..world).map(|rank| inputs.part(rank, world));
        let mut results = (0..world).map(|rank| outputs.part(rank, world));
        if results.any(|result| parts().any(|part| overlap(part, result))) {
            return Self::Copied(parts().map(Source::to_vec).collect());
        }
        Self::Each(inputs)
    }
}

/// A call of which every rank both gives and takes.
#[derive(Debug)]
pub(super) struct Direct<'a> {
    offers: Offers<'a>,
    takes: Takes<'a>,
    own: (Source<'a>, Target<'a>),
    world: usize,
    trouble: Option<Trouble>,
}

/// Whether it is worth it for parts of so many bytes. Ranks have to agree on that, so it depends on
/// nothing that only one of them knows.
#[inline]
pub(super) fn is_worth_it(part: usize, world: usize) -> bool {
    part >= SMALLEST && part.saturating_mul(world * world) < LARGE
}

impl<'a> Direct<'a> {
    /// `own` is what this rank gives to itself.
    pub(super) fn new(
        offers: Offers<'a>,
        takes: Takes<'a>,
        own: (Source<'a>, Target<'a>),
        world: usize,
    ) -> Self {
        Self { offers, takes, own, world, trouble: None }
    }

    /// Where what this rank has for another one begins.
    fn address_for(&self, rank: usize) -> u64 {
        let start = match &self.offers {
            Offers::Same(data) => data.as_ptr(),
            Offers::Each(inputs) => inputs.part(rank, self.world).as_ptr(),
            Offers::Copied(parts) => parts[rank].as_ptr(),
        };
        start.expose_provenance() as u64
    }
}

impl Turns for Direct<'_> {
    fn posts(&self) -> u32 {
        2
    }

    fn turns(&self) -> u32 {
        2
    }

    fn leaves_memory_to_others(&self) -> bool {
        true
    }

    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_> {
        if turn == 0 {
            let table = view.mine(0);
            for rank in 0..self.world {
                let entry = rank * ENTRY..(rank + 1) * ENTRY;
                let address = self.address_for(rank).to_ne_bytes();
                table.slice(entry).copy_from((&address[..]).into());
            }
        }
        Source::from(&[][..])
    }

    fn meanwhile(&mut self, turn: u32, _view: &View<'_>) {
        let (from, to) = self.own;
        if turn == 0 && from.as_ptr() != to.as_mut_ptr().cast_const() {
            to.copy_from(from);
        }
    }

    fn after(&self, turn: u32) -> Need {
        Need::Everyone(turn)
    }

    fn consume(&mut self, turn: u32, view: &View<'_>) {
        if turn > 0 {
            return;
        }
        let (me, trouble) = (view.me(), &mut self.trouble);
        self.takes.each(|rank, target| {
            let entry = view.buffer_of(rank, 0).slice(me * ENTRY..(me + 1) * ENTRY).to_vec();
            let address = u64::from_ne_bytes(entry.try_into().expect("an entry has its length"));
            if let Err(error) = view.pull(rank, address, target) {
                trouble.get_or_insert(Trouble::Unreachable { rank, error });
            }
        });
    }

    fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }
}

fn overlap(part: Source<'_>, result: Target<'_>) -> bool {
    let (part_at, result_at) = (part.as_ptr().addr(), result.as_mut_ptr().addr());
    part_at < result_at + result.len() && result_at < part_at + part.len()
}

/// How many bytes the address of a part takes.
const ENTRY: usize = size_of::<u64>();
/// Below this, asking the kernel takes longer than a second copy.
const SMALLEST: usize = 32 << 10;
