//! Distributions as bars of text, beside each other: before and after at a glance.
//!
//! The bins are geometric, `anchor * r^k`, and the anchor is the deadline: no bin lies on both sides of it. The ratio
//! `r` is the smallest of a short list with which at most [`BINS_MAX`] bins cover all values.

use surety_model::record::{Distribution, Observed};
use surety_stats::bounds::Ranked;
use surety_units::Nanos;

use crate::quantity::{TimeUnit, percent};
use crate::text::{Style, Tone, clean, columns, cut, pad};

/// Lines of one drawing.
const BINS_MAX: i32 = 16;
const RATIOS: [f64; 13] = [1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0];
/// Narrowest drawing of one series, its percentage included.
const NARROWEST: usize = 20;

/// Draws every observed distribution; what is no observation (a proven limit) is left out. Empty when nothing is left.
///
/// Bars are fractions of the series' own values, to one scale for all. A line marks the deadline.
pub fn distributions(
    title: &str,
    series: &[(&str, &Distribution)],
    deadline: Option<Nanos>,
    style: &Style,
) -> String {
    let observed: Vec<(String, &Observed)> = series
        .iter()
        .filter_map(|(label, d)| Some((clean(label), d.observed()?)))
        .filter(|(_, o)| o.histogram.count() > 0)
        .collect();
    let Some(bins) = Bins::covering(&observed, deadline) else { return String::new() };
    let mut out = String::new();
    for line in crate::text::wrap(&clean(title), style.columns()) {
        out += &style.paint(Tone::Strong, &line);
        out.push('\n');
    }
    let labels = bins.labels();
    let label_width = labels.iter().map(|l| columns(l)).max().unwrap_or(0);
    let room = style.columns() - label_width;
    let beside = (room / (NARROWEST + 2)).clamp(1, observed.len());
    let width = (room / beside).min(60).saturating_sub(2);
    let fractions: Vec<Vec<f64>> = observed.iter().map(|(_, o)| bins.fractions(o)).collect();
    let largest = fractions.iter().flatten().copied().fold(0.0, f64::max);
    for (group, fractions) in observed.chunks(beside).zip(fractions.chunks(beside)) {
        let mut line = " ".repeat(label_width);
        for (label, o) in group {
            let count = format!(" (n={})", o.histogram.count());
            let head = format!("{}{count}", cut(label, width.saturating_sub(count.len()).max(1)));
            line += &format!("  {}", pad(&cut(&head, width), width, false));
        }
        out += &style.paint(Tone::Faint, line.trim_end());
        out.push('\n');
        for bin in 0..labels.len() {
            if bins.deadline_bin == Some(bin) {
                let text = format!("{} deadline ", "─".repeat(label_width.saturating_sub(9)));
                let rest = (width + 2) * group.len();
                out += &style.paint(Tone::Open, &format!("{text}{}", "─".repeat(rest.saturating_sub(1))));
                out.push('\n');
            }
            let late = bins.deadline_bin.is_some_and(|d| bin >= d);
            let mut line = pad(&labels[bin], label_width, true);
            let mut plain_width = columns(&line);
            let mut end = plain_width;
            for series in fractions {
                let fraction = series[bin];
                let text = bar(fraction, largest, width);
                line += &" ".repeat(end + 2 - plain_width);
                let tone = if late && fraction > 0.0 { Tone::Bad } else { Tone::Plain };
                line += &style.paint(tone, &text);
                plain_width = end + 2 + columns(&text);
                end += 2 + width;
            }
            out += line.trim_end();
            out.push('\n');
        }
    }
    out
}

/// A bar with its percentage behind it; one eighth of a block at least for anything above nothing.
fn bar(fraction: f64, largest: f64, width: usize) -> String {
    if fraction <= 0.0 {
        return String::new();
    }
    let room = width.saturating_sub(9);
    let eighths = ((fraction / largest * room as f64 * 8.0).round() as usize).max(1);
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    format!("{}{part} {}", "█".repeat(eighths / 8), percent(fraction))
}

struct Bins {
    /// Lower edges of all bins and the upper edge of the last, in ns.
    edges: Vec<f64>,
    /// The first bin at and beyond the deadline.
    deadline_bin: Option<usize>,
}

impl Bins {
    fn covering(observed: &[(String, &Observed)], deadline: Option<Nanos>) -> Option<Bins> {
        let low = observed.iter().filter_map(|(_, o)| o.histogram.min()).min()?.max(1) as f64;
        let high = observed.iter().filter_map(|(_, o)| o.histogram.max()).max()?.max(1) as f64;
        let deadline = deadline.filter(|d| d.is_positive()).map(|d| d.get() as f64);
        let anchor = deadline.unwrap_or_else(|| 10f64.powi(high.log10().floor() as i32));
        // The values and the deadline are inside; a value on an edge belongs below it, as one at the deadline does.
        let (low, high) = (low.min(anchor), high.max(anchor));
        let edges_of = |ratio: f64| {
            let index = |value: f64| (value / anchor).ln() / ratio.ln();
            let first = (index(low) - 1e-9).ceil() as i32 - 1;
            let last = (index(high) - 1e-9).ceil() as i32;
            (first, last.max(first + 1))
        };
        let ratio = RATIOS.into_iter().find(|r| {
            let (first, last) = edges_of(*r);
            last - first <= BINS_MAX
        });
        let ratio = ratio.unwrap_or(RATIOS[RATIOS.len() - 1]);
        let (first, last) = edges_of(ratio);
        let edges: Vec<f64> = (first..=last).map(|k| anchor * ratio.powi(k)).collect();
        let deadline_bin = deadline.and_then(|_| usize::try_from(-first).ok());
        Some(Bins { edges, deadline_bin })
    }

    fn labels(&self) -> Vec<String> {
        let time = |edge: f64| Nanos::from_f64_rounded(edge);
        let unit = TimeUnit::fitting(time(self.edges[self.edges.len() / 2]));
        self.edges
            .windows(2)
            .map(|e| format!("{} to {}", unit.show(time(e[0])), unit.show(time(e[1]))))
            .collect()
    }

    /// The fraction of the values in each bin, each histogram bucket counted where its middle lies.
    fn fractions(&self, observed: &Observed) -> Vec<f64> {
        let histogram = &observed.histogram;
        let mut counts = vec![0u64; self.edges.len() - 1];
        let (min, max) = (histogram.min().unwrap_or(0), histogram.max().unwrap_or(0));
        for (low, high, count) in histogram.buckets() {
            let middle = (low.max(min) as f64 + high.min(max) as f64) / 2.0;
            let bin = self.edges[1..].partition_point(|edge| *edge < middle).min(counts.len() - 1);
            counts[bin] += count;
        }
        // Of all activations: those that never came are in no bin.
        counts.iter().map(|c| *c as f64 / observed.count() as f64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(values_ms: &[i64]) -> Distribution {
        let mut observed = Observed::default();
        values_ms.iter().for_each(|v| observed.record(Nanos::from_millis(*v)));
        Distribution::from(observed)
    }

    /// A histogram bucket at the deadline reaches 0.4 % to either side; the bins must not blur it further.
    #[test]
    fn no_bin_lies_on_both_sides_of_the_deadline() {
        let before = observed(&[10, 20, 45, 60]);
        let text = distributions("t", &[("a", &before)], Some(Nanos::from_millis(40)), &Style::plain(80));
        let (above, below) = text.split_once("deadline").unwrap();
        assert_eq!((above.matches('%').count(), below.matches('%').count()), (2, 2), "{text}");
    }

    #[test]
    fn proven_limits_and_nothing_are_not_drawn() {
        let limits = Distribution::Limits(vec![(1.0, Nanos::from_millis(1))]);
        assert_eq!(distributions("t", &[("a", &limits)], None, &Style::plain(80)), "");
    }

    #[test]
    fn one_value_and_zero_are_drawn() {
        for value in [0, 7] {
            let one = observed(&[value]);
            let text = distributions("t", &[("a", &one)], None, &Style::plain(80));
            assert!(text.contains("100.0 %"), "{text}");
        }
    }
}
