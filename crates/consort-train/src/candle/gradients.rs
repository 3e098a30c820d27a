//! What comes of a backward on many ranks.

use std::sync::Arc;

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor, Var};

use crate::candle::model::Model;
use crate::candle::numbers::with_bytes;
use crate::error::{Error, Result};

/// The gradients of a model, averaged over all ranks: the same bits on every rank.
///
/// Variables that are not the model's, such as an input whose gradient is wanted, have this rank's own.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{Init, VarMap};
/// use consort_train::candle::DistributedDataParallel;
///
/// # fn main() -> consort_train::Result<()> {
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let variables = VarMap::new();
/// let (ddp, weight) = DistributedDataParallel::new(&group, &variables, DType::F32, |vb| {
///     vb.get_with_hints(2, "weight", Init::Const(3.0))
/// })?;
/// let mut gradients = ddp.backward(&weight.sqr()?.sum_all()?)?;
/// let weight = &ddp.vars()[0];
/// assert_eq!(gradients.get(weight).unwrap().to_vec1::<f32>()?, [6.0, 6.0]);
/// // Long ones are made shorter.
/// assert!((gradients.clip_norm(1.0)? - 72_f64.sqrt()).abs() < 1e-6);
/// assert!((gradients.norm()? - 1.0).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "parameters change when an optimizer is given them"]
pub struct Gradients {
    model: Arc<Model>,
    store: GradStore,
}

impl Gradients {
    pub(crate) fn new(model: Arc<Model>, store: GradStore) -> Self {
        Self { model, store }
    }

    /// The gradient of a variable. One that has no part in the loss on any rank has none.
    pub fn get(&self, variable: &Var) -> Option<&Tensor> {
        self.store.get(variable)
    }

    /// All of them, as optimizers want them.
    pub fn store(&self) -> &GradStore {
        &self.store
    }

    /// The length of all gradients of the model's parameters together, as if they were one vector: the
    /// same on every rank. On CUDA devices it is computed there, and the same if they are of one kind.
    ///
    /// # Errors
    /// When candle cannot do it.
    pub fn norm(&self) -> Result<f64> {
        let mut sum = 0.0;
        for gradient in self.model.parameters.iter().filter_map(|it| self.store.get(&it.variable)) {
            sum += sum_of_squares(gradient)?;
        }
        Ok(sum.sqrt())
    }

    /// Makes the gradients of the model's parameters shorter, all by the same factor, if together they
    /// are longer than this. Gives their length before. If that is no finite number, as after an
    /// overflow, they are left alone: it is the same on every rank, so that all can skip the step.
    ///
    /// # Errors
    /// When `max` is not a positive number.
    pub fn clip_norm(&mut self, max: f64) -> Result<f64> {
        if !(max > 0.0 && max.is_finite()) {
            return Err(Error::Argument(format!("gradients cannot be cut to a length of {max}")));
        }
        let norm = self.norm()?;
        if norm > max && norm.is_finite() {
            for variable in self.model.parameters.iter().map(|it| &it.variable) {
                if let Some(gradient) = self.store.get(variable) {
                    let shorter = (gradient * (max / norm))?;
                    self.store.insert(variable, shorter);
                }
            }
        }
        Ok(norm)
    }
}

/// With more bits than the gradients have, in the order in which they lie, or in that of candle's kernel.
fn sum_of_squares(gradient: &Tensor) -> Result<f64> {
    let wide = gradient.to_dtype(DType::F64)?;
    if wide.device().is_cuda() {
        return Ok(wide.sqr()?.sum_all()?.to_scalar::<f64>()?);
    }
    let sum = with_bytes(&wide, |bytes| {
        let squares = bytemuck::cast_slice::<u8, f64>(bytes).iter().map(|number| number * number);
        squares.sum::<f64>()
    });
    Ok(sum?)
}
