//! Median, percentile, ratio.

use serde::Serialize;

/// A median and the extremes it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Half of the values are not above it.
    pub(crate) median: f64,
    /// The smallest value.
    pub(crate) min: f64,
    /// The largest value.
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of some values; `None` if there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), min, max })
    }

    /// The spread of `product[n] / base[n]`: of each round's ratio, not the ratio of medians, because what disturbs a
    /// round disturbs both in it.
    ///
    /// # Panics
    /// If the two are not of one length: then they are not of the same rounds.
    pub(crate) fn of_ratios(product: &[f64], base: &[f64]) -> Option<Self> {
        assert_eq!(product.len(), base.len(), "a ratio needs both contenders in each round");
        Self::of(product.iter().zip(base).map(|(product, base)| product / base))
    }
}

/// A ratio of two contenders' throughputs, by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Quotient {
    /// The one that is divided.
    pub(crate) of: &'static str,
    /// The one that it is divided by.
    pub(crate) by: &'static str,
}

/// The smallest of the `sorted` values that `percent` per cent of them do not exceed (nearest rank).
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    per_mille(sorted, 10 * percent)
}

/// The smallest of the `sorted` values that `mille` thousandths of them do not exceed (nearest rank).
pub(crate) fn per_mille(sorted: &[u64], mille: usize) -> Option<u64> {
    let rank = (sorted.len() * mille).div_ceil(1000).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_odd_number_is_the_middle_value() {
        assert_eq!(Spread::of([9.0, 1.0, 5.0]), Some(Spread { median: 5.0, min: 1.0, max: 9.0 }));
        assert_eq!(Spread::of([7.0]), Some(Spread { median: 7.0, min: 7.0, max: 7.0 }));
    }

    #[test]
    fn median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(Spread::of([4.0, 1.0, 100.0, 2.0]), Some(Spread { median: 3.0, min: 1.0, max: 100.0 }));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn ratio_is_taken_round_by_round() {
        // The second round was disturbed: both ran at a tenth. The ratio of medians would be 100 / 200.
        let spread = Spread::of_ratios(&[100.0, 10.0, 120.0], &[200.0, 20.0, 200.0]).unwrap();
        assert_eq!(spread, Spread { median: 0.5, min: 0.5, max: 0.6 });
    }

    #[test]
    #[should_panic(expected = "both contenders")]
    fn ratio_of_unequal_rounds_is_refused() {
        let _ = Spread::of_ratios(&[1.0, 2.0], &[1.0]);
    }

    #[test]
    fn percentile_is_the_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), Some(50));
        assert_eq!(percentile(&hundred, 99), Some(99));
        assert_eq!(percentile(&hundred, 100), Some(100));
        assert_eq!(percentile(&hundred, 0), Some(1));
        // Wikipedia's example of the method: 15, 20, 35, 40, 50.
        let five = [15, 20, 35, 40, 50];
        assert_eq!([5, 30, 40, 50, 100].map(|percent| percentile(&five, percent).unwrap()), [15, 20, 20, 35, 50]);
        assert_eq!(percentile(&[], 50), None);
    }
}
