//! How the ranks of a test meet.

use std::time::Duration;

use consort::{Builder, Deadline, Group};
use consort_testkit::Context;

use super::invitation::invited;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).timeout(LONG).init().unwrap()
}

/// A group of one.
pub(crate) fn alone() -> Group {
    Builder::new().rank(0).world(1).init().unwrap()
}

/// What every rank has before a call.
pub(crate) fn mine(group: &Group, len: usize) -> Vec<f32> {
    vec![group.rank().as_f32() + 1.0; len]
}

/// Numbers of which each rank and each place has its own, and whose sums are exact.
pub(crate) fn coded(rank: usize, len: usize) -> Vec<f32> {
    (0..len).map(|at| code(rank, at)).collect()
}

/// The number of a rank at a place.
pub(crate) fn code(rank: usize, at: usize) -> f32 {
    ((at * 7 + rank * 1_009) % 65_521) as f32
}

/// The sum of what all ranks have.
pub(crate) fn sum(group: &Group) -> f32 {
    let world = group.world() as f32;
    world * (world + 1.0) / 2.0
}

pub(crate) fn late() -> Deadline {
    Deadline::after(LONG)
}

/// Longer than anything takes, even if others use the cores.
pub(crate) const LONG: Duration = Duration::from_secs(50);
/// More than all staging buffers of a rank hold, so that no rank gets through on its own.
pub(crate) const LARGE: usize = 1 << 19;
