//! Change points: where a run starts to behave otherwise, in its location or in its spread.
//!
//! Samples are replaced by their ranks, so one huge latency weighs no more than the largest of a calm run. For
//! a split of an interval of `m` ranks with within-run variance `σ²` the gain is the rank form of the
//! likelihood ratio (the Kruskal-Wallis statistic of the two sides, chi-square with one degree of freedom
//! for a split named in advance):
//!
//! ```text
//! G(t) = t (m - t) / m · (mean of the first t - mean of the rest)² / σ²
//! ```
//!
//! A split counts when `G` exceeds the BIC-type penalty `3 ln n`, the location of the change counted as a
//! parameter (Zhang and Siegmund, Biometrics 63, 2007). Candidates come from seeded intervals (Kovács, Bühlmann,
//! Li and Munk, Biometrika 110, 2023): all dyadic lengths, shifted by half a length, so a short episode is not
//! masked by the rest; narrowest first (Baranowski, Chen and Fryzlewicz, JRSS B 81, 2019). Then each change
//! point is placed and judged again between its neighbours, and dropped when it no longer counts. The whole
//! takes `n log n` steps.
//!
//! Spread: the same on the distances from the median of the segment.
//!
//! The penalty is for independent samples; positive autocorrelation makes the search too eager
//! ([`crate::correlation`] tells).

use std::fmt;

use crate::special::kolmogorov_tail;

/// The fewest samples on either side of a change point.
pub const SHORTEST: usize = 10;

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// The values became larger or smaller.
    Location,
    /// The values became more or less scattered about their median.
    Spread,
}

/// One change of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The index of the first sample after the change.
    pub at: usize,
    /// What changed.
    pub aspect: Aspect,
    /// The gain `G` between the neighbouring change points.
    pub strength: f64,
    /// How sure the change is: one minus the p-value of Pettitt's rank test (1979) between the neighbouring
    /// change points, with the limit distribution of Kolmogorov.
    pub confidence: f64,
    /// The median before (of the values, or of their distances from it), back to the previous change.
    pub before: f64,
    /// The median after, up to the next change.
    pub after: f64,
}

impl fmt::Display for ChangePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.aspect {
            Aspect::Location => "median",
            Aspect::Spread => "median distance from the median",
        };
        // Rounded down: a confidence is never overstated.
        let percent = (self.confidence * 1e4).floor() / 100.0;
        write!(
            f,
            "at sample {}: {what} from {} to {} ({percent} % confidence, strength {:.0})",
            self.at, self.before, self.after, self.strength
        )
    }
}

/// The changes of a run, in the order of their places; a change of location stands before one of spread.
///
/// Empty when there is none, below [`SHORTEST`]·2 samples, or when one is not a number. Between two changes of
/// one aspect lie at least [`SHORTEST`] samples.
pub fn change_points(samples: &[f64]) -> Vec<ChangePoint> {
    if samples.len() < 2 * SHORTEST || samples.iter().any(|x| x.is_nan()) {
        return Vec::new();
    }
    let locations = splits(samples);
    let mut found = described(samples, &locations, Aspect::Location);
    let mut distances = Vec::with_capacity(samples.len());
    for (from, to) in segments(&locations, samples.len()) {
        let middle = median(&samples[from..to]);
        distances.extend(samples[from..to].iter().map(|x| (x - middle).abs()));
    }
    // Infinite samples have no distance from an infinite median.
    if distances.iter().all(|d| !d.is_nan()) {
        found.extend(described(&distances, &splits(&distances), Aspect::Spread));
    }
    found.sort_by_key(|change| (change.at, change.aspect == Aspect::Spread));
    found
}

fn described(values: &[f64], splits: &[usize], aspect: Aspect) -> Vec<ChangePoint> {
    let ranks = Ranks::new(values);
    let bounds: Vec<(usize, usize)> = segments(splits, values.len()).collect();
    let describe = |sides: &[(usize, usize)]| {
        let ((from, at), (_, to)) = (sides[0], sides[1]);
        ChangePoint {
            at,
            aspect,
            strength: ranks.gain(from, at, to),
            confidence: 1.0 - pettitt_p_value(&values[from..to]),
            before: median(&values[from..at]),
            after: median(&values[at..to]),
        }
    };
    bounds.windows(2).map(describe).collect()
}

/// The stretches between splits.
fn segments(splits: &[usize], n: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    let starts = std::iter::once(0).chain(splits.iter().copied());
    starts.zip(splits.iter().copied().chain(std::iter::once(n)))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    let middle = (sorted.len() - 1) / 2;
    *sorted.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The midranks of values, from 1 to `n`.
fn midranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0usize;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = below as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&i| ranks[i] = rank);
        below += equal.len();
    }
    ranks
}

/// The p-value of Pettitt's test: the largest partial sum of rank deviations, as a Brownian bridge.
fn pettitt_p_value(values: &[f64]) -> f64 {
    let ranks = midranks(values);
    let n = ranks.len() as f64;
    let middle = (n + 1.0) / 2.0;
    let (mut partial, mut largest, mut square_sum) = (0.0, 0.0f64, 0.0);
    for rank in &ranks {
        partial += rank - middle;
        largest = largest.max(partial.abs());
        square_sum += (rank - middle) * (rank - middle);
    }
    if square_sum > 0.0 { kolmogorov_tail(largest / square_sum.sqrt()) } else { 1.0 }
}

/// Sums of ranks about their mean and of their squares, up to each place.
struct Ranks {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Ranks {
    fn new(values: &[f64]) -> Ranks {
        let ranks = midranks(values);
        let n = ranks.len() as f64;
        let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
        let (mut sum, mut square) = (0.0, 0.0);
        for rank in ranks {
            // Between -1/2 and 1/2, so the sums keep their digits.
            let score = (rank - (n + 1.0) / 2.0) / n;
            sum += score;
            square += score * score;
            sums.push(sum);
            squares.push(square);
        }
        Ranks { sums, squares }
    }

    /// The gain of splitting `from..to` before `at`.
    fn gain(&self, from: usize, at: usize, to: usize) -> f64 {
        let (left, right) = ((at - from) as f64, (to - at) as f64);
        let total = left + right;
        let (sum_left, sum_right) = (self.sums[at] - self.sums[from], self.sums[to] - self.sums[at]);
        let sum = sum_left + sum_right;
        let scatter = self.squares[to] - self.squares[from] - sum * sum / total;
        let apart = sum_left / left - sum_right / right;
        let variance = scatter / (total - 1.0);
        // Below this the interval holds equal values only and the rest is rounding.
        if variance > 1e-18 { left * right / total * apart * apart / variance } else { 0.0 }
    }

    /// The best split of `from..to`, [`SHORTEST`] away from its ends, and its gain.
    fn best(&self, from: usize, to: usize) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for at in from + SHORTEST..=to.checked_sub(SHORTEST)? {
            let gain = self.gain(from, at, to);
            if best.is_none_or(|(_, most)| gain > most) {
                best = Some((at, gain));
            }
        }
        best
    }
}

/// The places of the change points, ascending.
fn splits(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    let ranks = Ranks::new(values);
    let penalty = 3.0 * libm::log(n as f64);
    let mut found: Vec<usize> = Vec::new();
    // Narrowest intervals first; one that already holds a change point is not asked again.
    let mut lengths: Vec<usize> = Vec::new();
    let mut length = n;
    while length >= 2 * SHORTEST {
        lengths.push(length);
        length = length.div_ceil(2);
    }
    for &length in lengths.iter().rev() {
        let mut candidates: Vec<(usize, f64)> = Vec::new();
        let step = (length / 2).max(1);
        let mut from = 0;
        while from + length <= n {
            candidates.extend(free_split(&ranks, &found, from, from + length, penalty));
            from += step;
        }
        candidates.extend(free_split(&ranks, &found, n - length, n, penalty));
        // The strongest of one length first: its neighbours often see the same change.
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for (at, _) in candidates {
            if found.iter().all(|&other| at.abs_diff(other) >= length / 2) {
                found.push(at);
            }
        }
        found.sort_unstable();
    }
    settle(&ranks, found, n, penalty)
}

/// The best split of an interval that holds no change point yet.
fn free_split(ranks: &Ranks, found: &[usize], from: usize, to: usize, penalty: f64) -> Option<(usize, f64)> {
    let next = found.partition_point(|&at| at <= from);
    if found.get(next).is_some_and(|&at| at < to) {
        return None;
    }
    ranks.best(from, to).filter(|&(_, gain)| gain > penalty)
}

/// Places each change point between its neighbours anew and drops the weakest that no longer counts.
fn settle(ranks: &Ranks, mut found: Vec<usize>, n: usize, penalty: f64) -> Vec<usize> {
    // Two rounds of placing; every later round only drops one, and each looks at neighbours alone.
    for _ in 0..2 {
        for i in 0..found.len() {
            let from = if i == 0 { 0 } else { found[i - 1] };
            let to = found.get(i + 1).copied().unwrap_or(n);
            if let Some((at, _)) = ranks.best(from, to) {
                found[i] = at;
            }
        }
    }
    loop {
        let gains = (0..found.len()).map(|i| {
            let from = if i == 0 { 0 } else { found[i - 1] };
            (i, ranks.gain(from, found[i], found.get(i + 1).copied().unwrap_or(n)))
        });
        let weakest = gains.min_by(|a, b| a.1.total_cmp(&b.1));
        match weakest {
            Some((i, gain)) if gain <= penalty => {
                found.remove(i);
            }
            _ => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Pcg;
    use proptest::prelude::*;

    fn chance(n: usize, run: u64) -> Vec<f64> {
        let mut pcg = Pcg::for_job(51, 4, run);
        (0..n).map(|_| pcg.normal()).collect()
    }

    fn places(samples: &[f64], aspect: Aspect) -> Vec<usize> {
        change_points(samples).iter().filter(|c| c.aspect == aspect).map(|c| c.at).collect()
    }

    #[test]
    fn chance_has_no_changes() {
        let false_alarms = (0..200).filter(|&run| !change_points(&chance(1_000, run)).is_empty()).count();
        assert!(false_alarms <= 4, "{false_alarms}");
        assert!(change_points(&[1.0; 500]).is_empty());
        assert!(change_points(&[1.0; 5]).is_empty());
        assert!(change_points(&[f64::NAN; 50]).is_empty());
    }

    /// Two levels and back, with one sample in fifty a huge outlier: the outliers change nothing.
    #[test]
    fn an_episode_among_outliers_is_found() {
        for run in 0..20 {
            let mut samples = chance(2_000, 1_000 + run);
            samples[900..1_000].iter_mut().for_each(|x| *x += 3.0);
            samples.iter_mut().step_by(50).for_each(|x| *x = 1e9);
            let found = places(&samples, Aspect::Location);
            assert_eq!(found.len(), 2, "run {run}: {found:?}");
            assert!(found[0].abs_diff(900) <= 6 && found[1].abs_diff(1_000) <= 6, "run {run}: {found:?}");
        }
    }

    #[test]
    fn a_change_of_spread_is_no_change_of_location() {
        let mut samples = chance(2_000, 7);
        samples[1_200..].iter_mut().for_each(|x| *x *= 4.0);
        assert!(places(&samples, Aspect::Location).is_empty());
        let found = change_points(&samples);
        assert!(found.len() == 1 && found[0].at.abs_diff(1_200) <= 25, "{found:?}");
        assert!(found[0].confidence > 0.999 && found[0].after > 3.0 * found[0].before);
        assert!(found[0].to_string().contains("median distance from the median"), "{}", found[0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Hostile values: places ascend, lie inside, and keep their distance.
        #[test]
        fn places_keep_their_distance(
            values in prop::collection::vec(prop_oneof![-5.0..5.0f64, Just(0.0), Just(f64::INFINITY)], 0..300),
        ) {
            for aspect in [Aspect::Location, Aspect::Spread] {
                let mut last = 0;
                for at in places(&values, aspect) {
                    prop_assert!(at >= last + SHORTEST && at + SHORTEST <= values.len(), "{} {}", last, at);
                    last = at;
                }
            }
        }
    }
}
