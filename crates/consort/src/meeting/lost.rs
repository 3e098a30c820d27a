//! One who ends while the others meet.

use std::time::Duration;

use consort_store::{Store, Swap};
use consort_sys::host::HostId;
use serde::{Deserialize, Serialize};

use super::name_of;
use crate::builder::Invitation;
use crate::error::Error;
use crate::verdict;
use crate::whereabouts::Whereabouts;

/// A rank that has ended before there is a group, and who has found that out.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lost {
    pub(super) rank: u32,
    pub(super) process: u32,
    pub(super) host: HostId,
    pub(super) by: u32,
}

impl Lost {
    /// Unless somebody has found another before, because of whom this one may have ended.
    pub(super) fn or_earlier(self, meeting: &dyn Store) -> Self {
        match meeting.compare_set(LOST, None, &verdict::encode(&self)) {
            Ok(Swap::Differs(earlier)) => verdict::decode(&earlier).unwrap_or(self),
            _ => self,
        }
    }

    /// What the program is told, who waited for something for so long.
    pub(super) fn error(
        self,
        invitation: &Invitation,
        (call, waited): (&'static str, Duration),
    ) -> Error {
        let Self { rank, process, host, by } = self;
        Error::PeerLost {
            group: name_of(invitation).into(),
            rank,
            by,
            call: call.into(),
            number: 0,
            waited,
            whereabouts: [Whereabouts::of_ended(rank, host, process)].into_iter().collect(),
        }
    }
}

/// Where the first is written down of whom that is found.
const LOST: &str = "lost";
