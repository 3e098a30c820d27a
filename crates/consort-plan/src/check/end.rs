//! The end of a run: does everyone hold what it must?

use super::memory::NEVER;
use super::run::Run;
use super::value::{UNDEFINED, Value};
use super::{Check, Fault, Order, Trouble};
use crate::op::{Collective, Wanted};
use crate::program::{Chunks, Space};

impl Run<'_> {
    /// Whether every `Out` holds what it must, and in which order values were combined.
    pub(super) fn contract_is_met(&self) -> Result<Order, Box<Fault>> {
        let Check { op, world, .. } = *self.check;
        if op == Collective::Barrier {
            return self.all_have_heard().map(|()| Order::Ranks);
        }
        // Who was the first to end with each chunk, and with what.
        let mut first: Vec<Option<(u32, Value)>> = vec![None; world as usize];
        let mut seen = vec![NEVER; world as usize];
        let mut order = Order::Ranks;
        for rank in 0..world {
            for chunk in 0..op.chunks(Space::Out, world, rank) {
                let cell = self.memory[rank as usize].get(Space::Out, chunk);
                let end = End { rank, chunk: Chunks::output(chunk, 1), written: cell.written };
                match op.wanted(rank, chunk) {
                    Wanted::Piece { rank: owner, chunk: piece } => {
                        self.piece_is_there(&end, cell.value, owner, piece)?;
                    }
                    Wanted::Combined { chunk: wanted } => match first[wanted as usize] {
                        Some((_, value)) if value == cell.value => {}
                        other => {
                            self.is_complete(&end, cell.value, wanted, &mut seen)?;
                            order = order.max(self.values.order(cell.value));
                            self.is_the_same(&end, cell.value, other)?;
                            first[wanted as usize] = Some((rank, cell.value));
                        }
                    },
                }
            }
        }
        Ok(order)
    }

    fn piece_is_there(
        &self,
        end: &End,
        value: Value,
        owner: u32,
        piece: u32,
    ) -> Result<(), Box<Fault>> {
        let wanted = self.values.contribution(owner, piece);
        if value == wanted {
            return Ok(());
        }
        let expected = self.values.write(wanted);
        Err(self.wrong(end, expected, self.values.write(value)))
    }

    fn is_complete(
        &self,
        end: &End,
        value: Value,
        wanted: u32,
        seen: &mut [u32],
    ) -> Result<(), Box<Fault>> {
        let world = self.check.world;
        let expected = || format!("chunk {wanted} of all {world} ranks, each once");
        if value == UNDEFINED || self.values.chunk(value) != wanted {
            return Err(self.wrong(end, expected(), self.values.write(value)));
        }
        seen.fill(NEVER);
        let mut twice = None;
        self.values.walk(value, |rank| {
            let before = std::mem::replace(&mut seen[rank as usize], wanted);
            twice = twice.or((before == wanted).then_some(rank));
        });
        if let Some(contributor) = twice {
            let it = self
                .values
                .doubled(value, contributor)
                .expect("what comes twice comes from two sides of a combination");
            let trouble = Trouble::Twice {
                chunk: end.chunk,
                contributor,
                rank: it.rank,
                round: it.round,
                found: self.values.write_combination(it),
            };
            return Err(self.check.fault(end.rank, None, trouble));
        }
        if let Some(missing) = seen.iter().position(|seen| *seen == NEVER) {
            let found = format!("{}, without rank {missing}", self.values.write(value));
            return Err(self.wrong(end, expected(), found));
        }
        Ok(())
    }

    fn is_the_same(
        &self,
        end: &End,
        value: Value,
        other: Option<(u32, Value)>,
    ) -> Result<(), Box<Fault>> {
        let Some((other, theirs)) = other else { return Ok(()) };
        let trouble = Trouble::Order {
            chunk: end.chunk,
            written: end.written(),
            other,
            expected: self.values.write(theirs),
            found: self.values.write(value),
        };
        Err(self.check.fault(end.rank, None, trouble))
    }

    fn wrong(&self, end: &End, expected: String, found: String) -> Box<Fault> {
        let trouble = Trouble::Wrong { chunk: end.chunk, written: end.written(), expected, found };
        self.check.fault(end.rank, None, trouble)
    }

    fn all_have_heard(&self) -> Result<(), Box<Fault>> {
        let clocks = self.clocks.as_ref().expect("barriers are timed");
        let early = |rank| Some((rank, clocks.unheard(rank)?));
        match (0..self.check.world).find_map(early) {
            Some((rank, unheard)) => Err(self.check.fault(rank, None, Trouble::Early { unheard })),
            None => Ok(()),
        }
    }

    pub(super) fn in_flight(&self) -> Result<Option<u32>, Box<Fault>> {
        let Some(clocks) = &self.clocks else { return Ok(None) };
        let limit = self.check.in_flight;
        let (found, from, peer) = clocks.most_in_flight();
        if found > limit {
            return Err(self.check.fault(from, None, Trouble::InFlight { peer, found, limit }));
        }
        Ok(Some(found))
    }
}

/// A chunk of a result.
struct End {
    rank: u32,
    chunk: Chunks,
    written: u32,
}

impl End {
    /// The round that wrote it.
    fn written(&self) -> String {
        if self.written == NEVER { "none".to_owned() } else { self.written.to_string() }
    }
}
