//! Windows that are owned: given to asynchronous calls, and to other threads.

mod calls;
mod failure;
mod holding;

use std::ops::Range;

use consort::symm::{Kept, Plain};
use consort::{Buffer, Input};

/// A part of a window, which keeps all of it.
#[derive(Debug)]
struct Part<T> {
    window: Kept<T>,
    range: Range<usize>,
}

impl<T: Plain> Input for Part<T> {
    type Element = T;

    fn elements(&self) -> &[T] {
        &self.window[self.range.clone()]
    }
}

impl<T: Plain> Buffer for Part<T> {
    fn elements_mut(&mut self) -> &mut [T] {
        &mut self.window[self.range.clone()]
    }
}
