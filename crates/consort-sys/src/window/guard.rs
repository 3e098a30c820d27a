//! The ways to touch a window.

use std::marker::PhantomData;
use std::slice;
use std::sync::MutexGuard;

use super::{Plain, Windows};
use crate::lock;
use crate::view::Target;

/// A window that is this rank's alone for as long as this lives.
#[derive(Debug)]
#[must_use = "the window is given back when this is dropped"]
pub struct Alone<'a> {
    windows: &'a Windows,
    rank: usize,
    // It is noted which thread has it, so it stays there.
    stays: PhantomData<MutexGuard<'static, ()>>,
}

impl<'a> Alone<'a> {
    /// When the lock was taken.
    pub(super) fn new(windows: &'a Windows, rank: usize) -> Self {
        windows.note_thread(rank);
        Self { windows, rank, stays: PhantomData }
    }

    /// Whose window it is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Its bytes as elements, as many as there are whole ones.
    #[inline]
    pub fn elements<T: Plain>(&self) -> &[T] {
        let view = self.windows.view(self.rank);
        let (start, len) = (view.as_mut_ptr().cast::<T>(), view.len() / size_of::<T>());
        debug_assert!(start.is_aligned(), "a window begins with a line");
        // SAFETY: the memory is mapped for as long as the windows live, aligned to a line, and any
        // bytes are a `T`. Nobody writes it while the lock is held alone, and this guard does so.
        unsafe { slice::from_raw_parts(start, len) }
    }

    /// Its bytes as elements, as many as there are whole ones.
    #[inline]
    pub fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        let view = self.windows.view(self.rank);
        let (start, len) = (view.as_mut_ptr().cast::<T>(), view.len() / size_of::<T>());
        debug_assert!(start.is_aligned(), "a window begins with a line");
        // SAFETY: as above; nobody reads it either while the lock is held alone, and the guard is
        // borrowed for as long as the slice lives.
        unsafe { slice::from_raw_parts_mut(start, len) }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if !self.windows.are_ours() {
            // A forked child's parent has it still.
            return;
        }
        self.windows.forget_thread(self.rank);
        let control = self.windows.control(self.rank);
        let wanted = lock::is_wanted(&control);
        lock::end_alone(&control);
        if wanted {
            // Or the ones just woken would find that this rank has come back before them.
            std::thread::yield_now();
        }
    }
}

/// A window that is copied to and from, perhaps by other ranks as well, for as long as this lives.
#[derive(Debug)]
#[must_use = "the visit ends when this is dropped"]
pub struct Visit<'a> {
    windows: &'a Windows,
    rank: usize,
    // Of one rank, one thread visits, of which it is noted which.
    one_thread: PhantomData<*const ()>,
}

impl<'a> Visit<'a> {
    /// When the lock was taken.
    pub(super) fn new(windows: &'a Windows, rank: usize) -> Self {
        windows.note_thread(rank);
        Self { windows, rank, one_thread: PhantomData }
    }

    /// Whose window it is.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Its bytes. What others write there at the same time is a mixture of old and new.
    #[inline]
    pub fn view(&self) -> Target<'_> {
        self.windows.view(self.rank)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.windows.are_ours() {
            return;
        }
        self.windows.forget_thread(self.rank);
        lock::end_visit(&self.windows.control(self.rank), self.windows.me);
    }
}
