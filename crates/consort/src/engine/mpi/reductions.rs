//! The operations that combine numbers, to the same bits on all ranks.
//!
//! MPI may combine in any order, and does not promise that all ranks get the same bits of floating-point numbers. So it
//! combines only what comes out the same in any order: whole numbers. Everything else, also what it does not have
//! (small floats, averages, factors), is moved by it and combined here, in the order of ranks. Which
//! way is taken depends on what all ranks know alike:
//!
//! | what | how | operations of MPI, bytes to and from each of `n` ranks |
//! |---|---|---|
//! | whole numbers | MPI combines | one; as MPI does it, perhaps in the network |
//! | little else | everyone gathers all and combines it | one; n × bytes |
//! | much else | each rank gets a slice of everyone's and combines it; then all gather the slices | two; twice (n − 1)/n × bytes |
//!
//! Of much, a rank combines its own slice from where the caller has it to where the caller wants it. MPI sees that only
//! where others need it, or where slices are [small](SMALL): its copies cost as much as the sum.

use std::ops::Range;

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::pieces::{PIECE, clip, pack, piece_of_part, pieces};
use super::{ByMpi, Stage};
use crate::call::Inputs;
use crate::engine::ops::slice_of;
use crate::engine::patient::Patient;
use crate::error::Result;
use crate::mpi::{Arithmetic, Parts, Task};

impl ByMpi {
    pub(super) async fn all_reduce(
        &mut self,
        (dtype, op): (Dtype, ReduceOp),
        input: Source<'_>,
        output: Target<'_>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        let kernel = Kernel::new(dtype, op, world)?;
        let exactly = Arithmetic::exactly(dtype, op);
        let mut slices = Vec::new();
        for piece in pieces(input.len(), PIECE) {
            let (bytes, input, output) =
                (piece.len(), input.slice(piece.clone()), output.slice(piece));
            if let Some(how) = exactly {
                self.lend(input);
                let count = bytes / how.size;
                self.have(Task::Combine { how, count }, Stage::Moving, patient).await?;
                output.copy_from(Source::from(&self.memory.receive.bytes()[..bytes]));
            } else if bytes * world <= LITTLE {
                let mine = self.lend(input);
                let all = Task::GatherAll { mine, parts: Parts::Equal(bytes) };
                self.have(all, Stage::Moving, patient).await?;
                self.combine(&kernel, bytes, output);
            } else {
                cut(&mut slices, (bytes, dtype.size()), world);
                self.all_reduce_by_slices(&kernel, &slices, (input, output), patient).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn reduce(
        &mut self,
        (dtype, op): (Dtype, ReduceOp),
        root: usize,
        (input, output): (Source<'_>, Option<Target<'_>>),
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        let kernel = Kernel::new(dtype, op, world)?;
        let exactly = Arithmetic::exactly(dtype, op);
        let mut slices = Vec::new();
        for piece in pieces(input.len(), PIECE) {
            let (bytes, input) = (piece.len(), input.slice(piece.clone()));
            let output = output.map(|output| output.slice(piece));
            if let Some(how) = exactly {
                self.lend(input);
                let count = bytes / how.size;
                self.have(Task::CombineAt { root, how, count }, Stage::Moving, patient).await?;
                if let Some(output) = output {
                    output.copy_from(Source::from(&self.memory.receive.bytes()[..bytes]));
                }
            } else if bytes * world <= LITTLE {
                let mine = self.lend(input);
                let all = Task::Gather { root, mine, parts: Parts::Equal(bytes) };
                self.have(all, Stage::Moving, patient).await?;
                if let Some(output) = output {
                    self.combine(&kernel, bytes, output);
                }
            } else {
                cut(&mut slices, (bytes, dtype.size()), world);
                self.reduce_by_slices(&kernel, &slices, root, (input, output), patient).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn reduce_scatter(
        &mut self,
        (dtype, op): (Dtype, ReduceOp),
        inputs: Inputs<'_>,
        output: Target<'_>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let (me, world) = (self.me(), self.world());
        let kernel = Kernel::new(dtype, op, world)?;
        let exactly = Arithmetic::exactly(dtype, op);
        let size = |rank| inputs.part(rank, world).len();
        let largest = (0..world).map(size).max().unwrap_or(0);
        for piece in pieces(largest, piece_of_part(world)) {
            let part = |rank| inputs.part(rank, world).slice(clip(&piece, size(rank)));
            let (mine, output) = (part(me), output.slice(clip(&piece, size(me))));
            if let Some(how) = exactly {
                let sizes = || (0..world).map(|rank| part(rank).len());
                pack(self.memory.send.of(sizes().sum()), (0..world).map(part));
                let parts = Parts::each(sizes().map(|bytes| bytes / how.size));
                self.have(Task::CombineParts { how, parts }, Stage::Moving, patient).await?;
                output.copy_from(Source::from(&self.memory.receive.bytes()[..mine.len()]));
            } else {
                let theirs = self.swap(part, patient).await?;
                self.combine_with(&kernel, mine, theirs, &[output]);
            }
        }
        Ok(())
    }

    /// Combines everything, each rank a slice of it.
    async fn all_reduce_by_slices(
        &mut self,
        kernel: &Kernel,
        slices: &[Range<usize>],
        (input, output): (Source<'_>, Target<'_>),
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let me = self.me();
        let part = |rank: usize| input.slice(slices[rank].clone());
        let theirs = self.swap(part, patient).await?;
        // What was sent is free, and becomes what the slices of all are received in.
        let mut all = std::mem::take(&mut self.memory.send);
        let here = Target::from(&mut all.of(input.len())[slices[me].clone()]);
        self.combine_with(kernel, part(me), theirs, &[output.slice(slices[me].clone()), here]);
        self.memory.send = std::mem::replace(&mut self.memory.receive, all);
        let parts = Parts::of(slices.iter().map(Range::len));
        self.have(Task::Complete { parts }, Stage::Moving, patient).await?;
        for rank in self.others() {
            let combined = Source::from(&self.memory.receive.bytes()[slices[rank].clone()]);
            output.slice(slices[rank].clone()).copy_from(combined);
        }
        Ok(())
    }

    /// Combines everything for one rank, each rank a slice of it. The root's own is where it belongs at once.
    async fn reduce_by_slices(
        &mut self,
        kernel: &Kernel,
        slices: &[Range<usize>],
        root: usize,
        (input, output): (Source<'_>, Option<Target<'_>>),
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let me = self.me();
        let part = |rank: usize| input.slice(slices[rank].clone());
        let theirs = self.swap(part, patient).await?;
        let Some(output) = output else {
            let mine = slices[me].len();
            let mut sent = std::mem::take(&mut self.memory.send);
            self.combine_with(kernel, part(me), theirs, &[Target::from(sent.of(mine))]);
            self.memory.send = sent;
            let task = Task::Gather { root, mine, parts: Parts::unknown() };
            return self.have(task, Stage::Moving, patient).await;
        };
        self.combine_with(kernel, part(me), theirs, &[output.slice(slices[me].clone())]);
        let size = |rank: usize| if rank == me { 0 } else { slices[rank].len() };
        let parts = Parts::each((0..slices.len()).map(size));
        self.have(Task::Gather { root, mine: 0, parts }, Stage::Moving, patient).await?;
        let mut rest = self.memory.receive.bytes();
        for rank in self.others() {
            let (combined, after) = rest.split_at(slices[rank].len());
            output.slice(slices[rank].clone()).copy_from(Source::from(combined));
            rest = after;
        }
        Ok(())
    }

    /// Gives each other rank its part of what this one has, for theirs of this rank's part. Says whose are received.
    async fn swap<'a>(
        &mut self,
        part: impl Fn(usize) -> Source<'a>,
        patient: &mut Patient<'_>,
    ) -> Result<Theirs> {
        let (me, world) = (self.me(), self.world());
        let mine = part(me).len();
        if mine <= SMALL && (0..world).all(|rank| part(rank).len() == mine) {
            pack(self.memory.send.of(mine * world), (0..world).map(part));
            let task = Task::Exchange { sent: Parts::Equal(mine), received: Parts::Equal(mine) };
            self.have(task, Stage::Moving, patient).await?;
            return Ok(Theirs::WithMine);
        }
        let sizes = || (0..world).map(|rank| if rank == me { 0 } else { part(rank).len() });
        let others = (0..world).filter(|&rank| rank != me);
        pack(self.memory.send.of(sizes().sum()), others.map(&part));
        let sent = Parts::each(sizes());
        let received = Parts::each((0..world).map(|rank| if rank == me { 0 } else { mine }));
        self.have(Task::Exchange { sent, received }, Stage::Moving, patient).await?;
        Ok(Theirs::Alone)
    }

    /// Combines this rank's part with what it has received for it from the others, in the order of ranks.
    fn combine_with(
        &self,
        kernel: &Kernel,
        mine: Source<'_>,
        theirs: Theirs,
        targets: &[Target<'_>],
    ) {
        let (me, bytes, received) = (self.me(), mine.len(), self.memory.receive.bytes());
        let part = |rank: usize| {
            if rank == me {
                return mine;
            }
            let at = match theirs {
                Theirs::Alone => rank - usize::from(rank > me),
                Theirs::WithMine => rank,
            };
            Source::from(&received[at * bytes..(at + 1) * bytes])
        };
        let parts: Vec<Source<'_>> = (0..self.world()).map(part).collect();
        self.watch.time(bytes * parts.len(), || kernel.reduce(targets, &parts));
    }

    /// Combines so many bytes of each rank, which were received one behind the other.
    fn combine(&self, kernel: &Kernel, bytes: usize, output: Target<'_>) {
        let received = self.memory.receive.bytes();
        let part = |rank: usize| Source::from(&received[rank * bytes..(rank + 1) * bytes]);
        let parts: Vec<Source<'_>> = (0..self.world()).map(part).collect();
        self.watch.time(bytes * parts.len(), || kernel.reduce(&[output], &parts));
    }
}

/// What was received of a part, one behind the other.
#[derive(Clone, Copy, Debug)]
enum Theirs {
    /// That of the others.
    Alone,
    /// That of all ranks, this one among them.
    WithMine,
}

/// Makes these the slices of a piece of so many bytes in elements of so many, one for each of `world` ranks: but for the
/// last, pieces are as long as the one before.
fn cut(slices: &mut Vec<Range<usize>>, (bytes, element): (usize, usize), world: usize) {
    if slices.last().is_none_or(|last| last.end != bytes) {
        slices.clear();
        slices.extend((0..world).map(|rank| slice_of(bytes, element, rank, world)));
    }
}

/// Up to how many bytes of all ranks together everyone combines everything: about what MPI moves in the time of one
/// more operation. Between two ranks on one host that was measured to be faster for 16 to 64 KiB of each.
const LITTLE: usize = 256 << 10;
/// Up to how many bytes of each rank for each a rank's own go through MPI, too, if all are as long: only of such can MPI
/// send those for several ranks together. Where parts are larger it does not, and the copies of a rank's own cost more.
const SMALL: usize = 4 << 10;
