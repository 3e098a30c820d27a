//! Why descriptors were not exchanged.

use std::fmt;
use std::time::Duration;

use rustix::io::Errno;

/// What went wrong in an exchange.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// No door could be opened.
    #[error("cannot open a door for the other ranks of this host ({call}: {source})")]
    Door {
        /// What was refused.
        call: &'static str,
        /// What the kernel said.
        source: Errno,
    },
    /// The kernel gave no random bytes.
    #[error("the kernel gives no random bytes")]
    Random,
    /// The list of peers names a rank twice, or the one that asks.
    #[error("rank {0} is listed twice among the ranks of this host")]
    ListedTwice(u32),
    /// The descriptor that is to be given is no file.
    #[error("the descriptor for the other ranks of this host cannot be read: {0}")]
    Offer(Errno),
    /// A peer has handed over its descriptor, and this process can have no more.
    #[error("cannot take the descriptor that rank {0} hands over: {error}", error = Errno::MFILE)]
    Full(u32),
    /// Some did not come in time.
    #[error("{}", Missing(.ranks, .waited, .turned_away))]
    Missing {
        /// Who did not come.
        ranks: Vec<u32>,
        /// How long they were waited for.
        waited: Duration,
        /// Who came and was not let in, for what reason.
        turned_away: Vec<String>,
    },
    /// A peer has ended before it came.
    #[error("rank {rank} (process {process}) has ended before it met the others of this host")]
    Ended {
        /// Which.
        rank: u32,
        /// Its process number.
        process: u32,
    },
    /// There is no such door, or no longer.
    #[error(
        "the door of rank {rank} is closed ({source}): that rank has given up or ended, or is in \
         another network namespace"
    )]
    Closed {
        /// Whose.
        rank: u32,
        /// What the kernel said.
        source: Errno,
    },
    /// Who answers at a peer's door is not that peer, or what it hands over is not right.
    #[error("who answers as rank {rank} is refused: {why}")]
    Refused {
        /// Who it should be.
        rank: u32,
        /// What is wrong.
        why: Refusal,
    },
}

impl PassError {
    /// The rank that it is about, or the first of them, if it is about others than this one.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::Missing { ranks, .. } => ranks.first().copied(),
            Self::Ended { rank, .. } | Self::Closed { rank, .. } | Self::Refused { rank, .. } => {
                Some(*rank)
            }
            Self::Door { .. }
            | Self::Random
            | Self::ListedTwice(_)
            | Self::Offer(_)
            | Self::Full(_) => None,
        }
    }
}

/// Why a process is turned away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It belongs to another user.
    #[error("it is a process of user {found}, this is one of user {ours}")]
    User {
        /// Its user.
        found: u32,
        /// This process's user.
        ours: u32,
    },
    /// It is not the process that was announced.
    #[error("it is process {found}, process {announced} was announced")]
    Process {
        /// Which it is.
        found: u32,
        /// Which it should be.
        announced: u32,
    },
    /// It speaks something else.
    #[error("it does not speak as a rank does")]
    Foreign,
    /// It is of another version.
    #[error("it speaks version {0} of the exchange, this is version {ours}", ours = super::frame::VERSION)]
    Version(u32),
    /// It takes this rank for another, or is one that is not expected here.
    #[error("it comes as rank {from} to rank {to}, which is not expected")]
    Unexpected {
        /// Who it says it is.
        from: u32,
        /// Whom it looks for.
        to: u32,
    },
    /// It does not know the job's token.
    #[error("it does not know the secret of this job")]
    Token,
    /// Nothing was heard of it.
    #[error("it said nothing for {0:?}")]
    Silent(Duration),
    /// It was let go because many others came after it.
    #[error("too many others came")]
    Crowded,
    /// It hung up in the middle, or the connection failed.
    #[error("it hung up ({0})")]
    HungUp(Errno),
    /// What it handed over was lost on the way: this process can have no more descriptors.
    #[error("there is no place for what it handed over")]
    NoPlace,
    /// It handed over too few descriptors, or too many.
    #[error("it handed over {found} descriptors instead of {expected}")]
    Descriptors {
        /// How many.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// It handed over something of another size than it said.
    #[error("it handed over {found} bytes where it announced {announced}")]
    Size {
        /// How many bytes the file has.
        found: u64,
        /// How many it said.
        announced: u64,
    },
}

impl Refusal {
    /// Whether trying again may help: the other side may have been let go for want of room.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Silent(_) | Self::Crowded | Self::HungUp(_))
    }
}

struct Missing<'a>(&'a [u32], &'a Duration, &'a [String]);

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ranks, waited, turned_away) = self;
        let names: Vec<_> = ranks.iter().map(u32::to_string).collect();
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        write!(f, "{word} {} did not meet the others of this host", names.join(", "))?;
        write!(f, " within {:.1} s", waited.as_secs_f64())?;
        if !turned_away.is_empty() {
            write!(f, "; turned away: {}", turned_away.join("; "))?;
        }
        Ok(())
    }
}
