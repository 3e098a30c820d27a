//! The groups of a mesh.

use std::sync::OnceLock;

use super::{Dimension, Mesh};
use crate::error::{Error, Result};
use crate::group::Group;

impl Mesh {
    /// This rank's group along a dimension: the ranks that differ from it only there, in their order.
    ///
    /// The first time, its members wait for each other, as in [`Group::subgroup`]. Ranks that ask for
    /// groups of several dimensions ask in the same order, or from threads of their own; otherwise they
    /// may wait in a circle, until the [timeout](Group::timeout). It costs no sockets and no threads.
    ///
    /// ```
    /// use consort::{Group, Mesh, ReduceOp};
    ///
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 4], &["data", "tensor"])?;
    /// let tensor = mesh.group("tensor")?;
    /// assert_eq!((tensor.world_ranks(), tensor.rank().get()), (&[4, 5, 6, 7][..], 1));
    /// tensor.all_reduce(&mut [1.0_f32; 16], ReduceOp::Sum)?;
    /// assert_eq!(mesh.group(0)?.world_ranks(), [1, 5]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when there is no such dimension or this rank is not in the mesh. Otherwise as
    /// [`Group::subgroup`]: a member that cannot come is named, at once if it was on this rank's host or had
    /// a connection to it, otherwise when the time is up.
    pub fn group<'a>(&self, dim: impl Into<Dimension<'a>>) -> Result<Group> {
        let dim = self.find(dim.into())?;
        let slot = &self.axes[dim].group;
        if let Some(group) = slot.get() {
            return Ok(group.clone());
        }
        let group = self.parent().subgroup(&self.row(dim)?)?;
        Ok(slot.get_or_init(|| group).clone())
    }

    /// This rank's groups along all dimensions, in their order. All ranks can call it at the same time.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 4], &["data", "tensor"])?;
    /// let [data, tensor] = &mesh.groups()?[..] else { unreachable!() };
    /// assert_eq!((data.world(), tensor.world()), (2, 4));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn groups(&self) -> Result<Vec<Group>> {
        (0..self.ndim()).map(|dim| self.group(dim)).collect()
    }

    /// The group of all ranks of the mesh, row by row.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 2, 2], &["a", "b", "c"])?;
    /// assert_eq!(mesh.whole()?.name(), "world");
    /// assert_eq!(mesh.sub(&["a", "c"])?.whole()?.world_ranks(), [0, 1, 4, 5]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn whole(&self) -> Result<Group> {
        if self.ndim() == 1 {
            return self.group(0);
        }
        self.coordinate().ok_or_else(|| self.outside())?;
        self.parent().subgroup(&self.ranks())
    }

    /// This rank's row along a dimension: the ranks that its [group](Self::group) there has, as numbers of
    /// the group that the mesh was made of.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 4], &["data", "tensor"])?;
    /// assert_eq!(mesh.row("tensor")?, [4, 5, 6, 7]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such dimension, or this rank is not in the mesh.
    pub fn row<'a>(&self, dim: impl Into<Dimension<'a>>) -> Result<Vec<u32>> {
        let dim = self.find(dim.into())?;
        let mut first = self.coordinate().ok_or_else(|| self.outside())?;
        first[dim] = 0;
        let start = self.layout.place(&first);
        let places = self.layout.select(&[dim]).places();
        let places: Vec<usize> = places.iter().map(|place| start + place).collect();
        Ok(self.ranks_of(&places))
    }

    /// All rows along a dimension, this rank's and those of the others: who has a group there with whom.
    ///
    /// ```
    /// # use consort::{Group, Mesh};
    /// let mesh = Mesh::new(&Group::fake(5, 6)?, &[2, 3], &["data", "tensor"])?;
    /// assert_eq!(mesh.rows("tensor")?, [[0, 1, 2], [3, 4, 5]]);
    /// assert_eq!(mesh.rows("data")?, [[0, 3], [1, 4], [2, 5]]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such dimension.
    pub fn rows<'a>(&self, dim: impl Into<Dimension<'a>>) -> Result<Vec<Vec<u32>>> {
        let dim = self.find(dim.into())?;
        Ok(self.layout.rows(&[dim]).iter().map(|places| self.ranks_of(places)).collect())
    }

    /// The same mesh, whose group along a dimension is this one: one with another
    /// [backend](Group::with_backend) or timeout, or one that there was before. Every rank of the mesh has
    /// to do the same. Parts that have this dimension have the group as well.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use consort::{Group, Mesh};
    ///
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 4], &["data", "tensor"])?;
    /// let patient = mesh.group("data")?.within(Duration::from_secs(3600));
    /// let mesh = mesh.with_group("data", &patient)?;
    /// assert_eq!(mesh.sub(&["data"])?.group(0)?.timeout(), Duration::from_secs(3600));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such dimension, this rank is not in the mesh, or the group does not have the ranks
    /// of its row, in their order.
    pub fn with_group<'a>(&self, dim: impl Into<Dimension<'a>>, group: &Group) -> Result<Self> {
        let dim = self.find(dim.into())?;
        let known = self.parent().world_ranks();
        let row: Vec<u32> = self.row(dim)?.iter().map(|&rank| known[rank as usize]).collect();
        if group.world_ranks() != row {
            let (rank, name, given) = (self.parent().rank(), &self.axes[dim].name, group.name());
            return Err(Error::Argument(format!(
                "group {given} has ranks {:?} of the group of all, but the row of rank {rank} along \
                 dimension {name:?} is {row:?}: give the group of just these ranks, in this order",
                group.world_ranks()
            )));
        }
        let mut mesh = self.clone();
        mesh.axes[dim].group = OnceLock::from(group.clone());
        Ok(mesh)
    }
}
