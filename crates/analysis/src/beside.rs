//! What stands beside the threads that are analysed: reservations that a workload declares or other processes hold, and what
//! realtime threads below them take.
//!
//! Both are part of the [`Platform`] as it is found: whoever analyses for that platform counts them, and a plan file that
//! holds it lets others count them again.

use surety_model::modes::modes_of;
use surety_model::platform::{OtherReservation, Platform, RealtimeDemand};
use surety_model::reservation::Reservation;
use surety_model::workload::{ActivityKind, Instances, Load, Phase, Task, TaskBody, Work, Workload};
use surety_model::world::WorldError;
use surety_units::{CpuSet, Nanos};

use crate::edf::ReservedThread;
use crate::overheads;
use crate::response::{ServedTask, on_grid, release_distance};
use crate::sampled::modes::MeasuredModes;
use crate::work::{declared_bound, drawn_work};

/// What a task's thread asks of the CPUs under the reservation that its workload declares; `None` without one.
pub fn reserved_thread(task: &Task, workload: &Workload, platform: &Platform) -> Option<ReservedThread> {
    let reservation = task.reservation?;
    let served = served(task, reservation, workload, platform);
    let bounded = served.as_ref().is_some_and(ServedTask::needs_one_budget);
    let never_sleeps = matches!(task.body, TaskBody::Synthetic(Work::Forever));
    let sleeps = !never_sleeps && served.as_ref().is_none_or(ServedTask::wakes_inside);
    Some(ReservedThread { reservation, bounded, sleeps })
}

/// The reservations that a workload declares for the activities that `counts`.
pub fn declared(
    workload: &Workload,
    platform: &Platform,
    counts: impl Fn(&str) -> bool,
) -> Vec<OtherReservation> {
    let task = |task: &Task| {
        let ReservedThread { reservation, bounded, sleeps } = reserved_thread(task, workload, platform)?;
        let threads = task.instances.on(platform.cpus);
        let name = task.name.clone();
        Some(OtherReservation { name, reservation, threads, bounded, sleeps, root_domain: None })
    };
    let tasks = workload.tasks.iter().filter(|task| counts(&task.name)).filter_map(task);
    let irqs = workload.irqs.iter().filter(|irq| counts(&irq.name));
    let of = |(name, reservation): (String, Reservation)| OtherReservation::unknown(name, reservation);
    let irqs = irqs.filter_map(|irq| Some(of((irq.name.clone(), irq.reservation?))));
    tasks.chain(irqs).collect()
}

/// The threads that others have reserved on a platform, each with its name.
pub fn threads_of(platform: &Platform) -> Vec<(String, ReservedThread)> {
    let of = |other: &OtherReservation| {
        let OtherReservation { reservation, bounded, sleeps, .. } = *other;
        vec![(other.name.clone(), ReservedThread { reservation, bounded, sleeps }); other.threads as usize]
    };
    platform.others.iter().flat_map(of).collect()
}

/// What the realtime threads of a workload take of a CPU in any period of its fair server, all of them on one CPU and with one
/// job each carried in; `None` without such threads or without fair servers. `stays`: which tasks stay realtime threads.
pub fn realtime(
    workload: &Workload,
    platform: &Platform,
    stays: impl Fn(&Task) -> bool,
) -> Option<RealtimeDemand> {
    let period = platform.longest_server_period()?;
    let tasks: Vec<&Task> =
        workload.tasks.iter().filter(|task| task.policy.is_realtime() && stays(task)).collect();
    // No load says how much of a CPU it wants at the most.
    let mut loads = workload.loads.iter().filter(|load| load.policy.is_realtime());
    let endless = |load: &Load| RealtimeDemand { who: load.name.clone(), takes: None };
    if let Some(load) = loads.next() {
        return Some(endless(load));
    }
    let mut all = Nanos::ZERO;
    for task in &tasks {
        match most_in(task, period) {
            Some(most) => all = all.saturating_add(most),
            None => return Some(RealtimeDemand { who: task.name.clone(), takes: None }),
        }
    }
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    (!names.is_empty()).then(|| RealtimeDemand { who: names.join(", "), takes: Some(all) })
}

/// The most that a task's threads on one CPU run in a window, where its releases and the largest work of its jobs are known.
pub(crate) fn most_in(task: &Task, window: Nanos) -> Option<Nanos> {
    let (gap, _) = release_distance(task).filter(|(gap, _)| gap.is_positive())?;
    let job = match &task.body {
        TaskBody::Synthetic(Work::Drawn(work)) => declared_bound(work)?,
        TaskBody::Phases(phases) => most_of(phases)?,
        _ => return None,
    };
    let threads = match task.instances {
        Instances::Count(count) | Instances::PerCpu(count) => count,
    };
    let jobs = (window.div_ceil(gap) + 1).saturating_mul(i64::from(threads));
    Some(Nanos::new(job.get().saturating_mul(jobs)))
}

/// The most that steps run, where that is declared.
fn most_of(phases: &[Phase]) -> Option<Nanos> {
    let run = |phase: &Phase| match phase {
        Phase::Run(work) => declared_bound(work),
        Phase::Busy(length) => Some(length.saturating_add(Phase::PIECE)),
        // What a machine was seen to take is no bound.
        Phase::Fill(_) => None,
        Phase::Loop { times, phases } => {
            let each = most_of(phases)?.get();
            Some(Nanos::new(each.saturating_mul(i64::try_from((*times)?).unwrap_or(i64::MAX))))
        }
        _ => Some(Nanos::ZERO),
    };
    phases.iter().map(run).try_fold(Nanos::ZERO, |sum, time| Some(sum.saturating_add(time?)))
}

/// The task under a reservation, where its work is a distribution and its releases are known: with the budget that is left when
/// the kernel's own work is paid. `None` where nothing is left, too.
pub(crate) fn served(
    task: &Task,
    reservation: Reservation,
    workload: &Workload,
    platform: &Platform,
) -> Option<ServedTask> {
    let (gap, jitter) = release_distance(task)?;
    let work = drawn_work(task)?.clone();
    let runtime = reservation.runtime - overheads::of_budget(task, reservation, workload, platform);
    if !platform.overheads.are_none() && !runtime.is_positive() {
        return None;
    }
    Some(ServedTask {
        modes: modes_of(&work).map(|fit| MeasuredModes::of(&fit).as_measured()),
        work,
        gap,
        jitter: jitter + overheads::busy(&platform.overheads),
        grid: on_grid(task),
        late: task.late,
        reservation: Reservation { runtime, ..reservation },
        enforcement: overheads::enforcement(platform),
    })
}

/// Refuses tasks on CPUs that are not among those of the run, as the simulator does; `all`: those of the machine.
///
/// # Errors
/// [`WorldError::Unsupported`].
pub(crate) fn check_cpus(workload: &Workload, cpus: CpuSet, all: CpuSet) -> Result<(), WorldError> {
    workload.tasks.iter().try_for_each(|task| {
        let of_group = workload.cpus_of_group(task.group.as_deref());
        let object = ActivityKind::Task.path(&task.name);
        let refused = |why| WorldError::Unsupported { world: "analysis".to_owned(), object, why };
        task.check_cpus(&cpus, of_group, &all).map_err(refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::workload::{LoadKind, PolicySpec};

    #[test]
    fn realtime_threads_are_counted_or_said_to_be_endless() {
        let ms = Nanos::from_millis;
        let fifo = PolicySpec::Fifo { priority: 5 };
        let task = |work| Task { policy: fifo, ..Task::periodic("rt", ms(100), work) };
        let of = |tasks: Vec<Task>, loads: Vec<Load>| {
            let workload = Workload { tasks, loads, ..Workload::default() };
            realtime(&workload, &Platform::linux_6_18(1), |_| true).map(|found| found.takes)
        };
        let constant = TimeDistribution::Constant(ms(3));
        // Ten releases in a second, and one job carried in.
        assert_eq!(of(vec![task(constant.clone())], Vec::new()), Some(Some(ms(33))));
        let twice = Task { instances: Instances::Count(2), ..task(constant.clone()) };
        assert_eq!(of(vec![twice], Vec::new()), Some(Some(ms(66))));
        let exponential = TimeDistribution::Exponential { mean: ms(3) };
        assert_eq!(of(vec![task(constant.clone()), task(exponential)], Vec::new()), Some(None));
        let hog = Load { policy: fifo, ..Load::new("hog", LoadKind::Spinners, 1) };
        assert_eq!(of(vec![task(constant.clone())], vec![hog]), Some(None));
        assert_eq!(of(vec![Task::periodic("fair", ms(100), constant)], Vec::new()), None);
    }
}
