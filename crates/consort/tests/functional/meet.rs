//! How the ranks of a test meet, and what they have then.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use consort::functional::Array;
use consort::{Builder, Group};
use consort_testkit::{Case, Context};

use super::invitation::invited;

/// The group of all ranks of a job.
pub(crate) fn meet(ctx: &Context) -> Group {
    invited(ctx).timeout(LONG).init().unwrap()
}

/// A group of one.
pub(crate) fn alone() -> Group {
    Builder::new().rank(0).world(1).init().unwrap()
}

/// Runs ranks of which all but rank 0 are elsewhere until that one has come to the point "begun".
pub(crate) fn while_the_others_are_elsewhere(
    case: Case,
    world: u32,
    body: impl Fn(&Context, &Group) + Sync,
) {
    let mut job = case.of(world).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() != 0 {
            let _: bool = ctx.told("begun");
        }
        body(ctx, &group);
    });
    job.await_point(0, "begun");
    job.tell("begun", &true);
    job.expect_all();
}

/// What a rank has before a call.
pub(crate) fn mine(group: &Group, len: usize) -> Vec<f32> {
    vec![group.rank().as_f32() + 1.0; len]
}

/// The sum of what all ranks have.
pub(crate) fn sum(group: &Group, len: usize) -> Vec<f32> {
    let world = group.world() as f32;
    vec![world * (world + 1.0) / 2.0; len]
}

/// Numbers of a shape, of which each rank and each place has its own.
pub(crate) fn coded(rank: usize, shape: &[usize]) -> Array<i64> {
    let count = shape.iter().product::<usize>() as i64;
    array(shape, (0..count).map(|at| at * 7 + rank as i64 * 1_000_003).collect())
}

pub(crate) fn array<T: consort::Element>(shape: &[usize], numbers: Vec<T>) -> Array<T> {
    Array::new(shape, numbers).unwrap()
}

/// Runs one future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    block_on_and_tell(future, || ())
}

/// The same, and tells when the future was not ready at first.
pub(crate) fn block_on_and_tell<T>(
    future: impl Future<Output = T>,
    is_pending: impl FnOnce(),
) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut is_pending) = (pin!(future), Some(is_pending));
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => {
                if let Some(tell) = is_pending.take() {
                    tell();
                }
                thread::park();
            }
        }
    }
}

/// Longer than anything takes, even if others use the cores.
pub(crate) const LONG: Duration = Duration::from_secs(50);
/// As long as a test waits for what should be there at once.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// Not long.
pub(crate) const SOON: Duration = Duration::from_millis(200);
/// More than all staging buffers of a rank hold, so that no rank gets through on its own.
pub(crate) const LARGE: usize = 1 << 19;
