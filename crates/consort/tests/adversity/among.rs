//! Members of a group to be made who cannot come, do not come, or are part of a group that has ended.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Condition, Error, ErrorKind, Group};
use consort_testkit::{Case, Context, Outcome, conformance};

use super::meet::{SOON, meet, works};

conformance! { [shm tcp mixed]
    a_member_that_is_killed_before_it_comes_is_named_by_the_others_at_once
    members_that_do_not_come_are_named_at_the_deadline_and_hear_of_that_when_they_come
    members_go_on_without_one_that_has_died_though_their_group_has_ended
}
conformance! { [shm tcp mixed in_process]
    a_member_that_has_left_is_named_by_the_others_at_once
    members_of_a_group_that_was_ended_make_another
}

fn met(ctx: &Context) -> Group {
    let group = meet(ctx);
    works(&group);
    ctx.reach("met");
    group
}

/// Waits to be told, and does nothing else.
fn stand_still(ctx: &Context) {
    while !ctx.has_been_told("enough") {
        thread::sleep(Duration::from_millis(5));
    }
}

fn a_member_that_is_killed_before_it_comes_is_named_by_the_others_at_once(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = met(ctx);
        match ctx.rank() {
            2 => thread::sleep(Duration::from_secs(100)),
            // No member, and hears of nothing.
            3 => return String::new(),
            _ => {}
        }
        ctx.reach("waits");
        let error = group.among("three", &[0, 2, 1]).unwrap_err();
        let Error::PeerLost { rank: 2, by: 0 | 1, whereabouts, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(whereabouts[0].condition, Condition::Ended, "{error}");
        assert!(error.to_string().contains("in among(\"three\")"), "{error}");
        // Those who are left get along.
        works(&group.among("two", &[1, 0]).unwrap());
        error.to_string()
    });
    (0..4).for_each(|rank| job.await_point(rank, "met"));
    [0, 1].iter().for_each(|&rank| job.await_point(rank, "waits"));
    let killed = Instant::now();
    job.kill(2);
    let outcomes = job.wait();
    assert!(killed.elapsed() < SOON, "it took {:?}", killed.elapsed());
    assert_eq!(outcomes[2], Outcome::Signalled(9));
    assert!(matches!(outcomes[0], Outcome::Done(_)), "{outcomes:?}");
    assert_eq!(outcomes[0], outcomes[1]);
}

fn members_that_do_not_come_are_named_at_the_deadline_and_hear_of_that_when_they_come(case: Case) {
    let mut job = case.of(5).start(|ctx| {
        let group = met(ctx);
        if ctx.rank() == 1 || ctx.rank() == 4 {
            stand_still(ctx);
        }
        // Who comes too late does not wait at all.
        let timeout = Duration::from_secs(if ctx.rank() % 3 == 1 { 100 } else { 1 });
        let error = group.within(timeout).among("all", &[4, 3, 2, 1, 0]).unwrap_err();
        let Error::Late { missing, .. } = &error else { panic!("{error}") };
        assert_eq!(*missing, [1, 4], "{error}");
        assert!(error.to_string().contains("in among(\"all\")"), "{error}");
        ctx.reach("late");
        // It has ended nothing.
        works(&group);
        works(&group.among("all again", &[0, 1, 2, 3, 4]).unwrap());
        error.to_string()
    });
    [0, 2, 3].iter().for_each(|&rank| job.await_point(rank, "late"));
    job.tell("enough", &());
    let errors = job.expect_all();
    assert_eq!(errors, vec![errors[0].clone(); 5]);
}

fn members_go_on_without_one_that_has_died_though_their_group_has_ended(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = met(ctx);
        let error = loop {
            if let Err(error) = group.barrier() {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
        works(&group.among("left over", &[2, 0]).unwrap());
        // A group that is made smaller can be parted in the same way.
        let smaller = group.shrink().unwrap();
        let part = smaller.among("left over", &[1, 0]).unwrap();
        works(&part);
        works(&smaller);
        part.name().to_owned()
    });
    (0..3).for_each(|rank| job.await_point(rank, "met"));
    job.kill(1);
    let name = Outcome::Done("world~1/left over".to_owned());
    assert_eq!(job.wait(), [name.clone(), Outcome::Signalled(9), name]);
}

fn a_member_that_has_left_is_named_by_the_others_at_once(case: Case) {
    let mut job = case.of(4).start(|ctx| {
        let group = met(ctx);
        if ctx.rank() == 3 {
            drop(group);
            ctx.reach("left");
            return stand_still(ctx);
        }
        let error = group.among("all", &[0, 1, 2, 3]).unwrap_err();
        assert!(matches!(&error, Error::Left { ranks, .. } if ranks == &[3]), "{error}");
        works(&group.among("others", &[2, 0, 1]).unwrap());
        ctx.reach("told");
    });
    (0..3).for_each(|rank| job.await_point(rank, "told"));
    job.tell("enough", &());
    job.expect_all();
}

fn members_of_a_group_that_was_ended_make_another(case: Case) {
    case.run(4, |ctx| {
        let group = met(ctx);
        if ctx.rank() == 1 {
            group.abort("enough");
        }
        while group.error().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let list = if ctx.rank() % 2 == 0 { [2, 0] } else { [1, 3] };
        let part = group.among(&format!("{list:?}"), &list).unwrap();
        assert_eq!(part.world_ranks(), list);
        works(&part);
        let error = group.barrier().unwrap_err();
        assert!(matches!(error, Error::Aborted { by: 1, .. }), "{error}");
        works(&part);
    });
}
