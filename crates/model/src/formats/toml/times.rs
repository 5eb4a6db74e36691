//! Times in a workload file: one that is always the same, or a table with their distribution.

use std::ops::Range;

use surety_units::Nanos;
use toml::de::DeValue;

use super::table::{Field, Reading, Table};
use crate::distribution::{Empirical, TimeDistribution};

pub(super) const ANY_COUNT: Range<i64> = 1..i64::MAX;

/// A time, or a table that says how it is distributed.
pub(super) fn distribution(reading: &mut Reading, field: &Field<'_>) -> Option<TimeDistribution> {
    match field.value {
        DeValue::Table(_) => {
            let table = field.table(reading)?;
            distribution_table(reading, table)
        }
        _ => field.quantity(reading, "5ms").map(TimeDistribution::Constant),
    }
}

/// A table that says how times are distributed.
pub(super) fn distribution_table(reading: &mut Reading, table: Table<'_>) -> Option<TimeDistribution> {
    #[derive(Clone, Copy)]
    enum Kind {
        Constant,
        Uniform,
        Normal,
        LogNormal,
        Exponential,
        Empirical,
        Sequence,
    }
    let kinds = [
        ("constant", Kind::Constant),
        ("uniform", Kind::Uniform),
        ("normal", Kind::Normal),
        ("lognormal", Kind::LogNormal),
        ("exponential", Kind::Exponential),
        ("empirical", Kind::Empirical),
        ("sequence", Kind::Sequence),
    ];
    table.required(reading, "kind", "\"lognormal\"")?;
    let kind = table.word(reading, "kind", &kinds)?;
    let span = table.span.clone();
    let mut time = |key: &'static str| -> Option<Nanos> {
        table.required(reading, key, "\"5ms\"")?.quantity(reading, "5ms")
    };
    let distribution = match kind {
        Kind::Constant => time("value").map(TimeDistribution::Constant),
        Kind::Uniform => {
            let (low, high) = (time("low"), time("high"));
            low.zip(high).map(|(low, high)| TimeDistribution::Uniform { low, high })
        }
        Kind::Normal => {
            let (mean, std_dev) = (time("mean"), time("std_dev"));
            mean.zip(std_dev).map(|(mean, std_dev)| TimeDistribution::Normal { mean, std_dev })
        }
        Kind::LogNormal => {
            let (mean, p99) = (time("mean"), time("p99"));
            mean.zip(p99).map(|(mean, p99)| TimeDistribution::LogNormal { mean, p99 })
        }
        Kind::Exponential => time("mean").map(|mean| TimeDistribution::Exponential { mean }),
        Kind::Empirical => empirical(reading, &table),
        Kind::Sequence => sequence(reading, &table),
    };
    table.finish(reading);
    let distribution = distribution?;
    if let Err(error) = distribution.check() {
        reading.wrong(span, error.to_string(), "these parameters", None);
        return None;
    }
    Some(distribution)
}

/// Values and how often each occurs.
fn empirical(reading: &mut Reading, table: &Table<'_>) -> Option<TimeDistribution> {
    let values = table.required(reading, "values", "[\"5ms\", \"6ms\"]")?;
    let counts = table.required(reading, "counts", "[3, 1]")?;
    let times: Vec<Nanos> = values.items().iter().filter_map(|f| f.quantity(reading, "5ms")).collect();
    let numbers: Vec<u64> =
        counts.items().iter().filter_map(|f| f.integer(reading, ANY_COUNT)).map(|n| n as u64).collect();
    if times.len() != numbers.len() {
        let message =
            format!("{} values and {} counts: one count for each value", times.len(), numbers.len());
        reading.wrong(counts.span, message, "here", None);
        return None;
    }
    let measured = table.boolean(reading, "measured").unwrap_or(false);
    match Empirical::new(times.into_iter().zip(numbers).collect()) {
        Ok(listed) => Some(TimeDistribution::Empirical(if measured { listed.measured() } else { listed })),
        Err(error) => {
            reading.wrong(values.span, error.to_string(), "here", None);
            None
        }
    }
}

/// Values in the order of jobs.
fn sequence(reading: &mut Reading, table: &Table<'_>) -> Option<TimeDistribution> {
    let values = table.required(reading, "values", "[\"5ms\", \"6ms\"]")?;
    let times: Vec<Nanos> = values.items().iter().filter_map(|f| f.quantity(reading, "5ms")).collect();
    let measured = table.boolean(reading, "measured").unwrap_or(false);
    match Empirical::in_order(&times) {
        Ok(declared) => {
            Some(TimeDistribution::Empirical(if measured { declared.measured() } else { declared }))
        }
        Err(error) => {
            reading.wrong(values.span, error.to_string(), "here", None);
            None
        }
    }
}
