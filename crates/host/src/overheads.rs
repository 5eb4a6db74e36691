//! [`measure`]: what the kernel's own work takes of a CPU here, in [`Overheads`], found by threads of ours in a fifth of a second.
//!
//! Everything is seen from user space, so that it needs no privilege and works in a virtual machine and in a guest of the lab:
//!
//! - A *spinner* bound to the CPU, in `SCHED_IDLE` so that whoever wakes takes over at once, reads the clock all the time. A gap between two readings is what somebody else took.
//! - A *task* of ours beside it sleeps and wakes each period. One activation takes the gap that it makes for the spinner, its work
//!   apart; on its own account is the CPU time it used beside its work. It says itself how late it woke.
//! - Two threads that *give way* to each other switch each time: what a call takes in which nobody else waits is subtracted.
//! - A timer that nobody waits for, and the tick, make gaps at instants that are known.
//!
//! Where timers wait for ticks (`highres=off`), activations come with every other tick: the gap at such a tick has both, that at the others the tick alone.
//!
//! So a switch is known, going to sleep is what is on the task's account beside it, and waking is the rest of the gap. With a marker
//! the task writes what it writes in a run that is traced. What others take of the CPU makes gaps longer and never shorter, so each cost is
//! the lower quartile of all gaps, and where half of them are several times as long nothing is measured: the CPU is busy.

use std::sync::{Arc, Mutex, PoisonError};

use surety_kernel::sched::{SchedAttr, SchedPolicy};
use surety_kernel::timers::UnheardTimer;
use surety_kernel::tracefs::Marker;
use surety_kernel::{Kernel, KernelError, clock, thread};
use surety_model::activation::Stamp;
use surety_model::distribution::TimeDistribution;
use surety_model::platform::Overheads;
use surety_model::workload::Task;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::tasks::{TaskBodySpec, TaskRun};
use crate::window::{Gate, Window};

/// Of the task: its period is no divisor of a tick, and its work is short beside it.
const PERIOD: Nanos = Nanos::from_micros(700);
const WORK: Nanos = Nanos::from_micros(30);
/// How long a batch of its jobs lasts, and how many there are.
const BATCH: Nanos = Nanos::from_millis(21);
const BATCHES: usize = 5;
/// The same where timers wait for ticks: ticks of a period, and periods of a batch.
const TICKS: i64 = 2;
const PERIODS: i64 = 6;
/// Before a batch: both threads are at work.
const LEAD: Nanos = Nanos::from_millis(2);
/// Times each thread gives way.
const TURNS: u64 = 300;
/// Times the timer fires that nobody waits for, and how long before.
const FIRINGS: usize = 40;
const AHEAD: Nanos = Nanos::from_micros(150);
/// Looks at the clock by which is known how long one takes.
const LOOKS: usize = 2000;
/// Fewer gaps tell nothing.
const LEAST: usize = 4;
/// What undisturbed costs differ by beside their size, and the largest there may be.
const SCATTER: Nanos = Nanos::from_micros(5);
const COST_MAX: Nanos = Nanos::from_micros(250);

/// Measures on one CPU, on which the calling process may run.
///
/// # Errors
/// Why it could not, in words.
pub fn measure(kernel: &dyn Kernel, cpu: CpuId, marker: Option<&Marker>) -> Result<Overheads, String> {
    let tick = clock::tick_length();
    let on_ticks = (clock::timer_resolution() >= tick).then_some(tick);
    let place = Place { kernel, cpu, on_ticks };
    let one_turn = place.turns(1)?.per_call;
    let two = place.turns(2)?;
    let switch = two.of_a_switch(one_turn).ok_or("two threads that gave way to each other did not switch")?;
    let timer = undisturbed(place.timer()?).map_err(|why| format!("{why} a timer fired"))?;
    let (mut walls, mut owns, mut ticks) = (Vec::new(), Vec::with_capacity(BATCHES), Vec::new());
    for _ in 0..BATCHES {
        let (task, gaps) = place.batch(marker)?;
        walls.extend(gaps.of_activations(&task));
        owns.extend(own_of(&task));
        ticks.extend(gaps.at_ticks(&task));
    }
    let wall = undisturbed(walls).map_err(|why| format!("{why} a task woke"))?;
    let own = undisturbed(owns).map_err(|why| format!("{why} a task slept"))?;
    let tick = undisturbed(ticks).map_err(|why| format!("{why} the clock ticked"))?;
    let rest = |whole: Nanos, part: Nanos| (whole - part).max(Nanos::ZERO);
    let sleep = rest(own, switch);
    let interrupt = on_ticks.map_or(Nanos::ZERO, |_| tick);
    Ok(Overheads { switch, wakeup: rest(wall, own + switch + interrupt), sleep, tick, timer })
}

/// `switch 0.4us, wake-up 5us, sleep 3us, tick 4us, timer 3us: measured`.
pub fn in_words(found: &Result<Overheads, String>) -> String {
    match found {
        Ok(found) => format!("{found}: measured"),
        Err(why) => format!("not measured: {why}"),
    }
}

/// What gaps are without what others took; or why that cannot be told, the beginning of a sentence.
fn undisturbed(mut gaps: Vec<Nanos>) -> Result<Nanos, String> {
    gaps.sort_unstable();
    if gaps.len() < LEAST {
        return Err(format!("it was seen {} times only that", gaps.len()));
    }
    let (quartile, median) = (gaps[gaps.len() / 4].max(Nanos::ZERO), gaps[gaps.len() / 2]);
    if median > quartile * 3 + SCATTER || quartile > COST_MAX {
        return Err(format!("others kept the CPU busy, for {median} at the median when"));
    }
    Ok(quartile)
}

/// Where it is measured.
#[derive(Clone, Copy)]
struct Place<'k> {
    kernel: &'k dyn Kernel,
    cpu: CpuId,
    /// The length of ticks for which timers wait; `None`: they do not.
    on_ticks: Option<Nanos>,
}

/// What threads did that gave way to each other.
#[derive(Clone, Copy)]
struct Turns {
    per_call: Nanos,
    calls: u64,
    switches: u64,
}

impl Turns {
    /// What one switch takes beside a call that switches to nobody.
    fn of_a_switch(&self, call: Nanos) -> Option<Nanos> {
        if self.switches < self.calls / 4 {
            return None;
        }
        let all = (self.per_call - call).max(Nanos::ZERO) * i64::try_from(self.calls).ok()?;
        Some(all / i64::try_from(self.switches).ok()?)
    }
}

impl Place<'_> {
    /// The calling thread becomes one of those that are measured.
    fn enter(&self) -> Result<(), KernelError> {
        self.kernel.set_affinity(Tid(0), &CpuSet::single(self.cpu))?;
        let _ = thread::set_timer_slack(Nanos::new(1));
        thread::prefault_stack();
        Ok(())
    }

    /// Runs both in threads on the CPU.
    fn both<A: Send, B: Send>(
        self,
        first: impl FnOnce() -> Result<A, KernelError> + Send,
        second: impl FnOnce() -> Result<B, KernelError> + Send,
    ) -> Result<(A, B), String> {
        let entered = move || self.enter();
        let spawn_failed = |error: std::io::Error| format!("no thread could be made: {error}");
        let said = |error: KernelError| error.to_string();
        let failed = |_| "a thread that measures failed".to_owned();
        std::thread::scope(|scope| {
            let builder = || std::thread::Builder::new().name("overheads".to_owned());
            let first = builder().spawn_scoped(scope, move || entered().and_then(|()| first()));
            let first = first.map_err(spawn_failed)?;
            let second = builder().spawn_scoped(scope, move || entered().and_then(|()| second()));
            let second = second.map_err(spawn_failed)?;
            let (first, second) = (first.join().map_err(failed)?, second.join().map_err(failed)?);
            Ok((first.map_err(said)?, second.map_err(said)?))
        })
    }

    /// One thread, or two, yield all the time.
    fn turns(self, threads: u64) -> Result<Turns, String> {
        let begin = clock::monotonic() + LEAD;
        let turns = move |count: u64| {
            clock::sleep_until(begin, None)?;
            let (from, switches) = (clock::monotonic(), clock::own_switches());
            (0..count).for_each(|_| thread::give_way());
            Ok((from, clock::monotonic(), clock::own_switches() - switches))
        };
        let (first, second) =
            self.both(move || turns(TURNS), move || turns(if threads > 1 { TURNS } else { 0 }))?;
        let calls = TURNS * threads;
        let taken =
            if threads > 1 { first.1.max(second.1) - first.0.min(second.0) } else { first.1 - first.0 };
        Ok(Turns {
            per_call: taken / i64::try_from(calls).unwrap_or(i64::MAX),
            calls,
            switches: first.2 + second.2,
        })
    }

    /// What a timer takes that nobody waits for.
    fn timer(self) -> Result<Vec<Nanos>, String> {
        let spin = || {
            let timer = UnheardTimer::new()?;
            let look = look();
            let mut found = Vec::with_capacity(FIRINGS);
            for _ in 0..FIRINGS {
                let at = clock::monotonic() + AHEAD;
                timer.start(at)?;
                let mut last = clock::monotonic();
                while last < at + AHEAD / 2 {
                    let now = clock::monotonic();
                    if last <= at && at < now {
                        found.push(now - last - look);
                    }
                    last = now;
                }
            }
            Ok(found)
        };
        self.both(spin, || Ok(())).map(|(found, ())| found)
    }

    /// Some jobs of the task, and what the spinner beside it saw.
    fn batch(self, marker: Option<&Marker>) -> Result<(TaskRun, Gaps), String> {
        let work = TimeDistribution::Constant(WORK);
        let (period, length) =
            self.on_ticks.map_or((PERIOD, BATCH), |tick| (tick * TICKS, tick * (TICKS * PERIODS)));
        let task = Task::periodic("overheads", period, work);
        let body = TaskBodySpec::of(&task, 0, 1, &Arc::default()).ok_or("the task cannot be made")?;
        let gate = Gate::default();
        let window = Window::new(clock::monotonic() + LEAD, Nanos::ZERO, length);
        let gaps = Mutex::new(Vec::with_capacity(4096));
        let spin = || {
            // What a fair thread has of its slice some kernels protect from one that wakes.
            self.kernel.set_scheduler_directly(Tid(0), &SchedAttr::from(SchedPolicy::Idle))?;
            let look = look();
            let mut gaps = gaps.lock().unwrap_or_else(PoisonError::into_inner);
            let mut last = clock::monotonic();
            while last < window.end {
                let now = clock::monotonic();
                if now - last > look * 3 && gaps.len() < gaps.capacity() {
                    gaps.push((last, now));
                }
                last = now;
            }
            Ok(look)
        };
        let (run, look) = self.both(|| Ok(body.run(&gate, &window, marker, body.fillers())), spin)?;
        let seen = gaps.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((run, Gaps { seen, look, window, period, on_ticks: self.on_ticks }))
    }
}

/// How long a look at the clock takes.
fn look() -> Nanos {
    let mut last = clock::monotonic();
    let mut step = || {
        let now = clock::monotonic();
        now - std::mem::replace(&mut last, now)
    };
    let mut steps: Vec<Nanos> = (0..LOOKS).map(|_| step()).collect();
    steps.sort_unstable();
    steps[LOOKS / 2].max(Nanos::new(1))
}

/// When the spinner of a batch had no CPU.
struct Gaps {
    /// Last reading before, first one behind.
    seen: Vec<(Nanos, Nanos)>,
    /// What a reading takes.
    look: Nanos,
    window: Window,
    /// The task's.
    period: Nanos,
    /// As of the place.
    on_ticks: Option<Nanos>,
}

impl Gaps {
    /// The length of the one that an instant lies in.
    fn over(&self, instant: Nanos) -> Option<Nanos> {
        let place = self.seen.partition_point(|(_, end)| *end <= instant);
        let (begin, end) = *self.seen.get(place)?;
        (begin <= instant).then_some(end - begin - self.look)
    }

    /// What each activation took of the CPU beside its work.
    fn of_activations(&self, task: &TaskRun) -> Vec<Nanos> {
        task.stamps.iter().filter_map(|stamp| self.taken(stamp)).collect()
    }

    fn taken(&self, stamp: &Stamp) -> Option<Nanos> {
        Some(self.over(self.expiry(stamp))? - stamp.execution)
    }

    /// When the timer of an activation expires.
    fn expiry(&self, stamp: &Stamp) -> Nanos {
        let due = self.window.begin + stamp.release;
        self.on_ticks.map_or(due, |tick| tick * due.div_ceil(tick))
    }

    /// Those that ticks made alone: they come at multiples of their length.
    fn at_ticks(&self, task: &TaskRun) -> Vec<Nanos> {
        let tick = clock::tick_length();
        let first = self.window.begin.div_ceil(tick);
        let last = self.window.end.div_floor(tick);
        let alone = (first..=last).map(|k| tick * k).filter(|at| self.is_apart(*at, &task.stamps));
        alone.filter_map(|at| self.over(at)).collect()
    }

    /// Whether an instant is no activation's.
    fn is_apart(&self, at: Nanos, stamps: &[Stamp]) -> bool {
        let apart = self.period / 4;
        stamps.iter().map(|stamp| self.expiry(stamp)).all(|due| at < due - apart || at > due + apart)
    }
}

/// What an activation of a batch took on the task's own account beside its work; it does not sleep behind the last one.
fn own_of(task: &TaskRun) -> Option<Nanos> {
    let sleeps = i64::try_from(task.stamps.len()).ok().filter(|jobs| *jobs > 1)? - 1;
    let work: Nanos = task.stamps.iter().map(|stamp| stamp.execution).sum();
    Some((task.metered.run - work) / sleeps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_belongs_to_the_instant_that_lies_in_it() {
        let us = Nanos::from_micros;
        let window = Window::new(us(0), Nanos::ZERO, us(9000));
        let seen = vec![(us(100), us(120)), (us(700), us(760))];
        let gaps = Gaps { seen, look: us(1), window, period: us(700), on_ticks: None };
        for (instant, found) in
            [(99, None), (100, Some(19)), (119, Some(19)), (120, None), (701, Some(59)), (900, None)]
        {
            assert_eq!(gaps.over(us(instant)), found.map(us), "{instant}");
        }
    }

    /// Ticks of 4 ms at multiples of it: a release expires on the next one, and the ticks between two such are alone.
    #[test]
    fn activations_that_wait_for_ticks_have_the_gaps_of_ticks() {
        let (us, ms) = (Nanos::from_micros, Nanos::from_millis);
        let window = Window::new(ms(9), Nanos::ZERO, ms(24));
        let gap = |at: i64, length: i64| (us(at - 1), us(at - 1 + length));
        let seen = vec![gap(12_000, 60), gap(16_000, 9), gap(20_000, 64), gap(24_000, 11)];
        let gaps = Gaps { seen, look: us(1), window, period: ms(8), on_ticks: Some(ms(4)) };
        let stamp = |job: u64| Stamp {
            job,
            release: ms(8) * i64::try_from(job).unwrap(),
            start: Nanos::ZERO,
            completion: None,
            execution: us(30),
        };
        let due: Vec<Nanos> = (0..3).map(|job| gaps.expiry(&stamp(job))).collect();
        assert_eq!(due, [12, 20, 28].map(ms));
        assert_eq!(gaps.taken(&stamp(0)), Some(us(29)));
        let alone: Vec<bool> = [12, 16, 20, 24]
            .iter()
            .map(|at| gaps.is_apart(ms(*at), &[stamp(0), stamp(1), stamp(2)]))
            .collect();
        assert_eq!(alone, [false, true, false, true]);
    }

    #[test]
    fn a_switch_is_what_two_threads_take_beside_one() {
        let us = Nanos::from_micros;
        let turns = |switches| Turns { per_call: us(3), calls: 100, switches };
        assert_eq!(turns(100).of_a_switch(us(1)), Some(us(2)));
        assert_eq!(turns(50).of_a_switch(us(1)), Some(us(4)));
        assert_eq!(turns(100).of_a_switch(us(5)), Some(Nanos::ZERO));
        assert_eq!(turns(20).of_a_switch(us(1)), None, "they hardly switched");
    }

    #[test]
    fn gaps_that_others_make_are_left_out_or_end_the_measurement() {
        let of = |gaps: &[i64]| undisturbed(gaps.iter().map(|gap| Nanos::from_micros(*gap)).collect());
        assert_eq!(of(&[9, 8, 900, 9, 10, 10, 3000, 10]), Ok(Nanos::from_micros(9)));
        for (gaps, why) in [
            (&[8, 9, 8][..], "3 times only"),
            (&[8, 9, 8, 900, 800, 700, 1000, 900], "busy, for 800.0 us"),
            (&[900, 900, 900, 900], "busy"),
        ] {
            let said = of(gaps).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    /// Costs are those of this machine, whatever runs on it: only that they are there can be said.
    #[test]
    fn this_kernel_has_costs() {
        let kernel = surety_kernel::RealKernel::new();
        let cpu = kernel.affinity(Tid(0)).unwrap().lowest().unwrap();
        match measure(&kernel, cpu, None) {
            Ok(found) => {
                eprintln!("{found}");
                assert!(found.each().iter().all(|(_, cost)| !cost.is_negative()), "{found}");
                assert!(!found.are_none());
            }
            Err(why) => eprintln!("SKIPPED: {why}"),
        }
    }
}
