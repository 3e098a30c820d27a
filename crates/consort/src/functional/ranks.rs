//! The ways to say who takes part.

use crate::error::{Error, Result};
use crate::group::Group;
use crate::mesh::{Dimension, Mesh};

/// Who takes part in a call: whatever stands for a [`Group`].
///
/// | given | who |
/// |---|---|
/// | `&group` | all its ranks |
/// | `(&group, &[0, 2, 3])` | these ranks of it, in this order; only they make the call |
/// | `(&group, &[[0, 1], [2, 3]])` | those on the list that this rank is on |
/// | `&mesh` | all ranks of a mesh of one dimension |
/// | `(&mesh, 1)`, `(&mesh, "tensor")` | the ranks along a dimension of it that this rank is among |
///
/// Groups of lists and meshes are made when they are first needed, once each, as
/// [`Group::subgroup`] says.
///
/// ```
/// use consort::functional::{Ranks, all_reduce};
/// use consort::{Group, Mesh, ReduceOp};
///
/// let group = Group::fake(5, 8)?;
/// let ones = vec![1.0_f32; 4];
/// all_reduce(&ones, ReduceOp::Sum, &group)?.wait()?;
/// all_reduce(&ones, ReduceOp::Sum, (&group, &[5, 1]))?.wait()?;
/// assert_eq!((&group, &[[0, 1, 2, 3], [4, 5, 6, 7]]).group()?.world_ranks(), [4, 5, 6, 7]);
///
///
/// let mesh = Mesh::new(&group, &[2, 4], &["data", "tensor"])?;
/// assert_eq!((&mesh, "data").group()?.world_ranks(), [1, 5]);
/// let why = all_reduce(&ones, ReduceOp::Sum, &mesh).unwrap_err();
/// assert!(why.to_string().starts_with("a mesh of 2 dimensions (data, tensor) has a group for each"));
/// # Ok::<(), consort::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which ranks take part",
    note = "give `&group`, `(&group, &[0, 1])`, `&mesh` or `(&mesh, \"tensor\")`; ranks are `u32`"
)]
pub trait Ranks {
    /// The group of those who take part.
    ///
    /// # Errors
    /// When there is none that this rank is in, or it cannot be made.
    fn group(&self) -> Result<Group>;
}

impl Ranks for Group {
    fn group(&self) -> Result<Group> {
        Ok(self.clone())
    }
}

impl<R: Ranks + ?Sized> Ranks for &R {
    fn group(&self) -> Result<Group> {
        (**self).group()
    }
}

impl<L: RankList> Ranks for (&Group, L) {
    fn group(&self) -> Result<Group> {
        let (group, list) = self;
        list.subgroup_of(group)
    }
}

impl Ranks for Mesh {
    fn group(&self) -> Result<Group> {
        if self.ndim() == 1 {
            return Self::group(self, 0);
        }
        let (dims, names) = (self.ndim(), self.names().join(", "));
        Err(Error::Argument(format!(
            "a mesh of {dims} dimensions ({names}) has a group for each: say which, as in (&mesh, 0)"
        )))
    }
}

impl<'a, D: Into<Dimension<'a>> + Copy> Ranks for (&Mesh, D) {
    fn group(&self) -> Result<Group> {
        let &(mesh, dim) = self;
        mesh.group(dim)
    }
}

/// A list of ranks, or a list of such lists.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of ranks",
    note = "give `&[0, 1]`, a `Vec<u32>`, or a list of such lists; ranks are `u32`"
)]
pub trait RankList {
    /// The group of these ranks of a group, or of the list that this rank is on.
    ///
    /// # Errors
    /// When this rank is on none, or a group cannot be made.
    fn subgroup_of(&self, group: &Group) -> Result<Group>;
}

macro_rules! lists {
    ($(($($generic:tt)*) $list:ty;)*) => {$(
        impl<$($generic)*> RankList for $list {
            fn subgroup_of(&self, group: &Group) -> Result<Group> {
                group.subgroup(&self[..])
            }
        }
    )*};
}

macro_rules! lists_of_lists {
    ($(($($generic:tt)*) $list:ty;)*) => {$(
        impl<$($generic)*> RankList for $list {
            fn subgroup_of(&self, group: &Group) -> Result<Group> {
                let lists: Vec<&[u32]> = self.iter().map(|list| &list[..]).collect();
                one_of(&lists, group)
            }
        }
    )*};
}

lists! {
    () &[u32];
    () Vec<u32>;
    () &Vec<u32>;
    (const N: usize) [u32; N];
    (const N: usize) &[u32; N];
}

lists_of_lists! {
    () &[&[u32]];
    () &[Vec<u32>];
    () Vec<Vec<u32>>;
    () &Vec<Vec<u32>>;
    (const N: usize, const M: usize) [[u32; N]; M];
    (const N: usize, const M: usize) &[[u32; N]; M];
}

/// The group of the one list that this rank is on.
fn one_of(lists: &[&[u32]], group: &Group) -> Result<Group> {
    let me = group.rank().get();
    let mut seen = vec![false; group.world()];
    for &rank in lists.iter().copied().flatten() {
        match seen.get_mut(rank as usize).map(|seen| std::mem::replace(seen, true)) {
            Some(false) => {}
            Some(true) => {
                return Err(Error::Argument(format!(
                    "rank {rank} is on the lists {lists:?} twice"
                )));
            }
            None => {
                let world = group.world();
                return Err(Error::Argument(format!(
                    "there is no rank {rank} in a group of {world}"
                )));
            }
        }
    }
    match lists.iter().find(|list| list.contains(&me)) {
        Some(list) => group.subgroup(list),
        None => Err(Error::Argument(format!(
            "rank {me} is on none of the lists {lists:?}: only those on them make the call"
        ))),
    }
}
