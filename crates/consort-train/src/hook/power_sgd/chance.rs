//! Numbers by chance that are the same on every rank.

/// A sequence of numbers that depends on nothing but where it begins.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The sequence that these words stand for.
    pub(crate) fn of(words: [u64; 3]) -> Self {
        let mut chance = Self(0);
        for word in words {
            chance.0 ^= word;
            chance.0 = chance.word();
        }
        chance
    }

    /// The next number, of those from −1 to 1.
    pub(crate) fn number(&mut self) -> f64 {
        // As many bits as the number can have.
        (self.word() >> 11) as f64 * (2.0 / (1_u64 << 53) as f64) - 1.0
    }

    /// One step of splitmix64.
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_differ_with_every_word_and_fill_their_range() {
        let some = |words| {
            let mut chance = Chance::of(words);
            (0..1000).map(|_| chance.number()).collect::<Vec<f64>>()
        };
        let first = some([0, 0, 0]);
        assert_eq!(first, some([0, 0, 0]));
        for other in [[1, 0, 0], [0, 1, 0], [0, 0, 1]] {
            assert_ne!(first, some(other));
        }
        assert!(first.iter().all(|number| (-1.0..1.0).contains(number)));
        let mean = first.iter().sum::<f64>() / 1000.0;
        let square = first.iter().map(|number| number * number).sum::<f64>() / 1000.0;
        assert!(mean.abs() < 0.1 && (square - 1.0 / 3.0).abs() < 0.05, "{mean} {square}");
    }
}
