//! Processes that join a job that runs.

use std::thread;
use std::time::Duration;

use consort::{Builder, ErrorKind, Group};
use consort_testkit::{Case, Context, Outcome, conformance};

use super::invitation::invited_to;
use super::meet::{LONG, works};

/// A builder for one of the first so many, or for one who comes later.
fn invited(ctx: &Context, world: u32) -> Builder {
    invited_to(ctx, world).timeout(LONG)
}

/// The group, once somebody has joined it.
fn grown(group: &Group) -> Group {
    let mut waiting = [0_u64];
    while waiting[0] == 0 {
        waiting[0] = group.newcomers().unwrap() as u64;
        group.broadcast(&mut waiting, 0).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    group.grow().unwrap()
}

fn who_is_who(group: &Group) -> (u32, Vec<u32>, String) {
    works(group);
    (group.rank().get(), group.world_ranks().to_vec(), group.name().to_owned())
}

conformance! { [shm tcp mixed] a_replacement_joins_the_survivors_of_a_rank_that_was_killed }

fn a_replacement_joins_the_survivors_of_a_rank_that_was_killed(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = if ctx.rank() < 3 {
            let group = invited(ctx, 3).init().unwrap();
            works(&group);
            ctx.reach("met");
            let error = loop {
                if let Err(error) = group.barrier() {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
            let group = group.shrink().unwrap();
            works(&group);
            ctx.reach("smaller");
            grown(&group)
        } else {
            let () = ctx.told("come");
            invited(ctx, 3).join().unwrap()
        };
        who_is_who(&group)
    });
    (0..3).for_each(|rank| job.await_point(rank, "met"));
    job.kill(1);
    [0, 2].iter().for_each(|&rank| job.await_point(rank, "smaller"));
    job.tell("come", &());
    for (rank, outcome) in (0..).zip(job.wait()) {
        let expected = match rank {
            1 => Outcome::Signalled(9),
            0 => Outcome::Done((0, vec![0, 1, 2], "world+1".to_owned())),
            2 => Outcome::Done((1, vec![0, 1, 2], "world+1".to_owned())),
            _ => Outcome::Done((2, vec![0, 1, 2], "world+1".to_owned())),
        };
        assert_eq!(outcome, expected, "rank {rank}");
    }
}

conformance! { [shm tcp mixed] a_group_that_has_grown_can_lose_a_rank_and_grow_again }

fn a_group_that_has_grown_can_lose_a_rank_and_grow_again(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        if ctx.rank() == 3 {
            let () = ctx.told("come");
            return who_is_who(&invited(ctx, 2).join().unwrap());
        }
        let group = match ctx.rank() {
            2 => invited(ctx, 2).join().unwrap(),
            _ => {
                let first = invited(ctx, 2).init().unwrap();
                let grown = grown(&first);
                works(&first);
                grown
            }
        };
        works(&group);
        ctx.reach("grown");
        let error = loop {
            if let Err(error) = group.barrier() {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
        let group = group.shrink().unwrap();
        assert_eq!((group.world(), group.name()), (2, "world+1~1"));
        ctx.reach("smaller");
        who_is_who(&grown(&group))
    });
    (0..3).for_each(|rank| job.await_point(rank, "grown"));
    job.kill(1);
    [0, 2].iter().for_each(|&rank| job.await_point(rank, "smaller"));
    job.tell("come", &());
    let mut names = Vec::new();
    for (rank, outcome) in (0..).zip(job.wait()) {
        match outcome {
            Outcome::Signalled(9) => assert_eq!(rank, 1),
            Outcome::Done((rank, ranks, name)) => {
                assert_eq!((ranks, &name[..]), (vec![0, 1, 2], "world+2"));
                names.push(rank);
            }
            other => panic!("rank {rank}: {other:?}"),
        }
    }
    assert_eq!(names, [0, 1, 2]);
}

conformance! { [shm tcp] one_who_waits_in_vain_is_told_and_one_who_dies_waiting_is_passed_over }

fn one_who_waits_in_vain_is_told_and_one_who_dies_waiting_is_passed_over(case: Case) {
    let mut job = case.of(4).start(|ctx| match ctx.rank() {
        0 | 1 => {
            let group = invited(ctx, 2).init().unwrap();
            assert_eq!(group.newcomers().unwrap(), 0);
            ctx.reach("met");
            let () = ctx.told("grow");
            let same = group.grow().unwrap();
            works(&same);
            (same.world(), same.name().to_owned())
        }
        2 => {
            let () = ctx.told("come");
            let hasty = invited(ctx, 2).timeout(Duration::from_millis(100));
            let error = hasty.join().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
            ctx.reach("gone");
            (0, String::new())
        }
        _ => {
            let () = ctx.told("come");
            ctx.reach("waits");
            let _ = invited(ctx, 2).join();
            unreachable!("it is killed");
        }
    });
    (0..2).for_each(|rank| job.await_point(rank, "met"));
    job.tell("come", &());
    job.await_point(2, "gone");
    job.await_point(3, "waits");
    thread::sleep(Duration::from_millis(200));
    job.kill(3);
    job.tell("grow", &());
    let outcomes = job.wait();
    assert_eq!(outcomes[3], Outcome::Signalled(9));
    for outcome in &outcomes[..2] {
        assert_eq!(*outcome, Outcome::Done((2, "world".to_owned())));
    }
}
