//! Whether the clocks can be relied on.

use std::time::Duration;

use consort_sys::clock::{Agreement, Clock};

use crate::doctor::finding::{Area, Finding};
use crate::doctor::words::time;

/// Deadlines and measurements run on the monotonic clock.
pub(crate) fn monotonic(clock: &Clock) -> Finding {
    let source = clock.source.as_deref().unwrap_or("unknown");
    let what = format!(
        "monotonic clock: {source}, steps of {}, {} a look",
        time(clock.resolution),
        time(clock.look)
    );
    if clock.resolution > COARSE {
        return Finding::warning(
            Area::Clock,
            what,
            "its steps are too coarse to measure anything short",
        );
    }
    if clock.look > SLOW {
        let todo = "every look costs a system call: choose tsc or kvm-clock in \
                    /sys/devices/system/clocksource/clocksource0/current_clocksource";
        return Finding::warning(Area::Clock, what, todo);
    }
    Finding::good(Area::Clock, what)
}

/// Logs and traces of several hosts are compared by the time of day.
pub(crate) fn agreement(clock: &Clock, several_hosts: bool) -> Finding {
    let in_step = match &clock.agreement {
        Agreement::InStep { by } => format!("time of day: in step, says {by}"),
        Agreement::Served { by } => {
            let what = format!("time of day: kept by {by}, not known whether in step");
            return Finding::note(Area::Clock, what, ALIKE);
        }
        Agreement::Unknown => {
            let what =
                "time of day: not known whether it agrees with other hosts' (no time service seen)";
            return match several_hosts {
                true => Finding::warning(Area::Clock, what, format!("run chrony: {ALIKE}")),
                false => Finding::note(Area::Clock, what, ALIKE),
            };
        }
    };
    Finding::good(Area::Clock, in_step)
}

const ALIKE: &str = "logs of several hosts can be laid side by side only if their clocks agree";
const COARSE: Duration = Duration::from_millis(1);
const SLOW: Duration = Duration::from_nanos(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    fn clock(resolution: Duration, look: Duration, agreement: Agreement) -> Clock {
        Clock { resolution, look, source: Some("tsc".into()), agreement }
    }

    #[test]
    fn a_coarse_or_slow_clock_is_a_warning() {
        let verdict = |resolution, look| {
            let clock = clock(
                Duration::from_nanos(resolution),
                Duration::from_nanos(look),
                Agreement::Unknown,
            );
            monotonic(&clock).verdict
        };
        assert_eq!(verdict(1, 40), Verdict::Good);
        assert_eq!(verdict(1, 1500), Verdict::Warning);
        assert_eq!(verdict(4_000_000, 40), Verdict::Warning);
    }

    #[test]
    fn an_unknown_time_of_day_matters_to_several_hosts() {
        let judge = |state, several_hosts| {
            agreement(&clock(Duration::ZERO, Duration::ZERO, state), several_hosts)
        };
        let told = judge(Agreement::InStep { by: "x".into() }, true);
        assert_eq!(told.what, "time of day: in step, says x");
        let served = judge(Agreement::Served { by: "chronyd".into() }, true);
        assert_eq!(served.verdict, Verdict::Note);
        assert!(served.what.contains("kept by chronyd, not known"), "{}", served.what);
        assert_eq!(judge(Agreement::Unknown, false).verdict, Verdict::Note);
        assert_eq!(judge(Agreement::Unknown, true).verdict, Verdict::Warning);
    }
}
