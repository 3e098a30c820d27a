//! Matrices, and the few columns that stand for them. Pure arithmetic: the same numbers give the same
//! bits on every rank.
//!
//! A matrix lies row by row. What stands for it are two smaller ones, *left* with its rows and *right*
//! with its columns, which lie column by column: so every sum runs along memory.

use std::ops::{Add, Div, Mul, Sub};

use consort::symm::Plain;

use crate::chance::Chance;

/// Numbers to compute with.
pub(crate) trait Real:
    Plain
    + Into<f64>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// The nearest one.
    fn near(number: f64) -> Self;
}

impl Real for f32 {
    fn near(number: f64) -> Self {
        number as Self
    }
}

impl Real for f64 {
    fn near(number: f64) -> Self {
        number
    }
}

/// How large a matrix is, and how many columns stand for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) rank: usize,
}

impl Shape {
    /// How many numbers it has.
    pub(crate) fn len(self) -> usize {
        self.rows * self.cols
    }

    /// How many numbers the left columns have.
    pub(crate) fn left(self) -> usize {
        self.rows * self.rank
    }

    /// How many numbers the right columns have.
    pub(crate) fn right(self) -> usize {
        self.cols * self.rank
    }

    /// left = matrix · right
    pub(crate) fn multiply<T: Real>(self, matrix: &[T], right: &[T], left: &mut [T]) {
        for (at, row) in matrix.chunks_exact(self.cols).enumerate() {
            let columns = left.chunks_exact_mut(self.rows).zip(right.chunks_exact(self.cols));
            columns.for_each(|(left, right)| left[at] = dot(row, right));
        }
    }

    /// right = matrixᵀ · left
    pub(crate) fn multiply_transposed<T: Real>(self, matrix: &[T], left: &[T], right: &mut [T]) {
        right.fill(T::default());
        for (at, row) in matrix.chunks_exact(self.cols).enumerate() {
            let columns = left.chunks_exact(self.rows).zip(right.chunks_exact_mut(self.cols));
            columns.for_each(|(left, right)| add(right, left[at], row));
        }
    }

    /// matrix = left · rightᵀ
    pub(crate) fn expand<T: Real>(self, left: &[T], right: &[T], matrix: &mut [T]) {
        matrix.fill(T::default());
        for (at, row) in matrix.chunks_exact_mut(self.cols).enumerate() {
            let columns = left.chunks_exact(self.rows).zip(right.chunks_exact(self.cols));
            columns.for_each(|(left, right)| add(row, left[at], right));
        }
    }
}

/// Makes columns of this length perpendicular to each other and of length 1, from the first to the last:
/// the modified process of Gram and Schmidt, twice, since once leaves columns that were nearly parallel
/// far from perpendicular.
///
/// One that is a combination of those before it becomes one by `chance`, or else zero. A number that is
/// not finite makes its column NaN, and those behind it.
pub(crate) fn orthonormalise<T: Real>(
    columns: &mut [T],
    len: usize,
    mut chance: Option<&mut Chance>,
) {
    // Squares of small and large numbers have to have room, too.
    let mut wide: Vec<f64> = columns.iter().map(|&number| number.into()).collect();
    for start in (0..wide.len()).step_by(len) {
        let (before, rest) = wide.split_at_mut(start);
        let column = &mut rest[..len];
        let mut is_there = set_apart(before, column);
        if !is_there && let Some(chance) = &mut chance {
            column.fill_with(|| chance.number());
            is_there = set_apart(before, column);
        }
        if !is_there {
            column.fill(0.0);
        }
    }
    columns.iter_mut().zip(wide).for_each(|(number, wide)| *number = T::near(wide));
}

/// Makes one column perpendicular to others, and of length 1. Says whether something was left of it.
fn set_apart(others: &[f64], column: &mut [f64]) -> bool {
    let length = dot(column, column).sqrt();
    for _ in 0..2 {
        for other in others.chunks_exact(column.len()) {
            let share = dot(other, column);
            add(column, -share, other);
        }
    }
    let left = dot(column, column).sqrt();
    if !left.is_finite() {
        column.fill(f64::NAN);
        return true;
    }
    if left <= length * VANISHED {
        return false;
    }
    column.iter_mut().for_each(|number| *number /= left);
    true
}

/// The sum of all products, in an order that processors can follow several numbers at a time.
fn dot<T: Real>(one: &[T], other: &[T]) -> T {
    let mut sums = [T::default(); LANES];
    let (ones, others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
    let tail = ones.remainder().iter().zip(others.remainder());
    let tail = tail.fold(T::default(), |sum, (&a, &b)| sum + a * b);
    for (ones, others) in ones.zip(others) {
        for (sum, (&a, &b)) in sums.iter_mut().zip(ones.iter().zip(others)) {
            *sum = *sum + a * b;
        }
    }
    sums.into_iter().fold(tail, T::add)
}

/// Adds a multiple.
fn add<T: Real>(to: &mut [T], factor: T, numbers: &[T]) {
    to.iter_mut().zip(numbers).for_each(|(to, &number)| *to = *to + factor * number);
}

/// So many sums at a time.
const LANES: usize = 16;
/// A column of which less is left than this part was a combination of others.
const VANISHED: f64 = 1e-10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some(len: usize, seed: u64) -> Vec<f64> {
        let mut chance = Chance::of([seed, 0, 0]);
        (0..len).map(|_| chance.number()).collect()
    }

    /// How far columns are from perpendicular and of length 1.
    fn skew(columns: &[f64], len: usize) -> f64 {
        let mut worst = 0.0_f64;
        for (i, one) in columns.chunks_exact(len).enumerate() {
            for (j, other) in columns.chunks_exact(len).enumerate() {
                let product: f64 = one.iter().zip(other).map(|(a, b)| a * b).sum();
                worst = worst.max((product - f64::from(i == j)).abs());
            }
        }
        worst
    }

    #[test]
    fn products_are_those_of_the_textbook() {
        let shape = Shape { rows: 2, cols: 3, rank: 2 };
        let matrix = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0_f32];
        let (right, mut left) = ([1.0, 0.0, 2.0, 0.0, 1.0, 0.0], [9.0; 4]);
        shape.multiply(&matrix, &right, &mut left);
        assert_eq!(left, [7.0, 16.0, 2.0, 5.0]);
        let mut right = [9.0; 6];
        shape.multiply_transposed(&matrix, &[1.0, 1.0, 0.0, 2.0], &mut right);
        assert_eq!(right, [5.0, 7.0, 9.0, 8.0, 10.0, 12.0]);
        let mut product = [9.0; 6];
        shape.expand(&[1.0, 2.0, 0.0, 1.0], &[1.0, 2.0, 3.0, 1.0, 0.0, 1.0], &mut product);
        assert_eq!(product, [1.0, 2.0, 3.0, 3.0, 4.0, 7.0]);
    }

    #[test]
    fn columns_that_are_nearly_parallel_become_perpendicular() {
        let mut columns: Vec<f64> = some(40, 1).repeat(3);
        columns[40] += 1e-7;
        columns[85] -= 1e-8;
        orthonormalise(&mut columns, 40, None);
        assert!(skew(&columns, 40) < 1e-7, "{}", skew(&columns, 40));
    }

    #[test]
    fn what_is_a_combination_of_others_becomes_zero_or_another_direction() {
        let mut columns = [some(10, 1), vec![0.0; 10], some(10, 1)].concat();
        let mut without = columns.clone();
        orthonormalise(&mut without, 10, None);
        assert!(without[10..].iter().all(|number| *number == 0.0));
        orthonormalise(&mut columns, 10, Some(&mut Chance::of([5, 0, 0])));
        assert!(skew(&columns, 10) < 1e-12, "{}", skew(&columns, 10));
    }

    #[test]
    fn very_small_and_very_large_columns_have_a_direction() {
        for size in [1e-38_f32, 1e30] {
            let mut column = [3.0 * size, 4.0 * size];
            orthonormalise(&mut column, 2, None);
            assert!((column[0] - 0.6).abs() < 1e-6 && (column[1] - 0.8).abs() < 1e-6, "{column:?}");
        }
    }

    #[test]
    fn what_is_not_finite_does_not_become_finite() {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut columns = [1.0, odd, 2.0, 1.0, 1.0, 1.0];
            orthonormalise(&mut columns, 3, Some(&mut Chance::of([5, 0, 0])));
            assert!(columns.iter().all(|number| number.is_nan()), "{columns:?}");
        }
    }

    proptest! {
        #[test]
        fn any_columns_become_perpendicular_and_a_projection_keeps_what_they_span(
            (len, count) in (1..40_usize).prop_flat_map(|len| (Just(len), 1..=len.min(6))),
            seed in any::<u64>(),
        ) {
            let columns = some(len * count, seed);
            let mut basis = columns.clone();
            orthonormalise(&mut basis, len, None);
            prop_assert!(skew(&basis, len) < 1e-6);
            // The columns as rows of a matrix, projected: right = matrixᵀ is not needed, they are rows.
            let shape = Shape { rows: count, cols: len, rank: count };
            let mut shares = vec![0.0; shape.left()];
            shape.multiply(&columns, &basis, &mut shares);
            let mut back = vec![0.0; shape.len()];
            shape.expand(&shares, &basis, &mut back);
            let worst = columns.iter().zip(&back).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            prop_assert!(worst < 1e-6, "{worst}");
        }

        #[test]
        fn sums_in_lanes_are_sums(len in 0..100_usize, seed in any::<u64>()) {
            let (one, other) = (some(len, seed), some(len, seed ^ 1));
            let plain: f64 = one.iter().zip(&other).map(|(a, b)| a * b).sum();
            prop_assert!((dot(&one, &other) - plain).abs() < 1e-12);
        }
    }
}
