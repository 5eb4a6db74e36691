//! Which reservations may be lent through locks: on one CPU with bandwidth inheritance, among threads that all have one.

use surety_model::platform::Platform;
use surety_model::workload::{PolicySpec, Task, Workload};

/// Why a task with a reservation may not take the locks that it takes; `None`: it may.
pub(super) fn refused(workload: &Workload, task: &Task, platform: &Platform) -> Option<String> {
    let lock = workload.lending_lock_of(task)?;
    let otherwise = "give the resource no protocol, or the task a realtime policy";
    if task.policy != PolicySpec::default() && task.policy != PolicySpec::Deadline
        || !platform.bandwidth_inheritance
    {
        return Some(format!(
            "lending a reservation through the resource `{lock}` is not simulated as a kernel does it; run it on the host, say \
             `--platform cpus=1,deadline-inheritance=bandwidth` to have budgets lent, {otherwise}"
        ));
    }
    let refused = if platform.cpus > 1 {
        Some("bandwidth inheritance is simulated on one CPU: say `cpus=1`".to_owned())
    } else if task.reservation.is_some_and(|reservation| reservation.demote) {
        Some("a reservation that is demoted is not lent: leave `demote` out".to_owned())
    } else {
        let takes = |other: &Task| {
            workload.lending_locks_of(other).iter().any(|name| workload.lending_locks_of(task).contains(name))
        };
        let changes = workload.tasks.iter().find(|other| takes(other) && other.changes().1);
        let without = workload.tasks.iter().find(|other| other.reservation.is_none() && takes(other));
        match (changes, without) {
            (Some(other), _) => {
                Some(format!("the task `{}` takes it and changes its policy: leave that out", other.name))
            }
            (None, without) => {
                let name = &without?.name;
                Some(format!("the task `{name}` takes it without a reservation to run on: give it one"))
            }
        }
    };
    refused.map(|why| format!("it lends its reservation through the resource `{lock}`; {why}, {otherwise}"))
}
