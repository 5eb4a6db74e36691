//! The record of a noise probe for a terminal: the gaps of each CPU, what was in them, and the verdict.

use surety_model::noise::{Cause, GAPS, NOISE};
use surety_model::workload::ActivityKind;
use surety_units::{CpuId, Nanos};

use crate::quantity::{TimeUnit, percent};
use crate::row::Row;
use crate::sheet::{Cell, Column, Line, Sheet};
use crate::text::{Style, Tone, paragraph};

/// The whole of it; `causes` by CPU, the largest first, empty where nothing was traced.
pub fn noise(row: &Row<'_>, causes: &[(CpuId, Vec<Cause>)], verdict: &str, style: &Style) -> String {
    let mut out = gaps(row).text(style);
    if causes.iter().any(|(_, causes)| !causes.is_empty()) {
        out.push('\n');
        out += &by_cause(causes, row.record.duration.unwrap_or_default()).text(style);
    }
    out.push('\n');
    out += &paragraph(style, "", Tone::Strong, verdict);
    // The probes' own figures stand above; here are the loads'.
    let mut of_loads = row.record.clone();
    of_loads.activities.retain(|activity| activity.kind == ActivityKind::Load);
    let of_loads = Row { label: row.label.clone(), record: &of_loads, verdicts: Vec::new() };
    super::price(std::slice::from_ref(&of_loads), &mut out, style);
    super::in_force(row, &mut out, style);
    super::unfit(row, &mut out, style);
    super::degraded(std::slice::from_ref(row), &mut out, style);
    out
}

fn gaps(row: &Row<'_>) -> Sheet {
    let mut columns = vec![Column::words("CPU")];
    columns.extend(["gaps", "noise", "mean", "p50", "p99", "max"].map(|t| Column::numbers(t, 0)));
    let probes = row.record.activities.iter().filter(|a| a.kind == ActivityKind::Probe);
    let lines = probes.map(|probe| {
        let values = probe.series.get(GAPS).and_then(|d| d.observed());
        let histogram = values.map(|v| &v.histogram);
        let shown = |value: Option<u64>| Cell::plain(value.map(time).unwrap_or_default());
        let noise = probe.figures.iter().find(|f| f.name == NOISE).map(|f| percent(f.value));
        let mean = values.and_then(|v| v.moments.mean()).map(|m| Nanos::from_f64_rounded(m).get_unsigned());
        let mut cells = vec![
            Cell::plain(probe.name.as_str()),
            Cell::plain(histogram.map_or(0, |h| h.count()).to_string()),
            Cell::plain(noise.unwrap_or_default()),
            shown(mean),
        ];
        cells.extend([0.5, 0.99].map(|q| shown(histogram.and_then(|h| h.quantile(q)))));
        cells.push(shown(histogram.and_then(|h| h.max())));
        Line::Cells(cells)
    });
    Sheet { columns, lines: lines.collect() }
}

fn by_cause(causes: &[(CpuId, Vec<Cause>)], span: Nanos) -> Sheet {
    /// Causes shown of each CPU.
    const SHOWN: usize = 12;
    let mut columns = vec![Column::words("what"), Column::words("kind")];
    columns.extend(["gaps", "time", "of the run", "longest"].map(|t| Column::numbers(t, 0)));
    let mut lines = Vec::new();
    for (cpu, causes) in causes {
        lines.push(Line::Section(format!("cpu{cpu}"), String::new()));
        for cause in causes.iter().take(SHOWN) {
            let share = cause.time.get() as f64 / span.get().max(1) as f64;
            lines.push(Line::Cells(vec![
                Cell::plain(cause.name.as_str()),
                Cell::plain(cause.kind.word()),
                Cell::plain(cause.gaps.to_string()),
                Cell::plain(time(cause.time.get_unsigned())),
                Cell::plain(percent(share)),
                Cell::plain(time(cause.longest.get_unsigned())),
            ]));
        }
    }
    Sheet { columns, lines }
}

fn time(ns: u64) -> String {
    let time = Nanos::new(i64::try_from(ns).unwrap_or(i64::MAX));
    TimeUnit::fitting(time).show(time)
}
