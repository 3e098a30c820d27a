//! Ranks counted from the root, so that every tree and ring can begin at 0.

/// A world seen from its root, which is 0 here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turned {
    pub(super) world: u32,
    pub(super) root: u32,
}

impl Turned {
    /// How far a rank is from the root, counted upwards.
    pub(super) fn place(self, rank: u32) -> u32 {
        (rank + self.world - self.root) % self.world
    }

    /// The rank that is so far from the root.
    pub(super) fn rank(self, place: u32) -> u32 {
        (place + self.root) % self.world
    }
}

/// A range of chunks that goes on at 0 after the last one, as at most two ranges (start, length).
pub(super) fn around(start: u32, len: u32, world: u32) -> impl Iterator<Item = (u32, u32)> {
    let start = start % world;
    let first = len.min(world - start);
    [(start, first), (0, len - first)].into_iter().filter(|(_, len)| *len > 0)
}
