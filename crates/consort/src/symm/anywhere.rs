//! What symmetric memory is, wherever it lies.

use std::fmt;
use std::ops::Range;

use consort_sys::view::{Source, Space, Target};
use consort_sys::window::Plain;

use super::Symmetric;
use crate::error::{Error, Result};
use crate::group::{Group, Rank};

/// Symmetric memory, wherever it lies: of the [host](Symmetric), or of [devices](super::DeviceSymmetric).
///
/// Every rank has as many bytes, which the others put data into and which are zero at first, and channels for
/// signals. What was put before a signal, or before a barrier, is there after it. Channels are independent of
/// each other, and of the group's calls.
///
/// ```
/// use consort::symm::SymmetricMemory;
///
/// /// Gives every rank what its left neighbour has.
/// fn pass_on(memory: &dyn SymmetricMemory, mine: &[u8]) -> consort::Result<()> {
///     let (rank, world) = (memory.group().rank().get(), memory.group().world() as u32);
///     let (right, left) = ((rank + 1) % world, (rank + world - 1) % world);
///     memory.put_with_signal(right.into(), 0, mine.into(), 0)?;
///     memory.wait_signal(left.into(), 0)
/// }
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let memory = group.symmetric::<u8>(3)?;
/// pass_on(&memory, &[1, 2, 3])?;
/// assert_eq!(memory.local()?[..], [1, 2, 3]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// Data comes from, and goes to, the host or the device that the memory lies on.
///
/// # Errors
/// Each of the calls fails when there is no such rank, channel or place, when a rank that is waited for is
/// gone, and when the group has ended.
pub trait SymmetricMemory: fmt::Debug + Send + Sync {
    /// The group whose memory it is.
    fn group(&self) -> &Group;

    /// How many bytes each rank has.
    fn bytes(&self) -> usize;

    /// Where this rank's bytes lie.
    fn space(&self) -> Space;

    /// How many channels there are for signals.
    fn channels(&self) -> usize;

    /// Whether this rank reads and writes another's bytes where they are. Of others it cannot [get](Self::get) any.
    fn reaches(&self, rank: Rank) -> bool;

    /// Copies bytes to a rank's, from its byte `at` on.
    ///
    /// # Errors
    /// See [above](Self#errors).
    fn put(&self, to: Rank, at: usize, bytes: Source<'_>) -> Result<()>;

    /// Copies bytes of a rank that this one [reaches](Self::reaches), from its byte `at` on.
    ///
    /// # Errors
    /// See [above](Self#errors); and when it is not reached.
    fn get(&self, from: Rank, at: usize, bytes: Target<'_>) -> Result<()>;

    /// Sends a signal to a rank.
    ///
    /// # Errors
    /// See [above](Self#errors).
    fn put_signal(&self, to: Rank, channel: usize) -> Result<()>;

    /// Waits for a signal from a rank, and takes it.
    ///
    /// # Errors
    /// See [above](Self#errors); and [`Error::Late`] at the group's deadline, after which it can be waited for
    /// again.
    fn wait_signal(&self, from: Rank, channel: usize) -> Result<()>;

    /// Waits until every rank has come to the same barrier of a channel.
    ///
    /// # Errors
    /// See [above](Self#errors); and [`Error::Late`] at the group's deadline, which ends the group.
    fn barrier(&self, channel: usize) -> Result<()>;

    /// Copies bytes to a rank's, and signals that they are there.
    ///
    /// # Errors
    /// See [above](Self#errors). Nothing is signalled then.
    fn put_with_signal(
        &self,
        to: Rank,
        at: usize,
        bytes: Source<'_>,
        channel: usize,
    ) -> Result<()> {
        check_channel(channel, self.channels())?;
        self.put(to, at, bytes)?;
        self.put_signal(to, channel)
    }
}

impl<T: Plain> SymmetricMemory for Symmetric<T> {
    fn group(&self) -> &Group {
        Self::group(self)
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }

    fn space(&self) -> Space {
        Space::Host
    }

    fn channels(&self) -> usize {
        Self::channels(self)
    }

    fn reaches(&self, rank: Rank) -> bool {
        rank.index() < self.world()
    }

    fn put(&self, to: Rank, at: usize, bytes: Source<'_>) -> Result<()> {
        check_space(bytes.space(), &[Space::Host])?;
        let range = check_bytes(at, bytes.len(), Self::bytes(self))?;
        self.raw(to)?.view().slice(range).copy_from(bytes);
        Ok(())
    }

    fn get(&self, from: Rank, at: usize, bytes: Target<'_>) -> Result<()> {
        check_space(bytes.space(), &[Space::Host])?;
        let range = check_bytes(at, bytes.len(), Self::bytes(self))?;
        bytes.copy_from(self.raw(from)?.view().slice(range).into());
        Ok(())
    }

    fn put_signal(&self, to: Rank, channel: usize) -> Result<()> {
        Self::put_signal(self, to, channel)
    }

    fn wait_signal(&self, from: Rank, channel: usize) -> Result<()> {
        Self::wait_signal(self, from, channel)
    }

    fn barrier(&self, channel: usize) -> Result<()> {
        Self::barrier(self, channel)
    }
}

/// So many bytes from a place on, of as many as a window has.
pub(super) fn check_bytes(at: usize, count: usize, bytes: usize) -> Result<Range<usize>> {
    match at.checked_add(count) {
        Some(end) if end <= bytes => Ok(at..end),
        _ => {
            let what = format!("{count} bytes at {at} are not within a window of {bytes}");
            Err(Error::Argument(what))
        }
    }
}

/// Whether data lies where it can be copied.
pub(super) fn check_space(space: Space, reached: &[Space]) -> Result<()> {
    if reached.contains(&space) {
        return Ok(());
    }
    let reached: Vec<String> = reached.iter().map(ToString::to_string).collect();
    let what = format!(
        "this data lies on {space}, and symmetric memory of {0} has it copied from and to {0} alone",
        reached.join(" and ")
    );
    Err(Error::Argument(what))
}

/// Whether there is such a channel.
pub(super) fn check_channel(channel: usize, channels: usize) -> Result<()> {
    if channel < channels {
        return Ok(());
    }
    let what = format!("there is no channel {channel}: this memory has {channels}, from 0 on");
    Err(Error::Argument(what))
}
