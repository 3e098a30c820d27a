//! The combination of everyone's data.

use consort_sys::board::Board;
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::super::drive::{Need, Turns, View};
use super::super::ground::Ground;
use super::way::Way;
use super::{chunk_of, chunks, even_chunk, slice_of};

/// Every rank publishes all its data; whoever wants the result combines all of it.
#[derive(Debug)]
pub(super) struct OneShot<'a> {
    kernel: Kernel,
    input: Source<'a>,
    output: Option<Target<'a>>,
    chunks: u32,
}

impl<'a> OneShot<'a> {
    #[inline]
    pub(super) fn new(kernel: Kernel, input: Source<'a>, output: Option<Target<'a>>) -> Self {
        Self { kernel, input, output, chunks: chunks(input.len(), ONE_SHOT) }
    }
}

impl Turns for OneShot<'_> {
    #[inline]
    fn uses_buffers(&self) -> bool {
        self.input.len() > Board::INLINE
    }

    fn posts(&self) -> u32 {
        self.chunks
    }

    fn turns(&self) -> u32 {
        self.chunks + 1
    }

    #[inline]
    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_> {
        view.publish(turn, self.input.slice(chunk_of(self.input.len(), ONE_SHOT, turn)))
    }

    #[inline]
    fn after(&self, turn: u32) -> Need {
        match (turn.checked_sub(1), self.output) {
            (Some(chunk), Some(_)) => Need::Everyone(chunk),
            _ => Need::Nobody,
        }
    }

    #[inline]
    fn consume(&mut self, turn: u32, view: &View<'_>) {
        let (Some(chunk), Some(output)) = (turn.checked_sub(1), self.output) else { return };
        let range = chunk_of(self.input.len(), ONE_SHOT, chunk);
        let own = self.input.slice(range.clone());
        let operand = |rank| match rank == view.me() {
            true => own,
            false => view.theirs(rank, chunk, range.len()),
        };
        view.combine(&self.kernel, &[output.slice(range.clone())], operand);
    }
}

/// Every chunk is cut into a slice for each rank. A rank lays its data of a chunk out for the others
/// (*in*), combines its slice of everyone's (*out*), and takes the others' slices. With one post it
/// says that one chunk is in and that the one before it is out, so that ranks wait for each other
/// once a chunk; and it lays out the next chunk while it waits:
///
/// ```text
/// turn         0      1            2            3
/// publish     in 0   out 0        out 1        out 2
/// meanwhile   in 1   in 2         in 3
/// consume            take 0       take 1       take 2
/// ```
///
/// Chunk *c* goes in on stage *c*, and comes out on stage *c* + 1, in this rank's own slice, which
/// nothing else is laid out in. When everyone has posted turn *t*, everyone has read the stages
/// before *t*; so the stage after the next can be the one before this, and three are enough.
#[derive(Debug)]
pub(super) struct TwoShot<'a> {
    kernel: Kernel,
    input: Source<'a>,
    output: Option<Target<'a>>,
    me: usize,
    world: usize,
    element: usize,
    chunk: usize,
    chunks: u32,
    way: Way,
}

impl<'a> TwoShot<'a> {
    pub(super) fn new(
        kernel: Kernel,
        element: usize,
        input: Source<'a>,
        output: Option<Target<'a>>,
        me: usize,
        world: usize,
    ) -> Self {
        let chunk = even_chunk(input.len(), Ground::STAGE);
        let chunks = chunks(input.len(), chunk);
        let way = match output {
            Some(output) if input.as_ptr() != output.as_mut_ptr().cast_const() => {
                Way::of(output.len(), world)
            }
            _ => Way::Through,
        };
        Self { kernel, input, output, me, world, element, chunk, chunks, way }
    }

    fn chunk(&self, chunk: u32) -> std::ops::Range<usize> {
        chunk_of(self.input.len(), self.chunk, chunk)
    }

    /// A rank's slice of a chunk of so many bytes. It begins at the same place in every chunk, even
    /// if the last one is shorter: one chunk comes out where the next one has gone in.
    fn slice(&self, len: usize, rank: usize) -> std::ops::Range<usize> {
        let slice = slice_of(self.chunk, self.element, rank, self.world);
        slice.start.min(len)..slice.end.min(len)
    }

    /// Everyone else, beginning with the next, so that not all come to the same rank at once.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (me, world) = (self.me, self.world);
        (1..world).map(move |step| (me + step) % world)
    }

    /// What the other ranks will combine.
    fn go_in(&self, chunk: u32, view: &View<'_>) {
        let data = self.input.slice(self.chunk(chunk));
        let stage = view.stage(self.me, chunk);
        for rank in self.others() {
            let slice = self.slice(data.len(), rank);
            stage.slice(slice.clone()).copy_from(data.slice(slice));
        }
    }

    /// This rank's slice of the result, for the others and for itself.
    fn come_out(&self, chunk: u32, view: &View<'_>) {
        let range = self.chunk(chunk);
        let slice = self.slice(range.len(), self.me);
        let own = self.input.slice(range.clone()).slice(slice.clone());
        let operand = |rank| match rank == self.me {
            true => own,
            false => view.stage(rank, chunk).slice(slice.clone()).into(),
        };
        let published = view.stage(self.me, chunk + 1).slice(slice.clone());
        match self.output {
            Some(output) if self.way == Way::PastCache => {
                view.combine(&self.kernel, &[published], operand);
                self.way.copy(published.into(), output.slice(range).slice(slice.clone()));
            }
            Some(output) => {
                let kept = output.slice(range).slice(slice.clone());
                view.combine(&self.kernel, &[published, kept], operand);
            }
            None => view.combine(&self.kernel, &[published], operand),
        }
    }

    /// The others' slices of the result.
    fn take(&self, chunk: u32, output: Target<'_>, view: &View<'_>) {
        let output = output.slice(self.chunk(chunk));
        for rank in self.others() {
            let slice = self.slice(output.len(), rank);
            let theirs = view.stage(rank, chunk + 1).slice(slice.clone());
            self.way.copy(theirs.into(), output.slice(slice));
        }
    }
}

impl Turns for TwoShot<'_> {
    fn posts(&self) -> u32 {
        self.chunks + 1
    }

    fn turns(&self) -> u32 {
        self.posts()
    }

    fn stages(&self) -> u32 {
        self.posts()
    }

    #[inline]
    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_> {
        match turn.checked_sub(1) {
            None => self.go_in(0, view),
            Some(chunk) => self.come_out(chunk, view),
        }
        self.input.slice(0..0)
    }

    #[inline]
    fn meanwhile(&mut self, turn: u32, view: &View<'_>) {
        if turn + 1 < self.chunks {
            self.go_in(turn + 1, view);
        }
    }

    #[inline]
    fn after(&self, turn: u32) -> Need {
        Need::Everyone(turn)
    }

    #[inline]
    fn consume(&mut self, turn: u32, view: &View<'_>) {
        if let (Some(chunk), Some(output)) = (turn.checked_sub(1), self.output) {
            self.take(chunk, output, view);
        }
    }
}

/// How many bytes at a time every rank combines for itself.
const ONE_SHOT: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use consort_sys::dtype::{Dtype, ReduceOp};

    #[test]
    fn slices_cover_every_chunk_and_keep_their_places() {
        for world in 1..40 {
            for len in [0, 16, 48, 1024, 1040, 131_072 - 16, 131_072, 131_088, 1_000_000 & !15] {
                let bytes = vec![0_u8; len];
                let kernel = Kernel::new(Dtype::C128, ReduceOp::Sum, world).unwrap();
                let turns = TwoShot::new(kernel, 16, bytes[..].into(), None, 0, world);
                let mut covered = 0;
                for chunk in (0..turns.chunks).map(|chunk| turns.chunk(chunk)) {
                    assert_eq!(chunk.start, covered);
                    let mut next = 0;
                    for rank in 0..world {
                        let slice = turns.slice(chunk.len(), rank);
                        let first = turns.slice(turns.chunk, rank);
                        assert_eq!(slice.start, next);
                        assert!(slice.is_empty() || slice.start == first.start);
                        assert!(slice.len().is_multiple_of(16));
                        next = slice.end;
                    }
                    assert_eq!(next, chunk.len());
                    covered = chunk.end;
                }
                assert_eq!(covered, len);
            }
        }
    }
}
