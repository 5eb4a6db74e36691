//! The accesses of streams, and the distances of their frames, over time as inline SVG: from the shortest to the longest of each moment.

use std::fmt::Write;

use surety_units::Nanos;

use super::axis::TimeAxis;
use super::chart::{Frame, both, line, open_svg, text, time_axis};
use super::escape;
use crate::over_time::OverTime;
use crate::quantity::chosen_time;
use crate::row::Row;

/// Moments drawn at most.
const SLOTS: usize = 300;
const TOP: f64 = 14.0;
const HEIGHT: f64 = 180.0;

/// A figure for each stream of each row with its name.
pub(super) fn over_time(rows: &[Row<'_>]) -> Vec<(String, String)> {
    let mut drawn = Vec::new();
    for row in rows {
        for over in OverTime::all(row.record) {
            let label = if rows.len() > 1 { format!("{}, ", row.label) } else { String::new() };
            let title = format!("{label}{}", over.title());
            let figure = format!(
                "<figure><figcaption><b>{}.</b> Each stroke is from the shortest to the longest of a moment; \
                 those that took longer than they had are red.</figcaption>{}</figure>",
                escape(&title),
                both(|frame| drawing(frame, &over, &title))
            );
            drawn.push((title, figure));
        }
    }
    drawn
}

fn drawing(frame: &Frame, over: &OverTime<'_>, title: &str) -> String {
    let Frame { left, right, .. } = *frame;
    let bottom = TOP + HEIGHT;
    let mut out = open_svg(frame, bottom + 46.0, title);
    let of = |choose: fn(&[u64]) -> Option<u64>| choose(over.values).unwrap_or(1).max(1) as f64;
    let (low, high) = (of(|v| v.iter().min().copied()), of(|v| v.iter().max().copied()));
    let deadline = over.deadline.map(|d| d.get() as f64);
    let height = TimeAxis::new(low, deadline.map_or(high, |d| high.max(d)), 0.0, HEIGHT);
    let y = |ns: f64| bottom - height.x(ns);
    let span = over.duration.unwrap_or(Nanos::SECOND).get() as f64;
    let time = TimeAxis::linear(0.0, span, left, right);
    time_axis(&mut out, frame, &time, (TOP, bottom), "time since observation began");
    for (up, label) in height.ticks() {
        line(&mut out, left, bottom - up, right, bottom - up, "grid");
        text(&mut out, left - 8.0, bottom - up + 4.0, "tick end", &label);
    }
    let ranges = over.ranges(SLOTS);
    let width = (right - left) / ranges.len().max(1) as f64;
    let (mut within, mut beyond) = (String::new(), String::new());
    for (index, (shortest, longest)) in ranges.iter().enumerate() {
        let is_late = deadline.is_some_and(|d| *longest as f64 > d);
        let path = if is_late { &mut beyond } else { &mut within };
        let (from, to) = (y(*shortest as f64), y(*longest as f64));
        let stroke = (from - to).max(1.5);
        let x = left + width * index as f64;
        let _ = write!(path, "M{x:.1} {from:.1}v{:.1}h{:.2}v{stroke:.1}z", -stroke, (width - 0.4).max(0.8));
    }
    for (path, class) in [(within, "before"), (beyond, "late-bar")] {
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"bar {class}\" d=\"{path}\"/>");
        }
    }
    if let Some(deadline) = over.deadline {
        let y = y(deadline.get() as f64);
        line(&mut out, left, y, right, y, "deadline");
        text(&mut out, right, y - 4.0, "deadline-text end", &format!("due {}", chosen_time(deadline)));
    }
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { width: 400.0, left: 50.0, right: 390.0 };

    #[test]
    fn what_took_longer_than_it_had_is_in_its_own_colour() {
        let values = [1_000_000, 2_000_000, 90_000_000];
        let over = OverTime {
            activity: "movie",
            series: "read latency",
            values: &values,
            of: "accesses",
            count: 3,
            every: 1,
            deadline: Some(Nanos::from_millis(40)),
            duration: Some(Nanos::from_secs(1)),
        };
        let svg = drawing(&FRAME, &over, "t");
        assert_eq!((svg.matches("late-bar").count(), svg.matches("due 40 ms").count()), (1, 1));
        let calm = drawing(&FRAME, &OverTime { values: &values[..2], ..over }, "t");
        assert!(!calm.contains("late-bar") && !calm.contains("NaN"));
    }
}
