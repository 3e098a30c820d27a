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
    wishes: [ModelWord; 2],
    guarded: UnsafeCell<u32>,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: ModelWord::new(),
            sleepers: ModelWord::new(),
            visits: [ModelWord::new(), ModelWord::new()],
            wishes: [ModelWord::new(), ModelWord::new()],
            guarded: UnsafeCell::new(0),
        })
    }

    /// Waits until it is in alone, and adds one.
    fn add_alone(&self, me: usize) {
        if !try_alone(self, me) {
            self.wait_to_be_alone(&Wish::new(self, me));
        }
        self.add();
        end_alone(self);
    }

    fn wait_to_be_alone(&self, wish: &Wish<'_, Self>) {
        while !wish.try_alone() {
            doze_alone(self, Duration::ZERO);
        }
    }

    fn add(&self) {
        // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
        self.guarded.with_mut(|cell| unsafe { *cell += 1 });
    }

    fn look(&self, me: usize) -> u32 {
        while !try_visit(self, me) {
            doze_visit(self, me, Duration::ZERO);
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

    fn visit(&self, rank: usize) -> &ModelWord {
        &self.visits[rank]
    }

    fn wishes(&self, rank: usize) -> &ModelWord {
        &self.wishes[rank]
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
        assert_eq!(hosts(&*shared, 2), Ok(vec![]));
    });
}

/// Scenario *handed on*: the lock is taken on one thread and given back on another.
#[test]
fn a_thread_that_was_handed_the_lock_lets_in_who_waits_for_it() {
    model(|| {
        let shared = Model::new();
        let other = shared.clone();
        let waiting = thread::spawn(move || other.add_alone(1));
        if !try_alone(&*shared, 0) {
            shared.wait_to_be_alone(&Wish::new(&*shared, 0));
        }
        shared.add();
        let handed_on = shared.clone();
        let holder = thread::spawn(move || {
            handed_on.add();
            end_alone(&*handed_on);
        });
        holder.join().unwrap();
        waiting.join().unwrap();
        assert_eq!(shared.value(), 3);
        assert_eq!(hosts(&*shared, 2), Ok(vec![]));
    });
}

/// Scenario *alone after a visit*.
#[test]
fn a_visitor_sees_all_that_was_done_alone_or_nothing_of_it() {
    model(|| {
        let shared = Model::new();
        let other = shared.clone();
        let thread = thread::spawn(move || assert!(other.look(1) <= other.look(1)));
        shared.add_alone(0);
        assert_eq!(shared.look(0), 1);
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

/// Scenario *two of one rank*: loom would find them in the cell at once.
#[test]
fn threads_of_one_rank_visit_one_after_the_other() {
    model(|| {
        let shared = Model::new();
        let add = |shared: &Model| {
            while !try_visit(shared, 0) {
                doze_visit(shared, 0, Duration::ZERO);
            }
            shared.add();
            end_visit(shared, 0);
        };
        let other = shared.clone();
        let thread = thread::spawn(move || add(&other));
        add(&shared);
        thread.join().unwrap();
        assert_eq!(shared.value(), 2);
    });
}

/// A visitor is turned away by one who is alone, while another thread of its rank waits.
#[test]
fn a_visitor_that_is_turned_away_leaves_the_way_free() {
    model(|| {
        let shared = Model::new();
        let alone = shared.clone();
        let thread = thread::spawn(move || alone.add_alone(1));
        let visiting = shared.clone();
        let visitor = thread::spawn(move || visiting.look(0));
        shared.look(0);
        visitor.join().unwrap();
        thread.join().unwrap();
        assert_eq!(hosts(&*shared, 2), Ok(vec![]));
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
                assert_eq!(holders(&*other, 2), Ok(vec![1]));
            }
        });
        assert!(try_visit(&*shared, 1));
        thread.join().unwrap();
        assert!(!try_alone(&*shared, 0));
        assert_eq!(holders(&*shared, 2), Ok(vec![1]));
    });
}

/// Scenario *wanted*: from the first vain try on nobody comes in before the one who waits.
#[test]
fn visitors_who_come_later_let_the_one_pass_who_waits_to_be_alone() {
    model(|| {
        let shared = Model::new();
        assert!(try_visit(&*shared, 0));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let wish = Wish::new(&*other, 1);
            if !wish.try_alone() {
                assert!(!try_visit(&*other, 1));
                other.wait_to_be_alone(&wish);
            }
            drop(wish);
            other.add();
            end_alone(&*other);
        });
        end_visit(&*shared, 0);
        let seen = shared.look(0);
        thread.join().unwrap();
        assert!(seen <= shared.value());
        assert_eq!(hosts(&*shared, 2), Ok(vec![]));
    });
}

/// Scenario *no longer wanted*: who was turned away for somebody who gives up comes in.
#[test]
fn a_wish_that_is_given_up_wakes_the_visitors_it_kept_out() {
    model(|| {
        let shared = Model::new();
        assert!(try_visit(&*shared, 0));
        let other = shared.clone();
        let thread = thread::spawn(move || other.look(1));
        let wish = Wish::new(&*shared, 0);
        assert!(!wish.try_alone());
        drop(wish);
        thread.join().unwrap();
        end_visit(&*shared, 0);
        assert_eq!(hosts(&*shared, 2), Ok(vec![]));
    });
}

/// One gives its wish up, and the bit that is the other's as well; the other says it again.
#[test]
fn a_wish_that_is_given_up_leaves_those_of_others() {
    model(|| {
        let shared = Model::new();
        assert!(try_visit(&*shared, 0));
        let other = shared.clone();
        let thread = thread::spawn(move || other.add_alone(1));
        let wish = Wish::new(&*shared, 0);
        assert!(!wish.try_alone());
        drop(wish);
        end_visit(&*shared, 0);
        thread.join().unwrap();
        assert_eq!(shared.value(), 1);
        assert_eq!(hosts(&*shared, 2), Ok(vec![]));
    });
}
