//! Worlds that are no power of two, for algorithms that need one.
//!
//! Of `n` ranks with `p` the largest power of two that is not above `n`, the first `2 (n − p)` fold
//! in pairs of neighbours: the odd one gives its data to the even one and waits for the result. The
//! `p` ranks that remain are *players*, numbered in order; each plays for one or two chunks, and a
//! range of players plays for a range of chunks.

/// How a world folds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    /// How many players there are: a power of two.
    pub(super) players: u32,
    /// How many pairs fold.
    pub(super) pairs: u32,
}

/// What a rank is in a folded world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Plays for itself alone.
    Single { player: u32 },
    /// Plays also for the rank after it.
    Lead { player: u32, follower: u32 },
    /// Lets the rank before it play.
    Follow { leader: u32 },
}

impl Fold {
    pub(super) fn new(world: u32) -> Self {
        let players = 1 << world.ilog2();
        Self { players, pairs: world - players }
    }

    pub(super) fn role(self, rank: u32) -> Role {
        if rank >= 2 * self.pairs {
            Role::Single { player: rank - self.pairs }
        } else if rank.is_multiple_of(2) {
            Role::Lead { player: rank / 2, follower: rank + 1 }
        } else {
            Role::Follow { leader: rank - 1 }
        }
    }

    /// The rank who is this player; also the first chunk that it plays for.
    pub(super) fn rank(self, player: u32) -> u32 {
        player + player.min(self.pairs)
    }

    /// How many rounds it takes to halve the players down to one.
    pub(super) fn halvings(self) -> u32 {
        self.players.ilog2()
    }
}
