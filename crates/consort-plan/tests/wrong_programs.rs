//! Programs that were right until something was changed. Each must be refused, with the place.

use consort_plan::algo::{self, Algorithm};
use consort_plan::check::{Check, Fault, Order, Trouble};
use consort_plan::{Chunks, Collective, How, Operand, Program, Space, Step};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Programs as they can be changed: of each rank, of each round, its steps.
#[derive(Clone, Debug)]
struct Draft {
    op: Collective,
    rounds: Vec<Vec<Vec<Step>>>,
    scratch: Vec<Vec<u32>>,
}

/// The place of a step: rank, round, number.
type Place = (usize, usize, usize);

impl Draft {
    fn new(algorithm: &dyn Algorithm, op: Collective, world: u32) -> Self {
        let programs: Vec<Program> =
            (0..world).map(|rank| algorithm.program(op, world, rank)).collect();
        let rounds = |program: &Program| program.rounds().map(<[Step]>::to_vec).collect();
        Self {
            op,
            rounds: programs.iter().map(rounds).collect(),
            scratch: programs.iter().map(|program| program.scratch().to_vec()).collect(),
        }
    }

    fn check(&self) -> Result<Order, Box<Fault>> {
        let programs: Vec<Program> = self
            .rounds
            .iter()
            .zip(&self.scratch)
            .map(|(rounds, scratch)| Program::new(rounds.clone(), scratch.clone()))
            .collect();
        let check = Check::new(self.op, programs.len() as u32);
        check.run(&programs).map(|report| report.order)
    }

    /// All steps of a kind.
    fn places(&self, wanted: impl Fn(&Step) -> bool) -> Vec<Place> {
        let mut places = Vec::new();
        for (rank, rounds) in self.rounds.iter().enumerate() {
            for (round, steps) in rounds.iter().enumerate() {
                let found = (0..steps.len()).filter(|step| wanted(&steps[*step]));
                places.extend(found.map(|step| (rank, round, step)));
            }
        }
        places
    }

    fn step(&mut self, (rank, round, step): Place) -> &mut Step {
        &mut self.rounds[rank][round][step]
    }

    /// The send that a receive takes: the one with the same number among the messages of the pair.
    fn sender_of(&self, place: Place) -> Place {
        let (to, ..) = place;
        let Step::Recv { from, .. } = self.rounds[to][place.1][place.2] else {
            panic!("not a receive")
        };
        let receives = self.places(|step| matches!(step, Step::Recv { from: f, .. } if *f == from));
        let number = receives.iter().filter(|it| it.0 == to && **it < place).count();
        let sends = self.places(|step| matches!(step, Step::Send { to: t, .. } if *t == to as u32));
        let sends = sends.into_iter().filter(|it| it.0 == from as usize);
        sends.into_iter().nth(number).expect("every receive has its send")
    }
}

/// Some algorithm, with an operation that it supports, between up to nine ranks.
fn draft() -> impl Strategy<Value = Draft> {
    let world = 2..=9u32;
    (world, select(algo::ALL.to_vec()), any::<Index>(), any::<Index>()).prop_map(
        |(world, algorithm, op, root)| {
            let supported: Vec<Collective> = Collective::all(root.index(world as usize) as u32)
                .into_iter()
                .filter(|op| algorithm.supports(*op, world))
                .collect();
            Draft::new(algorithm, *op.get(&supported), world)
        },
    )
}

fn refused(draft: &Draft) -> Result<(), TestCaseError> {
    match draft.check() {
        Ok(_) => Err(TestCaseError::fail(format!("{} was accepted", draft.op))),
        Err(fault) => {
            let text = fault.to_string();
            prop_assert!(text.contains("rank ") && text.contains("round"), "{text}");
            prop_assert!(text.starts_with(draft.op.name()), "{text}");
            Ok(())
        }
    }
}

/// The chunks of a step, one of them chosen.
fn some_chunks(step: &mut Step, choice: Index) -> &mut Chunks {
    match step {
        Step::Send { from, .. } => from,
        Step::Copy { from, into } => {
            if choice.index(2) == 0 {
                from
            } else {
                into
            }
        }
        Step::Recv { into, how: How::Overwrite, .. } => into,
        Step::Recv { into, how: How::Combine { with, .. }, .. } => {
            if choice.index(2) == 0 {
                into
            } else {
                with
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_dropped_step_is_refused(draft in draft(), choice: Index) {
        let mut draft = draft;
        let places = draft.places(|_| true);
        prop_assume!(!places.is_empty());
        let (rank, round, step) = *choice.get(&places);
        draft.rounds[rank][round].remove(step);
        refused(&draft)?;
    }

    #[test]
    fn another_peer_is_refused(draft in draft(), choice: Index, by: Index) {
        let mut draft = draft;
        let world = draft.rounds.len();
        let places = draft.places(|step| !matches!(step, Step::Copy { .. }));
        let shift = 1 + by.index(world) as u32;
        match draft.step(*choice.get(&places)) {
            Step::Send { to: peer, .. } | Step::Recv { from: peer, .. } => {
                *peer = (*peer + shift) % (world as u32 + 1);
            }
            Step::Copy { .. } => unreachable!("only messages were chosen"),
        }
        refused(&draft)?;
    }

    #[test]
    fn another_chunk_is_refused(draft in draft(), choice: Index, which: Index, up: bool) {
        let mut draft = draft;
        let places = draft.places(|step| !matches!(step, Step::Send { from, .. } if from.len == 0));
        let places: Vec<Place> = places
            .into_iter()
            .filter(|place| some_chunks(draft.step(*place), which).len > 0)
            .collect();
        prop_assume!(!places.is_empty());
        let chunks = some_chunks(draft.step(*choice.get(&places)), which);
        chunks.start = if up { chunks.start + 1 } else { chunks.start.wrapping_sub(1) };
        refused(&draft)?;
    }

    #[test]
    fn another_length_is_refused(draft in draft(), choice: Index, which: Index, up: bool) {
        let mut draft = draft;
        let places = draft.places(|_| true);
        let chunks = some_chunks(draft.step(*choice.get(&places)), which);
        chunks.len = if up { chunks.len + 1 } else { chunks.len.wrapping_sub(1) };
        refused(&draft)?;
    }

    #[test]
    fn a_contribution_that_counts_twice_is_refused(draft in draft(), choice: Index) {
        let mut draft = draft;
        let combines = |step: &Step| matches!(step, Step::Recv { how: How::Combine { .. }, .. });
        let places = draft.places(combines);
        prop_assume!(!places.is_empty());
        let place = *choice.get(&places);
        let (from, to) = (draft.sender_of(place), place);
        let mut again = *draft.step(to);
        if let Step::Recv { into, how: How::Combine { with, .. }, .. } = &mut again {
            *with = *into;
        }
        let sent = *draft.step(from);
        draft.rounds[to.0].insert(to.1 + 1, vec![again]);
        draft.rounds[from.0].insert(from.1 + 1, vec![sent]);
        refused(&draft)?;
    }

    #[test]
    fn input_is_not_written(draft in draft(), choice: Index) {
        let mut draft = draft;
        let places = draft.places(|step| matches!(step, Step::Recv { into, .. } if into.len > 0));
        prop_assume!(!places.is_empty());
        if let Step::Recv { into, .. } = draft.step(*choice.get(&places)) {
            into.space = Space::In;
        }
        refused(&draft)?;
    }
}

#[test]
fn rounds_of_a_ring_in_another_order_are_refused() {
    for op in [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather] {
        let draft = Draft::new(&algo::Ring, op, 5);
        for rank in 0..5 {
            for round in 1..draft.rounds[rank].len() {
                let mut draft = draft.clone();
                draft.rounds[rank].swap(round - 1, round);
                assert!(draft.check().is_err(), "{op}, rank {rank}, round {round}");
            }
        }
    }
}

#[test]
fn another_order_of_operands_on_one_rank_is_refused() {
    for world in 2..=9 {
        let draft = Draft::new(&algo::Doubling, Collective::AllReduce, world);
        let places =
            draft.places(|step| matches!(step, Step::Recv { how: How::Combine { .. }, .. }));
        for place in places {
            let mut draft = draft.clone();
            turn(draft.step(place));
            let leads = draft.rounds[place.0].len() > 3 && place.1 == 0;
            match draft.check() {
                Err(fault) => assert!(matches!(fault.trouble, Trouble::Order { .. }), "{fault}"),
                // What a pair does before it plays is done once, for all: everyone has the same.
                Ok(order) => assert!(leads || world == 3, "{order:?}, world {world}, {place:?}"),
            }
        }
    }
}

#[test]
fn another_order_of_operands_for_all_is_reported() {
    let mut draft = Draft::new(&algo::Flat, Collective::AllReduce, 4);
    assert_eq!(draft.check().unwrap(), Order::Ranks);
    turn(draft.step((0, 2, 0)));
    assert_eq!(draft.check().unwrap(), Order::Turned);
    turn(draft.step((0, 0, 0)));
    assert_eq!(draft.check().unwrap(), Order::Mixed);
}

fn turn(step: &mut Step) {
    if let Step::Recv { how: How::Combine { first, .. }, .. } = step {
        *first = if *first == Operand::Local { Operand::Received } else { Operand::Local };
    }
}

#[test]
fn waiting_in_a_circle_is_refused() {
    let send = |to| Step::Send { to, from: Chunks::NONE };
    let recv = |from| Step::Recv { from, into: Chunks::NONE, how: How::Overwrite };
    let scratch = vec![vec![]; 2];
    let op = Collective::Barrier;
    let sends_first = vec![vec![vec![send(1)], vec![recv(1)]], vec![vec![send(0)], vec![recv(0)]]];
    let fault = Draft { op, rounds: sends_first, scratch: scratch.clone() }.check().unwrap_err();
    insta::assert_snapshot!(fault, @"barrier by unnamed between 2 ranks: rank 0, round 0: `send nothing to 1` is never done: rank 1 waits in its round 0");
    let together = vec![vec![vec![send(1), recv(1)]], vec![vec![send(0), recv(0)]]];
    assert!(Draft { op, rounds: together, scratch }.check().is_ok());
}

#[test]
fn a_barrier_that_ends_early_is_refused() {
    let mut draft = Draft::new(&algo::Bruck, Collective::Barrier, 4);
    draft.rounds.iter_mut().for_each(|rounds| rounds.truncate(1));
    let fault = draft.check().unwrap_err();
    insta::assert_snapshot!(fault, @"barrier by unnamed between 4 ranks: rank 0, after its last round: the barrier ends here before rank 1 must have begun");
}

#[test]
fn too_many_messages_under_way_are_refused() {
    let programs: Vec<Program> =
        (0..6).map(|rank| algo::Ring.program(Collective::AllGather, 6, rank)).collect();
    let check = Check { in_flight: 4, ..Check::new(Collective::AllGather, 6) };
    let fault = check.run(&programs).unwrap_err();
    assert_eq!(fault.trouble, Trouble::InFlight { peer: 1, found: 5, limit: 4 });
}

#[test]
fn what_is_read_and_written_in_one_round_is_refused() {
    let all = Chunks::output(0, 2);
    let exchange = |peer| {
        let how = How::Combine { with: all, first: Operand::Received };
        vec![
            Step::Copy { from: Chunks::input(0, 2), into: all },
            Step::Send { to: peer, from: all },
            Step::Recv { from: peer, into: all, how },
        ]
    };
    let rounds = vec![vec![exchange(1)], vec![exchange(0)]];
    let draft = Draft { op: Collective::AllReduce, rounds, scratch: vec![vec![]; 2] };
    insta::assert_snapshot!(draft.check().unwrap_err(), @"all_reduce by unnamed between 2 ranks: rank 1, round 0: `send Out[0..2] to 0` touches what `recv from 0: Out[0..2] = received ∘ Out[0..2]` writes in the same round");
}
