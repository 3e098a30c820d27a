//! Gradients of which only some rows are not zero.

use consort::{Call, Dtype, Group, ReduceOp, Source, Target, Unsupported};
use consort_sys::reduce::Kernel;

use crate::error::Result;
use crate::hook::{Pending, Round, average_by, divide};
use crate::memory::Memory;
use crate::parameter::Parameter;

/// The rows of a table that have a gradient, as those of an embedding that were looked up: their numbers,
/// in rising order, and their values, one row behind the other.
#[derive(Debug)]
pub(crate) struct Rows {
    shape: Shape,
    numbers: Vec<u64>,
    values: Memory,
}

/// What the rows of a table are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    dtype: Dtype,
    /// How many bytes a row has.
    width: usize,
}

/// Some rows: their numbers, in any order, and their values. A number may come more than once.
pub(crate) type Part<'a> = (&'a [u64], &'a [u8]);

impl Shape {
    /// Of a parameter whose first dimension counts the rows.
    pub(crate) fn of(parameter: &Parameter, dtype: Dtype) -> Self {
        let elements: usize = parameter.shape().iter().skip(1).product();
        Self { dtype, width: elements * dtype.size() }
    }
}

impl Rows {
    /// None of a table's.
    pub(crate) fn none(shape: Shape) -> Self {
        Self { shape, numbers: Vec::new(), values: Memory::none(0) }
    }

    /// All rows of some parts. What a row has in several of them, or several times in one, is added up in
    /// this order: the same parts give the same bits.
    pub(crate) fn merge(shape: Shape, parts: &[Part<'_>]) -> Result<Self> {
        Self::combine(shape, parts, |count| Kernel::new(shape.dtype, ReduceOp::Sum, count))
    }

    /// The same, divided: numbers of few bits are added up and divided with more.
    fn average(shape: Shape, parts: &[Part<'_>], divisor: usize) -> Result<Self> {
        let kernel = |count| Kernel::new(shape.dtype, ReduceOp::Avg, count);
        Self::combine(shape, parts, |count| Ok(kernel(count)?.dividing_by(divisor)))
    }

    fn combine(
        shape: Shape,
        parts: &[Part<'_>],
        kernel: impl Fn(usize) -> Result<Kernel, Unsupported>,
    ) -> Result<Self> {
        let mut places: Vec<(u64, usize, usize)> = Vec::new();
        for (part, (numbers, _)) in parts.iter().enumerate() {
            places.extend(numbers.iter().enumerate().map(|(at, &number)| (number, part, at)));
        }
        places.sort_unstable();
        let mut numbers: Vec<u64> = places.iter().map(|(number, ..)| *number).collect();
        numbers.dedup();
        let mut values = Memory::new(numbers.len() * shape.width);
        let same = places.chunk_by(|(one, ..), (other, ..)| one == other);
        let mut sources: Vec<Source<'_>> = Vec::new();
        for (row, same) in same.enumerate() {
            let room = &mut values.bytes_mut()[row * shape.width..][..shape.width];
            let row = |(_, part, at): &(u64, usize, usize)| {
                Source::from(&parts[*part].1[at * shape.width..][..shape.width])
            };
            sources.clear();
            sources.extend(same.iter().map(row));
            let kernel = kernel(same.len()).map_err(consort::Error::from)?;
            kernel.reduce(&[Target::from(room)], &sources);
        }
        Ok(Self { shape, numbers, values })
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    pub(crate) fn values(&self) -> &[u8] {
        self.values.bytes()
    }

    pub(crate) fn part(&self) -> Part<'_> {
        (&self.numbers, self.values.bytes())
    }

    /// How many bytes travel from this rank.
    pub(crate) fn bytes(&self) -> usize {
        self.numbers.len() * size_of::<u64>() + self.values.len()
    }

    /// Begins to average them over all ranks. How many rows each rank has, and which, travels at once; the
    /// rows follow when they are waited for, for then it is known how many there are. If all have the same
    /// rows only their sums travel.
    pub(crate) fn start(self, round: &Round<'_>) -> Result<Pending<Self>> {
        let (group, divisor) = (round.group.clone(), round.divisor);
        let mine = vec![self.numbers.len() as u64, digest(&self.numbers)];
        let room = vec![0_u64; mine.len() * group.world()];
        let known = group.all_gather_async(mine, room).map_err(consort::Error::from)?;
        Ok(Pending::then(known, move |(mine, all)| {
            let are_same = all.chunks(mine.len()).all(|theirs| theirs == mine);
            match are_same {
                true => self.add_up(&group, divisor),
                false => self.gather(&group, all.iter().step_by(mine.len()), divisor),
            }
        }))
    }

    /// The averages of all ranks' rows, which are the same.
    fn add_up(mut self, group: &Group, divisor: usize) -> Result<Self> {
        let op = average_by(self.shape.dtype, divisor, group.world());
        let output = Target::from(self.values.bytes_mut());
        let dtype = self.shape.dtype;
        group.call(&Call::AllReduce { dtype, op, input: output.into(), output })?;
        if op == ReduceOp::Sum {
            divide(dtype, self.values.bytes_mut(), divisor)?;
        }
        Ok(self)
    }

    /// The averages of all ranks' rows, of which each has so many.
    fn gather<'a>(
        self,
        group: &Group,
        counts: impl Iterator<Item = &'a u64>,
        divisor: usize,
    ) -> Result<Self> {
        let counts: Vec<usize> = counts.map(|&count| count as usize).collect();
        let numbers = gather(group, &self.numbers, counts.iter().copied())?;
        let bytes = counts.iter().map(|count| count * self.shape.width);
        let values = gather(group, self.values(), bytes)?;
        let parts = numbers.iter().zip(&values);
        let parts: Vec<Part<'_>> = parts.map(|(rows, values)| (&rows[..], &values[..])).collect();
        Self::average(self.shape, &parts, divisor)
    }
}

/// A number that stands for some others.
fn digest(numbers: &[u64]) -> u64 {
    let hash = blake3::hash(bytemuck::cast_slice(numbers));
    let (first, _) = hash.as_bytes().split_first_chunk().expect("it has 32 bytes");
    u64::from_le_bytes(*first)
}

/// Everyone's elements, of which each rank has so many.
fn gather<T: consort::Element>(
    group: &Group,
    mine: &[T],
    counts: impl Iterator<Item = usize>,
) -> Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = counts.map(|count| vec![T::default(); count]).collect();
    let mut rooms: Vec<&mut [T]> = all.iter_mut().map(|part| &mut part[..]).collect();
    group.all_gather_list(mine, &mut rooms)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytemuck::cast_slice;
    use proptest::prelude::*;

    use super::*;

    fn shape(width: usize) -> Shape {
        Shape::of(&Parameter::new("table", Dtype::F32, &[100, width]), Dtype::F32)
    }

    #[test]
    fn rows_that_come_more_than_once_are_added_up() {
        let (first, second) = ([1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [10.0_f32, 20.0]);
        let parts: [Part<'_>; 2] = [(&[7, 3, 7], cast_slice(&first)), (&[3], cast_slice(&second))];
        let rows = Rows::merge(shape(2), &parts).unwrap();
        assert_eq!(rows.numbers(), [3, 7]);
        assert_eq!(cast_slice::<u8, f32>(rows.values()), [13.0, 24.0, 6.0, 8.0]);
    }

    #[test]
    fn nothing_and_rows_without_elements_are_merged_too() {
        assert!(Rows::merge(shape(3), &[]).unwrap().numbers().is_empty());
        let empty = Rows::merge(shape(0), &[(&[4, 2], &[])]).unwrap();
        assert_eq!((empty.numbers(), empty.values().len()), (&[2, 4][..], 0));
    }

    proptest! {
        #[test]
        fn merging_is_what_a_table_of_sums_would_have(
            parts in prop::collection::vec(prop::collection::vec(0..20_u64, 0..12), 0..5),
        ) {
            let value = |part: usize, at: usize| (part * 100 + at) as f32;
            let values: Vec<Vec<f32>> = parts.iter().enumerate()
                .map(|(part, rows)| (0..rows.len()).map(|at| value(part, at)).collect()).collect();
            let given: Vec<Part<'_>> = parts.iter().zip(&values)
                .map(|(rows, values)| (&rows[..], cast_slice(values))).collect();
            let merged = Rows::merge(shape(1), &given).unwrap();
            let mut table: BTreeMap<u64, f32> = BTreeMap::new();
            for (part, rows) in parts.iter().enumerate() {
                for (at, row) in rows.iter().enumerate() {
                    *table.entry(*row).or_default() += value(part, at);
                }
            }
            let (numbers, sums): (Vec<u64>, Vec<f32>) = table.into_iter().unzip();
            prop_assert_eq!(merged.numbers(), &numbers[..]);
            prop_assert_eq!(cast_slice::<u8, f32>(merged.values()), &sums[..]);
        }
    }
}
