//! Threads that change their CPUs, or how they are scheduled, between the steps of their jobs.

use surety_model::reservation::Reservation;
use surety_model::workload::{PolicySpec, Schedule, Task, Workload};
use surety_model::world::WorldError;
use surety_units::CpuSet;

use super::Builder;
use crate::cpu::hardware::Scheduling;
use crate::world::refuse;

impl<'a> Builder<'a> {
    /// The machine's number for CPUs that a task confines itself to; `None`: those of the run. Of either those that are its group's.
    pub(super) fn confinement(&mut self, task: &Task, cpus: Option<CpuSet>) -> usize {
        let confined = (task.reservation.is_none() && self.cpus.len() < self.ids.len()).then_some(self.cpus);
        let group = task.group.as_deref().and_then(|group| self.places.get(group).copied());
        let allowed = self.within_group(group, cpus.or(confined));
        self.stage.machine.add_place(allowed)
    }

    /// The machine's number for what a task becomes.
    pub(super) fn schedule(
        &mut self,
        workload: &Workload,
        (task, object): (&Task, &str),
        schedule: Schedule,
    ) -> Result<usize, WorldError> {
        if schedule.policy == PolicySpec::Deadline
            && let Some(name) = workload.lending_lock_of(task)
        {
            let why = format!(
                "lending a reservation through the resource `{name}` is not simulated; run it on the host, or give the resource no protocol"
            );
            return refuse(object.to_owned(), why);
        }
        let scheduling = Scheduling::of(schedule.policy, schedule.reservation);
        let scheduling = scheduling.filter(|of| of.word() == schedule.policy.word());
        match scheduling {
            Some(scheduling) => Ok(self.stage.machine.add_schedule(scheduling)),
            None => refuse(object.to_owned(), "a step that is `deadline` needs a reservation; give it one"),
        }
    }

    /// The number of a timer of all threads that name it.
    pub(super) fn timer(&mut self, name: &'a str) -> usize {
        let meetings = &mut self.stage.machine.programs_mut().meetings;
        *self.timers.entry(name).or_insert_with(|| meetings.add_timer())
    }
}

/// The reservation of a task with the largest bandwidth, of those that it has in turn under SCHED_DEADLINE.
pub(super) fn largest(task: &Task) -> Option<Reservation> {
    let reservations = task.schedules().filter(Schedule::is_deadline).filter_map(|of| of.reservation);
    reservations.max_by_key(|reservation| reservation.bandwidth().to_kernel())
}
