//! Which metrics there are.

use std::collections::BTreeMap;

use consort::trace::{CallTrace, GroupTrace, RankTrace};

use super::exposition::{Kind, Page};
use super::tally::Facts;

/// All metrics, of the launcher and of the ranks of its host, at this moment in nanoseconds since 1970.
pub(super) fn write(facts: &Facts, ranks: &[RankTrace], now: u64) -> String {
    let mut page = Page::default();
    write_job(&mut page, facts);
    let up =
        ("consort_rank_up", Kind::Gauge, "Whether the rank is there and has not left the job.");
    page.family(up, ranks.iter().map(|rank| (vec![of_rank(rank)], u8::from(is_up(rank)))));
    // A rank has one group of a name; of files that say otherwise the last counts.
    let groups = ranks.iter().flat_map(|rank| rank.groups.iter().map(move |group| (rank, group)));
    let groups: BTreeMap<(u32, &str), Part<'_>> =
        groups.map(|(rank, group)| ((rank.rank, &group.name[..]), Part { rank, group })).collect();
    write_sums(&mut page, &groups.values().copied().collect::<Vec<_>>(), now);
    page.into_text()
}

/// A rank in a group.
#[derive(Clone, Copy)]
struct Part<'a> {
    rank: &'a RankTrace,
    group: &'a GroupTrace,
}

impl<'a> Part<'a> {
    fn labels(&self) -> Vec<(&'static str, String)> {
        vec![of_rank(self.rank), ("group", self.group.name.clone())]
    }

    /// The call that it is in.
    fn current(&self) -> Option<&'a CallTrace> {
        self.group.calls.last().filter(|call| call.ended.is_none() && is_up(self.rank))
    }

    /// For how long it is in its call, in seconds.
    fn age(&self, now: u64) -> f64 {
        self.current().map_or(0.0, |call| seconds(now.saturating_sub(call.began)))
    }

    /// For which rank in the world its call waits.
    fn awaited(&self) -> Option<u32> {
        self.current()?.waits_for.and_then(|rank| self.group.in_world(rank))
    }
}

fn write_job(page: &mut Page, facts: &Facts) {
    let Facts { job, host, round, restarts, world, ranks, alive, failures, tolerated, .. } = facts;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let about = vec![("job", job.clone()), ("host", host.clone()), ("version", version)];
    page.family(("consort_job_info", Kind::Gauge, "Which job this is; always 1."), [(about, 1)]);
    for (name, help, value) in [
        ("consort_round", "The round of the job.", *round),
        ("consort_world_size", "How many ranks the job has.", u64::from(*world)),
        ("consort_ranks", "How many of them are on this host.", u64::from(*ranks)),
        ("consort_ranks_alive", "How many of those run.", u64::from(*alive)),
    ] {
        page.single((name, Kind::Gauge, help), value);
    }
    for (name, help, value) in [
        ("consort_restarts_total", "How often all ranks were started again.", u64::from(*restarts)),
        ("consort_rank_failures_total", "Ranks of this host that have failed.", *failures),
        ("consort_tolerated_failures_total", "Those of them that were tolerated.", *tolerated),
    ] {
        page.single((name, Kind::Counter, help), value);
    }
}

/// A metric's name, what it is, and where it is found.
type Sum = (&'static str, &'static str, fn(&GroupTrace) -> u64);

fn write_sums(page: &mut Page, parts: &[Part<'_>], now: u64) {
    let counts: [Sum; 3] = [
        ("consort_calls_total", "Calls that have ended.", |group| group.ended),
        ("consort_failed_calls_total", "Calls that have failed.", |group| group.failed),
        ("consort_bytes_total", "Bytes that the rank had in calls that have ended.", |group| {
            group.bytes
        }),
    ];
    for (name, help, count) in counts {
        let samples = parts.iter().map(|part| (part.labels(), count(part.group)));
        page.family((name, Kind::Counter, help), samples);
    }
    let times: [Sum; 2] = [
        ("consort_busy_seconds_total", "Time in calls that have ended.", |group| group.busy),
        ("consort_reducing_seconds_total", "What of it went into combining numbers.", |group| {
            group.reducing
        }),
    ];
    for (name, help, time) in times {
        let samples = parts.iter().map(|part| (part.labels(), seconds(time(part.group))));
        page.family((name, Kind::Counter, help), samples);
    }
    let queued = ("consort_queued_calls", Kind::Gauge, "Calls that were made and have not begun.");
    page.family(queued, parts.iter().map(|part| (part.labels(), part.group.queued())));
    let age = (
        "consort_call_seconds",
        Kind::Gauge,
        "For how long the rank is in its call; 0 if in none.",
    );
    page.family(age, parts.iter().map(|part| (part.labels(), part.age(now))));
    let waits =
        ("consort_waiting_seconds", Kind::Gauge, "The same, of calls that wait for a rank.");
    page.family(
        waits,
        parts.iter().filter_map(|part| {
            let mut labels = part.labels();
            labels.push(("for", part.awaited()?.to_string()));
            Some((labels, part.age(now)))
        }),
    );
}

fn of_rank(rank: &RankTrace) -> (&'static str, String) {
    ("rank", rank.rank.to_string())
}

fn is_up(rank: &RankTrace) -> bool {
    rank.is_alive && !rank.has_left
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture::{call, job};

    #[test]
    fn a_job_without_records_says_what_the_launcher_knows() {
        let facts = Facts {
            job: "5f2c".to_owned(),
            host: "box".to_owned(),
            round: 3,
            restarts: 1,
            world: 8,
            ranks: 4,
            alive: 2,
            failures: 2,
            tolerated: 1,
            folder: None,
        };
        let text = write(&facts, &[], 0);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let info = format!(
            r#"consort_job_info{{job="5f2c",host="box",version="{}"}} 1"#,
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(
            samples,
            [
                &info[..],
                "consort_round 3",
                "consort_world_size 8",
                "consort_ranks 4",
                "consort_ranks_alive 2",
                "consort_restarts_total 1",
                "consort_rank_failures_total 2",
                "consort_tolerated_failures_total 1",
            ]
        );
    }

    #[test]
    fn ranks_say_what_they_did_and_for_whom_they_wait() {
        let mut waits = call(2, 500_000_000, None);
        waits.waits_for = Some(1);
        let mut job = job(&[&[call(1, 100, Some(200)), waits], &[]]);
        job.ranks[1].is_alive = false;
        let group = &mut job.ranks[0].groups[0];
        (group.made, group.ended, group.failed, group.bytes) = (5, 1, 0, 4096);
        (group.busy, group.reducing) = (2_500_000_000, 1_000_000);
        let text = write(&Facts::default(), &job.ranks, 1_000_000_000);
        for line in [
            r#"consort_rank_up{rank="0"} 1"#,
            r#"consort_rank_up{rank="1"} 0"#,
            r#"consort_calls_total{rank="0",group="world"} 1"#,
            r#"consort_bytes_total{rank="0",group="world"} 4096"#,
            r#"consort_busy_seconds_total{rank="0",group="world"} 2.5"#,
            r#"consort_reducing_seconds_total{rank="0",group="world"} 0.001"#,
            r#"consort_queued_calls{rank="0",group="world"} 3"#,
            r#"consort_call_seconds{rank="0",group="world"} 0.5"#,
            r#"consort_call_seconds{rank="1",group="world"} 0"#,
            r#"consort_waiting_seconds{rank="0",group="world",for="1"} 0.5"#,
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
        assert_eq!(text.matches("consort_waiting_seconds{").count(), 1, "{text}");
    }

    #[test]
    fn no_sample_comes_twice() {
        let mut job = job(&[&[]]);
        let again = job.ranks[0].groups[0].clone();
        job.ranks[0].groups.push(again);
        let text = write(&Facts::default(), &job.ranks, 0);
        assert_eq!(text.matches("consort_calls_total{").count(), 1, "{text}");
    }
}
