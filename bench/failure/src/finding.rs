//! What many runs of a scenario have in common.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::library::Library;
use crate::scenario::Scenario;
use crate::trial::{End, Trial};

/// What a library makes of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) library: String,
    pub(crate) version: String,
    pub(crate) scenario: String,
    pub(crate) title: String,
    pub(crate) runs: usize,
    /// The load of the machine, over a minute, before the first run and after the last.
    pub(crate) load: [f64; 2],
    /// What ranks got, most frequent first; each rank of each run counts.
    pub(crate) outcomes: Vec<Share>,
    /// From the fault to the error or end, over all ranks of all runs that had one.
    pub(crate) median_ms: Option<f64>,
    pub(crate) longest_ms: Option<f64>,
    /// How many of the errors name the rank that failed.
    pub(crate) named: usize,
    pub(crate) errors: usize,
    /// In how many runs the survivors worked together again, of those in which all had an error.
    pub(crate) went_on: usize,
    pub(crate) tried: usize,
    pub(crate) go_on_median_ms: Option<f64>,
    /// Why they could not, once.
    pub(crate) why_not: Option<String>,
}

/// How many ranks got the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    pub(crate) what: String,
    pub(crate) count: usize,
    /// What one of them was told; all results that ranks without an error had.
    pub(crate) example: String,
}

impl Finding {
    /// Sums up.
    pub(crate) fn of(
        library: Library,
        scenario: &Scenario,
        trials: &[Trial],
        load: [f64; 2],
    ) -> Self {
        let ends = || trials.iter().flat_map(|trial| &trial.ends);
        let times = sorted(ends().filter_map(|(_, end)| match end {
            End::Failed { ms, .. } | End::Ended { ms } => Some(*ms),
            End::Unaware { .. } | End::Hung => None,
        }));
        let texts = || {
            ends().filter_map(|(&rank, end)| match end {
                End::Failed { text, .. } => Some((rank, text)),
                _ => None,
            })
        };
        let named = texts().filter(|&(rank, text)| names(text, &scenario.culprits(rank))).count();
        let attempts: Vec<_> = trials.iter().filter_map(|trial| trial.goes_on.as_ref()).collect();
        let again = sorted(attempts.iter().filter_map(|attempt| attempt.as_ref().ok().copied()));
        Self {
            library: library.to_string(),
            version: trials.first().map_or_else(String::new, |trial| trial.version.clone()),
            scenario: scenario.name.to_owned(),
            title: scenario.title.to_owned(),
            runs: trials.len(),
            load,
            outcomes: shares(ends().map(|(_, end)| end)),
            median_ms: median(&times),
            longest_ms: times.last().copied(),
            named,
            errors: texts().count(),
            went_on: again.len(),
            tried: attempts.len(),
            go_on_median_ms: median(&again),
            why_not: attempts.iter().find_map(|attempt| attempt.as_ref().err().cloned()),
        }
    }
}

fn shares<'a>(ends: impl Iterator<Item = &'a End>) -> Vec<Share> {
    let mut counts: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for end in ends {
        let (what, example) = match end {
            End::Failed { class, text, .. } => (class.clone(), text.clone()),
            End::Unaware { values } => (UNAWARE.to_owned(), values.join(", ")),
            End::Ended { .. } => ("process ended".to_owned(), String::new()),
            End::Hung => ("hangs".to_owned(), String::new()),
        };
        let (count, examples) = counts.entry(what).or_insert((0, Vec::new()));
        *count += 1;
        // Of errors one is enough; what different ranks take for the result is worth knowing.
        if examples.is_empty() || end.is_unaware() && !examples.contains(&example) {
            examples.push(example);
        }
    }
    let share = |(what, (count, examples)): (_, (_, Vec<_>))| Share {
        what,
        count,
        example: examples.join(" or "),
    };
    let mut shares: Vec<Share> = counts.into_iter().map(share).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.count));
    shares
}

/// Whether a text names one of these ranks: as in `rank 2`, `Rank 2` or `ranks [1, 2]`.
fn names(text: &str, ranks: &[u32]) -> bool {
    let text = text.to_ascii_lowercase();
    text.match_indices("rank").any(|(at, word)| {
        let after = text[at + word.len()..].trim_start_matches(['s', ' ', '[']);
        let is_of_list = |c: char| c.is_ascii_digit() || c == ',' || c == ' ';
        let list = after.split(|c| !is_of_list(c)).next().unwrap_or_default();
        let mut numbers = list.split([',', ' ']).filter_map(|number| number.parse().ok());
        numbers.any(|number: u32| ranks.contains(&number))
    })
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

/// What is said of a rank that got a result where there should be none.
pub(crate) const UNAWARE: &str = "no error";

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(ms: f64, text: &str) -> End {
        End::Failed { ms, class: "PeerGone".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_rank_is_named_in_whatever_way_that_is_done() {
        for text in ["rank 2 is gone", "Rank 2: ended", "for ranks [1, 2], which", "rank 0, rank 2"]
        {
            assert!(names(text, &[2]), "{text}");
        }
        for text in ["rank 20 is gone", "2 ranks", "127.0.0.2", "rank", "rank 1 waited 2 s", ""] {
            assert!(!names(text, &[2]), "{text}");
        }
    }

    #[test]
    fn runs_are_summed_up_over_all_ranks() {
        let trial = |ends: [End; 3], goes_on| Trial {
            version: "1".to_owned(),
            ends: [0, 1, 3].into_iter().zip(ends).collect(),
            goes_on,
        };
        let trials = [
            trial([failed(1.0, "rank 2"), failed(3.0, "somebody"), End::Hung], None),
            trial(
                [failed(2.0, "rank 2"), failed(9.0, "rank 2"), End::Ended { ms: 5.0 }],
                Some(Ok(7.0)),
            ),
        ];
        let scenario = Scenario::called("kill").unwrap();
        let finding = Finding::of(Library::Gloo, &scenario, &trials, [0.5, 1.0]);
        assert_eq!((finding.median_ms, finding.longest_ms), (Some(3.0), Some(9.0)));
        assert_eq!((finding.named, finding.errors), (3, 4));
        assert_eq!((finding.went_on, finding.tried), (1, 1));
        let told: Vec<_> = finding.outcomes.iter().map(|it| (&it.what[..], it.count)).collect();
        assert_eq!(told, [("PeerGone", 4), ("hangs", 1), ("process ended", 1)]);
    }

    #[test]
    fn all_that_ranks_take_for_the_result_is_told() {
        let unaware = |value: &str| End::Unaware { values: vec![value.to_owned()] };
        let ends = [unaware("4"), unaware("3"), unaware("4"), failed(1.0, "x"), failed(1.0, "y")];
        let told: Vec<_> = shares(ends.iter()).into_iter().map(|it| it.example).collect();
        assert_eq!(told, ["4 or 3", "x"]);
    }

    #[test]
    fn a_finding_can_be_read_again() {
        let scenario = Scenario::called("cut").unwrap();
        let finding = Finding::of(Library::Consort, &scenario, &[], [0.0, 0.0]);
        let text = serde_json::to_string(&finding).unwrap();
        assert_eq!(serde_json::from_str::<Finding>(&text).unwrap(), finding);
    }
}
