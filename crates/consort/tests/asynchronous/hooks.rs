//! What is called when a call is done.

use std::sync::mpsc::channel;
use std::time::Instant;

use consort::{Completion, ReduceOp};
use consort_testkit::{Ranks, ranks};

use crate::meet::{alone, late, meet, mine};

#[test]
fn a_hook_hears_what_was_done_before_anybody_else() {
    ranks(2, |ctx| {
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

#[test]
fn a_hook_hears_of_a_failure() {
    let mut job = Ranks::new(2).start(|ctx| {
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

#[test]
fn a_hook_can_begin_another_call() {
    ranks(2, |ctx| {
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
