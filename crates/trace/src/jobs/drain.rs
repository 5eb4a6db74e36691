//! Jobs handed out as they end, for a trace that does not: [`JobBuilder::drain`] keeps the builder's memory bounded by the
//! threads that live.

use surety_model::event::Comm;
use surety_model::job::Job;
use surety_units::{Nanos, Tid};

use super::watch::{Occupant, Watch};
use super::{JobBuilder, Machine};

/// One thread, as far as the trace has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// Thread id.
    pub tid: Tid,
    /// Its last name.
    pub comm: Comm,
    /// Jobs completed since they were last handed out, in the order of completion.
    pub jobs: &'a [Job],
    /// Longest single time since the beginning that it wanted a CPU and had none.
    pub longest_wait: Nanos,
    /// The last event that names it.
    pub seen: Nanos,
}

impl JobBuilder {
    /// Shows every thread with its jobs since the last call, and forgets those jobs, and threads that have ended. What
    /// [`JobBuilder::finish`] returns later is without them.
    ///
    /// A thread's first marker says that its busy periods before were no jobs: those handed out by then have been
    /// handed out.
    pub fn drain(&mut self, visit: impl FnMut(Progress<'_>)) {
        self.machine.drain(visit);
    }
}

impl<W: Watch> Machine<W> {
    fn drain(&mut self, mut visit: impl FnMut(Progress<'_>)) {
        for slot in 0..self.threads.slots.len() {
            let thread = &mut self.threads.slots[slot];
            if thread.forgotten {
                continue;
            }
            visit(thread.progress());
            thread.forget_jobs();
            let occupies = |cpu: &super::Cpu| matches!(cpu.occupant, Occupant::Thread(s) if s == slot);
            if thread.ended && !self.cpus.iter().any(occupies) {
                self.throttles.end_of(slot);
                self.threads.forget(slot);
            }
        }
    }
}
