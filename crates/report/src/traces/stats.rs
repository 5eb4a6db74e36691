//! The jobs of threads in a trace file, busiest thread first. JSON: `docs/formats/trace-stats.md`.

use serde_json::{Value, json};
use surety_trace::jobs::Anomalies;
use surety_trace::jobs::sink::Throughout;
use surety_trace::statistics::{Folded, Recorded};
use surety_trace::{Description, ThreadStatistics};
use surety_units::Nanos;

use super::{RECORD_THEM, ReadTrace, TraceReport, cell, limited, lost, separation, share, switches, table};
use crate::quantity::number_of;
use crate::table::{Check, CheckVerdict, checks};
use crate::text::Style;

/// Threads with their jobs.
#[derive(Debug)]
pub struct TraceStats {
    pub read: ReadTrace,
    /// What in it contradicts itself.
    pub anomalies: Anomalies,
    /// The threads.
    pub recorded: Recorded,
    /// Threads that are shown.
    pub top: usize,
}

impl TraceReport for TraceStats {
    fn text(&self, style: &Style) -> String {
        table(
            self.shown(),
            // The first column stands in every part of a table that is too wide, so the name is in it.
            &[
                ("tid name", &|t| format!("{} {}", t.tid, t.comm)),
                ("jobs", &|t| t.jobs.to_string()),
                ("CPU", &|t| cell(self.share(t.run).map(share))),
                ("execution", &|t| cell(t.execution.map(|s| s.mean))),
                ("p99", &|t| cell(t.execution.map(|s| s.p99))),
                ("max", &|t| cell(t.execution.map(|s| s.max))),
                ("response", &|t| cell(t.response.map(|s| s.mean))),
                ("p99", &|t| cell(t.response.map(|s| s.p99))),
                ("max", &|t| cell(t.response.map(|s| s.max))),
                ("latency p99", &|t| cell(t.latency.map(|s| s.p99))),
                ("arrivals every", &|t| cell(t.inter_arrival.map(|s| s.mean))),
                ("preempted", &|t| t.preemptions.to_string()),
                ("then p99", &|t| cell(t.preemption.map(|s| s.p99))),
                ("waited", &|t| t.waited.to_string()),
            ],
            style,
        ) + "\n"
            + &checks(&self.checks(), style)
    }

    fn json(&self) -> Value {
        let (summary, description) = (&self.read.summary, &self.read.description);
        json!({
            "schema": "surety.trace-stats/1",
            "file": self.read.file,
            "format": description.format,
            "cpus": description.cpus,
            "clock": description.clock,
            "first_ns": summary.span.map(|(first, _)| first),
            "last_ns": summary.span.map(|(_, last)| last),
            "events": summary.events,
            "quality": self.read.quality(&self.anomalies),
            "anomalies": self.anomalies,
            "chosen": self.read.chosen(),
            "threads_in_trace": self.recorded.threads_in_trace,
            "threads": self.shown().iter().map(|t| self.thread(t)).collect::<Vec<_>>(),
            "folded": self.recorded.folded.iter().map(folded).collect::<Vec<_>>(),
        })
    }
}

impl TraceStats {
    fn shown(&self) -> &[ThreadStatistics] {
        &self.recorded.threads[..self.recorded.threads.len().min(self.top)]
    }

    /// Part of one CPU; `None` for a trace of no length.
    fn share(&self, run: Nanos) -> Option<f64> {
        let span = self.read.span();
        span.is_positive().then(|| run.get() as f64 / span.get() as f64)
    }

    /// How far the numbers can be trusted.
    fn checks(&self) -> Vec<Check> {
        let mut list = vec![self.extent(), self.separations()];
        list.extend(self.throughout());
        if !self.recorded.folded.is_empty() {
            let threads: u64 = self.recorded.folded.iter().map(|folded| folded.threads).sum();
            let found = format!("{threads} less busy threads are not listed; --json adds them up by name");
            list.push(Check::good("threads", found));
        }
        let open = "jobs open there are given up; times waited and CPU shares are too small";
        list.push(match lost(&self.read.summary) {
            None => Check::good("lost", "no events"),
            Some(lost) => Check::limited("lost", lost, open),
        });
        list.extend(self.read.left_out());
        list.extend(self.given_up());
        list.extend(self.damaged());
        if self.read.lacks(&["sched:sched_switch"]) {
            let found = "no sched_switch: nothing is known of CPU time";
            list.push(Check::limited("missing", found, RECORD_THEM));
        }
        list.extend(self.wake_ups());
        list.extend(self.read.unread.iter().map(|what| limited("not read", what.clone())));
        list.extend(switches(&self.anomalies));
        list.extend(self.odd());
        list
    }

    /// How much there is.
    fn extent(&self) -> Check {
        let total: u64 = self.read.summary.events.iter().map(|e| e.count).sum();
        let Description { format, cpus, clock } = &self.read.description;
        let clock = cell(clock.as_ref().map(|clock| format!(", clock {clock}")));
        let cpus = cell(cpus.map(|cpus| format!(" of {}", number_of(cpus, "CPU"))));
        let rest = match self.recorded.threads.len() - self.shown().len() {
            0 => String::new(),
            more => format!("; {} with --top", number_of(more, "more thread")),
        };
        let events = number_of(total, "event");
        Check::good("trace", format!("{events}{cpus} in {}{clock}{rest} ({format})", self.read.span()))
    }

    /// Threads that neither got nor lost a CPU.
    fn throughout(&self) -> Option<Check> {
        const NAMED_MAX: usize = 4;
        let those =
            [Throughout::Running, Throughout::Ready, Throughout::Asleep].into_iter().filter_map(|did| {
                let all: Vec<&ThreadStatistics> =
                    self.recorded.threads.iter().filter(|thread| thread.throughout == Some(did)).collect();
                let named: Vec<String> =
                    all.iter().take(NAMED_MAX).map(|t| format!("{} {}", t.tid, t.comm)).collect();
                let more = if all.len() > NAMED_MAX { ", ..." } else { "" };
                let count = number_of(all.len(), "thread");
                (!all.is_empty()).then(|| match did {
                    Throughout::Asleep => format!("{count} slept"),
                    Throughout::Running => format!("{count} ran ({}{more})", named.join(", ")),
                    Throughout::Ready => {
                        format!("{count} wanted a CPU and got none ({}{more})", named.join(", "))
                    }
                })
            });
        let those: Vec<String> = those.collect();
        (!those.is_empty()).then(|| Check::good("throughout", those.join("; ")))
    }

    /// What is not known where wake-ups are not in the trace.
    fn wake_ups(&self) -> Option<Check> {
        if !self.recorded.threads.iter().any(|thread| thread.by_switches) {
            return self.read.wake_ups(" and are not counted");
        }
        let found = "no wake-ups: response and latency are not known, and arrivals are starts";
        Some(Check::limited("missing", found, RECORD_THEM))
    }

    /// How jobs were told apart.
    fn separations(&self) -> Check {
        let by_switches = self.recorded.threads.iter().any(|thread| thread.by_switches);
        let busy = if by_switches {
            "by switches alone, from getting a CPU after a sleep to the next sleep"
        } else {
            "from waking to sleeping"
        };
        let jobs = match self.recorded.threads.iter().filter(|t| t.exact).count() {
            0 => format!("{busy}; jobs of a late thread that does not sleep between them count as one"),
            exact => format!("by their own markers for threads that write them ({exact}); else {busy}"),
        };
        Check::good("jobs", jobs)
    }

    /// Jobs that are not counted.
    fn given_up(&self) -> impl Iterator<Item = Check> {
        let Recorded { threads, folded, .. } = &self.recorded;
        let censored: u64 = threads.iter().map(|t| t.censored).chain(folded.iter().map(|f| f.censored)).sum();
        let doubtful: u64 = threads.iter().map(|t| t.doubtful).chain(folded.iter().map(|f| f.doubtful)).sum();
        let longest = threads.iter().map(|t| t.doubtful_response_max);
        let longest = longest.chain(folded.iter().map(|f| f.doubtful_response_max)).max().flatten();
        let censored = (censored > doubtful).then(|| {
            let jobs = number_of(censored - doubtful, "job");
            Check::good("censored", format!("{jobs} whose beginning or end is not in the trace; not counted"))
        });
        let doubtful = longest.map(|longest| {
            let jobs = number_of(doubtful, "job");
            limited("given up", format!("{jobs} with unknown time, responses up to {longest}; not counted"))
        });
        censored.into_iter().chain(doubtful)
    }

    /// What of the file cannot be read.
    fn damaged(&self) -> Option<Check> {
        let summary = &self.read.summary;
        let damage = phrases(&[
            (summary.damaged_pages, "pages that cannot be read to their end"),
            (summary.truncated, "CPUs whose pages the file's end cuts"),
            (summary.malformed, "records too short for their event"),
            (summary.unknown, "records of events the file does not describe"),
        ]);
        let remedy = "what could be read is counted; copy or record the file anew";
        damage.map(|damage| Check::limited("damaged", damage, remedy))
    }

    /// Events that do not go together.
    fn odd(&self) -> Option<Check> {
        let anomalies = &self.anomalies;
        let odd = phrases(&[
            (anomalies.reordered, "switches recorded before their own wake-up"),
            (anomalies.unreleased, "switches to sleeping threads without a wake-up"),
            (anomalies.inconsistent, "events that contradict those before"),
            (anomalies.unmatched_exits, "interrupt exits without entry"),
            (anomalies.misdated, "job markers before their own release"),
            (anomalies.unmatched_markers, "job markers without their other end"),
            (anomalies.impossible, "events on impossible CPUs"),
            (self.read.summary.disordered, "records out of the order of time"),
        ]);
        let verdict = if anomalies.inconsistent > 0 { CheckVerdict::Limited } else { CheckVerdict::Good };
        odd.map(|odd| Check { verdict, ..Check::good("anomalies", odd) })
    }

    fn thread(&self, t: &ThreadStatistics) -> Value {
        json!({
            "tid": t.tid,
            "name": t.comm.text(),
            "separation": if t.by_switches { "switches" } else { separation(t.exact) },
            "jobs": t.jobs,
            "censored": t.censored,
            "inferred": t.inferred,
            "doubtful": t.doubtful,
            "doubtful_response_max_ns": t.doubtful_response_max,
            "unknown_ns": t.unknown,
            "share": self.share(t.run),
            "run_ns": t.run,
            "waited_ns": t.waited,
            "longest_wait_ns": t.longest_wait,
            "observed_ns": t.observed,
            "throughout": t.throughout.map(Throughout::word),
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
}

/// Counts that are not 0 with their words; `None` when all are.
fn phrases(counts: &[(u64, &str)]) -> Option<String> {
    let there = counts.iter().filter(|(count, _)| *count > 0);
    let there: Vec<String> = there.map(|(count, words)| format!("{words}: {count}")).collect();
    (!there.is_empty()).then(|| there.join("; "))
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
