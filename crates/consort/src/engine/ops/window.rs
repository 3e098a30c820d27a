//! Operands that all ranks can reach where they are.
//!
//! When every rank's operand lies in symmetric memory nothing has to be copied in: each rank says
//! where its operand is, reads what it needs of the others', and leaves when everyone has. A rank
//! writes to its own memory only: one that comes late, when the others have long given up, reads
//! something that it then does not believe, but it overwrites nothing.

use consort_sys::arena::Arena;
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::super::drive::{Need, Trouble, Turns, View};
use super::slice_of;
use super::way::Way;
use crate::call::{Call, Inputs, Outputs, Within};

/// Where in a rank's arena the operand of a call lies, and its result if others are to read it
/// there.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Place {
    operand: u64,
    result: Option<u64>,
    bytes: usize,
}

impl Place {
    /// Of a call that could be worked on where it is, or has to be (`directly`).
    #[inline]
    pub(in super::super) fn of(
        call: &Call<'_>,
        arena: &Arena,
        world: usize,
        directly: bool,
    ) -> Option<Self> {
        let operand = operand_of(call)?;
        let offset = |memory: Source<'_>| {
            arena.offset_of(memory.as_ptr(), memory.len()).map(|offset| offset as u64)
        };
        let place = Self { operand: offset(operand)?, result: None, bytes: operand.len() };
        let Call::AllReduce { input, output, .. } = *call else { return Some(place) };
        // Who combines everything leaves the operands alone, and can do so wherever its result is.
        let in_slices = !directly || is_in_place(input, output);
        let place = Self { result: offset(output.into()).filter(|_| in_slices), ..place };
        // With the result elsewhere, every rank has to combine everything.
        (directly || place.result.is_some() || world == 2).then_some(place)
    }

    /// Whether that takes less time than to copy it.
    pub(in super::super) fn is_worth_it(&self) -> bool {
        self.bytes >= WORTH_IT
    }

    /// What of a call with this place lies in symmetric memory.
    #[inline]
    pub(in super::super) fn within(place: Option<Self>, call: &Call<'_>, arena: &Arena) -> Within {
        match place {
            Some(Self { result: Some(_), .. }) => Within::OperandAndResult,
            Some(Self { result: None, .. }) => Within::Operand,
            None if is_there_in_place(call, arena) => Within::InPlace,
            None => Within::Nothing,
        }
    }
}

/// The operand of a call that could be worked on where it is.
fn operand_of<'a>(call: &Call<'a>) -> Option<Source<'a>> {
    Some(match *call {
        Call::AllReduce { input, .. } | Call::Reduce { input, .. } => input,
        Call::ReduceScatter { inputs: Inputs::Equal(input), .. } => input,
        // In place, ranks would overwrite what others have not read yet.
        Call::AllToAll {
            inputs: Inputs::Equal(input), outputs: Outputs::Equal(output), ..
        } if !is_in_place(input, output) => input,
        Call::AllGather { input, outputs: Outputs::Equal(_), .. } => input,
        Call::Gather { input, uneven: false, .. } => input,
        Call::Broadcast { buffer, .. } => buffer.into(),
        _ => return None,
    })
}

/// Whether a call would be worked on where it is if it were not in place.
#[inline]
fn is_there_in_place(call: &Call<'_>, arena: &Arena) -> bool {
    let Call::AllToAll { inputs: Inputs::Equal(input), outputs: Outputs::Equal(output), .. } =
        *call
    else {
        return false;
    };
    is_in_place(input, output)
        && !input.is_empty()
        && arena.offset_of(input.as_ptr(), input.len()).is_some()
}

/// What a rank does once it knows where everyone's operand is.
#[derive(Debug)]
enum Share<'a> {
    /// Combines its slice; when everyone has, copies the others' slices from their results.
    AllReduceInSlices { kernel: Kernel, element: usize, output: Target<'a> },
    /// Combines everything for itself, if it has an output.
    Reduce { kernel: Kernel, output: Option<Target<'a>> },
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
    /// This rank's operand, as the caller has lent it.
    own: Source<'a>,
    /// Where it is.
    operand: u64,
    /// Where the result is, if others are to read it.
    result: [u8; 8],
    trouble: Option<Trouble>,
}

impl<'a> Window<'a> {
    /// For a call whose memory is at this place.
    pub(super) fn new(call: &Call<'a>, place: Place, world: usize) -> Option<Self> {
        let kernel = |dtype, op| Kernel::new(dtype, op, world).ok();
        let share = match *call {
            Call::AllReduce { dtype, op, output, .. } if place.result.is_some() => {
                let (kernel, element) = (kernel(dtype, op)?, dtype.size());
                Share::AllReduceInSlices { kernel, element, output }
            }
            Call::AllReduce { dtype, op, output, .. } => {
                Share::Reduce { kernel: kernel(dtype, op)?, output: Some(output) }
            }
            Call::Reduce { dtype, op, output, .. } => {
                Share::Reduce { kernel: kernel(dtype, op)?, output }
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
        let (own, result) = (operand_of(call)?, place.result.unwrap_or(0).to_ne_bytes());
        Some(Self { share, own, operand: place.operand, result, trouble: None })
    }

    /// Does this rank's share.
    fn take_part(&self, theirs: &Theirs<'_>) -> Result<(), Trouble> {
        let (me, world) = (theirs.view.me(), theirs.view.world());
        match self.share {
            Share::AllReduceInSlices { kernel, element, output } => {
                let slice = slice_of(output.len(), element, me, world);
                theirs.combine(&kernel, slice.start, output.slice(slice))
            }
            Share::Reduce { kernel, output: Some(output) } => theirs.combine(&kernel, 0, output),
            Share::ReduceScatter { kernel, output } => {
                theirs.combine(&kernel, me * output.len(), output)
            }
            Share::AllGather { outputs } | Share::Gather { outputs: Some(outputs) } => {
                theirs.copy_each(|rank| (outputs.part(rank, world), 0))
            }
            Share::AllToAll { outputs } => theirs.copy_each(|rank| {
                let output = outputs.part(rank, world);
                (output, me * output.len())
            }),
            Share::Broadcast { root, buffer } if root != me => theirs.copy(root, buffer, 0),
            Share::Reduce { output: None, .. }
            | Share::Gather { outputs: None }
            | Share::Broadcast { .. } => Ok(()),
        }
    }

    /// Takes what the others have combined, if they have done so for this rank.
    fn take_over(&self, theirs: &Theirs<'_>) -> Result<(), Trouble> {
        let Share::AllReduceInSlices { element, output, .. } = self.share else { return Ok(()) };
        let (me, world) = (theirs.view.me(), theirs.view.world());
        (1..world).map(|step| (me + step) % world).try_for_each(|rank| {
            let slice = slice_of(output.len(), element, rank, world);
            theirs.take(rank, slice.start, output.slice(slice))
        })
    }
}

/// Everyone's memory, as they have said where it is.
struct Theirs<'v> {
    view: &'v View<'v>,
    own: Source<'v>,
}

impl<'v> Theirs<'v> {
    /// A part of a rank's operand. This rank's own is reached as its caller has lent it.
    fn operand(&self, rank: usize, start: usize, len: usize) -> Result<Source<'v>, Trouble> {
        if rank == self.view.me() {
            return Ok(self.own.slice(start..start + len));
        }
        self.memory(rank, self.view.window(rank, 0), start, len)
    }

    fn memory(
        &self,
        rank: usize,
        offset: Option<u64>,
        start: usize,
        len: usize,
    ) -> Result<Source<'v>, Trouble> {
        let offset = offset.and_then(|offset| offset.checked_add(start as u64));
        let offset = offset.and_then(|offset| usize::try_from(offset).ok());
        let memory = offset.and_then(|offset| self.view.ground.arena(rank).view(offset, len));
        memory.map(Source::from).ok_or(Trouble::Nonsense { rank })
    }

    /// Combines what begins at `start` of every operand.
    fn combine(&self, kernel: &Kernel, start: usize, target: Target<'_>) -> Result<(), Trouble> {
        let operands = (0..self.view.world()).map(|rank| self.operand(rank, start, target.len()));
        let operands = operands.collect::<Result<Vec<_>, _>>()?;
        self.view.combine(kernel, &[target], |rank| operands[rank]);
        Ok(())
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
        if operand.as_ptr() != output.as_mut_ptr().cast_const() {
            self.way(output).copy(operand, output);
        }
        Ok(())
    }

    /// Copies what begins at `start` of a rank's result.
    fn take(&self, rank: usize, start: usize, output: Target<'_>) -> Result<(), Trouble> {
        let mut offset = [0; 8];
        Target::from(&mut offset[..]).copy_from(self.view.theirs(rank, 0, 8));
        let result = self.memory(rank, Some(u64::from_ne_bytes(offset)), start, output.len())?;
        self.way(output).copy(result, output);
        Ok(())
    }

    /// How a part of the result is written, of which there is one from each rank.
    fn way(&self, part: Target<'_>) -> Way {
        let world = self.view.world();
        Way::of(part.len() * world, world)
    }
}

impl Turns for Window<'_> {
    fn posts(&self) -> u32 {
        match self.share {
            Share::AllReduceInSlices { .. } => 3,
            _ => 2,
        }
    }

    fn turns(&self) -> u32 {
        self.posts()
    }

    fn uses_buffers(&self) -> bool {
        false
    }

    fn window(&self) -> Option<u64> {
        Some(self.operand)
    }

    fn publish(&mut self, turn: u32, _view: &View<'_>) -> Source<'_> {
        if turn == 0 { Source::from(&self.result[..]) } else { Source::from(&[][..]) }
    }

    /// First for those whose memory is needed, at the end for those who need this rank's.
    fn after(&self, turn: u32) -> Need {
        Need::Everyone(turn)
    }

    fn consume(&mut self, turn: u32, view: &View<'_>) {
        let theirs = Theirs { view, own: self.own };
        let went = match turn {
            0 => self.take_part(&theirs),
            1 => self.take_over(&theirs),
            _ => Ok(()),
        };
        self.trouble = self.trouble.or(went.err());
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
