//! A plan's claims played by the simulator.

use surety_analysis::work::mean;
use surety_model::claim::{Claim, ClaimedArrivals, Subject};
use surety_model::distribution::TimeDistribution;
use surety_model::plan::Plan;
use surety_model::platform::OtherReservation;
use surety_model::promise::Promise;
use surety_model::record::{Evidence, Promised, Record};
use surety_model::reservation::Reservation;
use surety_model::workload::{
    Arrivals, Instances, Irq, Late, Load, LoadKind, Phase, PolicySpec, Release, Task, TaskBody, Work,
    Workload,
};
use surety_model::world::{RunOptions, Unobserved, World as _};
use surety_sim::SimWorld;
use surety_stats::intervals::failure_lower;
use surety_stats::random::Pcg;
use surety_units::{Frequency, Nanos};

use crate::check::CheckError;

/// The seed of every check.
const SEED: u64 = 1;
/// Jobs of the task whose jobs are fewest.
const JOBS: i64 = 10_000;
/// It is at least this long, and at most so long.
const SHORTEST: Nanos = Nanos::from_secs(10);
const LONGEST: Nanos = Nanos::from_secs(1_000);
/// A long and busy plan is simulated for fewer seconds: for about this many events, but not for less than this.
const EVENTS_MAX: f64 = 6e6;
const LEAST: Nanos = Nanos::from_secs(1);
/// A fraction is refuted with this confidence; late jobs come in clusters, so a failure counts as a tenth of one.
const CONFIDENCE: f64 = 0.999;
const CLUSTER: u64 = 10;

/// What the simulator did.
pub struct Simulated {
    record: Record,
    /// The same, where reservations for a share may sleep inside their budgets, with threads there that do.
    asleep: Option<Record>,
    seconds: f64,
}

/// Runs the plan's activities as the claims describe them, beside busy loops on every CPU: what is promised a share wants all of
/// it, and in a second run, where it may sleep inside a budget, sleeps and runs by turns.
pub fn simulate(plan: &Plan, claims: &[Claim]) -> Result<Simulated, CheckError> {
    let mut workload = Workload::default();
    let mut duration = SHORTEST;
    for planned in &plan.reservations {
        let own: Vec<&Claim> = claims.iter().filter(|claim| claim.activity == planned.activity).collect();
        let promises: Vec<Promise> = own.iter().map(|claim| claim.promise).collect();
        let work = |work: &surety_model::claim::ClaimedWork| {
            work.distribution()
                .map_err(|source| CheckError::Work { activity: planned.activity.clone(), source })
        };
        let threads = own.iter().map(|claim| claim.threads).max().unwrap_or(1);
        if let Some(claim) = own.iter().find_map(|claim| match &claim.about {
            Subject::Requests(claim) => Some(claim),
            _ => None,
        }) {
            let arrivals = match claim.arrivals {
                ClaimedArrivals::Apart(gap) => Arrivals::Sporadic { gap },
                ClaimedArrivals::Independent(rate) => {
                    Arrivals::Poisson { rate: Frequency((rate * 1e3).round() as u64) }
                }
                ClaimedArrivals::Closed(outstanding, service) => Arrivals::Closed { outstanding, service },
            };
            workload.irqs.push(Irq {
                hard: Some(claim.hard).filter(|hard| hard.is_positive()),
                buffer: claim.buffer,
                promises,
                reservation: Some(planned.reservation),
                ..Irq::new(&planned.activity, arrivals, work(&claim.work)?)
            });
            continue;
        }
        let response = own.iter().find_map(|claim| match &claim.about {
            Subject::Response(claim) => Some(claim),
            _ => None,
        });
        let mut task = match response {
            Some(claim) => {
                let period = claim.gap + claim.jitter;
                duration = duration.max((period * JOBS).min(LONGEST));
                let mut task = Task::periodic(&planned.activity, period, work(&claim.work)?);
                task.release = Release::Periodic { period, jitter: claim.jitter, start: Nanos::ZERO };
                task.late = if claim.skips { Late::Skip } else { Late::Queue };
                task
            }
            None => {
                let mut task = Task::periodic(
                    &planned.activity,
                    planned.reservation.period,
                    TimeDistribution::Constant(Nanos::ZERO),
                );
                (task.body, task.release) = (TaskBody::Synthetic(Work::Forever), Release::Unspecified);
                task
            }
        };
        task.instances = Instances::Count(threads);
        task.promises = promises;
        task.reservation = Some(planned.reservation);
        workload.tasks.push(task);
    }
    workload.tasks.extend(plan.platform.others.iter().map(standing));
    let duration = affordable(&workload, plan, duration)?;
    let loops =
        |name: &str, count: u32| Load::new(&format!("{name} of the check"), LoadKind::Spinners, count);
    workload.loads.push(loops("busy loops", plan.platform.cpus * 2));
    if plan.platform.realtime.is_some() {
        let policy = PolicySpec::Fifo { priority: 1 };
        workload.loads.push(Load { policy, ..loops("realtime loops", plan.platform.cpus) });
    }
    let options = RunOptions { seed: SEED, duration, ..RunOptions::default() };
    let run = |workload: &Workload| {
        SimWorld::new(plan.platform.clone())
            .run(workload, &options, &mut Unobserved)
            .map_err(|error| CheckError::Simulation(error.to_string()))
    };
    let record = run(&workload)?;
    let mut is_other = false;
    for (place, task) in workload.tasks.iter_mut().enumerate() {
        let sleeps = claims.iter().any(|claim| claim.activity == task.name && claim.wakes_inside)
            || plan.platform.others.iter().any(|other| other.name == task.name && other.sleeps);
        if let (TaskBody::Synthetic(Work::Forever), Some(reservation), true) =
            (&task.body, task.reservation, sleeps)
        {
            let random = Pcg::for_job(SEED, u64::try_from(place).unwrap_or(0), 0);
            task.body = TaskBody::Phases(by_turns(reservation, random));
            // Always late, so the steps begin again at once.
            task.release =
                Release::Periodic { period: reservation.period, jitter: Nanos::ZERO, start: Nanos::ZERO };
            (task.late, task.promises) = (Late::Queue, Vec::new());
            is_other = true;
        }
    }
    let asleep = if is_other { Some(run(&workload)?) } else { None };
    Ok(Simulated { record, asleep, seconds: duration.as_secs_f64() })
}

/// What others have reserved as a task that wants all of it: in every period one job of a whole budget where no job ever needs
/// more, else all the time.
fn standing(other: &OtherReservation) -> Task {
    let OtherReservation { reservation, threads, .. } = *other;
    let mut task =
        Task::periodic(&other.name, reservation.period, TimeDistribution::Constant(reservation.runtime));
    if !other.bounded {
        (task.body, task.release) = (TaskBody::Synthetic(Work::Forever), Release::Unspecified);
    }
    task.instances = Instances::Count(threads);
    task.reservation = Some(reservation);
    task
}

/// Steps of a thread that runs for parts of its budget, or for more, and sleeps for parts of its period.
fn by_turns(reservation: Reservation, mut random: Pcg) -> Vec<Phase> {
    let mut steps = Vec::new();
    for _ in 0..64 {
        let (least, most) = [(100, 900), (900, 1000), (1000, 3000)][random.below(3) as usize];
        let run =
            reservation.runtime.mul_ratio(least + random.below(most - least + 1), 1000).max(Nanos::new(1));
        let sleep = reservation.period.mul_ratio(1 + random.below(1000), 1000);
        steps.extend([Phase::Run(TimeDistribution::Constant(run)), Phase::Sleep(sleep)]);
    }
    steps
}

/// The duration, or as much of it as [`EVENTS_MAX`] allow.
fn affordable(workload: &Workload, plan: &Plan, duration: Nanos) -> Result<Nanos, CheckError> {
    let each = |distance: Nanos| 1e9 / distance.max(Nanos::new(1)).get() as f64;
    let mut rate =
        f64::from(plan.platform.cpus) * (each(plan.platform.tick) + each(plan.platform.base_slice));
    for task in &workload.tasks {
        let own =
            task.release.interval().map_or(0.0, each) + task.reservation.map_or(0.0, |r| each(r.period));
        rate += own * f64::from(task.instances.on(plan.platform.cpus));
    }
    for irq in &workload.irqs {
        rate += irq.reservation.map_or(0.0, |r| each(r.period));
        rate += match irq.arrivals {
            Arrivals::Periodic { period: gap } | Arrivals::Sporadic { gap } => each(gap),
            Arrivals::Poisson { rate } => rate.per_second(),
            Arrivals::Closed { outstanding, service } => {
                let work = Nanos::from_f64_rounded(mean(&irq.work));
                // The device finishes one after the other, and each is handled.
                each(service).min(f64::from(outstanding) * each(service.saturating_add(work)))
            }
        };
    }
    let most = Nanos::from_f64_rounded(EVENTS_MAX / rate * 1e9);
    if most < LEAST {
        let value = format!("{rate:.0} events in each second");
        let most = format!("{EVENTS_MAX:.0} in all, and {LEAST} at least");
        return Err(CheckError::TooMuch { what: "the simulation", value, most });
    }
    Ok(duration.min(most))
}

impl Simulated {
    /// Whether an activity was in it.
    pub fn ran(&self, activity: &str) -> bool {
        self.record.activity(activity).is_some()
    }

    /// Whether a claim stands, and what was seen; `least`: where chance has no part in it, how many of so many jobs at the
    /// beginning have to be in time.
    pub fn says(&self, claim: &Claim, least: Option<&dyn Fn(u64) -> u64>) -> (bool, String) {
        let (agrees, words) = self.says_in(&self.record, claim, least);
        match &self.asleep {
            Some(asleep) if !matches!(claim.about, Subject::Share { .. }) => {
                let (also, more) = self.says_in(asleep, claim, least);
                (agrees && also, format!("{words}; beside shares that sleep inside budgets {more}"))
            }
            _ => (agrees, words),
        }
    }

    fn says_in(&self, whole: &Record, claim: &Claim, least: Option<&dyn Fn(u64) -> u64>) -> (bool, String) {
        let of_claim = |p: &&Promised| p.promise == claim.promise;
        let found = whole.activity(&claim.activity);
        let Some((record, promised)) = found.and_then(|r| Some((r, r.promised.iter().find(of_claim)?)))
        else {
            return (false, "it did not run".to_owned());
        };
        let hash = whole.hash.unwrap_or_default();
        let run = format!("{:.0} s, seed {SEED}, hash {hash:016x}", self.seconds);
        match (&claim.about, &promised.evidence) {
            (Subject::Response(_), Evidence::Counted(outside)) if least.is_some() => {
                let (of, within) = (outside.trials(), outside.trials() - outside.failures());
                let least = least.map_or(0, |least| least(of));
                let words =
                    format!("{within} of {of} in time, {least} or more of the first {of} have to be ({run})");
                (within >= least, words)
            }
            (Subject::Response(response), Evidence::Counted(outside)) => {
                let (of, failed) = (outside.trials(), outside.failures());
                let within = of - failed;
                let least = failure_lower(failed.div_ceil(CLUSTER), of / CLUSTER, CONFIDENCE);
                let agrees = 1.0 - least >= response.proven.max(response.promised) - 1e-12;
                (agrees, format!("{within} of {of} in time ({run})"))
            }
            (Subject::Share { share, .. }, Evidence::Value { value, .. }) => {
                let least = share.as_f64() - claim_edge(self.seconds);
                (*value >= least, format!("{:.2} % of a CPU ({run})", value * 100.0))
            }
            (Subject::Requests(requests), Evidence::Value { value, .. }) => match requests.rate {
                Some(rate) => {
                    let least = rate * (1.0 - 3.0 / (rate * self.seconds).sqrt()) - 2.0;
                    (*value >= least, format!("{value:.1} requests a second ({run})"))
                }
                None => (
                    record.skipped == 0,
                    format!("{} of {} requests lost ({run})", record.skipped, record.activations),
                ),
            },
            (Subject::Share { .. }, _) => (true, format!("not seen where its jobs want less ({run})")),
            (_, other) => (record.missed == 0, format!("{other:?} ({run})")),
        }
    }
}

/// What one server period at the edge of the run may hide.
fn claim_edge(seconds: f64) -> f64 {
    0.2 / seconds
}
