//! Sizes in bytes at which a call begins to be carried out in another way.
//!
//! The engine's own tests compare these with what it does, so that no edge moves unnoticed. An edge
//! that is new there has to be added here, to the list in `sizes.rs` or to the test that is about
//! it.

/// How much fits beside a step's number. (`Board::INLINE`)
pub(crate) const INLINE: usize = 40;

/// How much a staging buffer holds, and a stage. (`Ground::BUFFER`, `Ground::STAGE`)
pub(crate) const CHUNK: usize = 128 << 10;

/// How many stages are used in turn. (`Ground::STAGES`)
pub(crate) const STAGES: usize = 3;

/// How much every rank combines for itself at a time, where it does.
pub(crate) const ONE_SHOT: usize = 32 << 10;

/// Up to how much every rank combines for itself numbers of so many bytes; in a world of 1 there is
/// no limit.
pub(crate) fn one_shot_limit(world: usize, element: usize) -> usize {
    match world {
        1 => 64 << 10,
        2 if element < 4 => 8 << 10,
        2 => 32 << 10,
        _ => (16 << 10) / world,
    }
}

/// What each rank has of a staging buffer that holds a part for each.
pub(crate) fn slot(world: usize) -> usize {
    (CHUNK / world) & !63
}

/// From how much on a part is read from where it lies in another rank's private memory, unless it is
/// so large that it goes past the caches.
pub(crate) const DIRECT: usize = 32 << 10;

/// From how much on an operand in symmetric memory is worked on where it is.
pub(crate) const WINDOW: usize = 4 << 10;

/// How much has to be written on all ranks together for it to go past the caches.
pub(crate) const PAST_CACHES: usize = 8 << 20;
