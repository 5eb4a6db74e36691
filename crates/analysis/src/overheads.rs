//! What the kernel's own work takes of a budget: [`Overheads`] as costs of a reserved thread.
//!
//! Without accounting of interrupt time an interrupt is on the account of the thread it interrupts, so a budget pays for every one that may
//! come while it lasts. In a window of T there are at most `floor(T/g) + 1` of those that are g or more apart:
//!
//! - wake-ups of the other tasks of the workload whose releases are known or that chains release, each with the switch back to what it preempted,
//! - timers: each reservation arms three (replenishment, end of the budget, 0-lag time), a fair server two,
//! - ticks.
//!
//! Its own are a switch and a way to sleep for each of its jobs, and a switch for each budget. A CPU that has begun a switch or an
//! interrupt ends it first, so a release may find it busy for one of each: that counts as release jitter, and budgets end later
//! by as much. What programs and loads wake is not declared and not counted.
//!
//! Everything here is 0 where the platform has no overheads, and grows with each of them.

use surety_model::platform::{Enforcement, Overheads, Platform};
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Phase, Task, TaskBody, Workload};
use surety_units::Nanos;

use crate::response::release_distance;
use crate::work::{drawn_work, least};

/// Something that interrupts CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// What one takes, all that come together.
    pub cost: Nanos,
    /// They come at least this far apart.
    pub distance: Nanos,
}

impl Interruption {
    /// The most they take in a window.
    pub fn at_most(&self, window: Nanos) -> Nanos {
        times(self.cost, self.distance, window)
    }
}

/// The most that all of them take in a window.
pub fn all_at_most(interruptions: &[Interruption], window: Nanos) -> Nanos {
    interruptions.iter().fold(Nanos::ZERO, |sum, one| sum.saturating_add(one.at_most(window)))
}

/// What comes at a distance or later and has a cost each time, in a window.
fn times(cost: Nanos, distance: Nanos, window: Nanos) -> Nanos {
    let count = window.div_floor(distance.max(Nanos::new(1))).saturating_add(1);
    Nanos::new(cost.get().saturating_mul(count))
}

/// The wake-ups of a workload's tasks whose releases are known, but for one of them by its name, and the timers of all reservations.
pub fn interruptions(workload: &Workload, platform: &Platform, but: Option<&str>) -> Vec<Interruption> {
    let Overheads { switch, wakeup, timer, .. } = platform.overheads;
    let each = |cost: Nanos, count: i64| Nanos::new(cost.get().saturating_mul(count));
    let mut found = Vec::new();
    for task in workload.tasks.iter().filter(|task| Some(task.name.as_str()) != but) {
        let instances = i64::from(task.instances.on(platform.cpus));
        if let Some(distance) = wakes_apart(task, workload) {
            let wakes = instances.saturating_mul(waits(task).saturating_add(1));
            found.push(Interruption { cost: each(wakeup + switch, wakes), distance });
        }
    }
    let declared = workload
        .tasks
        .iter()
        .filter_map(|task| Some((task.reservation?.period, i64::from(task.instances.on(platform.cpus)))));
    let irqs = workload.irqs.iter().filter_map(|irq| Some((irq.reservation?.period, 1)));
    let others = platform.others.iter().map(|other| (other.reservation.period, i64::from(other.threads)));
    let timers = declared.chain(irqs).chain(others).map(|(distance, threads)| (distance, 3 * threads));
    let servers = platform.fair_server.map(|server| (server.period, 2 * i64::from(platform.cpus)));
    found.extend(
        timers.chain(servers).map(|(distance, count)| Interruption { cost: each(timer, count), distance }),
    );
    found.retain(|interruption| interruption.cost.is_positive());
    found
}

/// How far apart wake-ups of a task are at least, those inside its jobs apart; `None` where nothing says it.
///
/// A task that chains release does its least work between two of them; events that come by themselves are as far apart as they come.
fn wakes_apart(task: &Task, workload: &Workload) -> Option<Nanos> {
    if !workload.is_fed(task) {
        return release_distance(task).map(|(distance, _)| distance);
    }
    let mut passing = workload.chains.iter().filter(|chain| chain.through.contains(&task.name));
    let gap = match (passing.next(), passing.next()) {
        (Some(chain), None) if chain.through.first() == Some(&task.name) => match chain.start {
            Arrivals::Periodic { period } => period,
            Arrivals::Sporadic { gap } => gap,
            Arrivals::Poisson { .. } | Arrivals::Closed { .. } => Nanos::ZERO,
        },
        _ => Nanos::ZERO,
    };
    Some(drawn_work(task).map_or(Nanos::ZERO, least).max(gap))
}

/// How often a job of a task sleeps or waits in its middle.
fn waits(task: &Task) -> i64 {
    match &task.body {
        TaskBody::Phases(phases) => waits_of(phases),
        _ => 0,
    }
}

/// The same of steps; what is done for ever counts as often as can be said.
fn waits_of(phases: &[Phase]) -> i64 {
    let of = |phase: &Phase| match phase {
        Phase::Run(_) | Phase::Fill(_) => 0,
        Phase::Loop { times, phases } => {
            let times = times.and_then(|times| i64::try_from(times).ok()).unwrap_or(i64::MAX);
            waits_of(phases).saturating_mul(times)
        }
        _ => 1,
    };
    phases.iter().map(of).fold(0, i64::saturating_add)
}

/// What a budget of a task pays beside its work, at the most.
pub fn of_budget(task: &Task, reservation: Reservation, workload: &Workload, platform: &Platform) -> Nanos {
    let Overheads { switch, sleep, tick, .. } = platform.overheads;
    let period = reservation.period;
    let foreign = all_at_most(&interruptions(workload, platform, Some(&task.name)), period);
    let per_job = Nanos::new((switch + sleep).get().saturating_mul(waits(task).saturating_add(1)));
    let own = wakes_apart(task, workload).map_or(per_job, |distance| times(per_job, distance, period));
    let ticks = times(tick, platform.tick, period);
    foreign.saturating_add(own).saturating_add(ticks).saturating_add(switch)
}

/// The longest time for which a CPU ends what it has begun before it serves a release, with the release's own wake-up and switch.
pub fn busy(overheads: &Overheads) -> Nanos {
    let Overheads { switch, wakeup, sleep, tick, timer } = *overheads;
    // One of each that another causes, and its own wake-up and switch.
    (switch + wakeup) * 2 + sleep + tick + timer
}

/// How budgets end where the CPU may be busy when one is used up.
pub fn enforcement(platform: &Platform) -> Enforcement {
    if platform.overheads.are_none() {
        return platform.enforcement;
    }
    Enforcement::Tick(platform.enforcement.overrun_max().saturating_add(busy(&platform.overheads)))
}

/// The platform for proofs: its budgets end when the CPU is done with what it has begun.
pub fn with_busy(platform: &Platform) -> Platform {
    Platform { enforcement: enforcement(platform), ..platform.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;

    const COSTS: Overheads = Overheads {
        switch: Nanos::from_micros(1),
        wakeup: Nanos::from_micros(2),
        sleep: Nanos::from_micros(3),
        tick: Nanos::from_micros(4),
        timer: Nanos::from_micros(5),
    };

    /// Steps that are done for ever were once counted so often that their number was below nothing.
    #[test]
    fn steps_without_end_leave_no_budget() {
        let (us, ms) = (Nanos::from_micros, Nanos::from_millis);
        let phases = vec![Phase::Loop { times: None, phases: vec![Phase::Sleep(us(10))] }];
        let own = Reservation::implicit(ms(4), ms(10));
        let mut task = Task::periodic("t", ms(10), TimeDistribution::Constant(ms(1)));
        (task.body, task.reservation) = (TaskBody::Phases(phases), Some(own));
        let workload = Workload { tasks: vec![task.clone()], ..Workload::default() };
        let platform = Platform { overheads: COSTS, ..Platform::linux_6_18(1) };
        assert!(of_budget(&task, own, &workload, &platform) > own.runtime);
    }

    #[test]
    fn a_budget_pays_for_itself_and_for_what_interrupts_it() {
        let (us, ms) = (Nanos::from_micros, Nanos::from_millis);
        let work = || TimeDistribution::Constant(ms(1));
        let own = Reservation::implicit(ms(4), ms(10));
        let task = Task { reservation: Some(own), ..Task::periodic("t", ms(10), work()) };
        let other = Task::periodic("u", ms(3), work());
        let workload = Workload { tasks: vec![task.clone(), other], ..Workload::default() };
        let theory = Platform { fair_server: None, ..Platform::linux_6_18(1) };
        assert_eq!(of_budget(&task, own, &workload, &theory), Nanos::ZERO);
        assert_eq!(enforcement(&theory), theory.enforcement);
        let platform = Platform { overheads: COSTS, ..theory };
        // 4 wake-ups in 10 ms, 2 times 3 timers, 2 jobs, 3 ticks, and a switch.
        let all = us(4 * 3) + us(2 * 3 * 5) + us(2 * 4) + us(3 * 4) + us(1);
        assert_eq!(of_budget(&task, own, &workload, &platform), all);
        assert_eq!(enforcement(&platform).overrun_max(), ms(4) + us(6 + 3 + 4 + 5));
    }
}
