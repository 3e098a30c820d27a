//! Where the caller's chunks are.

use std::ops::Range;

use consort_sys::dtype::Dtype;
use consort_sys::view::{Source, Target};

use super::segments::LINE;
use crate::call::{Inputs, Outputs};

/// What a call works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers<'a> {
    pub(super) input: Place<'a, Source<'a>>,
    pub(super) output: Place<'a, Target<'a>>,
    pub(super) sizes: Sizes,
}

impl<'a> Buffers<'a> {
    /// Those of a barrier.
    pub(super) const NONE: Self =
        Self { input: Place::Nothing, output: Place::Nothing, sizes: Sizes::Same(0) };

    /// An input and possibly an output, each as one chunk.
    pub(super) fn whole(input: Source<'a>, output: Option<Target<'a>>) -> Self {
        let sizes = Sizes::Same(input.len());
        let output = output.map_or(Place::Nothing, Place::One);
        Self { input: Place::One(input), output, sizes }
    }

    /// An input and possibly an output, each as a chunk for every rank.
    pub(super) fn sliced(
        input: Source<'a>,
        output: Option<Target<'a>>,
        dtype: Dtype,
        world: usize,
    ) -> Self {
        let output = output.map(|output| Place::sliced(output, dtype.size(), world));
        let input = Place::sliced(input, dtype.size(), world);
        Self { input, output: output.unwrap_or(Place::Nothing), sizes: Sizes::OfInput }
    }

    /// The size of a chunk of the vector.
    pub(super) fn size(&self, number: usize) -> usize {
        match self.sizes {
            Sizes::Same(size) => size,
            Sizes::OfInput => self.input.size(number),
            Sizes::OfOutput => self.output.size(number),
        }
    }
}

/// The chunks of one of the caller's buffers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a, V> {
    /// There is no such buffer.
    Nothing,
    /// It is one chunk.
    One(V),
    /// Chunks of so many bytes each, one behind the other; the last ones may be shorter.
    Row { whole: V, each: usize },
    /// Chunks that lie anywhere.
    List(&'a [V]),
}

impl<'a, V: View> Place<'a, V> {
    /// A vector as one chunk of whole elements for each rank.
    pub(super) fn sliced(whole: V, element: usize, world: usize) -> Self {
        let grain = if whole.len() >= world * LINE { LINE } else { element };
        Self::Row { whole, each: whole.len().div_ceil(world).next_multiple_of(grain) }
    }

    /// One chunk.
    ///
    /// # Panics
    /// When there is none.
    pub(super) fn chunk(self, number: usize) -> V {
        match self {
            Self::Nothing => panic!("a script uses the buffers that its operation has"),
            Self::One(whole) => whole,
            Self::Row { whole, each } => {
                whole.slice(row_range(whole.len(), each, number..number + 1))
            }
            Self::List(chunks) => chunks[number],
        }
    }

    /// These chunks as one piece, if they certainly are one.
    pub(super) fn piece(self, chunks: Range<usize>) -> Option<V> {
        match self {
            Self::Row { whole, each } => Some(whole.slice(row_range(whole.len(), each, chunks))),
            _ if chunks.len() == 1 => Some(self.chunk(chunks.start)),
            _ => None,
        }
    }

    /// The size of a chunk.
    pub(super) fn size(self, number: usize) -> usize {
        self.chunk(number).len()
    }
}

impl<'a> Place<'a, Source<'a>> {
    pub(super) fn inputs(inputs: Inputs<'a>, world: usize) -> Self {
        match inputs {
            Inputs::Equal(whole) => Self::Row { whole, each: whole.len() / world },
            Inputs::List(parts) => Self::List(parts),
        }
    }
}

impl<'a> Place<'a, Target<'a>> {
    pub(super) fn outputs(outputs: Outputs<'a>, world: usize) -> Self {
        match outputs {
            Outputs::Equal(whole) => Self::Row { whole, each: whole.len() / world },
            Outputs::List(parts) => Self::List(parts),
        }
    }
}

fn row_range(len: usize, each: usize, chunks: Range<usize>) -> Range<usize> {
    (chunks.start * each).min(len)..(chunks.end * each).min(len)
}

/// How large the chunks of the vector are, whose sizes those of scratch have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sizes {
    /// All alike.
    Same(usize),
    /// As those of the caller's input.
    OfInput,
    /// As those of the caller's output.
    OfOutput,
}

/// A source or a target.
pub(super) trait View: Copy {
    fn len(self) -> usize;
    fn slice(self, range: Range<usize>) -> Self;
}

impl View for Source<'_> {
    fn len(self) -> usize {
        Source::len(self)
    }

    fn slice(self, range: Range<usize>) -> Self {
        Source::slice(self, range)
    }
}

impl View for Target<'_> {
    fn len(self) -> usize {
        Target::len(self)
    }

    fn slice(self, range: Range<usize>) -> Self {
        Target::slice(self, range)
    }
}
