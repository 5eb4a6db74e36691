//! The accesses of streams, and the distances of their frames, over time, as columns of text.

use surety_units::Nanos;

use crate::over_time::OverTime;
use crate::quantity::{TimeUnit, chosen_time};
use crate::row::Row;
use crate::text::{Style, Tone, clean, columns, pad, paragraph, wrap};

/// Lines of one drawing.
const HEIGHT: usize = 8;
/// Widest drawing.
const WIDTH: usize = 100;
/// Above this ratio of the highest to the lowest column the scale is logarithmic.
const LINEAR_MAX: f64 = 12.0;

/// Draws every stream of a row; empty when there is none.
pub(super) fn over_time(row: &Row<'_>, style: &Style) -> String {
    OverTime::all(row.record).iter().map(|over| drawing(over, style)).collect()
}

/// Columns as high as the longest access in their part of the time; lines at and above the deadline are marked.
fn drawing(over: &OverTime<'_>, style: &Style) -> String {
    let scale = Scale::of(over);
    let labels: Vec<String> = (0..HEIGHT).map(|line| scale.label(line)).collect();
    let label_width = labels.iter().map(|l| columns(l)).max().unwrap_or(0);
    let width = style.columns().saturating_sub(label_width + 2).clamp(10, WIDTH);
    let peaks: Vec<f64> = over.ranges(width).iter().map(|(_, longest)| *longest as f64).collect();
    let how = if scale.is_log { "logarithmic" } else { "linear" };
    let text = clean(&format!("{}, {how}", over.title()));
    let mut out = "\n".to_owned();
    for line in wrap(&text, style.columns()) {
        out += &format!("{}\n", style.paint(Tone::Strong, &line));
    }
    for line in (0..HEIGHT).rev() {
        let is_late = over.deadline.is_some_and(|d| scale.edge(line) >= d.get() as f64);
        let cells: String = peaks.iter().map(|peak| scale.cell(line, *peak)).collect();
        let tone = if is_late { Tone::Bad } else { Tone::Plain };
        let text =
            format!("{}  {}", pad(&labels[line], label_width, true), style.paint(tone, cells.trim_end()));
        out += text.trim_end();
        out.push('\n');
    }
    let span = over.duration.map(chosen_time).unwrap_or_default();
    let below = format!("{}  0{}", " ".repeat(label_width), pad(&span, peaks.len().saturating_sub(1), true));
    out += &style.paint(Tone::Faint, below.trim_end());
    out.push('\n');
    if let Some(deadline) = over.deadline {
        let text = format!("each is due {} after its release", chosen_time(deadline));
        out += &paragraph(style, &" ".repeat(label_width + 2), Tone::Faint, &text);
    }
    out
}

/// What a height means.
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    fn of(over: &OverTime<'_>) -> Scale {
        let high = over.values.iter().max().copied().unwrap_or(1).max(1) as f64;
        let low = over.values.iter().min().copied().unwrap_or(1).max(1) as f64;
        let is_log = high / low > LINEAR_MAX;
        // The lowest column is seen too.
        Scale { low: if is_log { low / 1.5 } else { 0.0 }, high, is_log }
    }

    /// The time at the lower end of a line.
    fn edge(&self, line: usize) -> f64 {
        let part = line as f64 / HEIGHT as f64;
        if self.is_log { self.low * (self.high / self.low).powf(part) } else { self.high * part }
    }

    /// The time at the upper end of every other line, the highest included.
    fn label(&self, line: usize) -> String {
        if line.is_multiple_of(2) {
            return String::new();
        }
        let time = Nanos::from_f64_rounded(self.edge(line + 1));
        TimeUnit::fitting(time).show(time)
    }

    fn cell(&self, line: usize, peak: f64) -> char {
        let part = if self.is_log {
            (peak.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            peak / self.high
        };
        let eighths = (part * (HEIGHT * 8) as f64).round().max(1.0) as usize;
        match eighths.saturating_sub(line * 8) {
            0 => ' ',
            filled => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][filled.min(8) - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_spike_stands_out_and_every_line_fits() {
        let mut values = vec![1_000_000; 400];
        values[200] = 90_000_000;
        let over = OverTime {
            activity: "movie",
            series: "read latency",
            values: &values,
            of: "accesses",
            count: 400,
            every: 1,
            deadline: Some(Nanos::from_millis(40)),
            duration: Some(Nanos::from_secs(20)),
        };
        for width in [40, 80, 200] {
            let text = drawing(&over, &Style::plain(width));
            assert!(text.lines().all(|line| columns(line) <= width), "{text}");
            let lines: Vec<&str> = text.lines().collect();
            let first = lines.iter().position(|line| line.contains('█')).unwrap();
            assert_eq!(lines[first].matches('█').count(), 1, "{text}");
            let bottom = lines[first + HEIGHT - 1];
            assert!(bottom.matches(|c| "▁▂▃▄▅▆▇█".contains(c)).count() > 20, "{text}");
            assert!(text.contains("20 s") && text.contains("40 ms"), "{text}");
        }
    }
}
