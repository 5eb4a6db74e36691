//! The top of a page: the title, the verdict, what was reserved for which promise, and what is to be known before the figures are read.

use std::fmt::Write;

use surety_model::plan::{Plan, Refusal};
use surety_model::promise::Promise;
use surety_model::verdict::Outcome;

use super::escape;
use crate::compare;
use crate::quantity::{chosen_time, number_of, observed};
use crate::row::Report;
use crate::text::Tone;

/// More remarks on degraded rows are folded.
const REMARKS_MAX: usize = 4;

/// The word, its tone and the sentence of the banner.
struct Banner {
    word: String,
    tone: &'static str,
    sentence: String,
}

/// A banner; a report on which nothing is to be judged has none.
pub(crate) fn banner(word: &str, tone: &str, sentence: &str) -> String {
    let word = if word.is_empty() {
        String::new()
    } else {
        format!("<span class=\"word\">{}</span> ", escape(word))
    };
    format!("<p class=\"verdict {tone}\">{word}{}</p>\n", escape(sentence))
}

pub(super) fn header(out: &mut String, title: &str, report: &Report<'_>) {
    let _ = write!(out, "<header>\n<h1>{}</h1>\n", escape(title));
    if let Some(Banner { word, tone, sentence }) = verdict(report) {
        *out += &banner(&word, tone, &sentence);
    }
    reserved(out, report);
    let facts = facts(report);
    if !facts.is_empty() {
        let _ = writeln!(out, "<p class=\"facts\">{}</p>", facts.join(" <span class=\"dot\">·</span> "));
    }
    degraded(out, report);
    // A page of a plan alone has them in the next section.
    let refusals = report.plan.iter().filter(|_| !report.rows.is_empty()).flat_map(|plan| &plan.refusals);
    for refusal in refusals {
        let _ = writeln!(
            out,
            "<p class=\"degraded refused\"><b>Refused</b> {} <code>{}</code>: {}</p>",
            escape(&refusal.activity),
            escape(&refusal.promise.to_string()),
            escape(&refusal.because)
        );
    }
    out.push_str("</header>\n");
}

fn verdict(report: &Report<'_>) -> Option<Banner> {
    if let Some(lead) = report.lead {
        return Some(Banner { word: String::new(), tone: "faint", sentence: lead.to_owned() });
    }
    let of_plan = report.plan.filter(|_| report.rows.is_empty());
    let summary = report.summary();
    let banner = |word: &str, tone, sentence| Banner { word: word.to_owned(), tone, sentence };
    let (refused, for_good) = (refused(report), refused_for_good(report));
    let cannot_be_given = || format!("{} cannot be given.", number_of(for_good, "promise"));
    let waits =
        || format!("{} cannot be planned before more jobs were measured.", number_of(refused, "promise"));
    Some(match (summary.outcome, of_plan) {
        // What is refused is no better for what is said of the rest.
        (Some(outcome), _) if outcome != Outcome::Broken && for_good > 0 => {
            banner("refused", "bad", format!("{} {}", cannot_be_given(), summary.sentence))
        }
        (Some(Outcome::Kept), _) if refused > 0 => {
            banner("undecided", "open", format!("{} {}", waits(), summary.sentence))
        }
        (Some(outcome), _) => banner(&outcome.to_string(), Tone::of(outcome).word(), summary.sentence),
        (None, Some(plan)) if plan.refusals.is_empty() => {
            let count = plan.reservations.len() + plan.streams.len();
            let proofs = if count == 1 { "with its proof" } else { "each with its proof" };
            banner("planned", "good", format!("{}, {proofs}.", number_of(count, "reservation")))
        }
        (None, Some(plan)) => {
            let count = number_of(plan.refusals.len(), "promise");
            banner("refused", "bad", format!("{count} cannot be planned; below is what could be."))
        }
        (None, None) if for_good > 0 => banner("refused", "bad", cannot_be_given()),
        (None, None) if refused > 0 => banner("undecided", "open", waits()),
        (None, None) => banner("no verdict", "faint", summary.sentence),
    })
}

/// Promises that the plan does not have.
fn refused(report: &Report<'_>) -> usize {
    report.plan.map_or(0, |plan| plan.refusals.len())
}

/// Promises that no longer measurement would make feasible.
fn refused_for_good(report: &Report<'_>) -> usize {
    let refusals = report.plan.iter().flat_map(|plan| &plan.refusals);
    refusals.filter(|refusal| !Refusal::is_undecided(refusal)).count()
}

/// What the plan reserves, each for what promise.
fn reserved(out: &mut String, report: &Report<'_>) {
    let lines: Vec<String> = report.plan.filter(|_| !report.rows.is_empty()).map(of_plan).unwrap_or_default();
    if !lines.is_empty() {
        let _ = writeln!(out, "<ul class=\"reserved\">{}</ul>", lines.concat());
    }
}

fn of_plan(plan: &Plan) -> Vec<String> {
    let item = |activity: &str, promises: &[Promise], what: String| {
        let promises: Vec<String> =
            promises.iter().map(|p| format!("<code>{}</code>", escape(&p.to_string()))).collect();
        format!(
            "<li><b>Reserved</b> for {} {}: {}</li>",
            escape(activity),
            promises.join(", "),
            escape(&what)
        )
    };
    let tasks = plan.reservations.iter().map(|planned| {
        let r = &planned.reservation;
        let what = format!(
            "{} in {} of each {} ({} of a CPU)",
            chosen_time(r.runtime),
            chosen_time(r.deadline),
            chosen_time(r.period),
            crate::table::bandwidth(planned)
        );
        item(&planned.activity, &planned.promises, what)
    });
    let streams = plan.streams.iter().map(|planned| {
        let r = &planned.reservation;
        let what = format!(
            "{} in batches of {}, each there within {} (a buffer of {})",
            r.rate,
            r.batch,
            chosen_time(r.bound),
            r.buffer
        );
        item(&planned.activity, &planned.promises, what)
    });
    tasks.chain(streams).collect()
}

fn facts(report: &Report<'_>) -> Vec<String> {
    let mut facts: Vec<String> = Vec::new();
    facts.extend(report.file.map(|f| format!("<code>{}</code>", escape(f))));
    if let Some(row) = report.rows.last() {
        let in_force = &row.record.in_force;
        if !in_force.kernel.is_empty() {
            facts.push(escape(&in_force.kernel));
        }
        if !in_force.cpus.is_empty() {
            facts.push(format!("CPUs {}", in_force.cpus));
        }
        facts.push(observed(row.record));
        facts.extend(row.record.seed.map(|seed| format!("seed {seed}")));
    }
    facts.extend(report.made.map(escape));
    facts
}

/// What degrades rows; very many remarks are folded below their number.
fn degraded(out: &mut String, report: &Report<'_>) {
    let remarks = compare::degraded(report.rows);
    let mut text = String::new();
    for (reason, rows) in &remarks {
        let rows = if rows.len() == report.rows.len() && rows.len() > 1 {
            "every result".to_owned()
        } else {
            rows.join(", ")
        };
        let _ = writeln!(
            text,
            "<p class=\"degraded\"><b>Degraded</b> ({}): {}</p>",
            escape(&rows),
            escape(reason)
        );
    }
    if remarks.len() > REMARKS_MAX {
        let rows = report.rows.iter().filter(|row| !row.record.degraded.is_empty()).count();
        let (remarks, of) = (number_of(remarks.len(), "remark"), number_of(report.rows.len(), "result"));
        let _ = write!(
            out,
            "<details class=\"degraded\"><summary><b>Degraded</b>: {rows} of {of}, {remarks}</summary>\n{text}</details>\n"
        );
    } else {
        *out += &text;
    }
    for (what, rows) in compare::unvalidated(report.rows) {
        let rows = escape(&rows.join(", "));
        let _ = writeln!(out, "<p class=\"degraded\"><b>Unvalidated</b> ({rows}): {}</p>", escape(what));
    }
}
