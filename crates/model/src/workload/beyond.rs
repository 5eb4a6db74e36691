//! [`Workload::beyond_kernels`]: what no running kernel can be asked for, this machine's or the lab's.

use super::{ActivityKind, Disk, Irq, PolicySpec, Workload};

impl Workload {
    /// The first object that no kernel can run in this version, by its path, and why; found without asking any.
    pub fn beyond_kernels(&self) -> Option<(String, &'static str)> {
        for (index, irq) in self.irqs.iter().enumerate() {
            let is_taken = |other: &Irq| irq.device.is_some() && other.device == irq.device;
            if self.irqs[..index].iter().any(is_taken) {
                let why = "another source has the same device, and a virtual cable has one thread; give it a device of its own";
                return Some((format!("irq.{}", irq.name), why));
            }
        }
        let activities = self.activities();
        let refused = activities.iter().find_map(|a| Some((a.kind.path(a.name), a.kind.row().kernels?)));
        if refused.is_some() {
            return refused;
        }
        if let Some(group) = self.groups.first() {
            let why = "this version makes no control groups; try `--on sim`";
            return Some((format!("group.{}", group.name), why));
        }
        if let Some(task) = self.tasks.iter().find(|t| t.reservation.is_some_and(|r| r.demote)) {
            let why = "no kernel runs a reserved task on as a fair one when its budget is used up; leave out `demote`";
            return Some((format!("task.{}", task.name), why));
        }
        if let Some(refused) = self.disks.iter().find_map(beyond) {
            return Some(refused);
        }
        if let Some(path) = self.simulated_policy() {
            return Some((path, "no kernel has its policy; try `--on sim`"));
        }
        if let Some(path) = self.latency_nice() {
            return Some((path, "no mainline kernel has `latency_nice`; leave it out, or try `--on sim`"));
        }
        activities
            .is_empty()
            .then(|| ("workload".to_owned(), "there is nothing in it to run; add a [[task]]"))
    }

    /// The first task or load, by its path, whose policy no kernel has.
    pub fn simulated_policy(&self) -> Option<String> {
        self.first_with(|policy| matches!(policy, PolicySpec::Simulated { .. }))
    }

    /// The first task or load, by its path, with a latency nice.
    pub fn latency_nice(&self) -> Option<String> {
        self.first_with(|policy| matches!(policy, PolicySpec::LatencyNice { .. }))
    }

    fn first_with(&self, is_looked_for: impl Fn(PolicySpec) -> bool) -> Option<String> {
        let tasks = self.tasks.iter().map(|task| (ActivityKind::Task, &task.name, task.policy));
        let loads = self.loads.iter().map(|load| (ActivityKind::Load, &load.name, load.policy));
        let found = tasks.chain(loads).find(|(.., policy)| is_looked_for(*policy));
        found.map(|(kind, name, _)| kind.path(name))
    }
}

/// What of a disk is for simulation alone.
fn beyond(disk: &Disk) -> Option<(String, &'static str)> {
    let why = if disk.on.is_some() {
        "a virtual machine's disk is for simulation; leave out `on` here"
    } else if disk.read_ahead.is_some() {
        "read-ahead by the rules of a kernel is for simulation; leave out `read-ahead` here"
    } else {
        return None;
    };
    Some((format!("disk.{}", disk.name), why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::TimeDistribution;
    use crate::workload::Task;
    use surety_units::Nanos;

    #[test]
    fn kernels_are_not_asked_for_a_latency_nice() {
        let mut task =
            Task::periodic("t", Nanos::from_millis(10), TimeDistribution::Constant(Nanos::from_millis(1)));
        task.policy = PolicySpec::LatencyNice { nice: 0, latency_nice: -20 };
        let mut workload = Workload { tasks: vec![task], ..Workload::default() };
        let (path, why) = workload.beyond_kernels().unwrap();
        assert!(path == "task.t" && why.contains("no mainline kernel has `latency_nice`"), "{path}: {why}");
        workload.tasks[0].policy = PolicySpec::default();
        assert_eq!(workload.beyond_kernels(), None);
    }
}
