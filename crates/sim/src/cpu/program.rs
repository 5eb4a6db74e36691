//! [`Programs`]: what the threads of a machine do, one [`Step`] at a time.
//!
//! A thread asks for its next step while it is on a CPU and has nothing left to do, as a real thread does: so a job
//! starts at the instant the thread first runs, and a job that is late begins at the instant the one before ended,
//! without sleeping in between.

use surety_model::event::JobMarker;
use surety_units::Nanos;

use crate::cpu::at_disk::AtDisk;
use crate::cpu::hardware::ThreadId;

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Uses this much CPU time.
    Run(Nanos),
    /// Uses CPU time for ever.
    RunForever,
    /// Sleeps until this instant; one that has passed is no sleep at all.
    SleepUntil(Nanos),
    /// Takes a resource, and waits for it while another thread holds it.
    Lock(usize),
    /// Gives a resource back.
    Unlock(usize),
    /// Takes one raising of an event, and waits for it while there is none.
    Wait(usize),
    /// The same until an instant at the latest, when it goes on without one.
    WaitUntil(usize, Nanos),
    /// As [`Step::Wait`], for what a disk brings: no signal wakes who waits so.
    Block(usize),
    /// Raises an event: it is kept until a thread takes it, and the most important waiter is woken to do so.
    Signal(usize),
    /// Raises an event for each thread that waits for it, and wakes all of them in one call.
    SignalAll(usize),
    /// Is done with the request of a device that it last took, if any, and takes the next: uses the CPU time that needs.
    /// Waits while there is none; asked again, it says the same.
    Serve(usize),
    /// Gives up the CPU as `sched_yield` does.
    Yield,
    /// May use other CPUs from now on, by the number of [`crate::cpu::machine::Machine::add_place`].
    Confine(usize),
    /// Is scheduled otherwise from now on, by the number of [`crate::cpu::machine::Machine::add_schedule`].
    Become(usize),
    /// Is in another control group from now on, by its place in the machine's list; `None` is the root.
    Regroup(Option<usize>),
    /// Ends.
    Exit,
}

/// The instant of a question, as a thread sees it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Simulated time.
    pub now: Nanos,
    /// CPU time the thread has used so far.
    pub run: Nanos,
    /// The thread's place among the threads of the machine.
    pub thread: ThreadId,
}

/// What all threads of a machine do.
pub trait Programs {
    /// The next step of the thread. A program that never runs, sleeps or ends would keep time from passing.
    ///
    /// Markers it writes appear in the trace at this instant.
    fn next(&mut self, at: Moment, mark: &mut dyn FnMut(JobMarker)) -> Step;

    /// Hands over what the thread did with disks in that step; only asked where somebody wants events.
    fn tell(&mut self, _tell: &mut dyn FnMut(AtDisk)) {}
}
