//! The protocol under every interleaving that loom finds.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::word::model::{ModelWord, model};

/// A lock of two ranks, and what it guards.
struct Model {
    state: ModelWord,
    sleepers: ModelWord,
    visits: [ModelWord; 2],
    guarded: UnsafeCell<u32>,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: ModelWord::new(),
            sleepers: ModelWord::new(),
            visits: [ModelWord::new(), ModelWord::new()],
            guarded: UnsafeCell::new(0),
        })
    }

    /// Waits until it is in alone, and adds one.
    fn add_alone(&self, me: usize) {
        while !try_alone(self, me) {
            doze_alone(self, Duration::ZERO);
        }
        // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
        self.guarded.with_mut(|cell| unsafe { *cell += 1 });
        end_alone(self);
    }

    fn visit(&self, me: usize) -> u32 {
        while !try_visit(self, me) {
            doze_visit(self, Duration::ZERO);
        }
        // SAFETY: loom itself checks that nobody writes the cell meanwhile.
        let seen = self.guarded.with(|cell| unsafe { *cell });
        end_visit(self, me);
        seen
    }

    fn value(&self) -> u32 {
        // SAFETY: loom itself checks that nobody writes the cell meanwhile.
        self.guarded.with(|cell| unsafe { *cell })
    }
}

impl Latch for Model {
    type Word = ModelWord;

    fn state(&self) -> &ModelWord {
        &self.state
    }

    fn sleepers(&self) -> &ModelWord {
        &self.sleepers
    }

    fn visits(&self, rank: usize) -> &ModelWord {
        &self.visits[rank]
    }
}

/// Scenario *two alone*.
#[test]
fn ranks_that_want_to_be_alone_come_one_after_the_other_and_none_sleeps_for_ever() {
    model(|| {
        let shared = Model::new();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.add_alone(1);
            other.add_alone(1);
        });
        shared.add_alone(0);
        shared.add_alone(0);
        thread.join().unwrap();
        assert_eq!(shared.value(), 4);
        assert!(holders(&*shared, 2).is_empty());
    });
}

/// Scenario *alone after a visit*.
#[test]
fn a_visitor_sees_all_that_was_done_alone_or_nothing_of_it() {
    model(|| {
        let shared = Model::new();
        let other = shared.clone();
        let thread = thread::spawn(move || assert!(other.visit(1) <= other.visit(1)));
        shared.add_alone(0);
        assert_eq!(shared.visit(0), 1);
        thread.join().unwrap();
    });
}

/// Scenario *the last visitor*: both leave at once while a third thread wants to be alone.
#[test]
fn the_last_of_several_visitors_wakes_who_wants_to_be_alone() {
    model(|| {
        let shared = Model::new();
        assert!(try_visit(&*shared, 0) && try_visit(&*shared, 1));
        let other = shared.clone();
        let thread = thread::spawn(move || end_visit(&*other, 1));
        let third = shared.clone();
        let alone = thread::spawn(move || third.add_alone(0));
        end_visit(&*shared, 0);
        thread.join().unwrap();
        alone.join().unwrap();
        assert_eq!(shared.value(), 1);
    });
}

/// Scenario *a name for the dead*.
#[test]
fn whoever_is_in_is_known_by_name() {
    model(|| {
        let shared = Model::new();
        let other = shared.clone();
        let thread = thread::spawn(move || {
            if other.state.read() != FREE {
                assert_eq!(holders(&*other, 2), [1]);
            }
        });
        assert!(try_visit(&*shared, 1));
        thread.join().unwrap();
        assert!(!try_alone(&*shared, 0));
        assert_eq!(holders(&*shared, 2), [1]);
    });
}
