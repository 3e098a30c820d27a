//! What is called when a call is done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use consort::{Buffer, Completion, Deadline, ErrorKind, Input, ReduceOp, Work};
use consort_testkit::{Case, conformance};

use crate::meet::{alone, late, meet, mine};

conformance! { [shm tcp mixed]
    a_hook_hears_of_a_failure
}
conformance! { [shm tcp mixed in_process]
    a_hook_hears_what_was_done_before_anybody_else
    a_hook_can_begin_another_call
    a_hook_that_blocks_is_refused_at_once_and_the_group_goes_on
    a_hook_of_one_group_that_waits_for_calls_of_another_on_the_same_thread_is_refused
}

/// Numbers that no other thread gets before they are let go: a call with them is not done before its
/// hook is there.
struct Gated {
    numbers: Vec<f32>,
    maker: ThreadId,
    gate: Mutex<Receiver<()>>,
}

impl Gated {
    /// They are let go with the sender.
    fn new(numbers: Vec<f32>) -> (Self, Sender<()>) {
        let (open, gate) = channel();
        (Self { numbers, maker: thread::current().id(), gate: Mutex::new(gate) }, open)
    }
}

impl Input for Gated {
    type Element = f32;

    fn elements(&self) -> &[f32] {
        if thread::current().id() != self.maker {
            let _ = self.gate.lock().unwrap().recv();
        }
        &self.numbers
    }
}

impl Buffer for Gated {
    fn elements_mut(&mut self) -> &mut [f32] {
        self.elements();
        &mut self.numbers
    }
}

fn a_hook_hears_what_was_done_before_anybody_else(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let before = Instant::now();
        let (told, heard) = channel();
        group.barrier().unwrap();
        let begin = || group.all_reduce_async(mine(&group, 100), ReduceOp::Sum).unwrap();
        let works: Vec<_> = (0..10).map(|_| begin()).collect();
        for work in &works {
            let told = told.clone();
            work.on_done(move |completion: &Completion| told.send(completion.clone()).unwrap());
        }
        works.into_iter().for_each(|work| drop(work.wait().unwrap()));
        let completions: Vec<Completion> = heard.try_iter().collect();
        assert!(completions.iter().map(|it| it.number).eq(2..=11));
        for it in completions {
            assert_eq!((it.operation, it.error), ("all_reduce", None));
            assert!(before <= it.called && it.called <= it.started && it.started <= it.finished);
        }
    });
}

fn a_hook_hears_of_a_failure(case: Case) {
    let mut job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            ctx.reach("here");
            let _: bool = ctx.told("never");
        }
        let work = group.all_reduce_async(mine(&group, 100), ReduceOp::Sum).unwrap();
        let (told, heard) = channel();
        work.on_done(move |completion| told.send(completion.error.clone()).unwrap());
        drop(work);
        ctx.reach("here");
        heard.recv().unwrap().unwrap()
    });
    job.await_point(0, "here");
    job.await_point(1, "here");
    job.kill(1);
    let outcomes = job.wait();
    let consort_testkit::Outcome::Done(error) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(error.contains("rank 1 is gone"), "{error}");
}

#[test]
fn a_hook_that_comes_late_is_called_at_once() {
    let group = alone();
    let work = group.barrier_async().unwrap();
    group.barrier().unwrap();
    let (told, heard) = channel();
    work.on_done(move |completion| told.send(completion.number).unwrap());
    assert_eq!(heard.try_recv(), Ok(1));
    work.wait().unwrap();
}

#[test]
fn a_hook_that_panics_harms_nobody() {
    let group = alone();
    let (told, heard) = channel();
    let work = group.barrier_async().unwrap();
    work.on_done(|_| panic!("on purpose"));
    work.on_done(move |_| told.send(()).unwrap());
    work.wait_until(late()).expect("there is time").unwrap();
    assert_eq!(heard.try_recv(), Ok(()));
    group.barrier_async().unwrap().wait_until(late()).expect("there is time").unwrap();
}

fn a_hook_can_begin_another_call(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (told, heard) = channel();
        let next = group.clone();
        let work = group.all_reduce_async(mine(&group, 10), ReduceOp::Sum).unwrap();
        work.on_done(move |_| {
            told.send(next.all_reduce_async(mine(&next, 20), ReduceOp::Sum).unwrap()).unwrap();
        });
        assert_eq!(work.wait_until(late()).expect("there is time").unwrap(), vec![3.0; 10]);
        let work = heard.recv().unwrap();
        assert_eq!(work.number(), 2);
        assert_eq!(work.wait_until(late()).expect("there is time").unwrap(), vec![3.0; 20]);
    });
}

/// It would wait for the thread that it is called by.
fn a_hook_that_blocks_is_refused_at_once_and_the_group_goes_on(case: Case) {
    case.run(2, |ctx| {
        let world = meet(ctx);
        for waits in [true, false] {
            let (told, heard) = channel();
            let group = world.clone();
            let (numbers, open) = Gated::new(mine(&world, 10));
            let work = world.all_reduce_async(numbers, ReduceOp::Sum).unwrap();
            work.on_done(move |_| {
                let begun = Instant::now();
                let mut refused = vec![
                    group.barrier().unwrap_err(),
                    group.all_reduce(&mut [1.0_f32; 8], ReduceOp::Sum).unwrap_err(),
                    group.scope(|scope| scope.barrier()).unwrap_err(),
                    group.split(Some(0), 0).unwrap_err(),
                ];
                refused.retain(|error| !error.to_string().contains("would wait for itself"));
                let next = group.barrier_async().unwrap();
                let next = next.wait_until(Deadline::never()).unwrap_err();
                let waiting = catch_unwind(AssertUnwindSafe(|| next.wait())).unwrap_err();
                let waiting = waiting.downcast_ref::<String>().cloned().unwrap();
                told.send((begun.elapsed(), refused, waiting)).unwrap();
            });
            drop(open);
            // By this thread, or by the one for all calls.
            if waits {
                drop(work.wait().unwrap())
            } else {
                drop(work)
            }
            let (took, others, waiting) = heard.recv_timeout(LIMIT).expect("the hook returns");
            assert!(took < LIMIT && others.is_empty(), "{took:?} {others:?}");
            assert!(waiting.starts_with("this barrier is never done: this thread is"), "{waiting}");
            world.barrier().unwrap();
        }
    });
}

fn a_hook_of_one_group_that_waits_for_calls_of_another_on_the_same_thread_is_refused(case: Case) {
    case.run(2, |ctx| {
        let (world, me) = (meet(ctx), ctx.rank());
        let (one, other) = (world.split(Some(0), 0).unwrap().unwrap(), world.clone());
        let (told, heard) = channel();
        // Rank 1 comes to it only when rank 0's hook has returned.
        let first = (me == 0).then(|| other.barrier_async().unwrap());
        let (numbers, open) = Gated::new(mine(&one, 10));
        let work = one.all_reduce_async(numbers, ReduceOp::Sum).unwrap();
        let group = other.clone();
        work.on_done(move |_| {
            let tried = if me == 0 { group.barrier().map_err(|it| it.to_string()) } else { Ok(()) };
            told.send(tried).unwrap();
        });
        drop((open, work));
        let tried = heard.recv_timeout(LIMIT).expect("the hook returns");
        if me == 0 {
            assert!(tried.unwrap_err().contains("would wait for itself"));
            one.send(&[1_u8], 1, 0).unwrap();
            first.unwrap().wait().unwrap();
        } else {
            one.recv(&mut [0_u8], 0, 0).unwrap();
            other.barrier().unwrap();
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_hook_of_a_message_can_wait_for_another_that_came_with_it() {
    let group = alone();
    let (told, heard) = channel();
    let (give, given) = channel::<Work<Vec<u8>>>();
    let first = group.recv_async(vec![0_u8], 0, 1).unwrap();
    let second = group.recv_async(vec![0_u8], 0, 2).unwrap();
    first.on_done(move |_| told.send(given.recv().unwrap().wait().unwrap()).unwrap());
    give.send(second).unwrap();
    let sends = [group.send_async(vec![7_u8], 0, 1), group.send_async(vec![8_u8], 0, 2)];
    assert_eq!(heard.recv_timeout(LIMIT).expect("the hook returns"), [8]);
    sends.into_iter().for_each(|work| drop(work.unwrap().wait().unwrap()));
    first.wait().unwrap();
}

#[test]
fn a_call_behind_a_hook_that_does_not_return_keeps_its_deadline() {
    let group = alone();
    let (release, released) = channel::<()>();
    let (inside, is_inside) = channel();
    let (numbers, open) = Gated::new(vec![1.0]);
    let work = group.all_reduce_async(numbers, ReduceOp::Sum).unwrap();
    work.on_done(move |_| {
        inside.send(()).unwrap();
        let _ = released.recv();
    });
    drop(open);
    is_inside.recv_timeout(LIMIT).expect("the hook is called");
    let begun = Instant::now();
    let error = group.within(Duration::from_millis(100)).barrier().unwrap_err();
    assert!(begun.elapsed() < LIMIT, "{error}");
    assert_eq!(error.kind(), ErrorKind::Deadline);
    let behind = "barrier behind an asynchronous one whose hook, or buffer, has not returned";
    assert!(error.to_string().contains(behind), "{error}");
    drop(release);
    work.wait().unwrap();
    assert_eq!(group.barrier().unwrap_err().to_string(), error.to_string());
}

const LIMIT: Duration = Duration::from_secs(20);
