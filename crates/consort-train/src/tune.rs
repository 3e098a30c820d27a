//! Which sizes of buckets would have been best for a pass that was seen. Pure: it asks no clock and no
//! group, and computes in whole nanoseconds, so that the same figures give the same sizes everywhere.
//!
//! A pass is played again, with other buckets. A bucket can go when its last gradient is ready. Buckets go
//! in their order and one at a time, as the calls of a group do: each begins when it is ready and the one
//! before it is back. What counts is how long after the end of backward the last one is back.
//!
//! ```text
//! backward  ───────────────────────────────┤
//! ready      a      b    c               d
//! on the way        ├─ a, b ─┤├── c ──┤  ├─ d ─┤
//!                                          ├───┤ exposed
//! ```
//!
//! Many small buckets leave little for the end; few large ones cost less in all. Where the best lies
//! between depends on the model and on the group, so all sizes of a grid are tried.

mod cost;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(crate) use self::cost::Cost;
use crate::assign::{Caps, assign};
use crate::error::Result;
use crate::parameter::Parameter;

/// What was seen of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) parameters: &'a [Parameter],
    /// All parameters in the order in which their gradients were ready, and when each was, counted from
    /// when the pass began. One that had none is ready when backward ends.
    pub(crate) ready: &'a [(usize, Duration)],
    /// When backward ended.
    pub(crate) end: Duration,
}

/// What is best, and by how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    pub(crate) caps: Caps,
    /// How long after the end of backward the last bucket would be back with these.
    pub(crate) exposed: Duration,
    /// The same for the sizes in use.
    pub(crate) exposed_now: Duration,
}

impl Advice {
    /// To leave the sizes as they are, as nothing is known.
    pub(crate) fn none(caps: &Caps) -> Self {
        Self { caps: caps.clone(), exposed: Duration::ZERO, exposed_now: Duration::ZERO }
    }

    /// As numbers that can be sent: the sizes of the first bucket and of all others, and the times.
    pub(crate) fn to_words(&self) -> [u64; 4] {
        let sizes = self.caps.bytes();
        let (first, others) = (sizes[0], sizes[sizes.len() - 1]);
        let (exposed, now) = (nanoseconds(self.exposed), nanoseconds(self.exposed_now));
        [first as u64, others as u64, exposed, now]
    }

    /// What such numbers say.
    ///
    /// # Errors
    /// When no bucket can have such a size.
    pub(crate) fn of_words([first, others, exposed, now]: [u64; 4]) -> Result<Self> {
        let caps = Caps::list([first as usize, others as usize])?;
        let [exposed, exposed_now] = [exposed, now].map(Duration::from_nanos);
        Ok(Self { caps, exposed, exposed_now })
    }
}

/// The sizes with which the last bucket of a pass would be back first; of several the one with fewest
/// buckets, and those in use if nothing is better. A parameter for which `is_alone` has a bucket of its own,
/// which takes as long as a call with all its bytes.
pub(crate) fn advise(
    seen: Seen<'_>,
    cost: &Cost,
    in_use: &Caps,
    is_alone: impl Fn(&Parameter) -> bool,
) -> Advice {
    let play = |caps: &Caps| seen.play(cost, caps, &is_alone);
    let now = play(in_use);
    let (mut best, mut caps) = (now, in_use.clone());
    for candidate in grid(seen.bytes()) {
        let played = play(&candidate);
        if played < best {
            (best, caps) = (played, candidate);
        }
    }
    let exposed = |played: Played| Duration::from_nanos(played.exposed);
    Advice { caps, exposed: exposed(best), exposed_now: exposed(now) }
}

/// What comes of some sizes, the better the less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Played {
    /// In nanoseconds.
    exposed: u64,
    buckets: usize,
}

impl Seen<'_> {
    /// What would have come of these sizes.
    fn play(self, cost: &Cost, caps: &Caps, is_alone: impl Fn(&Parameter) -> bool) -> Played {
        let mut ready = vec![0; self.parameters.len()];
        self.ready.iter().for_each(|&(index, at)| ready[index] = nanoseconds(at));
        let order = self.ready.iter().map(|&(index, _)| index);
        let buckets = assign(self.parameters, order, caps, is_alone);
        let mut back = nanoseconds(self.end);
        let mut free = 0_u64;
        for bucket in &buckets {
            let complete = bucket.iter().map(|&index| ready[index]).max().unwrap_or(0);
            let bytes = bucket.iter().map(|&index| self.parameters[index].bytes()).sum();
            free = free.max(complete).saturating_add(cost.of(bytes));
            back = back.max(free);
        }
        Played { exposed: back - nanoseconds(self.end), buckets: buckets.len() }
    }

    /// How many bytes all gradients have.
    fn bytes(self) -> usize {
        self.ready.iter().map(|&(index, _)| self.parameters[index].bytes()).sum()
    }
}

/// The sizes that are tried for gradients of so many bytes: the larger ones first, of which there are fewer
/// buckets.
fn grid(bytes: usize) -> impl Iterator<Item = Caps> {
    let all = bytes.max(1);
    let sizes = (SMALLEST..=LARGEST).rev().map(|power| 1_usize << power);
    // One that is never full is as good as another.
    let sizes: Vec<usize> = sizes.filter(|&size| size < all).collect();
    let general = [&[all][..], &sizes].concat();
    let pairs = sizes.into_iter().flat_map(move |first| {
        general.clone().into_iter().map(move |general| vec![first, general])
    });
    let caps = [vec![all]].into_iter().chain(pairs).map(Caps::list);
    caps.map(|caps| caps.expect("every list has a size, and none of 0"))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Powers of two: 64 KiB.
const SMALLEST: u32 = 16;
/// 64 MiB.
const LARGEST: u32 = 26;
