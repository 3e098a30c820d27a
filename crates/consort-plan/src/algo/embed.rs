//! Programs of some ranks as part of a program of more ranks.

use crate::program::{Chunks, How, Program, Space, Step};

/// Where the chunks of a part are in the whole.
pub(super) struct Frame<'a> {
    /// The ranks that take part, by their number in the part.
    pub(super) ranks: &'a [u32],
    /// Where the part's `In` and `Out` are.
    pub(super) input: View,
    pub(super) output: View,
    /// Which chunks of the whole vector each chunk of the part's vector stands for.
    pub(super) vector: Vec<u32>,
}

/// Chunk `i` of a part is the range from `bounds[i]` to `bounds[i + 1]` of this space.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) space: Space,
    pub(super) bounds: Vec<u32>,
}

impl View {
    /// Nothing.
    pub(super) fn none() -> Self {
        Self { space: Space::Scratch, bounds: vec![0] }
    }

    /// These chunks, as many parts as there are bounds between.
    pub(super) fn of(chunks: Chunks, vector: &[u32]) -> Self {
        let first = vector.first().copied().unwrap_or(0);
        let bounds = vector.iter().map(|bound| chunks.start + bound - first).collect();
        Self { space: chunks.space, bounds }
    }

    /// These chunks as one.
    pub(super) fn one(chunks: Chunks) -> Self {
        Self { space: chunks.space, bounds: vec![chunks.start, chunks.end()] }
    }

    fn map(&self, chunks: Chunks) -> Chunks {
        let (start, end) = (self.bounds[chunks.start as usize], self.bounds[chunks.end() as usize]);
        Chunks { space: self.space, start, len: end - start }
    }
}

/// So many chunks as so many ranges of nearly the same length: where each begins, and the end.
pub(super) fn split(chunks: u32, parts: u32) -> Vec<u32> {
    (0..=parts)
        .map(|part| (u64::from(chunks) * u64::from(part) / u64::from(parts)) as u32)
        .collect()
}

/// Adds a part's rounds to the whole. A copy of something onto itself, which in place operations
/// have, is left out.
pub(super) fn embed(whole: &mut Program, part: &Program, frame: &Frame<'_>) {
    let start = whole.add_scratch([]).start;
    let mut bounds = vec![start];
    for like in part.scratch() {
        let chunks = frame.vector[*like as usize]..frame.vector[*like as usize + 1];
        bounds.push(whole.add_scratch(chunks).end());
    }
    let scratch = View { space: Space::Scratch, bounds };
    let map = |chunks: Chunks| match chunks {
        Chunks { len: 0, .. } => Chunks::NONE,
        Chunks { space: Space::In, .. } => frame.input.map(chunks),
        Chunks { space: Space::Out, .. } => frame.output.map(chunks),
        Chunks { space: Space::Scratch, .. } => scratch.map(chunks),
    };
    let rank = |number: u32| frame.ranks[number as usize];
    for round in part.rounds() {
        for step in round {
            whole.push(match *step {
                Step::Copy { from, into } if map(from) == map(into) => continue,
                Step::Copy { from, into } => Step::Copy { from: map(from), into: map(into) },
                Step::Send { to, from } => Step::Send { to: rank(to), from: map(from) },
                Step::Recv { from, into, how } => {
                    let how = match how {
                        How::Overwrite => How::Overwrite,
                        How::Combine { with, first } => How::Combine { with: map(with), first },
                    };
                    Step::Recv { from: rank(from), into: map(into), how }
                }
            });
        }
        whole.end_round();
    }
}
