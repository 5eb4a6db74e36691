//! [`ModeFit`]: the modes that work comes in, where neighbouring jobs are not independent.
//!
//! A hidden Markov model with normal logarithms of work is learnt, the number of modes by the least BIC
//! (`surety_stats::hidden_markov`). Logarithms because work differs by factors from scene to scene and is skewed inside one; the
//! normal density only tells modes apart. The work of a mode is then the measured values themselves, each weighted by how
//! probably its job was in that mode, so that no mass is lost and no density has to fit.

use surety_stats::correlation::independence_finding;
use surety_stats::hidden_markov::{Order, choose};
use surety_units::Nanos;

use crate::distribution::{Empirical, TimeDistribution};

/// The most modes.
pub const MODES_MAX: usize = 6;
/// Of more jobs than this, stretches spread evenly are learnt from; independence is tested on all, and all are decoded.
pub const JOBS_MAX: usize = 20_000;
/// So many stretches.
const STRETCHES: usize = 10;
/// The fewest jobs modes are learnt from.
pub const JOBS_MIN: usize = 100;
/// Counts of a mode's work: one job is this many.
const PARTS: f64 = 1_000_000.0;
/// The seed of the starts.
const SEED: u64 = 1;
/// The level at which residuals are called dependent.
const LEVEL: f64 = 0.05;

/// Modes of work, from light to heavy.
#[derive(Clone, Debug, PartialEq)]
pub struct ModeFit {
    /// Work of the jobs in each mode; a job of uncertain mode counts in part. Counts are millionths of jobs.
    pub work: Vec<Empirical>,
    /// Expected number of jobs in each mode.
    pub jobs: Vec<f64>,
    /// How often a job in one mode was followed by one in another, as expected.
    pub followed: Vec<Vec<f64>>,
    /// The same of the last job and the first: what comes where the jobs begin anew.
    pub returned: Vec<Vec<f64>>,
    /// `transitions[g][g']`: probability that mode g is followed by mode g'.
    pub transitions: Vec<Vec<f64>>,
    /// Every number of modes that was tried.
    pub orders: Vec<Order>,
}

/// The modes of work in the order of its jobs; `None` where independence is not rejected, one mode explains it best, or there
/// are too few jobs.
pub fn modes(work: &[Nanos]) -> Option<ModeFit> {
    if work.len() < JOBS_MIN {
        return None;
    }
    let logs: Vec<f64> = work.iter().map(|time| libm::log(time.get().max(1) as f64)).collect();
    if independence_finding(&logs, 0.95).holds() {
        return None;
    }
    let choice = choose(&learnt_from(&logs), MODES_MAX, SEED)?;
    let model = &choice.best.model;
    let m = model.modes();
    if m < 2 {
        return None;
    }
    let decoded = model.decode(&logs);
    let (first, last) = (&decoded.probabilities[..m], &decoded.probabilities[(logs.len() - 1) * m..]);
    let returned = last.iter().map(|from| first.iter().map(|to| from * to).collect()).collect();
    let mut jobs = vec![0.0; m];
    let mut pairs: Vec<Vec<(Nanos, u64)>> = vec![Vec::new(); m];
    for (time, probabilities) in work.iter().zip(decoded.probabilities.chunks_exact(m)) {
        for (mode, p) in probabilities.iter().enumerate() {
            jobs[mode] += p;
            let parts = (p * PARTS).round() as u64;
            if parts > 0 {
                pairs[mode].push((*time, parts));
            }
        }
    }
    let work: Option<Vec<Empirical>> = pairs.into_iter().map(|p| Empirical::new(p).ok()).collect();
    Some(ModeFit {
        work: work?,
        jobs,
        followed: decoded.followed,
        returned,
        transitions: model.transitions.clone(),
        orders: choice.orders,
    })
}

/// All values, or stretches of them, evenly spread from the first to the last.
fn learnt_from(values: &[f64]) -> Vec<f64> {
    if values.len() <= JOBS_MAX {
        return values.to_vec();
    }
    let length = JOBS_MAX / STRETCHES;
    let room = values.len() - length;
    (0..STRETCHES)
        .flat_map(|stretch| {
            let from = room * stretch / (STRETCHES - 1);
            values[from..from + length].iter().copied()
        })
        .collect()
}

/// The modes of work that is declared as a sequence; `None` of any other, and as [`modes`].
pub fn modes_of(work: &TimeDistribution) -> Option<ModeFit> {
    match work {
        TimeDistribution::Empirical(empirical) => empirical.sequence().and_then(|values| modes(&values)),
        _ => None,
    }
}

impl ModeFit {
    /// How many modes.
    pub fn modes(&self) -> usize {
        self.work.len()
    }

    /// The order that was chosen.
    pub fn chosen(&self) -> Option<&Order> {
        self.orders.iter().find(|order| order.modes == self.modes())
    }

    /// Whether the chosen modes leave nothing dependent that a test would find.
    pub fn explains_all(&self) -> bool {
        self.chosen().is_some_and(|order| order.residuals.are_independent(LEVEL))
    }

    /// Each mode in words, with how long it lasts.
    pub fn describe_modes(&self) -> Vec<String> {
        let total: f64 = self.jobs.iter().sum();
        let mode = |g: usize| {
            let work = TimeDistribution::Empirical(self.work[g].clone());
            let mean = Nanos::from_f64_rounded(work.mean_ns());
            let stays = 1.0 / (1.0 - self.transitions[g][g]).max(1e-9);
            format!(
                "{:.1} % of the jobs, {stays:.1} at a time, mean work {mean}, 99 % quantile {}",
                100.0 * self.jobs[g] / total,
                self.work[g].quantile(0.99)
            )
        };
        (0..self.modes()).map(mode).collect()
    }

    /// The chain, row by row.
    pub fn describe_transitions(&self) -> String {
        rows(&self.transitions)
    }

    /// How the number of modes was chosen.
    pub fn describe_orders(&self) -> String {
        let each = |o: &Order| {
            let few = if o.is_told_from_chance() { "" } else { " (too few jobs in one)" };
            format!("{}: {:.1}{few}", o.modes, o.bic)
        };
        let all: Vec<String> = self.orders.iter().map(each).collect();
        format!("{}; least for {}", all.join(", "), self.modes())
    }

    /// What the modes leave unexplained.
    pub fn describe_residuals(&self) -> String {
        let one = self.orders.first().map_or(0.0, |o| o.residuals.lag_one);
        let Some(order) = self.chosen() else { return String::new() };
        let r = &order.residuals;
        format!(
            "lag 1 {:.3} (one mode: {one:.3}; independent ones stay within {:.3}), Ljung-Box p = {:.3}, of squares p = {:.3}: {}",
            r.lag_one,
            r.bound,
            r.ljung_box.p_value,
            r.of_squares.p_value,
            if self.explains_all() { "independence is not rejected" } else { "some dependence is left" }
        )
    }

    /// All of it in one sentence.
    pub fn describe(&self) -> String {
        format!(
            "work comes in {} modes: {}; BIC {}; residuals {}",
            self.modes(),
            self.describe_modes().join(" | "),
            self.describe_orders(),
            self.describe_residuals()
        )
    }
}

/// Probabilities of transitions in words.
pub fn rows(transitions: &[Vec<f64>]) -> String {
    let row = |row: &Vec<f64>| row.iter().map(|p| format!("{p:.4}")).collect::<Vec<_>>().join(" ");
    transitions.iter().map(row).collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_stats::random::Pcg;

    /// Scenes: light work for 50 jobs on average, heavy for 20.
    fn scenes(n: usize, seed: u128) -> Vec<Nanos> {
        let mut generator = Pcg::new(seed, 1);
        let mut heavy = false;
        (0..n)
            .map(|_| {
                let leaves = generator.unit_open() < if heavy { 0.05 } else { 0.02 };
                heavy ^= leaves;
                let (mean, spread) = if heavy { (9.0, 0.15) } else { (3.0, 0.25) };
                Nanos::from_f64_rounded(1e6 * mean * libm::exp(spread * generator.normal()))
            })
            .collect()
    }

    #[test]
    fn scenes_are_found_and_described() {
        let found = modes(&scenes(4_000, 5)).unwrap();
        assert_eq!(found.modes(), 2, "{}", found.describe());
        assert!(found.explains_all(), "{}", found.describe_residuals());
        assert!(
            (found.transitions[0][1] - 0.02).abs() < 0.01 && (found.transitions[1][0] - 0.05).abs() < 0.02
        );
        assert!((found.jobs.iter().sum::<f64>() - 4_000.0).abs() < 1e-6);
        let heavy = TimeDistribution::Empirical(found.work[1].clone()).mean_ns();
        assert!((heavy / 9.1e6 - 1.0).abs() < 0.03, "{heavy}");
        let text = found.describe();
        assert!(
            text.contains("2 modes") && text.contains("Ljung-Box") && text.contains("least for 2"),
            "{text}"
        );
    }

    /// Whatever the place of what is heavy: independence is looked for in all jobs, and the modes have all of them.
    #[test]
    fn what_is_heavy_is_found_behind_many_light_jobs_and_before_them() {
        let mut generator = Pcg::new(4, 1);
        let mut near = |mean: f64| Nanos::from_f64_rounded(1e6 * mean * libm::exp(0.1 * generator.normal()));
        let mut work: Vec<Nanos> = (0..JOBS_MAX).map(|_| near(1.0)).collect();
        work.extend((0..600).map(|_| near(19.0)));
        for found in [modes(&work).unwrap(), modes(&work.iter().rev().copied().collect::<Vec<_>>()).unwrap()]
        {
            let heavy: f64 = (0..found.modes())
                .filter(|g| found.work[*g].quantile(0.5) > Nanos::from_millis(10))
                .map(|g| found.jobs[g])
                .sum();
            assert!((heavy - 600.0).abs() < 1.0, "{}", found.describe());
            let returned: f64 = found.returned.iter().flatten().sum();
            assert!((returned - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn independent_work_has_no_modes() {
        let mut generator = Pcg::new(2, 1);
        let alike: Vec<Nanos> =
            (0..3_000).map(|_| Nanos::from_f64_rounded(3e6 * libm::exp(0.3 * generator.normal()))).collect();
        assert_eq!(modes(&alike), None);
        assert_eq!(modes(&[Nanos::MILLISECOND; 500]), None);
        assert_eq!(modes(&scenes(50, 1)), None);
    }
}
