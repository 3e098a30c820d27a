//! The model that learns to read digits: four convolutions and two full layers.

use candle_core::{Device, Result, Tensor, Var};
use candle_nn::{Conv2d, Conv2dConfig, Linear, Module, VarBuilder, VarMap, conv2d, linear};

use super::digits::{Digit, SIDE};
use super::random::Random;

/// What reads digits.
#[derive(Debug)]
pub(crate) struct Net {
    edges: Conv2d,
    corners: Conv2d,
    shapes: Conv2d,
    wholes: Conv2d,
    parts: Linear,
    digit: Linear,
}

impl Net {
    /// Makes its parameters, whose values [`initialise`] sets.
    pub(crate) fn new(vb: VarBuilder<'_>) -> Result<Self> {
        let slide = Conv2dConfig { padding: 1, ..Conv2dConfig::default() };
        // Halves width and height.
        let stride = Conv2dConfig { stride: 2, ..slide };
        Ok(Self {
            edges: conv2d(1, EDGES, 3, slide, vb.pp("edges"))?,
            corners: conv2d(EDGES, CORNERS, 3, stride, vb.pp("corners"))?,
            shapes: conv2d(CORNERS, SHAPES, 3, stride, vb.pp("shapes"))?,
            wholes: conv2d(SHAPES, WHOLES, 3, stride, vb.pp("wholes"))?,
            parts: linear(WHOLES * LEFT * LEFT, PARTS, vb.pp("parts"))?,
            digit: linear(PARTS, 10, vb.pp("digit"))?,
        })
    }
}

impl Module for Net {
    /// How much each picture looks like each digit.
    ///
    /// What is between the layers is smooth: where it has corners, a gradient that is rounded otherwise
    /// goes round another one now and then, and one process and several ranks drift apart for no other reason.
    fn forward(&self, pictures: &Tensor) -> Result<Tensor> {
        let it = self.edges.forward(pictures)?.silu()?;
        let it = self.corners.forward(&it)?.silu()?;
        let it = self.shapes.forward(&it)?.silu()?;
        let it = self.wholes.forward(&it)?.silu()?;
        let it = self.parts.forward(&it.flatten_from(1)?)?.silu()?;
        self.digit.forward(&it)
    }
}

/// Sets all parameters from a seed: the same in every process. candle's own choice is another each time.
pub(crate) fn initialise(parameters: &VarMap, seed: u64) -> Result<()> {
    let parameters = parameters.data().lock().expect("nobody panics while holding it");
    let mut named: Vec<(&String, &Var)> = parameters.iter().collect();
    named.sort_unstable_by_key(|(name, _)| *name);
    for (number, (_, parameter)) in named.into_iter().enumerate() {
        let mut random = Random::of(&[seed, PARAMETERS, number as u64]);
        // As much comes out of a layer as goes in; a bias has nothing that goes in.
        let inputs: usize = parameter.dims()[1..].iter().product();
        let most = if parameter.rank() == 1 { 0.0 } else { (6.0 / inputs as f32).sqrt() };
        let values: Vec<f32> =
            (0..parameter.elem_count()).map(|_| random.between(-most, most)).collect();
        parameter.set(&Tensor::from_vec(values, parameter.shape(), &Device::Cpu)?)?;
    }
    Ok(())
}

/// Pictures as the model takes them, and what they show.
pub(crate) fn tensors(digits: &[Digit]) -> Result<(Tensor, Tensor)> {
    let pixels: Vec<f32> = digits.iter().flat_map(|digit| &digit.pixels).copied().collect();
    let labels: Vec<u32> = digits.iter().map(|digit| u32::from(digit.label)).collect();
    let pictures = Tensor::from_vec(pixels, (digits.len(), 1, SIDE, SIDE), &Device::Cpu)?;
    Ok((pictures, Tensor::from_vec(labels, digits.len(), &Device::Cpu)?))
}

const EDGES: usize = 8;
const CORNERS: usize = 16;
const SHAPES: usize = 32;
const WHOLES: usize = 64;
const PARTS: usize = 128;
/// What is left of a picture's width and height after it was halved three times.
const LEFT: usize = SIDE.div_ceil(8);
/// Keeps these numbers apart from those that pictures are drawn with.
const PARAMETERS: u64 = 2 << 40;
