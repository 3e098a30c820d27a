//! A rank's own window, owned.

use std::fmt;
use std::ops::{Deref, DerefMut};

use consort_sys::window::{OwnedAlone, Plain};

use super::Symmetric;
use super::line::InLine;
use crate::buffer::{Buffer, Input};
use crate::error::Result;

impl<T: Plain> Symmetric<T> {
    /// This rank's own window, as [`local`](Self::local) gives it, but owned: it can be sent to another
    /// thread, be dropped there, and be given to an asynchronous call, which works on it where it is.
    /// While it lives no other rank gets in, except for collectives that it is given to.
    ///
    /// ```
    /// use consort::ReduceOp;
    ///
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut gradients = group.symmetric::<f32>(4096)?.keep()?;
    /// gradients.fill(2.0);
    /// let work = group.all_reduce_async(gradients, ReduceOp::Avg)?;
    /// // … something else in the meantime …
    /// let averages = work.wait()?;
    /// assert_eq!(averages[4095], 2.0);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// It is no thread's: one that wants the window while it is kept is not refused, even if nobody else
    /// could let it go, but waits until its deadline.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// use consort::Error;
    ///
    /// let memory = group.symmetric::<u8>(8)?;
    /// let kept = memory.keep()?;
    /// let error = memory.within(Duration::from_millis(10)).local().unwrap_err();
    /// assert!(matches!(error, Error::Held { holders, .. } if holders == [memory.rank().get()]));
    /// drop(kept);
    /// memory.local()?[0] = 1;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`local`](Self::local).
    pub fn keep(&self) -> Result<Kept<T>> {
        let rank = self.index(self.rank())?;
        let mut queue = InLine::new(self, rank)?;
        match self.memory.windows().owned_alone(rank, |now| queue.look_round(now)) {
            Ok(guard) => Ok(Kept { guard, memory: self.clone() }),
            Err(stuck) => Err(self.was_held(&queue, stuck)),
        }
    }
}

/// A rank's own window, which nobody else reads or writes while this lives, except in the calls it is
/// given to.
///
/// It is had from [`Symmetric::keep`], and is a [`Buffer`] that an asynchronous call can own. It keeps the
/// memory and its group for as long as it lives, even if all other handles are dropped, and gives the
/// window back when it is dropped, on whatever thread.
///
/// ```
/// use consort::symm::Kept;
/// use consort::{Buffer, Input, ReduceOp};
///
/// /// The part of a window that is in use.
/// struct Bucket {
///     window: Kept<f32>,
///     len: usize,
/// }
///
/// impl Input for Bucket {
///     type Element = f32;
///     fn elements(&self) -> &[f32] {
///         &self.window[..self.len]
///     }
/// }
///
/// impl Buffer for Bucket {
///     fn elements_mut(&mut self) -> &mut [f32] {
///         &mut self.window[..self.len]
///     }
/// }
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let mut bucket = Bucket { window: group.symmetric(1 << 16)?.keep()?, len: 0 };
/// for gradient in [0.5, 0.25] {
///     bucket.window[bucket.len] = gradient;
///     bucket.len += 1;
/// }
/// let bucket = group.all_reduce_async(bucket, ReduceOp::Sum)?.wait()?;
/// assert_eq!(bucket.elements(), [0.5, 0.25].map(|sum| sum * group.world() as f32));
/// # Ok::<(), consort::Error>(())
/// ```
#[must_use = "others get in when this is dropped"]
pub struct Kept<T> {
    // Given back before the memory, which this may be the last to hold.
    guard: OwnedAlone,
    memory: Symmetric<T>,
}

impl<T: Plain> Kept<T> {
    /// The memory whose window it is.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let kept = group.symmetric::<u8>(8)?.keep()?;
    /// kept.memory().put_signal(0, 0)?;
    /// assert_eq!(kept.memory().signals(0, 0)?, 1);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn memory(&self) -> &Symmetric<T> {
        &self.memory
    }

    /// Gives the window back, but not the memory.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut kept = group.symmetric::<i32>(8)?.keep()?;
    /// kept[3] = 7;
    /// let memory = kept.let_go();
    /// // Now others get in.
    /// memory.put(0, 4, &[9])?;
    /// assert_eq!(memory.keep()?[3..5], [7, 9]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn let_go(self) -> Symmetric<T> {
        self.memory
    }
}

impl<T: Plain> Deref for Kept<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.guard.elements()[..self.memory.len]
    }
}

impl<T: Plain> DerefMut for Kept<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.guard.elements_mut()[..self.memory.len]
    }
}

impl<T: Plain> Input for Kept<T> {
    type Element = T;

    fn elements(&self) -> &[T] {
        self
    }
}

impl<T: Plain> Buffer for Kept<T> {
    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Symmetric { memory, len, .. } = &self.memory;
        let (rank, number) = (self.guard.rank(), memory.number());
        write!(f, "the window of rank {rank} in symmetric memory {number}, {len} elements")
    }
}
