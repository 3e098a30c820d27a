//! The ways to touch a window.

use std::marker::PhantomData;
use std::ops::Deref;
use std::slice;
use std::sync::{Arc, MutexGuard};

use super::{Plain, Windows};
use crate::lock;
use crate::view::Target;

/// A window that is this rank's alone for as long as this lives.
#[derive(Debug)]
#[must_use = "the window is given back when this is dropped"]
pub struct Alone<'a> {
    locked: Locked<&'a Windows>,
    // It is noted which thread has it, so it stays there.
    stays: PhantomData<MutexGuard<'static, ()>>,
}

impl<'a> Alone<'a> {
    /// When the lock was taken.
    pub(super) fn new(windows: &'a Windows, rank: usize) -> Self {
        windows.note_thread(rank);
        Self { locked: Locked { windows, rank }, stays: PhantomData }
    }

    /// Whose window it is.
    pub fn rank(&self) -> usize {
        self.locked.rank
    }

    /// Its bytes as elements, as many as there are whole ones.
    #[inline]
    pub fn elements<T: Plain>(&self) -> &[T] {
        self.locked.elements()
    }

    /// Its bytes as elements, as many as there are whole ones.
    #[inline]
    pub fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        self.locked.elements_mut()
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // Before the lock is given back. In a forked child it is the child's own note.
        self.locked.windows.forget_thread(self.locked.rank);
    }
}

/// A window that is this rank's alone for as long as this lives, wherever in the process that is. It
/// keeps the windows, may be sent to another thread and be dropped there. So no thread is noted as the
/// one that has it: one of this process that waits for the window is told that this very rank has it.
#[derive(Debug)]
#[must_use = "the window is given back when this is dropped"]
pub struct OwnedAlone(Locked<Arc<Windows>>);

impl OwnedAlone {
    /// When the lock was taken.
    pub(super) fn new(windows: Arc<Windows>, rank: usize) -> Self {
        Self(Locked { windows, rank })
    }

    /// Whose window it is.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// Its bytes as elements, as many as there are whole ones.
    #[inline]
    pub fn elements<T: Plain>(&self) -> &[T] {
        self.0.elements()
    }

    /// Its bytes as elements, as many as there are whole ones.
    #[inline]
    pub fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        self.0.elements_mut()
    }
}

/// The lock of a window, which this rank has taken to be alone. The rank has it, not a thread: any
/// thread may give it back, and does so when this is dropped.
///
/// The windows are borrowed or shared, `&Windows` or `Arc<Windows>`: either way the same ones as long
/// as this lives, and they live as long.
#[derive(Debug)]
struct Locked<W: Deref<Target = Windows>> {
    windows: W,
    rank: usize,
}

impl<W: Deref<Target = Windows>> Locked<W> {
    #[inline]
    fn elements<T: Plain>(&self) -> &[T] {
        let (start, len) = self.span();
        // SAFETY: `span` is of memory that is mapped as long as the windows live, which this keeps
        // borrowed or shared, aligned to a line, and any bytes are a `T`. Nobody writes it while the
        // lock is held alone, which it is as long as this lives, and so as long as the slice.
        unsafe { slice::from_raw_parts(start, len) }
    }

    #[inline]
    fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        let (start, len) = self.span();
        // SAFETY: as above; nobody reads it either while the lock is held alone, by one who is
        // borrowed for as long as the slice lives: there is no other slice of it meanwhile, on this
        // thread or another.
        unsafe { slice::from_raw_parts_mut(start, len) }
    }

    /// Where the window begins, and how many whole elements it has.
    #[inline]
    fn span<T>(&self) -> (*mut T, usize) {
        let view = self.windows.view(self.rank);
        let (start, len) = (view.as_mut_ptr().cast::<T>(), view.len() / size_of::<T>());
        debug_assert!(start.is_aligned(), "a window begins with a line");
        (start, len)
    }
}

impl<W: Deref<Target = Windows>> Drop for Locked<W> {
    fn drop(&mut self) {
        if !self.windows.are_ours() {
            // A forked child's parent has it still.
            return;
        }
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
