//! `surety trace stats`: the jobs of threads in a trace file, busiest thread first. JSON: `docs/formats/trace-stats.md`.

use std::path::Path;

use serde_json::{Value, json};
use surety_model::event::TraceSink;
use surety_report::table::{Check, CheckVerdict, cells, checks};
use surety_trace::jobs::Anomalies;
use surety_trace::statistics::Spread;
use surety_trace::{Description, JobBuilder, ReadSummary, ThreadStatistics};
use surety_units::Nanos;

use super::file;
use crate::args::StatsArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// What a trace shows.
struct Seen {
    file: String,
    description: Description,
    summary: ReadSummary,
    anomalies: Anomalies,
    /// What the file holds and was not read, in words.
    unread: Vec<String>,
    /// Of every thread, busiest first.
    threads: Vec<ThreadStatistics>,
}

/// The verb.
pub fn stats(args: &StatsArgs, session: &Session) -> Result<Code, Failure> {
    let seen = read(&args.file, args.selection.buffer.as_deref())?;
    let chosen: Vec<&ThreadStatistics> = seen
        .threads
        .iter()
        .filter(|t| args.selection.tid.is_none_or(|tid| t.tid.0 == tid))
        .filter(|t| args.selection.comm.as_deref().is_none_or(|comm| t.comm.text() == comm))
        .collect();
    if chosen.is_empty() && (args.selection.tid.is_some() || args.selection.comm.is_some()) {
        let names: Vec<String> = seen.threads.iter().map(|t| t.comm.text().into_owned()).collect();
        return Err(file::nobody(&args.file, &args.selection, &names));
    }
    let shown = &chosen[..chosen.len().min(args.top)];
    if session.json {
        session.print_json(&document(&seen, shown));
    } else {
        let style = session.style();
        print!("{}", cells(&HEADER, &shown.iter().map(|t| row(t, &seen)).collect::<Vec<_>>(), &style));
        println!();
        print!("{}", checks(&in_words(&seen, chosen.len() - shown.len()), &style));
    }
    Ok(Code::Kept)
}

fn read(path: &Path, buffer: Option<&str>) -> Result<Seen, Failure> {
    let name = path.display().to_string();
    let mut trace = file::open_buffer(path, buffer)?;
    let mut builder = JobBuilder::new();
    let sink: &mut dyn TraceSink = &mut builder;
    let summary = trace.read(sink).map_err(|e| file::unreadable(path, &e))?;
    let jobs = builder.finish();
    let mut threads: Vec<ThreadStatistics> = jobs.threads.iter().map(ThreadStatistics::of).collect();
    // Stable: threads equally busy stay in the order of their numbers.
    threads.sort_by_key(|t| std::cmp::Reverse(t.run));
    let unread = file::unread(trace.as_ref(), &summary);
    Ok(Seen {
        file: name,
        description: trace.description(),
        summary,
        anomalies: jobs.anomalies,
        unread,
        threads,
    })
}

/// The first column stands in every part of a table that is too wide, so the name is in it.
const HEADER: [&str; 13] = [
    "tid name",
    "jobs",
    "CPU",
    "execution",
    "p99",
    "max",
    "response",
    "p99",
    "max",
    "latency p99",
    "arrivals every",
    "preempted",
    "waited",
];

impl Seen {
    /// From the first to the last record.
    fn span(&self) -> Nanos {
        self.summary.span.map_or(Nanos::ZERO, |(first, last)| last - first)
    }

    /// Part of one CPU; `None` for a trace of no length.
    fn share(&self, run: Nanos) -> Option<f64> {
        let span = self.span();
        span.is_positive().then(|| run.get() as f64 / span.get() as f64)
    }
}

fn row(t: &ThreadStatistics, seen: &Seen) -> Vec<String> {
    let time = |spread: &Option<Spread>, value: fn(&Spread) -> Nanos| {
        spread.as_ref().map_or_else(String::new, |s| value(s).to_string())
    };
    vec![
        format!("{} {}", t.tid, t.comm),
        t.jobs.to_string(),
        seen.share(t.run).map_or_else(String::new, |share| format!("{:.2} %", share * 100.0)),
        time(&t.execution, |s| s.mean),
        time(&t.execution, |s| s.p99),
        time(&t.execution, |s| s.max),
        time(&t.response, |s| s.mean),
        time(&t.response, |s| s.p99),
        time(&t.response, |s| s.max),
        time(&t.latency, |s| s.p99),
        time(&t.inter_arrival, |s| s.mean),
        t.preemptions.to_string(),
        t.waited.to_string(),
    ]
}

/// How far the numbers can be trusted.
fn in_words(seen: &Seen, not_shown: usize) -> Vec<Check> {
    let mut list = Vec::new();
    let mut say = |name: &str, verdict: CheckVerdict, found: String, remedy: Option<&str>| {
        list.push(Check { name: name.to_owned(), verdict, found, remedy: remedy.map(str::to_owned) });
    };
    let (summary, anomalies) = (&seen.summary, &seen.anomalies);
    let total: u64 = summary.events.iter().map(|e| e.count).sum();
    let Description { format, cpus, clock } = &seen.description;
    let clock = clock.as_deref().map_or_else(String::new, |clock| format!(", clock {clock}"));
    let cpus = cpus.map_or_else(String::new, |cpus| format!(" of {cpus} CPUs"));
    let rest = if not_shown > 0 { format!("; {not_shown} more threads with --top") } else { String::new() };
    let found = format!("{total} events{cpus} in {}{clock}{rest} ({format})", seen.span());
    say("trace", CheckVerdict::Good, found, None);
    let exact = seen.threads.iter().filter(|t| t.exact).count();
    let jobs = match exact {
        0 => "from waking to sleeping; jobs of a late thread that does not sleep between them count as one"
            .to_owned(),
        _ => format!(
            "by their own markers for threads that write them ({exact}); else from waking to sleeping"
        ),
    };
    say("jobs", CheckVerdict::Good, jobs, None);
    match summary.lost_at_least() {
        0 if summary.gaps == 0 => say("lost", CheckVerdict::Good, "no events".to_owned(), None),
        lost => say(
            "lost",
            CheckVerdict::Limited,
            format!("at least {lost} events, at {} places", summary.gaps),
            Some("jobs open there are given up; times waited and CPU shares are too small"),
        ),
    }
    let censored: u64 = seen.threads.iter().map(|t| t.censored).sum();
    if censored > 0 {
        let found =
            format!("{censored} jobs whose beginning or end is not in the trace; they are not counted");
        say("censored", CheckVerdict::Good, found, None);
    }
    let damage = phrases(&[
        (summary.damaged_pages, "pages that cannot be read to their end"),
        (summary.truncated, "CPUs whose pages the file's end cuts"),
        (summary.malformed, "records too short for their event"),
        (summary.unknown, "records of events the file does not describe"),
    ]);
    if !damage.is_empty() {
        let remedy = "what could be read is counted; copy or record the file anew";
        say("damaged", CheckVerdict::Limited, damage, Some(remedy));
    }
    let absent = |events: &[&str]| !summary.events.iter().any(|e| events.contains(&e.event.as_str()));
    let remedy = Some("record with `surety trace record`, or enable those events too");
    if absent(&["sched:sched_switch"]) {
        let found = "no sched_switch: nothing is known of CPU time".to_owned();
        say("missing", CheckVerdict::Limited, found, remedy);
    }
    if absent(&["sched:sched_waking", "sched:sched_wakeup"]) {
        let found =
            "no sched_waking and no sched_wakeup: jobs have no release and are not counted".to_owned();
        say("missing", CheckVerdict::Limited, found, remedy);
    }
    for what in &seen.unread {
        say("not read", CheckVerdict::Limited, what.clone(), None);
    }
    let odd = phrases(&[
        (anomalies.reordered, "switches recorded before their own wake-up"),
        (anomalies.unreleased, "switches to sleeping threads without a wake-up"),
        (anomalies.inferred, "switches out of idle that were not recorded, inferred from what followed"),
        (anomalies.inconsistent, "events that contradict those before"),
        (anomalies.unmatched_exits, "interrupt exits without entry"),
        (anomalies.misdated, "job markers before their own release"),
        (anomalies.unmatched_markers, "job markers without their other end"),
        (anomalies.impossible, "events on impossible CPUs"),
        (summary.disordered, "records out of the order of time"),
    ]);
    if !odd.is_empty() {
        let verdict = if anomalies.inconsistent > 0 { CheckVerdict::Limited } else { CheckVerdict::Good };
        say("anomalies", verdict, odd, None);
    }
    list
}

/// Counts that are not 0 with their words.
fn phrases(counts: &[(u64, &str)]) -> String {
    let there = counts.iter().filter(|(count, _)| *count > 0);
    there.map(|(count, words)| format!("{words}: {count}")).collect::<Vec<_>>().join("; ")
}

/// `surety.trace-stats/1`.
fn document(seen: &Seen, shown: &[&ThreadStatistics]) -> Value {
    let summary = &seen.summary;
    json!({
        "schema": "surety.trace-stats/1",
        "file": seen.file,
        "format": seen.description.format,
        "cpus": seen.description.cpus,
        "clock": seen.description.clock,
        "first_ns": summary.span.map(|(first, _)| first),
        "last_ns": summary.span.map(|(_, last)| last),
        "events": summary.events.iter().map(|e| json!({ "event": e.event, "count": e.count })).collect::<Vec<_>>(),
        "quality": file::quality(summary, &seen.unread),
        "anomalies": seen.anomalies,
        "threads_in_trace": seen.threads.len(),
        "threads": shown.iter().map(|t| thread(t, seen)).collect::<Vec<_>>(),
    })
}

fn thread(t: &ThreadStatistics, seen: &Seen) -> Value {
    json!({
        "tid": t.tid,
        "name": t.comm.text(),
        "separation": if t.exact { "markers" } else { "busy-period" },
        "jobs": t.jobs,
        "censored": t.censored,
        "share": seen.share(t.run),
        "run_ns": t.run,
        "waited_ns": t.waited,
        "longest_wait_ns": t.longest_wait,
        "observed_ns": t.observed,
        "preemptions": t.preemptions,
        "throttled_ns": t.throttled,
        "response_ns": t.response,
        "latency_ns": t.latency,
        "execution_ns": t.execution,
        "interrupted_ns": t.interrupted,
        "inter_arrival_ns": t.inter_arrival,
    })
}
