//! What a rank asks of its group.

mod check;
mod description;

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::view::{Source, Target};

use crate::group::Rank;

pub(crate) use self::description::Description;
pub use self::description::Operation;

/// A collective call with the memory that is lent to it: bytes, and what they mean.
///
/// This is the form for bindings that know their types only at run time; Rust programs call the
/// methods of [`Group`](crate::Group) with slices. A `Target` may be the very memory that a
/// `Source` of the same call looks at, where the operation has a form in place.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// Nobody leaves before everyone has come.
    Barrier,
    /// Everyone gets the combination of everyone's input.
    AllReduce {
        /// What the bytes mean.
        dtype: Dtype,
        /// How to combine them.
        op: ReduceOp,
        /// This rank's part.
        input: Source<'a>,
        /// Where the result goes; may be the input.
        output: Target<'a>,
    },
    /// Everyone gets the root's data.
    Broadcast {
        /// What the bytes mean.
        dtype: Dtype,
        /// Whose data.
        root: Rank,
        /// Read on the root, written elsewhere.
        buffer: Target<'a>,
    },
    /// The root gets the combination of everyone's input.
    Reduce {
        /// What the bytes mean.
        dtype: Dtype,
        /// How to combine them.
        op: ReduceOp,
        /// Who gets it.
        root: Rank,
        /// This rank's part.
        input: Source<'a>,
        /// On the root, where the result goes; may be the input.
        output: Option<Target<'a>>,
    },
    /// Everyone gets everyone's input, in the order of ranks. The parts may differ in size, if all
    /// ranks say the same sizes.
    AllGather {
        /// What the bytes mean.
        dtype: Dtype,
        /// This rank's part.
        input: Source<'a>,
        /// Where each rank's part goes; this rank's own may be the input.
        outputs: Outputs<'a>,
    },
    /// The root gets everyone's input.
    Gather {
        /// What the bytes mean.
        dtype: Dtype,
        /// Who gets it.
        root: Rank,
        /// Whether the parts may differ in size; the same on all ranks.
        uneven: bool,
        /// This rank's part.
        input: Source<'a>,
        /// On the root, where each rank's part goes.
        outputs: Option<Outputs<'a>>,
    },
    /// Everyone gets a part of the root's data.
    Scatter {
        /// What the bytes mean.
        dtype: Dtype,
        /// Whose data.
        root: Rank,
        /// Whether the parts may differ in size; the same on all ranks.
        uneven: bool,
        /// On the root, each rank's part.
        inputs: Option<Inputs<'a>>,
        /// Where this rank's part goes.
        output: Target<'a>,
    },
    /// Everyone gets the combination of everyone's part for it. The parts may differ in size, if
    /// all ranks say the same sizes.
    ReduceScatter {
        /// What the bytes mean.
        dtype: Dtype,
        /// How to combine them.
        op: ReduceOp,
        /// A part for each rank.
        inputs: Inputs<'a>,
        /// Where the combination of everyone's part for this rank goes; may be that part.
        output: Target<'a>,
    },
    /// Everyone gets a part from everyone.
    AllToAll {
        /// What the bytes mean.
        dtype: Dtype,
        /// Whether the parts may differ in size; the same on all ranks.
        uneven: bool,
        /// A part for each rank.
        inputs: Inputs<'a>,
        /// Where each rank's part for this one goes.
        outputs: Outputs<'a>,
    },
}

impl Call<'_> {
    /// What is called.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Barrier => Operation::Barrier,
            Self::AllReduce { .. } => Operation::AllReduce,
            Self::Broadcast { .. } => Operation::Broadcast,
            Self::Reduce { .. } => Operation::Reduce,
            Self::AllGather { .. } => Operation::AllGather,
            Self::Gather { .. } => Operation::Gather,
            Self::Scatter { .. } => Operation::Scatter,
            Self::ReduceScatter { .. } => Operation::ReduceScatter,
            Self::AllToAll { .. } => Operation::AllToAll,
        }
    }
}

/// A part to be read for each rank.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// Equal parts, one behind the other.
    Equal(Source<'a>),
    /// Parts that lie anywhere.
    List(&'a [Source<'a>]),
}

impl<'a> Inputs<'a> {
    /// The part of one of `world` ranks.
    ///
    /// # Panics
    /// When there is no such rank, or a list has fewer parts.
    #[inline]
    pub fn part(self, rank: usize, world: usize) -> Source<'a> {
        match self {
            Self::Equal(all) => {
                let part = all.len() / world;
                all.slice(rank * part..(rank + 1) * part)
            }
            Self::List(parts) => parts[rank],
        }
    }
}

/// A part to be written for each rank.
#[derive(Clone, Copy, Debug)]
pub enum Outputs<'a> {
    /// Equal parts, one behind the other.
    Equal(Target<'a>),
    /// Parts that lie anywhere, without overlap.
    List(&'a [Target<'a>]),
}

impl<'a> Outputs<'a> {
    /// The part of one of `world` ranks.
    ///
    /// # Panics
    /// When there is no such rank, or a list has fewer parts.
    #[inline]
    pub fn part(self, rank: usize, world: usize) -> Target<'a> {
        match self {
            Self::Equal(all) => {
                let part = all.len() / world;
                all.slice(rank * part..(rank + 1) * part)
            }
            Self::List(parts) => parts[rank],
        }
    }
}
