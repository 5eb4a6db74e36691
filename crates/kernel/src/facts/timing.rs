//! [`TimingFacts`]: what makes wake-ups late on an otherwise idle machine: idle states, frequency, interrupts, memory.

use serde::Serialize;
use surety_units::{CpuSet, Nanos};

use super::Ask;

/// More idle states than any driver has.
const IDLE_STATES_MAX: usize = 64;

/// An idle state of the first CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleState {
    /// The driver's name for it, such as `C6`.
    pub name: String,
    /// Time to leave it.
    pub exit_latency: Nanos,
    /// Whether the kernel may not use it.
    pub disabled: bool,
}

/// What makes wake-ups late. Files that are not there are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimingFacts {
    /// Idle states, the shallowest first; empty where the kernel chooses none.
    pub idle_states: Vec<IdleState>,
    /// What chooses among them.
    pub idle_governor: Option<String>,
    /// Whether `/dev/cpu_dma_latency` can be written: a process may keep CPUs out of deep idle states while it holds it.
    pub idle_states_can_be_held: bool,
    /// Whether the processor may exceed its nominal frequency.
    pub boost: Option<bool>,
    /// CPUs on which the tick stops while one thread runs.
    pub full_dynticks: Option<CpuSet>,
    /// CPUs that new interrupts are delivered to.
    pub interrupt_affinity: Option<String>,
    /// How much later than asked a fair thread's timers may fire.
    pub timer_slack: Option<Nanos>,
    /// How transparent huge pages are used: `always`, `madvise`, `never`.
    pub huge_pages: Option<String>,
    /// Whether the kernel moves pages between memory nodes behind threads' backs.
    pub memory_balancing: Option<bool>,
    /// Whether a watchdog interrupts every CPU regularly.
    pub watchdog: Option<bool>,
    /// Whether pages can be swapped out.
    pub swap: Option<bool>,
}

impl Ask<'_> {
    pub(super) fn timing(&self) -> TimingFacts {
        let cpu = |file: &str| format!("/sys/devices/system/cpu/{file}");
        let flag = |path: &str| self.number(path).map(|value| value != 0);
        let no_turbo = flag(&cpu("intel_pstate/no_turbo")).map(|off| !off);
        TimingFacts {
            idle_states: (0..IDLE_STATES_MAX).map_while(|state| self.idle_state(state)).collect(),
            idle_governor: self.line(&cpu("cpuidle/current_governor")),
            idle_states_can_be_held: may_write(c"/dev/cpu_dma_latency"),
            boost: no_turbo.or_else(|| flag(&cpu("cpufreq/boost"))),
            full_dynticks: self.cpu_list(&cpu("nohz_full")).filter(|cpus| !cpus.is_empty()),
            interrupt_affinity: self.line("/proc/irq/default_smp_affinity"),
            timer_slack: self.number("/proc/self/timerslack_ns").map(Nanos::new),
            huge_pages: self
                .line("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|line| chosen(&line).map(str::to_owned)),
            memory_balancing: flag("/proc/sys/kernel/numa_balancing"),
            watchdog: flag("/proc/sys/kernel/nmi_watchdog"),
            swap: self.text("/proc/swaps").map(|text| text.lines().count() > 1),
        }
    }

    fn idle_state(&self, state: usize) -> Option<IdleState> {
        let at = |file: &str| format!("/sys/devices/system/cpu/cpu0/cpuidle/state{state}/{file}");
        Some(IdleState {
            name: self.line(&at("name"))?,
            exit_latency: self.micros(&at("latency")).unwrap_or(Nanos::ZERO),
            disabled: self.number(&at("disable")).is_some_and(|disabled| disabled != 0),
        })
    }
}

/// Whether this process may write a file.
fn may_write(path: &std::ffi::CStr) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The word in brackets: `always [madvise] never`.
fn chosen(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptedKernel;

    #[test]
    fn idle_states_and_choices_are_read_and_nothing_is_required() {
        let kernel = ScriptedKernel::new(1);
        let none = Ask { kernel: &kernel }.timing();
        assert!(none.idle_states.is_empty() && none.full_dynticks.is_none() && none.swap.is_none());
        for (state, name, latency) in [(0, "POLL", "0"), (1, "C6", "133")] {
            let at = format!("/sys/devices/system/cpu/cpu0/cpuidle/state{state}");
            kernel.add_file(format!("{at}/name"), &format!("{name}\n"));
            kernel.add_file(format!("{at}/latency"), &format!("{latency}\n"));
            kernel.add_file(format!("{at}/disable"), "0\n");
        }
        kernel.add_file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        kernel.add_file("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
        kernel.add_file("/proc/swaps", "Filename\tType\n/dev/vdb partition\n");
        let seen = Ask { kernel: &kernel }.timing();
        assert_eq!(seen.idle_states.len(), 2);
        assert_eq!(seen.idle_states[1].exit_latency, Nanos::from_micros(133));
        assert_eq!(seen.huge_pages.as_deref(), Some("madvise"));
        assert_eq!((seen.boost, seen.swap), (Some(false), Some(true)));
    }
}
