//! Groups that threads make at the same time, and groups one after the other.

use std::thread;
use std::time::Duration;

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

#[test]
fn more_groups_can_be_made_and_left_than_mpi_has_at_a_time() {
    let ranks = match ranks(2) {
        Ok(ranks) => ranks.limit(Duration::from_secs(110)),
        Err(reason) => return skip(reason),
    };
    let done = ranks.start(|ctx| {
        let world = invited(ctx, Transport::Auto).init().unwrap();
        for at in 0..MORE {
            let group = world.among(&at.to_string(), &[0, 1]).unwrap();
            let mut sum = [at];
            group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(sum, [2 * at]);
        }
    });
    done.expect_all();
}

const GROUPS: u32 = 40;
/// MPICH has 2,048 communicators at a time, and each group is two.
const MORE: u32 = 1100;
