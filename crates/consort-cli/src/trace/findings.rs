//! What is wrong with a job.

use consort::trace::{CallTrace, RankTrace};

use super::circle::{Circle, Meeting, circles};
use super::job::JobTrace;
use super::words::called;

/// Something that a user should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Some ranks have not come to a call in which others wait or have failed.
    Behind {
        group: String,
        number: u64,
        call: String,
        /// Who has not come, and the last call that each has begun.
        missing: Vec<(u32, u64)>,
        /// Who is in it.
        waiting: Vec<u32>,
    },
    /// Ranks have made different calls: the first in which they differ.
    Differ {
        group: String,
        number: u64,
        /// What was called, and by whom.
        calls: Vec<(String, Vec<u32>)>,
    },
    /// A rank has ended in the middle of a call.
    Ended { rank: u32, group: String, number: u64, call: String },
    /// Of these ranks there is no record here.
    Unrecorded { ranks: Vec<u32> },
}

/// What is found, in the order of groups.
pub(super) fn findings(job: &JobTrace) -> Vec<Finding> {
    let moment = job.moment();
    let mut findings = Vec::new();
    for circle in circles(&job.ranks) {
        let meetings = circle.meetings();
        findings.extend(difference(&circle, &meetings));
        findings.extend(behind(&circle, &meetings, moment));
        findings.extend(ended(&circle));
    }
    findings.extend(unrecorded(&job.ranks));
    findings
}

fn difference(circle: &Circle<'_>, meetings: &[Meeting<'_>]) -> Option<Finding> {
    let differs = |meeting: &&Meeting<'_>| {
        let first = meeting.calls[0].1;
        meeting.calls.iter().any(|(_, call)| !call.agrees_with(first))
    };
    let Meeting { number, calls, .. } = meetings.iter().find(differs)?;
    let mut kinds: Vec<(&CallTrace, String, Vec<u32>)> = Vec::new();
    for (rank, call) in calls {
        match kinds.iter_mut().find(|(kind, ..)| kind.agrees_with(call)) {
            Some((.., ranks)) => ranks.push(rank.rank),
            None => kinds.push((call, called(rank, call), vec![rank.rank])),
        }
    }
    let calls = kinds.into_iter().map(|(_, text, ranks)| (text, ranks)).collect();
    Some(Finding::Differ { group: circle.name.to_owned(), number: *number, calls })
}

fn behind(circle: &Circle<'_>, meetings: &[Meeting<'_>], moment: u64) -> Option<Finding> {
    let is_stuck = |(rank, call): &(&RankTrace, &CallTrace)| match call.ended {
        Some(_) => call.has_failed,
        None => !rank.is_alive || moment.saturating_sub(call.began) >= LONG,
    };
    let is_short = |it: &&Meeting<'_>| !it.missing.is_empty() && it.calls.iter().any(is_stuck);
    let Meeting { number, calls, missing } = meetings.iter().find(is_short)?;
    let last = |&absent: &u32| {
        let group = circle.ranks.iter().find(|(rank, _)| rank.rank == absent);
        (absent, group.map_or(0, |(_, group)| super::circle::last_of(group)))
    };
    Some(Finding::Behind {
        group: circle.name.to_owned(),
        number: *number,
        call: called(calls[0].0, calls[0].1),
        missing: missing.iter().map(last).collect(),
        waiting: calls.iter().map(|(rank, _)| rank.rank).collect(),
    })
}

fn ended<'a>(circle: &'a Circle<'_>) -> impl Iterator<Item = Finding> + 'a {
    let gone = circle.ranks.iter().filter(|(rank, _)| !rank.is_alive && !rank.has_left);
    gone.filter_map(|(rank, group)| {
        let call = group.calls.last().filter(|call| call.ended.is_none())?;
        let (group, number) = (circle.name.to_owned(), call.number);
        Some(Finding::Ended { rank: rank.rank, group, number, call: called(rank, call) })
    })
}

fn unrecorded(ranks: &[RankTrace]) -> Option<Finding> {
    let has = |rank: &u32| ranks.iter().any(|it| it.rank == *rank);
    // A file may say any number.
    let world = ranks.iter().map(|rank| rank.world).max().unwrap_or(0).min(MOST);
    let ranks: Vec<u32> = (0..world).filter(|rank| !has(rank)).collect();
    (!ranks.is_empty()).then_some(Finding::Unrecorded { ranks })
}

/// Ranks that are not stuck come sooner, in nanoseconds.
const LONG: u64 = 100_000_000;
/// More ranks than there are jobs for.
const MOST: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture::{broadcast, call, job};

    const NOW: u64 = 1_000_000_000;

    #[test]
    fn who_has_not_come_for_long_is_behind() {
        let done = call(1, 100, Some(200));
        let waits = call(2, NOW - LONG, None);
        let found = findings(&job(&[&[done, waits], &[done], &[done, waits]]));
        let [Finding::Behind { number: 2, missing, waiting, call, .. }] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            (&missing[..], &waiting[..], &call[..]),
            (&[(1, 1)][..], &[0, 2][..], "barrier")
        );
    }

    #[test]
    fn a_moment_is_no_delay() {
        let done = call(1, 100, Some(200));
        assert_eq!(findings(&job(&[&[done, call(2, NOW - LONG + 1, None)], &[done]])), []);
    }

    #[test]
    fn the_first_difference_is_shown() {
        let same = call(1, 100, Some(200));
        let skipped = [same, call(2, 300, Some(400)), call(3, 500, None)];
        let made = [same, broadcast(2, 300, Some(400)), call(3, 500, None)];
        let found = findings(&job(&[&made, &skipped, &made]));
        let Finding::Differ { number: 2, calls, .. } = &found[0] else { panic!("{found:?}") };
        let expected = [
            ("broadcast of 4 f32, root 0".to_owned(), vec![0, 2]),
            ("barrier".to_owned(), vec![1]),
        ];
        assert_eq!(calls[..], expected);
    }

    #[test]
    fn who_ended_in_a_call_and_who_left_no_record_is_named() {
        let mut job = job(&[&[call(1, 100, None)], &[call(1, 100, None)]]);
        job.ranks[1].is_alive = false;
        job.ranks[1].world = 4;
        let found = findings(&job);
        assert!(matches!(found[0], Finding::Ended { rank: 1, number: 1, .. }), "{found:?}");
        assert_eq!(found[1], Finding::Unrecorded { ranks: vec![2, 3] });
    }
}
