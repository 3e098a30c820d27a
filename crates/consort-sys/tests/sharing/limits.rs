//! Processes that may not have what they ask for.

use std::fs;
use std::path::PathBuf;

use consort_sys::arena::{Arena, ArenaError};
use consort_testkit::{ControlGroup, Ranks, ranks, skip};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::meeting::{MIB, meet};

use super::AGREEMENT;

#[test]
fn where_addresses_are_scarce_the_arena_is_smaller() {
    ranks(1, |_| {
        let room = (600 * MIB) as u64;
        limit(Resource::As, used_addresses() + room);
        let arena = Arena::create(AGREEMENT, 64 << 30).unwrap();
        assert!((256 * MIB..600 * MIB).contains(&arena.size()), "{}", arena.size());
        assert!(arena.alloc(MIB, 1).is_ok());
        let error = Arena::create(AGREEMENT, 64 << 30).unwrap_err();
        assert!(matches!(error, ArenaError::Map { .. }), "{error}");
        assert!(error.to_string().contains("256.0 MiB") && error.to_string().contains("ulimit -v"));
        let peer = Arena::open(AGREEMENT, rustix::io::dup(&arena).unwrap()).unwrap_err();
        assert!(matches!(peer, ArenaError::Map { .. }), "{peer}");
        assert_eq!(Arena::default_size(1, 1), 256 * MIB, "no smaller, however little is left");
    });
}

#[test]
fn a_limit_on_files_is_an_error_and_no_signal() {
    ranks(1, |_| {
        limit(Resource::Fsize, (300 * MIB) as u64);
        assert_eq!(Arena::create(AGREEMENT, 64 << 30).unwrap().size(), 300 * MIB);
        limit(Resource::Fsize, 100 * MIB as u64);
        let error = Arena::create(AGREEMENT, 64 << 30).unwrap_err().to_string();
        assert!(error.contains("files of more than 100.0 MiB"), "{error}");
        assert!(Arena::create(AGREEMENT, 100 * MIB).unwrap().alloc(99 * MIB, 1).is_ok());
    });
}

#[test]
fn a_full_control_group_is_an_error_and_ends_nobody() {
    let job = Ranks::new(1).start(|ctx| {
        let group: Option<PathBuf> = ctx.told("group");
        let Some(group) = group else { return };
        fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        let arena = Arena::create(AGREEMENT, 1 << 30).unwrap();
        let held = arena.alloc(40 * MIB, 1).unwrap();
        let taken = || rustix::fs::fstat(&arena).unwrap().st_blocks as usize * 512;
        let error = arena.alloc(60 * MIB, 1).unwrap_err();
        assert!(matches!(error, ArenaError::NoMemory(_)), "{error}");
        let words = error.to_string();
        assert!(words.starts_with("no memory for 60.0 MiB to be shared: "), "{words}");
        assert!(words.contains("of 96.0 MiB"), "{words}");
        assert_eq!(taken(), 40 * MIB, "nothing of the second is left");
        drop(held);
        assert!(arena.alloc(60 * MIB, 1).is_ok(), "there is room again");
    });
    let group = ControlGroup::with_memory(96 * MIB as u64);
    job.tell("group", &group.as_ref().ok().map(|group| group.path().to_owned()));
    job.expect_all();
    if let Err(reason) = group {
        skip(reason);
    }
}

/// There is enough for two of four, each of which finds that there is enough for itself.
#[test]
fn who_ask_at_the_same_moment_are_not_given_together_what_there_is_for_one() {
    let mut job = Ranks::new(4).start(|ctx| {
        let group: Option<PathBuf> = ctx.told("group");
        let arena = Arena::create(AGREEMENT, 1 << 30).unwrap();
        let peers = meet(ctx, &arena);
        let first = peers.iter().find(|peer| peer.rank == 0).map_or(&arena, |peer| &peer.arena);
        arena.take_turns(first, 4).unwrap();
        let Some(group) = group else { return vec![] };
        fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        let mut given = Vec::new();
        for round in 0..ROUNDS {
            ctx.reach(&format!("ready {round}"));
            let _: bool = ctx.told(&format!("take {round}"));
            let taken = arena.alloc(24 * MIB, 1);
            given.push(taken.is_ok());
            ctx.reach(&format!("taken {round}"));
            let _: bool = ctx.told(&format!("give {round}"));
            if let Err(error) = taken {
                assert!(matches!(error, ArenaError::NoMemory(_)), "{error}");
            }
        }
        given
    });
    let group = ControlGroup::with_memory(80 * MIB as u64);
    job.tell("group", &group.as_ref().ok().map(|group| group.path().to_owned()));
    if group.is_ok() {
        for round in 0..ROUNDS {
            for (reached, told) in [("ready", "take"), ("taken", "give")] {
                (0..4).for_each(|rank| job.await_point(rank, &format!("{reached} {round}")));
                job.tell(&format!("{told} {round}"), &true);
            }
        }
    }
    let given = job.expect_all();
    match group {
        Err(reason) => skip(reason),
        Ok(_group) => {
            for round in 0..ROUNDS {
                let count = given.iter().filter(|given| given[round]).count();
                assert!((1..=3).contains(&count), "{count} of 4 were given it: {given:?}");
            }
        }
    }
}

fn limit(resource: Resource, bytes: u64) {
    setrlimit(resource, Rlimit { current: Some(bytes), maximum: None }).unwrap();
}

fn used_addresses() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

const ROUNDS: usize = 10;
