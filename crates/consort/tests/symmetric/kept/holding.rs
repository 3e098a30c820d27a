//! Who gets into a window that is kept, and what is kept with it.

use std::thread;
use std::time::{Duration, Instant};

use consort::symm::{Kept, Symmetric};
use consort::{Error, ReduceOp, Result};
use consort_testkit::ranks;

use crate::{LIMIT, committed, meet};

fn is_held<T>(by: u32, refused: Result<T>) {
    let Err(error) = refused else { panic!("nobody holds it") };
    assert!(matches!(&error, Error::Held { holders, .. } if holders[..] == [by]), "{error}");
}

#[test]
fn no_other_rank_gets_into_a_kept_window_before_it_is_dropped() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let memory = group.symmetric::<u32>(8).unwrap();
        let kept = (ctx.rank() == 0).then(|| memory.keep().unwrap());
        memory.barrier(0).unwrap();
        if let Some(mut kept) = kept {
            kept.fill(7);
            memory.barrier(0).unwrap();
            memory.barrier(0).unwrap();
            // They wait.
            thread::sleep(Duration::from_millis(50));
            assert_eq!(kept[..], [7; 8]);
            thread::spawn(move || drop(kept)).join().unwrap();
        } else {
            let hasty = memory.within(Duration::from_millis(100));
            is_held(0, hasty.put(0, 1, &[1]));
            is_held(0, hasty.get(0, 1, &mut [0]));
            // Who wants to be alone is in the way of those who copy.
            memory.barrier(0).unwrap();
            is_held(0, hasty.peer(0));
            memory.barrier(0).unwrap();
            memory.put(0, ctx.rank() as usize, &[ctx.rank()]).unwrap();
        }
        memory.barrier(0).unwrap();
        assert_eq!(memory.peer(0).unwrap()[..4], [7, 1, 2, 7]);
        memory.barrier(0).unwrap();
    });
}

/// No thread has it, so that none can know whether it waits in vain.
#[test]
fn who_waits_for_a_window_that_its_own_process_keeps_hears_of_its_own_rank() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let (me, begun) = (ctx.rank(), Instant::now());
        let memory = group.symmetric::<u32>(8).unwrap();
        let kept = memory.keep().unwrap();
        let hasty = memory.within(Duration::from_millis(100));
        is_held(me, hasty.local());
        is_held(me, hasty.keep());
        is_held(me, hasty.raw(me));
        is_held(me, hasty.put(me, 0, &[1]));
        is_held(me, hasty.two_shot_all_reduce(ReduceOp::Sum));
        thread::scope(|scope| is_held(me, scope.spawn(|| hasty.put(me, 0, &[1])).join().unwrap()));
        assert!(begun.elapsed() < LIMIT / 2, "{:?}", begun.elapsed());
        // The group goes on, and whoever has time gets in.
        thread::scope(|scope| {
            let other = scope.spawn(|| memory.put(me, 0, &[7]));
            thread::sleep(Duration::from_millis(50));
            assert!(!other.is_finished());
            drop(kept);
            other.join().unwrap().unwrap();
        });
        assert_eq!(memory.keep().unwrap()[0], 7);
        memory.two_shot_all_reduce(ReduceOp::Sum).unwrap();
        assert_eq!(memory.let_through(), [14, 0]);
        group.barrier().unwrap();
    });
}

trait LetThrough {
    fn let_through(&self) -> [u32; 2];
}

impl LetThrough for Symmetric<u32> {
    /// The first two elements, by a window that is kept and let go again and again.
    fn let_through(&self) -> [u32; 2] {
        let mut memory = self.clone();
        for _ in 0..100 {
            let kept: Kept<u32> = memory.keep().unwrap();
            memory = kept.let_go();
        }
        let local = memory.local().unwrap();
        [local[0], local[1]]
    }
}

#[test]
fn a_kept_window_keeps_its_memory_and_its_group() {
    ranks(2, |ctx| {
        let world = meet(ctx);
        let group = world.split(Some(0), 0).unwrap().unwrap();
        let mut kept = group.symmetric::<u32>(1 << 20).unwrap().keep().unwrap();
        kept.fill(ctx.rank() + 1);
        drop(group);
        world.barrier().unwrap();
        // Others use what memory there is.
        for _ in 0..3 {
            let other = world.symmetric::<u32>(1 << 20).unwrap();
            other.local().unwrap().fill(99);
            other.barrier(0).unwrap();
        }
        assert!(kept.iter().all(|&element| element == ctx.rank() + 1));
        let group = kept.memory().group().clone();
        let sums = group.all_reduce_async(kept, ReduceOp::Sum).unwrap().wait().unwrap();
        drop(group);
        assert!(sums.iter().all(|&element| element == 3));
        // Each rank sees both windows.
        let before = committed(&world);
        drop(sums);
        let after = committed(&world);
        assert!(after + (8 << 20) <= before, "{before} bytes, then {after}");
    });
}

/// The thread that carries it out is then the last to have the group.
#[test]
fn a_call_that_nobody_waits_for_gives_a_kept_window_and_its_group_back() {
    ranks(2, |ctx| {
        let world = meet(ctx);
        let before = committed(&world);
        for _ in 0..5 {
            let group = world.split(Some(0), 0).unwrap().unwrap();
            for _ in 0..3 {
                let kept = group.symmetric::<f32>(1 << 20).unwrap().keep().unwrap();
                drop(group.all_reduce_async(kept, ReduceOp::Sum).unwrap());
            }
        }
        let begun = Instant::now();
        loop {
            let mut most = [committed(&world)];
            world.all_reduce(&mut most, ReduceOp::Max).unwrap();
            if most[0] <= before {
                break;
            }
            assert!(begun.elapsed() < LIMIT / 2, "{before} bytes, then {}", most[0]);
            thread::sleep(Duration::from_millis(10));
        }
        // Nothing else is kept from going on.
        let kept = world.symmetric::<f32>(1 << 16).unwrap().keep().unwrap();
        drop(world.all_reduce_async(kept, ReduceOp::Sum).unwrap().wait().unwrap());
    });
}

#[test]
fn the_part_of_a_pool_and_the_workspace_that_are_kept_are_given_to_nobody_else() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let pool = group.pool(1 << 20).unwrap();
        let kept = pool.symmetric::<u32>(1_000).unwrap().keep().unwrap();
        let place = kept.memory().offset();
        assert_ne!(pool.symmetric::<u32>(1_000).unwrap().offset(), place);
        drop(kept);
        let again = pool.symmetric::<u32>(1_000).unwrap();
        assert_eq!(again.offset(), place);
        // Its lock is as new.
        again.put(1 - ctx.rank(), 0, &[5]).unwrap();
        again.barrier(0).unwrap();
        assert_eq!(again.keep().unwrap()[0], 5);

        let mut kept = group.workspace::<u32>(1_000).unwrap().keep().unwrap();
        kept.fill(1);
        let other = group.workspace::<u32>(1_000).unwrap();
        other.local().unwrap().fill(2);
        assert_eq!(kept[..], [1; 1_000]);
        drop((kept, other));
        group.workspace::<u32>(1_000).unwrap().barrier(0).unwrap();
    });
}
