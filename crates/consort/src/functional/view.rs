//! Values where they lie, and copies of them in another order.

use consort_sys::dtype::{Dtype, Element};
use consort_sys::view::{Source, Target, collect};

use super::meta::{Meta, product};
use crate::error::{Error, Result};

/// A value's numbers where they lie: in rows, or with any distance between them.
///
/// ```
/// use consort::functional::View;
/// use consort::{Dtype, Element};
///
/// let numbers = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let rows = View::rows(f32::source(&numbers), Dtype::F32, &[2, 3])?;
/// // The same numbers, columns first.
/// let columns = View::strided(f32::source(&numbers), Dtype::F32, &[3, 2], &[1, 3])?;
/// // The last number would be outside.
/// assert!(View::strided(f32::source(&numbers), Dtype::F32, &[3, 2], &[1, 4]).is_err());
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct View<'a> {
    data: Source<'a>,
    dtype: Dtype,
    shape: Vec<usize>,
    /// How many numbers further the next one of each dimension lies.
    strides: Vec<usize>,
}

impl<'a> View<'a> {
    /// Numbers of a shape, one behind the other in the order of rows.
    ///
    /// # Errors
    /// When there are not so many.
    pub fn rows(data: Source<'a>, dtype: Dtype, shape: &[usize]) -> Result<Self> {
        Self::strided(data, dtype, shape, &strides_of(shape))
    }

    /// Numbers of a shape, of which the next one of each dimension lies so many numbers further. The data
    /// begins with the first.
    ///
    /// # Errors
    /// When one of them would lie outside.
    pub fn strided(
        data: Source<'a>,
        dtype: Dtype,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<Self> {
        let size = dtype.size();
        let last = shape.iter().zip(strides).try_fold(0_usize, |last, (&len, &stride)| {
            last.checked_add(len.saturating_sub(1).checked_mul(stride)?)
        });
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(size));
        let is_within = shape.contains(&0) || end.is_some_and(|end| end <= data.len());
        if shape.len() != strides.len() || !is_within {
            let bytes = data.len();
            return Err(Error::Argument(format!(
                "numbers of {dtype} in a shape of {shape:?} with strides of {strides:?} are not within \
                 {bytes} bytes"
            )));
        }
        Ok(Self { data, dtype, shape: shape.to_vec(), strides: strides.to_vec() })
    }

    /// What kind of numbers they are.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Makes sure that these are the numbers of a value that says this of itself.
    ///
    /// # Errors
    /// Otherwise.
    pub(super) fn check(&self, meta: &Meta) -> Result<()> {
        if self.dtype == meta.dtype && self.shape == meta.shape {
            return Ok(());
        }
        let (dtype, shape) = (self.dtype, &self.shape);
        Err(Error::Argument(format!("a value says that it is {meta}, and shows {dtype} {shape:?}")))
    }

    /// How many bytes its numbers have.
    pub(super) fn bytes(&self) -> usize {
        product(&self.shape).saturating_mul(self.dtype.size())
    }

    /// The same numbers, with a dimension cut into so many parts: first all of the first part, and so on.
    pub(super) fn cut(mut self, dim: usize, parts: usize) -> Self {
        self.shape[dim] /= parts;
        let stride = self.shape[dim].saturating_mul(self.strides[dim]);
        self.shape.insert(0, parts);
        self.strides.insert(0, stride);
        self
    }

    /// The numbers of so many parts that lie behind each other, joined along a dimension: each part has
    /// `before` times `rest` numbers, of which those of one `before` stay together.
    pub(super) fn joined(
        data: Source<'a>,
        dtype: Dtype,
        parts: usize,
        (before, rest): (usize, usize),
    ) -> Result<Self> {
        let part = before.saturating_mul(rest);
        Self::strided(data, dtype, &[before, parts, rest], &[rest, part, 1])
    }

    /// Copies the numbers, row by row.
    ///
    /// # Panics
    /// When the target has not as many bytes.
    pub(super) fn copy_to(&self, target: Target<'_>) {
        assert_eq!(self.bytes(), target.len(), "a copy is as long as what it is made of");
        let mut at = 0;
        for block in self.blocks() {
            target.slice(at..at + block.len()).copy_from(block);
            at += block.len();
        }
    }

    /// The numbers, row by row, in memory of their own.
    ///
    /// ```
    /// use consort::functional::View;
    /// use consort::{Dtype, Element};
    ///
    /// let numbers = [1_u8, 2, 3, 4, 5, 6];
    /// let columns = View::strided(u8::source(&numbers), Dtype::U8, &[3, 2], &[1, 3])?;
    /// assert_eq!(columns.collect::<u8>()?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When they are of another kind, or there is no memory.
    pub fn collect<T: Element>(&self) -> Result<Vec<T>> {
        if T::DTYPE != self.dtype {
            let what = format!("numbers of {} are not {}", self.dtype, T::DTYPE);
            return Err(Error::Argument(what));
        }
        let count = self.bytes() / self.dtype.size();
        let none = |_| Error::Argument(format!("there is no memory for {count} {}", T::DTYPE));
        collect(count, self.blocks()).map_err(none)
    }

    /// What lies behind each other, row by row.
    fn blocks(&self) -> impl Iterator<Item = Source<'a>> {
        // Where there is nothing, dimensions may be larger than can be counted.
        let is_empty = self.bytes() == 0;
        let (mut shape, strides) = if is_empty { Default::default() } else { self.merged() };
        let (data, size) = (self.data, self.dtype.size());
        let block = match strides.last() {
            Some(1) => shape.pop().unwrap_or(1) * size,
            _ => size,
        };
        let mut index = vec![0; shape.len()];
        let mut next = (!is_empty).then_some(0);
        std::iter::from_fn(move || {
            let from = next?;
            next = step(&mut index, &shape, &strides, from, size);
            Some(data.slice(from..from + block))
        })
    }

    /// Shape and strides without dimensions of one, and with those in one that lie behind each other.
    fn merged(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut shape, mut strides) = (Vec::<usize>::new(), Vec::<usize>::new());
        for (&len, &stride) in self.shape.iter().zip(&self.strides).filter(|(len, _)| **len != 1) {
            match (shape.last_mut(), strides.last_mut()) {
                (Some(outer), Some(outer_stride)) if *outer_stride == len * stride => {
                    *outer *= len;
                    *outer_stride = stride;
                }
                _ => {
                    shape.push(len);
                    strides.push(stride);
                }
            }
        }
        (shape, strides)
    }
}

/// How far apart the numbers of each dimension are, if they lie in rows.
pub(super) fn strides_of(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim].saturating_mul(shape[dim]);
    }
    strides
}

/// Goes to the next place, the last dimension first. Says at which byte it is; `None` after the last.
fn step(
    index: &mut [usize],
    shape: &[usize],
    strides: &[usize],
    from: usize,
    size: usize,
) -> Option<usize> {
    let mut from = from;
    for dim in (0..index.len()).rev() {
        index[dim] += 1;
        from += strides[dim] * size;
        if index[dim] < shape[dim] {
            return Some(from);
        }
        from -= shape[dim] * strides[dim] * size;
        index[dim] = 0;
    }
    None
}

#[cfg(test)]
mod tests;
