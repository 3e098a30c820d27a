//! Before anything else the ranks find out whether they make the same call.
//!
//! MPI does not: ranks that differ hang, or get each other's data for something else. So the first operation of
//! every call is the same, whatever is called: each rank shows all others a *card*, of one size, that says what it
//! calls. If two differ, all ranks know at once, and the group ends with an error that names both. Data that
//! fits travels on the card, so that a small call is one operation of MPI.
//!
//! Among many ranks everyone's card for everyone would be too much. There it is the largest and the least digest
//! that is found first; only if these differ cards are shown.

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::{ByMpi, Stage};
use crate::call::{Call, Description, Outputs};
use crate::engine::patient::Patient;
use crate::engine::verdict::Cause;
use crate::error::{Error, Result};
use crate::mpi::{Arithmetic, Parts, Task};

impl ByMpi {
    /// Agrees with the others on a call. Says whether its data has come along, so that it is done.
    ///
    /// # Errors
    /// When they do not agree, or do not come: the group has ended.
    pub(super) async fn agree(
        &mut self,
        call: &Call<'_>,
        patient: &mut Patient<'_>,
    ) -> Result<bool> {
        if self.world() > FEW {
            if !self.is_agreed(patient).await? {
                self.show_cards(None, patient).await?;
                return Err(self.differ(patient));
            }
            return Ok(matches!(call, Call::Barrier));
        }
        let along = data_of(call).filter(|data| data.len() <= ALONG);
        self.show_cards(along, patient).await?;
        let digest = self.footing.digest();
        if self.cards().any(|card| card.digest != digest) {
            return Err(self.differ(patient));
        }
        match (call, along) {
            (Call::Barrier, _) => Ok(true),
            (_, None) => Ok(false),
            (_, Some(data)) => self.take(call, data.len()).map(|()| true),
        }
    }

    /// Whether all ranks have the same digest of their calls: the largest is the least.
    async fn is_agreed(&mut self, patient: &mut Patient<'_>) -> Result<bool> {
        let digest = self.footing.digest();
        let words = [digest, !digest];
        self.memory.send.of(size_of_val(&words)).copy_from_slice(bytemuck::bytes_of(&words));
        let how = Arithmetic::exactly(Dtype::U64, ReduceOp::Max).expect("MPI has the greatest");
        self.have(Task::Combine { how, count: words.len() }, Stage::Meeting, patient).await?;
        Ok(self.memory.receive.bytes()[..size_of_val(&words)] == *bytemuck::bytes_of(&words))
    }

    /// Shows everyone's card to everyone, with this data on it.
    async fn show_cards(
        &mut self,
        along: Option<Source<'_>>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let [operation, extent] = patient.description.pack();
        let words = [self.footing.digest(), operation, extent];
        let card = self.memory.send.of(CARD);
        card[..HEAD].copy_from_slice(bytemuck::bytes_of(&words));
        if let Some(data) = along {
            Target::from(&mut card[HEAD..HEAD + data.len()]).copy_from(data);
        }
        let task = Task::GatherAll { mine: CARD, parts: Parts::Equal(CARD) };
        self.have(task, Stage::Meeting, patient).await
    }

    /// What all ranks have shown, in their order.
    fn cards(&self) -> impl Iterator<Item = Card<'_>> {
        let cards = self.memory.receive.bytes().chunks_exact(CARD);
        cards.take(self.world()).filter_map(Card::read)
    }

    /// Does what is left of a call whose data came on cards.
    fn take(&self, call: &Call<'_>, len: usize) -> Result<()> {
        let (me, world) = (self.me(), self.world());
        let data = || self.cards().map(|card| Source::from(&card.data[..len]));
        let combine = |dtype, op, output: Target<'_>| -> Result<()> {
            let kernel = Kernel::new(dtype, op, world)?;
            kernel.reduce(&[output], &data().collect::<Vec<_>>());
            Ok(())
        };
        let spread = |outputs: Outputs<'_>| {
            for (rank, data) in data().enumerate() {
                outputs.part(rank, world).copy_from(data);
            }
        };
        match *call {
            Call::AllReduce { dtype, op, output, .. } => combine(dtype, op, output)?,
            Call::Reduce { dtype, op, output, .. } => {
                output.map_or(Ok(()), |output| combine(dtype, op, output))?;
            }
            Call::Broadcast { root, buffer, .. } if root.index() != me => {
                let root = data().nth(root.index()).expect("there is a card of every rank");
                buffer.copy_from(root);
            }
            Call::AllGather { outputs, .. } => spread(outputs),
            Call::Gather { outputs, .. } => outputs.into_iter().for_each(spread),
            _ => {}
        }
        Ok(())
    }

    /// Ends the group because a rank's card says something else than this one's.
    #[cold]
    fn differ(&self, patient: &Patient<'_>) -> Error {
        let digest = self.footing.digest();
        let other = self.cards().enumerate().find(|(_, card)| card.digest != digest);
        let Some((rank, card)) = other else {
            let reason = "MPI says that ranks make different calls, but all show the same";
            return self.lookout.decide(Cause::Unable { reason: reason.to_owned() });
        };
        let mine = patient.description.to_string();
        let mut theirs = card.call();
        if mine == theirs {
            theirs += if patient.description.scales() {
                " with another factor"
            } else {
                " after another call"
            };
        }
        let (number, rank) = (self.footing.number(), rank as u32);
        self.lookout.decide(Cause::Differs { number, mine, rank, theirs })
    }
}

/// What a rank shows.
struct Card<'a> {
    /// Stands for this call and all before it.
    digest: u64,
    call: [u64; 2],
    data: &'a [u8],
}

impl<'a> Card<'a> {
    /// `None` if it is too short.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (head, data) = bytes.split_first_chunk::<HEAD>()?;
        let [digest, operation, extent] = bytemuck::must_cast(*head);
        Some(Self { digest, call: [operation, extent], data })
    }

    fn call(&self) -> String {
        match Description::unpack(self.call) {
            Some(description) => description.to_string(),
            None => "a call of another version".to_owned(),
        }
    }
}

/// What a rank has for the others, if that is as much on every rank, and is all that there is to a call.
fn data_of<'a>(call: &Call<'a>) -> Option<Source<'a>> {
    match *call {
        Call::AllReduce { input, .. } | Call::Reduce { input, .. } => Some(input),
        Call::Broadcast { buffer, .. } => Some(buffer.into()),
        Call::AllGather { input, outputs: Outputs::Equal(_), .. } => Some(input),
        // Others may have given their parts as one memory.
        Call::AllGather { input, outputs: Outputs::List(parts), .. } => {
            parts.iter().all(|part| part.len() == input.len()).then_some(input)
        }
        Call::Gather { uneven: false, input, .. } => Some(input),
        _ => None,
    }
}

/// Up to how many ranks show all their cards.
const FEW: usize = 16;
/// The size of a card, in bytes: of two cache lines.
const CARD: usize = 128;
/// What it says of the call.
const HEAD: usize = 3 * size_of::<u64>();
/// So much data fits on it.
const ALONG: usize = CARD - HEAD;
