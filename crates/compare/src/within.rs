//! The shift of a quantile between two single runs, from the activations in them.
//!
//! A record keeps the distribution of a run, not the order of its activations, so they are drawn anew one by one, as
//! if none depended on another. Of late activations that follow each other that makes too narrow an interval; and how
//! far two runs of the same thing are apart is not in it at all. It is shown to say what was seen, never judged.

use surety_model::record::{Distribution, Record};
use surety_stats::bootstrap::{BootstrapPlan, QuantileShift, Resampling, quantile_shift};

use crate::metric::quantile_of;

/// Activations drawn of each run: those of a longer one stand for so many, and the interval is the wider for it.
const ACTIVATIONS_MAX: u64 = 2_000;

/// How much later a quantile of `b` is; `None` where the metric is none, or has too few activations.
pub(crate) fn shift(
    a: &Record,
    b: &Record,
    activity: &str,
    metric: &str,
    confidence: f64,
    seed: u64,
) -> Option<QuantileShift> {
    let (of_a, q) = quantile_of(a.activity(activity)?, metric)?;
    let (of_b, _) = quantile_of(b.activity(activity)?, metric)?;
    let plan = BootstrapPlan { replicates: 500, seed, confidence, resampling: Resampling::Single };
    quantile_shift(&activations(of_a)?, &activations(of_b)?, q, &plan).ok()
}

/// The values of a distribution, evenly thinned.
fn activations(distribution: &Distribution) -> Option<Vec<f64>> {
    let histogram = &distribution.observed()?.histogram;
    let count = histogram.count();
    let taken = count.min(ACTIVATIONS_MAX);
    let ranks = (0..taken)
        .map(|i| 1 + u64::try_from(u128::from(i) * u128::from(count) / u128::from(taken)).unwrap_or(0));
    Some(ranks.filter_map(|rank| histogram.value_at_rank(rank)).map(|v| v as f64).collect())
}
