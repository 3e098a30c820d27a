//! Nobody leaves a barrier before everyone has come.

use std::thread;
use std::time::Duration;

use consort::{Deadline, Group};
use consort_testkit::ranks;

use super::meet::{LIMIT, meet};

#[test]
fn hold_two_ranks_until_the_last_has_come() {
    ranks(2, |ctx| everyone_has_come(&meet(ctx)));
}

#[test]
fn hold_five_ranks_until_the_last_has_come() {
    ranks(5, |ctx| everyone_has_come(&meet(ctx)));
}

#[test]
fn hold_a_part_of_the_ranks_until_the_last_of_them_has_come() {
    ranks(4, |ctx| {
        let group = meet(ctx);
        if let Some(part) = group.new_group(&[3, 0, 1]).unwrap() {
            everyone_has_come(&part);
        }
        group.barrier().unwrap();
    });
}

/// Every rank writes down how often it has come, and finds afterwards that the others have come as
/// often. In every round another one is late.
fn everyone_has_come(group: &Group) {
    let (me, world) = (group.rank().get(), group.world() as u32);
    let book = group.symmetric::<u32>(1).unwrap();
    let mut round = 0;
    let mut meet_at = |name: &str, barrier: &dyn Fn()| {
        for late in 0..world {
            round += 1;
            if late == me {
                thread::sleep(LATE);
            }
            book.put(me, 0, &[round]).unwrap();
            barrier();
            for rank in 0..world {
                let mut come = [0];
                book.get(rank, 0, &mut come).unwrap();
                assert!(come[0] >= round, "{name}: rank {rank} had not come to round {round}");
            }
        }
    };
    meet_at("barrier", &|| group.barrier().unwrap());
    meet_at("barrier_async, carried out here", &|| group.barrier_async().unwrap().wait().unwrap());
    meet_at("barrier_async, carried out elsewhere", &|| {
        let work = group.barrier_async().unwrap();
        work.wait_until(Deadline::after(LIMIT)).expect("there is time").unwrap();
    });
    meet_at("barrier in a scope", &|| group.scope(|s| s.barrier()).unwrap());
    meet_at("barrier of symmetric memory", &|| book.barrier(3).unwrap());
}

/// Long enough for whoever does not wait to be seen.
const LATE: Duration = Duration::from_millis(10);
