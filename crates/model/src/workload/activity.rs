//! [`Activity`]: what every activity of a workload has, whatever its kind.

use super::Workload;
use crate::kind::ActivityKind;
use crate::promise::Promise;

/// An activity of a workload: what has results of its own.
#[derive(Clone, Copy, Debug)]
pub struct Activity<'w> {
    pub kind: ActivityKind,
    /// Its role.
    pub name: &'w str,
    /// What was promised about it.
    pub promises: &'w [Promise],
}

impl Workload {
    /// Everything that has results, in the order of a record.
    pub fn activities(&self) -> Vec<Activity<'_>> {
        fn all<'w, T>(
            kind: ActivityKind,
            list: &'w [T],
            of: impl Fn(&'w T) -> (&'w String, &'w Vec<Promise>),
        ) -> impl Iterator<Item = Activity<'w>> {
            list.iter().map(of).map(move |(name, promises)| Activity { kind, name, promises })
        }
        let mut found: Vec<Activity<'_>> = Vec::new();
        found.extend(all(ActivityKind::Task, &self.tasks, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Irq, &self.irqs, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Stream, &self.streams, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Startup, &self.startups, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Flow, &self.flows, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Load, &self.loads, |a| (&a.name, &a.promises)));
        found.extend(all(ActivityKind::Chain, &self.chains, |a| (&a.name, &a.promises)));
        found
    }

    /// The promises of an activity.
    pub fn promises_of(&self, name: &str) -> &[Promise] {
        self.activities().into_iter().find(|a| a.name == name).map(|a| a.promises).unwrap_or_default()
    }
}
