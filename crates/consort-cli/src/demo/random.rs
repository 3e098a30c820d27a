//! Numbers from a seed: the same ones on every machine and in every process.

/// A sequence of numbers that look random.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The sequence of these words, in this order. Another word makes another sequence.
    pub(crate) fn of(words: &[u64]) -> Self {
        let state =
            words.iter().fold(STEP, |state, word| mix(state ^ mix(word.wrapping_add(STEP))));
        Self { state }
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A whole number below another, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        // The numbers asked for are so small that those left over do not count.
        (self.next() % end as u64) as usize
    }

    /// A number from 0 up to 1.
    pub(crate) fn part(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// A number between two.
    pub(crate) fn between(&mut self, least: f32, most: f32) -> f32 {
        least + (most - least) * self.part()
    }

    /// A number around 0, mostly within 1 of it: the bell curve, of variance 1, made of twelve throws.
    pub(crate) fn bell(&mut self) -> f32 {
        (0..12).map(|_| self.part()).sum::<f32>() - 6.0
    }

    /// Puts a list into another order.
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}

/// Spreads a change of any bit over all of them.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^ (word >> 32)
}

/// The golden ratio as a fraction of all words: multiples of it are spread evenly.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_seed_counts() {
        let first = |words: &[u64]| Random::of(words).next();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        let others =
            [first(&[1, 2]), first(&[2, 1]), first(&[1, 3]), first(&[1]), first(&[1, 2, 0])];
        for (at, one) in others.iter().enumerate() {
            assert!(!others[at + 1..].contains(one), "{others:?}");
        }
    }

    #[test]
    fn numbers_fill_their_range_evenly() {
        let mut random = Random::of(&[7]);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[random.below(10)] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        let parts: Vec<f32> = (0..10_000).map(|_| random.part()).collect();
        assert!(parts.iter().all(|part| (0.0..1.0).contains(part)));
        let bells: Vec<f32> = (0..10_000).map(|_| random.bell()).collect();
        let within = bells.iter().filter(|bell| bell.abs() < 1.0).count();
        assert!((6500..7100).contains(&within), "{within} of 10000 within one deviation");
    }

    #[test]
    fn a_shuffled_list_has_the_same_members_elsewhere() {
        let mut list: Vec<usize> = (0..100).collect();
        Random::of(&[3]).shuffle(&mut list);
        assert!(list.iter().enumerate().filter(|(at, it)| at == *it).count() < 10, "{list:?}");
        list.sort_unstable();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
    }
}
