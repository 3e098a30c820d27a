//! The order in which ranks that keep step use a few stages, under every interleaving that loom
//! finds, with two ranks. What is modelled is `TwoShot` of crate `consort`.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::steps::{Lines, Steps};
use crate::word::model::{ModelWord, model};

/// Two ranks, each with a few stages. A stage has a part where a chunk goes in, and one where the
/// chunk before it comes out.
struct Model {
    steps: Vec<Vec<ModelWord>>,
    sleepers: Vec<ModelWord>,
    goes_in: Vec<Vec<UnsafeCell<u32>>>,
    comes_out: Vec<Vec<UnsafeCell<u32>>>,
}

impl Model {
    fn new(stages: usize) -> Arc<Self> {
        let lines = || (0..DEPTH).map(|_| ModelWord::new()).collect();
        let cells = || (0..stages).map(|_| UnsafeCell::new(0)).collect::<Vec<_>>();
        Arc::new(Self {
            steps: (0..2).map(|_| lines()).collect(),
            sleepers: (0..2).map(|_| ModelWord::new()).collect(),
            goes_in: (0..2).map(|_| cells()).collect(),
            comes_out: (0..2).map(|_| cells()).collect(),
        })
    }

    fn wait(&self, steps: &mut Steps, rank: usize, step: u32) {
        while !steps.has_posted(self, rank, step) {
            steps.doze(self, rank, step, Duration::ZERO);
        }
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

fn write(cell: &UnsafeCell<u32>, value: u32) {
    // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
    cell.with_mut(|cell| unsafe { *cell = value });
}

fn read(cell: &UnsafeCell<u32>) -> u32 {
    // SAFETY: loom itself checks that nobody writes the cell meanwhile.
    cell.with(|cell| unsafe { *cell })
}

/// One rank's side of calls of so many chunks each, one after the other.
fn rank(me: usize, shared: &Model, calls: &[u32]) {
    let peer = 1 - me;
    let stage = |number: u32| number as usize % shared.goes_in[0].len();
    let mut steps = Steps::new(me, 2, DEPTH, 2);
    let (mut first_step, mut first_stage) = (1, 0);
    for &chunks in calls {
        let value = |who: usize, chunk: u32| (first_step + chunk) * 10 + who as u32;
        let go_in = |chunk: u32| {
            write(&shared.goes_in[me][stage(first_stage + chunk)], value(me, chunk));
        };
        for turn in 0..=chunks {
            match turn.checked_sub(1) {
                None => go_in(0),
                Some(chunk) => {
                    let theirs = read(&shared.goes_in[peer][stage(first_stage + chunk)]);
                    assert_eq!(theirs, value(peer, chunk));
                    let mine = &shared.comes_out[me][stage(first_stage + turn)];
                    write(mine, value(me, chunk) + 100);
                }
            }
            steps.post(shared, first_step + turn);
            if turn + 1 < chunks {
                go_in(turn + 1);
            }
            shared.wait(&mut steps, peer, first_step + turn);
            if let Some(chunk) = turn.checked_sub(1) {
                let theirs = read(&shared.comes_out[peer][stage(first_stage + turn)]);
                assert_eq!(theirs, value(peer, chunk) + 100);
            }
        }
        first_step += chunks + 1;
        first_stage += chunks + 1;
    }
}

/// Scenario *keeping step*: two calls, with chunks enough to come round to the first stage.
#[test]
fn three_stages_are_enough_for_ranks_that_keep_step() {
    model(|| {
        let shared = Model::new(3);
        let other = shared.clone();
        let thread = thread::spawn(move || rank(1, &other, &[3, 1]));
        rank(0, &shared, &[3, 1]);
        thread.join().unwrap();
    });
}

/// More than all steps: who waits for whom is what matters here.
const DEPTH: u32 = 8;
