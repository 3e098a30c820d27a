//! How the ranks of a test meet.

use std::time::Duration;

use consort::{Builder, Group, ReduceOp};
use consort_testkit::Context;

use super::invitation;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).init().unwrap()
}

/// A builder for this rank.
pub(crate) fn invited(ctx: &Context) -> Builder {
    invitation::invited(ctx).timeout(LONG)
}

/// The group moves and combines numbers, and all ranks get the same.
pub(crate) fn works(group: &Group) {
    let mut sum = vec![group.rank().get() + 1; 1000];
    group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
    let world = group.world() as u32;
    let expected = world * (world + 1) / 2;
    let wrong = sum.iter().position(|&sum| sum != expected);
    assert!(wrong.is_none(), "{wrong:?} of {:?}... is not {expected}", &sum[..4]);
}

/// Nobody waits that long for what goes wrong.
pub(crate) const LONG: Duration = Duration::from_secs(100);
/// What is heard of at once, even if others use the cores.
pub(crate) const SOON: Duration = Duration::from_secs(20);
