//! Records for machines.

use consort::trace::{CallTrace, GroupTrace, RankTrace};
use serde_json::{Value, json};

use super::circle::circles;
use super::findings::{Finding, findings};
use super::job::JobTrace;
use super::text::state;
use super::waits::{straggling, waits};

/// All that `text` says, and the last call of every group. Times are nanoseconds since 1970.
pub(super) fn write(job: &JobTrace) -> Value {
    let RankTrace { job: name, epoch, world, .. } = &job.ranks[0];
    let moment = job.moment();
    let circles = circles(&job.ranks);
    let stragglers = straggling(circles.iter().flat_map(|circle| waits(circle, moment)));
    let stragglers: Vec<Value> = stragglers
        .into_iter()
        .map(|(rank, it)| json!({ "rank": rank, "calls": it.calls, "waited_ns": it.total }))
        .collect();
    json!({
        "job": name,
        "epoch": epoch,
        "world": world,
        "at_ns": moment,
        "ranks": job.ranks.iter().map(rank).collect::<Vec<_>>(),
        "findings": findings(job).iter().map(finding).collect::<Vec<_>>(),
        "stragglers": stragglers,
    })
}

fn rank(rank: &RankTrace) -> Value {
    json!({
        "rank": rank.rank,
        "process": rank.process,
        "state": state(rank),
        "groups": rank.groups.iter().map(|it| group(rank, it)).collect::<Vec<_>>(),
    })
}

fn group(rank: &RankTrace, group: &GroupTrace) -> Value {
    json!({
        "group": group.name,
        "rank": group.rank,
        "world": group.world,
        "has_left": group.has_left,
        "made": group.made,
        "bytes": group.bytes,
        "ended": group.ended,
        "failed": group.failed,
        "busy_ns": group.busy,
        "reducing_ns": group.reducing,
        "last": group.calls.last().map(|it| call(rank, group, it)),
    })
}

fn call(rank: &RankTrace, group: &GroupTrace, call: &CallTrace) -> Value {
    json!({
        "number": call.number,
        "call": call.to_string(),
        "bytes": call.bytes(),
        "state": state_of(call),
        "queued_ns": call.queued,
        "began_ns": call.began,
        "ended_ns": call.ended,
        "reducing_ns": call.reducing,
        "site": rank.site(call),
        "waits_for": call.waits_for.and_then(|rank| group.in_world(rank)),
    })
}

/// What became of a call, in a word.
pub(super) fn state_of(call: &CallTrace) -> &'static str {
    match (call.ended, call.has_failed) {
        (None, _) => "running",
        (Some(_), false) => "done",
        (Some(_), true) => "failed",
    }
}

fn finding(finding: &Finding) -> Value {
    match finding {
        Finding::Behind { group, number, call, missing, waiting } => {
            let missing: Vec<Value> = missing
                .iter()
                .map(|(rank, last)| json!({ "rank": rank, "last_call": last }))
                .collect();
            json!({
                "kind": "behind", "group": group, "number": number, "call": call,
                "missing": missing, "waiting": waiting,
            })
        }
        Finding::Differ { group, number, calls } => {
            let calls: Vec<Value> =
                calls.iter().map(|(call, ranks)| json!({ "call": call, "ranks": ranks })).collect();
            json!({ "kind": "differ", "group": group, "number": number, "calls": calls })
        }
        Finding::Ended { rank, group, number, call } => json!({
            "kind": "ended", "rank": rank, "group": group, "number": number, "call": call,
        }),
        Finding::Unrecorded { ranks } => json!({ "kind": "unrecorded", "ranks": ranks }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture;

    #[test]
    fn everything_has_its_name() {
        let mut waits = fixture::call(2, 100_000_000, None);
        waits.site = Some(0);
        let mut job = fixture::job(&[&[fixture::call(1, 100, Some(200)), waits], &[]]);
        job.ranks[0].sites = vec!["train.rs:7".to_owned()];
        job.ranks[0].groups[0].reducing = 30;
        let found = write(&job);
        assert_eq!(found["ranks"][0]["groups"][0]["last"]["state"], "running");
        assert_eq!(found["ranks"][0]["groups"][0]["last"]["call"], "barrier");
        assert_eq!(found["ranks"][0]["groups"][0]["last"]["site"], "train.rs:7");
        assert_eq!(found["ranks"][0]["groups"][0]["reducing_ns"], 30);
        assert_eq!(found["findings"][0]["kind"], "behind");
        assert_eq!(found["findings"][0]["missing"][0], json!({ "rank": 1, "last_call": 0 }));
        assert_eq!(found["stragglers"][0]["rank"], 1);
        assert_eq!(found["world"], 2);
    }
}
