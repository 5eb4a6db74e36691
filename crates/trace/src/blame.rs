//! [`BlameBuilder`]: who delayed each job. Every nanosecond from release to completion gets one cause.
//!
//! The rules of who is where are [`crate::jobs`]' own: the same state machine runs, and a watcher beside it keeps what
//! each CPU did and where each thread was. When a job completes, the two histories are laid over each other:
//! - on a CPU: the thread itself, or the innermost interrupt on top of it;
//! - queued on a CPU: the innermost interrupt there, the thread that has it, or nobody (the CPU was still idle: it is
//!   on its way out of idle, or the thread on its way to another CPU);
//! - out of budget: throttled, whatever runs meanwhile;
//! - asleep until a request of a disk was done ([`DiskCause`]): from the I/O scheduler through the device to the wake-up;
//! - asleep: not woken yet, though released, or waiting for something inside its job. Who ended that wait is the thread that
//!   woke it: the holder of a lock, where the futex call is recorded; or an interrupt: the clock, a device;
//! - not known: events are missing, or the histories do not reach back so far.
//!
//! So the parts of a job sum to its response exactly, whatever the events say. The decomposition follows that of `rtla
//! timerlat --auto-analysis` (tools/tracing/rtla), made for every job of any thread, with throttling and migration.
//!
//! A start-up is told over all of its threads, and an access of a stream as well: [`SpanBlame`].
//!
//! Memory does not follow the trace's length: of each CPU the last [`CPU_CHANGES_MAX`] changes at most are kept, of each thread alive
//! the last [`THREAD_CHANGES_MAX`] and the chains of its worst jobs, of all jobs the sums by cause and the causes of the
//! [`SLOWEST_MAX`] slowest; 16 times as many while a start-up that was asked for is under way. Of the [`DEAD_MAX`] threads that died last
//! it is known who they were.

use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_model::job::{Job, Separation};
use surety_units::{CpuId, Nanos, Tid};

use crate::jobs::interrupts::Context;
use crate::jobs::{Anomalies, Machine};
use crate::wanted::Wanted;

mod around;
mod average;
mod chain;
mod disks;
mod kind;
mod on_cpu;
mod past;
mod spans;
mod tells;
mod timeline;

pub use around::{Around, Holder, LANES_MAX, Lane, State, Stretched, coarse};
pub use average::{Average, CAUSES_MAX, SLOWEST_MAX, Slowest, average};
pub use chain::{Stretch, stretches};
pub use disks::{DiskCause, RuleId, Submitter};
pub use kind::Kind;
pub use spans::{SPANS_MAX, SpanBlame, Spans};
pub use tells::SpansWanted;

use tells::Tells;
use timeline::Timelines;

/// Changes of a CPU's occupant or interrupt that are remembered at most, 16 bytes each: seconds of a busy CPU. Where there are
/// many CPUs it is [`CHANGES_MAX`] of all together, and [`CPU_CHANGES_MIN`] of each at least.
pub const CPU_CHANGES_MAX: usize = 1 << 20;
/// The same, at least.
pub const CPU_CHANGES_MIN: usize = 1 << 16;
/// The same of all CPUs together.
pub const CHANGES_MAX: usize = 1 << 22;
/// Changes of a thread's place that are remembered: a marked job's release may lie many sleeps back.
pub const THREAD_CHANGES_MAX: usize = 1 << 12;
/// Dead threads whose names are remembered; what was in the way of a job and is forgotten is not known.
pub const DEAD_MAX: usize = 1 << 12;
/// Times as many changes are remembered while a start-up is under way that was asked for.
const START_FACTOR: usize = 16;
/// Threads that are listed with their jobs: those with most of them.
pub const THREADS_MAX: usize = 1024;
/// Names of interrupts' handlers that are remembered.
const IRQ_NAMES_MAX: usize = 4096;

/// The kernel's order of precedence, as an internal priority tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The stopper threads `migration/N`, above all others.
    Stop,
    /// `SCHED_DEADLINE`, or a thread that inherited it.
    Deadline,
    /// `SCHED_FIFO` and `SCHED_RR`.
    Realtime,
    /// `SCHED_NORMAL`, `SCHED_BATCH`, `SCHED_IDLE`.
    Fair,
}

impl Class {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Class::Stop => "stop",
            Class::Deadline => "deadline",
            Class::Realtime => "realtime",
            Class::Fair => "fair",
        }
    }
}

/// A thread that had the CPU while another wanted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Culprit {
    /// Its id.
    pub tid: Tid,
    /// Its name when the delayed job completed.
    pub comm: Comm,
    /// The kernel's internal priority it had on the CPU: below 0 deadline, 0..=98 realtime, 100..=139 fair.
    pub prio: i32,
}

impl Culprit {
    /// Its scheduling class.
    pub fn class(&self) -> Class {
        match self.prio {
            _ if self.comm.0.starts_with(b"migration/") => Class::Stop,
            ..0 => Class::Deadline,
            0..100 => Class::Realtime,
            _ => Class::Fair,
        }
    }
}

/// What a piece of a job's response went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The job itself ran.
    Own,
    /// Its thread ran, but still for what came before this job.
    Earlier,
    /// This thread ran, of a start-up or a stream or waited for by one.
    Ran(Culprit),
    /// A replay did nothing for as long as the program that was recorded thought.
    Think,
    /// Another thread had the CPU.
    Thread(Culprit),
    /// A device's handler ran.
    Irq(u32),
    /// An interrupt of the processor's own ran: timer, reschedule, function call.
    Vector(&'static str),
    /// A softirq ran.
    Softirq(u32),
    /// The thread's deadline budget was used up.
    Throttled,
    /// It was ready and its CPU idle: waking from idle, or a migration under way.
    Idle,
    /// Released, but asleep: nobody had woken it yet.
    Unwoken,
    /// It waited for a lock inside its job, which this thread let go.
    Lock(Culprit),
    /// It slept inside its job until this thread woke it.
    Awaited(Culprit),
    /// It slept inside its job, and nobody knows who woke it.
    Blocked,
    /// It slept inside its job until an instant had come: a timer of the CPU's woke it.
    Clock,
    /// It slept inside its job until this interrupt or softirq woke it, which is no timer's.
    Device(Context),
    /// It slept until a disk was done, and this is what its request was at.
    Disk(DiskCause),
    /// Threads too many to be told apart had the CPU, or the disk.
    Others,
    /// The trace does not say.
    Unknown,
}

impl Cause {
    /// Whether it is an interrupt of some kind.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Cause::Irq(_) | Cause::Vector(_) | Cause::Softirq(_))
    }
}

/// How much of a response one cause took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub cause: Cause,
    /// All of its time.
    pub time: Nanos,
}

/// A stretch of a response with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its beginning.
    pub from: Nanos,
    /// Its end.
    pub until: Nanos,
    /// The CPU it happened on, or whose queue the thread stood in; `None` where it stood in none.
    pub cpu: Option<CpuId>,
    /// Why.
    pub cause: Cause,
}

impl Piece {
    /// Its length.
    pub fn time(&self) -> Nanos {
        self.until - self.from
    }
}

/// A job and where its response went.
#[derive(Clone, Debug, PartialEq)]
pub struct JobBlame {
    pub job: Job,
    /// Its causes, each once, in the order they first came; they sum to [`Job::response`].
    pub parts: Vec<Part>,
}

impl JobBlame {
    /// The time of one cause.
    pub fn time_of(&self, cause: Cause) -> Nanos {
        self.parts.iter().filter(|part| part.cause == cause).map(|part| part.time).sum()
    }
}

/// A job's response piece by piece, in order of time and without a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    pub job: Job,
    /// Its pieces, from release to completion.
    pub pieces: Vec<Piece>,
}

impl Chain {
    /// Its causes, each once, in the order they first came.
    pub fn parts(&self) -> Vec<Part> {
        chain::parts(&self.pieces)
    }
}

/// A thread whose jobs were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBlame {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub comm: Comm,
    /// How its jobs were separated.
    pub separation: Separation,
    pub jobs: u64,
}

/// A job that is told piece by piece, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Thread id.
    pub tid: Tid,
    /// The thread's name when the job completed.
    pub comm: Comm,
    /// The job and its pieces.
    pub chain: Chain,
    /// Part of it lies between bounds of a switch-in that was not recorded and are too wide: it is told here, and is in no
    /// average.
    pub is_censored: bool,
}

/// Everything a trace shows of who delayed whom.
#[derive(Clone, Debug, Default)]
pub struct Blames {
    /// Chosen threads with at least one job, by thread id: the [`THREADS_MAX`] with most jobs.
    pub threads: Vec<ThreadBlame>,
    /// Chosen threads with jobs that are not listed.
    pub unlisted: u64,
    /// Where the responses of all their jobs went.
    pub all: Average,
    /// The slowest of them.
    pub slowest: Slowest,
    /// The longest response with the CPUs around it, where that was asked for.
    pub around: Option<Around>,
    /// The chains of the longest responses, the longest first.
    pub worst: Vec<Worst>,
    /// Chosen jobs that are in no average, because when they got their CPU is not known.
    pub doubtful: u64,
    /// Time in these of which nobody knows whether they ran.
    pub unknown: Nanos,
    /// Chosen jobs with a switch-in that was not recorded and lies within narrow bounds.
    pub inferred: u64,
    /// Names of interrupts' handlers by number, in order; a shared interrupt has several.
    pub irq_names: Vec<(u32, String)>,
    /// Whether a chosen thread is in the trace, with jobs or without.
    pub is_there: bool,
    /// Words of the I/O schedulers' rules; the first is none.
    pub rules: Vec<String>,
    /// They are of waits for disks, not of jobs.
    pub are_waits: bool,
    /// Start-ups or accesses of a stream, where these were asked for; then there are no jobs.
    pub spans: Spans,
    /// Names of threads, some thousands at most.
    pub names: Vec<Comm>,
    /// What did not go by the book.
    pub anomalies: Anomalies,
}

/// Builds the blame of all wanted jobs from events in order of time. A thread is chosen by the name it bears when the
/// job completes.
#[derive(Clone, Debug)]
pub struct BlameBuilder {
    machine: Machine<Timelines>,
    irq_names: Vec<(u32, String)>,
    begun: bool,
}

impl BlameBuilder {
    /// Nothing seen yet; the `worst` longest jobs keep their chains.
    pub fn new(wanted: Wanted, worst: usize) -> BlameBuilder {
        BlameBuilder::telling(Tells::Jobs, wanted, worst)
    }

    /// The same of waits for disks in place of jobs: from falling asleep until the thread is on a CPU again, for every sleep that a
    /// disk's completion ended.
    pub fn of_waits(wanted: Wanted, worst: usize) -> BlameBuilder {
        BlameBuilder::telling(Tells::Waits, wanted, worst)
    }

    /// The same of the start-ups of a program, or the late and dropped accesses of a stream, over all threads that one waits for.
    pub fn of_spans(wanted: Wanted, spans: SpansWanted) -> BlameBuilder {
        BlameBuilder::telling(Tells::Spans(spans), wanted, 0)
    }

    /// The CPUs around the longest response are kept too, as [`Blames::around`].
    #[must_use]
    pub fn with_around(mut self) -> BlameBuilder {
        self.machine.watch_mut().draw();
        self
    }

    fn telling(tells: Tells, wanted: Wanted, worst: usize) -> BlameBuilder {
        BlameBuilder {
            machine: Machine::new(Timelines::new(tells, wanted, worst)),
            irq_names: Vec::new(),
            begun: false,
        }
    }

    /// Ends the trace.
    pub fn finish(self) -> Blames {
        let (timelines, anomalies) = self.machine.finish();
        Blames { irq_names: self.irq_names, anomalies, ..timelines.finish() }
    }
}

impl TraceSink for BlameBuilder {
    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.begun = true;
        self.machine.watch_mut().observes(window);
    }

    fn event(&mut self, event: &Event<'_>) {
        if !self.begun {
            self.begun = true;
            self.machine.watch_mut().begin(event.time);
        }
        if let EventKind::IrqEntry { irq, name } = event.kind
            && self.irq_names.len() < IRQ_NAMES_MAX
        {
            let at = self.irq_names.partition_point(|(i, n)| (*i, n.as_str()) < (irq, name));
            if self.irq_names.get(at).is_none_or(|(i, n)| (*i, n.as_str()) != (irq, name)) {
                self.irq_names.insert(at, (irq, name.to_owned()));
            }
        }
        self.machine.watch_mut().disks.event(event);
        self.machine.event(event);
    }
}

#[cfg(test)]
mod tests;
