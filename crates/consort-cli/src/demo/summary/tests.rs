use super::super::failure::tests::story;
use super::super::history::tests::step;
use super::super::words::{Tested, Word};
use super::*;

const TASK: Task = Task { seed: 1, steps: 12, batch: 64 };
const SETTING: Setting = Setting { cores: 2, ranks: 2, threads: 1 };

/// Ranks whose steps take so long, with losses that are apart by so much from others'.
pub(crate) fn learned(ranks: usize, seconds: f64, apart: f64) -> History {
    let mut history = History::new(ranks);
    finish(&mut history, seconds, apart);
    history
}

fn finish(history: &mut History, seconds: f64, apart: f64) {
    let ranks = history.members.len();
    for rank in 0..ranks {
        let mut say = |word| history.note(rank, word).unwrap();
        say(Word::Ready { numbers: 1000, parameters: 4 });
        for number in 0..TASK.steps {
            let nanos = |count: usize| (count as f64 * seconds * 1e9) as u64;
            let loss = 2.4 - 0.2 * number as f64 + apart;
            say(Word::Step(step(number, loss, (nanos(number), nanos(number + 1)))));
        }
        let count = Set::Test.len();
        let mine = count * rank / ranks..count * (rank + 1) / ranks;
        // One is wrong.
        let answers = mine.clone().map(|number| if number == 7 { 1 } else { label(number) });
        let answers = answers.collect();
        say(Word::Tested(Tested { first: mine.start, answers, loss: 0.5 * mine.len() as f64 }));
        say(Word::Compared(Ok(())));
        say(Word::Done);
    }
}

pub(crate) fn summary() -> Summary {
    let (ranks, alone) = (learned(2, 0.5, 0.0), learned(1, 0.75, 5e-5));
    Summary::new(SETTING, TASK, &ranks, Some(&alone), None).unwrap()
}

fn failed(summary: &Summary) -> Vec<&str> {
    summary.checks.iter().filter(|check| !check.passed).map(|check| check.name).collect()
}

#[test]
fn figures_come_from_what_was_said() {
    let summary = summary();
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{summary:?}");
    close(summary.distributed.seconds, 6.0);
    close(summary.distributed.samples_per_second, 128.0);
    close(summary.speedup.unwrap(), 1.5);
    close(summary.distributed.first_loss, 2.4);
    // Of 2.0 down to 0.2.
    close(summary.distributed.last_loss, 1.1);
    close(summary.distributed.test_loss, 0.5);
    close(summary.distributed.test_accuracy, 1.0 - 1.0 / Set::Test.len() as f64);
    let Difference { mean, most } = summary.loss_difference.unwrap();
    [mean, most].into_iter().for_each(|found| close(found, 5e-5));
    assert!(summary.is_good(), "{:?}", summary.checks);
}

#[test]
fn losses_that_are_apart_fail() {
    let (ranks, alone) = (learned(2, 0.5, 0.0), learned(1, 0.5, 0.1));
    let summary = Summary::new(SETTING, TASK, &ranks, Some(&alone), None).unwrap();
    assert_eq!(failed(&summary), ["the loss is that of one process"]);
    let nothing = learned(1, 0.5, f64::NAN);
    let summary = Summary::new(SETTING, TASK, &ranks, Some(&nothing), None).unwrap();
    assert_eq!(failed(&summary), ["the loss is that of one process"]);
}

#[test]
fn one_step_that_is_far_off_is_told() {
    let (one, mut other) = (vec![1.0; 100], vec![1.0; 100]);
    other[40] = 1.05;
    let found = Difference::of(&one, &other);
    assert!((found.mean - 5e-4).abs() < 1e-9 && (found.most - 0.05).abs() < 1e-9, "{found:?}");
    assert!(check_losses(found).passed);
    other[41] = 1.06;
    assert!(!check_losses(Difference::of(&one, &other)).passed);
}

#[test]
fn parameters_that_differ_or_were_not_compared_fail() {
    for compared in [Some(Err("wholes.weight differs".to_owned())), None] {
        let mut ranks = learned(2, 0.5, 0.0);
        ranks.members[1].compared = compared;
        let summary = Summary::new(SETTING, TASK, &ranks, None, None).unwrap();
        assert_eq!(failed(&summary), ["parameters are the same on all ranks, bit by bit"]);
        assert!(!summary.is_good() && summary.speedup.is_none());
    }
}

#[test]
fn who_has_had_enough_pictures_has_to_read_some() {
    let mut figures = summary().distributed;
    figures.test_accuracy = 0.1;
    let passes = |steps, batch| check_learning(&figures, Task { seed: 1, steps, batch }).passed;
    assert!(passes(99, 1000) && passes(1000, 4));
    assert!(!passes(100, 50) && !passes(360, 128));
}

#[test]
fn a_rank_that_was_killed_need_not_compare_but_has_to_be_named() {
    let (mut history, killed) = story();
    finish(&mut history, 0.5, 0.0);
    history.members[1].compared = None;
    let setting = Setting { ranks: 3, ..SETTING };
    let summary = Summary::new(setting, TASK, &history, None, Some(killed)).unwrap();
    assert_eq!(failed(&summary), [""; 0]);
    history.members[2].loss = None;
    let summary = Summary::new(setting, TASK, &history, None, Some(killed)).unwrap();
    assert_eq!(failed(&summary), ["the others named the rank that was killed, and went on"]);
}

#[test]
fn what_was_not_finished_has_no_summary() {
    let mut ranks = learned(2, 0.5, 0.0);
    ranks.members[0].tested = None;
    assert!(Summary::new(SETTING, TASK, &ranks, None, None).is_err());
    ranks.members.iter_mut().for_each(|member| member.steps.truncate(5));
    let why = Summary::new(SETTING, TASK, &ranks, None, None).unwrap_err();
    assert_eq!(why, "5 of 12 steps were done");
}
