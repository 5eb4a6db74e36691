//! Control groups of the workload: their weights at the CPUs and at disks.

use std::collections::BTreeMap;

use surety_block::{IoGroup, Priority, Process};
use surety_model::workload::{ActivityKind, Group, Task, Workload};
use surety_model::world::WorldError;
use surety_units::CpuSet;

use super::{Activity, Builder, Member, Stage};
use crate::cpu::hardware::GroupSpec;
use crate::world::refuse;

/// Groups with parents before children.
#[derive(Default)]
pub(super) struct Groups<'a> {
    pub(super) specs: Vec<GroupSpec>,
    /// At disks, where a group has a weight there; else none.
    pub(super) io: Vec<IoGroup>,
    /// The CPUs of each, where it has some of its own.
    pub(super) cpus: Vec<Option<CpuSet>>,
    /// Each one's place by name.
    pub(super) places: BTreeMap<&'a str, usize>,
}

/// The groups of a workload on the CPUs of a run.
pub(super) fn groups<'a>(workload: &'a Workload, run: &CpuSet) -> Result<Groups<'a>, WorldError> {
    let mut found = Groups::default();
    let are_at_disks = workload.groups.iter().any(|group| group.io_weight.is_some());
    while found.specs.len() < workload.groups.len() {
        let places = &found.places;
        let ready = workload.groups.iter().find(|group| {
            let parent = group.parent.as_deref();
            !places.contains_key(group.name.as_str()) && parent.is_none_or(|p| places.contains_key(p))
        });
        let Some(group) = ready else {
            let missing = workload.groups.iter().find(|g| !places.contains_key(g.name.as_str()));
            let name = missing.map_or("", |g| g.name.as_str());
            let why = "its parent is not there or is inside it; name a group above it";
            return refuse(format!("group.{name}"), why);
        };
        let parent = group.parent.as_deref().and_then(|p| places.get(p).copied());
        if group.reservation.is_some() && is_inside(&found.specs, parent) {
            let why = "a group above it has a reservation, and one inside another is not simulated: leave one of them out";
            return refuse(format!("group.{}", group.name), why);
        }
        let cpus = workload.cpus_of_group(Some(&group.name));
        if cpus.is_some_and(|cpus| cpus.intersection(run).is_empty()) {
            let why = format!(
                "none of its CPUs is left of those of the groups around it and of the run, {run}; correct `cpus`"
            );
            return refuse(format!("group.{}", group.name), why);
        }
        found.cpus.push(cpus);
        found.places.insert(&group.name, found.specs.len());
        let Group { weight, quota, idle, reservation, .. } = *group;
        found.specs.push(GroupSpec { weight, quota, idle, reservation, parent });
        if are_at_disks {
            found.io.push(IoGroup { weight: group.io_weight.unwrap_or(Group::IO_WEIGHT), parent });
        }
    }
    Ok(found)
}

/// Whether a group, or one above it, has a reservation.
fn is_inside(specs: &[GroupSpec], group: Option<usize>) -> bool {
    let above = std::iter::successors(group, |group| specs[*group].parent);
    above.into_iter().any(|group| specs[group].reservation.is_some())
}

/// Whether the steps of a task in a group may change how it is scheduled, its CPUs, or its group.
pub(super) fn may_change(stage: &Stage, task: &Task, group: Option<usize>) -> Result<(), String> {
    let changes = task.changes() != (false, false) || !task.later_groups().is_empty();
    match changes && is_inside(&stage.machine.hardware().groups, group) {
        true => Err("its group has a reservation, inside which threads stay as they are: leave `cpus`, `policy` and `group` out of \
                     its steps"
            .to_owned()),
        false => Ok(()),
    }
}

/// Realtime threads inside the reservation of a group stay on one CPU each: moving them by what is left of the servers there is not simulated.
pub(super) fn inside_one_cpu(workload: &Workload, stage: &Stage, cpus: usize) -> Result<(), WorldError> {
    let hardware = stage.machine.hardware();
    let is_inside = |member: &&Member| {
        hardware.thread(member.thread).rank != hardware.rank_in(member.scheduling, None)
            && member.allowed.map_or(cpus, |cpus| cpus.len()) > 1
    };
    let Some(member) = stage.members.iter().find(is_inside) else { return Ok(()) };
    let path = match member.activity {
        Activity::Task(task) => ActivityKind::Task.path(&workload.tasks[task].name),
        Activity::Load(load) => ActivityKind::Load.path(&workload.loads[load].name),
        _ => "group".to_owned(),
    };
    let why = "its group has a reservation, inside which a realtime thread stays on one CPU: give it `cpus` or `instances = \"per-cpu\"`, or run it on one CPU";
    refuse(path, why)
}

impl Builder<'_> {
    /// The CPUs of those that a thread may use which are its group's.
    pub(super) fn within_group(&self, group: Option<usize>, allowed: Option<CpuSet>) -> Option<CpuSet> {
        let Some(own) = group.and_then(|group| self.group_cpus[group]) else { return allowed };
        // Those of the run are among them.
        Some(own.intersection(&allowed.unwrap_or(self.cpus)))
    }

    /// The same of a member with CPUs of its own, or a reservation.
    pub(super) fn member_within_group(
        &self,
        object: &str,
        group: Option<usize>,
        (allowed, is_reserved): (Option<CpuSet>, bool),
    ) -> Result<Option<CpuSet>, WorldError> {
        let within = self.within_group(group, allowed);
        if within.is_some_and(|cpus| cpus.is_empty()) {
            let why = "it may use no CPU: its own are none of its group's; correct `cpus` of one of them";
            return refuse(object.to_owned(), why);
        }
        let is_smaller = |cpus: CpuSet| cpus.len() < self.ids.len();
        if is_reserved && group.is_some_and(|group| self.group_cpus[group].is_some_and(is_smaller)) {
            let why = "a kernel refuses a reservation to a thread whose group has some CPUs only; leave `cpus` out of the group, or the task out of it";
            return refuse(object.to_owned(), why);
        }
        Ok(within)
    }

    /// A process as disks know it, in a group by name.
    pub(super) fn process(&self, group: Option<&str>, priority: Priority) -> Process {
        let place = group.and_then(|group| self.places.get(group).copied());
        Process { priority, group: place.filter(|place| *place < self.io_groups.len()) }
    }
}
