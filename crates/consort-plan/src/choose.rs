//! Which algorithm to use: a table, read from above; the first entry that fits decides.
//!
//! Every entry says why. The limits come from the [`cost`](crate::cost) model for networks of 25 to
//! 100 Gb/s (a test compares), rounded to what is easy to remember. A caller who knows better names
//! another algorithm ([`algo::named`](crate::algo::named)).

use crate::layout::Layout;
use crate::op::Collective;

/// What was chosen, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The name of the algorithm, for [`algo::named`](crate::algo::named).
    pub algorithm: &'static str,
    /// Why it is this one.
    pub reason: &'static str,
}

/// One line of the table: who it is for, and what it chooses.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The names of the operations.
    pub ops: &'static [&'static str],
    /// How ranks lie on hosts.
    pub place: Place,
    /// The most bytes of the vector.
    pub most_bytes: u64,
    /// The least bytes of a chunk, which is the vector by the number of ranks.
    pub least_chunk: u64,
    /// The most ranks.
    pub most_ranks: u32,
    /// Whether the number of ranks must be a power of two.
    pub power_of_two: bool,
    /// What to use.
    pub choice: Choice,
}

/// How ranks lie on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In any way.
    Anywhere,
    /// Some hosts have several ranks, and there are several hosts.
    Together,
    /// The same, with equally many ranks on all hosts.
    TogetherEvenly,
    /// The same, with the ranks of each host following each other.
    TogetherInOrder,
}

/// The algorithm for an operation on a vector of so many bytes between ranks on these hosts.
///
/// For an `AllToAll` with chunks of different sizes use `pairwise` instead, which alone of the
/// chosen ones moves every chunk straight to where it belongs whatever its size.
pub fn choose(op: Collective, bytes: u64, layout: &Layout) -> Choice {
    let fits = |entry: &&Entry| entry.fits(op, bytes, layout);
    TABLE.iter().find(fits).expect("the last entries of every operation fit all").choice
}

/// The table.
pub fn table() -> &'static [Entry] {
    TABLE
}

impl Entry {
    fn fits(&self, op: Collective, bytes: u64, layout: &Layout) -> bool {
        let world = layout.world();
        self.ops.contains(&op.name())
            && self.place.fits(layout)
            && bytes <= self.most_bytes
            && bytes / u64::from(world) >= self.least_chunk
            && world <= self.most_ranks
            && (!self.power_of_two || world.is_power_of_two())
    }

    const fn new(
        ops: &'static [&'static str],
        algorithm: &'static str,
        reason: &'static str,
    ) -> Self {
        Self {
            ops,
            place: Place::Anywhere,
            most_bytes: u64::MAX,
            least_chunk: 0,
            most_ranks: u32::MAX,
            power_of_two: false,
            choice: Choice { algorithm, reason },
        }
    }

    const fn at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    const fn up_to(mut self, bytes: u64) -> Self {
        self.most_bytes = bytes;
        self
    }

    const fn chunks_of(mut self, bytes: u64) -> Self {
        self.least_chunk = bytes;
        self
    }

    const fn ranks(mut self, most: u32) -> Self {
        self.most_ranks = most;
        self
    }

    const fn power_of_two(mut self) -> Self {
        self.power_of_two = true;
        self
    }
}

impl Place {
    fn fits(self, layout: &Layout) -> bool {
        let together = 1 < layout.count() && layout.count() < layout.world();
        match self {
            Self::Anywhere => true,
            Self::Together => together,
            Self::TogetherEvenly => together && layout.is_even(),
            Self::TogetherInOrder => together && layout.is_in_order(),
        }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const ALL_REDUCE: &[&str] = &["all_reduce"];
const REDUCE_SCATTER: &[&str] = &["reduce_scatter"];
const ALL_GATHER: &[&str] = &["all_gather"];
const ONE_TO_ALL: &[&str] = &["broadcast", "reduce"];
const ALL_TO_ALL: &[&str] = &["all_to_all"];
const BARRIER: &[&str] = &["barrier"];

const TABLE: &[Entry] = &[
    Entry::new(
        ALL_REDUCE,
        "doubling",
        "few bytes on hosts with several ranks: no algorithm has fewer rounds",
    )
    .at(Place::Together)
    .up_to(4 * KIB),
    Entry::new(
        ALL_REDUCE,
        "shares",
        "hosts with equally many ranks: combine inside first, then every rank carries its share \
         over the network",
    )
    .at(Place::TogetherEvenly),
    Entry::new(
        ALL_REDUCE,
        "ring",
        "large chunks, hosts in order: a ring crosses from host to host only once",
    )
    .at(Place::TogetherInOrder)
    .chunks_of(16 * KIB),
    Entry::new(
        ALL_REDUCE,
        "hierarchical",
        "hosts with different numbers of ranks: combine inside first, leaders go over the network",
    )
    .at(Place::Together),
    Entry::new(ALL_REDUCE, "doubling", "few bytes: no algorithm has fewer rounds").up_to(32 * KIB),
    Entry::new(
        ALL_REDUCE,
        "halving",
        "a power of two: as few bytes as a ring, in rounds that grow with the logarithm",
    )
    .power_of_two(),
    Entry::new(
        ALL_REDUCE,
        "ring",
        "large chunks, no power of two: the fewest bytes, nobody sends for another",
    )
    .chunks_of(16 * KIB),
    Entry::new(
        ALL_REDUCE,
        "halving",
        "middle sizes, no power of two: folding costs less than the rounds of a ring",
    ),
    Entry::new(
        REDUCE_SCATTER,
        "ring",
        "hosts in order with several ranks: a ring crosses from host to host only once",
    )
    .at(Place::TogetherInOrder)
    .chunks_of(2 * KIB),
    Entry::new(
        REDUCE_SCATTER,
        "halving",
        "a power of two: as few bytes as a ring, in rounds that grow with the logarithm",
    )
    .power_of_two(),
    Entry::new(
        REDUCE_SCATTER,
        "ring",
        "large chunks, no power of two: the fewest bytes, nobody sends for another",
    )
    .chunks_of(32 * KIB),
    Entry::new(REDUCE_SCATTER, "halving", "small chunks: few rounds count more than bytes"),
    Entry::new(
        ALL_GATHER,
        "ring",
        "hosts in order with several ranks: a ring crosses from host to host only once",
    )
    .at(Place::TogetherInOrder)
    .chunks_of(2 * KIB),
    Entry::new(ALL_GATHER, "halving", "a power of two: few rounds, near ranks exchange the most")
        .power_of_two(),
    Entry::new(ALL_GATHER, "bruck", "the fewest rounds and the fewest bytes for every world"),
    Entry::new(ONE_TO_ALL, "flat", "two ranks: one message").ranks(2),
    Entry::new(ONE_TO_ALL, "binomial", "few bytes: the rounds count").up_to(128 * KIB),
    Entry::new(
        ONE_TO_ALL,
        "ring",
        "hosts with several ranks: a ring crosses from host to host only once",
    )
    .at(Place::TogetherInOrder)
    .chunks_of(2 * KIB),
    Entry::new(ONE_TO_ALL, "ring", "middle sizes, not too many ranks: everyone sends at once")
        .up_to(4 * MIB)
        .chunks_of(16 * KIB),
    Entry::new(ONE_TO_ALL, "binomial", "middle sizes, many ranks: the rounds count").up_to(MIB),
    Entry::new(
        ONE_TO_ALL,
        "double_tree",
        "large vectors: segments follow each other, every rank sends all the time",
    ),
    Entry::new(&["gather"], "flat", "not too many ranks: the root takes them as they come")
        .ranks(16),
    Entry::new(&["gather"], "binomial", "many ranks: the root talks to few of them"),
    Entry::new(&["scatter"], "flat", "few ranks: everyone hears from the root itself").ranks(8),
    Entry::new(&["scatter"], "binomial", "many ranks: others help the root to send"),
    Entry::new(
        ALL_TO_ALL,
        "pairwise",
        "large chunks: one peer at a time, nobody is talked to by two at once",
    )
    .chunks_of(64 * KIB),
    Entry::new(ALL_TO_ALL, "flat", "few ranks: all messages leave at once").ranks(8),
    Entry::new(ALL_TO_ALL, "flat", "middle chunks: all messages leave at once").chunks_of(4 * KIB),
    Entry::new(ALL_TO_ALL, "bruck", "small chunks, many ranks: few large messages"),
    Entry::new(BARRIER, "hierarchical", "hosts with several ranks: meet inside first")
        .at(Place::Together),
    Entry::new(BARRIER, "bruck", "dissemination: the fewest rounds for every world"),
];

#[cfg(test)]
mod tests;
