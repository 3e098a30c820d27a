//! Who is ready in a pass, and which bucket goes next. Pure: it moves nothing and asks no clock.

/// The state of one backward pass.
///
/// Buckets are launched strictly in their order, whatever the order in which they become complete: so
/// all ranks make the same calls in the same order.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The bucket of each parameter.
    bucket_of: Vec<usize>,
    /// What is known of each parameter.
    marks: Vec<Mark>,
    /// How many parameters of each bucket are awaited.
    pending: Vec<usize>,
    /// How many buckets were launched.
    launched: usize,
    /// Those that were ready, in the order in which they were.
    order: Vec<usize>,
}

/// What is known of a parameter in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Its gradient has to come so many times more.
    Awaited(u32),
    /// Its gradient has come for the last time, and is being copied.
    Taken,
    /// It is in its bucket.
    Ready,
    /// It does not come.
    Absent,
}

/// Why a gradient is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has come as often as it should.
    Twice,
    /// All were declared to have come.
    Closed,
}

impl Ledger {
    /// For parameters in these buckets, whose gradients come so often.
    pub(crate) fn new(buckets: &[Vec<usize>], times: &[u32]) -> Self {
        let mut bucket_of = vec![0; times.len()];
        for (bucket, members) in buckets.iter().enumerate() {
            members.iter().for_each(|&index| bucket_of[index] = bucket);
        }
        let mark = |&times: &u32| if times == 0 { Mark::Absent } else { Mark::Awaited(times) };
        let awaited = |bucket: &Vec<usize>| bucket.iter().filter(|&&at| times[at] > 0).count();
        Self {
            bucket_of,
            marks: times.iter().map(mark).collect(),
            pending: buckets.iter().map(awaited).collect(),
            launched: 0,
            order: Vec::with_capacity(times.len()),
        }
    }

    /// Takes a gradient that has come. Says whether it was the last of this parameter: then it is
    /// [put](Self::put) when it is in its bucket.
    pub(crate) fn take(&mut self, index: usize) -> Result<bool, Refusal> {
        match self.marks[index] {
            Mark::Awaited(1) => {
                self.marks[index] = Mark::Taken;
                Ok(true)
            }
            Mark::Awaited(times) => {
                self.marks[index] = Mark::Awaited(times - 1);
                Ok(false)
            }
            Mark::Taken | Mark::Ready => Err(Refusal::Twice),
            Mark::Absent => Err(Refusal::Closed),
        }
    }

    /// A gradient that was taken is in its bucket. Says whether that is complete.
    pub(crate) fn put(&mut self, index: usize) -> bool {
        debug_assert_eq!(self.marks[index], Mark::Taken, "it is put when it was taken");
        self.marks[index] = Mark::Ready;
        self.order.push(index);
        self.count_down(index)
    }

    /// Nobody waits for this parameter's gradient any more. Says whether its bucket is complete.
    pub(crate) fn give_up(&mut self, index: usize) -> bool {
        debug_assert!(matches!(self.marks[index], Mark::Awaited(_)), "it was awaited");
        self.marks[index] = Mark::Absent;
        self.count_down(index)
    }

    /// The next bucket to be launched, if it can be. Whoever asks launches it.
    pub(crate) fn next(&mut self) -> Option<usize> {
        (self.pending.get(self.launched) == Some(&0)).then(|| {
            self.launched += 1;
            self.launched - 1
        })
    }

    /// Whether a bucket was launched.
    pub(crate) fn has_begun(&self) -> bool {
        self.launched > 0
    }

    /// Whether a gradient has come.
    pub(crate) fn is_touched(&self, times: &[u32]) -> bool {
        let awaited = |(mark, &times): (&Mark, &u32)| times == 0 || *mark == Mark::Awaited(times);
        !self.marks.iter().zip(times).all(awaited)
    }

    /// Those that are awaited, with how often they have come of these times.
    pub(crate) fn missing<'a>(
        &'a self,
        times: &'a [u32],
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        let all = self.marks.iter().zip(times).enumerate();
        all.filter_map(|(index, (mark, times))| match mark {
            Mark::Awaited(left) => Some((index, times - left)),
            _ => None,
        })
    }

    /// Whether a parameter's gradient has come.
    pub(crate) fn is_ready(&self, index: usize) -> bool {
        self.marks[index] == Mark::Ready
    }

    /// Those that were ready, in the order in which they were.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    fn count_down(&mut self, index: usize) -> bool {
        let pending = &mut self.pending[self.bucket_of[index]];
        *pending -= 1;
        *pending == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(ledger: &mut Ledger, index: usize) -> bool {
        ledger.take(index).unwrap() && ledger.put(index)
    }

    #[test]
    fn a_bucket_waits_for_those_before_it() {
        let mut ledger = Ledger::new(&[vec![2, 1], vec![0]], &[1; 3]);
        assert!(put(&mut ledger, 0));
        assert_eq!(ledger.next(), None);
        assert!(!put(&mut ledger, 1));
        assert!(put(&mut ledger, 2));
        assert_eq!([ledger.next(), ledger.next(), ledger.next()], [Some(0), Some(1), None]);
        assert_eq!(ledger.order(), [0, 1, 2]);
    }

    #[test]
    fn what_comes_too_often_or_after_the_end_is_refused() {
        let mut ledger = Ledger::new(&[vec![0, 1]], &[2, 1]);
        assert_eq!(ledger.take(0), Ok(false));
        assert_eq!(ledger.missing(&[2, 1]).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
        assert!(!put(&mut ledger, 0));
        assert_eq!(ledger.take(0), Err(Refusal::Twice));
        assert!(ledger.give_up(1));
        assert_eq!(ledger.take(1), Err(Refusal::Closed));
        assert!(ledger.is_ready(0) && !ledger.is_ready(1));
    }

    #[test]
    fn one_that_never_comes_holds_nothing_up() {
        let mut ledger = Ledger::new(&[vec![0, 1]], &[0, 1]);
        assert_eq!(ledger.take(0), Err(Refusal::Closed));
        assert!(put(&mut ledger, 1));
        assert_eq!((ledger.next(), ledger.is_ready(0)), (Some(0), false));
    }

    #[test]
    fn one_who_is_being_copied_holds_its_bucket_up() {
        let mut ledger = Ledger::new(&[vec![0, 1]], &[1, 1]);
        assert!(ledger.take(0).unwrap());
        assert!(!put(&mut ledger, 1));
        assert_eq!(ledger.next(), None);
        assert_eq!(ledger.take(0), Err(Refusal::Twice));
        assert!(ledger.put(0));
        assert_eq!(ledger.next(), Some(0));
    }

    proptest! {
        #[test]
        fn whatever_the_order_every_bucket_is_launched_once_in_its_place(
            sizes in prop::collection::vec(1..5_usize, 1..8),
            keys in prop::collection::vec(any::<u32>(), 40),
            absent in prop::collection::vec(prop::bool::weighted(0.2), 40),
        ) {
            let count: usize = sizes.iter().sum();
            let mut next = 0;
            let buckets: Vec<Vec<usize>> = sizes.iter().map(|size| {
                next += size;
                (next - size..next).collect()
            }).collect();
            let mut ledger = Ledger::new(&buckets, &vec![1; count]);
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by_key(|&at| keys[at]);
            let mut launched = Vec::new();
            for index in order {
                let complete = if absent[index] { ledger.give_up(index) } else { put(&mut ledger, index) };
                if complete {
                    launched.extend(std::iter::from_fn(|| ledger.next()));
                }
            }
            prop_assert_eq!(launched, (0..buckets.len()).collect::<Vec<_>>());
        }
    }
}
