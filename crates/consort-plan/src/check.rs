//! Proving programs: all ranks run together, on symbols instead of numbers.
//!
//! A value is a symbol: a rank's chunk as it was in the beginning, or a combination of two values. The
//! same combination of the same values is the same symbol, so two ranks hold the same bits for certain
//! when they hold the same symbol. What is proved, for one operation and world:
//!
//! - Every chunk of every `Out` ends with what the contract wants ([`Collective::wanted`]): each
//!   contribution exactly once, and the same combination on every rank that ends with it.
//! - Nobody waits forever, even if no send is done before its receive has begun. Programs cannot look
//!   at what comes, so the order in which ranks are run makes no difference: one run is all runs.
//! - Nothing in a round touches what a receive of the same round writes; nothing reads what was never
//!   written; `In` stays; chunks, peers and sizes of messages are right.
//! - With room on the way, at most [`Report::in_flight`] messages wait between two ranks: the k-th
//!   message is sent when its sender is allowed to, and has seen what the receiver must have done by
//!   then (a vector clock of rounds tells). The rest may still be under way.
//! - No rank ends a barrier before it has heard, through whomever, of everyone.
//!
//! It proves the worlds that it is run for, not all worlds.

mod clock;
mod end;
mod fault;
mod memory;
mod round;
mod run;
mod value;

pub use fault::{Fault, Trouble};

use crate::algo::Algorithm;
use crate::op::Collective;
use crate::program::{Program, Step};

/// What to prove.
#[derive(Clone, Debug)]
pub struct Check {
    /// The operation.
    pub op: Collective,
    /// How many ranks.
    pub world: u32,
    /// Whether `In` and `Out` share memory, where the operation allows that
    /// ([`Collective::in_place`]).
    pub in_place: bool,
    /// How many messages may be under way from one rank to another.
    pub in_flight: u32,
    /// Whose programs they are, for the report of a fault.
    pub name: String,
}

/// What a check found out about programs that are right.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The rounds of the longest program.
    pub rounds: u32,
    /// The messages of all ranks.
    pub messages: u64,
    /// The most chunks that any rank sends.
    pub sent: u64,
    /// The most chunks of scratch that any rank needs.
    pub scratch: u32,
    /// In which order values are combined.
    pub order: Order,
    /// The most messages that can be under way from one rank to another. Not computed for more
    /// than 128 ranks.
    pub in_flight: Option<u32>,
    /// Whether an `AllToAll` moves chunks only between places of the same sender and receiver, so that
    /// sizes may differ from pair to pair.
    pub uneven: bool,
}

/// The order of contributions in what is combined, read from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Nothing is combined, or in the order of ranks.
    Ranks,
    /// In the order of ranks, beginning somewhere and going on at 0 after the last.
    Turned,
    /// In another order, the same on all ranks.
    Mixed,
}

/// Checks an algorithm's programs for one operation and world, out of place and in place.
///
/// # Errors
/// What is wrong with them, where.
///
/// # Panics
/// When the algorithm does not support the operation.
pub fn algorithm(
    algorithm: &dyn Algorithm,
    op: Collective,
    world: u32,
) -> Result<Report, Box<Fault>> {
    let programs: Vec<Program> =
        (0..world).map(|rank| algorithm.program(op, world, rank)).collect();
    let mut check = Check::new(op, world);
    algorithm.name().clone_into(&mut check.name);
    let report = check.run(&programs)?;
    if check.can_be_in_place() {
        check.in_place = true;
        check.run(&programs)?;
    }
    Ok(report)
}

impl Check {
    /// Out of place, with as many messages under way as there are ranks.
    pub fn new(op: Collective, world: u32) -> Self {
        Self { op, world, in_place: false, in_flight: world.max(2), name: "unnamed".to_owned() }
    }

    /// Checks the programs of all ranks.
    ///
    /// # Errors
    /// What is wrong with them, where.
    ///
    /// # Panics
    /// When there are not as many programs as ranks, or the root is not one of them.
    pub fn run(&self, programs: &[Program]) -> Result<Report, Box<Fault>> {
        assert_eq!(programs.len(), self.world as usize, "every rank has a program");
        assert!(
            self.op.root().is_none_or(|root| root < self.world),
            "the root is one of the ranks"
        );
        let outcome = run::run(self, programs)?;
        let sent = |program: &Program| program.steps().iter().map(chunks_sent).sum::<u64>();
        let sends = |program: &Program| {
            program.steps().iter().filter(|step| matches!(step, Step::Send { .. })).count() as u64
        };
        Ok(Report {
            rounds: programs.iter().map(|program| program.len() as u32).max().unwrap_or(0),
            messages: programs.iter().map(sends).sum(),
            sent: programs.iter().map(sent).max().unwrap_or(0),
            scratch: programs.iter().map(|it| it.scratch().len() as u32).max().unwrap_or(0),
            order: outcome.order,
            in_flight: outcome.in_flight,
            uneven: outcome.uneven,
        })
    }

    fn can_be_in_place(&self) -> bool {
        (0..self.world)
            .any(|rank| (0..self.world).any(|chunk| self.op.in_place(rank, chunk).is_some()))
    }

    /// A fault of a rank in a round.
    fn fault(&self, rank: u32, round: Option<u32>, trouble: Trouble) -> Box<Fault> {
        let Self { op, world, in_place, ref name, .. } = *self;
        Box::new(Fault { op, algorithm: name.clone(), world, in_place, rank, round, trouble })
    }
}

fn chunks_sent(step: &Step) -> u64 {
    if let Step::Send { from, .. } = step { u64::from(from.len) } else { 0 }
}
