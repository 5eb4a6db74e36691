//! [`Transition`]: the steps that bring a thread from one scheduling class to another and leak no bandwidth, and
//! [`set_scheduler`], which carries them out.
//!
//! The kernel gives a reservation's bandwidth back when the thread's zero-lag timer fires, and that timer is armed when the
//! thread stops running. A thread that sleeps and has not run since it got the class has no such timer, so its bandwidth would
//! stay booked in the root domain for ever. A change of the reservation is booked at once, therefore a thread that sleeps is
//! first given (1024 ns, 2^22 us), whose bandwidth is 0 in the kernel's 20-bit fixed point.
//!
//! A thread that can run leaves directly, which arms the timer. With (1024 ns, 2^22 us) a thread whose budget is overrun would
//! have its zero-lag time minutes from now. Until that time it stays marked as waiting for a budget, while the timer that brings
//! one has passed it by: in the class again it would wait for ever, and could not even be killed (`task_non_contending` and
//! `enqueue_dl_entity` in `kernel/sched/deadline.c`). A thread that fell asleep with its budget overrun is left alone until its
//! budget comes; one that comes back waits until its zero-lag time is over ([`Owed`]). (A thread that another process gave back a
//! moment ago, and that sleeps, cannot be told from one that may enter.)
//!
//! A [`Transition`] asks nothing and waits for nothing: it is told what was seen and answers with the next step.

use std::sync::{Mutex, MutexGuard, PoisonError};

use surety_units::{Nanos, Tid};

use crate::error::KernelError;
use crate::kernel::Kernel;
use crate::sched::{DEADLINE_PERIOD_MAX, DEADLINE_RUNTIME_MIN, SchedAttr, SchedPolicy};

/// A thread that runs may have used up its new budget before it is looked at: so often it is tried.
const TRIES: u32 = 4;
/// Between two looks at a thread whose budget is overrun.
const LOOK: Nanos = Nanos::from_millis(1);
/// What a tick may add to an overrun after it was read.
const TICK: Nanos = Nanos::from_millis(10);
/// No thread is waited for longer than this many periods: its overrun was not one.
const PERIODS_MAX: i64 = 64;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look at the thread, this long from now.
    Look {
        /// 0: at once.
        after: Nanos,
    },
    /// Give it these attributes with one call.
    Set(SchedAttr),
    /// Leave it alone until this instant of CLOCK_MONOTONIC.
    Wait {
        /// On CLOCK_MONOTONIC.
        until: Nanos,
    },
    /// It has what was wanted.
    Done,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Of [`Step::Look`].
    Thread {
        /// Whether it runs, or would if it got a CPU and a budget.
        is_runnable: bool,
        /// What is left of its budget, where the kernel says so.
        budget: Option<Nanos>,
        /// When it was looked at.
        now: Nanos,
    },
    /// Of [`Step::Set`].
    Set,
    /// Of [`Step::Set`]: the kernel refused with this errno.
    Refused(i32),
    /// Of [`Step::Wait`].
    Waited,
}

/// Threads that left SCHED_DEADLINE with their budget used up, and until when the kernel knows it. One for all changes of the same
/// threads: without it a thread that comes back too early may never run again.
#[derive(Debug, Default)]
pub struct Owed {
    threads: Mutex<Vec<(Tid, Nanos)>>,
}

impl Owed {
    fn threads(&self) -> MutexGuard<'_, Vec<(Tid, Nanos)>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until(&self, tid: Tid) -> Option<Nanos> {
        self.threads().iter().find(|(other, _)| *other == tid).map(|(_, until)| *until)
    }

    fn keep(&self, tid: Tid, until: Nanos, now: Nanos) {
        let mut threads = self.threads();
        threads.retain(|(other, over)| *other != tid && *over > now);
        threads.push((tid, until));
    }
}

/// Where a transition is: which step was answered with last.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Waiting until its last overrun is forgotten, with the tries that are left.
    Waiting(u32),
    /// Set to the wanted reservation.
    Entering(u32),
    /// Looked at whether the budget is a new one.
    Checking(u32),
    /// Looked at before it leaves the class, at the latest until then.
    Leaving { from: SchedAttr, until: Option<Nanos> },
    /// Set to a bandwidth of 0, with the longest period or the shortest that still has none.
    Weightless { from: SchedAttr, shortest: bool },
    /// Set to a class without reservations.
    Left,
    /// Set to what is wanted, which is the last step.
    Last,
}

/// The way of one thread to its new attributes.
#[derive(Clone, Debug)]
pub struct Transition {
    wanted: SchedAttr,
    before: SchedAttr,
    /// What it gets where it leaves the class; and, where it only leaves to enter again, how many tries are left.
    leaving: (SchedAttr, Option<u32>),
    not_before: Option<Nanos>,
    phase: Phase,
}

impl Transition {
    /// From what a thread has to what it is to have, with the first step; `owed`: it may come back to the class then.
    pub fn begin(wanted: SchedAttr, before: SchedAttr, owed: Option<Nanos>) -> (Transition, Step) {
        let phase = Phase::Last;
        let mut transition = Transition { wanted, before, leaving: (wanted, None), not_before: owed, phase };
        let step = match (before.policy.is_deadline(), wanted.policy.is_deadline()) {
            (false, true) => transition.enter(TRIES),
            (true, false) => transition.leave(before),
            _ => Step::Set(wanted),
        };
        (transition, step)
    }

    /// Until when the kernel knows an overrun of the thread that was just seen.
    pub fn owed(&self) -> Option<Nanos> {
        self.not_before
    }

    /// The next step.
    ///
    /// # Errors
    /// The errno with which the kernel refused what there is no other way to.
    pub fn next(&mut self, seen: Seen) -> Result<Step, i32> {
        Ok(match (self.phase, seen) {
            (Phase::Waiting(tries), _) => self.set_entering(tries),
            (Phase::Entering(tries), Seen::Set) => {
                self.phase = Phase::Checking(tries);
                Step::Look { after: Nanos::ZERO }
            }
            (Phase::Checking(tries), Seen::Thread { is_runnable, budget, .. }) => {
                if !is_runnable || budget.is_none_or(Nanos::is_positive) {
                    return Ok(Step::Done);
                }
                self.leaving = (self.before, Some(tries - 1));
                self.leave(self.wanted)
            }
            (Phase::Leaving { from, until }, Seen::Thread { is_runnable, budget, now }) => {
                self.seen_leaving(from, until, (is_runnable, budget, now))
            }
            (Phase::Weightless { from, shortest: false }, Seen::Refused(libc::EINVAL)) => {
                // An administrator may have lowered the longest period. The shortest one whose ratio is still 0 is the
                // least runtime shifted by 20 bits, plus one.
                self.phase = Phase::Weightless { from, shortest: true };
                Step::Set(weightless(&from, Nanos::new((DEADLINE_RUNTIME_MIN.get() << 20) + 1)))
            }
            // Where more is booked than there is, the kernel refuses to make a reservation smaller, too (`sched_dl_overflow`);
            // what is left booked then it takes back when the limits are read or written.
            (Phase::Weightless { .. }, Seen::Set | Seen::Refused(libc::EBUSY)) => self.set_leaving(),
            (Phase::Left, Seen::Set) => match self.leaving {
                (_, Some(tries)) => self.enter(tries),
                _ => Step::Done,
            },
            (_, Seen::Refused(errno)) => return Err(errno),
            _ => Step::Done,
        })
    }

    /// Into the class with a budget that is none of before; the last try is not looked at.
    fn enter(&mut self, tries: u32) -> Step {
        match self.not_before {
            _ if tries <= 1 => {
                self.phase = Phase::Last;
                Step::Set(self.wanted)
            }
            Some(until) => {
                self.phase = Phase::Waiting(tries);
                Step::Wait { until }
            }
            None => self.set_entering(tries),
        }
    }

    fn set_entering(&mut self, tries: u32) -> Step {
        self.phase = Phase::Entering(tries);
        Step::Set(self.wanted)
    }

    fn leave(&mut self, from: SchedAttr) -> Step {
        if from.policy.booked_bandwidth() == 0 {
            return self.set_leaving();
        }
        self.phase = Phase::Leaving { from, until: None };
        Step::Look { after: Nanos::ZERO }
    }

    fn set_leaving(&mut self) -> Step {
        self.phase = Phase::Left;
        Step::Set(self.leaving.0)
    }

    /// One that can run leaves at once; one that sleeps with its budget overrun is left alone for two periods at most.
    fn seen_leaving(
        &mut self,
        from: SchedAttr,
        until: Option<Nanos>,
        (is_runnable, budget, now): (bool, Option<Nanos>, Nanos),
    ) -> Step {
        let SchedPolicy::Deadline { period, .. } = from.policy else { return self.set_leaving() };
        let until = until.unwrap_or_else(|| now.saturating_add(period * 2));
        if is_runnable {
            if let Some(left) = budget.filter(|left| !left.is_positive()) {
                self.not_before = forgotten_at(&from, TICK - left, now);
            }
            return self.set_leaving();
        }
        if budget.is_some_and(Nanos::is_negative) && now < until {
            self.phase = Phase::Leaving { from, until: Some(until) };
            return Step::Look { after: LOOK };
        }
        self.phase = Phase::Weightless { from, shortest: false };
        Step::Set(weightless(&from, DEADLINE_PERIOD_MAX))
    }
}

/// When the overrun of a running thread that leaves the class is surely forgotten: the zero-lag time is `overrun T/Q` after a deadline that
/// is a period away at most. `None` of one that is not in the class.
fn forgotten_at(from: &SchedAttr, overrun: Nanos, now: Nanos) -> Option<Nanos> {
    let SchedPolicy::Deadline { runtime, period, .. } = from.policy else { return None };
    let lag = overrun.get() as f64 * period.get() as f64 / runtime.get() as f64;
    Some(now + period + Nanos::from_f64_rounded(lag).min(period * PERIODS_MAX))
}

/// What a thread leaves behind in SCHED_DEADLINE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Before this instant of CLOCK_MONOTONIC it must not come back, or it may never run again: its budget may be overrun.
    pub owes_until: Option<Nanos>,
    /// Until this one at the latest its bandwidth stays booked, beside what it asks for when it comes back.
    pub booked_until: Nanos,
}

impl Left {
    /// By the budget that was left when the kernel was asked, where it said so, and what the thread may have used since.
    fn behind(from: &SchedAttr, (left, used): (Option<Nanos>, Nanos), now: Nanos) -> Option<Left> {
        let SchedPolicy::Deadline { period, .. } = from.policy else { return None };
        let overrun = left.map(|left| used - left).filter(|overrun| !overrun.is_negative());
        let owes_until = overrun.and_then(|overrun| forgotten_at(from, overrun, now));
        Some(Left { owes_until, booked_until: owes_until.unwrap_or(now + period) })
    }
}

/// Schedules the calling thread otherwise, and says what it leaves behind where it leaves SCHED_DEADLINE. `cpu_time` is the clock of the
/// thread ([`crate::clock::thread_cpu_time`]): reading it has the kernel book what was used until then (`task_sched_runtime` in
/// `kernel/sched/core.c`), so that what is left of the budget is known to what is used between two readings.
///
/// # Errors
/// EPERM without the right to it, or for a reservation on some of the CPUs; EBUSY where the reservation is not admitted.
pub fn set_own_scheduler(
    kernel: &dyn Kernel,
    wanted: &SchedAttr,
    cpu_time: impl Fn() -> Nanos,
) -> Result<Option<Left>, KernelError> {
    let tid = kernel.own_tid();
    let before = kernel.scheduler(tid)?;
    if !before.policy.is_deadline() || wanted.policy.is_deadline() {
        return kernel.set_scheduler_directly(tid, wanted).map(|()| None);
    }
    let booked = cpu_time();
    let left = kernel.budget_left(tid);
    kernel.set_scheduler_directly(tid, wanted)?;
    Ok(Left::behind(&before, (left, cpu_time() - booked), kernel.monotonic()))
}

/// A reservation of bandwidth 0 with the other attributes of `current`.
fn weightless(current: &SchedAttr, period: Nanos) -> SchedAttr {
    let policy = SchedPolicy::deadline(DEADLINE_RUNTIME_MIN, period, period);
    SchedAttr { policy, reset_on_fork: current.reset_on_fork, util_min: None, util_max: None }
}

/// Sets a thread's scheduling by the steps of a [`Transition`]. The calling thread is running, and is set directly.
///
/// # Errors
/// What the kernel refuses.
pub fn set_scheduler(
    kernel: &dyn Kernel,
    owed: &Owed,
    tid: Tid,
    wanted: &SchedAttr,
) -> Result<(), KernelError> {
    if tid == Tid(0) || tid == kernel.own_tid() {
        return kernel.set_scheduler_directly(tid, wanted);
    }
    let before = kernel.scheduler(tid)?;
    let (mut transition, mut step) = Transition::begin(*wanted, before, owed.until(tid));
    loop {
        let mut refused = None;
        let seen = match step {
            Step::Done => return Ok(()),
            Step::Wait { until } => {
                kernel.pause(until - kernel.monotonic());
                Seen::Waited
            }
            Step::Look { after } => {
                kernel.pause(after);
                Seen::Thread {
                    budget: kernel.budget_left(tid),
                    is_runnable: kernel.can_run(tid),
                    now: kernel.monotonic(),
                }
            }
            Step::Set(attr) => match kernel.set_scheduler_directly(tid, &attr) {
                Ok(()) => Seen::Set,
                Err(error) => Seen::Refused(refused.insert(error).errno),
            },
        };
        step = match transition.next(seen) {
            Ok(step) => step,
            Err(_) => return Err(refused.expect("only what was refused ends a transition")),
        };
        if let Some(until) = transition.owed().filter(|until| owed.until(tid) != Some(*until)) {
            owed.keep(tid, until, kernel.monotonic());
        }
    }
}

/// [`set_scheduler`] of a thread that never was in SCHED_DEADLINE before, or never comes back.
///
/// # Errors
/// What the kernel refuses.
pub fn set_once(kernel: &dyn Kernel, tid: Tid, wanted: &SchedAttr) -> Result<(), KernelError> {
    set_scheduler(kernel, &Owed::default(), tid, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(i64) -> Nanos = Nanos::from_millis;

    fn reserved() -> SchedAttr {
        SchedPolicy::deadline(MS(10), MS(40), MS(40)).into()
    }

    fn fair() -> SchedAttr {
        SchedPolicy::DEFAULT.into()
    }

    fn seen(is_runnable: bool, budget: i64, now: i64) -> Seen {
        Seen::Thread { is_runnable, budget: Some(MS(budget)), now: MS(now) }
    }

    /// The steps for what is seen one after the other.
    fn steps(wanted: SchedAttr, before: SchedAttr, owed: Option<Nanos>, all: &[Seen]) -> Vec<Step> {
        let (mut transition, first) = Transition::begin(wanted, before, owed);
        let rest = all.iter().map(|seen| transition.next(*seen).unwrap());
        std::iter::once(first).chain(rest).collect()
    }

    const AT_ONCE: Step = Step::Look { after: Nanos::ZERO };

    #[test]
    fn one_that_can_run_leaves_directly_and_is_remembered_where_it_owes() {
        let (mut transition, first) = Transition::begin(fair(), reserved(), None);
        assert_eq!(first, AT_ONCE);
        assert_eq!(transition.next(seen(true, 3, 7)), Ok(Step::Set(fair())));
        assert_eq!((transition.next(Seen::Set), transition.owed()), (Ok(Step::Done), None));
        let (mut transition, _) = Transition::begin(fair(), reserved(), None);
        assert_eq!(transition.next(seen(true, -2, 7)), Ok(Step::Set(fair())));
        // (10 + 2) ms of overrun are four times that of zero-lag time, behind a period.
        assert_eq!(transition.owed(), Some(MS(7 + 40 + 48)));
    }

    #[test]
    fn one_that_sleeps_gives_its_bandwidth_back_first() {
        let light = weightless(&reserved(), DEADLINE_PERIOD_MAX);
        let found = steps(fair(), reserved(), None, &[seen(false, 4, 0), Seen::Set, Seen::Set]);
        assert_eq!(found, [AT_ONCE, Step::Set(light), Step::Set(fair()), Step::Done]);
        // Where the longest period was lowered, the shortest without bandwidth is tried.
        let all = [seen(false, 4, 0), Seen::Refused(libc::EINVAL), Seen::Set, Seen::Set];
        let found = steps(fair(), reserved(), None, &all);
        let Step::Set(shorter) = found[2] else { panic!("{found:?}") };
        assert_eq!((shorter.policy.booked_bandwidth(), found[3]), (0, Step::Set(fair())));
        let refused = |errno: i32| {
            let (mut transition, _) = Transition::begin(fair(), reserved(), None);
            transition.next(seen(false, 4, 0)).unwrap();
            transition.next(Seen::Refused(errno))
        };
        assert_eq!(refused(libc::EPERM), Err(libc::EPERM));
        assert_eq!(refused(libc::EBUSY), Ok(Step::Set(fair())), "booked too much: it leaves all the same");
    }

    #[test]
    fn one_that_fell_asleep_overrun_is_left_alone_for_two_periods_at_most() {
        let looks = [seen(false, -1, 100), seen(false, -1, 179), seen(false, -1, 180)];
        let found = steps(fair(), reserved(), None, &looks);
        let again = Step::Look { after: LOOK };
        assert_eq!(found[..3], [AT_ONCE, again, again]);
        assert!(matches!(found[3], Step::Set(attr) if attr.policy.booked_bandwidth() == 0));
    }

    #[test]
    fn one_that_comes_back_waits_and_gets_a_budget_of_its_own() {
        let all = [Seen::Waited, Seen::Set, seen(true, 10, 60)];
        let found = steps(reserved(), fair(), Some(MS(50)), &all);
        assert_eq!(found, [Step::Wait { until: MS(50) }, Step::Set(reserved()), AT_ONCE, Step::Done]);
        // With an old budget it leaves and enters again; the last of four tries is not looked at.
        let (mut transition, mut step) = Transition::begin(reserved(), fair(), None);
        let (mut sets, mut waits) = (0, 0);
        while step != Step::Done {
            sets += u32::from(step == Step::Set(reserved()));
            waits += u32::from(matches!(step, Step::Wait { .. }));
            let answer = match step {
                Step::Set(_) => Seen::Set,
                Step::Wait { .. } => Seen::Waited,
                _ => seen(true, -1, 60),
            };
            step = transition.next(answer).unwrap();
        }
        assert_eq!((sets, waits), (4, 2));
    }

    #[test]
    fn between_classes_without_reservations_and_within_the_class_one_call_is_enough() {
        for (wanted, before) in [(fair(), SchedPolicy::Idle.into()), (reserved(), reserved())] {
            let found = steps(wanted, before, Some(MS(9)), &[Seen::Set]);
            assert_eq!(found, [Step::Set(wanted), Step::Done]);
        }
    }

    /// A thread that leaves with a budget knows that it owes nothing; one that may have used it up waits as long as the kernel knows it.
    #[test]
    fn one_that_leaves_by_itself_owes_only_what_it_may_have_overrun() {
        let leaves = |budget, used_meanwhile| {
            let kernel = crate::scripted::ScriptedKernel::new(1);
            let tid = kernel.own_tid();
            kernel.set_scheduler_directly(tid, &reserved()).unwrap();
            kernel.set_budget(tid, budget);
            let readings = std::cell::Cell::new(MS(0));
            let clock = || readings.replace(readings.get() + used_meanwhile);
            let left = set_own_scheduler(&kernel, &fair(), clock).unwrap().expect("it left the class");
            assert_eq!(kernel.scheduler(tid).unwrap(), fair());
            let since = |until: Nanos| until - kernel.monotonic();
            (left.owes_until.map(since), since(left.booked_until))
        };
        assert_eq!(leaves(Some(MS(1)), Nanos::from_micros(30)), (None, MS(40)));
        assert_eq!(leaves(None, MS(1)), (None, MS(40)), "what the kernel does not say is not known");
        // An overrun of 2 ms is four times that of zero-lag time, behind a period.
        assert_eq!(leaves(Some(MS(-1)), MS(1)), (Some(MS(48)), MS(48)));
        assert_eq!(leaves(Some(MS(1)), MS(3)), (Some(MS(48)), MS(48)));
        assert_eq!(leaves(Some(MS(1)), MS(1)), (Some(MS(40)), MS(40)));
        let kernel = crate::scripted::ScriptedKernel::new(1);
        assert_eq!(set_own_scheduler(&kernel, &reserved(), Nanos::default).unwrap(), None, "it enters");
    }

    proptest! {
        /// Whatever is seen, a way has an end, and its last call sets what is wanted or is refused.
        #[test]
        fn every_way_ends(
            answers in proptest::collection::vec((any::<bool>(), -20i64..20, 0i64..9), 1..40),
            into: bool,
        ) {
            let (wanted, before) = if into { (reserved(), fair()) } else { (fair(), reserved()) };
            let (mut transition, mut step) = Transition::begin(wanted, before, None);
            let (mut now, mut last, mut count) = (0, None, 0);
            for (is_runnable, budget, passed) in answers.iter().cycle() {
                now += passed + 1;
                let answer = match step {
                    Step::Done => break,
                    Step::Set(attr) => {
                        last = Some(attr);
                        Seen::Set
                    }
                    Step::Wait { .. } => Seen::Waited,
                    Step::Look { .. } => seen(*is_runnable, *budget, now),
                };
                step = transition.next(answer).unwrap();
                count += 1;
                prop_assert!(count < 1000);
            }
            prop_assert_eq!(last, Some(wanted));
        }
    }
}
