//! What a rank tells through the `metrics` facade.

use consort_store::ErrorKind;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::group::Group;
use crate::trace::{GroupTrace, RankTrace};

impl Group {
    /// Tells the recorder that the program has installed for the [`metrics`] facade what this rank has
    /// done so far, in all its groups; without a recorder nothing happens.
    ///
    /// | metric | labels | what it is |
    /// |---|---|---|
    /// | `consort_calls_total` | `rank`, `group` | calls that have ended |
    /// | `consort_failed_calls_total` | `rank`, `group` | those of them that have failed |
    /// | `consort_bytes_total` | `rank`, `group` | bytes that this rank had in them |
    /// | `consort_busy_nanoseconds_total` | `rank`, `group` | the time that it has spent in them |
    /// | `consort_reducing_nanoseconds_total` | `rank`, `group` | what of that went into combining numbers |
    /// | `consort_queued_calls` | `rank`, `group` | calls that were made and have not begun |
    /// | `consort_failures_total` | `group`, `kind` | groups that have failed, by [kind](crate::ErrorKind) |
    ///
    /// The last is told when it happens. All others are sums that the [record](crate::trace) of this rank
    /// holds anyway, and are told here, whenever the program wants: every few seconds, and at the end. To
    /// tell them call by call would slow down every call, also without a recorder: the labels of a
    /// counter have to be made before anybody can say that nobody wants it.
    ///
    /// `consort run --metrics` shows the same from outside, of all ranks of its host.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.barrier()?;
    /// group.publish_metrics();
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn publish_metrics(&self) {
        if let Some(trace) = self.trace() {
            describe();
            trace.groups.iter().for_each(|group| publish(&trace, group));
        }
    }
}

/// Counts a group that has failed.
pub(crate) fn count_failure(group: &str, kind: ErrorKind) {
    describe_counter!(FAILURES, Unit::Count, "groups that have failed, by kind");
    counter!(FAILURES, "group" => group.to_owned(), "kind" => name_of(kind)).increment(1);
}

fn publish(trace: &RankTrace, group: &GroupTrace) {
    let labels = [("rank", trace.rank.to_string()), ("group", group.name.clone())];
    for (name, value) in [
        (CALLS, group.ended),
        (FAILED, group.failed),
        (BYTES, group.bytes),
        (BUSY, group.busy),
        (REDUCING, group.reducing),
    ] {
        counter!(name, &labels).absolute(value);
    }
    gauge!(QUEUED, &labels).set(group.queued() as f64);
}

/// A recorder may have been installed since the last time.
fn describe() {
    describe_counter!(CALLS, Unit::Count, "calls that have ended");
    describe_counter!(FAILED, Unit::Count, "calls that have failed");
    describe_counter!(BYTES, Unit::Bytes, "bytes in calls that have ended");
    describe_counter!(BUSY, Unit::Nanoseconds, "time spent in calls that have ended");
    describe_counter!(REDUCING, Unit::Nanoseconds, "what of that went into combining numbers");
    describe_gauge!(QUEUED, Unit::Count, "calls that were made and have not begun");
}

fn name_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Mistake => "mistake",
        ErrorKind::Mismatch => "mismatch",
        ErrorKind::PeerGone => "peer_gone",
        ErrorKind::Deadline => "deadline",
        ErrorKind::Aborted => "aborted",
        _ => "system",
    }
}

const CALLS: &str = "consort_calls_total";
const FAILED: &str = "consort_failed_calls_total";
const BYTES: &str = "consort_bytes_total";
const BUSY: &str = "consort_busy_nanoseconds_total";
const REDUCING: &str = "consort_reducing_nanoseconds_total";
const QUEUED: &str = "consort_queued_calls";
const FAILURES: &str = "consort_failures_total";

#[cfg(test)]
mod tests;
