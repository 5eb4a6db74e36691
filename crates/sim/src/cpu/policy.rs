//! [`CpuPolicy`]: what a scheduler implements, and [`Scheduler`]: its row and what makes it.
//!
//! A scheduler owns the queues of its threads on every CPU. It knows these threads and the [`Hardware`], and no other
//! scheduler. The machine calls it; it answers, arms timers, and asks for a new choice with [`Hardware::reschedule`].
//!
//! One seam lets a scheduler run through another: it may answer [`Pick::Serve`], "whatever that one would run
//! here", and hears through [`CpuPolicy::enqueued`], [`CpuPolicy::ran`] and [`CpuPolicy::unserved`]
//! how those it serves fare. The fair server of `SCHED_DEADLINE` is built on it.

use std::ops::Deref;
use surety_model::event::JobMarker;

use surety_model::reservation::Reservation;
use surety_model::schedulers::SchedulerRow;
use surety_units::Nanos;

use crate::cpu::hardware::{Hardware, Rank, ThreadId};

/// A scheduler of the table, or one that no table knows.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler {
    pub row: &'static SchedulerRow,
    /// Makes it for a machine without threads, at its place there.
    pub make: SchedulerMake,
}

impl Deref for Scheduler {
    type Target = SchedulerRow;

    fn deref(&self) -> &SchedulerRow {
        self.row
    }
}

/// Makes a scheduler for a machine without threads, at its place there.
pub type SchedulerMake = fn(&mut Hardware, Rank) -> Box<dyn CpuPolicy>;

/// What a policy would run on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    Nothing,
    /// Nothing: none of those that stood in its queue may run. Sleepers that were kept there are gone now, or a quota is used up.
    Emptied,
    Thread(ThreadId),
    /// Whatever this scheduler would run.
    Serve(Rank),
}

/// Why a thread joins a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    New,
    /// It slept.
    Woken,
    /// It comes from another policy.
    Changed,
}

/// Why a thread leaves a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    Sleeps,
    /// It is gone.
    Exits,
    /// It goes to another policy.
    Changes,
}

/// A scheduler.
///
/// The machine keeps to this: `account` is called with all time a thread of its has run before `dequeue`,
/// `tick` or `pick` on its CPU, and before `enqueue` and `forget` there when [`CpuPolicy::accounts_on_enqueue`] says so;
/// `switch` follows every change of the running thread in which one of the two is its own.
pub trait CpuPolicy {
    /// A thread that may become its own exists, in no queue yet.
    fn admit(&mut self, hardware: &mut Hardware, thread: ThreadId);

    /// Until when it has no room for a reservation that a thread asks for; `None`: it has.
    fn refuses_until(&self, _: &Hardware, _thread: ThreadId, _asked: Reservation) -> Option<Nanos> {
        None
    }

    /// The CPU a new or woken thread goes to.
    fn select_cpu(&mut self, hardware: &mut Hardware, thread: ThreadId, arrival: Arrival) -> usize;

    /// A thread joins the queue of a CPU.
    fn enqueue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, arrival: Arrival);

    /// A thread leaves the queue of its CPU; it may be the current one.
    fn dequeue(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, departure: Departure);

    /// A thread that sleeps goes to another policy: whatever is kept of it in a queue is let go.
    fn forget(&mut self, _hardware: &mut Hardware, _thread: ThreadId) {}

    /// What it would run on a CPU now. The current thread, if its own, takes part.
    fn pick(&mut self, hardware: &mut Hardware, cpu: usize) -> Pick;

    /// A CPU goes from `prev` to `next`: those of the two that are its own.
    fn switch(&mut self, _: &mut Hardware, _cpu: usize, _prev: Option<ThreadId>, _next: Option<ThreadId>) {}

    /// Its current thread has run for `ran` since the last account.
    fn account(&mut self, hardware: &mut Hardware, cpu: usize, thread: ThreadId, ran: Nanos);

    /// The tick of a CPU whose current thread is its own.
    fn tick(&mut self, _hardware: &mut Hardware, _cpu: usize, _thread: ThreadId) {}

    /// A thread joined the queue of a CPU that runs another of its own: says, by asking for a new
    /// choice or not, whether it takes over.
    fn wakeup_preempt(&mut self, hardware: &mut Hardware, cpu: usize, current: ThreadId, woken: ThreadId);

    /// Whether a thread in its hands stands in a queue, and so may make a CPU choose again.
    fn is_queued(&self, thread: ThreadId) -> bool;

    /// The current thread gives way.
    fn yield_now(&mut self, _hardware: &mut Hardware, _cpu: usize, _thread: ThreadId) {}

    /// Whether a thread that wakes a more important one goes on with what takes no time, as in models where nothing but work does.
    fn finishes_steps(&self) -> bool {
        false
    }

    /// These of its threads wait for locks and let these others run on what they have, until it is told otherwise.
    fn lend(&mut self, _hardware: &mut Hardware, _lendings: &[(ThreadId, ThreadId)]) {}

    /// Whether it wants [`CpuPolicy::job`].
    fn hears_of_jobs(&self) -> bool {
        false
    }

    /// A thread of its own, which runs, begins or ends a job.
    fn job(&mut self, _hardware: &mut Hardware, _thread: ThreadId, _marker: JobMarker) {}

    /// One of its timers fires.
    fn timer(&mut self, _hardware: &mut Hardware, _number: u32) {}

    /// The CPU that one of its timers interrupts.
    fn timer_cpu(&self, _number: u32) -> Option<usize> {
        None
    }

    /// Whether the time of that CPU has to be booked before the timer fires.
    fn accounts_for_timer(&self, _number: u32) -> bool {
        false
    }

    /// Whether the time of all CPUs has to be.
    fn accounts_all_for_timer(&self, _number: u32) -> bool {
        false
    }

    /// Whether it looks at the time its current thread has run when this one joins the queue.
    fn accounts_on_enqueue(&self, _thread: ThreadId) -> bool {
        false
    }

    /// Whether a CPU about to choose looks at others at all.
    fn looks(&mut self, _hardware: &Hardware, _cpu: usize) -> bool {
        true
    }

    /// The CPU it would take a thread from for one that is about to choose; that one is accounted before
    /// [`CpuPolicy::pull`] then.
    fn pulls_from(&mut self, _hardware: &Hardware, _cpu: usize) -> Option<usize> {
        None
    }

    /// Takes threads from other CPUs.
    fn pull(&mut self, _hardware: &mut Hardware, _cpu: usize) {}

    /// A CPU was stopped for this ([`Hardware::stop_for`]): a thread goes from there to another one.
    fn push_stopped(&mut self, _hardware: &mut Hardware, _cpu: usize, _to: usize) {}

    /// A CPU has just switched to a thread of this scheduler: those it left waiting may go elsewhere.
    fn push(&mut self, _hardware: &mut Hardware, _cpu: usize) {}

    /// The tick of a busy CPU, whatever runs there: the time to balance. Says whether it wants all CPUs accounted
    /// and [`CpuPolicy::balance`] called.
    fn wants_balance(&mut self, _hardware: &Hardware, _cpu: usize) -> bool {
        false
    }

    /// Evens out the load between CPUs.
    fn balance(&mut self, _hardware: &mut Hardware, _cpu: usize) {}

    /// Whether it wants to hear how all schedulers fare.
    fn watches(&self) -> bool {
        false
    }

    /// A thread of the scheduler `of` joined the queue of a CPU.
    fn enqueued(&mut self, _hardware: &mut Hardware, _cpu: usize, _of: Rank) {}

    /// A thread of the scheduler `of`, or nothing, has run on a CPU for `ran`.
    fn ran(&mut self, _hardware: &mut Hardware, _cpu: usize, _of: Option<Rank>, _ran: Nanos) {}

    /// The scheduler it wanted to serve has nothing to run here.
    fn unserved(&mut self, _hardware: &mut Hardware, _cpu: usize) {}
}
