//! Where ranks are in a mesh.

use super::{Dimension, Mesh};
use crate::error::{Error, Result};
use crate::group::Rank;

impl Mesh {
    /// Where this rank is; `None` if it is not in the mesh.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let inside = Mesh::from_ranks(&Group::fake(2, 6)?, &[0, 1, 2, 3], &[2, 2], &["a", "b"])?;
    /// assert_eq!(inside.coordinate(), Some(vec![1, 0]));
    /// let outside = Mesh::from_ranks(&Group::fake(5, 6)?, &[0, 1, 2, 3], &[2, 2], &["a", "b"])?;
    /// assert_eq!(outside.coordinate(), None);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn coordinate(&self) -> Option<Vec<usize>> {
        self.coordinate_of(self.parent().rank())
    }

    /// Where a rank of the group is that the mesh was made of; `None` if it is not in the mesh, or there
    /// is none.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(0, 8)?, &[2, 4], &["data", "tensor"])?;
    /// assert_eq!(mesh.coordinate_of(6), Some(vec![1, 2]));
    /// assert_eq!(mesh.coordinate_of(8), None);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn coordinate_of(&self, rank: impl Into<Rank>) -> Option<Vec<usize>> {
        self.coordinate_at(self.root.place_of(rank.into())?)
    }

    /// The rank at a coordinate, of the group that the mesh was made of.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 4], &["data", "tensor"])?;
    /// assert!(mesh.rank_at(&[1, 2])? == 6);
    /// assert_eq!(
    ///     mesh.rank_at(&[2, 0]).unwrap_err().to_string(),
    ///     "there is no index 2 along dimension \"data\", which has 2"
    /// );
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such coordinate.
    pub fn rank_at(&self, coordinate: &[usize]) -> Result<Rank> {
        if coordinate.len() != self.ndim() {
            let (given, ndim) = (coordinate.len(), self.ndim());
            let what =
                format!("{coordinate:?} has {given} indices, but the mesh has {ndim} dimensions");
            return Err(Error::Argument(what));
        }
        for (dim, &index) in coordinate.iter().enumerate() {
            self.check_index(dim, index)?;
        }
        Ok(Rank::from(self.root.ranks[self.start + self.layout.place(coordinate)]))
    }

    /// This rank's index along a dimension, which is its rank in the [group](Self::group) there.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(6, 8)?, &[2, 4], &["data", "tensor"])?;
    /// assert_eq!((mesh.local_rank("data")?, mesh.local_rank(1)?), (1, 2));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such dimension, or this rank is not in the mesh.
    pub fn local_rank<'a>(&self, dim: impl Into<Dimension<'a>>) -> Result<usize> {
        let dim = self.find(dim.into())?;
        Ok(self.coordinate().ok_or_else(|| self.outside())?[dim])
    }

    /// Makes sure that there is such an index.
    ///
    /// # Errors
    /// Otherwise.
    pub(super) fn check_index(&self, dim: usize, index: usize) -> Result<()> {
        let len = self.shape()[dim];
        if index < len {
            return Ok(());
        }
        let name = &self.axes[dim].name;
        let what = format!("there is no index {index} along dimension {name:?}, which has {len}");
        Err(Error::Argument(what))
    }

    /// The coordinate of a place in the root's list.
    pub(super) fn coordinate_at(&self, place: usize) -> Option<Vec<usize>> {
        self.layout.coordinate(place.checked_sub(self.start)?)
    }
}
