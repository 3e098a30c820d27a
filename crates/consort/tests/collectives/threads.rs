//! Groups used by many threads, and by more ranks than there are cores.

use std::sync::Mutex;
use std::thread;

use consort::{Group, ReduceOp};
use consort_testkit::{Case, conformance};

use super::meet::{LIMIT, meet};
use super::works::works;

conformance! { [shm tcp in_process]
    thousands_of_small_calls_of_8_ranks_come_to_an_end
}
conformance! { [shm tcp mixed in_process mpi]
    each_with_a_group_of_its_own_work_at_the_same_time
    that_share_a_group_of_one_rank_are_served_one_after_the_other
    that_share_a_group_may_call_it_in_turn
}

fn each_with_a_group_of_its_own_work_at_the_same_time(case: Case) {
    case.run(2, |ctx| {
        let world = meet(ctx);
        let groups: Vec<Group> =
            (0..4).map(|_| world.split(Some(0), 0).unwrap().unwrap()).collect();
        thread::scope(|scope| {
            for group in &groups {
                scope.spawn(|| (0..10).for_each(|_| works(group)));
            }
            (0..10).for_each(|_| works(&world));
        });
    });
}

fn that_share_a_group_of_one_rank_are_served_one_after_the_other(case: Case) {
    case.run(1, |ctx| {
        let group = meet(ctx);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20).for_each(|_| works(&group)));
            }
        });
    });
}

fn that_share_a_group_may_call_it_in_turn(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        // The order is the same on all ranks: thread 0, 1, 2, 0, 1, 2 and so on.
        let next = Mutex::new(0);
        thread::scope(|scope| {
            for me in 0..3_u32 {
                let (group, next) = (group.clone(), &next);
                scope.spawn(move || {
                    let mut done = 0;
                    while done < 50 {
                        let mut turn = next.lock().unwrap();
                        if *turn % 3 == me {
                            let mut sum = [me];
                            group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
                            assert_eq!(sum, [2 * me]);
                            *turn += 1;
                            done += 1;
                        } else {
                            drop(turn);
                            thread::yield_now();
                        }
                    }
                });
            }
        });
    });
}

fn thousands_of_small_calls_of_8_ranks_come_to_an_end(case: Case) {
    let job = case.of(8).limit(LIMIT).start(|ctx| {
        let group = meet(ctx);
        for round in 0..2000_u32 {
            let mut sum = [round; 2];
            group.all_reduce(&mut sum, ReduceOp::Sum).unwrap();
            assert_eq!(sum, [8 * round; 2]);
            if round.is_multiple_of(4) {
                group.barrier().unwrap();
            }
        }
        group.calls()
    });
    assert_eq!(job.expect_all(), [2500; 8]);
}
