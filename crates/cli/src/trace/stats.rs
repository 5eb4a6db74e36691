//! `surety trace stats`: the jobs of threads in a trace file, busiest thread first. JSON: `docs/formats/trace-stats.md`.

use serde_json::{Value, json};
use surety_report::number_of;
use surety_report::table::{Check, CheckVerdict, cells, checks};
use surety_trace::jobs::Anomalies;
use surety_trace::statistics::{Folded, Recorded, Spread};
use surety_trace::{Description, ReadSummary, StatisticsBuilder, ThreadStatistics};
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
    recorded: Recorded,
    /// How long the time is that counts.
    span: Nanos,
}

/// The verb.
pub fn stats(args: &StatsArgs, session: &Session) -> Result<Code, Failure> {
    if args.closely.distribution {
        return super::distribution::of_thread(args, session);
    }
    let seen = read(args, session)?;
    let wanted = args.selection.wanted();
    if seen.recorded.threads.is_empty() && wanted.chooses_threads() {
        return Err(file::nobody(&args.file, &args.selection, &seen.recorded.names));
    }
    let shown = &seen.recorded.threads[..seen.recorded.threads.len().min(args.top)];
    if session.json {
        session.print_json(&document(args, &seen, shown))?;
    } else {
        let style = session.style();
        session.print(&cells(&HEADER, &shown.iter().map(|t| row(t, &seen)).collect::<Vec<_>>(), &style))?;
        session.print("\n")?;
        session.print(&checks(&in_words(&seen, seen.recorded.threads.len() - shown.len()), &style))?;
    }
    Ok(Code::Kept)
}

fn read(args: &StatsArgs, session: &Session) -> Result<Seen, Failure> {
    let path = &args.file;
    let mut trace = file::open(path, &args.selection, session)?;
    let mut builder = StatisticsBuilder::new(args.selection.wanted());
    let summary = trace.read(&mut builder).map_err(|e| file::unfinished(path, session, &e))?;
    file::within(path, &args.selection, &summary)?;
    let (recorded, anomalies) = builder.finish();
    let unread = file::unread(trace.as_ref(), &summary);
    // The part of the trace's time that counts.
    let length = summary.span.map_or(Nanos::ZERO, |(first, last)| last - first);
    let to = args.selection.to.unwrap_or(length).min(length);
    let span = (to - args.selection.from.unwrap_or(Nanos::ZERO)).max(Nanos::ZERO);
    Ok(Seen {
        file: path.display().to_string(),
        description: trace.description(),
        summary,
        anomalies,
        unread,
        recorded,
        span,
    })
}

/// The first column stands in every part of a table that is too wide, so the name is in it.
const HEADER: [&str; 14] = [
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
    "then p99",
    "waited",
];

impl Seen {
    /// Part of one CPU; `None` for a trace of no length.
    fn share(&self, run: Nanos) -> Option<f64> {
        let span = self.span;
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
        time(&t.preemption, |s| s.p99),
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
    let cpus = cpus.map_or_else(String::new, |cpus| format!(" of {}", number_of(cpus, "CPU")));
    let rest = if not_shown > 0 {
        format!("; {} with --top", number_of(not_shown, "more thread"))
    } else {
        String::new()
    };
    let found = format!("{}{cpus} in {}{clock}{rest} ({format})", number_of(total, "event"), seen.span);
    say("trace", CheckVerdict::Good, found, None);
    let exact = seen.recorded.threads.iter().filter(|t| t.exact).count();
    let jobs = match exact {
        0 => "from waking to sleeping; jobs of a late thread that does not sleep between them count as one"
            .to_owned(),
        _ => format!(
            "by their own markers for threads that write them ({exact}); else from waking to sleeping"
        ),
    };
    say("jobs", CheckVerdict::Good, jobs, None);
    if !seen.recorded.folded.is_empty() {
        let threads: u64 = seen.recorded.folded.iter().map(|folded| folded.threads).sum();
        let found = format!("{threads} less busy threads are not listed; --json adds them up by name");
        say("threads", CheckVerdict::Good, found, None);
    }
    match file::lost(summary) {
        None => say("lost", CheckVerdict::Good, "no events".to_owned(), None),
        Some(lost) => say(
            "lost",
            CheckVerdict::Limited,
            lost,
            Some("jobs open there are given up; times waited and CPU shares are too small"),
        ),
    }
    let censored: u64 = seen.recorded.threads.iter().map(|t| t.censored).sum::<u64>()
        + seen.recorded.folded.iter().map(|f| f.censored).sum::<u64>();
    let doubtful: u64 = seen.recorded.threads.iter().map(|t| t.doubtful).sum::<u64>()
        + seen.recorded.folded.iter().map(|f| f.doubtful).sum::<u64>();
    let longest = seen.recorded.threads.iter().map(|t| t.doubtful_response_max);
    let longest = longest.chain(seen.recorded.folded.iter().map(|f| f.doubtful_response_max)).max().flatten();
    if censored > doubtful {
        let jobs = number_of(censored - doubtful, "job");
        say(
            "censored",
            CheckVerdict::Good,
            format!("{jobs} whose beginning or end is not in the trace; not counted"),
            None,
        );
    }
    if let Some(longest) = longest {
        let jobs = number_of(doubtful, "job");
        let found = format!("{jobs} with unknown time, responses up to {longest}; not counted");
        say("given up", CheckVerdict::Limited, found, None);
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
    list.extend(file::switches(anomalies));
    let mut say = |name: &str, verdict: CheckVerdict, found: String| {
        list.push(Check { name: name.to_owned(), verdict, found, remedy: None });
    };
    let odd = phrases(&[
        (anomalies.reordered, "switches recorded before their own wake-up"),
        (anomalies.unreleased, "switches to sleeping threads without a wake-up"),
        (anomalies.inconsistent, "events that contradict those before"),
        (anomalies.unmatched_exits, "interrupt exits without entry"),
        (anomalies.misdated, "job markers before their own release"),
        (anomalies.unmatched_markers, "job markers without their other end"),
        (anomalies.impossible, "events on impossible CPUs"),
        (summary.disordered, "records out of the order of time"),
    ]);
    if !odd.is_empty() {
        let verdict = if anomalies.inconsistent > 0 { CheckVerdict::Limited } else { CheckVerdict::Good };
        say("anomalies", verdict, odd);
    }
    list
}

/// Counts that are not 0 with their words.
fn phrases(counts: &[(u64, &str)]) -> String {
    let there = counts.iter().filter(|(count, _)| *count > 0);
    there.map(|(count, words)| format!("{words}: {count}")).collect::<Vec<_>>().join("; ")
}

/// `surety.trace-stats/1`.
fn document(args: &StatsArgs, seen: &Seen, shown: &[ThreadStatistics]) -> Value {
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
        "quality": file::quality(summary, &seen.unread, &seen.anomalies),
        "anomalies": seen.anomalies,
        "chosen": file::chosen(&args.selection),
        "threads_in_trace": seen.recorded.threads_in_trace,
        "threads": shown.iter().map(|t| thread(t, seen)).collect::<Vec<_>>(),
        "folded": seen.recorded.folded.iter().map(folded).collect::<Vec<_>>(),
    })
}

fn thread(t: &ThreadStatistics, seen: &Seen) -> Value {
    json!({
        "tid": t.tid,
        "name": t.comm.text(),
        "separation": if t.exact { "markers" } else { "busy-period" },
        "jobs": t.jobs,
        "censored": t.censored,
        "inferred": t.inferred,
        "doubtful": t.doubtful,
        "doubtful_response_max_ns": t.doubtful_response_max,
        "unknown_ns": t.unknown,
        "share": seen.share(t.run),
        "run_ns": t.run,
        "waited_ns": t.waited,
        "longest_wait_ns": t.longest_wait,
        "observed_ns": t.observed,
        "preemptions": t.preemptions,
        "throttled_ns": t.throttled,
        "response_ns": t.response,
        "latency_ns": t.latency,
        "preemption_ns": t.preemption,
        "execution_ns": t.execution,
        "execution_net_ns": t.execution_net,
        "interrupted_ns": t.interrupted,
        "inter_arrival_ns": t.inter_arrival,
    })
}

/// Threads of one name that are not listed.
fn folded(folded: &Folded) -> Value {
    json!({
        "name": folded.name.text(),
        "threads": folded.threads,
        "jobs": folded.jobs,
        "censored": folded.censored,
        "doubtful": folded.doubtful,
        "doubtful_response_max_ns": folded.doubtful_response_max,
        "run_ns": folded.run,
        "waited_ns": folded.waited,
        "response_max_ns": folded.response_max,
        "latency_max_ns": folded.latency_max,
    })
}
