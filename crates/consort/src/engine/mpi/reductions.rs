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
        for piece in pieces(input.len(), PIECE) {
            let (bytes, output) = (piece.len(), output.slice(piece.clone()));
            self.lend(input.slice(piece));
            if let Some(how) = exactly {
                let count = bytes / how.size;
                self.have(Task::Combine { how, count }, Stage::Moving, patient).await?;
                output.copy_from(Source::from(&self.memory.receive.bytes()[..bytes]));
            } else if bytes * world <= LITTLE {
                let all = Task::GatherAll { mine: bytes, parts: Parts::Equal(bytes) };
                self.have(all, Stage::Moving, patient).await?;
                self.combine(&kernel, bytes, output);
            } else {
                let mine = self.combine_slice(&kernel, bytes, patient).await?;
                let all = Task::GatherAll { mine, parts: self.slices(&kernel, bytes) };
                self.have(all, Stage::Moving, patient).await?;
                output.copy_from(Source::from(&self.memory.receive.bytes()[..bytes]));
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
        for piece in pieces(input.len(), PIECE) {
            let bytes = piece.len();
            let output = output.map(|output| output.slice(piece.clone()));
            self.lend(input.slice(piece));
            if let Some(how) = exactly {
                let count = bytes / how.size;
                self.have(Task::CombineAt { root, how, count }, Stage::Moving, patient).await?;
            } else if bytes * world <= LITTLE {
                let all = Task::Gather { root, mine: bytes, parts: Parts::Equal(bytes) };
                self.have(all, Stage::Moving, patient).await?;
                if let Some(output) = output {
                    self.combine(&kernel, bytes, output);
                }
                continue;
            } else {
                let mine = self.combine_slice(&kernel, bytes, patient).await?;
                let all = Task::Gather { root, mine, parts: self.slices(&kernel, bytes) };
                self.have(all, Stage::Moving, patient).await?;
            }
            if let Some(output) = output {
                output.copy_from(Source::from(&self.memory.receive.bytes()[..bytes]));
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
            let sizes = || (0..world).map(|rank| clip(&piece, size(rank)).len());
            pack(self.memory.send.of(sizes().sum()), inputs, world, &piece);
            let mine = clip(&piece, size(me));
            let (bytes, output) = (mine.len(), output.slice(mine));
            if let Some(how) = exactly {
                let parts = Parts::each(sizes().map(|bytes| bytes / how.size));
                self.have(Task::CombineParts { how, parts }, Stage::Moving, patient).await?;
                output.copy_from(Source::from(&self.memory.receive.bytes()[..bytes]));
                continue;
            }
            let task = match Parts::of(sizes()) {
                sent @ Parts::Equal(each) => Task::Exchange { sent, received: Parts::Equal(each) },
                sent @ Parts::Each { .. } => {
                    let received = Parts::each((0..world).map(|_| bytes));
                    Task::Exchange { sent, received }
                }
            };
            self.have(task, Stage::Moving, patient).await?;
            self.combine(&kernel, bytes, output);
        }
        Ok(())
    }

    /// Combines this rank's slice of so many bytes that every rank has lent, and lends the result. Says how much that
    /// is.
    async fn combine_slice(
        &mut self,
        kernel: &Kernel,
        bytes: usize,
        patient: &mut Patient<'_>,
    ) -> Result<usize> {
        let (me, world) = (self.me(), self.world());
        let mine = slice_of(bytes, kernel.dtype().size(), me, world).len();
        let task = match self.slices(kernel, bytes) {
            sent @ Parts::Equal(each) => Task::Exchange { sent, received: Parts::Equal(each) },
            sent @ Parts::Each { .. } => {
                let received = Parts::each((0..world).map(|_| mine));
                Task::Exchange { sent, received }
            }
        };
        self.have(task, Stage::Moving, patient).await?;
        let mut sent = std::mem::take(&mut self.memory.send);
        self.combine(kernel, mine, Target::from(sent.of(mine)));
        self.memory.send = sent;
        Ok(mine)
    }

    /// The slices of so many bytes.
    fn slices(&self, kernel: &Kernel, bytes: usize) -> Parts {
        let (world, element) = (self.world(), kernel.dtype().size());
        Parts::of((0..world).map(|rank| slice_of(bytes, element, rank, world).len()))
    }

    /// Combines so many bytes of each rank, which were received one behind the other.
    fn combine(&self, kernel: &Kernel, bytes: usize, output: Target<'_>) {
        let received = self.memory.receive.bytes();
        let part = |rank: usize| Source::from(&received[rank * bytes..(rank + 1) * bytes]);
        let parts: Vec<Source<'_>> = (0..self.world()).map(part).collect();
        self.watch.time(bytes * parts.len(), || kernel.reduce(&[output], &parts));
    }
}

/// Up to how many bytes of all ranks together everyone combines everything: about what MPI moves in the time of one
/// more operation. Between two ranks on one host that was measured to be faster for 16 to 64 KiB of each.
const LITTLE: usize = 256 << 10;
