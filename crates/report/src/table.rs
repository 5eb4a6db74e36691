//! Reports for a terminal or a log: every function returns lines of at most [`Style::width`] columns.

mod bars;
mod counted;
mod explain;
mod front;
mod latency;
mod left;
mod noise;
mod over_time;
mod tested;

pub use surety_model::environment::{Check, CheckVerdict};
use surety_model::plan::Plan;
use surety_model::platform::Platform;
use surety_model::promise::{Metric, Promise};
use surety_model::record::{ActivityRecord, Distribution, Figure};
use surety_model::workload::ActivityKind;
use surety_stats::bounds::Ranked;
use surety_units::Nanos;

use crate::chains::chains;
use crate::compare;
use crate::quantity::{TimeUnit, chosen_time, figure, number_of, observed, percent, probability};
use crate::row::{Report, Row};
use crate::sheet::{Cell, Column, Line, Sheet};
use crate::startups::startups;
use crate::text::{Style, Tone, columns, paragraph};

pub use bars::distributions;
pub use counted::counted;
pub use explain::explain;
pub use front::front;
pub use latency::{latency, latest};
pub use left::left;
pub use noise::noise;
pub use tested::tested;

/// The whole loop: one sentence, every activity with a line per row, every verdict in words, what degrades a row, and what the loads paid.
pub fn comparison(rows: &[Row<'_>], style: &Style) -> String {
    compared(&Report { rows, ..Report::default() }, style)
}

/// The same of a report: whether its sentence speaks of the last row or of all is the report's to say.
pub fn compared(report: &Report<'_>, style: &Style) -> String {
    let rows = report.rows;
    let mut out = String::new();
    let summary = report.summary();
    let tone = summary.outcome.map_or(Tone::Plain, Tone::of);
    for line in crate::text::wrap(&crate::text::clean(&summary.sentence), style.columns()) {
        out += &style.paint(tone, &line);
        out.push('\n');
    }
    let results = compare::results(rows);
    if !results.lines.is_empty() || startups(rows).is_none() {
        out.push('\n');
        out += &results.text(style);
    }
    if let Some(sheet) = startups(rows) {
        out.push('\n');
        out += &sheet.text(style);
    }
    along(rows, &mut out, style);
    verdicts(rows, &mut out, style);
    degraded(rows, &mut out, style);
    price(rows, &mut out, style);
    served(rows, &mut out, style);
    machines(rows, &mut out, style);
    out
}

/// One record: verdicts, what degrades it, every distribution, figures; [`Style::verbose`] has what was in force and the environment, too.
pub fn record(row: &Row<'_>, style: &Style) -> String {
    let mut out = String::new();
    let record = row.record;
    let mut facts = vec![observed(record)];
    facts.extend(record.seed.map(|seed| format!("seed {seed}")));
    if !record.in_force.kernel.is_empty() {
        facts.insert(0, record.in_force.kernel.clone());
    }
    if !record.in_force.cpus.is_empty() {
        facts.insert(1.min(facts.len()), format!("CPUs {}", record.in_force.cpus));
    }
    if let Some(hash) = record.hash {
        facts.push(format!("hash {hash:016x}"));
    }
    if let Some(trace) = record.trace {
        facts.push(format!("trace of {} events, {} lost", trace.events, trace.lost));
    }
    out += &paragraph(style, &format!("{}  ", row.label), Tone::Strong, &facts.join(", "));
    verdicts(std::slice::from_ref(row), &mut out, style);
    unfit(row, &mut out, style);
    degraded(std::slice::from_ref(row), &mut out, style);
    out.push('\n');
    if let Some(sheet) = startups(std::slice::from_ref(row)) {
        out += &sheet.text(style);
        out.push('\n');
    }
    out += &distributions_sheet(row).text(style);
    along(std::slice::from_ref(row), &mut out, style);
    next_largest(row, &mut out, style);
    out += &over_time::over_time(row, style);
    price(std::slice::from_ref(row), &mut out, style);
    if style.verbose {
        in_force(row, &mut out, style);
    } else {
        not_as_asked(row, &mut out, style);
        served(std::slice::from_ref(row), &mut out, style);
    }
    out
}

/// Every distribution of every activity that is no load.
fn distributions_sheet(row: &Row<'_>) -> Sheet {
    const QUANTILES: [(&str, f64, u8); 6] = [
        ("p50", 0.5, 3),
        ("p90", 0.9, 5),
        ("p95", 0.95, 4),
        ("p99", 0.99, 0),
        ("p99.9", 0.999, 2),
        ("max", 1.0, 0),
    ];
    let mut columns = vec![Column::words(""), Column::numbers("count", 6), Column::numbers("mean", 0)];
    columns.extend(QUANTILES.iter().map(|(title, _, omit)| Column::numbers(title, *omit)));
    let mut lines = Vec::new();
    for activity in row.record.activities.iter().filter(|a| a.kind != ActivityKind::Load) {
        lines.push(Line::Section(activity.name.clone(), counts(activity)));
        let unit = unit_of(activity);
        let kinds = [
            ("response", &activity.response),
            ("latency", &activity.latency),
            ("execution", &activity.execution),
        ];
        let kinds = kinds.into_iter().filter_map(|(name, d)| Some((name, d.as_ref()?)));
        let series = activity.series.iter().map(|(name, d)| (name.as_str(), d));
        for (name, distribution) in kinds.chain(series) {
            let mut cells = vec![Cell::plain(name)];
            match distribution {
                Distribution::Observed(observed) => {
                    // There is no mean of what never came.
                    let mean = observed.moments.mean().filter(|_| observed.never == 0);
                    let mean = mean.map(Nanos::from_f64_rounded);
                    cells.push(Cell::plain(observed.count().to_string()));
                    cells.push(Cell::plain(mean.map(|m| unit.show(m)).unwrap_or_default()));
                    cells.extend(QUANTILES.iter().map(|(_, q, _)| {
                        Cell::plain(distribution.quantile(*q).map(|t| unit.show(t)).unwrap_or_default())
                    }));
                }
                Distribution::Limits(limits) => {
                    cells.resize_with(QUANTILES.len() + 3, Cell::default);
                    for (p, limit) in limits {
                        // The limit holds for every smaller quantile too; it is shown at the largest it covers.
                        if let Some(at) = QUANTILES.iter().rposition(|(_, q, _)| q <= p) {
                            cells[at + 3] = Cell::plain(format!("<= {}", unit.show(*limit)));
                        }
                    }
                }
            }
            lines.push(Line::Cells(cells));
        }
    }
    Sheet { columns, lines }
}

/// One unit for all times of an activity: that of its longest median.
fn unit_of(activity: &ActivityRecord) -> TimeUnit {
    let kinds = [&activity.response, &activity.latency, &activity.execution];
    let all = kinds.into_iter().flatten().chain(activity.series.values());
    let medians = all.filter_map(|d| d.quantile(0.5)).filter(|median| *median != Nanos::MAX);
    TimeUnit::fitting(medians.max().unwrap_or(Nanos::MILLISECOND))
}

/// Promises as text.
pub(crate) fn texts(promises: &[Promise]) -> Vec<String> {
    promises.iter().map(Promise::to_string).collect()
}

/// The counts of an activity in words.
fn counts(activity: &ActivityRecord) -> String {
    let mut parts = vec![activity.kind.to_string()];
    if let Some(deadline) = activity.deadline {
        parts.push(format!("deadline {}", chosen_time(deadline)));
    }
    if activity.activations > 0 {
        parts.push(format!("{} activations", activity.activations));
        for (count, word) in [
            (activity.completed, "completed"),
            (activity.skipped, if activity.kind == ActivityKind::Irq { "lost" } else { "skipped" }),
            (activity.unfinished, "unfinished"),
            (activity.missed, "missed"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {word}"));
            }
        }
    }
    if let Some(share) = activity.share_received() {
        parts.push(format!("{} of a CPU", percent(share)));
    }
    if let Some(gap) = activity.longest_gap {
        parts.push(format!("longest gap {gap}"));
    }
    parts.join(", ")
}

/// Threads as the kernel reads them back, and the environment.
fn in_force(row: &Row<'_>, out: &mut String, style: &Style) {
    let in_force = &row.record.in_force;
    if !in_force.threads.is_empty() {
        heading("in force", out, style);
        let titles = ["activity", "thread", "policy", "CPUs", ""].map(Column::words);
        let lines = in_force.threads.iter().map(|t| {
            let asked = if t.as_requested { Cell::plain("") } else { Cell::toned("not as asked", Tone::Bad) };
            Line::Cells(vec![
                Cell::plain(t.activity.as_str()),
                Cell::plain(t.tid.map(|t| t.to_string()).unwrap_or_default()),
                Cell::plain(t.policy.as_str()),
                Cell::plain(t.affinity.to_string()),
                asked,
            ])
        });
        *out += &Sheet { columns: titles.to_vec(), lines: lines.collect() }.text(style);
    }
    let machine = in_force.machine.as_ref().map(Platform::in_words);
    let said = [("machine", machine), ("reserved threads", in_force.beyond_cpus())];
    let said = said.iter().filter_map(|(name, words)| Some((*name, words.as_deref()?)));
    let environment = in_force.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let entries: Vec<(&str, &str)> = said.chain(environment).collect();
    if !entries.is_empty() {
        heading("environment", out, style);
        let width = entries.iter().map(|(name, _)| columns(name)).max().unwrap_or(0).min(style.columns() / 3);
        for (name, value) in entries {
            *out +=
                &paragraph(style, &format!("{}  ", crate::text::pad(name, width, false)), Tone::Faint, value);
        }
    }
}

/// What was wrong with the machine, each with what to do.
fn unfit(row: &Row<'_>, out: &mut String, style: &Style) {
    let faults: Vec<Check> = row.record.in_force.faults().cloned().collect();
    if !faults.is_empty() {
        heading("the machine", out, style);
        *out += &checks(&faults, style);
    }
}

/// Threads that the kernel does not read back as they were asked for.
fn not_as_asked(row: &Row<'_>, out: &mut String, style: &Style) {
    let others = row.record.in_force.threads.iter().filter(|thread| !thread.as_requested);
    let words: Vec<String> =
        others.map(|t| format!("{}: {} on CPUs {}", t.activity, t.policy, t.affinity)).collect();
    if !words.is_empty() {
        heading("in force, not as asked", out, style);
        *out += &paragraph(style, "", Tone::Bad, &words.join("; "));
    }
}

/// Where the time of events went along their chains.
fn along(rows: &[Row<'_>], out: &mut String, style: &Style) {
    if let Some(sheet) = chains(rows) {
        heading("along the chains", out, style);
        *out += &sheet.text(style);
    }
}

/// How streams were served, in each row.
fn served(rows: &[Row<'_>], out: &mut String, style: &Style) {
    let of_streams = |row: &Row<'_>| -> Vec<(String, String)> {
        let entries = row.record.in_force.environment.iter();
        entries
            .filter_map(|(name, words)| Some((name.strip_prefix("stream ")?.to_owned(), words.clone())))
            .collect()
    };
    let all: Vec<(&str, Vec<(String, String)>)> =
        rows.iter().map(|row| (row.label.as_str(), of_streams(row))).filter(|(_, s)| !s.is_empty()).collect();
    if all.is_empty() {
        return;
    }
    heading("streams", out, style);
    for (label, streams) in all {
        for (name, words) in streams {
            let lead = if rows.len() > 1 { format!("{label}, {name}: ") } else { format!("{name}: ") };
            *out += &paragraph(style, &lead, Tone::Plain, &words);
        }
    }
}

/// The machine of each row, and where its threads are on it; rows of which the same is to be said together.
fn machines(rows: &[Row<'_>], out: &mut String, style: &Style) {
    let mut machines: Vec<(String, Vec<&str>)> = Vec::new();
    for row in rows {
        let in_force = &row.record.in_force;
        let Some(machine) = &in_force.machine else { continue };
        let words: Vec<String> = std::iter::once(machine.in_words()).chain(in_force.beyond_cpus()).collect();
        let words = words.join("; ");
        match machines.iter_mut().find(|(known, _)| *known == words) {
            Some((_, labels)) => labels.push(&row.label),
            None => machines.push((words, vec![&row.label])),
        }
    }
    if machines.is_empty() || machines.len() == 1 && !style.verbose {
        return;
    }
    heading("machines", out, style);
    for (words, labels) in machines {
        *out += &paragraph(style, &format!("{}: ", labels.join(", ")), Tone::Plain, &words);
    }
}

fn heading(text: &str, out: &mut String, style: &Style) {
    *out += &format!("\n{}\n", style.paint(Tone::Strong, text));
}

fn price(rows: &[Row<'_>], out: &mut String, style: &Style) {
    if let Some(sheet) = compare::price(rows) {
        heading("price and other figures", out, style);
        *out += &sheet.text(style);
    }
}

/// What is still to come, of each activity that was asked.
fn next_largest(row: &Row<'_>, out: &mut String, style: &Style) {
    for activity in &row.record.activities {
        if let Some(next) = &activity.next_largest {
            let tone = if next.median_ns.is_some() { Tone::Plain } else { Tone::Faint };
            *out += &paragraph(style, &format!("{}: ", activity.name), tone, &next.to_string());
        }
    }
}

fn verdicts(rows: &[Row<'_>], out: &mut String, style: &Style) {
    let judged = compare::judged(rows);
    if judged.is_empty() {
        return;
    }
    heading("verdicts", out, style);
    for judged in judged {
        *out += &paragraph(style, &format!("{}: ", judged.activity), Tone::Plain, &judged.promise);
        let label_width = judged.by_row.iter().map(|(l, _)| columns(l)).max().unwrap_or(0);
        let word_width = judged.by_row.iter().map(|(_, v)| v.outcome.to_string().len()).max().unwrap_or(0);
        for (label, verdict) in judged.by_row {
            let label = crate::text::pad(label, label_width, false);
            let lead = format!("  {label}  {:word_width$}  ", verdict.outcome);
            *out += &paragraph(style, &lead, Tone::of(verdict.outcome), &verdict.because);
        }
    }
}

fn degraded(rows: &[Row<'_>], out: &mut String, style: &Style) {
    remarks("degraded", &compare::degraded(rows), out, style);
    remarks("unvalidated", &compare::unvalidated(rows), out, style);
}

fn remarks(title: &str, reasons: &[(&str, Vec<&str>)], out: &mut String, style: &Style) {
    if reasons.is_empty() {
        return;
    }
    heading(title, out, style);
    for (reason, labels) in reasons {
        *out += &paragraph(style, &format!("{}: ", labels.join(", ")), Tone::Open, reason);
    }
}

/// A plan in brief: who gets what, for which promise, by which rule; what was refused, and what would be granted.
pub fn plan(plan: &Plan, style: &Style) -> String {
    let mut out = String::new();
    if !plan.reservations.is_empty() {
        let mut columns = vec![Column::words("activity")];
        columns.extend(["runtime", "deadline", "period", "bandwidth"].map(|t| Column::numbers(t, 0)));
        columns.extend(["flags", "promise", "by"].map(Column::words));
        let lines = plan.reservations.iter().map(|planned| {
            let r = &planned.reservation;
            let flags = [(r.reclaim, "reclaim"), (r.demote, "demote")];
            let flags: Vec<&str> = flags.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
            let fractions = planned
                .promises
                .iter()
                .filter(|p| matches!(p.metric, Metric::Response | Metric::Missed | Metric::Late));
            let weakest = if fractions.count() > 1 { " (the weakest of its promises)" } else { "" };
            let proven = planned.proof.probability.map(|p| format!(", >= {}{weakest}", probability(p)));
            let confidence = planned.proof.confidence;
            let measured = confidence.map(|c| format!(", measured, {} confidence", percent(c)));
            Line::Cells(vec![
                Cell::plain(planned.activity.as_str()),
                Cell::plain(chosen_time(r.runtime)),
                Cell::plain(chosen_time(r.deadline)),
                Cell::plain(chosen_time(r.period)),
                Cell::plain(bandwidth(planned)),
                Cell::plain(flags.join(", ")),
                Cell::plain(texts(&planned.promises).join("; ")),
                Cell::plain(format!(
                    "{}{}{}",
                    planned.proof.theorem,
                    proven.unwrap_or_default(),
                    measured.unwrap_or_default()
                )),
            ])
        });
        out += &Sheet { columns, lines: lines.collect() }.text(style);
        if let Some(total) = plan.total_bandwidth() {
            let text = format!(
                "{} reserved of {} ({}); {}",
                percent(total.as_f64()),
                number_of(plan.platform.cpus, "CPU"),
                plan.platform.name,
                may_have(&plan.platform)
            );
            out += &paragraph(style, "", Tone::Plain, &text);
        }
    }
    if !plan.streams.is_empty() {
        out += &streams(plan, style);
    }
    refusals(plan, &mut out, style);
    if out.is_empty() {
        out += &paragraph(style, "", Tone::Plain, "Nothing was promised that needs a reservation.");
    }
    out
}

/// What reservations may have of each CPU.
fn may_have(platform: &Platform) -> String {
    if platform.deadline_unlimited {
        return "the kernel sets reservations no limit (sched_rt_runtime_us is -1)".to_owned();
    }
    // The kernel books its servers like deadline tasks.
    let servers: String = [("fair", platform.booked_for_server()), ("ext", platform.booked_for_ext())]
        .into_iter()
        .filter_map(|(whose, booked)| Some((whose, booked?)))
        .map(|(whose, server)| format!(", the {whose} server's {} included", percent(server.as_f64())))
        .collect();
    format!("deadline tasks may have {} of each{servers}", percent(platform.deadline_cap.as_f64()))
}

/// What streams get of their disks, how those are set, and each step of why that is enough.
fn streams(plan: &Plan, style: &Style) -> String {
    let mut columns = vec![Column::words("stream")];
    columns.extend(["rate", "batch", "within", "buffer", "jitter"].map(|title| Column::numbers(title, 0)));
    columns.extend(["promise", "by"].map(Column::words));
    let lines = plan.streams.iter().map(|planned| {
        let r = &planned.reservation;
        Line::Cells(vec![
            Cell::plain(planned.activity.as_str()),
            Cell::plain(r.rate.to_string()),
            Cell::plain(r.batch.to_string()),
            Cell::plain(chosen_time(r.bound)),
            Cell::plain(r.buffer.to_string()),
            Cell::plain(chosen_time(r.jitter)),
            Cell::plain(texts(&planned.promises).join("; ")),
            Cell::plain(planned.proof.theorem.as_str()),
        ])
    });
    let mut out = Sheet { columns, lines: lines.collect() }.text(style);
    for disk in &plan.disks {
        out += &paragraph(style, &format!("disk {}: ", disk.disk), Tone::Plain, &disk.in_words());
        for because in &disk.because {
            out += &paragraph(style, "  ", Tone::Faint, because);
        }
    }
    for planned in &plan.streams {
        out += &paragraph(style, "", Tone::Plain, &format!("{}:", planned.activity));
        for step in &planned.proof.steps {
            out += &paragraph(style, "  ", Tone::Faint, step);
        }
    }
    out
}

/// Runtime over period in percent; a plan file may hold a period of 0, which is no bandwidth.
pub(crate) fn bandwidth(planned: &surety_model::plan::PlannedReservation) -> String {
    let r = &planned.reservation;
    surety_units::Bandwidth::of(r.runtime, r.period).map_or_else(|| "-".to_owned(), |b| percent(b.as_f64()))
}

pub(crate) fn refusals(plan: &Plan, out: &mut String, style: &Style) {
    for refusal in &plan.refusals {
        if !out.is_empty() {
            out.push('\n');
        }
        let lead = format!("{}: ", refusal.activity);
        *out += &paragraph(style, &lead, Tone::Bad, &format!("{}: refused", refusal.promise));
        *out += &paragraph(style, "  because  ", Tone::Faint, &refusal.because);
        for (index, nearest) in refusal.nearest.iter().enumerate() {
            let lead = if index == 0 { "  nearest  " } else { "       or  " };
            *out += &paragraph(style, lead, Tone::Faint, nearest);
        }
    }
}

/// A list of checks, each with what was found and, where something is to be done, what.
pub fn checks(checks: &[Check], style: &Style) -> String {
    let mut out = String::new();
    let width = checks.iter().map(|c| columns(&c.name)).max().unwrap_or(0).min(style.columns() / 3);
    for check in checks {
        let (word, tone) = match check.verdict {
            CheckVerdict::Good => ("good   ", Tone::Good),
            CheckVerdict::Limited => ("limited", Tone::Open),
            CheckVerdict::Bad => ("bad    ", Tone::Bad),
        };
        let lead = format!("{word}  {}  ", crate::text::pad(&check.name, width, false));
        out += &paragraph(style, &lead, tone, &check.found);
        if let Some(remedy) = &check.remedy {
            out += &paragraph(style, &format!("{}-> ", " ".repeat(9)), Tone::Faint, remedy);
        }
    }
    out
}

/// A paragraph behind a lead in strong letters, wrapped to the width.
pub fn led(lead: &str, text: &str, style: &Style) -> String {
    paragraph(style, lead, Tone::Strong, text)
}

/// A value with its unit for people: `12.4 ms` of nanoseconds, `104.9 MB/s`, `3.20 %` of a fraction whose unit is `%`.
pub fn amount(value: f64, unit: &str) -> String {
    match unit {
        "ns" => TimeUnit::fitting(Nanos::from_f64_rounded(value)).show(Nanos::from_f64_rounded(value)),
        "%" => percent(value),
        unit => figure(&Figure { name: String::new(), value, unit: unit.to_owned().into() }),
    }
}

/// Any table: titles and rows of cells. Columns in which every cell looks like a number stand on the right. Missing
/// cells are empty, cells beyond the titles are left out.
pub fn cells(header: &[&str], rows: &[Vec<String>], style: &Style) -> String {
    let header: Vec<(String, u8)> = header.iter().map(|title| ((*title).to_owned(), 0)).collect();
    sheet_of(&header, rows).text(style)
}

/// Any table, the titles with how soon each column is left out for want of room: the highest number first, 0 never.
pub(crate) fn sheet_of(header: &[(String, u8)], rows: &[Vec<String>]) -> Sheet {
    let is_number = |text: &str| {
        let start = text.trim_start_matches(['<', '>', '=', ' ', '+', '-']);
        // A time that never came stands among those that did.
        start.is_empty() || start == "never" || start.starts_with(|c: char| c.is_ascii_digit())
    };
    let columns = header.iter().enumerate().map(|(index, (title, omit))| {
        let mut texts = rows.iter().filter_map(|r| r.get(index)).peekable();
        let numbers = index > 0 && texts.peek().is_some() && texts.all(|t| is_number(t));
        let column = if numbers { Column::numbers(title, 0) } else { Column::words(title) };
        Column { omit: *omit, ..column }
    });
    let lines = rows.iter().map(|row| {
        let cell = |i: usize| Cell::plain(row.get(i).map_or("", String::as_str));
        Line::Cells((0..header.len()).map(cell).collect())
    });
    Sheet { columns: columns.collect(), lines: lines.collect() }
}
