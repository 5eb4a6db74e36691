//! [`JobSink`]: who takes jobs as they complete.
//!
//! The builder keeps open jobs and totals only; what becomes of a complete job is the sink's business. So a trace of any
//! length is read in memory that follows the threads alive at one time, and a sink that wants all jobs ([`Histories`])
//! pays for them itself.

use surety_model::event::Comm;
use surety_model::job::{Job, OpenJob, Separation, ThreadHistory};
use surety_units::{CpuId, Nanos, Tid};

/// One thread's life, as a sink is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadKey {
    /// Its place in a sink's table. Free for another thread once [`JobSink::ended`] was told of this one.
    pub slot: usize,
    /// Lives are numbered in the order in which they were first seen; no number comes twice.
    pub life: u64,
    /// Thread id.
    pub tid: Tid,
    /// Its name now.
    pub comm: Comm,
    /// How its jobs are separated, as far as is known now.
    pub separation: Separation,
}

/// What is known of a thread when its life, or the trace, ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTotals {
    /// The kernel's priority it last had.
    pub prio: i32,
    /// The job that was open at the end; `None`: there was none, or its release was not seen.
    pub open: Option<OpenJob>,
    /// Jobs given up.
    pub censored: u64,
    /// CPU time.
    pub run: Nanos,
    /// Of that, interrupts that ran on top.
    pub interrupted: Nanos,
    /// Time it wanted a CPU and had none.
    pub waited: Nanos,
    /// Longest single such time.
    pub longest_wait: Nanos,
    /// Time between bounds of switch-ins that were not recorded.
    pub unknown: Nanos,
    /// First and last event of the thread.
    pub seen: (Nanos, Nanos),
    /// What it did from its first event, or the trace's, to the end without a change; `None` where it changed, or nobody knows.
    pub throughout: Option<Throughout>,
}

/// What a thread does that neither gets nor loses a CPU in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Throughout {
    /// It runs.
    Running,
    /// It wants a CPU and gets none.
    Ready,
    /// It sleeps.
    Asleep,
}

impl Throughout {
    /// One word.
    pub fn word(self) -> &'static str {
        match self {
            Throughout::Running => "running",
            Throughout::Ready => "ready",
            Throughout::Asleep => "asleep",
        }
    }
}

/// Why a thread waits for a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It was woken.
    Woken,
    /// It lost its CPU to another.
    Preempted,
    /// It lost its CPU for lack of budget.
    Throttled,
}

/// Somebody who takes jobs, and where the time of threads goes, as it becomes known.
///
/// Calls of one thread come in the order of time. Times on a CPU and waiting times of one thread do not overlap.
pub trait JobSink {
    /// Whether threads are told too of which the recorder says at the end where they are ([`ThreadNote`]), and no event says
    /// anything.
    ///
    /// [`ThreadNote`]: surety_model::event::ThreadNote
    const TAKES_STILL_THREADS: bool = false;

    /// A job is complete.
    fn job(&mut self, thread: &ThreadKey, job: &Job);

    /// A job is complete, but when the thread got its CPU is not known closely enough ([`Job::unknown`]); its release and
    /// its completion are exact. [`JobSink::censored`] is told of it too, after this.
    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        let _ = (thread, job);
    }

    /// The thread fell asleep that was seen to fall asleep before and to get a CPU since, and nobody saw it woken: an
    /// activation from that CPU on, whose `release` is its `start`. It is given up, unless the sink makes something of it.
    fn activation(&mut self, thread: &ThreadKey, job: &Job) {
        self.censored(thread, job.completion);
    }

    /// The trace's first wake-up: it does tell of them, so what activations were told before are jobs whose release was not
    /// seen.
    fn wake_ups_are_told(&mut self) {}

    /// A job of the thread was given up at that time.
    fn censored(&mut self, thread: &ThreadKey, at: Nanos) {
        let _ = (thread, at);
    }

    /// What was told of the thread's jobs so far is void: it has begun to mark its jobs, and those were busy periods
    /// of its set-up.
    fn forget(&mut self, thread: &ThreadKey);

    /// The thread was on that CPU.
    #[inline]
    fn ran(&mut self, thread: &ThreadKey, cpu: CpuId, from: Nanos, until: Nanos) {
        let _ = (thread, cpu, from, until);
    }

    /// The thread wanted a CPU, that one last, and had none.
    #[inline]
    fn waited(&mut self, thread: &ThreadKey, cpu: CpuId, from: Nanos, until: Nanos, why: Wait) {
        let _ = (thread, cpu, from, until, why);
    }

    /// The thread lost its CPU to another, or to nobody ([`Tid::IDLE`]), while it wanted to run on.
    #[inline]
    fn preempted(&mut self, thread: &ThreadKey, at: Nanos, by: Tid, comm: Comm) {
        let _ = (thread, at, by, comm);
    }

    /// The thread is gone, or the trace is at its end: nothing more is told of this life.
    fn ended(&mut self, thread: &ThreadKey, totals: &ThreadTotals);
}

/// Keeps every job of every thread. Memory follows the number of jobs.
#[derive(Clone, Debug, Default)]
pub struct Histories {
    /// By slot: complete jobs, and the doubtful ones.
    open: Vec<(Vec<Job>, Vec<Job>)>,
    ended: Vec<(u64, ThreadHistory)>,
}

impl Histories {
    /// By thread id, the lives of one id in order of time.
    pub fn finish(mut self) -> Vec<ThreadHistory> {
        self.ended.sort_by_key(|(life, history)| (history.tid, *life));
        self.ended.into_iter().map(|(_, history)| history).collect()
    }

    fn open(&mut self, slot: usize) -> &mut (Vec<Job>, Vec<Job>) {
        if self.open.len() <= slot {
            self.open.resize_with(slot + 1, Default::default);
        }
        &mut self.open[slot]
    }
}

impl JobSink for Histories {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        self.open(thread.slot).0.push(*job);
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        self.open(thread.slot).1.push(*job);
    }

    fn forget(&mut self, thread: &ThreadKey) {
        *self.open(thread.slot) = Default::default();
    }

    fn ended(&mut self, thread: &ThreadKey, totals: &ThreadTotals) {
        let (jobs, doubtful) = self.open.get_mut(thread.slot).map(std::mem::take).unwrap_or_default();
        let history = ThreadHistory {
            tid: thread.tid,
            comm: thread.comm,
            prio: totals.prio,
            separation: thread.separation,
            jobs,
            open: totals.open,
            censored: totals.censored,
            doubtful,
            run: totals.run,
            interrupted: totals.interrupted,
            waited: totals.waited,
            longest_wait: totals.longest_wait,
            unknown: totals.unknown,
            seen: totals.seen,
        };
        self.ended.push((thread.life, history));
    }
}
