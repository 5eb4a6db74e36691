//! [`Phase`]: the steps of a job, and what follows from them about its task.

use surety_units::Nanos;

use super::{LockProtocol, Task, TaskBody, Workload};
use crate::distribution::TimeDistribution;

/// One step of a job. A job gives back every resource it takes, and takes none twice ([`crate::formats::toml`] checks).
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Burns CPU time.
    Run(TimeDistribution),
    Sleep(Nanos),
    /// Takes a resource.
    Lock(String),
    /// Gives it back.
    Unlock(String),
    /// Waits for an event.
    Wait(String),
    /// Raises an event.
    Signal(String),
}

impl TaskBody {
    /// Whether a thread is made for it that tells of its jobs itself.
    pub fn is_made(&self) -> bool {
        matches!(self, TaskBody::Synthetic(_) | TaskBody::Phases(_))
    }
}

impl Task {
    /// The first phase in which its jobs may stand still: a sleep, a lock or an event, in words.
    pub fn waits_inside(&self) -> Option<String> {
        let TaskBody::Phases(phases) = &self.body else { return None };
        phases.iter().find_map(|phase| match phase {
            Phase::Sleep(length) => Some(format!("sleep {length}")),
            Phase::Lock(name) => Some(format!("lock `{name}`")),
            Phase::Wait(name) => Some(format!("wait `{name}`")),
            Phase::Run(_) | Phase::Unlock(_) | Phase::Signal(_) => None,
        })
    }
}

impl Workload {
    /// The first lock with inheritance that a task takes.
    pub fn lending_lock_of<'t>(&self, task: &'t Task) -> Option<&'t str> {
        let TaskBody::Phases(phases) = &task.body else { return None };
        let lends = |name: &String| {
            self.resources.iter().any(|r| r.name == *name && r.protocol == LockProtocol::Inherit)
        };
        phases.iter().find_map(|phase| match phase {
            Phase::Lock(name) if lends(name) => Some(name.as_str()),
            _ => None,
        })
    }
}
