//! Every interrupt of a trace file as a source of work. JSON: `docs/formats/trace-irqs.md`.

use serde_json::{Value, json};
use surety_trace::ThreadStatistics;
use surety_trace::interrupts::{Interrupt, Interrupts, Series};
use surety_trace::jobs::interrupts::{Context, softirq_name};
use surety_units::Tid;

use super::{Column, ReadTrace, TraceReport, cell, table};
use crate::table::{checks, led};
use crate::text::Style;

/// Interrupts, and the threads made for them.
#[derive(Debug)]
pub struct TraceIrqs {
    pub read: ReadTrace,
    pub found: Interrupts,
}

impl TraceReport for TraceIrqs {
    fn text(&self, style: &Style) -> String {
        let Interrupts { sources, threads, anomalies, incomplete, .. } = &self.found;
        let name = |tid: &Tid| threads.iter().find(|t| t.tid == *tid).map(|t| t.comm.to_string());
        let sources = table(
            sources,
            &[
                ("interrupt", &interrupt_title),
                ("CPUs", &|s| joined(",", s.arrivals.keys().map(|cpu| cpu.0.to_string()))),
                ("count", &|s| s.count().to_string()),
                ("rate", &|s| cell(self.rate(s).map(|rate| format!("{rate:.1}/s")))),
                ("every", &|s| cell(s.gaps.mean())),
                ("min", &|s| cell(s.gaps.min())),
                ("p99", &|s| cell(s.gaps.quantile(0.99))),
                ("service", &|s| cell(s.service.mean())),
                ("p99", &|s| cell(s.service.quantile(0.99))),
                ("max", &|s| cell(s.service.max())),
                ("raises", &|s| joined(" ", s.raised.keys().map(|vector| softirq_name(*vector)))),
                ("threads", &|s| joined(" ", s.woken.keys().filter_map(name))),
            ],
            style,
        );
        let mut text = sources + "\n";
        if !threads.is_empty() {
            let columns: [Column<'_, ThreadStatistics>; 8] = [
                ("thread", &|t| format!("{} {}", t.tid, t.comm)),
                ("jobs", &|t| t.jobs.to_string()),
                ("execution", &|t| cell(t.execution.map(|s| s.mean))),
                ("p99", &|t| cell(t.execution.map(|s| s.p99))),
                ("max", &|t| cell(t.execution.map(|s| s.max))),
                ("response p99", &|t| cell(t.response.map(|s| s.p99))),
                ("latency p99", &|t| cell(t.latency.map(|s| s.p99))),
                ("arrivals every", &|t| cell(t.inter_arrival.map(|s| s.mean))),
            ];
            text += &(table(threads, &columns, style) + "\n");
        }
        let service = format!(
            "of handlers is their time less what is nested inside; {incomplete} handlings have no beginning or no end in the trace"
        );
        let missed = "arrivals there are not counted, and gaps not measured across them";
        text + &led("service  ", &service, style) + &checks(&self.read.incomplete(anomalies, missed), style)
    }

    fn json(&self) -> Value {
        let found = &self.found;
        json!({
            "schema": "surety.trace-irqs/1",
            "file": self.read.file,
            "quality": self.read.quality(&found.anomalies),
            "duration_ns": self.read.span(),
            "chosen": self.read.chosen(),
            "incomplete": found.incomplete,
            "unlisted": found.unlisted,
            "interrupts": found.sources.iter().map(|source| self.interrupt(source)).collect::<Vec<_>>(),
            "threads": found.threads.iter().map(|t| json!({
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
}

impl TraceIrqs {
    /// Arrivals in a second; `None` for a trace of no length.
    fn rate(&self, source: &Interrupt) -> Option<f64> {
        let span = self.read.span();
        span.is_positive().then(|| source.count() as f64 / span.as_secs_f64())
    }

    fn interrupt(&self, source: &Interrupt) -> Value {
        let (kind, number, name) = match source.context {
            Context::Irq(irq) => ("irq", Some(irq), source.name.clone()),
            Context::Vector(name) => ("vector", None, name.to_owned()),
            Context::Softirq(vector) => ("softirq", Some(vector), softirq_name(vector)),
        };
        json!({
            "kind": kind,
            "number": number,
            "name": name,
            "count": source.count(),
            "rate_per_second": self.rate(source),
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
}

fn joined(between: &str, words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(between)
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

/// `irq 29 virtio1-req.0`, `local_timer`, `softirq TIMER`.
pub fn interrupt_title(source: &Interrupt) -> String {
    match source.context {
        Context::Irq(irq) => format!("irq {irq} {}", source.name),
        Context::Vector(name) => name.to_owned(),
        Context::Softirq(vector) => format!("softirq {}", softirq_name(vector)),
    }
}
