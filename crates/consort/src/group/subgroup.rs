//! Groups that are asked for by the list of their ranks, and made when they are first needed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use consort_store::ErrorKind;

use super::Group;
use crate::error::Result;

/// The groups of some of a group's ranks that there are, by their lists.
///
/// Each has a lock of its own, so that threads of a rank can ask for different ones at once.
#[derive(Debug, Default)]
pub(super) struct Subgroups(Mutex<HashMap<Vec<u32>, Slot>>);

type Slot = Arc<Mutex<Seat>>;

/// Where one of them is, once it is made.
#[derive(Debug, Default)]
struct Seat {
    group: Option<Group>,
    /// How often its members have tried in vain.
    failures: u32,
}

impl Group {
    /// The group of these ranks of this one, in this order. It is made when it is first asked for, and is
    /// the same from then on, whoever asks: for rank lists, and for [meshes](crate::Mesh).
    ///
    /// Only its members call it, and wait for each other the first time, as in [`among`](Self::among).
    /// It costs no sockets and no threads. The list of all ranks in their order stands for this group
    /// itself. Names in brackets, as below, are for these: leave them to it in `among`.
    ///
    /// ```
    /// let group = consort::Group::fake(2, 8)?;
    /// let even = group.subgroup(&[0, 2, 4, 6])?;
    /// assert_eq!((even.name(), even.rank().get()), ("world/[0-6:2]", 1));
    /// assert_eq!(group.subgroup(&[0, 1, 2, 3, 4, 5, 6, 7])?.name(), "world");
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`among`](Self::among). When a member has not come in time, or is gone, all members hear of that, and
    /// whoever asks again tries anew, with those who do.
    pub fn subgroup(&self, ranks: &[u32]) -> Result<Self> {
        // In a forked child nobody would let go of the locks.
        self.backend()?;
        if ranks.iter().copied().eq(0..self.world() as u32) {
            return Ok(self.clone());
        }
        let slot = self.slot(ranks)?;
        let mut seat = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = &seat.group {
            return Ok(group.within(self.timeout()));
        }
        let name = match seat.failures {
            0 => name_of(ranks),
            failures => format!("{}#{failures}", name_of(ranks)),
        };
        let made = self.among(&name, ranks);
        match &made {
            Ok(group) => seat.group = Some(group.clone()),
            // What is settled for all members is the end of this try.
            Err(error) if matches!(error.kind(), ErrorKind::Deadline | ErrorKind::PeerGone) => {
                seat.failures += 1;
            }
            Err(_) => {}
        }
        made
    }

    /// Where the group of these ranks is, or will be.
    fn slot(&self, ranks: &[u32]) -> Result<Slot> {
        let slots = || self.shared.subgroups.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots().get(ranks) {
            return Ok(slot.clone());
        }
        self.check_list(ranks)?;
        Ok(slots().entry(ranks.to_vec()).or_default().clone())
    }
}

/// A name that stands for this list and for no other: runs of ranks that are equally far apart, as first,
/// last and distance.
fn name_of(ranks: &[u32]) -> String {
    let mut name = "[".to_owned();
    let mut rest = ranks;
    while let &[first, ..] = rest {
        let (len, step) = run(rest);
        let separator = if name.len() > 1 { "," } else { "" };
        let last = rest[len - 1];
        let _ = match (len, step) {
            (1, _) => write!(name, "{separator}{first}"),
            (_, 1) => write!(name, "{separator}{first}-{last}"),
            _ => write!(name, "{separator}{first}-{last}:{step}"),
        };
        rest = &rest[len..];
    }
    name.push(']');
    name
}

/// How many ranks from the first on are equally far apart, and how far. Two are no run.
fn run(ranks: &[u32]) -> (usize, u32) {
    let step = match ranks {
        [first, second, ..] if second > first => second - first,
        _ => return (1, 0),
    };
    let len =
        1 + ranks.windows(2).take_while(|pair| pair[0].checked_add(step) == Some(pair[1])).count();
    if len > 2 { (len, step) } else { (1, 0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_named_by_their_runs() {
        let names = [
            (&[][..], "[]"),
            (&[3], "[3]"),
            (&[3, 4], "[3,4]"),
            (&[3, 4, 5], "[3-5]"),
            (&[0, 2, 4, 6, 7], "[0-6:2,7]"),
            (&[5, 4, 3], "[5,4,3]"),
            (&[1, 0, 2, 4], "[1,0-4:2]"),
        ];
        for (ranks, name) in names {
            assert_eq!(name_of(ranks), name);
        }
    }

    proptest! {
        #[test]
        fn different_lists_have_different_names(
            one in prop::collection::vec(0_u32..8, 0..6),
            other in prop::collection::vec(0_u32..8, 0..6),
        ) {
            prop_assert_eq!(one == other, name_of(&one) == name_of(&other));
        }
    }
}
