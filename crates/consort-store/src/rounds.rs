//! How nodes come together: in rounds. Pure: what happens next is a function of the time, the
//! state and the options; [`rendezvous`](crate::Rendezvous) carries it out.
//!
//! ```text
//!              join              enough are there
//!   ───▶ Gathering(epoch) ─────────────────────────▶ Running(epoch)
//!            ▲                                         │   │
//!            │ a node came, left, fell silent, or a    │   │ all finished, or
//!            │ rank failed and restarts are left       │   │ failed for good
//!            └─────────────────────────────────────────┘   ▼
//!                        epoch + 1                        Over
//! ```
//!
//! The whole state is one value in the store, and every step replaces it only if nobody else has
//! meanwhile, so nodes need no leader: whoever notices first that something is due does it.

mod ending;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::member::{Node, NodeId};
pub use ending::{Cause, Ending};

/// What all nodes of a job must have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundOptions {
    /// A round needs so many nodes.
    pub min: u32,
    /// A round takes so many nodes.
    pub max: u32,
    /// So many failures are answered with a new round.
    pub max_restarts: u32,
    /// How long to wait for more once the minimum is there.
    pub last_call: Duration,
    /// How long a node may be silent before it counts as gone.
    pub liveness: Duration,
    /// The program version that all nodes must run.
    pub version: String,
}

/// The state of a job's rounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// The job's name, chosen by the first node.
    pub job: String,
    /// What the first node was started with.
    pub options: RoundOptions,
    /// The number of the present round.
    pub epoch: u64,
    /// Why there is a present round.
    pub cause: Cause,
    /// How many failures have been answered with a new round.
    pub restarts: u32,
    /// How far the present round has come.
    pub phase: Phase,
    /// Who has joined the round or, once it runs, takes part, in the order of ranks.
    pub nodes: Vec<Node>,
    /// Who came when the round was running or full.
    pub waiting: Vec<Node>,
    /// Who took part in the round before and should come back.
    pub expected: Vec<Node>,
}

/// How far a round has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Nodes join.
    Gathering,
    /// Ranks run.
    Running {
        /// Whose ranks have all ended well.
        finished: Vec<NodeId>,
        /// Who was the first to have a rank that failed, and is about to give its account.
        failing: Option<NodeId>,
    },
    /// There will be no further round.
    Over(Ending),
}

/// Why a node cannot join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The job has ended.
    #[error("the job is over")]
    Over(Ending),
    /// The nodes were started differently.
    #[error("this node and the job were started differently: {0}")]
    Differs(String),
    /// Somebody else has this node rank.
    #[error("node rank {rank} is taken by {by}")]
    RankTaken {
        /// The rank asked for.
        rank: u32,
        /// Who has it.
        by: String,
    },
    /// There is no such node rank.
    #[error("node rank {rank} does not exist among at most {max} nodes")]
    NoSuchRank {
        /// The rank asked for.
        rank: u32,
        /// How many nodes there can be.
        max: u32,
    },
}

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing before this moment, unless the state changes; `None`: nothing at all.
    Wait(Option<Instant>),
    /// The round has whom it needs.
    Close,
    /// A new round is needed.
    Call(Cause),
}

impl Rounds {
    /// The state before anybody has joined.
    pub fn new(job: String, options: RoundOptions) -> Self {
        Self {
            job,
            options,
            epoch: 0,
            cause: Cause::First,
            restarts: 0,
            phase: Phase::Gathering,
            nodes: Vec::new(),
            waiting: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// What is due now. `quiet_since` is when this node first saw the present `nodes`.
    pub fn decide(&self, now: Instant, quiet_since: Instant) -> Decision {
        match self.phase {
            Phase::Gathering => self.decide_gathering(now, quiet_since),
            Phase::Running { failing: Some(_), .. } => Decision::Wait(None),
            // Once somebody's ranks have finished, a new round would make them do it all again.
            Phase::Running { ref finished, .. } => match self.waiting.first() {
                Some(node)
                    if finished.is_empty() && self.nodes.len() < self.options.max as usize =>
                {
                    Decision::Call(Cause::Came { node: node.to_string() })
                }
                _ => Decision::Wait(None),
            },
            Phase::Over(_) => Decision::Wait(None),
        }
    }

    /// A node comes. During a running round it waits for the next.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub fn join(&mut self, node: &Node, options: &RoundOptions) -> Result<(), JoinError> {
        if let Phase::Over(ending) = &self.phase {
            return Err(JoinError::Over(ending.clone()));
        }
        self.compare(options)?;
        if self.seated().any(|other| other.id == node.id) {
            return Ok(());
        }
        if let Some(rank) = node.rank {
            if rank >= self.options.max {
                return Err(JoinError::NoSuchRank { rank, max: self.options.max });
            }
            if let Some(other) = self.seated().find(|other| other.rank == Some(rank)) {
                return Err(JoinError::RankTaken { rank, by: other.to_string() });
            }
        }
        match self.phase {
            Phase::Gathering => self.nodes.push(node.clone()),
            _ => self.waiting.push(node.clone()),
        }
        Ok(())
    }

    /// Closes the round with those who take part: who was in the round before goes first, then
    /// who came first. The rest waits.
    pub fn close(&mut self) {
        let expected = std::mem::take(&mut self.expected);
        self.nodes.sort_by_key(|node| !expected.iter().any(|other| other.id == node.id));
        self.waiting = self.nodes.split_off(self.nodes.len().min(self.options.max as usize));
        self.nodes.sort_by(|a, b| order(a).cmp(&order(b)));
        self.phase = Phase::Running { finished: Vec::new(), failing: None };
    }

    /// Starts the next round. Who was in the last one has to join again; who waited has joined.
    pub fn call(&mut self, cause: Cause) {
        self.epoch += 1;
        self.cause = cause;
        self.phase = Phase::Gathering;
        self.expected = std::mem::take(&mut self.nodes);
        self.nodes = std::mem::take(&mut self.waiting);
    }

    /// A rank of this node failed, and its account will follow. When ranks of other nodes fail in
    /// turn, because their connections to it broke, it is this one that counts.
    pub fn claim_failure(&mut self, id: NodeId) {
        if self.running(id).is_some()
            && let Phase::Running { failing, .. } = &mut self.phase
        {
            failing.get_or_insert(id);
        }
    }

    /// A rank of this node failed; `account` says how. The next round if restarts are left, else
    /// the end.
    pub fn fail(&mut self, id: NodeId, account: Vec<u8>) {
        self.claim_failure(id);
        let Some(node) = self.running(id).filter(|_| self.failing() == Some(id)) else { return };
        let cause = Cause::Failed { node: node.to_string() };
        if self.restarts < self.options.max_restarts {
            self.restarts += 1;
            self.call(cause);
        } else {
            self.phase = Phase::Over(Ending::Failed(account));
        }
    }

    /// All ranks of this node ended well. With the last node's, the job is finished.
    pub fn finish(&mut self, id: NodeId) {
        if self.running(id).is_none() {
            return;
        }
        if let Phase::Running { finished, .. } = &mut self.phase {
            if !finished.contains(&id) {
                finished.push(id);
            }
            if finished.len() == self.nodes.len() {
                self.phase = Phase::Over(Ending::Finished);
            }
        }
    }

    /// A node is gone. If enough are left the next round goes on without it; if not, one of the
    /// restarts is spent on waiting for another; if none is left, it is the end.
    pub fn lose(&mut self, id: NodeId, cause: Cause) {
        let running = self.running(id).is_some();
        self.nodes.retain(|node| node.id != id);
        self.waiting.retain(|node| node.id != id);
        self.expected.retain(|node| node.id != id);
        if !running {
            return;
        }
        let enough = self.nodes.len() + self.waiting.len() >= self.options.min as usize;
        if enough {
            self.call(cause);
        } else if self.restarts < self.options.max_restarts {
            self.restarts += 1;
            self.call(cause);
        } else {
            self.phase = Phase::Over(Ending::TooFew(cause));
        }
    }

    /// There is no further round, whatever happens.
    pub fn end(&mut self, ending: Ending) {
        if !matches!(self.phase, Phase::Over(_)) {
            self.phase = Phase::Over(ending);
        }
    }

    /// The neighbour whose heart this node listens to: the one before it, round the circle of all
    /// who take part, have joined, wait or should come back.
    pub fn neighbour(&self, id: NodeId) -> Option<&Node> {
        let circle: Vec<&Node> = self.seated().chain(self.missing()).collect();
        let place = circle.iter().position(|node| node.id == id)?;
        let before = (place + circle.len() - 1) % circle.len();
        Some(circle[before]).filter(|node| node.id != id)
    }

    /// Everyone who takes part, has joined or waits.
    pub fn seated(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.iter().chain(&self.waiting)
    }

    /// Who should come back and has not yet: perhaps its ranks still take leave.
    fn missing(&self) -> impl Iterator<Item = &Node> {
        self.expected.iter().filter(|node| !self.seated().any(|other| other.id == node.id))
    }

    fn decide_gathering(&self, now: Instant, quiet_since: Instant) -> Decision {
        let count = self.nodes.len();
        if count < self.options.min as usize {
            return Decision::Wait(None);
        }
        // Who should come back is awaited as long as its heart beats; silence takes it off the list.
        if self.missing().next().is_some() {
            return Decision::Wait(None);
        }
        let full = count >= self.options.max as usize;
        let last_call = quiet_since.checked_add(self.options.last_call);
        let called = last_call.is_some_and(|last_call| now >= last_call);
        match full || self.epoch > 0 || called {
            true => Decision::Close,
            false => Decision::Wait(last_call),
        }
    }

    fn compare(&self, options: &RoundOptions) -> Result<(), JoinError> {
        let rows = |options: &RoundOptions| {
            [
                ("nodes", format!("{}:{}", options.min, options.max)),
                ("max restarts", options.max_restarts.to_string()),
                ("liveness", format!("{:?}", options.liveness)),
                ("version", options.version.clone()),
            ]
        };
        let differing: Vec<String> = rows(&self.options)
            .into_iter()
            .zip(rows(options))
            .filter(|((_, job), (_, here))| job != here)
            .map(|((name, job), (_, here))| format!("{name} {here} here, {job} in the job"))
            .collect();
        match differing.is_empty() {
            true => Ok(()),
            false => Err(JoinError::Differs(differing.join("; "))),
        }
    }

    fn failing(&self) -> Option<NodeId> {
        match self.phase {
            Phase::Running { failing, .. } => failing,
            _ => None,
        }
    }

    fn running(&self, id: NodeId) -> Option<&Node> {
        match self.phase {
            Phase::Running { .. } => self.nodes.iter().find(|node| node.id == id),
            _ => None,
        }
    }
}

/// The order of nodes in a round, and so of ranks: the same nodes always get the same.
fn order(node: &Node) -> (u32, &str, &str, NodeId) {
    (node.rank.unwrap_or(u32::MAX), &node.host, &node.address, node.id)
}

#[cfg(test)]
mod tests;
