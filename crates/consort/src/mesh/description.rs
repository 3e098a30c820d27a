//! Meshes as plain values.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Mesh;
use crate::error::Result;
use crate::group::Group;

/// What a [mesh](Mesh) is made of, without its groups: to be written down, sent or compared.
///
/// ```
/// use consort::{Group, Mesh};
///
/// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 4], &["data", "tensor"])?;
/// let rows = mesh.sub(&["tensor"])?.describe();
/// assert_eq!((rows.names, rows.shape, rows.ranks), (vec!["tensor".to_owned()], vec![4], vec![4, 5, 6, 7]));
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Description {
    /// What the dimensions are called, in their order.
    pub names: Vec<String>,
    /// How many ranks there are along each dimension.
    pub shape: Vec<usize>,
    /// The ranks, row by row: the last index changes first.
    pub ranks: Vec<u32>,
}

impl Mesh {
    /// What it is made of, as a plain value.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 4], &["data", "tensor"])?;
    /// assert_eq!(mesh.describe().ranks, [0, 1, 2, 3, 4, 5, 6, 7]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn describe(&self) -> Description {
        let names = self.names().into_iter().map(str::to_owned).collect();
        Description { names, shape: self.shape(), ranks: self.ranks() }
    }

    /// The mesh that was described, of ranks of this group. It is equal to the one whose description it is,
    /// if that was made of the same group; its groups are found again when they are asked for, except those
    /// that were [given](Self::with_group).
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let group = Group::fake(5, 8)?;
    /// let mesh = Mesh::new(&group, &[2, 4], &["data", "tensor"])?;
    /// assert_eq!(Mesh::from_description(&group, &mesh.describe())?, mesh);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_ranks`](Self::from_ranks).
    pub fn from_description(group: &Group, description: &Description) -> Result<Self> {
        let Description { names, shape, ranks } = description;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Self::from_ranks(group, ranks, shape, &names)
    }
}

/// Meshes are equal that have the same ranks at the same coordinates, of groups with the same members, and
/// dimensions with the same names; whatever they are parts of, and whatever groups they were given.
impl PartialEq for Mesh {
    fn eq(&self, other: &Self) -> bool {
        let same_members = || {
            Arc::ptr_eq(&self.root, &other.root)
                || self.parent().world_ranks() == other.parent().world_ranks()
        };
        same_members() && self.describe() == other.describe()
    }
}

impl Eq for Mesh {}

impl Hash for Mesh {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.describe().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn meshes_are_equal_by_their_ranks_and_names_and_not_by_how_they_were_made() {
        let group = Group::fake(5, 8).unwrap();
        let mesh = Mesh::new(&group, &[2, 4], &["data", "tensor"]).unwrap();
        let rows = mesh.unflatten("tensor", &[2, 2], &["a", "b"]).unwrap();
        let again = rows.flatten(&["a", "b"], "tensor").unwrap();
        assert_eq!(again, mesh);
        assert_eq!(HashSet::from([mesh.clone(), again]).len(), 1);
        let given = mesh.with_group(0, &group.among("other", &[1, 5]).unwrap()).unwrap();
        assert_eq!(given, mesh);
        let row = Mesh::from_ranks(&group, &[4, 5, 6, 7], &[4], &["tensor"]).unwrap();
        assert_eq!(mesh.sub(&["tensor"]).unwrap(), row);
        let different = [
            Mesh::new(&group, &[2, 4], &["data", "other"]).unwrap(),
            Mesh::new(&group, &[4, 2], &["data", "tensor"]).unwrap(),
            Mesh::from_ranks(&group, &[1, 0, 2, 3, 4, 5, 6, 7], &[2, 4], &["data", "tensor"])
                .unwrap(),
        ];
        different.iter().for_each(|other| assert_ne!(*other, mesh));
    }

    #[test]
    fn equal_numbers_of_different_groups_are_different_ranks() {
        let group = Group::fake(1, 4).unwrap();
        let [low, odd] = [&[0, 1][..], &[1, 3]]
            .map(|ranks| Mesh::new(&group.subgroup(ranks).unwrap(), &[2], &["data"]).unwrap());
        assert_eq!(low.ranks(), odd.ranks());
        assert_ne!(low, odd);
    }

    #[test]
    fn a_description_comes_through_a_file() {
        let group = Group::fake(2, 6).unwrap();
        let mesh = Mesh::from_ranks(&group, &[5, 2, 0, 1], &[2, 2], &["a", "b"]).unwrap();
        let bytes = postcard::to_allocvec(&mesh.describe()).unwrap();
        let read: Description = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(Mesh::from_description(&group, &read).unwrap(), mesh);
        let small = Group::fake(2, 4).unwrap();
        let error = Mesh::from_description(&small, &read).unwrap_err();
        assert_eq!(error.to_string(), "there is no rank 5 in a group of 4");
    }
}
