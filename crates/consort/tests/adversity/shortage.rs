//! Ranks that lack memory, or a thread.

use std::path::PathBuf;
use std::time::Instant;
use std::{fs, process};

use consort::{Error, ErrorKind, ReduceOp};
use consort_testkit::{ControlGroup, Ranks, limit, ranks, skip, used_addresses};
use rustix::process::Resource;

use crate::meet::{SOON, invited, meet, works};

#[test]
fn a_rank_without_memory_for_a_new_group_is_named_by_all_and_the_group_goes_on() {
    let made = ranks(3, |ctx| {
        if ctx.rank() == 1 {
            // Its memory is a file, which cannot be larger.
            limit(Resource::Fsize, Some(300 * MIB));
        }
        let world = meet(ctx);
        let colour = (ctx.rank() != 2).then_some(0);
        let mut groups = Vec::new();
        let begun = Instant::now();
        let error = loop {
            match world.split(colour, 0) {
                Ok(group) => groups.push(group),
                Err(error) => break error,
            }
        };
        assert!(begun.elapsed() < SOON * 3, "{:?}: {error}", begun.elapsed());
        match (ctx.rank(), &error) {
            (1, Error::Memory(_)) => {}
            (0 | 2, Error::PeerUnable { rank: 1, reason, .. }) => {
                assert!(reason.contains("300.0 MiB"), "{error}");
            }
            _ => panic!("{error}"),
        }
        assert_eq!(error.kind(), ErrorKind::System);
        works(&world);
        groups.iter().flatten().for_each(works);

        let made = groups.len();
        drop(groups);
        works(&world);
        let again = world.split(Some(0), 0).unwrap().unwrap();
        works(&again);
        made
    });
    assert!(made[0] > 10 && made == [made[0]; 3], "{made:?}");
}

#[test]
fn a_member_without_memory_for_a_group_is_named_by_the_others_and_gets_one_when_it_has_some() {
    let made = ranks(4, |ctx| {
        if ctx.rank() == 1 {
            // Its memory is a file, which cannot be larger.
            limit(Resource::Fsize, Some(300 * MIB));
        }
        let world = meet(ctx);
        if ctx.rank() == 3 {
            works(&world);
            return 0;
        }
        let mut groups = Vec::new();
        let begun = Instant::now();
        let error = loop {
            match world.among(&groups.len().to_string(), &[2, 1, 0]) {
                Ok(group) => groups.push(group),
                Err(error) => break error,
            }
        };
        assert!(begun.elapsed() < SOON * 3, "{:?}: {error}", begun.elapsed());
        match (ctx.rank(), &error) {
            (1, Error::Memory(_)) => {}
            (0 | 2, Error::PeerUnable { rank: 1, call: "among", reason, .. }) => {
                assert!(reason.contains("300.0 MiB"), "{error}");
            }
            _ => panic!("{error}"),
        }
        groups.iter().for_each(works);
        let made = groups.len();
        drop(groups);
        works(&world);
        works(&world.among("again", &[0, 1, 2]).unwrap());
        made
    });
    assert!(made[0] > 10 && made == [made[0], made[0], made[0], 0], "{made:?}");
}

#[test]
fn a_rank_without_memory_for_its_buffers_ends_the_group_and_is_named() {
    let mut job = Ranks::new(3).start(|ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        let limited: Option<PathBuf> = ctx.told("limited");
        let Some(limited) = limited else { return };
        if ctx.rank() == 1 {
            fs::write(limited.join("cgroup.procs"), process::id().to_string()).unwrap();
        }
        let begun = Instant::now();
        let error = group.all_reduce(&mut [1.0_f32; 100], ReduceOp::Sum).unwrap_err();
        ctx.reach("refused");
        assert!(begun.elapsed() < SOON, "{:?}: {error}", begun.elapsed());
        if ctx.rank() == 1 {
            let _: bool = ctx.told("unlimited");
        }
        for error in [error, group.barrier().unwrap_err(), group.error().unwrap()] {
            named(&error, "it has no memory for its buffers: no memory for ");
        }
        works(&world);
    });
    // Less than a rank's buffers need, but more than it needs for anything else.
    let limited = ControlGroup::with_memory(5 * MIB / 4);
    job.tell("limited", &limited.as_ref().ok().map(|group| group.path().to_owned()));
    if let Ok(limited) = &limited {
        job.await_point(1, "refused");
        limited.limit_memory(1000 * MIB).unwrap();
        job.tell("unlimited", &true);
    }
    job.expect_all();
    if let Err(reason) = limited {
        skip(reason);
    }
}

/// What one round needs is more than what is left, and more than four times what a rank needs.
#[test]
fn ranks_that_need_memory_at_the_same_moment_are_refused_and_nobody_is_killed() {
    let job = Ranks::new(4).start(|ctx| {
        let world = meet(ctx);
        let limited: Option<PathBuf> = ctx.told("limited");
        let Some(limited) = limited else { return };
        fs::write(limited.join("cgroup.procs"), process::id().to_string()).unwrap();
        world.barrier().unwrap();
        for _ in 0..5 {
            let mut held = Vec::new();
            let error = loop {
                match world.symmetric::<u8>(20 << 20) {
                    Ok(memory) => {
                        memory.local().unwrap().fill(1);
                        held.push(memory);
                    }
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::Memory(_) | Error::Asymmetric { .. }), "{error}");
            assert!(!held.is_empty(), "{error}");
            works(&world);
            drop(held);
            // All have left it before anybody takes more.
            world.barrier().unwrap();
        }
    });
    let limited = ControlGroup::with_memory(300 * MIB);
    job.tell("limited", &limited.as_ref().ok().map(|group| group.path().to_owned()));
    job.expect_all();
    if let Err(reason) = limited {
        skip(reason);
    }
}

#[test]
fn a_rank_without_memory_to_share_is_named_by_all_at_the_meeting() {
    ranks(3, |ctx| {
        if ctx.rank() == 1 {
            limit(Resource::Fsize, Some(100 * MIB));
        }
        let begun = Instant::now();
        let error = invited(ctx).init().unwrap_err();
        assert!(begun.elapsed() < SOON, "{:?}: {error}", begun.elapsed());
        match (ctx.rank(), &error) {
            (1, Error::Memory(_)) => {}
            (0 | 2, Error::PeerUnable { rank: 1, reason, .. }) => {
                assert!(reason.contains("files of more than 100.0 MiB"), "{error}");
            }
            _ => panic!("{error}"),
        }
    });
}

#[test]
fn a_rank_without_addresses_for_the_others_memory_is_named_by_all_at_the_meeting() {
    ranks(3, |ctx| {
        if ctx.rank() == 1 {
            // It takes less for itself, but the others know nothing of that.
            limit(Resource::As, Some(used_addresses() + 2048 * MIB));
        }
        let begun = Instant::now();
        let error = invited(ctx).init().unwrap_err();
        assert!(begun.elapsed() < SOON, "{:?}: {error}", begun.elapsed());
        match (ctx.rank(), &error) {
            (1, Error::Memory(_)) => {}
            (0 | 2, Error::PeerUnable { rank: 1, reason, .. }) => {
                assert!(reason.starts_with("cannot map "), "{error}");
            }
            _ => panic!("{error}"),
        }
    });
}

#[test]
fn a_rank_without_a_thread_for_asynchronous_calls_ends_the_group_and_is_named() {
    ranks(2, |ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        works(&group);
        let begun = Instant::now();
        if ctx.rank() == 1 {
            // Less than a thread's stack.
            limit(Resource::As, Some(used_addresses() + MIB));
            let failed = group.barrier_async().unwrap().wait();
            limit(Resource::As, None);
            named(&failed.unwrap_err().error, "cannot start the thread");
        }
        named(&group.barrier().unwrap_err(), "cannot start the thread");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        works(&world);
    });
}

/// Rank 1 cannot go on for this reason.
fn named(error: &Error, why: &str) {
    let Error::Unable { rank: 1, reason, .. } = error else { panic!("{error}") };
    assert!(reason.starts_with(why), "{error}");
    assert_eq!(error.kind(), ErrorKind::System);
}

const MIB: u64 = 1 << 20;
