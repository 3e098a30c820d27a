//! What batch normalisation computes of numbers that lie in rows, one for each feature.

use candle_core::WithDType;

/// The statistics of some examples.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moments {
    /// How many numbers of each feature there are.
    pub(super) count: f64,
    /// The mean of each feature.
    pub(super) mean: Vec<f64>,
    /// The sum of the squares of the distances from it.
    squares: Vec<f64>,
}

impl Moments {
    /// Of this rank's. If they are not to be centred, distances are those from zero.
    pub(super) fn of<T: WithDType>(rows: &[T], features: usize, is_centred: bool) -> Self {
        let count = rows.len() / features.max(1);
        let (mut mean, mut squares) = (vec![0.0; features], vec![0.0; features]);
        for feature in 0..features {
            let row = || rows[feature * count..(feature + 1) * count].iter().map(|it| it.to_f64());
            if is_centred && count > 0 {
                mean[feature] = row().sum::<f64>() / count as f64;
            }
            squares[feature] = row().map(|number| (number - mean[feature]).powi(2)).sum();
        }
        Self { count: count as f64, mean, squares }
    }

    /// As they travel.
    pub(super) fn into_numbers(self) -> Vec<f64> {
        [vec![self.count], self.mean, self.squares].concat()
    }

    /// Those of all ranks, of what they have sent: added rank by rank, each time by what the means of the
    /// two parts are apart.
    pub(super) fn together(all: &[f64], features: usize) -> Self {
        let nothing = Self { count: 0.0, mean: vec![0.0; features], squares: vec![0.0; features] };
        all.chunks(1 + 2 * features).filter(|it| it[0] > 0.0).fold(nothing, |mut sum, part| {
            let count = sum.count + part[0];
            let (mean, squares) = part[1..].split_at(features);
            for feature in 0..features {
                let apart = mean[feature] - sum.mean[feature];
                sum.mean[feature] += apart * part[0] / count;
                sum.squares[feature] +=
                    squares[feature] + apart * apart * sum.count * part[0] / count;
            }
            sum.count = count;
            sum
        })
    }

    /// The variance of each feature, as these examples let it be guessed of all others.
    pub(super) fn variance_of_population(&self) -> Vec<f64> {
        self.squares.iter().map(|squares| squares / (self.count - 1.0)).collect()
    }
}

/// What makes numbers normal.
#[derive(Debug)]
pub(super) struct Scale {
    mean: Vec<f64>,
    /// One divided by the deviation of each feature.
    factor: Vec<f64>,
}

impl Scale {
    pub(super) fn new(moments: &Moments, eps: f64) -> Self {
        let factor = |squares: &f64| 1.0 / (squares / moments.count + eps).sqrt();
        Self { mean: moments.mean.clone(), factor: moments.squares.iter().map(factor).collect() }
    }

    pub(super) fn features(&self) -> usize {
        self.mean.len()
    }

    pub(super) fn normalise<T: WithDType>(&self, rows: &[T]) -> Vec<T> {
        let mut normalised = Vec::with_capacity(rows.len());
        for (feature, row) in in_rows(rows, self.features()) {
            let (mean, factor) = (self.mean[feature], self.factor[feature]);
            let normal = |number: &T| T::from_f64((number.to_f64() - mean) * factor);
            normalised.extend(row.iter().map(normal));
        }
        normalised
    }

    /// The gradient of the numbers, from that of the normalised ones and the means over all ranks of what
    /// [`sums`] adds up.
    pub(super) fn gradient<T: WithDType>(
        &self,
        gradient: &[T],
        normalised: &[T],
        means: &[f64],
    ) -> Vec<T> {
        let features = self.features();
        let mut result = Vec::with_capacity(gradient.len());
        let rows = in_rows(gradient, features).zip(in_rows(normalised, features));
        for ((feature, gradient), (_, normalised)) in rows {
            let (factor, mean, slope) =
                (self.factor[feature], means[feature], means[features + feature]);
            let of = |(gradient, normalised): (&T, &T)| {
                T::from_f64((gradient.to_f64() - mean - normalised.to_f64() * slope) * factor)
            };
            result.extend(gradient.iter().zip(normalised).map(of));
        }
        result
    }
}

/// The sums of the gradients of each feature, and then of their products with the normalised numbers.
pub(super) fn sums<T: WithDType>(gradient: &[T], normalised: &[T], features: usize) -> Vec<f64> {
    let mut sums = vec![0.0; 2 * features];
    let rows = in_rows(gradient, features).zip(in_rows(normalised, features));
    for ((feature, gradient), (_, normalised)) in rows {
        sums[feature] = gradient.iter().map(|it| it.to_f64()).sum();
        let products = gradient.iter().zip(normalised).map(|(a, b)| a.to_f64() * b.to_f64());
        sums[features + feature] = products.sum();
    }
    sums
}

/// The numbers of each feature. If there are none, there are no rows.
fn in_rows<T>(rows: &[T], features: usize) -> impl Iterator<Item = (usize, &[T])> {
    rows.chunks((rows.len() / features.max(1)).max(1)).enumerate()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_near(one: &[f64], other: &[f64]) -> bool {
        one.len() == other.len()
            && one.iter().zip(other).all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + a.abs()))
    }

    proptest! {
        #[test]
        fn parts_have_the_statistics_of_the_whole(
            parts in prop::collection::vec(
                prop::collection::vec((-100.0..100.0_f64, -1.0..1.0_f64), 0..20), 1..6,
            ),
            is_centred: bool,
        ) {
            let rows = |part: &[(f64, f64)]| {
                let (one, other): (Vec<f64>, Vec<f64>) = part.iter().copied().unzip();
                [one, other].concat()
            };
            let sent = |part: &Vec<_>| Moments::of(&rows(part), 2, is_centred).into_numbers();
            let together = Moments::together(&parts.iter().flat_map(sent).collect::<Vec<f64>>(), 2);
            let whole = Moments::of(&rows(&parts.concat()), 2, is_centred);
            prop_assert_eq!(together.count, whole.count);
            prop_assert!(is_near(&together.mean, &whole.mean));
            prop_assert!(is_near(&together.squares, &whole.squares));
        }

        #[test]
        fn the_gradient_is_what_a_small_change_shows(
            rows in prop::collection::vec(-3.0..3.0_f64, 8),
            weights in prop::collection::vec(-1.0..1.0_f64, 8),
            at in 0..8_usize,
        ) {
            // Numbers of two features that have some spread.
            let rows: Vec<f64> = rows.iter().zip(0..).map(|(it, at)| it + f64::from(at % 4)).collect();
            let loss = |rows: &[f64]| {
                let scale = Scale::new(&Moments::of(rows, 2, true), 0.1);
                scale.normalise(rows).iter().zip(&weights).map(|(a, b)| a * b).sum::<f64>()
            };
            let scale = Scale::new(&Moments::of(&rows, 2, true), 0.1);
            let normalised = scale.normalise(&rows);
            let means: Vec<f64> = sums(&weights, &normalised, 2).iter().map(|it| it / 4.0).collect();
            let gradient = scale.gradient(&weights, &normalised, &means);
            let moved = |by: f64| {
                let mut moved = rows.clone();
                moved[at] += by;
                loss(&moved)
            };
            let shown = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            prop_assert!((shown - gradient[at]).abs() < 1e-6, "{shown} {}", gradient[at]);
        }
    }
}
