//! One HTML file that needs nothing else: no network, no script, styles and drawings inside.
//!
//! The verdict comes first, then the table, the drawings, the price, the proofs, and what was in force. Every text
//! from outside goes through `escape`.

mod axis;
mod chart;
mod counted;
mod header;
mod matrix;
mod over_time;
mod timeline;

use std::fmt::Write;

use surety_model::plan::{Plan, PlannedReservation, PlannedStream, Proof};
use surety_model::promise::Promise;
use surety_model::record::Record;
use surety_model::workload::ActivityKind;

use crate::compare;
use crate::quantity::{chosen_time, number_of, percent, probability};
use crate::row::{Report, Row};
use crate::sheet::{Line, Sheet};

pub use counted::counted_page;
pub(crate) use header::banner;
pub(crate) use timeline::timeline;

const CSS: &str = include_str!("html/page.css");

/// The text with everything that has a meaning in HTML replaced, fit for elements and quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in a document (WHATWG HTML, section 13.1.4), and bidirectional overrides would reorder text.
            c if (c.is_control() && c != '\n' && c != '\t')
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// The whole page.
pub fn page(report: &Report<'_>) -> String {
    let of_files = report.file.map(names_of);
    let title = report.heading.or(report.title).or(of_files.as_deref()).unwrap_or("Surety report");
    let mut body = String::new();
    header::header(&mut body, title, report);
    matrix::matrix(&mut body, report.rows);
    figures(&mut body, report.rows);
    to_come(&mut body, report.rows);
    who_ran(&mut body, report);
    matrix::reasons(&mut body, report.rows);
    if let Some(startups) = crate::startups::startups(report.rows) {
        let lead = "<p>From asking for a program to its being ready: median of Kaplan and Meier; X where too many were \
                    given up for a median to be known.</p>";
        section(&mut body, "Start-ups", &format!("{lead}{}", sheet(&startups)));
    }
    if let Some(chains) = crate::chains::chains(report.rows) {
        let lead = "<p>Means of completed events, stage by stage: until a job takes an event, CPU time of that job, and the rest of it, in \
                    which it had no CPU or stood still.</p>";
        section(&mut body, "Along the chains", &format!("{lead}{}", sheet(&chains)));
    }
    if let Some(price) = compare::price(report.rows) {
        let is_reserved = |row: &Row<'_>| row.record.reserved;
        let is_price = report.rows.iter().any(is_reserved) && !report.rows.iter().all(is_reserved);
        let (title, lead) = if is_price {
            let lead = "<p>What best-effort activity got in each row; behind a value, its ratio to the same world \
                        without reservations.</p>";
            ("Price and other figures", lead)
        } else {
            ("Other figures", "")
        };
        let price = if price.used_columns().len() > COLUMNS_MAX { price.turned() } else { price };
        section(&mut body, title, &format!("{lead}{}", sheet(&price)));
    }
    if let Some(plan) = report.plan {
        section(&mut body, "The plan and its proofs", &plan_section(plan, report.rows.is_empty()));
    }
    if !report.rows.is_empty() {
        section(&mut body, "What was in force", &in_force(report.rows));
    }
    document(title, &body)
}

/// The names of files without where they are.
fn names_of(files: &str) -> String {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    files.split(", ").map(name).collect::<Vec<_>>().join(", ")
}

/// The table of results and what is drawn of them.
fn figures(out: &mut String, rows: &[Row<'_>]) {
    let results = compare::results(rows);
    if !results.lines.is_empty() {
        let table = sheet(&results.without_dashes());
        let of = number_of(rows.len(), "result");
        let content = match results.lines.len() {
            0..=LINES_MAX => table,
            lines => format!(
                "{}<details class=\"shut screen\"><summary>{lines} lines of {of}</summary>\n{table}</details>\n",
                unprinted(&format!("{lines} lines of {of}: not printed where they are folded on the page."))
            ),
        };
        section(out, "Results", &content);
    }
    let (some, all) = (rows.iter().any(|r| r.record.reserved), rows.iter().all(|r| r.record.reserved));
    let title = if some && !all { "Before and after" } else { "Distributions" };
    let charts = compare::blocks(rows).into_iter().filter_map(|block| {
        let drawn = chart::charts(&block, rows);
        (!drawn.is_empty()).then(|| (format!("{}: {}", block.name, chart::what(&block)), drawn))
    });
    drawings(out, title, charts.collect());
    drawings(out, "Over time", over_time::over_time(rows));
}

/// What stands on paper in place of titles of what is folded.
fn unprinted(note: &str) -> String {
    format!("<p class=\"unprinted\">{note}</p>\n")
}

/// Drawings; more than [`DRAWINGS_MAX`] are folded under their names, which are on paper only where a reader unfolded them.
fn drawings(out: &mut String, title: &str, drawings: Vec<(String, String)>) {
    if drawings.is_empty() {
        return;
    }
    let is_folded = drawings.len() > DRAWINGS_MAX;
    let one = |(name, drawn): (String, String)| match is_folded {
        true => format!(
            "<details class=\"shut screen\"><summary><b>{}</b></summary>\n{drawn}</details>\n",
            escape(&name)
        ),
        false => drawn,
    };
    let note = format!("Of {} drawings those folded on the page are not printed.", drawings.len());
    let note = if is_folded { unprinted(&note) } else { String::new() };
    let content: String = std::iter::once(note).chain(drawings.into_iter().map(one)).collect();
    section(out, title, &content);
}

/// The longest responses with the CPUs around them, or how to see them.
fn who_ran(out: &mut String, report: &Report<'_>) {
    let drawn: String = report.timelines.iter().map(timeline).collect();
    // Streams, start-ups and loads have no timeline, however they are run.
    let activities = report.rows.iter().flat_map(|row| &row.record.activities);
    let has_tasks = activities.into_iter().any(|activity| activity.kind == ActivityKind::Task);
    let missing = report.without_timeline.filter(|_| report.timelines.is_empty() && has_tasks);
    let missing = missing.map_or(String::new(), |how| format!("<p class=\"faint\">{}</p>\n", escape(how)));
    if !drawn.is_empty() || !missing.is_empty() {
        section(out, "Who ran when", &format!("{drawn}{missing}"));
    }
}

/// A whole document around a body.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{CSS}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

fn section(out: &mut String, title: &str, content: &str) {
    let _ = write!(out, "<section>\n<h2>{}</h2>\n{content}</section>\n", escape(title));
}

/// The largest values of the time to come, where they were asked.
fn to_come(out: &mut String, rows: &[Row<'_>]) {
    let asked = rows.iter().flat_map(|row| row.record.activities.iter().map(move |a| (row, a)));
    let mut list = String::new();
    for (row, activity) in asked {
        if let Some(next) = &activity.next_largest {
            let who = if rows.len() > 1 {
                format!("{}, {}", row.label, activity.name)
            } else {
                activity.name.clone()
            };
            let _ = writeln!(list, "<li>{}: {}</li>", escape(&who), escape(&next.to_string()));
        }
    }
    if !list.is_empty() {
        section(out, "The next hour", &format!("<ul>\n{list}</ul>\n"));
    }
}

/// Lines of the table of results, those of its sections included, that are shown at once.
const LINES_MAX: usize = 200;
/// Drawings of a section that are shown at once.
const DRAWINGS_MAX: usize = 8;

/// Columns that a table may have; the rows of one with more are lists on every page, as all are on narrow ones.
const COLUMNS_MAX: usize = 12;

/// A sheet as a table; its sections are rows that span it.
pub(crate) fn sheet(sheet: &Sheet) -> String {
    keyed(sheet, false)
}

/// The same; where several columns name a line together, an empty first one means what stands above, and a list says it again.
pub(crate) fn keyed(sheet: &Sheet, is_keyed: bool) -> String {
    let used = sheet.used_columns();
    let mut above = String::new();
    let many = if used.len() > COLUMNS_MAX { " many" } else { "" };
    let mut out = format!("<div class=\"scroll\"><table class=\"sheet{many}\">\n<thead><tr>");
    for &column in &used {
        let column = &sheet.columns[column];
        let class = if column.is_number { " class=\"number\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(&column.title));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for line in &sheet.lines {
        match line {
            Line::Section(name, remark) => {
                let _ = writeln!(
                    out,
                    "<tr class=\"section\"><th scope=\"rowgroup\" colspan=\"{}\">{} <span>{}</span></th></tr>",
                    used.len(),
                    escape(name),
                    escape(remark)
                );
            }
            Line::Cells(cells) => {
                out.push_str("<tr>");
                for (place, &column) in used.iter().enumerate() {
                    let cell = &cells[column];
                    let number = if sheet.columns[column].is_number { " number" } else { "" };
                    let (open, close) = if place == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
                    let none = if cell.text == "-" { " none" } else { "" };
                    let class = format!("{}{number}{none}", cell.tone.word());
                    let mut text = escape(&cell.text).replace("&lt;= ", "≤ ");
                    if is_keyed && place == 0 {
                        if text.is_empty() {
                            text = format!("<span class=\"again\">{above}</span>");
                        } else {
                            above.clone_from(&text);
                        }
                    }
                    // What stands for the title where a row is shown as a list, on narrow pages.
                    let title = match sheet.columns[column].title.as_str() {
                        title if !title.is_empty() => {
                            format!(" data-title=\"{}\"", escape(title))
                        }
                        _ => String::new(),
                    };
                    let _ = write!(out, "<{open} class=\"{class}\"{title}>{text}</{close}>");
                }
                out.push_str("</tr>\n");
            }
        }
    }
    out + "</tbody></table></div>\n"
}

/// Most proofs that are unfolded.
const PROOFS_MAX: usize = 3;

fn plan_section(plan: &Plan, is_alone: bool) -> String {
    let mut out = String::new();
    if let Some(total) = plan.total_bandwidth().filter(|_| !plan.reservations.is_empty()) {
        let _ = writeln!(
            out,
            "<p>{} reserved of {} ({}).</p>",
            percent(total.as_f64()),
            number_of(plan.platform.cpus, "CPU"),
            escape(&plan.platform.name)
        );
    }
    // Where there is nothing else a few are read at once.
    let is_open = is_alone && plan.reservations.len() + plan.streams.len() <= PROOFS_MAX;
    let open = if is_open { " open" } else { "" };
    plan.reservations.iter().for_each(|planned| reservation(&mut out, planned, open));
    plan.streams.iter().for_each(|planned| of_disk(&mut out, planned, open));
    for disk in &plan.disks {
        let _ = write!(out, "<p>Disk <b>{}</b>: {}.</p><ul>", escape(&disk.disk), escape(&disk.in_words()));
        disk.because.iter().for_each(|why| {
            let _ = write!(out, "<li>{}</li>", escape(why));
        });
        out.push_str("</ul>\n");
    }
    for refusal in &plan.refusals {
        let _ = write!(
            out,
            "<div class=\"refusal\"><p><span class=\"badge bad\">refused</span> <b>{}</b> <code>{}</code></p><p>{}</p>",
            escape(&refusal.activity),
            escape(&refusal.promise.to_string()),
            escape(&refusal.because)
        );
        if !refusal.nearest.is_empty() {
            out.push_str("<p>Nearest that would be granted:</p><ul>");
            refusal.nearest.iter().for_each(|n| {
                let _ = write!(out, "<li>{}</li>", escape(n));
            });
            out.push_str("</ul>");
        }
        out.push_str("</div>\n");
    }
    out
}

fn reservation(out: &mut String, planned: &PlannedReservation, open: &str) {
    let r = &planned.reservation;
    let flags =
        [(r.reclaim, ", reclaims unused bandwidth"), (r.demote, ", runs on as a fair task when used up")];
    let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, text)| *text).collect();
    let _ = write!(
        out,
        "<details class=\"proof\"{open}><summary><b>{}</b> {} in {} of each {} <span>({} of a CPU{flags})</span></summary>\n<dl>\n",
        escape(&planned.activity),
        chosen_time(r.runtime),
        chosen_time(r.deadline),
        chosen_time(r.period),
        crate::table::bandwidth(planned),
    );
    argument(out, &planned.promises, &planned.proof);
}

fn of_disk(out: &mut String, planned: &PlannedStream, open: &str) {
    let r = &planned.reservation;
    let _ = write!(
        out,
        "<details class=\"proof\"{open}><summary><b>{}</b> {} in batches of {}, each there within {} <span>(a buffer of {})</span></summary>\n<dl>\n",
        escape(&planned.activity),
        r.rate,
        r.batch,
        chosen_time(r.bound),
        r.buffer,
    );
    argument(out, &planned.promises, &planned.proof);
}

/// A proof in the list of terms that its caller began.
fn argument(out: &mut String, promises: &[Promise], proof: &Proof) {
    let mut entry = |term: &str, content: String| {
        let _ = writeln!(out, "<dt>{term}</dt><dd>{content}</dd>");
    };
    let codes: Vec<String> =
        promises.iter().map(|p| format!("<code>{}</code>", escape(&p.to_string()))).collect();
    entry("Promises", codes.join(", "));
    entry("Conclusion", escape(&proof.conclusion));
    if let Some(p) = proof.probability {
        let sure = proof.confidence.map_or(String::new(), |c| format!(", with {} confidence", percent(c)));
        entry("Probability", format!("at least {} of the activations{sure}", probability(p)));
    }
    entry("Theorem", escape(&proof.theorem));
    entry("Source", escape(&proof.source));
    let list = |items: Vec<String>, tag: &str| {
        let items: String = items.iter().map(|i| format!("<li>{i}</li>")).collect();
        format!("<{tag}>{items}</{tag}>")
    };
    if !proof.inputs.is_empty() {
        let inputs = proof.inputs.iter().map(|i| format!("{} = {}", escape(&i.name), escape(&i.value)));
        entry("Given", list(inputs.collect(), "ul"));
    }
    if !proof.steps.is_empty() {
        entry("Steps", list(proof.steps.iter().map(|s| escape(s)).collect(), "ol"));
    }
    if !proof.assumptions.is_empty() {
        entry("Provided", list(proof.assumptions.iter().map(|a| escape(a)).collect(), "ul"));
    }
    if let Some(residual) = proof.residual.filter(|r| r.is_finite()) {
        entry("Residual", format!("at most {residual:.1e}"));
    }
    if !proof.simulations.is_empty() {
        let simulations = proof.simulations.iter().map(|s| {
            format!(
                "{}, seed {}: {} of {} activations missed, hash <code>{}</code>",
                escape(&s.profile),
                s.seed,
                s.missed,
                s.activations,
                escape(&s.hash)
            )
        });
        entry("Simulated", list(simulations.collect(), "ul"));
    }
    out.push_str("</dl></details>\n");
}

/// What was in force of more rows is not printed.
const IN_FORCE_MAX: usize = 5;

/// One fold per row: machine, threads as read back, environment.
fn in_force(rows: &[Row<'_>]) -> String {
    let mut out = String::new();
    // On paper it is unfolded.
    let is_long = rows.len() > IN_FORCE_MAX;
    let class = if is_long { " class=\"shut screen\"" } else { "" };
    if is_long {
        let of = number_of(rows.len(), "result");
        out += &unprinted(&format!(
            "What was in force in the {of} is not printed where it is folded on the page."
        ));
    }
    for row in rows {
        let record = row.record;
        let _ = write!(out, "<details{class}><summary><b>{}</b></summary>\n<dl>\n", escape(&row.label));
        let mut entry = |term: &str, content: &str| {
            let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(term), escape(content));
        };
        entry(
            "World",
            &format!("{}, {}", record.world, if record.reserved { "reserved" } else { "unreserved" }),
        );
        if !record.in_force.kernel.is_empty() {
            entry("Kernel", &record.in_force.kernel);
        }
        if !record.in_force.cpus.is_empty() {
            entry("CPUs", &record.in_force.cpus.to_string());
        }
        if let Some(machine) = &record.in_force.machine {
            entry("Machine", &machine.in_words());
        }
        if let Some(words) = record.in_force.beyond_cpus() {
            entry("Reserved threads", &words);
        }
        let unknown = || "unknown".to_owned();
        entry("Observed", &record.duration.map_or_else(unknown, chosen_time));
        entry("Seed", &record.seed.map_or_else(unknown, |seed| seed.to_string()));
        if let Some(hash) = record.hash {
            entry("Hash", &format!("{hash:016x}"));
        }
        if let Some(trace) = record.trace {
            let text = format!(
                "{} events, {} lost, {} jobs given up because of that",
                trace.events, trace.lost, trace.censored_jobs
            );
            entry("Trace", &text);
        }
        for (name, value) in &record.in_force.environment {
            entry(name, value);
        }
        for check in record.in_force.faults() {
            let remedy = check.remedy.as_ref().map_or_else(String::new, |remedy| format!(" → {remedy}"));
            entry(&format!("⚠ {}", check.name), &format!("{}{remedy}", check.found));
        }
        out.push_str("</dl>\n");
        threads_in_force(&mut out, record);
        out.push_str("</details>\n");
    }
    out
}

/// The threads of a result as read back; nothing where there are none.
fn threads_in_force(out: &mut String, record: &Record) {
    if !record.in_force.threads.is_empty() {
        out.push_str(
            "<div class=\"scroll\"><table class=\"threads\"><thead><tr><th>activity</th><th class=\"number\">thread</th>\
             <th>policy</th><th>CPUs</th><th></th></tr></thead><tbody>\n",
        );
        for thread in &record.in_force.threads {
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\">{}</th><td class=\"number\">{}</td><td>{}</td><td>{}</td><td class=\"bad\">{}</td></tr>",
                escape(&thread.activity),
                thread.tid.map(|t| t.to_string()).unwrap_or_default(),
                escape(&thread.policy),
                thread.affinity,
                if thread.as_requested { "" } else { "not as asked" }
            );
        }
        out.push_str("</tbody></table></div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS_MAX, escape, sheet};
    use crate::table::sheet_of;

    #[test]
    fn nothing_from_outside_is_markup() {
        assert_eq!(
            escape("<b a=\"1\" c='2'>&\x1b\u{202e}"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\u{fffd}\u{fffd}"
        );
        assert_eq!(escape("grün 日本"), "grün 日本");
    }

    #[test]
    fn rows_of_very_many_columns_are_lists() {
        let with = |columns: usize| {
            let header: Vec<(String, u8)> = (0..columns).map(|k| (format!("c{k}"), 0)).collect();
            sheet(&sheet_of(&header, &[vec!["1".to_owned(); columns]]))
        };
        assert!(!with(COLUMNS_MAX).contains("sheet many") && with(COLUMNS_MAX + 1).contains("sheet many"));
    }
}
