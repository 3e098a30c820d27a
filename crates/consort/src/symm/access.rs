//! Reading and writing windows.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

use consort_sys::view::Target;
use consort_sys::window::{Alone, Plain, Visit};

use super::Symmetric;
use super::line::InLine;
use crate::error::{Error, Result};
use crate::group::Rank;
use crate::home::Home;

/// # Windows
impl<T: Plain> Symmetric<T> {
    /// This rank's own window, as a slice. While the guard lives no other rank gets in, except for
    /// collectives that the slice is given to.
    ///
    /// What others have put is complete after a [barrier](Self::barrier) or a
    /// [wait for their signal](Self::wait_signal), and who is given the guard before that may get it
    /// between two of their copies. Whoever waits for others while it has the guard keeps those out
    /// that have to come in first.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<f32>(100)?;
    /// memory.local()?.fill(1.5);
    /// group.all_reduce(&mut memory.local()?[..10], consort::ReduceOp::Sum)?;
    /// assert_eq!(memory.local()?[99], 1.5);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when this thread has it already, as in `memory.local()?[0] =
    /// memory.local()?[1]`; [`Error::Held`] when others do not let go of it before the deadline;
    /// [`Error::PeerLost`] when one of them is gone, which ends the group; and what has ended it, if
    /// the group has ended.
    pub fn local(&self) -> Result<Window<'_, T>> {
        self.peer(self.rank())
    }

    /// A rank's window, as a slice. While the guard lives nobody else gets in.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let counters = group.symmetric::<u64>(4)?;
    /// // Nothing is lost if all ranks do this at once.
    /// counters.peer(0)?[2] += 1;
    /// counters.barrier(0)?;
    /// assert_eq!(counters.peer(0)?[2], group.world() as u64);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`local`](Self::local), and when there is no such rank.
    pub fn peer(&self, rank: impl Into<Rank>) -> Result<Window<'_, T>> {
        let rank = self.index(rank)?;
        let mut queue = InLine::new(self, rank)?;
        match self.memory.windows().alone(rank, |now| queue.look_round(now)) {
            Ok(guard) => Ok(Window { guard, len: self.len, elements: PhantomData }),
            Err(stuck) => Err(self.was_held(&queue, stuck)),
        }
    }

    /// A rank's window, to copy to and from while other ranks may do the same: what is written by
    /// several at once is a mixture. Nobody gets slices of it while this lives, and no other thread
    /// of this rank copies. If somebody waits for a slice, nobody else gets in to copy before it has
    /// had one: do not wait for other ranks that have to copy while this lives.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<u32>(group.world())?;
    /// let me = memory.rank().index();
    /// {
    ///     // All ranks are in this window at once, each at its own place.
    ///     let first = memory.raw(0)?;
    ///     first.write(me, &[7])?;
    ///     let mut mine = [0];
    ///     first.read(me, &mut mine)?;
    ///     assert_eq!(mine, [7]);
    /// }
    /// memory.barrier(0)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`local`](Self::local), and when there is no such rank.
    pub fn raw(&self, rank: impl Into<Rank>) -> Result<Raw<'_, T>> {
        let rank = self.index(rank)?;
        let mut queue = InLine::new(self, rank)?;
        match self.memory.windows().visit(rank, |now| queue.look_round(now)) {
            Ok(visit) => {
                let (len, home) = (self.len, self.group.shared.job.home);
                Ok(Raw { visit, len, home, elements: PhantomData })
            }
            Err(stuck) => Err(self.was_held(&queue, stuck)),
        }
    }

    /// Copies elements into a rank's window, from the element `at` on.
    ///
    /// A rank that makes a collective call on its window holds it until all have made the call, this
    /// one too. So there has to be a [barrier](Self::barrier) or a
    /// [signal](Self::put_with_signal) between a put and the next call on that window.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<f32>(8)?;
    /// memory.put(0, 4, &[1.0, 2.0])?;
    /// memory.barrier(0)?;
    /// assert_eq!(memory.local()?[3..7], [0.0, 1.0, 2.0, 0.0]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When they are not within the window, or there is no such rank; otherwise as
    /// [`local`](Self::local).
    #[inline]
    pub fn put(&self, to: impl Into<Rank>, at: usize, elements: &[T]) -> Result<()> {
        let to = self.index(to)?;
        check_range(at, elements.len(), self.len)?;
        self.raw(to as u32)?.write(at, elements)
    }

    /// Copies elements out of a rank's window, from the element `at` on.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<i32>(8)?;
    /// memory.local()?[5] = 3;
    /// memory.barrier(0)?;
    /// let mut theirs = [0; 2];
    /// memory.get(0, 4, &mut theirs)?;
    /// assert_eq!(theirs, [0, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[inline]
    pub fn get(&self, from: impl Into<Rank>, at: usize, elements: &mut [T]) -> Result<()> {
        let from = self.index(from)?;
        check_range(at, elements.len(), self.len)?;
        self.raw(from as u32)?.read(at, elements)
    }

    /// [Puts](Self::put) elements into a rank's window, and [signals](Self::put_signal) that they
    /// are there.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<u8>(3)?;
    /// let (right, left) = (0, 0);
    /// memory.put_with_signal(right, 0, &[1, 2, 3], 5)?;
    /// memory.wait_signal(left, 5)?;
    /// assert_eq!(memory.local()?[..], [1, 2, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put), and when there is no such channel. Nothing is signalled then.
    #[inline]
    pub fn put_with_signal(
        &self,
        to: impl Into<Rank>,
        at: usize,
        elements: &[T],
        channel: usize,
    ) -> Result<()> {
        let to = to.into();
        self.check_channel(channel)?;
        self.put(to, at, elements)?;
        self.put_signal(to, channel)
    }
}

/// A rank's window, which nobody else reads or writes while this lives.
///
/// ```
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let memory = group.symmetric::<u32>(3)?;
/// let mut mine = memory.local()?;
/// mine.copy_from_slice(&[7, 5, 6]);
/// mine.sort_unstable();
/// assert_eq!(mine.rank(), memory.rank());
/// drop(mine); // and now others get in
/// assert_eq!(memory.peer(0)?[..], [5, 6, 7]);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "others get in when this is dropped"]
pub struct Window<'a, T> {
    guard: Alone<'a>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T> Window<'_, T> {
    /// Whose window it is.
    pub fn rank(&self) -> Rank {
        Rank(self.guard.rank() as u32)
    }
}

impl<T: Plain> Deref for Window<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.guard.elements()[..self.len]
    }
}

impl<T: Plain> DerefMut for Window<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.guard.elements_mut()[..self.len]
    }
}

/// A rank's window, which other ranks may copy to and from while this lives.
#[derive(Debug)]
#[must_use = "who wants a slice gets in when this is dropped"]
pub struct Raw<'a, T> {
    visit: Visit<'a>,
    len: usize,
    home: Home,
    elements: PhantomData<T>,
}

impl<T: Plain> Raw<'_, T> {
    /// Whose window it is.
    pub fn rank(&self) -> Rank {
        Rank(self.visit.rank() as u32)
    }

    /// Its bytes.
    #[inline]
    pub fn view(&self) -> Target<'_> {
        self.visit.view().slice(0..self.len * size_of::<T>())
    }

    /// Copies elements into it, from the element `at` on.
    ///
    /// # Errors
    /// When they are not within it.
    #[inline]
    pub fn write(&self, at: usize, elements: &[T]) -> Result<()> {
        self.home.check()?;
        let range = check_range(at, elements.len(), self.len)?;
        self.view().slice(bytes::<T>(range)).copy_from(T::source(elements));
        Ok(())
    }

    /// Copies elements out of it, from the element `at` on.
    ///
    /// # Errors
    /// When they are not within it.
    #[inline]
    pub fn read(&self, at: usize, elements: &mut [T]) -> Result<()> {
        self.home.check()?;
        let range = check_range(at, elements.len(), self.len)?;
        T::target(elements).copy_from(self.view().slice(bytes::<T>(range)).into());
        Ok(())
    }
}

fn check_range(at: usize, count: usize, len: usize) -> Result<Range<usize>> {
    match at.checked_add(count) {
        Some(end) if end <= len => Ok(at..end),
        _ => {
            let what = format!("{count} elements at {at} are not within a window of {len}");
            Err(Error::Argument(what))
        }
    }
}

fn bytes<T>(elements: Range<usize>) -> Range<usize> {
    elements.start * size_of::<T>()..elements.end * size_of::<T>()
}
