//! The error of a measured distribution, carried into what is guaranteed.
//!
//! A fraction computed from the samples themselves is an estimate. Here the samples are replaced by a distribution that,
//! with a stated confidence, is nowhere below the true one ([`surety_stats::band`]); whatever is proven for it is true
//! with that confidence. What the samples leave open is put at a largest value that has to be given: no number of samples
//! bounds what was never seen.
//!
//! Where no job can leave a backlog (the largest work fits the budgets before the next release) a single probability
//! decides, `P{c <= k Q}`, and its own limit of Clopper and Pearson is tighter than any band.

pub mod modes;

use surety_model::distribution::{Empirical, TimeDistribution};
use surety_stats::band::{Method, lower_band};
use surety_stats::bounds::Ranked;
use surety_stats::intervals::failure_upper;
use surety_units::Nanos;
use thiserror::Error;

use crate::cbs::CbsError;
use crate::response::ServedTask;

/// Counts of the dominating distribution: one part in this many.
const PARTS: u64 = 1_000_000_000;

/// What every limit here takes for granted of the samples.
pub const INDEPENDENT: &str = "jobs are independent and will be like those measured";

/// Why samples guarantee nothing.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SampledError {
    /// Nothing measured.
    #[error("there are no samples: measure at least one job")]
    Empty,
    /// A sample is beyond what was said to be the largest.
    #[error("{} was seen, beyond the largest work of {} that was given: give a larger one", .seen.to_exact_string(),
        .given.to_exact_string())]
    BeyondMaximum {
        /// The largest sample.
        seen: Nanos,
        /// What was given.
        given: Nanos,
    },
    /// A confidence outside 0 to 1.
    #[error("a confidence is strictly between 0 and 1, not {0}")]
    Confidence(f64),
    /// The worst distribution has no bound.
    #[error("for the worst distribution the samples allow: {0}")]
    Unsolved(#[from] CbsError),
}

/// Work that is, with a confidence, nowhere below the true one.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    pub work: TimeDistribution,
    /// Which statistical theorem.
    pub method: &'static str,
    /// The numbers.
    pub steps: Vec<String>,
    /// What has to hold.
    pub assumptions: Vec<String>,
}

/// A fraction of jobs that is in time, with a confidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Guaranteed {
    /// Lower confidence limit of the fraction.
    pub probability: f64,
    /// Which statistical theorem.
    pub method: &'static str,
    /// The numbers.
    pub steps: Vec<String>,
    /// What has to hold.
    pub assumptions: Vec<String>,
}

/// Values with counts, by rank.
struct Ranks {
    values: Vec<(Nanos, u64)>,
    /// Jobs known only to be longer than any seen.
    unknown: u64,
    most: Nanos,
}

impl Ranks {
    fn of(samples: &Empirical, unknown: u64, most: Nanos) -> Ranks {
        let mut below = 0;
        let cumulated = |(value, count)| {
            below += count;
            (value, below)
        };
        Ranks { values: samples.pairs().map(cumulated).collect(), unknown, most }
    }
}

impl Ranked for Ranks {
    fn count(&self) -> u64 {
        self.values.last().map_or(0, |(_, all)| *all) + self.unknown
    }

    fn range_at_rank(&self, rank: u64) -> Option<(u64, u64)> {
        if rank == 0 || rank > self.count() {
            return None;
        }
        let place = self.values.partition_point(|(_, below)| *below < rank);
        let value = self.values.get(place).map_or(self.most, |(value, _)| *value);
        Some((value.get_unsigned(), value.get_unsigned()))
    }
}

fn check(samples: &Empirical, most: Nanos, confidence: f64) -> Result<(), SampledError> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(SampledError::Confidence(confidence));
    }
    let seen = samples.pairs().last().map(|(value, _)| value).ok_or(SampledError::Empty)?;
    if seen > most { Err(SampledError::BeyondMaximum { seen, given: most }) } else { Ok(()) }
}

/// The longest work that samples leave possible, no job longer than `most`.
///
/// `unknown`: further jobs of which only that they were not among the samples is known. `method` must have been
/// chosen without looking at the values ([`Method::sharper_at`]).
pub fn worst(
    samples: &Empirical,
    unknown: u64,
    most: Nanos,
    method: Method,
    confidence: f64,
) -> Result<Worst, SampledError> {
    check(samples, most, confidence)?;
    let ranks = Ranks::of(samples, unknown, most);
    let n = ranks.count();
    let mut pairs = Vec::new();
    let (mut below, mut highest) = (0u64, 0.0);
    for point in lower_band(&ranks, method, confidence) {
        // Rounded down, so that the distribution is rounded up.
        let to = ((point.at_least * PARTS as f64).floor() as u64).min(PARTS);
        if to > below {
            pairs.push((Nanos::new(i64::try_from(point.value).unwrap_or(i64::MAX)), to - below));
            below = to;
            highest = point.at_least;
        }
    }
    if below < PARTS {
        pairs.push((most, PARTS - below));
    }
    let work = TimeDistribution::Empirical(Empirical::new(pairs).map_err(|_| SampledError::Empty)?);
    Ok(Worst {
        work,
        method: method.name(),
        steps: vec![format!(
            "{n} samples with {:.1} % confidence: at least {highest:.6} of the jobs need no more than the largest seen; the \
             rest is taken to need {most}",
            confidence * 100.0
        )],
        assumptions: vec![INDEPENDENT.to_owned(), format!("no job ever needs more than {most}")],
    })
}

/// The fraction of a task's jobs done within this many budgets, as far as samples of its work guarantee it; the
/// task's own `work` is not looked at.
///
/// `promised`: the fraction in question, by which the method is chosen.
pub fn guaranteed(
    task: &ServedTask,
    within: u32,
    samples: &Empirical,
    most: Nanos,
    promised: f64,
    confidence: f64,
) -> Result<Guaranteed, SampledError> {
    check(samples, most, confidence)?;
    let n = samples.total();
    let runtime = task.reservation.runtime;
    if most <= runtime * i64::from(task.budgets_between()) {
        let reach = runtime * i64::from(within);
        let late: u64 = samples.pairs().filter(|(value, _)| *value > reach).map(|(_, count)| count).sum();
        // The largest work is given, so what reaches it is certain.
        let probability = if most <= reach { 1.0 } else { 1.0 - failure_upper(late, n, confidence) };
        return Ok(Guaranteed {
            probability,
            method: "Clopper-Pearson on the deciding probability",
            steps: vec![format!(
                "{late} of {n} samples need more than the {within} budget(s) of {runtime}: with {:.1} % confidence \
                 P{{c <= {reach}}} >= {probability:.6}, and no job leaves anything over",
                confidence * 100.0
            )],
            assumptions: vec![INDEPENDENT.to_owned(), format!("no job ever needs more than {most}")],
        });
    }
    let method = Method::sharper_at(n, promised, confidence);
    let mut worst = worst(samples, 0, most, method, confidence)?;
    let probability = ServedTask { work: worst.work, ..task.clone() }.solve()?.probability(within);
    worst.steps.push(format!("for that work a fraction of {probability:.6} is proven"));
    Ok(Guaranteed { probability, method: worst.method, steps: worst.steps, assumptions: worst.assumptions })
}

/// As [`worst`], sharper in the tail: for promises that the longest jobs decide.
///
/// Two statements, each with half of the risk `1 - confidence`: the band of Dvoretzky, Kiefer and Wolfowitz for the body, and
/// Clopper and Pearson's limit of the fraction beyond the largest sample for the tail (distribution-free: the probability
/// beyond the largest of n has the law of an order statistic). Both hold with the full confidence (Bonferroni).
pub fn worst_in_the_tail(
    samples: &Empirical,
    unknown: u64,
    most: Nanos,
    confidence: f64,
) -> Result<Worst, SampledError> {
    check(samples, most, confidence)?;
    let half = 1.0 - (1.0 - confidence) / 2.0;
    let ranks = Ranks::of(samples, unknown, most);
    let n = ranks.count();
    let largest = samples.pairs().last().map_or(Nanos::ZERO, |(value, _)| value);
    let beyond = failure_upper(unknown, n, half);
    let in_parts = |at_least: f64| ((at_least * PARTS as f64).floor() as u64).min(PARTS);
    let mut pairs = Vec::new();
    let mut below = 0u64;
    let mut reach = |value: Nanos, at_least: f64| {
        let to = in_parts(at_least);
        if to > below {
            pairs.push((value, to - below));
            below = to;
        }
    };
    for point in lower_band(&ranks, Method::Dkw, half) {
        let value = Nanos::new(i64::try_from(point.value).unwrap_or(i64::MAX));
        if value < largest {
            reach(value, point.at_least);
        }
    }
    reach(largest, 1.0 - beyond);
    if below < PARTS {
        pairs.push((most, PARTS - below));
    }
    let work = TimeDistribution::Empirical(Empirical::new(pairs).map_err(|_| SampledError::Empty)?);
    Ok(Worst {
        work,
        method: "Dvoretzky-Kiefer-Wolfowitz for the body, Clopper-Pearson for the tail",
        steps: vec![format!(
            "{n} samples with {:.1} % confidence: at most a fraction of {beyond:.6} needs more than {largest}, the largest seen, \
             and is taken to need {most}; below it the distribution function is lowered by {:.4} (Dvoretzky, Kiefer and \
             Wolfowitz; Clopper and Pearson; half of the risk each)",
            confidence * 100.0,
            (libm::log(1.0 / (1.0 - half)) / (2.0 * n as f64)).sqrt(),
        )],
        assumptions: vec![INDEPENDENT.to_owned(), format!("no job ever needs more than {most}")],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::platform::Enforcement;
    use surety_model::reservation::Reservation;
    use surety_model::workload::Late;
    use surety_stats::random::Pcg;

    fn task(q: i64) -> ServedTask {
        let ms = Nanos::from_millis;
        ServedTask {
            work: TimeDistribution::Constant(Nanos::ZERO),
            modes: None,
            gap: ms(40),
            jitter: Nanos::ZERO,
            grid: true,
            late: Late::Queue,
            reservation: Reservation::implicit(ms(q), ms(40)),
            enforcement: Enforcement::Exact,
        }
    }

    fn measured(n: u64, seed: u128) -> Empirical {
        let truth = TimeDistribution::Uniform { low: Nanos::from_millis(5), high: Nanos::from_millis(25) };
        let mut pcg = Pcg::new(seed, 1);
        Empirical::new((0..n).map(|_| (truth.draw_from(&mut pcg), 1)).collect()).unwrap()
    }

    #[test]
    fn guarantees_from_samples_stay_below_the_truth_as_often_as_they_say() {
        let ms = Nanos::from_millis;
        let truth = TimeDistribution::Uniform { low: ms(5), high: ms(25) };
        let exact = ServedTask { work: truth, ..task(20) }.solve().unwrap().probability(1);
        let mut above = 0;
        for seed in 0..40 {
            let found = guaranteed(&task(20), 1, &measured(2_000, seed), ms(30), 0.9, 0.9).unwrap();
            above += u32::from(found.probability > exact + 1e-6);
            assert!(found.probability > exact - 0.15, "{} {exact}", found.probability);
        }
        assert!(above <= 12, "{above} of 40 above the truth, 4 expected at most");
        // More samples guarantee more.
        let at = |n| guaranteed(&task(20), 1, &measured(n, 3), ms(30), 0.9, 0.95).unwrap().probability;
        assert!(at(200) < at(20_000));
    }

    #[test]
    fn a_single_probability_decides_where_nothing_is_left_over() {
        let ms = Nanos::from_millis;
        let samples = Empirical::new(vec![(ms(5), 950), (ms(12), 50)]).unwrap();
        let mut half = task(10);
        half.gap = ms(80);
        let found = guaranteed(&half, 1, &samples, ms(20), 0.95, 0.95).unwrap();
        assert!(found.method.contains("deciding"));
        assert!((found.probability - (1.0 - failure_upper(50, 1_000, 0.95))).abs() < 1e-12);
        assert_eq!(guaranteed(&half, 2, &samples, ms(20), 0.95, 0.95).unwrap().probability, 1.0);
        for (result, word) in [
            (guaranteed(&half, 1, &samples, ms(11), 0.95, 0.95), "12ms"),
            (guaranteed(&half, 1, &samples, ms(20), 0.95, 1.5), "1.5"),
            (guaranteed(&task(4), 1, &samples, ms(20), 0.95, 0.95), "larger runtime"),
        ] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_worst_work_dominates_the_samples_and_counts_the_unknown() {
        let samples = measured(500, 9);
        let most = Nanos::from_millis(60);
        for method in [Method::Dkw, Method::ClopperPearson] {
            let worst_with = |unknown| match worst(&samples, unknown, most, method, 0.95).unwrap().work {
                TimeDistribution::Empirical(work) => work,
                other => panic!("{other:?}"),
            };
            let (plain, with_unknown) = (worst_with(0), worst_with(25));
            for q in [0.1, 0.5, 0.9, 0.99, 1.0] {
                assert!(plain.quantile(q) >= samples.quantile(q));
                assert!(with_unknown.quantile(q) >= plain.quantile(q));
            }
            assert_eq!((plain.total(), plain.quantile(1.0)), (PARTS, most));
        }
    }

    #[test]
    fn the_tails_own_limit_is_sharper_there_and_still_dominates() {
        let ms = Nanos::from_millis;
        let truth = TimeDistribution::Uniform { low: ms(5), high: ms(25) };
        let mut not_dominated = 0;
        for seed in 0..60 {
            let samples = measured(1_000, seed);
            let worst = worst_in_the_tail(&samples, 0, ms(60), 0.9).unwrap().work;
            let banded = super::worst(&samples, 0, ms(60), Method::Dkw, 0.9).unwrap().work;
            let TimeDistribution::Empirical(found) = &worst else { panic!("{worst:?}") };
            assert!(crate::work::at_most(&worst, ms(26)) > crate::work::at_most(&banded, ms(26)));
            not_dominated += u32::from(found.pairs().any(|(value, _)| {
                crate::work::at_most(&worst, value) > crate::work::at_most(&truth, value) + 1e-9
            }));
        }
        assert!(not_dominated <= 14, "{not_dominated} of 60, 6 expected at most");
    }
}
