//! What is known of the things that are learned.

use consort::Dtype;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A parameter of a model: a tensor that is learned, and has a gradient after each backward pass.
///
/// Its gradient has the same dtype, shape and layout. Memory is what a reducer moves: as many elements
/// as the shape has, in the order in which they lie there, which the strides explain.
///
/// ```
/// use consort::Dtype;
/// use consort_train::Parameter;
///
/// let weight = Parameter::new("weight", Dtype::F32, &[4, 3]);
/// assert_eq!((weight.len(), weight.bytes(), weight.strides()), (12, 48, &[3, 1][..]));
/// // The same numbers, column after column.
/// let weight = weight.with_strides(&[1, 4])?;
/// assert_eq!(weight.strides(), [1, 4]);
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Told")]
pub struct Parameter {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    strides: Vec<usize>,
    is_sparse: bool,
}

impl Parameter {
    /// One whose elements lie row by row.
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: &[usize]) -> Self {
        let strides = row_major(shape);
        Self { name: name.into(), dtype, shape: shape.to_vec(), strides, is_sparse: false }
    }

    /// The same with another layout: how many elements apart neighbours in each dimension lie.
    ///
    /// # Errors
    /// When the elements would not fill their memory, each at its own place.
    pub fn with_strides(mut self, strides: &[usize]) -> Result<Self> {
        if !is_dense(&self.shape, strides) {
            return Err(Error::Layout {
                name: self.name,
                shape: self.shape,
                strides: strides.to_vec(),
            });
        }
        self.strides = strides.to_vec();
        Ok(self)
    }

    /// The same, of which a backward pass touches only some rows, which its first dimension counts: the
    /// table of an embedding. Its gradient is given [by rows](crate::Pass::ready_rows), and only these
    /// travel.
    ///
    /// # Errors
    /// When it has no rows, or they do not lie one behind the other.
    pub fn sparse(mut self) -> Result<Self> {
        if self.shape.is_empty() || self.strides != row_major(&self.shape) {
            let Self { name, shape, strides, .. } = self;
            return Err(Error::Argument(format!(
                "parameter {name:?} of shape {shape:?} with strides {strides:?} has no rows that lie one \
                 behind the other, so that it cannot have a gradient by rows"
            )));
        }
        self.is_sparse = true;
        Ok(self)
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its elements are.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// How many elements there are in each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How many elements apart neighbours in each dimension lie.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Whether its gradient comes by rows.
    pub fn is_sparse(&self) -> bool {
        self.is_sparse
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes its elements have.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }
}

/// A parameter as somebody else describes it, who may say anything.
#[derive(Deserialize)]
struct Told {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    strides: Vec<usize>,
    is_sparse: bool,
}

impl TryFrom<Told> for Parameter {
    type Error = Error;

    fn try_from(told: Told) -> Result<Self> {
        let Told { name, dtype, shape, strides, is_sparse } = told;
        // Dimensions without elements count as well: strides are made of them.
        let mut sizes = shape.iter().map(|size| *size.max(&1));
        if sizes.try_fold(dtype.size(), usize::checked_mul).is_none() {
            return Err(Error::Layout { name, shape, strides });
        }
        let parameter = Self::new(name, dtype, &shape).with_strides(&strides)?;
        if is_sparse { parameter.sparse() } else { Ok(parameter) }
    }
}

fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at] * shape[at].max(1);
    }
    strides
}

/// Whether elements with these strides fill their memory, each at its own place.
fn is_dense(shape: &[usize], strides: &[usize]) -> bool {
    if shape.len() != strides.len() {
        return false;
    }
    if shape.contains(&0) {
        return true;
    }
    let dimensions = shape.iter().zip(strides).filter(|(size, _)| **size > 1);
    let mut dimensions: Vec<(usize, usize)> =
        dimensions.map(|(&size, &stride)| (stride, size)).collect();
    dimensions.sort_unstable();
    let mut next = 1;
    dimensions.into_iter().all(|(stride, size)| {
        let fits = stride == next;
        next = next.saturating_mul(size);
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_has_to_be_what_could_have_been_made() {
        let read = |shape: &[usize], strides: &[usize], is_sparse: bool| {
            let told = ("w", Dtype::F32, shape, strides, is_sparse);
            postcard::from_bytes::<Parameter>(&postcard::to_stdvec(&told).unwrap())
        };
        let parameter = Parameter::new("w", Dtype::F32, &[2, 3]);
        assert_eq!(read(&[2, 3], &[3, 1], false).unwrap(), parameter);
        assert_eq!(read(&[2, 3], &[3, 1], true).unwrap(), parameter.clone().sparse().unwrap());
        let by_columns = parameter.with_strides(&[1, 2]).unwrap();
        assert_eq!(read(&[2, 3], &[1, 2], false).unwrap(), by_columns);
        for (shape, strides, is_sparse) in [
            (&[2, 3][..], &[6, 2][..], false),
            (&[2, 3], &[3], false),
            (&[2, 3], &[1, 2], true),
            (&[], &[], true),
            (&[usize::MAX, 2], &[2, 1], false),
            (&[0, usize::MAX, 2], &[2, 2, 1], false),
        ] {
            assert!(read(shape, strides, is_sparse).is_err(), "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn any_order_of_dimensions_is_dense_and_gaps_or_overlaps_are_not() {
        for strides in [[12, 4, 1], [1, 2, 6], [4, 8, 1]] {
            assert!(is_dense(&[2, 3, 4], &strides), "{strides:?}");
        }
        for strides in [[24, 4, 1], [4, 4, 1], [12, 4, 0], [12, 4, 2]] {
            assert!(!is_dense(&[2, 3, 4], &strides), "{strides:?}");
        }
        assert!(!is_dense(&[2, 3], &[1]));
    }

    #[test]
    fn strides_of_dimensions_that_do_not_move_do_not_matter() {
        assert!(is_dense(&[1, 5], &[99, 1]));
        assert!(is_dense(&[0, 5], &[99, 99]));
        assert!(is_dense(&[], &[]));
    }

    #[test]
    fn only_what_has_rows_one_behind_the_other_can_be_sparse() {
        let table = Parameter::new("table", Dtype::F32, &[5, 2]);
        assert!(table.clone().sparse().unwrap().is_sparse());
        let error = table.with_strides(&[1, 5]).unwrap().sparse().unwrap_err().to_string();
        assert!(error.contains("\"table\""), "{error}");
        assert!(Parameter::new("number", Dtype::F32, &[]).sparse().is_err());
    }

    #[test]
    fn a_layout_with_gaps_is_refused_by_name() {
        let weight = Parameter::new("layer.weight", Dtype::F32, &[2, 3]);
        let error = weight.with_strides(&[4, 1]).unwrap_err().to_string();
        assert!(error.contains("layer.weight") && error.contains("[4, 1]"), "{error}");
    }
}
