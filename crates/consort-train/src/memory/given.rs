//! Memory that an engine gives away.

use std::any::Any;
use std::fmt::Debug;

use consort::Element;
use consort::symm::Plain;

/// Memory that has one gradient, and goes where the gradient goes.
pub(crate) trait Given: Any + Debug + Send {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl<T: Plain + Debug> Given for Vec<T> {
    fn bytes(&self) -> &[u8] {
        <T as Element>::bytes(self)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self)
    }
}
