//! Which rank has which examples.

use consort::Group;

use crate::chance::Chance;
use crate::error::{Error, Result};

/// Which examples of a data set a rank has, and in which order, in each epoch. Together the ranks have
/// all of them.
///
/// It knows only their number: an example is a number from 0. All ranks shuffle in the same way, from the
/// seed and the epoch, and each takes its part of that; so nothing has to be said between them, and an
/// epoch can be repeated.
///
/// ```
/// use consort_train::DistributedSampler;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let examples: Vec<f32> = (0..1000).map(|at| at as f32).collect();
/// let sampler = DistributedSampler::new(examples.len(), &group).shuffled(7);
/// for epoch in 0..3 {
///     for batch in sampler.indices(epoch).chunks(32) {
///         let batch: Vec<f32> = batch.iter().map(|&at| examples[at]).collect();
///         // …
///     }
/// }
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct DistributedSampler {
    examples: usize,
    rank: usize,
    world: usize,
    seed: Option<u64>,
    rest: Rest,
}

/// What becomes of examples that cannot be divided evenly between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Some are had twice.
    Padded,
    /// Some are left out.
    Dropped,
    /// Some ranks have one more.
    Uneven,
}

impl DistributedSampler {
    /// For this rank of a group and so many examples: shuffled with seed 0, and as many for every rank,
    /// for which some are had twice.
    pub fn new(examples: usize, group: &Group) -> Self {
        let (rank, world) = (group.rank().index(), group.world());
        Self { examples, rank, world, seed: Some(0), rest: Rest::Padded }
    }

    /// The same for any rank of any world.
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn of(examples: usize, rank: usize, world: usize) -> Result<Self> {
        if rank >= world {
            return Err(Error::Argument(format!("there is no rank {rank} of {world}")));
        }
        Ok(Self { examples, rank, world, seed: Some(0), rest: Rest::Padded })
    }

    /// Shuffles the examples, in each epoch in another way, which depends on this seed.
    pub fn shuffled(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Leaves the examples in their order.
    pub fn in_order(self) -> Self {
        Self { seed: None, ..self }
    }

    /// Leaves examples out that cannot be divided evenly: fewer than there are ranks, and others in each
    /// epoch if they are shuffled.
    pub fn drop_last(self) -> Self {
        Self { rest: Rest::Dropped, ..self }
    }

    /// Has every example once, so that some ranks may have one more: for training that can do with
    /// [that](crate::Join), and for trying a model out.
    pub fn uneven(self) -> Self {
        Self { rest: Rest::Uneven, ..self }
    }

    /// The examples of this rank in an epoch.
    pub fn indices(&self, epoch: u64) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.examples).collect();
        if let Some(seed) = self.seed {
            // Mixed, so that no epoch of one seed is one of another.
            shuffle(&mut all, &mut Chance::at(Chance::at(seed).word() ^ epoch));
        }
        let places = (0..self.len()).map(|turn| turn * self.world + self.rank);
        places.map(|place| all[place % self.examples]).collect()
    }

    /// How many examples this rank has in every epoch.
    pub fn len(&self) -> usize {
        let (examples, world) = (self.examples, self.world);
        match self.rest {
            Rest::Padded => examples.div_ceil(world),
            Rest::Dropped => examples / world,
            Rest::Uneven => examples / world + usize::from(self.rank < examples % world),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Puts them into an order of which every one is as likely as any other: each place, from the last to the
/// first, gets one of those that are left.
fn shuffle(all: &mut [usize], chance: &mut Chance) {
    for last in (1..all.len()).rev() {
        all.swap(last, chance.below(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all_of(
        (examples, world): (usize, usize),
        with: impl Fn(DistributedSampler) -> DistributedSampler,
        epoch: u64,
    ) -> Vec<Vec<usize>> {
        let of = |rank| with(DistributedSampler::of(examples, rank, world).unwrap());
        (0..world).map(|rank| of(rank).indices(epoch)).collect()
    }

    /// How often each example is had.
    fn counts(examples: usize, all: &[Vec<usize>]) -> Vec<usize> {
        let mut counts = vec![0; examples];
        all.iter().flatten().for_each(|&at| counts[at] += 1);
        counts
    }

    #[test]
    fn the_order_is_the_same_on_every_machine() {
        let sampler = DistributedSampler::of(10, 0, 1).unwrap().shuffled(42);
        assert_eq!(sampler.indices(0), [4, 6, 7, 0, 9, 5, 1, 2, 3, 8]);
        assert_eq!(sampler.indices(1), [8, 7, 9, 0, 1, 2, 5, 6, 4, 3]);
    }

    #[test]
    fn every_order_is_as_likely_as_any_other() {
        let mut times = std::collections::BTreeMap::new();
        for epoch in 0..6_000 {
            let order = DistributedSampler::of(3, 0, 1).unwrap().indices(epoch);
            *times.entry(order).or_insert(0) += 1;
        }
        // Five times the spread of a fair die.
        assert!(times.len() == 6 && times.values().all(|n| (850..1150).contains(n)), "{times:?}");
    }

    #[test]
    fn without_shuffling_ranks_take_turns() {
        let all = all_of((7, 3), DistributedSampler::in_order, 5);
        assert_eq!(all, [[0, 3, 6], [1, 4, 0], [2, 5, 1]]);
        let all = all_of((7, 3), |it| it.in_order().drop_last(), 5);
        assert_eq!(all, [[0, 3], [1, 4], [2, 5]]);
        let all = all_of((7, 3), |it| it.in_order().uneven(), 5);
        assert_eq!(all, [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
    }

    #[test]
    fn a_rank_that_is_not_there_is_refused() {
        assert!(DistributedSampler::of(10, 3, 3).is_err());
        assert!(DistributedSampler::of(10, 0, 0).is_err());
    }

    proptest! {
        #[test]
        fn padded_all_have_as_many_and_every_example_is_had(
            examples in 0..200_usize, world in 1..20_usize, seed: u64, epoch: u64,
        ) {
            let all = all_of((examples, world), |it| it.shuffled(seed), epoch);
            let each = examples.div_ceil(world);
            prop_assert!(all.iter().all(|mine| mine.len() == each));
            let counts = counts(examples, &all);
            let (least, most) = (counts.iter().min(), counts.iter().max());
            // What is had more often than others is so by one time.
            if let (Some(least), Some(most)) = (least, most) {
                prop_assert!(*least >= 1 && most - least <= 1);
            }
        }

        #[test]
        fn dropped_all_have_as_many_and_no_example_is_had_twice(
            examples in 0..200_usize, world in 1..20_usize, seed: u64, epoch: u64,
        ) {
            let all = all_of((examples, world), |it| it.shuffled(seed).drop_last(), epoch);
            prop_assert!(all.iter().all(|mine| mine.len() == examples / world));
            prop_assert!(counts(examples, &all).iter().all(|count| *count <= 1));
        }

        #[test]
        fn uneven_every_example_is_had_once(
            examples in 0..200_usize, world in 1..20_usize, seed: u64, epoch: u64,
        ) {
            let all = all_of((examples, world), |it| it.shuffled(seed).uneven(), epoch);
            prop_assert!(counts(examples, &all).iter().all(|count| *count == 1));
            let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
            prop_assert!(lengths.iter().all(|len| lengths[0] - len <= 1));
            for (rank, mine) in all.iter().enumerate() {
                let sampler = DistributedSampler::of(examples, rank, world).unwrap().uneven();
                prop_assert_eq!((sampler.len(), sampler.is_empty()), (mine.len(), mine.is_empty()));
            }
        }

        #[test]
        fn orders_differ_by_epoch_and_seed_and_are_else_the_same(
            examples in 30..200_usize, seed: u64, epoch in 0..1_000_000_u64,
        ) {
            let order = |seed, epoch| {
                DistributedSampler::of(examples, 0, 1).unwrap().shuffled(seed).indices(epoch)
            };
            prop_assert_eq!(order(seed, epoch), order(seed, epoch));
            prop_assert_ne!(order(seed, epoch), order(seed, epoch + 1));
            prop_assert_ne!(order(seed, epoch), order(seed.wrapping_add(1), epoch));
            prop_assert_ne!(order(seed, epoch + 1), order(seed.wrapping_add(1), epoch));
        }
    }
}
