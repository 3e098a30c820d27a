//! How the ranks of a host take memory at the same moment, and together not more than there is.
//!
//! Each looks how much there is before it takes some. As long as there is plenty, with room for what
//! all others may be taking meanwhile, they go on side by side: that is a shared lock. Otherwise one
//! goes on alone, so that the next one sees what it took.
//!
//! The lock is the kernel's, on a file that all of them have: who ends, however, has let go of it.
//! It belongs to a process, so threads take turns before.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::memory::Memory;

/// Where they take turns.
#[derive(Debug)]
pub(super) struct Turns {
    /// The same file on all of them.
    file: OwnedFd,
    ranks: usize,
    threads: Mutex<()>,
}

/// While it lives nobody takes so much that there is not enough for this one.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    /// How much there is.
    pub(super) usable: u64,
    #[expect(dead_code, reason = "it is let go of behind the file")]
    thread: MutexGuard<'a, ()>,
}

impl Turns {
    /// For so many ranks that all have this file.
    ///
    /// # Errors
    /// When this process can have no more descriptors.
    pub(super) fn new(file: impl AsFd, ranks: usize) -> std::io::Result<Self> {
        let file = file.as_fd().try_clone_to_owned()?;
        Ok(Self { file, ranks, threads: Mutex::default() })
    }

    /// How many ranks take turns.
    pub(super) fn ranks(&self) -> usize {
        self.ranks
    }

    /// Waits until this rank may take a step of at most `step` bytes out of `to_come`.
    pub(super) fn take(&self, to_come: usize, step: usize) -> Turn<'_> {
        let thread = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut turn = Turn { turns: self, usable: 0, thread };
        self.lock(FlockOperation::NonBlockingLockShared);
        turn.usable = Memory::here().usable();
        let plenty = to_come.saturating_add(self.ranks.saturating_mul(step));
        if plenty as u64 > turn.usable {
            // Two that have a shared lock would wait for each other.
            self.unlock();
            self.lock(FlockOperation::NonBlockingLockExclusive);
            turn.usable = Memory::here().usable();
        }
        turn
    }

    /// Who does not get it goes on without: a rank may be stopped in the middle of its turn.
    fn lock(&self, operation: FlockOperation) {
        let start = Instant::now();
        while start.elapsed() < LONGEST {
            match rustix::fs::fcntl_lock(&self.file, operation) {
                Err(Errno::AGAIN | Errno::ACCESS) => thread::sleep(PAUSE),
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    fn unlock(&self) {
        let _ = rustix::fs::fcntl_lock(&self.file, FlockOperation::NonBlockingUnlock);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.unlock();
    }
}

/// A step takes milliseconds.
const LONGEST: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(200);
