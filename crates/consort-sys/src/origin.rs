//! Whether this is still the process that began something, or a child that was forked from it.
//!
//! A forked child has all that its parent has: its memory, its descriptors, its place among other
//! processes. What it does with them is taken for its parent's doing. So whatever a process does
//! under its own name it has to ask first whether it is that process, and often: a system call
//! would take too long. A page that the kernel empties in every child tells it at once.

mod per_process;

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

pub use self::per_process::PerProcess;

/// The process in which something began.
///
/// ```
/// use consort_sys::origin::Origin;
///
/// let origin = Origin::here();
/// assert!(origin.is_here());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    mark: Mark,
}

#[derive(Clone, Copy, Debug)]
enum Mark {
    /// What this word holds in that process and in no other.
    Word(&'static AtomicU32, u32),
    /// Its number, where the kernel empties no pages.
    Process(u32),
}

impl Origin {
    /// This process.
    pub fn here() -> Self {
        let mark = match word() {
            Some(word) => Mark::Word(word, mark_of(word)),
            None => Mark::Process(std::process::id()),
        };
        Self { mark }
    }

    /// Whether this is that process, and no child of it.
    #[inline]
    pub fn is_here(self) -> bool {
        match self.mark {
            Mark::Word(word, mark) => word.load(Ordering::Relaxed) == mark,
            Mark::Process(process) => process == std::process::id(),
        }
    }
}

/// Something that is dropped only in the process in which it was made. A forked child forgets it:
/// others would take the child's leaving for its parent's.
pub struct Own<T> {
    origin: Origin,
    inside: ManuallyDrop<T>,
}

impl<T> Own<T> {
    /// It is this process's.
    pub fn new(inside: T) -> Self {
        Self { origin: Origin::here(), inside: ManuallyDrop::new(inside) }
    }
}

impl<T> Deref for Own<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inside
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.origin.is_here() {
            // SAFETY: it is dropped here only, and nobody uses it after that.
            unsafe { ManuallyDrop::drop(&mut self.inside) };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Own<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inside.fmt(f)
    }
}

/// The word that is zero in every new child; `None` if there can be none.
fn word() -> Option<&'static AtomicU32> {
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let new = new_page()?.as_ptr();
        // No lock, which another thread might hold for ever in the eyes of a forked child.
        match PAGE.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => page = new,
            Err(earlier) => {
                page = earlier;
                // SAFETY: it was mapped above, and nobody else has heard of it.
                let _ = unsafe { rustix::mm::munmap(new.cast(), rustix::param::page_size()) };
            }
        }
    }
    // SAFETY: it is a page of zeroes at first, stays mapped for good, and is used as nothing else.
    Some(unsafe { &*page })
}

fn new_page() -> Option<NonNull<AtomicU32>> {
    let size = rustix::param::page_size();
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: the kernel chooses where, so nothing that is mapped is replaced.
    let page = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), size, access, flags) }.ok()?;
    // SAFETY: it is our page, and nothing is in it that could be lost.
    if unsafe { rustix::mm::madvise(page, size, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: it was mapped above, and nobody has heard of it.
        let _ = unsafe { rustix::mm::munmap(page, size) };
        return None;
    }
    NonNull::new(page.cast())
}

/// What the word holds in this process: something that it never held in those that it descends
/// from, for they have counted before it.
fn mark_of(word: &AtomicU32) -> u32 {
    let mark = word.load(Ordering::Relaxed);
    if mark != 0 {
        return mark;
    }
    let mark = 1 + MARKS.fetch_add(1, Ordering::Relaxed);
    match word.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => mark,
        Err(earlier) => earlier,
    }
}

static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
static MARKS: AtomicU32 = AtomicU32::new(0);

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// Sets a mark when it is dropped.
    struct Dropped(Rc<Cell<bool>>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    /// What a forked child finds, as a number below 100.
    pub(super) fn in_a_child(find: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child calls `find`, which takes no lock that another thread may hold but the C library's
        // for memory, which is free in a child, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let found = find();
            // SAFETY: ends the child, and runs nothing of the test's.
            unsafe { libc::_exit(found) };
        }
        let mut status = 0;
        // SAFETY: the status is ours to be written.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        assert!(waited == child && libc::WIFEXITED(status), "{status}");
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_child_knows_that_it_is_not_its_parent() {
        let origin = Origin::here();
        assert!(matches!(origin.mark, Mark::Word(..)), "this kernel empties no pages");
        assert_eq!(in_a_child(|| i32::from(origin.is_here())), 0);
        assert!(origin.is_here() && Origin::here().is_here());
    }

    #[test]
    fn a_child_has_an_origin_of_its_own_which_its_children_have_not() {
        let origin = Origin::here();
        let found = in_a_child(|| {
            let own = Origin::here();
            let in_grandchild = in_a_child(|| {
                let third = Origin::here();
                i32::from(origin.is_here() || own.is_here() || !third.is_here())
            });
            i32::from(own.is_here()) + 2 * i32::from(origin.is_here()) + 4 * in_grandchild
        });
        assert_eq!(found, 1);
    }

    #[test]
    fn a_child_is_known_by_its_number_where_the_kernel_empties_no_pages() {
        let origin = Origin { mark: Mark::Process(std::process::id()) };
        assert!(origin.is_here());
        assert_eq!(in_a_child(|| i32::from(origin.is_here())), 0);
    }

    #[test]
    fn what_is_its_parents_a_child_forgets() {
        let dropped = Rc::new(Cell::new(false));
        let own = Own::new(Dropped(dropped.clone()));
        let found = in_a_child(|| {
            // SAFETY: the child ends without another look at it.
            drop(unsafe { ptr::read(&own) });
            i32::from(dropped.get())
        });
        assert_eq!((found, dropped.get()), (0, false));
        drop(own);
        assert!(dropped.get());
    }
}
