//! Weights: how much of the CPU a nice value, an idle thread or a group is worth (`kernel/sched/core.c`).

use surety_model::weight::{NICE_0_WEIGHT, nice_weight};
use surety_model::workload::PolicySpec;

use crate::cpu::hardware::{GroupSpec, Scheduling};

/// The weight of nice 0, and the unit of virtual time.
pub(super) const UNIT: i64 = NICE_0_WEIGHT;

/// The weight of a `SCHED_IDLE` thread.
pub(super) const IDLE: i64 = 3;

/// The smallest weight of a group's entity (`MIN_SHARES`).
pub(super) const GROUP_MIN: i64 = 2;

/// The weight of a thread of the fair class.
pub(super) fn of(scheduling: &Scheduling) -> i64 {
    match scheduling {
        Scheduling::Policy(PolicySpec::Idle) => IDLE,
        Scheduling::Policy(policy) => nice_weight(policy.parameters().nice),
        Scheduling::Deadline(_) | Scheduling::Reserved(..) | Scheduling::Within(..) => UNIT,
    }
}

/// The weight of a group: with a `cpu.weight` of 100 it is worth a thread of nice 0, with `cpu.idle` an idle one.
pub(super) fn of_group(group: &GroupSpec) -> i64 {
    if group.idle { IDLE } else { (i64::from(group.weight) * UNIT / 100).max(GROUP_MIN) }
}
