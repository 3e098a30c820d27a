//! Records for tests.

use std::sync::LazyLock;

use consort::trace::{CallTrace, RankTrace};

use super::JobTrace;

/// A rank that has done nothing yet in the group of all.
pub(crate) fn rank(rank: u32, world: u32) -> RankTrace {
    let mut trace = TEMPLATE.clone();
    (trace.rank, trace.world) = (rank, world);
    let group = &mut trace.groups[0];
    (group.rank, group.world, group.members) = (rank, world, (0..world).collect());
    (group.calls, group.made, group.bytes) = (Vec::new(), 0, 0);
    trace
}

/// A barrier.
pub(crate) fn call(number: u64, began: u64, ended: Option<u64>) -> CallTrace {
    at(TEMPLATE.groups[0].calls[0], number, began, ended)
}

/// Another operation.
pub(crate) fn broadcast(number: u64, began: u64, ended: Option<u64>) -> CallTrace {
    at(TEMPLATE.groups[0].calls[1], number, began, ended)
}

/// A job whose ranks have these calls in the group of all, looked at a second after 1970 began.
pub(crate) fn job(calls: &[&[CallTrace]]) -> JobTrace {
    let world = calls.len() as u32;
    let ranks = (0..world).zip(calls).map(|(number, calls)| {
        let mut rank = rank(number, world);
        rank.groups[0].calls = calls.to_vec();
        rank.groups[0].made = calls.last().map_or(0, |call| call.number);
        rank
    });
    JobTrace::of(ranks.collect(), 1_000_000_000).unwrap()
}

fn at(mut call: CallTrace, number: u64, began: u64, ended: Option<u64>) -> CallTrace {
    (call.number, call.began, call.ended) = (number, began, ended);
    call
}

static TEMPLATE: LazyLock<RankTrace> = LazyLock::new(|| {
    let group = consort::Builder::new().rank(0).world(1).init().unwrap();
    group.barrier().unwrap();
    group.broadcast(&mut [0_f32; 4], 0).unwrap();
    group.trace().unwrap()
});
