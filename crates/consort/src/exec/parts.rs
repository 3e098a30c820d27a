//! What is done with the chunks of a segment: copying, combining, handing them to links.

use consort_plan::{Chunks, Operand};
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::memory::Spaces;
use super::script::Reduction;

/// Copies chunks, unless they are there already.
pub(super) fn copy(spaces: &Spaces<'_>, from: Chunks, into: Chunks) {
    let keep = |from: Source<'_>, into: Target<'_>| {
        if from.as_ptr() != into.as_mut_ptr().cast_const() {
            into.copy_from(from);
        }
    };
    if let (Some(from), Some(into)) = (spaces.source_piece(from), spaces.target_piece(into)) {
        return keep(from, into);
    }
    for (one, other) in from.numbers().zip(into.numbers()) {
        keep(spaces.source(from.space, one), spaces.target(into.space, other));
    }
}

/// Combines a chunk of every rank.
pub(super) fn reduce(kernel: &Kernel, spaces: &Spaces<'_>, reduction: &Reduction) {
    let source = |chunk: &Chunks| spaces.source(chunk.space, chunk.start);
    let target = [spaces.target(reduction.into.space, reduction.into.start)];
    let operands = &reduction.operands;
    if operands.len() > FEW {
        return kernel.reduce(&target, &operands.iter().map(source).collect::<Vec<_>>());
    }
    let sources: [Source<'_>; FEW] =
        std::array::from_fn(|rank| source(operands.get(rank).unwrap_or(&operands[0])));
    kernel.reduce(&target, &sources[..operands.len()]);
}

/// Combines what was received with what was there.
pub(super) fn combine(
    kernel: &Kernel,
    spaces: &Spaces<'_>,
    (received, with, first): (Source<'_>, Chunks, Operand),
    into: Chunks,
) {
    let pair = |received, local, target| match first {
        Operand::Received => kernel.reduce(&[target], &[received, local]),
        Operand::Local => kernel.reduce(&[target], &[local, received]),
    };
    if let (Some(local), Some(target)) = (spaces.source_piece(with), spaces.target_piece(into)) {
        return pair(received, local, target);
    }
    let mut start = 0;
    for (one, other) in with.numbers().zip(into.numbers()) {
        let target = spaces.target(into.space, other);
        let end = start + target.len();
        pair(received.slice(start..end), spaces.source(with.space, one), target);
        start = end;
    }
}

/// Hands out the chunks of a message to be read, in as few parts as they are.
pub(super) fn send<R>(
    spaces: &Spaces<'_>,
    pieces: &[Chunks],
    with: impl FnOnce(&[Source<'_>]) -> R,
) -> R {
    if let [piece] = pieces {
        if piece.len == 0 {
            return with(&[]);
        }
        if let Some(whole) = spaces.source_piece(*piece) {
            return with(&[whole]);
        }
    }
    let mut parts = Vec::new();
    for piece in pieces {
        match spaces.source_piece(*piece) {
            Some(whole) => parts.push(whole),
            None => parts.extend(piece.numbers().map(|it| spaces.source(piece.space, it))),
        }
    }
    with(&parts)
}

/// The same for chunks to be written.
pub(super) fn receive<R>(
    spaces: &Spaces<'_>,
    pieces: &[Chunks],
    with: impl FnOnce(&[Target<'_>]) -> R,
) -> R {
    if let [piece] = pieces {
        if piece.len == 0 {
            return with(&[]);
        }
        if let Some(whole) = spaces.target_piece(*piece) {
            return with(&[whole]);
        }
    }
    let mut parts = Vec::new();
    for piece in pieces {
        match spaces.target_piece(*piece) {
            Some(whole) => parts.push(whole),
            None => parts.extend(piece.numbers().map(|it| spaces.target(piece.space, it))),
        }
    }
    with(&parts)
}

/// So many operands need no allocation.
const FEW: usize = 16;
