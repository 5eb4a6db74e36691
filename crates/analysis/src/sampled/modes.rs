//! Modes that were measured, replaced by modes that with a confidence are nowhere better than the true ones.
//!
//! Modes are ordered from light to heavy. With transition matrices whose rows grow stochastically with the mode, and work that
//! grows with it, a chain with stochastically larger rows and work leaves a larger backlog behind every job (Daley 1968;
//! Müller and Stoyan, "Comparison methods for stochastic models and risks", 2002). So
//!
//! - `P{next mode <= j | mode i}` is replaced by its lower limit of Clopper and Pearson, and then by the least of it over the
//!   modes up to i (the smallest monotone matrix above; Abu-Amsha and Vincent 1998);
//! - the work of each mode by what the samples leave possible ([`crate::sampled`]), and then by the longest of it and of every
//!   lighter mode's.
//!
//! Half of the risk goes to each, shared equally among the limits.

use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::modes::ModeFit;
use surety_stats::intervals::failure_upper;
use surety_units::Nanos;

use crate::cbs::modulated::backlog::ModulatedWork;
use crate::sampled::{SampledError, worst_in_the_tail};
use crate::work::mean;

/// Counts of the dominating work: one part in this many.
const PARTS: f64 = 1e9;

/// What was measured of each mode, in any order.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredModes {
    /// Work of the jobs in each mode.
    pub work: Vec<Empirical>,
    /// Jobs seen in each mode, for the sampling error: parts of jobs where it is not certain which mode it was.
    pub jobs: Vec<f64>,
    /// How often a job in one mode was followed by one in another.
    pub followed: Vec<Vec<f64>>,
    /// How often what is measured begins anew after a job in one mode with one in another, where it does: 1 in all.
    pub returned: Vec<Vec<f64>>,
}

impl MeasuredModes {
    /// Of modes that were learnt.
    pub fn of(fit: &ModeFit) -> MeasuredModes {
        MeasuredModes {
            work: fit.work.clone(),
            jobs: fit.jobs.clone(),
            followed: fit.followed.clone(),
            returned: fit.returned.clone(),
        }
    }

    /// As measured, nothing added but the step from the last job to the first: what is declared is repeated without end.
    ///
    /// Modes that do not all lead to each other even so are cut to those that are left at last, the heaviest of such classes.
    pub fn as_measured(&self) -> ModulatedWork {
        let m = self.work.len();
        let row = |from: usize| -> Vec<f64> {
            let returned = |to: usize| self.returned.get(from).map_or(0.0, |row| row[to]);
            let counts: Vec<f64> = (0..m).map(|to| self.followed[from][to] + returned(to)).collect();
            let total: f64 = counts.iter().sum();
            counts.iter().map(|count| if total > 0.0 { count / total } else { 1.0 / m as f64 }).collect()
        };
        let rows: Vec<Vec<f64>> = (0..m).map(row).collect();
        let work: Vec<TimeDistribution> =
            self.work.iter().cloned().map(TimeDistribution::Empirical).collect();
        let heaviest = |modes: &Vec<usize>| -> f64 {
            let (jobs, sum) = modes.iter().fold((0.0, 0.0), |(jobs, sum), mode| {
                (jobs + self.jobs[*mode], sum + self.jobs[*mode] * mean(&work[*mode]))
            });
            sum / f64::max(jobs, f64::MIN_POSITIVE)
        };
        // From some mode of every closed class nothing but that class is reached.
        let classes = (0..m)
            .map(|from| reached(&rows, from))
            .filter(|class| class.iter().all(|mode| reached(&rows, *mode).len() == class.len()));
        let kept = classes.max_by(|a, b| heaviest(a).total_cmp(&heaviest(b))).unwrap_or_default();
        cut_to(&kept, &work, &rows)
    }

    /// With this confidence nowhere better than the truth; no job longer than `most`.
    pub fn worst(&self, most: Nanos, confidence: f64) -> Result<ModulatedWork, SampledError> {
        let m = self.work.len();
        if m == 0 {
            return Err(SampledError::Empty);
        }
        let means: Vec<f64> =
            self.work.iter().map(|w| mean(&TimeDistribution::Empirical(w.clone()))).collect();
        let mut order: Vec<usize> = (0..m).collect();
        order.sort_by(|a, b| means[*a].total_cmp(&means[*b]));
        let risk = (1.0 - confidence) / 2.0;
        let of_work = 1.0 - risk / m as f64;
        let of_transitions = 1.0 - risk / (m * (m - 1)).max(1) as f64;
        let mut below: Vec<Vec<f64>> = Vec::with_capacity(m);
        for from in &order {
            let row: Vec<f64> = order.iter().map(|to| self.followed[*from][*to]).collect();
            let mut lower = at_most_limits(&row, of_transitions);
            if let Some(lighter) = below.last() {
                lower.iter_mut().zip(lighter).for_each(|(here, there)| *here = here.min(*there));
            }
            below.push(lower);
        }
        let mut work: Vec<TimeDistribution> = Vec::with_capacity(m);
        for mode in &order {
            let samples = counted(&self.work[*mode], self.jobs[*mode]);
            let worst = worst_in_the_tail(&samples, 0, most, of_work)?.work;
            work.push(match work.last() {
                Some(lighter) => longer_of(lighter, &worst),
                None => worst,
            });
        }
        Ok(closed(&work, &below))
    }
}

/// The same distribution as so many samples, as far as whole numbers go: rounded down, so that it counts as less sure.
fn counted(samples: &Empirical, jobs: f64) -> Empirical {
    let n = (jobs.floor() as u64).max(1);
    let total = samples.total() as f64;
    let (mut below, mut given) = (0u64, 0u64);
    let mut pairs = Vec::new();
    for (value, count) in samples.pairs() {
        below += count;
        // Ranks are handed out late, so that no quantile gets smaller.
        let upto = (below as f64 / total * n as f64 + 1e-9).floor() as u64;
        if upto > given {
            pairs.push((value, upto - given));
            given = upto;
        }
    }
    Empirical::new(pairs).unwrap_or_else(|_| samples.clone())
}

/// Lower limits of `P{next mode <= j}` for every j.
fn at_most_limits(row: &[f64], confidence: f64) -> Vec<f64> {
    let n = row.iter().sum::<f64>().floor() as u64;
    let mut heavier: f64 = row.iter().sum();
    let last = row.len() - 1;
    let limits = row.iter().enumerate().map(|(j, count)| {
        heavier -= count;
        if j == last {
            1.0
        } else if n == 0 {
            0.0
        } else {
            let failures = (heavier.max(0.0).ceil() as u64).min(n);
            1.0 - failure_upper(failures, n, confidence)
        }
    });
    let mut so_far = 0.0f64;
    limits
        .map(|limit| {
            so_far = so_far.max(limit.clamp(0.0, 1.0));
            so_far
        })
        .collect()
}

/// Stochastically the larger of two.
fn longer_of(a: &TimeDistribution, b: &TimeDistribution) -> TimeDistribution {
    let (TimeDistribution::Empirical(left), TimeDistribution::Empirical(right)) = (a, b) else {
        return b.clone();
    };
    let mut steps: Vec<(Nanos, f64, f64)> = Vec::new();
    let mut add = |samples: &Empirical, is_left: bool| {
        let total = samples.total() as f64;
        steps.extend(samples.pairs().map(|(value, count)| {
            let mass = count as f64 / total;
            if is_left { (value, mass, 0.0) } else { (value, 0.0, mass) }
        }));
    };
    add(left, true);
    add(right, false);
    steps.sort_by_key(|(value, _, _)| *value);
    let (mut of_left, mut of_right, mut given) = (0.0f64, 0.0f64, 0u64);
    let mut pairs = Vec::new();
    for (place, (value, l, r)) in steps.iter().enumerate() {
        of_left += l;
        of_right += r;
        let is_last = place + 1 == steps.len();
        let upto = if is_last { PARTS as u64 } else { (of_left.min(of_right) * PARTS).floor() as u64 };
        if upto > given {
            pairs.push((*value, upto - given));
            given = upto;
        }
    }
    Empirical::new(pairs).map_or_else(|_| b.clone(), TimeDistribution::Empirical)
}

/// The modes that are ever in force in the long run: those that the heaviest leads to.
fn closed(work: &[TimeDistribution], below: &[Vec<f64>]) -> ModulatedWork {
    let m = work.len();
    let row = |i: usize| -> Vec<f64> {
        (0..m).map(|j| below[i][j] - if j == 0 { 0.0 } else { below[i][j - 1] }).collect()
    };
    let rows: Vec<Vec<f64>> = (0..m).map(row).collect();
    cut_to(&reached(&rows, m - 1), work, &rows)
}

/// The modes that a mode leads to, itself included, in their order.
fn reached(rows: &[Vec<f64>], from: usize) -> Vec<usize> {
    let mut seen = vec![false; rows.len()];
    let mut open = vec![from];
    while let Some(here) = open.pop() {
        if !std::mem::replace(&mut seen[here], true) {
            open.extend((0..rows.len()).filter(|to| rows[here][*to] > 0.0));
        }
    }
    (0..rows.len()).filter(|mode| seen[*mode]).collect()
}

/// Only these modes, which lead to no others.
fn cut_to(kept: &[usize], work: &[TimeDistribution], rows: &[Vec<f64>]) -> ModulatedWork {
    ModulatedWork {
        work: kept.iter().map(|mode| work[*mode].clone()).collect(),
        transitions: kept.iter().map(|i| kept.iter().map(|j| rows[*i][*j]).collect()).collect(),
    }
}
