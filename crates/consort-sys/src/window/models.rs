//! The protocol under every interleaving that loom finds.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::leaving::{is_deserted, leave};
use super::signal::{doze_for_more, doze_until, raise, reaches, take, waiting};
use crate::word::model::{ModelWord, model};

/// What one rank signals to another.
struct ModelLine {
    count: ModelWord,
    sleepers: ModelWord,
    taken: ModelWord,
}

impl ModelLine {
    fn new() -> Self {
        Self { count: ModelWord::new(), sleepers: ModelWord::new(), taken: ModelWord::new() }
    }

    fn raise(&self) -> u32 {
        raise(&self.count, &self.sleepers)
    }

    fn await_signal(&self) {
        while !take(&self.count, &self.taken) {
            doze_for_more(&self.count, &self.sleepers, &self.taken, Duration::ZERO);
        }
    }

    fn await_count(&self, goal: u32) {
        while !reaches(&self.count, goal) {
            doze_until(&self.count, &self.sleepers, goal, Duration::ZERO);
        }
    }
}

/// Scenario *there and back*.
#[test]
fn what_was_put_before_a_signal_is_seen_after_it() {
    model(|| {
        let shared = Arc::new(([ModelLine::new(), ModelLine::new()], UnsafeCell::new(0)));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let ([there, back], cell) = &*other;
            for round in [1, 2] {
                there.await_signal();
                // SAFETY: loom itself checks that nobody writes the cell meanwhile.
                assert_eq!(cell.with(|cell| unsafe { *cell }), round * 10);
                // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
                cell.with_mut(|cell| unsafe { *cell += 1 });
                back.raise();
            }
        });
        let ([there, back], cell) = &*shared;
        for round in [1, 2] {
            // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
            cell.with_mut(|cell| unsafe { *cell = round * 10 });
            there.raise();
            back.await_signal();
            // SAFETY: as above.
            assert_eq!(cell.with(|cell| unsafe { *cell }), round * 10 + 1);
        }
        thread.join().unwrap();
    });
}

/// Scenario *two waiters*.
#[test]
fn every_signal_is_for_one_waiter() {
    model(|| {
        let line = Arc::new(ModelLine::new());
        let other = line.clone();
        let thread = thread::spawn(move || other.await_signal());
        line.raise();
        line.raise();
        line.await_signal();
        thread.join().unwrap();
        assert_eq!(waiting(&line.count, &line.taken), 0);
    });
}

/// Scenario *meet again*.
#[test]
fn nobody_passes_a_barrier_before_the_other_has_come() {
    model(|| {
        let pad = || [ModelLine::new(), ModelLine::new()];
        let pads = Arc::new([pad(), pad()]);
        let cells = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
        let rank = |me: usize, pads: Arc<[[ModelLine; 2]; 2]>, cells: Arc<[UnsafeCell<u32>; 2]>| {
            let peer = 1 - me;
            let barrier = || {
                let round = pads[me][me].raise();
                pads[peer][me].raise();
                pads[me][peer].await_count(round);
            };
            // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
            cells[me].with_mut(|cell| unsafe { *cell = 1 });
            barrier();
            // SAFETY: loom itself checks that nobody writes the cell meanwhile.
            assert_eq!(cells[peer].with(|cell| unsafe { *cell }), 1);
            barrier();
            // SAFETY: as the first time.
            cells[me].with_mut(|cell| unsafe { *cell = 2 });
        };
        let (other_pads, other_cells) = (pads.clone(), cells.clone());
        let thread = thread::spawn(move || rank(1, other_pads, other_cells));
        rank(0, pads, cells);
        thread.join().unwrap();
    });
}

/// Scenario *leaving*, with a rank that has died.
#[test]
fn a_window_is_given_away_after_the_last_look_at_it() {
    model(|| {
        let shared = Arc::new(([0; 3].map(|_| ModelWord::new()), UnsafeCell::new(0)));
        let others = [1, 2].map(|me: usize| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (left, window) = &*shared;
                // SAFETY: loom itself checks that nobody writes the cell meanwhile.
                assert_eq!(window.with(|window| unsafe { *window }), 0);
                if me == 1 {
                    leave(&left[me]);
                }
            })
        });
        let (left, window) = &*shared;
        leave(&left[0]);
        let [living, dying] = others;
        // The end of a process is known after all that it did.
        let mut dying = Some(dying);
        let deserted = is_deserted(left, |rank| {
            rank == 2 && dying.take().is_some_and(|dying| dying.join().is_ok())
        });
        if deserted {
            // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
            window.with_mut(|window| unsafe { *window = 1 });
        }
        living.join().unwrap();
        dying.into_iter().for_each(|dying| dying.join().unwrap());
    });
}
