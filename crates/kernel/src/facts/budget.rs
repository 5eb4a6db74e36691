//! [`BudgetEnd`]: whether a budget of SCHED_DEADLINE ends on a timer or on the tick, found by using one up.
//!
//! Without `HRTICK_DL` the kernel looks at a budget on ticks and switches only, so a thread overruns by up to a tick; with it a timer ends
//! the budget within some microseconds. The switch is in debugfs, where it often cannot be read, and its default depends on the version.
//! So a thread of ours takes a small reservation, computes, and it is seen how long it does: one overrun of more than a sixteenth of a
//! tick shows the tick, and six budgets that begin at different places of the tick and end within that show a timer. By chance alone
//! six overruns of a kernel that enforces on the tick are that short once in 16 million times.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use surety_units::{Nanos, Tid};

use crate::clock;
use crate::error::{KernelError, Operation};
use crate::real::RealKernel;
use crate::sched::{self, SchedPolicy};
use crate::thread;
use crate::transition::set_once;

/// How budgets of reservations end on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "found")]
pub enum BudgetEnd {
    /// A budget was used up and overrun by so much.
    Tried {
        /// Whether a timer ends it; else the tick does.
        by_timer: bool,
        budget: Nanos,
        /// The longest overrun seen.
        overrun: Nanos,
    },
    /// It was not tried, or in vain: taken to be on the tick.
    Assumed { why: String },
}

impl BudgetEnd {
    /// Before it was tried.
    pub(super) fn untried() -> BudgetEnd {
        BudgetEnd::Assumed { why: "not tried".to_owned() }
    }

    /// Whether a timer was seen to end budgets.
    pub fn is_by_timer(&self) -> bool {
        matches!(self, BudgetEnd::Tried { by_timer: true, .. })
    }

    /// `on the tick: tried, a budget of 500us was overrun by 2.900 ms (tick 4ms)`.
    pub fn in_words(&self, tick: Nanos) -> String {
        match self {
            BudgetEnd::Tried { by_timer, budget, overrun } => {
                let place = if *by_timer { "on a timer" } else { "on the tick" };
                let (budget, tick) = (budget.to_exact_string(), tick.to_exact_string());
                format!("{place}: tried, a budget of {budget} was overrun by {overrun} (tick {tick})")
            }
            BudgetEnd::Assumed { why } => format!("on the tick: assumed, {why}"),
        }
    }

    /// The name of a thread that tries: what one of another process has reserved is given back within milliseconds.
    pub const THREAD: &str = "budget-trial";

    /// Tries it, once in the life of this process: takes some milliseconds, at most 0.15 s. The threads that try have a 64th of a CPU
    /// reserved, one at a time; they end with this process, and their reservation with them.
    pub fn tried() -> BudgetEnd {
        static FOUND: OnceLock<BudgetEnd> = OnceLock::new();
        FOUND.get_or_init(|| judge(clock::tick_length(), one_budget)).clone()
    }
}

/// Budgets that must end in time to show a timer.
const NEEDED: usize = 6;
/// Budgets that are used up at most, disturbed ones included.
const TRIALS_MAX: usize = 12;
/// A thread that computes and sees so much time pass at once was interrupted.
const GAP: Nanos = Nanos::from_micros(50);

/// The budget for a tick, and the period it is in.
fn reservation(tick: Nanos) -> (Nanos, Nanos) {
    (tick / 8, tick * 8)
}

/// Tries until it is clear. A trial gives the overrun; `None`: it was disturbed.
fn judge(
    tick: Nanos,
    mut trial: impl FnMut(Nanos, usize) -> Result<Option<Nanos>, KernelError>,
) -> BudgetEnd {
    let (budget, _) = reservation(tick);
    let mut overruns: Vec<Nanos> = Vec::new();
    for number in 0..TRIALS_MAX {
        match trial(tick, number) {
            Ok(Some(overrun)) if overrun > tick / 16 => {
                return BudgetEnd::Tried { by_timer: false, budget, overrun };
            }
            Ok(Some(overrun)) => overruns.push(overrun),
            Ok(None) => {}
            Err(error) => return BudgetEnd::Assumed { why: reason(&error) },
        }
        if let (true, Some(overrun)) = (overruns.len() >= NEEDED, overruns.iter().max()) {
            return BudgetEnd::Tried { by_timer: true, budget, overrun: *overrun };
        }
    }
    BudgetEnd::Assumed { why: format!("{TRIALS_MAX} budgets were used up and too many of them disturbed") }
}

fn reason(error: &KernelError) -> String {
    match error.errno {
        libc::EPERM => "this process may not try it".to_owned(),
        libc::EBUSY => "no bandwidth is left to try it".to_owned(),
        _ => format!("it could not be tried: {error}"),
    }
}

/// What the thread says of itself.
#[derive(Default)]
struct Shared {
    tid: AtomicI32,
    /// 0 until it has its reservation.
    begun: AtomicI64,
    last: AtomicI64,
    gaps: AtomicU32,
    refused: AtomicI32,
    stop: AtomicBool,
}

/// Has a thread use one budget up; its overrun.
fn one_budget(tick: Nanos, number: usize) -> Result<Option<Nanos>, KernelError> {
    let (budget, period) = reservation(tick);
    let spawn_error = |error: &std::io::Error| KernelError::from_io(Operation::Spawn, "a thread", error);
    // Budgets begin at different places of the tick.
    clock::sleep_for(tick * number as i64 / NEEDED as i64)?;
    let shared = Arc::new(Shared::default());
    let own = Arc::clone(&shared);
    let thread = std::thread::Builder::new()
        .name(BudgetEnd::THREAD.to_owned())
        .spawn(move || own.compute(budget, period))
        .map_err(|e| spawn_error(&e))?;
    let seen = shared.observe(&thread, budget, budget + tick * 5 / 4 + Nanos::MILLISECOND);
    shared.stop.store(true, Ordering::Release);
    // It waits for its next budget: out of the class it goes on at once.
    let tid = Tid(shared.tid.load(Ordering::Acquire));
    if tid.0 != 0 && !thread.is_finished() {
        let _ = set_once(&RealKernel::new(), tid, &SchedPolicy::DEFAULT.into());
    }
    let _ = thread.join();
    match shared.refused.load(Ordering::Acquire) {
        0 => Ok(seen.map(|used| (used - budget).max(Nanos::ZERO))),
        errno => Err(KernelError::new(Operation::SetDeadline, "a thread of ours", errno)),
    }
}

impl Shared {
    fn compute(&self, budget: Nanos, period: Nanos) {
        self.tid.store(thread::own_tid().0, Ordering::Release);
        let wanted = SchedPolicy::deadline(budget, period, period).into();
        if let Err(errno) = sched::write_attr_plainly(Tid(0), &wanted) {
            self.refused.store(errno, Ordering::Release);
            return;
        }
        let begun = clock::monotonic();
        self.last.store(begun.get(), Ordering::Release);
        self.begun.store(begun.get(), Ordering::Release);
        let mut last = begun;
        // Nobody stops it where this process cannot go on.
        while !self.stop.load(Ordering::Acquire) && last - begun < period {
            let now = clock::monotonic();
            if now - last > GAP {
                self.gaps.fetch_add(1, Ordering::AcqRel);
            }
            last = now;
            self.last.store(now.get(), Ordering::Release);
        }
        let _ = sched::write_attr_plainly(Tid(0), &SchedPolicy::DEFAULT.into());
    }

    /// How long it computed before its budget ended; `None` where that was not seen.
    fn observe(&self, thread: &std::thread::JoinHandle<()>, budget: Nanos, within: Nanos) -> Option<Nanos> {
        const PAUSE: Nanos = Nanos::from_micros(200);
        while self.begun.load(Ordering::Acquire) == 0 {
            if thread.is_finished() {
                return None;
            }
            clock::sleep_for(PAUSE).ok()?;
        }
        let begun = Nanos::new(self.begun.load(Ordering::Acquire));
        clock::sleep_until(begun + within, None).ok()?;
        let gaps = self.gaps.load(Ordering::Acquire);
        let used = Nanos::new(self.last.load(Ordering::Acquire)) - begun;
        // Still at work, or preempted before its budget ended.
        let is_stopped = clock::monotonic() - begun - used > GAP * 4;
        (gaps == 0 && is_stopped && used >= budget - GAP).then_some(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    const TICK: Nanos = Nanos::from_millis(4);

    fn of(trials: &[Result<Option<i64>, i32>]) -> BudgetEnd {
        judge(TICK, |_, number| match trials[number.min(trials.len() - 1)] {
            Ok(overrun) => Ok(overrun.map(Nanos::from_micros)),
            Err(errno) => Err(KernelError::new(Operation::SetDeadline, "a thread", errno)),
        })
    }

    #[test]
    fn one_long_overrun_shows_the_tick_and_six_short_ones_a_timer() {
        let budget = Nanos::from_micros(500);
        let tried = |by_timer, us| BudgetEnd::Tried { by_timer, budget, overrun: Nanos::from_micros(us) };
        assert_eq!(of(&[Ok(Some(2900))]), tried(false, 2900));
        // Short by chance, disturbed, and then not.
        assert_eq!(of(&[Ok(Some(3)), Ok(None), Ok(Some(9)), Ok(Some(251))]), tried(false, 251));
        assert_eq!(of(&[Ok(Some(20)), Ok(None), Ok(Some(7))]), tried(true, 20));
        let words = |end: BudgetEnd| end.in_words(TICK);
        assert_eq!(
            words(tried(false, 2900)),
            "on the tick: tried, a budget of 500us was overrun by 2.900 ms (tick 4ms)"
        );
        assert_eq!(words(of(&[Err(libc::EPERM)])), "on the tick: assumed, this process may not try it");
        assert_eq!(
            words(of(&[Ok(Some(3)), Err(libc::EBUSY)])),
            "on the tick: assumed, no bandwidth is left to try it"
        );
        assert!(words(of(&[Ok(Some(3)), Ok(None), Ok(None)])).contains("12 budgets were used up"));
    }

    #[test]
    fn this_kernel_shows_how_budgets_end_and_keeps_no_thread() {
        let _alone = crate::testing::machine_wide();
        let kernel = RealKernel::new();
        let found = judge(clock::tick_length(), one_budget);
        let threads = kernel.threads(kernel.own_pid()).unwrap();
        let is_left = |tid: Tid| kernel.name(tid).is_ok_and(|name| name == BudgetEnd::THREAD);
        assert!(!threads.into_iter().any(is_left), "{found:?}");
        let BudgetEnd::Tried { by_timer, .. } = found else {
            return eprintln!("SKIPPED: {found:?}");
        };
        eprintln!("{}", found.in_words(clock::tick_length()));
        // What the kernel says of itself, where it can be read.
        if let Ok(features) = std::fs::read_to_string("/sys/kernel/debug/sched/features") {
            assert_eq!(by_timer, features.split_ascii_whitespace().any(|f| f == "HRTICK_DL"), "{features}");
        }
    }
}
