//! [`Failures`]: which of many trials failed, in the order they were made, and what that says of the fraction that fails.
//!
//! Late activations come in bursts: one burst is one piece of evidence, however many activations it makes late. The
//! variance of a count over windows of `L` trials, over that of `L` independent ones, is the *design effect* (Kish 1965)
//!
//! ```text
//! D = max over L of  Var(S_L) / (L p (1 - p)) · K / (K - 1) · (1 + (z² + 1) / (2 · 1.5 (K - 1)))     K = n / L >= 6
//! ```
//!
//! over all windows that overlap (Meketon and Schmeiser 1984), from single trials to a sixth of the run; the last factor
//! widens a normal bound to Student's for the `1.5 (K - 1)` degrees of freedom such windows have, and `z` is the normal
//! 95 % quantile. `n / D` is the effective sample size, `k / D` the effective number of failures, and the bounds are
//! those of Clopper and Pearson at these (Korn and Graubard, Survey Methodology 24, 1998). Few bursts do not show how
//! long bursts get, so what `D` is above 1 counts `1 + 2 D / k` times. With single failures, or none, the bounds are
//! those of independent trials.
//!
//! No bound excludes bursts that were never seen: of `n` trials without a failure all that can be said, with 95 %
//! confidence, is that failures in bursts of `b` make up less than `3 b / n`. See [`Failures::longest_excluded`].

use crate::special::{inverse_beta_lower, inverse_beta_upper};

/// The fewest windows a variance is taken over.
const WINDOWS: usize = 6;

/// `(z² + 1) / 2` for the normal 95 % quantile.
const STUDENT: f64 = 1.853;

/// `-ln 0.05`: so many bursts expected are missed altogether with a probability of 5 %.
const EXPECTED: f64 = 2.996;

/// Failures counted in cells of consecutive trials. Its size is fixed: recording allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Failures in each cell, the last one may be unfinished.
    cells: Vec<u64>,
    /// Trials of a cell.
    every: u64,
    trials: u64,
    failures: u64,
}

impl Default for Failures {
    fn default() -> Failures {
        Failures::new()
    }
}

impl FromIterator<bool> for Failures {
    fn from_iter<I: IntoIterator<Item = bool>>(failed: I) -> Failures {
        let mut failures = Failures::new();
        failed.into_iter().for_each(|failed| failures.record(failed));
        failures
    }
}

impl Failures {
    /// Room for cells: a run of as many trials or more has at least half as many cells.
    pub const MOST: usize = 1_024;

    /// No trial yet, and room for all that will ever be kept.
    pub fn new() -> Failures {
        Failures { cells: Vec::with_capacity(Failures::MOST), every: 1, trials: 0, failures: 0 }
    }

    /// Counts whose order is not known: they are taken for one burst. More failures than trials count as all of them.
    pub fn unordered(failures: u64, trials: u64) -> Failures {
        let failures = failures.min(trials);
        let cells = if trials > 0 { vec![failures] } else { Vec::new() };
        Failures { cells, every: trials.max(1), trials, failures }
    }

    /// Counts that were kept before: the failures of each cell that has some, by its place, ascending.
    ///
    /// `None` where that cannot be: a cell beyond the end or out of order, more failures than trials in one, or too many
    /// cells.
    pub fn of_kept(cells: &[(u64, u64)], every: u64, trials: u64) -> Option<Failures> {
        let length = usize::try_from(trials.div_ceil(every.max(1))).ok()?;
        if every == 0 || length > Failures::MOST || !cells.is_sorted_by(|(a, _), (b, _)| a < b) {
            return None;
        }
        let mut kept = Failures { cells: vec![0; length], every, trials, failures: 0 };
        for &(place, count) in cells {
            let room = trials.checked_sub(place.checked_mul(every)?)?.min(every);
            if count > room {
                return None;
            }
            *kept.cells.get_mut(usize::try_from(place).ok()?)? = count;
            // The rooms of all cells are no more than the trials, so the sum fits.
            kept.failures += count;
        }
        Some(kept)
    }

    /// The cells with a failure: place and count, as [`Failures::of_kept`] takes them.
    pub fn kept(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..).zip(self.cells.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// Trials of a cell.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// Takes the next trial. Allocates nothing.
    pub fn record(&mut self, failed: bool) {
        let place = usize::try_from(self.trials / self.every).unwrap_or(usize::MAX);
        if place >= self.cells.len() {
            self.make_room();
            self.cells.push(0);
        }
        if let Some(last) = self.cells.last_mut() {
            *last += u64::from(failed);
        }
        self.trials += 1;
        self.failures += u64::from(failed);
    }

    /// Halves the number of cells when all are in use.
    fn make_room(&mut self) {
        if self.cells.len() == Failures::MOST {
            for pair in 0..Failures::MOST / 2 {
                self.cells[pair] = self.cells[2 * pair] + self.cells[2 * pair + 1];
            }
            self.cells.truncate(Failures::MOST / 2);
            self.every = self.every.saturating_mul(2);
        }
    }

    /// Adds a run that was made after this one: another piece of the same process, or one like it.
    ///
    /// An unfinished cell at the border is filled up with trials of the other.
    pub fn append(&mut self, other: &Failures) {
        let total = self.trials.saturating_add(other.trials);
        let every = self.every.max(other.every).max(total.div_ceil(Failures::MOST as u64));
        let mut cells = vec![0u64; usize::try_from(total.div_ceil(every)).unwrap_or(0)];
        let cells_of = |run: &Failures, before: u64| -> Vec<(u64, u64)> {
            let at = |place: u64| before.saturating_add(place.saturating_mul(run.every));
            run.kept().map(|(place, count)| (at(place), count)).collect()
        };
        for (trial, count) in cells_of(self, 0).into_iter().chain(cells_of(other, self.trials)) {
            let place = usize::try_from(trial / every).unwrap_or(usize::MAX);
            if let Some(cell) = cells.get_mut(place) {
                *cell = cell.saturating_add(count);
            }
        }
        let failures = self.failures.saturating_add(other.failures);
        *self = Failures { cells, every, trials: total, failures };
    }

    /// How many trials there were.
    pub fn trials(&self) -> u64 {
        self.trials
    }

    /// How many of them failed.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// The variance of the count over that of as many independent trials: at least 1; at most the number of failures or
    /// of successes, whichever is smaller, which then were one burst.
    pub fn design_effect(&self) -> f64 {
        let (n, k) = (self.trials as f64, self.failures as f64);
        let most = k.min(n - k);
        if most <= 1.0 {
            return 1.0;
        }
        let cells = self.cells.len();
        if cells < 2 {
            return most;
        }
        let sums: Vec<u64> = std::iter::once(0)
            .chain(self.cells.iter().scan(0, |sum, cell| {
                *sum += cell;
                Some(*sum)
            }))
            .collect();
        let fraction = k / n;
        let mut effect = 1.0f64;
        let mut length = (cells / WINDOWS).max(1);
        loop {
            // The variance of single trials is known.
            if length as u64 * self.every > 1 {
                let trials = length as f64 * self.every as f64;
                let mean = fraction * trials;
                let squares = sums.iter().zip(&sums[length..]).map(|(from, to)| {
                    let off = (to - from) as f64 - mean;
                    off * off
                });
                let variance = squares.sum::<f64>() / (cells - length + 1) as f64;
                let free = cells as f64 / length as f64 - 1.0;
                let widened = (free + 1.0) / free * (1.0 + STUDENT / (1.5 * free));
                effect = effect.max(variance * widened / (mean * (1.0 - fraction)));
            }
            if length == 1 {
                break;
            }
            length /= 2;
        }
        let effect = effect.min(most);
        (1.0 + (effect - 1.0) * (1.0 + 2.0 * effect / k)).min(most)
    }

    /// What the counts are worth as independent trials.
    pub fn effective(&self) -> Effective {
        let effect = self.design_effect();
        Effective { failures: self.failures as f64 / effect, trials: self.trials as f64 / effect }
    }

    /// Bursts of failures longer than this are not excluded by the trials, where `allowed` is the fraction that may
    /// fail: a process with longer ones that fails more often shows none of them in so many trials with a probability
    /// of more than 5 %.
    pub fn longest_excluded(&self, allowed: f64) -> u64 {
        (allowed * self.trials as f64 / EXPECTED * (1.0 + 1e-3)).floor().max(1.0) as u64
    }
}

/// As many independent trials as say as much as trials that depend on each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effective {
    /// Failures, not a whole number.
    pub failures: f64,
    pub trials: f64,
}

impl Effective {
    /// `times` as many trials with as many failures in proportion.
    pub fn times(self, times: f64) -> Effective {
        Effective { failures: self.failures * times, trials: self.trials * times }
    }

    /// The one-sided upper bound of the fraction that fails; 1 without trials. `0 < risk < 1`.
    pub fn upper(self, risk: f64) -> f64 {
        let good = self.trials - self.failures;
        if good <= 0.0 { 1.0 } else { inverse_beta_upper(self.failures + 1.0, good, risk) }
    }

    /// The one-sided lower bound of the fraction that fails; 0 without failures. `0 < risk < 1`.
    pub fn lower(self, risk: f64) -> f64 {
        if self.failures <= 0.0 {
            return 0.0;
        }
        inverse_beta_lower(self.failures, self.trials - self.failures + 1.0, risk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::{failure_lower, failure_upper};
    use proptest::prelude::*;

    #[test]
    fn single_failures_have_the_bounds_of_independent_trials() {
        for (failed, trials) in [(0u64, 299u64), (1, 625), (1, 5)] {
            let run: Failures = (0..trials).map(|i| i < failed).collect();
            let effective = run.effective();
            assert_eq!((effective.failures, effective.trials), (failed as f64, trials as f64));
            assert!((effective.upper(0.05) - failure_upper(failed, trials, 0.95)).abs() < 1e-12);
            assert!((effective.lower(0.05) - failure_lower(failed, trials, 0.95)).abs() < 1e-12);
        }
    }

    /// One burst of 15 counts as one failure among a fifteenth of the trials, and so do 15 whose order nobody knows.
    #[test]
    fn a_burst_is_one_piece_of_evidence() {
        let run: Failures = (0..3_000).map(|i| (1_000..1_015).contains(&i)).collect();
        for run in [run, Failures::unordered(15, 3_000)] {
            let effective = run.effective();
            assert!((effective.failures - 1.0).abs() < 0.1, "{effective:?}");
            assert!((effective.upper(0.05) * 3_000.0 / 15.0 - 4.74).abs() < 0.1, "{effective:?}");
        }
    }

    #[test]
    fn what_a_run_without_failures_does_not_exclude() {
        let run = |n: u64| -> Failures { (0..n).map(|_| false).collect() };
        assert_eq!(run(299).longest_excluded(0.01), 1);
        assert_eq!(run(3_000).longest_excluded(0.01), 10);
        assert_eq!(run(3).longest_excluded(0.01), 1);
    }

    #[test]
    fn kept_counts_that_cannot_be_are_refused() {
        for (cells, every, trials) in [
            (vec![(0, 1)], 0, 5),
            (vec![(0, 3)], 2, 5),
            (vec![(2, 2)], 2, 5),
            (vec![(3, 1)], 2, 5),
            (vec![(1, 1), (0, 1)], 2, 5),
            (vec![(u64::MAX, 1)], 2, 5),
            (vec![], 1, u64::MAX),
        ] {
            assert_eq!(Failures::of_kept(&cells, every, trials), None, "{cells:?} {every} {trials}");
        }
    }

    proptest! {
        #[test]
        fn what_was_kept_is_the_same(run in prop::collection::vec(any::<bool>(), 0..5_000)) {
            let failures: Failures = run.iter().copied().collect();
            let cells: Vec<(u64, u64)> = failures.kept().collect();
            let again = Failures::of_kept(&cells, failures.every(), failures.trials());
            prop_assert_eq!(again, Some(failures.clone()));
            let (n, k) = (run.len() as u64, run.iter().filter(|failed| **failed).count() as u64);
            prop_assert_eq!((failures.trials(), failures.failures()), (n, k));
            let effective = failures.effective();
            prop_assert!(effective.upper(0.05) >= failure_upper(k, n, 0.95) - 1e-9);
            prop_assert!(effective.lower(0.05) <= failure_lower(k, n, 0.95) + 1e-9);
        }

        /// Two runs one after the other have the counts of both, whatever their cells.
        #[test]
        fn runs_are_appended(a in 0u64..6_000, b in 0u64..6_000, step in 1u64..50) {
            let run = |n: u64| -> Failures { (0..n).map(|i| i % step == 0).collect() };
            let mut both = run(a);
            both.append(&run(b));
            prop_assert_eq!((both.trials(), both.failures()), (a + b, a.div_ceil(step) + b.div_ceil(step)));
            prop_assert_eq!(both.kept().map(|(_, count)| count).sum::<u64>(), both.failures());
        }
    }
}
