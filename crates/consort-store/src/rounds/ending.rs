//! Why rounds are called, and how the last one ends.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// Every rank ended well.
    Finished,
    /// A rank failed and no restarts were left: the launcher's own account of it.
    Failed(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Too few nodes were left and no restarts either.
    TooFew(Cause),
    /// The node that holds the store went, and nobody can meet without it.
    Closed {
        /// The node.
        node: String,
        /// Why it went.
        reason: String,
    },
}

/// Why a round was called. Nodes are named as they are shown: host and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The job began.
    First,
    /// A rank failed on this node.
    Failed {
        /// The node.
        node: String,
    },
    /// A node came while a round was running.
    Came {
        /// The node.
        node: String,
    },
    /// A node went, and said so.
    Left {
        /// The node.
        node: String,
    },
    /// A node has not been heard of.
    Silent {
        /// The node.
        node: String,
        /// For how long.
        since: Duration,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("the job began"),
            Self::Failed { node } => write!(f, "a rank failed on {node}"),
            Self::Came { node } => write!(f, "{node} came"),
            Self::Left { node } => write!(f, "{node} left"),
            Self::Silent { node, since } => {
                write!(f, "{node} has not been heard of for {since:.1?}")
            }
        }
    }
}
