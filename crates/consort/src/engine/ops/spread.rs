//! The same data for all.

use consort_sys::board::Board;
use consort_sys::view::{Source, Target};

use super::super::drive::{Need, Turns, View};
use super::super::ground::Ground;
use super::way::Way;
use super::{chunk_of, chunks};
use crate::call::Outputs;

/// What a rank takes of what others publish.
#[derive(Clone, Copy, Debug)]
pub(super) enum Takes<'a> {
    Nothing,
    /// One rank's.
    One(usize, Target<'a>),
    /// Everyone's but its own.
    Everyone {
        outputs: Outputs<'a>,
        me: usize,
        world: usize,
    },
}

impl Takes<'_> {
    /// Who has to have published in a turn.
    #[inline]
    pub(super) fn need(&self, turn: u32) -> Need {
        match *self {
            Self::Nothing => Need::Nobody,
            Self::One(rank, _) => Need::One(rank, turn),
            Self::Everyone { .. } => Need::Everyone(turn),
        }
    }

    /// Calls `take` with every rank of whom something is taken, and where it goes.
    #[inline]
    pub(super) fn each(&self, mut take: impl FnMut(usize, Target<'_>)) {
        match *self {
            Self::Nothing => {}
            Self::One(rank, target) => take(rank, target),
            Self::Everyone { outputs, me, world } => {
                for rank in (0..world).filter(|&rank| rank != me) {
                    take(rank, outputs.part(rank, world));
                }
            }
        }
    }
}

/// Chunk by chunk, a rank publishes its data and takes the others'. A chunk is taken after the next
/// one is published.
#[derive(Debug)]
pub(super) struct Spread<'a> {
    data: Source<'a>,
    takes: Takes<'a>,
    chunks: u32,
    /// How much any rank publishes.
    largest: usize,
    way: Way,
}

impl<'a> Spread<'a> {
    /// `largest` is how much any rank publishes; `None` if this rank's is the only data.
    pub(super) fn new(
        data: Option<Source<'a>>,
        takes: Takes<'a>,
        largest: Option<usize>,
        way: Way,
    ) -> Self {
        let data = data.unwrap_or(Source::from(&[][..]));
        let largest = largest.unwrap_or(data.len());
        Self { data, takes, chunks: chunks(largest, Ground::BUFFER), largest, way }
    }

    fn range(&self, len: usize, chunk: u32) -> std::ops::Range<usize> {
        chunk_of(len, Ground::BUFFER, chunk)
    }
}

impl Turns for Spread<'_> {
    fn posts(&self) -> u32 {
        self.chunks
    }

    fn turns(&self) -> u32 {
        self.chunks + 1
    }

    #[inline]
    fn uses_buffers(&self) -> bool {
        self.largest > Board::INLINE
    }

    #[inline]
    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_> {
        let range = self.range(self.data.len(), turn);
        view.publish(turn, self.data.slice(range))
    }

    #[inline]
    fn after(&self, turn: u32) -> Need {
        turn.checked_sub(1).map_or(Need::Nobody, |chunk| self.takes.need(chunk))
    }

    #[inline]
    fn consume(&mut self, turn: u32, view: &View<'_>) {
        let Some(chunk) = turn.checked_sub(1) else { return };
        self.takes.each(|rank, target| {
            let range = self.range(target.len(), chunk);
            let theirs = view.theirs(rank, chunk, range.len());
            self.way.copy(theirs, target.slice(range));
        });
    }
}

/// Nothing is published; nobody goes on before everyone has come.
#[derive(Debug)]
pub(super) struct Meet;

impl Turns for Meet {
    fn uses_buffers(&self) -> bool {
        false
    }

    fn posts(&self) -> u32 {
        1
    }

    fn turns(&self) -> u32 {
        1
    }

    #[inline]
    fn publish(&mut self, _turn: u32, _view: &View<'_>) -> Source<'_> {
        Source::from(&[][..])
    }

    #[inline]
    fn after(&self, turn: u32) -> Need {
        Need::Everyone(turn)
    }

    fn consume(&mut self, _turn: u32, _view: &View<'_>) {}
}
