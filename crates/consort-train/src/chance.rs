//! Numbers by chance that are the same on every rank and machine.

/// A sequence of numbers that depends on nothing but where it begins: SplitMix64, a counter whose bits are
/// mixed.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The sequence that begins here.
    pub(crate) fn at(start: u64) -> Self {
        Self(start)
    }

    /// The sequence that these words stand for.
    pub(crate) fn of(words: [u64; 3]) -> Self {
        Self(words.into_iter().fold(0, |start, word| Self(start ^ word).word()))
    }

    /// The next word, of which any is as likely as any other.
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number from 0 to one less than this. Those are drawn again that would make some likelier than
    /// others.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = end as u64;
        let fair = u64::MAX - u64::MAX % end;
        loop {
            let number = self.word();
            if number < fair {
                return (number % end) as usize;
            }
        }
    }

    /// The next number, of those from −1 to 1.
    pub(crate) fn number(&mut self) -> f64 {
        // As many bits as the number can have.
        (self.word() >> 11) as f64 * (2.0 / (1_u64 << 53) as f64) - 1.0
    }
}

/// An odd number near 2^64 divided by the golden ratio: multiples of it are spread evenly.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut chance = Chance::at(1_234_567);
        let first =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| chance.word()), first);
    }

    #[test]
    fn words_stand_for_the_same_sequence_on_every_machine() {
        let mut chance = Chance::of([7, 1, 2]);
        assert_eq!(
            [(); 2].map(|()| chance.word()),
            [5_105_604_414_344_456_748, 15_956_321_159_405_613_274]
        );
    }

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
