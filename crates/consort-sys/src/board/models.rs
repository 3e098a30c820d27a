//! The protocol under every interleaving that loom finds, with two ranks.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::halt::{Ends, halt, heard};
use super::steps::{Lines, Steps};
use crate::word::Word;
use crate::word::model::{ModelWord, model};

/// Two ranks with `depth` lines and a buffer to each.
struct Model {
    steps: Vec<Vec<ModelWord>>,
    sleepers: Vec<ModelWord>,
    buffers: Vec<Vec<UnsafeCell<u32>>>,
}

impl Model {
    fn new(depth: u32) -> Arc<Self> {
        let lines = || (0..depth).map(|_| ModelWord::new()).collect();
        let buffers = || (0..depth).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self {
            steps: (0..2).map(|_| lines()).collect(),
            sleepers: (0..2).map(|_| ModelWord::new()).collect(),
            buffers: (0..2).map(|_| buffers()).collect(),
        })
    }

    fn publish(&self, steps: &mut Steps, me: usize, step: u32, value: u32) {
        while let Some((rank, first)) = steps.in_the_way(self, step, self.steps[0].len() as u32) {
            steps.doze(self, rank, first, Duration::ZERO);
        }
        // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
        self.buffers[me][steps.line_of(step)].with_mut(|cell| unsafe { *cell = value });
        steps.post(self, step);
    }

    fn take(&self, steps: &mut Steps, from: usize, step: u32) -> u32 {
        while !steps.has_posted(self, from, step) {
            steps.doze(self, from, step, Duration::ZERO);
        }
        // SAFETY: loom itself checks that nobody writes the cell meanwhile.
        self.buffers[from][steps.line_of(step)].with(|cell| unsafe { *cell })
    }
}

impl Lines for Model {
    type Word = ModelWord;

    fn step(&self, rank: usize, line: usize) -> &ModelWord {
        &self.steps[rank][line]
    }

    fn sleepers(&self, rank: usize) -> &ModelWord {
        &self.sleepers[rank]
    }
}

/// Scenario *everyone waits for everyone*.
#[test]
fn an_exchange_of_three_steps_reads_what_was_written_and_loses_no_wake_up() {
    model(|| {
        let shared = Model::new(2);
        let rank = |me: usize, shared: Arc<Model>| {
            let mut steps = Steps::new(me, 2, 2, 0);
            for step in 1..=3 {
                shared.publish(&mut steps, me, step, step * 10 + me as u32);
                let peer = 1 - me;
                assert_eq!(shared.take(&mut steps, peer, step), step * 10 + peer as u32);
            }
        };
        let other = shared.clone();
        let thread = thread::spawn(move || rank(1, other));
        rank(0, shared);
        thread.join().unwrap();
    });
}

/// Scenario *one way*: the sender waits for nobody but the reader of what it overwrites.
#[test]
fn a_sender_that_runs_ahead_does_not_overwrite_what_is_being_read() {
    model(|| {
        let shared = Model::new(2);
        let reader = shared.clone();
        let thread = thread::spawn(move || {
            let mut steps = Steps::new(1, 2, 2, 0);
            for step in 1..=4 {
                assert_eq!(reader.take(&mut steps, 0, step), step * 7);
                steps.post(&*reader, step);
            }
        });
        let mut steps = Steps::new(0, 2, 2, 0);
        for step in 1..=4 {
            shared.publish(&mut steps, 0, step, step * 7);
        }
        thread.join().unwrap();
    });
}

/// Scenario *reading behind*: data of a step is read after the next one was posted.
#[test]
fn a_reader_that_lags_by_a_step_finds_what_it_reads_unchanged() {
    model(|| {
        let shared = Model::new(4);
        let rank = |me: usize, shared: Arc<Model>| {
            let mut steps = Steps::new(me, 2, 4, 1);
            for step in 1..=4 {
                shared.publish(&mut steps, me, step, step * 10 + me as u32);
                if step > 1 {
                    let peer = 1 - me;
                    let taken = shared.take(&mut steps, peer, step - 1);
                    assert_eq!(taken, (step - 1) * 10 + peer as u32);
                }
            }
        };
        let other = shared.clone();
        let thread = thread::spawn(move || rank(1, other));
        rank(0, shared);
        thread.join().unwrap();
    });
}

/// Two ranks, and what each says when it ends the group.
struct Endings {
    halted: [ModelWord; 2],
    verdicts: [UnsafeCell<u32>; 2],
}

impl Ends for Endings {
    type Word = ModelWord;

    fn world(&self) -> usize {
        2
    }

    fn halted(&self, rank: usize) -> &ModelWord {
        &self.halted[rank]
    }
}

impl Endings {
    fn new() -> Arc<Self> {
        let (halted, verdicts) = ([(); 2].map(|()| ModelWord::new()), [0; 2].map(UnsafeCell::new));
        Arc::new(Self { halted, verdicts })
    }

    fn end(&self, me: usize) -> (usize, u32) {
        // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
        self.verdicts[me].with_mut(|cell| unsafe { *cell = me as u32 + 10 });
        let first = halt(self, me);
        (first, self.read(first))
    }

    fn read(&self, rank: usize) -> u32 {
        // SAFETY: loom itself checks that nobody writes the cell meanwhile.
        self.verdicts[rank].with(|cell| unsafe { *cell })
    }
}

/// Scenario *two ends at once*.
#[test]
fn ranks_that_end_a_group_at_once_agree_on_who_was_first() {
    model(|| {
        let shared = Endings::new();
        let (other, listener) = (shared.clone(), shared.clone());
        let thread = thread::spawn(move || other.end(1));
        let listening = thread::spawn(move || {
            let by = heard(&*listener, 1)?.unwrap();
            Some((by, listener.read(by)))
        });
        let mine = shared.end(0);
        assert_eq!(thread.join().unwrap(), mine);
        assert_eq!(mine.1, mine.0 as u32 + 10);
        assert!(listening.join().unwrap().is_none_or(|heard| heard == mine));
        assert!((0..2).all(|rank| heard(&*shared, rank) == Some(Ok(mine.0))));
    });
}

/// Somebody scribbles on the word that decides, and both find out.
#[test]
fn ranks_that_find_nonsense_agree_on_who_says_so() {
    model(|| {
        let shared = Endings::new();
        shared.halted[0].write(77);
        let other = shared.clone();
        let thread = thread::spawn(move || other.end(1));
        let mine = shared.end(0);
        assert_eq!(thread.join().unwrap(), mine);
        assert!((0..2).all(|rank| heard(&*shared, rank) == Some(Ok(mine.0))));
    });
}
