//! What can be wrong with programs.

use std::fmt;

use crate::op::Collective;
use crate::program::{Chunks, Step};

/// Programs that are wrong: whose, where, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The operation.
    pub op: Collective,
    /// Whose programs they are.
    pub algorithm: String,
    /// How many ranks.
    pub world: u32,
    /// Whether `In` and `Out` shared memory.
    pub in_place: bool,
    /// Where it was found.
    pub rank: u32,
    /// In which of its rounds, the first being 0. None: in the end.
    pub round: Option<u32>,
    /// What it is.
    pub trouble: Trouble,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// A peer that is not one.
    #[error("`{step}`: expected a peer below the world, other than itself")]
    Peer {
        /// The step.
        step: Step,
    },
    /// Chunks that are not there.
    #[error("`{step}`: {chunks} does not exist, expected chunks below {has}")]
    Bounds {
        /// The step.
        step: Step,
        /// Its chunks.
        chunks: Chunks,
        /// How many there are.
        has: u32,
    },
    /// Input is written.
    #[error("`{step}` writes to In, which belongs to the caller")]
    WritesInput {
        /// The step.
        step: Step,
    },
    /// A copy stands behind a message.
    #[error("`{step}` stands behind a message of its round; copies come first")]
    LateCopy {
        /// The step.
        step: Step,
    },
    /// Chunks of a step differ in size.
    #[error("`{step}`: sizes differ: chunk {one} of the vector and chunk {other}")]
    Sizes {
        /// The step.
        step: Step,
        /// The vector's chunk on one side.
        one: u32,
        /// On the other.
        other: u32,
    },
    /// A step touches what a receive of its round writes.
    #[error("`{step}` touches what `{writer}` writes in the same round")]
    Conflict {
        /// The step.
        step: Step,
        /// The other one.
        writer: Step,
    },
    /// A message is not what its receiver expects.
    #[error(
        "`{step}`: expected what chunk {expected} of the vector has in size, but rank {peer} sends \
         {sent} in its round {peer_round} (chunk {found})"
    )]
    Message {
        /// The receive.
        step: Step,
        /// The sender.
        peer: u32,
        /// Its round.
        peer_round: u32,
        /// What it sends.
        sent: Chunks,
        /// The vector's chunk whose size is expected.
        expected: u32,
        /// The one whose size comes.
        found: u32,
    },
    /// A message has more or fewer chunks than its receiver expects.
    #[error(
        "`{step}`: expected {} chunks, but rank {peer} sends {sent} in its round {peer_round}",
        received.len
    )]
    Length {
        /// The receive.
        step: Step,
        /// The sender.
        peer: u32,
        /// Its round.
        peer_round: u32,
        /// What it sends.
        sent: Chunks,
        /// What is received.
        received: Chunks,
    },
    /// Something is read that was never written.
    #[error("`{step}` reads {chunk}, in which nothing is yet")]
    Undefined {
        /// The step.
        step: Step,
        /// What it reads.
        chunk: Chunks,
    },
    /// Values are combined that have nothing to do with each other.
    #[error(
        "`{step}` combines {received} from rank {peer} (its round {peer_round}) with {local}: {why}"
    )]
    Combination {
        /// The receive.
        step: Step,
        /// The sender.
        peer: u32,
        /// Its round.
        peer_round: u32,
        /// What came.
        received: String,
        /// What was there.
        local: String,
        /// Why that is wrong.
        why: &'static str,
    },
    /// The rank waits forever.
    #[error("`{step}` is never done: rank {peer} {peer_state}")]
    Stuck {
        /// What it waits for.
        step: Step,
        /// Whom it waits for.
        peer: u32,
        /// What that one does.
        peer_state: String,
    },
    /// A chunk of the result is not what the contract wants.
    #[error("{chunk} (written in round {written}) is wrong: expected {expected}, found {found}")]
    Wrong {
        /// Which chunk.
        chunk: Chunks,
        /// The round that wrote it last.
        written: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Contributions are counted twice.
    #[error(
        "{chunk} counts rank {contributor} twice: rank {rank} combined {found} in its round {round}; \
         expected every rank once"
    )]
    Twice {
        /// Which chunk.
        chunk: Chunks,
        /// Who is counted twice.
        contributor: u32,
        /// Who did it.
        rank: u32,
        /// When.
        round: u32,
        /// What the combination is.
        found: String,
    },
    /// Ranks combine in different orders: they may end with different bits.
    #[error(
        "{chunk} (written in round {written}) is combined in another order than at rank {other}: \
         expected {expected}, found {found}"
    )]
    Order {
        /// Which chunk.
        chunk: Chunks,
        /// The round that wrote it last.
        written: String,
        /// The rank with the other order.
        other: u32,
        /// Its order.
        expected: String,
        /// The order here.
        found: String,
    },
    /// Too many messages can be under way.
    #[error("{found} messages to rank {peer} can be under way at once; expected at most {limit}")]
    InFlight {
        /// The receiver.
        peer: u32,
        /// How many.
        found: u32,
        /// How many there may be.
        limit: u32,
    },
    /// A barrier ends too early.
    #[error("the barrier ends here before rank {unheard} must have begun")]
    Early {
        /// Of whom this rank has not heard.
        unheard: u32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, algorithm, world, rank, trouble, .. } = self;
        write!(f, "{op} by {algorithm} between {world} ranks")?;
        if self.in_place {
            f.write_str(", in place")?;
        }
        match self.round {
            Some(round) => write!(f, ": rank {rank}, round {round}: {trouble}"),
            None => write!(f, ": rank {rank}, after its last round: {trouble}"),
        }
    }
}

impl std::error::Error for Fault {}
