//! Memory that the program has registered with a communicator.

use super::{COMMS, Communicator, STEP};
use crate::failure::{Failure, Result};
use crate::lock;
use crate::memory::Region;
use crate::raw::Handle;

impl Communicator {
    /// Keeps memory that the program registers. Says what it is called, as nothing else ever is.
    pub(crate) fn register(&self, region: Region) -> Handle {
        let number = {
            let mut comms = lock(&COMMS);
            comms.registered += 1;
            REGISTERED + comms.registered * STEP
        };
        lock(&self.registered).insert(number, region);
        Handle::new(number)
    }

    /// Forgets it.
    ///
    /// # Errors
    /// When it is none of this communicator's.
    pub(crate) fn deregister(&self, handle: Handle) -> Result<()> {
        match lock(&self.registered).remove(&handle.number()) {
            Some(_) => Ok(()),
            None => Err(Failure::argument(format!(
                "handle is {:#x}, which ncclCommRegister has not given for this communicator, or was \
                 deregistered before",
                handle.number()
            ))),
        }
    }
}

/// No communicator, stream or window has such a number.
const REGISTERED: usize = 0x7400_0000_0000;
