//! Quantiles of a stream from a handful of markers: P-square and extended P-square.
//!
//! [`PSquare`] is the algorithm of Jain and Chlamtac (Communications of the ACM 28, 1985): five markers hold
//! the minimum, the quantile, the maximum and one place halfway on either side. A marker more than one place
//! from where it should be moves by one; its new height lies on the parabola through it and its neighbours,
//! or, when that would break their order, on the line:
//!
//! ```text
//! h' = h_i + d/(n_(i+1) - n_(i-1)) ((n_i - n_(i-1) + d) (h_(i+1) - h_i)/(n_(i+1) - n_i)
//!                                 + (n_(i+1) - n_i - d) (h_i - h_(i-1))/(n_i - n_(i-1)))       d = ±1
//! ```
//!
//! [`ExtendedPSquare`] follows several quantiles at once (Raatikainen, Simuletter 18, 1987): `2m + 3` markers at
//! the quantiles, halfway between them, and at the ends. Evenly spaced it is the histogram of equally likely
//! cells in section 5 of the first paper.
//!
//! **No tail guarantee**: nothing bounds the error, and far quantiles of heavy tails are wrong by tens of
//! percent. **Not mergeable**, and the result depends on the order of the values. They are monitors for where
//! 200 bytes are all there is; [`crate::Histogram`] is faster, mergeable, and bounds its error.

use crate::rank::quantile_rank;

/// The markers of one or several quantiles.
#[derive(Clone, Debug, PartialEq)]
struct Markers<T> {
    /// Sorted once there are as many values as markers.
    heights: T,
    /// How many values are at or below each marker.
    positions: T,
    /// Where each marker should be.
    desired: T,
    /// The probability each marker stands for.
    probabilities: T,
    count: u64,
}

impl<T: AsRef<[f64]> + AsMut<[f64]>> Markers<T> {
    #[inline]
    fn record(&mut self, value: f64) {
        let heights = self.heights.as_mut();
        let last = heights.len() - 1;
        if self.count <= last as u64 {
            let filled = self.count as usize;
            let at = heights[..filled].partition_point(|&height| height <= value);
            heights[at..=filled].rotate_right(1);
            heights[at] = value;
            self.count += 1;
            if self.count > last as u64 {
                self.start();
            }
            return;
        }
        self.count = self.count.saturating_add(1);
        heights[0] = heights[0].min(value);
        heights[last] = heights[last].max(value);
        let cell = heights[1..last].iter().filter(|&&height| height <= value).count();
        let positions = self.positions.as_mut();
        positions[cell + 1..].iter_mut().for_each(|position| *position += 1.0);
        let desired = self.desired.as_mut();
        desired.iter_mut().zip(self.probabilities.as_ref()).for_each(|(place, p)| *place += p);
        for i in 1..last {
            let away = desired[i] - positions[i];
            let up = away >= 1.0 && positions[i + 1] - positions[i] > 1.0;
            let down = away <= -1.0 && positions[i] - positions[i - 1] > 1.0;
            if up || down {
                heights[i] = moved(heights, positions, i, up);
                positions[i] += if up { 1.0 } else { -1.0 };
            }
        }
    }

    /// The first values are the markers.
    fn start(&mut self) {
        let steps = self.heights.as_ref().len() as f64 - 1.0;
        let places = self.positions.as_mut().iter_mut().zip(self.desired.as_mut());
        for (i, ((position, desired), p)) in places.zip(self.probabilities.as_ref()).enumerate() {
            *position = i as f64 + 1.0;
            *desired = 1.0 + steps * p;
        }
    }

    /// The height of a marker; the exact quantile as long as every value is still there.
    fn height(&self, marker: usize) -> Option<f64> {
        let heights = self.heights.as_ref();
        let at = if self.count < heights.len() as u64 {
            let p = self.probabilities.as_ref().get(marker)?;
            quantile_rank(*p, self.count)? as usize - 1
        } else {
            marker
        };
        heights.get(at).copied()
    }
}

/// The new height of a marker that moves up or down by one place.
#[inline]
fn moved(heights: &[f64], positions: &[f64], i: usize, up: bool) -> f64 {
    let d = if up { 1.0 } else { -1.0 };
    let (below, here, above) = (heights[i - 1], heights[i], heights[i + 1]);
    let (to_below, to_above) = (positions[i] - positions[i - 1], positions[i + 1] - positions[i]);
    let parabola = here
        + d / (to_below + to_above)
            * ((to_below + d) * (above - here) / to_above + (to_above - d) * (here - below) / to_below);
    if below < parabola && parabola < above {
        parabola
    } else if up {
        here + (above - here) / to_above
    } else {
        here - (here - below) / to_below
    }
}

/// One quantile of a stream of finite values, from five markers.
#[derive(Clone, Debug, PartialEq)]
pub struct PSquare {
    markers: Markers<[f64; 5]>,
}

impl PSquare {
    /// Follows the `q` quantile; `None` unless `0 < q < 1`.
    pub fn new(q: f64) -> Option<PSquare> {
        let probabilities = [0.0, q / 2.0, q, (1.0 + q) / 2.0, 1.0];
        let empty = [0.0; 5];
        let markers = Markers { heights: empty, positions: empty, desired: empty, probabilities, count: 0 };
        (q > 0.0 && q < 1.0).then_some(PSquare { markers })
    }

    /// Takes one finite value; allocates nothing.
    #[inline]
    pub fn record(&mut self, value: f64) {
        self.markers.record(value);
    }

    /// How many values were taken.
    pub fn count(&self) -> u64 {
        self.markers.count
    }

    /// The estimate: exact below five values, `None` without one, never outside the extremes.
    pub fn quantile(&self) -> Option<f64> {
        self.markers.height(2)
    }
}

/// Several quantiles of a stream of finite values.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtendedPSquare {
    markers: Markers<Box<[f64]>>,
    /// The marker of each quantile asked.
    asked: Vec<usize>,
}

/// The most quantiles one estimator follows: recording takes as many steps.
pub const QUANTILES_LIMIT: usize = 1_000;

impl ExtendedPSquare {
    /// Follows these quantiles with `2m + 3` markers; `None` unless they ascend strictly between 0 and 1, and
    /// there are between 1 and [`QUANTILES_LIMIT`].
    pub fn new(quantiles: &[f64]) -> Option<ExtendedPSquare> {
        let ends: Vec<f64> =
            std::iter::once(0.0).chain(quantiles.iter().copied()).chain(std::iter::once(1.0)).collect();
        let ascending = ends.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || quantiles.is_empty() || quantiles.len() > QUANTILES_LIMIT {
            return None;
        }
        let mut probabilities = vec![0.0];
        for pair in ends.windows(2) {
            probabilities.push((pair[0] + pair[1]) / 2.0);
            probabilities.push(pair[1]);
        }
        let asked = (1..=quantiles.len()).map(|i| 2 * i).collect();
        Some(ExtendedPSquare::with_markers(probabilities, asked))
    }

    /// The histogram form: the ends of this many equally likely cells, between 2 and [`QUANTILES_LIMIT`].
    pub fn equally_likely(cells: usize) -> Option<ExtendedPSquare> {
        if !(2..=QUANTILES_LIMIT).contains(&cells) {
            return None;
        }
        let probabilities = (0..=cells).map(|i| i as f64 / cells as f64).collect();
        Some(ExtendedPSquare::with_markers(probabilities, (0..=cells).collect()))
    }

    fn with_markers(probabilities: Vec<f64>, asked: Vec<usize>) -> ExtendedPSquare {
        let empty = || vec![0.0; probabilities.len()].into_boxed_slice();
        let (heights, positions, desired) = (empty(), empty(), empty());
        let probabilities = probabilities.into_boxed_slice();
        ExtendedPSquare { markers: Markers { heights, positions, desired, probabilities, count: 0 }, asked }
    }

    /// Takes one finite value; allocates nothing.
    #[inline]
    pub fn record(&mut self, value: f64) {
        self.markers.record(value);
    }

    /// How many values were taken.
    pub fn count(&self) -> u64 {
        self.markers.count
    }

    /// The probabilities asked with their estimates, ascending; empty without a value.
    pub fn quantiles(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.asked.iter().filter_map(|&marker| {
            Some((self.markers.probabilities.get(marker).copied()?, self.markers.height(marker)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;
    use proptest::prelude::*;

    /// Jain and Chlamtac (1985), table I: the median of twenty values, 4.44 after the last.
    #[test]
    fn the_worked_example_of_the_paper() {
        let values = [
            0.02, 0.15, 0.74, 3.39, 0.83, 22.37, 10.15, 15.43, 38.62, 15.92, 34.60, 10.28, 1.47, 0.40, 0.05,
            11.39, 0.27, 0.42, 0.09, 11.37,
        ];
        let mut median = PSquare::new(0.5).unwrap();
        let mut several = ExtendedPSquare::new(&[0.5]).unwrap();
        for value in values {
            median.record(value);
            several.record(value);
        }
        assert_eq!((median.quantile().unwrap() * 100.0).round(), 444.0);
        // The table's last row: 0.02, 0.49, 4.44, 17.20, 38.62.
        let rounded = median.markers.heights.map(|height| (height * 100.0).round());
        assert_eq!(rounded, [2.0, 49.0, 444.0, 1720.0, 3862.0]);
        assert_eq!(several.quantiles().next().unwrap().1, median.quantile().unwrap());
    }

    #[test]
    fn what_is_no_quantile_is_refused() {
        for q in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!((PSquare::new(q), ExtendedPSquare::new(&[q])), (None, None));
        }
        assert_eq!((ExtendedPSquare::new(&[]), ExtendedPSquare::new(&[0.5, 0.5])), (None, None));
        assert_eq!(ExtendedPSquare::equally_likely(1), None);
        assert_eq!(PSquare::new(0.5).unwrap().quantile(), None);
    }

    #[test]
    fn several_quantiles_of_normal_values() {
        let asked = [0.25, 0.5, 0.9, 0.99];
        let mut several = ExtendedPSquare::new(&asked).unwrap();
        let mut cells = ExtendedPSquare::equally_likely(10).unwrap();
        let mut pcg = Pcg::for_job(81, 1, 1);
        for _ in 0..50_000 {
            let value = pcg.normal();
            several.record(value);
            cells.record(value);
        }
        for (p, height) in
            several.quantiles().chain(cells.quantiles()).filter(|(p, _)| (0.1..1.0).contains(p))
        {
            let exact = crate::special::normal_quantile(p);
            assert!((height - exact).abs() < 0.06, "{p}: {height} {exact}");
        }
        assert_eq!(several.quantiles().map(|(p, _)| p).collect::<Vec<_>>(), asked);
    }

    proptest! {
        /// Whatever comes, markers stay in order between the extremes.
        #[test]
        fn estimates_stay_between_the_extremes(
            values in prop::collection::vec(prop_oneof![-1e6..1e6f64, Just(0.0), Just(5.0)], 1..200),
            q in 0.001..0.999f64,
        ) {
            let mut estimator = PSquare::new(q).unwrap();
            let mut cells = ExtendedPSquare::equally_likely(7).unwrap();
            values.iter().for_each(|&value| {
                estimator.record(value);
                cells.record(value);
            });
            let min = values.iter().copied().fold(f64::INFINITY, f64::min);
            let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let estimate = estimator.quantile().unwrap();
            prop_assert!(min <= estimate && estimate <= max);
            let heights: Vec<f64> = cells.quantiles().map(|(_, height)| height).collect();
            prop_assert!(heights.is_sorted() && heights[0] >= min && heights[7] <= max, "{:?}", heights);
            if values.len() < 5 {
                let mut sorted = values.clone();
                sorted.sort_by(f64::total_cmp);
                prop_assert_eq!(estimate, sorted[quantile_rank(q, values.len() as u64).unwrap() as usize - 1]);
            }
        }
    }
}
