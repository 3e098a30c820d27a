//! Values in children that are forked from a rank.

use std::thread;
use std::time::Duration;

use consort::ReduceOp;
use consort::functional::{Meta, Pending, all_reduce, permute, recv, send};
use consort::{Dtype, Group};
use consort_testkit::Ranks;

use crate::child::in_a_child;
use crate::meet::{block_on, meet, mine, sum};

#[test]
fn a_child_gets_no_value_that_its_parent_waits_for_and_the_parent_does() {
    let mut job = Ranks::new(2).start(|ctx| {
        let group = meet(ctx);
        let done = all_reduce(&mine(&group, 5), ReduceOp::Sum, &group).unwrap();
        done.get().unwrap();
        if ctx.rank() == 1 {
            let _: bool = ctx.told("begun");
        }
        let (sums, swapped) = begin(&group);
        if ctx.rank() == 0 {
            let found = in_a_child(|| {
                let mut errors = refusals(&sums);
                errors.extend(refusals(&swapped));
                errors
                    .push(all_reduce(&vec![1_u8], ReduceOp::Sum, &group).unwrap_err().to_string());
                errors.push(permute(&vec![1_u8], &[(0, 0)], &group).unwrap_err().to_string());
                errors.push(send(&vec![1_u8], 1, 0, &group).unwrap_err().to_string());
                let meta = Meta::new(Dtype::U8, [1]);
                errors.push(recv::<Vec<u8>>(meta, 1, 0, &group).unwrap_err().to_string());
                // What was there is there.
                assert_eq!(done.get().unwrap(), &sum(&group, 5));
                errors
            });
            assert_eq!(found.len(), 14, "{found:#?}");
            let from = "this process was forked from rank 0";
            assert!(found.iter().all(|error| error.starts_with(from)), "{found:#?}");
            ctx.reach("begun");
        }
        assert_eq!(sums.wait().unwrap(), sum(&group, 9));
        assert_eq!(swapped.wait().unwrap(), vec![2.0 - group.rank().as_f32(); 9]);
    });
    job.await_point(0, "begun");
    job.tell("begun", &true);
    job.expect_all();
}

#[test]
fn a_child_does_not_wait_for_a_thread_of_its_parent_that_waits() {
    let mut job = Ranks::new(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            let _: bool = ctx.told("begun");
        }
        let (sums, swapped) = begin(&group);
        if ctx.rank() == 0 {
            let waits = [sums.clone(), swapped.clone()]
                .map(|value| thread::spawn(move || value.wait().unwrap()));
            thread::sleep(Duration::from_millis(100));
            let found = in_a_child(|| [refusals(&sums), refusals(&swapped)].concat());
            let from = "this process was forked from rank 0";
            assert!(found.iter().all(|error| error.starts_with(from)), "{found:#?}");
            ctx.reach("begun");
            waits.into_iter().for_each(|it| assert_eq!(it.join().unwrap().len(), 9));
        }
        assert_eq!(sums.wait().unwrap(), sum(&group, 9));
        assert_eq!(swapped.wait().unwrap(), vec![2.0 - group.rank().as_f32(); 9]);
    });
    job.await_point(0, "begun");
    job.tell("begun", &true);
    job.expect_all();
}

fn begin(group: &Group) -> (Pending<Vec<f32>>, Pending<Vec<f32>>) {
    let sums = all_reduce(&mine(group, 9), ReduceOp::Sum, group).unwrap();
    (sums, permute(&mine(group, 9), &[(0, 1), (1, 0)], group).unwrap())
}

/// What a value says that is asked in every way.
fn refusals(value: &Pending<Vec<f32>>) -> Vec<String> {
    let mapped = value.clone().map(|it| Ok::<_, consort::Error>(it.len()));
    vec![
        value.get().unwrap_err().to_string(),
        mapped.get().unwrap_err().to_string(),
        value.clone().wait().unwrap_err().to_string(),
        block_on(value.clone()).unwrap_err().to_string(),
        block_on(mapped).unwrap_err().to_string(),
    ]
}
