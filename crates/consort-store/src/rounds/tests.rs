//! Rounds in virtual time: no node, no store, no clock.

use proptest::prelude::*;

use super::*;

fn options(min: u32, max: u32, max_restarts: u32) -> RoundOptions {
    RoundOptions {
        min,
        max,
        max_restarts,
        last_call: Duration::from_secs(3),
        liveness: Duration::from_secs(10),
        version: "1".to_owned(),
    }
}

fn node(id: u64) -> Node {
    Node {
        id: NodeId::new(id),
        host: format!("host{id}"),
        address: format!("10.0.0.{id}"),
        slots: 2,
        port: 1000,
        rank: None,
    }
}

/// A job in virtual time: seconds since its start.
struct Job {
    rounds: Rounds,
    start: Instant,
    quiet_since: Instant,
}

impl Job {
    fn new(min: u32, max: u32, max_restarts: u32) -> Self {
        let start = Instant::now();
        let rounds = Rounds::new("job".to_owned(), options(min, max, max_restarts));
        Self { rounds, start, quiet_since: start }
    }

    fn join(&mut self, second: u64, id: u64) {
        let options = self.rounds.options.clone();
        self.rounds.join(&node(id), &options).unwrap();
        self.quiet_since = self.start + Duration::from_secs(second);
    }

    /// What is due at this second, carried out.
    fn tick(&mut self, second: u64) -> Decision {
        let now = self.start + Duration::from_secs(second);
        let decision = self.rounds.decide(now, self.quiet_since);
        match &decision {
            Decision::Close => self.rounds.close(),
            Decision::Call(cause) => {
                self.rounds.call(cause.clone());
                self.quiet_since = now;
            }
            Decision::Wait(_) => {}
        }
        decision
    }

    fn members(&self) -> Vec<u64> {
        assert!(matches!(self.rounds.phase, Phase::Running { .. }), "{:?}", self.rounds.phase);
        self.rounds.nodes.iter().map(|node| node.id.0).collect()
    }
}

#[test]
fn a_full_round_closes_at_once() {
    let mut job = Job::new(2, 2, 0);
    job.join(0, 1);
    assert_eq!(job.tick(100), Decision::Wait(None));
    job.join(100, 2);
    assert_eq!(job.tick(100), Decision::Close);
    assert_eq!(job.members(), [1, 2]);
}

#[test]
fn the_minimum_waits_for_the_last_call() {
    let mut job = Job::new(1, 3, 0);
    job.join(0, 1);
    assert_eq!(job.tick(2), Decision::Wait(Some(job.start + Duration::from_secs(3))));
    job.join(2, 2);
    assert_eq!(job.tick(4), Decision::Wait(Some(job.start + Duration::from_secs(5))));
    assert_eq!(job.tick(5), Decision::Close);
    assert_eq!(job.members(), [1, 2]);
}

#[test]
fn a_late_node_brings_about_the_next_round() {
    let mut job = Job::new(1, 2, 0);
    job.join(0, 1);
    job.tick(3);
    job.join(4, 2);
    assert_eq!(job.tick(4), Decision::Call(Cause::Came { node: "host2 (10.0.0.2)".to_owned() }));
    assert_eq!(job.rounds.epoch, 1);
    assert_eq!(job.tick(40), Decision::Wait(None), "the veteran is awaited");
    job.join(5, 1);
    assert_eq!(job.tick(5), Decision::Close);
    assert_eq!(job.members(), [1, 2]);
    assert_eq!(job.rounds.restarts, 0, "growing is free");
}

#[test]
fn a_late_node_does_not_make_finished_ranks_run_again() {
    let mut job = Job::new(1, 3, 0);
    job.join(0, 1);
    job.join(0, 2);
    job.tick(3);
    job.rounds.finish(NodeId::new(1));
    job.join(4, 3);
    assert_eq!(job.tick(4), Decision::Wait(None));
}

#[test]
fn a_last_call_without_end_is_no_overflow() {
    let mut job = Job::new(1, 2, 0);
    job.rounds.options.last_call = Duration::MAX;
    job.join(0, 1);
    assert_eq!(job.tick(1_000_000), Decision::Wait(None));
}

#[test]
fn a_spare_waits_without_disturbing_and_replaces_a_lost_node() {
    let mut job = Job::new(2, 2, 0);
    job.join(0, 1);
    job.join(0, 2);
    job.tick(0);
    job.join(1, 3);
    assert_eq!(job.tick(1), Decision::Wait(None));
    let silent =
        Cause::Silent { node: "host1 (10.0.0.1)".to_owned(), since: Duration::from_secs(10) };
    job.rounds.lose(NodeId::new(1), silent.clone());
    assert_eq!((job.rounds.epoch, &job.rounds.cause), (1, &silent));
    job.join(2, 2);
    assert_eq!(job.tick(2), Decision::Close);
    assert_eq!(job.members(), [2, 3]);
}

#[test]
fn veterans_go_before_spares() {
    let mut job = Job::new(2, 2, 1);
    job.join(0, 1);
    job.join(0, 2);
    job.tick(0);
    job.join(1, 3);
    job.rounds.fail(NodeId::new(1), Vec::new());
    assert_eq!(job.rounds.restarts, 1);
    job.join(2, 2);
    assert_eq!(job.tick(2), Decision::Wait(None), "node 1 is still awaited");
    job.join(3, 1);
    assert_eq!(job.tick(3), Decision::Close);
    assert_eq!(job.members(), [1, 2]);
    assert_eq!(job.rounds.waiting.len(), 1);
}

#[test]
fn a_veteran_is_awaited_as_long_as_its_heart_beats() {
    let mut job = Job::new(1, 2, 1);
    job.join(0, 1);
    job.join(0, 2);
    job.tick(0);
    job.rounds.fail(NodeId::new(1), Vec::new());
    job.join(1, 1);
    assert_eq!(job.tick(100), Decision::Wait(None), "its ranks may still be taking leave");
    assert_eq!(job.rounds.neighbour(NodeId::new(1)).map(|node| node.id.0), Some(2));
    let silent = Cause::Silent { node: "host2".to_owned(), since: Duration::from_secs(10) };
    job.rounds.lose(NodeId::new(2), silent);
    assert_eq!(job.tick(101), Decision::Close);
    assert_eq!(job.members(), [1]);
}

#[test]
fn the_survivors_go_on_at_once_when_enough_are_left() {
    let mut job = Job::new(1, 3, 0);
    for id in 1..4 {
        job.join(0, id);
    }
    job.tick(0);
    job.rounds.lose(NodeId::new(2), Cause::Left { node: "host2 (10.0.0.2)".to_owned() });
    job.join(1, 3);
    job.join(1, 1);
    assert_eq!(job.tick(1), Decision::Close);
    assert_eq!(job.members(), [1, 3]);
    assert_eq!(job.rounds.restarts, 0, "shrinking is free");
}

#[test]
fn too_few_left_spends_a_restart_and_then_ends_the_job() {
    let mut job = Job::new(2, 2, 1);
    job.join(0, 1);
    job.join(0, 2);
    job.tick(0);
    let left = Cause::Left { node: "host2 (10.0.0.2)".to_owned() };
    job.rounds.lose(NodeId::new(2), left.clone());
    assert_eq!((job.rounds.restarts, &job.rounds.phase), (1, &Phase::Gathering));
    job.join(1, 1);
    assert_eq!(job.tick(500), Decision::Wait(None));
    job.join(500, 4);
    job.tick(500);
    assert_eq!(job.members(), [1, 4]);
    job.rounds.lose(NodeId::new(4), left.clone());
    assert_eq!(job.rounds.phase, Phase::Over(Ending::TooFew(left)));
}

#[test]
fn the_last_failure_ends_the_job_with_its_account() {
    let mut job = Job::new(1, 1, 1);
    job.join(0, 1);
    job.tick(0);
    job.rounds.fail(NodeId::new(1), b"first".to_vec());
    job.join(1, 1);
    job.tick(1);
    job.rounds.fail(NodeId::new(1), b"second".to_vec());
    job.rounds.fail(NodeId::new(1), b"third".to_vec());
    assert_eq!(job.rounds.phase, Phase::Over(Ending::Failed(b"second".to_vec())));
    let error = job.rounds.join(&node(9), &job.rounds.options.clone()).unwrap_err();
    assert!(matches!(error, JoinError::Over(_)));
}

#[test]
fn of_several_nodes_that_fail_the_first_to_say_so_gives_the_account() {
    let mut job = Job::new(2, 2, 0);
    job.join(0, 1);
    job.join(0, 2);
    job.tick(0);
    job.rounds.claim_failure(NodeId::new(2));
    job.rounds.claim_failure(NodeId::new(1));
    job.rounds.fail(NodeId::new(1), b"in turn".to_vec());
    assert!(matches!(job.rounds.phase, Phase::Running { .. }), "{:?}", job.rounds.phase);
    job.rounds.fail(NodeId::new(2), b"first".to_vec());
    assert_eq!(job.rounds.phase, Phase::Over(Ending::Failed(b"first".to_vec())));
}

#[test]
fn a_failure_is_not_forgotten_because_somebody_comes() {
    let mut job = Job::new(1, 2, 0);
    job.join(0, 1);
    job.tick(3);
    job.rounds.claim_failure(NodeId::new(1));
    job.join(4, 2);
    assert_eq!(job.tick(4), Decision::Wait(None));
    job.rounds.fail(NodeId::new(1), b"account".to_vec());
    assert_eq!(job.rounds.phase, Phase::Over(Ending::Failed(b"account".to_vec())));
}

#[test]
fn a_node_that_dies_before_its_account_is_lost_like_any_other() {
    let mut job = Job::new(1, 2, 0);
    job.join(0, 1);
    job.join(0, 2);
    job.tick(0);
    job.rounds.claim_failure(NodeId::new(2));
    job.rounds.lose(NodeId::new(2), Cause::Left { node: String::new() });
    job.join(1, 1);
    job.tick(1);
    assert_eq!(job.members(), [1]);
}

#[test]
fn an_ending_is_the_last_word() {
    let mut job = Job::new(1, 2, 5);
    job.join(0, 1);
    let closed = Ending::Closed { node: "host1".to_owned(), reason: "because".to_owned() };
    job.rounds.end(closed.clone());
    job.rounds.end(Ending::Finished);
    job.rounds.lose(NodeId::new(1), Cause::Left { node: String::new() });
    assert_eq!(job.rounds.phase, Phase::Over(closed));
}

#[test]
fn a_report_from_a_past_round_is_not_heard() {
    let mut job = Job::new(1, 1, 5);
    job.join(0, 1);
    job.tick(0);
    job.rounds.fail(NodeId::new(1), Vec::new());
    job.rounds.fail(NodeId::new(1), Vec::new());
    assert_eq!(job.rounds.restarts, 1);
    job.rounds.finish(NodeId::new(1));
    assert_eq!(job.rounds.phase, Phase::Gathering);
}

#[test]
fn the_job_is_finished_with_its_last_node() {
    let mut job = Job::new(2, 2, 0);
    job.join(0, 1);
    job.join(0, 2);
    job.tick(0);
    job.rounds.finish(NodeId::new(2));
    job.rounds.finish(NodeId::new(2));
    assert!(matches!(job.rounds.phase, Phase::Running { .. }));
    job.rounds.finish(NodeId::new(1));
    assert_eq!(job.rounds.phase, Phase::Over(Ending::Finished));
}

#[test]
fn node_ranks_decide_the_order_and_cannot_be_had_twice() {
    let mut rounds = Rounds::new("job".to_owned(), options(2, 2, 0));
    let asked = |id, rank| Node { rank: Some(rank), ..node(id) };
    rounds.join(&asked(1, 1), &options(2, 2, 0)).unwrap();
    let error = rounds.join(&asked(3, 1), &options(2, 2, 0)).unwrap_err();
    assert_eq!(error.to_string(), "node rank 1 is taken by host1 (10.0.0.1)");
    let error = rounds.join(&asked(3, 2), &options(2, 2, 0)).unwrap_err();
    assert!(matches!(error, JoinError::NoSuchRank { rank: 2, max: 2 }));
    rounds.join(&asked(2, 0), &options(2, 2, 0)).unwrap();
    rounds.close();
    assert_eq!(rounds.nodes.iter().map(|node| node.id.0).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn nodes_started_differently_are_shown_the_difference() {
    let mut rounds = Rounds::new("job".to_owned(), options(2, 2, 0));
    let here = RoundOptions { version: "2".to_owned(), ..options(1, 2, 0) };
    let error = rounds.join(&node(1), &here).unwrap_err().to_string();
    assert!(
        error.ends_with("nodes 1:2 here, 2:2 in the job; version 2 here, 1 in the job"),
        "{error}"
    );
}

#[test]
fn everyone_listens_to_one_neighbour_and_is_listened_to_by_one() {
    let mut job = Job::new(1, 4, 0);
    for id in 1..5 {
        job.join(0, id);
    }
    job.tick(0);
    let heard = |job: &Job, count: u64| -> Vec<u64> {
        (1..=count).map(|id| job.rounds.neighbour(NodeId::new(id)).unwrap().id.0).collect()
    };
    assert_eq!(heard(&job, 4), [4, 1, 2, 3]);
    job.join(1, 5);
    assert_eq!(heard(&job, 5), [5, 1, 2, 3, 4], "who waits is heard, too");
    let mut alone = Job::new(1, 1, 0);
    alone.join(0, 1);
    alone.tick(0);
    assert_eq!(alone.rounds.neighbour(NodeId::new(1)), None);
}

proptest! {
    /// Whatever happens, in whatever order: no node twice, no round too large or too small, and
    /// epochs only grow.
    #[test]
    fn no_order_of_events_breaks_a_round(
        min in 1_u32..4, more in 0_u32..3, restarts in 0_u32..3,
        events in prop::collection::vec((0_u8..7, 1_u64..7), 0..60),
    ) {
        let mut job = Job::new(min, min + more, restarts);
        let mut epoch = 0;
        for (second, (what, id)) in (0..).zip(events) {
            let options = job.rounds.options.clone();
            match what {
                0 | 1 => drop(job.rounds.join(&node(id), &options)),
                2 => job.rounds.fail(NodeId::new(id), Vec::new()),
                3 => job.rounds.finish(NodeId::new(id)),
                4 => job.rounds.claim_failure(NodeId::new(id)),
                5 => job.rounds.lose(NodeId::new(id), Cause::Left { node: String::new() }),
                _ => drop(job.tick(second * 10)),
            }
            let rounds = &job.rounds;
            prop_assert!(rounds.epoch >= epoch);
            epoch = rounds.epoch;
            let mut ids: Vec<u64> =
                rounds.nodes.iter().chain(&rounds.waiting).map(|node| node.id.0).collect();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), rounds.nodes.len() + rounds.waiting.len());
            if matches!(rounds.phase, Phase::Running { .. }) {
                let count = rounds.nodes.len() as u32;
                prop_assert!((min..=min + more).contains(&count), "{} nodes", count);
            }
            prop_assert!(rounds.restarts <= restarts);
        }
    }
}
