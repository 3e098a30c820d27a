//! Who the ranks of a group are, and what those of this host can be seen to do.
//!
//! Ranks that are given a folder for their [records](crate::trace) leave them there, and those of a host
//! are given the same one: so whoever waits for another can look up what that one does instead, also in
//! other groups, and when it is dead. Those who are given none have records without a name, which can be
//! read while they live, if the system lets one process look at another.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use consort_sys::parting::Parting;
use consort_sys::record::{CallRecord, GroupRecord, Snapshot, path_by_descriptor};

use super::verdict::{Seen, Sighting};
use crate::group::Member;
use crate::recorder;
use crate::whereabouts::{CallStage, Reports, Whereabouts};

/// The ranks of a group, for one of them.
#[derive(Debug)]
pub(crate) struct Roster {
    pub(crate) me: usize,
    pub(crate) members: Arc<[Member]>,
    /// The ranks of the members in the world.
    pub(crate) world_ranks: Arc<[u32]>,
    /// Where the ranks of this host leave their records, if they do.
    pub(crate) folder: Option<PathBuf>,
    /// Where those of this host say that their records are, if not there.
    pub(crate) partings: Vec<Option<Parting>>,
    /// How long somebody waits before it says so.
    pub(crate) warn_after: Option<Duration>,
}

impl Roster {
    /// What a rank of this group can be seen to have called last; what its ranks count aside, if a name is given
    /// for that, rather than something else.
    pub(super) fn look_up(&self, names: (&str, Option<&str>), rank: usize) -> Option<Seen> {
        let member = &self.members[rank];
        if member.host != self.members[self.me].host {
            return None;
        }
        let snapshot = Snapshot::read(&self.record_of(rank)?).ok()?;
        // The folder may hold what another left, who was this rank in an earlier round.
        (snapshot.process == member.process).then(|| last_call(&snapshot.groups, names, now()))?
    }

    fn record_of(&self, rank: usize) -> Option<PathBuf> {
        match &self.folder {
            Some(folder) => Some(recorder::path_in(folder, self.world_ranks[rank])),
            None => {
                let descriptor = self.partings[rank].as_ref()?.record()?;
                Some(path_by_descriptor(self.members[rank].process, descriptor))
            }
        }
    }

    /// What was seen of ranks of this group, in words.
    pub(super) fn in_words(&self, group: &str, seen: &[Sighting]) -> Reports {
        let whereabouts = |Sighting { rank, condition, last }: &Sighting| {
            let member = self.members.get(*rank as usize)?;
            Some(Whereabouts {
                rank: *rank,
                host: member.host.clone(),
                process: member.process,
                condition: *condition,
                last_call: last.as_ref().map(|seen| seen.in_words(group)),
            })
        };
        seen.iter().filter_map(whereabouts).collect()
    }
}

/// The call that a rank with these records is in, if it can be of this group, or of what it counts aside; or
/// otherwise the one that has ended last. Times are nanoseconds since 1970.
fn last_call(
    records: &[GroupRecord],
    (group, aside): (&str, Option<&str>),
    now: u64,
) -> Option<Seen> {
    let wanted = aside.unwrap_or(group);
    let calls = || records.iter().filter_map(|it| Some((it, it.calls.last()?)));
    let open = calls().filter(|(_, call)| call.end.is_none());
    let inside = open.max_by_key(|(record, call)| (record.name == wanted, call.began));
    let (record, call) =
        inside.or_else(|| calls().max_by_key(|(_, call)| call.end.map(|end| end.at)))?;
    let since = |at: u64| Duration::from_nanos(now.saturating_sub(at));
    let CallRecord { number, call, began, end, waits_for: awaits, .. } = *call;
    let stage = match end {
        None => CallStage::Within { since: since(began), awaits },
        Some(end) => CallStage::Over { since: since(end.at) },
    };
    let elsewhere = (record.name != group).then(|| record.name.clone());
    Some(Seen { elsewhere, number, call, stage })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use consort_sys::record::CallEnd;

    use super::*;

    fn call(number: u64, began: u64, ended: Option<u64>) -> CallRecord {
        let end = ended.map(|at| CallEnd { at, is_good: true, combined: 0 });
        let (call, waits_for) = ([number, 0], Some(3));
        CallRecord { number, call, queued: None, began, end, waits_for, site: None }
    }

    fn record(name: &str, calls: &[CallRecord]) -> GroupRecord {
        GroupRecord {
            name: name.to_owned(),
            rank: 0,
            world: 4,
            members: Vec::new(),
            has_left: false,
            made: calls.len() as u64,
            bytes: 0,
            busy: 0,
            ended: 0,
            failed: 0,
            combined: 0,
            calls: calls.to_vec(),
        }
    }

    #[test]
    fn a_rank_that_is_in_a_call_of_another_group_is_found_there() {
        let records = [
            record("world", &[call(40, 100, Some(900))]),
            record("part", &[call(6, 10, Some(20)), call(7, 300, None)]),
        ];
        let seen = last_call(&records, ("world", None), 1300).unwrap();
        let since = Duration::from_nanos(1000);
        assert_eq!((seen.elsewhere.as_deref(), seen.number), (Some("part"), 7));
        assert_eq!(seen.stage, CallStage::Within { since, awaits: Some(3) });
    }

    #[test]
    fn of_a_rank_that_is_in_no_call_the_one_that_ended_last_is_told() {
        let records =
            [record("world", &[call(40, 100, Some(900))]), record("part", &[call(7, 1, Some(9))])];
        let seen = last_call(&records, ("world", None), 1000).unwrap();
        assert_eq!((seen.elsewhere, seen.number), (None, 40));
        assert_eq!(seen.stage, CallStage::Over { since: Duration::from_nanos(100) });
        assert_eq!(last_call(&[record("world", &[])], ("world", None), 0), None);
    }

    #[test]
    fn a_call_of_the_group_in_question_counts_more_than_others() {
        let records =
            [record("world", &[call(40, 100, None)]), record("part", &[call(7, 200, None)])];
        assert_eq!(last_call(&records, ("world", None), 1000).unwrap().number, 40);
        let seen = last_call(&records, ("world", Some("part")), 1000).unwrap();
        assert_eq!((seen.elsewhere.as_deref(), seen.number), (Some("part"), 7));
    }
}
