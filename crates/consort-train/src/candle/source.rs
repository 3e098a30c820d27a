//! Where a model's variables come from while it is built.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Shape, Tensor, TensorId, Var, bail};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder, VarMap};

use crate::candle::ear::Ear;
use crate::candle::model::{Buffer, Learned, Model};
use crate::candle::numbers::{dtype, is_learned};
use crate::candle::options::Rule;

/// Gives a model the variables of a map, and takes note of them: parameters with an ear between them
/// and the model, buffers as they are.
#[derive(Clone)]
pub(crate) struct Source {
    variables: VarMap,
    is_buffer: Rule,
    device: Device,
    ear: Arc<Ear>,
    found: Arc<Mutex<Found>>,
}

#[derive(Default)]
struct Found {
    /// What the model was given under each name.
    given: HashMap<String, Tensor>,
    /// And for each variable, which may have several names.
    given_for: HashMap<TensorId, Tensor>,
    model: Model,
    is_complete: bool,
}

impl Source {
    pub(crate) fn new(variables: &VarMap, is_buffer: Rule, device: Device, ear: Arc<Ear>) -> Self {
        Self { variables: variables.clone(), is_buffer, device, ear, found: Arc::default() }
    }

    /// What a model is built with.
    pub(crate) fn builder(&self, dtype: DType) -> VarBuilder<'static> {
        VarBuilder::from_backend(Box::new(self.clone()), dtype, self.device.clone())
    }

    /// What the model has asked for, in that order. It gets nothing else from now on.
    pub(crate) fn complete(&self) -> Model {
        let mut found = self.found();
        found.is_complete = true;
        std::mem::take(&mut found.model)
    }

    /// What the model is given for a variable that it has not asked for before.
    fn give(&self, found: &mut Found, name: &str, variable: Var) -> Result<Tensor> {
        self.check(name, &variable)?;
        if !is_learned(variable.dtype()) || self.is_buffer.is_buffer(name) {
            let tensor = variable.as_tensor().clone();
            found.model.buffers.push(Buffer { name: name.to_owned(), variable });
            return Ok(tensor);
        }
        let index = found.model.parameters.len();
        let tensor = self.ear.between(&variable, index, name)?;
        found.model.parameters.push(Learned::new(name, variable, &tensor)?);
        Ok(tensor)
    }

    /// Whether a variable can be shared between ranks.
    fn check(&self, name: &str, variable: &Var) -> Result<()> {
        dtype(variable.dtype()).map_err(|error| error.context(format!("variable {name:?}")))?;
        self.check_place(&format!("variable {name:?} is"), variable.device())?;
        if !variable.is_contiguous() {
            bail!(
                "variable {name:?} does not lie row by row: make it with Var::from_tensor of a copy"
            )
        }
        Ok(())
    }

    /// Whether something is where the model is.
    fn check_place(&self, what: &str, on: &Device) -> Result<()> {
        if self.device.same_device(on) {
            return Ok(());
        }
        let (there, here) = (on.location(), self.device.location());
        bail!(
            "{what} on {there:?}, and the model is trained on {here:?}: Options::device says where that is"
        )
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimpleBackend for Source {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        init: Init,
        dtype: DType,
        on: &Device,
    ) -> Result<Tensor> {
        let mut found = self.found();
        if let Some(tensor) = found.given.get(name) {
            if *tensor.shape() != shape {
                let (has, wants) = (tensor.shape(), shape);
                bail!("{name:?} is asked for with shape {wants:?}, and before with {has:?}")
            }
            return Ok(tensor.clone());
        }
        if found.is_complete {
            bail!(
                "{name:?} is asked for when the model was complete: ask for all variables while \
                 DistributedDataParallel::new builds it"
            )
        }
        self.check_place(&format!("{name:?} is asked for"), on)?;
        let variable = Var::from_tensor(&self.variables.get(shape, name, init, dtype, on)?)?;
        let tensor = match found.given_for.get(&variable.id()) {
            Some(tensor) => tensor.clone(),
            None => {
                let id = variable.id();
                let tensor = self.give(&mut found, name, variable)?;
                found.given_for.insert(id, tensor.clone());
                tensor
            }
        };
        found.given.insert(name.to_owned(), tensor.clone());
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, on: &Device) -> Result<Tensor> {
        let there = {
            let all = self.variables.data().lock().unwrap_or_else(PoisonError::into_inner);
            all.get(name).map(|variable| variable.shape().clone())
        };
        match there {
            Some(shape) => self.get(shape, name, Init::Const(0.0), dtype, on),
            None => bail!("{name:?} is asked for without a shape, and is not in the map"),
        }
    }

    fn contains_tensor(&self, name: &str) -> bool {
        SimpleBackend::contains_tensor(&self.variables, name)
    }
}
