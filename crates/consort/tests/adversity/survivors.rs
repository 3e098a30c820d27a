//! Those who are left when ranks have died, left or not come, and go on; `tests/faults` has one death of each
//! kind.

use std::thread;
use std::time::Duration;

use consort::{Error, ErrorKind, Group, Presence, ReduceOp, Result};
use consort_testkit::{Case, Context, Outcome, conformance};
use serde::{Deserialize, Serialize};

use super::meet::{invited, works};

/// What a survivor is at last: its group's ranks in the world, and the group's name.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    world_ranks: Vec<u32>,
    name: String,
}

impl End {
    fn of(group: &Group) -> Self {
        works(group);
        Self { world_ranks: group.world_ranks().to_vec(), name: group.name().to_owned() }
    }
}

fn met(ctx: &Context) -> Group {
    let group = invited(ctx).init().unwrap();
    works(&group);
    ctx.reach("met");
    group
}

/// Works until somebody is gone.
fn work(group: &Group) -> Error {
    loop {
        let mut numbers = vec![group.rank().get(); 10_000];
        if let Err(error) = group.all_reduce(&mut numbers, ReduceOp::Sum) {
            return error;
        }
        let world = group.world() as u32;
        assert_eq!(numbers, vec![world * (world - 1) / 2; 10_000]);
    }
}

/// Works with whoever is left until as few are left.
fn work_on(mut group: Group, few: usize) -> Result<Group> {
    while group.world() > few {
        let error = work(&group);
        assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
        group = group.shrink()?;
        works(&group);
    }
    Ok(group)
}

conformance! { [shm tcp mixed] ranks_die_one_after_the_other_until_one_is_left }

fn ranks_die_one_after_the_other_until_one_is_left(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let mut group = met(ctx);
        for left in [3, 2, 1] {
            group = work_on(group, left).unwrap();
            ctx.reach(&left.to_string());
        }
        End::of(&group)
    });
    let mut alive = vec![0, 1, 2, 3];
    alive.iter().for_each(|&rank| job.await_point(rank, "met"));
    for victim in [3, 1, 2] {
        thread::sleep(Duration::from_millis(20));
        job.kill(victim);
        alive.retain(|&rank| rank != victim);
        let left = alive.len().to_string();
        alive.iter().for_each(|&rank| job.await_point(rank, &left));
    }
    assert_ends(job.wait(), &[1, 2, 3], &End { world_ranks: vec![0], name: "world~3".to_owned() });
}

conformance! { [shm tcp mixed] a_rank_that_dies_while_the_others_agree_is_left_out_too }

fn a_rank_that_dies_while_the_others_agree_is_left_out_too(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = met(ctx);
        let error = work(&group);
        assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
        ctx.reach("bereaved");
        // The second victim may or may not have begun to agree: some may have a group with it, of which others
        // know already that it is of no use, and have gone on to the next. So they work there only.
        let mut group = group.shrink().unwrap();
        while group.world() > 2 {
            let error = work(&group);
            assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
            group = group.shrink().unwrap();
        }
        End::of(&group).world_ranks
    });
    (0..4).for_each(|rank| job.await_point(rank, "met"));
    job.kill(1);
    [0, 2, 3].iter().for_each(|&rank| job.await_point(rank, "bereaved"));
    job.kill(3);
    for (rank, outcome) in (0..).zip(job.wait()) {
        match rank {
            1 | 3 => assert_eq!(outcome, Outcome::Signalled(9)),
            _ => assert_eq!(outcome, Outcome::Done(vec![0, 2]), "rank {rank}"),
        }
    }
}

conformance! { [in_process shm tcp mixed] a_group_of_which_nobody_has_died_can_be_made_anew }

fn a_group_of_which_nobody_has_died_can_be_made_anew(case: Case) {
    let ends = case.run(4, |ctx| {
        let old = invited(ctx).init().unwrap();
        let works_before = End::of(&old).world_ranks.len();
        let group = old.shrink().unwrap();
        assert_eq!(old.error().unwrap().kind(), ErrorKind::Aborted);
        let again = old.shrink().unwrap_err();
        assert!(again.to_string().contains("was made smaller before"), "{again}");
        drop(old);
        let part = group.split(Some(group.rank().get() % 2), 0).unwrap().unwrap();
        works(&part);
        (works_before, End::of(&group))
    });
    for (before, end) in ends {
        assert_eq!(
            (before, &end.name[..], &end.world_ranks[..]),
            (4, "world~1", &[0, 1, 2, 3][..])
        );
    }
}

conformance! { [shm tcp mixed] ranks_that_do_not_come_are_named_and_those_who_left_are_not_awaited }

fn ranks_that_do_not_come_are_named_and_those_who_left_are_not_awaited(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = met(ctx);
        match ctx.rank() {
            // It wants no more.
            1 => return String::new(),
            // It is alive, and busy with something else.
            2 => {
                while !ctx.has_been_told("enough") {
                    thread::sleep(Duration::from_millis(10));
                }
                return String::new();
            }
            _ => {}
        }
        while group.presence(1).unwrap() == Presence::Here {
            thread::sleep(Duration::from_millis(5));
        }
        ctx.reach("alone");
        let () = ctx.told("go on");
        let error = match group.within(Duration::from_secs(2)).shrink() {
            Err(error) => error.to_string(),
            // The other was earlier, and wants to go on already.
            Ok(smaller) => return format!("with {:?}", End::of(&smaller).world_ranks),
        };
        let smaller = if ctx.rank() == 0 { group.shrink_without(&[2]) } else { group.shrink() };
        assert_eq!(End::of(&smaller.unwrap()).world_ranks, [0, 3]);
        ctx.reach("late");
        error
    });
    [0, 3].iter().for_each(|&rank| job.await_point(rank, "alone"));
    job.tell("go on", &());
    job.await_point(0, "late");
    job.tell("enough", &());
    for (rank, error) in job.expect_all().into_iter().enumerate() {
        if rank % 3 == 0 {
            let is_named = error.contains("in shrink, for ranks [2]");
            assert!(is_named || (rank == 3 && error == "with [0, 3]"), "rank {rank}: {error}");
        }
    }
}

fn assert_ends(outcomes: Vec<Outcome<End>>, killed: &[u32], end: &End) {
    for (rank, outcome) in (0..).zip(outcomes) {
        match killed.contains(&rank) {
            true => assert_eq!(outcome, Outcome::Signalled(9), "rank {rank}"),
            false => {
                let Outcome::Done(it) = outcome else { panic!("rank {rank}: {outcome:?}") };
                assert_eq!(it, *end, "rank {rank}");
            }
        }
    }
}
