//! Ranks that are all well.

use std::fs;
use std::process::Command;
use std::sync::atomic::Ordering;

use consort_sys::arena::Arena;
use consort_sys::life::Sign;
use consort_sys::view::Source;
use consort_testkit::ranks;

use crate::meeting::{LIMIT, MIB, announce, exchange, meet, until, word, word64};

use super::AGREEMENT;

#[test]
fn ranks_see_each_others_bytes_and_words() {
    ranks(4, |ctx| {
        let arena = Arena::create(AGREEMENT, 64 * MIB).unwrap();
        let (words, bytes) = (arena.alloc(64, 64).unwrap(), arena.alloc(5 * MIB, 64).unwrap());
        let peers = meet(ctx, &arena);
        // All ranks allocate alike, so their pieces lie alike.
        bytes.view().fill(ctx.rank() as u8 + 1);
        let ready = |arena: &Arena| word(arena, words.offset()).load(Ordering::Acquire);
        word(&arena, words.offset()).store(1, Ordering::Release);
        for peer in &peers {
            until(|| ready(&peer.arena) >= 1);
            let seen = Source::from(peer.arena.view(bytes.offset(), bytes.len()).unwrap());
            assert!(seen.to_vec().iter().all(|&byte| byte == peer.rank as u8 + 1));
            assert_eq!(peer.life.sign(), Sign::Alive);
            for _ in 0..1000 {
                let count = word64(&peer.arena, words.offset() + 8);
                count.fetch_add(u64::MAX / 8, Ordering::Relaxed);
            }
        }
        let total = 3000_u64.wrapping_mul(u64::MAX / 8);
        let count = word64(&arena, words.offset() + 8);
        until(|| count.load(Ordering::Relaxed) == total);
        // Nobody ends while another may still look at its life, and the last word stays.
        word(&arena, words.offset()).store(2, Ordering::Release);
        peers.iter().for_each(|peer| until(|| ready(&peer.arena) == 2));
        words.abandon();
    });
}

#[test]
fn a_meeting_of_many_leaves_nothing_behind() {
    ranks(16, |ctx| {
        let count = |of: &str| fs::read_dir(format!("/proc/self/{of}")).unwrap().count();
        let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
        let (open, threads) = (count("fd"), count("task"));
        let (door, peers) = announce(ctx);
        let name = door.name().to_owned();
        let is_listed = || fs::read_to_string("/proc/net/unix").unwrap().contains(&name);
        assert!(is_listed());
        let found = exchange(ctx, door, &peers, &arena, LIMIT).unwrap();
        assert_eq!(found.len(), 15);
        drop(found);
        assert_eq!((count("fd"), count("task")), (open, threads));
        assert!(!is_listed(), "the door is still there");
    });
}

#[test]
fn a_program_that_a_rank_starts_gets_nothing_of_its_memory() {
    let arena = Arena::create(AGREEMENT, 4 * MIB).unwrap();
    let _piece = arena.alloc(MIB, 1).unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.contains("memfd:consort"), "this process has it");
    let shown = Command::new("sh").arg("-c").arg("ls -l /proc/$$/fd; cat /proc/$$/maps").output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.contains("stack") && !shown.contains("consort"), "{shown}");
}
