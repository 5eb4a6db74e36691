//! [`Group`]: a control group, with a weight, a quota or a reservation.

use surety_units::{CpuSet, Nanos};

use super::Workload;
use crate::reservation::Reservation;

/// A control group with a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    /// `cpu.weight`, 1..=10000; 100 is the default.
    pub weight: u32,
    /// `io.bfq.weight`, 1..=1000; as soon as one group has it, 100 is that of the others.
    pub io_weight: Option<u32>,
    /// `cpu.max` and `cpu.max.burst`.
    pub quota: Option<Quota>,
    /// `cpu.idle`: its threads run where nobody else wants to, whatever its weight.
    pub idle: bool,
    /// `cpuset.cpus`: the CPUs that its threads may use, of those of the group it is in; `None`: all of them.
    pub cpus: Option<CpuSet>,
    /// What its realtime threads have of each CPU, all of them together, and no more (hierarchical CBS).
    pub reservation: Option<Reservation>,
    /// The group it is in.
    pub parent: Option<String>,
}

/// The most CPU time that a group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time in each period, of all its CPUs together; 1 ms or more.
    pub runtime: Nanos,
    /// 1 ms to 1 s.
    pub period: Nanos,
    /// The most it saves for later of what it did not use; at most the runtime.
    pub burst: Nanos,
}

impl Quota {
    /// The kernel's default.
    pub const PERIOD: Nanos = Nanos::from_millis(100);
    /// Periods that the kernel takes.
    pub const PERIODS: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_secs(1));
    /// The least quota that it takes.
    pub const LEAST: Nanos = Nanos::from_millis(1);
}

/// The first group with a reservation or CPUs of its own, by its path, and why nothing is proven beside it.
pub fn unanalysed_group(workload: &Workload) -> Option<(String, &'static str)> {
    let reserved = workload.groups.iter().find(|group| group.reservation.is_some());
    if let Some(group) = reserved {
        let why = "the reservation of a group is not analysed; try `--on sim`";
        return Some((format!("group.{}", group.name), why));
    }
    let confined = workload.groups.iter().find(|group| group.cpus.is_some())?;
    let why = "the CPUs of a group are not analysed; give its tasks `cpus`, or try `--on sim`";
    Some((format!("group.{}", confined.name), why))
}

impl Workload {
    /// The CPUs that threads in a group may use: those of it and of each group around it, as far as they say (`cpuset.cpus.effective`);
    /// `None`: none of them says.
    pub fn cpus_of_group(&self, name: Option<&str>) -> Option<CpuSet> {
        let of = |name: &str| self.groups.iter().find(|group| group.name == name);
        let around = std::iter::successors(name.and_then(of), |group| of(group.parent.as_deref()?));
        // Groups in a ring are refused elsewhere.
        let cpus = around.take(self.groups.len()).filter_map(|group| group.cpus);
        cpus.reduce(|all, cpus| all.intersection(&cpus))
    }
}

impl Group {
    /// One as the kernel makes it, below the root.
    pub fn new(name: &str) -> Group {
        Group {
            name: name.to_owned(),
            weight: 100,
            io_weight: None,
            quota: None,
            idle: false,
            cpus: None,
            reservation: None,
            parent: None,
        }
    }

    /// [`Group::io_weight`] where groups have it and this one does not say.
    pub const IO_WEIGHT: u32 = 100;
}
