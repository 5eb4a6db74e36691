//! A workload fitted to a trace file. JSON: `docs/formats/trace-fit.md`.

use serde_json::{Value, json};
use surety_fit::{Accounts, FittedWorkload, Kind, Left, SourceFit, Unfitted, Why, summary};
use surety_model::formats::toml;
use surety_trace::jobs::Anomalies;
use surety_units::Nanos;

use super::{Column, ReadTrace, TraceReport, cell, share, table};
use crate::quantity::number_of;
use crate::table::{Check, cells, checks, led};
use crate::text::Style;

/// Groups of things left out that have a row of their own.
const LEFT_SHOWN: usize = 12;

/// A trace as a workload.
#[derive(Debug)]
pub struct TraceFit {
    pub read: ReadTrace,
    /// What in it contradicts itself.
    pub anomalies: Anomalies,
    /// The workload, and what it was made from.
    pub fitted: FittedWorkload,
    /// File the workload is written into.
    pub written: Option<String>,
}

impl TraceReport for TraceFit {
    fn text(&self, style: &Style) -> String {
        let FittedWorkload { sources, remainder, accounts, .. } = &self.fitted;
        let columns: [Column<'_, SourceFit>; 8] = [
            ("source", &|s| match s.threads.len() {
                0 | 1 => s.name.clone(),
                many => format!("{} x{many}", s.name),
            }),
            ("kind", &|s| s.kind.word().to_owned()),
            ("period, gap", &|s| cell(s.interval)),
            ("on average", &|s| cell(s.distance)),
            ("work mean", &|s| cell(work_figures(s).0)),
            ("work p99", &|s| cell(work_figures(s).1)),
            ("CPU", &|s| share(s.share)),
            ("figures", &figures),
        ];
        let mut text = match sources.as_slice() {
            [] => "Nothing in this trace fits a task, a load or an interrupt.\n".to_owned(),
            sources => table(sources, &columns, style),
        };
        text.push('\n');
        let left = left_rows(remainder);
        if !left.is_empty() {
            text += &cells(&["left out", "how many", "CPU", "why"], &left, style);
            text.push('\n');
        }
        for source in sources.iter().filter(|s| !s.notes.is_empty()) {
            text += &led(&format!("{}  ", source.name), &source.notes.join("; "), style);
        }
        text += &led("CPU time  ", &accounts_in_words(accounts), style);
        let missed = "jobs open there are given up; shares are too small";
        let mut list = self.read.incomplete(&self.anomalies, missed);
        list.extend(
            self.read.wake_ups(
                ", so no task can be fitted; `surety trace stats` shows execution and period of them",
            ),
        );
        list.push(self.workload());
        text + &checks(&list, style)
    }

    fn json(&self) -> Value {
        let FittedWorkload { workload, sources, remainder, accounts, .. } = &self.fitted;
        json!({
            "schema": "surety.trace-fit/1",
            "file": self.read.file,
            "quality": self.read.quality(&self.anomalies),
            "written": self.written,
            "workload": toml::write(workload),
            "sources": sources.iter().map(source_json).collect::<Vec<_>>(),
            "remainder": remainder.iter().map(left_json).collect::<Vec<_>>(),
            "accounts": {
                "tasks_ns": accounts.tasks,
                "loads_ns": accounts.loads,
                "interrupt_threads_ns": accounts.interrupt_threads,
                "remainder_ns": accounts.remainder,
                "interrupts_ns": accounts.interrupts,
                "idle_ns": accounts.idle,
                "total_ns": accounts.total,
            },
        })
    }
}

impl TraceFit {
    /// What the workload holds, and what stands between it and a run.
    fn workload(&self) -> Check {
        let workload = &self.fitted.workload;
        let (tasks, loads, irqs) = (workload.tasks.len(), workload.loads.len(), workload.irqs.len());
        let counts = format!("{tasks} tasks, {loads} loads, {irqs} interrupts");
        let (found, remedy) = match &self.written {
            Some(file) => (
                format!("{file}: {counts}"),
                (irqs > 0)
                    .then_some("`--on sim` runs its interrupts; fit with --no-irqs to run it on the host"),
            ),
            None => (
                format!("{counts}; not written"),
                Some("write it with --output FILE, run it with `surety run FILE --on sim`"),
            ),
        };
        Check { remedy: remedy.map(str::to_owned), ..Check::good("workload", found) }
    }
}

/// Mean and 99 % quantile of the work, as measured where that is known.
fn work_figures(source: &SourceFit) -> (Option<Nanos>, Option<Nanos>) {
    match (&source.work, &source.distribution) {
        (Some(work), _) => (Some(Nanos::from_f64_rounded(work.mean)), Some(work.samples.quantile(0.99))),
        (None, Some(drawn)) => (Some(Nanos::from_f64_rounded(drawn.mean_ns())), Some(drawn.quantile(0.99))),
        (None, None) => (None, None),
    }
}

/// How much stands behind a row, and the policy where it is not the ordinary one.
fn figures(source: &SourceFit) -> String {
    let mut parts = Vec::new();
    match source.kind {
        Kind::Load => parts.push("wants a CPU without end".to_owned()),
        Kind::Interrupt => parts.push(number_of(source.jobs, "arrival")),
        _ => parts.push(number_of(source.jobs, "job")),
    }
    if let Some(family) = source.work.as_ref().and_then(|work| work.family.as_ref()) {
        parts.push(format!("{} p={:.2}", family.family.word(), family.p_value));
    }
    let policy = source.policy.map(|policy| policy.to_string());
    parts.extend(policy.filter(|words| words != "fair"));
    parts.join(", ")
}

/// The busiest by name, the others summed.
fn left_rows(remainder: &[Unfitted]) -> Vec<Vec<String>> {
    let groups = summary(remainder);
    let (named, rest) = groups.split_at(groups.len().min(LEFT_SHOWN));
    let mut rows: Vec<Vec<String>> = named
        .iter()
        .map(|left| vec![left.name.clone(), left.count.to_string(), share(left.share), left.why.to_string()])
        .collect();
    if !rest.is_empty() {
        let count: usize = rest.iter().map(|left| left.count).sum();
        let part = rest.iter().map(|left| left.share).sum();
        let why = "for such reasons; all are in --json".to_owned();
        rows.push(vec!["more".to_owned(), count.to_string(), share(part), why]);
    }
    rows
}

fn accounts_in_words(accounts: &Accounts) -> String {
    let total = accounts.total.get().max(1) as f64;
    let part = |time: Nanos, words: &str| format!("{words} {:.2} %", 100.0 * time.get() as f64 / total);
    let parts = [
        part(accounts.tasks, "tasks"),
        part(accounts.loads, "loads"),
        part(accounts.interrupt_threads, "threads of interrupts"),
        part(accounts.remainder, "threads left out"),
        part(accounts.interrupts, "interrupts on top of threads"),
        part(accounts.idle, "idle and interrupts while idle"),
    ];
    format!("of all CPUs: {}", parts.join(", "))
}

fn source_json(source: &SourceFit) -> Value {
    let family = source.work.as_ref().and_then(|work| work.family.as_ref());
    let (mean, p99) = work_figures(source);
    json!({
        "name": source.name,
        "kind": source.kind.word(),
        "seen_as": source.seen_as,
        "threads": source.threads,
        "policy": source.policy.map(|policy| policy.to_string()),
        "jobs": source.jobs,
        "time_ns": source.time,
        "share": source.share,
        "interval_ns": source.interval,
        "interval_error_ns": source.interval_error,
        "distance_mean_ns": source.distance,
        "work_mean_ns": mean,
        "work_p99_ns": p99,
        "work_max_ns": source.work.as_ref().map(surety_fit::Series::maximum),
        "family": family.map(|f| f.family.word()),
        "family_p_value": family.map(|f| f.p_value),
        "poisson_p_value": source.poisson,
        "notes": source.notes,
    })
}

fn left_json(left: &Unfitted) -> Value {
    let (tid, name) = match &left.what {
        Left::Thread { tid, comm } => (Some(*tid), comm.text().into_owned()),
        what @ Left::Interrupt { .. } => (None, what.to_string()),
    };
    let why = match left.why {
        Why::NotChosen => "not-chosen",
        Why::BelowShare => "below-share",
        Why::TooFew(_) => "too-few",
        Why::Unreleased => "unreleased",
        Why::Inseparable(_) => "inseparable",
        _ => "kernel",
    };
    json!({
        "tid": tid,
        "name": name,
        "time_ns": left.time,
        "share": left.share,
        "why": why,
        "in_words": left.why.to_string(),
    })
}
