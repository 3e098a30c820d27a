use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::super::op::Op;
use super::super::point::tests::point;
use super::super::record::tests::record;
use super::*;

/// Answers with one median after the other, and writes down that it was asked.
struct Fake {
    name: &'static str,
    answers: VecDeque<Result<f64, Refusal>>,
    asked: Rc<RefCell<String>>,
}

impl Measurer for Fake {
    fn name(&self) -> &str {
        self.name
    }

    fn measure(&mut self, point: &Point) -> Result<Record, Refusal> {
        self.asked.borrow_mut().push_str(&self.name[..1]);
        let answer = self.answers.pop_front().unwrap_or(Ok(9.0));
        answer.map(|p50| record(self.name, point.op, point.bytes, p50))
    }
}

type Answers<'a> = &'a [Result<f64, Refusal>];

/// Measures some points with fakes; what came of them, who was asked when, what was noted.
fn contest(
    fakes: &[(&'static str, Answers<'_>)],
    rounds: u32,
    points: usize,
) -> (Vec<Result<Comparison, String>>, String, Vec<String>) {
    let asked = Rc::new(RefCell::new(String::new()));
    let measurers = fakes.iter().map(|(name, answers)| {
        let answers = answers.iter().cloned().collect();
        Box::new(Fake { name, answers, asked: Rc::clone(&asked) }) as Box<dyn Measurer>
    });
    let measurers = measurers.collect();
    let (mut hop, mut notes) = (|| None, Vec::new());
    let mut note = |line: &str| notes.push(line.to_owned());
    let mut contest = Contest::new(measurers, rounds, &mut hop, &mut note);
    let outcomes = (0..points).map(|_| contest.measure(&point(Op::AllReduce, 8))).collect();
    drop(contest);
    (outcomes, asked.take(), notes)
}

#[test]
fn everyone_is_asked_in_turn_and_begins_in_turn() {
    let (_, asked, _) = contest(&[("consort", &[]), ("gloo", &[]), ("mpich", &[])], 4, 1);
    assert_eq!(asked, "cgm".to_owned() + "gmc" + "mcg" + "cgm");
}

#[test]
fn the_ratio_is_the_best_peers_median_by_ours() {
    let ours: Answers<'_> = &[Ok(2.0), Ok(1.0), Ok(50.0)];
    let gloo: Answers<'_> = &[Ok(200.0), Ok(100.0), Ok(300.0)];
    let mpich: Answers<'_> = &[Ok(3.0), Ok(4.0), Ok(5.0)];
    let (outcomes, ..) = contest(&[("consort", ours), ("gloo", gloo), ("mpich", mpich)], 3, 1);
    let comparison = outcomes[0].as_ref().unwrap();
    let medians: Vec<f64> = comparison.records.iter().flatten().map(|it| it.p50_us).collect();
    assert_eq!(medians, [2.0, 200.0, 4.0]);
    assert_eq!(comparison.ratio(), Some(2.0));
}

#[test]
fn bare_sockets_are_no_peer_but_what_bandwidth_is_held_against() {
    let (outcomes, ..) = contest(&[("consort", &[Ok(2.0)]), ("raw", &[Ok(1.0)])], 1, 1);
    let comparison = outcomes[0].as_ref().unwrap();
    assert_eq!((comparison.ratio(), comparison.part_of_raw()), (None, Some(0.5)));

    // Four ranks' links carry half as much again in an all_reduce; the sockets are always two.
    let mut comparison = comparison.clone();
    for ours in comparison.records.iter_mut().flatten().take(1) {
        ours.ranks = 4;
    }
    assert_eq!(comparison.part_of_raw(), Some(0.75));
    let (outcomes, ..) = contest(&[("consort", &[]), ("gloo", &[])], 1, 1);
    assert_eq!(outcomes[0].as_ref().unwrap().part_of_raw(), None);
}

#[test]
fn alone_there_is_no_ratio() {
    let (outcomes, ..) = contest(&[("consort", &[])], 1, 1);
    assert_eq!(outcomes[0].as_ref().unwrap().ratio(), None);
}

#[test]
fn one_that_cannot_measure_a_point_is_asked_for_the_next() {
    let refusal = Err(Refusal::Point("no such dtype".to_owned()));
    let (outcomes, asked, notes) = contest(&[("consort", &[]), ("gloo", &[refusal])], 2, 2);
    assert_eq!(asked, "cgc".to_owned() + "cggc");
    assert_eq!(outcomes[0].as_ref().unwrap().records[1], None);
    assert!(outcomes[1].as_ref().unwrap().records[1].is_some());
    assert_eq!(notes, ["gloo: no all_reduce of 8 bytes of f32: no such dtype"]);
}

#[test]
fn a_peer_that_is_gone_is_left_out_and_the_others_go_on() {
    let gone = Err(Refusal::Gone("gloo: ended".to_owned()));
    let (outcomes, asked, notes) = contest(&[("consort", &[]), ("gloo", &[Ok(1.0), gone])], 2, 2);
    assert_eq!(asked, "cggc".to_owned() + "cc");
    assert_eq!(outcomes[0].as_ref().unwrap().records[1].as_ref().unwrap().p50_us, 1.0);
    assert_eq!(outcomes[1].as_ref().unwrap().records[1], None);
    assert!(notes[0].starts_with("gloo: ended") && notes[0].contains("left out"));
}

#[test]
fn without_ours_there_is_nothing_to_compare() {
    let gone = Err(Refusal::Gone("consort: ended".to_owned()));
    let (outcomes, ..) = contest(&[("consort", &[gone]), ("gloo", &[])], 2, 1);
    assert_eq!(outcomes, [Err("consort: ended".to_owned())]);
}

#[test]
fn measurements_between_which_the_cores_moved_are_shaky() {
    let at = |hop_us| Some(Record { hop_us, ..record("x", Op::Barrier, 0, 1.0) });
    let comparison = |hops: &[Option<f64>]| Comparison {
        point: point(Op::Barrier, 0),
        records: hops.iter().map(|hop| at(*hop)).collect(),
    };
    assert!(comparison(&[Some(0.05), Some(0.19)]).is_shaky());
    assert!(!comparison(&[Some(0.05), None, Some(0.06)]).is_shaky());
    assert!(!comparison(&[None, None]).is_shaky());
}
