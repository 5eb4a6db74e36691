//! A device's interrupt of a trace as an `[[irq]]`: when it arrives and what one arrival costs.
//!
//! Arrivals are on a grid when the middle 98 % of their distances lie within a tenth of the median; independent of each
//! other (Poisson) when the exponential distribution with their mean distance is not rejected at 5 %; else sporadic,
//! with the smallest distance. One arrival costs its hard handler and, where the interrupt has a thread of its own
//! (`irq/N-NAME`), a job of that thread. How the two go together is not in the series, so they are added quantile by
//! quantile: the mean is exact and no dependence between them has a heavier tail in the convex order.

use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::job::{Job, ThreadHistory};
use surety_model::workload::{Arrivals, Irq};
use surety_stats::goodness::ks_statistic;
use surety_trace::interrupts::{Interrupt, Series};
use surety_trace::jobs::interrupts::Context;
use surety_units::{Frequency, Nanos};

use crate::JOBS_MIN;
use crate::condense::{Side, condense};
use crate::family::{SIGNIFICANCE, exponential_p_value};
use crate::source::Why;

/// Distances within this part of the median are a grid's.
const GRID: f64 = 0.1;
/// Quantiles at which handler and thread are added.
const RANKS: u32 = 200;

/// An interrupt with what it was fitted from.
#[derive(Clone, Debug)]
pub(crate) struct FittedIrq {
    pub(crate) irq: Irq,
    pub(crate) p_value: Option<f64>,
    pub(crate) note: Option<String>,
}

/// The number in a thread's name `irq/N-NAME`, and the name.
pub(crate) fn thread_of(history: &ThreadHistory) -> Option<(u32, String)> {
    let text = history.comm.text();
    let (number, name) = text.strip_prefix("irq/")?.split_once('-')?;
    Some((number.parse().ok()?, name.to_owned()))
}

/// Whether this thread is that interrupt's; `alone` when no other handler shares the number.
pub(crate) fn is_thread_of(history: &ThreadHistory, source: &Interrupt, alone: bool) -> bool {
    let Context::Irq(irq) = source.context else { return false };
    thread_of(history).is_some_and(|(number, name)| {
        number == irq && (alone || (!name.is_empty() && source.name.starts_with(&name)))
    })
}

/// Fits one interrupt of a device with its threads; `name` is what the file calls it.
pub(crate) fn fit_irq(
    source: &Interrupt,
    threads: &[&ThreadHistory],
    name: String,
) -> Result<FittedIrq, Why> {
    let few = || Why::TooFew(source.count());
    if source.gaps.count() < JOBS_MIN as u64 {
        return Err(few());
    }
    let service = empirical(&source.service).ok_or_else(few)?;
    let executions: Vec<(Nanos, u64)> = threads
        .iter()
        .flat_map(|thread| &thread.jobs)
        .map(|job: &Job| (job.execution_net().max(Nanos::ZERO), 1))
        .collect();
    let note = (!executions.is_empty()).then(|| {
        format!(
            "work is the hard handler and a job of its thread ({} jobs of {} arrivals)",
            executions.len(),
            source.count()
        )
    });
    let work = match Empirical::new(executions) {
        Ok(executions) => sum_by_rank(&service, &executions).unwrap_or(service),
        Err(_) => service,
    };
    let (arrivals, p_value) = arrivals(&source.gaps).ok_or_else(few)?;
    let irq = Irq {
        name,
        device: Some(source.name.clone()),
        arrivals,
        work: TimeDistribution::Empirical(condense(&work, Side::Up).values),
        hard: None,
        buffer: None,
        promises: Vec::new(),
        reservation: None,
    };
    Ok(FittedIrq { irq, p_value, note })
}

fn empirical(series: &Series) -> Option<Empirical> {
    Empirical::new(series.values()).ok()
}

fn arrivals(gaps: &Series) -> Option<(Arrivals, Option<f64>)> {
    let at = |q| gaps.quantile(q);
    let (mean, median) = (gaps.mean()?, at(0.5)?);
    let middle = (at(0.99)? - at(0.01)?).get() as f64;
    if median.is_positive() && middle <= GRID * median.get() as f64 {
        return Some((Arrivals::Periodic { period: median }, None));
    }
    let p_value = exponential_test(gaps, mean)?;
    let per_thousand_seconds = 1e12 / mean.get().max(1) as f64;
    if p_value >= SIGNIFICANCE && per_thousand_seconds >= 1.0 {
        let rate = Frequency(Nanos::from_f64_rounded(per_thousand_seconds).get_unsigned());
        return Some((Arrivals::Poisson { rate }, Some(p_value)));
    }
    Some((Arrivals::Sporadic { gap: gaps.min()?.max(Nanos::new(1)) }, None))
}

/// How well an exponential distribution fits values that are known by their buckets.
fn exponential_test(gaps: &Series, mean: Nanos) -> Option<f64> {
    /// Beyond this many values the buckets' width counts for more than the chance in them.
    const VALUES_MAX: u64 = 10_000;
    let n = gaps.count();
    let each = n.div_ceil(VALUES_MAX).max(1);
    let mut values = Vec::new();
    let mut seen = 0u64;
    for (value, count) in gaps.values() {
        let before = seen / each;
        seen += count;
        let times = usize::try_from(seen / each - before).ok()?;
        values.extend(std::iter::repeat_n(value.get() as f64, times));
    }
    let mean = mean.get().max(1) as f64;
    let distance = ks_statistic(&values, |x| -libm::expm1(-x / mean))?;
    Some(exponential_p_value(distance, values.len() as f64))
}

/// The distribution of the sum of two that are large together.
fn sum_by_rank(a: &Empirical, b: &Empirical) -> Option<Empirical> {
    let at = |rank: u32| {
        let q = f64::from(rank) / f64::from(RANKS);
        (a.quantile(q).saturating_add(b.quantile(q)), 1)
    };
    Empirical::new((1..=RANKS).map(at).collect()).ok()
}
