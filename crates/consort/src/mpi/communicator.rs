//! The ranks of a group, as MPI knows them.

use std::sync::{Arc, Mutex, PoisonError};

use super::ending::{self, Hold};
use super::library::Mpi;
use super::memory::Memory;
use super::table::{Comm, MpiError, Pending, Task};

/// What carries a group's data, or its messages. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Communicator(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hold: Hold,
    comm: Comm,
    /// Whether something was given up in it that MPI is still at.
    spoiled: Mutex<bool>,
}

impl Communicator {
    /// Of these processes, by their numbers in MPI, who all make it, under this name.
    /// Waits for them: MPI knows no deadline here, so they have to be about to.
    ///
    /// # Errors
    /// Of MPI.
    pub(crate) fn among(mpi: &'static Mpi, ranks: &[i32], name: &str) -> Result<Self, MpiError> {
        let comm = mpi.table.among(ranks, tag_of(name))?;
        Ok(Self(Arc::new(Inner { hold: mpi.hold(), comm, spoiled: Mutex::new(false) })))
    }

    /// This rank.
    pub(crate) fn me(&self) -> usize {
        self.0.comm.me
    }

    /// How many ranks there are.
    pub(crate) fn world(&self) -> usize {
        self.0.comm.world
    }

    /// Begins with an operation of all ranks.
    pub(crate) fn start(&self, task: Task, memory: Memory) -> Result<Pending, MpiError> {
        self.0.hold.mpi().table.start(self.0.comm, task, memory)
    }

    /// Begins to send the first bytes of memory to a rank; if `when_received`, it is done only when the rank
    /// has begun to receive them.
    pub(crate) fn send(
        &self,
        to: usize,
        bytes: usize,
        memory: Memory,
        when_received: bool,
    ) -> Result<Pending, MpiError> {
        self.0.hold.mpi().table.send(self.0.comm, to, bytes, memory, when_received)
    }

    /// Begins to receive the next message of a rank, if one has come of at most so many bytes. Takes the
    /// memory then.
    pub(crate) fn receive(
        &self,
        from: usize,
        most: usize,
        memory: &mut Memory,
    ) -> Result<Option<Pending>, MpiError> {
        self.0.hold.mpi().table.receive(self.0.comm, from, most, memory)
    }

    /// Says that something was given up in it: it is never freed.
    pub(crate) fn spoil(&self) {
        *self.0.spoiled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        ending::spoil();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let is_spoiled = *self.spoiled.get_mut().unwrap_or_else(PoisonError::into_inner);
        let table = &self.hold.mpi().table;
        // A program that has begun MPI itself may have ended it, and whoever calls it then is ended.
        if !is_spoiled && table.has_ended() == Ok(false) {
            // What is lost otherwise is a communicator.
            let _ = table.free(self.comm);
        }
    }
}

/// MPI tells groups that are made at the same time apart by a number, of which at least so many can be had.
fn tag_of(name: &str) -> i32 {
    let hash = blake3::hash(name.as_bytes());
    let word = u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"));
    (word % TAGS) as i32
}

const TAGS: u64 = 32_767;
