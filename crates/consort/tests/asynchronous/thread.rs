//! The thread that carries out asynchronous calls.

use std::fs;
use std::time::Duration;

use consort::ReduceOp;
use consort_testkit::{Case, await_threads, conformance, threads_called};

use crate::meet::{LARGE, meet, mine};

conformance! { [shm tcp mixed]
    there_is_one_thread_for_all_groups_and_none_without_asynchronous_calls
    a_group_that_is_dropped_with_calls_on_their_way_is_left_when_they_are_done
    a_thread_that_has_nothing_to_do_sleeps
}

fn there_is_one_thread_for_all_groups_and_none_without_asynchronous_calls(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let groups: Vec<_> = (0..3).map(|_| group.split(Some(0), 0).unwrap().unwrap()).collect();
        group.barrier().unwrap();
        assert_eq!(threads_called(NAME), 0);
        for _ in 0..3 {
            for group in &groups {
                group.all_reduce_async(mine(group, 100), ReduceOp::Sum).unwrap().wait().unwrap();
            }
            await_threads(NAME, 1);
        }
        group.barrier().unwrap();
        drop(groups);
        await_threads(NAME, 0);

        // It comes again when it is needed.
        group.all_reduce_async(mine(&group, 100), ReduceOp::Sum).unwrap().wait().unwrap();
        await_threads(NAME, 1);
        drop(group);
        await_threads(NAME, 0);
    });
}

fn a_group_that_is_dropped_with_calls_on_their_way_is_left_when_they_are_done(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let work = group.all_reduce_async(mine(&group, LARGE), ReduceOp::Sum).unwrap();
        drop(group);
        assert_eq!(work.wait().unwrap(), vec![3.0; LARGE]);
        await_threads(NAME, 0);
    });
}

fn a_thread_that_has_nothing_to_do_sleeps(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        group.all_reduce_async(mine(&group, 100), ReduceOp::Sum).unwrap().wait().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let before = processor_time();
        std::thread::sleep(Duration::from_millis(300));
        assert!(processor_time() - before <= 1, "in hundredths of a second");
        group.barrier().unwrap();
    });
}

/// How long the thread has computed, in the system's units of a hundredth of a second.
fn processor_time() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let stat = stats.into_iter().find(|stat| stat.contains("(consort)")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// The thread for asynchronous calls.
const NAME: &str = "consort";
