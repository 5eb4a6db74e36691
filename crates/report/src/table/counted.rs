//! Times counted on a grid as upright bars of text.

use crate::counted::{Counted, Shown};
use crate::quantity::{chosen_time, percent};
use crate::text::{Style, Tone, clean, columns, pad, paragraph};

/// Lines of bars.
const HEIGHT: usize = 8;
/// Columns of the scale at the left.
const SCALE: usize = 9;

/// Draws what was counted, with what is to be said of it below. A bar is a grid point; where there are more than
/// columns, neighbours stand in one bar together.
pub fn counted(counted: &Counted, style: &Style) -> String {
    let Some(shown) = counted.shown() else { return String::new() };
    let mut out = String::new();
    let head = format!(
        "each {} to a multiple of {}; n = {}",
        counted.rounding(),
        chosen_time(counted.step),
        counted.count()
    );
    out += &paragraph(style, &format!("{}  ", clean(&counted.name)), Tone::Strong, &head);
    out += &bars(&shown, style);
    if let Some(beyond) = counted.beyond(&shown) {
        out += &paragraph(style, "not drawn  ", Tone::Faint, &beyond);
    }
    for (name, sentence) in &counted.facts {
        out += &paragraph(style, &format!("{name}  "), Tone::Strong, sentence);
    }
    out
}

fn bars(shown: &Shown, style: &Style) -> String {
    let room = style.columns().saturating_sub(SCALE + 1).max(1);
    let together = shown.masses.len().div_ceil(room);
    let masses: Vec<f64> = shown.masses.chunks(together).map(|group| group.iter().sum()).collect();
    // A lone bar is hard to see as one.
    let wide = (room / masses.len()).clamp(1, 3);
    let highest = masses.iter().copied().fold(0.0, f64::max);
    let eighths: Vec<usize> = masses
        .iter()
        .map(|mass| match mass / highest * (HEIGHT * 8) as f64 {
            height if height > 0.0 => (height.round() as usize).max(1),
            _ => 0,
        })
        .collect();
    let mut out = String::new();
    for line in (0..HEIGHT).rev() {
        let scale = if line + 1 == HEIGHT { percent(highest) } else { String::new() };
        let mut text = pad(&scale, SCALE, true);
        text.push(' ');
        for height in &eighths {
            let block = ["", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"][height.saturating_sub(line * 8).min(8)];
            text += &if block.is_empty() { " " } else { block }.repeat(wide);
        }
        out += text.trim_end();
        out.push('\n');
    }
    let width = masses.len() * wide;
    let (low, high) = (chosen_time(shown.low), chosen_time(shown.high));
    let between = width.saturating_sub(columns(&low) + columns(&high)).max(2);
    out += &style.paint(Tone::Faint, &format!("{}{low}{}{high}", " ".repeat(SCALE + 1), " ".repeat(between)));
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_units::Nanos;

    #[test]
    fn bars_fit_their_columns_and_show_their_mass() {
        let points =
            (0..70i64).map(|k| (Nanos::from_micros(10 * k), 1 + (35 - (k - 35).abs()).unsigned_abs()));
        let times = Counted {
            name: "execution".to_owned(),
            step: Nanos::from_micros(10),
            rounded_up: true,
            points: points.collect(),
            facts: vec![("mean".to_owned(), "350 us".to_owned())],
            ..Counted::default()
        };
        for width in [40, 80, 200] {
            let text = counted(&times, &Style::plain(width));
            assert!(text.lines().all(|line| columns(line) <= width), "{text}");
            assert!(text.contains("rounded up to a multiple of 10 us") || width == 40, "{text}");
            assert!(text.contains("690 us") && text.contains("mean  350 us"), "{text}");
            assert!(text.contains('█'));
        }
        assert_eq!(counted(&Counted::default(), &Style::plain(80)), "");
    }
}
