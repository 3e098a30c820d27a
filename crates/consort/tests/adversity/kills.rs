//! A rank that is killed at some moment of whatever it does.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Error, ErrorKind, Group, ReduceOp, Result};
use consort_testkit::{Case, Context, Kind, Outcome, conformance, names_in_shared_memory};

use super::meet::invited;

/// Four ranks meet and work, until so many milliseconds after they have come to a point one of them is
/// killed.
macro_rules! killed_after {
    ($($kinds:tt $name:ident $millis:literal after $point:literal)*) => {$(
        conformance! { $kinds $name }

        fn $name(case: Case) {
            let mut job = case.of(4).start(|ctx| {
                ctx.reach("begun");
                let error = live(ctx).expect_err("it works until somebody is killed");
                (error.kind() == ErrorKind::Deadline, error.to_string())
            });
            let victim = $millis % 4;
            (0..4).for_each(|rank| job.await_point(rank, $point));
            thread::sleep(Duration::from_millis($millis));
            job.kill(victim);
            let killed = Instant::now();
            for (rank, outcome) in (0..).zip(job.wait()) {
                if rank == victim {
                    assert_eq!(outcome, Outcome::Signalled(9));
                    continue;
                }
                let Outcome::Done((late, error)) = outcome else { panic!("rank {rank}: {outcome:?}") };
                assert!(error.contains(&format!("rank {victim}")), "rank {rank}: {error}");
                // Only of one that had not come to the meeting yet nothing can be known.
                assert!(!late || error.contains("at the meeting"), "rank {rank}: {error}");
            }
            assert!(killed.elapsed() < Duration::from_secs(30), "{:?}", killed.elapsed());
            nothing_is_left();
        }
    )*};
}

killed_after! {
    [shm] who_is_killed_at_once_is_named 0 after "begun"
    [shm] who_is_killed_in_the_meeting_is_named 5 after "begun"
    [shm] who_is_killed_a_little_later_is_named 11 after "begun"
    [shm] who_is_killed_in_the_first_calls_is_named 26 after "begun"
    [shm tcp mixed] who_is_killed_while_all_are_at_work_is_named 63 after "met"
    [shm tcp mixed] who_is_killed_after_many_calls_is_named 250 after "met"
    [shm tcp mixed] who_is_killed_after_very_many_calls_is_named 601 after "met"
}

/// Does everything there is to do, again and again.
fn live(ctx: &Context) -> Result<()> {
    let world = invited(ctx).timeout(Duration::from_secs(10)).init()?;
    ctx.reach("met");
    // Nobody but the dead is late.
    let world = world.within(Duration::from_secs(100));
    loop {
        let group = world.split(Some(0), 0)?.expect("a colour was given");
        call(&group)?;
        send_around(&group)?;
        if ctx.kind() == Kind::Shm {
            share(&group)?;
        }
    }
}

fn call(group: &Group) -> Result<()> {
    for len in [1, 100, 50_000, 300_000] {
        let mut numbers = vec![1_u32; len];
        group.all_reduce(&mut numbers, ReduceOp::Sum)?;
        assert!(numbers.iter().all(|&sum| sum == 4), "what is said to be done is right");
        let works =
            [group.broadcast_async(numbers.clone(), 2)?, group.broadcast_async(numbers, 1)?];
        for work in works {
            work.wait().map_err(Error::from)?;
        }
        group.all_gather(&[group.rank().get()], &mut [0; 4])?;
    }
    group.barrier()
}

fn send_around(group: &Group) -> Result<()> {
    let (me, world) = (group.rank().get(), group.world() as u32);
    let (next, previous) = ((me + 1) % world, (me + world - 1) % world);
    for len in [1, 5_000, 100_000] {
        let mut received = vec![0_u32; len];
        group.send_recv(&vec![me; len], next, &mut received, previous, 1)?;
        assert!(received.iter().all(|&from| from == previous), "what is said to be done is right");
    }
    Ok(())
}

fn share(group: &Group) -> Result<()> {
    let memory = group.symmetric::<f32>(20_000)?;
    memory.local()?.fill(1.0);
    memory.two_shot_all_reduce(ReduceOp::Sum)?;
    assert!(memory.local()?.iter().all(|&sum| sum == 4.0), "what is said to be done is right");
    memory.barrier(0)
}

/// All that ranks share has no name, so it goes with the last of them.
fn nothing_is_left() {
    assert_eq!(names_in_shared_memory(), [""; 0]);
}
