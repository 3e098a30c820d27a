//! What a rank asks of its group.

mod check;
mod description;
pub(crate) mod space;

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::view::{Source, Target};

use crate::group::Rank;

pub(crate) use self::description::{Description, FOR_A_GRADIENT, Within};
pub use self::description::{Operation, Purpose};

/// A collective call with the memory that is lent to it: bytes, and what they mean.
///
/// This is the form for bindings that know their types only at run time; Rust programs call the
/// methods of [`Group`](crate::Group) with slices. A `Target` may be the very memory that a
/// `Source` of the same call looks at, where the operation has a form in place.
///
/// ```
/// use consort::{Call, Dtype, Element, Operation, Rank, Target};
///
/// let mut numbers = [1.0_f64, 2.0];
/// let buffer = f64::target(&mut numbers);
/// let call = Call::Broadcast { dtype: Dtype::F64, root: Rank::from(0), buffer };
/// assert_eq!(call.operation(), Operation::Broadcast);
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// group.call(&call)?;
///
/// // Half a number is refused before anything moves.
/// let mut bytes = [0_u8; 12];
/// let half = Call::Broadcast {
///     dtype: Dtype::F64,
///     root: Rank::from(0),
///     buffer: Target::from(&mut bytes[..]),
/// };
/// assert!(group.call(&half).is_err());
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
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
///
/// ```
/// use consort::{Inputs, Source};
///
/// let bytes = [1_u8, 2, 3, 4];
/// let equal = Inputs::Equal(Source::from(&bytes[..]));
/// assert_eq!(equal.part(1, 2).to_vec(), [3, 4]);
///
/// let anywhere = [Source::from(&bytes[..1]), Source::from(&bytes[1..])];
/// assert_eq!(Inputs::List(&anywhere).part(1, 2).to_vec(), [2, 3, 4]);
/// ```
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
///
/// ```
/// use consort::{Outputs, Target};
///
/// let mut bytes = [0_u8; 4];
/// let outputs = Outputs::Equal(Target::from(&mut bytes[..]));
/// outputs.part(1, 2).copy_from((&[8_u8, 9][..]).into());
/// assert_eq!(bytes, [0, 0, 8, 9]);
/// ```
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
