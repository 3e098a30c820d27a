//! What a segment works on: its part of the caller's chunks, and scratch.

use consort_plan::{Chunks, Space};
use consort_sys::view::{Source, Target};

use super::place::{Buffers, Place, View};
use super::script::Script;
use super::segments::{Cut, LINE};

/// Where the scratch of a script lies within a track's memory, the same on every track.
#[derive(Debug)]
pub(super) struct Plot {
    /// Where each chunk begins, and where the last one ends.
    starts: Vec<usize>,
    /// The size of each chunk, all segments together.
    sizes: Vec<usize>,
    /// How much a track needs: the chunks, and room for messages that are to be combined.
    pub(super) len: usize,
}

impl Plot {
    pub(super) fn new(script: &Script, buffers: &Buffers<'_>, cut: Cut) -> Self {
        let sizes: Vec<usize> =
            script.scratch().iter().map(|like| buffers.size(*like as usize)).collect();
        let mut starts = Vec::with_capacity(sizes.len() + 1);
        let mut end = 0;
        for &size in &sizes {
            starts.push(end);
            end += cut.range(size, 0).len();
        }
        starts.push(end);
        let mut plot = Self { starts, sizes, len: end };
        plot.len = plot.landing() + plot.most_landing(script, buffers, cut);
        plot
    }

    /// Where messages land that are to be combined.
    fn landing(&self) -> usize {
        self.starts.last().expect("the end is there").next_multiple_of(LINE)
    }

    /// The most bytes that the messages of one round have which are to be combined.
    fn most_landing(&self, script: &Script, buffers: &Buffers<'_>, cut: Cut) -> usize {
        let most = Spaces {
            buffers: *buffers,
            scratch: Target::from(&mut [0_u8; 0][..]),
            plot: self,
            cut,
            segment: 0,
        };
        let of_round = |round: usize| {
            let combined = script.messages(round).iter().filter(|it| it.combination.is_some());
            combined.map(|it| most.len(script.pieces(it)).next_multiple_of(LINE)).sum::<usize>()
        };
        (0..script.rounds()).map(of_round).max().unwrap_or(0)
    }
}

/// One segment of all chunks.
#[derive(Clone, Copy)]
pub(super) struct Spaces<'v> {
    pub(super) buffers: Buffers<'v>,
    pub(super) scratch: Target<'v>,
    pub(super) plot: &'v Plot,
    pub(super) cut: Cut,
    pub(super) segment: usize,
}

impl<'v> Spaces<'v> {
    pub(super) fn source(&self, space: Space, number: u32) -> Source<'v> {
        match space {
            Space::In => self.of_segment(self.buffers.input.chunk(number as usize)),
            Space::Out | Space::Scratch => self.target(space, number).into(),
        }
    }

    pub(super) fn target(&self, space: Space, number: u32) -> Target<'v> {
        let number = number as usize;
        match space {
            Space::In => panic!("no script writes to its input"),
            Space::Out => self.of_segment(self.buffers.output.chunk(number)),
            Space::Scratch => {
                let (start, size) = (self.plot.starts[number], self.plot.sizes[number]);
                self.scratch.slice(start..start + self.cut.range(size, self.segment).len())
            }
        }
    }

    /// Room for a message that is to be combined.
    pub(super) fn landing(&self, start: usize, len: usize) -> Target<'v> {
        let start = self.plot.landing() + start;
        self.scratch.slice(start..start + len)
    }

    /// The length of some chunks.
    pub(super) fn len(&self, pieces: &[Chunks]) -> usize {
        let of_chunk = |space, number: u32| {
            let number = number as usize;
            let size = match space {
                Space::In => self.buffers.input.size(number),
                Space::Out => self.buffers.output.size(number),
                Space::Scratch => self.plot.sizes[number],
            };
            self.cut.range(size, self.segment).len()
        };
        let of_piece =
            |it: &Chunks| it.numbers().map(|number| of_chunk(it.space, number)).sum::<usize>();
        pieces.iter().map(of_piece).sum()
    }

    /// Chunks to be read, as one piece if they are one.
    pub(super) fn source_piece(&self, chunks: Chunks) -> Option<Source<'v>> {
        match chunks.space {
            Space::In => self.piece(self.buffers.input, chunks),
            Space::Out | Space::Scratch => self.target_piece(chunks).map(Source::from),
        }
    }

    /// Chunks to be written, as one piece if they are one.
    pub(super) fn target_piece(&self, chunks: Chunks) -> Option<Target<'v>> {
        match chunks.space {
            Space::In => panic!("no script writes to its input"),
            Space::Out => self.piece(self.buffers.output, chunks),
            Space::Scratch if self.cut.segments == 1 => {
                let starts = &self.plot.starts;
                Some(
                    self.scratch
                        .slice(starts[chunks.start as usize]..starts[chunks.end() as usize]),
                )
            }
            Space::Scratch => (chunks.len == 1).then(|| self.target(Space::Scratch, chunks.start)),
        }
    }

    fn piece<V: View>(&self, place: Place<'v, V>, chunks: Chunks) -> Option<V> {
        if self.cut.segments == 1 {
            return place.piece(chunks.start as usize..chunks.end() as usize);
        }
        (chunks.len == 1).then(|| self.of_segment(place.chunk(chunks.start as usize)))
    }

    fn of_segment<V: View>(&self, chunk: V) -> V {
        chunk.slice(self.cut.range(chunk.len(), self.segment))
    }
}
