//! [`setup`] and [`order`]: the emulator's own threads must not race with each other.
//!
//! One thread of the emulator executes the virtual CPUs in turns; another, its main loop, moves the virtual clock on when
//! all of them are idle, and says so to the first by ending the turn of the CPU that it finds running. A virtual CPU that
//! goes idle for a moment is seen by the main loop or not, depending on how the host runs the two threads beside each
//! other: then turns end at other instructions, and with several virtual CPUs the runs differ. On one CPU of the host only
//! one of them runs at a time, and with the main loop above the other it has nothing left to do whenever a virtual CPU runs
//! (`accel/tcg/tcg-accel-ops-rr.c` and `softmmu/icount.c` of QEMU 7.2).

use std::time::Duration;

use surety_kernel::Kernel;
use surety_kernel::command::{ChildSetup, Spawned};
use surety_kernel::cpu_times::CpuTimes;
use surety_kernel::sched::{SchedAttr, SchedPolicy};
use surety_kernel::transition::set_once;
use surety_units::{CpuId, CpuSet, Tid};

/// Over this time the least busy CPU is found: ten ticks of what `/proc/stat` counts in.
const LOOK: Duration = Duration::from_millis(100);

/// How the emulator starts: all of it on one CPU of the host, the one that was least busy of those we may use.
pub fn setup(kernel: &dyn Kernel) -> ChildSetup {
    let allowed = kernel.affinity(Tid(0)).ok();
    let cpu = allowed.and_then(|cpus| if cpus.len() > 1 { least_busy(kernel, &cpus) } else { cpus.lowest() });
    ChildSetup { affinity: cpu.map(CpuSet::single), ..ChildSetup::default() }
}

/// Puts the main loop above the threads it will make. Without the right to do so it stays beside them, where a race is
/// still possible, if the host takes the CPU from one of them at just the wrong instruction.
pub fn order(kernel: &dyn Kernel, emulator: &Spawned) {
    let above = SchedAttr { reset_on_fork: true, ..SchedAttr::from(SchedPolicy::Fifo { priority: 1 }) };
    // The result is worth no more than the same record twice, which the caller compares.
    let _ = set_once(kernel, emulator.pid(), &above);
}

fn least_busy(kernel: &dyn Kernel, allowed: &CpuSet) -> Option<CpuId> {
    let before = CpuTimes::read(kernel).ok()?;
    std::thread::sleep(LOOK);
    let after = CpuTimes::read(kernel).ok()?;
    quietest(&before, &after, allowed)
}

/// The CPU whose time grew least; the first of several.
fn quietest(before: &[(CpuId, CpuTimes)], after: &[(CpuId, CpuTimes)], allowed: &CpuSet) -> Option<CpuId> {
    let used = |(cpu, now): &(CpuId, CpuTimes)| {
        let (_, then) = before.iter().find(|(other, _)| other == cpu)?;
        allowed.contains(*cpu).then_some(((now.busy - then.busy) + (now.stolen - then.stolen), *cpu))
    };
    after.iter().filter_map(used).min().map(|(_, cpu)| cpu)
}

#[cfg(test)]
mod tests {
    use surety_units::Nanos;

    use super::*;

    #[test]
    fn the_least_busy_cpu_that_may_be_used_is_taken() {
        let times = |busy: [i64; 3]| -> Vec<(CpuId, CpuTimes)> {
            let of = |(cpu, busy): (u32, i64)| {
                (CpuId(cpu), CpuTimes { busy: Nanos::from_millis(busy), ..CpuTimes::default() })
            };
            (0..).zip(busy).map(of).collect()
        };
        let all: CpuSet = (0..3).map(CpuId).collect();
        assert_eq!(quietest(&times([50, 900, 0]), &times([150, 910, 100]), &all), Some(CpuId(1)));
        assert_eq!(quietest(&times([0, 0, 0]), &times([10, 0, 0]), &all), Some(CpuId(1)));
        let some: CpuSet = [CpuId(0), CpuId(2)].into_iter().collect();
        assert_eq!(quietest(&times([0, 0, 0]), &times([10, 0, 20]), &some), Some(CpuId(0)));
        assert_eq!(quietest(&[], &times([0, 0, 0]), &all), None);
    }
}
