//! Control groups of the workload: their weights at the CPUs and at disks.

use std::collections::BTreeMap;

use surety_block::{IoGroup, Priority, Process};
use surety_model::workload::{Group, Workload};
use surety_model::world::WorldError;

use super::Builder;
use crate::cpu::hardware::GroupSpec;
use crate::world::refuse;

/// Groups with parents before children.
#[derive(Default)]
pub(super) struct Groups<'a> {
    pub(super) specs: Vec<GroupSpec>,
    /// At disks, where a group has a weight there; else none.
    pub(super) io: Vec<IoGroup>,
    /// Each one's place by name.
    pub(super) places: BTreeMap<&'a str, usize>,
}

/// The groups of a workload.
pub(super) fn groups(workload: &Workload) -> Result<Groups<'_>, WorldError> {
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
        found.places.insert(&group.name, found.specs.len());
        let Group { weight, quota, idle, .. } = *group;
        found.specs.push(GroupSpec { weight, quota, idle, parent });
        if are_at_disks {
            found.io.push(IoGroup { weight: group.io_weight.unwrap_or(Group::IO_WEIGHT), parent });
        }
    }
    Ok(found)
}

impl Builder<'_> {
    /// A process as disks know it, in a group by name.
    pub(super) fn process(&self, group: Option<&str>, priority: Priority) -> Process {
        let place = group.and_then(|group| self.places.get(group).copied());
        Process { priority, group: place.filter(|place| *place < self.io_groups.len()) }
    }
}
