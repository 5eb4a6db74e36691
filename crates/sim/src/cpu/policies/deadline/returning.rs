//! A thread that left the class and comes back while the bandwidth of before is booked: the kernel counts it beside what is asked for, and
//! refuses what then is too much (`sched_dl_overflow` in `kernel/sched/deadline.c`). Here the thread waits until its 0-lag time.

use surety_model::reservation::Reservation;
use surety_units::Nanos;

use super::{Deadline, NONE};
use crate::cpu::hardware::{Hardware, ThreadId};

impl Deadline {
    /// Until when a thread cannot have a reservation; `None`: it can now.
    pub(super) fn booked_until(
        &self,
        hardware: &Hardware,
        thread: ThreadId,
        reservation: Reservation,
    ) -> Option<Nanos> {
        let index = Some(self.of_thread[thread.index()]).filter(|index| *index != NONE)?;
        let entity = &self.entities[index as usize];
        let until = Some(entity.zero_lag()).filter(|until| entity.leaves && *until > hardware.now())?;
        let cap = hardware.platform.admitted_per_cpu()?;
        let cpus = self.queues.len() as u64;
        let of_servers = hardware.platform.booked_for_servers();
        let others = self.entities.iter().enumerate();
        let others = others.filter(|(place, entity)| entity.booked && !self.is_fair_server(*place));
        let booked: u64 = others.map(|(_, entity)| entity.bandwidth()).sum();
        let asked = booked + of_servers + reservation.bandwidth().to_kernel();
        (asked > cap * cpus).then_some(until)
    }
}
