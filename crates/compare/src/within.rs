//! The shift of a quantile between two single runs, from the activations in them.
//!
//! Activations that follow each other are often late together, so they are drawn anew in blocks of neighbours
//! (circular block bootstrap, [`surety_stats::bootstrap`]): for that a record keeps the order of its values
//! ([`surety_stats::Sequence`]). Without it, as of imported results, there is no interval. Positive times are drawn by
//! their logarithms, so that no end of the interval is less than nothing at all. The kept values of a long run are thinned:
//! the interval is laid around the shift of the whole runs, and contains it. How far two runs of the same
//! thing are apart is not in it at all: it is shown to say what was seen, never judged.

use surety_model::record::{Distribution, Record};
use surety_stats::bootstrap::{BootstrapPlan, Resampling, quantile_shift};

use crate::metric::quantile_of;

/// How often both runs are drawn anew.
const REPLICATES: u32 = 500;

/// By how much a quantile differs between two single runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Within {
    /// The quantile of `B` less that of `A`.
    pub shift: f64,
    /// The ends of its interval.
    pub interval: (f64, f64),
    /// The ends of the interval of `B` over `A`, where all values are positive.
    pub ratio: Option<(f64, f64)>,
    /// The lengths of the blocks drawn from `A` and `B`; 1 is one by one.
    pub blocks: (usize, usize),
}

/// How much later a quantile of `b` is; `None` where the metric is none, the order of its activations is not known, some
/// of them never had the time, or there are too few.
pub(crate) fn shift(
    a: &Record,
    b: &Record,
    activity: &str,
    metric: &str,
    confidence: f64,
    seed: u64,
) -> Option<Within> {
    let (of_a, q) = quantile_of(a.activity(activity)?, metric)?;
    let (of_b, _) = quantile_of(b.activity(activity)?, metric)?;
    let (mut values_a, mut values_b) = (in_order(of_a)?, in_order(of_b)?);
    let whole = |d: &Distribution| d.quantile(q).map(|value| value.get() as f64);
    let (from, to) = (whole(of_a)?, whole(of_b)?);
    let is_positive = from > 0.0 && to > 0.0 && values_a.iter().chain(&values_b).all(|v| *v > 0.0);
    if is_positive {
        values_a.iter_mut().chain(&mut values_b).for_each(|v| *v = libm::log(*v));
    }
    let plan = BootstrapPlan { replicates: REPLICATES, seed, confidence, resampling: Resampling::Measured };
    let drawn = quantile_shift(&values_a, &values_b, q, &plan).ok()?;
    let around = |whole: f64| {
        let off = whole - drawn.estimate;
        ((drawn.low + off).min(whole), (drawn.high + off).max(whole))
    };
    let (interval, ratio) = if is_positive {
        let (low, high) = around(libm::log(to / from));
        let ratio = (libm::exp(low), libm::exp(high));
        ((from * (ratio.0 - 1.0), from * (ratio.1 - 1.0)), Some(ratio))
    } else {
        (around(to - from), None)
    };
    Some(Within { shift: to - from, interval, ratio, blocks: drawn.blocks })
}

/// The values of a distribution in the order they were taken, where every activation has one.
fn in_order(distribution: &Distribution) -> Option<Vec<f64>> {
    let observed = distribution.observed().filter(|o| o.without_value() == 0)?;
    Some(observed.in_order()?.values().iter().map(|value| *value as f64).collect())
}

/// Whether the order of a quantile's values is missing in a run, so that no interval can be given.
pub(crate) fn is_unordered(run: &Record, activity: &str, metric: &str) -> bool {
    let found = run.activity(activity).and_then(|a| quantile_of(a, metric));
    found.and_then(|(d, _)| d.observed()).is_some_and(|observed| observed.in_order().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::record::{ActivityRecord, Basis, Observed};
    use surety_model::workload::ActivityKind;
    use surety_stats::Pcg;
    use surety_units::Nanos;

    fn run(n: u64, seed: u64, scale: f64) -> Record {
        let mut pcg = Pcg::for_job(seed, 5, 1);
        let mut seen = Observed::default();
        (0..n).for_each(|_| seen.record(Nanos::from_f64_rounded(scale * libm::exp(2.0 * pcg.normal()))));
        let mut activity = ActivityRecord::new("t", ActivityKind::Task, Basis::Sample);
        activity.response = Some(Distribution::from(seen));
        Record { world: "sim".to_owned(), activities: vec![activity], ..Record::default() }
    }

    /// Heavy tails, and runs of which one value in 16 is kept: the interval still holds its estimate, and no time is
    /// shorter by more than all of it.
    #[test]
    fn an_interval_holds_its_estimate_and_no_time_falls_below_nothing() {
        for (n, seed, scale) in [(900, 1, 1e4), (900, 2, 3e3), (30_000, 3, 1e4), (30_000, 4, 9e4)] {
            let (a, b) = (run(n, seed, 1e4), run(n, seed + 50, scale));
            for metric in ["response p50", "response p95", "response p99"] {
                let Some(found) = shift(&a, &b, "t", metric, 0.95, 1) else { continue };
                let (low, high) = found.interval;
                assert!(low <= found.shift && found.shift <= high, "{n} {seed} {metric}: {found:?}");
                let (least, most) = found.ratio.unwrap();
                assert!(least > 0.0 && least <= most, "{n} {seed} {metric}: {found:?}");
            }
        }
    }
}
