//! `surety trace fit`: a trace becomes a workload file. JSON: `docs/formats/trace-fit.md`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use surety_fit::{
    Accounts, FitOptions, FittedWorkload, Kind, Left, SourceFit, TraceView, Unfitted, Why, fit_trace, summary,
};
use surety_model::event::{Comm, Event, TraceSink};
use surety_model::formats::toml;
use surety_report::number_of;
use surety_report::table::{Check, CheckVerdict, cells, checks, led};
use surety_trace::jobs::{Anomalies, Jobs};
use surety_trace::write::keep::Kept;
use surety_trace::{InterruptBuilder, JobBuilder, ReadSummary, Wanted};
use surety_units::{CpuId, Nanos};

use super::file;
use crate::args::FitArgs;
use crate::exit::{Code, Failure};
use crate::files;
use crate::session::Session;

/// Groups of things left out that have a row of their own.
const LEFT_SHOWN: usize = 12;

/// Without one of these there are no jobs.
const WAKE_UPS: [&str; 2] = ["sched:sched_waking", "sched:sched_wakeup"];

/// Both builders, and the CPUs that were seen.
struct Builders {
    jobs: JobBuilder,
    interrupts: InterruptBuilder,
    cpus: BTreeSet<CpuId>,
}

impl TraceSink for Builders {
    fn event(&mut self, event: &Event<'_>) {
        self.cpus.insert(event.cpu);
        self.jobs.event(event);
        self.interrupts.event(event);
    }
}

/// A trace as a workload, and what was read.
pub(super) struct Read {
    pub fitted: FittedWorkload,
    summary: ReadSummary,
    unread: Vec<String>,
    anomalies: Anomalies,
}

/// Reads a trace and fits it.
pub(super) fn read(args: &FitArgs, session: &Session) -> Result<Read, Failure> {
    let mut trace = file::open(&args.file, &args.selection, session)?;
    if args.selection.cpus.is_some() {
        let said = "a workload is fitted to whole threads, wherever they ran".to_owned();
        return Err(Failure::new(Code::BadInput, said).help("choose threads with --tid or --comm"));
    }
    let wanted = args.selection.wanted();
    let builders = Builders {
        jobs: JobBuilder::new(),
        interrupts: InterruptBuilder::new(Wanted::default()),
        cpus: BTreeSet::new(),
    };
    let in_time = Wanted { from: wanted.from, to: wanted.to, ..Wanted::default() };
    let mut kept = Kept::new(in_time.clone(), builders);
    let summary = trace.read(&mut kept).map_err(|e| file::unfinished(&args.file, session, &e))?;
    let builders = kept.into_inner();
    let unread = file::unread(trace.as_ref(), &summary);
    let seen = u32::try_from(builders.cpus.len()).unwrap_or(u32::MAX);
    let Jobs { threads, anomalies } = builders.jobs.finish();
    let histories: Vec<_> = threads.into_iter().map(|thread| thread.at_most()).collect();
    let interrupts = builders.interrupts.finish();
    let options = FitOptions {
        share_min: args.min_share,
        interrupts: !args.order.no_irqs,
        tids: wanted.tids.clone(),
        names: wanted.names.clone(),
        in_order: args.order.in_order,
        shortest: args.order.shortest_job,
    };
    if wanted.chooses_threads() && !histories.iter().any(|history| options.chooses(history)) {
        let names: Vec<Comm> = histories.iter().map(|h| h.comm).collect();
        return Err(file::nobody(&args.file, &args.selection, &names));
    }
    let view = TraceView {
        histories: &histories,
        interrupts: &interrupts,
        cpus: trace.description().cpus.unwrap_or(seen).max(seen),
        span: in_time.span(summary.span.unwrap_or_default()),
    };
    Ok(Read { fitted: fit_trace(&view, &options), summary, unread, anomalies })
}

/// The verb.
pub fn fit(args: &FitArgs, session: &Session) -> Result<Code, Failure> {
    let read = read(args, session)?;
    let fitted = &read.fitted;
    let text = toml::write_commented(&fitted.workload, &fitted.comments);
    if let Err(errors) = toml::read("the fitted workload", &text) {
        return Err(Failure::new(Code::Internal, format!("what was fitted does not read back: {errors}")));
    }
    if let Some(path) = &args.output {
        files::write(path, &text)?;
    }
    if session.json {
        session.print_json(&document(args, &read))?;
    } else {
        print(args, &read, session)?;
    }
    Ok(Code::Kept)
}

const HEADER: [&str; 8] =
    ["source", "kind", "period, gap", "on average", "work mean", "work p99", "CPU", "figures"];

fn print(args: &FitArgs, read: &Read, session: &Session) -> Result<(), Failure> {
    let Read { fitted, summary, anomalies, .. } = read;
    let style = session.style();
    let rows: Vec<Vec<String>> = fitted.sources.iter().map(row).collect();
    if rows.is_empty() {
        session.print("Nothing in this trace fits a task, a load or an interrupt.\n")?;
    } else {
        session.print(&cells(&HEADER, &rows, &style))?;
    }
    session.print("\n")?;
    let left = left_rows(&fitted.remainder);
    if !left.is_empty() {
        session.print(&cells(&["left out", "how many", "CPU", "why"], &left, &style))?;
        session.print("\n")?;
    }
    let notes = fitted.sources.iter().filter(|s| !s.notes.is_empty());
    for source in notes {
        session.print(&led(&format!("{}  ", source.name), &source.notes.join("; "), &style))?;
    }
    session.print(&led("CPU time  ", &accounts_in_words(&fitted.accounts), &style))?;
    let mut list: Vec<Check> =
        file::incomplete(summary, anomalies, "jobs open there are given up; shares are too small");
    if !summary.events.iter().any(|e| WAKE_UPS.contains(&e.event.as_str())) {
        list.push(Check {
            name: "missing".to_owned(),
            verdict: CheckVerdict::Limited,
            found: "no sched_waking and no sched_wakeup: jobs have no release, so no task can be fitted"
                .to_owned(),
            remedy: Some("record with `surety trace record`, or enable those events too".to_owned()),
        });
    }
    let workload = &fitted.workload;
    let counts = format!(
        "{} tasks, {} loads, {} interrupts",
        workload.tasks.len(),
        workload.loads.len(),
        workload.irqs.len()
    );
    let (found, remedy) = match &args.output {
        Some(path) => (format!("{}: {counts}", path.display()), remedy(fitted)),
        None => (
            format!("{counts}; not written"),
            Some("write it with --output FILE, run it with `surety run FILE --on sim`".to_owned()),
        ),
    };
    list.push(Check { name: "workload".to_owned(), verdict: CheckVerdict::Good, found, remedy });
    session.print(&checks(&list, &style))
}

/// What stands between the file and a run.
fn remedy(fitted: &FittedWorkload) -> Option<String> {
    (!fitted.workload.irqs.is_empty())
        .then(|| "`--on sim` runs its interrupts; fit with --no-irqs to run it on the host".to_owned())
}

fn row(source: &SourceFit) -> Vec<String> {
    let text = |time: Option<Nanos>| time.map_or_else(String::new, |t| t.to_string());
    let count = match source.threads.len() {
        0 | 1 => String::new(),
        many => format!(" x{many}"),
    };
    let (mean, p99) = work_figures(source);
    vec![
        format!("{}{count}", source.name),
        source.kind.word().to_owned(),
        text(source.interval),
        text(source.distance),
        text(mean),
        text(p99),
        format!("{:.2} %", source.share * 100.0),
        figures(source),
    ]
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
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let groups = summary(remainder);
    let (named, rest) = groups.split_at(groups.len().min(LEFT_SHOWN));
    let mut rows: Vec<Vec<String>> = named
        .iter()
        .map(|left| {
            vec![left.name.clone(), left.count.to_string(), percent(left.share), left.why.to_string()]
        })
        .collect();
    if !rest.is_empty() {
        let count: usize = rest.iter().map(|left| left.count).sum();
        let share = rest.iter().map(|left| left.share).sum();
        let why = "for such reasons; all are in --json".to_owned();
        rows.push(vec!["more".to_owned(), count.to_string(), percent(share), why]);
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

/// `surety.trace-fit/1`.
fn document(args: &FitArgs, read: &Read) -> Value {
    let Read { fitted, summary, unread, anomalies } = read;
    let accounts = &fitted.accounts;
    json!({
        "schema": "surety.trace-fit/1",
        "file": args.file.display().to_string(),
        "quality": file::quality(summary, unread, anomalies),
        "written": args.output.as_ref().map(|path| path.display().to_string()),
        "workload": toml::write(&fitted.workload),
        "sources": fitted.sources.iter().map(source_json).collect::<Vec<_>>(),
        "remainder": fitted.remainder.iter().map(left_json).collect::<Vec<_>>(),
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
