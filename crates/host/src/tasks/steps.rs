//! The steps of a job with the places of what they name, ready to be taken.

use surety_enforce::{attr_of_policy, attr_of_reservation};
use surety_kernel::SchedAttr;
use surety_model::activation::run_key;
use surety_model::distribution::TimeDistribution;
use surety_model::workload::{Fill, Phase, Schedule, UtilClamp, leaves};
use surety_units::{CpuSet, Nanos};

use crate::shared::SharedObjects;

/// One step of a job.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// CPU time drawn under this name; `None`: never done.
    Run(Option<TimeDistribution>, String),
    Busy(Nanos),
    Sleep(Nanos),
    /// Of the timer of this place: how far it moves on, and whether a late use leaves it where it is.
    Timer(usize, Nanos, bool),
    /// The same of a timer of several threads.
    SharedTimer(usize, Nanos, bool),
    Lock(usize),
    Unlock(usize),
    Wait(usize),
    Signal(usize),
    /// A condition, and the lock that is given back meanwhile.
    Await(usize, usize),
    Notify(usize),
    NotifyAll(usize),
    Barrier(usize),
    Yield,
    Fill(Fill),
    Cpus(CpuSet),
    Become(SchedAttr),
    Clamp(UtilClamp),
    /// A control group; `None`: that of the run.
    Group(Option<String>),
}

/// Phases with the places of what they name.
pub(super) fn steps_of(phases: &[Phase], key: &str, shared: &SharedObjects) -> Option<Vec<Step>> {
    let mut runs = 0;
    let mut timers: Vec<&str> = Vec::new();
    let mut steps = Vec::new();
    for phase in leaves(phases) {
        steps.push(match phase {
            Phase::Run(work) => {
                runs += 1;
                Step::Run(Some(work.clone()), run_key(key, runs - 1))
            }
            Phase::Busy(length) => Step::Busy(*length),
            Phase::Sleep(length) => Step::Sleep(*length),
            Phase::Timer(timer) if timer.shared => {
                Step::SharedTimer(shared.timer_named(&timer.name)?, timer.period, timer.absolute)
            }
            Phase::Timer(timer) => {
                Step::Timer(place_of(&mut timers, &timer.name), timer.period, timer.absolute)
            }
            Phase::Lock(name) => Step::Lock(shared.lock_named(name)?),
            Phase::Unlock(name) => Step::Unlock(shared.lock_named(name)?),
            Phase::Wait(name) => Step::Wait(shared.event_named(name)?),
            Phase::Signal(name) => Step::Signal(shared.event_named(name)?),
            Phase::Await { condition, lock } => {
                Step::Await(shared.condition_named(condition)?, shared.lock_named(lock)?)
            }
            Phase::Notify(name) => Step::Notify(shared.condition_named(name)?),
            Phase::NotifyAll(name) => Step::NotifyAll(shared.condition_named(name)?),
            Phase::Barrier(name) => Step::Barrier(shared.barrier_named(name)?),
            Phase::Yield => Step::Yield,
            Phase::Fill(fill) => Step::Fill(fill.clone()),
            Phase::Cpus(cpus) => Step::Cpus(cpus.unwrap_or(shared.cpus())),
            Phase::Become(schedule) => Step::Become(attr_of_schedule(schedule)),
            Phase::Clamp(clamp) => Step::Clamp(*clamp),
            Phase::Group(group) => Step::Group(group.clone()),
            Phase::Loop { .. } => return None,
        });
    }
    Some(steps)
}

/// What the kernel is asked for to schedule a thread so.
fn attr_of_schedule(schedule: &Schedule) -> SchedAttr {
    match &schedule.reservation {
        Some(reservation) => attr_of_reservation(reservation),
        None => attr_of_policy(schedule.policy),
    }
}

/// The place of a name among those that were met.
fn place_of<'n>(names: &mut Vec<&'n str>, name: &'n str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
