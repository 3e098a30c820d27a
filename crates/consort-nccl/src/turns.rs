//! The order in which the calls of a communicator are carried out.
//!
//! Ranks have to make the same calls in the same order, and that is the order in which the program makes them,
//! whichever streams they are on and whichever threads carry them out. So each takes a number when it is made,
//! and waits until those before it are done.
//!
//! **An abort** waits for no turn: what a call waits for may be another communicator's, which nobody has ended yet.
//! It ends the line, so that none of those that wait has to any more, and they find that there is nothing left to
//! do. It waits for those that have begun to use the program's memory, and has ended what they are at.

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
    /// How many times the program's memory is used.
    uses: usize,
    /// Nobody waits for a turn any more.
    is_over: bool,
}

/// A call's place in line. When it is dropped, it is the next one's turn.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    number: u64,
    /// Whether it uses the program's memory until it is dropped.
    is_use: bool,
}

/// That a call uses the program's memory, for as long as it is there.
#[derive(Debug)]
pub(crate) struct Use {
    turns: Arc<Turns>,
}

impl Turns {
    /// The next place. It has to be [awaited](Turn::come) in the [order](crate::order) of all, or calls of
    /// several communicators could wait for each other.
    pub(crate) fn take(self: &Arc<Self>) -> Turn {
        let mut counts = self.counts.lock();
        counts.made += 1;
        Turn { turns: self.clone(), number: counts.made, is_use: false }
    }

    /// Waits until all calls that were made so far are done; when the line has ended, until none uses the program's
    /// memory.
    pub(crate) fn drain(&self) {
        let mut counts = self.counts.lock();
        let last = counts.made;
        while !counts.are_done(last) {
            counts = self.counts.wait(counts);
        }
    }

    /// Ends the line, of a communicator that has ended. When it returns no call uses the program's memory, and none
    /// will, as each looks at its communicator before it does.
    pub(crate) fn end(&self) {
        let mut counts = self.counts.lock();
        counts.is_over = true;
        self.counts.tell(counts);
        self.drain();
    }
}

impl Counts {
    fn are_done(&self, last: u64) -> bool {
        if self.is_over { self.uses == 0 } else { self.done >= last }
    }
}

impl Turn {
    /// Waits until it is this one's turn, or nobody's any more.
    pub(crate) fn come(&self) {
        drop(self.await_mine());
    }

    /// As [`come`](Self::come), and from then on it uses the program's memory.
    pub(crate) fn begin(&mut self) {
        self.await_mine().uses += 1;
        self.is_use = true;
    }

    /// Uses the program's memory for as long as what this gives is there, when its turn has come.
    pub(crate) fn share(&self) -> Use {
        self.turns.counts.lock().uses += 1;
        Use { turns: self.turns.clone() }
    }

    fn await_mine(&self) -> Held<'_, Counts> {
        let mut counts = self.turns.counts.lock();
        while !counts.is_over && counts.done + 1 < self.number {
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
        counts.uses -= usize::from(self.is_use);
        self.turns.counts.tell(counts);
    }
}

impl Clone for Use {
    fn clone(&self) -> Self {
        self.turns.counts.lock().uses += 1;
        Self { turns: self.turns.clone() }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut counts = self.turns.counts.lock();
        counts.uses -= 1;
        self.turns.counts.tell(counts);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

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

    #[test]
    fn the_end_waits_for_who_uses_memory_and_for_nobody_else() {
        let turns = Arc::new(Turns::default());
        let [mut first, second, third] = [(); 3].map(|()| turns.take());
        first.begin();
        let (tell, told) = mpsc::channel();
        let (ends, tells) = (turns.clone(), tell.clone());
        let ending = thread::spawn(move || {
            ends.end();
            tells.send("ended").unwrap();
        });
        // It has ended for the others while the first is still at it.
        second.come();
        let shared = third.share();
        drop(first);
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "one use is left");
        drop(shared);
        assert_eq!(told.recv(), Ok("ended"));
        ending.join().unwrap();
        turns.take().begin();
        turns.drain();
        drop((second, third));
    }
}
