//! What becomes of states that no rank could have left.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A lock of three ranks.
#[derive(Default)]
struct Words {
    state: AtomicU32,
    sleepers: AtomicU32,
    visits: [AtomicU32; 3],
    wishes: [AtomicU32; 3],
}

impl Latch for Words {
    type Word = AtomicU32;

    fn state(&self) -> &AtomicU32 {
        &self.state
    }

    fn sleepers(&self) -> &AtomicU32 {
        &self.sleepers
    }

    fn visit(&self, rank: usize) -> &AtomicU32 {
        &self.visits[rank]
    }

    fn wishes(&self, rank: usize) -> &AtomicU32 {
        &self.wishes[rank]
    }
}

#[test]
fn a_holder_or_visitors_that_cannot_be_are_not_named() {
    let latch = Words::default();
    for state in [4 << 16, u32::MAX, 4, 0x7fff, 0xffff, 1 << 16 | 1, 2 << 16 | 1 << 15] {
        latch.state.store(state, Ordering::Relaxed);
        assert_eq!(holders(&latch, 3), Err(Nonsense(state)), "{state:#x}");
        assert_eq!(hosts(&latch, 3), Err(Nonsense(state)), "{state:#x}");
    }
    for (state, holder) in [(1 << 16, 0), (3 << 16, 2)] {
        latch.state.store(state, Ordering::Relaxed);
        assert_eq!(holders(&latch, 3), Ok(vec![holder]));
    }
}

#[test]
fn no_more_visitors_are_let_in_than_can_be_counted() {
    let latch = Words::default();
    latch.state.store(VISITORS, Ordering::Relaxed);
    assert!(!try_visit(&latch, 0));
    assert_eq!(latch.state.load(Ordering::Relaxed), VISITORS);
}

#[test]
fn a_visitor_that_was_forgotten_counts_nobody_else_out() {
    let latch = Words::default();
    for state in [FREE, WANTED, 2 << 16] {
        latch.state.store(FREE, Ordering::Relaxed);
        assert!(try_visit(&latch, 0));
        latch.state.store(state, Ordering::Relaxed);
        end_visit(&latch, 0);
        assert_eq!(latch.state.load(Ordering::Relaxed), state);
    }
}

#[test]
fn who_waits_to_be_alone_is_named_to_visitors_and_not_to_others() {
    let latch = Words::default();
    assert!(try_visit(&latch, 0));
    let wish = Wish::new(&latch, 2);
    assert!(!wish.try_alone() && !try_visit(&latch, 1));
    assert_eq!((holders(&latch, 3), hosts(&latch, 3)), (Ok(vec![0]), Ok(vec![0, 2])));
    end_visit(&latch, 0);
    // It is still to be waited for, or to be found dead.
    assert_eq!((holders(&latch, 3), hosts(&latch, 3)), (Ok(vec![]), Ok(vec![2])));
    assert!(!try_visit(&latch, 1) && wish.try_alone());
    drop(wish);
    assert_eq!(hosts(&latch, 3), Ok(vec![2]));
    end_alone(&latch);
    assert_eq!(hosts(&latch, 3), Ok(vec![]));
}
