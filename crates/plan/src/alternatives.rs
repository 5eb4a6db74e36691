//! What would be feasible instead of a refused promise: each found by search and planned again before it is offered.
//!
//! One thing is changed at a time, as little as it takes: the limit later, the fraction, share or rate lower, the releases
//! farther apart, the activity's own work or that of another one less, more CPUs. "Feasible" means that the changed workload is
//! planned with this promise kept and nothing refused that was not refused before. The search looks at rough grids, which ask
//! for a little more than is needed; what it finds is planned in full before it is offered. Streams ([`StreamChange`]) are planned in full at once.

mod streams;

use std::collections::BTreeMap;
use std::fmt;

use surety_fit::WorkFit;
use surety_model::distribution::{Empirical, TimeDistribution};
use surety_model::plan::{Plan, PlannedReservation, Refusal};
use surety_model::promise::{Bound, Metric, Promise};
use surety_model::workload::{Arrivals, Release, TaskBody, Work, Workload};
use surety_units::{Bandwidth, Nanos, Probability, Rate};

use crate::PlanOptions;
use crate::interrupt::at_most;

pub use streams::StreamChange;

/// Times are offered on this grid; those below a hundred of it on whole microseconds.
const STEP: Nanos = Nanos::from_micros(100);
/// A limit or a period is at most this many times the wanted one.
const TIMES: i64 = 16;
/// Less work is looked for of so many of the other activities: those with the largest reservations.
const OTHERS: usize = 8;
/// CPUs more than there are.
const CPUS_MORE: u32 = 4;

/// One thing that is different.
#[derive(Clone, Debug, PartialEq)]
pub enum Alternative {
    /// Another promise in the refused one's place.
    Promise(Promise),
    /// Releases or interrupts this far apart.
    Apart(Nanos),
    /// Of this activity, work multiplied by so many thousandths.
    Work {
        /// Whose.
        activity: String,
        /// Thousandths.
        permille: u32,
        /// Whether it is the refused activity itself.
        own: bool,
    },
    /// So many CPUs.
    Cpus(u32),
    /// A stream that asks for something else.
    Stream(StreamChange),
    /// Of a disk, what it is to keep for best effort; none: that is left out.
    BestEffort { disk: String, rate: Option<Rate> },
}

impl fmt::Display for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |permille: &u32| f64::from(*permille) / 10.0;
        match self {
            Alternative::Promise(promise) => promise.fmt(f),
            Alternative::Apart(time) => {
                write!(f, "the same promise with releases {} apart", time.to_exact_string())
            }
            Alternative::Work { permille, own: true, .. } => {
                write!(f, "the same promise with work reduced to {:.1} % of what it is", percent(permille))
            }
            Alternative::Work { activity, permille, .. } => write!(
                f,
                "the same promise with the work of `{activity}` reduced to {:.1} % of what it is",
                percent(permille)
            ),
            Alternative::Cpus(cpus) => write!(f, "the same promise on {cpus} CPUs"),
            Alternative::Stream(change) => change.fmt(f),
            Alternative::BestEffort { rate: Some(rate), disk } => {
                write!(f, "best-effort = \"{}\" of disk {disk}", rate.to_exact_string())
            }
            Alternative::BestEffort { rate: None, disk } => {
                write!(f, "`best-effort` of disk {disk} left out")
            }
        }
    }
}

impl Alternative {
    /// The workload and options with this one thing different.
    pub fn apply(
        &self,
        refusal: &Refusal,
        workload: &Workload,
        options: &PlanOptions,
    ) -> (Workload, PlanOptions) {
        let (mut workload, mut options) = (workload.clone(), options.clone());
        match self {
            Alternative::Promise(other) => {
                let change = |promises: &mut Vec<Promise>| {
                    promises.iter_mut().filter(|p| **p == refusal.promise).for_each(|p| *p = *other);
                };
                let tasks = workload.tasks.iter_mut().filter(|t| t.name == refusal.activity);
                tasks.for_each(|t| change(&mut t.promises));
                let irqs = workload.irqs.iter_mut().filter(|i| i.name == refusal.activity);
                irqs.for_each(|i| change(&mut i.promises));
                let streams = workload.streams.iter_mut().filter(|s| s.name == refusal.activity);
                streams.for_each(|s| change(&mut s.promises));
                let loads = workload.loads.iter_mut().filter(|l| l.name == refusal.activity);
                loads.for_each(|l| change(&mut l.promises));
            }
            Alternative::Apart(time) => {
                for task in workload.tasks.iter_mut().filter(|t| t.name == refusal.activity) {
                    match &mut task.release {
                        Release::Periodic { period, .. } => *period = *time,
                        Release::Sporadic { gap } => *gap = *time,
                        Release::Unspecified | Release::BackToBack { .. } => {}
                    }
                }
                for irq in workload.irqs.iter_mut().filter(|i| i.name == refusal.activity) {
                    match &mut irq.arrivals {
                        Arrivals::Periodic { period: t } | Arrivals::Sporadic { gap: t } => *t = *time,
                        Arrivals::Poisson { .. } | Arrivals::Closed { .. } => {}
                    }
                }
            }
            Alternative::Work { activity, permille, .. } => {
                for task in workload.tasks.iter_mut().filter(|t| t.name == *activity) {
                    if let TaskBody::Synthetic(Work::Drawn(work)) = &mut task.body {
                        *work = scaled(work, *permille);
                    }
                }
                for irq in workload.irqs.iter_mut().filter(|i| i.name == *activity) {
                    irq.work = scaled(&irq.work, *permille);
                }
            }
            Alternative::Cpus(cpus) => options.platform.cpus = *cpus,
            Alternative::Stream(change) => {
                let streams = workload.streams.iter_mut().filter(|s| s.name == refusal.activity);
                streams.for_each(|stream| change.apply(stream));
            }
            Alternative::BestEffort { disk, rate } => {
                let disks = workload.disks.iter_mut().filter(|d| d.name == *disk);
                disks.for_each(|disk| disk.best_effort = *rate);
            }
        }
        (workload, options)
    }
}

/// Every time of a distribution multiplied, rounded down.
fn scaled(work: &TimeDistribution, permille: u32) -> TimeDistribution {
    let part = |time: Nanos| time.mul_ratio(u64::from(permille), 1000);
    match work {
        TimeDistribution::Constant(value) => TimeDistribution::Constant(part(*value)),
        TimeDistribution::Uniform { low, high } => {
            TimeDistribution::Uniform { low: part(*low), high: part(*high) }
        }
        TimeDistribution::Normal { mean, std_dev } => {
            TimeDistribution::Normal { mean: part(*mean), std_dev: part(*std_dev) }
        }
        TimeDistribution::LogNormal { mean, p99 } => {
            TimeDistribution::LogNormal { mean: part(*mean), p99: part(*p99) }
        }
        TimeDistribution::Exponential { mean } => TimeDistribution::Exponential { mean: part(*mean) },
        TimeDistribution::Empirical(values) => {
            let pairs = values.pairs().map(|(value, count)| (part(value), count)).collect();
            Empirical::new(pairs).map_or_else(|_| work.clone(), TimeDistribution::Empirical)
        }
    }
}

/// On which grid times near this one are offered.
fn step_of(time: Nanos) -> Nanos {
    if time < STEP * 100 { Nanos::MICROSECOND } else { STEP }
}

/// The smallest that is feasible above one that is not, to a two-hundredth of it.
fn halved(mut low: i64, mut high: i64, feasible: impl Fn(i64) -> bool) -> i64 {
    while high - low > 1.max(high / 200) {
        let middle = low + (high - low) / 2;
        if feasible(middle) { high = middle } else { low = middle }
    }
    high
}

/// Plans a workload once: with rough grids, or in full.
pub(crate) type Planner<'a> = dyn Fn(&Workload, &PlanOptions, bool) -> Plan + 'a;

/// The search for one refusal.
pub(crate) struct Search<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) fits: &'a BTreeMap<String, WorkFit>,
    pub(crate) options: &'a PlanOptions,
    pub(crate) plan: &'a Plan,
    pub(crate) refusal: &'a Refusal,
    pub(crate) planner: &'a Planner<'a>,
}

impl Search<'_> {
    /// What is feasible instead, the nearest first.
    pub(crate) fn all(&self) -> Vec<Alternative> {
        let promise = self.refusal.promise;
        if let Some(stream) = self.workload.streams.iter().find(|s| s.name == self.refusal.activity) {
            return self.of_stream(stream);
        }
        if let Some(load) = self.workload.loads.iter().find(|load| load.name == self.refusal.activity) {
            return self.of_load(load);
        }
        let mut found = Vec::new();
        found.extend(self.later(&promise));
        found.extend(self.lower(&promise));
        found.extend(self.less_work(&self.refusal.activity, true));
        found.extend(self.farther_apart());
        for planned in self.largest_others() {
            found.extend(self.less_work(&planned.activity, false));
        }
        found.extend(self.more_cpus());
        found.retain(|alternative| self.is_feasible(alternative, false));
        found
    }

    /// The other activities whose reservations are largest, in the order of the plan.
    fn largest_others(&self) -> Vec<&PlannedReservation> {
        let bandwidth = |planned: &PlannedReservation| planned.reservation.bandwidth().as_f64();
        let others = self.plan.reservations.iter().filter(|p| p.activity != self.refusal.activity);
        let mut largest: Vec<(usize, &PlannedReservation)> = others.enumerate().collect();
        largest.sort_by(|(_, a), (_, b)| bandwidth(b).total_cmp(&bandwidth(a)));
        largest.truncate(OTHERS);
        largest.sort_by_key(|(place, _)| *place);
        largest.into_iter().map(|(_, planned)| planned).collect()
    }

    fn is_feasible(&self, alternative: &Alternative, rough: bool) -> bool {
        self.planned_with(alternative, rough).is_some()
    }

    /// Whether its time is over: for what has no reservation yet and is refused as a whole, all of it.
    pub(crate) fn has_ended(&self) -> bool {
        let is_stream = self.workload.streams.iter().any(|stream| stream.name == self.refusal.activity);
        if is_stream { self.options.search.is_over() } else { self.options.search.is_reached() }
    }

    /// The plan of what is feasible; what was ended on the way is no answer.
    fn planned_with(&self, alternative: &Alternative, rough: bool) -> Option<Plan> {
        let ended = || self.has_ended();
        if ended() {
            return None;
        }
        let (workload, options) = alternative.apply(self.refusal, self.workload, self.options);
        let plan = (self.planner)(&workload, &options, rough);
        let is_known = |refusal: &Refusal| {
            let same = |old: &Refusal| (&old.activity, &old.promise) == (&refusal.activity, &refusal.promise);
            self.plan.refusals.iter().any(same) && !same(self.refusal)
        };
        let is_feasible = plan.refusals.iter().all(is_known) && !ended();
        is_feasible.then_some(plan)
    }

    /// The smallest of `low..=high` that is feasible, where larger ones are too.
    fn smallest(&self, low: i64, high: i64, of: &dyn Fn(i64) -> Alternative) -> Option<Alternative> {
        let feasible = |x: i64| self.is_feasible(&of(x), true);
        let (mut low, mut step, mut high_found) = (low, 1, None);
        while high_found.is_none() {
            if self.has_ended() {
                return None;
            }
            let next = low.saturating_add(step).min(high);
            if next <= low {
                return None;
            }
            if feasible(next) {
                high_found = Some(next);
            } else {
                low = next;
                step *= 2;
            }
        }
        Some(of(halved(low, high_found?, feasible)))
    }

    fn later(&self, promise: &Promise) -> Option<Alternative> {
        let limit = promise.response_limit()?;
        let step = step_of(limit);
        let of = |steps: i64| Alternative::Promise(Promise { bound: Bound::Time(step * steps), ..*promise });
        let now = limit.div_floor(step);
        self.smallest(now, now.saturating_mul(TIMES), &of)
    }

    /// Less of what is promised: more jobs outside, in tenths of the digit of those that may be; a share or a rate in thousandths of it.
    fn lower(&self, promise: &Promise) -> Option<Alternative> {
        match (promise.metric, promise.bound) {
            (Metric::Response, Bound::Time(_)) => {
                let outside = 1.0 - promise.at.map_or(1.0, Probability::as_f64);
                // Decimals of a percentage: one, or one more than tell what may be outside.
                let decimals =
                    if outside > 0.0 { (-outside.log10() - 1e-9).floor().clamp(1.0, 6.0) } else { 1.0 };
                let parts = 10f64.powf(decimals + 2.0);
                let now = (outside * parts).floor() as i64;
                let of = |n: i64| {
                    let percent = 100.0 - n as f64 / parts * 100.0;
                    let text = format!("{percent:.*}%", decimals as usize);
                    Alternative::Promise(Promise { at: text.parse().ok(), ..*promise })
                };
                self.smallest(now, (parts / 2.0) as i64, &of)
            }
            (Metric::Share, Bound::Share(share)) => {
                // In units of the third digit of the share.
                let digits = (2.0 - share.as_f64().max(1e-9).log10().floor()).clamp(3.0, 11.0);
                let parts = 10u64.pow(digits as u32);
                let now = (share.as_f64() * parts as f64).ceil() as i64;
                let of = |less: i64| {
                    let left = u64::try_from(now - less).unwrap_or(1).max(1);
                    let share = Bandwidth::new(left, parts).unwrap_or(share);
                    Alternative::Promise(Promise { bound: Bound::Share(share), ..*promise })
                };
                self.smallest(0, now - 1, &of)
            }
            (Metric::Rate, Bound::Frequency(rate)) => {
                let of = |less: i64| {
                    let less = at_most(rate.per_second() * (1000 - less) as f64 / 1000.0);
                    Alternative::Promise(Promise { bound: Bound::Frequency(less), ..*promise })
                };
                self.smallest(0, 999, &of)
            }
            _ => None,
        }
    }

    /// Less work of an activity whose work is declared.
    fn less_work(&self, activity: &str, own: bool) -> Option<Alternative> {
        let is_declared = !self.fits.contains_key(activity)
            && (self.workload.irqs.iter().any(|irq| irq.name == activity)
                || self.workload.tasks.iter().any(|task| {
                    task.name == activity && matches!(task.body, TaskBody::Synthetic(Work::Drawn(_)))
                }));
        let of = |less: i64| Alternative::Work {
            activity: activity.to_owned(),
            permille: u32::try_from(1000 - less).unwrap_or(1),
            own,
        };
        is_declared.then(|| self.smallest(0, 990, &of)).flatten()
    }

    fn farther_apart(&self) -> Option<Alternative> {
        let name = &self.refusal.activity;
        let task = self.workload.tasks.iter().find(|t| t.name == *name).and_then(|t| t.release.interval());
        let irq = self.workload.irqs.iter().find(|i| i.name == *name).and_then(|i| match i.arrivals {
            Arrivals::Periodic { period: time } | Arrivals::Sporadic { gap: time } => Some(time),
            Arrivals::Poisson { .. } | Arrivals::Closed { .. } => None,
        });
        let now = task.or(irq)?;
        let step = step_of(now);
        let steps = now.div_floor(step);
        self.smallest(steps, steps.saturating_mul(TIMES), &|n| Alternative::Apart(step * n))
    }

    fn more_cpus(&self) -> Option<Alternative> {
        let now = self.options.platform.cpus;
        let more = (now + 1..=now.saturating_add(CPUS_MORE)).map(Alternative::Cpus);
        more.into_iter().find(|alternative| self.is_feasible(alternative, true))
    }
}
