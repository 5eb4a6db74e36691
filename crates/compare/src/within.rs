//! The shift of a quantile between two single runs, from the activations in them.
//!
//! Activations that follow each other are often late together, so they are drawn anew in blocks of neighbours
//! (circular block bootstrap, [`surety_stats::bootstrap`]): for that a record keeps the order of its values
//! ([`surety_stats::Sequence`]). Without it, as of imported results, there is no interval. How far two runs of the same
//! thing are apart is not in it at all: it is shown to say what was seen, never judged.

use surety_model::record::{Distribution, Record};
use surety_stats::bootstrap::{BootstrapPlan, QuantileShift, Resampling, quantile_shift};

use crate::metric::quantile_of;

/// How often both runs are drawn anew.
const REPLICATES: u32 = 500;

/// How much later a quantile of `b` is; `None` where the metric is none, the order of its activations is not known, or
/// there are too few.
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
    let plan = BootstrapPlan { replicates: REPLICATES, seed, confidence, resampling: Resampling::Measured };
    quantile_shift(&in_order(of_a)?, &in_order(of_b)?, q, &plan).ok()
}

/// The values of a distribution in the order they were taken.
fn in_order(distribution: &Distribution) -> Option<Vec<f64>> {
    let sequence = distribution.observed()?.in_order()?;
    Some(sequence.values().iter().map(|value| *value as f64).collect())
}

/// Whether the order of a quantile's values is missing in a run, so that no interval can be given.
pub(crate) fn is_unordered(run: &Record, activity: &str, metric: &str) -> bool {
    let found = run.activity(activity).and_then(|a| quantile_of(a, metric));
    found.and_then(|(d, _)| d.observed()).is_some_and(|observed| observed.in_order().is_none())
}
