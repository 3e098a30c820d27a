//! Groups that threads make at the same time.

use std::thread;

use consort::{ReduceOp, Transport};
use consort_testkit::skip;

use super::{invited, ranks};

#[test]
fn many_groups_that_threads_make_at_once_in_any_order_are_kept_apart() {
    let ranks = match ranks(3) {
        Ok(ranks) => ranks,
        Err(reason) => return skip(reason),
    };
    let done = ranks.start(|ctx| {
        let world = invited(ctx, Transport::Auto).init().unwrap();
        let make = |at: u32| {
            // Every two have a third of them, and ranks have other numbers there.
            let members: Vec<u32> =
                (0..3).map(|rank| (rank + at) % 3).skip(at as usize % 2).collect();
            if !members.contains(&ctx.rank()) {
                return;
            }
            let group = world.among(&at.to_string(), &members).unwrap();
            let mut sum = vec![at * 10 + ctx.rank(); 1 + at as usize * 7];
            let expected: u32 = members.iter().map(|rank| at * 10 + rank).sum();
            group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert!(sum.iter().all(|&it| it == expected), "group {at}: {sum:?} for {expected}");
        };
        thread::scope(|scope| {
            // Each rank begins elsewhere.
            for at in (0..GROUPS).map(|at| (at + 7 * ctx.rank()) % GROUPS) {
                scope.spawn(move || make(at));
            }
        });
        world.barrier().unwrap();
    });
    done.expect_all();
}

const GROUPS: u32 = 40;
