//! What a call is, without its memory: what ranks have to agree on.

use std::fmt;

use consort_sys::dtype::{Dtype, ReduceOp};

use super::{Call, Inputs, Outputs};

/// The operations.
///
/// ```
/// use consort::Operation;
///
/// let names = Operation::ALL.map(Operation::name);
/// assert!(names.contains(&"reduce_scatter"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`Call::Barrier`].
    Barrier,
    /// [`Call::AllReduce`].
    AllReduce,
    /// [`Call::Broadcast`].
    Broadcast,
    /// [`Call::Reduce`].
    Reduce,
    /// [`Call::AllGather`].
    AllGather,
    /// [`Call::Gather`].
    Gather,
    /// [`Call::Scatter`].
    Scatter,
    /// [`Call::ReduceScatter`].
    ReduceScatter,
    /// [`Call::AllToAll`].
    AllToAll,
}

impl Operation {
    /// All of them, each at the place of its code.
    pub const ALL: [Self; 9] = [
        Self::Barrier,
        Self::AllReduce,
        Self::Broadcast,
        Self::Reduce,
        Self::AllGather,
        Self::Gather,
        Self::Scatter,
        Self::ReduceScatter,
        Self::AllToAll,
    ];

    /// What people call it: `all_reduce` and so on.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::AllReduce => "all_reduce",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllGather => "all_gather",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What all ranks of a group have to say alike when they call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) operation: Operation,
    dtype: Option<Dtype>,
    op: Option<u8>,
    /// The bits of a premultiplied sum's factor, otherwise 0.
    factor: u64,
    root: Option<u32>,
    within: Within,
    purpose: Purpose,
    extent: Extent,
}

/// What of a call lies in symmetric memory and is worked on there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    Nothing,
    Operand,
    OperandAndResult,
    /// All of it, but in place, so that it cannot be worked on there. Ranks that agree on the rest do
    /// not have to agree on that: it is here for people.
    InPlace,
}

/// What a call is for: ranks that make the same one for different ends disagree.
///
/// ```
/// use consort::{Purpose, Terms};
///
/// let terms = Terms::within(std::time::Duration::from_secs(5));
/// assert_eq!(terms.purpose, Purpose::Program);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// The program has made it.
    #[default]
    Program,
    /// It is a part of [`Group::split`](crate::Group::split).
    Split,
    /// It is a part of asking for [symmetric memory](crate::symm).
    SymmetricMemory,
    /// It [compares](crate::Builder::verify_results) the results of earlier ones.
    Verification,
    /// It takes a gradient [back](crate::functional::Adjoint) through an earlier one.
    Gradient,
}

/// How much is moved, as far as all ranks know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// So many elements per rank, the same for all.
    Elements(u64),
    /// Parts of different sizes that all ranks know: a digest of the sizes.
    Sizes(u64),
    /// Sizes that only some ranks know; they are compared when they meet.
    Unknown,
    /// So many elements of one or several buffers, with a digest of the buffers' shapes or sizes.
    Together { count: u32, sizes: u32 },
}

impl Description {
    /// Of a checked call.
    #[inline]
    pub(crate) fn of(call: &Call<'_>, world: usize, within: Within) -> Self {
        let size = |dtype: Dtype, bytes: usize| Extent::Elements((bytes / dtype.size()) as u64);
        let (operation, dtype, op, root, extent) = match *call {
            Call::Barrier => (Operation::Barrier, None, None, None, Extent::Elements(0)),
            Call::AllReduce { dtype, op, input, .. } => {
                (Operation::AllReduce, Some(dtype), Some(op), None, size(dtype, input.len()))
            }
            Call::Broadcast { dtype, root, buffer } => {
                (Operation::Broadcast, Some(dtype), None, Some(root), size(dtype, buffer.len()))
            }
            Call::Reduce { dtype, op, root, input, .. } => {
                (Operation::Reduce, Some(dtype), Some(op), Some(root), size(dtype, input.len()))
            }
            Call::AllGather { dtype, input, outputs } => {
                let extent = match outputs {
                    Outputs::Equal(_) => size(dtype, input.len()),
                    Outputs::List(parts) => sizes(dtype, parts.iter().map(|part| part.len())),
                };
                (Operation::AllGather, Some(dtype), None, None, extent)
            }
            Call::Gather { dtype, root, uneven, input, .. } => {
                let extent = if uneven { Extent::Unknown } else { size(dtype, input.len()) };
                (Operation::Gather, Some(dtype), None, Some(root), extent)
            }
            Call::Scatter { dtype, root, uneven, output, .. } => {
                let extent = if uneven { Extent::Unknown } else { size(dtype, output.len()) };
                (Operation::Scatter, Some(dtype), None, Some(root), extent)
            }
            Call::ReduceScatter { dtype, op, inputs, output } => {
                let extent = match inputs {
                    Inputs::Equal(_) => size(dtype, output.len()),
                    Inputs::List(parts) => sizes(dtype, parts.iter().map(|part| part.len())),
                };
                (Operation::ReduceScatter, Some(dtype), Some(op), None, extent)
            }
            Call::AllToAll { dtype, uneven, inputs, .. } => {
                let extent = match uneven {
                    true => Extent::Unknown,
                    false => size(dtype, inputs.part(0, world).len()),
                };
                (Operation::AllToAll, Some(dtype), None, None, extent)
            }
        };
        let factor = match op {
            Some(ReduceOp::PremulSum(factor)) => factor.to_bits(),
            _ => 0,
        };
        let (op, root) = (op.map(ReduceOp::code), root.map(|root| root.0));
        let purpose = Purpose::Program;
        Self { operation, dtype, op, factor, root, within, purpose, extent }
    }

    /// Of a call that is made for this purpose, and in which several buffers travel together if
    /// `sizes`, their [digest](Self::digest_of), is not 0.
    #[inline]
    pub(crate) fn made_for(mut self, purpose: Purpose, sizes: u32) -> Self {
        self.extent = match (sizes, self.extent) {
            (1.., Extent::Elements(count)) if count <= u64::from(u32::MAX) => {
                Extent::Together { count: count as u32, sizes }
            }
            (1.., Extent::Unknown) => Extent::Sizes(u64::from(sizes)),
            (_, extent) => extent,
        };
        Self { purpose, ..self }
    }

    /// Whether a factor belongs to it.
    pub(crate) fn scales(&self) -> bool {
        self.op == Some(ReduceOp::PremulSum(1.0).code())
    }

    /// How many bytes each rank has in it, as far as all know that; otherwise 0.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        let count = match self.extent {
            Extent::Elements(count) => count,
            Extent::Together { count, .. } => u64::from(count),
            Extent::Sizes(_) | Extent::Unknown => 0,
        };
        self.dtype.map_or(0, |dtype| count.saturating_mul(dtype.size() as u64))
    }

    /// Whether no rank can end it before all have begun: every rank gets something of every other.
    pub(crate) fn is_for_all(&self) -> bool {
        match self.operation {
            Operation::Barrier
            | Operation::AllReduce
            | Operation::AllGather
            | Operation::ReduceScatter
            | Operation::AllToAll => true,
            Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter => {
                false
            }
        }
    }

    /// The same, without what ranks need not agree on.
    pub(crate) fn common(self) -> Self {
        match self.within {
            Within::InPlace => Self { within: Within::Nothing, ..self },
            _ => self,
        }
    }

    /// A word that stands for these sizes, never 0.
    pub(crate) fn digest_of(sizes: impl Iterator<Item = usize>) -> u32 {
        let digest = sizes.fold(0, |digest, size| mix(digest, size as u64));
        ((digest >> 32) as u32).max(1)
    }

    /// A digest of this call and of those whose digest is given.
    #[inline]
    pub(crate) fn digest(&self, before: u64) -> u64 {
        let [word, extent] = self.common().pack();
        mix(mix(mix(before, word), extent), self.factor)
    }

    /// As two words, which [`unpack`](Self::unpack) understands. The factor does not fit.
    #[inline]
    pub(crate) fn pack(&self) -> [u64; 2] {
        let (kind, extent) = match self.extent {
            Extent::Elements(count) => (0, count),
            Extent::Sizes(digest) => (1, digest),
            Extent::Unknown => (2, 0),
            Extent::Together { count, sizes } => (3, u64::from(count) | u64::from(sizes) << 32),
        };
        let dtype = self.dtype.map_or(NONE, |dtype| u64::from(dtype.code()));
        let op = self.op.map_or(NONE, u64::from);
        let root = self.root.map_or(NO_ROOT, u64::from);
        let kind = kind | (self.purpose as u64) << 2 | (self.within as u64) << 5;
        [self.operation as u64 | dtype << 8 | op << 16 | kind << 24 | root << 32, extent]
    }

    /// What another rank packed; `None` if it is not of this version.
    pub(crate) fn unpack([word, extent]: [u64; 2]) -> Option<Self> {
        let byte = |place: u32| (word >> place) as u8;
        let given = |byte: u8| (u64::from(byte) != NONE).then_some(byte);
        let operation = *Operation::ALL.get(usize::from(byte(0)))?;
        let dtype = match given(byte(8)) {
            Some(code) => Some(Dtype::from_code(code)?),
            None => None,
        };
        let kind = byte(24);
        let extent = match kind & 0b11 {
            0 => Extent::Elements(extent),
            1 => Extent::Sizes(extent),
            2 => Extent::Unknown,
            _ => Extent::Together { count: extent as u32, sizes: (extent >> 32) as u32 },
        };
        let purpose = match kind >> 2 & 0b111 {
            0 => Purpose::Program,
            1 => Purpose::Split,
            2 => Purpose::SymmetricMemory,
            3 => Purpose::Verification,
            4 => Purpose::Gradient,
            _ => return None,
        };
        let within = match kind >> 5 {
            0 => Within::Nothing,
            1 => Within::Operand,
            2 => Within::OperandAndResult,
            3 => Within::InPlace,
            _ => return None,
        };
        let root = (word >> 32 != NO_ROOT).then_some((word >> 32) as u32);
        let (op, factor) = (given(byte(16)), 0);
        Some(Self { operation, dtype, op, factor, root, within, purpose, extent })
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.purpose {
            Purpose::Program | Purpose::Gradient => self.operation.fmt(f)?,
            Purpose::Split => return f.write_str("split"),
            Purpose::SymmetricMemory => return f.write_str("asking for symmetric memory"),
            Purpose::Verification => return f.write_str("a comparison of results"),
        }
        if let Some(op) = self.op {
            write!(f, "({})", ReduceOp::name_of(op).unwrap_or("?"))?;
        }
        if let Some(dtype) = self.dtype {
            match self.extent {
                Extent::Elements(count) => write!(f, " of {count} {dtype}")?,
                Extent::Sizes(digest) => {
                    write!(f, " of {dtype} in parts of sizes {:08x}", digest as u32)?;
                }
                Extent::Unknown => write!(f, " of {dtype} in uneven parts")?,
                Extent::Together { count, sizes } => {
                    write!(f, " of {count} {dtype} in shapes {sizes:08x}")?;
                }
            }
        }
        match self.within {
            Within::Nothing => {}
            Within::Operand => f.write_str(" in symmetric memory")?,
            Within::OperandAndResult => f.write_str(" in symmetric memory, as is its result")?,
            Within::InPlace => f.write_str(" in symmetric memory, in place")?,
        }
        if let Some(root) = self.root {
            write!(f, ", root {root}")?;
        }
        if self.purpose == Purpose::Gradient {
            f.write_str(FOR_A_GRADIENT)?;
        }
        Ok(())
    }
}

/// Equal sizes are as good as equal parts.
fn sizes(dtype: Dtype, mut parts: impl Iterator<Item = usize> + Clone) -> Extent {
    let mut all = parts.clone();
    let first = all.next().unwrap_or(0);
    if all.all(|part| part == first) {
        return Extent::Elements((first / dtype.size()) as u64);
    }
    Extent::Sizes(parts.by_ref().fold(0, |digest, part| mix(digest, part as u64)))
}

/// A word that depends on all bits of both.
#[inline]
fn mix(digest: u64, word: u64) -> u64 {
    let product = (digest ^ word).wrapping_add(SPREAD).wrapping_mul(SPREAD);
    product ^ (product >> 29)
}

/// How a call ends that is made for a gradient.
pub(crate) const FOR_A_GRADIENT: &str = ", for a gradient";
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const NONE: u64 = 0xff;
const NO_ROOT: u64 = u32::MAX as u64;
