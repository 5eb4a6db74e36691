//! The shift of a quantile between two runs, with a bootstrap interval.
//!
//! How much later is the 99.9 % quantile of `B` than that of `A`? No formula gives the error of that
//! difference without assuming a density, so both runs are drawn anew many times and the middle of the
//! resulting differences is the interval (the percentile interval of Efron 1979). Chance is seeded
//! ([`Pcg::for_job`], one generator a replicate), so the interval is the same on every machine.
//!
//! *Dependent runs* are drawn in blocks of neighbours from a circle (Politis and Romano 1992), so that a burst
//! stays a burst. [`block_length`] is the rule of Politis and White (Econometric Reviews 23, 2004, as corrected by
//! Patton, Politis and White 2009), and at least `n^(1/3)` (the order Künsch, Annals of Statistics 17, 1989, finds
//! best). Dependence is looked for twice: in the values, and in whether they lie beyond the quantile, whose error
//! it is (Sun and Lahiri, Sankhya 68, 2006): a few huge values hide from the first what the second sees.
//!
//! A quantile so far out that less than [`BEYOND`] values are expected beyond it is hardly moved by drawing
//! anew: the interval is then too narrow and is refused in words.

use std::fmt;

use thiserror::Error;

use crate::correlation::{DEPENDENT, correlogram, dependence};
use crate::random::Pcg;
use crate::rank::quantile_rank;
use crate::rank_test::{CompareError, check};

/// The fewest values expected beyond a quantile, on either side, that a bootstrap may be asked about.
pub const BEYOND: f64 = 5.0;

/// The fewest and the most times the runs may be drawn anew.
pub const REPLICATES: (u32, u32) = (100, 100_000);

/// Why there is no interval.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// A run has no values or one that is not finite.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The quantile is not a probability strictly between 0 and 1.
    #[error("a quantile is strictly between 0 and 1, not {q}")]
    Quantile {
        /// What was asked.
        q: f64,
    },
    /// The number of replicates is outside [`REPLICATES`].
    #[error("the runs can be drawn anew 100 to 100000 times, not {replicates}")]
    Replicates {
        /// What was asked.
        replicates: u32,
    },
    /// Too few values lie beyond the quantile.
    #[error(
        "run {run} has {count} values, too few for a bootstrap of the {q} quantile: needs {needs_more} more"
    )]
    TooFew {
        /// `A` or `B`.
        run: char,
        /// Which quantile.
        q: f64,
        /// How many values the run has.
        count: u64,
        needs_more: u64,
    },
}

/// How values are drawn anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resampling {
    /// One by one: for independent values.
    Single,
    /// In blocks of this many neighbours: for values in the order they were taken.
    Blocks(usize),
    /// In blocks of [`block_length`] when neighbours, or their lying beyond the quantile, are correlated by more than
    /// 0.1, else one by one.
    Measured,
}

/// What is drawn, how often, from which seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapPlan {
    /// How many times both runs are drawn anew.
    pub replicates: u32,
    /// The seed; the same gives the same interval.
    pub seed: u64,
    /// The confidence of the interval, strictly between 0 and 1.
    pub confidence: f64,
    /// One by one or in blocks.
    pub resampling: Resampling,
}

impl Default for BootstrapPlan {
    /// 2000 replicates, 95 %, blocks where the runs need them.
    fn default() -> BootstrapPlan {
        BootstrapPlan { replicates: 2_000, seed: 1, confidence: 0.95, resampling: Resampling::Measured }
    }
}

/// The quantile of `B` less that of `A`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileShift {
    /// Which quantile.
    pub q: f64,
    /// The difference of the two runs' own quantiles.
    pub estimate: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The confidence asked.
    pub confidence: f64,
    /// The lengths of the blocks drawn from `A` and `B`; 1 is one by one.
    pub blocks: (usize, usize),
}

impl QuantileShift {
    /// Whether the interval excludes no difference.
    pub fn differs(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

impl fmt::Display for QuantileShift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the {} quantile of B is {:+} from that of A, with {} % confidence between {:+} and {:+}",
            self.q,
            self.estimate,
            (self.confidence * 1e4 + 1e-6).floor() / 100.0,
            self.low,
            self.high
        )?;
        match self.blocks {
            (1, 1) => Ok(()),
            (a, b) => write!(f, " (dependent data: drawn in blocks of {a} and {b})"),
        }
    }
}

/// The length of blocks that keep the dependence of a run, in the order it was taken: at least 1, at most a
/// tenth of the run.
///
/// ```text
/// b = (2 G² / D)^(1/3) n^(1/3)      G = Σ w(k/M) |k| r_k      D = 4/3 (Σ w(k/M) r_k)²      k = -M .. M
/// ```
///
/// `w` is 1 up to a half and falls to 0 at 1; `M` is twice the lag behind which correlations are no more than
/// chance.
pub fn block_length(samples: &[f64]) -> usize {
    let n = samples.len();
    let shortest = libm::cbrt(n as f64);
    let measured = politis_white(samples).unwrap_or(shortest);
    (measured.max(shortest).ceil() as usize).clamp(1, (n / 10).max(1))
}

/// Politis and White's length for blocks from a circle; `None` where the samples do not vary.
fn politis_white(samples: &[f64]) -> Option<f64> {
    let n = samples.len() as f64;
    let log = libm::log10(n).max(0.0);
    // So many correlations in a row within the bound end the dependence.
    let quiet = log.sqrt().ceil().max(5.0) as usize;
    let longest = n.sqrt().ceil() as usize + quiet;
    let correlations = correlogram(samples, longest, 0.95)?.correlations;
    let bound = 2.0 * (log / n).sqrt();
    let is_quiet = |from: &usize| correlations[*from..].iter().take(quiet).all(|r| r.abs() < bound);
    let last = (0..correlations.len()).find(is_quiet).unwrap_or(correlations.len());
    let (mut spread, mut sum) = (0.0, 1.0);
    for (r, k) in correlations.iter().zip(1..=2 * last) {
        let weight = (2.0 * (1.0 - k as f64 / (2 * last) as f64)).min(1.0);
        spread += 2.0 * weight * k as f64 * r;
        sum += 2.0 * weight * r;
    }
    let length = libm::cbrt(1.5 * spread * spread / (sum * sum) * n);
    length.is_finite().then_some(length)
}

fn length_of(samples: &[f64], resampling: Resampling, q: f64) -> usize {
    match resampling {
        Resampling::Single => 1,
        Resampling::Blocks(length) => length.clamp(1, samples.len()),
        Resampling::Measured => {
            let limit = quantile(&mut samples.to_vec(), q);
            let beyond: Vec<f64> = samples.iter().map(|x| f64::from(*x > limit)).collect();
            let is_dependent =
                |series: &&[f64]| dependence(series).is_some_and(|found| found.lag_one > DEPENDENT);
            let lengths = [samples, &beyond].into_iter().filter(is_dependent).map(block_length);
            lengths.max().unwrap_or(1)
        }
    }
}

/// The value of rank `ceil(q n)`.
fn quantile(values: &mut [f64], q: f64) -> f64 {
    let rank = quantile_rank(q, values.len() as u64).map_or(0, |rank| rank as usize - 1);
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

/// Fills `drawn` from `values`, in blocks from a circle.
fn draw(pcg: &mut Pcg, values: &[f64], block: usize, drawn: &mut [f64]) {
    for slots in drawn.chunks_mut(block) {
        let start = pcg.below(values.len() as u64) as usize;
        let circle = values[start..].iter().chain(values);
        slots.iter_mut().zip(circle).for_each(|(slot, &value)| *slot = value);
    }
}

/// How much the `q` quantile of `B` is above that of `A`; values in the order they were taken.
///
/// Takes `replicates · (m + n)` steps. Panics unless `0 < confidence < 1`.
pub fn quantile_shift(
    a: &[f64],
    b: &[f64],
    q: f64,
    plan: &BootstrapPlan,
) -> Result<QuantileShift, BootstrapError> {
    let BootstrapPlan { replicates, seed, confidence, resampling } = *plan;
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is strictly between 0 and 1, not {confidence}"
    );
    check(a, b)?;
    if !(q > 0.0 && q < 1.0) {
        return Err(BootstrapError::Quantile { q });
    }
    if !(REPLICATES.0..=REPLICATES.1).contains(&replicates) {
        return Err(BootstrapError::Replicates { replicates });
    }
    // One part in 10^9: 1 - 0.999 is a little more than 0.001 as a float.
    let needed = (BEYOND / q.min(1.0 - q) * (1.0 - 1e-9)).ceil();
    for (run, values) in [('A', a), ('B', b)] {
        let count = values.len() as u64;
        if (count as f64) < needed {
            return Err(BootstrapError::TooFew { run, q, count, needs_more: needed as u64 - count });
        }
    }
    let blocks = (length_of(a, resampling, q), length_of(b, resampling, q));
    let (mut from_a, mut from_b) = (a.to_vec(), b.to_vec());
    let estimate = quantile(&mut from_b, q) - quantile(&mut from_a, q);
    let mut shifts: Vec<f64> = (0..u64::from(replicates))
        .map(|replicate| {
            let mut pcg = Pcg::for_job(seed, 0, replicate);
            draw(&mut pcg, a, blocks.0, &mut from_a);
            draw(&mut pcg, b, blocks.1, &mut from_b);
            quantile(&mut from_b, q) - quantile(&mut from_a, q)
        })
        .collect();
    let risk = (1.0 - confidence) / 2.0;
    let (low, high) = (quantile(&mut shifts, risk), quantile(&mut shifts, 1.0 - risk));
    Ok(QuantileShift { q, estimate, low, high, confidence, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(n: usize, run: u64) -> Vec<f64> {
        let mut pcg = Pcg::for_job(71, 5, run);
        (0..n).map(|_| pcg.normal()).collect()
    }

    fn burst(n: usize, run: u64) -> Vec<f64> {
        let mut level = 0.0;
        chance(n, run)
            .iter()
            .map(|x| {
                level = 0.9 * level + x;
                level
            })
            .collect()
    }

    #[test]
    fn the_seed_decides() {
        let (a, b) = (chance(300, 1), chance(300, 2));
        let plan = BootstrapPlan { replicates: 200, ..BootstrapPlan::default() };
        let first = quantile_shift(&a, &b, 0.9, &plan).unwrap();
        assert_eq!(quantile_shift(&a, &b, 0.9, &plan).unwrap(), first);
        let other = BootstrapPlan { seed: 2, ..plan };
        assert_ne!(quantile_shift(&a, &b, 0.9, &other).unwrap(), first);
        assert!(first.low <= first.estimate && first.estimate <= first.high && first.blocks == (1, 1));
    }

    #[test]
    fn a_later_tail_is_told() {
        let a = chance(2_000, 3);
        let b: Vec<f64> = chance(2_000, 4).iter().map(|x| if *x > 1.0 { x + 2.0 } else { *x }).collect();
        let plan = BootstrapPlan { replicates: 300, ..BootstrapPlan::default() };
        let tail = quantile_shift(&a, &b, 0.95, &plan).unwrap();
        assert!(tail.differs() && tail.low > 1.5, "{tail}");
        assert!(!quantile_shift(&a, &b, 0.25, &plan).unwrap().differs());
    }

    /// The interval of the median covers the true shift about as often as said; one by one it would not for
    /// dependent runs.
    #[test]
    fn blocks_keep_the_coverage_of_dependent_runs() {
        let plan = BootstrapPlan { replicates: 100, confidence: 0.9, ..BootstrapPlan::default() };
        let singly = BootstrapPlan { resampling: Resampling::Single, ..plan };
        let runs = 150;
        let covered = |plan: &BootstrapPlan, make: fn(usize, u64) -> Vec<f64>| {
            let covers = |run: u64| {
                let shift = quantile_shift(&make(400, 2 * run + 50), &make(400, 2 * run + 51), 0.5, plan);
                !shift.unwrap().differs()
            };
            (0..runs).filter(|&run| covers(run)).count() as f64 / runs as f64
        };
        let (independent, blocks, single) =
            (covered(&plan, chance), covered(&plan, burst), covered(&singly, burst));
        assert!(independent > 0.82, "{independent}");
        assert!(blocks > 0.78 && single < 0.6, "{blocks} {single}");
    }

    /// For an autoregression `G = 2 f / (1 - f)²` and `Σ r = (1 + f) / (1 - f)`: 0.9 and 4000 samples make blocks of
    /// 114.
    #[test]
    fn blocks_are_as_long_as_theory_says() {
        let mean = (0..20).map(|run| block_length(&burst(4_000, run)) as f64).sum::<f64>() / 20.0;
        let (spread, sum): (f64, f64) = (2.0 * 0.9 / 0.01, 1.9 / 0.1);
        let expected = libm::cbrt(1.5 * spread * spread / (sum * sum) * 4_000.0);
        assert!((mean / expected - 1.0).abs() < 0.25, "{mean} for {expected}");
        assert_eq!(
            (block_length(&chance(1_000, 1)), block_length(&[1.0; 1_000]), block_length(&[])),
            (10, 10, 1)
        );
    }

    #[test]
    fn what_a_bootstrap_cannot_tell_is_refused() {
        let plan = BootstrapPlan::default();
        let short = chance(1_000, 1);
        let error = quantile_shift(&short, &short, 0.999, &plan).unwrap_err().to_string();
        assert!(error.ends_with("needs 4000 more"), "{error}");
        assert_eq!(quantile_shift(&short, &short, 1.0, &plan), Err(BootstrapError::Quantile { q: 1.0 }));
        let none = BootstrapPlan { replicates: 0, ..plan };
        assert_eq!(
            quantile_shift(&short, &short, 0.5, &none),
            Err(BootstrapError::Replicates { replicates: 0 })
        );
        assert!(matches!(quantile_shift(&[], &short, 0.5, &plan), Err(BootstrapError::Compare(_))));
    }
}
