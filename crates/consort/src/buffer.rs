//! Memory that a call can own while it is carried out.

use std::sync::Arc;

use consort_sys::dtype::Element;
use consort_sys::lend::{Lent, LentMut};

/// Numbers that an asynchronous call reads.
///
/// The call owns them until it is done, so nobody can change or free them meanwhile. What is in an
/// [`Arc`] can be read by several calls at once.
///
/// # For foreign memory
///
/// A type that holds a foreign tensor implements this, and [`Buffer`] if its memory may be written,
/// by keeping whatever keeps that memory alive beside it: a reference count, a capsule, a mapping.
/// The memory is let go when the value is dropped, which may be on another thread. Between two
/// calls of [`elements`](Self::elements) neither its place nor its size may change.
pub trait Input: Send + 'static {
    /// What the numbers are.
    type Element: Element;

    /// The numbers.
    fn elements(&self) -> &[Self::Element];
}

/// Numbers that an asynchronous call reads and replaces; see [`Input`].
///
/// ```
/// use consort::{Buffer, Input, ReduceOp};
///
/// /// The gradients of a layer, which know where they belong.
/// struct Gradients {
///     layer: usize,
///     values: Vec<f32>,
/// }
///
/// impl Input for Gradients {
///     type Element = f32;
///     fn elements(&self) -> &[f32] {
///         &self.values
///     }
/// }
///
/// impl Buffer for Gradients {
///     fn elements_mut(&mut self) -> &mut [f32] {
///         &mut self.values
///     }
/// }
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let gradients = Gradients { layer: 3, values: vec![0.5; 8] };
/// let work = group.all_reduce_async(gradients, ReduceOp::Avg)?;
/// assert_eq!(work.wait()?.layer, 3);
/// # Ok::<(), consort::Error>(())
/// ```
pub trait Buffer: Input {
    /// The numbers, to be replaced: those that [`elements`](Input::elements) shows.
    fn elements_mut(&mut self) -> &mut [Self::Element];
}

macro_rules! inputs {
    ($($input:ty),*) => {$(
        impl<T: Element> Input for $input {
            type Element = T;

            fn elements(&self) -> &[T] {
                self
            }
        }
    )*};
}

inputs!(Vec<T>, Box<[T]>, Arc<[T]>, Arc<Vec<T>>, &'static [T]);

impl<T: Element> Buffer for Vec<T> {
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Element> Buffer for Box<[T]> {
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Element> Input for Lent<T> {
    type Element = T;

    fn elements(&self) -> &[T] {
        self.get()
    }
}

impl<T: Element> Input for LentMut<T> {
    type Element = T;

    fn elements(&self) -> &[T] {
        self.get()
    }
}

impl<T: Element> Buffer for LentMut<T> {
    fn elements_mut(&mut self) -> &mut [T] {
        self.get_mut()
    }
}
