//! Groups of calls.
//!
//! ```
//! use consort_nccl::api::groups::{ncclGroupEnd, ncclGroupStart};
//! use consort_nccl::Status;
//!
//! assert_eq!(ncclGroupStart(), Status::SUCCESS);
//! assert_eq!(ncclGroupEnd(), Status::SUCCESS);
//! assert_eq!(ncclGroupEnd(), Status::INVALID_USAGE);
//! ```

use crate::SimInfo;
use crate::batch;
use crate::raw::Grown;

exports! {
    /// From here on calls of this thread wait for the end of the group. Groups can be nested; the outermost
    /// counts.
    fn ncclGroupStart, pncclGroupStart() {
        batch::start();
        Ok(())
    }

    /// Issues the calls of the group, all at once. Those on no stream are done when it returns.
    fn ncclGroupEnd, pncclGroupEnd() {
        batch::end()
    }

    /// Ends a group of calls without issuing them, and estimates how long they would have taken: from how many
    /// there are and how much they move.
    fn ncclGroupSimulateEnd, pncclGroupSimulateEnd(simInfo: Grown<SimInfo>) {
        let (bytes, calls) = batch::end_in_thought()?;
        if simInfo.is_null() {
            return Ok(());
        }
        SimInfo::tell(&simInfo, calls as f64 * PER_CALL + bytes as f64 / PER_SECOND)
    }
}

/// How long a call takes by itself, in seconds: about what a small one does between processes of one host.
const PER_CALL: f64 = 5e-6;
/// How many bytes are moved in a second: what one core does.
const PER_SECOND: f64 = 4e9;
