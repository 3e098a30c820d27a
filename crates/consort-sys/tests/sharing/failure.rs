//! Ranks that are killed, stopped or copied.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use consort_sys::arena::Arena;
use consort_sys::life::Sign;
use consort_sys::pass::PassError;
use consort_sys::view::Source;
use consort_testkit::{Outcome, Ranks, names_in_shared_memory};
use rustix::process::Signal;

use crate::meeting::{LIMIT, MIB, announce, exchange, meet, until, word};

use super::AGREEMENT;

#[test]
fn a_killed_owner_leaves_its_memory_to_its_peers_and_nothing_else() {
    let mut job = Ranks::new(2).start(|ctx| {
        let arena = Arena::create(AGREEMENT, 64 * MIB).unwrap();
        let piece = arena.alloc(MIB, 1).unwrap();
        piece.view().fill(0x5A);
        let mut peers = meet(ctx, &arena);
        ctx.reach("met");
        let peer = peers.pop().unwrap();
        until(|| peer.life.sign() == Sign::Ended);
        let seen = peer.arena.view(piece.offset(), MIB).unwrap();
        assert!(Source::from(seen).to_vec().iter().all(|&byte| byte == 0x5A));
        seen.fill(1);
        word(&peer.arena, 32 * MIB).store(7, Ordering::Relaxed);
        drop((peer, piece, arena));

        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!maps.contains("consort ("), "{maps}");
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open: Vec<_> = open.flat_map(|entry| fs::read_link(entry.path())).collect();
        let is_ours = |file: &PathBuf| file.to_string_lossy().starts_with("/memfd:consort");
        assert!(!open.iter().any(is_ours), "{open:?}");
        assert_eq!(names_in_shared_memory(), [""; 0]);
    });
    job.await_point(0, "met");
    job.await_point(1, "met");
    job.kill(0);
    assert_eq!(job.wait(), [Outcome::Signalled(Signal::KILL.as_raw()), Outcome::Done(())]);
}

#[test]
fn a_rank_killed_before_it_comes_is_named_long_before_the_deadline() {
    let mut job = Ranks::new(3).start(|ctx| {
        let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
        let (door, peers) = announce(ctx);
        if ctx.rank() == 1 {
            ctx.reach("open");
            until(|| false);
        }
        let began = Instant::now();
        let error = exchange(ctx, door, &peers, &arena, LIMIT).unwrap_err();
        assert!(began.elapsed() < LIMIT / 2, "{:?}", began.elapsed());
        match error {
            PassError::Ended { rank, .. } | PassError::Closed { rank, .. } => rank,
            error => panic!("{error}"),
        }
    });
    job.await_point(1, "open");
    job.kill(1);
    let outcomes = job.wait();
    // Whoever fails first closes its door, so the other may name that one.
    let named = |outcome: &Outcome<u32>| matches!(outcome, Outcome::Done(0..=2));
    assert!(named(&outcomes[0]) && named(&outcomes[2]), "{outcomes:?}");
    assert!(outcomes.contains(&Outcome::Done(1)), "{outcomes:?}");
}

#[test]
fn a_stopped_rank_is_named_at_the_deadline() {
    let mut job = Ranks::new(3).start(|ctx| {
        let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
        let (door, peers) = announce(ctx);
        ctx.reach("open");
        let () = ctx.told("one is stopped");
        let found = exchange(ctx, door, &peers, &arena, Duration::from_secs(1));
        let () = ctx.told("all go on");
        found.map(drop).unwrap_err().to_string()
    });
    (0..3).for_each(|rank| job.await_point(rank, "open"));
    job.stop(2);
    job.tell("one is stopped", &());
    std::thread::sleep(Duration::from_secs(2));
    job.cont(2);
    job.tell("all go on", &());
    let outcomes = job.wait();
    for outcome in &outcomes[..2] {
        let Outcome::Done(words) = outcome else { panic!("{outcome:?}") };
        assert!(
            words.starts_with("rank 2 did not meet the others of this host within 1."),
            "{words}"
        );
    }
}

#[test]
fn a_forked_copy_of_a_rank_gives_nothing_back() {
    let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
    let piece = arena.alloc(4 * MIB, 1).unwrap();
    piece.view().fill(7);
    let mut piece = Some(piece);
    let mut child = Command::new("true");
    // SAFETY: dropping a piece in a forked child neither allocates nor takes a lock.
    unsafe {
        child.pre_exec(move || {
            drop(piece.take());
            Ok(())
        });
    }
    assert!(child.status().unwrap().success());
    let kept = Source::from(arena.view(0, 4 * MIB).unwrap()).to_vec();
    assert!(kept.iter().all(|&byte| byte == 7));
    drop(child);
    assert!(arena.alloc(4 * MIB, 1).is_ok(), "it was given back here");
}
