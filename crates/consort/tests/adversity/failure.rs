//! What is known of a group that has failed, without a call.

use std::thread;
use std::time::{Duration, Instant};

use consort::{DebugLevel, Error, Group, Presence};
use consort_testkit::{Case, Outcome, conformance};

use crate::meet::{SOON, invited, meet, works};

conformance! { [shm tcp mixed]
    that_a_rank_has_died_is_known_to_every_thread_while_one_waits_in_a_call
    that_a_rank_has_died_is_known_to_all_though_nobody_waits
    that_a_rank_has_ended_in_good_order_is_no_failure
}
conformance! { [shm tcp mixed in_process]
    that_another_rank_has_given_the_group_up_is_known_without_a_call
    that_ranks_made_different_calls_is_known_afterwards
    errors_say_where_a_call_was_made_if_that_was_noted
}

fn that_a_rank_has_died_is_known_to_every_thread_while_one_waits_in_a_call(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        works(&group);
        assert!(group.error().is_none());
        if ctx.rank() == 2 {
            ctx.reach("here");
            let _: bool = ctx.told("never");
        }
        thread::scope(|scope| {
            let waiting = scope.spawn(|| group.barrier().unwrap_err());
            while group.calls() < 2 {
                thread::yield_now();
            }
            assert!(group.error().is_none());
            ctx.reach("here");
            let known = await_failure(&group);
            let found = waiting.join().unwrap();
            assert!(found.to_string().contains("rank 2 is gone"), "{found}");
            for later in [known, group.error().unwrap(), group.barrier().unwrap_err()] {
                assert_eq!(later.to_string(), found.to_string());
            }
            assert!(matches!(found, Error::PeerLost { rank: 2, .. }), "{found}");
            found.to_string()
        })
    });
    for rank in 0..3 {
        job.await_point(rank, "here");
    }
    job.kill(2);
    let outcomes = job.wait();
    let told = |rank: usize| match &outcomes[rank] {
        Outcome::Done(told) => told,
        outcome => panic!("rank {rank}: {outcome:?}"),
    };
    assert_eq!(told(0), told(1));
}

fn that_a_rank_has_died_is_known_to_all_though_nobody_waits(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        works(&group);
        ctx.reach("here");
        if ctx.rank() == 2 {
            let _: bool = ctx.told("never");
        }
        let error = await_failure(&group);
        assert!(matches!(error, Error::PeerLost { rank: 2, number: 0, .. }), "{error}");
        assert_eq!(group.barrier().unwrap_err().to_string(), error.to_string());
        error.to_string()
    });
    (0..4).for_each(|rank| job.await_point(rank, "here"));
    job.kill(2);
    let outcomes = job.wait();
    let told = |rank: usize| match &outcomes[rank] {
        Outcome::Done(told) => told,
        outcome => panic!("rank {rank}: {outcome:?}"),
    };
    assert_eq!((told(1), told(3)), (told(0), told(0)));
}

fn that_a_rank_has_ended_in_good_order_is_no_failure(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = meet(ctx);
        works(&group);
        if ctx.rank() == 2 {
            return;
        }
        let _: bool = ctx.told("it has ended");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            let error = group.error();
            assert!(error.is_none(), "{error:?}");
            thread::sleep(Duration::from_millis(5));
        }
        assert_ne!(group.presence(2).unwrap(), Presence::Gone);
    });
    job.await_end(2);
    job.tell("it has ended", &true);
    job.expect_all();
}

fn that_another_rank_has_given_the_group_up_is_known_without_a_call(case: Case) {
    case.run(2, |ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        if ctx.rank() == 1 {
            group.abort("the data has run out");
        }
        let error = await_failure(&group);
        let Error::Aborted { by: 1, reason, .. } = &error else { panic!("{error}") };
        assert_eq!(reason, "the data has run out");
        assert!(world.error().is_none(), "another group has failed");
        works(&world);
    });
}

fn that_ranks_made_different_calls_is_known_afterwards(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let error = match ctx.rank() {
            0 => group.barrier().unwrap_err(),
            _ => group.all_gather(&[1_u8], &mut [0; 2]).unwrap_err(),
        };
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        assert_eq!(group.error().unwrap().to_string(), error.to_string());
    });
}

fn errors_say_where_a_call_was_made_if_that_was_noted(case: Case) {
    case.run(2, |ctx| {
        let group = invited(ctx).debug(DebugLevel::Detail).init().unwrap();
        let (error, line) = match ctx.rank() {
            0 => (group.barrier().unwrap_err(), line!()),
            _ => (group.all_gather(&[1_u8], &mut [0; 2]).unwrap_err(), line!()),
        };
        // Whoever has found it knows where it was itself; all ranks hear the same.
        let Error::Mismatch { first: (by, call), .. } = &error else { panic!("{error}") };
        assert!(call.contains("failure.rs:"), "{error}");
        assert!(*by != ctx.rank() || call.ends_with(&format!("failure.rs:{line}")), "{error}");
    });
}

#[test]
fn a_group_that_is_only_pretended_knows_that_it_was_given_up() {
    let group = Group::fake(1, 3).unwrap();
    assert!(group.error().is_none());
    group.abort("enough");
    let error = group.error().unwrap();
    assert!(matches!(&error, Error::Aborted { by: 1, reason, .. } if reason == "enough"));
    assert_eq!(group.barrier().unwrap_err().to_string(), error.to_string());
}

fn await_failure(group: &Group) -> Error {
    let begun = Instant::now();
    loop {
        if let Some(error) = group.error() {
            return error;
        }
        assert!(begun.elapsed() < SOON, "it is not known");
        thread::sleep(Duration::from_millis(1));
    }
}
