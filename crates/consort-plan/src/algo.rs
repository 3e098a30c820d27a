//! The algorithms: pure functions from an operation, a world and a rank to that rank's program.
//!
//! One file, one algorithm. Each opens with its chunks, its rounds, the bytes a rank sends (of a
//! vector of `m` bytes between `n` ranks), where it rounds (the order in which values are combined),
//! and whether it stays right in place.

mod binomial;
mod bruck;
mod double_tree;
mod doubling;
mod embed;
mod flat;
mod fold;
mod halving;
mod hierarchical;
mod pairwise;
mod ring;
mod turned;

use std::fmt;

pub use binomial::Binomial;
pub use bruck::Bruck;
pub use double_tree::DoubleTree;
pub use doubling::Doubling;
pub use flat::Flat;
pub use halving::Halving;
pub use hierarchical::Hierarchical;
pub use pairwise::Pairwise;
pub use ring::Ring;

use crate::layout::Layout;
use crate::op::Collective;
use crate::program::{Chunks, Program, Space};

/// A way to carry out collectives.
pub trait Algorithm: Send + Sync {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// Whether it has programs for this operation between so many ranks.
    fn supports(&self, op: Collective, world: u32) -> bool;

    /// One rank's program.
    ///
    /// # Panics
    /// When the algorithm does not support the operation, or the rank or root is not of this world.
    fn program(&self, op: Collective, world: u32, rank: u32) -> Program;

    /// Whether every rank sends and receives as much, in the same rounds, to and from ranks as far
    /// away as any other rank: seen from itself, all ranks are the same.
    fn turns(&self, op: Collective) -> bool {
        let _ = op;
        false
    }
}

impl fmt::Debug for dyn Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<A: Algorithm + ?Sized> Algorithm for &A {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn supports(&self, op: Collective, world: u32) -> bool {
        (**self).supports(op, world)
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        (**self).program(op, world, rank)
    }

    fn turns(&self, op: Collective) -> bool {
        (**self).turns(op)
    }
}

/// Every algorithm that needs to know no more than the world.
pub const ALL: [&dyn Algorithm; 8] =
    [&Flat, &Ring, &Pairwise, &Binomial, &DoubleTree, &Halving, &Doubling, &Bruck];

/// The algorithm of this name, one of [`ALL`].
pub fn by_name(name: &str) -> Option<&'static dyn Algorithm> {
    ALL.into_iter().find(|algorithm| algorithm.name() == name)
}

/// The names of all algorithms: [`ALL`], and those that know which ranks share a host.
pub const NAMES: [&str; 10] = [
    "flat",
    "ring",
    "pairwise",
    "binomial",
    "double_tree",
    "halving",
    "doubling",
    "bruck",
    "hierarchical",
    "shares",
];

/// The algorithm of this name for ranks on these hosts, one of [`NAMES`].
///
/// # Errors
/// There is none.
pub fn named(name: &str, layout: &Layout) -> Result<Box<dyn Algorithm>, UnknownAlgorithm> {
    match name {
        "hierarchical" => Ok(Box::new(Hierarchical::new(layout.clone()))),
        "shares" => Ok(Box::new(Hierarchical::shares(layout.clone()))),
        _ => match by_name(name) {
            Some(algorithm) => Ok(Box::new(algorithm)),
            None => Err(UnknownAlgorithm { name: name.to_owned() }),
        },
    }
}

/// There is no algorithm of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no algorithm {name:?}; choose {}", NAMES.join(", "))]
pub struct UnknownAlgorithm {
    name: String,
}

/// The program of a rank that is alone: what it gives is what it gets. The same for all.
fn alone(op: Collective) -> Program {
    let mut program = Program::default();
    let chunks = op.chunks(Space::In, 1, 0);
    program.copy(Chunks::input(0, chunks), Chunks::output(0, chunks));
    program.end_round();
    program
}
