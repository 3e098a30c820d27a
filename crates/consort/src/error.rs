//! What can go wrong when processes meet and work together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use consort_store::ErrorKind;
use consort_sys::host::HostId;
use consort_sys::pass::PassError;

use crate::call::FOR_A_GRADIENT;
use crate::whereabouts::{Reports, lines};

/// The result of every call of this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// [`kind`](Error::kind) sorts the variants into the few cases that code acts on.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not known who this process is or where to meet, or what is said cannot be right.
    #[error("{0}")]
    Environment(String),

    /// Ranks were started or built differently.
    #[error("rank {rank}: the ranks of this job differ in what has to be the same\n{differences}")]
    Differs {
        /// Who says so.
        rank: u32,
        /// Which ranks have what.
        differences: String,
    },

    /// Another process has come to the meeting as this rank.
    #[error(
        "process {process} on {host} has come to the meeting as rank {rank}: two processes were \
         started with the same rank, or this store still holds an earlier job"
    )]
    RankTaken {
        /// The rank.
        rank: u32,
        /// The host of the one that came first.
        host: HostId,
        /// The process that came first.
        process: u32,
    },

    /// This process has come to the meeting before.
    #[error(
        "init was called twice in this process: it has come to round {epoch} of job {job:?} as rank \
         {rank} before, and comes once to each round; clone the Group where it is needed in several \
         places, or have ranks meet again in another round (Builder::epoch)"
    )]
    Twice {
        /// The rank.
        rank: u32,
        /// The job.
        job: String,
        /// Its round.
        epoch: u64,
    },

    /// Some ranks did not come.
    #[error(
        "rank {rank} of {world} waited {waited:.1?} at the meeting: {missing}; were all ranks \
         started, with the same address and secret?"
    )]
    Missing {
        /// Who waited.
        rank: u32,
        /// How many should have come.
        world: u32,
        /// For how long.
        waited: Duration,
        /// Who did not come, or came and gave no word.
        missing: String,
    },

    /// The store failed.
    #[error(transparent)]
    Store(#[from] consort_store::Error),

    /// No network interface could be chosen.
    #[error(transparent)]
    Interface(#[from] consort_sys::net::Error),

    /// The system does not say which host this is.
    #[error("cannot tell which host this is: {0}")]
    Host(Arc<std::io::Error>),

    /// A call that makes no sense; nothing was moved, and the group goes on.
    #[error("{0}")]
    Argument(String),

    /// Numbers of this type cannot be combined in this way; nothing was moved.
    #[error(transparent)]
    Unsupported(#[from] consort_sys::reduce::Unsupported),

    /// There is not enough memory to share.
    #[error(transparent)]
    Memory(#[from] consort_sys::arena::ArenaError),

    /// The ranks of one host could not share their memory.
    #[error(transparent)]
    Sharing(#[from] PassError),

    /// Another rank lacks what it needs to do its part, so that nobody can. What it was for was not
    /// made; a group that there was before goes on.
    #[error("group {group}: rank {rank} cannot do its part of {call}: {reason}")]
    PeerUnable {
        /// The group.
        group: String,
        /// Who.
        rank: u32,
        /// What it was for.
        call: &'static str,
        /// What that rank says it lacks.
        reason: String,
    },

    /// The system gives this process no thread for its asynchronous calls.
    #[error("cannot start the thread that carries out asynchronous calls: {0}")]
    Thread(Arc<std::io::Error>),

    /// There is no port for data.
    #[error(
        "cannot listen for the other hosts' connections: {0}; CONSORT_INTERFACE and CONSORT_PORT say where"
    )]
    Port(Arc<std::io::Error>),

    /// An asynchronous call was given up by whoever carried it out.
    #[error(
        "this {operation} was given up: what carried it out, or a buffer of its, has panicked; the \
         log has the panic"
    )]
    Abandoned {
        /// What it was to do.
        operation: &'static str,
    },

    /// This process was forked from the one that is a rank; nothing was moved, and the group goes on.
    #[error(
        "this process was forked from rank {rank} (process {process}): only the process that \
         called init may use its group; start ranks with `consort run`, or call init after the fork"
    )]
    Forked {
        /// The rank in the group of all that its parent is.
        rank: u32,
        /// The process that called init.
        process: u32,
    },

    /// MPI was asked for, or needed, and cannot be used.
    #[error("MPI cannot be used: {0}")]
    Mpi(String),

    /// This process only pretends to be one of several ranks.
    #[error("a fake group has no memory that its ranks could share")]
    Fake,

    /// The ranks of a group do not all share memory.
    #[error(
        "group {group}: its ranks do not all share memory, which symmetric memory needs; split off a \
         group of the ranks on one host, and leave CONSORT_TRANSPORT at auto or shm"
    )]
    SeveralHosts {
        /// The group.
        group: String,
    },

    /// Ranks made different calls, which has ended the group.
    #[error(
        "group {group}: in call {number} rank {} made {}, but rank {} made {}: {}",
        .first.0, .first.1, .second.0, .second.1, advice(&.first.1, &.second.1)
    )]
    Mismatch {
        /// The group.
        group: String,
        /// Which of its calls, from 1.
        number: u64,
        /// Who has found it, and what that one called.
        first: (u32, Box<str>),
        /// Who called something else, and what.
        second: (u32, Box<str>),
    },

    /// A rank's process is gone, or its host is out of reach, which has ended the group.
    #[error(
        "group {group}: rank {rank} is gone: its process has ended, or cannot be reached; rank {by} \
         noticed {} in {}{}",
        after(*.waited), numbered(*.number, .call), lines(.whereabouts, AFTER_A_LOSS)
    )]
    PeerLost {
        /// The group.
        group: Box<str>,
        /// Who is gone.
        rank: u32,
        /// Who noticed.
        by: u32,
        /// What that one was waiting in.
        call: Box<str>,
        /// Which of the group's calls that is, from 1; 0 if it is none of them.
        number: u64,
        /// For how long.
        waited: Duration,
        /// What is known of the one that is gone, and of others that had not come to the call yet; of
        /// the first of them, if they are many.
        whereabouts: Reports,
    },

    /// Ranks that are alive did not come in time. A call that is late has ended the group.
    #[error(
        "group {group}: rank {by} waited {waited:.1?} in {}, for ranks {missing:?}, which are alive \
         but have not come so far{}",
        numbered(*.number, .call), lines(.whereabouts, WHEN_LATE)
    )]
    Late {
        /// The group.
        group: Box<str>,
        /// Who did not come.
        missing: Vec<u32>,
        /// Who waited.
        by: u32,
        /// What that one was waiting in.
        call: Box<str>,
        /// Which of the group's calls that is, from 1; 0 if it is none of them.
        number: u64,
        /// For how long.
        waited: Duration,
        /// What is known of those who did not come; of the first of them, if they are many.
        whereabouts: Reports,
    },

    /// A rank lacks what it needs to go on, which has ended the group.
    #[error("group {group}: rank {rank} cannot go on: {reason}")]
    Unable {
        /// The group.
        group: String,
        /// Who.
        rank: u32,
        /// What it lacks.
        reason: String,
    },

    /// What came from a rank, through memory or a connection, cannot be or is not what it sent, which
    /// has ended the group. A program that writes to memory that is not its own can do that, or a
    /// network that changes data.
    #[error("group {group}: what came from rank {rank} is damaged: {what}")]
    Damaged {
        /// The group.
        group: String,
        /// Whose memory.
        rank: u32,
        /// What is wrong with it.
        what: String,
    },

    /// Ranks have results that should be the same on all, and are not, which has ended the group:
    /// they [were compared](crate::Builder::verify_results). Something has computed or stored wrongly,
    /// or written to memory that is not its own.
    #[error(
        "group {group}: the results of calls {first} to {last} are not the same on all ranks, and \
         {}; what those ranks have computed with them is not to be trusted",
        suspects(.ranks)
    )]
    Diverged {
        /// The group.
        group: String,
        /// Who differs from most; all, if there are no most.
        ranks: Vec<u32>,
        /// The first call whose result was compared: which of those that the program has made in this
        /// group, from 1.
        first: u64,
        /// The last.
        last: u64,
    },

    /// Ranks asked for different symmetric memory, or one of them cannot have it; none was made, and
    /// the group goes on.
    #[error("group {group}: the ranks cannot all have this symmetric memory\n{differences}")]
    Asymmetric {
        /// The group.
        group: String,
        /// Which ranks have what.
        differences: String,
    },

    /// Ranks that are alive did not let go of a window of symmetric memory in time.
    #[error(
        "group {group}: waited {waited:.1?} in {call}, which ranks {holders:?} have not let go of"
    )]
    Held {
        /// The group.
        group: String,
        /// What this rank was waiting for.
        call: Box<str>,
        /// Who has it.
        holders: Vec<u32>,
        /// For how long.
        waited: Duration,
    },

    /// A message is not what its receiver expected. It was thrown away, and the group goes on.
    #[error(
        "group {group}: rank {from} sent {sent} with tag {tag}, but this rank expected {expected}: \
         the message is lost"
    )]
    MessageDiffers {
        /// The group.
        group: String,
        /// Who sent it.
        from: u32,
        /// Its tag.
        tag: u32,
        /// What was sent.
        sent: String,
        /// What there was room for.
        expected: String,
    },

    /// Ranks have left the group, so that what was waited for cannot come any more. Messages and
    /// signals go on; a call has ended the group.
    #[error(
        "group {group}: ranks {ranks:?} have left it, so rank {by} waited in vain in {}",
        numbered(*.number, .call)
    )]
    Left {
        /// The group.
        group: String,
        /// Who has left.
        ranks: Vec<u32>,
        /// Who waited.
        by: u32,
        /// What that one was waiting in.
        call: Box<str>,
        /// Which of the group's calls that is, from 1; 0 if it is none of them.
        number: u64,
    },

    /// The survivors of the group go on without this rank: they took it for dead, were told to leave it
    /// out, or it lacks what it needs.
    #[error("group {group}: ranks {others:?} go on without rank {rank}")]
    LeftOut {
        /// The group that has become smaller.
        group: String,
        /// This rank in it.
        rank: u32,
        /// Those who go on, by their ranks in it.
        others: Vec<u32>,
    },

    /// A rank has [ended](crate::Group::abort) the group, or something of its own has panicked.
    #[error("group {group}: rank {by} has ended it: {reason}")]
    Aborted {
        /// The group.
        group: String,
        /// Who did.
        by: u32,
        /// Why.
        reason: String,
    },
}

impl fmt::Debug for Error {
    /// As it is shown: `main` prints the `Debug` form of the error it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The case this error belongs to.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Environment(_)
            | Self::RankTaken { .. }
            | Self::Twice { .. }
            | Self::Interface(_)
            | Self::Argument(_)
            | Self::SeveralHosts { .. }
            | Self::Fake
            | Self::Forked { .. }
            | Self::Unsupported(_) => ErrorKind::Mistake,
            Self::Differs { .. }
            | Self::Asymmetric { .. }
            | Self::Mismatch { .. }
            | Self::MessageDiffers { .. } => ErrorKind::Mismatch,
            Self::Missing { .. } | Self::Late { .. } | Self::Held { .. } => ErrorKind::Deadline,
            Self::PeerLost { .. } | Self::Left { .. } => ErrorKind::PeerGone,
            Self::Aborted { .. } | Self::LeftOut { .. } => ErrorKind::Aborted,
            Self::Store(error) => error.kind(),
            Self::Sharing(error) => match error {
                PassError::Ended { .. } | PassError::Closed { .. } => ErrorKind::PeerGone,
                PassError::Missing { .. } => ErrorKind::Deadline,
                _ => ErrorKind::System,
            },
            Self::Host(_)
            | Self::Memory(_)
            | Self::PeerUnable { .. }
            | Self::Unable { .. }
            | Self::Damaged { .. }
            | Self::Diverged { .. }
            | Self::Thread(_)
            | Self::Mpi(_)
            | Self::Port(_)
            | Self::Abandoned { .. } => ErrorKind::System,
        }
    }
}

/// What to do about calls that differ.
fn advice(one: &str, other: &str) -> &'static str {
    match [one, other].map(|call| call.ends_with(FOR_A_GRADIENT)) {
        [true, false] | [false, true] => {
            "one takes a gradient back where the other has none to take; a result has to have a part in \
             the loss on every rank, and what goes in a gradient on all ranks or on none"
        }
        [true, true] => {
            "gradients have to go back through the same calls in the same order on all ranks: their losses \
             were computed differently"
        }
        [false, false] => "all ranks have to make the same calls in the same order",
    }
}

/// Who may be wrong.
fn suspects(ranks: &[u32]) -> String {
    match ranks {
        [one] => format!("rank {one} differs from the others"),
        many => format!("ranks {many:?} differ"),
    }
}

/// How long somebody had waited, if it had to.
fn after(waited: Duration) -> String {
    if waited.is_zero() { "at once".to_owned() } else { format!("after {waited:.1?}") }
}

/// A call, with its number if it has one.
pub(crate) fn numbered(number: u64, call: &str) -> String {
    if number == 0 { call.to_owned() } else { format!("call {number}, {call}") }
}

const AFTER_A_LOSS: &str = "look at what it wrote last, or at `consort trace`; where there was a \
                            group, Group::shrink lets the others go on";
const WHEN_LATE: &str = "look at what keeps them, with `consort trace` or a debugger; if they only need \
                         longer, Builder::timeout or CONSORT_TIMEOUT gives it to them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_sorted_by_what_can_be_done_about_it() {
        let missing = Error::Missing {
            rank: 0,
            world: 2,
            waited: Duration::ZERO,
            missing: "missing rank 1".to_owned(),
        };
        assert_eq!(missing.kind(), ErrorKind::Deadline);
        assert_eq!(Error::Environment(String::new()).kind(), ErrorKind::Mistake);
        let lost = consort_store::Error::Lost { peer: "a:1".to_owned(), reason: "gone".to_owned() };
        assert_eq!(Error::from(lost).kind(), ErrorKind::PeerGone);
        let ended = PassError::Ended { rank: 1, process: 7 };
        assert_eq!(Error::from(ended).kind(), ErrorKind::PeerGone);
        let differs = Error::Differs { rank: 0, differences: String::new() };
        assert_eq!(differs.kind(), ErrorKind::Mismatch);
        let (group, reason) = ("world".to_owned(), "enough".to_owned());
        assert_eq!(Error::Aborted { group, by: 1, reason }.kind(), ErrorKind::Aborted);
    }
}
