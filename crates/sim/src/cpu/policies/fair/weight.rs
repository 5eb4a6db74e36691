//! Weights: how much of the CPU a nice value, an idle thread or a group is worth (`kernel/sched/core.c`).

use crate::cpu::hardware::Scheduling;

/// The weight of nice 0, and the unit of virtual time.
pub(super) const UNIT: i64 = 1024;

/// The weight of a `SCHED_IDLE` thread.
const IDLE: i64 = 3;

/// The smallest weight of a group's entity (`MIN_SHARES`).
pub(super) const GROUP_MIN: i64 = 2;

/// Weights of nice -20 to 19: each is about 1.25 times the next.
const OF_NICE: [i64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
    2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29,
    23, 18, 15,
];

/// The weight of a thread of the fair class.
pub(super) fn of(scheduling: &Scheduling) -> i64 {
    match scheduling {
        Scheduling::Fair { nice, .. } | Scheduling::Batch { nice } => of_nice(*nice),
        Scheduling::Idle => IDLE,
        _ => UNIT,
    }
}

fn of_nice(nice: i32) -> i64 {
    let place = (nice.clamp(-20, 19) + 20).unsigned_abs() as usize;
    OF_NICE[place]
}

/// The weight of a group with a `cpu.weight`: 100 is worth a thread of nice 0.
pub(super) fn of_group(cpu_weight: u32) -> i64 {
    (i64::from(cpu_weight) * UNIT / 100).max(GROUP_MIN)
}
