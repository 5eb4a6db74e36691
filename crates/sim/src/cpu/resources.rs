//! [`Resources`]: locks and events threads share. Waiters are served in the order of their priority and, among
//! equals, in the order they came, as the kernel's `rt_mutex` does.

use crate::cpu::hardware::{Hardware, Scheduling, ThreadId};

/// Longest chain of holders that wait for holders; a ring of them, a deadlock, ends here.
const CHAIN_MAX: u32 = 64;

/// A lock.
#[derive(Clone, Debug, Default)]
struct Lock {
    inherit: bool,
    holder: Option<ThreadId>,
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
}

impl Resources {
    pub(crate) fn add_lock(&mut self, inherit: bool) -> usize {
        self.locks.push(Lock { inherit, ..Lock::default() });
        self.locks.len() - 1
    }

    pub(crate) fn add_signal(&mut self) -> usize {
        self.signals.push(Signal::default());
        self.signals.len() - 1
    }

    /// Takes a lock; false when the thread must wait. A lock it holds already it waits for no more.
    pub(crate) fn lock(&mut self, lock: usize, thread: ThreadId) -> bool {
        let lock = &mut self.locks[lock];
        match lock.holder {
            None => lock.holder = Some(thread),
            Some(holder) if holder == thread => {}
            Some(_) => {
                lock.waiters.push(thread);
                return false;
            }
        }
        true
    }

    /// Gives a lock back; the waiter that now holds it, to be woken.
    pub(crate) fn unlock(&mut self, hardware: &Hardware, lock: usize, thread: ThreadId) -> Option<ThreadId> {
        let lock = &mut self.locks[lock];
        if lock.holder != Some(thread) {
            return None;
        }
        lock.holder = take_first(&mut lock.waiters, hardware);
        lock.holder
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

    /// Raises an event; the waiter that takes it, to be woken.
    pub(crate) fn signal(&mut self, hardware: &Hardware, signal: usize) -> Option<ThreadId> {
        let signal = &mut self.signals[signal];
        let woken = take_first(&mut signal.waiters, hardware);
        signal.raised += u64::from(woken.is_none());
        woken
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

fn take_first(waiters: &mut Vec<ThreadId>, hardware: &Hardware) -> Option<ThreadId> {
    let best =
        (0..waiters.len()).min_by_key(|i| (hardware.thread(waiters[*i]).scheduling.prio().min(120), *i))?;
    Some(waiters.remove(best))
}
