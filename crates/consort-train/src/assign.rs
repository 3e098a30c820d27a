//! Which gradients travel together.

use std::collections::BTreeMap;

use consort::Dtype;

use crate::error::{Error, Result};
use crate::parameter::Parameter;

/// How many bytes of gradients go into a bucket: it is full when it has as many or more. There is one
/// number for each bucket of a dtype, in the order in which they are filled; the last holds for all
/// that follow.
///
/// The first bucket should be small: while backward computes what the next one needs, it is on its way.
/// The others should be large enough that their number does not count, and small enough that the last
/// one, which nothing hides, does not take long.
///
/// ```
/// use consort_train::Caps;
///
/// assert_eq!(Caps::default(), Caps::list([1 << 20, 25 << 20])?);
/// assert_eq!(Caps::of(4 << 20)?, Caps::list([4 << 20])?);
/// assert!(Caps::list([]).is_err());
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    sizes: Vec<usize>,
    origin: Origin,
}

/// Where sizes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Said,
    /// They are to be replaced by better ones that are found by measuring.
    Guessed,
    Measured,
}

impl Caps {
    /// The same for all buckets.
    ///
    /// # Errors
    /// When it is 0.
    pub fn of(bytes: usize) -> Result<Self> {
        Self::list([bytes])
    }

    /// One for each bucket, the last for all that follow.
    ///
    /// # Errors
    /// When there is none, or one is 0.
    pub fn list(bytes: impl IntoIterator<Item = usize>) -> Result<Self> {
        let caps: Vec<usize> = bytes.into_iter().collect();
        if caps.is_empty() || caps.contains(&0) {
            return Err(Error::Argument(format!(
                "buckets of {caps:?} bytes: give at least one size, and none of 0"
            )));
        }
        Ok(Self { sizes: caps, origin: Origin::Said })
    }

    /// Those of [`default`](Self::default) at first, and better ones after some passes: the ranks measure
    /// how long the group takes for how many bytes, look at when gradients come, and take the sizes with
    /// which the last bucket would have come back first, if it travelled as it is: what a hook makes of it
    /// is not known. [`Stats`](crate::Stats) tells what was found.
    pub fn auto() -> Self {
        Self { origin: Origin::Guessed, ..Self::default() }
    }

    /// The sizes.
    pub fn bytes(&self) -> &[usize] {
        &self.sizes
    }

    /// Whether they are to be found by measuring.
    pub(crate) fn are_guessed(&self) -> bool {
        self.origin == Origin::Guessed
    }

    /// Whether they were found by measuring.
    pub(crate) fn are_measured(&self) -> bool {
        self.origin == Origin::Measured
    }

    /// The same, found by measuring.
    pub(crate) fn measured(self) -> Self {
        Self { origin: Origin::Measured, ..self }
    }

    fn of_bucket(&self, number: usize) -> usize {
        self.sizes[number.min(self.sizes.len() - 1)]
    }
}

impl Default for Caps {
    fn default() -> Self {
        Self { sizes: vec![FIRST, GENERAL], origin: Origin::Said }
    }
}

/// Puts parameters into buckets in the order in which their gradients come. The buckets are in the order
/// in which they become complete, if gradients come so. A parameter for which `is_alone` has a bucket of
/// its own, which is none of those that the sizes are for.
///
/// It depends on nothing but its arguments: ranks with the same ones have the same buckets.
pub(crate) fn assign(
    parameters: &[Parameter],
    order: impl IntoIterator<Item = usize>,
    caps: &Caps,
    is_alone: impl Fn(&Parameter) -> bool,
) -> Vec<Vec<usize>> {
    let mut open: BTreeMap<u8, Open> = BTreeMap::new();
    // With the place in the order at which it became complete.
    let mut buckets: Vec<(usize, Vec<usize>)> = Vec::new();
    for (place, index) in order.into_iter().enumerate() {
        let parameter = &parameters[index];
        if is_alone(parameter) {
            buckets.push((place, vec![index]));
            continue;
        }
        let open = open.entry(key(parameter.dtype())).or_default();
        open.members.push(index);
        open.bytes += parameter.bytes();
        open.last = place;
        if open.bytes >= caps.of_bucket(open.closed) {
            buckets.push((place, std::mem::take(&mut open.members)));
            (open.bytes, open.closed) = (0, open.closed + 1);
        }
    }
    let left = open.into_values().filter(|open| !open.members.is_empty());
    buckets.extend(left.map(|open| (open.last, open.members)));
    buckets.sort_unstable_by_key(|(place, _)| *place);
    buckets.into_iter().map(|(_, members)| members).collect()
}

fn key(dtype: Dtype) -> u8 {
    dtype.code()
}

/// A bucket that is not full.
#[derive(Debug, Default)]
struct Open {
    members: Vec<usize>,
    bytes: usize,
    /// Where in the order the last of them is.
    last: usize,
    /// How many of the same dtype are full.
    closed: usize,
}

const FIRST: usize = 1 << 20;
const GENERAL: usize = 25 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layers(count: usize) -> Vec<Parameter> {
        let layer = |at: usize| {
            let weight = Parameter::new(format!("{at}.weight"), Dtype::F32, &[512, 512]);
            [weight, Parameter::new(format!("{at}.bias"), Dtype::F32, &[512])]
        };
        (0..count).flat_map(layer).collect()
    }

    fn sizes(parameters: &[Parameter], buckets: &[Vec<usize>]) -> Vec<usize> {
        let bytes = |bucket: &Vec<usize>| bucket.iter().map(|&at| parameters[at].bytes()).sum();
        buckets.iter().map(bytes).collect()
    }

    #[test]
    fn the_first_bucket_is_small_and_holds_what_comes_first() {
        let parameters = layers(10);
        let buckets = assign(&parameters, (0..20).rev(), &Caps::default(), |_| false);
        assert_eq!(sizes(&parameters, &buckets), [1_050_624, 9_455_616]);
        assert_eq!(buckets[0], [19, 18]);
        assert_eq!(buckets[1], (0..18).rev().collect::<Vec<_>>());
    }

    #[test]
    fn every_bucket_has_its_own_size_and_the_last_holds_for_the_rest() {
        let parameters = layers(10);
        let caps = Caps::list([1 << 20, 2 << 20, 4 << 20]).unwrap();
        let buckets = assign(&parameters, (0..20).rev(), &caps, |_| false);
        assert_eq!(sizes(&parameters, &buckets), [1_050_624, 2_101_248, 4_202_496, 3_151_872]);
    }

    #[test]
    fn dtypes_are_kept_apart() {
        let of = |name: &str, dtype| Parameter::new(name, dtype, &[8]);
        let parameters = [
            of("a", Dtype::F32),
            of("b", Dtype::Bf16),
            of("c", Dtype::F64),
            of("d", Dtype::F32),
            of("e", Dtype::Bf16),
        ];
        let buckets = assign(&parameters, 0..5, &Caps::default(), |_| false);
        assert_eq!(buckets, [vec![2], vec![0, 3], vec![1, 4]]);
        let each = assign(&parameters, 0..5, &Caps::of(1).unwrap(), |_| false);
        assert_eq!(each, [[0], [1], [2], [3], [4]]);
    }

    #[test]
    fn who_travels_alone_leaves_the_sizes_of_the_others_as_they_are() {
        let parameters = layers(10);
        let weights = |parameter: &Parameter| parameter.name() == "9.weight";
        let buckets = assign(&parameters, (0..20).rev(), &Caps::default(), weights);
        assert_eq!(buckets[0], [18]);
        assert_eq!(buckets[1], [19, 17, 16]);
        assert_eq!(buckets[2], (0..16).rev().collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn everyone_is_in_one_bucket_of_its_dtype_and_buckets_are_complete_in_their_order(
            kinds in prop::collection::vec((0..3_usize, 1..2000_usize), 0..40),
            caps in prop::collection::vec(1..8000_usize, 1..4),
            seed in any::<u64>(),
        ) {
            let dtypes = [Dtype::F32, Dtype::Bf16, Dtype::F64];
            let parameters: Vec<Parameter> = kinds.iter().enumerate().map(|(at, &(kind, len))| {
                Parameter::new(format!("p{at}"), dtypes[kind], &[len])
            }).collect();
            let mut order: Vec<usize> = (0..parameters.len()).collect();
            order.sort_by_key(|&at| (at as u64).wrapping_mul(seed | 1));
            let caps = Caps::list(caps).unwrap();
            let buckets = assign(&parameters, order.iter().copied(), &caps, |_| false);
            let mut all: Vec<usize> = buckets.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..parameters.len()).collect::<Vec<_>>());
            let place = |index: &usize| order.iter().position(|at| at == index).unwrap();
            let mut before = None;
            for bucket in &buckets {
                let dtype = parameters[bucket[0]].dtype();
                prop_assert!(bucket.iter().all(|&at| parameters[at].dtype() == dtype));
                let complete = bucket.iter().map(place).max();
                prop_assert!(complete > before);
                before = complete;
            }
        }
    }
}
