//! Nobody leaves a barrier before everyone has come.

use std::thread;
use std::time::Duration;

use consort::{Deadline, Group};
use consort_testkit::{Case, conformance};
use rustix::time::{ClockId, clock_gettime};

use super::meet::{LIMIT, meet};

conformance! { [shm tcp mixed in_process mpi]
    hold_two_ranks_until_the_last_has_come
    hold_five_ranks_until_the_last_has_come
    hold_a_part_of_the_ranks_until_the_last_of_them_has_come
}

fn hold_two_ranks_until_the_last_has_come(case: Case) {
    case.run(2, |ctx| everyone_has_come(&meet(ctx)));
}

fn hold_five_ranks_until_the_last_has_come(case: Case) {
    case.run(5, |ctx| everyone_has_come(&meet(ctx)));
}

fn hold_a_part_of_the_ranks_until_the_last_of_them_has_come(case: Case) {
    case.run(4, |ctx| {
        let group = meet(ctx);
        if let Some(part) = group.new_group(&[3, 0, 1]).unwrap() {
            everyone_has_come(&part);
        }
        group.barrier().unwrap();
    });
}

/// Every rank notes when it came and when it left, by the clock that all of this machine have: nobody
/// left before the last had come. In every round another one is late.
fn everyone_has_come(group: &Group) {
    let (me, world) = (group.rank().index(), group.world());
    let meet_at = |name: &str, barrier: &dyn Fn()| {
        for late in 0..world {
            if late == me {
                thread::sleep(LATE);
            }
            let came = now();
            barrier();
            let mut times = vec![0; 2 * world];
            group.all_gather(&[came, now()], &mut times).unwrap();
            let last = times.iter().step_by(2).max().unwrap();
            for (rank, left) in times.iter().skip(1).step_by(2).enumerate() {
                assert!(left >= last, "{name}: rank {rank} left before rank {late} came");
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
    if let Ok(memory) = group.symmetric::<u32>(1) {
        meet_at("barrier of symmetric memory", &|| memory.barrier(3).unwrap());
    }
}

/// In nanoseconds.
fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Long enough for whoever does not wait to be seen.
const LATE: Duration = Duration::from_millis(10);
