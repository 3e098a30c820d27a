//! Memory on loan.

use consort_testkit::ranks;

use super::{committed, meet};

#[test]
fn loans_do_not_collide_and_are_lent_again() {
    ranks(3, |ctx| {
        let group = meet(ctx);
        let right = (ctx.rank() + 1) % 3;
        let left = (ctx.rank() + 2) % 3;
        let mut after_first = 0;
        for round in 0..10 {
            let one = group.workspace::<u32>(10_000).unwrap();
            let other = group.workspace::<u64>(500).unwrap();
            assert_eq!((one.len(), other.len()), (10_000, 500));
            one.put_with_signal(right, 0, &[round; 10_000], 0).unwrap();
            other.put_with_signal(right, 0, &[u64::from(round) + 1; 500], 0).unwrap();
            one.wait_signal(left, 0).unwrap();
            other.wait_signal(left, 0).unwrap();
            assert!(one.local().unwrap().iter().all(|&element| element == round));
            assert!(other.local().unwrap().iter().all(|&element| element == u64::from(round) + 1));
            // A signal that nobody waits for does not reach the next who borrows.
            one.put_signal(right, 4).unwrap();
            one.barrier(1).unwrap();
            assert_eq!(one.signals(left, 4).unwrap(), 1);
            if round == 0 {
                after_first = committed(&group);
            }
            assert_eq!(committed(&group), after_first);
            one.barrier(1).unwrap();
        }
    });
}

#[test]
fn what_one_rank_still_has_on_loan_is_not_lent_again() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let first = group.workspace::<u32>(100).unwrap();
        first.local().unwrap().fill(1);
        first.barrier(0).unwrap();
        let kept = (ctx.rank() == 0).then_some(first);
        // For rank 1 the first is idle, for rank 0 it is not.
        let second = group.workspace::<u32>(100).unwrap();
        second.local().unwrap().fill(2);
        second.barrier(0).unwrap();
        if let Some(kept) = kept {
            for rank in 0..2 {
                assert!(kept.peer(rank).unwrap().iter().all(|&element| element == 1));
            }
        }
        group.barrier().unwrap();
    });
}

#[test]
fn a_workspace_that_is_too_small_is_replaced() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        for bytes in [1 << 20, 2 << 20, 4 << 20, 8 << 20] {
            let workspace = group.workspace::<u8>(bytes).unwrap();
            workspace.local().unwrap().fill(ctx.rank() as u8);
            workspace.barrier(0).unwrap();
        }
        drop(group.workspace::<u8>(100).unwrap());
        // Those that were too small are gone.
        let committed = committed(&group);
        // Two ranks with a workspace of 8 MiB, and three megabytes of buffers.
        assert!((16 << 20..20 << 20).contains(&committed), "{committed}");
    });
}

#[test]
fn ranks_that_want_to_borrow_different_sizes_are_told() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let error = group.workspace::<u8>(10 + ctx.rank() as usize).unwrap_err().to_string();
        assert!(error.ends_with("\n  length: 10 on rank 0, 11 on rank 1"), "{error}");
        group.workspace::<u8>(10).unwrap().barrier(0).unwrap();
    });
}
