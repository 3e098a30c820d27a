//! The meeting of ranks that are all in this process.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::comm::Bond;
use crate::failure::{Failure, Result};
use crate::id::Invitation;
use crate::lock;
use crate::membership::{House, come, open_house, why_not};
use crate::status::Status;

/// A meeting that nobody else is invited to: when one rank fails, it is over for all, and so is its store.
pub(crate) struct Gathering {
    invitation: Invitation,
    house: Arc<House>,
    world: u32,
    /// Why it has failed.
    cause: Mutex<Option<Failure>>,
}

impl Gathering {
    /// One of so many ranks.
    ///
    /// # Errors
    /// When the system does not give what it takes.
    pub(crate) fn of(world: u32) -> Result<Self> {
        must_have_descriptors(world)?;
        let (invitation, house) = open_house()?;
        Ok(Self { invitation, house, world, cause: Mutex::default() })
    }

    /// Meets the others, or ends the meeting for them.
    ///
    /// # Errors
    /// When they do not meet.
    pub(crate) fn meet(&self, rank: u32) -> Result<Bond> {
        let met = come(&self.invitation, Some(self.house.clone()), rank, self.world);
        met.map_err(why_not).inspect_err(|failure| {
            self.note(failure);
            self.house.end();
        })
    }

    /// Why it has failed, if it has.
    pub(crate) fn cause(&self) -> Option<Failure> {
        lock(&self.cause).clone()
    }

    /// Keeps the first failure; a rank that says only what it has heard of another says less than any.
    fn note(&self, failure: &Failure) {
        let mut cause = lock(&self.cause);
        if cause.as_ref().is_none_or(|cause| cause.status == Status::REMOTE_ERROR) {
            *cause = Some(failure.clone());
        }
    }
}

/// Whether the system gives as many descriptors as so many ranks have at least. If they run out while ranks are on
/// their way to the store, these wait until it lets them in, which it cannot. It is reckoned, and none is taken, as the
/// program's other threads need some meanwhile.
///
/// # Errors
/// When it does not.
fn must_have_descriptors(world: u32) -> Result<()> {
    let count = u64::from(world) * (OF_A_RANK + u64::from(world));
    let Some(most) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let taken = taken_below(most);
    if count <= most - taken {
        return Ok(());
    }
    Err(Failure::system(format!(
        "{world} ranks in one process have {count} descriptors and more, and of the {most} that the system gives \
         this one {taken} are taken: {}; raise the limit on open files, or have ranks in more processes",
        io::Error::from(Errno::MFILE)
    )))
}

/// How many descriptors with smaller numbers than this the process has: larger ones are from before the limit was
/// lowered. None where the system does not list them, so that what lacks one itself tells.
fn taken_below(most: u64) -> u64 {
    let Ok(listed) = fs::read_dir("/proc/self/fd") else { return 0 };
    let numbers = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
    let taken = numbers.filter(|&number| number < most).count() as u64;
    // One of them was there to look.
    taken.saturating_sub(1)
}

/// Both ends of its connection to the store. Besides it has the memory of each rank.
const OF_A_RANK: u64 = 2;
