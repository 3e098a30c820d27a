//! Whose memory is given back when ranks have died, and the others go on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use consort::symm::Symmetric;
use consort::{Error, ErrorKind, Group, ReduceOp};
use consort_testkit::{Context, Outcome, Ranks};

use super::{arenas, coded, meet};

#[test]
fn survivors_of_several_deaths_have_no_more_memory_than_at_first() {
    let mut job = Ranks::new(5).start(|ctx| {
        let mut group = meet(ctx);
        let mut memory = group.symmetric::<u64>(LEN).unwrap();
        mark(&memory);
        let mut seen = vec![committed_here(&group, &memory)];
        while group.world() > 1 {
            if ctx.rank() == victim(group.world()) {
                be_killed(ctx, &group, memory);
            }
            memory.barrier(0).unwrap();
            ctx.reach(&format!("of {}", group.world()));
            let error = reduce(&memory);
            assert_eq!(error.kind(), ErrorKind::PeerGone, "{error}");
            drop(memory);
            group = group.shrink().unwrap();
            memory = group.symmetric(LEN).unwrap();
            assert!(memory.local().unwrap().iter().all(|&element| element == 0));
            mark(&memory);
            seen.push(committed_here(&group, &memory));
        }
        seen
    });
    let mut alive = vec![0, 1, 2, 3, 4];
    for world in [5, 4, 3, 2] {
        let point = format!("of {world}");
        alive.iter().for_each(|&rank| job.await_point(rank, &point));
        // Let them go on for a while.
        thread::sleep(Duration::from_millis(50));
        job.kill(victim(world));
        alive.retain(|&rank| rank != victim(world));
    }
    for (rank, outcome) in (0..).zip(job.wait()) {
        match (rank, outcome) {
            (0, Outcome::Done(seen)) => {
                assert_eq!(seen.len(), 5);
                assert!(seen[0] >= BYTES, "{seen:?}");
                assert!(seen.iter().all(|&bytes| bytes <= seen[0]), "{seen:?}");
            }
            (0, outcome) => panic!("{outcome:?}"),
            (rank, outcome) => assert_eq!(outcome, Outcome::Signalled(9), "rank {rank}"),
        }
    }
}

/// Who dies in a group of so many; rank 0 is left.
fn victim(world: usize) -> u32 {
    [2, 1, 4, 3][5 - world]
}

/// In the midst of calls, when it has left the memory, or when it has another's window.
fn be_killed(ctx: &Context, group: &Group, memory: Symmetric<u64>) -> ! {
    let point = format!("of {}", group.world());
    let held = (group.world() == 3).then(|| memory.peer(0).unwrap());
    memory.barrier(0).unwrap();
    if group.world() == 4 {
        drop(held);
        drop(memory);
        ctx.reach(&point);
    } else if held.is_none() {
        ctx.reach(&point);
        reduce(&memory);
    } else {
        ctx.reach(&point);
    }
    sleep_for_ever()
}

/// If whoever had left before it died were counted twice, that would make up for one who has not.
#[test]
fn a_window_that_a_survivor_still_has_is_given_back_when_that_one_drops_it() {
    let mut job = Ranks::new(3).start(|ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u64>(LEN).unwrap();
        mark(&memory);
        memory.barrier(0).unwrap();
        let holder = (ctx.rank() == 0).then(|| memory.clone());
        let held = holder.as_ref().map(|memory| memory.peer(1).unwrap());
        if ctx.rank() == 2 {
            drop(memory);
            ctx.reach("ready");
            sleep_for_ever();
        }
        ctx.reach("ready");
        assert_eq!(group.barrier().unwrap_err().kind(), ErrorKind::PeerGone);
        drop(memory);
        let group = group.shrink().unwrap();
        // Rank 1 has dropped its memory, and asks for as much.
        let other = group.symmetric::<u64>(LEN).unwrap();
        other.local().unwrap().fill(99);
        let before = committed_here(&group, &other);
        if let Some(held) = &held {
            let is_marked = |(at, &element)| element == coded(1, 0, at);
            assert!(held.iter().enumerate().all(is_marked));
        }
        drop(held);
        drop(holder);
        let after = committed_here(&group, &other);
        assert!(after + BYTES <= before, "{before} bytes, then {after}");
        group.barrier().unwrap();
    });
    (0..3).for_each(|rank| job.await_point(rank, "ready"));
    job.kill(2);
    let done = Outcome::Done(());
    assert_eq!(job.wait(), [done.clone(), done, Outcome::Signalled(9)]);
}

/// Says whose window it is.
fn mark(memory: &Symmetric<u64>) {
    let me = memory.rank().index();
    let mut window = memory.local().unwrap();
    window.iter_mut().enumerate().for_each(|(at, element)| *element = coded(me, 0, at));
}

/// Reduces again and again, until somebody is gone.
fn reduce(memory: &Symmetric<u64>) -> Error {
    loop {
        if let Err(error) = memory.two_shot_all_reduce(ReduceOp::Max) {
            return error;
        }
    }
}

/// How many bytes of this rank's own shared memory there are, when all ranks ask, and have given back
/// what they have dropped.
fn committed_here(group: &Group, memory: &Symmetric<u64>) -> u64 {
    group.barrier().unwrap();
    // Whoever left memory before the others notices when it asks for more.
    let latest = group.symmetric::<u8>(1).unwrap();
    group.barrier().unwrap();
    let inode = inode_at(memory.local().unwrap().as_ptr().addr());
    let here = arenas().into_iter().map(|path| fs::metadata(path).unwrap());
    let bytes = here.filter(|file| file.ino() == inode).map(|file| file.blocks() * 512).sum();
    latest.barrier(0).unwrap();
    bytes
}

/// Which file is mapped at an address.
fn inode_at(address: usize) -> u64 {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let inode = maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let [from, to] = [from, to].map(|bound| usize::from_str_radix(bound, 16).unwrap());
        (from..to).contains(&address).then(|| fields.nth(3).unwrap().parse().unwrap())
    });
    inode.expect("it is mapped")
}

fn sleep_for_ever() -> ! {
    loop {
        thread::park();
    }
}

/// Of each window: far more than all else that a rank shares.
const LEN: usize = 2 << 20;
const BYTES: u64 = 8 * LEN as u64;
