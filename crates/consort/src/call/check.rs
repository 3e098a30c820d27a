//! What can be wrong with a call before anything moves.
//!
//! What is said of it is meant for those who call the methods of `Group`: it counts elements, and
//! uses their parameters' names.

mod overlap;
mod parts;

use std::fmt::Display;

use consort_sys::dtype::Dtype;
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use self::parts::Parts;
use super::Call;
use crate::error::{Error, Result};
use crate::group::Rank;

impl Call<'_> {
    /// Whether a rank may make this call in a group of `world` ranks: what can be known before it is made,
    /// without the others. [`Group::call`](crate::Group::call) looks by itself; this is for bindings that
    /// keep calls for later.
    ///
    /// ```
    /// use consort::{Call, Dtype, Element, ReduceOp};
    ///
    /// let mut numbers = [1.0_f32, 2.0];
    /// let output = f32::target(&mut numbers);
    /// let (dtype, op, input) = (Dtype::F32, ReduceOp::Sum, output.into());
    /// Call::AllReduce { dtype, op, input, output }.check(0.into(), 4)?;
    /// // Half a number is no number.
    /// let output = output.slice(0..6);
    /// assert!(Call::AllReduce { dtype, op, input, output }.check(0.into(), 4).is_err());
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn check(&self, me: Rank, world: usize) -> Result<()> {
        self.find_fault(me.index(), world).map_err(|error| match error {
            Error::Argument(what) => Error::Argument(format!("{}: {what}", self.operation())),
            other => other,
        })
    }

    #[inline]
    fn find_fault(&self, me: usize, world: usize) -> Result<()> {
        let check = |dtype| Check { dtype, me, world };
        match *self {
            Call::Barrier => Ok(()),
            Call::AllReduce { dtype, op, input, output } => {
                Kernel::new(dtype, op, world)?;
                check(dtype).reduced(input, output)
            }
            Call::Broadcast { dtype, root, buffer } => {
                check(dtype).root(root)?;
                check(dtype).whole("buffer", buffer.len())
            }
            Call::Reduce { dtype, op, root, input, output } => {
                Kernel::new(dtype, op, world)?;
                check(dtype).only_on_root(root, "output", output.is_some())?;
                match output {
                    Some(output) => check(dtype).reduced(input, output),
                    None => check(dtype).whole("input", input.len()),
                }
            }
            Call::AllGather { dtype, input, outputs } => {
                check(dtype).apportioned(("input", input), outputs.into())
            }
            Call::Gather { dtype, root, uneven, input, outputs } => {
                let name = if uneven { "outputs" } else { "output" };
                check(dtype).only_on_root(root, name, outputs.is_some())?;
                match outputs.map(Parts::from) {
                    Some(outputs) => {
                        check(dtype).even(uneven, outputs)?;
                        check(dtype).apportioned(("input", input), outputs)
                    }
                    None => check(dtype).whole("input", input.len()),
                }
            }
            Call::Scatter { dtype, root, uneven, inputs, output } => {
                let name = if uneven { "inputs" } else { "input" };
                check(dtype).only_on_root(root, name, inputs.is_some())?;
                match inputs.map(Parts::from) {
                    Some(inputs) => {
                        check(dtype).even(uneven, inputs)?;
                        check(dtype).apportioned(("output", output.into()), inputs)
                    }
                    None => check(dtype).whole("output", output.len()),
                }
            }
            Call::ReduceScatter { dtype, op, inputs, output } => {
                Kernel::new(dtype, op, world)?;
                check(dtype).truths(output)?;
                check(dtype).apportioned(("output", output.into()), inputs.into())
            }
            Call::AllToAll { dtype, uneven, inputs, outputs } => {
                check(dtype).exchanged(uneven, inputs.into(), outputs.into())
            }
        }
    }
}

struct Check {
    dtype: Dtype,
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

    /// An input of each rank, and one output.
    fn reduced(&self, input: Source<'_>, output: Target<'_>) -> Result<()> {
        self.whole("input", input.len())?;
        self.truths(output)?;
        self.equal(("output", output.len()), ("input", input.len()))?;
        overlap::all_or_nothing("output", output.into(), "input", input)
    }

    /// What a rank has for itself, and a part for each rank, of which one is as large.
    fn apportioned(&self, own: (&str, Source<'_>), parts: Parts<'_>) -> Result<()> {
        let (name, own) = own;
        let Some(all) = parts.in_one() else {
            self.listed(parts)?;
            self.whole(name, own.len())?;
            self.equal(
                (parts.name_of(self.me), parts.part(self.me, self.world).len()),
                (name, own.len()),
            )?;
            return overlap::with_one_part(self.me, self.world, parts, name, own);
        };
        if overlap::are_same(parts.part(self.me, self.world), own) {
            return self.divides("buffer", all.len());
        }
        self.whole(name, own.len())?;
        self.whole(parts.name(), all.len())?;
        if own.len().checked_mul(self.world) != Some(all.len()) {
            let (has, each) = (self.amount(all.len()), own.len() / self.dtype.size());
            let (world, needed) = (self.world, each.saturating_mul(self.world));
            let all = parts.name();
            return refuse(format!(
                "{all} has {has}, but {world} ranks with {each} each, as in {name}, need {needed}"
            ));
        }
        overlap::with_one_part(self.me, self.world, parts, name, own)
    }

    /// A part from each rank to each.
    fn exchanged(&self, uneven: bool, inputs: Parts<'_>, outputs: Parts<'_>) -> Result<()> {
        if let (Some(input), Some(output)) = (inputs.in_one(), outputs.in_one()) {
            if overlap::are_same(input, output) {
                return self.divides("buffer", input.len());
            }
            self.divides(inputs.name(), input.len())?;
            self.divides(outputs.name(), output.len())?;
            self.equal((outputs.name(), output.len()), (inputs.name(), input.len()))?;
        }
        for parts in [inputs, outputs] {
            match parts.in_one() {
                Some(all) => self.divides(parts.name(), all.len())?,
                None => self.listed(parts)?,
            }
            self.even(uneven, parts)?;
        }
        let own = |parts: Parts<'_>| parts.part(self.me, self.world).len();
        self.equal(
            (outputs.name_of(self.me), own(outputs)),
            (inputs.name_of(self.me), own(inputs)),
        )?;
        overlap::part_by_part(self.world, inputs, outputs)
    }

    /// One for each rank, all of them whole, and none written twice.
    fn listed(&self, parts: Parts<'_>) -> Result<()> {
        let (count, name, world) = (parts.count(self.world), parts.name(), self.world);
        if count != world {
            return refuse(format!("there are {count} {name} for {world} ranks"));
        }
        for rank in 0..world {
            self.whole(parts.name_of(rank), parts.part(rank, world).len())?;
        }
        if let Parts::Outputs(parts) = parts { overlap::none_of(parts) } else { Ok(()) }
    }

    fn even(&self, uneven: bool, parts: Parts<'_>) -> Result<()> {
        let count = parts.count(self.world);
        let size = |rank| parts.part(rank, self.world).len();
        match (1..count).find(|&rank| !uneven && size(rank) != size(0)) {
            None => Ok(()),
            Some(rank) => {
                let (name, first) = (parts.name_of(rank), parts.name_of(0));
                let (amount, other) = (self.amount(size(rank)), self.amount(size(0)));
                refuse(format!(
                    "{name} has {amount}, {first} has {other}: parts that differ in size need the \
                     uneven form"
                ))
            }
        }
    }

    fn whole(&self, name: impl Display, bytes: usize) -> Result<()> {
        if bytes.is_multiple_of(self.dtype.size()) {
            return Ok(());
        }
        refuse(format!("{name} has {bytes} bytes, which are not a whole number of {}", self.dtype))
    }

    fn divides(&self, name: &str, bytes: usize) -> Result<()> {
        self.whole(name, bytes)?;
        if (bytes / self.dtype.size()).is_multiple_of(self.world) {
            return Ok(());
        }
        let (amount, world) = (self.amount(bytes), self.world);
        refuse(format!("{name} has {amount}, which {world} ranks cannot share equally"))
    }

    fn equal(&self, one: (impl Display, usize), other: (impl Display, usize)) -> Result<()> {
        if one.1 == other.1 {
            return Ok(());
        }
        let (amount, other_amount) = (self.amount(one.1), self.amount(other.1));
        let (one, other) = (one.0, other.0);
        refuse(format!("{one} has {amount}, {other} has {other_amount}: they must be equal"))
    }

    /// Nothing but truths is computed into a slice of `bool`.
    fn truths(&self, output: Target<'_>) -> Result<()> {
        if self.dtype == Dtype::Bool || !output.holds_truths() {
            return Ok(());
        }
        refuse(format!("the result, which is {}, cannot go to a slice of bool", self.dtype))
    }

    /// As people count it; bytes, if they are no whole number of elements.
    fn amount(&self, bytes: usize) -> String {
        match bytes.is_multiple_of(self.dtype.size()) {
            true => format!("{} {}", bytes / self.dtype.size(), self.dtype),
            false => format!("{bytes} bytes"),
        }
    }
}

#[cold]
fn refuse(what: String) -> Result<()> {
    Err(Error::Argument(what))
}

#[cfg(test)]
mod tests;
