//! What ranks hear who use symmetric memory when something fails.

use std::thread;
use std::time::{Duration, Instant};

use consort::symm::SymmetricMemory;
use consort::{Error, ErrorKind};
use consort_testkit::{Context, Job, Outcome};

use super::{on_devices, places, read_own, source};
use crate::stage::{LONG, device, meet, with_devices};

near_and_apart! {
    a_rank_that_is_killed_is_named_to_all_who_wait_whomever_for(4, |job| kill_one(job, 4, |()| ()));
    a_rank_that_is_killed_while_all_put_is_named(3, |job| kill_one(job, 3, |heard: &String| {
        assert!(heard.contains("rank 1 is gone"), "{heard}");
    }));
    a_rank_that_is_killed_while_memory_is_made_is_named(3, |job| kill_one(job, 3, |heard: &String| {
        assert!(heard.starts_with("group world: rank 1 is gone"), "{heard}");
    }));
}

/// Kills rank 1 when all are ready, and looks at what the others say.
fn kill_one<T: std::fmt::Debug + serde::de::DeserializeOwned>(
    mut job: Job<T>,
    world: u32,
    look: impl Fn(&T),
) {
    (0..world).for_each(|rank| job.await_point(rank, "ready"));
    thread::sleep(Duration::from_millis(100));
    job.kill(1);
    for (rank, outcome) in (0..world).zip(job.wait()) {
        match outcome {
            Outcome::Done(told) if rank != 1 => look(&told),
            Outcome::Signalled(9) if rank == 1 => {}
            other => panic!("rank {rank}: {other:?}"),
        }
    }
}

fn a_rank_that_is_killed_is_named_to_all_who_wait_whomever_for(ctx: &Context) {
    let group = meet(ctx);
    let memory = on_devices(&group, 100);
    memory.barrier(0).unwrap();
    ctx.reach("ready");
    if group.rank() == 1 {
        let _: () = ctx.told("never");
    }
    let error = match group.rank().get() {
        0 => memory.wait_signal(1.into(), 0).unwrap_err(),
        // Of one that lives, and does not signal either.
        2 => memory.wait_signal(3.into(), 0).unwrap_err(),
        _ => memory.barrier(3).unwrap_err(),
    };
    assert!(matches!(error, Error::PeerLost { rank: 1, .. }), "{error}");
    // The group has ended, and so has all that it has.
    for error in [
        memory.put(0.into(), 0, source(&[1])).unwrap_err(),
        memory.put_signal(2.into(), 0).unwrap_err(),
        group.barrier().unwrap_err(),
    ] {
        assert!(matches!(error, Error::PeerLost { rank: 1, .. }), "{error}");
    }
    drop(memory);
    let fewer = group.shrink().unwrap();
    let memory = on_devices(&fewer, 100);
    let (_, _, right, left) = places(&fewer);
    memory.put_with_signal(right.into(), 0, source(&[5]), 0).unwrap();
    memory.wait_signal(left.into(), 0).unwrap();
    assert_eq!(read_own(&memory, 0, 2), [5, 0]);
}

fn a_rank_that_is_killed_while_all_put_is_named(ctx: &Context) -> String {
    let group = meet(ctx);
    let (_, _, right, left) = places(&group);
    let memory = on_devices(&group, 300_001);
    ctx.reach("ready");
    let data = vec![7; 300_001];
    let step = || {
        memory.put_with_signal(right.into(), 0, source(&data), 0)?;
        memory.wait_signal(left.into(), 0)
    };
    loop {
        if let Err(error) = step() {
            return error.to_string();
        }
    }
}

fn a_rank_that_is_killed_while_memory_is_made_is_named(ctx: &Context) -> String {
    let group = meet(ctx);
    let device = device(&group);
    drop(on_devices(&group, 1));
    ctx.reach("ready");
    loop {
        if let Err(error) = group.symmetric_on(&device, 1000) {
            return error.to_string();
        }
    }
}

#[test]
fn whoever_waits_for_memory_to_be_made_is_let_go_by_another_thread_that_gives_up() {
    let mut job = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        drop(on_devices(&group, 1));
        if group.rank() == 1 {
            return ctx.told("over");
        }
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(100));
                group.abort("somebody has pressed a key");
            });
            group.symmetric_on(&device(&group), 1000).unwrap_err()
        });
        assert!(error.to_string().contains("somebody has pressed a key"), "{error}");
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.tell("over", &());
    job.expect_all();
}

#[test]
fn a_signal_that_does_not_come_in_time_ends_only_the_wait() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let (me, other) = (group.rank().get(), 1 - group.rank().get());
            let memory = on_devices(&group, 100);
            let error = memory.within(Duration::from_millis(200)).wait_signal(other.into(), 0);
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline);
            assert!(
                matches!(&error, Error::Late { missing, .. } if missing[..] == [other]),
                "{error}"
            );
            let told = "wait_signal on channel 0 of symmetric memory 1 of devices";
            assert!(error.to_string().contains(told), "{error}");
            memory.barrier(0).unwrap();
            // Nothing was lost, nor counted twice.
            memory.put_with_signal(other.into(), 0, source(&[me as u8 + 1]), 0).unwrap();
            memory.wait_signal(other.into(), 0).unwrap();
            assert_eq!(read_own(&memory, 0, 1), [other as u8 + 1]);
            let none = memory.within(Duration::from_millis(10)).wait_signal(other.into(), 0);
            assert_eq!(none.unwrap_err().kind(), ErrorKind::Deadline);
            group.barrier().unwrap();
        })
        .expect_all();
}

#[test]
fn whoever_waits_for_one_who_has_dropped_the_memory_is_told() {
    let mut job = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        let memory = on_devices(&group, 100);
        if group.rank() == 1 {
            memory.put_with_signal(0.into(), 0, source(&[7]), 0).unwrap();
            drop(memory);
            let _: () = ctx.told("over");
        } else {
            memory.wait_signal(1.into(), 0).unwrap();
            let began = Instant::now();
            for error in
                [memory.wait_signal(1.into(), 0), memory.barrier(0)].map(Result::unwrap_err)
            {
                assert_eq!(error.kind(), ErrorKind::Mistake);
                let told = "of symmetric memory 1 of devices: rank 1 has dropped this memory";
                assert!(error.to_string().contains(told), "{error}");
            }
            assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
            ctx.reach("told");
        }
        // The group goes on.
        on_devices(&group, 10).barrier(0).unwrap();
    });
    job.await_point(0, "told");
    job.tell("over", &());
    job.expect_all();
}

#[test]
fn a_barrier_that_is_given_up_ends_the_group() {
    let mut job = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        let memory = on_devices(&group, 100);
        if group.rank() == 1 {
            return ctx.told("over");
        }
        let error = memory.within(Duration::from_millis(300)).barrier(0).unwrap_err();
        assert!(matches!(&error, Error::Late { missing, .. } if missing[..] == [1]), "{error}");
        assert_eq!(group.barrier().unwrap_err().to_string(), error.to_string());
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.await_point(2, "heard");
    job.tell("over", &());
    job.expect_all();
}

#[test]
fn a_barrier_has_one_deadline_for_all_who_are_late() {
    let limit = Duration::from_secs(3);
    let mut job = with_devices(3).start(move |ctx| {
        let group = meet(ctx);
        let memory = on_devices(&group, 100);
        if group.rank() == 2 {
            return ctx.told("over");
        }
        if group.rank() == 1 {
            let _: () = ctx.told("come");
            memory.barrier(0).unwrap_err();
            return;
        }
        ctx.reach("waits");
        let began = Instant::now();
        let error = memory.within(limit).barrier(0).unwrap_err();
        assert!(matches!(&error, Error::Late { missing, .. } if missing[..] == [2]), "{error}");
        assert!(began.elapsed() < limit * 3 / 2, "after {:?}", began.elapsed());
        ctx.reach("heard");
    });
    job.await_point(0, "waits");
    thread::sleep(limit * 2 / 3);
    job.tell("come", &());
    job.await_point(0, "heard");
    job.tell("over", &());
    job.expect_all();
}

#[test]
fn whoever_waits_hears_that_another_has_given_up() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let (_, _, right, left) = places(&group);
            let memory = on_devices(&group, 100);
            let error = match group.rank().get() {
                0 => {
                    // While another thread of this rank waits, too.
                    thread::scope(|scope| {
                        let waiting = scope.spawn(|| memory.wait_signal(left.into(), 0));
                        thread::sleep(Duration::from_millis(100));
                        group.abort("the data has run out");
                        waiting.join().unwrap().unwrap_err()
                    })
                }
                1 => memory.wait_signal(left.into(), 0).unwrap_err(),
                _ => memory.barrier(0).unwrap_err(),
            };
            assert!(error.to_string().contains("the data has run out"), "{error}");
            let error = memory.put_signal(right.into(), 0).unwrap_err();
            assert!(error.to_string().contains("the data has run out"), "{error}");
            drop(memory);
        })
        .expect_all();
}

#[test]
fn the_last_signal_of_a_rank_that_has_left_is_heard() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let memory = on_devices(&group, 100);
            if group.rank() == 0 {
                memory.put_with_signal(1.into(), 50, source(&[9; 50]), 0).unwrap();
                return;
            }
            thread::sleep(Duration::from_millis(300));
            memory.wait_signal(0.into(), 0).unwrap();
            assert_eq!(read_own(&memory, 50, 50), [9; 50]);
        })
        .expect_all();
}
