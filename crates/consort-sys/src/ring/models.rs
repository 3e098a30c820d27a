//! The protocol under every interleaving that loom finds.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::bell::{doze, ring};
use super::flow::{Reader, Writer};
use crate::word::model::{ModelWord, model};

/// A ring of lines that hold a number each.
struct ModelRing {
    head: ModelWord,
    tail: ModelWord,
    lines: Vec<UnsafeCell<u32>>,
}

impl ModelRing {
    fn new(lines: u32) -> Self {
        let cells = (0..lines).map(|_| UnsafeCell::new(0)).collect();
        Self { head: ModelWord::new(), tail: ModelWord::new(), lines: cells }
    }

    /// Writes a line if there is room, and tells its reader.
    fn push(&self, writer: &mut Writer, value: u32, reader: &ModelBell) -> bool {
        if writer.room(&self.tail, 1).unwrap() == 0 {
            return false;
        }
        // SAFETY: loom itself checks that nobody else is in the cell meanwhile.
        self.lines[writer.place(0)].with_mut(|cell| unsafe { *cell = value });
        writer.publish(&self.head, 1);
        reader.ring();
        true
    }

    /// Reads a line if there is one, and tells its writer.
    fn pull(&self, reader: &mut Reader, writer: &ModelBell) -> Option<u32> {
        if reader.ready(&self.head).unwrap() == 0 {
            return None;
        }
        // SAFETY: loom itself checks that nobody writes the cell meanwhile.
        let value = self.lines[reader.place()].with(|cell| unsafe { *cell });
        if reader.advance(&self.tail, 1) {
            writer.ring();
        }
        Some(value)
    }
}

struct ModelBell {
    bell: ModelWord,
    sleepers: ModelWord,
}

impl ModelBell {
    fn new() -> Self {
        Self { bell: ModelWord::new(), sleepers: ModelWord::new() }
    }

    fn ring(&self) {
        ring(&self.bell, &self.sleepers);
    }

    /// Sleeps until `look` finds what it looks for.
    fn wait(&self, mut look: impl FnMut() -> bool) {
        let mut found = look();
        while !found {
            let look_again = || {
                found = look();
                found
            };
            doze(&self.bell, &self.sleepers, look_again, Duration::ZERO);
        }
    }
}

/// Scenario *one way*: more lines than the ring has, and both ends sleep.
#[test]
fn what_is_written_is_read_once_in_order_and_no_wake_up_is_lost() {
    model(|| {
        let shared = Arc::new((ModelRing::new(2), ModelBell::new(), ModelBell::new()));
        let reading = shared.clone();
        let thread = thread::spawn(move || {
            let (ring, writers, readers) = &*reading;
            let mut reader = Reader::new(2);
            for expected in 1..=3 {
                let mut value = None;
                readers.wait(|| {
                    value = ring.pull(&mut reader, writers);
                    value.is_some()
                });
                assert_eq!(value, Some(expected));
            }
        });
        let (ring, writers, readers) = &*shared;
        let mut writer = Writer::new(2);
        for value in 1..=3 {
            writers.wait(|| ring.push(&mut writer, value, readers));
        }
        thread.join().unwrap();
    });
}

/// Scenario *both ways*: each rank sends more than a ring holds while it receives as much.
#[test]
fn two_ranks_that_send_to_each_other_at_once_both_come_through() {
    let mut builder = loom::model::Builder::new();
    // With three it takes as long as all other models together.
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let rings = [ModelRing::new(1), ModelRing::new(1)];
        let shared = Arc::new((rings, [ModelBell::new(), ModelBell::new()]));
        let rank = |me: usize, shared: Arc<([ModelRing; 2], [ModelBell; 2])>| {
            let (rings, bells) = &*shared;
            let peer = 1 - me;
            let (mut writer, mut reader) = (Writer::new(1), Reader::new(1));
            let (mut sent, mut received) = (0, 0);
            bells[me].wait(|| {
                while sent < 2 && rings[me].push(&mut writer, sent, &bells[peer]) {
                    sent += 1;
                }
                while let Some(value) = rings[peer].pull(&mut reader, &bells[peer]) {
                    assert_eq!(value, received);
                    received += 1;
                }
                (sent, received) == (2, 2)
            });
        };
        let other = shared.clone();
        let thread = thread::spawn(move || rank(1, other));
        rank(0, shared);
        thread.join().unwrap();
    });
}

/// Scenario *from any*: two writers ring the same bell.
#[test]
fn a_rank_that_waits_for_several_others_hears_each_of_them() {
    model(|| {
        let rings = [ModelRing::new(1), ModelRing::new(1)];
        let bells = [ModelBell::new(), ModelBell::new(), ModelBell::new()];
        let shared = Arc::new((rings, bells));
        let writers = [0, 1].map(|me| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (rings, bells) = &*shared;
                assert!(rings[me].push(&mut Writer::new(1), 7, &bells[2]));
            })
        });
        let (rings, bells) = &*shared;
        let mut readers = [Reader::new(1), Reader::new(1)];
        let mut received = 0;
        bells[2].wait(|| {
            for from in [0, 1] {
                received += rings[from].pull(&mut readers[from], &bells[from]).unwrap_or(0);
            }
            received == 14
        });
        for writer in writers {
            writer.join().unwrap();
        }
    });
}

/// Scenario *for a neighbour*: a thread has received what another thread of its rank waits for.
#[test]
fn a_thread_hears_of_what_another_thread_of_its_rank_left_for_it() {
    model(|| {
        let shared = Arc::new((Mutex::new(None), ModelBell::new()));
        let leaving = shared.clone();
        let thread = thread::spawn(move || {
            *leaving.0.lock().unwrap() = Some(7);
            leaving.1.ring();
        });
        let (left, bell) = &*shared;
        bell.wait(|| *left.lock().unwrap() == Some(7));
        thread.join().unwrap();
    });
}
