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
        activities
            .is_empty()
            .then(|| ("workload".to_owned(), "there is nothing in it to run; add a [[task]]"))
    }

    /// The first task or load, by its path, whose policy no kernel has.
    pub fn simulated_policy(&self) -> Option<String> {
        let tasks = self.tasks.iter().map(|task| (ActivityKind::Task, &task.name, task.policy));
        let loads = self.loads.iter().map(|load| (ActivityKind::Load, &load.name, load.policy));
        let is_simulated = |policy| matches!(policy, PolicySpec::Simulated { .. });
        let found = tasks.chain(loads).find(|(.., policy)| is_simulated(*policy));
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
