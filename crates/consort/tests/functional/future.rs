//! Pending values as futures, for any executor.

use std::pin::Pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::thread;

use consort::ReduceOp;
use consort::functional::{Pending, all_gather, all_reduce, permute};
use consort_testkit::{Case, conformance};

use crate::meet::{
    LARGE, LIMIT, block_on, block_on_and_tell, meet, mine, sum, while_the_others_are_elsewhere,
};

conformance! { [shm tcp mixed in_process]
    a_value_can_be_awaited
    many_values_can_be_awaited_at_once
    a_value_can_be_awaited_by_several_tasks
    a_value_can_be_awaited_while_a_thread_waits_for_it
}

fn a_value_can_be_awaited(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let found = block_on(async {
            let sums = all_reduce(&mine(&group, 1000), ReduceOp::Sum, &group)?.await?;
            let all = all_gather(&sums, 0, &group)?;
            let both = (all.clone().await?, all.map(|all| Ok::<_, consort::Error>(all.len())));
            let swapped = permute(&mine(&group, LARGE), &[(0, 1), (1, 0)], &group)?.await?;
            Ok::<_, consort::Error>((both.0, both.1.await?, swapped))
        });
        let (all, len, swapped) = found.unwrap();
        assert_eq!((all, len), (vec![3.0; 2000], 2000));
        assert_eq!(swapped, vec![2.0 - group.rank().as_f32(); LARGE]);
        // Again and again, unlike other futures.
        let mut value = all_reduce(&vec![1_u8], ReduceOp::Sum, &group).unwrap();
        for _ in 0..3 {
            assert_eq!(block_on(&mut value).unwrap(), [2]);
        }
    });
}

/// Polls all of them until all are ready.
struct Together<T>(Vec<(Pending<T>, Option<T>)>);

impl<T: Clone + Unpin> Future for Together<T> {
    type Output = Vec<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<T>> {
        for (value, found) in &mut self.0 {
            if found.is_none()
                && let Poll::Ready(ready) = Pin::new(value).poll(context)
            {
                *found = Some(ready.unwrap());
            }
        }
        match self.0.iter().any(|(_, found)| found.is_none()) {
            true => Poll::Pending,
            false => Poll::Ready(self.0.iter().filter_map(|(_, found)| found.clone()).collect()),
        }
    }
}

fn many_values_can_be_awaited_at_once(case: Case) {
    while_the_others_are_elsewhere(case, 3, |ctx, group| {
        let begin = |index: u32| all_reduce(&vec![index; 1000], ReduceOp::Sum, group).unwrap();
        let values: Vec<_> = (0..50).map(begin).collect();
        let sums = Pending::all(values[..10].to_vec())
            .map(|all| Ok::<_, consort::Error>(vec![all.iter().map(|it| it[0]).sum::<u32>()]));
        let all = values.into_iter().chain([sums]).map(|value| (value, None)).collect();
        let all = block_on_and_tell(Together(all), || {
            if group.rank().get() == 0 {
                ctx.reach("begun");
            }
        });
        for (index, found) in (0..50).zip(&all) {
            assert_eq!(found, &vec![3 * index; 1000]);
        }
        assert_eq!(all[50], [3 * 45]);
    });
}

fn a_value_can_be_awaited_by_several_tasks(case: Case) {
    while_the_others_are_elsewhere(case, 2, |ctx, group| {
        let is_first = group.rank().get() == 0;
        let sums = all_reduce(&mine(group, LARGE), ReduceOp::Sum, group).unwrap();
        let (told, heard) = channel();
        thread::scope(|scope| {
            let tasks = [0, 1, 2, 3].map(|index| {
                let (sums, told) = (sums.clone(), told.clone());
                scope.spawn(move || {
                    let tell = || told.send(()).unwrap();
                    match index % 2 {
                        0 => block_on_and_tell(sums, tell).unwrap()[0],
                        _ => {
                            let first = sums.map(|sums| Ok::<_, consort::Error>(sums[0]));
                            block_on_and_tell(first, tell).unwrap()
                        }
                    }
                })
            });
            if is_first {
                (0..4).for_each(|_| heard.recv_timeout(LIMIT).expect("it is polled"));
                ctx.reach("begun");
            }
            tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), 3.0));
        });
        assert_eq!(sums.wait().unwrap(), sum(group, LARGE));
    });
}

/// Whoever comes first, the one wakes the other.
fn a_value_can_be_awaited_while_a_thread_waits_for_it(case: Case) {
    while_the_others_are_elsewhere(case, 2, |ctx, group| {
        let is_first = group.rank().get() == 0;
        let begin = || all_reduce(&mine(group, LARGE), ReduceOp::Sum, group).unwrap();
        let (polled_first, waited_first) = (begin(), begin());
        let swapped = permute(&mine(group, LARGE), &[(0, 1), (1, 0)], group).unwrap();
        let (told, heard) = channel();
        thread::scope(|scope| {
            let task = |value: &Pending<Vec<f32>>| {
                let (value, told) = (value.clone(), told.clone());
                scope.spawn(move || {
                    let found = block_on_and_tell(value, || told.send(()).unwrap()).unwrap();
                    assert_eq!(found.len(), LARGE);
                })
            };
            let waits = |value: &Pending<Vec<f32>>| {
                let value = value.clone();
                scope.spawn(move || assert_eq!(value.get().unwrap().len(), LARGE))
            };
            task(&polled_first);
            waits(&waited_first);
            waits(&swapped);
            if is_first {
                heard.recv_timeout(LIMIT).expect("it is polled");
                thread::sleep(SHORT);
            }
            waits(&polled_first);
            task(&waited_first);
            task(&swapped);
            if is_first {
                (0..2).for_each(|_| heard.recv_timeout(LIMIT).expect("it is polled"));
                thread::sleep(SHORT);
                ctx.reach("begun");
            }
        });
        assert_eq!(polled_first.wait().unwrap(), sum(group, LARGE));
        assert_eq!(waited_first.wait().unwrap(), sum(group, LARGE));
    });
}

/// Long enough for a thread to begin to wait; nothing goes wrong if it is not.
const SHORT: std::time::Duration = std::time::Duration::from_millis(20);
