//! Collectives and their contracts: which chunks a rank has, what they hold before, and what they
//! must hold after.

use std::fmt;
use std::str::FromStr;

use crate::program::Space;

/// A collective operation. Its root, where it has one, is part of it.
///
/// The data of a call is a *vector* of `world` *chunks*, one for each rank, in the order of ranks.
/// Chunks may differ in size and may be empty; programs know only their numbers. A buffer is
/// either a whole vector, or one chunk of it:
///
/// | operation | `In` | `Out` |
/// |---|---|---|
/// | `AllReduce` | vector | vector: all ranks' vectors combined |
/// | `ReduceScatter` | vector | own chunk of the combined vector |
/// | `AllGather` | own chunk | vector of all ranks' chunks |
/// | `Broadcast` | nothing | vector: the root's, which is there before |
/// | `Reduce` | vector | at the root: all ranks' vectors combined |
/// | `Gather` | own chunk | at the root: vector of all ranks' chunks |
/// | `Scatter` | at the root: vector | own chunk of the root's vector |
/// | `AllToAll` | vector: chunk `i` is for rank `i` | vector: chunk `i` is from rank `i` |
/// | `Barrier` | nothing | nothing; no rank ends before all have begun |
///
/// A buffer of one chunk calls it chunk 0; it has the size of the vector's chunk with the rank's
/// number. In `AllToAll` all chunks have one size, unless the program moves every chunk straight from
/// `In` to `Out` ([`Report::uneven`](crate::check::Report::uneven)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// Combines all vectors; everyone gets the result.
    AllReduce,
    /// Combines all vectors; everyone gets its chunk of the result.
    ReduceScatter,
    /// Everyone gets everyone's chunk.
    AllGather,
    /// Everyone gets the root's vector.
    Broadcast {
        /// Who has it.
        root: u32,
    },
    /// Combines all vectors; the root gets the result.
    Reduce {
        /// Who gets it.
        root: u32,
    },
    /// The root gets everyone's chunk.
    Gather {
        /// Who gets them.
        root: u32,
    },
    /// Everyone gets its chunk of the root's vector.
    Scatter {
        /// Who has it.
        root: u32,
    },
    /// Everyone gets from everyone the chunk meant for it.
    AllToAll,
    /// Nobody goes on before everyone has come.
    Barrier,
}

/// What a chunk of `Out` must hold in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What this rank's `In` held in this chunk (for `Broadcast`: the root's `Out`).
    Piece {
        /// Whose.
        rank: u32,
        /// Which chunk of its `In`.
        chunk: u32,
    },
    /// This chunk of all ranks' `In`, every one exactly once.
    Combined {
        /// Which chunk.
        chunk: u32,
    },
}

impl Collective {
    /// All of them, those with a root with this one.
    pub const fn all(root: u32) -> [Self; 9] {
        [
            Self::AllReduce,
            Self::ReduceScatter,
            Self::AllGather,
            Self::Broadcast { root },
            Self::Reduce { root },
            Self::Gather { root },
            Self::Scatter { root },
            Self::AllToAll,
            Self::Barrier,
        ]
    }

    /// Its name, as in `all_reduce`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllGather => "all_gather",
            Self::Broadcast { .. } => "broadcast",
            Self::Reduce { .. } => "reduce",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::AllToAll => "all_to_all",
            Self::Barrier => "barrier",
        }
    }

    /// Its root, if it has one.
    pub const fn root(self) -> Option<u32> {
        match self {
            Self::Broadcast { root }
            | Self::Reduce { root }
            | Self::Gather { root }
            | Self::Scatter { root } => Some(root),
            _ => None,
        }
    }

    /// The same operation with another root; one without stays as it is.
    #[must_use]
    pub const fn with_root(self, root: u32) -> Self {
        match self {
            Self::Broadcast { .. } => Self::Broadcast { root },
            Self::Reduce { .. } => Self::Reduce { root },
            Self::Gather { .. } => Self::Gather { root },
            Self::Scatter { .. } => Self::Scatter { root },
            other => other,
        }
    }

    /// Whether values are combined.
    pub const fn combines(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce { .. })
    }

    /// How many chunks a rank's `In` or `Out` has. Scratch is the program's own affair: none.
    pub fn chunks(self, space: Space, world: u32, rank: u32) -> u32 {
        let at_root = |count| if self.root() == Some(rank) { count } else { 0 };
        match (self, space) {
            (_, Space::Scratch) | (Self::Barrier, _) | (Self::Broadcast { .. }, Space::In) => 0,
            (Self::AllReduce | Self::AllToAll, _)
            | (Self::ReduceScatter | Self::Reduce { .. }, Space::In)
            | (Self::AllGather | Self::Broadcast { .. }, Space::Out) => world,
            (Self::AllGather | Self::Gather { .. }, Space::In)
            | (Self::ReduceScatter | Self::Scatter { .. }, Space::Out) => 1,
            (Self::Reduce { .. } | Self::Gather { .. }, Space::Out)
            | (Self::Scatter { .. }, Space::In) => at_root(world),
        }
    }

    /// The chunk of the vector whose size a chunk of `In` or `Out` has.
    pub fn vector_chunk(self, space: Space, rank: u32, chunk: u32) -> u32 {
        match (self, space) {
            (Self::AllGather | Self::Gather { .. }, Space::In)
            | (Self::ReduceScatter | Self::Scatter { .. }, Space::Out) => rank,
            _ => chunk,
        }
    }

    /// What a rank's `Out` must hold in this chunk when it has ended.
    pub fn wanted(self, rank: u32, chunk: u32) -> Wanted {
        match self {
            Self::AllReduce | Self::Reduce { .. } | Self::Barrier => Wanted::Combined { chunk },
            Self::ReduceScatter => Wanted::Combined { chunk: rank },
            Self::AllGather | Self::Gather { .. } => Wanted::Piece { rank: chunk, chunk: 0 },
            Self::Broadcast { root } => Wanted::Piece { rank: root, chunk },
            Self::Scatter { root } => Wanted::Piece { rank: root, chunk: rank },
            Self::AllToAll => Wanted::Piece { rank: chunk, chunk: rank },
        }
    }

    /// The chunk of `Out` that is the same memory as this chunk of `In` when a rank calls *in
    /// place*, if any. An `AllToAll` cannot be called in place; a `Broadcast` has no other form.
    pub fn in_place(self, rank: u32, chunk: u32) -> Option<u32> {
        match self {
            Self::AllReduce => Some(chunk),
            Self::Reduce { root } if rank == root => Some(chunk),
            Self::AllGather => Some(rank),
            Self::Gather { root } if rank == root => Some(rank),
            Self::ReduceScatter if chunk == rank => Some(0),
            Self::Scatter { root } if rank == root && chunk == rank => Some(0),
            _ => None,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.root().map_or(Ok(()), |root| write!(f, " (root {root})"))
    }
}

/// The operation of this name, with root 0.
impl FromStr for Collective {
    type Err = UnknownCollective;

    fn from_str(name: &str) -> Result<Self, UnknownCollective> {
        let unknown = || UnknownCollective { name: name.to_owned() };
        Self::all(0).into_iter().find(|op| op.name() == name).ok_or_else(unknown)
    }
}

/// There is no operation of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no operation {name:?}; choose all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, \
     scatter, all_to_all or barrier"
)]
pub struct UnknownCollective {
    name: String,
}
