mod world;

use consort_testkit::net::play;

use super::*;
use world::World;

/// So many worlds are played.
const SEEDS: u64 = 4000;

#[test]
fn whatever_happens_nothing_answered_is_lost_and_nothing_is_done_twice() {
    let played = play("consort-store", "whatever_happens_nothing", SEEDS, |seed, shows| {
        let end = World::new(seed, shows).run();
        [u64::from(end.took_over), u64::from(end.went_on_alone)]
    });
    // Worlds in which nothing happens would prove nothing.
    let Some([takeovers, alone]) = played else { return };
    assert!(takeovers > SEEDS / 5 && alone > SEEDS / 50, "{takeovers} and {alone} of {SEEDS}");
}

fn times() -> Times {
    Times::within(Duration::ZERO)
}

fn answer(call: u64) -> (Ticket, Reply) {
    (Ticket { client: 1, call }, Reply::Done)
}

/// A first store that is paired, its second having heard from it at `now`.
fn paired(now: Instant) -> First {
    let mut first = First::new(1, 0, times());
    first.copied(now);
    let entry = first.have(0, &mut Answers::new()).unwrap();
    assert_eq!(entry, Entry::Paired { epoch: 2 });
    first.number(entry, now);
    first.have(1, &mut Answers::new());
    first
}

#[test]
fn an_answer_waits_for_the_second_store() {
    let now = Instant::now();
    let mut first = paired(now);
    let mut answers = vec![answer(1)];
    first.number(Entry::Mark, now);
    first.hold(&mut answers);
    assert_eq!(answers, []);
    first.have(1, &mut answers);
    assert_eq!(answers, []);
    first.have(2, &mut answers);
    assert_eq!(answers, [answer(1)]);
}

#[test]
fn while_it_is_copied_a_store_answers_at_once() {
    let mut first = First::new(1, 0, times());
    first.copied(Instant::now());
    let mut answers = vec![answer(1)];
    first.number(Entry::Mark, Instant::now());
    first.hold(&mut answers);
    assert_eq!(answers, [answer(1)]);
    first.second_lost(false, Instant::now(), &mut answers);
    assert!(first.wants_second() && first.epoch() == 1);
}

#[test]
fn a_second_store_that_ended_while_it_heard_the_first_is_gone_for_certain() {
    let now = Instant::now();
    let mut first = paired(now);
    let mut answers = vec![answer(1)];
    first.number(Entry::Mark, now);
    first.hold(&mut answers);
    first.second_lost(true, now + times().lease / 2, &mut answers);
    assert_eq!(answers, [answer(1)]);
    assert!(first.wants_second() && first.epoch() == 3);
}

#[test]
fn silence_and_a_late_end_prove_nothing() {
    let now = Instant::now();
    for (closed, later) in [(true, times().lease), (false, Duration::ZERO)] {
        let mut first = paired(now);
        let mut answers = vec![answer(1)];
        first.number(Entry::Mark, now);
        first.hold(&mut answers);
        first.second_lost(closed, now + later, &mut answers);
        assert!(answers.is_empty() && first.is_doubtful());
        first.have(9, &mut answers);
        assert!(answers.is_empty() && first.is_doubtful());
    }
}

#[test]
fn a_follower_takes_over_from_a_silent_store_only_if_that_relied_on_it() {
    let now = Instant::now();
    let mut follower = Follower::new(now, times());
    let later = now + times().takeover;
    follower.hear(Note::Whole { epoch: 1, index: 7 }, now).unwrap();
    assert!(!follower.is_due(later));
    follower.hear(Note::Entry { index: 8, entry: Entry::Paired { epoch: 2 } }, now).unwrap();
    assert!(!follower.is_due(now) && follower.is_due(later));
    assert_eq!((follower.has(), follower.promoted().epoch()), (Some(8), 3));
}

#[test]
fn entries_out_of_order_are_refused() {
    let now = Instant::now();
    let mut follower = Follower::new(now, times());
    assert!(follower.hear(Note::Entry { index: 1, entry: Entry::Mark }, now).is_err());
    follower.hear(Note::Whole { epoch: 1, index: 0 }, now).unwrap();
    assert!(follower.hear(Note::Entry { index: 2, entry: Entry::Mark }, now).is_err());
    assert!(follower.hear(Note::Absent { client: 1 }, now).is_err());
}

#[test]
fn a_takeover_is_over_before_the_job_is_given_up() {
    for liveness in [10, 20, 100].map(Duration::from_secs) {
        let Times { beat, lease, takeover } = Times::within(liveness);
        assert!(beat * 3 < lease && lease * 2 <= takeover && takeover * 2 < liveness);
    }
}
