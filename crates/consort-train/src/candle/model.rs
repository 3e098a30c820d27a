//! A model's variables, as the ranks know them.

use std::collections::HashSet;

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, TensorId, Var};

use crate::candle::numbers::{dtype, filled, with_bytes};
use crate::error::Error;
use crate::parameter::Parameter;

/// The variables of a model, in the order in which it asked for them.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) parameters: Vec<Learned>,
    pub(crate) buffers: Vec<Buffer>,
}

/// A parameter: the variable, which the optimizer changes, and the copy that the model computes with.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) name: String,
    pub(crate) variable: Var,
    /// What the model was given.
    given: TensorId,
    /// The variable's elements in one row, in the same memory.
    original: Tensor,
    /// Those of the copy.
    copy: Tensor,
}

/// A variable that is not learned.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) variable: Var,
}

impl Model {
    /// All variables by name: parameters, then buffers.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &Var)> + Clone {
        let parameters = self.parameters.iter().map(|it| (&it.name[..], &it.variable));
        parameters.chain(self.buffers.iter().map(|it| (&it.name[..], &it.variable)))
    }

    /// The parameters, as a reducer knows them.
    pub(crate) fn described(&self) -> Result<Vec<Parameter>> {
        let describe = |it: &Learned| {
            let dtype = dtype(it.variable.dtype())?;
            Ok(Parameter::new(&it.name, dtype, it.variable.dims()))
        };
        self.parameters.iter().map(describe).collect()
    }

    /// Gives the model what its variables are now.
    pub(crate) fn refresh(&self) -> Result<()> {
        let mut full = self.parameters.iter().filter(|it| it.original.elem_count() > 0);
        full.try_for_each(|it| it.copy.slice_set(&it.original, 0, 0))
    }

    /// Which parameters have a part in a loss, by what the model was given for them.
    pub(crate) fn parts_of(&self, loss: &Tensor) -> Vec<bool> {
        let nodes: HashSet<TensorId> = loss.sorted_nodes().into_iter().map(Tensor::id).collect();
        self.parameters.iter().map(|it| nodes.contains(&it.given)).collect()
    }

    /// Whether a backward has found nothing for variables of parameters. What the model was given for them
    /// is heard of elsewhere, so that this would be of the variable itself.
    ///
    /// # Errors
    /// [`Error::Bypassed`] if it has.
    pub(crate) fn check_through(&self, gradients: &GradStore) -> crate::Result<()> {
        match self.parameters.iter().find(|it| gradients.get(&it.variable).is_some()) {
            Some(parameter) => Err(Error::Bypassed { name: parameter.name.clone() }),
            None => Ok(()),
        }
    }

    /// Whether the model computes with what its variables are now. It looks at some of their numbers.
    ///
    /// # Errors
    /// [`Error::Stale`] if it does not.
    pub(crate) fn check_fresh(&self) -> crate::Result<()> {
        for parameter in &self.parameters {
            let [original, copy] = [&parameter.original, &parameter.copy].map(some_of);
            let (original, copy) = (original?, copy?);
            let is_same = with_bytes(&original, |original| {
                with_bytes(&copy, |copy| looks_the_same(original, copy))
            });
            if !is_same?? {
                return Err(Error::Stale { name: parameter.name.clone() });
            }
        }
        Ok(())
    }
}

impl Learned {
    /// A variable, and what the model is given for it.
    pub(crate) fn new(name: &str, variable: Var, given: &Tensor) -> Result<Self> {
        let original = variable.as_detached_tensor().flatten_all()?;
        let copy = given.detach().flatten_all()?;
        Ok(Self { name: name.to_owned(), variable, given: given.id(), original, copy })
    }
}

/// Changes a variable to these numbers.
pub(crate) fn set(variable: &Var, bytes: &[u8]) -> crate::Result<()> {
    let fill = |room: &mut [u8]| {
        room.copy_from_slice(bytes);
        Ok(())
    };
    let numbers = filled(variable.dtype(), variable.shape(), fill)?;
    Ok(variable.set(&numbers.to_device(variable.device())?)?)
}

/// A part of a row that tells whether all of it has changed: all of it, where that can be looked at. From a device
/// every look is a copy, and one is made, of the end.
fn some_of(row: &Tensor) -> Result<Tensor> {
    let count = row.elem_count();
    if !row.device().is_cuda() || count == 0 {
        return Ok(row.clone());
    }
    let few = count.min(LINE / row.dtype().size_in_bytes());
    row.narrow(0, count - few, few)
}

/// Compares lines of memory at even distances, with the first and the last.
fn looks_the_same(one: &[u8], other: &[u8]) -> bool {
    let lines = one.len().div_ceil(LINE);
    let step = lines.div_ceil(LOOKS).max(1);
    let places = (0..lines).step_by(step).chain(lines.checked_sub(1));
    let part = |line: usize| line * LINE..one.len().min((line + 1) * LINE);
    places.map(part).all(|part| one[part.clone()] == other[part])
}

/// What a processor fetches at a time.
const LINE: usize = 64;
/// So many lines of each variable are looked at.
const LOOKS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_everything_is_seen_in_any_size_and_one_at_the_ends_too() {
        for len in [0, 1, 63, 64, 65, 1000, 100_003] {
            let one = vec![1; len];
            assert!(looks_the_same(&one, &one));
            assert_eq!(looks_the_same(&one, &vec![2; len]), len == 0);
            for at in [0, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
                let mut other = one.clone();
                other[at] = 2;
                assert!(!looks_the_same(&one, &other), "{at} of {len}");
            }
        }
    }
}
