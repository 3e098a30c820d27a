//! Numbers with a shape, for programs that have no tensors of their own.

use consort_sys::dtype::Element;

use super::meta::product;
use crate::error::{Error, Result};

/// Numbers in any number of dimensions, row by row: a value for programs that have no tensor library.
///
/// ```
/// use consort::functional::Array;
///
/// let table = Array::new([2, 3], vec![1, 2, 3, 4, 5, 6])?;
/// assert_eq!(table.shape(), [2, 3]);
/// assert_eq!(table.reshape([3, 2])?.into_numbers(), [1, 2, 3, 4, 5, 6]);
/// assert!(Array::new([2, 2], vec![0.5_f32; 3]).is_err());
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Array<T> {
    shape: Vec<usize>,
    numbers: Vec<T>,
}

impl<T: Element> Array<T> {
    /// These numbers in this shape.
    ///
    /// # Errors
    /// When a shape has another number of them.
    pub fn new(shape: impl Into<Vec<usize>>, numbers: Vec<T>) -> Result<Self> {
        let shape = shape.into();
        if product(&shape) != numbers.len() {
            let given = numbers.len();
            return Err(Error::Argument(format!(
                "{given} numbers do not have the shape {shape:?}"
            )));
        }
        Ok(Self::of(shape, numbers))
    }

    pub(super) fn of(shape: Vec<usize>, numbers: Vec<T>) -> Self {
        debug_assert_eq!(product(&shape), numbers.len());
        Self { shape, numbers }
    }

    /// The same numbers in another shape.
    ///
    /// # Errors
    /// When that has another number of them.
    pub fn reshape(self, shape: impl Into<Vec<usize>>) -> Result<Self> {
        Self::new(shape, self.numbers)
    }

    /// How many there are in each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers, row by row.
    pub fn numbers(&self) -> &[T] {
        &self.numbers
    }

    /// The numbers, row by row, in memory of their own.
    pub fn into_numbers(self) -> Vec<T> {
        self.numbers
    }
}

/// Numbers in a row.
impl<T: Element> From<Vec<T>> for Array<T> {
    fn from(numbers: Vec<T>) -> Self {
        Self::of(vec![numbers.len()], numbers)
    }
}
