//! What one rank has timed, and what all of them make of it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When steps of one rank began and ended, in nanoseconds of the clock that all ranks share.
pub(crate) type Steps = Vec<(u64, u64)>;

/// What one rank has timed in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// Those that it made together with the others.
    pub(crate) together: Steps,
    /// Those without communication.
    pub(crate) alone: Steps,
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

/// The times of steps in milliseconds: from the earliest start to the latest end over ranks.
///
/// # Errors
/// When ranks have not made the same number of steps, or none.
pub(crate) fn spans(ranks: &[Steps]) -> Result<Vec<f64>, String> {
    let steps = ranks.first().map_or(0, Vec::len);
    if steps == 0 || ranks.iter().any(|rank| rank.len() != steps) {
        return Err("the ranks have not made the same steps".to_owned());
    }
    let span = |step: usize| {
        let each = || ranks.iter().map(|rank| rank[step]);
        let start = each().map(|(start, _)| start).min().unwrap_or(0);
        let end = each().map(|(_, end)| end).max().unwrap_or(0);
        end.saturating_sub(start) as f64 * 1e-6
    };
    Ok((0..steps).map(span).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_lasts_from_the_first_start_to_the_last_end() {
        let early = vec![(0, 2_000_000), (5_000_000, 6_000_000)];
        let late = vec![(1_000_000, 3_000_000), (4_000_000, 5_500_000)];
        assert_eq!(spans(&[early, late]), Ok(vec![3.0, 2.0]));
    }

    #[test]
    fn ranks_that_made_different_steps_are_not_believed() {
        assert!(spans(&[vec![(0, 1)], vec![]]).is_err());
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
        let share: Share = serde_json::from_str(r#"{"together":[[1,2]],"alone":[[3,4]]}"#).unwrap();
        assert_eq!((share.together, share.passes), (vec![(1, 2)], vec![]));
    }
}
