//! What was compared for each task: bandwidth against the length of the server period.

use surety_model::plan::{Front, Mark};

use super::texts;
use crate::quantity::{chosen_time, percent, probability};
use crate::sheet::{Cell, Column, Line, Sheet};
use crate::text::{Style, Tone, paragraph};

/// A table for each front; the planned reservation is marked.
pub fn front(fronts: &[Front], style: &Style) -> String {
    let mut out = String::new();
    for front in fronts {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &paragraph(
            style,
            &format!("{}: ", front.activity),
            Tone::Plain,
            &texts(&front.promises).join("; "),
        );
        if front.points.is_empty() {
            out += &paragraph(style, "  ", Tone::Bad, "no server period keeps it");
            continue;
        }
        out += &sheet(front).text(style);
        for point in front.points.iter().filter(|p| p.mark == Mark::Chosen) {
            let r = &point.reservation;
            let words = format!(
                "planned: {} in every {}, of that {} of a CPU for work and {} for switches, ticks and calls",
                chosen_time(r.runtime),
                chosen_time(r.period),
                percent(point.without_costs),
                percent(point.bandwidth - point.without_costs),
            );
            out += &paragraph(style, "  ", Tone::Good, &words);
        }
    }
    out
}

fn sheet(front: &Front) -> Sheet {
    let numbers = ["period", "deadline", "runtime", "bandwidth", "for work", "proven >=", "exact"];
    let mut columns = vec![Column::words("")];
    columns.extend(numbers.map(|title| Column::numbers(title, 0)));
    columns.push(Column::words("beside the others"));
    let lines = front.points.iter().map(|point| {
        let r = &point.reservation;
        let (word, tone) = match point.mark {
            Mark::Chosen => ("chosen", Tone::Good),
            Mark::Front => ("front", Tone::Plain),
            Mark::Dominated => ("", Tone::Faint),
        };
        let fraction = |p: Option<f64>| p.map_or_else(|| "-".to_owned(), probability);
        Line::Cells(vec![
            Cell::toned(word, tone),
            Cell::plain(chosen_time(r.period)),
            Cell::plain(chosen_time(r.deadline)),
            Cell::plain(chosen_time(r.runtime)),
            Cell::plain(percent(point.bandwidth)),
            Cell::plain(percent(point.without_costs)),
            Cell::plain(fraction(point.proven)),
            Cell::plain(fraction(point.exact)),
            Cell::plain(point.objection.as_deref().unwrap_or("fits")),
        ])
    });
    Sheet { columns, lines: lines.collect() }
}
