//! Scripts: what one rank does in a segment, ready to be run.
//!
//! A [`Draft`] is written step by step, from programs and reductions; a [`Script`] is the same with
//! every message numbered. The `n`-th message from one rank to another is the `n`-th on both sides,
//! and a segment has equally many on both, so `segment · of + nth` names it.

use std::collections::HashMap;
use std::ops::Range;

use consort_plan::{Chunks, How, Operand, Program, Space, Step};

/// What one rank does in a segment.
#[derive(Debug)]
pub(super) struct Script {
    rounds: Vec<Round>,
    copies: Vec<(Chunks, Chunks)>,
    messages: Vec<Message>,
    pieces: Vec<Chunks>,
    scratch: Vec<u32>,
}

/// Copies, then a reduction, then messages.
#[derive(Debug)]
struct Round {
    copies: Range<usize>,
    reduction: Option<Reduction>,
    messages: Range<usize>,
}

/// Combines a chunk of every rank, in the order of ranks.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    pub(super) operands: Vec<Chunks>,
    pub(super) into: Chunks,
}

/// A message to or from a rank.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) peer: usize,
    pub(super) sends: bool,
    /// What to combine it with when it has come.
    pub(super) combination: Option<(Chunks, Operand)>,
    nth: u32,
    of: u32,
    pieces: Range<usize>,
}

impl Message {
    /// Its number among those of all segments.
    pub(super) fn position(&self, segment: usize) -> u32 {
        let segment = u32::try_from(segment).expect("memory has fewer segments");
        segment
            .checked_mul(self.of)
            .and_then(|it| it.checked_add(self.nth))
            .expect("so many messages are more than memory")
    }
}

impl Script {
    pub(super) fn rounds(&self) -> usize {
        self.rounds.len()
    }

    pub(super) fn copies(&self, round: usize) -> &[(Chunks, Chunks)] {
        &self.copies[self.rounds[round].copies.clone()]
    }

    pub(super) fn reduction(&self, round: usize) -> Option<&Reduction> {
        self.rounds[round].reduction.as_ref()
    }

    pub(super) fn messages(&self, round: usize) -> &[Message] {
        &self.messages[self.rounds[round].messages.clone()]
    }

    /// The chunks of a message, or those that what comes is combined into.
    pub(super) fn pieces(&self, message: &Message) -> &[Chunks] {
        &self.pieces[message.pieces.clone()]
    }

    /// The chunks of scratch, each by the number of the vector's chunk whose size it has.
    pub(super) fn scratch(&self) -> &[u32] {
        &self.scratch
    }
}

/// A script that is being written.
#[derive(Debug, Default)]
pub(super) struct Draft {
    rounds: Vec<(Vec<Step>, Option<Reduction>)>,
    scratch: Vec<u32>,
    joins: bool,
}

impl Draft {
    /// Adds chunks of scratch, of the sizes of these chunks of the vector.
    pub(super) fn add_scratch(&mut self, like: impl IntoIterator<Item = u32>) -> Chunks {
        let start = self.scratch.len() as u32;
        self.scratch.extend(like);
        Chunks { space: Space::Scratch, start, len: self.scratch.len() as u32 - start }
    }

    /// Adds a round.
    pub(super) fn round(&mut self, steps: Vec<Step>) {
        self.rounds.push((steps, None));
    }

    /// Adds a reduction, in a round of its own.
    pub(super) fn reduce(&mut self, operands: Vec<Chunks>, into: Chunks) {
        self.rounds.push((Vec::new(), Some(Reduction { operands, into })));
    }

    /// Adds a program. If there is an `output`, that is where its output is.
    pub(super) fn program(&mut self, program: &Program, output: Option<Chunks>) {
        let scratch = self.add_scratch(program.scratch().iter().copied());
        let placed = |chunks: Chunks| match (chunks.space, output) {
            (Space::Scratch, _) if chunks.len > 0 => scratch.part(chunks.start, chunks.len),
            (Space::Out, Some(output)) => output.part(chunks.start, chunks.len),
            _ => chunks,
        };
        for round in program.rounds() {
            self.round(round.iter().map(|step| place(*step, placed)).collect());
        }
    }

    /// Lets messages of a round that go to the same rank travel as one. Only where the receiver has
    /// them in one round, too.
    pub(super) fn joined(mut self) -> Self {
        self.joins = true;
        self
    }

    /// Numbers the messages.
    pub(super) fn finish(self) -> Script {
        let mut script = Script {
            rounds: Vec::with_capacity(self.rounds.len()),
            copies: Vec::new(),
            messages: Vec::new(),
            pieces: Vec::new(),
            scratch: self.scratch,
        };
        for (steps, reduction) in self.rounds {
            let (copies, messages) = (script.copies.len(), script.messages.len());
            steps.into_iter().for_each(|step| script.add(step, messages, self.joins));
            let (copies, messages) = (copies..script.copies.len(), messages..script.messages.len());
            script.rounds.push(Round { copies, reduction, messages });
        }
        script.number();
        script
    }
}

impl Script {
    fn add(&mut self, step: Step, round: usize, joins: bool) {
        let (peer, sends, piece, combination) = match step {
            Step::Copy { from, into } => return self.copies.push((from, into)),
            Step::Send { to, from } => (to as usize, true, from, None),
            Step::Recv { from, into, how: How::Overwrite } => (from as usize, false, into, None),
            Step::Recv { from, into, how: How::Combine { with, first } } => {
                (from as usize, false, into, Some((with, first)))
            }
        };
        self.pieces.push(piece);
        let end = self.pieces.len();
        if let Some(last) = self.messages[round..].last_mut()
            && joins
            && (last.peer, last.sends) == (peer, sends)
        {
            last.pieces.end = end;
            return;
        }
        let pieces = end - 1..end;
        self.messages.push(Message { peer, sends, combination, nth: 0, of: 0, pieces });
    }

    fn number(&mut self) {
        let mut counts: HashMap<(usize, bool), u32> = HashMap::new();
        for message in &mut self.messages {
            let count = counts.entry((message.peer, message.sends)).or_default();
            message.nth = *count;
            *count += 1;
        }
        for message in &mut self.messages {
            message.of = counts[&(message.peer, message.sends)];
        }
    }
}

fn place(step: Step, placed: impl Fn(Chunks) -> Chunks) -> Step {
    match step {
        Step::Send { to, from } => Step::Send { to, from: placed(from) },
        Step::Copy { from, into } => Step::Copy { from: placed(from), into: placed(into) },
        Step::Recv { from, into, how } => {
            let how = match how {
                How::Overwrite => How::Overwrite,
                How::Combine { with, first } => How::Combine { with: placed(with), first },
            };
            Step::Recv { from, into: placed(into), how }
        }
    }
}
