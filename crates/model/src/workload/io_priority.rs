//! [`IoPriority`]: which of two processes a disk serves first.

use std::fmt;
use std::str::FromStr;

use super::{BatchMode, Stream};

/// An I/O priority (`ioprio_set(2)`), as a file says it: `rt:LEVEL`, `be:LEVEL` or `idle`; levels are from 0, the most important, to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IoPriority {
    Realtime(u8),
    BestEffort(u8),
    Idle,
}

impl IoPriority {
    /// The level of best effort that a thread of the fair class has by its nice value where it was given none: 4 at nice 0
    /// (`task_nice_ioprio` in `include/linux/ioprio.h`).
    pub fn level_of_nice(nice: i32) -> u8 {
        u8::try_from((nice.clamp(-20, 19) + 20) / 5).unwrap_or(7)
    }
}

impl Stream {
    /// Whether it is fetched in batches that go before best effort: who fetches is real-time where nothing else is given.
    pub fn goes_first(&self) -> bool {
        self.batch.is_some() && matches!(self.io_priority, None | Some(IoPriority::Realtime(_)))
    }

    /// Makes it what a stream is beside guaranteed ones when it is refused itself: best effort, without a bound.
    pub fn lower(&mut self) {
        if self.goes_first() || matches!(self.io_priority, Some(IoPriority::Realtime(_))) {
            self.io_priority = Some(IoPriority::BestEffort(4));
        }
        (self.bound, self.admitted) = (None, false);
        self.leave_batches_out();
    }

    /// What is moved one access at a time has nothing of what is said of batches: one without a `batch` that no plan gives one.
    pub fn leave_batches_out(&mut self) {
        if self.batch.is_none() {
            (self.jitter, self.overlap, self.mode) = (None, false, BatchMode::Steady);
        }
    }
}

impl FromStr for IoPriority {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<IoPriority, &'static str> {
        let level = |text: &str| text.parse().ok().filter(|level| *level <= 7);
        let found = match text.split_once(':') {
            None if text == "idle" => Some(IoPriority::Idle),
            Some(("rt", text)) => level(text).map(IoPriority::Realtime),
            Some(("be", text)) => level(text).map(IoPriority::BestEffort),
            _ => None,
        };
        found.ok_or("an I/O priority is `rt:0` to `rt:7`, `be:0` to `be:7`, or `idle`")
    }
}

impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoPriority::Realtime(level) => write!(f, "rt:{level}"),
            IoPriority::BestEffort(level) => write!(f, "be:{level}"),
            IoPriority::Idle => f.write_str("idle"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_map_as_the_kernel_maps_them() {
        for (nice, level) in [(-20, 0), (-16, 0), (-15, 1), (0, 4), (4, 4), (5, 5), (19, 7)] {
            assert_eq!(IoPriority::level_of_nice(nice), level, "{nice}");
        }
    }
}
