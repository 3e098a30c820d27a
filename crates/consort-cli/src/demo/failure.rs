//! The story of a rank that was killed: pure.

use serde::Serialize;

use super::figures::time;
use super::history::History;

/// Who was killed, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Killed {
    pub(crate) rank: usize,
    /// How many steps were done.
    pub(crate) after: usize,
    /// By the clock that all processes share, in nanoseconds.
    pub(crate) at: u64,
}

/// What became of the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Failure {
    /// Who was killed.
    pub(crate) rank: usize,
    /// After how many steps.
    pub(crate) after_step: usize,
    /// Who has noticed, in the order in which they did.
    pub(crate) noticed: Vec<Noticed>,
    /// How long after the kill the last of the others could go on.
    pub(crate) resumed_after_ms: Option<f64>,
    /// Who has gone on, as they were numbered in the beginning.
    pub(crate) survivors: Vec<u32>,
}

/// One of them has noticed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Noticed {
    pub(crate) rank: usize,
    pub(crate) step: usize,
    pub(crate) after_ms: f64,
    pub(crate) error: String,
}

impl Failure {
    /// What the ranks say of it.
    pub(crate) fn of(history: &History, killed: Killed) -> Self {
        let members = history.members.iter().enumerate();
        let mut noticed: Vec<Noticed> = members
            .filter_map(|(rank, member)| {
                let loss = member.loss.as_ref()?;
                let (step, error) = (loss.step + 1, loss.error.clone());
                Some(Noticed { rank, step, after_ms: millis(killed.at, loss.at), error })
            })
            .collect();
        noticed.sort_by(|one, other| one.after_ms.total_cmp(&other.after_ms));
        let resumed = || history.members.iter().filter_map(|member| member.resumed.as_ref());
        let last = resumed().map(|(at, _)| *at).max();
        Self {
            rank: killed.rank,
            after_step: killed.after,
            noticed,
            resumed_after_ms: last.map(|at| millis(killed.at, at)),
            survivors: resumed().map(|(_, ranks)| ranks.clone()).next().unwrap_or_default(),
        }
    }

    /// Whether every rank but the one that was killed has named that one, and has gone on without it.
    pub(crate) fn is_survived(&self, ranks: usize) -> bool {
        let is_named = |it: &Noticed| it.error.contains(&format!("rank {} is gone", self.rank));
        let others: Vec<u32> =
            (0..ranks).filter(|&rank| rank != self.rank).map(|rank| rank as u32).collect();
        self.noticed.len() == others.len()
            && self.noticed.iter().all(is_named)
            && self.survivors == others
    }

    /// What happened, a sentence each.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let Self { rank, after_step, noticed, survivors, .. } = self;
        let mut told = vec![format!("rank {rank} was killed after step {after_step} (SIGKILL)")];
        told.extend(noticed.iter().map(Noticed::sentence));
        let left = match &survivors[..] {
            [] => "nobody went on".to_owned(),
            [one] => format!("rank {one} went on alone"),
            many => format!("{} ranks went on", many.len()),
        };
        told.push(match self.resumed_after_ms {
            Some(millis) => format!("{left} {} after the kill", time(millis * 1e-3)),
            None => left,
        });
        told
    }
}

impl Noticed {
    /// What happened.
    pub(crate) fn sentence(&self) -> String {
        let Self { rank, step, after_ms, error } = self;
        let first = error.lines().next().unwrap_or_default();
        format!("rank {rank} noticed {} later, in step {step}: {first}", time(after_ms * 1e-3))
    }
}

fn millis(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 * 1e-6
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::words::{Loss, Word};
    use super::*;

    /// Rank 1 of three was killed.
    pub(crate) fn story() -> (History, Killed) {
        let mut history = History::new(3);
        for (rank, at) in [(0, 5_400_000), (2, 5_100_000)] {
            let error = format!("group world: rank 1 is gone: rank {rank} noticed\nmore of it");
            history.note(rank, Word::Lost(Loss { at, step: 10, error })).unwrap();
            history.note(rank, Word::Resumed { at: at + 7_000_000, ranks: vec![0, 2] }).unwrap();
        }
        (history, Killed { rank: 1, after: 10, at: 5_000_000 })
    }

    #[test]
    fn the_story_is_told_in_the_order_in_which_it_happened() {
        let (history, killed) = story();
        insta::assert_snapshot!(Failure::of(&history, killed).sentences().join("\n"), @"
        rank 1 was killed after step 10 (SIGKILL)
        rank 2 noticed 100 µs later, in step 11: group world: rank 1 is gone: rank 2 noticed
        rank 0 noticed 400 µs later, in step 11: group world: rank 1 is gone: rank 0 noticed
        2 ranks went on 7.40 ms after the kill
        ");
    }

    #[test]
    fn it_is_survived_when_everyone_else_has_named_the_one_and_gone_on() {
        let (history, killed) = story();
        let failure = Failure::of(&history, killed);
        assert!(failure.is_survived(3));
        let mut blamed = failure.clone();
        blamed.noticed[0].error = "rank 0 is gone".to_owned();
        assert!(!blamed.is_survived(3));
        assert!(!Failure { survivors: vec![0], ..failure.clone() }.is_survived(3));
        assert!(!Failure { noticed: Vec::new(), ..failure }.is_survived(3));
    }
}
