//! [`Overheads`]: what the kernel's own work takes of the CPUs.
//!
//! Five costs: those that can be told apart from outside the kernel (`overheads` of crate `host`). Together they say what a
//! thread that sleeps and wakes periodically takes of its CPU, on whose account, and when. Without accounting of interrupt time
//! (`CONFIG_IRQ_TIME_ACCOUNTING`) an interrupt is on the account of the thread it interrupts.

use std::fmt;

use serde::{Deserialize, Serialize};
use surety_units::Nanos;

/// CPU time of the kernel's own work; all 0 is theory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overheads {
    /// A change of the running thread, on the account of the thread switched to.
    #[serde(rename = "switch_cost")]
    pub switch: Nanos,
    /// Waking a thread, with the timer interrupt that does it, on the account of what runs on the CPU that wakes.
    #[serde(rename = "wakeup_cost", skip_serializing_if = "is_zero")]
    pub wakeup: Nanos,
    /// Going to sleep and returning from that: the system call and the timer that it arms, on the account of the thread that
    /// sleeps.
    #[serde(rename = "sleep_cost", skip_serializing_if = "is_zero")]
    pub sleep: Nanos,
    /// The tick's interrupt, on the account of what runs.
    #[serde(rename = "tick_cost", skip_serializing_if = "is_zero")]
    pub tick: Nanos,
    /// A timer interrupt that wakes no thread, such as a replenishment, on the account of what runs.
    #[serde(rename = "timer_cost", skip_serializing_if = "is_zero")]
    pub timer: Nanos,
}

fn is_zero(cost: &Nanos) -> bool {
    *cost == Nanos::ZERO
}

impl Overheads {
    /// Theory: everything but the threads' own work is free.
    pub const NONE: Overheads = Overheads {
        switch: Nanos::ZERO,
        wakeup: Nanos::ZERO,
        sleep: Nanos::ZERO,
        tick: Nanos::ZERO,
        timer: Nanos::ZERO,
    };

    /// Whether they are those of theory.
    pub fn are_none(&self) -> bool {
        *self == Overheads::NONE
    }

    /// Each with its word.
    pub fn each(&self) -> [(&'static str, Nanos); 5] {
        let Overheads { switch, wakeup, sleep, tick, timer } = *self;
        [("switch", switch), ("wake-up", wakeup), ("sleep", sleep), ("tick", tick), ("timer", timer)]
    }

    /// What one activation of a thread that sleeps between its jobs takes of its CPU beside its work, at most: it is woken, switched
    /// to, sleeps, and what it preempted is switched to again.
    pub fn per_job(&self) -> Nanos {
        self.wakeup.saturating_add(self.switch.saturating_add(self.switch)).saturating_add(self.sleep)
    }

    /// What a server's period takes beside its budget: its replenishment, and two switches.
    pub fn per_replenishment(&self) -> Nanos {
        self.timer.saturating_add(self.switch.saturating_add(self.switch))
    }
}

/// `switch 1.2us, wake-up 4us, sleep 2us, tick 3us, timer 2us`.
impl fmt::Display for Overheads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.each().iter().map(|(word, cost)| format!("{word} {}", cost.to_exact_string())).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platform;

    /// A machine of theory is written as it was when a switch was all that could cost, and one of before is read.
    #[test]
    fn costs_stand_in_the_platform_beside_the_first_of_them() {
        let mut platform = Platform::linux_6_18(1);
        let text = serde_json::to_string(&platform).unwrap();
        assert!(text.contains(r#""switch_cost":0"#) && !text.contains("wakeup_cost"), "{text}");
        assert_eq!(serde_json::from_str::<Platform>(&text).unwrap(), platform);
        let old = text.replace(r#""switch_cost":0"#, r#""switch_cost":2000"#);
        let old: Platform = serde_json::from_str(&old).unwrap();
        let of_switch = Overheads { switch: Nanos::from_micros(2), ..Overheads::NONE };
        assert_eq!(old.overheads, of_switch);
        let us = Nanos::from_micros;
        platform.overheads =
            Overheads { switch: us(1), wakeup: us(4), sleep: us(2), tick: us(3), timer: us(5) };
        let text = serde_json::to_string(&platform).unwrap();
        assert_eq!(serde_json::from_str::<Platform>(&text).unwrap(), platform);
        assert_eq!(platform.overheads.per_job(), us(8));
        assert_eq!(platform.overheads.per_replenishment(), us(7));
        assert!(
            platform
                .in_words()
                .ends_with("overheads switch 1us, wake-up 4us, sleep 2us, tick 3us, timer 5us"),
            "{}",
            platform.in_words()
        );
    }
}
