//! What can be wrong with a call before anything moves.

use consort_sys::dtype::Dtype;
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::{Call, Inputs, Outputs};
use crate::error::{Error, Result};
use crate::group::Rank;

impl Call<'_> {
    /// Whether a rank may make this call in a group of `world` ranks.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub(crate) fn check(&self, me: Rank, world: usize) -> Result<()> {
        let check = Check { me: me.index(), world };
        match *self {
            Call::Barrier => Ok(()),
            Call::AllReduce { dtype, op, input, output } => {
                Kernel::new(dtype, op, world)?;
                check.whole(dtype, input.len())?;
                check.truths(dtype, output)?;
                check.in_place("output", output, "input", input)
            }
            Call::Broadcast { dtype, root, buffer } => {
                check.root(root)?;
                check.whole(dtype, buffer.len())
            }
            Call::Reduce { dtype, op, root, input, output } => {
                Kernel::new(dtype, op, world)?;
                check.only_on_root(root, "output", output.is_some())?;
                check.whole(dtype, input.len())?;
                let Some(output) = output else { return Ok(()) };
                check.truths(dtype, output)?;
                check.in_place("output", output, "input", input)
            }
            Call::AllGather { dtype, input, outputs } => {
                check.whole(dtype, input.len())?;
                check.outputs(dtype, outputs, Some(input))
            }
            Call::Gather { dtype, root, uneven, input, outputs } => {
                check.only_on_root(root, "outputs", outputs.is_some())?;
                check.whole(dtype, input.len())?;
                let Some(outputs) = outputs else { return Ok(()) };
                check.outputs(dtype, outputs, Some(input))?;
                check.even(uneven, |rank| outputs.part(rank, world).len())
            }
            Call::Scatter { dtype, root, uneven, inputs, output } => {
                check.only_on_root(root, "inputs", inputs.is_some())?;
                check.whole(dtype, output.len())?;
                let Some(inputs) = inputs else { return Ok(()) };
                check.inputs(dtype, inputs, output)?;
                check.even(uneven, |rank| inputs.part(rank, world).len())
            }
            Call::ReduceScatter { dtype, op, inputs, output } => {
                Kernel::new(dtype, op, world)?;
                check.truths(dtype, output)?;
                check.inputs(dtype, inputs, output)
            }
            Call::AllToAll { dtype, uneven, inputs, outputs } => {
                check.outputs(dtype, outputs, None)?;
                check.parts_of_inputs(dtype, inputs)?;
                check.even(uneven, |rank| inputs.part(rank, world).len())?;
                check.even(uneven, |rank| outputs.part(rank, world).len())?;
                check.apart_or_the_same(inputs, outputs)?;
                let (mine, to_me) =
                    (inputs.part(me.index(), world), outputs.part(me.index(), world));
                check.equal("this rank's part for itself", mine.len(), to_me.len())
            }
        }
    }
}

struct Check {
    me: usize,
    world: usize,
}

impl Check {
    fn root(&self, root: Rank) -> Result<()> {
        if root.index() < self.world {
            return Ok(());
        }
        refuse(format!("there is no rank {root} in a group of {}", self.world))
    }

    fn only_on_root(&self, root: Rank, what: &str, given: bool) -> Result<()> {
        self.root(root)?;
        match (root.index() == self.me, given) {
            (true, false) => refuse(format!("the root, rank {root}, has to give {what}")),
            (false, true) => refuse(format!("only the root, rank {root}, gives {what}")),
            _ => Ok(()),
        }
    }

    fn whole(&self, dtype: Dtype, bytes: usize) -> Result<()> {
        if bytes.is_multiple_of(dtype.size()) {
            return Ok(());
        }
        refuse(format!("{bytes} bytes are not a whole number of {dtype}"))
    }

    /// Nothing but truths is computed into a slice of `bool`.
    fn truths(&self, dtype: Dtype, output: Target<'_>) -> Result<()> {
        if dtype == Dtype::Bool || !output.holds_truths() {
            return Ok(());
        }
        refuse(format!("the result, which is {dtype}, cannot go to a slice of bool"))
    }

    fn equal(&self, what: &str, one: usize, other: usize) -> Result<()> {
        if one == other {
            return Ok(());
        }
        refuse(format!("{what} has {one} bytes on one side and {other} on the other"))
    }

    /// An output as large as its input, and either the same memory or none of it.
    fn in_place(&self, name: &str, to: Target<'_>, other: &str, from: Source<'_>) -> Result<()> {
        if to.len() != from.len() {
            let (to, from) = (to.len(), from.len());
            return refuse(format!(
                "{name} has {to} bytes, {other} has {from}: they must be equal"
            ));
        }
        if overlaps(to, from) && to.as_mut_ptr().cast_const() != from.as_ptr() {
            return refuse(format!(
                "{name} overlaps a part of {other}: give the same memory or another"
            ));
        }
        Ok(())
    }

    fn outputs(&self, dtype: Dtype, outputs: Outputs<'_>, input: Option<Source<'_>>) -> Result<()> {
        match outputs {
            Outputs::Equal(all) => self.divides(dtype, "outputs", all.len())?,
            Outputs::List(parts) => {
                self.one_for_each("outputs", parts.len())?;
                for part in parts {
                    self.whole(dtype, part.len())?;
                }
                self.disjoint(parts)?;
            }
        }
        let Some(input) = input else { return Ok(()) };
        let mine = outputs.part(self.me, self.world);
        self.in_place("this rank's part of the outputs", mine, "input", input)?;
        for rank in (0..self.world).filter(|&rank| rank != self.me) {
            if overlaps(outputs.part(rank, self.world), input) {
                return refuse(format!("the output for rank {rank} overlaps the input"));
            }
        }
        Ok(())
    }

    fn inputs(&self, dtype: Dtype, inputs: Inputs<'_>, output: Target<'_>) -> Result<()> {
        self.parts_of_inputs(dtype, inputs)?;
        let mine = inputs.part(self.me, self.world);
        self.in_place("output", output, "this rank's part of the inputs", mine)?;
        for rank in (0..self.world).filter(|&rank| rank != self.me) {
            if overlaps(output, inputs.part(rank, self.world)) {
                return refuse(format!("output overlaps the input for rank {rank}"));
            }
        }
        Ok(())
    }

    fn parts_of_inputs(&self, dtype: Dtype, inputs: Inputs<'_>) -> Result<()> {
        match inputs {
            Inputs::Equal(all) => self.divides(dtype, "inputs", all.len()),
            Inputs::List(parts) => {
                self.one_for_each("inputs", parts.len())?;
                parts.iter().try_for_each(|part| self.whole(dtype, part.len()))
            }
        }
    }

    /// In place, part by part, or nowhere near.
    fn apart_or_the_same(&self, inputs: Inputs<'_>, outputs: Outputs<'_>) -> Result<()> {
        for from in 0..self.world {
            for to in 0..self.world {
                let (input, output) = (inputs.part(from, self.world), outputs.part(to, self.world));
                let same = from == to
                    && input.len() == output.len()
                    && output.as_mut_ptr().cast_const() == input.as_ptr();
                if !same && overlaps(output, input) {
                    let message = "overlap: in place, each rank's part has to be the same memory";
                    return refuse(format!(
                        "the output from rank {to} and the input for rank {from} {message}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn divides(&self, dtype: Dtype, what: &str, bytes: usize) -> Result<()> {
        self.whole(dtype, bytes)?;
        let elements = bytes / dtype.size();
        if elements.is_multiple_of(self.world) {
            return Ok(());
        }
        refuse(format!(
            "{what} has {elements} elements, which {} ranks cannot share equally",
            self.world
        ))
    }

    fn one_for_each(&self, what: &str, count: usize) -> Result<()> {
        if count == self.world {
            return Ok(());
        }
        refuse(format!("{what} has {count} parts for {} ranks", self.world))
    }

    fn even(&self, uneven: bool, size: impl Fn(usize) -> usize) -> Result<()> {
        match (1..self.world).find(|&rank| !uneven && size(rank) != size(0)) {
            None => Ok(()),
            Some(rank) => {
                let (bytes, first) = (size(rank), size(0));
                refuse(format!(
                    "rank {rank}'s part has {bytes} bytes, rank 0's {first}: parts that differ in \
                     size need the uneven form"
                ))
            }
        }
    }

    fn disjoint(&self, parts: &[Target<'_>]) -> Result<()> {
        let mut order: Vec<usize> = (0..parts.len()).filter(|&i| !parts[i].is_empty()).collect();
        order.sort_unstable_by_key(|&i| parts[i].as_mut_ptr());
        for pair in order.windows(2) {
            if overlaps(parts[pair[0]], parts[pair[1]].into()) {
                let (a, b) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                return refuse(format!("the outputs for ranks {a} and {b} overlap"));
            }
        }
        Ok(())
    }
}

fn overlaps(to: Target<'_>, from: Source<'_>) -> bool {
    let (to_start, from_start) = (to.as_mut_ptr().addr(), from.as_ptr().addr());
    !to.is_empty()
        && !from.is_empty()
        && to_start < from_start + from.len()
        && from_start < to_start + to.len()
}

fn refuse(what: String) -> Result<()> {
    Err(Error::Argument(what))
}
