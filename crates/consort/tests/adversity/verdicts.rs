//! What the error says of those who did not come, on every rank.

use std::thread;
use std::time::Duration;

use consort::{CallStage, Condition, Error, Group, ReduceOp, Whereabouts};
use consort_testkit::{Case, Context, Kind, Outcome, conformance};

use crate::meet::{invited, meet, works};

conformance! { [shm tcp mixed]
    a_rank_that_stands_still_is_told_of_with_its_process_and_its_last_call
    a_rank_that_is_killed_is_told_of_with_its_process_and_its_last_call
    a_rank_that_waits_in_another_group_is_found_there
}
conformance! { [shm tcp]
    a_rank_without_a_folder_is_found_while_it_lives
}
conformance! { [shm]
    of_a_dead_rank_without_a_folder_the_board_has_the_last_call
}

fn a_rank_that_stands_still_is_told_of_with_its_process_and_its_last_call(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = recorded(ctx);
        works(&group);
        ctx.reach("here");
        let _: bool = ctx.told(if ctx.rank() == 2 { "never" } else { "it stands" });
        let error = group.within(BRIEF).barrier().unwrap_err();
        let Error::Late { missing, whereabouts, by, .. } = &error else { panic!("{error}") };
        assert_eq!(missing, &[2]);
        is_after_its_first_call(ctx, &group, whereabouts, *by, Condition::Alive);
        error.to_string()
    });
    (0..4).for_each(|rank| job.await_point(rank, "here"));
    job.stop(2);
    job.tell("it stands", &true);
    for rank in [0, 1, 3] {
        job.await_end(rank);
    }
    job.kill(2);
    same_words(job.pid(2), &job.wait());
}

fn a_rank_that_is_killed_is_told_of_with_its_process_and_its_last_call(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = recorded(ctx);
        works(&group);
        ctx.reach("here");
        let _: bool = ctx.told(if ctx.rank() == 2 { "never" } else { "it is dead" });
        let error = group.all_reduce(&mut [1_u64; 9], ReduceOp::Sum).unwrap_err();
        let Error::PeerLost { rank: 2, whereabouts, by, .. } = &error else { panic!("{error}") };
        is_after_its_first_call(ctx, &group, whereabouts, *by, Condition::Ended);
        error.to_string()
    });
    (0..4).for_each(|rank| job.await_point(rank, "here"));
    job.kill(2);
    job.tell("it is dead", &true);
    same_words(job.pid(2), &job.wait());
}

fn a_rank_that_waits_in_another_group_is_found_there(case: Case) {
    case.run(4, |ctx| {
        let group = recorded(ctx);
        let part = group.split(Some(group.rank().get() / 2), 0).unwrap().unwrap();
        if ctx.rank() == 2 {
            // Rank 3 of the world does not come to it: it is in the barrier of all.
            part.within(Duration::from_secs(60)).barrier().unwrap_err();
        } else {
            let error = group.within(BRIEF).barrier().unwrap_err();
            let Error::Late { missing, whereabouts, by, .. } = &error else { panic!("{error}") };
            assert_eq!(missing, &[2]);
            if can_look_it_up(ctx, *by) {
                let last = whereabouts[0].last_call.as_ref().unwrap();
                let theirs = part.name().replace("/0#", "/1#");
                assert_eq!((&*last.group, last.number, &*last.call), (&theirs[..], 1, "barrier"));
                let is_inside = matches!(last.stage, CallStage::Within { .. });
                assert!(is_inside, "{error}");
            }
            part.abort("the other group has failed");
        }
    });
}

fn a_rank_without_a_folder_is_found_while_it_lives(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        works(&group);
        if ctx.rank() == 2 {
            while group.error().is_none() {
                thread::sleep(Duration::from_millis(1));
            }
            return;
        }
        let error = group.within(BRIEF).all_reduce(&mut [1_u8], ReduceOp::Sum).unwrap_err();
        let Error::Late { whereabouts, .. } = &error else { panic!("{error}") };
        is_after_its_first_call(ctx, &group, whereabouts, 0, Condition::Alive);
    });
}

fn of_a_dead_rank_without_a_folder_the_board_has_the_last_call(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        works(&group);
        ctx.reach("here");
        let _: bool = ctx.told(if ctx.rank() == 2 { "never" } else { "it is dead" });
        let error = group.barrier().unwrap_err();
        let Error::PeerLost { rank: 2, whereabouts, .. } = &error else { panic!("{error}") };
        let last = whereabouts[0].last_call.as_ref().unwrap();
        assert_eq!((whereabouts[0].rank, last.stage), (2, CallStage::Begun), "{error}");
        assert_eq!((&*last.group, last.number), ("world", 1), "{error}");
    });
    (0..3).for_each(|rank| job.await_point(rank, "here"));
    job.kill(2);
    job.tell("it is dead", &true);
    let outcomes = job.wait();
    assert_eq!(outcomes[..2], [Outcome::Done(()), Outcome::Done(())]);
}

/// What is known of rank 2, which has made one call: whoever shares a host with it sees that.
fn is_after_its_first_call(
    ctx: &Context,
    group: &Group,
    whereabouts: &[Whereabouts],
    by: u32,
    condition: Condition,
) {
    let [it] = whereabouts else { panic!("{whereabouts:?}") };
    let member = &group.members()[2];
    assert_eq!((it.rank, it.process, &it.host), (2, member.process, &member.host));
    assert_eq!(it.condition, condition, "{it}");
    if can_look_it_up(ctx, by) {
        let last = it.last_call.as_ref().unwrap();
        let first = ("world", 1, "all_reduce(sum) of 1000 u32");
        assert_eq!((&*last.group, last.number, &*last.call), first, "{it}");
        assert!(matches!(last.stage, CallStage::Over { .. }), "{it}");
    }
}

/// Whether a rank is on the host of rank 2.
fn can_look_it_up(ctx: &Context, rank: u32) -> bool {
    ctx.kind() != Kind::Mixed || rank / 2 == 1
}

/// A group whose ranks leave records for each other.
fn recorded(ctx: &Context) -> Group {
    invited(ctx).trace_dir(ctx.dir()).init().unwrap()
}

/// The others were told the same to the last word, and of this process.
fn same_words(process: u32, outcomes: &[Outcome<String>]) {
    let told = |rank: usize| match &outcomes[rank] {
        Outcome::Done(told) => told,
        outcome => panic!("rank {rank}: {outcome:?}"),
    };
    assert!(told(0).contains(&format!("(process {process})")), "{}", told(0));
    assert_eq!((told(1), told(3)), (told(0), told(0)));
}

const BRIEF: Duration = Duration::from_secs(3);
