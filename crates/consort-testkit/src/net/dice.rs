//! Chance that can be had again.

/// Numbers that a seed decides.
///
/// ```
/// use consort_testkit::net::Dice;
///
/// let (mut one, mut other) = (Dice::new(7), Dice::new(7));
/// assert_eq!(one.below(100), other.below(100));
/// ```
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Those of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(STEP) ^ 0x5EED)
    }

    /// Any number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    /// Any index of a list of so many.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Yes, one time out of so many.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
