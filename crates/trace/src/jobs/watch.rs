//! [`Watch`]: somebody who is told whenever the state machine changes its mind about a CPU or a thread, and who brings
//! the sink that takes the jobs.
//!
//! [`Unwatched`] only has a sink: the calls are compiled away. That is how [`super::JobBuilder`] runs.

use surety_model::event::{Comm, SpanMarker};
use surety_units::{CpuId, Nanos, Tid};

use super::interrupts::Context;
use super::sink::JobSink;

/// Who is on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// Not known since the trace began or events were lost.
    Unknown,
    /// Nobody.
    Idle,
    /// The thread of that slot: one life of a thread id.
    Thread(usize),
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// Not known.
    Unknown,
    /// It gave up the CPU.
    Asleep,
    /// It waits in the queue of that CPU.
    Queued(CpuId),
    /// It waits for its budget.
    Throttled,
    On(CpuId),
}

/// A thread as a watcher sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) tid: Tid,
    pub(crate) comm: Comm,
    pub(crate) place: Whereabouts,
    /// It is dead; its slot will be another thread's.
    pub(crate) ended: bool,
}

/// The thread that woke another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waker {
    pub(crate) slot: usize,
    pub(crate) tid: Tid,
    pub(crate) comm: Comm,
    pub(crate) prio: i32,
    /// The woken one waited for a lock.
    pub(crate) lock: bool,
}

/// Is told of changes; a call without one is possible.
pub(crate) trait Watch {
    /// Whether anything is done at all.
    const WATCHES: bool;
    /// Dead threads that keep their slots, the last ones to die.
    const REMEMBERED: usize;
    /// Who takes the jobs.
    type Sink: JobSink;

    /// Who takes the jobs.
    fn sink(&mut self) -> &mut Self::Sink;

    /// From `at` on the CPU does this: the occupant with its priority, below the innermost interrupt.
    fn cpu(&mut self, cpu: CpuId, at: Nanos, occupant: Occupant, prio: i32, context: Option<Context>);

    /// The thread of that slot is woken by another.
    fn woken(&mut self, slot: usize, at: Nanos, waker: Waker) {
        let _ = (slot, at, waker);
    }

    /// The thread of that slot is woken in an interrupt.
    fn woken_in(&mut self, slot: usize, at: Nanos, context: Context) {
        let _ = (slot, at, context);
    }

    /// From `at` on the thread is so.
    fn thread(&mut self, slot: usize, at: Nanos, seen: Seen);

    /// The thread of that slot says something of a start-up or a stream; `worker`: the slot of the thread that it names.
    fn span(&mut self, slot: usize, worker: Option<usize>, marker: &SpanMarker<&str>) {
        let _ = (slot, worker, marker);
    }
}

/// Watches nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unwatched<S>(pub(crate) S);

impl<S: JobSink> Watch for Unwatched<S> {
    const WATCHES: bool = false;
    const REMEMBERED: usize = 0;
    type Sink = S;

    #[inline]
    fn sink(&mut self) -> &mut S {
        &mut self.0
    }

    fn cpu(&mut self, _: CpuId, _: Nanos, _: Occupant, _: i32, _: Option<Context>) {}

    fn thread(&mut self, _: usize, _: Nanos, _: Seen) {}
}
