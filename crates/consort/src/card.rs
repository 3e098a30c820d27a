//! What each rank shows at the meeting, and what has to be the same on all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use consort_sys::host::HostId;
use serde::{Deserialize, Serialize};

use crate::meeting::Processors;

/// One rank's card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    /// What has to be the same on every rank: versions, features, options.
    pub(crate) same: BTreeMap<String, String>,
    /// The host this rank runs on.
    pub(crate) host: HostId,
    /// The address under which its host can be reached.
    pub(crate) address: IpAddr,
    /// Its process there.
    pub(crate) process: u32,
    /// Its processors there.
    pub(crate) processors: Processors,
}

/// Says which ranks differ in what, or `None` if they agree.
pub(crate) fn differences(cards: &BTreeMap<u32, Card>) -> Option<String> {
    differences_between(cards.iter().map(|(rank, card)| (*rank, &card.same)))
}

/// Says which ranks differ in what, or `None` if they agree, from what each says by name.
pub(crate) fn differences_between<'a>(
    cards: impl Iterator<Item = (u32, &'a BTreeMap<String, String>)> + Clone,
) -> Option<String> {
    let mut names: Vec<&String> = cards.clone().flat_map(|(_, same)| same.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut text = String::new();
    for name in names {
        let mut holders: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (rank, same) in cards.clone() {
            let value = same.get(name).map_or("(none)", String::as_str);
            holders.entry(value).or_default().push(rank);
        }
        if holders.len() > 1 {
            let parts: Vec<String> = holders
                .iter()
                .map(|(value, ranks)| format!("{value} on {}", list_ranks(ranks)))
                .collect();
            writeln!(text, "  {name}: {}", parts.join(", ")).expect("text can be extended");
        }
    }
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}

/// `rank 3`, or `ranks 0-2, 5`.
fn list_ranks(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let runs: Vec<String> = runs
        .iter()
        .map(
            |(first, last)| {
                if first == last { format!("{first}") } else { format!("{first}-{last}") }
            },
        )
        .collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", runs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(same: &[(&str, &str)]) -> Card {
        let same = same.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let host = HostId::here().unwrap();
        let processors = Processors::here();
        Card { same, host, address: [127, 0, 0, 1].into(), process: 1, processors }
    }

    #[test]
    fn equal_cards_have_no_differences() {
        let card = card(&[("version", "1"), ("timeout", "10m")]);
        let cards = (0..3).map(|rank| (rank, card.clone())).collect();
        assert_eq!(differences(&cards), None);
    }

    #[test]
    fn who_has_what_is_shown_for_each_difference_and_for_nothing_else() {
        let usual = card(&[("version", "1"), ("timeout", "10m")]);
        let mut cards: BTreeMap<u32, Card> = (0..6).map(|rank| (rank, usual.clone())).collect();
        cards.insert(3, card(&[("version", "2"), ("timeout", "10m")]));
        cards.insert(5, card(&[("version", "1"), ("timeout", "10m"), ("encrypt", "on")]));
        let expected = "  encrypt: (none) on ranks 0-4, on on rank 5\n  version: 1 on ranks 0-2, 4-5, 2 on rank 3";
        assert_eq!(differences(&cards).unwrap(), expected);
    }
}
