//! [`Watch`]: somebody who is told whenever the state machine changes its mind about a CPU or a thread.
//!
//! `()` watches nothing and costs nothing: the calls are compiled away. That is how [`super::JobBuilder`] runs.

use surety_model::event::Comm;
use surety_model::job::{Job, Separation};
use surety_units::{CpuId, Nanos, Tid};

use super::interrupts::Context;

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
    /// It is on that CPU.
    On(CpuId),
}

/// A thread as a watcher sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) tid: Tid,
    pub(crate) comm: Comm,
    pub(crate) place: Whereabouts,
    pub(crate) separation: Separation,
    /// All its complete jobs.
    pub(crate) jobs: &'a [Job],
}

/// Is told of changes; a call without one is possible.
pub(crate) trait Watch {
    /// Whether anything is done at all.
    const WATCHES: bool;

    /// From `at` on the CPU does this: the occupant with its priority, below the innermost interrupt.
    fn cpu(&mut self, cpu: CpuId, at: Nanos, occupant: Occupant, prio: i32, context: Option<Context>);

    /// From `at` on the thread is so.
    fn thread(&mut self, slot: usize, at: Nanos, seen: &Seen<'_>);
}

impl Watch for () {
    const WATCHES: bool = false;

    fn cpu(&mut self, _: CpuId, _: Nanos, _: Occupant, _: i32, _: Option<Context>) {}

    fn thread(&mut self, _: usize, _: Nanos, _: &Seen<'_>) {}
}
