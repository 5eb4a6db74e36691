//! `surety trace irqs`: every interrupt of a trace file as a source of work. JSON: `docs/formats/trace-irqs.md`.

use serde_json::{Value, json};
use surety_report::table::{cells, checks, led};
use surety_trace::interrupts::{Interrupt, InterruptBuilder, InterruptChoice, Interrupts, Series};
use surety_trace::jobs::interrupts::{Context, softirq_name};
use surety_trace::{ReadSummary, ThreadStatistics};
use surety_units::Nanos;

use crate::args::IrqsArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;
use crate::trace::distribution::{none, of_interrupt, title};
use crate::trace::file;

/// The verb.
pub fn irqs(args: &IrqsArgs, session: &Session) -> Result<Code, Failure> {
    if args.closely.distribution {
        return of_interrupt(args, session);
    }
    let choice = InterruptChoice { which: args.irq.clone(), detail: None };
    let mut trace = file::open(&args.file, &args.selection, session)?;
    let mut builder = InterruptBuilder::of(args.selection.wanted(), choice);
    let summary = trace.read(&mut builder).map_err(|e| file::unfinished(&args.file, session, &e))?;
    file::within(&args.file, &args.selection, &summary)?;
    let seen = builder.finish();
    if seen.sources.is_empty() && (args.irq.is_some() || args.selection.wanted().chooses_threads()) {
        return Err(none(args));
    }
    if session.json {
        let unread = file::unread(trace.as_ref(), &summary);
        session.print_json(&document(args, &seen, &summary, &unread))?;
        return Ok(Code::Kept);
    }
    let style = session.style();
    let span = span(args, &summary);
    let rows: Vec<Vec<String>> = seen.sources.iter().map(|source| row(source, &seen, span)).collect();
    session.print(&cells(&HEADER, &rows, &style))?;
    if !seen.threads.is_empty() {
        session.print("\n")?;
        session.print(&cells(&THREADS, &seen.threads.iter().map(thread_row).collect::<Vec<_>>(), &style))?;
    }
    session.print("\n")?;
    let text = format!(
        "of handlers is their time less what is nested inside; {} handlings have no beginning or no end in the trace",
        seen.incomplete
    );
    session.print(&led("service  ", &text, &style))?;
    let missed = "arrivals there are not counted, and gaps not measured across them";
    session.print(&checks(&file::incomplete(&summary, &seen.anomalies, missed), &style))?;
    Ok(Code::Kept)
}

const HEADER: [&str; 12] = [
    "interrupt",
    "CPUs",
    "count",
    "rate",
    "every",
    "min",
    "p99",
    "service",
    "p99",
    "max",
    "raises",
    "threads",
];

const THREADS: [&str; 8] =
    ["thread", "jobs", "execution", "p99", "max", "response p99", "latency p99", "arrivals every"];

/// How long the time is that counts.
fn span(args: &IrqsArgs, summary: &ReadSummary) -> Nanos {
    let length = summary.span.map_or(Nanos::ZERO, |(first, last)| last - first);
    let to = args.selection.to.unwrap_or(length).min(length);
    (to - args.selection.from.unwrap_or(Nanos::ZERO)).max(Nanos::ZERO)
}

/// Arrivals in a second; `None` for a trace of no length.
fn rate(source: &Interrupt, span: Nanos) -> Option<f64> {
    span.is_positive().then(|| source.count() as f64 / span.as_secs_f64())
}

fn row(source: &Interrupt, seen: &Interrupts, span: Nanos) -> Vec<String> {
    let text = |time: Option<Nanos>| time.map_or_else(String::new, |t| t.to_string());
    let raised: Vec<String> = source.raised.keys().map(|vector| softirq_name(*vector)).collect();
    let name = |tid| seen.threads.iter().find(|t| t.tid == tid).map(|t| t.comm.to_string());
    let woken: Vec<String> = source.woken.keys().filter_map(|tid| name(*tid)).collect();
    let cpus: Vec<String> = source.arrivals.keys().map(|cpu| cpu.0.to_string()).collect();
    vec![
        title(source),
        cpus.join(","),
        source.count().to_string(),
        rate(source, span).map_or_else(String::new, |rate| format!("{rate:.1}/s")),
        text(source.gaps.mean()),
        text(source.gaps.min()),
        text(source.gaps.quantile(0.99)),
        text(source.service.mean()),
        text(source.service.quantile(0.99)),
        text(source.service.max()),
        raised.join(" "),
        woken.join(" "),
    ]
}

fn thread_row(t: &ThreadStatistics) -> Vec<String> {
    let text = |time: Option<Nanos>| time.map_or_else(String::new, |t| t.to_string());
    vec![
        format!("{} {}", t.tid, t.comm),
        t.jobs.to_string(),
        text(t.execution.map(|s| s.mean)),
        text(t.execution.map(|s| s.p99)),
        text(t.execution.map(|s| s.max)),
        text(t.response.map(|s| s.p99)),
        text(t.latency.map(|s| s.p99)),
        text(t.inter_arrival.map(|s| s.mean)),
    ]
}

/// `surety.trace-irqs/1`.
fn document(args: &IrqsArgs, seen: &Interrupts, summary: &ReadSummary, unread: &[String]) -> Value {
    json!({
        "schema": "surety.trace-irqs/1",
        "file": args.file.display().to_string(),
        "quality": file::quality(summary, unread, &seen.anomalies),
        "duration_ns": span(args, summary),
        "chosen": file::chosen(&args.selection),
        "incomplete": seen.incomplete,
        "unlisted": seen.unlisted,
        "interrupts": seen.sources.iter().map(|s| interrupt(s, span(args, summary))).collect::<Vec<_>>(),
        "threads": seen.threads.iter().map(|t| json!({
            "tid": t.tid,
            "name": t.comm.text(),
            "jobs": t.jobs,
            "execution_ns": t.execution,
            "response_ns": t.response,
            "latency_ns": t.latency,
            "inter_arrival_ns": t.inter_arrival,
        })).collect::<Vec<_>>(),
    })
}

fn interrupt(source: &Interrupt, duration: Nanos) -> Value {
    let (kind, number) = match source.context {
        Context::Irq(irq) => ("irq", Some(irq)),
        Context::Vector(_) => ("vector", None),
        Context::Softirq(vector) => ("softirq", Some(vector)),
    };
    let name = match source.context {
        Context::Irq(_) => source.name.clone(),
        Context::Vector(name) => name.to_owned(),
        Context::Softirq(vector) => softirq_name(vector),
    };
    json!({
        "kind": kind,
        "number": number,
        "name": name,
        "count": source.count(),
        "rate_per_second": rate(source, duration),
        "cpus": source.arrivals.iter().map(|(cpu, n)| json!({ "cpu": cpu, "count": n })).collect::<Vec<_>>(),
        "inter_arrival_ns": series(&source.gaps),
        "service_ns": series(&source.service),
        "service_sum_ns": source.service.sum(),
        "raises": source.raised.iter().map(|(vector, n)| {
            json!({ "softirq": vector, "name": softirq_name(*vector), "count": n })
        }).collect::<Vec<_>>(),
        "wakes": source.woken.iter().map(|(tid, n)| json!({ "tid": tid, "count": n })).collect::<Vec<_>>(),
    })
}

/// A series in numbers; `null` when it is empty.
fn series(series: &Series) -> Value {
    if series.count() == 0 {
        return Value::Null;
    }
    json!({
        "count": series.count(),
        "min": series.min(),
        "mean": series.mean(),
        "p99": series.quantile(0.99),
        "max": series.max(),
    })
}
