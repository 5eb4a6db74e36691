//! Reservations as they are kept in a set: one for a task, one for an interrupt thread, each with the arguments of its proof.

use surety_analysis::foundation::ReservedThread;
use surety_analysis::response::ServedTask;
use surety_model::plan::ProofInput;
use surety_model::platform::Enforcement;
use surety_model::promise::Promise;
use surety_model::reservation::Reservation;
use surety_model::workload::{Irq, Task, TaskBody, Work};
use surety_units::{Bandwidth, Nanos, Probability};

use crate::demand::{Demand, Knowledge};
use crate::frame::Frame;
use crate::interrupt::{Sized, Source};
use crate::response::Sizing;

/// One task's reservation with what its proof needs.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) task: Task,
    pub(crate) demand: Demand,
    pub(crate) frame: Frame,
    pub(crate) runtime: Nanos,
    pub(crate) promises: Vec<(Promise, Argument)>,
}

/// An interrupt thread's reservation with what its proof needs.
pub(crate) struct KeptIrq {
    pub(crate) irq: Irq,
    pub(crate) worth: Nanos,
    pub(crate) reservation: Reservation,
    pub(crate) inputs: Vec<ProofInput>,
    pub(crate) promises: Vec<(Promise, Sized)>,
}

/// Why the runtime is enough for one promise.
#[derive(Clone)]
pub(crate) enum Argument {
    Response { limit: Nanos, at: Option<Probability>, sizing: Box<Sizing> },
    Share { share: Bandwidth, steps: Vec<String> },
}

impl Kept {
    pub(crate) fn reservation(&self) -> Reservation {
        self.frame.reservation(self.runtime)
    }

    pub(crate) fn worth(&self) -> Nanos {
        self.demand.worth(self.runtime, &self.frame)
    }

    /// The task as its promises of responses take it to be, and whether its work is measured: what others stand on is only
    /// what was declared.
    fn served(&self, enforcement: Enforcement) -> impl Iterator<Item = (ServedTask, bool)> {
        let worth = self.worth();
        self.promises.iter().filter_map(move |(_, argument)| match argument {
            Argument::Response { sizing, .. } => {
                let task = self.frame.served(&self.task, &sizing.proven_for, worth, enforcement);
                Some((task, sizing.measured.is_some()))
            }
            Argument::Share { .. } => None,
        })
    }

    /// Whether its thread may wake to what is left of a budget (`surety_analysis::edf`): not where it never sleeps, nor where
    /// its jobs are known, or taken for a promised response to be so, and none begins inside a budget.
    pub(crate) fn sleeps(&self, enforcement: Enforcement) -> bool {
        let mut responses = self.served(enforcement).peekable();
        let is_promised = responses.peek().is_some();
        match (&self.task.body, &self.demand.knowledge) {
            (TaskBody::Synthetic(Work::Forever), _) => false,
            (TaskBody::Phases(_), _) => true,
            // What it does between its jobs wakes to what they left; so may its first jobs where they find a begun period.
            _ if self.demand.wakes_between() || !self.demand.in_step => true,
            _ if is_promised => responses.all(|(task, measured)| may_wake_inside(&task, measured)),
            (TaskBody::Synthetic(_), Knowledge::Declared(work)) => {
                self.frame.served(&self.task, work, self.worth(), enforcement).wakes_inside()
            }
            _ => true,
        }
    }

    pub(crate) fn threads(&self, cpus: u32, enforcement: Enforcement) -> Vec<ReservedThread> {
        let sleeps = self.sleeps(enforcement);
        let one_budget = |(task, measured): (ServedTask, bool)| !measured && task.needs_one_budget();
        // Whoever wakes to a part of a budget may overrun that.
        let bounded = !sleeps && self.served(enforcement).any(one_budget);
        let thread = ReservedThread { reservation: self.reservation(), bounded, sleeps };
        vec![thread; self.task.instances.on(cpus) as usize]
    }
}

/// Whether a task may wake to what is left of a budget; of measured work no largest value is relied on.
pub(crate) fn may_wake_inside(task: &ServedTask, measured: bool) -> bool {
    if measured { !task.is_aligned() } else { task.wakes_inside() }
}

impl KeptIrq {
    /// One reservation for all: the largest runtime.
    pub(crate) fn of(source: &Source<'_>, promises: Vec<(Promise, Sized)>) -> Option<KeptIrq> {
        let largest = promises.iter().map(|(_, sized)| sized.reservation).max_by_key(|r| r.runtime)?;
        Some(KeptIrq {
            irq: source.irq.clone(),
            worth: source.useful(largest).runtime,
            reservation: largest,
            inputs: source.inputs(largest),
            promises,
        })
    }

    pub(crate) fn thread(&self) -> ReservedThread {
        ReservedThread { reservation: self.reservation, bounded: false, sleeps: true }
    }
}
