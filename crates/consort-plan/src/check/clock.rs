//! What ranks must know of each other's progress: vector clocks of rounds.
//!
//! A rank's clock says of each rank how many rounds that one has certainly begun. It travels with
//! messages. A send of a round carries what its rank knew when the round began; what a receive
//! brings counts from the next round on.

/// The clocks of all ranks, and the messages that they allow to be under way.
pub(super) struct Clocks {
    world: usize,
    /// What a rank knows in its current round, and what it will know in the next.
    now: Vec<u32>,
    next: Vec<u32>,
    /// Of each pair of ranks: the rounds in which the receiver took messages.
    taken: Vec<Taken>,
    /// The most messages under way so far: how many, from whom, to whom.
    most: (u32, u32, u32),
}

#[derive(Clone, Default)]
struct Taken {
    rounds: Vec<u32>,
    /// How many of these the sender knows to be over.
    over: usize,
}

impl Clocks {
    pub(super) fn new(world: u32) -> Self {
        let world = world as usize;
        let clock = vec![0; world * world];
        let taken = vec![Taken::default(); world * world];
        Self { world, now: clock.clone(), next: clock, taken, most: (0, 0, 0) }
    }

    /// A rank begins its next round.
    pub(super) fn begin(&mut self, rank: u32) {
        let own = self.row(rank);
        self.next[own.start + rank as usize] += 1;
        self.now[own.clone()].copy_from_slice(&self.next[own]);
    }

    /// A rank receives, in this one of its rounds, what the sender sends in its current round.
    pub(super) fn receive(&mut self, from: u32, to: u32, round: u32) {
        let (sender, receiver) = (self.row(from), self.row(to));
        for (theirs, mine) in self.now[sender.clone()].iter().zip(&mut self.next[receiver]) {
            *mine = (*mine).max(*theirs);
        }
        let begun = self.now[sender.start + to as usize];
        let taken = &mut self.taken[sender.start + to as usize];
        while taken.rounds.get(taken.over).is_some_and(|round| round + 1 < begun) {
            taken.over += 1;
        }
        taken.rounds.push(round);
        let under_way = (taken.rounds.len() - taken.over) as u32;
        if under_way > self.most.0 {
            self.most = (under_way, from, to);
        }
    }

    /// Somebody of whom this rank has never heard.
    pub(super) fn unheard(&self, rank: u32) -> Option<u32> {
        let heard = &self.next[self.row(rank)];
        let unheard = |other: &usize| *other != rank as usize && heard[*other] == 0;
        (0..self.world).find(unheard).map(|other| other as u32)
    }

    /// The most messages that can be under way from one rank to another: how many, from whom, to
    /// whom.
    pub(super) fn most_in_flight(&self) -> (u32, u32, u32) {
        self.most
    }

    fn row(&self, rank: u32) -> std::ops::Range<usize> {
        let start = rank as usize * self.world;
        start..start + self.world
    }
}
