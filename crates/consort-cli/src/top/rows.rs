//! What ranks did between two looks at their records.

use std::collections::BTreeMap;

use consort::trace::RankTrace;

use crate::trace::{JobTrace, circles, doing, waits};

/// One rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) rank: u32,
    /// Calls that it began in a second.
    pub(super) calls: f64,
    /// Bytes of calls that ended in a second.
    pub(super) bytes: f64,
    /// The share of the time in which it could only wait for another to come.
    pub(super) waiting: f64,
    /// How much of the time others waited for it, added up: 2 if two others did all the time.
    pub(super) awaited: f64,
    /// What it does, in words.
    pub(super) doing: String,
}

/// A row for every rank; those for whom others wait most come first.
pub(super) fn rows(before: &JobTrace, now: &JobTrace) -> Vec<Row> {
    let moment = now.moment();
    let start = before.read_at.max(remembered(now)).min(moment);
    let length = moment.saturating_sub(start).max(1) as f64;
    let (waiting, awaited) = waiting(now, start, moment);
    let seconds = now.read_at.saturating_sub(before.read_at).max(1) as f64 / 1e9;
    let mut rows: Vec<Row> = now
        .ranks
        .iter()
        .map(|rank| {
            let earlier = before.ranks.iter().find(|it| is_same(it, rank));
            let (calls, bytes) = sums(rank);
            let (calls_before, bytes_before) = earlier.map_or((0, 0), sums);
            let share = |of: &BTreeMap<u32, u64>| {
                of.get(&rank.rank).copied().unwrap_or_default() as f64 / length
            };
            Row {
                rank: rank.rank,
                calls: calls.saturating_sub(calls_before) as f64 / seconds,
                bytes: bytes.saturating_sub(bytes_before) as f64 / seconds,
                waiting: share(&waiting).min(1.0),
                awaited: share(&awaited),
                doing: doing(rank, moment),
            }
        })
        .collect();
    rows.sort_by(|one, other| {
        other.awaited.total_cmp(&one.awaited).then(one.rank.cmp(&other.rank))
    });
    rows
}

fn is_same(one: &RankTrace, other: &RankTrace) -> bool {
    (one.rank, one.epoch, one.process) == (other.rank, other.epoch, other.process)
}

/// How many calls a rank has begun, and how many bytes were in those that have ended.
fn sums(rank: &RankTrace) -> (u64, u64) {
    let begun = |calls: &[consort::trace::CallTrace]| calls.last().map_or(0, |call| call.number);
    let calls = rank.groups.iter().map(|group| begun(&group.calls));
    let bytes = rank.groups.iter().map(|group| group.bytes);
    (calls.fold(0, u64::saturating_add), bytes.fold(0, u64::saturating_add))
}

/// Since when all calls are remembered, of those groups that have forgotten some.
fn remembered(job: &JobTrace) -> u64 {
    let groups = job.ranks.iter().flat_map(|rank| &rank.groups);
    let first = groups.filter_map(|group| group.calls.first()).filter(|call| call.number > 1);
    first.map(|call| call.began).max().unwrap_or(0)
}

/// How long each rank waited, and was waited for, in this time.
fn waiting(job: &JobTrace, start: u64, moment: u64) -> (BTreeMap<u32, u64>, BTreeMap<u32, u64>) {
    let (mut waiting, mut awaited) = (BTreeMap::new(), BTreeMap::new());
    for circle in circles(&job.ranks) {
        let mut counted = None;
        for wait in waits(&circle, moment) {
            let length = wait.until.saturating_sub(wait.from.max(start));
            *awaited.entry(wait.for_rank).or_insert(0) += length;
            // One who waits for several waits once.
            if counted.replace((wait.rank, wait.number)) != Some((wait.rank, wait.number)) {
                *waiting.entry(wait.rank).or_insert(0) += length;
            }
        }
    }
    (waiting, awaited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture::{call, job};

    #[test]
    fn rates_are_those_between_two_looks() {
        let done = [call(1, 100, Some(200)), call(2, 300, Some(400)), call(3, 500, Some(600))];
        let mut before = job(&[&done[..1], &done[..1]]);
        before.read_at = 500_000_000;
        let mut now = job(&[&done, &done[..1]]);
        now.ranks[0].groups[0].bytes = 1000;
        let rows = rows(&before, &now);
        let row = rows.iter().find(|row| row.rank == 0).unwrap();
        assert_eq!((row.calls, row.bytes), (4.0, 2000.0));
        let idle = rows.iter().find(|row| row.rank == 1).unwrap();
        assert_eq!((idle.calls, idle.bytes), (0.0, 0.0));
    }

    #[test]
    fn who_keeps_others_waiting_comes_first() {
        let waits = call(1, 600_000_000, None);
        let mut before = job(&[&[], &[], &[]]);
        before.read_at = 500_000_000;
        let rows = rows(&before, &job(&[&[waits], &[waits], &[]]));
        let found: Vec<_> = rows.iter().map(|row| (row.rank, row.waiting, row.awaited)).collect();
        assert_eq!(found, [(2, 0.0, 1.6), (0, 0.8, 0.0), (1, 0.8, 0.0)]);
    }

    #[test]
    fn a_rank_that_was_started_again_begins_anew() {
        let mut before = job(&[&[call(90, 100, Some(200))]]);
        before.ranks[0].process += 1;
        before.read_at = 0;
        let rows = rows(&before, &job(&[&[call(3, 100, Some(200))]]));
        assert_eq!(rows[0].calls, 3.0);
    }
}
