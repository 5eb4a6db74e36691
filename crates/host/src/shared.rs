//! [`SharedObjects`]: the locks, events, conditions, barriers, timers and chains the tasks of a run share, by the names the workload gives them.
//!
//! Every wait ends with the run: locks and events end their waits at an instant, and [`SharedObjects::close`] ends all of them
//! but those for a lock with inheritance, which end when its holder, itself at its end, gives it back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use surety_enforce::GroupSeats;
use surety_kernel::KernelError;
use surety_kernel::futex::{Event, Opening, PlainLock, PriorityLock, Waited};
use surety_model::workload::{LockProtocol, Meeting, Phase, Task, Timer, Together, Workload};
use surety_model::world::RunOptions;
use surety_units::{CpuSet, Nanos};

use crate::chains::Chains;

/// A lock.
#[derive(Debug)]
enum Lock {
    Plain(PlainLock),
    Lending(PriorityLock),
}

/// Those who wait at one condition or barrier: each for an event of its own, in the order in which they came.
#[derive(Debug, Default)]
struct WaitQueue {
    state: Mutex<Waiting>,
    /// Of a barrier: how many have to come.
    parties: usize,
}

/// The waiting threads of one, each by its event.
#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Arc<Event>>,
    /// Whether nobody waits any more.
    closed: bool,
}

impl Waiting {
    /// Has a thread wait for its event; not where nobody waits any more.
    fn join(&mut self, own: &Arc<Event>) {
        if self.closed {
            own.close();
        } else {
            self.events.push_back(Arc::clone(own));
        }
    }

    /// Lets all go.
    fn release(&mut self) {
        self.events.drain(..).for_each(|waiter| waiter.signal());
    }
}

impl WaitQueue {
    /// What is done while nobody else comes or is let go.
    fn with<R>(&self, act: impl FnOnce(&mut Waiting) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The locks and events of a run.
#[derive(Debug, Default)]
pub(crate) struct SharedObjects {
    locks: Vec<Lock>,
    events: Vec<Event>,
    lock_places: BTreeMap<String, usize>,
    event_places: BTreeMap<String, usize>,
    queues: Vec<WaitQueue>,
    conditions: BTreeMap<String, usize>,
    barriers: BTreeMap<String, usize>,
    /// Where timers stand that several threads use, in workload time.
    timers: Vec<Mutex<Option<Nanos>>>,
    timer_places: BTreeMap<String, usize>,
    /// The CPUs of the run.
    cpus: CpuSet,
    chains: Chains,
    /// Who begins together, and where they meet.
    together: Together,
    opening: Opening,
    /// The groups that they go between.
    groups: Option<GroupSeats>,
}

impl SharedObjects {
    /// All that the workload names, in such a run on these CPUs.
    ///
    /// # Errors
    /// A kernel without locks that lend priority, where the workload has one.
    pub fn of(workload: &Workload, options: &RunOptions, cpus: CpuSet) -> Result<SharedObjects, KernelError> {
        let length = options.warm_up.saturating_add(options.duration);
        let chains = Chains::of(workload, options.seed, length);
        let together = Together::of(workload, cpus.len() as u32);
        let mut shared = SharedObjects { chains, cpus, together, ..SharedObjects::default() };
        for resource in &workload.resources {
            let lock = match resource.protocol {
                LockProtocol::None => Lock::Plain(PlainLock::default()),
                LockProtocol::Inherit => Lock::Lending(PriorityLock::new()?),
            };
            shared.lock_places.insert(resource.name.clone(), shared.locks.len());
            shared.locks.push(lock);
        }
        for phase in workload.tasks.iter().flat_map(|task| task.body.leaves()) {
            let SharedObjects { events, event_places, queues, conditions, barriers, .. } = &mut shared;
            match phase {
                Phase::Wait(name) | Phase::Signal(name) => {
                    event_places.entry(name.clone()).or_insert_with(|| {
                        events.push(Event::raised(workload.raised_at_begin(name)));
                        events.len() - 1
                    });
                }
                Phase::Await { condition: name, .. } | Phase::Notify(name) | Phase::NotifyAll(name) => {
                    conditions.entry(name.clone()).or_insert_with(|| {
                        queues.push(WaitQueue::default());
                        queues.len() - 1
                    });
                }
                Phase::Barrier(name) => {
                    barriers.entry(name.clone()).or_insert_with(|| {
                        queues.push(WaitQueue {
                            parties: workload.parties(name, cpus.len() as u32),
                            ..WaitQueue::default()
                        });
                        queues.len() - 1
                    });
                }
                Phase::Timer(timer) if timer.shared => {
                    let SharedObjects { timers, timer_places, .. } = &mut shared;
                    timer_places.entry(timer.name.clone()).or_insert_with(|| {
                        timers.push(Mutex::default());
                        timers.len() - 1
                    });
                }
                _ => {}
            }
        }
        Ok(shared)
    }

    /// The same with the control groups of the run.
    pub fn with_groups(self, groups: Option<GroupSeats>) -> SharedObjects {
        SharedObjects { groups, ..self }
    }

    /// The control groups of the run, where it has some.
    pub fn groups(&self) -> Option<&GroupSeats> {
        self.groups.as_ref()
    }

    /// Nothing shared, on these CPUs.
    #[cfg(test)]
    pub fn on(cpus: CpuSet) -> SharedObjects {
        SharedObjects { cpus, ..SharedObjects::default() }
    }

    /// Events on their way between its threads.
    pub fn chains(&self) -> &Chains {
        &self.chains
    }

    /// The place of a thread among those that begin together.
    pub fn meeting(&self, task: &Task, instance: u32) -> Option<Meeting> {
        self.together.meeting(task, instance)
    }

    /// Where those that begin together wait for the last.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// The CPUs of the run.
    pub fn cpus(&self) -> CpuSet {
        self.cpus
    }

    /// The place of a timer that several threads use.
    pub fn timer_named(&self, name: &str) -> Option<usize> {
        self.timer_places.get(name).copied()
    }

    /// A use of a timer by a thread that began at `begin`: the instant to sleep until.
    pub fn use_timer(&self, timer: usize, by: (Nanos, bool), begin: Nanos, now: Nanos) -> Nanos {
        let mut last = self.timers[timer].lock().unwrap_or_else(PoisonError::into_inner);
        let (next, stands) = Timer::moves_on(last.unwrap_or(begin), by, now);
        *last = Some(stands);
        next
    }

    /// The place of a condition.
    pub fn condition_named(&self, name: &str) -> Option<usize> {
        self.conditions.get(name).copied()
    }

    /// The place of a barrier.
    pub fn barrier_named(&self, name: &str) -> Option<usize> {
        self.barriers.get(name).copied()
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

    /// Stands in the queue of a condition, waiting for an event of the caller's.
    pub fn join(&self, condition: usize, own: &Arc<Event>) {
        self.queues[condition].with(|queue| queue.join(own));
    }

    /// Lets the first who waits for a condition go.
    pub fn notify(&self, condition: usize) {
        if let Some(first) = self.queues[condition].with(|queue| queue.events.pop_front()) {
            first.signal();
        }
    }

    /// Lets all go who wait for a condition.
    pub fn notify_all(&self, condition: usize) {
        self.queues[condition].with(Waiting::release);
    }

    /// Comes to a barrier; whether the caller has to wait for its event. The last who comes lets all others go.
    pub fn arrive(&self, barrier: usize, own: &Arc<Event>) -> bool {
        let queue = &self.queues[barrier];
        queue.with(|waiting| {
            let waits = waiting.events.len() + 1 < queue.parties;
            if waits {
                waiting.join(own);
            } else {
                waiting.release();
            }
            waits
        })
    }

    /// Ends the waits of a run that is given up.
    pub fn close(&self) {
        for lock in &self.locks {
            if let Lock::Plain(lock) = lock {
                lock.close();
            }
        }
        self.events.iter().for_each(Event::close);
        self.opening.close();
        self.chains.close();
        for queue in &self.queues {
            queue.with(|waiting| {
                waiting.closed = true;
                waiting.events.drain(..).for_each(|waiter| waiter.close());
            });
        }
    }
}
