//! The scenarios: a workload file each, with the number of CPUs it is of.

use surety_model::formats::toml;
use surety_model::workload::{Task, TaskBody, Work, Workload};

/// A workload and the number of CPUs it runs on: one that is listed here, or of anybody's file, of which no cause is known.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// That of its workload; of a file its name as it was given.
    pub title: String,
    /// Whether it is one of [`scenarios`].
    pub is_listed: bool,
    pub cpus: u32,
    /// What its machine is to be, as `--platform` takes it; kernels of the lab can be.
    pub platform: String,
    pub text: String,
    pub workload: Workload,
}

impl Scenario {
    /// Whether the longest waits of its threads are compared, which takes a trace: on one CPU, of threads without jobs where a
    /// reservation or a realtime policy decides who waits. What a trace takes moves the instants at which jobs of realtime threads
    /// end, so scenarios that have some are left as they are.
    pub fn has_waits(&self) -> bool {
        let tasks = || self.workload.tasks.iter();
        let is_endless = |task: &Task| matches!(task.body, TaskBody::Synthetic(Work::Forever));
        let is_realtime = |task: &Task| task.policy.realtime_priority().is_some();
        self.cpus == 1
            && tasks().any(is_endless)
            && tasks().any(|task| task.reservation.is_some() || is_realtime(task))
            && !tasks().any(|task| is_realtime(task) && !is_endless(task))
    }
}

/// All of them, in the order in which they are shown.
pub fn scenarios() -> Vec<Scenario> {
    let read = |cpus: u32, platform: &'static str, text: &'static str| {
        let workload = toml::read("scenario", text).expect("the embedded workloads are read by a test");
        let title = workload.title.clone().unwrap_or_default();
        let (platform, text) = (platform.to_owned(), text.to_owned());
        Scenario { title, is_listed: true, cpus, platform, text, workload }
    };
    let plain = FILES.iter().map(|(cpus, text)| read(*cpus, "", text));
    plain.chain(ASKED.iter().map(|(cpus, platform, text)| read(*cpus, platform, text))).collect()
}

const FILES: &[(u32, &str)] = &[
    (1, include_str!("scenarios/equal-spinners.toml")),
    (1, include_str!("scenarios/nice-8-beside-3.toml")),
    (1, include_str!("scenarios/nice-0-5-10.toml")),
    (1, include_str!("scenarios/nice-20-beside-100.toml")),
    (1, include_str!("scenarios/batch-and-idle.toml")),
    (1, include_str!("scenarios/slices-of-1-and-20-ms.toml")),
    (1, include_str!("scenarios/10-of-50-ms-beside-2.toml")),
    (1, include_str!("scenarios/10-of-40-ms-beside-2.toml")),
    (1, include_str!("scenarios/1-of-10-ms-beside-3.toml")),
    (1, include_str!("scenarios/700-us-of-5-ms-200-us-of-2-ms-beside-2.toml")),
    (1, include_str!("scenarios/50-us-of-200-us-beside-1.toml")),
    (1, include_str!("scenarios/100-us-of-500-us-beside-1.toml")),
    (1, include_str!("scenarios/300-us-of-1-ms-beside-1.toml")),
    (1, include_str!("scenarios/nice-3-beside-nice-0-5-7.toml")),
    (1, include_str!("scenarios/three-rates-of-three-nice-values-beside-3.toml")),
    (1, include_str!("scenarios/batch-of-21-ms-and-fair-of-7-ms-beside-batch-and-idle.toml")),
    (1, include_str!("scenarios/drawn-work-beside-2.toml")),
    (1, include_str!("scenarios/five-fair-tasks-no-hog.toml")),
    (1, include_str!("scenarios/fifo-beside-fair.toml")),
    (1, include_str!("scenarios/rr-beside-fair.toml")),
    (1, include_str!("scenarios/rate-monotonic-3-fifo-tasks.toml")),
    (1, include_str!("scenarios/fifo-of-1-ms-above-fair.toml")),
    (1, include_str!("scenarios/fifo-and-rr-of-equal-priority.toml")),
    (1, include_str!("scenarios/fifo-of-97.toml")),
    (1, include_str!("scenarios/priority-inversion.toml")),
    (1, include_str!("scenarios/priority-inheritance.toml")),
    (1, include_str!("scenarios/deadline-2-10.toml")),
    (1, include_str!("scenarios/deadline-2-10-reclaiming.toml")),
    (1, include_str!("scenarios/two-reclaimers.toml")),
    (1, include_str!("scenarios/a-reclaimer-beside-one-that-sleeps.toml")),
    (1, include_str!("scenarios/deadline-3-10-5-20.toml")),
    (1, include_str!("scenarios/deadline-12-40-above-fifo.toml")),
    (1, include_str!("scenarios/overruns.toml")),
    (1, include_str!("scenarios/overruns-after-overruns.toml")),
    (1, include_str!("scenarios/overruns-that-skip.toml")),
    (1, include_str!("scenarios/constrained-deadlines.toml")),
    (1, include_str!("scenarios/three-reservations-and-fifo.toml")),
    (1, include_str!("scenarios/reservations-of-1-and-2-ms.toml")),
    (1, include_str!("scenarios/deadline-fifo-rr-and-fair.toml")),
    (1, include_str!("scenarios/phases-with-sleeps.toml")),
    (1, include_str!("scenarios/nice-5-of-12-ms-beside-nice-0-and-10.toml")),
    (1, include_str!("scenarios/two-rr-hogs-below-fifo-of-15-ms.toml")),
    (1, include_str!("scenarios/deadline-4-16-above-nice-5-and-10.toml")),
    (1, include_str!("scenarios/slices-of-3-and-10-ms-periodic.toml")),
    (1, include_str!("scenarios/idle-and-fair-of-25-ms-beside-batch.toml")),
    (1, include_str!("scenarios/drawn-work-reserved-beside-rr.toml")),
    (1, include_str!("scenarios/groups-of-weights.toml")),
    (1, include_str!("scenarios/nested-groups.toml")),
    (1, include_str!("scenarios/quota-of-30-ms.toml")),
    (1, include_str!("scenarios/quota-of-jobs.toml")),
    (1, include_str!("scenarios/quota-with-burst.toml")),
    (1, include_str!("scenarios/idle-group.toml")),
    (1, include_str!("scenarios/timer-slack.toml")),
    (1, include_str!("scenarios/chain-of-fed-stages.toml")),
    (1, include_str!("scenarios/chain-of-fifo-stages.toml")),
    (2, include_str!("scenarios/3-equal-spinners-on-2-cpus.toml")),
    (2, include_str!("scenarios/nice-0-0-5-on-2-cpus.toml")),
    (2, include_str!("scenarios/5-spinners-of-mixed-nice-on-2-cpus.toml")),
    (2, include_str!("scenarios/2-fifo-hogs-and-a-fair-spinner-on-2-cpus.toml")),
    (2, include_str!("scenarios/periodic-beside-3-on-2-cpus.toml")),
    (2, include_str!("scenarios/periodic-beside-2-on-2-cpus.toml")),
    (2, include_str!("scenarios/a-spinner-per-cpu-and-periodic-on-2-cpus.toml")),
    (2, include_str!("scenarios/3-reservations-on-2-cpus.toml")),
    (2, include_str!("scenarios/3-fifo-tasks-on-2-cpus.toml")),
    (2, include_str!("scenarios/fifo-below-deadline-of-5-ms-on-2-cpus.toml")),
    (2, include_str!("scenarios/4-periodic-tasks-on-2-cpus.toml")),
    (2, include_str!("scenarios/fifo-and-2-reservations-beside-2-on-2-cpus.toml")),
    (2, include_str!("scenarios/nice-10-0-0-10-on-2-cpus.toml")),
    (2, include_str!("scenarios/3-rr-hogs-and-a-fair-one-on-2-cpus.toml")),
    (2, include_str!("scenarios/2-groups-on-2-cpus.toml")),
    (2, include_str!("scenarios/quota-on-2-cpus.toml")),
    (2, include_str!("scenarios/one-periodic-task-on-2-cpus.toml")),
    (2, include_str!("scenarios/fair-fifo-and-deadline-that-never-overlap-on-2-cpus.toml")),
    (4, include_str!("scenarios/5-equal-spinners-on-4-cpus.toml")),
    (4, include_str!("scenarios/6-spinners-of-mixed-nice-on-4-cpus.toml")),
    (4, include_str!("scenarios/5-reservations-on-4-cpus.toml")),
    (4, include_str!("scenarios/3-tasks-that-never-overlap-on-4-cpus.toml")),
    (4, include_str!("scenarios/a-chain-alone-on-4-cpus.toml")),
    (8, include_str!("scenarios/9-equal-spinners-on-8-cpus.toml")),
    (8, include_str!("scenarios/9-reservations-on-8-cpus.toml")),
];

/// Those of machines that are asked for.
const ASKED: &[(u32, &str, &str)] = &[
    (1, "hrtimers=off", include_str!("scenarios/fifo-on-ticks.toml")),
    (1, "hrtimers=off", include_str!("scenarios/fair-on-ticks.toml")),
    (1, "nohz=off", include_str!("scenarios/idle-with-ticks.toml")),
    (
        1,
        "features=NO_WAKEUP_PREEMPTION",
        include_str!("scenarios/slices-of-3-and-10-ms-without-wakeup-preemption.toml"),
    ),
    (
        1,
        "features=NO_RUN_TO_PARITY",
        include_str!("scenarios/slices-of-3-and-10-ms-without-run-to-parity.toml"),
    ),
    (4, "smt=2", include_str!("scenarios/2-spinners-on-2-cores-of-2-threads.toml")),
    (4, "smt=2", include_str!("scenarios/3-spinners-on-2-cores-of-2-threads.toml")),
    (4, "smt=2", include_str!("scenarios/periodic-on-2-cores-of-2-threads.toml")),
    (4, "llc=2", include_str!("scenarios/3-spinners-behind-2-caches.toml")),
    (4, "llc=2", include_str!("scenarios/periodic-behind-2-caches.toml")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_of_endless_threads_where_no_realtime_thread_has_jobs() {
        let all = scenarios();
        let has_waits = |title: &str| {
            all.iter().find(|scenario| scenario.title == title).expect("there is one").has_waits()
        };
        for title in
            ["FIFO beside fair", "DEADLINE 3/10, 5/20", "two reclaimers", "DEADLINE 12/40 above FIFO"]
        {
            assert!(has_waits(title), "{title}");
        }
        for title in [
            "equal spinners",
            "nice 0, 5, 10",
            "overruns",
            "FIFO and RR of equal priority",
            "3 reservations on 2 CPUs",
        ] {
            assert!(!has_waits(title), "{title}");
        }
    }

    #[test]
    fn every_scenario_is_a_workload_with_a_title_of_its_own() {
        let all = scenarios();
        assert!(all.len() >= 40, "{}", all.len());
        for (place, scenario) in all.iter().enumerate() {
            assert!(!scenario.title.is_empty(), "number {place}");
            assert!(
                all.iter().skip(place + 1).all(|other| other.title != scenario.title),
                "{}",
                scenario.title
            );
        }
    }
}
