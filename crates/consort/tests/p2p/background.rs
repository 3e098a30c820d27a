//! Messages that are sent and received in the background.

mod batch;
mod beside;
mod data;
mod ends;
mod failures;
mod order;

use std::time::Duration;

use consort::{Deadline, Failed, Work};

/// What a work gives if nobody helps with it: the progress thread does it all.
fn left_alone<T, B>(work: Work<T, B>) -> Result<T, Failed<B>> {
    work.wait_until(Deadline::after(LONG)).expect("there is time")
}

/// Longer than anything takes, even if others use the cores.
const LONG: Duration = Duration::from_secs(50);
