//! Chains: at which stage the time of events went, and whether they waited, ran, or were held up there.

use surety_model::record::{StageTimes, stages_of};
use surety_model::workload::ActivityKind;
use surety_units::Nanos;

use crate::compare::activity_names;
use crate::quantity::{TimeUnit, percent};
use crate::row::Row;
use crate::sheet::{Cell, Column, Line, Sheet};

/// The table of stages, means of completed events; `None` where no row completed any.
pub(crate) fn chains(rows: &[Row<'_>]) -> Option<Sheet> {
    let columns = vec![
        Column::words(""),
        Column::words("stage"),
        Column::numbers("waits", 0),
        Column::numbers("runs", 0),
        Column::numbers("held up", 0),
        Column::numbers("of the response", 1),
    ];
    let mut lines = Vec::new();
    for name in activity_names(rows, |a| a.kind == ActivityKind::Chain) {
        let of_rows: Vec<(&str, Vec<StageTimes<'_>>)> = rows
            .iter()
            .filter_map(|row| {
                let stages = row.record.activity(name).map(stages_of).unwrap_or_default();
                (!stages.is_empty()).then_some((row.label.as_str(), stages))
            })
            .collect();
        let longest = of_rows.iter().flat_map(|(_, stages)| stages).map(StageTimes::all).fold(0.0, f64::max);
        if of_rows.is_empty() {
            continue;
        }
        let unit = TimeUnit::fitting(Nanos::from_f64_rounded(longest));
        lines.push(Line::Section(name.to_owned(), "means of completed events".to_owned()));
        for (label, stages) in of_rows {
            let all: f64 = stages.iter().map(StageTimes::all).sum();
            for (place, stage) in stages.iter().enumerate() {
                let shown = |time| Cell::plain(unit.show(Nanos::from_f64_rounded(time)));
                let part = if all > 0.0 { percent(stage.all() / all) } else { String::new() };
                lines.push(Line::Cells(vec![
                    Cell::plain(if place == 0 { label } else { "" }),
                    Cell::plain(stage.task),
                    shown(stage.wait),
                    shown(stage.run),
                    shown(stage.held_up),
                    Cell::plain(part),
                ]));
            }
        }
    }
    (!lines.is_empty()).then_some(Sheet { columns, lines })
}
