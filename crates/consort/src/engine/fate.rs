//! What becomes of a group, as every thread of a rank may know it.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use consort_sys::board::End;

use super::company::Peers;
use super::diary::Diary;
use super::verdict::{Cause, Failure};
use crate::error::Error;
use crate::metering::count_failure;

/// Whether a group has failed, and why. Clones are about the same group.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    group: Arc<str>,
    peers: Peers,
    /// What all ranks have heard.
    failure: Arc<OnceLock<Failure>>,
    diary: Diary,
}

impl Fate {
    pub(super) fn new(group: &str, peers: Peers) -> Self {
        Self { group: group.into(), peers, failure: Arc::default(), diary: Diary::default() }
    }

    /// Whose it is.
    pub(super) fn peers(&self) -> &Peers {
        &self.peers
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    #[inline]
    pub(super) fn diary(&self) -> &Diary {
        &self.diary
    }

    /// Ends the group, here and for everyone else, unless it has ended. Says what for: if somebody
    /// was first, it is what that one has said.
    pub(super) fn decide(&self, cause: Cause) -> Error {
        let failure = self.failure.get_or_init(|| {
            let cause = self.diary.located(cause);
            self.tell(&cause);
            self.remember(self.heard().unwrap_or_else(|| self.found(cause)))
        });
        failure.error(&self.group)
    }

    /// What this rank's caller is told of something that does not end the group.
    pub(super) fn excuse(&self, cause: Cause) -> Error {
        self.found(self.diary.located(cause)).error(&self.group)
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.peers.is_halted()
    }

    /// Why the group has failed, if it has as far as this rank knows.
    pub(super) fn error(&self) -> Option<Error> {
        (self.has_ended() || self.failure.get().is_some()).then(|| self.ended())
    }

    /// Why a group has failed of which this rank knows that it has.
    #[cold]
    pub(super) fn ended(&self) -> Error {
        let failure = self.failure.get_or_init(|| {
            let heard = self.heard().unwrap_or_else(|| {
                // Somebody has scribbled where the one should stand who has ended it. The others may
                // not know of anything.
                let word = match self.peers.end() {
                    Some(End::Nonsense { word }) => word,
                    _ => 0,
                };
                let what = format!("{word:#x} is no rank that could have ended the group");
                let cause = Cause::Damaged { rank: self.peers.me() as u32, what };
                self.tell(&cause);
                self.heard().unwrap_or_else(|| self.found(cause))
            });
            self.remember(heard)
        });
        failure.error(&self.group)
    }

    fn tell(&self, cause: &Cause) {
        self.peers.halt(&cause.encode());
    }

    /// What the one has said who has ended the group, if there is one.
    fn heard(&self) -> Option<Failure> {
        let Some(End::By { rank, verdict }) = self.peers.end() else { return None };
        let by = rank as u32;
        let cause = Cause::decode(&verdict, self.peers.world()).unwrap_or_else(|| {
            let what = "it has ended the group, and what it says of that cannot be read".to_owned();
            Cause::Damaged { rank: by, what }
        });
        Some(Failure { by, cause })
    }

    /// Counts it. If a rank is dead, other groups may have it too, whose ranks would only see that this one leaves.
    fn remember(&self, failure: Failure) -> Failure {
        count_failure(&self.group, failure.error(&self.group).kind());
        if let Cause::Dead { rank, .. } = failure.cause {
            self.peers.mourn(rank as usize);
        }
        failure
    }

    fn found(&self, cause: Cause) -> Failure {
        Failure { by: self.peers.me() as u32, cause }
    }
}
