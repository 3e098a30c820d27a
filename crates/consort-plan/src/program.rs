//! Programs: what one rank has to move, as data.
//!
//! A [`Program`] is a list of *rounds*, a round a list of [`Step`]s over ranges of chunks. It is
//! run like this:
//!
//! - A round begins when the rank's own round before it has ended. Ranks are not in step.
//! - First come the copies, in their order; they stand before all messages of their round.
//! - Then all messages of the round go on together: the round ends when all sends and receives are
//!   done. So no message may touch what a receive of the same round writes; only a receive that
//!   combines may have its local operand where its result goes.
//! - Messages from one rank to another match in order, the `k`-th send with the `k`-th receive, and
//!   are of the same chunks of the vector, so of the same size.
//! - `In` is never written. (When a call is *in place*, `In` and `Out` share memory, and it changes
//!   where `Out` does.)
//!
//! A program needs no memory on the way: it must end even if no send is done before its receive
//! has begun.

mod write;

use std::fmt;

/// One rank's part in a collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    steps: Vec<Step>,
    /// Where each round ends in `steps`.
    ends: Vec<u32>,
    scratch: Vec<u32>,
}

/// Something to do in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Send chunks to a rank.
    Send {
        /// The receiver.
        to: u32,
        /// What to send.
        from: Chunks,
    },
    /// Receive chunks from a rank.
    Recv {
        /// The sender.
        from: u32,
        /// Where to put the result.
        into: Chunks,
        /// What to do with what comes.
        how: How,
    },
    /// Copy chunks within the rank.
    Copy {
        /// What.
        from: Chunks,
        /// Where to.
        into: Chunks,
    },
}

/// What a receive does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// Takes it as it is.
    Overwrite,
    /// Combines it with something this rank has, in this order of operands.
    Combine {
        /// The local operand: may be the place of the result, or another of the same size.
        with: Chunks,
        /// Which operand is the first one.
        first: Operand,
    },
}

/// One of the two sides of a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// What was received.
    Received,
    /// What this rank had.
    Local,
}

/// A range of chunks, one after the other in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chunks {
    /// Where they are.
    pub space: Space,
    /// The first.
    pub start: u32,
    /// How many. A message of none is still a message: barriers are made of them.
    pub len: u32,
}

/// Where chunks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// What the caller gives.
    In,
    /// What the caller gets.
    Out,
    /// What the program needs besides.
    Scratch,
}

impl Program {
    /// The steps of every round.
    pub fn rounds(&self) -> impl ExactSizeIterator<Item = &[Step]> + '_ {
        (0..self.ends.len()).map(|round| self.round(round))
    }

    /// The steps of one round.
    ///
    /// # Panics
    /// When there is no such round.
    pub fn round(&self, round: usize) -> &[Step] {
        let start = if round == 0 { 0 } else { self.ends[round - 1] };
        &self.steps[start as usize..self.ends[round] as usize]
    }

    /// How many rounds there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The steps of all rounds.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The chunks of scratch, each by the number of the vector's chunk whose size it has.
    pub fn scratch(&self) -> &[u32] {
        &self.scratch
    }

    /// A program made of these rounds.
    pub fn new(rounds: impl IntoIterator<Item = Vec<Step>>, scratch: Vec<u32>) -> Self {
        let mut program = Self { scratch, ..Self::default() };
        for steps in rounds {
            program.steps.extend(steps);
            program.end_round();
        }
        program
    }

    /// Adds to the round that is being written.
    pub(crate) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// The next step begins a new round. A round without steps is none.
    pub(crate) fn end_round(&mut self) {
        let end = u32::try_from(self.steps.len()).expect("programs have less than 2³² steps");
        if end > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(end);
        }
    }

    /// Adds chunks of scratch, of the sizes of these chunks of the vector.
    pub(crate) fn add_scratch(&mut self, like: impl IntoIterator<Item = u32>) -> Chunks {
        let start = self.scratch.len() as u32;
        self.scratch.extend(like);
        Chunks { space: Space::Scratch, start, len: self.scratch.len() as u32 - start }
    }
}

impl Chunks {
    /// No chunks: what the messages of a barrier carry.
    pub const NONE: Self = Self { space: Space::Scratch, start: 0, len: 0 };

    /// Chunks of `In`.
    pub const fn input(start: u32, len: u32) -> Self {
        Self { space: Space::In, start, len }
    }

    /// Chunks of `Out`.
    pub const fn output(start: u32, len: u32) -> Self {
        Self { space: Space::Out, start, len }
    }

    /// Some of these chunks.
    ///
    /// # Panics
    /// When there are not as many.
    #[must_use]
    pub const fn part(self, start: u32, len: u32) -> Self {
        assert!(start + len <= self.len, "a part lies within the whole");
        Self { start: self.start + start, len, ..self }
    }

    /// The number after the last chunk's.
    pub const fn end(self) -> u32 {
        self.start.saturating_add(self.len)
    }

    /// The numbers of these chunks.
    pub fn numbers(self) -> std::ops::Range<u32> {
        self.start..self.end()
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "In",
            Self::Out => "Out",
            Self::Scratch => "Scratch",
        })
    }
}

/// `Out[2]`, `Out[2..5]`, or `nothing`.
impl fmt::Display for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            0 => f.write_str("nothing"),
            1 => write!(f, "{}[{}]", self.space, self.start),
            _ => write!(f, "{}[{}..{}]", self.space, self.start, self.end()),
        }
    }
}

/// `send Out[2] to 3`, `recv from 1: Out[2] = received ∘ In[2]`, `copy In[0] to Out[2]`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send { to, from } => write!(f, "send {from} to {to}"),
            Self::Copy { from, into } => write!(f, "copy {from} to {into}"),
            Self::Recv { from, into, how: How::Overwrite } if into.len == 0 => {
                write!(f, "recv nothing from {from}")
            }
            Self::Recv { from, into, how } => {
                write!(f, "recv from {from}: {into} = ")?;
                match how {
                    How::Overwrite => f.write_str("received"),
                    How::Combine { with, first: Operand::Received } => {
                        write!(f, "received ∘ {with}")
                    }
                    How::Combine { with, first: Operand::Local } => write!(f, "{with} ∘ received"),
                }
            }
        }
    }
}
