//! When things happen in a picture: every message takes one unit of time, at least.

use std::collections::{HashMap, VecDeque};

use crate::program::{Program, Step};

/// Rounds and messages in time.
pub(super) struct Times {
    /// Of each rank and round: when it begins and ends.
    pub(super) rounds: Vec<Vec<(u32, u32)>>,
    pub(super) messages: Vec<Message>,
}

/// A message: its sender and receiver with their steps.
pub(super) struct Message {
    pub(super) from: Place,
    pub(super) to: Place,
}

/// A step of a rank's round.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) rank: usize,
    pub(super) round: usize,
    pub(super) step: usize,
}

impl Times {
    /// Runs the programs as far as they go: those of a right algorithm go to their ends.
    pub(super) fn of(programs: &[Program]) -> Self {
        let mut times = Self { rounds: vec![Vec::new(); programs.len()], messages: Vec::new() };
        let mut sent: HashMap<(usize, usize), VecDeque<Place>> = HashMap::new();
        let mut begun = vec![0; programs.len()];
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for (rank, program) in programs.iter().enumerate() {
                while times.rounds[rank].len() < program.len() {
                    let round = times.rounds[rank].len();
                    if begun[rank] == round {
                        post(program, rank, round, &mut sent);
                        begun[rank] += 1;
                        moved = true;
                    }
                    if !times.end_round(program, rank, round, &mut sent) {
                        break;
                    }
                    moved = true;
                }
            }
        }
        times
    }

    /// How long all of it takes.
    pub(super) fn length(&self) -> u32 {
        self.rounds.iter().flatten().map(|(_, end)| *end).max().unwrap_or(0)
    }

    /// Ends a round, if all that it receives has been sent.
    fn end_round(
        &mut self,
        program: &Program,
        rank: usize,
        round: usize,
        sent: &mut HashMap<(usize, usize), VecDeque<Place>>,
    ) -> bool {
        let steps = program.round(round);
        let mut needed: HashMap<usize, usize> = HashMap::new();
        for step in steps {
            if let Step::Recv { from, .. } = step {
                *needed.entry(*from as usize).or_default() += 1;
            }
        }
        let has_come = |from: &usize, count: &usize| {
            sent.get(&(*from, rank)).is_some_and(|queue| queue.len() >= *count)
        };
        if !needed.iter().all(|(from, count)| has_come(from, count)) {
            return false;
        }
        let start = self.start(rank, round);
        let mut end = start + 1;
        for (step, it) in steps.iter().enumerate() {
            if let Step::Recv { from, .. } = it {
                let queue = sent.get_mut(&(*from as usize, rank)).expect("it has come");
                let from = queue.pop_front().expect("it has come");
                end = end.max(self.start(from.rank, from.round) + 1);
                self.messages.push(Message { from, to: Place { rank, round, step } });
            }
        }
        self.rounds[rank].push((start, end));
        true
    }

    /// When a round begins: when the one before it has ended.
    fn start(&self, rank: usize, round: usize) -> u32 {
        round.checked_sub(1).map_or(0, |before| self.rounds[rank][before].1)
    }
}

/// Sends what a round sends.
fn post(
    program: &Program,
    rank: usize,
    round: usize,
    sent: &mut HashMap<(usize, usize), VecDeque<Place>>,
) {
    for (step, it) in program.round(round).iter().enumerate() {
        if let Step::Send { to, .. } = it {
            sent.entry((rank, *to as usize)).or_default().push_back(Place { rank, round, step });
        }
    }
}
