//! Meshes made of meshes.

use std::sync::OnceLock;

use super::making::{check_dimensions, check_names};
use super::{Axis, Dimension, Layout, Mesh, Shape};
use crate::error::{Error, Result};

impl Mesh {
    /// The part with these dimensions that this rank is in: the ranks that differ from it only there. It
    /// has the same groups. Outside the mesh it is the part with the first rank, and this rank is outside
    /// that, too.
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 2, 2], &["data", "pipeline", "tensor"])?;
    /// let part = mesh.sub(&["data", "tensor"])?;
    /// assert_eq!((part.shape(), part.ranks()), (vec![2, 2], vec![0, 1, 4, 5]));
    /// assert_eq!(mesh.sub(&["pipeline"])?.ranks(), [5, 7]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no name or no such dimension, or the names are not in the order of the mesh.
    pub fn sub(&self, names: &[&str]) -> Result<Self> {
        let dims = self.find_all(names)?;
        let layout = self.layout.select(&dims);
        let start = match self.coordinate() {
            Some(mut first) => {
                dims.iter().for_each(|&dim| first[dim] = 0);
                self.start + self.layout.place(&first)
            }
            None => self.start,
        };
        let axes = dims.iter().map(|&dim| self.axes[dim].clone()).collect();
        Ok(self.reshaped(start, layout, axes))
    }

    /// The ranks that have this index along a dimension, as a mesh of the other dimensions. This rank may
    /// be outside it.
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 2, 2], &["data", "pipeline", "tensor"])?;
    /// let last_stage = mesh.slice("pipeline", 1)?;
    /// assert_eq!((last_stage.names(), last_stage.ranks()), (vec!["data", "tensor"], vec![2, 3, 6, 7]));
    /// assert_eq!(last_stage.coordinate(), None);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such dimension or index, or no other dimension.
    pub fn slice<'a>(&self, dim: impl Into<Dimension<'a>>, index: usize) -> Result<Self> {
        let dim = self.find(dim.into())?;
        self.check_index(dim, index)?;
        let mut first = vec![0; self.ndim()];
        first[dim] = index;
        let mut axes = self.axes.clone();
        axes.remove(dim);
        check_names(&axes.iter().map(|axis| &*axis.name).collect::<Vec<_>>())?;
        let start = self.start + self.layout.place(&first);
        let mut slice = self.reshaped(start, self.layout.without(&[dim]), axes);
        if slice.coordinate().is_none() {
            slice.axes.iter_mut().for_each(|axis| axis.group = OnceLock::new());
        }
        Ok(slice)
    }

    /// The mesh with one dimension in place of several, next to each other or not. Along it, ranks are in
    /// the order of the mesh of these dimensions. It stands where the first of them stood.
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 2, 2], &["replica", "shard", "tensor"])?;
    /// let flat = mesh.flatten(&["replica", "shard"], "data")?;
    /// assert_eq!((flat.shape(), flat.names()), (vec![4, 2], vec!["data", "tensor"]));
    /// assert_eq!(flat.row("data")?, [1, 3, 5, 7]);
    /// assert_eq!(mesh.flatten(&["replica", "tensor"], "ends")?.row("ends")?, [0, 1, 4, 5]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`sub`](Self::sub), and when a dimension that stays has the new one's name.
    pub fn flatten(&self, names: &[&str], name: &str) -> Result<Self> {
        let dims = self.find_all(names)?;
        let flat = self.layout.select(&dims).collapse();
        let (before, after): (Vec<usize>, Vec<usize>) =
            (0..self.ndim()).filter(|dim| !dims.contains(dim)).partition(|&dim| dim < dims[0]);
        let layout = self.layout.select(&before).join(&flat).join(&self.layout.select(&after));
        let axis = match dims[..] {
            [only] => Axis { name: name.into(), ..self.axes[only].clone() },
            _ => Axis::new(name),
        };
        let kept = |dims: &[usize]| dims.iter().map(|&dim| self.axes[dim].clone()).collect();
        let (before, after): (Vec<Axis>, Vec<Axis>) = (kept(&before), kept(&after));
        let mesh = self.reshaped(self.start, layout, [before, vec![axis], after].concat());
        check_names(&mesh.names())?;
        Ok(mesh)
    }

    /// The mesh with several dimensions in place of one. Along the last of them neighbours are those that
    /// they were before.
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[4, 2], &["data", "tensor"])?;
    /// let mesh = mesh.unflatten("data", &[2, 2], &["replica", "shard"])?;
    /// assert_eq!((mesh.shape(), mesh.names()), (vec![2, 2, 2], vec!["replica", "shard", "tensor"]));
    /// assert_eq!((mesh.row("replica")?, mesh.row("shard")?), (vec![1, 5], vec![5, 7]));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such dimension, the sizes do not make up its own, there is not a name for each of
    /// them that no other dimension has, or it was flattened from dimensions of which it would take a
    /// part that is not even.
    pub fn unflatten<'a>(
        &self,
        dim: impl Into<Dimension<'a>>,
        shape: &[usize],
        names: &[&str],
    ) -> Result<Self> {
        let dim = self.find(dim.into())?;
        let (size, len) = (check_dimensions(shape, names)?, self.len(dim)?);
        let (name, sizes) = (&self.axes[dim].name, Shape(shape));
        if size != len {
            let what = format!("dimension {name:?} has {len} ranks, not {size}, which {sizes} has");
            return Err(Error::Argument(what));
        }
        let uneven = || {
            Error::Argument(format!(
                "dimension {name:?} was flattened from others and cannot be {sizes}, whose rows would not \
                 be evenly spaced: Mesh::from_ranks makes a mesh of any ranks"
            ))
        };
        let layout = self.layout.refine(dim, shape).ok_or_else(uneven)?;
        let mut axes = self.axes.clone();
        axes.splice(dim..=dim, names.iter().map(|name| Axis::new(name)));
        let mesh = self.reshaped(self.start, layout, axes);
        check_names(&mesh.names())?;
        Ok(mesh)
    }

    /// The dimensions of several parts of one mesh, in the order given: the mesh whose rows through a rank
    /// are those of the parts. They have one rank in common, which is this one unless it is outside.
    ///
    /// ```
    /// use consort::{Group, Mesh};
    ///
    /// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 2, 2], &["data", "pipeline", "tensor"])?;
    /// let (data, tensor) = (mesh.sub(&["data"])?, mesh.sub(&["tensor"])?);
    /// assert_eq!(Mesh::concatenate(&[&data, &tensor])?, mesh.sub(&["data", "tensor"])?);
    /// assert_eq!(Mesh::concatenate(&[&tensor, &data])?.ranks(), [0, 4, 1, 5]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is none, they are not parts of one mesh, have no rank in common or more than one, or two
    /// dimensions have the same name.
    pub fn concatenate(meshes: &[&Self]) -> Result<Self> {
        let [first, others @ ..] = meshes else {
            return Err(Error::Argument("there is no mesh to concatenate".to_owned()));
        };
        let names: Vec<&str> = meshes.iter().flat_map(|mesh| mesh.names()).collect();
        check_names(&names)?;
        if others.iter().any(|mesh| !mesh.root.is_like(&first.root)) {
            return Err(cannot_join(meshes, "are not parts of one mesh"));
        }
        let places = first.layout.places();
        let mut places = places.iter().map(|place| first.start + place);
        let common =
            places.find(|&place| others.iter().all(|mesh| mesh.coordinate_at(place).is_some()));
        let common = common.ok_or_else(|| cannot_join(meshes, "have no rank in common"))?;
        let join = |layout: Layout, mesh: &&Self| layout.join(&mesh.layout);
        let layout = others.iter().fold(first.layout.clone(), join);
        if layout.complement(first.root.ranks.len()).is_none() {
            return Err(cannot_join(
                meshes,
                "overlap in more than one rank, or do not fit together",
            ));
        }
        // Each part has digits of its own in that place, so together they are not more than it.
        let inside: usize = meshes.iter().map(|mesh| common - mesh.start).sum();
        let axes = meshes.iter().flat_map(|mesh| mesh.axes.clone()).collect();
        Ok(first.reshaped(common - inside, layout, axes))
    }

    /// Other dimensions on the same list of ranks.
    fn reshaped(&self, start: usize, layout: Layout, axes: Vec<Axis>) -> Self {
        debug_assert!(start + layout.cosize() <= self.root.ranks.len());
        debug_assert_eq!(layout.ndim(), axes.len());
        Self { root: self.root.clone(), start, layout, axes }
    }

    /// Which dimensions are meant.
    ///
    /// # Errors
    /// When there is none of that name, or they are not in the mesh's order.
    fn find_all(&self, names: &[&str]) -> Result<Vec<usize>> {
        if names.is_empty() {
            return Err(Error::Argument("name at least one dimension of the mesh".to_owned()));
        }
        let find = |name: &&str| self.find(Dimension::Name(name));
        let dims: Vec<usize> = names.iter().map(find).collect::<Result<_>>()?;
        if let Some(at) = (1..dims.len()).find(|&at| dims[at - 1] >= dims[at]) {
            let (known, before, after) = (self.names(), names[at - 1], names[at]);
            let what = format!(
                "dimension {after:?} does not come after {before:?} in a mesh of {known:?}: name each once, \
                 in this order"
            );
            return Err(Error::Argument(what));
        }
        Ok(dims)
    }
}

fn cannot_join(meshes: &[&Mesh], why: &str) -> Error {
    let names: Vec<Vec<&str>> = meshes.iter().map(|mesh| mesh.names()).collect();
    Error::Argument(format!(
        "the meshes of {names:?} {why}: concatenate parts of one mesh that have no dimension in common"
    ))
}
