//! What ranks hear when something fails while devices work for them.

use std::thread;
use std::time::{Duration, Instant};

use consort::Error;
use consort_testkit::Outcome;

use crate::stage::{LONG, all_heard_of_rank_1, download, meet, with_devices};
use crate::sums::{next, sum};

#[test]
fn ranks_that_make_different_calls_hear_of_both() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            let count = if group.rank() == 2 { 9 } else { 8 };
            let error = next(&group, &vec![1.0; count]).unwrap_err();
            assert!(matches!(error, Error::Mismatch { number: 2, .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("8 f32") && text.contains("9 f32"), "{text}");
            // It is the end of the group, also for the host's memory.
            assert_eq!(group.barrier().unwrap_err().to_string(), text);
            assert_eq!(next(&group, &[1.0]).unwrap_err().to_string(), text);
            assert_eq!(group.error().map(|it| it.to_string()), Some(text));
        })
        .expect_all();
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    let mut job = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        next(&group, &[1.0; 8]).unwrap();
        if group.rank() == 1 {
            return ctx.told("over");
        }
        let error = next(&group.within(Duration::from_millis(500)), &[1.0; 8]).unwrap_err();
        assert!(matches!(&error, Error::Late { missing, .. } if missing[..] == [1]), "{error}");
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.await_point(2, "heard");
    job.tell("over", &());
    job.expect_all();
}

#[test]
fn calls_before_another_keep_its_deadline() {
    let mut job = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        next(&group, &[1.0; 8]).unwrap();
        if group.rank() == 1 {
            return ctx.told("over");
        }
        let began = Instant::now();
        let patient = group.call_async(sum(&group, &[1.0; 8])).unwrap();
        let hasty = group.within(Duration::from_millis(500));
        let hasty = hasty.call_async(sum(&group, &[1.0; 8])).unwrap();
        let errors = [patient, hasty].map(|work| work.wait().unwrap_err().error);
        assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
        for error in errors {
            assert!(matches!(&error, Error::Late { missing, .. } if missing[..] == [1]), "{error}");
            assert!(error.to_string().contains("all_reduce(sum) of 8 f32 on devices"), "{error}");
        }
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.await_point(2, "heard");
    job.tell("over", &());
    job.expect_all();
}

#[test]
fn a_rank_that_is_killed_is_named_and_the_others_go_on_without_it() {
    let mut job = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        next(&group, &[1.0; 8]).unwrap();
        ctx.reach("at work");
        if group.rank() == 1 {
            let _: () = ctx.told("never");
        }
        let error = next(&group, &[1.0; 8]).unwrap_err();
        assert!(matches!(error, Error::PeerLost { rank: 1, .. }), "{error}");
        assert!(error.to_string().contains("rank 1 is gone"), "{error}");
        let fewer = group.shrink().unwrap();
        assert_eq!(fewer.world(), 2);
        assert_eq!(next(&fewer, &[1.5; 8]).unwrap(), [3.0; 8]);
    });
    (0..3).for_each(|rank| job.await_point(rank, "at work"));
    job.kill(1);
    let outcomes = job.wait();
    assert!(matches!(outcomes[1], Outcome::Signalled(9)), "{:?}", outcomes[1]);
    for rank in [0, 2] {
        assert!(matches!(outcomes[rank], Outcome::Done(())), "{:?}", outcomes[rank]);
    }
}

#[test]
fn a_rank_that_is_killed_at_any_moment_is_named() {
    let mut job = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        next(&group, &[1.0; 8]).unwrap();
        ctx.reach("at work");
        let numbers = vec![1.0; 300_001];
        loop {
            match next(&group, &numbers) {
                Ok(sums) => assert!(sums.iter().all(|&sum| sum == 3.0)),
                Err(error) => return error.to_string(),
            }
        }
    });
    (0..3).for_each(|rank| job.await_point(rank, "at work"));
    thread::sleep(Duration::from_millis(100));
    job.kill(1);
    all_heard_of_rank_1(&job.wait());
}

#[test]
fn calls_go_on_though_the_last_hold_on_the_group_was_let_go() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            let works: Vec<_> =
                (0..5).map(|_| group.call_async(sum(&group, &[1.5; 70_001])).unwrap()).collect();
            drop(group);
            for work in works {
                assert!(download::<f32>(&work.wait().unwrap().output) == [3.0; 70_001]);
            }
        })
        .expect_all();
}

#[test]
fn whoever_waits_hears_that_another_has_given_up() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            if group.rank() == 0 {
                thread::sleep(Duration::from_millis(100));
                group.abort("the data has run out");
            }
            let error = next(&group, &[1.0; 8]).unwrap_err();
            assert!(error.to_string().contains("the data has run out"), "{error}");
            let error = group.barrier().unwrap_err();
            assert!(error.to_string().contains("the data has run out"), "{error}");
        })
        .expect_all();
}
