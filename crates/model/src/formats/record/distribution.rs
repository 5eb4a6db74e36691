//! Distributions of times: `response_ns`, `latency_ns`, `execution_ns` and series.

use serde::Deserialize;
use serde_json::{Value, json};
use surety_stats::bounds::{Ranked, quantile_interval};
use surety_stats::{Blocks, Histogram, Moments, Sequence};
use surety_units::Nanos;

use crate::record::{Basis, Distribution, Observed};
use crate::verdict::CONFIDENCE;

/// The quantiles an observed distribution is written with.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

pub(super) fn write(distribution: &Distribution, basis: Basis) -> Value {
    match distribution {
        Distribution::Observed(observed) => observed_values(observed, basis),
        Distribution::Limits(limits) => {
            let quantiles =
                limits.iter().map(|(q, value)| json!({ "q": q, "value": value, "low": null, "high": value }));
            json!({ "basis": "bound", "quantiles": quantiles.collect::<Vec<_>>() })
        }
    }
}

fn observed_values(observed: &Observed, basis: Basis) -> Value {
    let (histogram, moments) = (&observed.histogram, &observed.moments);
    let quantiles = QUANTILES.iter().map(|&q| {
        // Two-sided, distribution free: the order statistics between which the quantile lies. What is exact has no
        // interval: it is not a sample of anything. What never came is null, above every number.
        let finite = |value: u64| (value != u64::MAX).then_some(value);
        let value = observed.quantile(q).map(Nanos::get_unsigned).filter(|v| *v != Nanos::MAX.get_unsigned());
        let interval = quantile_interval(observed, q, CONFIDENCE).filter(|_| basis == Basis::Sample);
        let (low, high) = match interval {
            Some(interval) => (interval.low.value().and_then(finite), interval.high.value().and_then(finite)),
            None => (value, value),
        };
        json!({ "q": q, "value": value, "low": low, "high": high })
    });
    let sequence = observed.in_order().map(|kept| json!({ "every": kept.every(), "values": kept.values() }));
    json!({
        "basis": basis,
        "count": histogram.count(),
        "mean": moments.mean(),
        "std_dev": moments.std_dev(),
        "min": histogram.min(),
        "max": histogram.max(),
        "moments": moments,
        "quantiles": quantiles.collect::<Vec<_>>(),
        "histogram": histogram.buckets().map(|(low, high, n)| json!([low, high, n])).collect::<Vec<_>>(),
        "sequence": sequence,
        "never": observed.never,
        "open": observed.open,
        "blocks": observed.has_order().then(|| {
            let (every, cells) = (observed.blocks.every(), observed.blocks.kept().collect::<Vec<_>>());
            json!({ "every": every, "cells": cells })
        }),
    })
}

#[derive(Deserialize)]
pub(super) struct DistributionForm {
    histogram: Option<Vec<(u64, u64, u64)>>,
    moments: Option<Moments>,
    min: Option<u64>,
    max: Option<u64>,
    quantiles: Vec<QuantileForm>,
    sequence: Option<SequenceForm>,
    #[serde(default)]
    never: u64,
    #[serde(default)]
    open: u64,
    #[serde(default)]
    blocks: Option<BlocksForm>,
}

/// Rough histograms of the parts of a run, one of every `every` values: part, bucket, count.
#[derive(Deserialize)]
struct BlocksForm {
    every: u64,
    cells: Vec<(u64, u64, u32)>,
}

#[derive(Deserialize)]
struct SequenceForm {
    every: u64,
    values: Vec<u64>,
}

#[derive(Deserialize)]
struct QuantileForm {
    q: f64,
    value: Option<Nanos>,
}

impl DistributionForm {
    pub(super) fn into_distribution(self) -> Result<Distribution, String> {
        let Some(buckets) = self.histogram else {
            let limits = self.quantiles.iter().filter_map(|quantile| Some((quantile.q, quantile.value?)));
            return Ok(Distribution::Limits(limits.collect()));
        };
        let mut histogram = Histogram::new();
        for (low, high, count) in buckets {
            if low > high || count == 0 {
                return Err(format!("[{low}, {high}, {count}] is no bucket of a histogram"));
            }
            // The extremes are known exactly: each stands for itself in its bucket.
            let (min, max) = (self.min.unwrap_or(low), self.max.unwrap_or(high));
            let holds = |value: u64| low <= value && value <= high;
            let mut rest = count;
            for extreme in [min, max].into_iter().filter(|value| holds(*value)) {
                if rest > 0 {
                    histogram.record(extreme);
                    rest -= 1;
                }
            }
            histogram.record_n(low.clamp(min, max.max(min)), rest);
        }
        if (histogram.min(), histogram.max()) != (self.min, self.max) {
            return Err("the histogram and its extremes contradict each other".to_owned());
        }
        let mut observed = match self.moments {
            Some(moments) if moments.count() == histogram.count() => {
                Observed { histogram, moments, ..Observed::default() }
            }
            Some(moments) => {
                return Err(format!(
                    "the moments are of {} values, the histogram of {}",
                    moments.count(),
                    histogram.count()
                ));
            }
            None => Observed::of_histogram(histogram),
        };
        if let Some(SequenceForm { every, values }) = self.sequence {
            let count = observed.histogram.count();
            let kept = Sequence::of_kept(values, every, count);
            observed.sequence = kept
                .ok_or_else(|| format!("its sequence is no part of {count} values, one of every {every}"))?;
        }
        (observed.never, observed.open) = (self.never, self.open);
        if let Some(BlocksForm { every, cells }) = self.blocks {
            let count = observed.count();
            let kept = Blocks::of_kept(&cells, every, count);
            observed.blocks = kept
                .ok_or_else(|| format!("its blocks are no part of {count} activations, {every} in each"))?;
        }
        Ok(Distribution::from(observed))
    }
}
