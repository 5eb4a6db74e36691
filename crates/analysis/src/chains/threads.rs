//! The threads of a workload as a bound of chains sees them: what releases them, what their jobs take, and who stands above.

use surety_model::platform::Platform;
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Chain, Instances, Late, Release, Sleep, Task, Workload};
use surety_units::{CpuSet, Nanos};

use super::events::EventStream;
use crate::overheads::of_budget;
use crate::work::{declared_bound, drawn_work, least};

/// What releases the jobs of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Releases {
    /// Chains, each by its place and the place of the stage.
    Deliveries(Vec<(usize, usize)>),
    /// A grid from `start` on.
    Grid { stream: EventStream, start: Nanos, late: Late },
    /// Jobs at least a gap apart.
    Gap(EventStream),
}

/// Where the CPU time of a thread comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Service {
    /// A reservation, its runtime without what the kernel's own work takes of it.
    Reserved(Reservation),
    /// `SCHED_FIFO` or `SCHED_RR` at this priority on these CPUs; pinned: each of its threads to one of them.
    Fixed { priority: u32, cpus: CpuSet, is_pinned: bool },
}

/// A thread of which a response may be bounded.
#[derive(Clone, Debug)]
pub(super) struct Thread<'a> {
    pub task: &'a Task,
    pub releases: Releases,
    pub service: Service,
    /// The most CPU time of a job, with what switching to it, waking it and handing on takes.
    pub work: Nanos,
    /// The least CPU time of a job.
    pub least: Nanos,
    /// How many there are on each of its CPUs.
    pub count: u32,
}

impl<'a> Thread<'a> {
    /// The thread of a task, or why none of its responses is bounded.
    pub fn of(
        task: &'a Task,
        workload: &Workload,
        platform: &Platform,
        cpus: CpuSet,
    ) -> Result<Thread<'a>, String> {
        let service = service(task, workload, platform, cpus)?;
        let drawn =
            drawn_work(task).ok_or("its jobs are no plain work: steps and programs have no bound here")?;
        let most = declared_bound(drawn)
            .ok_or("its work has no largest value that is declared; give it a constant or a uniform one")?;
        let releases = releases(task, workload)?;
        // What wakes the stages behind it is on its account.
        let handed_on = handed_on(task, workload);
        let own = match service {
            Service::Fixed { .. } => platform.overheads.per_job(),
            Service::Reserved(_) => Nanos::ZERO,
        };
        let costs = own.saturating_add(Nanos::new(platform.overheads.wakeup.get().saturating_mul(handed_on)));
        let count = match task.instances {
            Instances::Count(count) | Instances::PerCpu(count) => count,
        };
        Ok(Thread {
            task,
            releases,
            service,
            work: most.saturating_add(costs).max(Nanos::new(1)),
            least: least(drawn),
            count,
        })
    }
}

/// How many fed stages a job hands on to.
fn handed_on(task: &Task, workload: &Workload) -> i64 {
    let next = |chain: &Chain| {
        let place = chain.through.iter().position(|name| *name == task.name)?;
        workload.task(chain.through.get(place + 1)?)
    };
    let fed = workload.chains.iter().filter_map(next).filter(|task| workload.is_fed(task));
    i64::try_from(fed.count()).unwrap_or(i64::MAX)
}

fn releases(task: &Task, workload: &Workload) -> Result<Releases, String> {
    let said = |why: &str| Err(why.to_owned());
    match task.release {
        Release::Periodic { .. } if task.sleep == Sleep::Relative => {
            said("it sleeps for a time, so that its releases move with its late jobs")
        }
        Release::Periodic { period, start, jitter } => {
            Ok(Releases::Grid { stream: EventStream::on_grid(period, jitter), start, late: task.late })
        }
        Release::Sporadic { gap } => Ok(Releases::Gap(EventStream::sporadic(gap))),
        Release::BackToBack { .. } => said("its jobs come back to back"),
        Release::Unspecified if workload.is_fed(task) => {
            let stage = |(at, chain): (usize, &Chain)| {
                chain.through.iter().position(|name| *name == task.name).map(|stage| (at, stage))
            };
            Ok(Releases::Deliveries(workload.chains.iter().enumerate().filter_map(stage).collect()))
        }
        Release::Unspecified => said("nothing says how often it is released"),
    }
}

fn service(task: &Task, workload: &Workload, platform: &Platform, cpus: CpuSet) -> Result<Service, String> {
    if let Some(reservation) = task.reservation {
        if reservation.reclaim {
            return Err("its reservation reclaims what others leave".to_owned());
        }
        let runtime = reservation.runtime - of_budget(task, reservation, workload, platform);
        if !runtime.is_positive() {
            return Err("the kernel's own work may take all of each budget".to_owned());
        }
        return Ok(Service::Reserved(Reservation { runtime, ..reservation }));
    }
    let priority = task.policy.realtime_priority().ok_or_else(|| {
        format!("`{}` guarantees it no CPU time; give it a reservation or a realtime policy", task.policy)
    })?;
    let cpus = task.cpus.unwrap_or(cpus);
    let is_pinned = cpus.len() == 1 || matches!(task.instances, Instances::PerCpu(_));
    Ok(Service::Fixed { priority, cpus, is_pinned })
}

/// The events of a chain as they come, or why no number of them is bounded.
pub(super) fn events_of(chain: &Chain) -> Result<EventStream, String> {
    match chain.start {
        Arrivals::Periodic { period } => Ok(EventStream::on_grid(period, Nanos::ZERO)),
        Arrivals::Sporadic { gap } => Ok(EventStream::sporadic(gap)),
        Arrivals::Poisson { .. } => Err(
            "its events come at random, and any number of them may come at once; `periodic` and `sporadic` events have a bound"
                .to_owned(),
        ),
        Arrivals::Closed { .. } => Err("its events do not come by themselves".to_owned()),
    }
}
