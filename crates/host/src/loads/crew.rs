//! [`Crew`]: the threads of loads that run beside a probe.

use std::sync::Arc;
use std::thread::JoinHandle;

use surety_enforce::Enforcer;
use surety_model::record::ThreadInForce;
use surety_model::workload::Load;
use surety_model::world::WorldError;
use surety_units::{CpuSet, Tid};

use super::{Ground, LoadRun, driver_of};
use crate::probe_setup::{ProbePolicy, Surroundings};
use crate::threads::{give_io_priority, spawn_thread};
use crate::window::Gate;

/// The threads of some loads.
#[derive(Default)]
pub(crate) struct Crew {
    members: Vec<Member>,
}

/// A thread that has been made.
struct Member {
    load: usize,
    tid: Tid,
    affinity: CpuSet,
    handle: JoinHandle<LoadRun>,
}

impl Crew {
    /// Makes every thread of the loads; they wait at the gate. When one cannot be made, those that were are still in the
    /// crew.
    pub fn gather(
        &mut self,
        loads: &[Load],
        cpus: CpuSet,
        gate: &Arc<Gate>,
        ground: &Ground<'_>,
    ) -> Result<(), WorldError> {
        let of_cpus = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        for (load_index, load) in loads.iter().enumerate() {
            let workers = driver_of(load)?.prepare(load, load.count.on(of_cpus), ground)?;
            for (instance, mut worker) in (0..).zip(workers) {
                let (of_worker, priority) = (Arc::clone(gate), load.io_priority);
                let (tid, handle) = spawn_thread(&load.name, gate, move || match of_worker.wait() {
                    Some(window) => match give_io_priority(priority) {
                        Ok(()) => worker.run(&of_worker, &window),
                        Err((what, remedy)) => LoadRun::gave_up(what, remedy),
                    },
                    None => LoadRun::default(),
                })?;
                let affinity = load.count.pinned_to(instance, &cpus).map_or(cpus, CpuSet::single);
                self.members.push(Member { load: load_index, tid, affinity, handle });
            }
        }
        Ok(())
    }

    /// Gives everybody CPUs and policy.
    pub fn place(
        &self,
        surroundings: &Surroundings<'_>,
        enforcer: &mut Enforcer<'_>,
        loads: &[Load],
    ) -> Result<Vec<ThreadInForce>, WorldError> {
        let placed = self.members.iter().filter_map(|member| Some((member, loads.get(member.load)?)));
        placed
            .map(|(member, load)| {
                let policy = ProbePolicy::Class(load.policy);
                surroundings.place(enforcer, (&load.name, member.tid), member.affinity, &policy)
            })
            .collect()
    }

    /// Waits for everybody, and says what they did by load, or why one could not go on. The gate has been stopped.
    pub fn collect(self, loads: &[Load]) -> Result<Vec<Vec<LoadRun>>, WorldError> {
        let mut runs: Vec<Vec<LoadRun>> = loads.iter().map(|_| Vec::new()).collect();
        let mut trouble = None;
        for member in self.members {
            let run = member.handle.join();
            let Some((load, of_load)) = loads.get(member.load).zip(runs.get_mut(member.load)) else {
                continue;
            };
            let why = match &run {
                Ok(run) => run.trouble.clone(),
                Err(_) => Some(LoadRun::panicked()),
            };
            trouble = trouble.or(why.map(|why| why.of_load(&load.name)));
            of_load.extend(run.ok());
        }
        match trouble {
            Some(error) => Err(error),
            None => Ok(runs),
        }
    }
}
