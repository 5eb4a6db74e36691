//! What is read from a trace file, as text for a terminal and as JSON: one file for each result.
//!
//! Every result says which part of which file it is of, and how far that can be trusted: [`ReadTrace`].

mod distribution;
mod explain;
mod fit;
mod irqs;
mod stats;
mod timehist;

use std::fmt::Display;

use serde_json::{Value, json};
use surety_trace::jobs::Anomalies;
use surety_trace::jobs::inference::INFERRED_MAX;
use surety_trace::{Description, ReadSummary, Wanted};
use surety_units::Nanos;

use crate::quantity::number_of;
use crate::table::{Check, CheckVerdict, cells};
use crate::text::Style;

pub use distribution::{Subject, TraceDistribution, UnfitGrid};
pub use explain::{TraceAttribution, TraceExplanation};
pub use fit::TraceFit;
pub use irqs::{TraceIrqs, interrupt_title};
pub use stats::TraceStats;
pub use timehist::TraceTimehist;

/// A column of a table.
type Column<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

/// What to do about events that a trace does not have.
const RECORD_THEM: &str = "record with `surety trace record`, or enable those events too";

/// A result of a trace file.
pub trait TraceReport {
    /// For a terminal or a log.
    fn text(&self, style: &Style) -> String;

    /// For programs.
    fn json(&self) -> Value;
}

/// A trace that was read.
#[derive(Clone, Debug, Default)]
pub struct ReadTrace {
    /// Name of its file.
    pub file: String,
    /// What it says of itself.
    pub description: Description,
    /// What the reading met.
    pub summary: ReadSummary,
    /// What the file holds and was not read, in words.
    pub unread: Vec<String>,
    /// Which part of it counts.
    pub chosen: Wanted,
}

impl ReadTrace {
    /// How long the time is that counts.
    fn span(&self) -> Nanos {
        let (from, to) = self.chosen.span(self.summary.span.unwrap_or_default());
        to - from
    }

    /// Whether none of these events is in it.
    fn lacks(&self, events: &[&str]) -> bool {
        !self.summary.events.iter().any(|e| events.contains(&e.event.as_str()))
    }

    /// Whether no wake-up is in it: no job has a release then.
    pub fn lacks_wake_ups(&self) -> bool {
        self.lacks(&["sched:sched_waking", "sched:sched_wakeup"])
    }

    /// A line about jobs without a release, where wake-ups were not recorded; `so` says what that does.
    fn wake_ups(&self, so: &str) -> Option<Check> {
        let found = format!("no sched_waking and no sched_wakeup: jobs have no release{so}");
        self.lacks_wake_ups().then(|| Check::limited("missing", found, RECORD_THEM))
    }

    /// `quality` of the documents.
    fn quality(&self, anomalies: &Anomalies) -> Value {
        let summary = &self.summary;
        json!({
            "complete": summary.is_complete() && anomalies.doubtful == 0,
            "lost": summary.lost_at_least(),
            "gaps": summary.gaps,
            "damaged_pages": summary.damaged_pages,
            "cut_cpus": summary.truncated,
            "malformed": summary.malformed,
            "unknown": summary.unknown,
            "disordered": summary.disordered,
            "disorder_max_ns": summary.disorder_max,
            "inferred_switches": anomalies.inferred,
            "doubtful_switches": anomalies.doubtful,
            "not_read": self.unread,
            "left_out": summary.left_out,
        })
    }

    /// `chosen` of the documents: what was chosen beside threads.
    fn chosen(&self) -> Value {
        json!({
            "cpus": self.chosen.cpus.map(|cpus| cpus.to_string()),
            "from_ns": self.chosen.from,
            "to_ns": self.chosen.to,
        })
    }

    /// Lines about a trace that is not whole; none when it is. `missed` says what that does to the numbers.
    fn incomplete(&self, anomalies: &Anomalies, missed: &str) -> Vec<Check> {
        let summary = &self.summary;
        let parts = [
            lost(summary),
            some(summary.damaged_pages, "damaged page"),
            some(summary.truncated, "CPU").map(|cpus| format!("{cpus} cut")),
            some(summary.malformed, "record").map(|records| format!("{records} too short for their event")),
        ];
        let missing = (!summary.is_complete()).then(|| {
            Check::limited("not whole", parts.into_iter().flatten().collect::<Vec<_>>().join(", "), missed)
        });
        self.left_out().into_iter().chain(missing).chain(switches(anomalies)).collect()
    }

    /// A line about events that were left out by choice.
    fn left_out(&self) -> Option<Check> {
        let words = self.summary.left_out.as_ref()?;
        let found = format!("events were left out when it was recorded: {words}");
        Some(Check::limited(
            "left out",
            found,
            "jobs and times of threads whose events are not all there are wrong; record without these options, or choose threads that they left whole",
        ))
    }
}

/// A line about switches that were not recorded.
fn switches(anomalies: &Anomalies) -> Option<Check> {
    let (inferred, doubtful) = (anomalies.inferred, anomalies.doubtful);
    let used = format!("{inferred} out of idle were not recorded and are placed by the events around");
    let wide = format!(
        "{doubtful} were not recorded and lie between events more than {INFERRED_MAX} apart: time there is unknown"
    );
    let remedy = "jobs with unknown time are given up and are in no average; more events (`surety trace record`) make it less";
    match (inferred, doubtful) {
        (0, 0) => None,
        (_, 0) => Some(Check::good("switches", used)),
        (0, _) => Some(Check::limited("switches", wide, remedy)),
        _ => Some(Check::limited("switches", format!("{used}; {wide}"), remedy)),
    }
}

/// How many events are missing, and at how many places; `None` when no event is known to be.
fn lost(summary: &ReadSummary) -> Option<String> {
    let places = some(summary.gaps, "place");
    match (summary.lost_at_least(), places) {
        (0, None) => None,
        // The tracer says that there are some, and not how many.
        (0, Some(places)) => Some(format!("an unknown number of events lost at {places}")),
        (lost, places) => {
            let lost = format!("at least {} lost", number_of(lost, "event"));
            Some(places.map_or_else(|| lost.clone(), |places| format!("{lost} at {places}")))
        }
    }
}

/// A line about something that cannot be mended.
fn limited(name: &str, found: String) -> Check {
    Check { verdict: CheckVerdict::Limited, ..Check::good(name, found) }
}

/// A count with its noun, unless it is none.
fn some(count: u64, noun: &str) -> Option<String> {
    (count > 0).then(|| number_of(count, noun))
}

/// A table with a line for each item; a column is its title and what it shows of one.
fn table<T>(items: &[T], columns: &[Column<'_, T>], style: &Style) -> String {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let row = |item| columns.iter().map(|(_, value)| value(item)).collect();
    cells(&titles, &items.iter().map(row).collect::<Vec<_>>(), style)
}

/// A part of a whole, in percent.
fn share(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

/// A cell of a table, empty where there is no value.
fn cell(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// `separation` of the documents: how jobs were told apart.
fn separation(by_markers: bool) -> &'static str {
    if by_markers { "markers" } else { "busy-period" }
}

#[cfg(test)]
mod tests;
