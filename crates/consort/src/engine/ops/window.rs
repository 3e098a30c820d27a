//! Operands that all ranks can reach where they are.
//!
//! When every rank's operand lies in symmetric memory nothing has to be copied in: each rank says
//! where its operand is, does its share of the work on everyone's memory, and leaves when everyone
//! has done theirs.

use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::super::drive::{Need, Trouble, Turns, View};
use super::{LINE, slice_of};
use crate::call::{Call, Inputs, Outputs};

/// What a rank does once it knows where everyone's operand is.
#[derive(Debug)]
enum Share<'a> {
    /// Combines its slice and writes it to everyone's memory.
    AllReduce { kernel: Kernel, element: usize, len: usize },
    /// Combines everyone's operand for itself.
    AllReduceInto { kernel: Kernel, output: Target<'a> },
    /// Combines everyone's part for it.
    ReduceScatter { kernel: Kernel, output: Target<'a> },
    /// Copies everyone's operand.
    AllGather { outputs: Outputs<'a> },
    /// Copies everyone's part for it.
    AllToAll { outputs: Outputs<'a> },
    /// Copies the root's operand.
    Broadcast { root: usize, buffer: Target<'a> },
}

/// A call whose operand lies in this rank's arena.
#[derive(Debug)]
pub(super) struct Window<'a> {
    share: Share<'a>,
    offset: u64,
    trouble: Option<Trouble>,
}

/// The operand of a call that could be worked on where it is, and is worth it or has to be.
pub(in super::super) fn operand<'a>(call: &Call<'a>, directly: bool) -> Option<Source<'a>> {
    let operand: Source<'a> = match *call {
        Call::AllReduce { input, output, .. } => {
            // With the result elsewhere, every rank has to combine everything.
            (directly || is_in_place(input, output)).then_some(input)?
        }
        Call::ReduceScatter { inputs: Inputs::Equal(input), .. } => input,
        // In place, ranks would overwrite what others have not read yet.
        Call::AllToAll {
            inputs: Inputs::Equal(input), outputs: Outputs::Equal(output), ..
        } => (!is_in_place(input, output)).then_some(input)?,
        Call::AllGather { input, outputs: Outputs::Equal(_), .. } => input,
        Call::Broadcast { buffer, .. } => buffer.into(),
        _ => return None,
    };
    (directly || operand.len() >= WORTH_IT).then_some(operand)
}

impl<'a> Window<'a> {
    /// For a call whose [`operand`] begins at `offset`.
    pub(super) fn new(call: &Call<'a>, offset: u64, world: usize) -> Option<Self> {
        let kernel = |dtype, op| Kernel::new(dtype, op, world).ok();
        let share = match *call {
            Call::AllReduce { dtype, op, input, output } => {
                let (kernel, element) = (kernel(dtype, op)?, dtype.size());
                match is_in_place(input, output) {
                    true => Share::AllReduce { kernel, element, len: input.len() },
                    false => Share::AllReduceInto { kernel, output },
                }
            }
            Call::ReduceScatter { dtype, op, output, .. } => {
                Share::ReduceScatter { kernel: kernel(dtype, op)?, output }
            }
            Call::AllGather { outputs, .. } => Share::AllGather { outputs },
            Call::AllToAll { outputs, .. } => Share::AllToAll { outputs },
            Call::Broadcast { root, buffer, .. } => Share::Broadcast { root: root.index(), buffer },
            _ => return None,
        };
        Some(Self { share, offset, trouble: None })
    }

    /// `len` bytes of a rank's operand, from `start` on.
    fn theirs<'v>(
        trouble: &mut Option<Trouble>,
        view: &View<'v>,
        rank: usize,
        start: usize,
        len: usize,
    ) -> Target<'v> {
        view.window(rank, 0, start, len).unwrap_or_else(|| {
            *trouble = Some(Trouble::Nonsense { rank });
            Target::from(&mut [0_u8; 0][..])
        })
    }

    fn take_part(&mut self, view: &View<'_>) {
        let (me, world) = (view.me(), view.world());
        let mut theirs = |rank, start, len| Self::theirs(&mut self.trouble, view, rank, start, len);
        match self.share {
            Share::AllReduce { kernel, element, len } => {
                let slice = slice_of(len, element, me, world);
                let parts: Vec<Target<'_>> =
                    (0..world).map(|rank| theirs(rank, slice.start, slice.len())).collect();
                if parts.iter().all(|part| part.len() == slice.len()) {
                    view.combine(&kernel, &parts, |rank| parts[rank].into());
                }
            }
            Share::AllReduceInto { kernel, output } => {
                let parts: Vec<Target<'_>> =
                    (0..world).map(|rank| theirs(rank, 0, output.len())).collect();
                if parts.iter().all(|part| part.len() == output.len()) {
                    view.combine(&kernel, &[output], |rank| parts[rank].into());
                }
            }
            Share::ReduceScatter { kernel, output } => {
                let len = output.len();
                let parts: Vec<Target<'_>> =
                    (0..world).map(|rank| theirs(rank, me * len, len)).collect();
                if parts.iter().all(|part| part.len() == len) {
                    view.combine(&kernel, &[output], |rank| parts[rank].into());
                }
            }
            Share::AllGather { outputs } => {
                for rank in (0..world).map(|step| (me + step) % world) {
                    let output = outputs.part(rank, world);
                    copy(output, theirs(rank, 0, output.len()));
                }
            }
            Share::AllToAll { outputs } => {
                for rank in (0..world).map(|step| (me + step) % world) {
                    let output = outputs.part(rank, world);
                    copy(output, theirs(rank, me * output.len(), output.len()));
                }
            }
            Share::Broadcast { root, buffer } => copy(buffer, theirs(root, 0, buffer.len())),
        }
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
        Some(self.offset)
    }

    fn publish(&mut self, _turn: u32, _view: &View<'_>) -> Source<'_> {
        Source::from(&[][..])
    }

    fn after(&self, turn: u32) -> Need {
        Need::Everyone(turn)
    }

    fn consume(&mut self, turn: u32, view: &View<'_>) {
        if turn == 0 {
            self.take_part(view);
        }
    }

    fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }
}

fn is_in_place(input: Source<'_>, output: Target<'_>) -> bool {
    input.as_ptr() == output.as_mut_ptr().cast_const()
}

fn copy(to: Target<'_>, from: Target<'_>) {
    if to.len() == from.len() && to.as_mut_ptr() != from.as_mut_ptr() {
        to.copy_from(from.into());
    }
}

/// Below this many bytes a copy costs less than waiting for everyone twice.
const WORTH_IT: usize = 64 * LINE;
