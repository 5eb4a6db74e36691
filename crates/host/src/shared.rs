//! [`SharedObjects`]: the locks and events the tasks of a run share, by the names the workload gives them.
//!
//! Every wait ends with the run: locks and events end their waits at an instant, and [`SharedObjects::close`] ends all of them
//! but those for a lock with inheritance, which end when its holder, itself at its end, gives it back.

use std::collections::BTreeMap;

use surety_kernel::KernelError;
use surety_kernel::futex::{Event, PlainLock, PriorityLock, Waited};
use surety_model::workload::{LockProtocol, Phase, TaskBody, Workload};
use surety_units::Nanos;

/// A lock.
#[derive(Debug)]
enum Lock {
    Plain(PlainLock),
    Lending(PriorityLock),
}

/// The locks and events of a run.
#[derive(Debug, Default)]
pub(crate) struct SharedObjects {
    locks: Vec<Lock>,
    events: Vec<Event>,
    lock_places: BTreeMap<String, usize>,
    event_places: BTreeMap<String, usize>,
}

impl SharedObjects {
    /// All that the workload names.
    ///
    /// # Errors
    /// A kernel without locks that lend priority, where the workload has one.
    pub fn of(workload: &Workload) -> Result<SharedObjects, KernelError> {
        let mut shared = SharedObjects::default();
        for resource in &workload.resources {
            let lock = match resource.protocol {
                LockProtocol::None => Lock::Plain(PlainLock::default()),
                LockProtocol::Inherit => Lock::Lending(PriorityLock::new()?),
            };
            shared.lock_places.insert(resource.name.clone(), shared.locks.len());
            shared.locks.push(lock);
        }
        let phases = workload.tasks.iter().filter_map(|task| match &task.body {
            TaskBody::Phases(phases) => Some(phases),
            _ => None,
        });
        for phase in phases.flatten() {
            if let Phase::Wait(name) | Phase::Signal(name) = phase
                && !shared.event_places.contains_key(name)
            {
                shared.event_places.insert(name.clone(), shared.events.len());
                shared.events.push(Event::default());
            }
        }
        Ok(shared)
    }

    /// The place of a lock.
    pub fn lock_named(&self, name: &str) -> Option<usize> {
        self.lock_places.get(name).copied()
    }

    /// The place of an event.
    pub fn event_named(&self, name: &str) -> Option<usize> {
        self.event_places.get(name).copied()
    }

    /// Takes a lock for the calling thread.
    pub fn lock(&self, lock: usize, until: Nanos) -> Result<Waited, KernelError> {
        match &self.locks[lock] {
            Lock::Plain(lock) => lock.lock(until),
            Lock::Lending(lock) => lock.lock(until),
        }
    }

    /// Gives a lock back.
    pub fn unlock(&self, lock: usize) -> Result<(), KernelError> {
        match &self.locks[lock] {
            Lock::Plain(lock) => {
                lock.unlock();
                Ok(())
            }
            Lock::Lending(lock) => lock.unlock(),
        }
    }

    /// Takes one raising of an event.
    pub fn wait(&self, event: usize, until: Nanos) -> Result<Waited, KernelError> {
        self.events[event].wait(until)
    }

    /// Raises an event.
    pub fn signal(&self, event: usize) {
        self.events[event].signal();
    }

    /// Ends the waits of a run that is given up.
    pub fn close(&self) {
        for lock in &self.locks {
            if let Lock::Plain(lock) = lock {
                lock.close();
            }
        }
        self.events.iter().for_each(Event::close);
    }
}
