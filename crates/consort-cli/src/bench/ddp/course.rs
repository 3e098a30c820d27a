//! What one trainer has done so far, and the figures that come of it.

use super::super::record::median;
use super::share::{Pass, Share, Span, spans};

/// All steps of one trainer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Course {
    /// The steps before anything counts, in order.
    beginning: Vec<Span>,
    together: Vec<Span>,
    alone: Vec<Span>,
    /// Passes of the beginning, for those who tell of no others.
    early_passes: Vec<Pass>,
    passes: Vec<Pass>,
    hops: Vec<f64>,
}

/// What is told of a course; times are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// How many steps counted, with communication, and as many without.
    pub(crate) steps: usize,
    /// Those with communication.
    pub(crate) together: Times,
    /// Those without.
    pub(crate) alone: Times,
    /// The very first step of all.
    pub(crate) first: f64,
    /// The tenth.
    pub(crate) tenth: f64,
    /// How long gradients were on their way in a step, and how much of that was hidden.
    pub(crate) way: Option<(f64, f64)>,
    /// How long a cache line took from core to core, in microseconds.
    pub(crate) hop_us: Option<f64>,
}

/// How long steps took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    /// The median.
    pub(crate) median: f64,
    /// The fastest.
    pub(crate) least: f64,
    /// The median of how long a rank was computing.
    pub(crate) computed: f64,
}

impl Course {
    /// Takes note of the first steps of all.
    ///
    /// # Errors
    /// When ranks have not made the same steps.
    pub(crate) fn begin(&mut self, shares: Vec<Share>) -> Result<(), String> {
        let turn = Turn::of(shares)?;
        self.beginning = turn.together;
        self.early_passes = turn.passes;
        Ok(())
    }

    /// Takes note of one round. The first step of each kind does not count: it finds the caches full of
    /// the other model.
    ///
    /// # Errors
    /// When ranks have not made the same steps.
    pub(crate) fn add(&mut self, shares: Vec<Share>, hop_us: Option<f64>) -> Result<(), String> {
        let Turn { together, alone, passes } = Turn::of(shares)?;
        self.together.extend(together.into_iter().skip(1));
        self.alone.extend(alone.into_iter().skip(1));
        self.passes.extend(passes);
        self.hops.extend(hop_us);
        Ok(())
    }

    /// What comes of it; none before the first round.
    pub(crate) fn figures(&self) -> Option<Figures> {
        let Self { beginning, together, alone, early_passes, passes, hops } = self;
        if together.is_empty() || alone.is_empty() {
            return None;
        }
        let passes = if passes.is_empty() { early_passes } else { passes };
        let way = |part: fn(&Pass) -> u64| {
            median(passes.iter().map(|pass| part(pass) as f64 * 1e-6).collect())
        };
        Some(Figures {
            steps: together.len(),
            together: Times::of(together),
            alone: Times::of(alone),
            first: beginning.first()?.time,
            tenth: beginning.get(TENTH - 1)?.time,
            way: (!passes.is_empty()).then(|| (way(|it| it.communication), way(|it| it.hidden))),
            hop_us: (!hops.is_empty()).then(|| median(hops.clone())),
        })
    }
}

impl Times {
    fn of(steps: &[Span]) -> Self {
        let times: Vec<f64> = steps.iter().map(|step| step.time).collect();
        Self {
            least: times.iter().copied().fold(f64::INFINITY, f64::min),
            median: median(times),
            computed: median(steps.iter().map(|step| step.computed).collect()),
        }
    }
}

/// The times of one turn, over all ranks.
struct Turn {
    together: Vec<Span>,
    alone: Vec<Span>,
    passes: Vec<Pass>,
}

impl Turn {
    fn of(shares: Vec<Share>) -> Result<Self, String> {
        let (mut together, mut alone, mut passes) = (Vec::new(), Vec::new(), Vec::new());
        for share in shares {
            together.push(share.together);
            alone.push(share.alone);
            passes.extend(share.passes);
        }
        Ok(Self { together: spans(&together)?, alone: spans(&alone)?, passes })
    }
}

/// The step that the first one is compared with; so many are made before anything counts.
pub(crate) const TENTH: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// One rank whose steps take so many milliseconds, half of which it computes.
    fn share(together: &[u64], alone: &[u64]) -> Share {
        let step = |time: &u64| (0, time * 1_000_000, time * 500_000).into();
        let steps = |times: &[u64]| times.iter().map(step).collect();
        let passes = vec![Pass { communication: 4_000_000, hidden: 3_000_000 }];
        Share { together: steps(together), alone: steps(alone), passes }
    }

    #[test]
    fn the_first_step_of_each_turn_does_not_count() {
        let mut course = Course::default();
        let beginning: Vec<u64> = (0..10).map(|step| 50 - step).collect();
        course.begin(vec![share(&beginning, &[1; 10])]).unwrap();
        assert_eq!(course.figures(), None, "nothing has counted so far");
        course.add(vec![share(&[99, 10, 14], &[99, 6, 7])], Some(0.1)).unwrap();
        course.add(vec![share(&[99, 12, 11], &[99, 9, 8])], Some(0.2)).unwrap();
        let figures = course.figures().unwrap();
        let together = Times { median: 12.0, least: 10.0, computed: 6.0 };
        let alone = Times { median: 8.0, least: 6.0, computed: 4.0 };
        assert_eq!((figures.together, figures.alone, figures.steps), (together, alone, 4));
        assert_eq!((figures.first, figures.tenth), (50.0, 41.0));
        assert_eq!((figures.way, figures.hop_us), (Some((4.0, 3.0)), Some(0.2)));
    }

    #[test]
    fn passes_of_the_beginning_count_for_those_who_tell_of_no_others() {
        let mut course = Course::default();
        let with = |communication| {
            let passes = vec![Pass { communication, hidden: 0 }];
            Share { passes, ..share(&[1; 10], &[1; 10]) }
        };
        course.begin(vec![with(9_000_000)]).unwrap();
        course.add(vec![Share { passes: Vec::new(), ..with(0) }], None).unwrap();
        assert_eq!(course.figures().unwrap().way, Some((9.0, 0.0)));
        course.add(vec![with(5_000_000)], None).unwrap();
        assert_eq!(course.figures().unwrap().way, Some((5.0, 0.0)));
    }

    #[test]
    fn ranks_that_made_different_steps_do_not_count() {
        let mut course = Course::default();
        let shares = vec![share(&[1, 2], &[1, 2]), share(&[1], &[1])];
        assert!(course.add(shares, None).is_err());
        assert_eq!(course, Course::default());
    }
}
