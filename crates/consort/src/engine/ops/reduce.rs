//! The combination of everyone's data.

use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::super::drive::{Need, Turns, View};
use super::super::ground::Ground;
use super::{chunk_of, chunks, slice_of};

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

/// Every chunk is cut into a slice for each rank. A rank publishes its data of a chunk (*in*),
/// combines its slice of everyone's and publishes that (*out*), and takes the others' slices. The
/// next chunk goes in before the last one comes out, so that nobody waits for somebody who is just
/// as far:
///
/// ```text
/// turn   0    1    2     3    4     5    6     7
///       in 0 in 1 out 0 in 2 out 1 in 3 out 2 out 3
/// ```
#[derive(Debug)]
pub(super) struct TwoShot<'a> {
    kernel: Kernel,
    input: Source<'a>,
    output: Option<Target<'a>>,
    me: usize,
    world: usize,
    element: usize,
    chunks: u32,
}

/// What happens in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    In(u32),
    Out(u32),
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
        let chunks = chunks(input.len(), Ground::BUFFER);
        Self { kernel, input, output, me, world, element, chunks }
    }

    fn kind(&self, turn: u32) -> Kind {
        match turn {
            0 => Kind::In(0),
            _ if turn == self.posts() - 1 => Kind::Out(self.chunks - 1),
            _ if turn.is_multiple_of(2) => Kind::Out(turn / 2 - 1),
            _ => Kind::In(turn / 2 + 1),
        }
    }

    /// The turn in which a chunk goes in.
    fn turn_in(chunk: u32) -> u32 {
        (2 * chunk).saturating_sub(1)
    }

    fn chunk(&self, chunk: u32) -> std::ops::Range<usize> {
        chunk_of(self.input.len(), Ground::BUFFER, chunk)
    }

    fn slice(&self, len: usize, rank: usize) -> std::ops::Range<usize> {
        slice_of(len, self.element, rank, self.world)
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.world).filter(move |&rank| rank != me)
    }

    /// What the other ranks will combine.
    fn go_in(&self, chunk: u32, turn: u32, view: &View<'_>) {
        let data = self.input.slice(self.chunk(chunk));
        let buffer = view.mine(turn);
        for rank in self.others() {
            let slice = self.slice(data.len(), rank);
            buffer.slice(slice.clone()).copy_from(data.slice(slice));
        }
    }

    /// This rank's slice of the result, for the others and for itself.
    fn come_out(&self, chunk: u32, turn: u32, view: &View<'_>) {
        let range = self.chunk(chunk);
        let slice = self.slice(range.len(), self.me);
        let own = self.input.slice(range.clone()).slice(slice.clone());
        let operand = |rank| match rank == self.me {
            true => own,
            false => view.buffer_of(rank, Self::turn_in(chunk)).slice(slice.clone()),
        };
        let published = view.mine(turn).slice(slice.clone());
        match self.output {
            Some(output) => {
                let kept = output.slice(range).slice(slice.clone());
                view.combine(&self.kernel, &[published, kept], operand);
            }
            None => view.combine(&self.kernel, &[published], operand),
        }
    }

    /// The others' slices of the result.
    fn take(&self, chunk: u32, turn: u32, output: Target<'_>, view: &View<'_>) {
        let output = output.slice(self.chunk(chunk));
        for rank in self.others() {
            let slice = self.slice(output.len(), rank);
            let theirs = view.buffer_of(rank, turn).slice(slice.clone());
            output.slice(slice).copy_from(theirs);
        }
    }
}

impl Turns for TwoShot<'_> {
    fn posts(&self) -> u32 {
        2 * self.chunks
    }

    fn turns(&self) -> u32 {
        2 * self.chunks + 1
    }

    #[inline]
    fn before(&self, turn: u32) -> Need {
        match self.kind(turn) {
            Kind::In(_) => Need::Nobody,
            Kind::Out(chunk) => Need::Everyone(Self::turn_in(chunk)),
        }
    }

    #[inline]
    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_> {
        match self.kind(turn) {
            Kind::In(chunk) => self.go_in(chunk, turn, view),
            Kind::Out(chunk) => self.come_out(chunk, turn, view),
        }
        self.input.slice(0..0)
    }

    #[inline]
    fn after(&self, turn: u32) -> Need {
        match (turn.checked_sub(1).map(|last| self.kind(last)), self.output) {
            (Some(Kind::Out(_)), Some(_)) => Need::Everyone(turn - 1),
            _ => Need::Nobody,
        }
    }

    #[inline]
    fn consume(&mut self, turn: u32, view: &View<'_>) {
        if let (Some(last), Some(output)) = (turn.checked_sub(1), self.output)
            && let Kind::Out(chunk) = self.kind(last)
        {
            self.take(chunk, last, output, view);
        }
    }
}

/// How many bytes at a time every rank combines for itself.
const ONE_SHOT: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use consort_sys::board::Board;
    use consort_sys::dtype::{Dtype, ReduceOp};

    #[test]
    fn every_chunk_goes_in_before_it_comes_out_and_is_read_within_the_lag() {
        for chunks in 1..20 {
            let bytes = vec![0_u8; chunks as usize * Ground::BUFFER];
            let kernel = Kernel::new(Dtype::F32, ReduceOp::Sum, 2).unwrap();
            let turns = TwoShot::new(kernel, 4, bytes[..].into(), None, 0, 2);
            let kinds: Vec<Kind> = (0..turns.posts()).map(|turn| turns.kind(turn)).collect();
            for chunk in 0..chunks {
                let place = |kind| kinds.iter().position(|it| *it == kind).unwrap() as u32;
                let (goes_in, comes_out) = (place(Kind::In(chunk)), place(Kind::Out(chunk)));
                assert_eq!(goes_in, TwoShot::turn_in(chunk));
                assert!(goes_in < comes_out, "{kinds:?}");
                // It is read before the turn's own post: after the one before it.
                assert!(comes_out - 1 - goes_in <= Board::LAG, "{kinds:?}");
            }
        }
    }

    #[test]
    fn slices_cover_a_chunk_without_overlap_in_whole_elements() {
        for world in 1..40 {
            for len in [0, 16, 48, 1024, 1040, 131_072 - 16, 131_072] {
                let bytes = vec![0_u8; len];
                let kernel = Kernel::new(Dtype::C128, ReduceOp::Sum, world).unwrap();
                let turns = TwoShot::new(kernel, 16, bytes[..].into(), None, 0, world);
                let mut next = 0;
                for rank in 0..world {
                    let slice = turns.slice(len, rank);
                    assert!(slice.start == next || slice.is_empty());
                    assert!(slice.len().is_multiple_of(16));
                    next = next.max(slice.end);
                }
                assert_eq!(next, len);
            }
        }
    }
}
