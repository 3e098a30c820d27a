//! What one rank has timed, and what all of them make of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One step of one rank, in nanoseconds: when it began and ended by the clock that all ranks share, and for
/// how long the rank's process was computing meanwhile, on all its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub(crate) struct Step {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) computed: u64,
}

/// One step of all ranks, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    /// From the earliest start to the latest end.
    pub(crate) time: f64,
    /// For how long a rank was computing, on average.
    pub(crate) computed: f64,
}

/// What one rank has timed in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// Those that it made together with the others.
    pub(crate) together: Vec<Step>,
    /// Those without communication.
    pub(crate) alone: Vec<Step>,
    /// What the one who averages gradients says of its own passes, if it does.
    #[serde(default)]
    pub(crate) passes: Vec<Pass>,
}

/// How long gradients were on their way in one backward pass, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pass {
    /// From the first bucket's start until the last was there, with what lies between them: as PyTorch
    /// counts it.
    pub(crate) communication: u64,
    /// The part of it before backward's end.
    pub(crate) hidden: u64,
}

impl Pass {
    /// Of buckets that were on their way from and until then, and a backward that lasted so long. `None`
    /// without buckets.
    pub(crate) fn spanning(
        buckets: impl Iterator<Item = (Duration, Duration)> + Clone,
        backward: Duration,
    ) -> Option<Self> {
        let first = buckets.clone().map(|(launched, _)| launched).min()?;
        let last = buckets.map(|(_, done)| done).max()?;
        let nanos = |until: Duration| {
            u64::try_from(until.saturating_sub(first).as_nanos()).unwrap_or(u64::MAX)
        };
        Some(Self { communication: nanos(last), hidden: nanos(last.min(backward)) })
    }
}

/// The steps of all ranks together.
///
/// # Errors
/// When ranks have not made the same number of steps, or none.
pub(crate) fn spans(ranks: &[Vec<Step>]) -> Result<Vec<Span>, String> {
    let steps = ranks.first().map_or(0, Vec::len);
    if steps == 0 || ranks.iter().any(|rank| rank.len() != steps) {
        return Err("the ranks have not made the same steps".to_owned());
    }
    let span = |at: usize| {
        let each = || ranks.iter().map(|rank| rank[at]);
        let start = each().map(|step| step.start).min().unwrap_or(0);
        let end = each().map(|step| step.end).max().unwrap_or(0);
        let computed = each().map(|step| step.computed as f64).sum::<f64>() / ranks.len() as f64;
        Span { time: end.saturating_sub(start) as f64 * 1e-6, computed: computed * 1e-6 }
    };
    Ok((0..steps).map(span).collect())
}

impl From<(u64, u64, u64)> for Step {
    fn from((start, end, computed): (u64, u64, u64)) -> Self {
        Self { start, end, computed }
    }
}

impl From<Step> for (u64, u64, u64) {
    fn from(Step { start, end, computed }: Step) -> Self {
        (start, end, computed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(start: u64, end: u64, computed: u64) -> Step {
        (start * 1_000_000, end * 1_000_000, computed * 1_000_000).into()
    }

    #[test]
    fn a_step_lasts_from_the_first_start_to_the_last_end() {
        let early = vec![step(0, 2, 2), step(5, 6, 3)];
        let late = vec![step(1, 3, 1), step(4, 5, 1)];
        let expected = vec![Span { time: 3.0, computed: 1.5 }, Span { time: 2.0, computed: 2.0 }];
        assert_eq!(spans(&[early, late]), Ok(expected));
    }

    #[test]
    fn ranks_that_made_different_steps_are_not_believed() {
        assert!(spans(&[vec![step(0, 1, 1)], vec![]]).is_err());
        assert!(spans(&[vec![], vec![]]).is_err());
        assert!(spans(&[]).is_err());
    }

    #[test]
    fn a_pass_spans_gaps_and_is_hidden_until_backward_ends() {
        let at = Duration::from_nanos;
        let buckets = [(at(10), at(20)), (at(30), at(50)), (at(35), at(45))];
        let pass = |backward| Pass::spanning(buckets.into_iter(), at(backward)).unwrap();
        assert_eq!(pass(32), Pass { communication: 40, hidden: 22 });
        assert_eq!(pass(5), Pass { communication: 40, hidden: 0 });
        assert_eq!(pass(60), Pass { communication: 40, hidden: 40 });
        assert_eq!(Pass::spanning([].into_iter(), at(5)), None);
    }

    #[test]
    fn a_share_may_come_without_passes() {
        let line = r#"{"together":[[1,2,3]],"alone":[[3,4,5]],"passes":[]}"#;
        let share: Share = serde_json::from_str(&line.replace(r#","passes":[]"#, "")).unwrap();
        assert_eq!(share.together, [Step { start: 1, end: 2, computed: 3 }]);
        assert_eq!(serde_json::to_string(&share).unwrap(), line);
    }
}
