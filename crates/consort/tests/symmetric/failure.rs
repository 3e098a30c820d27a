//! Ranks that are killed, stopped or give up while others wait for them.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Error, ErrorKind, ReduceOp};
use consort_testkit::{Outcome, Ranks, ranks};

use super::meet;

/// Kills the last rank when all have come to "ready", and returns what the others say.
fn kill_last(mut job: consort_testkit::Job<String>, world: u32) -> Vec<String> {
    for rank in 0..world {
        job.await_point(rank, "ready");
    }
    // Let them fall asleep.
    thread::sleep(Duration::from_millis(100));
    job.kill(world - 1);
    let mut outcomes = job.wait();
    assert_eq!(outcomes.pop(), Some(Outcome::Signalled(9)));
    let said = |outcome| match outcome {
        Outcome::Done(said) => said,
        outcome => panic!("{outcome:?}"),
    };
    outcomes.into_iter().map(said).collect()
}

/// Runs something that must fail soon because the last rank is gone, and returns the error.
fn soon<T>(ctx: &consort_testkit::Context, wait: impl FnOnce() -> consort::Result<T>) -> String {
    ctx.reach("ready");
    let began = Instant::now();
    let Err(error) = wait() else { panic!("it did not fail") };
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}: {error}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
    let last = ctx.world() - 1;
    let Error::PeerLost { rank, .. } = &error else { panic!("{error}") };
    assert_eq!(*rank, last, "{error}");
    error.to_string()
}

fn sleep_for_ever() -> ! {
    loop {
        thread::park();
    }
}

#[test]
fn a_wait_for_a_signal_of_a_killed_rank_names_it() {
    let job = Ranks::new(3).start(|ctx| {
        let memory = meet(ctx).symmetric::<u8>(1).unwrap();
        if ctx.rank() == 2 {
            ctx.reach("ready");
            sleep_for_ever();
        }
        // Rank 1 waits for rank 0, which waits for the one that is gone.
        soon(ctx, || memory.wait_signal(if ctx.rank() == 0 { 2 } else { 0 }, 0))
    });
    let said = kill_last(job, 3);
    assert!(said[0].contains("in wait_signal on channel 0 of symmetric memory 1"), "{said:?}");
    assert!(said[0].contains("rank 0 noticed"), "{said:?}");
    assert_eq!(said[0], said[1]);
}

#[test]
fn a_barrier_that_a_killed_rank_does_not_come_to_names_it() {
    let job = Ranks::new(3).start(|ctx| {
        let memory = meet(ctx).symmetric::<u8>(1).unwrap();
        memory.barrier(0).unwrap();
        if ctx.rank() == 2 {
            ctx.reach("ready");
            sleep_for_ever();
        }
        soon(ctx, || memory.barrier(0))
    });
    kill_last(job, 3);
}

#[test]
fn a_window_that_a_killed_rank_held_names_it() {
    let job = Ranks::new(3).start(|ctx| {
        let memory = meet(ctx).symmetric::<u8>(1).unwrap();
        let held = (ctx.rank() == 2).then(|| memory.peer(0).unwrap());
        memory.barrier(0).unwrap();
        match (ctx.rank(), held) {
            (0, _) => soon(ctx, || memory.local()),
            (1, _) => soon(ctx, || memory.put(0, 0, &[1])),
            (_, _held) => {
                ctx.reach("ready");
                sleep_for_ever();
            }
        }
    });
    kill_last(job, 3);
}

#[test]
fn a_window_that_a_killed_rank_copied_to_names_it() {
    let job = Ranks::new(2).start(|ctx| {
        let memory = meet(ctx).symmetric::<u8>(1).unwrap();
        let held = (ctx.rank() == 1).then(|| memory.raw(0).unwrap());
        memory.barrier(0).unwrap();
        match held {
            None => soon(ctx, || memory.local()),
            Some(_held) => {
                ctx.reach("ready");
                sleep_for_ever();
            }
        }
    });
    kill_last(job, 2);
}

#[test]
fn a_collective_on_windows_that_a_killed_rank_does_not_come_to_names_it() {
    let job = Ranks::new(3).start(|ctx| {
        let memory = meet(ctx).symmetric::<f32>(10_000).unwrap();
        if ctx.rank() == 2 {
            ctx.reach("ready");
            sleep_for_ever();
        }
        soon(ctx, || memory.two_shot_all_reduce(consort::ReduceOp::Sum))
    });
    kill_last(job, 3);
}

/// A thread that waits outside the group's calls finds out, though another one waits in a call for
/// a rank that is well.
#[test]
fn a_thread_that_waits_in_a_call_hears_of_a_death_from_one_that_waits_for_a_signal() {
    let job = Ranks::new(3).start(|ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u8>(1).unwrap();
        match ctx.rank() {
            0 => thread::scope(|scope| {
                let call = scope.spawn(|| group.barrier().unwrap_err().kind());
                let said = soon(ctx, || memory.wait_signal(2, 0));
                assert_eq!(call.join().unwrap(), ErrorKind::PeerGone);
                said
            }),
            1 => soon(ctx, || memory.wait_signal(0, 0)),
            _ => {
                ctx.reach("ready");
                sleep_for_ever();
            }
        }
    });
    kill_last(job, 3);
}

#[test]
fn memory_cannot_be_made_with_a_killed_rank() {
    let job = Ranks::new(3).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 2 {
            ctx.reach("ready");
            sleep_for_ever();
        }
        soon(ctx, || group.symmetric::<u8>(1))
    });
    kill_last(job, 3);
}

#[test]
fn a_rank_that_ends_the_group_wakes_who_waits_for_a_signal() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u8>(1).unwrap();
        if ctx.rank() == 1 {
            memory.wait_signal(0, 0).unwrap();
            memory.wait_signal(2, 0).unwrap();
            group.abort("enough");
            return;
        }
        memory.put_signal(1, 0).unwrap();
        let error = match ctx.rank() {
            0 => memory.wait_signal(2, 5).unwrap_err(),
            _ => memory.barrier(1).unwrap_err(),
        };
        assert!(
            matches!(&error, Error::Aborted { by: 1, reason, .. } if reason == "enough"),
            "{error}"
        );
    });
}

#[test]
fn a_rank_that_comes_late_overwrites_nothing_of_those_who_gave_up() {
    let mut job = Ranks::new(2).start(|ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<f32>(LARGE).unwrap();
        memory.local().unwrap().fill(1.0);
        group.barrier().unwrap();
        ctx.reach("ready");
        if ctx.rank() == 1 {
            while memory.two_shot_all_reduce(ReduceOp::Max).is_ok() {}
            ctx.reach("over");
            return true;
        }
        let mut window = memory.local().unwrap();
        let group = group.within(Duration::from_millis(500));
        while group.all_reduce(&mut window[..], ReduceOp::Max).is_ok() {}
        window.fill(7.0);
        ctx.reach("given up");
        let _: String = ctx.told("gone on");
        window.iter().all(|&number| number == 7.0)
    });
    job.await_point(0, "ready");
    job.await_point(1, "ready");
    // Most likely in the middle of a call.
    thread::sleep(Duration::from_millis(200));
    job.stop(1);
    job.await_point(0, "given up");
    job.cont(1);
    job.await_point(1, "over");
    job.tell("gone on", &"yes");
    assert_eq!(job.expect_all(), [true, true]);
}

#[test]
fn a_stopped_rank_is_named_as_the_holder_and_goes_on_later() {
    let mut job = Ranks::new(2).start(|ctx| {
        let memory = meet(ctx).symmetric::<u8>(1).unwrap();
        if ctx.rank() == 1 {
            let mut held = memory.peer(0).unwrap();
            held[0] = 7;
            ctx.reach("held");
            let _: String = ctx.told("go on");
            drop(held);
            return true;
        }
        let _: String = ctx.told("stopped");
        let error = memory.within(Duration::from_millis(200)).local().unwrap_err();
        assert!(matches!(&error, Error::Held { holders, .. } if holders[..] == [1]), "{error}");
        ctx.reach("known");
        memory.local().unwrap()[0] == 7
    });
    job.await_point(1, "held");
    job.stop(1);
    job.tell("stopped", &"yes");
    job.await_point(0, "known");
    job.cont(1);
    job.tell("go on", &"yes");
    assert_eq!(job.expect_all(), [true, true]);
}

/// Takes a while to reduce.
const LARGE: usize = 32 << 20;

/// It would wait for itself until its deadline.
#[test]
fn a_thread_that_wants_a_window_which_it_has_is_refused_at_once() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u32>(8).unwrap();
        let begun = Instant::now();
        let own = memory.local().unwrap();
        let again = [
            memory.local().map(drop),
            memory.keep().map(drop),
            memory.raw(ctx.rank()).map(drop),
            memory.put(ctx.rank(), 0, &[1]),
            memory.two_shot_all_reduce(ReduceOp::Sum),
        ];
        drop(own);
        let raw = memory.raw(ctx.rank()).unwrap();
        let while_copying = [memory.local().map(drop), memory.get(ctx.rank(), 0, &mut [0])];
        drop(raw);
        for error in again.into_iter().chain(while_copying).map(Result::unwrap_err) {
            assert!(matches!(error, Error::Argument(_)), "{error}");
            assert!(error.to_string().contains("this thread has already"), "{error}");
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        // The others' windows, and the other threads, have nothing to do with it.
        let own = memory.local().unwrap();
        thread::scope(|scope| {
            let other = scope.spawn(|| memory.put(ctx.rank(), 0, &[7]));
            thread::sleep(Duration::from_millis(50));
            assert!(!other.is_finished());
            drop(own);
            other.join().unwrap().unwrap();
        });
        memory.barrier(0).unwrap();
        assert_eq!(memory.peer(1 - ctx.rank()).unwrap()[0], 7);
        memory.barrier(0).unwrap();
        memory.two_shot_all_reduce(ReduceOp::Sum).unwrap();
        assert_eq!(memory.local().unwrap()[0], 14);
    });
}

#[test]
fn memory_of_a_group_that_has_ended_is_refused_on_every_rank() {
    ranks(2, |ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        let memory = group.symmetric::<u32>(8).unwrap();
        if ctx.rank() == 1 {
            group.abort("enough");
        }
        world.barrier().unwrap();
        let refused = [
            memory.barrier(0),
            memory.local().map(drop),
            memory.keep().map(drop),
            memory.peer(0).map(drop),
            memory.raw(1).map(drop),
            memory.put(0, 0, &[1]),
            memory.get(1, 0, &mut [0]),
            memory.put_signal(0, 0),
            memory.wait_signal(0, 0),
            memory.signals(0, 0).map(drop),
            memory.two_shot_all_reduce(ReduceOp::Sum),
            group.symmetric::<u8>(1).map(drop),
        ];
        let why = group.error().unwrap().to_string();
        for (index, error) in refused.into_iter().enumerate() {
            let error = error.err().unwrap_or_else(|| panic!("{index} is done"));
            assert!(matches!(error, Error::Aborted { by: 1, .. }), "{index}: {error}");
            assert_eq!(error.to_string(), why);
        }
        world.barrier().unwrap();
    });
}

const SOON: Duration = Duration::from_secs(20);
