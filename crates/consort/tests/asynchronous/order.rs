//! In which order calls are carried out.

use consort::{ReduceOp, Work};
use consort_testkit::{Case, conformance};

use crate::meet::{LARGE, late, meet, mine, sum};

conformance! { [shm tcp mixed in_process]
    blocking_calls_come_after_asynchronous_ones_that_were_made_before_them
    two_hundred_works_are_waited_for_in_reverse
    groups_do_not_wait_for_each_other_whatever_order_ranks_call_them_in
    a_blocking_call_of_one_group_leaves_those_of_another_on_their_way
    many_groups_are_on_their_way_at_once
    several_threads_can_wait_for_works_of_one_group
}

fn blocking_calls_come_after_asynchronous_ones_that_were_made_before_them(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let mut behind: Vec<Work<Vec<f32>>> = Vec::new();
        for round in 0..40_usize {
            // Calls in another order would not fit each other.
            let len = 1 + round * 97;
            behind.push(group.all_reduce_async(mine(&group, len), ReduceOp::Sum).unwrap());
            behind.push(group.all_reduce_async(vec![round as f32; 3], ReduceOp::Max).unwrap());
            if round % 3 == 0 {
                let mut product = mine(&group, len);
                group.all_reduce(&mut product, ReduceOp::Product).unwrap();
                assert_eq!(product, vec![6.0; len]);
                assert!(behind.iter().all(Work::is_done));
            }
        }
        for (index, work) in behind.into_iter().enumerate() {
            let round = index / 2;
            let result = work.wait().unwrap();
            match index % 2 {
                0 => assert_eq!(result, vec![sum(&group); 1 + round * 97]),
                _ => assert_eq!(result, vec![round as f32; 3]),
            }
        }
        assert_eq!(group.calls(), 94);
    });
}

fn two_hundred_works_are_waited_for_in_reverse(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let begin = |index: usize| {
            let buffer = vec![(index as f32) * (group.rank().as_f32() + 1.0); 1 + index % 7 * 1000];
            group.all_reduce_async(buffer, ReduceOp::Sum).unwrap()
        };
        let works: Vec<_> = (0..200).map(begin).collect();
        assert!(works.iter().map(Work::number).eq(1..=200));
        for (index, work) in works.into_iter().enumerate().rev() {
            assert_eq!(work.operation(), "all_reduce");
            assert_eq!(work.wait().unwrap(), vec![3.0 * index as f32; 1 + index % 7 * 1000]);
        }
    });
}

fn groups_do_not_wait_for_each_other_whatever_order_ranks_call_them_in(case: Case) {
    case.run(2, |ctx| {
        let one = meet(ctx);
        let other = one.split(Some(0), 0).unwrap().unwrap();
        let (first, second) = if ctx.rank() == 0 { (&one, &other) } else { (&other, &one) };
        for _ in 0..5 {
            let works = [first, second]
                .map(|group| group.all_reduce_async(mine(group, LARGE), ReduceOp::Sum).unwrap());
            // A wait with a limit leaves all to the progress thread.
            for work in works {
                let result = work.wait_until(late()).expect("there is time").unwrap();
                assert_eq!(result, vec![3.0; LARGE]);
            }
        }
        for _ in 0..5 {
            let begin =
                |group| consort::Group::all_reduce_async(group, mine(group, LARGE), ReduceOp::Sum);
            let (work, behind) = (begin(first).unwrap(), begin(second).unwrap());
            // One of them is carried out here, the other elsewhere.
            assert_eq!(work.wait().unwrap(), vec![3.0; LARGE]);
            assert_eq!(behind.wait().unwrap(), vec![3.0; LARGE]);
        }
    });
}

fn a_blocking_call_of_one_group_leaves_those_of_another_on_their_way(case: Case) {
    case.run(2, |ctx| {
        let one = meet(ctx);
        let other = one.split(Some(0), 0).unwrap().unwrap();
        let mut blocking = mine(&one, LARGE);
        if ctx.rank() == 0 {
            let work = other.all_reduce_async(mine(&other, LARGE), ReduceOp::Sum).unwrap();
            one.all_reduce(&mut blocking, ReduceOp::Sum).unwrap();
            assert_eq!(work.wait().unwrap(), vec![3.0; LARGE]);
        } else {
            let mut this = mine(&other, LARGE);
            other.all_reduce(&mut this, ReduceOp::Sum).unwrap();
            one.all_reduce(&mut blocking, ReduceOp::Sum).unwrap();
            assert_eq!(this, vec![3.0; LARGE]);
        }
        assert_eq!(blocking, vec![3.0; LARGE]);
    });
}

fn many_groups_are_on_their_way_at_once(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let groups: Vec<_> = (0..12).map(|_| group.split(Some(0), 0).unwrap().unwrap()).collect();
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.rotate_left(4 * ctx.rank() as usize);
        let mut works: Vec<_> = order
            .into_iter()
            .map(|at| (at, groups[at].all_reduce_async(mine(&group, 100_000), ReduceOp::Sum)))
            .collect();
        works.sort_by_key(|(at, _)| *at);
        for (_, work) in works {
            assert_eq!(work.unwrap().wait().unwrap(), vec![6.0; 100_000]);
        }
    });
}

fn several_threads_can_wait_for_works_of_one_group(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let works: Vec<_> = (0..32)
            .map(|index| group.all_reduce_async(vec![index; 50_000], ReduceOp::Sum).unwrap())
            .collect();
        std::thread::scope(|scope| {
            for (index, work) in (0..32_i64).zip(works) {
                scope.spawn(move || assert_eq!(work.wait().unwrap(), vec![2 * index; 50_000]));
            }
        });
        group.barrier().unwrap();
    });
}
