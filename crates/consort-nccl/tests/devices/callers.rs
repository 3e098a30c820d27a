//! Calls that several threads of a rank make at once.

use std::sync::Barrier;
use std::thread;

use crate::stage::{LONG, meet, with_devices};
use crate::sums::{next, sum};

#[test]
fn threads_that_call_at_once_hold_up_nobody() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            let (hasty, together) = (group.within(LONG / 4), Barrier::new(THREADS));
            // All make the same call, so it does not matter whose comes first on which rank.
            let call_often = || {
                let calls: Vec<_> = (0..CALLS).map(|_| sum(&group, &[1.0; 8])).collect();
                together.wait();
                let works: Vec<_> =
                    calls.into_iter().map(|call| hasty.call_async(call).unwrap()).collect();
                works.into_iter().for_each(|work| drop(work.wait().unwrap()));
            };
            for _ in 0..ROUNDS {
                thread::scope(|scope| {
                    (0..THREADS).for_each(|_| drop(scope.spawn(call_often)));
                });
            }
        })
        .expect_all();
}

const ROUNDS: usize = 20;
const THREADS: usize = 4;
/// How many each makes.
const CALLS: usize = 50;
