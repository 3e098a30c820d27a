//! Works as futures, for any executor.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use consort::{ReduceOp, Work};
use consort_testkit::{Case, conformance};

use crate::meet::{alone, meet, mine};

conformance! { [shm tcp mixed in_process]
    a_work_can_be_awaited
    many_works_can_be_awaited_at_once
}

/// Runs one future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
#[should_panic(expected = "taken only once")]
fn nobody_waits_for_a_result_that_was_taken() {
    let mut work = alone().barrier_async().unwrap();
    block_on(std::future::poll_fn(|context| Pin::new(&mut work).poll(context))).unwrap();
    let _ = work.wait();
}

/// Polls all of them until all are ready.
struct All<F: Future>(Vec<(F, Option<F::Output>)>);

impl<F: Future + Unpin> Future for All<F>
where
    F::Output: Unpin,
{
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        for (future, result) in &mut self.0 {
            if result.is_none()
                && let Poll::Ready(ready) = Pin::new(future).poll(context)
            {
                *result = Some(ready);
            }
        }
        if self.0.iter().any(|(_, result)| result.is_none()) {
            return Poll::Pending;
        }
        Poll::Ready(self.0.iter_mut().map(|(_, result)| result.take().unwrap()).collect())
    }
}

fn a_work_can_be_awaited(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let results = block_on(async {
            let one = group.all_reduce_async(mine(&group, 1000), ReduceOp::Sum)?.await?;
            let (_, two) = group.all_gather_async(one, vec![0.0; 2000])?.await?;
            Ok::<_, consort::Error>(two)
        });
        assert_eq!(results.unwrap(), vec![3.0; 2000]);
    });
}

fn many_works_can_be_awaited_at_once(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let begin = |index| group.all_reduce_async(vec![index; 1000], ReduceOp::Sum).unwrap();
        let works: Vec<Work<Vec<i32>>> = (0..50).map(begin).collect();
        let all = block_on(All(works.into_iter().map(|work| (work, None)).collect()));
        for (index, result) in (0..50).zip(all) {
            assert_eq!(result.unwrap(), vec![3 * index; 1000]);
        }
    });
}

#[test]
#[should_panic(expected = "taken only once")]
fn a_work_that_was_ready_is_not_polled_again() {
    let group = alone();
    let mut work = group.barrier_async().unwrap();
    block_on(&mut work).unwrap();
    let _ = block_on(&mut work);
}
