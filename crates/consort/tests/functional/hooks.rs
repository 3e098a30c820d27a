//! Values that are used where a call has just been done.

use std::sync::mpsc::channel;
use std::thread;

use consort::ReduceOp;
use consort::functional::{Pending, all_reduce, permute};
use consort_testkit::{Case, conformance};

use crate::meet::{LIMIT, meet, mine, sum, while_the_others_are_elsewhere};

conformance! { [shm tcp mixed in_process]
    a_hook_that_waits_for_a_value_is_refused_and_the_value_comes
    a_hook_that_waits_for_a_value_that_others_wait_for_is_refused_and_the_value_comes
    a_hook_can_use_a_value_that_is_there
}

fn a_hook_that_waits_for_a_value_is_refused_and_the_value_comes(case: Case) {
    while_the_others_are_elsewhere(case, 2, |ctx, group| {
        let first = group.all_reduce_async(mine(group, 10), ReduceOp::Sum).unwrap();
        let sums = all_reduce(&mine(group, 20), ReduceOp::Sum, group).unwrap();
        if group.rank().get() == 0 {
            let (told, heard) = channel();
            let value = sums.clone();
            first.on_done(move |_| told.send(refusals(value)).unwrap());
            ctx.reach("begun");
            drop(first);
            let words = heard.recv_timeout(LIMIT).expect("the hook returns");
            assert!(words.iter().all(|it| it.contains("would wait for itself")), "{words:?}");
        }
        assert_eq!(sums.wait().unwrap(), sum(group, 20));
        group.barrier().unwrap();
    });
}

/// What a value says to a hook that asks for it in every way.
fn refusals(value: Pending<Vec<f32>>) -> Vec<String> {
    let mapped = value.clone().map(|sums| Ok::<_, consort::Error>(sums.len()));
    let all = Pending::all([Pending::ready(vec![]), value.clone()]);
    vec![
        value.get().unwrap_err().to_string(),
        mapped.get().unwrap_err().to_string(),
        all.get().unwrap_err().to_string(),
        value.wait().unwrap_err().to_string(),
        mapped.wait().unwrap_err().to_string(),
    ]
}

/// The hook is called by whoever waits for the second value, or while that one waits.
fn a_hook_that_waits_for_a_value_that_others_wait_for_is_refused_and_the_value_comes(case: Case) {
    while_the_others_are_elsewhere(case, 2, |ctx, group| {
        let group = &group.within(LIMIT);
        let first = group.all_reduce_async(mine(group, 10), ReduceOp::Sum).unwrap();
        let sums = all_reduce(&mine(group, 20), ReduceOp::Sum, group).unwrap();
        if group.rank().get() == 0 {
            let (told, heard) = channel();
            let value = sums.clone();
            first.on_done(move |_| {
                let _ = told.send(value.get().map(drop).map_err(|error| error.to_string()));
            });
            let (waiting, done) = channel();
            let value = sums.clone();
            // Not joined if it never ends.
            thread::spawn(move || waiting.send(value.wait()).unwrap());
            thread::sleep(std::time::Duration::from_millis(50));
            ctx.reach("begun");
            let found = heard.recv_timeout(LIMIT).expect("the hook returns");
            assert!(found.unwrap_err().contains("would wait for itself"));
            let found = done.recv_timeout(LIMIT).expect("the value comes").unwrap();
            assert_eq!(found, sum(group, 20));
        }
        assert_eq!(sums.wait().unwrap(), sum(group, 20));
        group.barrier().unwrap();
    });
}

fn a_hook_can_use_a_value_that_is_there(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let sums = all_reduce(&mine(&group, 20), ReduceOp::Sum, &group).unwrap();
        let work = group.barrier_async().unwrap();
        let (told, heard) = channel();
        let (value, next) = (sums.clone(), group.clone());
        work.on_done(move |_| {
            let swapped = permute(&vec![next.rank().get()], &[(0, 1), (1, 0)], &next).unwrap();
            let more = all_reduce(&vec![1_u8], ReduceOp::Sum, &next).unwrap();
            told.send((value.get().cloned(), swapped, more)).unwrap();
        });
        drop(work);
        let (found, swapped, more) = heard.recv_timeout(LIMIT).expect("the hook returns");
        assert_eq!(found.unwrap(), sum(&group, 20));
        assert_eq!(more.wait().unwrap(), [2]);
        assert_eq!(swapped.wait().unwrap(), [1 - ctx.rank()]);
    });
}
