//! [`CpuTimes`]: how long each CPU has been busy, as `/proc/stat` counts it.

use std::path::Path;

use surety_units::{CpuId, Nanos};

use crate::error::KernelError;
use crate::kernel::Kernel;

/// `/proc` counts in hundredths of a second on every architecture (USER_HZ).
pub const USER_TICK: Nanos = Nanos::from_millis(10);

/// Time of one CPU since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// In programs, in the kernel and in interrupts.
    pub busy: Nanos,
    /// Taken by the hypervisor.
    pub stolen: Nanos,
    /// In nothing, and in nothing while somebody waits for a disk. Where ticks stop on idle CPUs (NO_HZ) it is measured to the microsecond,
    /// when the other times are sampled on ticks.
    pub idle: Nanos,
}

impl CpuTimes {
    /// Reads the times of every CPU, in the file's order.
    ///
    /// # Errors
    /// Where `/proc` does not show them.
    pub fn read(kernel: &dyn Kernel) -> Result<Vec<(CpuId, CpuTimes)>, KernelError> {
        let text = kernel.read_text(Path::new("/proc/stat"))?;
        Ok(text.lines().filter_map(line).collect())
    }
}

/// A line `cpu0 user nice system idle iowait irq softirq steal ...`; `None` for any other.
fn line(line: &str) -> Option<(CpuId, CpuTimes)> {
    let mut fields = line.split_ascii_whitespace();
    let number = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<i64> = fields.map_while(|field| field.parse().ok()).collect();
    let of = |index: usize| USER_TICK * ticks.get(index).copied().unwrap_or(0);
    let busy = of(0) + of(1) + of(2) + of(5) + of(6);
    Some((CpuId(number), CpuTimes { busy, stolen: of(7), idle: of(3) + of(4) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cpus_are_read_and_no_others() {
        let busy = Nanos::from_millis(10 * (1 + 2 + 3 + 6 + 7));
        let times = CpuTimes { busy, stolen: USER_TICK * 8, idle: USER_TICK * 9 };
        assert_eq!(line("cpu3 1 2 3 4 5 6 7 8 9 10"), Some((CpuId(3), times)));
        assert_eq!(line("cpu  1 2 3 4 5 6 7 8 9 10"), None);
        assert_eq!(line("intr 1 2 3"), None);
        assert_eq!(line("cpu0 1"), Some((CpuId(0), CpuTimes { busy: USER_TICK, ..CpuTimes::default() })));
    }
}
