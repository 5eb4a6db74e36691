//! What happens most rarely, of what can delay an activity: a run has to be long enough to see it.

use surety_units::Nanos;

use super::{Arrivals, Irq, PolicySpec, Schedule, Task, TaskBody, Work, Workload};
use crate::distribution::TimeDistribution;
use crate::promise::Promise;

/// What runs before what: a larger rank preempts a smaller one, an equal one competes with it.
type Rank = (u8, u32);

const DEADLINE: Rank = (2, 0);

fn rank_of(schedule: Schedule) -> Rank {
    if schedule.reservation.is_some() { DEADLINE } else { rank_of_policy(schedule.policy) }
}

fn rank_of_policy(policy: PolicySpec) -> Rank {
    match policy {
        PolicySpec::Deadline => DEADLINE,
        _ => policy.realtime_priority().map_or((0, 0), |priority| (1, priority)),
    }
}

/// From one release to the next in the mean, where that is known.
fn interval_of(task: &Task) -> Option<Nanos> {
    match &task.spacing {
        Some(spacing) => Some(Nanos::from_f64_rounded(spacing.mean_ns())),
        None => task.release.interval(),
    }
}

fn interval_of_irq(irq: &Irq) -> Option<Nanos> {
    match irq.arrivals {
        Arrivals::Periodic { period } => Some(period),
        Arrivals::Sporadic { gap } => Some(gap),
        Arrivals::Poisson { rate } => Some(Nanos::from_f64_rounded(1e9 / rate.per_second())),
        Arrivals::Closed { .. } => None,
    }
}

/// How far apart in the mean those jobs of a task are that are rare and yet delay several activations, each `apart` from the
/// next, of a promise by which the fraction `allowed` may be outside: together they take an eighth of that fraction of a CPU, since
/// what waits behind them is late too.
fn interval_of_long(task: &Task, apart: Option<Nanos>, allowed: f64) -> Option<Nanos> {
    let TaskBody::Synthetic(Work::Drawn(TimeDistribution::Empirical(work))) = &task.body else { return None };
    // In their order they are seen or not by the length of the sequence.
    if work.sequence().is_some() {
        return None;
    }
    let interval = interval_of(task)?.get() as f64;
    let all: Vec<(Nanos, u64)> = work.pairs().collect();
    let total = work.total() as f64;
    let of = |value: Nanos, times: u64| value.get() as f64 * times as f64 / total;
    let mean: f64 = all.iter().map(|(value, times)| of(*value, *times)).sum();
    let least = apart.map_or(8.0 * mean, |apart| apart.get() as f64);
    let (mut count, mut part) = (0.0, 0.0);
    for (value, times) in all.into_iter().rev().take_while(|(value, _)| value.get() as f64 >= least) {
        count += times as f64;
        part += of(value, times) / interval;
        if part >= allowed / 8.0 {
            return Some(Nanos::from_f64_rounded(interval * total / count));
        }
    }
    None
}

/// What is rare, and how far apart it is in the mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rare<'a> {
    /// The activity.
    pub name: &'a str,
    /// Whether it is only its long jobs.
    pub is_work: bool,
    /// In the mean.
    pub interval: Nanos,
}

impl Workload {
    /// What happens most rarely among what can delay a task or a load: releases of tasks of its rank or above it, or that
    /// share a resource with it, and of interrupt sources; long jobs of those and of its own. `None` where no such one has
    /// a known interval.
    ///
    /// Interrupt sources can delay whatever runs.
    pub fn rarest_that_delays(&self, name: &str) -> Option<Rare<'_>> {
        let judged = self.tasks.iter().find(|task| task.name == name);
        let load = self.loads.iter().find(|load| load.name == name);
        // What changes its policy is delayed by as much as at its lowest, and delays others as at its highest.
        let lowest = judged.and_then(|task| task.schedules().map(rank_of).min());
        let rank = lowest.or_else(|| load.map(|load| rank_of_policy(load.policy)))?;
        let allowed = allowed(self.promises_of(name));
        let may_delay = |task: &&Task| {
            let inside = judged.is_some_and(|judged| judged.waits_inside().is_some());
            (inside && task.waits_inside().is_some()) || task.schedules().any(|of| rank_of(of) >= rank)
        };
        let release =
            |name, interval: Option<Nanos>| Some(Rare { name, is_work: false, interval: interval? });
        let tasks = self.tasks.iter().filter(may_delay);
        let releases = tasks.clone().filter(|task| task.name != name);
        let releases = releases.filter_map(|task| release(task.name.as_str(), interval_of(task)));
        let irqs = self.irqs.iter().filter_map(|irq| release(irq.name.as_str(), interval_of_irq(irq)));
        let long = tasks.filter_map(|task| {
            let interval = interval_of_long(task, judged.and_then(interval_of), allowed)?;
            Some(Rare { name: task.name.as_str(), is_work: true, interval })
        });
        releases.chain(irqs).chain(long).max_by_key(|rare| rare.interval)
    }
}

/// The smallest fraction of activations that a promise lets be outside; a hundredth where none says one, as of shares.
fn allowed(promises: &[Promise]) -> f64 {
    let allowed = promises.iter().filter_map(|promise| promise.at).map(|at| at.complement().as_f64());
    allowed.filter(|allowed| *allowed > 0.0).reduce(f64::min).unwrap_or(0.01)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Empirical;
    use crate::workload::{Load, LoadKind, Phase};

    #[test]
    fn only_what_can_delay_counts() {
        let ms = Nanos::from_millis;
        let task = |name: &str, period, policy| {
            let mut task = Task::periodic(name, ms(period), TimeDistribution::Constant(ms(1)));
            task.policy = policy;
            task
        };
        let fair = PolicySpec::default();
        let fifo = |priority| PolicySpec::Fifo { priority };
        let mut workload = Workload {
            tasks: vec![
                task("player", 20, fair),
                task("audio", 5, fifo(50)),
                task("burst", 5_000, fifo(60)),
                task("backup", 60_000, fair),
            ],
            ..Workload::default()
        };
        let rarest = |workload: &Workload, name: &str| {
            let rare = workload.rarest_that_delays(name);
            rare.map(|rare| (rare.name.to_owned(), rare.is_work, rare.interval))
        };
        let is = |name: &str, is_work, interval| Some((name.to_owned(), is_work, ms(interval)));
        assert_eq!(rarest(&workload, "player"), is("backup", false, 60_000));
        assert_eq!(rarest(&workload, "audio"), is("burst", false, 5_000));
        assert_eq!(rarest(&workload, "burst"), None);
        workload.tasks[2].spacing = Some(TimeDistribution::Exponential { mean: ms(9_000) });
        assert_eq!(rarest(&workload, "audio"), is("burst", false, 9_000));
        workload.loads.push(Load::new("spin", LoadKind::Spinners, 1));
        assert_eq!(rarest(&workload, "spin"), is("backup", false, 60_000));
        // A step counts as the task's own policy does: of others the highest, of its own the lowest.
        let becomes = |policy| TaskBody::Phases(vec![Phase::Become(Schedule { policy, reservation: None })]);
        workload.tasks[3].body = becomes(fifo(90));
        assert_eq!(rarest(&workload, "audio"), is("backup", false, 60_000));
        workload.tasks[3].body = becomes(fifo(40));
        assert_eq!(rarest(&workload, "audio"), is("burst", false, 9_000));
        workload.tasks[1].body = becomes(fair);
        assert_eq!(rarest(&workload, "audio"), is("backup", false, 60_000));
    }

    /// A rare long job, of another or its own, is as rare as a rare release.
    #[test]
    fn rare_long_jobs_count_and_the_upper_end_of_common_ones_does_not() {
        let ms = Nanos::from_millis;
        let work = |pairs: &[(i64, u64)]| {
            let pairs = pairs.iter().map(|(value, count)| (ms(*value), *count)).collect();
            TimeDistribution::Empirical(Empirical::new(pairs).unwrap())
        };
        let rarest = |own: TimeDistribution, hog: TimeDistribution, judged: &str| {
            let mut hog = Task::periodic("hog", ms(1_000), hog);
            hog.policy = PolicySpec::Fifo { priority: 50 };
            let mut a = Task::periodic("a", ms(20), own);
            a.promises = vec![Promise::parse("response <= 20ms @ 95%").unwrap()];
            let loads = vec![Load::new("spin", LoadKind::Spinners, 1)];
            let workload = Workload { tasks: vec![a, hog], loads, ..Workload::default() };
            workload.rarest_that_delays(judged).map(|rare| (rare.name == "hog", rare.is_work, rare.interval))
        };
        let short = || work(&[(1, 1)]);
        let hog = || work(&[(1, 49), (4_000, 1)]);
        assert_eq!(rarest(short(), hog(), "a"), Some((true, true, ms(50_000))));
        assert_eq!(rarest(short(), hog(), "spin"), Some((true, true, ms(50_000))));
        assert_eq!(rarest(work(&[(1, 999), (1_500, 1)]), short(), "a"), Some((false, true, ms(20_000))));
        // Long, and much too rare for the promise; late one by one, which is counted as it comes.
        for own in [work(&[(1, 999_999), (1_500, 1)]), work(&[(5, 900), (15, 99), (19, 1)])] {
            assert_eq!(rarest(own, short(), "a"), Some((true, false, ms(1_000))));
        }
    }
}
