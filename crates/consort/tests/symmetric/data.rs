//! What is put into windows comes out of them.

use consort::symm::Symmetric;
use consort::{Group, ReduceOp};
use consort_testkit::ranks;

use super::{coded, meet};

#[test]
fn two_ranks_put_get_and_share_slices() {
    ranks(2, |ctx| move_about(&meet(ctx)));
}

#[test]
fn three_ranks_put_get_and_share_slices() {
    ranks(3, |ctx| move_about(&meet(ctx)));
}

#[test]
fn five_ranks_put_get_and_share_slices() {
    ranks(5, |ctx| move_about(&meet(ctx)));
}

#[test]
fn eight_ranks_put_get_and_share_slices() {
    ranks(8, |ctx| move_about(&meet(ctx)));
}

/// Every rank writes a part of every window in each of the ways there are, and everyone looks.
fn move_about(group: &Group) {
    let (me, world) = (group.rank().index(), group.world());
    for part in [1, 7, 1_000, 30_011] {
        let memory = group.symmetric::<u64>(part * world).unwrap();
        assert_eq!((memory.len(), memory.bytes()), (part * world, 8 * part * world));
        assert!(memory.local().unwrap().iter().all(|&element| element == 0));
        memory.barrier(0).unwrap();

        let all = |coded: &dyn Fn(usize, usize) -> u64| -> Vec<u64> {
            (0..world)
                .flat_map(|by| (0..part).map(move |at| (by, at)))
                .map(|(b, a)| coded(b, a))
                .collect()
        };
        for to in (0..world).map(|step| (me + step) % world) {
            let mine: Vec<u64> = (0..part).map(|at| coded(me, to, at)).collect();
            memory.put_with_signal(to as u32, me * part, &mine, 1).unwrap();
        }
        for from in 0..world {
            memory.wait_signal(from as u32, 1).unwrap();
        }
        assert_eq!(memory.local().unwrap()[..], all(&|by, at| coded(by, me, at)));
        // Everyone has everything now, or not yet: a get sees all that a barrier is behind.
        memory.barrier(2).unwrap();
        for from in 0..world {
            let mut theirs = vec![0; part * world];
            memory.get(from as u32, 0, &mut theirs).unwrap();
            assert_eq!(theirs, all(&|by, at| coded(by, from, at)));
            let mut last = [0];
            memory.get(from as u32, part * world - 1, &mut last).unwrap();
            assert_eq!(last[0], coded(world - 1, from, part - 1));
        }
        memory.barrier(2).unwrap();
        through_slices(&memory, part);
    }
    group.barrier().unwrap();
}

/// Everyone replaces its part of its right neighbour's window by what its own left neighbour has
/// there.
fn through_slices(memory: &Symmetric<u64>, part: usize) {
    let (me, world) = (memory.rank().index(), memory.world());
    let (left, right) = ((me + world - 1) % world, (me + 1) % world);
    let range = me * part..(me + 1) * part;
    let theirs = memory.peer(left as u32).unwrap()[range.clone()].to_vec();
    memory.barrier(0).unwrap();
    memory.peer(right as u32).unwrap()[range].copy_from_slice(&theirs);
    memory.barrier(0).unwrap();
    let local = memory.local().unwrap();
    assert_eq!(local.rank(), memory.rank());
    for (at, &element) in local.iter().enumerate() {
        let (by, at) = (at / part, at % part);
        // Only my left neighbour wrote here, and what it wrote its own left neighbour had.
        let from = if by == left { (left + world - 1) % world } else { me };
        assert_eq!(element, coded(by, from, at));
    }
    drop(local);
    memory.barrier(0).unwrap();
}

#[test]
fn ranks_that_copy_at_once_do_not_exclude_each_other() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u32>(3 * 256).unwrap();
        let me = group.rank().index();
        let raw = memory.raw(0).unwrap();
        assert_eq!(raw.rank().get(), 0);
        assert_eq!(raw.view().len(), memory.bytes());
        // All three are in the same window now.
        memory.barrier(0).unwrap();
        raw.write(me * 256, &[me as u32 + 1; 256]).unwrap();
        memory.barrier(0).unwrap();
        let mut seen = vec![0; 3 * 256];
        raw.read(0, &mut seen).unwrap();
        assert!(seen.iter().enumerate().all(|(at, &element)| element as usize == at / 256 + 1));
        drop(raw);
        memory.barrier(0).unwrap();
        assert_eq!(memory.peer(0).unwrap()[..], seen);
        memory.barrier(0).unwrap();
    });
}

#[test]
fn ranks_that_add_to_one_number_lose_nothing() {
    let sums = ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u64>(1).unwrap();
        for _ in 0..10_000 {
            memory.peer(0).unwrap()[0] += 1;
        }
        memory.barrier(0).unwrap();
        let mut sum = [0];
        memory.get(0, 0, &mut sum).unwrap();
        memory.barrier(0).unwrap();
        sum[0]
    });
    assert_eq!(sums, [20_000, 20_000]);
}

#[test]
fn more_ranks_than_cores_that_add_to_one_number_lose_nothing() {
    let sums = ranks(8, |ctx| {
        let memory = meet(ctx).symmetric::<u64>(1).unwrap();
        for _ in 0..500 {
            memory.peer(7).unwrap()[0] += 1;
        }
        memory.barrier(0).unwrap();
        let mut sum = [0];
        memory.get(7, 0, &mut sum).unwrap();
        memory.barrier(0).unwrap();
        sum[0]
    });
    assert_eq!(sums, [4_000; 8]);
}

#[test]
fn a_subgroup_has_memory_of_its_own() {
    ranks(4, |ctx| {
        let group = meet(ctx);
        let colour = group.rank().get() % 2;
        // Ranks are in the opposite order there.
        let half = group.split(Some(colour), -i64::from(group.rank().get())).unwrap().unwrap();
        let memory = half.symmetric::<i32>(2).unwrap();
        let peer = 1 - half.rank().get();
        memory.put_with_signal(peer, 0, &[ctx.rank() as i32; 2], 3).unwrap();
        memory.wait_signal(peer, 3).unwrap();
        let expected = half.world_ranks()[peer as usize] as i32;
        assert_eq!(memory.local().unwrap()[..], [expected; 2]);
        memory.two_shot_all_reduce(ReduceOp::Max).unwrap();
        assert_eq!(memory.local().unwrap()[..], [2 + colour as i32; 2]);
        drop(memory);
        group.barrier().unwrap();
    });
}

#[test]
fn what_is_not_within_a_window_is_refused_and_nothing_is_moved() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric_with::<u16>(10, &channels(2)).unwrap();
        let refused = |error: consort::Error, words: &str| {
            assert!(matches!(error, consort::Error::Argument(_)), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        };
        let outside = "elements at 8 are not within a window of 10";
        refused(memory.put(1, 8, &[1; 3]).unwrap_err(), outside);
        refused(memory.get(1, 8, &mut [1; 3]).unwrap_err(), outside);
        refused(memory.put_with_signal(1, usize::MAX, &[1; 3], 0).unwrap_err(), "not within");
        refused(memory.put(2, 0, &[1]).unwrap_err(), "no rank 2 in a group of 2");
        refused(memory.peer(2).unwrap_err(), "no rank 2");
        refused(memory.raw(9).unwrap_err(), "no rank 9");
        refused(memory.put_signal(1, 2).unwrap_err(), "no channel 2: this memory has 2");
        refused(memory.wait_signal(2, 0).unwrap_err(), "no rank 2");
        refused(memory.wait_signal(1, 2).unwrap_err(), "no channel 2");
        refused(memory.barrier(2).unwrap_err(), "no channel 2");
        refused(memory.put_with_signal(1, 0, &[1], 2).unwrap_err(), "no channel 2");
        memory.barrier(1).unwrap();
        assert_eq!(memory.local().unwrap()[..], [0; 10]);
        assert_eq!(memory.signals(1 - ctx.rank(), 0).unwrap(), 0);
        memory.barrier(1).unwrap();
    });
}

fn channels(channels: usize) -> consort::symm::Options {
    consort::symm::Options::new().channels(channels)
}
