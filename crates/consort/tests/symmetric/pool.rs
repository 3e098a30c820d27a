//! Parts of a pool.

use consort::symm::Options;
use consort::{Error, ReduceOp};
use consort_testkit::ranks;

use super::{coded, committed, meet};

#[test]
fn parts_of_a_pool_are_apart_and_their_places_are_used_again() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let pool = group.pool(1 << 20).unwrap();
        assert_eq!(pool.bytes(), 1 << 20);
        let before = committed(&group);
        let me = ctx.rank() as usize;
        let parts: Vec<_> = [1, 100, 5_000].map(|len| pool.symmetric::<u64>(len).unwrap()).into();
        for (which, part) in parts.iter().enumerate() {
            let coded: Vec<u64> = (0..part.len()).map(|at| coded(me, which, at)).collect();
            part.put((ctx.rank() + 1) % 3, 0, &coded).unwrap();
            part.put_signal((ctx.rank() + 1) % 3, which).unwrap();
        }
        let left = (me + 2) % 3;
        for (which, part) in parts.iter().enumerate() {
            part.wait_signal(left as u32, which).unwrap();
            let window = part.local().unwrap();
            assert!((0..part.len()).all(|at| window[at] == coded(left, which, at)));
        }
        let offsets: Vec<usize> = parts.iter().map(|part| part.offset()).collect();
        assert!(offsets.is_sorted() && offsets[2].is_multiple_of(4096), "{offsets:?}");
        // A signal that nobody waited for is not found by those who come next.
        parts[1].put_signal(left as u32, 9).unwrap();
        parts[1].barrier(9).unwrap();
        drop(parts);
        let again: Vec<_> = [1, 100, 5_000].map(|len| pool.symmetric::<u64>(len).unwrap()).into();
        assert!(again.iter().map(|part| part.offset()).eq(offsets));
        assert_eq!(again[1].signals((ctx.rank() + 1) % 3, 9).unwrap(), 0);
        again[0].local().unwrap()[0] = 5;
        again[0].two_shot_all_reduce(ReduceOp::Sum).unwrap();
        assert_eq!(again[0].local().unwrap()[0], 15);
        assert_eq!(committed(&group), before);
    });
}

#[test]
fn ranks_that_dropped_different_parts_are_told_and_can_make_up_for_it() {
    let errors = ranks(2, |ctx| {
        let group = meet(ctx);
        let pool = group.pool(1 << 20).unwrap();
        let parts = [(); 3].map(|()| Some(pool.symmetric::<u32>(10).unwrap()));
        let [first, second, third] = parts;
        let (mut first, mut second) = (first, second);
        if ctx.rank() == 0 {
            first.take()
        } else {
            second.take()
        };
        let error = pool.symmetric::<u32>(10).unwrap_err();
        assert!(matches!(error, Error::Asymmetric { .. }), "{error}");
        // What is still held is unharmed.
        let third = third.unwrap();
        third.put_with_signal(1 - ctx.rank(), 0, &[ctx.rank(); 10], 0).unwrap();
        third.wait_signal(1 - ctx.rank(), 0).unwrap();
        assert_eq!(third.local().unwrap()[..], [1 - ctx.rank(); 10]);
        drop((first, second));
        pool.symmetric::<u32>(10).unwrap().barrier(0).unwrap();
        error.to_string()
    });
    let size = 64 * (1 + 2 + 2 * 16) + 64;
    for error in errors {
        let expected = format!("place in the pool: 0 on rank 0, {size} on rank 1");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn what_a_pool_has_no_room_for_is_refused_on_all_ranks() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let pool = group.pool(64 << 10).unwrap();
        let full = pool.symmetric::<u8>(64 << 10).unwrap_err();
        assert!(
            full.to_string().contains("no room for 65536 u8 in a pool of 65536 bytes"),
            "{full}"
        );
        let named = pool.symmetric_with::<u8>(1, &Options::new().persistent("x")).unwrap_err();
        assert!(named.to_string().contains("has no id"), "{named}");
        let small = pool.symmetric_with::<u8>(60 << 10, &Options::new().channels(1)).unwrap();
        small.barrier(0).unwrap();
        // Memory of a pool outlives it.
        drop(pool);
        assert_eq!(small.local().unwrap().len(), 60 << 10);
        small.barrier(0).unwrap();
    });
}
