//! Who has come to the meeting as which rank.

use consort_store::{Deadline, Error as StoreError, Store, Swap};
use consort_sys::host::HostId;
use consort_sys::origin::PerProcess;
use serde::{Deserialize, Serialize};

use crate::builder::Invitation;
use crate::error::{Error, Result};
use crate::verdict::{decode, encode};

/// What a process writes where its rank is taken.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    host: HostId,
    process: u32,
    /// A process that is given the number of an earlier one, whose claim was left, has another.
    token: u64,
}

/// Takes a rank's place. Of two processes with one rank the second has no part in the meeting, nor
/// in leaving it.
///
/// # Errors
/// When somebody has taken it, or this very process.
pub(super) fn take_place(meeting: &dyn Store, invitation: &Invitation) -> Result<()> {
    let rank = invitation.rank;
    let mine = Claim::of_this_process()?;
    let Swap::Differs(earlier) = meeting.compare_set(&place_of(rank), None, &encode(&mine))? else {
        return Ok(());
    };
    Err(match decode::<Claim>(&earlier) {
        Ok(earlier) if earlier == mine => {
            let Invitation { job, epoch, .. } = invitation;
            Error::Twice { rank, job: job.clone(), epoch: *epoch }
        }
        Ok(Claim { host, process, .. }) => Error::RankTaken { rank, host, process },
        Err(_) => StoreError::RankTaken { rank, occasion: "the meeting".to_owned() }.into(),
    })
}

/// The host and the process that have taken a rank's place, if some have and it can be read.
///
/// # Errors
/// When the store fails, or does not answer.
pub(super) fn holder_of(
    meeting: &dyn Store,
    rank: u32,
) -> Result<Option<(HostId, u32)>, StoreError> {
    match meeting.get(&place_of(rank), Deadline::now()) {
        Ok(claim) => Ok(decode::<Claim>(&claim).ok().map(|claim| (claim.host, claim.process))),
        Err(StoreError::Timeout { missing, .. }) if missing.count > 0 => Ok(None),
        Err(other) => Err(other),
    }
}

/// Where it says who has come as a rank.
pub(super) fn place_of(rank: u32) -> String {
    format!("card/{rank}")
}

impl Claim {
    fn of_this_process() -> Result<Self> {
        let host = HostId::here().map_err(|error| Error::Host(error.into()))?;
        Ok(Self { host, process: std::process::id(), token: *TOKEN.here() })
    }
}

/// Without random numbers the process number has to do.
static TOKEN: PerProcess<u64> = PerProcess::new(|| getrandom::u64().unwrap_or_default());
