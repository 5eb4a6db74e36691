//! Reservations for the profile pass: generous, so that jobs are not late and do not merge, and work can be
//! measured while the loads run.

use surety_analysis::RootDomain;
use surety_analysis::beside::declared;
use surety_model::platform::Platform;
use surety_model::reservation::{KERNEL_PERIOD_MAX, KERNEL_PERIOD_MIN, Reservation};
use surety_model::workload::{Instances, Task, Workload};
use surety_units::Nanos;

use crate::GRAIN;

/// The period of a task whose own is not known.
const PERIOD: Nanos = Nanos::from_millis(100);
/// One thread gets at most this many percent of a CPU: the rest is what keeps the fair server in the
/// background.
const PERCENT_MAX: u64 = 89;

/// As much of a CPU as one thread may have with nothing else reserved, in the task's own period.
pub fn generous_reservation(task: &Task, platform: &Platform) -> Reservation {
    share_of(task, &RootDomain::to_share(platform), 1)
}

/// The largest equal part of what is free for one of `threads` threads.
fn share_of(task: &Task, domain: &RootDomain, threads: u64) -> Reservation {
    let period = task.release.interval().unwrap_or(PERIOD).max(KERNEL_PERIOD_MIN).min(KERNEL_PERIOD_MAX);
    let part = RootDomain { admitted: domain.available() - domain.free() / threads.max(1), ..domain.clone() };
    let most = period.mul_ratio(PERCENT_MAX, 100).min(part.largest_runtime(period));
    let runtime = if most > GRAIN { GRAIN * most.div_floor(GRAIN) } else { most };
    Reservation::implicit(runtime, period)
}

/// The passes in which to profile the tasks with promises of a workload: in each, tasks with the reservation
/// every one of their threads gets. At most as many threads as CPUs go together, so that each has one to
/// itself. What others have reserved, and what the workload declares for activities without a promise, is left to them. Tasks
/// that cannot be reserved are in no pass.
pub fn profile_passes(workload: &Workload, platform: &Platform) -> Vec<Vec<(String, Reservation)>> {
    let mut platform = platform.clone();
    let is_unpromised = |name: &str| workload.promises_of(name).is_empty();
    platform.others.extend(declared(workload, &platform, is_unpromised));
    let (platform, domain) = (&platform, RootDomain::to_share(&platform));
    let threads_of = |task: &Task| u64::from(task.instances.on(platform.cpus));
    let mut passes: Vec<Vec<&Task>> = Vec::new();
    let reservable =
        |task: &&Task| !task.promises.is_empty() && matches!(task.instances, Instances::Count(_));
    for task in workload.tasks.iter().filter(reservable) {
        let threads = threads_of(task);
        let fits = |pass: &&mut Vec<&Task>| {
            pass.iter().map(|t| threads_of(t)).sum::<u64>() + threads <= u64::from(platform.cpus)
        };
        match passes.last_mut().filter(fits) {
            Some(pass) => pass.push(task),
            None => passes.push(vec![task]),
        }
    }
    let sized = |pass: Vec<&Task>| {
        let threads = pass.iter().map(|t| threads_of(t)).sum();
        let reserve = |task: &Task| (task.name.clone(), share_of(task, &domain, threads));
        let all: Vec<(String, Reservation)> = pass.into_iter().map(reserve).collect();
        all.into_iter().filter(|(_, reservation)| reservation.check().is_ok()).collect::<Vec<_>>()
    };
    passes.into_iter().map(sized).filter(|pass| !pass.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::distribution::TimeDistribution;
    use surety_model::platform::OtherReservation;
    use surety_model::promise::Promise;
    use surety_model::workload::Release;

    #[test]
    fn passes_are_admitted_and_generous() {
        let platform = Platform::linux_6_18(2);
        let task = |name: &str, period_ms| {
            let mut task = Task::periodic(
                name,
                Nanos::from_millis(period_ms),
                TimeDistribution::Constant(Nanos::MILLISECOND),
            );
            task.promises = vec![Promise::parse("response <= 40ms @ 99%").unwrap()];
            task
        };
        let mut unknown = task("c", 1);
        unknown.release = Release::Unspecified;
        let workload = Workload { tasks: vec![task("a", 40), task("b", 20), unknown], ..Workload::default() };
        let other = Reservation::implicit(Nanos::from_millis(858), Nanos::from_millis(1000));
        for others in [Vec::new(), vec![OtherReservation::unknown("other".to_owned(), other)]] {
            let platform = Platform { others, ..platform.clone() };
            let passes = profile_passes(&workload, &platform);
            assert_eq!(passes.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
            assert_eq!(passes[1][0].1.period, Nanos::from_millis(100));
            for pass in &passes {
                let mut domain = RootDomain::of(&platform);
                for (name, reservation) in pass {
                    domain.admit(reservation).unwrap_or_else(|e| panic!("{name}: {e}"));
                }
            }
            if platform.others.is_empty() {
                assert_eq!(
                    passes[0][0].1,
                    Reservation::implicit(Nanos::from_micros(35_600), Nanos::from_millis(40))
                );
            }
        }
        assert_eq!(generous_reservation(&workload.tasks[1], &platform).runtime, Nanos::from_micros(17_800));
    }
}
