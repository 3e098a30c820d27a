//! How each call is carried out: its recipe, its buffers as chunks, its segments.

use consort_plan::Collective;
use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::view::{Source, Target};

use super::choice::Choices;
use super::place::{Buffers, Place, Sizes};
use super::recipe::Recipe;
use super::segments::Cut;
use crate::call::{Call, Inputs, Outputs};

/// How a call is carried out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    pub(super) recipe: Recipe,
    pub(super) buffers: Buffers<'a>,
    pub(super) cut: Cut,
    /// What is combined, and how.
    pub(super) numbers: Option<Numbers>,
}

/// What is combined, and how.
pub(super) type Numbers = (Dtype, ReduceOp);

impl<'a> Plan<'a> {
    /// None for a call whose sizes not all ranks know.
    pub(super) fn new(call: &Call<'a>, me: usize, choices: &Choices) -> Option<Self> {
        let of = Planner { choices, me, world: choices.world() };
        let (recipe, buffers, numbers) = match *call {
            Call::Barrier => (of.barrier(), Buffers::NONE, None),
            Call::AllReduce { dtype, op, input, output } => {
                let (recipe, buffers) = of.all_reduce((dtype, op), input, output);
                (recipe, buffers, Some((dtype, op)))
            }
            Call::Reduce { dtype, op, root, input, output } => {
                let (recipe, buffers) = of.reduce((dtype, op), root.index() as u32, input, output);
                (recipe, buffers, Some((dtype, op)))
            }
            Call::ReduceScatter { dtype, op, inputs, output } => {
                let (recipe, buffers) = of.reduce_scatter((dtype, op), inputs, output);
                (recipe, buffers, Some((dtype, op)))
            }
            Call::Broadcast { dtype, root, buffer } => {
                let op = Collective::Broadcast { root: root.index() as u32 };
                let output = Place::sliced(buffer, dtype.size(), of.world);
                let buffers = Buffers { input: Place::Nothing, output, sizes: Sizes::OfOutput };
                (of.chosen(op, buffer.len()), buffers, None)
            }
            Call::AllGather { input, outputs, .. } => {
                let (recipe, buffers) = of.all_gather(input, outputs);
                (recipe, buffers, None)
            }
            Call::Gather { uneven: true, .. }
            | Call::Scatter { uneven: true, .. }
            | Call::AllToAll { uneven: true, .. } => return None,
            Call::Gather { root, input, outputs, .. } => {
                let op = Collective::Gather { root: root.index() as u32 };
                let output = outputs.map_or(Place::Nothing, |it| Place::outputs(it, of.world));
                let sizes = Sizes::Same(input.len());
                let buffers = Buffers { input: Place::One(input), output, sizes };
                (of.between_root_and_all(op, input.len()), buffers, None)
            }
            Call::Scatter { root, inputs, output, .. } => {
                let op = Collective::Scatter { root: root.index() as u32 };
                let input = inputs.map_or(Place::Nothing, |it| Place::inputs(it, of.world));
                let sizes = Sizes::Same(output.len());
                let buffers = Buffers { input, output: Place::One(output), sizes };
                (of.between_root_and_all(op, output.len()), buffers, None)
            }
            Call::AllToAll { inputs, outputs, .. } => {
                let (recipe, buffers) = of.all_to_all(inputs, outputs);
                (recipe, buffers, None)
            }
        };
        Some(Self { recipe, buffers, cut: Cut::new(recipe, &buffers, of.world), numbers })
    }
}

struct Planner<'c> {
    choices: &'c Choices,
    me: usize,
    world: usize,
}

impl Planner<'_> {
    fn chosen(&self, op: Collective, bytes: usize) -> Recipe {
        self.choices.moving(op, || Recipe::Plan { algorithm: self.choices.chosen(op, bytes), op })
    }

    fn barrier(&self) -> Recipe {
        let op = Collective::Barrier;
        match self.choices.is_for_one(op, 0) {
            true => Recipe::Plan { algorithm: "flat", op },
            false => self.chosen(op, 0),
        }
    }

    fn all_reduce<'a>(
        &self,
        numbers: Numbers,
        input: Source<'a>,
        output: Target<'a>,
    ) -> (Recipe, Buffers<'a>) {
        let len = input.len();
        let recipe = match self.choices.combining(Collective::AllReduce, len, numbers) {
            _ if self.world == 1 => Recipe::Alone,
            Some(recipe) => recipe,
            None if self.choices.is_for_one(Collective::AllReduce, len) => Recipe::AllReduceAtOne,
            None if len * self.world <= SMALL => Recipe::AllReduceSmall,
            None => Recipe::AllReduceLarge,
        };
        let buffers = match recipe {
            Recipe::Alone | Recipe::AllReduceSmall | Recipe::AllReduceAtOne => {
                Buffers::whole(input, Some(output))
            }
            _ => Buffers::sliced(input, Some(output), numbers.0, self.world),
        };
        (recipe, buffers)
    }

    fn reduce<'a>(
        &self,
        numbers: Numbers,
        root: u32,
        input: Source<'a>,
        output: Option<Target<'a>>,
    ) -> (Recipe, Buffers<'a>) {
        let len = input.len();
        let recipe = match self.choices.combining(Collective::Reduce { root }, len, numbers) {
            _ if self.world == 1 => Recipe::Alone,
            Some(recipe) => recipe,
            None if self.world == 2 || len * self.world <= SMALL => Recipe::ReduceAtRoot { root },
            None => Recipe::ReduceLarge { root },
        };
        let buffers = match recipe {
            Recipe::Alone | Recipe::ReduceAtRoot { .. } => Buffers::whole(input, output),
            _ => Buffers::sliced(input, output, numbers.0, self.world),
        };
        (recipe, buffers)
    }

    fn reduce_scatter<'a>(
        &self,
        numbers: Numbers,
        inputs: Inputs<'a>,
        output: Target<'a>,
    ) -> (Recipe, Buffers<'a>) {
        let bytes = (0..self.world).map(|rank| inputs.part(rank, self.world).len()).sum();
        let recipe = match self.choices.combining(Collective::ReduceScatter, bytes, numbers) {
            _ if self.world == 1 => Recipe::Alone,
            Some(recipe) => recipe,
            None if self.choices.is_for_one(Collective::ReduceScatter, bytes) => {
                Recipe::ReduceScatterAtOne
            }
            None => Recipe::ReduceScatter,
        };
        let input = Place::inputs(inputs, self.world);
        (recipe, Buffers { input, output: Place::One(output), sizes: Sizes::OfInput })
    }

    fn all_gather<'a>(&self, input: Source<'a>, outputs: Outputs<'a>) -> (Recipe, Buffers<'a>) {
        let op = Collective::AllGather;
        let bytes: usize = (0..self.world).map(|rank| outputs.part(rank, self.world).len()).sum();
        let recipe = self.choices.moving(op, || {
            if self.choices.is_for_one(op, bytes) {
                Recipe::Plan { algorithm: "flat", op }
            } else if bytes <= FEW_ROUNDS {
                Recipe::Plan { algorithm: "bruck", op }
            } else {
                Recipe::AllGather
            }
        });
        let output = Place::outputs(outputs, self.world);
        (recipe, Buffers { input: Place::One(input), output, sizes: Sizes::OfOutput })
    }

    /// Gather and scatter.
    fn between_root_and_all(&self, op: Collective, part: usize) -> Recipe {
        let is_tree = self.world > FEW && part * self.world <= SMALL;
        let algorithm = if is_tree { "binomial" } else { "flat" };
        self.choices.moving(op, || Recipe::Plan { algorithm, op })
    }

    fn all_to_all<'a>(&self, inputs: Inputs<'a>, outputs: Outputs<'a>) -> (Recipe, Buffers<'a>) {
        let (op, world) = (Collective::AllToAll, self.world);
        let part = inputs.part(0, world).len();
        let is_same = |rank| {
            let output = outputs.part(rank, world).as_mut_ptr();
            inputs.part(rank, world).as_ptr() == output.cast_const()
        };
        let in_place = part > 0 && (0..world).any(|rank| rank != self.me && is_same(rank));
        let mut recipe = self.choices.moving(op, || {
            if self.choices.is_for_one(op, part * world) {
                Recipe::AllToAllAtOne
            } else if world > FEW && part <= TINY {
                Recipe::Plan { algorithm: "bruck", op }
            } else {
                Recipe::AllToAll { in_place }
            }
        });
        let sends_first = [Recipe::AllToAllAtOne, Recipe::Plan { algorithm: "bruck", op }];
        if in_place && !sends_first.contains(&recipe) {
            // These have sent everything before they write anything. The other ones have not, but
            // send the same messages as this, so that other ranks need not know.
            recipe = Recipe::AllToAll { in_place };
        }
        let (input, output) = (Place::inputs(inputs, world), Place::outputs(outputs, world));
        (recipe, Buffers { input, output, sizes: Sizes::Same(part) })
    }
}

/// Up to so many bytes of all ranks together, the number of rounds counts.
pub(super) const SMALL: usize = 64 << 10;
/// Up to so many bytes that all are to have, too.
const FEW_ROUNDS: usize = 1 << 20;
/// Up to so many bytes a part is better sent in company.
const TINY: usize = 512;
/// Up to so many ranks, one talks to all.
const FEW: usize = 8;
