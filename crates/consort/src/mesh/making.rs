//! How meshes are made, and what is wrong with those that cannot be.

use std::sync::Arc;

use super::{Axis, Layout, Mesh, Root, Shape};
use crate::error::{Error, Result};
use crate::group::Group;

impl Mesh {
    /// All ranks of a group, row by row: along the last dimension ranks follow each other.
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let group = Group::fake(0, 8)?;
    /// let mesh = Mesh::new(&group, &[2, 2, 2], &["replica", "shard", "tensor"])?;
    /// assert_eq!(mesh.rows("replica")?, [[0, 4], [1, 5], [2, 6], [3, 7]]);
    /// assert_eq!(
    ///     Mesh::new(&group, &[2, 3], &["data", "tensor"]).unwrap_err().to_string(),
    ///     "a mesh of 2 × 3 has 6 ranks, but the group has 8: Mesh::from_ranks makes one of some of them"
    /// );
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the group has more or fewer ranks than the shape, there is no dimension or one of size 0, or
    /// there is not a name for each of them that no other has.
    pub fn new(group: &Group, shape: &[usize], names: &[&str]) -> Result<Self> {
        let (size, world) = (check_dimensions(shape, names)?, group.world());
        if size != world {
            let help =
                if size < world { "Mesh::from_ranks makes one of some of them" } else { TOO_FEW };
            let shape = Shape(shape);
            let what =
                format!("a mesh of {shape} has {size} ranks, but the group has {world}: {help}");
            return Err(Error::Argument(what));
        }
        Self::of(group, (0..world as u32).collect(), shape, names)
    }

    /// These ranks of a group, in this order: row by row, the last index changing first. They need not be
    /// all; the others are [outside](crate::mesh).
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// // Neighbours along "tensor" are two ranks apart.
    /// let group = Group::fake(2, 8)?;
    /// let mesh = Mesh::from_ranks(&group, &[0, 2, 4, 6, 1, 3, 5, 7], &[2, 4], &["data", "tensor"])?;
    /// assert_eq!(mesh.row("tensor")?, [0, 2, 4, 6]);
    /// assert_eq!(mesh.row("data")?, [2, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a rank is there twice or does not exist, when they are more or fewer than the shape, or as
    /// [`new`](Self::new).
    pub fn from_ranks(
        group: &Group,
        ranks: &[u32],
        shape: &[usize],
        names: &[&str],
    ) -> Result<Self> {
        let (size, given) = (check_dimensions(shape, names)?, ranks.len());
        if size != given {
            let what =
                format!("a mesh of {} has {size} ranks, but {given} were given", Shape(shape));
            return Err(Error::Argument(what));
        }
        Self::of(group, ranks.to_vec(), shape, names)
    }

    /// A group as a mesh of one dimension.
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let mesh = Mesh::from_group(&Group::fake(1, 4)?, "data")?;
    /// assert_eq!((mesh.shape(), mesh.group("data")?.name()), (vec![4], "world"));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the name is empty.
    pub fn from_group(group: &Group, name: &str) -> Result<Self> {
        Self::new(group, &[group.world()], &[name])
    }

    /// These ranks of a group, in this order, with groups that there are: for each dimension its name, and
    /// this rank's group along it, which says its size. The same as [`from_ranks`](Self::from_ranks) and
    /// then [`with_group`](Self::with_group) for every dimension; ranks outside have no groups to give, and
    /// use the former.
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let group = Group::fake(1, 4)?;
    /// let (data, tensor) = (group.among("data", &[1, 3])?, group.among("tensor", &[0, 1])?);
    /// let mesh = Mesh::from_groups(&group, &[0, 1, 2, 3], &[("data", &data), ("tensor", &tensor)])?;
    /// assert_eq!(mesh.group("tensor")?.name(), "world/tensor");
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a group's ranks are not this rank's row, or as [`from_ranks`](Self::from_ranks).
    pub fn from_groups(group: &Group, ranks: &[u32], groups: &[(&str, &Group)]) -> Result<Self> {
        let shape: Vec<usize> = groups.iter().map(|(_, along)| along.world()).collect();
        let names: Vec<&str> = groups.iter().map(|&(name, _)| name).collect();
        let mesh = Self::from_ranks(group, ranks, &shape, &names)?;
        groups.iter().try_fold(mesh, |mesh, &(name, along)| mesh.with_group(name, along))
    }

    /// So many ranks as the shape has, with dimensions that were checked.
    fn of(group: &Group, ranks: Vec<u32>, shape: &[usize], names: &[&str]) -> Result<Self> {
        let places = places_of(&ranks, group.world())?;
        let root = Root { group: group.clone(), ranks, places };
        let axes = names.iter().map(|name| Axis::new(name)).collect();
        Ok(Self { root: Arc::new(root), start: 0, layout: Layout::row_major(shape), axes })
    }
}

/// Makes sure that dimensions have sizes and names. How many ranks there are.
///
/// # Errors
/// Otherwise.
pub(super) fn check_dimensions(shape: &[usize], names: &[&str]) -> Result<usize> {
    if names.len() != shape.len() {
        let (dims, given, shape) = (shape.len(), names.len(), Shape(shape));
        let what = format!("a mesh of {shape} needs {dims} names, not {given}: {names:?}");
        return Err(Error::Argument(what));
    }
    check_names(names)?;
    if let Some((_, name)) = shape.iter().zip(names).find(|(size, _)| **size == 0) {
        let what = format!("dimension {name:?} has no ranks: the least size is 1");
        return Err(Error::Argument(what));
    }
    let size = shape.iter().try_fold(1_usize, |size, &next| size.checked_mul(next));
    let too_many = || Error::Argument(format!("a mesh of {}: {TOO_FEW}", Shape(shape)));
    size.ok_or_else(too_many)
}

/// Makes sure that there are names, each once.
///
/// # Errors
/// Otherwise.
pub(super) fn check_names(names: &[&str]) -> Result<()> {
    let wrong = if names.is_empty() {
        "a mesh has at least one dimension".to_owned()
    } else if let Some(dim) = names.iter().position(|name| name.is_empty()) {
        format!("dimension {dim} of {names:?} has no name: each needs one")
    } else if let Some(at) = (1..names.len()).find(|&at| names[..at].contains(&names[at])) {
        format!("two of {names:?} are called {:?}: each needs a name of its own", names[at])
    } else {
        return Ok(());
    };
    Err(Error::Argument(wrong))
}

/// Where each rank of a group is in a list.
///
/// # Errors
/// When one is there twice or does not exist.
fn places_of(ranks: &[u32], world: usize) -> Result<Vec<Option<usize>>> {
    let mut places = vec![None; world];
    for (place, &rank) in ranks.iter().enumerate() {
        let Some(known) = places.get_mut(rank as usize) else {
            return Err(Error::Argument(format!("there is no rank {rank} in a group of {world}")));
        };
        if known.replace(place).is_some() {
            return Err(Error::Argument(format!("rank {rank} is in the mesh twice")));
        }
    }
    Ok(places)
}

const TOO_FEW: &str = "start more ranks, or make it smaller";
