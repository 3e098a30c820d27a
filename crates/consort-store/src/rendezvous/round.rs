//! What a node learns from the rounds.

use crate::member::Node;
use crate::rounds::{Cause, Ending};

/// A round that has closed with this node in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The job's name.
    pub job: String,
    /// The round's number.
    pub epoch: u64,
    /// Why it was called.
    pub cause: Cause,
    /// How many failures came before it.
    pub restarts: u32,
    /// Who takes part, in the order of ranks.
    pub nodes: Vec<Node>,
    /// This node's place among them.
    pub place: usize,
}

impl Round {
    /// How many ranks there are.
    pub fn world(&self) -> u32 {
        ranks_of(&self.nodes)
    }

    /// The first rank of this node; its others follow.
    pub fn first_rank(&self) -> u32 {
        ranks_of(&self.nodes[..self.place])
    }
}

/// What a node hears while its ranks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing yet.
    Nothing,
    /// The next round has been called.
    Round(Cause),
    /// The job is over.
    Over(Ending),
}

/// How many ranks these nodes run. What they say about themselves is not to overflow anything.
fn ranks_of(nodes: &[Node]) -> u32 {
    nodes.iter().fold(0, |sum, node| sum.saturating_add(node.slots))
}
