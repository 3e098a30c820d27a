//! The operations that combine.
//!
//! | operation | small | large |
//! |---|---|---|
//! | all_reduce | reduced inside, all-reduced across among the first of each host, broadcast inside | reduce-scattered inside, each slice all-reduced across, all-gathered inside |
//! | reduce | reduced inside, reduced across in the root's column | reduce-scattered inside, each slice reduced across, gathered inside the root's host |
//! | reduce_scatter | inside for the ranks of each host, then across | the same |

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::view::{Source, Target};

use super::passage::{Passage, parts_of, room, targets_of};
use crate::call::{Call, Inputs, Outputs};
use crate::error::Result;
use crate::exec::is_small;
use crate::group::Rank;

impl Passage<'_, '_> {
    pub(super) async fn all_reduce(
        &mut self,
        dtype: Dtype,
        op: ReduceOp,
        input: Source<'_>,
        output: Target<'_>,
    ) -> Result<()> {
        let Some((inner, outer)) = in_two(dtype, op) else {
            return self.flat(&Call::AllReduce { dtype, op, input, output }).await;
        };
        if input.len() <= SMALL {
            let (root, is_first) = (Rank(0), self.seat() == 0);
            let first = is_first.then_some(output);
            self.inside(&Call::Reduce { dtype, op: inner, root, input, output: first }).await?;
            if is_first {
                let input = output.into();
                self.across(&Call::AllReduce { dtype, op: outer, input, output }).await?;
            }
            return self.inside(&Call::Broadcast { dtype, root, buffer: output }).await;
        }
        let slices = self.slices(input.len(), dtype.size());
        let (inputs, outputs) = (parts_of(input, &slices), targets_of(output, &slices));
        let (inputs, mine) = (Inputs::List(&inputs), outputs[self.seat()]);
        self.inside(&Call::ReduceScatter { dtype, op: inner, inputs, output: mine }).await?;
        let input = mine.into();
        self.across(&Call::AllReduce { dtype, op: outer, input, output: mine }).await?;
        self.inside(&Call::AllGather { dtype, input, outputs: Outputs::List(&outputs) }).await
    }

    pub(super) async fn reduce(
        &mut self,
        dtype: Dtype,
        op: ReduceOp,
        root: Rank,
        input: Source<'_>,
        output: Option<Target<'_>>,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let Some((inner, outer)) = in_two(dtype, op) else {
            return self.flat(&Call::Reduce { dtype, op, root, input, output }).await;
        };
        let (host, seat) = self.find(root);
        let (of_host, of_seat) = (Rank(host as u32), Rank(seat as u32));
        let is_roots_host = self.host() == host;
        if input.len() <= SMALL {
            let is_in_column = self.seat() == seat;
            let mine = is_in_column.then(|| output.unwrap_or_else(|| room(scratch, input.len())));
            let inside = Call::Reduce { dtype, op: inner, root: of_seat, input, output: mine };
            self.inside(&inside).await?;
            let Some(mine) = mine else { return Ok(()) };
            let (input, output) = (mine.into(), is_roots_host.then_some(mine));
            return self
                .across(&Call::Reduce { dtype, op: outer, root: of_host, input, output })
                .await;
        }
        let slices = self.slices(input.len(), dtype.size());
        let own = slices[self.seat()].clone();
        let mine = match output {
            Some(output) => output.slice(own),
            None => room(scratch, own.len()),
        };
        let inputs = parts_of(input, &slices);
        let inputs = Inputs::List(&inputs);
        self.inside(&Call::ReduceScatter { dtype, op: inner, inputs, output: mine }).await?;
        let (input, result) = (mine.into(), is_roots_host.then_some(mine));
        let across = Call::Reduce { dtype, op: outer, root: of_host, input, output: result };
        self.across(&across).await?;
        if !is_roots_host {
            return Ok(());
        }
        let outputs = output.map(|output| targets_of(output, &slices));
        let outputs = outputs.as_deref().map(Outputs::List);
        self.inside(&Call::Gather { dtype, root: of_seat, uneven: true, input, outputs }).await
    }

    pub(super) async fn reduce_scatter(
        &mut self,
        dtype: Dtype,
        op: ReduceOp,
        inputs: Inputs<'_>,
        output: Target<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let Some((inner, outer)) = in_two(dtype, op) else {
            return self.flat(&Call::ReduceScatter { dtype, op, inputs, output }).await;
        };
        let (hosts, world) = (self.hosts(), self.hosts() * self.seats());
        let sizes: Vec<usize> = self.peers().map(|rank| inputs.part(rank, world).len()).collect();
        let mut rest = room(scratch, sizes.iter().sum());
        let mut partial = Vec::with_capacity(hosts);
        for (host, size) in sizes.into_iter().enumerate() {
            let (output, behind) = (rest.slice(0..size), rest.slice(size..rest.len()));
            let parts: Vec<_> = self.ranks(host).map(|rank| inputs.part(rank, world)).collect();
            let inputs = Inputs::List(&parts);
            self.inside(&Call::ReduceScatter { dtype, op: inner, inputs, output }).await?;
            partial.push(Source::from(output));
            rest = behind;
        }
        let inputs = Inputs::List(&partial);
        self.across(&Call::ReduceScatter { dtype, op: outer, inputs, output }).await
    }
}

/// How to combine inside and then across, where that comes to the same; but for small floating-point
/// numbers, which are rounded twice.
fn in_two(dtype: Dtype, op: ReduceOp) -> Option<(ReduceOp, ReduceOp)> {
    match op {
        ReduceOp::Avg if is_small(dtype) => Some((op, op)),
        ReduceOp::Avg if is_whole(dtype) => None,
        // Across it is divided by the number of all ranks.
        ReduceOp::Avg => Some((ReduceOp::Sum, op)),
        ReduceOp::PremulSum(_) => Some((op, ReduceOp::Sum)),
        _ => Some((op, op)),
    }
}

/// Whether such numbers are integers, whose sums wrap around.
fn is_whole(dtype: Dtype) -> bool {
    !is_small(dtype) && !matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::C64 | Dtype::C128)
}

/// Up to so many bytes, fewer messages are better than more hands.
const SMALL: usize = 16 << 10;
