//! Waiting for the communicators of a new group.

use std::time::{Duration, Instant};

use super::Footing;
use crate::engine::lookout::{Lookout, Stakes, Stuck};
use crate::engine::verdict::{Cause, Waiting};
use crate::error::{Error, Result};
use crate::group::Job as Membership;
use crate::mpi::{Communicator, Making, MpiError};

/// Waits until MPI has made what a group needs, or there is no use in that: then the group has ended before it was one.
///
/// # Errors
/// When MPI fails, a rank dies, the group ends for another reason, or it takes longer than that.
pub(crate) fn found(
    making: Making,
    footing: Footing,
    lookout: &Lookout,
    membership: &Membership,
    timeout: Duration,
) -> Result<([Communicator; 2], Footing)> {
    match made(making, lookout, timeout) {
        Ok(made) => Ok((made, footing)),
        Err(error) => {
            // Others may still read there what has become of it.
            lookout.leave();
            footing.leave(membership);
            Err(error)
        }
    }
}

fn made(mut making: Making, lookout: &Lookout, timeout: Duration) -> Result<[Communicator; 2]> {
    let began = Instant::now();
    let others = || (0..lookout.world()).filter(|&rank| rank != lookout.me());
    loop {
        let limit = LOOK.min(timeout.saturating_sub(began.elapsed()));
        if let Some(made) = making.wait(limit) {
            return made.map_err(|error| fail(lookout, &error));
        }
        lookout.listen();
        // One that has left has made it, or has failed to and said so.
        let is_gone = |&rank: &usize| lookout.is_gone(rank);
        let dead = others().find(is_gone);
        let judged = match dead {
            Some(rank) => lookout.judge(&[rank], || false),
            None => lookout.judge(&[], || began.elapsed() >= timeout),
        };
        let Err(stuck) = judged else { continue };
        let grace = if matches!(stuck, Stuck::Dead { .. }) { LAST_BREATH } else { Duration::ZERO };
        if let Some(made) = making.wait(grace) {
            return made.map_err(|error| fail(lookout, &error));
        }
        let waiting = Waiting { call: CALL.to_owned(), number: 0, waited: began.elapsed() };
        return Err(lookout.give_up(stuck, waiting, others().collect(), Stakes::Group));
    }
}

/// Tells the others, who cannot do without this rank.
#[cold]
fn fail(lookout: &Lookout, error: &MpiError) -> Error {
    lookout.decide(Cause::Unable { reason: format!("MPI has failed: {error}") })
}

/// What is waited for.
const CALL: &str = "MPI_Comm_create_group";
const LOOK: Duration = Duration::from_millis(50);
/// How long what a rank has done last may take to be known.
const LAST_BREATH: Duration = Duration::from_millis(200);
