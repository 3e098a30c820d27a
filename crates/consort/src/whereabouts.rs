//! What is known of ranks that others wait for.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use consort_sys::host::HostId;
use serde::{Deserialize, Serialize};

/// What was known of a rank when others gave it up, or warned of it: where it is, whether it is alive,
/// and what it did last.
///
/// An error that [names ranks](crate::Error::Late) has one for each of the first of them, the same on
/// every rank that gets the error.
///
/// ```
/// use consort::{Condition, Whereabouts};
///
/// /// Those whom a debugger can be attached to.
/// fn to_look_at(whereabouts: &[Whereabouts]) -> impl Iterator<Item = (&str, u32)> {
///     let alive = whereabouts.iter().filter(|it| it.condition == Condition::Alive);
///     alive.map(|it| (it.host.name(), it.process))
/// }
/// # assert_eq!(to_look_at(&[]).count(), 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Whereabouts {
    /// The rank in the group that the error is about.
    pub rank: u32,
    /// The host it runs on, or ran on.
    pub host: HostId,
    /// Its process number on that host.
    pub process: u32,
    /// Whether it is there.
    pub condition: Condition,
    /// What it called last, in any of its groups, if whoever noticed could see that.
    pub last_call: Option<LastCall>,
}

/// What is known of several ranks: a slice of [`Whereabouts`] that takes one word of an error.
///
/// ```
/// use consort::Error;
///
/// fn where_to_look(error: &Error) -> Vec<String> {
///     let known = match error {
///         Error::Late { whereabouts, .. } | Error::PeerLost { whereabouts, .. } => whereabouts,
///         _ => return Vec::new(),
///     };
///     known.iter().map(|it| format!("{}: process {}", it.host, it.process)).collect()
/// }
/// # assert!(where_to_look(&Error::Fake).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports(Box<List>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct List {
    all: Vec<Whereabouts>,
}

impl Deref for Reports {
    type Target = [Whereabouts];

    fn deref(&self) -> &[Whereabouts] {
        &self.0.all
    }
}

impl FromIterator<Whereabouts> for Reports {
    fn from_iter<I: IntoIterator<Item = Whereabouts>>(all: I) -> Self {
        Self(Box::new(List { all: all.into_iter().collect() }))
    }
}

/// Whether a rank is there, as far as another knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Condition {
    /// Nothing speaks against its being there. It may be stopped.
    Alive,
    /// Its process has ended, and not in good order.
    Ended,
    /// Nothing is heard of its host any more.
    Unreachable,
    /// It has left the group: it makes no more calls in it.
    Left,
}

/// The last call of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastCall {
    /// The group that it was made in.
    pub group: Box<str>,
    /// Which of that group's calls it is, from 1.
    pub number: u64,
    /// What was called.
    pub call: Box<str>,
    /// How far it has come.
    pub stage: CallStage,
}

/// How far a call has come on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CallStage {
    /// The rank is in it.
    Within {
        /// Since so long.
        since: Duration,
        /// For which rank of the call's group it waits, if it does.
        awaits: Option<u32>,
    },
    /// It has ended.
    Over {
        /// So long ago.
        since: Duration,
    },
    /// It was begun. Whether it has ended cannot be seen.
    Begun,
}

impl Whereabouts {
    /// Of a rank whose process has ended before it could do anything with the others.
    pub(crate) fn of_ended(rank: u32, host: HostId, process: u32) -> Self {
        Self { rank, host, process, condition: Condition::Ended, last_call: None }
    }
}

impl fmt::Display for Whereabouts {
    /// One line: `rank 2 on box (process 4711): alive, not in any call; …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, host, process, condition, last_call } = self;
        write!(f, "rank {rank} on {} (process {process}): {condition}, ", host.name())?;
        match last_call {
            None => f.write_str("what it did last cannot be seen from here"),
            Some(last) => last.describe(*condition, f),
        }
    }
}

impl LastCall {
    fn describe(&self, condition: Condition, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, number, call, stage } = self;
        let is_gone = matches!(condition, Condition::Ended | Condition::Unreachable);
        match stage {
            CallStage::Within { since, awaits } => {
                let verb = if is_gone { "was in" } else { "in" };
                write!(f, "{verb} call {number} of {group} ({call}) since {since:.1?}")?;
                match awaits {
                    Some(rank) => write!(f, ", where it waits for rank {rank}"),
                    None => Ok(()),
                }
            }
            CallStage::Over { since } => {
                let verb = if is_gone { "was not" } else { "not" };
                write!(
                    f,
                    "{verb} in any call; call {number} of {group} ({call}), its last, ended "
                )?;
                write!(f, "{since:.1?} ago")
            }
            CallStage::Begun => {
                write!(f, "call {number} of {group} ({call}) is the last that it has begun")
            }
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alive => "alive",
            Self::Ended => "ended",
            Self::Unreachable => "out of reach",
            Self::Left => "has left the group",
        })
    }
}

/// A line for each, and one that says what to do, for the end of an error.
pub(crate) fn lines(whereabouts: &[Whereabouts], advice: &str) -> String {
    let each: String = whereabouts.iter().map(|it| format!("\n  {it}")).collect();
    format!("{each}\n  {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(condition: Condition, stage: Option<CallStage>) -> String {
        let (group, call) = ("world".into(), "barrier".into());
        let last_call = stage.map(|stage| LastCall { group, number: 40, call, stage });
        let host = HostId::here().unwrap();
        let name = host.name().to_owned();
        let it = Whereabouts { rank: 2, host, process: 4711, condition, last_call };
        it.to_string().replace(&format!(" on {name} "), " on box ")
    }

    #[test]
    fn a_line_says_where_a_rank_is_and_what_it_did_last() {
        let since = Duration::from_millis(3200);
        let over = Some(CallStage::Over { since });
        let within = |awaits| Some(CallStage::Within { since, awaits });
        for (condition, stage, line) in [
            (
                Condition::Alive,
                over,
                "alive, not in any call; call 40 of world (barrier), its last, ended 3.2s ago",
            ),
            (
                Condition::Alive,
                within(Some(1)),
                "alive, in call 40 of world (barrier) since 3.2s, where it waits for rank 1",
            ),
            (Condition::Ended, within(None), "ended, was in call 40 of world (barrier) since 3.2s"),
            (
                Condition::Unreachable,
                None,
                "out of reach, what it did last cannot be seen from here",
            ),
            (
                Condition::Left,
                Some(CallStage::Begun),
                "has left the group, call 40 of world (barrier) is the last that it has begun",
            ),
        ] {
            assert_eq!(seen(condition, stage), format!("rank 2 on box (process 4711): {line}"));
        }
    }
}
