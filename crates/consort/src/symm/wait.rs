//! Waiting for another rank outside the group's calls.

use std::time::Duration;

use crate::engine::{Lookout, Since, Stakes, Stuck, Waiting};
use crate::error::{Error, Result};
use crate::group::Group;

/// One wait. It looks at the clock only once it has to sleep.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    lookout: &'a Lookout,
    timeout: Duration,
    since: Since,
}

impl<'a> Wait<'a> {
    /// # Errors
    /// When this process may not use the group.
    pub(super) fn new(group: &'a Group) -> Result<Self> {
        Ok(Self::on(group.commons()?.lookout(), group.timeout()))
    }

    /// For ranks of which this is known, for so long.
    pub(super) fn on(lookout: &'a Lookout, timeout: Duration) -> Self {
        Self { lookout, timeout, since: Since::default() }
    }

    /// Whether it makes sense to wait for these ranks any longer.
    pub(super) fn look_round(&mut self, ranks: &[usize]) -> Result<(), Stuck> {
        self.lookout.judge(ranks, || self.since.elapsed() >= self.timeout)?;
        if self.since.is_to_warn(self.lookout.warn_after()) {
            self.lookout.warn(&self.waiting("symmetric memory".to_owned()), ranks);
        }
        Ok(())
    }

    /// The error for a wait that was stuck, for ranks of whom those `missing` did not come.
    pub(super) fn give_up(
        &self,
        stuck: Stuck,
        call: String,
        missing: impl Iterator<Item = usize>,
        stakes: Stakes,
    ) -> Error {
        self.lookout.give_up(stuck, self.waiting(call), missing.collect(), stakes)
    }

    /// What this is, of whoever waits in a call.
    pub(super) fn waiting(&self, call: String) -> Waiting {
        Waiting { call, number: 0, waited: self.waited() }
    }

    pub(super) fn waited(&self) -> Duration {
        self.since.waited()
    }
}

#[cfg(test)]
mod tests {
    use consort_sys::view::Source;

    use crate::{Builder, Error, ErrorKind};

    #[test]
    fn a_lock_that_somebody_has_scribbled_on_ends_the_group_and_is_called_damaged() {
        for scribble in [[0xff; 4], [0, 0, 9, 0], [77, 0, 0, 0]] {
            let group = Builder::new().rank(0).world(1).init().unwrap();
            let memory = group.symmetric::<u8>(8).unwrap();
            let place = &memory.memory.windows().places()[0];
            let state = place.arena.view(place.control, 4).unwrap();
            state.copy_from(Source::from(&scribble[..]));
            let error = memory.local().map(drop).unwrap_err();
            for error in [error].into_iter().chain(group.error()).chain(group.barrier().err()) {
                assert!(matches!(error, Error::Damaged { rank: 0, .. }), "{error}");
                assert_eq!(error.kind(), ErrorKind::System);
                let told =
                    "group world: what came from rank 0 is damaged: the lock of its window is";
                assert!(error.to_string().starts_with(told), "{error}");
            }
            state.copy_from(Source::from(&[0; 4][..]));
        }
    }
}
