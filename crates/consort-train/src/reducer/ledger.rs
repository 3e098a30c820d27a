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
    /// Its gradient has to come so many times more, and has come so often that is still being copied.
    Open { left: u32, copying: u32 },
    /// It is in its bucket.
    Ready,
    /// It does not come.
    Absent,
}

/// What is known of a bucket when a gradient has been put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Parts of the same gradient are on their way, or being copied.
    Part,
    /// The gradient is there, others are awaited.
    Ready,
    /// All are there.
    Complete,
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
        let mark = |&times: &u32| match times {
            0 => Mark::Absent,
            left => Mark::Open { left, copying: 0 },
        };
        let awaited = |bucket: &Vec<usize>| bucket.iter().filter(|&&at| times[at] > 0).count();
        Self {
            bucket_of,
            marks: times.iter().map(mark).collect(),
            pending: buckets.iter().map(awaited).collect(),
            launched: 0,
            order: Vec::with_capacity(times.len()),
        }
    }

    /// Takes a gradient that has come. It is [put](Self::put) when it is in its bucket, or
    /// [taken back](Self::take_back) if it could not be put there.
    pub(crate) fn take(&mut self, index: usize) -> Result<(), Refusal> {
        match &mut self.marks[index] {
            Mark::Open { left: 0, .. } | Mark::Ready => Err(Refusal::Twice),
            Mark::Absent => Err(Refusal::Closed),
            Mark::Open { left, copying } => {
                (*left, *copying) = (*left - 1, *copying + 1);
                Ok(())
            }
        }
    }

    /// A gradient that was taken is in its bucket.
    pub(crate) fn put(&mut self, index: usize) -> Put {
        let Mark::Open { left, copying } = &mut self.marks[index] else {
            unreachable!("what is being copied is open");
        };
        *copying -= 1;
        if (*left, *copying) != (0, 0) {
            return Put::Part;
        }
        self.marks[index] = Mark::Ready;
        self.order.push(index);
        if self.count_down(index) { Put::Complete } else { Put::Ready }
    }

    /// A gradient that was taken could not be put into its bucket: it may come again.
    pub(crate) fn take_back(&mut self, index: usize) {
        if let Mark::Open { left, copying } = &mut self.marks[index] {
            (*left, *copying) = (*left + 1, *copying - 1);
        }
    }

    /// Nobody waits for this parameter's gradient any more. Says whether its bucket is complete.
    pub(crate) fn give_up(&mut self, index: usize) -> bool {
        debug_assert!(matches!(self.marks[index], Mark::Open { copying: 0, .. }), "it was awaited");
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
        let is_untouched =
            |(mark, &left): (&Mark, &u32)| left == 0 || *mark == Mark::Open { left, copying: 0 };
        !self.marks.iter().zip(times).all(is_untouched)
    }

    /// Those that are awaited, with how often they have come of these times.
    pub(crate) fn missing<'a>(
        &'a self,
        times: &'a [u32],
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        let all = self.marks.iter().zip(times).enumerate();
        all.filter_map(|(index, (mark, times))| match mark {
            Mark::Open { left, .. } if *left > 0 => Some((index, times - left)),
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

    /// Whether its bucket is complete then.
    fn put(ledger: &mut Ledger, index: usize) -> bool {
        ledger.take(index).unwrap();
        ledger.put(index) == Put::Complete
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
        assert_eq!((ledger.take(0), ledger.put(0)), (Ok(()), Put::Part));
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
        ledger.take(0).unwrap();
        assert!(!put(&mut ledger, 1));
        assert_eq!(ledger.next(), None);
        assert_eq!(ledger.take(0), Err(Refusal::Twice));
        assert_eq!(ledger.put(0), Put::Complete);
        assert_eq!(ledger.next(), Some(0));
    }

    #[test]
    fn an_earlier_part_that_is_being_copied_holds_its_bucket_up() {
        let mut ledger = Ledger::new(&[vec![0]], &[2]);
        ledger.take(0).unwrap();
        ledger.take(0).unwrap();
        assert_eq!((ledger.put(0), ledger.next()), (Put::Part, None));
        assert_eq!((ledger.put(0), ledger.next()), (Put::Complete, Some(0)));
    }

    #[test]
    fn what_could_not_be_put_may_come_again() {
        let mut ledger = Ledger::new(&[vec![0]], &[1]);
        ledger.take(0).unwrap();
        ledger.take_back(0);
        assert!(!ledger.is_touched(&[1]));
        assert_eq!(ledger.missing(&[1]).collect::<Vec<_>>(), [(0, 0)]);
        assert!(put(&mut ledger, 0));
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
