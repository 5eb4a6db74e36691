//! [`Prepared`]: what a run stands on: disks, devices, start-ups, directories.

use std::sync::Arc;

use surety_enforce::ControlGroups;
use surety_model::platform::Overheads;

use crate::children::ChildrenEntry;
use crate::disks::Disks;
use crate::interrupts::Devices;
use crate::scratch::Scratch;
use crate::shared::SharedObjects;
use crate::startups::Starts;
use crate::window::Gate;

/// What stands before anybody is made, and is gone when it is dropped: later fields stand on nothing of earlier ones.
pub(crate) struct Prepared<'a> {
    /// What the kernel's own work takes, or why that is not known.
    pub overheads: Result<Overheads, String>,
    pub shared: Arc<SharedObjects>,
    pub gate: Arc<Gate>,
    pub devices: Devices,
    pub starts: Starts<'a>,
    pub disks: Disks<'a>,
    pub children: Option<ChildrenEntry<'a>>,
    /// Of the workload; whoever is in them has ended when they go.
    pub groups: Option<ControlGroups<'a>>,
    pub scratch: Option<Scratch<'a>>,
}

impl Prepared<'_> {
    /// What programs and all they start carry.
    pub fn mark(&self) -> Option<String> {
        self.children.as_ref().map(|children| children.mark().to_owned())
    }

    /// Ends programs, then removes the groups of the workload; what the record has to say of these.
    pub fn end_members(&mut self) -> Vec<String> {
        self.children = None;
        self.groups.iter_mut().flat_map(ControlGroups::close).collect()
    }
}
