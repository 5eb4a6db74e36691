//! The record of a latency probe for a terminal: raw and intended-time quantiles of each CPU with their confidence, what
//! the largest value says, and whether the samples may be called independent.

use surety_model::latency::{EFFECTIVE, LAG_ONE, RAW};
use surety_model::record::{ActivityRecord, Distribution, Observed, Record};
use surety_model::verdict::CONFIDENCE;
use surety_model::workload::ActivityKind;
use surety_stats::bounds::{Bound, largest_value, quantile_interval};
use surety_stats::correlation::DEPENDENT;
use surety_units::Nanos;

use crate::quantity::{TimeUnit, number_of, percent, probability};
use crate::row::Row;
use crate::sheet::{Cell, Column, Line, Sheet};
use crate::text::{Style, Tone, paragraph};

/// The quantiles shown.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// The largest latency of all probes with its coverage; `None` where the figures of each are withheld.
pub fn latest(record: &Record) -> Option<String> {
    let of = |probe: &ActivityRecord| {
        let is_stated = probe.kind == ActivityKind::Probe && probe.withheld().is_none();
        let intended = probe.latency.as_ref().filter(|_| is_stated)?.observed()?;
        Some((probe.name.clone(), largest_value(&intended.histogram, CONFIDENCE)?))
    };
    let (name, largest) = record.activities.iter().filter_map(of).max_by_key(|(_, found)| found.largest)?;
    Some(format!(
        "Largest wake-up latency {} ({name}, {}). With {} confidence at least {} of all wake-ups have no larger one.",
        time(largest.largest),
        number_of(largest.count, "wake-up"),
        probability(CONFIDENCE),
        probability(largest.covered)
    ))
}

/// The whole of it.
pub fn latency(row: &Row<'_>, style: &Style) -> String {
    let record = row.record;
    let probes = || record.activities.iter().filter(|a| a.kind == ActivityKind::Probe);
    let mut out = sheet(record).text(style);
    out.push('\n');
    for probe in probes() {
        let Some(intended) = probe.latency.as_ref().and_then(|d| d.observed()) else { continue };
        if let Some(caveat) = probe.withheld() {
            let text = format!("nothing is stated about its wake-ups: {}", caveat.because);
            out += &paragraph(style, &format!("{}: ", probe.name), Tone::Bad, &text);
            continue;
        }
        if let Some(largest) = largest_value(&intended.histogram, CONFIDENCE) {
            let text = format!(
                "with {} confidence at least {} of wake-ups are no later than {}, the largest of {}",
                probability(CONFIDENCE),
                probability(largest.covered),
                time(largest.largest),
                largest.count
            );
            out += &paragraph(style, &format!("{}: ", probe.name), Tone::Strong, &text);
        }
        if let Some(lag_one) = figure(probe, LAG_ONE).filter(|r| *r > DEPENDENT) {
            let size = figure(probe, EFFECTIVE)
                .map_or(String::new(), |n| format!("; effective sample size of the latest values: {n:.0}"));
            let text = format!(
                "dependent data: the autocorrelation of neighbours is {lag_one:.2}; the intervals count bursts, the \
                 statement about the largest value is for independent samples{size}"
            );
            out += &paragraph(style, "  ", Tone::Open, &text);
        }
    }
    super::next_largest(row, &mut out, style);
    let drawn: Vec<(&str, &Distribution)> =
        probes().filter_map(|probe| Some((probe.name.as_str(), probe.latency.as_ref()?))).collect();
    let bars = super::distributions("wake-up latency, intended time", &drawn, None, style);
    if !bars.is_empty() {
        out += &format!("\n{bars}");
    }
    super::price(std::slice::from_ref(row), &mut out, style);
    super::in_force(row, &mut out, style);
    super::unfit(row, &mut out, style);
    super::degraded(std::slice::from_ref(row), &mut out, style);
    out
}

fn figure(probe: &ActivityRecord, name: &str) -> Option<f64> {
    probe.figures.iter().find(|f| f.name == name).map(|f| f.value)
}

fn sheet(record: &Record) -> Sheet {
    let mut columns = vec![Column::words(""), Column::numbers("count", 0), Column::numbers("mean", 1)];
    columns.extend(QUANTILES.iter().map(|(title, _)| Column::numbers(title, 0)));
    columns.push(Column::numbers("max", 0));
    let mut lines = Vec::new();
    for probe in record.activities.iter().filter(|a| a.kind == ActivityKind::Probe) {
        let mut counts = format!("{} planned, {} missed", probe.activations, probe.missed);
        if let Some(share) = probe.share_received() {
            counts += &format!(", the probe itself used {} of a CPU", percent(share));
        }
        lines.push(Line::Section(probe.name.clone(), counts));
        let raw = probe.series.get(RAW).and_then(|d| d.observed());
        let intended = probe.latency.as_ref().and_then(|d| d.observed());
        for (name, values) in [("raw", raw), ("intended", intended)] {
            let Some(values) = values else { continue };
            lines.push(Line::Cells(values_line(name, values)));
        }
        if let Some(values) = intended {
            lines.push(Line::Cells(bounds_line("  from", values, true)));
            lines.push(Line::Cells(bounds_line("  to", values, false)));
        }
    }
    Sheet { columns, lines }
}

fn values_line(name: &str, values: &Observed) -> Vec<Cell> {
    let histogram = &values.histogram;
    let shown = |value: Option<u64>| Cell::plain(value.map(time).unwrap_or_default());
    let mean = values.moments.mean().map(|m| Nanos::from_f64_rounded(m).get_unsigned());
    let mut cells = vec![Cell::plain(name), Cell::plain(histogram.count().to_string()), shown(mean)];
    cells.extend(QUANTILES.iter().map(|(_, q)| shown(values.quantile(*q).map(Nanos::get_unsigned))));
    cells.push(shown(histogram.max()));
    cells
}

/// The ends of the intervals, at the confidence of all verdicts.
fn bounds_line(name: &str, values: &Observed, is_low: bool) -> Vec<Cell> {
    let mut cells = vec![Cell::plain(name), Cell::default(), Cell::default()];
    for (_, q) in QUANTILES {
        let interval = quantile_interval(values, q, CONFIDENCE);
        let bound = interval.map(|i| if is_low { i.low } else { i.high });
        let text = match bound {
            Some(Bound::At(value)) => time(value),
            Some(Bound::Unbounded { needs_more: Some(more) }) => format!("needs {more} more"),
            _ => "unbounded".to_owned(),
        };
        cells.push(Cell::toned(text, Tone::Faint));
    }
    cells.push(Cell::default());
    cells
}

fn time(ns: u64) -> String {
    let time = Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
    TimeUnit::fitting(time).show(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::record::{Basis, Figure, InForce};

    fn probe(values: impl Iterator<Item = i64>, missed: u64) -> ActivityRecord {
        let mut observed = Observed::default();
        values.for_each(|v| observed.record(Nanos::new(v)));
        let mut record = ActivityRecord::new("cpu1", ActivityKind::Probe, Basis::Sample);
        record.activations = observed.histogram.count();
        record.missed = missed;
        record.series.insert(RAW.to_owned(), Distribution::from(observed.clone()));
        record.latency = Some(Distribution::from(observed));
        record
    }

    fn record(activity: ActivityRecord) -> Record {
        Record {
            world: "host".to_owned(),
            reserved: false,
            seed: Some(1),
            duration: Some(Nanos::SECOND),
            in_force: InForce::default(),
            degraded: Vec::new(),
            activities: vec![activity],
            trace: None,
            hash: None,
        }
    }

    #[test]
    fn too_few_samples_and_dependent_ones_are_said() {
        let mut activity = probe((0..1000).map(|i| 2000 + i * 389 % 1000), 3);
        activity.figures = vec![Figure { name: LAG_ONE.to_owned(), value: 0.5, unit: "".into() }];
        let record = record(activity);
        let text = latency(&Row::new("latency", &record), &Style::plain(110));
        for expected in [
            "1000 planned, 3 missed",
            "needs 2688 more",
            "with 95 % confidence at least 99.7 % of wake-ups are no later than 2.999 us, the largest of 1000",
            "dependent data: the autocorrelation of neighbours is 0.50",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }

    #[test]
    fn nothing_seen_is_no_panic() {
        let record = record(ActivityRecord::new("cpu0", ActivityKind::Probe, Basis::Sample));
        let text = latency(&Row::new("latency", &record), &Style::plain(60));
        assert!(text.contains("0 planned, 0 missed"), "{text}");
    }
}
