//! What values are, without their numbers.

use std::fmt;

use consort_sys::dtype::Dtype;

use crate::error::{Error, Result};

/// What is known of a value before it is there: the kind of its numbers, and how many there are in each
/// dimension.
///
/// [`Collective::meta`](super::Collective::meta) tells what a call makes of one.
///
/// ```
/// use consort::Dtype;
/// use consort::functional::Meta;
///
/// let weights = Meta::new(Dtype::Bf16, [4096, 1024]);
/// assert_eq!((weights.count(), weights.bytes()), (4 << 20, 8 << 20));
/// assert_eq!(weights.to_string(), "bf16 [4096, 1024]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    /// The kind of numbers.
    pub dtype: Dtype,
    /// How many there are in each dimension. A single number has none.
    pub shape: Vec<usize>,
}

impl Meta {
    /// Of so many numbers of a kind.
    pub fn new(dtype: Dtype, shape: impl Into<Vec<usize>>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        product(&self.shape)
    }

    /// How much memory they take.
    pub fn bytes(&self) -> usize {
        self.count().saturating_mul(self.dtype.size())
    }

    /// The same kind of numbers, more or fewer of them in a dimension.
    pub(super) fn with(&self, dim: usize, len: usize) -> Self {
        let mut shape = self.shape.clone();
        shape[dim] = len;
        Self { dtype: self.dtype, shape }
    }

    /// How many numbers there are in the dimensions before this one, and from it on.
    pub(super) fn around(&self, dim: usize) -> (usize, usize) {
        let (before, rest) = self.shape.split_at(dim);
        (product(before), product(rest))
    }

    /// Makes sure that there is a dimension.
    ///
    /// # Errors
    /// Otherwise.
    pub(super) fn check_dim(&self, dim: usize) -> Result<()> {
        if dim < self.shape.len() {
            return Ok(());
        }
        let dims = match self.shape.len() {
            0 => "none".to_owned(),
            1 => "only 0".to_owned(),
            dims => format!("0 to {}", dims - 1),
        };
        Err(Error::Argument(format!("there is no dimension {dim} in {self}: it has {dims}")))
    }

    /// Makes sure that its bytes can be counted.
    ///
    /// # Errors
    /// Otherwise.
    pub(super) fn check_size(self) -> Result<Self> {
        if self.bytes() <= isize::MAX as usize {
            return Ok(self);
        }
        Err(Error::Argument(format!("no memory is as large as {self}")))
    }
}

/// How many numbers there are in these dimensions, as far as they can be counted. Where there is none in one
/// of them, there is none at all, however many there are in the others.
pub(super) fn product(shape: &[usize]) -> usize {
    match shape.contains(&0) {
        true => 0,
        false => shape.iter().fold(1, |count, &len| count.saturating_mul(len)),
    }
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}
