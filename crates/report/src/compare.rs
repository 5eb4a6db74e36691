//! What stands in the comparison, whatever form it takes: times per row, the loads' price, verdicts, and
//! what degrades a row.

use surety_model::noise::NOISE;
use surety_model::promise::Metric;
use surety_model::record::{ActivityRecord, Basis, Distribution, Figure, Record};
use surety_model::verdict::{Outcome, Verdict};
use surety_model::workload::ActivityKind;
use surety_units::Nanos;

use crate::quantity::{TimeUnit, chosen_time, figure, percent};
use crate::row::Row;
use crate::sheet::{Cell, Column, Line, Sheet};
use crate::text::Tone;

/// One activity with the time that is compared for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub name: String,
    pub kind: &'static str,
    /// [`Metric::Response`] or [`Metric::Latency`].
    pub metric: Metric,
    pub deadline: Option<Nanos>,
}

/// The quantiles shown, the maximum last.
const SHOWN: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];

/// Every activity that is neither a load nor a start-up, in the order of the rows: its response, and its latency where it is promised or
/// all there is.
pub(crate) fn blocks(rows: &[Row<'_>]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for name in activity_names(rows, |a| a.kind != ActivityKind::Load && a.kind != ActivityKind::Startup) {
        let records: Vec<&ActivityRecord> = rows.iter().filter_map(|r| r.record.activity(name)).collect();
        let kind = records.first().map_or("", |a| a.kind.word());
        let deadline = records.iter().find_map(|a| a.deadline);
        let latency_promised = rows
            .iter()
            .flat_map(|r| &r.verdicts)
            .any(|v| v.activity == name && v.promise.metric == Metric::Latency);
        let has_latency = records.iter().any(|a| a.latency.is_some());
        let has_response = records.iter().any(|a| a.response.is_some());
        // Its figures are all that a probe without times has.
        let is_figures = |a: &&ActivityRecord| a.kind == ActivityKind::Probe && !a.figures.is_empty();
        if !has_response && !has_latency && records.iter().all(is_figures) {
            continue;
        }
        let mut push = |metric| blocks.push(Block { name: name.to_owned(), kind, metric, deadline });
        if has_response || !has_latency {
            push(Metric::Response);
        }
        if has_latency && (latency_promised || !has_response) {
            push(Metric::Latency);
        }
    }
    blocks
}

impl Block {
    /// The distribution the block is about.
    pub(crate) fn distribution<'a>(&self, activity: &'a ActivityRecord) -> Option<&'a Distribution> {
        match self.metric {
            Metric::Latency => activity.latency.as_ref(),
            _ => activity.response.as_ref(),
        }
    }

    /// Whether a verdict stands in this block: one on a latency with the latency, where that has a block of its own.
    fn is_about(&self, verdict: &Verdict, all: &[Block]) -> bool {
        let is_only = all.iter().filter(|b| b.name == self.name).count() == 1;
        let is_latency = verdict.promise.metric == Metric::Latency;
        verdict.activity == self.name && (is_only || is_latency == (self.metric == Metric::Latency))
    }

    /// What it is in words: `task, deadline 40 ms; response time`.
    pub(crate) fn remark(&self) -> String {
        let deadline = self.deadline.map(|d| format!(", deadline {}", chosen_time(d))).unwrap_or_default();
        let time = if self.metric == Metric::Latency { "release to start" } else { "response time" };
        format!("{}{deadline}; {time}", self.kind)
    }

    /// One unit for all rows: that of the longest p95 there is, else of the longest median or the deadline.
    fn unit(&self, rows: &[Row<'_>]) -> TimeUnit {
        let longest = |q: f64| {
            let of_row = |row: &Row<'_>| self.distribution(row.record.activity(&self.name)?)?.quantile(q);
            rows.iter().filter_map(of_row).filter(|time| *time != Nanos::MAX).max()
        };
        let known = longest(0.95).or_else(|| longest(0.5)).or(self.deadline);
        TimeUnit::fitting(known.unwrap_or(Nanos::MILLISECOND))
    }
}

/// Names of the activities in all rows, in the order in which they appear.
pub(crate) fn activity_names<'a>(rows: &[Row<'a>], wanted: impl Fn(&ActivityRecord) -> bool) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for activity in rows.iter().flat_map(|r| &r.record.activities) {
        if wanted(activity) && !names.contains(&activity.name.as_str()) {
            names.push(&activity.name);
        }
    }
    names
}

/// The one table of the whole loop.
pub(crate) fn results(rows: &[Row<'_>]) -> Sheet {
    let mut sheet = Sheet {
        columns: vec![
            Column::words(""),
            Column::numbers("activations", 5),
            Column::numbers("missed", 0),
            Column::numbers("of all", 0),
            Column::numbers("mean", 6),
            Column::numbers("p50", 2),
            Column::numbers("p95", 1),
            Column::numbers("p99", 0),
            Column::numbers("max", 3),
            Column::numbers("share", 4),
            Column::words("verdict"),
        ],
        lines: Vec::new(),
    };
    let blocks = blocks(rows);
    for block in &blocks {
        sheet.lines.push(Line::Section(block.name.clone(), block.remark()));
        let unit = block.unit(rows);
        // What was run and has no such activity is of another workload.
        let is_of =
            |row: &&Row<'_>| row.record.activities.is_empty() || row.record.activity(&block.name).is_some();
        for row in rows.iter().filter(is_of) {
            sheet.lines.push(Line::Cells(result_cells(block, &blocks, unit, row)));
        }
    }
    sheet
}

fn result_cells(block: &Block, all: &[Block], unit: TimeUnit, row: &Row<'_>) -> Vec<Cell> {
    let none = || Cell::toned("-", Tone::Faint);
    let mut cells = vec![Cell::plain(row.label.as_str())];
    let Some(activity) = row.record.activity(&block.name) else {
        cells.resize_with(10, none);
        cells.push(Cell::toned("not run", Tone::Faint));
        return cells;
    };
    // Misses and share belong to the activity: they stand in its first block only.
    let is_first = all.iter().find(|b| b.name == block.name) == Some(block);
    let counted = activity.activations > 0;
    cells.push(if counted { Cell::plain(activity.activations.to_string()) } else { none() });
    match activity.miss_ratio().filter(|_| activity.deadline.is_some()) {
        _ if !is_first => cells.extend([Cell::default(), Cell::default()]),
        Some(ratio) => {
            let tone = if activity.missed > 0 { Tone::Bad } else { Tone::Plain };
            cells.push(Cell::toned(activity.missed.to_string(), tone));
            cells.push(Cell::toned(percent(ratio), tone));
        }
        None => cells.extend([none(), none()]),
    }
    cells.extend(time_cells(block.distribution(activity), activity.basis, unit));
    cells.push(match activity.share_received() {
        _ if !is_first => Cell::default(),
        Some(share) => Cell::plain(percent(share)),
        None => none(),
    });
    cells.push(verdict_cell(row.verdicts.iter().filter(|v| block.is_about(v, all))));
    cells
}

/// Mean, the quantiles shown, and the maximum. A proven limit stands once, in the column it is about.
fn time_cells(distribution: Option<&Distribution>, basis: Basis, unit: TimeUnit) -> Vec<Cell> {
    let none = || Cell::toned("-", Tone::Faint);
    match distribution {
        None => (0..=SHOWN.len()).map(|_| none()).collect(),
        Some(Distribution::Observed(observed)) => {
            let sign = if basis == Basis::Bound { "<= " } else { "" };
            let show = |time: Option<Nanos>| {
                time.map_or_else(none, |t| Cell::plain(format!("{sign}{}", unit.show(t))))
            };
            // There is no mean of what never came.
            let mean = observed.moments.mean().filter(|_| observed.never == 0).map(Nanos::from_f64_rounded);
            let quantiles = SHOWN.iter().map(|(_, q)| show(distribution.and_then(|d| d.quantile(*q))));
            std::iter::once(show(mean)).chain(quantiles).collect()
        }
        Some(Distribution::Limits(limits)) => {
            let covering = |q: f64| limits.iter().position(|(p, _)| *p >= q);
            let mut cells = vec![none()];
            for (index, (_, q)) in SHOWN.iter().enumerate() {
                let next = SHOWN.get(index + 1).and_then(|(_, q)| covering(*q));
                cells.push(match covering(*q) {
                    Some(limit) if next != Some(limit) => {
                        Cell::plain(format!("<= {}", unit.show(limits[limit].1)))
                    }
                    _ => none(),
                });
            }
            cells
        }
    }
}

/// The outcomes of an activity's promises, in their order; one word when they are all alike. Among others a dash
/// stands for what is not observable.
pub(crate) fn verdict_cell<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Cell {
    let outcomes: Vec<Outcome> = verdicts.map(|v| v.outcome).collect();
    let Some(worst) = [Outcome::Broken, Outcome::Undecided, Outcome::Kept, Outcome::NotObservable]
        .into_iter()
        .find(|o| outcomes.contains(o))
    else {
        return Cell::toned("-", Tone::Faint);
    };
    let words: Vec<String> = outcomes.iter().map(Outcome::to_string).collect();
    let text = match words.as_slice() {
        [first, rest @ ..] if rest.iter().all(|w| w == first) => first.clone(),
        _ => words.join(", ").replace(&Outcome::NotObservable.to_string(), "-"),
    };
    Cell::toned(text, Tone::of(worst))
}

/// What the loads got, and every other figure: the price beside the gain. `None` when there is nothing of the kind.
///
/// Behind a value of a reserved row stands its ratio to the same world's row without reservations.
pub(crate) fn price(rows: &[Row<'_>]) -> Option<Sheet> {
    let names = activity_names(rows, |a| a.kind == ActivityKind::Load || !a.figures.is_empty());
    if names.is_empty() {
        return None;
    }
    let of_names =
        || rows.iter().flat_map(|r| &r.record.activities).filter(|a| names.contains(&a.name.as_str()));
    let mut figures: Vec<&str> = Vec::new();
    for f in of_names().flat_map(|a| &a.figures) {
        if !figures.contains(&f.name.as_str()) {
            figures.push(&f.name);
        }
    }
    let mut columns =
        vec![Column::words(""), Column::numbers("share of a CPU", 0), Column::numbers("of demand", 0)];
    columns.extend(figures.iter().map(|name| Column::numbers(name, 0)));
    columns.push(Column::words("verdict"));
    let mut lines = Vec::new();
    for name in names {
        let kind = rows.iter().find_map(|r| r.record.activity(name)).map_or("", |a| a.kind.word());
        lines.push(Line::Section(name.to_owned(), kind.to_owned()));
        for row in rows {
            let Some(activity) = row.record.activity(name) else { continue };
            let before = rows
                .iter()
                .find(|r| row.record.reserved && !r.record.reserved && r.record.world == row.record.world)
                .and_then(|r| r.record.activity(name));
            let cells = price_cells(row, activity, before, &figures);
            if cells[1..].iter().any(|cell| !cell.text.is_empty()) {
                lines.push(Line::Cells(cells));
            }
        }
    }
    Some(Sheet { columns, lines })
}

fn price_cells(
    row: &Row<'_>,
    activity: &ActivityRecord,
    before: Option<&ActivityRecord>,
    figures: &[&str],
) -> Vec<Cell> {
    let cell = |value: Option<f64>, before: Option<f64>, text: &dyn Fn(f64) -> String| match value {
        None => Cell::plain(""),
        Some(value) => {
            let ratio = before.filter(|b| *b > 0.0 && value.is_finite()).map(|b| value / b);
            let ratio = ratio.filter(|r| r.is_finite()).map(|r| format!(" (x{r:.2})")).unwrap_or_default();
            Cell::plain(format!("{}{ratio}", text(value)))
        }
    };
    let share_before = before.and_then(ActivityRecord::share_received);
    let demand = |a: &ActivityRecord| a.share.as_ref().and_then(|s| s.of_demand());
    let mut cells = vec![
        Cell::plain(row.label.as_str()),
        cell(activity.share_received(), share_before, &percent),
        cell(demand(activity), None, &percent),
    ];
    for name in figures {
        let of = |a: &ActivityRecord| a.figures.iter().find(|f| f.name == *name).cloned();
        let (now, was) = (of(activity), before.and_then(of));
        let text = |value: f64| match &now {
            Some(f) if f.name == NOISE => percent(value),
            Some(f) => figure(&Figure { value, ..f.clone() }),
            None => String::new(),
        };
        cells.push(cell(now.as_ref().map(|f| f.value), was.map(|f| f.value), &text));
    }
    let is_load = activity.kind == ActivityKind::Load;
    let verdicts: Vec<&Verdict> =
        row.verdicts.iter().filter(|v| is_load && v.activity == activity.name).collect();
    cells.push(if verdicts.is_empty() { Cell::plain("") } else { verdict_cell(verdicts.into_iter()) });
    cells
}

/// One promise with what every row says about it.
#[derive(Clone, Debug)]
pub(crate) struct Judged<'a> {
    pub activity: &'a str,
    pub promise: String,
    /// Row by row: label, outcome, reason.
    pub by_row: Vec<(&'a str, &'a Verdict)>,
}

/// Every promise once, in the order of the rows.
pub(crate) fn judged<'a>(rows: &'a [Row<'_>]) -> Vec<Judged<'a>> {
    let mut list: Vec<Judged<'a>> = Vec::new();
    for row in rows {
        for verdict in &row.verdicts {
            let promise = verdict.promise.to_string();
            let entry = (row.label.as_str(), verdict);
            match list.iter_mut().find(|j| j.activity == verdict.activity && j.promise == promise) {
                Some(judged) => judged.by_row.push(entry),
                None => list.push(Judged { activity: &verdict.activity, promise, by_row: vec![entry] }),
            }
        }
    }
    list
}

/// Everything that degrades a row, once, with the rows it is about.
pub(crate) fn degraded<'a>(rows: &'a [Row<'_>]) -> Vec<(&'a str, Vec<&'a str>)> {
    remarks(rows, |record| &record.degraded)
}

/// Everything of simulated machines that no kernel was held against, likewise.
pub(crate) fn unvalidated<'a>(rows: &'a [Row<'_>]) -> Vec<(&'a str, Vec<&'a str>)> {
    remarks(rows, |record| &record.in_force.unvalidated)
}

fn remarks<'a>(rows: &'a [Row<'_>], of: fn(&Record) -> &Vec<String>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut list: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        for reason in of(row.record) {
            match list.iter_mut().find(|(r, _)| r == reason) {
                Some((_, labels)) if labels.contains(&row.label.as_str()) => {}
                Some((_, labels)) => labels.push(&row.label),
                None => list.push((reason, vec![&row.label])),
            }
        }
    }
    list
}
