//! [`Resources`]: locks and events threads share, by the rules of the ones the host world uses. The most important
//! waiter is woken first and, among equals, the one that came first.
//!
//! - A lock that lends priority is handed to the waiter at once, as `FUTEX_UNLOCK_PI` does; until that one runs, a more
//!   important thread may still take it (`rt_mutex_steal` in `kernel/locking/rtmutex.c`).
//! - An ordinary lock is free once it is given back, and an event is there once it is raised: the waiter woken competes
//!   for it with whoever runs meanwhile, as with `pthread_mutex_lock` and `sem_wait`.

use crate::cpu::hardware::{Hardware, Scheduling, ThreadId};
use crate::cpu::program::Step;

/// Longest chain of holders that wait for holders; a ring of them, a deadlock, ends here.
const CHAIN_MAX: u32 = 64;

/// A lock.
#[derive(Clone, Debug, Default)]
struct Lock {
    inherit: bool,
    holder: Option<ThreadId>,
    /// Its holder got it as a waiter and has not run since.
    handed: bool,
    waiters: Vec<ThreadId>,
}

/// An event: raised and not yet taken, or waited for.
#[derive(Clone, Debug, Default)]
struct Signal {
    raised: u64,
    waiters: Vec<ThreadId>,
}

/// All locks and events of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    locks: Vec<Lock>,
    signals: Vec<Signal>,
    /// Waiters that were woken and have not run since, with the step they take again.
    woken: Vec<(ThreadId, Step)>,
    /// Who waits for an event until an instant at most.
    ending: Vec<(ThreadId, usize)>,
}

impl Resources {
    pub(crate) fn add_lock(&mut self, inherit: bool) -> usize {
        self.locks.push(Lock { inherit, ..Lock::default() });
        self.locks.len() - 1
    }

    /// An event that was raised so often.
    pub(crate) fn add_signal(&mut self, raised: u64) -> usize {
        self.signals.push(Signal { raised, ..Signal::default() });
        self.signals.len() - 1
    }

    /// Takes a lock; false when the thread must wait. A lock it holds already it waits for no more.
    pub(crate) fn lock(&mut self, hardware: &Hardware, lock: usize, thread: ThreadId) -> bool {
        let lock = &mut self.locks[lock];
        let rank = |thread| lending_rank(hardware, thread);
        match lock.holder {
            Some(holder) if holder != thread && !(lock.handed && rank(thread) < rank(holder)) => {
                lock.waiters.push(thread);
                return false;
            }
            _ => (lock.holder, lock.handed) = (Some(thread), false),
        }
        true
    }

    /// Gives a lock back; the waiter to be woken, which then takes it by [`Resources::again`].
    pub(crate) fn unlock(&mut self, hardware: &Hardware, lock: usize, thread: ThreadId) -> Option<ThreadId> {
        let place = lock;
        let lock = &mut self.locks[lock];
        if lock.holder != Some(thread) {
            return None;
        }
        let rank = if lock.inherit { lending_rank } else { plain_rank };
        let next = take_first(&mut lock.waiters, hardware, rank);
        lock.holder = next.filter(|_| lock.inherit);
        lock.handed = lock.holder.is_some();
        self.woken.extend(next.map(|next| (next, Step::Lock(place))));
        next
    }

    /// Takes one raising of an event; false when the thread must wait.
    pub(crate) fn wait(&mut self, signal: usize, thread: ThreadId) -> bool {
        let signal = &mut self.signals[signal];
        if signal.raised > 0 {
            signal.raised -= 1;
            return true;
        }
        signal.waiters.push(thread);
        false
    }

    /// The same for a thread that may stop waiting.
    pub(crate) fn wait_for_now(&mut self, signal: usize, thread: ThreadId) -> bool {
        let is_raised = self.wait(signal, thread);
        if !is_raised {
            self.ending.push((thread, signal));
        }
        is_raised
    }

    /// A thread wakes: whether it was one that may stop waiting, which it does.
    #[inline]
    pub(crate) fn ends_wait(&mut self, thread: ThreadId) -> bool {
        !self.ending.is_empty() && self.stops_waiting(thread)
    }

    fn stops_waiting(&mut self, thread: ThreadId) -> bool {
        let place = self.ending.iter().position(|(waiter, _)| *waiter == thread);
        if let Some((_, signal)) = place.map(|place| self.ending.swap_remove(place)) {
            self.signals[signal].waiters.retain(|waiter| *waiter != thread);
        }
        place.is_some()
    }

    /// Raises an event; the waiter to be woken, which then takes it by [`Resources::again`].
    pub(crate) fn signal(&mut self, hardware: &Hardware, signal: usize) -> Option<ThreadId> {
        let place = signal;
        let signal = &mut self.signals[signal];
        signal.raised += 1;
        let next = take_first(&mut signal.waiters, hardware, plain_rank);
        self.woken.extend(next.map(|next| (next, Step::Wait(place))));
        next
    }

    /// Those that wait for an event.
    pub(crate) fn waiters(&self, signal: usize) -> &[ThreadId] {
        &self.signals[signal].waiters
    }

    /// Has a thread take a step again when it wakes.
    pub(crate) fn take_again(&mut self, thread: ThreadId, step: Step) {
        self.woken.push((thread, step));
    }

    /// The step a woken waiter takes again before it goes on.
    #[inline]
    pub(crate) fn again(&mut self, thread: ThreadId) -> Option<Step> {
        if self.woken.is_empty() { None } else { self.woken_step(thread) }
    }

    fn woken_step(&mut self, thread: ThreadId) -> Option<Step> {
        let place = self.woken.iter().position(|(woken, _)| *woken == thread)?;
        Some(self.woken.remove(place).1)
    }

    /// How a thread has to be scheduled: as it asked, or as the most important realtime waiter of an inheriting
    /// lock it holds, through chains of holders that wait themselves. Fair waiters lend nothing
    /// (`__waiter_prio` in `kernel/locking/rtmutex.c`).
    pub(crate) fn inherited(&self, hardware: &Hardware, thread: ThreadId) -> Scheduling {
        self.inherited_through(hardware, thread, CHAIN_MAX)
    }

    fn inherited_through(&self, hardware: &Hardware, thread: ThreadId, links: u32) -> Scheduling {
        let own = hardware.thread(thread).asked;
        if links == 0 {
            return own;
        }
        self.locks
            .iter()
            .filter(|lock| lock.inherit && lock.holder == Some(thread))
            .flat_map(|lock| &lock.waiters)
            .map(|waiter| self.inherited_through(hardware, *waiter, links - 1))
            .filter(|lent| lent.prio() < 100)
            .fold(own, |best, lent| if lent.prio() < best.prio() { lent } else { best })
    }

    /// Who waits with a reservation for a lock that lends, and who of those with one has to run so that it gets it: the holder, or whom that
    /// one waits for in turn. Nobody is there for those in a ring.
    pub(crate) fn lendings(&self, hardware: &Hardware) -> Vec<(ThreadId, ThreadId)> {
        let is_reserved = |thread: ThreadId| matches!(hardware.thread(thread).asked, Scheduling::Deadline(_));
        let holder_for = |waiter: &ThreadId| {
            self.locks
                .iter()
                .find(|lock| lock.inherit && lock.waiters.contains(waiter))
                .and_then(|l| l.holder)
        };
        let runs_for = |waiter: &ThreadId| {
            let mut holder = holder_for(waiter)?;
            for _ in 0..CHAIN_MAX {
                match holder_for(&holder) {
                    Some(next) => holder = next,
                    None => return Some(holder),
                }
            }
            None
        };
        let waiters = self.locks.iter().filter(|lock| lock.inherit).flat_map(|lock| &lock.waiters);
        let reserved = waiters.filter(|waiter| is_reserved(**waiter));
        reserved.filter_map(|w| Some((*w, runs_for(w).filter(|holder| is_reserved(*holder))?))).collect()
    }

    /// The holders a change at `lock` may reach: its own, and those of locks that holders wait for in turn.
    pub(crate) fn holders_reached(&self, lock: usize) -> Vec<ThreadId> {
        let mut reached = Vec::new();
        let mut next = self.locks[lock].holder;
        while let Some(holder) = next.filter(|h| !reached.contains(h)) {
            reached.push(holder);
            next = self.locks.iter().find(|l| l.waiters.contains(&holder)).and_then(|l| l.holder);
        }
        reached
    }

    /// Whether waiting for a lock may change how its holder is scheduled.
    pub(crate) fn inherits(&self, lock: usize) -> bool {
        self.locks[lock].inherit
    }
}

/// Precedence at a lock that lends, the least first: realtime threads by the priority they have now, inherited or their
/// own, all others alike (`__waiter_prio` in `kernel/locking/rtmutex.c`).
fn lending_rank(hardware: &Hardware, thread: ThreadId) -> i32 {
    hardware.thread(thread).scheduling.prio().min(100)
}

/// Precedence at an ordinary lock or event: likewise, but by their own priority (`__futex_queue` in
/// `kernel/futex/core.c`).
fn plain_rank(hardware: &Hardware, thread: ThreadId) -> i32 {
    hardware.thread(thread).asked.prio().min(100)
}

/// Takes the first by rank and, among equals, by arrival.
fn take_first(
    waiters: &mut Vec<ThreadId>,
    hardware: &Hardware,
    rank: fn(&Hardware, ThreadId) -> i32,
) -> Option<ThreadId> {
    let best = (0..waiters.len()).min_by_key(|i| (rank(hardware, waiters[*i]), *i))?;
    Some(waiters.remove(best))
}
