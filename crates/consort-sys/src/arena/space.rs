//! Which parts of an arena are free.

use std::collections::BTreeMap;

/// The free parts, as lengths by where they begin. No two of them touch: neighbours are joined.
#[derive(Debug)]
pub struct Space {
    free: BTreeMap<usize, usize>,
}

impl Space {
    /// All free, up to `size`.
    pub fn new(size: usize) -> Self {
        Self { free: BTreeMap::from_iter((size > 0).then_some((0, size))) }
    }

    /// Takes the first free `len` bytes that begin at a multiple of `align`, a power of two.
    pub fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let (start, part, at) = self.free.iter().find_map(|(&start, &part)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(len)? <= start + part).then_some((start, part, at))
        })?;
        self.free.remove(&start);
        self.insert(start, at - start);
        self.insert(at + len, start + part - (at + len));
        Some(at)
    }

    /// Gives back what was taken.
    pub fn give(&mut self, at: usize, len: usize) {
        let (mut start, mut end) = (at, at + len);
        if let Some((&before, &part)) = self.free.range(..at).next_back() {
            debug_assert!(before + part <= at, "{at} was free already");
            if before + part == at {
                start = before;
            }
        }
        if let Some((&after, &part)) = self.free.range(at..).next() {
            debug_assert!(end <= after, "{after} was free already");
            if after == end {
                self.free.remove(&after);
                end += part;
            }
        }
        self.insert(start, end - start);
    }

    /// The longest free part.
    pub fn longest(&self) -> usize {
        self.free.values().copied().max().unwrap_or_default()
    }

    fn insert(&mut self, start: usize, len: usize) {
        if len > 0 {
            self.free.insert(start, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 1 << 12;

    #[derive(Clone, Debug)]
    enum Act {
        Take { len: usize, align: usize },
        Give { which: usize },
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let take =
            (1..SIZE / 4, 0..9_u32).prop_map(|(len, bits)| Act::Take { len, align: 1 << bits });
        let give = any::<usize>().prop_map(|which| Act::Give { which });
        proptest::collection::vec(prop_oneof![take, give], 1..80)
    }

    proptest! {
        #[test]
        fn pieces_never_overlap_and_all_space_comes_back(acts in acts()) {
            let mut space = Space::new(SIZE);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for act in acts {
                match act {
                    Act::Take { len, align } => {
                        let Some(at) = space.take(len, align) else {
                            prop_assert!(!has_room(&taken, len, align), "there was room for {len}");
                            continue;
                        };
                        prop_assert!(at % align == 0 && at + len <= SIZE);
                        let apart = |&(other, its): &(usize, usize)| at + len <= other || other + its <= at;
                        prop_assert!(taken.iter().all(apart), "{at} + {len} overlaps one of {taken:?}");
                        taken.push((at, len));
                    }
                    Act::Give { which } if !taken.is_empty() => {
                        let (at, len) = taken.swap_remove(which % taken.len());
                        space.give(at, len);
                    }
                    Act::Give { .. } => {}
                }
            }
            for (at, len) in taken {
                space.give(at, len);
            }
            prop_assert_eq!(space.free, BTreeMap::from([(0, SIZE)]));
        }
    }

    /// Tries every place.
    fn has_room(taken: &[(usize, usize)], len: usize, align: usize) -> bool {
        let fits =
            |at: usize| taken.iter().all(|&(other, its)| at + len <= other || other + its <= at);
        (0..=SIZE - len).step_by(align).any(fits)
    }

    #[test]
    fn the_first_place_that_fits_is_taken() {
        let mut space = Space::new(100);
        let taken: Vec<_> = (0..5).map(|_| space.take(20, 1).unwrap()).collect();
        assert_eq!(taken, [0, 20, 40, 60, 80]);
        assert_eq!((space.take(1, 1), space.longest()), (None, 0));
        space.give(20, 20);
        space.give(60, 20);
        assert_eq!(space.longest(), 20);
        assert_eq!(space.take(8, 32), Some(32));
        assert_eq!(space.take(12, 1), Some(20));
        assert_eq!(space.take(8, 1), Some(60));
    }

    #[test]
    fn what_can_never_fit_is_refused_without_overflow() {
        let mut space = Space::new(100);
        assert_eq!(space.take(usize::MAX, 1), None);
        assert_eq!(space.take(1, 1 << 63), Some(0));
        assert_eq!(space.take(1, 1 << 63), None);
        assert_eq!(Space::new(0).take(1, 1), None);
    }
}
