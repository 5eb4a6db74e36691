//! [`Foundation`]: what every bound about reserved threads stands on: the kernel admits them all, every one
//! of them keeps its scheduling deadlines, and the fair servers stay in the background.

use surety_model::platform::{Enforcement, Platform};
use surety_model::reservation::Reservation;
use surety_model::workload::{Load, LoadKind, PolicySpec, Task, TaskBody, Work, Workload};

use crate::admission::{AdmissionError, RootDomain};
use crate::edf::{Demand, Schedulability, least_pessimistic_of, schedulable};
use crate::fair_server::{FairServerArgument, argument};

/// One reserved thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedThread {
    /// (Q, D, T).
    pub reservation: Reservation,
    /// Whether no backlog ever reaches a further budget, so that it never overruns one.
    pub bounded: bool,
}

/// Whether a set of reserved threads gets what was reserved.
#[derive(Clone, Debug)]
pub struct Foundation {
    /// The first refusal of the kernel, with the index of the thread it hits; `None` when all are admitted.
    pub refused: Option<(usize, AdmissionError)>,
    /// The bandwidths in words.
    pub admission_step: String,
    /// Whether scheduling deadlines are kept.
    pub edf: Schedulability,
    /// Whether the fair servers stay away.
    pub fair_server: FairServerArgument,
    enforcement: Enforcement,
    demands: Vec<Demand>,
    cpus: u32,
}

impl Foundation {
    /// Looks at a set of threads on a platform where others have booked `admitted` kernel units.
    pub fn of(threads: &[ReservedThread], platform: &Platform, admitted: u64) -> Foundation {
        let mut domain = RootDomain { admitted, ..RootDomain::of(platform) };
        let refused = threads
            .iter()
            .enumerate()
            .find_map(|(index, thread)| domain.admit(&thread.reservation).err().map(|error| (index, error)));
        let demands: Vec<Demand> =
            threads.iter().map(|t| Demand::of(&t.reservation, platform, t.bounded)).collect();
        let reservations: Vec<Reservation> = threads.iter().map(|t| t.reservation).collect();
        Foundation {
            refused,
            admission_step: format!(
                "admission: {} of {} kernel units (2^-20 CPU) booked, fair servers deducted",
                domain.admitted,
                domain.available()
            ),
            edf: schedulable(&demands, platform.cpus),
            fair_server: argument(&reservations, platform),
            enforcement: platform.enforcement,
            demands,
            cpus: platform.cpus,
        }
    }

    /// The same, its test of EDF named after the least pessimistic one that holds. Takes longer: for proofs.
    pub fn for_proof(self) -> Foundation {
        Foundation { edf: least_pessimistic_of(&self.demands, self.cpus), ..self }
    }

    /// What every reserved thread may ask of the CPUs, in order.
    pub fn demands(&self) -> &[Demand] {
        &self.demands
    }

    /// Whether everything holds.
    pub fn holds(&self) -> bool {
        self.refused.is_none() && self.edf.holds && self.fair_server.holds
    }

    /// What does not hold, in words.
    pub fn objection(&self) -> Option<String> {
        if let Some((_, error)) = &self.refused {
            return Some(error.to_string());
        }
        let last = |steps: &[String]| steps.last().cloned().unwrap_or_default();
        if !self.edf.holds {
            return Some(format!(
                "{} does not show that deadlines are kept: {}",
                self.edf.theorem,
                last(&self.edf.steps)
            ));
        }
        (!self.fair_server.holds)
            .then(|| format!("the kernel's fair server may run ahead: {}", last(&self.fair_server.steps)))
    }

    /// The steps of a proof, in order.
    pub fn steps(&self) -> Vec<String> {
        let mut steps = vec![self.admission_step.clone()];
        steps.extend(self.edf.steps.iter().map(|s| format!("{}: {s}", self.edf.theorem)));
        steps.extend(self.fair_server.steps.iter().cloned());
        if let Enforcement::Tick(tick) = self.enforcement {
            steps.push(format!(
                "budgets are looked at on the tick ({tick}): a thread may run over by less than that and pays it back, so \
                 by the end of each period the sums are the same"
            ));
        }
        steps
    }

    /// What has to hold on the machine.
    pub fn assumptions(&self) -> Vec<String> {
        let mut assumptions = self.fair_server.assumptions.clone();
        assumptions
            .push("times count from the kernel's waking of the thread; a late timer comes on top".to_owned());
        assumptions.push("every CPU runs at the speed the work was measured at".to_owned());
        assumptions
    }
}

/// A realtime activity of the workload itself that never lets go of its CPU, so that the fair server has to
/// act and the argument of [`crate::fair_server`] fails.
pub fn realtime_hog(workload: &Workload) -> Option<String> {
    let realtime =
        |policy: &PolicySpec| matches!(policy, PolicySpec::Fifo { .. } | PolicySpec::RoundRobin { .. });
    let endless = |task: &&Task| {
        task.reservation.is_none()
            && realtime(&task.policy)
            && matches!(task.body, TaskBody::Synthetic(Work::Forever))
    };
    let load = |load: &&Load| {
        realtime(&load.policy) && matches!(load.kind, LoadKind::Spinners | LoadKind::MemoryThrash)
    };
    let name = workload.tasks.iter().find(endless).map(|t| &t.name);
    let name = name.or_else(|| workload.loads.iter().find(load).map(|l| &l.name))?;
    Some(format!(
        "{name} is a realtime activity that never lets go of its CPU: the kernel's fair server has to act there and may \
         run ahead of a reservation"
    ))
}

/// A task with a reservation that takes a lock with inheritance: while it waits, whoever holds the lock runs under its
/// deadline, and no analysis here counts that. `is_reserved` says which tasks have or get a reservation.
pub fn lent_reservation(workload: &Workload, is_reserved: impl Fn(&Task) -> bool) -> Option<String> {
    let lends = |task: &&Task| is_reserved(task) && workload.lending_lock_of(task).is_some();
    let task = workload.tasks.iter().find(lends)?;
    let lock = workload.lending_lock_of(task)?;
    Some(format!(
        "{} lends its reservation through the lock `{lock}` to whoever holds it, which no proof here covers; give the lock \
         no protocol, or the task a realtime policy",
        task.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_units::Nanos;

    #[test]
    fn each_part_can_object() {
        let of = |q, d, t| ReservedThread {
            reservation: Reservation {
                deadline: Nanos::from_millis(d),
                ..Reservation::implicit(Nanos::from_millis(q), Nanos::from_millis(t))
            },
            bounded: false,
        };
        for (threads, cpus, word) in [
            (vec![of(26, 40, 40)], 2, ""),
            (vec![of(90, 100, 100), of(91, 100, 100)], 2, "EBUSY"),
            (vec![of(2, 4, 20), of(3, 5, 40)], 1, "does not show"),
            (vec![of(89, 100, 100)], 1, ""),
            (vec![of(880, 1000, 1000)], 1, "fair server"),
        ] {
            let foundation = Foundation::of(&threads, &Platform::linux_6_18(cpus), 0);
            let objection = foundation.objection().unwrap_or_default();
            assert!(objection.contains(word), "{threads:?}: {objection}");
            assert_eq!(foundation.holds(), word.is_empty(), "{threads:?}: {objection}");
            assert!(foundation.steps().len() >= 3 && foundation.assumptions().len() >= 2);
        }
    }
}
