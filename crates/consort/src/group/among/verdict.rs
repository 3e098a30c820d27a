//! What becomes of a group that its members make by themselves, as it is settled in the store, and what
//! each of them is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Gathering;
use crate::engine::{Place, Sighting};
use crate::error::Error;
use crate::whereabouts::Reports;

/// What has become of it. Ranks are those of the group that the members are part of.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    /// All of the list have come, and have set these places aside.
    Formed { list: Vec<u32>, places: Vec<[u64; 3]> },
    /// Two members were given different lists.
    Differs { first: (u32, Vec<u32>), second: (u32, Vec<u32>) },
    /// A member has no memory for its part.
    Unable { rank: u32, reason: String },
    /// A member is dead.
    Lost { rank: u32, by: u32, waited: Duration, seen: Vec<Sighting> },
    /// A member has left the group that they are part of, and not come.
    Left { rank: u32, by: u32 },
    /// Members have not come in time.
    Late { missing: Vec<u32>, by: u32, waited: Duration, seen: Vec<Sighting> },
}

impl Gathering<'_> {
    /// Whether this is what was settled of this call, and not of another under the same name.
    pub(super) fn is_of(&self, list: &[u32], places: &[[u64; 3]], mine: &Place) -> bool {
        let at = list.iter().position(|&rank| rank == self.me());
        let place = at.and_then(|at| places.get(at));
        (list, places.len(), place) == (self.list, list.len(), Some(&mine.offsets()))
    }

    /// What a member is told that gets no group.
    pub(super) fn error(&self, settled: Verdict) -> Error {
        let (group, call) = (self.group.name(), self.call());
        match settled {
            Verdict::Formed { list, .. } => Error::Argument(format!(
                "group {group}: ranks {list:?} have used the name {:?} before, so ranks {:?} have to \
                 choose another",
                self.name, self.list
            )),
            Verdict::Differs { first: (first, one), second: (second, other) } => {
                Error::Argument(format!(
                    "rank {first} asked for a group {:?} of {one:?}, but rank {second} for one of \
                     {other:?}: every member has to give the same list",
                    self.name
                ))
            }
            Verdict::Unable { rank, reason } => {
                let call = self.purpose.unwrap_or("among");
                Error::PeerUnable { group: group.to_owned(), rank, call, reason }
            }
            Verdict::Lost { rank, by, waited, seen } => {
                let (group, call, whereabouts) = (group.into(), call.into(), self.in_words(&seen));
                Error::PeerLost { group, rank, by, call, number: 0, waited, whereabouts }
            }
            Verdict::Left { rank, by } => {
                let (group, call) = (group.to_owned(), call.into());
                Error::Left { group, ranks: vec![rank], by, call, number: 0 }
            }
            Verdict::Late { missing, by, waited, seen } => {
                let (group, call, whereabouts) = (group.into(), call.into(), self.in_words(&seen));
                Error::Late { group, missing, by, call, number: 0, waited, whereabouts }
            }
        }
    }

    /// What a thread is told while another of its rank waits for the others under the same name.
    pub(super) fn under_way(&self) -> Error {
        let (group, name) = (self.group.name(), self.name);
        let what = format!("group {group}: this rank has come to among({name:?}) already");
        Error::Argument(format!("{what}: choose another name"))
    }

    /// As errors and warnings show it.
    pub(super) fn call(&self) -> String {
        self.purpose.map_or_else(|| format!("among({:?})", self.name), str::to_owned)
    }

    /// The new group's name: no other way of making a group gives the same.
    pub(super) fn group_name(&self) -> String {
        format!("{}/{}", self.group.name(), escaped(self.name))
    }

    /// What can be seen of ranks, to be told to all.
    pub(super) fn sight(&self, ranks: &[u32]) -> Vec<Sighting> {
        let ranks: Vec<usize> = ranks.iter().map(|&rank| rank as usize).collect();
        let lookout = self.group.shared.lookout.as_ref();
        lookout.map(|lookout| lookout.sight(&ranks)).unwrap_or_default()
    }

    fn in_words(&self, seen: &[Sighting]) -> Reports {
        let lookout = self.group.shared.lookout.as_ref();
        lookout.map(|lookout| lookout.in_words(seen)).unwrap_or_default()
    }
}

/// A name in which nothing can be taken for what names of groups are put together with.
fn escaped(name: &str) -> String {
    let escape = |letter: char| match letter {
        letter if letter.is_alphanumeric() || PLAIN.contains(letter) => letter.to_string(),
        letter => {
            let mut room = [0; 4];
            letter.encode_utf8(&mut room).bytes().map(|byte| format!("%{byte:02X}")).collect()
        }
    };
    name.chars().map(escape).collect()
}

/// What stands for itself in a name, beside letters and digits.
const PLAIN: &str = " -_.,:=()[]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_be_taken_for_the_end_of_another() {
        assert_eq!(escaped("tensor-parallel [0, 1]"), "tensor-parallel [0, 1]");
        assert_eq!(escaped("0#3"), "0%233");
        assert_eq!(escaped("a/b~1+2%\"\n"), "a%2Fb%7E1%2B2%25%22%0A");
        assert_eq!(escaped("日本…"), "日本%E2%80%A6");
    }
}
