//! The operations that move data as it is.
//!
//! | operation | small | large |
//! |---|---|---|
//! | broadcast | across in the root's column, then inside | inside the root's host, each slice across, all-gathered inside the others |
//! | all_gather | gathered inside, across among the first of each host, broadcast inside | across, then inside for the ranks of each host |
//! | all_to_all | inside for the ranks of each host, then across | from every rank to every rank |
//! | barrier | inside, across among the first of each host, inside | |

use consort_sys::dtype::Dtype;
use consort_sys::view::{Source, Target};

use super::passage::{Passage, room, targets_of};
use crate::call::{Call, Inputs, Outputs};
use crate::error::Result;
use crate::group::Rank;

impl Passage<'_, '_> {
    pub(super) async fn barrier(&mut self) -> Result<()> {
        self.inside(&Call::Barrier).await?;
        if self.seat() == 0 {
            self.across(&Call::Barrier).await?;
        }
        self.inside(&Call::Barrier).await
    }

    pub(super) async fn broadcast(
        &mut self,
        dtype: Dtype,
        root: Rank,
        buffer: Target<'_>,
    ) -> Result<()> {
        let (host, seat) = self.find(root);
        let (of_host, of_seat) = (Rank(host as u32), Rank(seat as u32));
        let inside = Call::Broadcast { dtype, root: of_seat, buffer };
        if buffer.len() <= LARGE {
            if self.seat() == seat {
                self.across(&Call::Broadcast { dtype, root: of_host, buffer }).await?;
            }
            return self.inside(&inside).await;
        }
        let is_roots_host = self.host() == host;
        if is_roots_host {
            self.inside(&inside).await?;
        }
        let slices = targets_of(buffer, &self.slices(buffer.len(), dtype.size()));
        let mine = slices[self.seat()];
        self.across(&Call::Broadcast { dtype, root: of_host, buffer: mine }).await?;
        if is_roots_host {
            return Ok(());
        }
        let outputs = Outputs::List(&slices);
        self.inside(&Call::AllGather { dtype, input: mine.into(), outputs }).await
    }

    pub(super) async fn all_gather(
        &mut self,
        dtype: Dtype,
        input: Source<'_>,
        outputs: Outputs<'_>,
    ) -> Result<()> {
        match outputs {
            Outputs::Equal(whole) if whole.len() <= SMALL && self.is_in_order() => {
                return self.all_gather_small(dtype, input, whole).await;
            }
            _ => {}
        }
        let world = self.hosts() * self.seats();
        let part = |rank| outputs.part(rank, world);
        let mine: Vec<Target<'_>> = self.peers().map(part).collect();
        self.across(&Call::AllGather { dtype, input, outputs: Outputs::List(&mine) }).await?;
        for (host, mine) in mine.into_iter().enumerate() {
            let parts: Vec<Target<'_>> = self.ranks(host).map(part).collect();
            let outputs = Outputs::List(&parts);
            self.inside(&Call::AllGather { dtype, input: mine.into(), outputs }).await?;
        }
        Ok(())
    }

    /// Each host's parts travel together.
    async fn all_gather_small(
        &mut self,
        dtype: Dtype,
        input: Source<'_>,
        whole: Target<'_>,
    ) -> Result<()> {
        let (root, is_first, each) = (Rank(0), self.seat() == 0, whole.len() / self.hosts());
        let of_host = whole.slice(self.host() * each..(self.host() + 1) * each);
        let outputs = is_first.then_some(Outputs::Equal(of_host));
        self.inside(&Call::Gather { dtype, root, uneven: false, input, outputs }).await?;
        if is_first {
            let (input, outputs) = (of_host.into(), Outputs::Equal(whole));
            self.across(&Call::AllGather { dtype, input, outputs }).await?;
        }
        self.inside(&Call::Broadcast { dtype, root, buffer: whole }).await
    }

    pub(super) async fn all_to_all(
        &mut self,
        dtype: Dtype,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let world = self.hosts() * self.seats();
        let part = inputs.part(0, world).len();
        let whole = match outputs {
            Outputs::Equal(whole) if part <= SMALL_PART && self.is_in_order() => whole,
            _ => {
                let uneven = false;
                return self.flat(&Call::AllToAll { dtype, uneven, inputs, outputs }).await;
            }
        };
        let each = part * self.seats();
        let collected = room(scratch, part * world);
        for host in 0..self.hosts() {
            let parts: Vec<Source<'_>> =
                self.ranks(host).map(|rank| inputs.part(rank, world)).collect();
            let (inputs, to) =
                (Inputs::List(&parts), collected.slice(host * each..(host + 1) * each));
            let outputs = Outputs::Equal(to);
            self.inside(&Call::AllToAll { dtype, uneven: false, inputs, outputs }).await?;
        }
        let (inputs, outputs) = (Inputs::Equal(collected.into()), Outputs::Equal(whole));
        self.across(&Call::AllToAll { dtype, uneven: false, inputs, outputs }).await
    }
}

/// Up to so many bytes, fewer messages are better than more hands.
const SMALL: usize = 16 << 10;
/// The same for the parts of an all_to_all, of which there are many.
const SMALL_PART: usize = 4 << 10;
/// From so many bytes on, several ranks of a host send more than one.
const LARGE: usize = 256 << 10;
