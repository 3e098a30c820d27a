//! The model that our ranks train: linear layers with nothing but a threshold in between.

use candle_core::{Device, Result, Tensor};
use candle_nn::init::{DEFAULT_KAIMING_NORMAL, Init};
use candle_nn::{VarBuilder, loss};

use super::shape::Shape;

/// A chain of linear layers. Numbers keep their size on the way through it: weights are drawn for that.
#[derive(Debug)]
pub(crate) struct Network {
    layers: Vec<Layer>,
}

/// A matrix that is applied as it lies. Candle's own `Linear` transposes it first, and most of a backward
/// is then spent on adding numbers that do not lie side by side; what communication adds would hardly be
/// seen beside that.
#[derive(Debug)]
struct Layer {
    weight: Tensor,
    bias: Tensor,
}

/// What is learned from.
#[derive(Debug)]
pub(crate) struct Batch {
    inputs: Tensor,
    targets: Tensor,
}

impl Network {
    /// Makes its parameters, or takes those that there are.
    pub(crate) fn new(shape: &Shape, parameters: &VarBuilder<'_>) -> Result<Self> {
        let Shape { layers, width, .. } = *shape;
        let layer = |at: usize| Layer::new(width, &parameters.pp(at));
        Ok(Self { layers: (0..layers).map(layer).collect::<Result<_>>()? })
    }

    /// How far it is from what it should say.
    pub(crate) fn loss(&self, batch: &Batch) -> Result<Tensor> {
        let (last, others) = self.layers.split_last().expect("a shape has a layer");
        let mut numbers = batch.inputs.clone();
        for layer in others {
            numbers = layer.forward(&numbers)?.relu()?;
        }
        loss::mse(&last.forward(&numbers)?, &batch.targets)
    }
}

impl Layer {
    fn new(width: usize, parameters: &VarBuilder<'_>) -> Result<Self> {
        let weight = parameters.get_with_hints((width, width), "weight", DEFAULT_KAIMING_NORMAL)?;
        let up = (width as f64).sqrt().recip();
        let bias = parameters.get_with_hints(width, "bias", Init::Uniform { lo: -up, up })?;
        Ok(Self { weight, bias })
    }

    fn forward(&self, numbers: &Tensor) -> Result<Tensor> {
        numbers.matmul(&self.weight)?.broadcast_add(&self.bias)
    }
}

impl Batch {
    /// Draws one.
    pub(crate) fn new(shape: &Shape) -> Result<Self> {
        let size = (shape.batch, shape.width);
        let draw = || Tensor::randn(0_f32, 1_f32, size, &Device::Cpu);
        Ok(Self { inputs: draw()?, targets: draw()? })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use candle_nn::{Optimizer, SGD, VarMap};

    use super::*;

    #[test]
    fn it_has_the_parameters_of_its_shape_and_learns() {
        let shape = Shape { layers: 3, width: 8, batch: 4 };
        let parameters = VarMap::new();
        let builder = VarBuilder::from_varmap(&parameters, DType::F32, &Device::Cpu);
        let (network, batch) =
            (Network::new(&shape, &builder).unwrap(), Batch::new(&shape).unwrap());
        let learned = parameters.all_vars();
        assert_eq!(learned.len(), shape.tensors());
        let count: usize = learned.iter().map(|tensor| tensor.elem_count()).sum();
        assert_eq!(count, shape.parameters());

        let loss = || network.loss(&batch).unwrap();
        let before = loss().to_scalar::<f32>().unwrap();
        let mut optimizer = SGD::new(learned, 1e-2).unwrap();
        for _ in 0..20 {
            optimizer.backward_step(&loss()).unwrap();
        }
        let after = loss().to_scalar::<f32>().unwrap();
        assert!(after < before, "{before} became {after}");
    }
}
