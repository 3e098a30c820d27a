//! Which gradients of a bucket are compressed, as which matrices.

use super::matrix::Shape;
use super::settings::Settings;
use crate::bucket::Bucket;
use crate::parameter::Parameter;

/// What becomes of each part of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grouping {
    pub(crate) blocks: Vec<Block>,
    /// The parts that travel as they are.
    pub(crate) rest: Vec<usize>,
}

/// Parts of a bucket that make a matrix, one behind the other. If the matrix has more elements than they
/// have, the last ones are zero.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) parts: Vec<usize>,
    /// The parameters' numbers.
    pub(crate) parameters: Vec<usize>,
    pub(crate) shape: Shape,
}

impl Grouping {
    pub(crate) fn of(bucket: &Bucket, settings: &Settings) -> Self {
        let parameters = bucket.gradients().map(|it| (it.index, it.parameter));
        if settings.is_batched {
            Self::together(parameters, settings)
        } else {
            Self::each(parameters, settings)
        }
    }

    /// A matrix for each parameter.
    fn each<'a>(
        parameters: impl Iterator<Item = (usize, &'a Parameter)>,
        settings: &Settings,
    ) -> Self {
        let (mut blocks, mut rest) = (Vec::new(), Vec::new());
        for (part, (index, parameter)) in parameters.enumerate() {
            let rows = parameter.shape().first().copied().unwrap_or(1);
            let cols = parameter.shape().iter().skip(1).product();
            match settings.worthwhile(rows, cols) {
                Some(shape) => {
                    blocks.push(Block { parts: vec![part], parameters: vec![index], shape });
                }
                None => rest.push(part),
            }
        }
        Self { blocks, rest }
    }

    /// One matrix for all, as nearly square as it can be.
    fn together<'a>(
        parameters: impl Iterator<Item = (usize, &'a Parameter)>,
        settings: &Settings,
    ) -> Self {
        let (parameters, lens): (Vec<usize>, Vec<usize>) =
            parameters.map(|(index, parameter)| (index, parameter.len())).unzip();
        let parts: Vec<usize> = (0..parameters.len()).collect();
        let len: usize = lens.iter().sum();
        let cols = len.isqrt().max(1);
        match settings.worthwhile(len.div_ceil(cols), cols) {
            Some(shape) => {
                Self { blocks: vec![Block { parts, parameters, shape }], rest: Vec::new() }
            }
            None => Self { blocks: Vec::new(), rest: parts },
        }
    }
}

#[cfg(test)]
mod tests {
    use consort::Dtype;

    use super::*;

    fn parameters(shapes: &[&[usize]]) -> Vec<Parameter> {
        shapes.iter().map(|shape| Parameter::new("w", Dtype::F32, shape)).collect()
    }

    fn numbered(parameters: &[Parameter]) -> impl Iterator<Item = (usize, &Parameter)> {
        parameters.iter().enumerate().map(|(at, parameter)| (at + 10, parameter))
    }

    #[test]
    fn what_has_few_numbers_or_one_dimension_travels_as_it_is() {
        let settings = Settings { rank: 2, ..Settings::default() };
        let all = parameters(&[&[100], &[8, 8], &[16, 4, 5], &[], &[0, 7], &[1, 90]]);
        let Grouping { blocks, rest } = Grouping::each(numbered(&all), &settings);
        assert_eq!(rest, [0, 1, 3, 4, 5]);
        // (16 + 20) · 2 · 2 = 144 < 320, and (8 + 8) · 2 · 2 = 64 is not less than 64.
        let shape = Shape { rows: 16, cols: 20, rank: 2 };
        assert_eq!(blocks, [Block { parts: vec![2], parameters: vec![12], shape }]);
    }

    #[test]
    fn a_rank_is_no_larger_than_the_matrix() {
        let settings = Settings { rank: 100, rate: 0.1, ..Settings::default() };
        let all = parameters(&[&[5, 7]]);
        let Grouping { blocks, .. } = Grouping::each(numbered(&all), &settings);
        assert_eq!(blocks[0].shape, Shape { rows: 5, cols: 7, rank: 5 });
    }

    #[test]
    fn all_of_a_bucket_make_one_matrix_that_is_nearly_square() {
        let settings = Settings { is_batched: true, ..Settings::default() };
        let all = parameters(&[&[100], &[8, 8], &[3]]);
        let Grouping { blocks, rest } = Grouping::together(numbered(&all), &settings);
        let shape = Shape { rows: 14, cols: 12, rank: 1 };
        let (parts, parameters) = (vec![0, 1, 2], vec![10, 11, 12]);
        assert_eq!((blocks, rest), (vec![Block { parts, parameters, shape }], Vec::new()));
        let few = self::parameters(&[&[3], &[2]]);
        let Grouping { blocks, rest } = Grouping::together(numbered(&few), &settings);
        assert!(blocks.is_empty() && rest == [0, 1]);
        assert!(Grouping::together(numbered(&[]), &settings).blocks.is_empty());
    }
}
