//! How long threads had a CPU and waited for one, added up by thread. JSON: `docs/formats/trace-timehist.md`.

use serde_json::{Value, json};
use surety_trace::slices::{CpuTimes, SliceSummary, SliceTimes, Spread};

use super::{RECORD_THEM, ReadTrace, TraceReport, cell, share};
use crate::quantity::number_of;
use crate::table::{Check, checks, sheet_of};
use crate::text::Style;

/// A title, how soon it is left out for want of room, and what it shows of a thread.
type RankedColumn<'a> = (&'a str, u8, &'a dyn Fn(&SliceTimes) -> String);

/// Threads with their times.
#[derive(Debug)]
pub struct TraceTimehist {
    pub read: ReadTrace,
    /// The sums.
    pub summary: SliceSummary,
    /// Threads that are shown.
    pub top: usize,
}

impl TraceReport for TraceTimehist {
    fn text(&self, style: &Style) -> String {
        let (threads, cpus) = self.summary.totals();
        let shown = &threads[..threads.len().min(self.top)];
        let sum = |spread: &Spread| cell((spread.count > 0).then_some(spread.sum));
        let most = |spread: &Spread| cell((spread.count > 0).then_some(spread.max));
        // Each title names what it is of: where there is no room for all, means and the like go first.
        let columns: [RankedColumn<'_>; 12] = [
            ("tid name", 0, &|t| format!("{} {}", t.tid, t.comm)),
            ("times on", 2, &|t| t.run.count.to_string()),
            ("run", 0, &|t| sum(&t.run)),
            ("mean run", 9, &|t| cell(t.run.mean())),
            ("longest run", 6, &|t| most(&t.run)),
            ("delay", 0, &|t| sum(&t.delay)),
            ("mean delay", 8, &|t| cell(t.delay.mean())),
            ("longest delay", 1, &|t| most(&t.delay)),
            ("preempted", 5, &|t| sum(&t.preempted)),
            ("asleep", 3, &|t| sum(&t.asleep)),
            ("blocked", 4, &|t| sum(&t.blocked)),
            ("CPU changes", 7, &|t| t.moves.to_string()),
        ];
        let header: Vec<(String, u8)> =
            columns.iter().map(|(title, omit, _)| ((*title).to_owned(), *omit)).collect();
        let row = |thread| columns.iter().map(|(_, _, value)| value(thread)).collect();
        let rows: Vec<Vec<String>> = shown.iter().map(row).collect();
        sheet_of(&header, &rows).text(style) + "\n" + &checks(&self.checks(&threads, &cpus), style)
    }

    fn json(&self) -> Value {
        let (threads, cpus) = self.summary.totals();
        json!({
            "schema": "surety.trace-timehist/1",
            "file": self.read.file,
            "quality": self.read.quality(&Default::default()),
            "chosen": self.read.chosen(),
            "threads": threads.iter().take(self.top).map(thread).collect::<Vec<_>>(),
            "threads_not_listed": threads.len().saturating_sub(self.top) as u64 + self.summary.folded.0,
            "cpus": cpus.iter().map(|c| json!({
                "cpu": c.cpu, "busy_ns": c.busy, "idle_ns": c.idle, "switches": c.switches,
            })).collect::<Vec<_>>(),
        })
    }
}

impl TraceTimehist {
    /// How much there is, and how far it can be trusted.
    fn checks(&self, threads: &[SliceTimes], cpus: &[CpuTimes]) -> Vec<Check> {
        let busy = |cpu: &CpuTimes| {
            let known = cpu.busy + cpu.idle;
            let part = known.is_positive().then(|| cpu.busy.get() as f64 / known.get() as f64);
            format!("{}: {}", cpu.cpu.0, part.map_or_else(|| "not known".to_owned(), share))
        };
        let mut list = Vec::new();
        if !cpus.is_empty() {
            list.push(Check::good(
                "CPUs",
                format!("busy {}", cpus.iter().map(busy).collect::<Vec<_>>().join(", ")),
            ));
        }
        let more = threads.len().saturating_sub(self.top) as u64 + self.summary.folded.0;
        if more > 0 {
            list.push(Check::good("threads", format!("{} with --top", number_of(more, "more thread"))));
        }
        let cut: u64 = threads.iter().map(|thread| thread.cut).sum();
        if cut > 0 {
            let found = format!(
                "the beginning of {} on a CPU is not in the trace; not counted",
                number_of(cut, "time")
            );
            list.push(Check::good("cut", found));
        }
        if self.read.lacks(&["sched:sched_switch"]) {
            let found = "no sched_switch: nothing is known of who had a CPU";
            list.push(Check::limited("missing", found, RECORD_THEM));
        }
        if self.read.lacks_wake_ups() {
            let found = "no sched_waking and no sched_wakeup: delays are known of preempted threads only";
            list.push(Check::limited("missing", found, RECORD_THEM));
        }
        let lost = "nothing is said of times in which events are missing";
        list.extend(self.read.incomplete(&Default::default(), lost));
        list
    }
}

fn thread(t: &SliceTimes) -> Value {
    json!({
        "tid": t.tid,
        "name": t.comm.text(),
        "cut": t.cut,
        "run": spread(&t.run),
        "delay": spread(&t.delay),
        "preempted": spread(&t.preempted),
        "asleep": spread(&t.asleep),
        "blocked": spread(&t.blocked),
        "cpu_changes": t.moves,
    })
}

fn spread(of: &Spread) -> Value {
    json!({ "count": of.count, "sum_ns": of.sum, "max_ns": of.max })
}
