//! How many cores the ranks of a host have together.

use std::collections::HashSet;

use consort_sys::topo::{CpuSet, Topology};
use serde::{Deserialize, Serialize};

use crate::card::Card;

/// The processors of one rank. Ranks that are pinned to one each have as many as there are of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Processors {
    /// Those that it may run on, as the kernel writes them.
    allowed: String,
    /// How many of them at a time, with the others of its control group; `None` if all.
    at_a_time: Option<usize>,
}

impl Processors {
    /// Those of this process.
    pub(crate) fn here() -> Self {
        let Topology { allowed, quota, .. } = Topology::here();
        let at_a_time = quota.map(|quota| quota.whole_cores());
        Self { allowed: allowed.to_string(), at_a_time }
    }
}

/// How many cores the ranks of a rank's host have together. All who know the same cards say the same.
pub(super) fn cores(cards: &[Card], rank: u32) -> usize {
    let host = &cards[rank as usize].host;
    let here = || cards.iter().filter(|card| card.host == *host).map(|card| &card.processors);
    let sets = here().filter_map(|it| CpuSet::parse(&it.allowed));
    let together: HashSet<u32> = sets.flat_map(|set| set.iter().collect::<Vec<_>>()).collect();
    let at_a_time = here().filter_map(|it| it.at_a_time).min().unwrap_or(usize::MAX);
    together.len().min(at_a_time).max(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use consort_sys::host::HostId;

    use super::*;

    /// The cores of rank 0's host, on which ranks have these processors.
    fn shared(ranks: &[(&str, Option<usize>)]) -> usize {
        let card = |&(allowed, at_a_time): &(&str, Option<usize>)| Card {
            same: Default::default(),
            host: HostId::under(Path::new("/"), "here".to_owned()).unwrap(),
            address: [127, 0, 0, 1].into(),
            process: 1,
            processors: Processors { allowed: allowed.to_owned(), at_a_time },
        };
        cores(&ranks.iter().map(card).collect::<Vec<_>>(), 0)
    }

    #[test]
    fn ranks_with_a_core_each_have_as_many_together() {
        assert_eq!(shared(&[("0", None), ("1", None), ("2", None), ("3", None)]), 4);
        assert_eq!(shared(&[("0-3", None), ("0-3", None)]), 4);
        assert_eq!(shared(&[("0-1", None), ("1-2", None)]), 3);
    }

    #[test]
    fn a_quota_limits_all_of_them_and_nonsense_is_one_core() {
        assert_eq!(shared(&[("0-63", Some(2)), ("0-63", Some(2))]), 2);
        assert_eq!(shared(&[("x", None)]), 1);
    }
}
