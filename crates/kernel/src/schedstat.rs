//! [`Schedstat`]: what a thread got of the CPUs since it began, as the kernel counts it (`CONFIG_SCHED_INFO`).
//!
//! `/proc/PID/task/TID/schedstat` has three numbers: ns on a CPU, ns in a run queue, and how often the thread got a CPU. Time on a CPU
//! is brought up to date at ticks and switches, and a wait is added when it ends (`kernel/sched/stats.h`).

use std::path::Path;

use surety_units::{Nanos, Tid};

use crate::error::{KernelError, Operation};
use crate::kernel::Kernel;

/// What a thread got since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU.
    pub run: Nanos,
    /// Time in a run queue.
    pub waited: Nanos,
    /// How often it got a CPU.
    pub timeslices: u64,
}

impl Schedstat {
    /// Reads the file's text; `None` when a number is missing.
    pub fn parse(text: &str) -> Option<Schedstat> {
        let mut numbers = text.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
        let mut time = || Some(Nanos::new(i64::try_from(numbers.next()??).ok()?));
        let (run, waited) = (time()?, time()?);
        Some(Schedstat { run, waited, timeslices: numbers.next()?? })
    }

    /// Of a thread of a process.
    ///
    /// # Errors
    /// What reading says: the thread is gone, or another user's where `/proc` hides those; EIO for what is no such text.
    pub fn read(kernel: &dyn Kernel, process: Tid, tid: Tid) -> Result<Schedstat, KernelError> {
        let path = format!("/proc/{process}/task/{tid}/schedstat");
        let text = kernel.read_text(Path::new(&path))?;
        Schedstat::parse(&text).ok_or_else(|| KernelError::new(Operation::Read, path, libc::EIO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_or_nothing() {
        let read = Schedstat { run: Nanos::new(12), waited: Nanos::new(3), timeslices: 4 };
        assert_eq!(Schedstat::parse("12 3 4\n"), Some(read));
        for text in ["", "1 2", "1 2 x", "-1 2 3", "99999999999999999999 2 3"] {
            assert_eq!(Schedstat::parse(text), None, "{text}");
        }
    }
}
