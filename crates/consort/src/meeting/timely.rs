//! The store as those see it who meet there: it has to answer while there is time to meet.
//!
//! Ranks that meet ask for one thing after the other, and the process that holds the store may be stuck or
//! stopped all the while. What is set has no deadline of its own, so it has the meeting's. Nobody can tell a
//! store that is stuck from one that is slow while it may still answer; but once the time is up, one that
//! does not answer is out of reach, for whatever else is asked of it as well: nobody waits twice for it.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use consort_store::{Deadline, Error, Reply, Request, Store};

/// A store in another process, for as long as a meeting takes.
#[derive(Debug)]
pub(super) struct Timely<S> {
    store: S,
    /// Where it is.
    place: String,
    began: Instant,
    until: Deadline,
    /// The time is up, and it did not answer: after so long.
    lost: OnceLock<Duration>,
}

impl<S: Store> Timely<S> {
    pub(super) fn new(store: S, place: String, until: Deadline) -> Self {
        Self { store, place, began: Instant::now(), until, lost: OnceLock::new() }
    }

    /// Whether it did not answer when the time was up.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Whether it does not answer what is asked now: what was asked just before the time was up has had less than a moment.
    fn is_silent(&self) -> bool {
        self.store.check(&["anything"]).is_err()
    }

    fn out_of_reach(&self, waited: Duration) -> Error {
        let reason = "it does not answer any more, as when the process that holds it is stopped";
        Error::Unreachable { address: self.place.clone(), waited, reason: reason.to_owned() }
    }
}

impl<S: Store> Store for Timely<S> {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply, Error> {
        if let Some(waited) = self.lost.get() {
            return Err(self.out_of_reach(*waited));
        }
        let was_late = self.until.has_passed();
        match self.store.call(request, until) {
            Err(Error::Timeout { missing, .. })
                if missing.count == 0
                    && self.until.has_passed()
                    && (was_late || self.is_silent()) =>
            {
                Err(self.out_of_reach(*self.lost.get_or_init(|| self.began.elapsed())))
            }
            reply => reply,
        }
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>, Error> {
        self.store.duplicate()
    }

    /// A store that is asked when the time is up has a moment to answer.
    fn patience(&self) -> Duration {
        let patience = self.store.patience();
        self.until.remaining().map_or(patience, |left| left.min(patience))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use consort_store::{MemStore, Missing};

    use super::*;

    /// Answers when it was told to; or what changes nothing, from the beginning.
    #[derive(Debug, Default)]
    struct Moody {
        store: MemStore,
        answers: OnceLock<()>,
        only_changes_hang: bool,
    }

    impl Store for Moody {
        fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply, Error> {
            if self.answers.get().is_some() || self.only_changes_hang && !request.can_change() {
                return self.store.call(request, until);
            }
            let waited = until.remaining().unwrap_or(LONG);
            thread::sleep(waited);
            Err(Error::Timeout { verb: request.verb(), waited, missing: Missing::default() })
        }

        fn duplicate(&self) -> Result<Arc<dyn Store>, Error> {
            self.store.duplicate()
        }
    }

    #[test]
    fn a_store_that_is_silent_when_the_time_is_up_is_waited_for_once() {
        let until = Deadline::after(SHORT);
        let store = Timely::new(Moody::default(), "a:1".to_owned(), until);
        let slice = store.get("key", Deadline::now()).unwrap_err();
        assert!(matches!(slice, Error::Timeout { .. }), "there is time: {slice}");
        for _ in 0..3 {
            let error = store.set("key", b"value").unwrap_err();
            let Error::Unreachable { address, waited, .. } = &error else { panic!("{error}") };
            assert_eq!(address, "a:1");
            assert!((SHORT..LONG).contains(waited), "{error}");
        }
        assert!(store.is_lost());
        store.store.answers.set(()).unwrap();
        assert!(store.set("key", b"value").is_err(), "it is not asked again");
    }

    #[test]
    fn a_store_that_was_only_slow_when_the_time_was_up_is_not_given_up() {
        let moody = Moody { only_changes_hang: true, ..Moody::default() };
        let store = Timely::new(moody, "a:1".to_owned(), Deadline::after(SHORT));
        let error = store.set("key", b"value").unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        assert!(!store.is_lost());
        assert!(!store.check(&["key"]).unwrap(), "it tells who is missing");
    }

    #[test]
    fn a_store_that_answers_is_asked_whatever_the_time() {
        let store = Timely::new(Moody::default(), "a:1".to_owned(), Deadline::after(SHORT));
        assert!(store.get("key", Deadline::now()).is_err());
        store.store.answers.set(()).unwrap();
        store.set("key", b"value").unwrap();
        assert!(!store.is_lost());
        thread::sleep(SHORT);
        assert_eq!(store.get("key", Deadline::now()).unwrap(), b"value");
        let missing = store.get("another", Deadline::now()).unwrap_err();
        assert!(matches!(missing, Error::Timeout { .. }), "it has answered: {missing}");
        store.set("another", b"value").unwrap();
    }

    const SHORT: Duration = Duration::from_secs(2);
    const LONG: Duration = Duration::from_secs(60);
}
