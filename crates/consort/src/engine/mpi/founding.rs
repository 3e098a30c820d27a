//! Waiting for the communicators of a new group.

use std::iter;
use std::time::{Duration, Instant};

use super::Footing;
use crate::engine::lookout::{Lookout, Stakes, Stuck};
use crate::engine::verdict::{Cause, Waiting};
use crate::error::{Error, Result};
use crate::group::Job as Membership;
use crate::mpi::{Communicator, Making, Unmade};

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
        let grace = match stuck {
            Stuck::Dead { .. } => LAST_BREATH,
            // The first may be about to hear that the store did not serve it, which tells more than that it is late.
            Stuck::Late if !making.is_numbered() => LAST_BREATH,
            _ => Duration::ZERO,
        };
        if let Some(made) = making.wait(grace) {
            return made.map_err(|error| fail(lookout, &error));
        }
        let waiting = Waiting { call: CALL.to_owned(), number: 0, waited: began.elapsed() };
        let missing = match making.is_numbered() {
            true => others().collect(),
            false => iter::once(FIRST).collect(),
        };
        return Err(lookout.give_up(stuck, waiting, missing, Stakes::Group));
    }
}

/// Tells the others, who cannot do without this rank.
#[cold]
fn fail(lookout: &Lookout, error: &Unmade) -> Error {
    lookout.decide(Cause::Unable { reason: error.to_string() })
}

/// What is waited for.
const CALL: &str = "MPI_Comm_create_group";
/// Who draws the numbers that it needs.
const FIRST: usize = 0;
const LOOK: Duration = Duration::from_millis(50);
/// How long what a rank has done last may take to be known.
const LAST_BREATH: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use consort_store::{Deadline, Error as StoreError, MemStore, Missing, Reply, Request, Store};

    use super::*;
    use crate::engine::company::tests::Member;
    use crate::mpi::Numbering;

    /// What these of three ranks get who make a group that comes to nothing before MPI is asked.
    fn make_in_vain(store: &Arc<dyn Store>, ranks: &[usize], timeout: Duration) -> Vec<Error> {
        let members = Member::several(3);
        let try_it = |&rank: &usize| {
            let (store, group) = (store.clone(), "few".to_owned());
            let numbering = Numbering { store, group, is_first: rank == FIRST, timeout };
            let making = Making::begin_with(numbering, |_| unreachable!("there are no numbers"));
            made(making.unwrap(), &members[rank].lookout(), timeout).unwrap_err()
        };
        thread::scope(|scope| {
            let trying: Vec<_> =
                ranks.iter().map(|rank| scope.spawn(move || try_it(rank))).collect();
            trying.into_iter().map(|it| it.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_first_member_that_stands_still_before_it_draws_numbers_is_named_by_all_who_wait() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        for error in make_in_vain(&store, &[1, 2], SHORT) {
            assert!(matches!(&error, Error::Late { missing, .. } if missing == &[0]), "{error}");
        }
    }

    #[test]
    fn a_first_member_that_the_store_refuses_says_so_to_all() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        store.set("mpi/drawn", b"many").unwrap();
        for error in make_in_vain(&store, &[0, 1, 2], LONG) {
            let Error::Unable { rank: 0, reason, .. } = &error else { panic!("{error}") };
            assert!(reason.starts_with("the job's store gives it no numbers"), "{reason}");
        }
    }

    /// A store that changes nothing, and does not say so.
    #[derive(Debug)]
    struct Mute(MemStore);

    impl Store for Mute {
        fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply, StoreError> {
            if !request.can_change() {
                return self.0.call(request, until);
            }
            let waited = until.remaining().unwrap();
            thread::sleep(waited);
            Err(StoreError::Timeout { verb: request.verb(), waited, missing: Missing::default() })
        }

        fn duplicate(&self) -> Result<Arc<dyn Store>, StoreError> {
            self.0.duplicate()
        }
    }

    #[test]
    fn a_first_member_whose_store_is_silent_is_the_one_that_is_named() {
        let store: Arc<dyn Store> = Arc::new(Mute(MemStore::new()));
        for error in make_in_vain(&store, &[0, 1, 2], SHORT) {
            // Whichever comes first: its own word, or that it is late.
            let is_named = match &error {
                Error::Unable { rank, .. } => *rank == 0,
                Error::Late { missing, .. } => missing == &[0],
                _ => false,
            };
            assert!(is_named, "{error}");
        }
    }

    /// For waits that are in vain.
    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(60);
}
