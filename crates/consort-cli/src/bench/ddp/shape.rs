//! What is trained: a chain of linear layers, the same for us and for every peer.

use std::fmt;
use std::str::FromStr;

/// The model and its batch. As text it is what training processes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// How many linear layers; each has a matrix and a bias.
    pub(crate) layers: usize,
    /// How many numbers go into a layer, and come out of it.
    pub(crate) width: usize,
    /// How many examples each rank learns from in a step.
    pub(crate) batch: usize,
}

impl Shape {
    /// How many tensors are learned.
    pub(crate) fn tensors(&self) -> usize {
        2 * self.layers
    }

    /// How many numbers are learned.
    pub(crate) fn parameters(&self) -> usize {
        self.layers * (self.width * self.width + self.width)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layers, width, batch } = self;
        write!(f, "{layers} {width} {batch}")
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let numbers: Result<Vec<usize>, _> = line.split_whitespace().map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[layers, width, batch]) => Ok(Self { layers, width, batch }),
            _ => Err(format!("a shape is LAYERS WIDTH BATCH, not {line:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_a_line_that_can_be_read_again() {
        let shape = Shape { layers: 6, width: 2048, batch: 32 };
        assert_eq!(shape.to_string(), "6 2048 32");
        assert_eq!(shape.to_string().parse(), Ok(shape));
        assert!("6 2048".parse::<Shape>().is_err());
        assert!("6 2048 x".parse::<Shape>().is_err());
    }

    #[test]
    fn a_layer_has_a_matrix_and_a_bias() {
        let shape = Shape { layers: 200, width: 64, batch: 1 };
        assert_eq!((shape.tensors(), shape.parameters()), (400, 832_000));
    }
}
