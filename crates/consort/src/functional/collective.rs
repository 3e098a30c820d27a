//! What can be done with values, what comes of it, and how gradients go back.

use std::collections::HashSet;
use std::fmt;

use consort_sys::dtype::ReduceOp;
use consort_sys::reduce::Kernel;

use super::meta::Meta;
use crate::error::{Error, Result};
use crate::group::Rank;

/// Something that the ranks of a group do with a value of each of them.
///
/// It is told here, without any communication, what comes of it ([`meta`](Self::meta)) and how gradients go
/// back ([`adjoint`](Self::adjoint)). [`start`](super::start) does it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Collective {
    /// Everyone gets the root's value. Those of the others are ignored.
    Broadcast {
        /// Whose.
        root: Rank,
    },
    /// Everyone gets the combination of all values.
    AllReduce {
        /// How to combine them.
        op: ReduceOp,
    },
    /// The root gets the combination of all values, the others get zeroes.
    Reduce {
        /// How to combine them.
        op: ReduceOp,
        /// Who gets it.
        root: Rank,
    },
    /// Everyone gets all values, joined along a dimension in the order of ranks.
    AllGather {
        /// Along which.
        dim: usize,
    },
    /// Everyone gets its part of the combination of all values, which are cut along a dimension into equal
    /// parts.
    ReduceScatter {
        /// How to combine them.
        op: ReduceOp,
        /// Along which.
        dim: usize,
    },
    /// Everyone gets a part from everyone. Values are cut along dimension 0 into equal parts.
    AllToAll,
    /// The same with parts of different sizes.
    AllToAllUneven {
        /// How many rows go to each rank.
        to: Vec<usize>,
        /// How many rows come from each rank.
        from: Vec<usize>,
    },
    /// Values change hands. A rank that nobody sends to gets zeroes.
    Permute {
        /// Who sends to whom. Each rank sends once at the most, and is sent to once at the most.
        pairs: Vec<(Rank, Rank)>,
    },
}

/// How gradients go back through a [`Collective`].
#[derive(Clone, Debug, PartialEq)]
pub struct Adjoint {
    /// What is done with them.
    pub collective: Collective,
    /// What they are multiplied by then.
    pub factor: f64,
}

impl Collective {
    /// What it is called.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Broadcast { .. } => "broadcast",
            Self::AllReduce { .. } => "all_reduce",
            Self::Reduce { .. } => "reduce",
            Self::AllGather { .. } => "all_gather",
            Self::ReduceScatter { .. } => "reduce_scatter",
            Self::AllToAll | Self::AllToAllUneven { .. } => "all_to_all",
            Self::Permute { .. } => "permute",
        }
    }

    /// What comes of it on a rank that has this value, in a group of so many. Nobody is asked: it is what
    /// a call would check, and give.
    ///
    /// ```
    /// use consort::Dtype;
    /// use consort::functional::{Collective, Meta};
    ///
    /// let x = Meta::new(Dtype::F32, [4, 3]);
    /// let gathered = Collective::AllGather { dim: 1 }.meta(&x, 0.into(), 1024)?;
    /// assert_eq!(gathered.shape, [4, 3072]);
    /// let uneven = Collective::AllToAll.meta(&x, 0.into(), 3);
    /// assert_eq!(
    ///     uneven.unwrap_err().to_string(),
    ///     "all_to_all: dimension 0 of f32 [4, 3] has 4 rows, which 3 ranks cannot share equally"
    /// );
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call would make no sense.
    pub fn meta(&self, x: &Meta, rank: Rank, world: usize) -> Result<Meta> {
        self.infer(x, rank, world).map_err(|error| match error {
            Error::Argument(what) => Error::Argument(format!("{}: {what}", self.name())),
            other => other,
        })
    }

    /// How the gradient of its result becomes that of its input, where the loss is the sum of all ranks'
    /// losses.
    ///
    /// | forward | backward |
    /// |---|---|
    /// | all_reduce of sums, averages, premultiplied sums | the same |
    /// | all_gather | reduce_scatter of sums |
    /// | reduce_scatter of sums | all_gather; divided by the number of ranks for averages |
    /// | broadcast | the sum, to the root; the others' values had no part in it |
    /// | reduce of sums | broadcast of the root's gradient |
    /// | all_to_all, permute | the way back |
    ///
    /// ```
    /// use consort::ReduceOp;
    /// use consort::functional::Collective;
    ///
    /// let back = Collective::ReduceScatter { op: ReduceOp::Avg, dim: 1 }.adjoint(4)?;
    /// assert_eq!((back.collective, back.factor), (Collective::AllGather { dim: 1 }, 0.25));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// For operations that are not linear, such as the greatest of all, and for groups of nobody.
    pub fn adjoint(&self, world: usize) -> Result<Adjoint> {
        check_rank(Rank(0), world)?;
        let sum = ReduceOp::Sum;
        let back = |collective| Ok(Adjoint { collective, factor: 1.0 });
        match self {
            Self::Broadcast { root } => back(Self::Reduce { op: sum, root: *root }),
            Self::AllReduce { op } => {
                self.factor(*op, world)?;
                back(Self::AllReduce { op: *op })
            }
            Self::Reduce { op, root } => {
                let factor = self.factor(*op, world)?;
                Ok(Adjoint { collective: Self::Broadcast { root: *root }, factor })
            }
            Self::AllGather { dim } => back(Self::ReduceScatter { op: sum, dim: *dim }),
            Self::ReduceScatter { op, dim } => {
                let factor = self.factor(*op, world)?;
                Ok(Adjoint { collective: Self::AllGather { dim: *dim }, factor })
            }
            Self::AllToAll => back(Self::AllToAll),
            Self::AllToAllUneven { to, from } => {
                back(Self::AllToAllUneven { to: from.clone(), from: to.clone() })
            }
            Self::Permute { pairs } => {
                let pairs = pairs.iter().map(|&(from, to)| (to, from)).collect();
                back(Self::Permute { pairs })
            }
        }
    }

    /// How the result changes with each of the numbers that are combined.
    fn factor(&self, op: ReduceOp, world: usize) -> Result<f64> {
        match op {
            ReduceOp::Sum => Ok(1.0),
            ReduceOp::Avg => Ok(1.0 / world as f64),
            ReduceOp::PremulSum(factor) => Ok(factor),
            ReduceOp::Min | ReduceOp::Max => self.refuse(
                op,
                "the whole gradient belongs to the rank whose number it is, which the result does not \
                 tell; if it is only looked at, or taken away again as in a softmax, detach what goes in",
            ),
            ReduceOp::Product => self.refuse(
                op,
                "that of a number is the product of all others, which is lost where one is zero; add up \
                 logarithms, or detach what goes in",
            ),
            ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => {
                self.refuse(op, "bits do not change by little; detach what goes in")
            }
        }
    }

    fn refuse(&self, op: ReduceOp, why: &str) -> Result<f64> {
        let (name, op) = (self.name(), op.name());
        Err(Error::Argument(format!("{name}({op}) has no gradient: {why}")))
    }

    fn infer(&self, x: &Meta, rank: Rank, world: usize) -> Result<Meta> {
        check_rank(rank, world)?;
        match self {
            Self::Broadcast { root } => {
                check_rank(*root, world)?;
                Ok(x.clone())
            }
            Self::AllReduce { op } => {
                Kernel::new(x.dtype, *op, world)?;
                Ok(x.clone())
            }
            Self::Reduce { op, root } => {
                Kernel::new(x.dtype, *op, world)?;
                check_rank(*root, world)?;
                Ok(x.clone())
            }
            Self::AllGather { dim } => gathered(x, *dim, world),
            Self::ReduceScatter { op, dim } => {
                Kernel::new(x.dtype, *op, world)?;
                shared_out(x, *dim, world)
            }
            Self::AllToAll => shared_out(x, 0, world).map(|_| x.clone()),
            Self::AllToAllUneven { to, from } => exchanged(x, to, from, rank, world),
            Self::Permute { pairs } => {
                check_pairs(pairs, world)?;
                Ok(x.clone())
            }
        }
        .and_then(Meta::check_size)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Broadcast { root } => write!(f, ", root {root}"),
            Self::AllReduce { op } => write!(f, "({})", op.name()),
            Self::Reduce { op, root } => write!(f, "({}), root {root}", op.name()),
            Self::AllGather { dim } => write!(f, " along {dim}"),
            Self::ReduceScatter { op, dim } => write!(f, "({}) along {dim}", op.name()),
            Self::AllToAll => Ok(()),
            Self::AllToAllUneven { to, from } => {
                write!(f, ", {to:?} rows to and {from:?} from the ranks")
            }
            Self::Permute { pairs } => {
                let pairs = pairs.iter().map(|(from, to)| format!("{from} to {to}"));
                write!(f, ", {}", pairs.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// All values along a dimension. Single numbers become a row.
fn gathered(x: &Meta, dim: usize, world: usize) -> Result<Meta> {
    if x.shape.is_empty() && dim == 0 {
        return Ok(Meta::new(x.dtype, [world]));
    }
    x.check_dim(dim)?;
    Ok(x.with(dim, x.shape[dim].saturating_mul(world)))
}

/// One of as many equal parts as there are ranks.
fn shared_out(x: &Meta, dim: usize, world: usize) -> Result<Meta> {
    x.check_dim(dim)?;
    let len = x.shape[dim];
    if !len.is_multiple_of(world) {
        return refuse(format!(
            "dimension {dim} of {x} has {len} rows, which {world} ranks cannot share equally"
        ));
    }
    Ok(x.with(dim, len / world))
}

fn exchanged(x: &Meta, to: &[usize], from: &[usize], rank: Rank, world: usize) -> Result<Meta> {
    x.check_dim(0)?;
    for (name, rows) in [("to", to), ("from", from)] {
        if rows.len() != world {
            let count = rows.len();
            return refuse(format!("`{name}` has {count} numbers of rows for {world} ranks"));
        }
    }
    let (sent, received) = (total(to), total(from));
    if sent != x.shape[0] {
        return refuse(format!("`to` has {sent} rows in all, but {x} has {}", x.shape[0]));
    }
    let (mine, back) = (to[rank.index()], from[rank.index()]);
    if mine != back {
        return refuse(format!(
            "rank {rank} sends {mine} rows to itself, but expects {back}: they must be equal"
        ));
    }
    Ok(x.with(0, received))
}

fn total(rows: &[usize]) -> usize {
    rows.iter().fold(0, |sum, &rows| sum.saturating_add(rows))
}

fn check_rank(rank: Rank, world: usize) -> Result<()> {
    if rank.index() < world {
        return Ok(());
    }
    refuse(format!("there is no rank {rank} in a group of {world}"))
}

fn check_pairs(pairs: &[(Rank, Rank)], world: usize) -> Result<()> {
    let (mut sends, mut receives) = (HashSet::new(), HashSet::new());
    for &(from, to) in pairs {
        check_rank(from, world)?;
        check_rank(to, world)?;
        if !sends.insert(from) {
            return refuse(format!("rank {from} sends twice"));
        }
        if !receives.insert(to) {
            return refuse(format!("rank {to} is sent to twice"));
        }
    }
    Ok(())
}

fn refuse<T>(what: String) -> Result<T> {
    Err(Error::Argument(what))
}

#[cfg(test)]
mod tests;
