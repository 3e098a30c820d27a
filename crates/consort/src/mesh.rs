//! Ranks in rows and columns.
//!
//! # The subject
//!
//! A program that works in several ways at once (some ranks have copies of a model, some have parts of it)
//! needs a group for each way. A [`Mesh`] is the ranks of a [`Group`] as an array whose dimensions have
//! names; the ranks of a row along a dimension are a group:
//!
//! ```text
//!      │ tensor
//! data │  0   1   2   3
//! ─────┼────────────────
//!    0 │  0   1   2   3     rank 5 has the group 4 5 6 7 along "tensor",
//!    1 │  4  [5]  6   7     and the group 1 5 along "data"
//! ```
//!
//! **A mesh is arithmetic.** Every rank makes it by itself, from the same numbers; nothing is sent, and it
//! costs neither sockets nor threads. What a rank does not tell the others they cannot compare: ranks that
//! make different meshes find out when they ask for groups whose members disagree, or wait for each other.
//!
//! **Groups are made when they are first asked for**, by [`Group::subgroup`]: equal lists of ranks are one
//! group, in whichever mesh they are found, and a dimension of all ranks in their order is the group that
//! the mesh was made of. The members of a new group wait for each other, so all ranks ask for the groups
//! of several dimensions in the same order, as [`groups`](Mesh::groups) does.
//!
//! **Parts are meshes.** [`sub`](Mesh::sub), [`slice`](Mesh::slice), [`flatten`](Mesh::flatten),
//! [`unflatten`](Mesh::unflatten) and [`concatenate`](Mesh::concatenate) give new meshes and leave the old
//! ones alone. Nothing is remembered elsewhere: a flattened dimension is had from the mesh that `flatten`
//! returned, and there is no current mesh; it is passed to whoever needs it.
//!
//! **Ranks outside.** A mesh may have fewer ranks than its group. The others can make it and ask about it
//! all the same: their [`coordinate`](Mesh::coordinate) is `None`, and what only a rank of the mesh has, a
//! group or a row of its own, is an error there.
//!
//! # Where to start
//!
//! ```
//! use consort::{Group, Mesh};
//!
//! let group = Group::fake(5, 8)?;
//! let mesh = Mesh::new(&group, &[2, 4], &["data", "tensor"])?;
//! assert_eq!(mesh.coordinate(), Some(vec![1, 1]));
//! assert_eq!(mesh.group("tensor")?.world_ranks(), [4, 5, 6, 7]);
//! assert_eq!(mesh.group("data")?.world_ranks(), [1, 5]);
//! # Ok::<(), consort::Error>(())
//! ```
//!
//! | to have a mesh | |
//! |---|---|
//! | [`Mesh::new`] | of all ranks, row by row |
//! | [`Mesh::from_ranks`] | of these ranks, in this order |
//! | [`Mesh::from_group`] | of one dimension, which is a group |
//! | [`Mesh::from_groups`] | whose rows are groups that there are |
//! | [`Mesh::from_description`] | as another was described |

mod coordinates;
mod description;
mod dimension;
mod drawing;
mod groups;
mod layout;
mod making;
mod parts;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};

pub use self::description::Description;
pub use self::dimension::Dimension;
use self::layout::Layout;
use crate::error::{Error, Result};
use crate::group::{Group, Rank};

/// Ranks as an array of any number of dimensions, and a group for each of them.
///
/// Clones are the same mesh. It keeps the group that it was made of. Shown, it is a table in which this
/// rank is marked:
///
/// ```
/// let group = consort::Group::fake(4, 6)?;
/// let mesh = consort::Mesh::new(&group, &[2, 3], &["data", "tensor"])?;
/// let table = "
///      │ tensor
/// data │  0   1   2
/// ─────┼────────────
///    0 │  0   1   2
///    1 │  3  [4]  5";
/// assert_eq!(format!("\n{mesh}"), table);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone)]
pub struct Mesh {
    root: Arc<Root>,
    /// Its first rank's place in the root's list.
    start: usize,
    /// The other ranks' places, from there.
    layout: Layout,
    /// As many as the layout has dimensions.
    axes: Vec<Axis>,
}

/// What a mesh has of a dimension besides its layout.
#[derive(Clone)]
struct Axis {
    name: Arc<str>,
    /// This rank's group, if it was given or asked for. Empty outside the mesh.
    group: OnceLock<Group>,
}

/// The mesh that others are parts of: a group, and a list of its ranks.
struct Root {
    group: Group,
    ranks: Vec<u32>,
    /// Where each rank of the group is in the list.
    places: Vec<Option<usize>>,
}

impl Mesh {
    /// How many ranks there are along each dimension.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(0, 8)?, &[2, 4], &["data", "tensor"])?;
    /// assert_eq!((mesh.shape(), mesh.names()), (vec![2, 4], vec!["data", "tensor"]));
    /// assert_eq!((mesh.ndim(), mesh.size(), mesh.len("tensor")?), (2, 8, 4));
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn shape(&self) -> Vec<usize> {
        self.layout.shape()
    }

    /// How many dimensions there are.
    pub fn ndim(&self) -> usize {
        self.layout.ndim()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.layout.numel()
    }

    /// How many ranks there are along a dimension.
    ///
    /// # Errors
    /// When there is no such dimension.
    pub fn len<'a>(&self, dim: impl Into<Dimension<'a>>) -> Result<usize> {
        let dim = self.find(dim.into())?;
        Ok(self.layout.select(&[dim]).numel())
    }

    /// What the dimensions are called, in their order.
    pub fn names(&self) -> Vec<&str> {
        self.axes.iter().map(|axis| &*axis.name).collect()
    }

    /// The group that its ranks are of.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::from_ranks(&Group::fake(5, 8)?, &[4, 5], &[2], &["pair"])?;
    /// assert_eq!((mesh.parent().world(), mesh.group("pair")?.world()), (8, 2));
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn parent(&self) -> &Group {
        &self.root.group
    }

    /// All ranks, as numbers of the group that the mesh was made of, row by row: the last index changes
    /// first.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::from_ranks(&Group::fake(3, 8)?, &[7, 5, 3, 1], &[2, 2], &["a", "b"])?;
    /// assert_eq!(mesh.ranks(), [7, 5, 3, 1]);
    /// assert_eq!(mesh.sub(&["a"])?.ranks(), [7, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn ranks(&self) -> Vec<u32> {
        self.ranks_of(&self.layout.places())
    }

    /// Which dimension is meant.
    ///
    /// # Errors
    /// When there is none.
    fn find(&self, dim: Dimension<'_>) -> Result<usize> {
        let names = self.names();
        let found = match dim {
            Dimension::Index(index) => (index < names.len()).then_some(index),
            Dimension::Name(name) => names.iter().position(|known| *known == name),
        };
        let none = || Error::Argument(format!("there is no {dim} in a mesh of {names:?}"));
        found.ok_or_else(none)
    }

    /// The ranks at these places, which are counted from its start.
    fn ranks_of(&self, places: &[usize]) -> Vec<u32> {
        places.iter().map(|place| self.root.ranks[self.start + place]).collect()
    }

    /// What a rank hears that is not in the mesh.
    fn outside(&self) -> Error {
        let (rank, ranks) = (self.parent().rank(), Shape(&self.shape()).to_string());
        Error::Argument(format!(
            "rank {rank} is not in the mesh of {ranks} ranks with dimensions {:?}, so it has no row and no \
             group there: only ranks whose coordinate is not None ask for one",
            self.names()
        ))
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("names", &self.names())
            .field("shape", &self.shape())
            .field("ranks", &self.ranks())
            .field("coordinate", &self.coordinate())
            .field("parent", &self.parent().name())
            .finish()
    }
}

impl Root {
    fn place_of(&self, rank: Rank) -> Option<usize> {
        self.places.get(rank.index()).copied().flatten()
    }

    /// Whether both have the same processes in the same order.
    fn is_like(&self, other: &Self) -> bool {
        let same_group = self.group.world_ranks() == other.group.world_ranks();
        same_group && self.ranks == other.ranks
    }
}

impl Axis {
    fn new(name: &str) -> Self {
        Self { name: name.into(), group: OnceLock::new() }
    }
}

/// Sizes, as they are written: `2 × 4`.
struct Shape<'a>(&'a [usize]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&sizes.join(" × "))
    }
}
