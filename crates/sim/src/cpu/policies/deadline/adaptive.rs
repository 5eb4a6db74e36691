//! `apedf`: SCHED_DEADLINE with adaptive partitioning, the a²pEDF of Abeni and Cucinotta (Adaptive Partitioning of Real-Time Tasks on Multiple
//! Processors, SAC 2020). Threads change their CPU only where a CPU has more than EDF on one CPU can keep:
//!
//! ```text
//! B = Q / T of all reservations of a CPU, asleep or not, and its fair server's
//!
//! B <= 1   its threads stay there: EDF keeps all their deadlines
//! B > 1    one that wakes, is replenished or is left behind when the CPU chooses goes to the first
//!          CPU on which B is 1 at most with it; where there is none, to the one with the latest deadline, as in global EDF
//! ```
//!
//! A CPU without reserved threads that want it takes one that waits, but only from a CPU with `B > 1`. Admission, budgets and servers are the kernel's.

use surety_units::bandwidth::KERNEL_BANDWIDTH_SHIFT;

use super::Deadline;
use super::placement::Migration;
use crate::cpu::hardware::{Hardware, Rank};
use crate::cpu::policy::CpuPolicy;

/// A whole CPU.
const WHOLE: u64 = 1 << KERNEL_BANDWIDTH_SHIFT;

/// First fit.
struct Adaptive;

impl Migration for Adaptive {
    fn keeps(&self, booked: u64) -> bool {
        booked <= WHOLE
    }

    fn fitting(&self, bandwidth: u64, mut cpus: &mut dyn Iterator<Item = (usize, u64)>) -> Option<usize> {
        let fits = |(_, booked): &(usize, u64)| booked + bandwidth <= WHOLE;
        Iterator::find(&mut cpus, fits).map(|(cpu, _)| cpu)
    }

    fn pulls_beside(&self) -> bool {
        false
    }
}

/// Makes the scheduler, for a machine without threads.
pub(in crate::cpu::policies) fn make(hardware: &mut Hardware, rank: Rank) -> Box<dyn CpuPolicy> {
    Box::new(Deadline::migrating(hardware, rank, &Adaptive))
}
