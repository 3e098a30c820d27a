//! Values that are not there yet.

use std::thread;

use consort::ReduceOp;
use consort::functional::{Array, Pending, all_gather, all_reduce, broadcast, permute};
use consort_testkit::{Case, conformance};

use crate::meet::{LARGE, array, meet, mine, sum, while_the_others_are_elsewhere};

conformance! { [shm tcp mixed in_process]
    a_call_goes_on_while_nobody_waits
    looking_at_a_value_in_another_way_does_not_wait
    clones_and_views_of_one_result_are_the_same_value
    any_number_of_threads_can_wait_for_a_value
    values_come_in_the_order_of_the_calls
    what_is_dropped_goes_on_for_the_others
    several_values_can_be_waited_for_as_one
}

/// Rank 0 waits only when rank 1 has its result.
fn a_call_goes_on_while_nobody_waits(case: Case) {
    let mut job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        let sums = all_reduce(&mine(&group, LARGE), ReduceOp::Sum, &group).unwrap();
        let swapped = permute(&mine(&group, LARGE), &[(0, 1), (1, 0)], &group).unwrap();
        if ctx.rank() == 0 {
            let _: bool = ctx.told("done elsewhere");
        }
        let other = 2.0 - group.rank().as_f32();
        assert_eq!(swapped.wait().unwrap(), vec![other; LARGE]);
        assert_eq!(sums.wait().unwrap(), sum(&group, LARGE));
        ctx.reach("done");
    });
    job.await_point(1, "done");
    job.tell("done elsewhere", &true);
    job.expect_all();
}

fn looking_at_a_value_in_another_way_does_not_wait(case: Case) {
    while_the_others_are_elsewhere(case, 2, |ctx, group| {
        let sums = all_reduce(&mine(group, 6), ReduceOp::Sum, group).unwrap();
        let table = sums.clone().map(|sums| Array::new([2, 3], sums));
        let first = table.clone().map(|table| Ok::<_, consort::Error>(table.numbers()[0]));
        let failed = sums.clone().map(|_| Err::<(), _>(consort::Error::Fake));
        let all = Pending::all([first.clone(), first.clone()]);
        if group.rank().get() == 0 {
            assert!(!sums.is_done() && !table.is_done() && !first.is_done() && !all.is_done());
            let shown = format!("{sums:?} {table:?} {first:?} {failed:?} {all:?}");
            assert_eq!(shown, ["Pending(on its way)"; 5].join(" "));
            ctx.reach("begun");
        }
        assert_eq!(all.wait().unwrap(), [3.0, 3.0]);
        assert_eq!(failed.wait().unwrap_err().to_string(), consort::Error::Fake.to_string());
        assert_eq!(table.get().unwrap().shape(), [2, 3]);
        assert_eq!(format!("{first:?}"), "Pending(3.0)");
        assert!(first.is_done() && sums.is_done());
        assert_eq!(sums.wait().unwrap(), sum(group, 6));
    });
}

fn clones_and_views_of_one_result_are_the_same_value(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let rows = array(&[1, 4], mine(&group, 4));
        let all = all_gather(&rows, 0, &group).unwrap();
        let column = |at: usize| {
            all.clone().map(move |all: Array<f32>| {
                Ok::<_, consort::Error>([all.numbers()[at], all.numbers()[4 + at]])
            })
        };
        let columns = Pending::all((0..4).map(column));
        let other = all.clone();
        assert_eq!(columns.wait().unwrap(), [[1.0, 2.0]; 4]);
        // One that is there stays where it is.
        assert!(std::ptr::eq(all.get().unwrap(), other.get().unwrap()));
        let place = all.get().unwrap().numbers().as_ptr();
        let copy = other.wait().unwrap();
        assert_ne!(copy.numbers().as_ptr(), place);
        let own = all.wait().unwrap();
        assert_eq!((own.numbers().as_ptr(), own), (place, copy));
    });
}

fn any_number_of_threads_can_wait_for_a_value(case: Case) {
    while_the_others_are_elsewhere(case, 2, |ctx, group| {
        let sums = all_reduce(&mine(group, LARGE), ReduceOp::Sum, group).unwrap();
        let swapped = permute(&mine(group, 10), &[(0, 1), (1, 0)], group).unwrap();
        let both = sums.clone().map({
            let swapped = swapped.clone();
            move |sums: Vec<f32>| Ok::<_, consort::Error>(sums[0] + swapped.get()?[0])
        });
        thread::scope(|scope| {
            for _ in 0..4 {
                let (sums, swapped, both) = (sums.clone(), swapped.clone(), both.clone());
                scope.spawn(move || {
                    assert_eq!(both.get().unwrap(), &(5.0 - group.rank().as_f32()));
                    assert_eq!(swapped.wait().unwrap().len(), 10);
                    assert_eq!(sums.wait().unwrap(), sum(group, LARGE));
                });
            }
            if group.rank().get() == 0 {
                assert!(!sums.is_done() && !both.is_done());
                ctx.reach("begun");
            }
        });
        assert!(sums.is_done() && swapped.is_done() && both.is_done());
    });
}

fn values_come_in_the_order_of_the_calls(case: Case) {
    while_the_others_are_elsewhere(case, 3, |ctx, group| {
        let me = group.rank().get();
        let begin = |round: u32| match round % 3 {
            0 => all_reduce(&vec![round; 1 + 50_000 * (round as usize % 2)], ReduceOp::Max, group),
            1 => broadcast(&vec![round; 3], round % 2, group),
            _ => all_gather(&vec![round], 0, group),
        };
        let pending: Vec<Pending<Vec<u32>>> = (0..30).map(|it| begin(it).unwrap()).collect();
        if me == 0 {
            assert!(!pending[0].is_done() && !pending[29].is_done());
            ctx.reach("begun");
        }
        while !pending[29].is_done() {
            // The later one is looked at first.
            for at in (1..30).rev() {
                assert!(!pending[at].is_done() || pending[at - 1].is_done(), "{at} was done first");
            }
            thread::yield_now();
        }
        for (round, value) in (0..).zip(pending) {
            assert_eq!(value.wait().unwrap()[0], round);
        }
    });
}

fn what_is_dropped_goes_on_for_the_others(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let begin = || all_reduce(&mine(&group, LARGE), ReduceOp::Sum, &group).unwrap();
        let calls = [begin(), begin(), begin()];
        let swapped = permute(&mine(&group, LARGE), &[(0, 1), (1, 0)], &group).unwrap();
        if ctx.rank() == 0 {
            let [one, two, three] = calls;
            // Also one that somebody looks at in another way.
            drop((one.clone().map(|_| Ok::<_, consort::Error>(())), one, two, swapped));
            assert_eq!(three.wait().unwrap(), sum(&group, LARGE));
        } else {
            calls.into_iter().for_each(|it| assert_eq!(it.wait().unwrap(), sum(&group, LARGE)));
            let right = if ctx.rank() == 1 { 1.0 } else { 0.0 };
            assert_eq!(swapped.wait().unwrap(), vec![right; LARGE]);
        }
        group.barrier().unwrap();
    });
}

fn several_values_can_be_waited_for_as_one(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let begin = |round: u32| all_reduce(&vec![round; 3], ReduceOp::Sum, &group).unwrap();
        let swap = [(0, 1), (1, 0)];
        let mut some: Vec<_> = (0..10).map(begin).collect();
        some.push(permute(&vec![group.rank().get()], &swap, &group).unwrap());
        some.push(Pending::ready(vec![77]));
        let all = Pending::all(some).wait().unwrap();
        for (round, value) in (0..10).zip(&all) {
            assert_eq!(value, &[2 * round; 3]);
        }
        assert_eq!(all[10..], [vec![1 - group.rank().get()], vec![77]]);
        assert!(Pending::<u8>::all([]).wait().unwrap().is_empty());
        // One of them is enough to spoil it.
        let failed = Pending::<_>::ready(1).map(|_| Err::<u32, _>(consort::Error::Fake));
        let all = Pending::all([Pending::ready(1), failed, Pending::ready(2)]);
        assert!(matches!(all.wait(), Err(consort::Error::Fake)));
    });
}
