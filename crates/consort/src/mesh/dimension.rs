//! How a dimension is said.

use std::fmt;

/// A dimension of a [mesh](crate::Mesh), by its number from 0 or by its name. Whoever takes one takes
/// either by itself.
///
/// ```
/// use consort::mesh::Dimension;
/// use consort::{Group, Mesh};
///
/// let mesh = Mesh::new(&Group::fake(5, 8)?, &[2, 4], &["data", "tensor"])?;
/// assert_eq!(mesh.len(1)?, mesh.len("tensor")?);
/// assert_eq!(mesh.len(Dimension::from("data"))?, 2);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension<'a> {
    /// By its number.
    Index(usize),
    /// By its name.
    Name(&'a str),
}

impl From<usize> for Dimension<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl<'a> From<&'a str> for Dimension<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl<'a> From<&'a String> for Dimension<'a> {
    fn from(name: &'a String) -> Self {
        Self::Name(name)
    }
}

impl fmt::Display for Dimension<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "dimension {index}"),
            Self::Name(name) => write!(f, "dimension {name:?}"),
        }
    }
}
