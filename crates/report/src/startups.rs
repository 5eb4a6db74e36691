//! Start-ups: what a program takes to be ready, on the idle machine and beside the loads.

use surety_model::record::ActivityRecord;
use surety_model::startup::survival;
use surety_model::workload::ActivityKind;
use surety_stats::survival::KaplanMeier;
use surety_units::Nanos;

use crate::compare::{activity_names, verdict_cell};
use crate::quantity::TimeUnit;
use crate::row::Row;
use crate::sheet::{Cell, Column, Line, Sheet};
use crate::text::Tone;

/// What stands where the median is not known because too many were given up.
const CENSORED: &str = "X";
/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// The table of start-ups; `None` where there are none.
pub(crate) fn startups(rows: &[Row<'_>]) -> Option<Sheet> {
    let names = activity_names(rows, |a| a.kind == ActivityKind::Startup);
    if names.is_empty() {
        return None;
    }
    let mut sheet = Sheet {
        columns: vec![
            Column::words(""),
            Column::numbers("started", 3),
            Column::numbers("given up", 4),
            Column::numbers("idle", 0),
            Column::numbers("median", 0),
            Column::words("95 % interval"),
            Column::numbers("of idle", 2),
            Column::words("verdict"),
        ],
        lines: Vec::new(),
    };
    for name in names {
        let of = |row: &Row<'_>| row.record.activity(name).cloned();
        let medians = rows.iter().filter_map(of).filter_map(|a| median(survival(&a, true).as_ref()));
        let unit = TimeUnit::fitting(medians.min().unwrap_or(Nanos::MILLISECOND));
        sheet.lines.push(Line::Section(name.to_owned(), "start-up, time to ready".to_owned()));
        for row in rows {
            sheet.lines.push(Line::Cells(cells(row, name, of(row).as_ref(), unit)));
        }
    }
    Some(sheet)
}

fn median(curve: Option<&KaplanMeier>) -> Option<Nanos> {
    curve?.median(CONFIDENCE).estimate.map(time)
}

fn time(value: u64) -> Nanos {
    Nanos::new(i64::try_from(value).unwrap_or(i64::MAX))
}

fn cells(row: &Row<'_>, name: &str, activity: Option<&ActivityRecord>, unit: TimeUnit) -> Vec<Cell> {
    let none = || Cell::toned("-", Tone::Faint);
    let mut cells = vec![Cell::plain(row.label.as_str())];
    let Some(activity) = activity else {
        cells.resize_with(7, none);
        cells.push(Cell::toned("not run", Tone::Faint));
        return cells;
    };
    let (idle, loaded) = (survival(activity, true), survival(activity, false));
    let shown = |curve: Option<&KaplanMeier>| match (curve, median(curve)) {
        (None, _) => none(),
        (Some(_), Some(median)) => Cell::plain(unit.show(median)),
        (Some(_), None) => Cell::toned(CENSORED, Tone::Bad),
    };
    cells.push(Cell::plain(activity.activations.to_string()));
    let tone = if activity.unfinished > 0 { Tone::Bad } else { Tone::Plain };
    cells.push(Cell::toned(activity.unfinished.to_string(), tone));
    cells.push(shown(idle.as_ref()));
    cells.push(shown(loaded.as_ref()));
    cells.push(match loaded.as_ref().map(|curve| curve.median(CONFIDENCE)) {
        Some(of) if of.estimate.is_some() => {
            let low = of.low.map_or_else(|| "-".to_owned(), |low| unit.show(time(low)));
            let high = of.high.map_or_else(|| "no limit".to_owned(), |high| unit.show(time(high)));
            Cell::plain(format!("{low} to {high}"))
        }
        _ => none(),
    });
    let ratio = median(loaded.as_ref()).zip(median(idle.as_ref()).filter(|idle| idle.is_positive()));
    cells.push(ratio.map_or_else(none, |(loaded, idle)| {
        Cell::plain(format!("x{:.2}", loaded.get() as f64 / idle.get() as f64))
    }));
    cells.push(verdict_cell(row.verdicts.iter().filter(|v| v.activity == name)));
    cells
}
