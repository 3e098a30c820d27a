//! Gradients in the order in which their indices count, wherever their elements lie.

use consort::symm::Plain;

use crate::bucket::Bucket;
use crate::convert::convert;
use crate::error::Result;
use crate::parameter::Parameter;

/// Copies a gradient out of a bucket: as numbers of another dtype, the last index counting fastest.
pub(crate) fn load<T: Plain>(bucket: &Bucket, part: usize, numbers: &mut [T]) -> Result<()> {
    let parameter = parameter(bucket, part);
    let source = (bucket.dtype(), bucket.part(part));
    if is_in_order(parameter) {
        return convert(source, (T::DTYPE, bytemuck::cast_slice_mut(numbers)));
    }
    let mut memory = vec![T::default(); numbers.len()];
    convert(source, (T::DTYPE, bytemuck::cast_slice_mut(&mut memory)))?;
    gather(parameter, &memory, numbers);
    Ok(())
}

/// The way back.
pub(crate) fn store<T: Plain>(bucket: &mut Bucket, part: usize, numbers: &[T]) -> Result<()> {
    let dtype = bucket.dtype();
    let parameter = parameter(bucket, part);
    if is_in_order(parameter) {
        let source = (T::DTYPE, bytemuck::cast_slice(numbers));
        return convert(source, (dtype, bucket.part_mut(part)));
    }
    let mut memory = vec![T::default(); numbers.len()];
    scatter(parameter, numbers, &mut memory);
    convert((T::DTYPE, bytemuck::cast_slice(&memory)), (dtype, bucket.part_mut(part)))
}

fn parameter(bucket: &Bucket, part: usize) -> &Parameter {
    bucket.gradients().nth(part).expect("a part is one of the bucket's").parameter
}

fn gather<T: Copy>(parameter: &Parameter, memory: &[T], numbers: &mut [T]) {
    let mut rest = numbers.iter_mut();
    each_run(parameter.shape(), parameter.strides(), 0, &mut |place, len, stride| {
        for (at, number) in rest.by_ref().take(len).enumerate() {
            *number = memory[place + at * stride];
        }
    });
}

fn scatter<T: Copy>(parameter: &Parameter, numbers: &[T], memory: &mut [T]) {
    let mut rest = numbers.iter();
    each_run(parameter.shape(), parameter.strides(), 0, &mut |place, len, stride| {
        for (at, number) in rest.by_ref().take(len).enumerate() {
            memory[place + at * stride] = *number;
        }
    });
}

/// Whether the elements lie in the order of their indices.
fn is_in_order(parameter: &Parameter) -> bool {
    let dimensions = parameter.shape().iter().zip(parameter.strides()).rev();
    let mut next = 1;
    let mut moving = dimensions.filter(|(size, _)| **size > 1);
    moving.all(|(size, stride)| {
        let fits = *stride == next;
        next *= size;
        fits
    })
}

/// Gives where the elements of each run along the last dimension begin, how many they are and how far
/// apart.
fn each_run<F: FnMut(usize, usize, usize)>(
    shape: &[usize],
    strides: &[usize],
    place: usize,
    run: &mut F,
) {
    match (shape, strides) {
        ([len, inner @ ..], [stride, strides @ ..]) if !inner.is_empty() => {
            (0..*len).for_each(|at| each_run(inner, strides, place + at * stride, run));
        }
        ([len], [stride]) => run(place, *len, *stride),
        _ => run(place, 1, 1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use consort::{Dtype, bf16};
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::Plan;

    /// Strides for which the dimensions lie in this order in memory, the first one outermost.
    fn strides(shape: &[usize], order: &[usize]) -> Vec<usize> {
        let (mut strides, mut next) = (vec![0; shape.len()], 1);
        for &dimension in order.iter().rev() {
            strides[dimension] = next;
            next *= shape[dimension].max(1);
        }
        strides
    }

    #[test]
    fn a_gradient_by_columns_is_read_by_rows_and_written_back() {
        let by_columns = Parameter::new("w", Dtype::Bf16, &[2, 3]).with_strides(&[1, 2]).unwrap();
        let plan = Plan::new((0, 1), Dtype::Bf16, &[0], &[by_columns]);
        let mut bucket = Bucket::new(Arc::new(plan));
        let memory = [11.0, 21.0, 12.0, 22.0, 13.0, 23.0].map(bf16::from_f32);
        bucket.part_mut(0).copy_from_slice(bytemuck::cast_slice(&memory));
        let mut numbers = [0.0_f32; 6];
        load(&bucket, 0, &mut numbers).unwrap();
        assert_eq!(numbers, [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
        store(&mut bucket, 0, &numbers.map(|number| number * 2.0)).unwrap();
        let doubled = memory.map(|number| bf16::from_f32(number.to_f32() * 2.0));
        assert_eq!(bucket.part(0), bytemuck::cast_slice::<_, u8>(&doubled));
    }

    #[test]
    fn a_single_number_is_in_order() {
        let parameter = Parameter::new("scale", Dtype::F32, &[]);
        let mut number = [0.0];
        gather(&parameter, &[7.0], &mut number);
        assert!(is_in_order(&parameter) && number == [7.0]);
    }

    proptest! {
        #[test]
        fn every_element_is_found_at_its_index(
            shape in prop::collection::vec(0..5_usize, 1..5),
            keys in prop::collection::vec(any::<u32>(), 4),
        ) {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            order.sort_by_key(|&at| keys[at]);
            let strides = strides(&shape, &order);
            let parameter = Parameter::new("w", Dtype::F32, &shape).with_strides(&strides).unwrap();
            let memory: Vec<usize> = (0..parameter.len()).collect();
            let mut numbers = vec![usize::MAX; parameter.len()];
            gather(&parameter, &memory, &mut numbers);
            for (at, &place) in numbers.iter().enumerate() {
                let mut rest = at;
                let mut expected = 0;
                for (size, stride) in shape.iter().zip(&strides).rev() {
                    expected += rest % size * stride;
                    rest /= size;
                }
                prop_assert_eq!(place, expected);
            }
            prop_assert!(parameter.is_empty() || is_in_order(&parameter) == (numbers == memory));
            let mut back = vec![usize::MAX; parameter.len()];
            scatter(&parameter, &numbers, &mut back);
            prop_assert_eq!(back, memory);
        }
    }
}
