//! Drawings of one activity's times as inline SVG: the distribution of each row on a shared axis, and the tail.
//!
//! The tail is what a promise is about. `response <= D @ p` says that the fraction later than D is at most `1 - p`: a
//! corner of the drawing, right of D and above `1 - p`, which the curve must not enter. A skipped activation never
//! responds, so it is later than every time.

use std::fmt::Write;

use surety_model::promise::{Bound, Comparison, Metric};
use surety_model::record::{ActivityRecord, Distribution, Observed};
use surety_stats::bounds::Ranked;
use surety_units::Nanos;

use super::axis::TimeAxis;
use super::escape;
use crate::compare::Block;
use crate::quantity::{at_most, chosen_time, percent, probability};
use crate::row::Row;

/// Colours of rows beside the first of each world and state.
const COLOURS: usize = 6;
const BINS: usize = 72;

/// How wide a drawing is, and where its inside begins and ends. Each is drawn for a wide page and for a narrow one: a drawing that is
/// made smaller has texts that nobody can read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub width: f64,
    pub left: f64,
    pub right: f64,
}

const WIDE: Frame = Frame { width: 860.0, left: 78.0, right: 850.0 };
const NARROW: Frame = Frame { width: 330.0, left: 66.0, right: 326.0 };

/// Where strips, which have nothing beside them, begin.
const STRIP_LEFT: f64 = 6.0;
const STRIP: f64 = 70.0;
/// Height of a strip's bars at most.
const BARS: f64 = 42.0;
/// What a letter takes in a tick, and in a bold text, more or less: the widest of the usual fonts.
const LETTER: f64 = 7.6;
const BOLD: f64 = 9.0;

/// A drawing for each width, of which the page shows one.
pub(super) fn both(draw: impl Fn(&Frame) -> String) -> String {
    format!("<div class=\"wide\">{}</div><div class=\"narrow\">{}</div>", draw(&WIDE), draw(&NARROW))
}

/// One row's line in the drawings.
struct Series<'a> {
    label: &'a str,
    activity: &'a ActivityRecord,
    observed: Option<&'a Observed>,
    limits: &'a [(f64, Nanos)],
    /// Style class: colour by reserved or not, dashes by world.
    class: String,
}

/// What a block's drawings are of.
pub(super) fn what(block: &Block) -> &'static str {
    if block.metric == Metric::Latency { "latency" } else { "response time" }
}

/// Both drawings of a block; empty when no row observed anything.
pub(super) fn charts(block: &Block, rows: &[Row<'_>]) -> String {
    let series = series_of(block, rows);
    let seen: Vec<&Observed> = series.iter().filter_map(|s| s.observed).collect();
    // A handful of very short times would squeeze everything else to the right: they stand at the left end.
    let lowest = |o: &&Observed| Some(o.histogram.min()?.max(o.histogram.quantile(0.002)? / 2));
    let Some(low) = seen.iter().filter_map(lowest).min() else { return String::new() };
    let high = seen.iter().filter_map(|o| o.histogram.max()).max().unwrap_or(low);
    let corners = corners(block, rows);
    let mark = Mark::of(block, &corners);
    let marks = mark.iter().map(|m| m.at).chain(corners.iter().map(|c| c.limit));
    let limits = series.iter().flat_map(|s| s.limits).map(|(_, t)| t.get() as f64);
    let (mut from, mut to) = (low as f64, high as f64);
    for mark in marks.chain(limits) {
        (from, to) = (from.min(mark), to.max(mark));
    }
    let axis_in = |left: f64, right: f64| TimeAxis::new(from, to, left, right);
    let what = what(block);
    let scale = if axis_in(0.0, 1.0).is_log() { "logarithmic" } else { "linear" };
    let name = escape(&block.name);
    let past = match &mark {
        Some(mark) => format!(" Red: past the {}.", mark.word),
        None => String::new(),
    };
    let mut out = String::new();
    let _ = write!(
        out,
        "<figure><figcaption><b>{name}: {what}.</b> One strip per row on one {scale} axis; the height is the \
         part of the row's activations, each strip to its own scale.{past}</figcaption>{}</figure>",
        both(|frame| {
            let frame = Frame { left: STRIP_LEFT, ..*frame };
            strips(&frame, &series, &axis_in(frame.left, frame.right), mark.as_ref(), what)
        })
    );
    let promise = match corners.len() {
        0 => "",
        _ => " A promise is a corner that no line may enter.",
    };
    let skipped = match series.iter().any(|s| s.observed.is_some_and(|o| o.never > 0)) {
        true => " A skipped activation never ends: its line does not fall to zero.",
        false => "",
    };
    let _ = write!(
        out,
        "<figure><figcaption><b>{name}: the tail of the {what}.</b> The part of the activations that took longer \
         than a time.{promise}{skipped}</figcaption>{}{}</figure>",
        both(|frame| tail(frame, &series, &axis_in(frame.left, frame.right), &corners, what)),
        legend(&series)
    );
    out
}

fn series_of<'a>(block: &Block, rows: &'a [Row<'_>]) -> Vec<Series<'a>> {
    let mut worlds: Vec<&str> = Vec::new();
    let mut used: Vec<(usize, bool)> = Vec::new();
    let mut others = 0;
    let mut series = Vec::new();
    for row in rows {
        let Some(activity) = row.record.activity(&block.name) else { continue };
        let (observed, limits) = match block.distribution(activity) {
            Some(Distribution::Observed(o)) if o.histogram.count() > 0 => (Some(o.as_ref()), &[][..]),
            Some(Distribution::Limits(limits)) => (None, limits.as_slice()),
            _ => continue,
        };
        if observed.is_none() {
            series.push(Series { label: &row.label, activity, observed, limits, class: String::new() });
            continue;
        }
        let world = worlds.iter().position(|w| *w == row.record.world).unwrap_or_else(|| {
            worlds.push(&row.record.world);
            worlds.len() - 1
        });
        let key = (world, row.record.reserved);
        // Several rows of one world in one state (kernels, schedulers) need colours of their own.
        let state = match (used.contains(&key), row.record.reserved) {
            (false, false) => "before".to_owned(),
            (false, true) => "after".to_owned(),
            (true, _) => {
                others += 1;
                format!("more{}", (others - 1) % COLOURS)
            }
        };
        used.push(key);
        let class = format!("{state} dash{}", (world + others / (COLOURS + 1)) % 3);
        series.push(Series { label: &row.label, activity, observed, limits, class });
    }
    series
}

/// The time that divides early from late: the deadline, or the shortest latency promised.
struct Mark {
    at: f64,
    word: &'static str,
}

impl Mark {
    fn of(block: &Block, corners: &[Corner]) -> Option<Mark> {
        if block.metric == Metric::Response {
            return block.deadline.map(|d| Mark { at: d.get() as f64, word: "deadline" });
        }
        let shortest = corners.iter().map(|c| c.limit).fold(f64::INFINITY, f64::min);
        shortest.is_finite().then_some(Mark { at: shortest, word: "limit promised" })
    }
}

/// The corner a promise forbids: later than `limit` for more than `fraction` of the activations.
struct Corner {
    limit: f64,
    fraction: f64,
    text: String,
}

fn corners(block: &Block, rows: &[Row<'_>]) -> Vec<Corner> {
    let mut corners: Vec<Corner> = Vec::new();
    for verdict in rows.iter().flat_map(|r| &r.verdicts).filter(|v| v.activity == block.name) {
        let promise = &verdict.promise;
        let is_upper = matches!(promise.comparison, Comparison::AtMost | Comparison::Below);
        if let (true, Bound::Time(limit)) = (promise.metric == block.metric && is_upper, promise.bound) {
            let text = promise.to_string();
            if corners.iter().all(|c| c.text != text) {
                let fraction = promise.at.map_or(0.0, |p| p.complement().as_f64());
                corners.push(Corner { limit: limit.get() as f64, fraction, text });
            }
        }
    }
    corners
}

pub(super) fn open_svg(frame: &Frame, height: f64, title: &str) -> String {
    let width = frame.width;
    format!("<svg viewBox=\"0 0 {width} {height:.0}\" role=\"img\" aria-label=\"{}\">", escape(title))
}

pub(super) fn text(out: &mut String, x: f64, y: f64, class: &str, content: &str) {
    let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escape(content));
}

pub(super) fn line(out: &mut String, x1: f64, y1: f64, x2: f64, y2: f64, class: &str) {
    let _ =
        write!(out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>");
}

/// Vertical rules at the ticks, their texts below, and what the axis is.
pub(super) fn time_axis(
    out: &mut String,
    frame: &Frame,
    axis: &TimeAxis,
    (top, bottom): (f64, f64),
    what: &str,
) {
    let mut written = 0.0;
    for (x, label) in axis.ticks() {
        line(out, x, top, x, bottom, "grid");
        let length = label.len() as f64 * LETTER;
        let (x, anchor) = anchored(frame, x, length);
        let left = match anchor {
            "start" => x,
            "mid" => x - length / 2.0,
            _ => x - length,
        };
        // A rule whose text would run into the one before stands alone.
        if left >= written {
            text(out, x, bottom + 18.0, &format!("tick {anchor}"), &label);
            written = left + length;
        }
    }
    line(out, frame.left, bottom, frame.right, bottom, "axis");
    let title = format!("{what}{}", if axis.is_log() { ", logarithmic" } else { "" });
    text(out, (frame.left + frame.right) / 2.0, bottom + 37.0, "title mid", &title);
}

fn strips(frame: &Frame, series: &[Series<'_>], axis: &TimeAxis, mark: Option<&Mark>, what: &str) -> String {
    let top = 22.0;
    let notes: Vec<(String, &str)> = series.iter().map(|s| note(s, mark)).collect();
    // The note stands behind the label, or below where they have no room.
    let room = ((frame.right - frame.left) / BOLD) as usize;
    let lengths = series.iter().zip(&notes).map(|(s, (note, _))| s.label.chars().count() + note.len() + 2);
    let below = if lengths.max().unwrap_or(0) > room { 16.0 } else { 0.0 };
    let strip = STRIP + below;
    let bottom = top + strip * series.len() as f64;
    let mut out = open_svg(frame, bottom + 46.0, &format!("distribution of the {what}, one strip per row"));
    time_axis(&mut out, frame, axis, (top, bottom), what);
    if let Some(mark) = mark {
        let x = axis.x(mark.at);
        line(&mut out, x, top - 6.0, x, bottom, "deadline");
        let label = format!("{} {}", mark.word, chosen_time(Nanos::from_f64_rounded(mark.at)));
        let (x, class) = anchored(frame, x, label.len() as f64 * BOLD);
        text(&mut out, x, top - 10.0, &format!("deadline-text {class}"), &label);
    }
    for (index, (s, (note, class))) in series.iter().zip(&notes).enumerate() {
        let base = top + strip * (index + 1) as f64;
        line(&mut out, frame.left, base, frame.right, base, "base");
        let above = base - strip + 16.0;
        text(&mut out, frame.left, above, "label", &short(s.label, room));
        let (x, anchor) = if below > 0.0 { (frame.left, "start") } else { (frame.right, "end") };
        text(&mut out, x, above + below, &format!("{class} {anchor}"), note);
        match s.observed {
            Some(observed) => bars(&mut out, observed, axis, base, mark.map(|m| m.at), &s.class),
            None => bounds(&mut out, frame, s.limits, axis, base),
        }
    }
    out + "</svg>"
}

/// What is said of a strip beside its label, and how.
fn note(s: &Series<'_>, mark: Option<&Mark>) -> (String, &'static str) {
    let Some(observed) = s.observed else { return ("proven limits".to_owned(), "tick") };
    let n = match (observed.histogram.count(), observed.count()) {
        (ended, all) if ended < all => format!("{ended} of {all} ended"),
        (ended, _) => format!("n = {ended}"),
    };
    match s.activity.miss_ratio().filter(|_| mark.is_some_and(|m| m.word == "deadline")) {
        None => (n, "tick"),
        Some(ratio) if s.activity.missed > 0 => (format!("{} missed, {n}", percent(ratio)), "late"),
        Some(_) => (format!("none missed, {n}"), "none-late"),
    }
}

/// Proven limits on a strip.
fn bounds(out: &mut String, frame: &Frame, limits: &[(f64, Nanos)], axis: &TimeAxis, base: f64) {
    // From where to where the upper line of texts is written on.
    let mut written: Vec<(f64, f64)> = Vec::new();
    for (index, (p, limit)) in limits.iter().enumerate() {
        // One limit covers every smaller fraction that has the same: the largest is written.
        if limits.get(index + 1).is_some_and(|(_, next)| next == limit) {
            continue;
        }
        let x = axis.x(limit.get() as f64);
        line(out, x, base - 30.0, x, base, "bound");
        let is_right = x > (frame.left + frame.right) / 2.0;
        let x_text = if is_right { (x - 6.0, "tick end") } else { (x + 6.0, "tick") };
        let label = format!("{} within {}", probability(*p), at_most(*limit));
        let length = label.len() as f64 * LETTER;
        let from = if is_right { x_text.0 - length } else { x_text.0 };
        let is_free = written.iter().all(|(a, b)| from + length < *a || from > *b);
        if is_free {
            written.push((from, from + length));
        }
        text(out, x_text.0, base - if is_free { 20.0 } else { 6.0 }, x_text.1, &label);
    }
}

/// Where a text of a length stands that is centred on `x`, and stays on the drawing.
fn anchored(frame: &Frame, x: f64, length: f64) -> (f64, &'static str) {
    if x + length / 2.0 > frame.width {
        (frame.width - 1.0, "end")
    } else if x < length / 2.0 {
        (1.0, "start")
    } else {
        (x, "mid")
    }
}

/// The bars of one strip, each as high as its part of the values; those past the deadline in their own colour.
fn bars(
    out: &mut String,
    observed: &Observed,
    axis: &TimeAxis,
    base: f64,
    deadline: Option<f64>,
    class: &str,
) {
    let mut edges = axis.bins(BINS);
    // The deadline is an edge too, so that no bar lies on both sides of it.
    if let Some(d) = deadline {
        let at = edges.partition_point(|e| *e < d);
        edges.insert(at, d);
    }
    let histogram = &observed.histogram;
    let (min, max) = (histogram.min().unwrap_or(0) as f64, histogram.max().unwrap_or(0) as f64);
    let mut counts = vec![0.0; edges.len() - 1];
    for (low, high, count) in histogram.buckets() {
        let (low, high) = ((low as f64).max(min), (high as f64).min(max));
        let bin_of = |v: f64| edges[1..].partition_point(|e| *e < v).min(counts.len() - 1);
        let (first, last) = (bin_of(low), bin_of(high));
        if first == last {
            counts[first] += count as f64;
            continue;
        }
        // A bucket across an edge is shared out by length: rounding to one side would make a comb.
        for bin in first..=last {
            let overlap = (high.min(edges[bin + 1]) - low.max(edges[bin])).max(0.0);
            counts[bin] += count as f64 * overlap / (high - low);
        }
    }
    // Height is density on the drawing: the bin at the deadline is narrower than the others.
    let width_of = |bin: usize| (axis.x(edges[bin + 1]) - axis.x(edges[bin])).max(0.01);
    let full = (axis.x(edges[edges.len() - 1]) - axis.x(edges[0])) / BINS as f64;
    let density = |bin: usize| {
        if width_of(bin) < full * 0.15 { counts[bin] } else { counts[bin] * full / width_of(bin) }
    };
    let highest = (0..counts.len()).map(density).fold(0.0, f64::max);
    let (mut before, mut after) = (String::new(), String::new());
    for bin in 0..counts.len() {
        if counts[bin] <= 0.0 {
            continue;
        }
        // A single late job must be seen: no bar is lower than a pixel and a half.
        let height = (density(bin) / highest * BARS).max(1.5);
        let (x, width) = (axis.x(edges[bin]), width_of(bin));
        let late = deadline.is_some_and(|d| edges[bin] >= d);
        let path = if late { &mut after } else { &mut before };
        let _ = write!(path, "M{x:.1} {base:.1}v{:.1}h{:.2}v{height:.1}z", -height, (width - 0.6).max(0.8));
    }
    for (path, class) in [(before, class), (after, "late-bar")] {
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"bar {class}\" d=\"{path}\"/>");
        }
    }
}

/// A label of this many letters at most. What is left out is in the middle: labels of one file or one matrix differ at their ends.
fn short(label: &str, letters: usize) -> String {
    let (label, letters) = (crate::text::clean(label), letters.max(8));
    let count = label.chars().count();
    if count <= letters {
        return label;
    }
    let end = letters * 2 / 3;
    let begin: String = label.chars().take(letters - 1 - end).collect();
    begin + "…" + &label.chars().skip(count - end).collect::<String>()
}

/// Which line is whose, as a list that wraps with the page.
fn legend(series: &[Series<'_>]) -> String {
    let mut out = "<ul class=\"legend\">".to_owned();
    for s in series {
        out += "<li><svg viewBox=\"0 0 30 12\" aria-hidden=\"true\">";
        if s.observed.is_some() {
            line(&mut out, 0.0, 6.0, 30.0, 6.0, &format!("curve {}", s.class));
        } else {
            point(&mut out, 15.0, 6.0);
        }
        let note = if s.observed.is_some() { "" } else { " (proven limit)" };
        let _ = write!(out, "</svg>{}{note}</li>", escape(s.label));
    }
    out + "</ul>"
}

fn tail(frame: &Frame, series: &[Series<'_>], axis: &TimeAxis, corners: &[Corner], what: &str) -> String {
    let Frame { width, left, right } = *frame;
    let top = 12.0 + 16.0 * corners.len() as f64;
    let bottom = top + 260.0;
    let most = series.iter().filter_map(|s| s.observed).map(|o| o.histogram.count()).max().unwrap_or(1);
    let smallest_promise = corners.iter().map(|c| c.fraction).filter(|f| *f > 0.0).fold(1.0, f64::min);
    // One decade below the promise and as far as the samples reach.
    let reach = (most as f64).log10().ceil().max((-smallest_promise.log10()).ceil() + 1.0);
    let decades = reach.clamp(2.0, 7.0) as i32;
    let lowest = 10f64.powi(-decades);
    let y = |fraction: f64| top - fraction.max(lowest).log10() / f64::from(decades) * (bottom - top);
    let mut out = open_svg(frame, bottom + 46.0, &format!("fraction of activations with a longer {what}"));
    time_axis(&mut out, frame, axis, (top, bottom), what);
    for decade in 0..=decades {
        let fraction = 10f64.powi(-decade);
        line(&mut out, left, y(fraction), right, y(fraction), "grid");
        text(&mut out, left - 8.0, y(fraction) + 4.0, "tick end", &fraction_text(fraction));
    }
    for (index, corner) in corners.iter().enumerate() {
        let (x, floor) = (axis.x(corner.limit), y(corner.fraction));
        let baseline = top - 7.0 - 16.0 * index as f64;
        let _ = write!(
            out,
            "<rect class=\"corner\" x=\"{x:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{:.1}\"/>\
             <path class=\"corner-edge\" d=\"M{x:.1} {baseline:.1}V{floor:.1}H{right}\"/>",
            right - x,
            floor - top
        );
        // The texts stand above the drawing, where no line passes.
        let length = corner.text.len() as f64 * BOLD;
        let (x_text, class) = match x {
            x if x + 6.0 + length < width => (x + 6.0, "start"),
            x if x - 6.0 > length => (x - 6.0, "end"),
            _ => (width - 1.0, "end"),
        };
        text(&mut out, x_text, baseline, &format!("corner-text {class}"), &corner.text);
    }
    for s in series {
        curve(&mut out, s, (frame, axis), &y, lowest);
    }
    out + "</svg>"
}

/// A fraction on the logarithmic axis: `100 %`, `1 %`, `0.001 %`.
fn fraction_text(fraction: f64) -> String {
    let percent = fraction * 100.0;
    let decimals = (-percent.log10()).round().max(0.0) as usize;
    format!("{percent:.decimals$} %")
}

fn point(out: &mut String, x: f64, y: f64) {
    let _ = write!(out, "<path class=\"limit\" d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6z\"/>", y - 6.0);
}

/// The fraction of activations that took longer than each time, skipped and unfinished ones longer than all.
fn curve(
    out: &mut String,
    s: &Series<'_>,
    (frame, axis): (&Frame, &TimeAxis),
    y: &dyn Fn(f64) -> f64,
    lowest: f64,
) {
    let Some(observed) = s.observed else {
        for (p, limit) in s.limits {
            point(out, axis.x(limit.get() as f64), y((1.0 - p).max(lowest)));
        }
        return;
    };
    let histogram = &observed.histogram;
    let of = observed.count() as f64;
    let (min, max) = (histogram.min().unwrap_or(0), histogram.max().unwrap_or(0));
    let mut longer = observed.count();
    let mut path = format!("M{} {:.1}", frame.left, y(1.0));
    for (low, high, count) in histogram.buckets() {
        let _ = write!(path, "H{:.1}", axis.x(((low.max(min) + high.min(max)) / 2) as f64));
        longer -= count;
        let _ = write!(path, "V{:.1}", y(longer as f64 / of));
    }
    if longer > 0 {
        let _ = write!(path, "H{}", frame.right);
    }
    let _ = write!(out, "<path class=\"curve {}\" d=\"{path}\"/>", s.class);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_ticks_do_not_run_into_each_other() {
        let count = |width: f64| {
            let frame = Frame { width, left: 66.0, right: width - 4.0 };
            let axis = TimeAxis::linear(9_800.0, 10_200.0, frame.left, frame.right);
            let mut out = String::new();
            time_axis(&mut out, &frame, &axis, (0.0, 100.0), "response time");
            (out.matches("<line").count(), out.matches("class=\"tick").count())
        };
        let ((rules, texts), (wide_rules, wide_texts)) = (count(330.0), count(860.0));
        assert!(texts >= 2 && texts < rules - 1, "{texts} texts of {rules} rules");
        assert_eq!(wide_texts, wide_rules - 1, "all but the axis itself");
    }

    #[test]
    fn limits_that_are_close_are_written_below_each_other() {
        let frame = Frame { width: 860.0, left: 6.0, right: 850.0 };
        let axis = TimeAxis::linear(0.0, 100e6, frame.left, frame.right);
        let heights = |limits: &[(f64, Nanos)]| {
            let mut out = String::new();
            bounds(&mut out, &frame, limits, &axis, 100.0);
            out.split("<text").skip(1).map(|text| text.contains("y=\"80.0\"")).collect::<Vec<_>>()
        };
        let ms = Nanos::from_millis;
        assert_eq!(heights(&[(0.99, ms(40)), (0.999, ms(60))]), [true, false]);
        assert_eq!(heights(&[(0.99, ms(5)), (0.999, ms(95))]), [true, true]);
    }
}
