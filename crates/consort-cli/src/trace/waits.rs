//! Who waited for whom.

use std::collections::BTreeMap;

use super::circle::{Circle, Meeting};

/// A part of a call in which a rank could only wait for another that had not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Who waited.
    pub(crate) rank: u32,
    /// Which call it was.
    pub(crate) number: u64,
    /// For whom: the last who came.
    pub(crate) for_rank: u32,
    /// When it began to wait.
    pub(crate) from: u64,
    /// When it needed no longer.
    pub(crate) until: u64,
}

/// How long the others waited for a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Straggling {
    /// In so many calls it came last.
    pub(crate) calls: u64,
    /// So long all others together waited for it, in nanoseconds.
    pub(crate) total: u64,
}

/// All waits in those of a group's calls in which everyone needs everyone, up to this moment.
pub(crate) fn waits(circle: &Circle<'_>, moment: u64) -> Vec<Wait> {
    circle.meetings().iter().flat_map(|meeting| waits_in(meeting, moment)).collect()
}

fn waits_in(meeting: &Meeting<'_>, moment: u64) -> Vec<Wait> {
    let Meeting { number, calls, missing } = meeting;
    if !calls.iter().all(|(_, call)| call.is_for_all()) {
        return Vec::new();
    }
    let last = calls.iter().max_by_key(|(_, call)| call.began);
    let Some((last, came)) = last.map(|(rank, call)| (rank.rank, call.began)) else {
        return Vec::new();
    };
    // Who has not come at all is waited for by all who have.
    let (for_ranks, came) =
        if missing.is_empty() { (vec![last], came) } else { (missing.clone(), moment) };
    let mut waits = Vec::new();
    for (rank, call) in calls {
        let until = came.min(call.ended.unwrap_or(moment));
        if until > call.began {
            waits.extend(for_ranks.iter().map(|&for_rank| Wait {
                rank: rank.rank,
                number: *number,
                for_rank,
                from: call.began,
                until,
            }));
        }
    }
    waits
}

/// How long the others waited for each rank that somebody waited for.
pub(super) fn straggling(waits: impl IntoIterator<Item = Wait>) -> BTreeMap<u32, Straggling> {
    let mut stragglers: BTreeMap<u32, Straggling> = BTreeMap::new();
    let mut counted = None;
    for Wait { number, for_rank, from, until, .. } in waits {
        let straggler = stragglers.entry(for_rank).or_default();
        straggler.total += until - from;
        // Waits of one call come one after the other.
        if counted.replace((number, for_rank)) != Some((number, for_rank)) {
            straggler.calls += 1;
        }
    }
    stragglers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::circle::circles;
    use crate::trace::fixture::{broadcast, call, job};

    #[test]
    fn the_last_who_comes_is_waited_for() {
        let job = job(&[
            &[call(1, 100, Some(500)), call(2, 600, Some(610))],
            &[call(1, 480, Some(500)), call(2, 600, Some(611))],
            &[call(1, 300, Some(490)), call(2, 605, Some(612))],
        ]);
        let waits = waits(&circles(&job.ranks)[0], 1000);
        let wait =
            |rank, number, for_rank, from, until| Wait { rank, number, for_rank, from, until };
        assert_eq!(
            waits,
            [
                wait(0, 1, 1, 100, 480),
                wait(2, 1, 1, 300, 480),
                wait(0, 2, 2, 600, 605),
                wait(1, 2, 2, 600, 605)
            ]
        );
        let stragglers = straggling(waits);
        assert_eq!(stragglers[&1], Straggling { calls: 1, total: 560 });
        assert_eq!(stragglers[&2], Straggling { calls: 1, total: 10 });
    }

    #[test]
    fn who_does_not_come_is_waited_for_until_now() {
        let job = job(&[&[call(1, 100, None)], &[]]);
        let waits = waits(&circles(&job.ranks)[0], 1000);
        assert_eq!(waits, [Wait { rank: 0, number: 1, for_rank: 1, from: 100, until: 1000 }]);
    }

    #[test]
    fn nobody_has_to_wait_for_all_in_a_broadcast() {
        let job = job(&[&[broadcast(1, 100, Some(200))], &[broadcast(1, 900, Some(901))]]);
        assert_eq!(waits(&circles(&job.ranks)[0], 1000), []);
    }
}
