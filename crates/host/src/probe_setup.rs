//! What both probes need around their loops: a policy from a word, a thread put in its place and read back, memory and
//! idle states held, and what others took meanwhile.

use std::cell::RefCell;
use std::str::FromStr;

use surety_enforce::{
    Enforcer, Inspector, Owner, Place, Post, attr_of_policy, attr_of_reservation, describe,
};
use surety_kernel::facts::MachineFacts;
use surety_kernel::idle::IdleHold;
use surety_kernel::{Kernel, SchedAttr, SchedPolicy, clock};
use surety_model::record::{Record, ThreadInForce};
use surety_model::reservation::Reservation;
use surety_model::workload::PolicySpec;
use surety_model::world::WorldError;
use surety_units::{CpuSet, Nanos, Tid};
use thiserror::Error;

use crate::environment::in_force;
use crate::locked_memory::LockedMemory;
use crate::noise::CpuUse;
use crate::platform::environment_of;
use crate::threads::thread_in_force;
use crate::window::Gate;

/// What a probe's threads run under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePolicy {
    /// A class without a reservation.
    Class(PolicySpec),
    /// SCHED_DEADLINE. The kernel refuses it to a thread confined to part of the root domain, so such threads are not
    /// pinned.
    Reserved(Reservation),
}

/// Why a text is no policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is no policy: {why}")]
pub struct ProbePolicyError {
    text: String,
    why: String,
}

impl FromStr for ProbePolicy {
    type Err = ProbePolicyError;

    fn from_str(text: &str) -> Result<ProbePolicy, ProbePolicyError> {
        let wrong = |why: String| ProbePolicyError { text: text.to_owned(), why };
        let priority = |value: &str| {
            let value = value.parse().ok().filter(|p| (1..=99).contains(p));
            value.ok_or_else(|| wrong("its priority is 1 to 99".to_owned()))
        };
        match text.split_once(':') {
            None if text == "fair" => Ok(ProbePolicy::Class(PolicySpec::default())),
            None if text == "idle" => Ok(ProbePolicy::Class(PolicySpec::Idle)),
            None if text == "batch" => Ok(ProbePolicy::Class(PolicySpec::Batch { nice: 0 })),
            Some(("fifo", value)) => Ok(ProbePolicy::Class(PolicySpec::Fifo { priority: priority(value)? })),
            Some(("rr", value)) => {
                Ok(ProbePolicy::Class(PolicySpec::RoundRobin { priority: priority(value)? }))
            }
            Some(("deadline", value)) => {
                let times: Result<Vec<Nanos>, _> = value.split('/').map(str::parse).collect();
                let times = times.map_err(|e: surety_units::QuantityError| wrong(e.to_string()))?;
                let (runtime, deadline, period) = match times.as_slice() {
                    [runtime, period] => (*runtime, *period, *period),
                    [runtime, deadline, period] => (*runtime, *deadline, *period),
                    _ => return Err(wrong("write deadline:RUNTIME/DEADLINE/PERIOD".to_owned())),
                };
                let reservation = Reservation { runtime, deadline, period, reclaim: false, demote: false };
                reservation.check().map_err(|e| wrong(e.to_string()))?;
                Ok(ProbePolicy::Reserved(reservation))
            }
            _ => Err(wrong(
                "use fair, batch, idle, fifo:N, rr:N or deadline:RUNTIME/DEADLINE/PERIOD".to_owned(),
            )),
        }
    }
}

impl std::fmt::Display for ProbePolicy {
    /// As it is parsed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProbePolicy::Class(policy) => policy.fmt(f),
            ProbePolicy::Reserved(reservation) => {
                let time = |time: Nanos| time.to_exact_string();
                let (runtime, deadline, period) =
                    (reservation.runtime, reservation.deadline, reservation.period);
                write!(f, "deadline:{}/{}/{}", time(runtime), time(deadline), time(period))
            }
        }
    }
}

impl ProbePolicy {
    /// What `sched_setattr` takes.
    pub(crate) fn attr(&self) -> SchedAttr {
        match self {
            ProbePolicy::Class(policy) => attr_of_policy(*policy),
            ProbePolicy::Reserved(reservation) => attr_of_reservation(reservation),
        }
    }

    /// Whether threads under it stay on one CPU each.
    pub fn is_pinned(&self) -> bool {
        matches!(self, ProbePolicy::Class(_))
    }
}

/// The machine while a probe runs, and what it was before.
pub(crate) struct Surroundings<'a> {
    kernel: &'a dyn Kernel,
    facts: MachineFacts,
    cpus: CpuSet,
    memory: LockedMemory,
    idle: Option<Result<IdleHold, String>>,
    before: Option<CpuUse>,
    cpu_before: Nanos,
    begun: Nanos,
    elsewhere: Nanos,
    notes: Vec<(String, String)>,
    inspector: RefCell<Inspector>,
}

impl<'a> Surroundings<'a> {
    /// Locks memory, holds idle states where asked, chooses the CPUs: those asked for, or all this process may use.
    pub fn enter(
        kernel: &'a dyn Kernel,
        wanted: Option<CpuSet>,
        hold_idle: bool,
    ) -> Result<Surroundings<'a>, WorldError> {
        let failed = |error: surety_kernel::KernelError| WorldError::Machine {
            what: "the machine's CPUs are not known".to_owned(),
            remedy: error.to_string(),
        };
        let online = kernel.online_cpus().map_err(failed)?;
        let allowed = kernel.affinity(Tid(0)).map_err(failed)?.intersection(&online);
        let cpus = wanted.unwrap_or(allowed);
        if cpus.is_empty() || !cpus.is_subset(&online) {
            return Err(WorldError::Machine {
                what: format!("CPUs {cpus} are not all there: online are {online}"),
                remedy: "choose with --cpus among those".to_owned(),
            });
        }
        let idle = hold_idle.then(|| IdleHold::of(Nanos::ZERO).map_err(|e| e.to_string()));
        Ok(Surroundings {
            kernel,
            facts: MachineFacts::read(kernel),
            cpus,
            memory: LockedMemory::lock(),
            idle,
            before: None,
            cpu_before: Nanos::ZERO,
            begun: Nanos::ZERO,
            elsewhere: Nanos::ZERO,
            notes: Vec::new(),
            inspector: RefCell::new(Inspector::new(kernel)),
        })
    }

    /// The CPUs of the probe.
    pub fn cpus(&self) -> CpuSet {
        self.cpus
    }

    /// The length of the scheduler's tick.
    pub fn tick(&self) -> Nanos {
        self.facts.scheduler.tick
    }

    /// Gives a thread its CPUs and its policy, and says what it then has.
    pub fn place(
        &self,
        enforcer: &mut Enforcer<'_>,
        (name, tid): (&str, Tid),
        cpus: CpuSet,
        policy: &ProbePolicy,
    ) -> Result<ThreadInForce, WorldError> {
        let wanted = policy.attr();
        let refused = |error: surety_enforce::EnforceError| WorldError::Machine {
            what: format!("{name} (thread {tid}) could not get {} on CPUs {cpus}", describe(&wanted)),
            remedy: error.to_string(),
        };
        let cpus = if policy.is_pinned() { cpus } else { self.kernel.online_cpus().unwrap_or(cpus) };
        enforcer.set_affinity(tid, cpus, Owner::Ours).map_err(refused)?;
        // A fair thread stays as nice as this process is: to be less so is a privilege.
        let stays = *policy == ProbePolicy::Class(PolicySpec::default())
            && self.kernel.scheduler(tid).is_ok_and(|a| matches!(a.policy, SchedPolicy::Other { .. }));
        if !stays {
            enforcer.set_scheduler(tid, wanted, Owner::Ours).map_err(refused)?;
        }
        let attr = if stays { self.kernel.scheduler(tid).ok() } else { Some(wanted) };
        let post = Post::set(self.kernel, (name, tid, Owner::Ours), attr, Place::Exactly(cpus));
        self.inspector.borrow_mut().expect(post);
        Ok(thread_in_force(self.kernel, name, tid))
    }

    /// Reads again what is in force, now and then.
    pub fn look(&self) {
        self.inspector.borrow_mut().look(self.kernel);
    }

    /// Reads the counts where observation begins.
    pub fn begin(&mut self) {
        self.before = CpuUse::read(self.kernel, &self.cpus);
        self.cpu_before = own_time(self.kernel);
        self.begun = clock::monotonic();
    }

    /// Time the hypervisor took from these CPUs since the beginning, to 10 ms.
    pub fn stolen(&self) -> Option<Nanos> {
        let now = CpuUse::read(self.kernel, &self.cpus)?;
        Some((now.stolen() - self.before?.stolen()).max(Nanos::ZERO))
    }

    /// CPU time that processes of loads got meanwhile: it was not others who used it.
    pub fn count_loads(&mut self, elsewhere: Nanos) {
        self.elsewhere += elsewhere;
    }

    /// Something a reader of the numbers should know.
    pub fn note(&mut self, name: &str, text: &str) {
        self.notes.push((name.to_owned(), text.to_owned()));
    }

    /// Reads the counts where observation ends; returns a record of what was in force and of what speaks against the result, still
    /// without activities, and who marks it with what has changed. The threads, which have ended, said at the gate what they had until then.
    pub fn finish(self, threads: Vec<ThreadInForce>, gate: &Gate) -> (Record, Inspector) {
        let mut inspector = self.inspector.into_inner();
        inspector.read(self.kernel);
        gate.take_left().iter().for_each(|(tid, state)| inspector.hear(*tid, state));
        let span = (clock::monotonic() - self.begun).max(Nanos::new(1));
        let own = own_time(self.kernel) - self.cpu_before;
        let mut degraded = Vec::new();
        let mut environment = environment_of(&self.facts);
        let share = own.get() as f64 / span.get() as f64 * 100.0;
        environment.insert("own CPU time".to_owned(), format!("{own} in {span}, {share:.2} % of one CPU"));
        environment.extend(self.notes);
        environment.insert("memory".to_owned(), self.memory.in_words());
        let idle = match &self.idle {
            None => "as they are".to_owned(),
            Some(Ok(_)) => "held at 0 us by /dev/cpu_dma_latency".to_owned(),
            Some(Err(why)) => format!("not held: {why}"),
        };
        environment.insert("idle states".to_owned(), idle);
        let after = CpuUse::read(self.kernel, &self.cpus);
        let disturbance = self
            .before
            .as_ref()
            .zip(after.as_ref())
            .map(|(before, after)| CpuUse::disturbance(before, after, self.elsewhere, self.cpus.len()));
        degraded.extend(disturbance.map(|d| d.objections(&self.cpus)).unwrap_or_default());
        let record = Record {
            world: "host".to_owned(),
            reserved: false,
            seed: None,
            duration: None,
            in_force: in_force(&self.facts, self.cpus, threads, environment, disturbance),
            degraded,
            activities: Vec::new(),
            trace: None,
            hash: None,
        };
        (record, inspector)
    }
}

fn own_time(kernel: &dyn Kernel) -> Nanos {
    clock::process_cpu_time(kernel.own_pid()).unwrap_or(Nanos::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_words() {
        let class = |policy| Ok(ProbePolicy::Class(policy));
        assert_eq!("fair".parse(), class(PolicySpec::default()));
        assert_eq!("fifo:80".parse(), class(PolicySpec::Fifo { priority: 80 }));
        assert_eq!("rr:1".parse(), class(PolicySpec::RoundRobin { priority: 1 }));
        let ProbePolicy::Reserved(r) = "deadline:100us/1ms/2ms".parse().unwrap() else { panic!() };
        assert_eq!(
            (r.runtime, r.deadline, r.period),
            (Nanos::from_micros(100), Nanos::MILLISECOND, Nanos::from_millis(2))
        );
        assert_eq!("deadline:100us/1ms".parse::<ProbePolicy>(), "deadline:100us/1ms/1ms".parse());
        for bad in [
            "",
            "fifo",
            "fifo:0",
            "fifo:100",
            "rr:x",
            "deadline",
            "deadline:1ms",
            "deadline:2ms/1ms/1ms",
            "fast",
        ] {
            assert!(bad.parse::<ProbePolicy>().is_err(), "{bad}");
        }
    }
}
