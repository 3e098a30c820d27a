//! Operands that all ranks can reach where they are.
//!
//! When every rank's operand lies in symmetric memory nothing has to be copied in: each rank says
//! where its operand is, does its share of the work on everyone's memory, and leaves when everyone
//! has done theirs. Results that lie there too are written by whoever has them.

use consort_sys::arena::Arena;
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::super::drive::{Need, Trouble, Turns, View};
use super::slice_of;
use super::way::Way;
use crate::call::{Call, Inputs, Outputs};

/// Where in a rank's arena the operand of a call lies, and its result if that lies there too.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Place {
    operand: u64,
    result: Option<u64>,
}

impl Place {
    /// Of a call that is to be worked on where it is: because it is worth it, or because it has to
    /// be.
    #[inline]
    pub(in super::super) fn of(
        call: &Call<'_>,
        arena: &Arena,
        world: usize,
        directly: bool,
    ) -> Option<Self> {
        let (operand, result) = memory_of(call)?;
        if !directly && operand.len() < WORTH_IT {
            return None;
        }
        let offset = |memory: Source<'_>| {
            arena.offset_of(memory.as_ptr(), memory.len()).map(|offset| offset as u64)
        };
        let place = Self { operand: offset(operand)?, result: result.and_then(offset) };
        // With the result elsewhere, every rank would have to combine everything.
        let is_cheap = !matches!(call, Call::AllReduce { .. }) || place.result.is_some();
        (directly || is_cheap || world == 2).then_some(place)
    }
}

/// The operand of a call that could be worked on where it is, and the result that could be written
/// by others.
fn memory_of<'a>(call: &Call<'a>) -> Option<(Source<'a>, Option<Source<'a>>)> {
    Some(match *call {
        Call::AllReduce { input, output, .. } => (input, Some(output.into())),
        Call::Reduce { input, output, .. } => (input, output.map(Source::from)),
        Call::ReduceScatter { inputs: Inputs::Equal(input), .. } => (input, None),
        // In place, ranks would overwrite what others have not read yet.
        Call::AllToAll {
            inputs: Inputs::Equal(input), outputs: Outputs::Equal(output), ..
        } if !is_in_place(input, output) => (input, None),
        Call::AllGather { input, outputs: Outputs::Equal(_), .. } => (input, None),
        Call::Gather { input, uneven: false, .. } => (input, None),
        Call::Broadcast { buffer, .. } => (buffer.into(), None),
        _ => return None,
    })
}

/// What a rank does once it knows where everyone's operand is.
#[derive(Debug)]
enum Share<'a> {
    /// Combines its slice and writes it to everyone's result; or everything for itself, if one of
    /// the results cannot be reached.
    AllReduce { kernel: Kernel, element: usize, output: Target<'a> },
    /// Combines its slice and writes it to the root's result; or the root combines everything.
    Reduce { kernel: Kernel, element: usize, len: usize, root: usize, output: Option<Target<'a>> },
    /// Combines everyone's part for it.
    ReduceScatter { kernel: Kernel, output: Target<'a> },
    /// Copies everyone's operand.
    AllGather { outputs: Outputs<'a> },
    /// Copies everyone's part for it.
    AllToAll { outputs: Outputs<'a> },
    /// Copies everyone's operand, if it is the root.
    Gather { outputs: Option<Outputs<'a>> },
    /// Copies the root's operand.
    Broadcast { root: usize, buffer: Target<'a> },
}

/// A call whose operand lies in this rank's arena.
#[derive(Debug)]
pub(super) struct Window<'a> {
    share: Share<'a>,
    operand: u64,
    /// One more than where the result is, or 0.
    result: [u8; 8],
    trouble: Option<Trouble>,
}

impl<'a> Window<'a> {
    /// For a call whose memory is at this place.
    pub(super) fn new(call: &Call<'a>, place: Place, world: usize) -> Option<Self> {
        let kernel = |dtype, op| Kernel::new(dtype, op, world).ok();
        let share = match *call {
            Call::AllReduce { dtype, op, output, .. } => {
                Share::AllReduce { kernel: kernel(dtype, op)?, element: dtype.size(), output }
            }
            Call::Reduce { dtype, op, root, input, output } => {
                let (kernel, element, len) = (kernel(dtype, op)?, dtype.size(), input.len());
                Share::Reduce { kernel, element, len, root: root.index(), output }
            }
            Call::ReduceScatter { dtype, op, output, .. } => {
                Share::ReduceScatter { kernel: kernel(dtype, op)?, output }
            }
            Call::AllGather { outputs, .. } => Share::AllGather { outputs },
            Call::AllToAll { outputs, .. } => Share::AllToAll { outputs },
            Call::Gather { outputs, .. } => Share::Gather { outputs },
            Call::Broadcast { root, buffer, .. } => Share::Broadcast { root: root.index(), buffer },
            _ => return None,
        };
        let result = place.result.map_or(0, |offset| offset + 1).to_ne_bytes();
        Some(Self { share, operand: place.operand, result, trouble: None })
    }

    /// Does this rank's share.
    fn take_part(&self, theirs: &Theirs<'_>) -> Result<(), Trouble> {
        let (me, world) = (theirs.view.me(), theirs.view.world());
        match self.share {
            Share::AllReduce { kernel, element, output } => {
                let Some(results) = (0..world).map(|rank| theirs.result(rank)).collect() else {
                    return theirs.combine(&kernel, 0, &[output]);
                };
                let slice = slice_of(output.len(), element, me, world);
                theirs.combine_slice(&kernel, slice, results)
            }
            Share::Reduce { kernel, element, len, root, output } => match theirs.result(root) {
                Some(result) => {
                    let slice = slice_of(len, element, me, world);
                    theirs.combine_slice(&kernel, slice, vec![result])
                }
                None => output.map_or(Ok(()), |output| theirs.combine(&kernel, 0, &[output])),
            },
            Share::ReduceScatter { kernel, output } => {
                theirs.combine(&kernel, me * output.len(), &[output])
            }
            Share::AllGather { outputs } => theirs.gather(outputs),
            Share::Gather { outputs } => outputs.map_or(Ok(()), |outputs| theirs.gather(outputs)),
            Share::AllToAll { outputs } => theirs.copy_each(|rank| {
                let output = outputs.part(rank, world);
                (output, me * output.len())
            }),
            Share::Broadcast { root, .. } if root == me => Ok(()),
            Share::Broadcast { root, buffer } => theirs.copy(root, buffer, 0),
        }
    }
}

/// Everyone's memory, as they have said where it is.
struct Theirs<'v> {
    view: &'v View<'v>,
}

impl<'v> Theirs<'v> {
    /// A part of a rank's operand.
    fn operand(&self, rank: usize, start: usize, len: usize) -> Result<Target<'v>, Trouble> {
        let offset = self.view.window(rank, 0).and_then(|offset| offset.checked_add(start as u64));
        self.memory(rank, offset, len)
    }

    /// Where a rank's result is, if others can write it.
    fn result(&self, rank: usize) -> Option<(usize, u64)> {
        let offset = self.view.theirs(rank, 0, 8).to_vec();
        let offset = u64::from_ne_bytes(offset.try_into().expect("it has its length"));
        Some((rank, offset.checked_sub(1)?))
    }

    fn memory(&self, rank: usize, offset: Option<u64>, len: usize) -> Result<Target<'v>, Trouble> {
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        let memory = offset.and_then(|offset| self.view.ground.arena(rank).view(offset, len));
        memory.ok_or(Trouble::Nonsense { rank })
    }

    /// Combines what begins at `start` of every operand.
    fn combine(
        &self,
        kernel: &Kernel,
        start: usize,
        targets: &[Target<'_>],
    ) -> Result<(), Trouble> {
        let len = targets.first().map_or(0, |target| target.len());
        let operands = (0..self.view.world()).map(|rank| self.operand(rank, start, len));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        self.view.combine(kernel, targets, |rank| operands[rank].into());
        Ok(())
    }

    /// Combines a slice of every operand for these ranks' results.
    fn combine_slice(
        &self,
        kernel: &Kernel,
        slice: std::ops::Range<usize>,
        results: Vec<(usize, u64)>,
    ) -> Result<(), Trouble> {
        let target = |(rank, offset): (usize, u64)| {
            self.memory(rank, offset.checked_add(slice.start as u64), slice.len())
        };
        let targets = results.into_iter().map(target).collect::<Result<Vec<_>, _>>()?;
        self.combine(kernel, slice.start, &targets)
    }

    /// Copies everyone's operand.
    fn gather(&self, outputs: Outputs<'_>) -> Result<(), Trouble> {
        self.copy_each(|rank| (outputs.part(rank, self.view.world()), 0))
    }

    /// Copies from everyone, beginning with this rank: where to, and from where on.
    fn copy_each<'t>(&self, part: impl Fn(usize) -> (Target<'t>, usize)) -> Result<(), Trouble> {
        let (me, world) = (self.view.me(), self.view.world());
        (0..world).map(|step| (me + step) % world).try_for_each(|rank| {
            let (output, start) = part(rank);
            self.copy(rank, output, start)
        })
    }

    fn copy(&self, rank: usize, output: Target<'_>, start: usize) -> Result<(), Trouble> {
        let operand = self.operand(rank, start, output.len())?;
        if operand.as_mut_ptr() != output.as_mut_ptr() {
            let world = self.view.world();
            Way::of(output.len() * world, world).copy(operand.into(), output);
        }
        Ok(())
    }
}

impl Turns for Window<'_> {
    fn posts(&self) -> u32 {
        2
    }

    fn turns(&self) -> u32 {
        2
    }

    fn window(&self) -> Option<u64> {
        Some(self.operand)
    }

    fn publish(&mut self, turn: u32, _view: &View<'_>) -> Source<'_> {
        if turn == 0 { Source::from(&self.result[..]) } else { Source::from(&[][..]) }
    }

    /// First for those whose memory is needed, then for those who need this rank's.
    fn after(&self, turn: u32) -> Need {
        Need::Everyone(turn)
    }

    fn consume(&mut self, turn: u32, view: &View<'_>) {
        if turn == 0 {
            self.trouble = self.take_part(&Theirs { view }).err();
        }
    }

    fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }
}

fn is_in_place(input: Source<'_>, output: Target<'_>) -> bool {
    input.as_ptr() == output.as_mut_ptr().cast_const()
}

/// Below this many bytes a copy costs less than waiting for everyone twice.
pub(super) const WORTH_IT: usize = 4 << 10;
