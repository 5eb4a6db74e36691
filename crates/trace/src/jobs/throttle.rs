//! When a deadline thread is out of budget.
//!
//! A throttled thread's `sched_switch` is that of a preempted one. What tells them apart is its replenishment timer
//! (`dl_task_timer`): the scheduler arms it on the thread's CPU just before the thread leaves, and its expiry gives the
//! thread its budget back (`kernel/sched/deadline.c`). The timer is part of the thread, so its address is its identity.
//!
//! The fair server of each CPU has a timer with the same function. So an armed timer counts for a leaving thread
//! - surely, when the thread is known to own it;
//! - surely, when the thread owns none yet and leaves for a thread of a lower class: only lack of budget lets a deadline
//!   thread leave so (and the stopper threads, `migration/N`, which stand above all). The latest armed counts, and from
//!   then on the thread owns it;
//! - provisionally, when it leaves for another deadline thread and the timer is not a server's: one that was ever armed
//!   while no deadline thread was on the CPU.
//!
//! **Without names** (symbol table hidden: no timer of the trace has a known function) the structure alone must do: a
//! deadline thread that leaves, wanting to run, for a lower class, after a timer was armed in its slice that did not
//! expire in that slice (a timer that expires and re-arms itself is the tick), was throttled until that timer expires.

use surety_model::event::{Comm, TimerFunction};

/// Timers armed in one slice that are remembered; more than the scheduler arms for one thread.
const ARMED: usize = 4;
/// Servers' timers remembered: a few for each CPU.
const SERVERS_MAX: usize = 4096;

/// A timer that explains why a thread left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttled {
    pub(super) timer: u64,
    /// The thread owns the timer from now on.
    pub(super) certain: bool,
}

/// The timers armed on a CPU since a thread came on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replenishments {
    armed: [Option<(u64, TimerFunction)>; ARMED],
    /// The timer that expired last in this slice.
    expired: Option<u64>,
}

/// The timers that may explain a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidates {
    armed: [Option<u64>; ARMED],
    /// For a thread that owns none.
    new: Option<Throttled>,
}

/// Throttles in force in the whole machine, and whose timer is whose.
#[derive(Clone, Debug, Default)]
pub(super) struct Throttles {
    /// Timer and the slot it will replenish. Few at a time.
    open: Vec<(u64, usize)>,
    /// Timers of fair servers, sorted.
    servers: Vec<u64>,
    /// Some timer's function had a name.
    named: bool,
}

impl Replenishments {
    /// A timer is armed; `deadline` says whether a deadline thread is on the CPU.
    pub(super) fn start(
        &mut self,
        throttles: &mut Throttles,
        timer: u64,
        function: TimerFunction,
        deadline: bool,
    ) {
        throttles.named |= function != TimerFunction::Other;
        if function == TimerFunction::DeadlineReplenish && !deadline {
            throttles.add_server(timer);
        }
        let rearmed_tick = function == TimerFunction::Other && self.expired == Some(timer);
        let counts = matches!(function, TimerFunction::DeadlineReplenish | TimerFunction::Other);
        if counts && !rearmed_tick {
            // The latest first.
            self.armed.rotate_right(1);
            self.armed[0] = Some((timer, function));
        }
    }

    /// A timer expires.
    pub(super) fn expire(&mut self, throttles: &mut Throttles, timer: u64, function: TimerFunction) {
        throttles.named |= function != TimerFunction::Other;
        self.expired = Some(timer);
    }

    /// The slice ends with a switch: which timers may explain it.
    pub(super) fn at_switch(
        &mut self,
        throttles: &Throttles,
        prev_prio: i32,
        next_prio: i32,
        next_comm: Comm,
    ) -> Candidates {
        let slice = std::mem::take(self);
        let mut candidates = Candidates { armed: [None; ARMED], new: None };
        if prev_prio >= 0 {
            return candidates;
        }
        let sought = if throttles.named { TimerFunction::DeadlineReplenish } else { TimerFunction::Other };
        for (place, armed) in candidates.armed.iter_mut().zip(slice.armed) {
            *place = armed.filter(|(_, f)| *f == sought).map(|(timer, _)| timer);
        }
        let to_lower = next_prio >= 0 && !next_comm.0.starts_with(b"migration/");
        let latest = candidates.armed.iter().flatten().copied().next();
        let stranger = candidates.armed.iter().flatten().copied().find(|t| !throttles.is_server(*t));
        candidates.new = if to_lower {
            latest.map(|timer| Throttled { timer, certain: throttles.named })
        } else if throttles.named {
            stranger.map(|timer| Throttled { timer, certain: false })
        } else {
            None
        };
        candidates
    }
}

impl Candidates {
    /// The timer that throttles a thread which owns `own`.
    pub(super) fn of(&self, own: Option<u64>) -> Option<Throttled> {
        match own {
            Some(own) => self.armed.contains(&Some(own)).then_some(Throttled { timer: own, certain: true }),
            None => self.new,
        }
    }
}

impl Throttles {
    /// The thread of `slot` waits for `timer`.
    pub(super) fn begin(&mut self, timer: u64, slot: usize) {
        self.end_of(slot);
        self.open.push((timer, slot));
    }

    /// `timer` expired or was cancelled: whom that replenishes.
    pub(super) fn end(&mut self, timer: u64) -> Option<usize> {
        let at = self.open.iter().position(|(open, _)| *open == timer)?;
        Some(self.open.swap_remove(at).1)
    }

    /// The thread of `slot` runs again, whatever its timer did.
    pub(super) fn end_of(&mut self, slot: usize) {
        self.open.retain(|(_, open)| *open != slot);
    }

    /// A timer turned out to be a thread's own.
    pub(super) fn own(&mut self, timer: u64) {
        if let Ok(at) = self.servers.binary_search(&timer) {
            self.servers.remove(at);
        }
    }

    fn add_server(&mut self, timer: u64) {
        if let Err(at) = self.servers.binary_search(&timer)
            && self.servers.len() < SERVERS_MAX
        {
            self.servers.insert(at, timer);
        }
    }

    fn is_server(&self, timer: u64) -> bool {
        self.servers.binary_search(&timer).is_ok()
    }
}
