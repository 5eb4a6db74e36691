//! What runs on top of a thread on one CPU: hard interrupt handlers, x86 vectors and softirqs.
//!
//! They nest: a device's handler inside a vector, a hard interrupt inside a softirq. From the outermost entry to its
//! exit the thread below does not run; that span, counted once, is the interruption. An exit also ends whatever was
//! entered after its entry (their exits were not recorded); an exit without an entry is refused.
//!
//! Softirqs that run in a thread made for them (`ksoftirqd`, `ktimers`, and the threads of interrupts and of NAPI, which
//! run softirqs they raised when they re-enable them) are that thread's own work, not an interruption: the builder does
//! not enter them here.

use surety_units::Nanos;

/// Deeper nesting than any kernel's; further entries are only counted.
const DEPTH: usize = 16;

/// One kind of interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Context {
    /// A device's handler.
    Irq(u32),
    /// An interrupt of the processor's own: timer, reschedule, function call.
    Vector(&'static str),
    Softirq(u32),
}

impl Context {
    /// Whether threads are woken in it because an instant has come: in the interrupt of the CPU's timer, and in the softirqs in which
    /// timers expire.
    pub fn is_clock(self) -> bool {
        match self {
            Context::Vector(name) => name == "local_timer",
            Context::Softirq(vector) => matches!(vector, SOFTIRQ_TIMER | SOFTIRQ_HRTIMER),
            Context::Irq(_) => false,
        }
    }
}

/// `TIMER_SOFTIRQ` and `HRTIMER_SOFTIRQ` (`include/linux/interrupt.h`).
const SOFTIRQ_TIMER: u32 = 1;
const SOFTIRQ_HRTIMER: u32 = 8;

/// The kernel's names of softirqs by their number (`include/linux/interrupt.h`, the order of its enumeration).
pub(crate) const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The kernel's name of a softirq; its number where it has none.
pub fn softirq_name(vector: u32) -> String {
    let known = usize::try_from(vector).ok().and_then(|v| SOFTIRQS.get(v));
    known.map_or_else(|| vector.to_string(), |name| (*name).to_owned())
}

/// An exit whose entry was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmatched;

/// The contexts a CPU is in, outermost first.
#[derive(Clone, Copy, Debug)]
pub struct InterruptStack {
    contexts: [Context; DEPTH],
    depth: usize,
    /// Time of the outermost entry.
    since: Nanos,
}

impl Default for InterruptStack {
    fn default() -> InterruptStack {
        InterruptStack { contexts: [Context::Irq(0); DEPTH], depth: 0, since: Nanos::ZERO }
    }
}

impl InterruptStack {
    /// Whether the CPU is in no interrupt.
    pub fn is_empty(&self) -> bool {
        self.depth == 0
    }

    /// The context the CPU is in, on top of all others; `None` when it is in none.
    pub fn innermost(&self) -> Option<Context> {
        self.contexts[..self.depth].last().copied()
    }

    /// Enters a context.
    pub fn enter(&mut self, context: Context, at: Nanos) {
        if self.depth == 0 {
            self.since = at;
        }
        if let Some(place) = self.contexts.get_mut(self.depth) {
            *place = context;
            self.depth += 1;
        }
    }

    /// Leaves a context; gives the whole interruption when it was the outermost.
    ///
    /// # Errors
    /// [`Unmatched`] when the context was not entered.
    pub fn leave(&mut self, context: Context, at: Nanos) -> Result<Option<(Nanos, Nanos)>, Unmatched> {
        let entered = self.contexts[..self.depth].iter().rposition(|c| *c == context).ok_or(Unmatched)?;
        self.depth = entered;
        Ok((entered == 0).then_some((self.since, at)))
    }

    /// Leaves everything, as a switch of threads shows; gives the interruption when there was one.
    pub fn clear(&mut self, at: Nanos) -> Option<(Nanos, Nanos)> {
        let inside = self.depth > 0;
        self.depth = 0;
        inside.then_some((self.since, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: i64) -> Nanos {
        Nanos::new(ns)
    }

    #[test]
    fn nested_interrupts_are_one_span() {
        let mut stack = InterruptStack::default();
        stack.enter(Context::Softirq(3), at(10));
        stack.enter(Context::Vector("local_timer"), at(12));
        stack.enter(Context::Irq(4), at(13));
        assert_eq!(stack.leave(Context::Irq(4), at(14)), Ok(None));
        assert_eq!(stack.leave(Context::Vector("local_timer"), at(15)), Ok(None));
        assert_eq!(stack.leave(Context::Softirq(3), at(20)), Ok(Some((at(10), at(20)))));
        assert!(stack.is_empty());
    }

    #[test]
    fn missing_exits_end_with_the_outer_one_and_missing_entries_are_refused() {
        let mut stack = InterruptStack::default();
        stack.enter(Context::Irq(1), at(1));
        stack.enter(Context::Softirq(1), at(2));
        assert_eq!(stack.leave(Context::Irq(7), at(3)), Err(Unmatched));
        assert_eq!(stack.leave(Context::Irq(1), at(4)), Ok(Some((at(1), at(4)))));
        assert_eq!(stack.leave(Context::Softirq(1), at(5)), Err(Unmatched));
        assert_eq!(stack.clear(at(6)), None);
    }

    #[test]
    fn impossible_depth_is_survived() {
        let mut stack = InterruptStack::default();
        for k in 0..100 {
            stack.enter(Context::Irq(k), at(i64::from(k)));
        }
        assert_eq!(stack.clear(at(100)), Some((at(0), at(100))));
    }
}
