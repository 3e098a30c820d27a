//! Sets of processors.

use std::fmt;

/// A set of processors, written as the kernel writes it: `0-3,8`.
///
/// ```
/// use consort_sys::topo::CpuSet;
///
/// let cpus = CpuSet::parse("0-2,8").unwrap();
/// assert_eq!(cpus.iter().collect::<Vec<_>>(), [0, 1, 2, 8]);
/// assert_eq!(cpus.to_string(), "0-2,8");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuSet {
    /// Without repetition, ascending.
    numbers: Vec<u32>,
}

impl CpuSet {
    /// Reads `0-3,8`. `None` when the text is anything else, or names processors beyond any machine.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Some(Self::default());
        }
        let ranges: Option<Vec<_>> = text.split(',').map(parse_range).collect();
        Some(ranges?.into_iter().flatten().collect())
    }

    /// How many processors are in the set.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The processors, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.numbers.iter().copied()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.numbers.binary_search(&cpu).is_ok()
    }

    /// Whether the two sets have a processor in common.
    pub fn intersects(&self, other: &Self) -> bool {
        self.iter().any(|cpu| other.contains(cpu))
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut numbers: Vec<u32> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        Self { numbers }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.numbers.chunk_by(|a, b| a + 1 == *b);
        for (index, run) in runs.enumerate() {
            let separator = if index == 0 { "" } else { "," };
            match run {
                [first, .., last] => write!(f, "{separator}{first}-{last}")?,
                _ => write!(f, "{separator}{}", run[0])?,
            }
        }
        Ok(())
    }
}

fn parse_range(text: &str) -> Option<std::ops::RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last < MOST).then_some(first..=last)
}

/// No machine has as many; a range beyond it must not become a list in memory.
const MOST: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read() {
        let numbers = |text| CpuSet::parse(text).map(|set| set.numbers);
        assert_eq!(numbers("0"), Some(vec![0]));
        assert_eq!(numbers("0-3\n"), Some(vec![0, 1, 2, 3]));
        assert_eq!(numbers("8,0-1,1"), Some(vec![0, 1, 8]));
        assert_eq!(numbers(""), Some(vec![]));
    }

    #[test]
    fn nonsense_is_not_read() {
        for text in ["a", "3-1", "0-", "-1", "0,,1", "0-4294967295", "99999999999"] {
            assert_eq!(CpuSet::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn sets_with_a_common_processor_intersect() {
        let set = |text| CpuSet::parse(text).unwrap();
        assert!(set("0-3").intersects(&set("3-5")));
        assert!(!set("0-3").intersects(&set("4")));
        assert!(!set("").intersects(&set("")));
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_reads_back(numbers in proptest::collection::vec(0..200_u32, 0..40)) {
            let set = CpuSet::from_iter(numbers);
            proptest::prop_assert_eq!(CpuSet::parse(&set.to_string()), Some(set));
        }
    }
}
