//! Who learns from which pictures in which step: pure, from a seed.

use std::ops::Range;

use super::random::Random;

/// The order in which pictures are learned from: all of them, then all again in another order.
#[derive(Debug)]
pub(crate) struct Batches {
    seed: u64,
    count: usize,
    batch: usize,
    /// Which round the order is of, and that order.
    round: Option<(usize, Vec<usize>)>,
}

impl Batches {
    /// Of `count` pictures, `batch` in each step.
    pub(crate) fn new(seed: u64, count: usize, batch: usize) -> Self {
        Self { seed, count, batch, round: None }
    }

    /// The pictures that one of several ranks learns from in a step.
    pub(crate) fn of(&mut self, step: usize, rank: usize, world: usize) -> Vec<usize> {
        let begin = step * self.batch;
        let mine = share(self.batch, rank, world);
        (begin + mine.start..begin + mine.end).map(|place| self.picture(place)).collect()
    }

    fn picture(&mut self, place: usize) -> usize {
        let (round, place) = (place / self.count, place % self.count);
        match &self.round {
            Some((number, order)) if *number == round => order[place],
            _ => {
                let mut order: Vec<usize> = (0..self.count).collect();
                Random::of(&[self.seed, SHUFFLE, round as u64]).shuffle(&mut order);
                let picture = order[place];
                self.round = Some((round, order));
                picture
            }
        }
    }
}

/// One rank's part of so many: all parts are as large as the others, or smaller by one.
pub(crate) fn share(count: usize, rank: usize, world: usize) -> Range<usize> {
    count * rank / world..count * (rank + 1) / world
}

/// Keeps these numbers apart from those that pictures are drawn with.
const SHUFFLE: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_share_what_one_process_would_have() {
        for world in [1, 2, 3, 5] {
            for step in 0..7 {
                let mut batches = Batches::new(4, 100, 17);
                let whole = batches.of(step, 0, 1);
                let parts = (0..world).flat_map(|rank| batches.of(step, rank, world));
                assert_eq!(parts.collect::<Vec<_>>(), whole, "step {step} of {world}");
                assert_eq!(whole.len(), 17);
            }
        }
    }

    #[test]
    fn every_picture_comes_once_in_each_round_and_rounds_differ() {
        let mut batches = Batches::new(4, 100, 20);
        let mut round = |number: usize| -> Vec<usize> {
            (0..5).flat_map(|step| batches.of(number * 5 + step, 0, 1)).collect()
        };
        let (mut first, mut second) = (round(0), round(1));
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, (0..100).collect::<Vec<_>>());
        assert_eq!(second, first);
    }

    #[test]
    fn shares_differ_by_one_at_most() {
        for (count, world) in [(7, 3), (128, 3), (5, 5), (100, 8)] {
            let sizes: Vec<usize> =
                (0..world).map(|rank| share(count, rank, world).len()).collect();
            assert_eq!(sizes.iter().sum::<usize>(), count);
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1 && *least > 0, "{sizes:?}");
        }
    }
}
