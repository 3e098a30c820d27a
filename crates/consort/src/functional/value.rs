//! What can be given to a call, and what comes out of it.

use consort_sys::dtype::{Dtype, Element};
use consort_sys::view::{Source, Target};

use super::array::Array;
use super::meta::Meta;
use super::view::View;
use crate::error::{Error, Result};

/// A value: numbers of one kind in any number of dimensions.
///
/// [`Array`] is one, and a `Vec`, which has one dimension. Libraries implement it for their tensors, on a
/// type of their own around them if need be.
pub trait Value: Clone + Send + Sync + 'static {
    /// What the numbers of a result are in.
    type Memory: Memory;

    /// The kind of its numbers, and how many there are in each dimension.
    ///
    /// # Errors
    /// When numbers of this kind cannot travel.
    fn meta(&self) -> Result<Meta>;

    /// Looks at the numbers where they lie.
    ///
    /// # Errors
    /// When they cannot be reached.
    fn view<R>(&self, look: impl FnOnce(View<'_>) -> R) -> Result<R>;

    /// Memory with the numbers row by row: its own, if it can be had.
    ///
    /// # Errors
    /// When there is none.
    fn into_memory(self) -> Result<Self::Memory> {
        self.view(|view| Self::Memory::copy_of(&view))?
    }

    /// The value whose numbers are in this memory, row by row.
    fn from_memory(memory: Self::Memory, meta: Meta) -> Self;
}

/// Memory of its own for the numbers of a value.
pub trait Memory: Send + Sized + 'static {
    /// Room for so many zeroes of a kind.
    ///
    /// # Errors
    /// When there is none.
    fn zeroed(dtype: Dtype, count: usize) -> Result<Self>;

    /// A copy of the numbers of a view, row by row.
    ///
    /// # Errors
    /// When there is no room for it.
    fn copy_of(view: &View<'_>) -> Result<Self>;

    /// Its bytes, to be read.
    fn source(&self) -> Source<'_>;

    /// Its bytes, to be replaced.
    fn target(&mut self) -> Target<'_>;
}

impl<T: Element> Memory for Vec<T> {
    fn zeroed(dtype: Dtype, count: usize) -> Result<Self> {
        if dtype != T::DTYPE {
            return Err(Error::Argument(format!(
                "a slice of {} has no room for {dtype}",
                T::DTYPE
            )));
        }
        let none = |()| Error::Argument(format!("there is no memory for {count} {dtype}"));
        bytemuck::allocation::try_zeroed_vec(count).map_err(none)
    }

    fn copy_of(view: &View<'_>) -> Result<Self> {
        view.collect()
    }

    fn source(&self) -> Source<'_> {
        T::source(self)
    }

    fn target(&mut self) -> Target<'_> {
        T::target(self)
    }
}

impl<T: Element> Value for Array<T> {
    type Memory = Vec<T>;

    fn meta(&self) -> Result<Meta> {
        Ok(Meta::new(T::DTYPE, self.shape()))
    }

    fn view<R>(&self, look: impl FnOnce(View<'_>) -> R) -> Result<R> {
        Ok(look(View::rows(T::source(self.numbers()), T::DTYPE, self.shape())?))
    }

    fn into_memory(self) -> Result<Vec<T>> {
        Ok(self.into_numbers())
    }

    fn from_memory(memory: Vec<T>, meta: Meta) -> Self {
        Self::of(meta.shape, memory)
    }
}

impl<T: Element> Value for Vec<T> {
    type Memory = Self;

    fn meta(&self) -> Result<Meta> {
        Ok(Meta::new(T::DTYPE, [self.len()]))
    }

    fn view<R>(&self, look: impl FnOnce(View<'_>) -> R) -> Result<R> {
        Ok(look(View::rows(T::source(self), T::DTYPE, &[self.len()])?))
    }

    fn into_memory(self) -> Result<Self> {
        Ok(self)
    }

    fn from_memory(memory: Self, _meta: Meta) -> Self {
        memory
    }
}
