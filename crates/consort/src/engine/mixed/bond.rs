//! What holds the ranks of a group together that are on several hosts, with several on each.
//!
//! They hear of the group's end over the wire, and those of a host also from their board, on which
//! they may be asleep. Whoever hears of it in one way says it in the other.

use std::time::Duration;

use consort_sys::board::{Alarm, End};

use crate::engine::company::{Company, Peers};
use crate::engine::wired::Route;
use crate::wire::Ending;

/// All ranks of the group, for one of them.
#[derive(Debug)]
pub(super) struct Bond {
    route: Route,
    /// Those on this host, by numbers of their own.
    here: Peers,
    /// Each rank's number on this host, if it is here.
    seats: Vec<Option<usize>>,
}

impl Bond {
    /// Of those whom the route leads to; these, in this order, are on this host.
    pub(super) fn new(route: Route, here: Peers, ranks: &[u32]) -> Self {
        let mut seats = vec![None; route.world()];
        for (seat, &rank) in ranks.iter().enumerate() {
            seats[rank as usize] = Some(seat);
        }
        Self { route, here, seats }
    }

    /// Says on the board what was heard over the wire.
    fn say_here(&self) {
        if let Some(ending) = self.route.heard() {
            self.here.halt(&pack(ending));
        }
    }
}

impl Company for Bond {
    fn me(&self) -> usize {
        self.route.me()
    }

    fn world(&self) -> usize {
        self.route.world()
    }

    fn leave(&self) {
        self.route.leave();
    }

    fn has_left(&self, rank: usize) -> bool {
        let Some(seat) = self.seats[rank] else { return self.route.has_left(rank) };
        // What it has sent may be on the wire, if there is one between the two.
        let is_wired = self.route.wire().is_connected(self.route.in_world(rank));
        self.here.has_left(seat) && (!is_wired || self.route.has_left(rank))
    }

    fn is_leaving(&self, rank: usize) -> bool {
        match self.seats[rank] {
            Some(seat) => self.here.has_left(seat),
            None => self.route.is_leaving(rank),
        }
    }

    fn is_dead(&self, rank: usize) -> bool {
        self.route.is_dead(rank)
    }

    fn is_out_of_reach(&self, rank: usize) -> bool {
        self.route.is_out_of_reach(rank)
    }

    fn last_call(&self, rank: usize) -> Option<(u64, [u64; 2])> {
        self.here.last_call(self.seats[rank]?)
    }

    fn mourn(&self, rank: usize) {
        self.route.mourn(rank);
    }

    fn mourned(&self, by: usize) -> Option<usize> {
        self.route.mourned(by)
    }

    fn say_whom(&self, rank: usize) {
        self.route.say_whom(rank);
    }

    fn whom(&self, rank: usize) -> Option<usize> {
        self.route.whom(rank)
    }

    fn halt(&self, verdict: &[u8]) {
        self.route.halt(verdict);
        self.say_here();
    }

    fn is_halted(&self) -> bool {
        match (self.route.is_halted(), self.here.is_halted()) {
            (true, false) => {
                self.say_here();
                true
            }
            (over_the_wire, here) => over_the_wire || here,
        }
    }

    fn end(&self) -> Option<End> {
        if !self.route.is_halted()
            && let Some(said) = self.here.end()
        {
            let End::By { rank, verdict } = said else { return Some(said) };
            match unpack(&verdict) {
                Some(ending) => self.route.hear(ending),
                None => return Some(End::Nonsense { word: rank as u32 }),
            }
        }
        self.route.end()
    }

    fn listen(&self) {
        self.route.wire().doze(|| false, Duration::ZERO);
        self.route.listen();
    }
}

/// Who has ended a group, and why, in as many bytes as the board has for that.
fn pack(Ending { by, verdict, is_settled }: &Ending) -> Vec<u8> {
    // What comes over the wire may be longer than anything that this version says.
    let verdict = &verdict[..verdict.len().min(Alarm::VERDICT - HEAD)];
    let len = (verdict.len() as u16).to_le_bytes();
    [&by.to_le_bytes()[..], &len, &[u8::from(*is_settled)], verdict].concat()
}

/// What [`pack`] was given; `None` if it was not.
fn unpack(packed: &[u8]) -> Option<Ending> {
    let (by, rest) = packed.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (&settled, rest) = rest.split_first()?;
    let verdict = rest.get(..usize::from(u16::from_le_bytes(*len)))?.to_vec();
    Some(Ending { by: u32::from_le_bytes(*by), verdict, is_settled: settled == 1 })
}

const HEAD: usize = size_of::<u32>() + size_of::<u16>() + size_of::<u8>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_for_the_board_comes_out_with_zeroes_after_it() {
        for len in [0, 1, 300, Alarm::VERDICT - HEAD] {
            let verdict: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let ending = Ending { by: 7, verdict, is_settled: len > 1 };
            let mut packed = pack(&ending);
            assert!(packed.len() <= Alarm::VERDICT);
            packed.resize(Alarm::VERDICT, 0);
            assert_eq!(unpack(&packed), Some(ending));
        }
    }

    #[test]
    fn a_verdict_that_is_too_long_is_cut() {
        let packed = pack(&Ending::found(1, vec![9; 2 * Alarm::VERDICT]));
        assert_eq!(packed.len(), Alarm::VERDICT);
        assert!(unpack(&packed).is_some_and(|ending| ending.by == 1));
    }

    #[test]
    fn what_somebody_has_scribbled_is_not_read_beyond_its_end() {
        assert_eq!(unpack(&[1, 2, 3]), None);
        assert_eq!(unpack(&[0, 0, 0, 0, 5, 0, 0, 1, 2]), None);
    }
}
