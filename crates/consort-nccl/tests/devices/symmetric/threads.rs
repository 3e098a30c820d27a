//! What goes on at the same time.

use std::thread;
use std::time::Duration;

use consort::device::calls;
use consort::symm::SymmetricMemory;
use consort::{Dtype, ReduceOp};
use consort_testkit::{Context, Job};

use super::{kept_apart, on_devices, places, read_own, source};
use crate::stage::{device, download, meet, upload};

near_and_apart! { who_waits_for_a_signal_holds_up_no_collective_calls(3, Job::expect_all); }

fn who_waits_for_a_signal_holds_up_no_collective_calls(ctx: &Context) {
    let group = meet(ctx);
    let (_, _, right, left) = places(&group);
    let (memory, device) = (on_devices(&group, 5000), device(&group));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            memory.wait_signal(left.into(), 4).unwrap();
            read_own(&memory, 17, 3)
        });
        for round in 1..=20 {
            let numbers = upload(&device, &[round; 1000]);
            let there = calls::all_reduce(numbers, Dtype::I64, ReduceOp::Sum);
            let sums = group.call_async(there).unwrap().wait().unwrap().output;
            assert_eq!(download::<i64>(&sums), [3 * round; 1000]);
            let mut here = [round];
            group.all_reduce(&mut here, ReduceOp::Sum).unwrap();
            assert_eq!(here, [3 * round]);
            // Nor any other signal or barrier of the same memory.
            memory.put_signal(right.into(), 5).unwrap();
            memory.wait_signal(left.into(), 5).unwrap();
            memory.barrier(0).unwrap();
        }
        assert!(!waiting.is_finished());
        group.barrier().unwrap();
        memory.put_with_signal(right.into(), 17, source(&[1, 2, 3]), 4).unwrap();
        assert_eq!(waiting.join().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn one_thread_puts_what_lets_another_go_on() {
    kept_apart(2)
        .start(|ctx| {
            let group = meet(ctx);
            let (me, other) = (group.rank().get(), 1 - group.rank().get());
            let memory = on_devices(&group, 100);
            thread::scope(|scope| {
                // Each waits for what the other sends only when it was told.
                scope.spawn(|| {
                    for turn in 0..50 {
                        memory.wait_signal(other.into(), 0).unwrap();
                        assert_eq!(read_own(&memory, 0, 1), [turn]);
                        memory.put_signal(other.into(), 1).unwrap();
                    }
                });
                scope.spawn(|| {
                    for turn in 0..50 {
                        memory.put_with_signal(other.into(), 0, source(&[turn]), 0).unwrap();
                        memory.wait_signal(other.into(), 1).unwrap();
                    }
                });
            });
            assert_eq!(read_own(&memory, 0, 1), [49], "on {me}");
        })
        .expect_all();
}

#[test]
fn two_memories_have_their_own_bytes_and_signals() {
    kept_apart(2)
        .start(|ctx| {
            let group = meet(ctx);
            let other = 1 - group.rank().get();
            let (one, two) = (on_devices(&group, 100), on_devices(&group, 100));
            two.put_with_signal(other.into(), 9, source(&[2; 9]), 0).unwrap();
            two.wait_signal(other.into(), 0).unwrap();
            let nothing = one.within(Duration::from_millis(50)).wait_signal(other.into(), 0);
            assert_eq!(nothing.unwrap_err().kind(), consort::ErrorKind::Deadline);
            group.barrier().unwrap();
            one.put_with_signal(other.into(), 9, source(&[1; 9]), 0).unwrap();
            one.wait_signal(other.into(), 0).unwrap();
            assert_eq!((read_own(&one, 9, 9), read_own(&two, 9, 9)), (vec![1; 9], vec![2; 9]));
            // They end apart, in any order.
            if other == 0 {
                drop((one, two))
            } else {
                drop((two, one))
            }
            group.barrier().unwrap();
        })
        .expect_all();
}
