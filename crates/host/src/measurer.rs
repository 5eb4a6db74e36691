//! [`MeasurerPriority`]: the thread that measures wakes up in time while devices of the machine are busy.
//!
//! With PREEMPT_RT the timers of ordinary threads expire in softirqs (`kernel/time/hrtimer.c`), and softirqs of a CPU wait
//! for whoever has them disabled there. A thread that handles packets has (`napi_threaded_poll` in `net/core/dev.c`), also
//! while its reservation is used up: then no ordinary thread of that CPU is woken until it has budget again, and, with
//! more packets than it can handle, hardly then. Timers of realtime threads expire in the interrupt itself.

use surety_kernel::Kernel;
use surety_kernel::sched::{SchedAttr, SchedPolicy};
use surety_units::Tid;

/// The calling thread with the lowest realtime priority, until this is dropped.
pub(crate) struct MeasurerPriority<'a> {
    kernel: &'a dyn Kernel,
    before: Option<SchedAttr>,
}

impl<'a> MeasurerPriority<'a> {
    /// Raises the calling thread where it has to be; without the right to do so it stays as it is.
    pub fn while_needed(kernel: &'a dyn Kernel, is_needed: bool) -> MeasurerPriority<'a> {
        let raised = SchedAttr { reset_on_fork: true, ..SchedAttr::from(SchedPolicy::Fifo { priority: 1 }) };
        let before = kernel.scheduler(Tid(0)).ok().filter(|_| is_needed);
        let before = before.filter(|_| kernel.set_scheduler_directly(Tid(0), &raised).is_ok());
        MeasurerPriority { kernel, before }
    }
}

impl Drop for MeasurerPriority<'_> {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = self.kernel.set_scheduler_directly(Tid(0), before);
        }
    }
}
