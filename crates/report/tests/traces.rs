//! What traces show, letter by letter, without a program or a terminal around it.
//! `SURETY_UPDATE_SNAPSHOTS=1 cargo test -p surety-report` rewrites the files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod shared;

use std::fmt::Write as _;

use shared::snapshot;
use surety_fit::{FitOptions, TraceView, fit_trace};
use surety_model::event::TraceSink;
use surety_report::Style;
use surety_report::traces::{
    ReadTrace, Subject, TraceDistribution, TraceExplanation, TraceFit, TraceIrqs, TraceReport, TraceStats,
};
use surety_trace::interrupts::InterruptChoice;
use surety_trace::{
    BlameBuilder, DistributionBuilder, InterruptBuilder, JobBuilder, StatisticsBuilder, Wanted, open,
};
use surety_units::{Nanos, Probability};

/// A player every 10 ms behind a hog, with a disk's interrupt in every second job, as the kernel's tracer writes it.
fn trace() -> String {
    let mut text = String::new();
    for job in 0..60u64 {
        let mut at = 1_000_000 + 10_000 * job;
        let mut line = |after: u64, who: &str, event: &str| {
            at += after;
            let (s, us) = (at / 1_000_000, at % 1_000_000);
            writeln!(text, "{who:>22} [000] d..2.  {s}.{us:06}: {event}").unwrap();
        };
        line(0, "hog-7", "sched_waking: comm=player pid=42 prio=120 target_cpu=000");
        let to = "prev_comm=hog prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=player next_pid=42 next_prio=120";
        line(50 + job % 7, "hog-7", &format!("sched_switch: {to}"));
        if job % 2 == 0 {
            line(400, "player-42", "irq_handler_entry: irq=36 name=disk");
            line(30, "player-42", "irq_handler_exit: irq=36 ret=handled");
        }
        let back = "prev_comm=player prev_pid=42 prev_prio=120 prev_state=S ==> next_comm=hog next_pid=7 next_prio=120";
        line(2_000 + 10 * (job * job % 31), "player-42", &format!("sched_switch: {back}"));
    }
    text
}

fn read(chosen: &Wanted, sink: &mut dyn TraceSink) -> ReadTrace {
    let mut trace = open(trace().into_bytes()).unwrap();
    let summary = trace.read(sink).unwrap();
    let (description, unread) = (trace.description(), trace.unread());
    ReadTrace { file: "trace.txt".to_owned(), description, summary, unread, chosen: chosen.clone() }
}

/// Every result of the trace, by its name.
fn results() -> Vec<(&'static str, Box<dyn TraceReport>)> {
    let chosen = Wanted { tids: vec![surety_units::Tid(42)], ..Wanted::default() };
    let mut stats = StatisticsBuilder::new(Wanted::default());
    let stats_read = read(&Wanted::default(), &mut stats);
    let (recorded, anomalies) = stats.finish();
    let stats = TraceStats { read: stats_read, anomalies, recorded, top: 2 };

    let mut blames = BlameBuilder::new(chosen.clone(), 1);
    let explained_read = read(&chosen, &mut blames);
    let explained = TraceExplanation { read: explained_read, blames: blames.finish() };

    let choice = InterruptChoice { which: None, detail: Some(None) };
    let mut irqs = InterruptBuilder::of(Wanted::default(), choice);
    let irqs_read = read(&Wanted::default(), &mut irqs);
    let found = irqs.finish();
    let mut source = found.sources[0].clone();
    let detail = *source.detail.take().unwrap();
    let of_irq = Subject::Interrupt(source, detail);
    let of_irq = TraceDistribution::new(irqs_read.clone(), found.anomalies, of_irq, None).unwrap();

    let mut jobs = JobBuilder::new();
    let fit_read = read(&Wanted::default(), &mut jobs);
    let jobs = jobs.finish();
    let histories: Vec<_> = jobs.threads.into_iter().map(|thread| thread.at_most()).collect();
    let span = fit_read.summary.span.unwrap();
    let view = TraceView { histories: &histories, interrupts: &found, cpus: 1, span };
    let options = FitOptions {
        share_min: Probability::ZERO,
        interrupts: true,
        tids: Vec::new(),
        names: Vec::new(),
        in_order: false,
        shortest: Nanos::ZERO,
    };
    let fitted = fit_trace(&view, &options);
    let fit = TraceFit { read: fit_read, anomalies: jobs.anomalies, fitted, written: None };

    let mut times = DistributionBuilder::new(chosen.clone(), None);
    let times_read = read(&chosen, &mut times);
    let mut times = times.finish();
    let thread = Subject::Thread(times.threads.pop().unwrap());
    let of_thread = TraceDistribution::new(times_read, times.anomalies, thread, None).unwrap();
    vec![
        ("trace-stats", Box::new(stats)),
        ("trace-explain", Box::new(explained)),
        ("trace-irqs", Box::new(TraceIrqs { read: irqs_read, found })),
        ("trace-fit", Box::new(fit)),
        ("trace-distribution-thread", Box::new(of_thread)),
        ("trace-distribution-irq", Box::new(of_irq)),
    ]
}

#[test]
fn traces_in_words() {
    for (name, result) in results() {
        snapshot(&format!("{name}.txt"), &result.text(&Style::plain(100)));
    }
}

#[test]
fn documents_name_their_schema_and_their_file() {
    for (name, result) in results() {
        let document = result.json();
        let schema = name.trim_end_matches("-thread").trim_end_matches("-irq");
        assert_eq!(document["schema"], format!("surety.{schema}/1"));
        assert_eq!(
            (&document["file"], &document["quality"]["complete"]),
            (&"trace.txt".into(), &true.into())
        );
    }
}
