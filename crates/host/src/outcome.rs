//! [`Outcome`]: what a run gave, and the record that is made of it.

use std::collections::BTreeMap;

use surety_enforce::ControlGroups;
use surety_kernel::Kernel;
use surety_kernel::facts::{MachineFacts, available_memory};
use surety_model::record::{ActivityRecord, Disturbance, Record, ThreadInForce};
use surety_model::workload::Workload;
use surety_model::world::RunOptions;
use surety_units::{CpuSet, Nanos, Tid};

use crate::chains::Chains;
use crate::decode::Decoded;
use crate::environment::in_force;
use crate::interrupts::Reading;
use crate::locked_memory::LockedMemory;
use crate::noise::CpuUse;
use crate::overheads;
use crate::platform::environment_of;
use crate::prepared::Prepared;
use crate::records::{Seen, runs_of_stream};
use crate::returned::{Activity, MemberResult, Returned};
use crate::rights;
use crate::streams;
use crate::window::Window;

/// Counts at one border of the observed window.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub use_of_cpus: Option<CpuUse>,
    /// CPU time and waiting time of members that are no threads of ours, by member.
    pub members: Vec<Option<(Nanos, Nanos)>>,
    /// What the devices of interrupt sources had counted.
    pub devices: Vec<Option<Reading>>,
}

/// The counts where observation begins and where it ends.
#[derive(Debug)]
pub(crate) struct Borders {
    pub before: Snapshot,
    pub after: Snapshot,
}

impl Borders {
    /// CPU time and waiting time of a member in between.
    fn of_member(&self, member: usize) -> Option<(Nanos, Nanos)> {
        let of = |s: &Snapshot| s.members.get(member).copied().flatten();
        let (start, end) = (of(&self.before)?, of(&self.after)?);
        Some(((end.0 - start.0).max(Nanos::ZERO), (end.1 - start.1).max(Nanos::ZERO)))
    }

    /// What the device of an interrupt source had counted at both.
    fn of_device(&self, index: usize) -> Option<(Reading, Reading)> {
        let of = |s: &Snapshot| s.devices.get(index).copied().flatten();
        of(&self.before).zip(of(&self.after))
    }
}

/// What a run gave.
pub(crate) struct Outcome<'a> {
    pub kernel: &'a dyn Kernel,
    pub workload: &'a Workload,
    pub facts: MachineFacts,
    pub cpus: CpuSet,
    pub window: Window,
    pub borders: Borders,
    pub results: Vec<MemberResult>,
    /// The first thread of each program.
    pub roots: Vec<(usize, Tid)>,
    pub decoded: Decoded,
    pub memory: LockedMemory,
}

impl Outcome<'_> {
    /// The record of the run.
    pub fn into_record(
        self,
        prepared: Prepared<'_>,
        options: &RunOptions,
        threads: Vec<ThreadInForce>,
        mut degraded: Vec<String>,
    ) -> Record {
        let disturbance = self.disturbance(prepared.starts.elsewhere());
        degraded.extend(disturbance.map(|d| d.objections(&self.cpus)).unwrap_or_default());
        degraded.extend(prepared.disks.objections());
        let mut environment = self.environment(&prepared);
        let overheads = prepared.overheads.clone().unwrap_or_default();
        let (records, rules) = self.records(prepared.shared.chains());
        environment.extend(rules);
        let mut in_force = in_force(&self.facts, self.cpus, threads, environment, disturbance);
        if let Some(machine) = &mut in_force.machine {
            machine.overheads = overheads;
            machine.disk_driver = prepared.disks.driver();
            machine.memory = available_memory(self.kernel);
            machine.files = prepared.disks.places(self.workload);
        }
        let activities = prepared.starts.into_records(self.workload.tasks.len(), records);
        Record {
            world: "host".to_owned(),
            reserved: self.workload.is_reserved(),
            seed: Some(options.seed),
            duration: Some(options.duration),
            in_force,
            degraded,
            activities,
            trace: self.decoded.quality,
            hash: None,
        }
    }

    /// How much time others and the hypervisor took; `None` where `/proc` does not show it. `elsewhere` is what start-ups used.
    fn disturbance(&self, elsewhere: Nanos) -> Option<Disturbance> {
        let Borders { before, after } = &self.borders;
        let (first, last) = (before.use_of_cpus.as_ref()?, after.use_of_cpus.as_ref()?);
        // The threads of a program are in its time.
        let is_counted = |result: &MemberResult| match result.activity {
            Activity::Task(index) => self.workload.tasks[index].thread_of().is_none(),
            _ => true,
        };
        let of_member = |(index, result): (usize, &MemberResult)| {
            let outside = self.borders.of_member(index).filter(|_| is_counted(result));
            let of_load = match &result.outcome {
                Returned::Worker(run) => run.elsewhere(),
                _ => Nanos::ZERO,
            };
            outside.map_or(Nanos::ZERO, |(run, _)| run) + of_load
        };
        let known = elsewhere + self.results.iter().enumerate().map(of_member).sum::<Nanos>();
        Some(CpuUse::disturbance(first, last, known, self.cpus.len()))
    }

    fn environment(&self, prepared: &Prepared<'_>) -> BTreeMap<String, String> {
        let mut environment = environment_of(&self.facts);
        environment.insert("overheads".to_owned(), overheads::in_words(&prepared.overheads));
        environment.extend(prepared.disks.environment(self.kernel));
        environment.extend(prepared.devices.environment(self.workload));
        let runs_of = |index| runs_of_stream(&self.results, index);
        environment.extend(streams::environment(
            self.workload,
            &self.window,
            &self.decoded.requests,
            runs_of,
        ));
        environment.extend(prepared.starts.environment());
        environment.extend(prepared.groups.iter().flat_map(ControlGroups::in_words));
        environment.insert("trace".to_owned(), self.decoded.source.to_owned());
        let privileges = rights::in_words(self.workload);
        environment.extend(privileges.map(|words| ("privileges of commands".to_owned(), words)));
        environment.insert("memory".to_owned(), self.memory.in_words());
        environment
    }

    /// One record for each activity, and by what rule the jobs of programs were told.
    fn records(&self, chains: &Chains) -> (Vec<ActivityRecord>, Vec<(String, String)>) {
        let decoded = &self.decoded;
        let seen = Seen {
            results: &self.results,
            programs_seen: self.roots.iter().map(|(_, tid)| *tid).zip(&decoded.programs_seen).collect(),
            histories: decoded.histories.iter().map(|h| (h.tid, h)).collect(),
            runs: &decoded.runs,
            outside: &|member| self.borders.of_member(member),
            counted: &|index| self.borders.of_device(index),
            chains,
            window: &self.window,
            cpus: self.cpus,
        };
        seen.records(self.workload)
    }
}
