//! [`Job`]: one start as it is asked for, and [`Outcome`]: what became of it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use surety_model::event::{Span, SpanFate};
use surety_model::startup::Attempt;
use surety_model::workload::Startup;
use surety_units::{CpuSet, Nanos, Tid};

use super::Subject;
use super::pace::{Gap, Pace};
use crate::disks::Counter;
use crate::spans::Speaker;

/// One start to be made, in a thread of its own.
pub(super) struct Job {
    pub startup: Startup,
    pub subject: Subject,
    /// Where it is started.
    pub directory: Option<PathBuf>,
    /// Whether the pages of the files there are dropped before.
    pub forget: bool,
    /// The file below the disk, where the disk goes through the page cache to it.
    pub below: Option<File>,
    /// Counts what its disk moves for all.
    pub counter: Option<Counter>,
    /// How a replay runs.
    pub pace: Pace,
    pub mark: Option<String>,
    pub cpus: CpuSet,
    /// Given up after this.
    pub limit: Nanos,
    /// Given up at this instant.
    pub latest: Nanos,
    pub stop: Arc<AtomicBool>,
    /// Which it is of those beside the loads.
    pub number: u64,
    /// Says in the trace what happens.
    pub speaker: Speaker,
}

/// What became of one start.
pub(super) struct Outcome {
    pub attempt: Attempt,
    /// When it was ready or given up.
    pub ended: Nanos,
    /// The thread that did the work, where this one only waited for it: of a program its first, or the one that read what it printed.
    pub worker: Option<Tid>,
    /// CPU time of the program.
    pub cpu_time: Nanos,
    /// Of a replay.
    pub gaps: Vec<Gap>,
    /// Bytes that its disk had moved when it began, and when it had ended.
    pub moved: Option<[(Nanos, u64); 2]>,
}

impl Outcome {
    /// Begun then; ready at an instant, or given up at the latest one.
    pub fn of(begin: Nanos, ready: Option<Nanos>, until: Nanos) -> Outcome {
        let (attempt, ended) = match ready.filter(|at| *at <= until) {
            Some(at) => (Attempt::Ready(at - begin), at),
            None => (Attempt::GivenUp(until - begin), until),
        };
        Outcome { attempt, ended, worker: None, cpu_time: Nanos::ZERO, gaps: Vec::new(), moved: None }
    }
    /// The same for the trace.
    pub fn span<'a>(&self, number: u64, name: &'a str) -> Span<&'a str> {
        let (fate, took) = match self.attempt {
            Attempt::Ready(took) => (SpanFate::Ready, took),
            Attempt::GivenUp(took) => (SpanFate::GivenUp, took),
        };
        Span { fate, number, begin: self.ended - took, end: self.ended, thread: self.worker, name }
    }
}
