//! Records for people.

use std::fmt::Write;
use std::time::SystemTime;

use consort::trace::{CallTrace, GroupTrace, RankTrace};

use super::circle::circles;
use super::findings::{Finding, findings};
use super::job::JobTrace;
use super::waits::{straggling, waits};
use super::words::{called, ranks, span};
use crate::records::Listed;

/// The jobs that can be looked at.
pub(super) fn list(jobs: &[Listed]) -> String {
    if jobs.is_empty() {
        return "no job of yours on this host can be looked at\n".to_owned();
    }
    let mut text = "jobs that can be looked at:\n".to_owned();
    for Listed { job, path, is_running, since } in jobs {
        let age = SystemTime::now().duration_since(*since).unwrap_or_default();
        let age = span(age.as_nanos() as u64);
        let state = if *is_running { "running" } else { "ended" };
        let _ = writeln!(text, "  {job}  {state:<7}  began {age} ago  {}", path.display());
    }
    text
}

/// What a job does, in a few lines.
pub(super) fn write(job: &JobTrace) -> String {
    let moment = job.moment();
    let mut text = headline(job);
    for rank in &job.ranks {
        let state = state(rank);
        let _ = writeln!(text, "rank {:<4} {state:<5}  {}", rank.rank, doing(rank, moment));
    }
    let findings = findings(job);
    if !findings.is_empty() {
        text.push('\n');
    }
    for finding in &findings {
        let _ = writeln!(text, "{}", say(finding));
    }
    text.push_str(&stragglers(job, moment));
    text
}

fn headline(job: &JobTrace) -> String {
    let RankTrace { job: name, epoch, world, .. } = &job.ranks[0];
    let alive = job.ranks.iter().filter(|rank| rank.is_alive).count();
    let mut text = format!("job {name}, round {epoch}: {world} ranks, {alive} alive here");
    if let (false, Some(last)) = (job.is_running(), job.last_word()) {
        let _ = write!(text, "; last word {} ago", span(job.read_at.saturating_sub(last)));
    }
    text.push_str("\n\n");
    text
}

/// What became of a rank, in a word.
pub(super) fn state(rank: &RankTrace) -> &'static str {
    match (rank.has_left, rank.is_alive) {
        (true, _) => "left",
        (false, true) => "alive",
        (false, false) => "dead",
    }
}

/// What a rank does, or did last.
pub(crate) fn doing(rank: &RankTrace, moment: u64) -> String {
    let calls = rank.groups.iter().filter_map(|group| Some((group, group.calls.last()?)));
    // The call that it is in, if it is in one, otherwise the last that has ended.
    let latest =
        calls.max_by_key(|(_, call)| (call.ended.is_none(), call.ended.or(Some(call.began))));
    let Some((group, call)) = latest else { return "has made no call yet".to_owned() };
    let what = called(rank, call);
    let which = format!("call {} of {}", call.number, group.name);
    let mut text = match call.ended {
        None if rank.is_alive => {
            let since = span(moment.saturating_sub(call.began));
            format!("in {which} for {since}: {what}")
        }
        None => format!("was in {which}: {what}"),
        Some(ended) => {
            let ended = span(moment.saturating_sub(ended));
            let how = if call.has_failed { "failed" } else { "ended" };
            format!("{which} {how} {ended} ago: {what}")
        }
    };
    text.push_str(&waiting(group, call));
    let queued = group.queued();
    if queued > 0 {
        let _ = write!(text, "; {queued} more queued");
    }
    text
}

fn waiting(group: &GroupTrace, call: &CallTrace) -> String {
    match call.waits_for.filter(|_| call.ended.is_none() || call.has_failed) {
        None => String::new(),
        Some(rank) => {
            let verb = if call.ended.is_none() { "waits" } else { "waited" };
            match group.in_world(rank) {
                Some(rank) => format!("; {verb} for rank {rank}"),
                None => format!("; {verb} for rank {rank} of the group"),
            }
        }
    }
}

fn say(finding: &Finding) -> String {
    match finding {
        Finding::Behind { group, number, call, missing, waiting } => {
            let who: Vec<u32> = missing.iter().map(|(rank, _)| *rank).collect();
            let last: Vec<String> =
                missing.iter().map(|(rank, last)| format!("rank {rank} at {last}")).collect();
            let (who, waiting) = (ranks(&who), ranks(waiting));
            let at = format!("call {number} of {group} ({call})");
            let last = last.join(", ");
            format!("behind: {who} did not come to {at}, where {waiting} came; last call: {last}")
        }
        Finding::Differ { group, number, calls } => {
            let mut text = format!("differs: call {number} of {group} is the first that differs");
            for (call, who) in calls {
                let _ = write!(text, "\n  {}: {call}", ranks(who));
            }
            text
        }
        Finding::Ended { rank, group, number, call } => {
            format!("dead: rank {rank} ended in the middle of call {number} of {group} ({call})")
        }
        Finding::Unrecorded { ranks: who } => {
            format!("no record here of {}: they may be on other hosts", ranks(who))
        }
    }
}

fn stragglers(job: &JobTrace, moment: u64) -> String {
    let circles = circles(&job.ranks);
    let waits = circles.iter().flat_map(|circle| waits(circle, moment));
    let mut rows: Vec<_> = straggling(waits).into_iter().collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(rank, row)| (std::cmp::Reverse(row.total), *rank));
    let mut text = "\nothers waited for      last in    all together\n".to_owned();
    for (rank, row) in rows {
        let calls = format!("{} calls", row.calls);
        let _ = writeln!(text, "  rank {rank:<8} {calls:>14}  {:>14}", span(row.total));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fixture::{broadcast, call, job};

    #[test]
    fn a_stuck_job_is_explained_in_a_few_lines() {
        let done = call(1, 100, Some(200));
        let mut waits = call(2, 500_000_000, None);
        waits.waits_for = Some(1);
        let mut job = job(&[&[done, waits], &[done]]);
        job.ranks[0].groups[0].made = 5;
        job.ranks[1].is_alive = false;
        insta::assert_snapshot!(write(&job), @r"
        job job, round 0: 2 ranks, 1 alive here

        rank 0    alive  in call 2 of world for 500.0 ms: barrier; waits for rank 1; 3 more queued
        rank 1    dead   call 1 of world ended 1.0 s ago: barrier

        behind: rank 1 did not come to call 2 of world (barrier), where rank 0 came; last call: rank 1 at 1

        others waited for      last in    all together
          rank 1               1 calls        500.0 ms
        ");
    }

    #[test]
    fn a_job_that_has_ended_without_a_call_has_no_last_word() {
        let mut job = job(&[&[]]);
        job.ranks[0].is_alive = false;
        insta::assert_snapshot!(write(&job), @r"
        job job, round 0: 1 ranks, 0 alive here

        rank 0    dead   has made no call yet
        ");
    }

    #[test]
    fn where_a_call_was_made_is_said_if_it_was_noted() {
        let (mut one, mut other) = (call(1, 100, None), broadcast(1, 100, None));
        (one.site, other.site) = (Some(0), Some(1));
        let mut job = job(&[&[one], &[other]]);
        for rank in &mut job.ranks {
            rank.sites = ["train.rs:7", "train.rs:9"].map(str::to_owned).into();
        }
        let text = write(&job);
        assert!(text.contains("for 1.0 s: barrier at train.rs:7\n"), "{text}");
        assert!(text.contains("\n  rank 0: barrier at train.rs:7\n"), "{text}");
        assert!(text.contains("f32, root 0 at train.rs:9\n"), "{text}");
    }

    #[test]
    fn a_rank_that_does_nothing_is_shown_too() {
        let job = job(&[&[]]);
        assert!(write(&job).contains("rank 0    alive  has made no call yet\n"), "{}", write(&job));
    }

    #[test]
    fn what_there_is_is_listed() {
        assert_eq!(list(&[]), "no job of yours on this host can be looked at\n");
        let job = Listed {
            job: "5f2c".to_owned(),
            path: "/r/5f2c".into(),
            is_running: false,
            since: SystemTime::now() - std::time::Duration::from_secs(600),
        };
        let expected = "jobs that can be looked at:\n  5f2c  ended    began 10 min ago  /r/5f2c\n";
        assert_eq!(list(&[job]), expected);
    }
}
