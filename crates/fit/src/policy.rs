//! The scheduling class behind a priority of a trace.
//!
//! The kernel's priority is below 0 in the deadline class, `99 - p` for realtime priority p, `120 + nice` in the fair
//! class (`kernel/sched/core.c`, `__normal_prio`). It does not tell FIFO from RR, nor batch and idle from the fair policy.

use surety_model::workload::PolicySpec;

/// The policy to ask for; a deadline thread's parameters are in no event, so it becomes a fair one, which
/// [`was_deadline`] tells.
pub fn policy_of(prio: i32) -> PolicySpec {
    match prio {
        0..=98 => PolicySpec::Fifo { priority: u32::try_from(99 - prio).unwrap_or(1) },
        100..=139 => PolicySpec::Fair { nice: prio - 120, slice: None },
        _ => PolicySpec::default(),
    }
}

/// Whether it was in the deadline class.
pub fn was_deadline(prio: i32) -> bool {
    prio < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_the_kernels() {
        for (prio, words) in [
            (-1, "fair"),
            (0, "fifo:99"),
            (49, "fifo:50"),
            (98, "fifo:1"),
            (100, "fair nice -20"),
            (120, "fair"),
            (139, "fair nice 19"),
            (4711, "fair"),
        ] {
            assert_eq!(policy_of(prio).to_string(), words, "{prio}");
        }
    }
}
