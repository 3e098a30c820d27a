//! Calls on a time line, as Chrome's trace events: every rank is a process, every group a thread.
//!
//! A call is a slice of up to three parts: waiting for the last rank, where it is known when that came;
//! moving data; and reducing it, as far as that was recorded. Moving and reducing take turns, piece by
//! piece: what is shown is how much each took altogether, one behind the other. The time before, in the
//! queue, is a slice of its own kind, because those of several calls overlap.

use std::collections::HashMap;

use consort::trace::{CallTrace, GroupTrace, RankTrace};
use serde_json::{Value, json};

use super::circle::circles;
use super::job::JobTrace;
use super::json::state_of;
use super::waits::{Wait, waits};

/// All calls that were recorded.
pub(super) fn write(job: &JobTrace) -> Value {
    let moment = job.moment();
    let calls = job.ranks.iter().flat_map(|rank| &rank.groups).flat_map(|group| &group.calls);
    let zero = calls.map(|call| call.queued.unwrap_or(call.began)).min().unwrap_or(moment);
    let mut line = Line { zero, moment, events: Vec::new() };
    let mut waited: HashMap<(u32, &str, u64), Wait> = HashMap::new();
    for circle in circles(&job.ranks) {
        for wait in waits(&circle, moment) {
            waited.insert((wait.rank, circle.name, wait.number), wait);
        }
    }
    for rank in &job.ranks {
        line.name(rank.rank, None, &format!("rank {}", rank.rank));
        for (thread, group) in rank.groups.iter().enumerate() {
            line.name(rank.rank, Some(thread), &group.name);
            for call in &group.calls {
                let wait = waited.get(&(rank.rank, &group.name[..], call.number));
                line.call(rank, (thread, group), call, wait);
            }
        }
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": line.events })
}

struct Line {
    /// Where the line begins.
    zero: u64,
    /// Where calls end that have not ended.
    moment: u64,
    events: Vec<Value>,
}

impl Line {
    fn name(&mut self, rank: u32, thread: Option<usize>, name: &str) {
        let kind = if thread.is_some() { "thread_name" } else { "process_name" };
        self.events.push(json!({
            "ph": "M", "name": kind, "pid": rank, "tid": thread.unwrap_or(0),
            "args": { "name": name },
        }));
    }

    fn call(
        &mut self,
        rank: &RankTrace,
        (thread, group): (usize, &GroupTrace),
        call: &CallTrace,
        wait: Option<&Wait>,
    ) {
        let end = call.ended.unwrap_or(self.moment).max(call.began);
        let name = call.operation().map_or("call", |operation| operation.name());
        let mut about = json!({
            "call": call.to_string(), "number": call.number, "group": group.name,
            "bytes": call.bytes(), "state": state_of(call),
        });
        if let Some(site) = rank.site(call) {
            about["site"] = site.into();
        }
        let place = (rank.rank, thread);
        self.slice(place, name, (call.began, end), about);
        let came = wait.map_or(call.began, |wait| wait.until.clamp(call.began, end));
        if let Some(wait) = wait {
            let waiting = format!("waiting for rank {}", wait.for_rank);
            self.slice(place, &waiting, (call.began, came), json!({}));
        }
        if wait.is_some() || call.reducing > 0 {
            self.work(place, (came, end), call.reducing);
        }
        if let Some(queued) = call.queued.filter(|queued| *queued < call.began) {
            self.queued(place, call.number, (queued, call.began));
        }
    }

    /// What a call does once all have come, for so long in the kernels.
    fn work(&mut self, place: (u32, usize), (start, end): (u64, u64), reducing: u64) {
        let turn = end - reducing.min(end - start);
        let about = match reducing {
            0 => json!({}),
            _ => json!({ "shown": "totals: moving and reducing take turns" }),
        };
        for (name, span) in [("moving", (start, turn)), ("reducing", (turn, end))] {
            if span.0 < span.1 {
                self.slice(place, name, span, about.clone());
            }
        }
    }

    fn slice(&mut self, (rank, thread): (u32, usize), name: &str, span: (u64, u64), about: Value) {
        self.events.push(json!({
            "ph": "X", "name": name, "cat": "call", "pid": rank, "tid": thread,
            "ts": self.place(span.0), "dur": microseconds(span.1 - span.0), "args": about,
        }));
    }

    fn queued(&mut self, (rank, thread): (u32, usize), number: u64, span: (u64, u64)) {
        for (kind, at) in [("b", span.0), ("e", span.1)] {
            self.events.push(json!({
                "ph": kind, "name": "queued", "cat": "queue", "id": format!("{thread}.{number}"),
                "pid": rank, "tid": thread, "ts": self.place(at), "args": { "number": number },
            }));
        }
    }

    fn place(&self, at: u64) -> f64 {
        microseconds(at.saturating_sub(self.zero))
    }
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture::{call, job};

    /// Slices of a rank: name, beginning, end.
    fn slices(events: &Value, rank: u32) -> Vec<(String, f64, f64)> {
        let all = events["traceEvents"].as_array().unwrap().iter();
        let mine = all.filter(|event| event["ph"] == "X" && event["pid"] == rank);
        mine.map(|event| {
            let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            (event["name"].as_str().unwrap().to_owned(), start, start + length)
        })
        .collect()
    }

    #[test]
    fn a_call_is_waiting_and_moving() {
        let job = job(&[&[call(1, 1000, Some(9000))], &[call(1, 6000, Some(9000))]]);
        let events = write(&job);
        let expected =
            [("barrier", 0.0, 8.0), ("waiting for rank 1", 0.0, 5.0), ("moving", 5.0, 8.0)];
        assert_eq!(slices(&events, 0), expected.map(|(name, a, b)| (name.to_owned(), a, b)));
        assert_eq!(slices(&events, 1), [("barrier".to_owned(), 5.0, 8.0)]);
    }

    #[test]
    fn a_call_that_combines_numbers_is_also_reducing() {
        let (mut first, mut last) = (call(1, 1000, Some(9000)), call(1, 6000, Some(9000)));
        (first.reducing, last.reducing) = (1000, 100_000);
        let mut job = job(&[&[first], &[last]]);
        job.ranks[0].sites = vec!["train.rs:7".to_owned()];
        job.ranks[0].groups[0].calls[0].site = Some(0);
        let events = write(&job);
        let expected = [
            ("barrier", 0.0, 8.0),
            ("waiting for rank 1", 0.0, 5.0),
            ("moving", 5.0, 7.0),
            ("reducing", 7.0, 8.0),
        ];
        assert_eq!(slices(&events, 0), expected.map(|(name, a, b)| (name.to_owned(), a, b)));
        let expected = [("barrier", 5.0, 8.0), ("reducing", 5.0, 8.0)];
        assert_eq!(slices(&events, 1), expected.map(|(name, a, b)| (name.to_owned(), a, b)));
        let all = events["traceEvents"].as_array().unwrap();
        let of = |name| all.iter().find(|event| event["name"] == name).unwrap();
        assert_eq!(of("barrier")["args"]["site"], "train.rs:7");
        assert!(of("reducing")["args"]["shown"].as_str().unwrap().starts_with("totals"));
    }

    #[test]
    fn a_call_that_has_not_ended_lasts_until_now() {
        let job = job(&[&[call(1, 999_999_000, None)], &[]]);
        let found = slices(&write(&job), 0);
        assert_eq!(found[0], ("barrier".to_owned(), 0.0, 1.0));
        assert_eq!(found[1], ("waiting for rank 1".to_owned(), 0.0, 1.0));
    }

    #[test]
    fn the_time_in_the_queue_begins_and_ends() {
        let mut queued = call(3, 5000, Some(6000));
        queued.queued = Some(2000);
        let events = write(&job(&[&[queued]]));
        let all = events["traceEvents"].as_array().unwrap();
        let of = |kind: &str| all.iter().find(|event| event["ph"] == kind).unwrap()["ts"].as_f64();
        assert_eq!((of("b"), of("e")), (Some(0.0), Some(3.0)));
    }
}
