//! Times in a workload file: one that is always the same, or a table with their distribution; and when requests arrive.

use std::ops::Range;

use surety_units::Nanos;
use toml::de::DeValue;

use super::keys::COUNT_32;
use super::table::{Field, Reading, Table};
use crate::distribution::{Empirical, TimeDistribution};
use crate::workload::Arrivals;

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

pub(super) fn arrivals_of(reading: &mut Reading, field: &Field<'_>) -> Option<Arrivals> {
    let table = field.table(reading)?;
    #[derive(Clone, Copy)]
    enum Kind {
        Periodic,
        Sporadic,
        Poisson,
        Closed,
    }
    let kinds = [
        ("periodic", Kind::Periodic),
        ("sporadic", Kind::Sporadic),
        ("poisson", Kind::Poisson),
        ("closed", Kind::Closed),
    ];
    table.required(reading, "kind", "\"sporadic\"")?;
    let kind = table.word(reading, "kind", &kinds)?;
    let positive = |reading: &mut Reading, key: &'static str| -> Option<Nanos> {
        let field = table.required(reading, key, "\"95us\"")?;
        let time: Nanos = field.quantity(reading, "95us")?;
        if !time.is_positive() {
            reading.wrong(field.span, format!("`{key}` is zero"), "longer than nothing", None);
            return None;
        }
        Some(time)
    };
    let arrivals = match kind {
        Kind::Periodic => positive(reading, "period").map(|period| Arrivals::Periodic { period }),
        Kind::Sporadic => positive(reading, "gap").map(|gap| Arrivals::Sporadic { gap }),
        Kind::Poisson => {
            let rate = table.required(reading, "rate", "\"5/s\"").and_then(|f| f.quantity(reading, "5/s"));
            rate.map(|rate| Arrivals::Poisson { rate })
        }
        Kind::Closed => {
            let outstanding =
                table.required(reading, "outstanding", "8").and_then(|f| f.integer(reading, COUNT_32));
            let service = positive(reading, "service");
            outstanding.zip(service).map(|(n, service)| Arrivals::Closed { outstanding: n as u32, service })
        }
    };
    table.finish(reading);
    arrivals
}
