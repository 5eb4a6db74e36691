//! [`Wanted`]: which part of a trace counts.
//!
//! What it means depends on what is counted. **Events**: those in the context of a chosen thread or that name it, on
//! those CPUs, in that time. **Jobs**: those of the chosen threads that started on one of those CPUs and were released in
//! that time. **CPU time and waiting**: the part of it on (in the queue of) those CPUs and inside that time. **Arrivals of
//! interrupts**: those on these CPUs in that time.
//!
//! The state machine sees every event all the same: what happens elsewhere says where a thread is.

use surety_model::event::Comm;
use surety_model::job::Job;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

/// Which part of a trace counts; what is empty or `None` excludes nothing. Every condition has to be met.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// These threads.
    pub tids: Vec<Tid>,
    /// Threads of these names.
    pub names: Vec<Comm>,
    /// These CPUs.
    pub cpus: Option<CpuSet>,
    /// From so long after the trace's first event on.
    pub from: Option<Nanos>,
    /// Until so long after the trace's first event, that instant excluded.
    pub to: Option<Nanos>,
}

impl Wanted {
    /// The part of a trace of this span that is chosen.
    pub fn span(&self, (first, last): (Nanos, Nanos)) -> (Nanos, Nanos) {
        let from = self.from.map_or(first, |from| first.saturating_add(from)).min(last);
        let to = self.to.map_or(last, |to| first.saturating_add(to)).min(last);
        (from, to.max(from))
    }

    /// Whether threads are chosen at all.
    pub fn chooses_threads(&self) -> bool {
        !self.tids.is_empty() || !self.names.is_empty()
    }

    /// Whether the thread of this id and name is chosen.
    #[inline]
    pub fn thread(&self, tid: Tid, name: Comm) -> bool {
        self.tid(tid) && (self.names.is_empty() || self.names.contains(&name))
    }

    /// Whether a thread of this id may be chosen, whatever its name.
    #[inline]
    pub fn tid(&self, tid: Tid) -> bool {
        self.tids.is_empty() || self.tids.contains(&tid)
    }

    /// Whether the CPU is.
    #[inline]
    pub fn cpu(&self, cpu: CpuId) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))
    }

    /// The time that counts in a trace whose first event was then.
    pub fn window(&self, first: Nanos) -> Window {
        Window {
            from: self.from.map_or(Nanos::new(i64::MIN), |from| first.saturating_add(from)),
            to: self.to.map_or(Nanos::MAX, |to| first.saturating_add(to)),
        }
    }

    /// Whether a job counts, its thread aside.
    #[inline]
    pub fn job(&self, window: Window, job: &Job) -> bool {
        window.contains(job.release) && self.cpu(job.cpu)
    }
}

/// The time that counts, on the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from: Nanos,
    to: Nanos,
}

impl Window {
    /// From one instant until another, that excluded.
    pub fn new((from, to): (Nanos, Nanos)) -> Window {
        Window { from, to }
    }

    /// All of it.
    pub const ALL: Window = Window { from: Nanos::new(i64::MIN), to: Nanos::MAX };

    /// Whether the instant is inside.
    #[inline]
    pub fn contains(self, at: Nanos) -> bool {
        self.from <= at && at < self.to
    }

    /// How much of a span is inside.
    #[inline]
    pub fn overlap(self, from: Nanos, until: Nanos) -> Nanos {
        let (from, until) = (from.max(self.from), until.min(self.to));
        if from < until { until - from } else { Nanos::ZERO }
    }
}
