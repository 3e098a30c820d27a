//! The protocol under every interleaving that loom finds, with a line as a queue keeps it.

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{BARRED, COUNT, Word, enter, leave, line_up, pass};
use crate::word::model::model;

struct Model {
    word: AtomicU64,
    guarded: UnsafeCell<u64>,
    /// The numbers of those in line.
    line: Mutex<Vec<u64>>,
    free: Condvar,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU64::new(0),
            guarded: UnsafeCell::new(0),
            line: Mutex::new(Vec::new()),
            free: Condvar::new(),
        })
    }

    /// Adds one: at once, or when it is its turn.
    fn add(&self) {
        if !pass(&self.word) {
            self.wait_in_line();
        }
        // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
        self.guarded.with_mut(|cell| unsafe { *cell += 1 });
        if leave(&self.word) {
            drop(self.line.lock().unwrap());
            self.free.notify_all();
        }
    }

    fn wait_in_line(&self) {
        let mut line = self.line.lock().unwrap();
        let mine = line_up(&self.word, 1) + 1;
        line.push(mine);
        while line[0] != mine || !enter(&self.word) {
            line = self.free.wait(line).unwrap();
        }
        line.remove(0);
        if line.is_empty() {
            self.word.clear(BARRED);
        }
    }
}

fn adding(threads: usize, times: usize) {
    model(move || {
        let shared = Model::new();
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || (0..times).for_each(|_| shared.add()))
            })
            .collect();
        (0..times).for_each(|_| shared.add());
        others.into_iter().for_each(|other| other.join().unwrap());
        let all = (threads * times) as u64;
        // Nobody is in, nobody is in line, and all are counted.
        assert_eq!(shared.word.read(), all << COUNT);
        // SAFETY: loom itself checks that nobody writes the cell meanwhile.
        assert_eq!(shared.guarded.with(|cell| unsafe { *cell }), all);
    });
}

#[test]
fn two_who_come_again_both_get_in_and_neither_waits_for_ever() {
    adding(2, 2);
}

#[test]
fn three_get_in_one_after_the_other_and_none_waits_for_ever() {
    adding(3, 1);
}
