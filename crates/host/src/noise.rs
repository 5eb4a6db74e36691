//! What else happened on the machine while a run lasted: CPU time of others, and time the hypervisor took.

use std::path::Path;

use surety_kernel::cpu_times::{CpuTimes, USER_TICK};
use surety_kernel::{Kernel, clock};
use surety_model::record::Disturbance;
use surety_units::{CpuSet, Nanos};

/// CPU time of the CPUs of a run, as `/proc/stat` counts it, and of our own processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuUse {
    idle: Nanos,
    stolen: Nanos,
    ours: Nanos,
    at: Nanos,
}

/// Counts that were read within this are of one instant.
const AT_ONCE: Nanos = Nanos::MILLISECOND;
/// How often they are read until they are: realtime threads of the run may stop the reader in between for most of a second.
const TRIES: usize = 5;

impl CpuUse {
    /// Reads the counts now; `None` where `/proc` does not show them.
    pub fn read(kernel: &dyn Kernel, cpus: &CpuSet) -> Option<CpuUse> {
        let mut read = CpuUse::read_once(kernel, cpus)?;
        for _ in 1..TRIES {
            if clock::monotonic() - read.at <= AT_ONCE {
                break;
            }
            read = CpuUse::read_once(kernel, cpus)?;
        }
        Some(read)
    }

    fn read_once(kernel: &dyn Kernel, cpus: &CpuSet) -> Option<CpuUse> {
        let mut sum = CpuUse { at: clock::monotonic(), ..CpuUse::default() };
        for (cpu, times) in CpuTimes::read(kernel).ok()? {
            if cpus.contains(cpu) {
                sum.idle += times.idle;
                sum.stolen += times.stolen;
            }
        }
        let own = kernel.read_text(Path::new("/proc/self/stat")).ok()?;
        // utime and stime are fields 14 and 15; the name in field 2 may hold blanks.
        let fields: Vec<&str> = own.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let of =
            |index: usize| fields.get(index - 3).and_then(|f| f.parse::<i64>().ok()).map(|t| USER_TICK * t);
        sum.ours = of(14)? + of(15)?;
        Some(sum)
    }

    /// Time the hypervisor took since the machine started.
    pub fn stolen(&self) -> Nanos {
        self.stolen
    }

    /// Shares of the CPUs' time that others and the hypervisor took between two readings; `programs` is CPU time of programs
    /// of ours, which the kernel does not count as this process's. Others had what was not idle and not ours: the time that the kernel
    /// counts as busy it samples on ticks, and threads that run in step with those have too much of it or too little.
    pub fn disturbance(before: &CpuUse, after: &CpuUse, programs: Nanos, cpus: usize) -> Disturbance {
        let capacity = (after.at - before.at).get() as f64 * cpus as f64;
        if capacity <= 0.0 {
            return Disturbance::default();
        }
        let stolen = after.stolen - before.stolen;
        let unused = (after.idle - before.idle) + stolen;
        let others = Nanos::new(capacity as i64) - unused - (after.ours - before.ours) - programs;
        let part = |time: Nanos| time.get().max(0) as f64 / capacity;
        Disturbance { others: part(others), stolen: part(stolen) }
    }
}
