//! The order in which the calls of a communicator are carried out.
//!
//! Ranks have to make the same calls in the same order, and that is the order in which the program makes them,
//! whichever streams they are on and whichever threads carry them out. So each takes a number when it is made,
//! and waits until those before it are done.

use std::sync::Arc;

use crate::watched::{Held, Watched};

/// The calls of a communicator.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    counts: Watched<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// How many were made.
    made: u64,
    /// How many are done.
    done: u64,
}

/// A call's place in line. When it is dropped, it is the next one's turn.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

impl Turns {
    /// The next place. It has to be [awaited](Turn::come) in the order of [`batch`](crate::batch), or calls of
    /// several communicators could wait for each other.
    pub(crate) fn take(self: &Arc<Self>) -> Turn {
        let mut counts = self.counts.lock();
        counts.made += 1;
        Turn { turns: self.clone(), number: counts.made }
    }

    /// Waits until all calls that were made so far are done.
    pub(crate) fn drain(&self) {
        let mut counts = self.counts.lock();
        let last = counts.made;
        while counts.done < last {
            counts = self.counts.wait(counts);
        }
    }
}

impl Turn {
    /// Waits until it is this one's turn.
    pub(crate) fn come(&self) {
        drop(self.await_mine());
    }

    fn await_mine(&self) -> Held<'_, Counts> {
        let mut counts = self.turns.counts.lock();
        while counts.done + 1 < self.number {
            counts = self.turns.counts.wait(counts);
        }
        counts
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // One that gives up early still stands in line.
        let mut counts = self.await_mine();
        counts.done += 1;
        self.turns.counts.tell(counts);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn calls_are_carried_out_in_the_order_in_which_they_were_made() {
        let turns = Arc::new(Turns::default());
        let places: Vec<Turn> = (0..8).map(|_| turns.take()).collect();
        let (tell, told) = mpsc::channel();
        let threads: Vec<_> = places
            .into_iter()
            .rev()
            .map(|turn| {
                let tell = tell.clone();
                thread::spawn(move || {
                    turn.come();
                    tell.send(turn.number).unwrap();
                })
            })
            .collect();
        turns.drain();
        assert_eq!(told.iter().take(8).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
