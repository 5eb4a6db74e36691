//! [`Beside`]: the counter-runs that show causes.

use surety_model::formats::toml;
use surety_model::platform::Platform;
use surety_model::workload::Workload;
use surety_model::world::RunOptions;
use surety_units::Nanos;

/// What is otherwise in a simulation that shows a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A fair thread of the kernel's own beside it.
    Kernel { period_us: u32, work_us: u32 },
    /// The hypervisor takes a CPU: a thread above all that are not reserved.
    Stolen { period_us: u32, work_us: u32 },
    /// A CPU that goes idle has one more tick (`nohz=late`).
    IdleTicks,
    /// The window begins later, and is as long.
    Later { ms: u32 },
    /// Wake-ups and ticks take so much, in percent of what they take in the record.
    Costs { wakeups: u32, ticks: u32 },
    /// Which of several CPUs reads `jiffies` first on a tick of all is chance ([`Platform::ticks_by_chance`]), drawn with this seed.
    Chance { seed: u64 },
    /// A period of realtime throttling lasts already and ends then ([`Platform::realtime_period_left`]).
    Period { left_ms: u32 },
    /// The threads of a traced run begin so late: one of its own every 100 ms, and on another CPU the one that keeps the trace every 250.
    Traced { own_ms: u32, trace_ms: u32 },
    /// The workload reads otherwise in one place.
    Reads { here: &'static str, there: &'static str },
}

impl Beside {
    /// A scenario with it: released last of all, so that the CPUs on which others begin are the same. `None` where the text is none.
    pub fn with(self, text: &str) -> Option<Workload> {
        let beside = |period_us: u32, work_us: u32, policy: &str| {
            format!(
                "{text}\n[[task]]\nname = \"zz-kernel\"\nperiod = \"{period_us}us\"\nstart = \"3ms\"\nwork = \"{work_us}us\"\npolicy = \"{policy}\"\n"
            )
        };
        let text = match self {
            Beside::Kernel { period_us, work_us } => beside(period_us, work_us, "fair"),
            Beside::Stolen { period_us, work_us } => beside(period_us, work_us, "fifo:99"),
            Beside::Traced { own_ms, trace_ms } => format!(
                "{text}\n[[task]]\nname = \"zz-own\"\nperiod = \"100060us\"\nstart = \"{own_ms}ms\"\nwork = \"92us\"\ncpus = \"0\"\n\
                 [[task]]\nname = \"zz-trace\"\nperiod = \"250100us\"\nstart = \"{trace_ms}ms\"\nwork = \"160us\"\ncpus = \"1\"\n"
            ),
            Beside::Reads { here, there } => text.replacen(here, there, 1),
            Beside::IdleTicks
            | Beside::Later { .. }
            | Beside::Costs { .. }
            | Beside::Period { .. }
            | Beside::Chance { .. } => text.to_owned(),
        };
        toml::read("scenario", &text).ok()
    }

    /// The machine with it.
    pub fn on(self, machine: &Platform) -> Platform {
        let mut machine = machine.clone();
        match self {
            Beside::IdleTicks => machine.timers.get_or_insert_default().idle_tick_comes_once = true,
            Beside::Costs { wakeups, ticks } => {
                let part = |cost: Nanos, percent: u32| cost * i64::from(percent) / 100;
                machine.overheads.wakeup = part(machine.overheads.wakeup, wakeups);
                machine.overheads.tick = part(machine.overheads.tick, ticks);
            }
            Beside::Chance { .. } => machine.ticks_by_chance = true,
            Beside::Period { left_ms } => {
                machine.realtime_period_left = Some(Nanos::from_millis(left_ms.into()));
            }
            Beside::Kernel { .. }
            | Beside::Stolen { .. }
            | Beside::Traced { .. }
            | Beside::Later { .. }
            | Beside::Reads { .. } => {}
        }
        machine
    }

    /// The run with it, on a machine whose ticks come where they would.
    pub fn options(self, options: &RunOptions) -> RunOptions {
        let mut options = options.clone();
        match self {
            Beside::Later { ms } => options.warm_up += Nanos::from_millis(i64::from(ms)),
            Beside::Chance { seed } => options.seed = seed,
            _ => {}
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::scenarios;

    #[test]
    fn every_scenario_can_be_simulated_beside_a_thread_of_the_kernel() {
        for scenario in scenarios() {
            let (period_us, work_us) = (9_000, 5);
            for beside in [Beside::Kernel { period_us, work_us }, Beside::Stolen { period_us, work_us }] {
                let with = beside.with(&scenario.text).expect(&scenario.title);
                assert_eq!(with.tasks.len(), scenario.workload.tasks.len() + 1, "{}", scenario.title);
            }
        }
    }

    #[test]
    fn costs_are_parts_of_those_of_the_record() {
        let mut machine = Platform::linux_6_18(1);
        (machine.overheads.wakeup, machine.overheads.tick) = (Nanos::new(2000), Nanos::new(3000));
        let other = Beside::Costs { wakeups: 115, ticks: 0 }.on(&machine);
        assert_eq!((other.overheads.wakeup, other.overheads.tick), (Nanos::new(2300), Nanos::ZERO));
        assert_eq!(Beside::Later { ms: 100 }.on(&machine), machine);
        let options = RunOptions::default();
        let later = Beside::Later { ms: 100 }.options(&options);
        assert_eq!((later.warm_up - options.warm_up, later.seed), (Nanos::from_millis(100), options.seed));
        let chance = Beside::Chance { seed: 7 }.options(&options);
        assert_eq!((chance.warm_up, chance.seed), (options.warm_up, 7));
    }

    #[test]
    fn a_workload_that_reads_otherwise_is_another_one() {
        for scenario in scenarios().into_iter().filter(|scenario| scenario.title == "two reclaimers") {
            let beside = Beside::Reads { here: "\"20ms\"", there: "\"20001us\"" };
            assert_ne!(beside.with(&scenario.text).expect("a workload").tasks, scenario.workload.tasks);
        }
    }
}
