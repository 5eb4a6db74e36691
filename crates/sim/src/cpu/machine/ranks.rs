//! [`Ranks`]: the schedulers of a machine in their order, those inside reservations of groups among them.

use surety_model::reservation::Reservation;
use surety_model::workload::PolicySpec;

use crate::cpu::hardware::{GroupSpec, Hardware, Rank};
use crate::cpu::policies;
use crate::cpu::policy::{CpuPolicy, Scheduler, SchedulerMake};

/// Which scheduler has which rank.
pub(super) struct Ranks {
    /// By rank; none for a realtime scheduler inside the reservation of a group. These stand behind the scheduler that keeps reservations.
    pub(super) order: Vec<Option<Scheduler>>,
    /// Those inside, with their reservations.
    pub(super) inside: Vec<(Rank, Reservation)>,
    /// For each group that of its realtime threads: its own, or that of a group above it.
    pub(super) inside_group: Vec<Option<Rank>>,
}

impl Ranks {
    /// Of a machine with these schedulers, and groups, parents before children.
    pub(super) fn new(schedulers: &[Scheduler], groups: &[GroupSpec]) -> Ranks {
        let mut order: Vec<_> = schedulers.iter().copied().map(Some).collect();
        let keeps = |row: &Scheduler| row.takes.contains(&PolicySpec::Deadline.word());
        let first = schedulers.iter().position(keeps).map_or(order.len(), |rank| rank + 1);
        let (mut inside, mut inside_group) = (Vec::new(), Vec::new());
        for group in groups {
            let own = group.reservation.map(|reservation| {
                let rank = Rank(first + inside.len());
                inside.push((rank, reservation));
                rank
            });
            inside_group.push(own.or_else(|| inside_group[group.parent?]));
        }
        order.splice(first..first, inside.iter().map(|_| None));
        Ranks { order, inside, inside_group }
    }
}

/// Makes them, by rank.
pub(super) fn make(order: &[Option<Scheduler>], hardware: &mut Hardware) -> Vec<Box<dyn CpuPolicy>> {
    let make = |(rank, row): (usize, &Option<Scheduler>)| {
        let make = row.map_or(policies::inside_reservation as SchedulerMake, |row| row.make);
        make(hardware, Rank(rank))
    };
    order.iter().enumerate().map(make).collect()
}
