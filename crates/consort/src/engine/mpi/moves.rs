//! The operations that move data and combine nothing.

use consort_sys::view::{Source, Target};

use super::pieces::{PIECE, clip, pack, piece_of, piece_of_part, pieces, unpack};
use super::{ByMpi, Stage};
use crate::call::{Inputs, Outputs};
use crate::engine::patient::Patient;
use crate::engine::verdict::Cause;
use crate::error::{Error, Result};
use crate::mpi::{Parts, Task};

impl ByMpi {
    pub(super) async fn broadcast(
        &mut self,
        root: usize,
        buffer: Target<'_>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        for piece in pieces(buffer.len(), PIECE) {
            let (buffer, bytes) = (buffer.slice(piece.clone()), piece.len());
            if root == self.me() {
                Target::from(self.memory.receive.of(bytes)).copy_from(buffer.into());
            }
            self.have(Task::Spread { root, bytes }, Stage::Moving, patient).await?;
            if root != self.me() {
                buffer.copy_from(Source::from(&self.memory.receive.bytes()[..bytes]));
            }
        }
        Ok(())
    }

    pub(super) async fn all_gather(
        &mut self,
        input: Source<'_>,
        outputs: Outputs<'_>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        let size = |rank| outputs.part(rank, world).len();
        let largest = (0..world).map(size).max().unwrap_or(0);
        for piece in pieces(largest, piece_of_part(world)) {
            let mine = self.lend(input.slice(clip(&piece, input.len())));
            let parts = Parts::of((0..world).map(|rank| clip(&piece, size(rank)).len()));
            self.have(Task::GatherAll { mine, parts }, Stage::Moving, patient).await?;
            unpack(self.memory.receive.bytes(), outputs, world, &piece);
        }
        Ok(())
    }

    pub(super) async fn gather(
        &mut self,
        root: usize,
        uneven: bool,
        (input, outputs): (Source<'_>, Option<Outputs<'_>>),
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        if uneven {
            self.compare_gathered(root, (input, outputs), patient).await?;
        }
        // Who does not know all sizes cannot tell how many pieces there are.
        let most = if uneven { usize::MAX } else { piece_of_part(world) };
        for piece in pieces(input.len(), most) {
            let mine = self.lend(input.slice(clip(&piece, input.len())));
            let parts = match (uneven, outputs) {
                (false, _) => Parts::Equal(mine),
                (true, None) => Parts::unknown(),
                (true, Some(outputs)) => {
                    Parts::each((0..world).map(|rank| outputs.part(rank, world).len()))
                }
            };
            self.have(Task::Gather { root, mine, parts }, Stage::Moving, patient).await?;
            if let Some(outputs) = outputs {
                let piece = if uneven { 0..usize::MAX } else { piece };
                unpack(self.memory.receive.bytes(), outputs, world, &piece);
            }
        }
        Ok(())
    }

    pub(super) async fn scatter(
        &mut self,
        root: usize,
        uneven: bool,
        (inputs, output): (Option<Inputs<'_>>, Target<'_>),
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        if uneven {
            self.compare_scattered(root, (inputs, output), patient).await?;
        }
        let most = if uneven { usize::MAX } else { piece_of_part(world) };
        for piece in pieces(output.len(), most) {
            let mine = piece.len();
            let sent = if uneven { 0..usize::MAX } else { piece.clone() };
            let parts = match (uneven, inputs) {
                (false, _) => Parts::Equal(mine),
                (true, None) => Parts::unknown(),
                (true, Some(inputs)) => {
                    Parts::each((0..world).map(|rank| inputs.part(rank, world).len()))
                }
            };
            if let Some(inputs) = inputs {
                let size = |rank| clip(&sent, inputs.part(rank, world).len()).len();
                let total = (0..world).map(size).sum();
                pack(self.memory.send.of(total), piece_of(inputs, world, &sent));
            }
            self.have(Task::Scatter { root, mine, parts }, Stage::Moving, patient).await?;
            let received = Source::from(&self.memory.receive.bytes()[..mine]);
            output.slice(piece).copy_from(received);
        }
        Ok(())
    }

    pub(super) async fn all_to_all(
        &mut self,
        uneven: bool,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        if uneven {
            return self.exchange_uneven(inputs, outputs, patient).await;
        }
        for piece in pieces(inputs.part(0, world).len(), piece_of_part(world)) {
            pack(self.memory.send.of(piece.len() * world), piece_of(inputs, world, &piece));
            let (sent, received) = (Parts::Equal(piece.len()), Parts::Equal(piece.len()));
            self.have(Task::Exchange { sent, received }, Stage::Moving, patient).await?;
            unpack(self.memory.receive.bytes(), outputs, world, &piece);
        }
        Ok(())
    }

    /// Exchanges parts of which only the two ranks know the size who exchange them. It all goes at once: nobody
    /// knows the largest.
    async fn exchange_uneven(
        &mut self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        let out = |rank| inputs.part(rank, world).len();
        let come = |rank| outputs.part(rank, world).len();
        self.lend_words((0..world).map(out));
        let word = || Parts::Equal(WORD);
        let sizes = Task::Exchange { sent: word(), received: word() };
        self.have(sizes, Stage::Moving, patient).await?;
        for rank in 0..world {
            self.compare(rank, self.me(), come(rank), self.word(rank), patient)?;
        }
        let all = (0..world).map(|rank| inputs.part(rank, world));
        pack(self.memory.send.of((0..world).map(out).sum()), all);
        let (sent, received) =
            (Parts::each((0..world).map(out)), Parts::each((0..world).map(come)));
        self.have(Task::Exchange { sent, received }, Stage::Moving, patient).await?;
        unpack(self.memory.receive.bytes(), outputs, world, &(0..usize::MAX));
        Ok(())
    }

    /// Has the root hear how much each rank gives it, which has to be what it expects.
    async fn compare_gathered(
        &mut self,
        root: usize,
        (input, outputs): (Source<'_>, Option<Outputs<'_>>),
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        self.lend_words([input.len()].into_iter());
        let sizes = Task::Gather { root, mine: WORD, parts: Parts::Equal(WORD) };
        self.have(sizes, Stage::Moving, patient).await?;
        let Some(outputs) = outputs else { return Ok(()) };
        (0..world).try_for_each(|rank| {
            let expected = outputs.part(rank, world).len();
            self.compare(rank, root, expected, self.word(rank), patient)
        })
    }

    /// Has each rank hear how much the root gives it, which has to be what it expects.
    async fn compare_scattered(
        &mut self,
        root: usize,
        (inputs, output): (Option<Inputs<'_>>, Target<'_>),
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let world = self.world();
        if let Some(inputs) = inputs {
            self.lend_words((0..world).map(|rank| inputs.part(rank, world).len()));
        }
        let sizes = Task::Scatter { root, mine: WORD, parts: Parts::Equal(WORD) };
        self.have(sizes, Stage::Moving, patient).await?;
        self.compare(root, self.me(), output.len(), self.word(0), patient)
    }

    /// Ends the group if what a rank sends is not what another expects.
    fn compare(
        &self,
        from: usize,
        to: usize,
        expected: usize,
        sent: u64,
        patient: &Patient<'_>,
    ) -> Result<()> {
        if expected as u64 == sent {
            return Ok(());
        }
        Err(self.disagree((from, to), expected, sent, patient))
    }

    #[cold]
    fn disagree(
        &self,
        (from, to): (usize, usize),
        expected: usize,
        sent: u64,
        patient: &Patient<'_>,
    ) -> Error {
        let call = patient.description;
        self.lookout.decide(Cause::Differs {
            number: self.footing.number(),
            mine: format!("{call}, with {expected} bytes from rank {from} to rank {to}"),
            rank: from as u32,
            theirs: format!("{call}, with {sent}"),
        })
    }

    /// Copies what is to be sent. Says how much that is.
    pub(super) fn lend(&mut self, data: Source<'_>) -> usize {
        Target::from(self.memory.send.of(data.len())).copy_from(data);
        data.len()
    }

    fn lend_words(&mut self, words: impl Iterator<Item = usize>) {
        for (at, word) in words.enumerate() {
            let end = (at + 1) * WORD;
            let bytes = (word as u64).to_ne_bytes();
            self.memory.send.of(end)[end - WORD..].copy_from_slice(&bytes);
        }
    }

    /// One of the words that were received.
    fn word(&self, at: usize) -> u64 {
        let bytes = &self.memory.receive.bytes()[at * WORD..];
        u64::from_ne_bytes(*bytes.first_chunk().expect("there is a word of every rank"))
    }
}

const WORD: usize = size_of::<u64>();
