//! [`checks_of`]: whether a machine is fit to keep promises and to measure them, from its facts: each a verdict with its
//! remedy. `doctor` prints them, and every record of this world carries them (`in_force`).

use std::collections::BTreeMap;

use surety_kernel::facts::MachineFacts;
use surety_kernel::tracefs::TracefsAccess;
use surety_model::environment::Check;
use surety_model::record::{Disturbance, InForce, ThreadInForce};
use surety_units::{Bytes, CpuSet, Nanos};

use crate::platform::{in_words, platform_of, throttling_in_words};
use crate::servers::{fair_in_words, unknown_in_words};

/// Wake-ups from idle states that take longer than this to leave are visibly late.
const EXIT_LATENCY_MAX: Nanos = Nanos::from_micros(10);
/// Runnable threads on average over the last minute that leave a machine to the one who measures.
const LOAD_MAX: f64 = 0.5;

/// What was in force on this machine; how much others used is part of its environment.
pub(crate) fn in_force(
    facts: &MachineFacts,
    cpus: CpuSet,
    threads: Vec<ThreadInForce>,
    mut environment: BTreeMap<String, String>,
    disturbance: Option<Disturbance>,
) -> InForce {
    let used = disturbance.map_or_else(|| "not known".to_owned(), |d| d.to_string());
    environment.insert("used by others".to_owned(), used);
    InForce {
        kernel: facts.kernel_release.clone().unwrap_or_default(),
        cpus,
        machine: Some(platform_of(facts)),
        threads,
        environment,
        checks: checks_of(facts),
        unvalidated: Vec::new(),
        // No interrupts are counted of it.
        timers: Vec::new(),
        disturbance,
    }
}

/// Everything the facts tell, in the order of what matters most.
pub fn checks_of(facts: &MachineFacts) -> Vec<Check> {
    let mut list = vec![
        kernel(facts),
        cpus(facts),
        root_domains(facts),
        reservations(facts),
        bandwidth_limit(facts),
        tracing(facts),
    ];
    list.extend([
        enforcement(facts),
        autogroup(facts),
        loaded_scheduler(facts),
        isolation(facts),
        simultaneous_threads(facts),
    ]);
    list.extend([frequency(facts), idle_states(facts), clock(facts), timer_slack(facts)]);
    list.extend([memory(facts), paging(facts), interrupts(facts), virtualisation(facts), load(facts)]);
    list
}

fn kernel(facts: &MachineFacts) -> Check {
    let release = facts.kernel_release.as_deref().unwrap_or("not known");
    let preemption = facts.scheduler.preemption.as_deref().unwrap_or("not known");
    Check::good(
        "kernel",
        format!("{release}, tick {}, preemption {preemption}", facts.scheduler.tick.to_exact_string()),
    )
}

fn cpus(facts: &MachineFacts) -> Check {
    let shown = |set: Option<surety_units::CpuSet>| set.map_or("not known".to_owned(), |s| s.to_string());
    let found =
        format!("online {}, allowed here {}", shown(facts.cpus.online), shown(facts.cpus.own_affinity));
    match (facts.cpus.online, facts.cpus.own_affinity) {
        (Some(online), Some(own)) if online != own => Check::limited(
            "cpus",
            found,
            "start surety with all CPUs (taskset) so that reservations can be made",
        ),
        _ => Check::good("cpus", found),
    }
}

fn root_domains(facts: &MachineFacts) -> Check {
    const NAME: &str = "root domains";
    let domains = &facts.cpus.root_domains;
    let words = in_words(domains);
    if let Some(why) = &domains.unseen {
        return Check::limited(
            NAME,
            format!("{words} as far as seen: {why}"),
            "run where the machine's own control groups are mounted, or give --root-domains to `surety plan`",
        );
    }
    let found = match (domains.balanced.len(), domains.isolated.is_empty()) {
        (1, true) => format!("one, {words}: reserved threads share all CPUs"),
        (1, false) => words,
        (0, _) => format!("{words}: nothing is balanced, reservations share them all the same"),
        (count, _) => format!("{count}: {words}: a reserved thread stays in one of them"),
    };
    match domains.isolated_offline.is_empty() {
        true => Check::good(NAME, found),
        false => Check::limited(
            NAME,
            format!(
                "{found}; offline CPUs {} are with the isolated ones, so the kernel refuses reservations there",
                domains.isolated_offline
            ),
            "bring these CPUs online, or make a balanced cpuset of the isolated ones",
        ),
    }
}

fn reservations(facts: &MachineFacts) -> Check {
    if facts.privileges.sys_nice {
        return Check::good("reservations", "this user may set SCHED_DEADLINE");
    }
    Check::limited(
        "reservations",
        format!(
            "user {} may not set SCHED_DEADLINE: promises are kept in simulation only",
            facts.privileges.user
        ),
        "run as root, or give the program CAP_SYS_NICE",
    )
}

fn bandwidth_limit(facts: &MachineFacts) -> Check {
    const NAME: &str = "bandwidth limit";
    let scheduler = &facts.scheduler;
    let others = unknown_in_words(&scheduler.servers).map(|words| format!("; {words}"));
    let servers = format!("{}{}", fair_in_words(facts), others.unwrap_or_default());
    match scheduler.rt_runtime.zip(scheduler.rt_period) {
        Some((runtime, _)) if runtime.is_negative() => Check::limited(
            NAME,
            "sched_rt_runtime_us is -1: the kernel admits reservations without any limit, and real-time threads are \
             never throttled",
            "write 950000 to /proc/sys/kernel/sched_rt_runtime_us",
        ),
        Some((runtime, period)) => {
            let (runtime, period) = (runtime.to_exact_string(), period.to_exact_string());
            let throttling = throttling_in_words(scheduler);
            Check::good(
                NAME,
                format!(
                    "{runtime} in {period} of each CPU; fair server: {servers}; realtime threads throttled: {throttling}"
                ),
            )
        }
        None => Check::unknown(NAME),
    }
}

fn tracing(facts: &MachineFacts) -> Check {
    match &facts.tracefs {
        Ok(TracefsAccess::Mounted) => Check::good("tracing", "tracefs is mounted"),
        Ok(TracefsAccess::Detached) => {
            Check::good("tracing", "tracefs can be reached, though it is not mounted")
        }
        Err(why) => {
            Check::limited("tracing", why.clone(), "run as root to see interrupts and other programs")
        }
    }
}

fn enforcement(facts: &MachineFacts) -> Check {
    let end = &facts.scheduler.budget_end;
    let counted = if end.is_by_timer() { "" } else { "; every proof counts an overrun of a tick" };
    Check::good("budget enforcement", format!("{}{counted}", end.in_words(facts.scheduler.tick)))
}

fn autogroup(facts: &MachineFacts) -> Check {
    match facts.scheduler.autogroup {
        Some(true) => Check::limited(
            "autogroup",
            "on: CPU time is divided between sessions first, so shares depend on who runs in which",
            "compare shares only within one session, or write 0 to /proc/sys/kernel/sched_autogroup_enabled",
        ),
        Some(false) => Check::good("autogroup", "off"),
        None => Check::good("autogroup", "not in this kernel"),
    }
}

fn loaded_scheduler(facts: &MachineFacts) -> Check {
    const NAME: &str = "sched_ext";
    match facts.scheduler.sched_ext {
        false => Check::good(NAME, "not enabled (/sys/kernel/sched_ext/state)"),
        true => Check::limited(
            NAME,
            "enabled (/sys/kernel/sched_ext/state): fair threads run as that scheduler decides, which no model here knows",
            "end the loaded scheduler before simulated shares are compared with measured ones",
        ),
    }
}

/// Isolation is no fault where it is missing: most machines have none. Reservations do not work on isolated CPUs
/// unless the thread is confined to them in a cpuset of their own.
fn isolation(facts: &MachineFacts) -> Check {
    const NAME: &str = "isolated CPUs";
    let isolated = facts.cpus.isolated.filter(|cpus| !cpus.is_empty());
    let tickless = facts.timing.full_dynticks;
    match (isolated, tickless) {
        (None, None) => Check::good(NAME, "none: the scheduler balances over all of them"),
        (None, Some(cpus)) => Check::good(NAME, format!("none; without a tick under one thread: {cpus}")),
        (Some(cpus), _) => Check::limited(
            NAME,
            format!(
                "{cpus} (isolcpus): no load balancing there, and reservations of the other CPUs never go there"
            ),
            "choose other CPUs with --cpus, or isolate with cpuset partitions instead of isolcpus",
        ),
    }
}

fn simultaneous_threads(facts: &MachineFacts) -> Check {
    const NAME: &str = "simultaneous threads";
    match facts.cpus.simultaneous_threads {
        Some(true) => Check::limited(
            NAME,
            "on: two CPUs share a core, so work takes longer while the neighbour is busy",
            "write `off` to /sys/devices/system/cpu/smt/control while measuring, or use one CPU of each core",
        ),
        Some(false) => Check::good(NAME, "off"),
        None => Check::good(NAME, "not in this kernel"),
    }
}

fn frequency(facts: &MachineFacts) -> Check {
    const NAME: &str = "frequency";
    let boost = match facts.timing.boost {
        Some(true) => ", boost on: it ends when the processor is hot",
        Some(false) => ", boost off",
        None => "",
    };
    match facts.cpus.frequency_governor.as_deref() {
        None => Check::good(NAME, format!("not the kernel's to choose{boost}")),
        Some("performance") => Check::good(NAME, format!("governor performance{boost}")),
        Some(other) => Check::limited(
            NAME,
            format!("governor {other}: the same work takes different times{boost}"),
            "choose the governor `performance` while measuring",
        ),
    }
}

fn idle_states(facts: &MachineFacts) -> Check {
    const NAME: &str = "idle states";
    let timing = &facts.timing;
    let usable = timing.idle_states.iter().filter(|state| !state.disabled);
    let Some(deepest) = usable.max_by_key(|state| state.exit_latency) else {
        return Check::good(NAME, "the kernel chooses none");
    };
    let governor = timing.idle_governor.as_deref().unwrap_or("none");
    let found = format!(
        "{} states, the deepest ({}) takes {} to leave, governor {governor}",
        timing.idle_states.len(),
        deepest.name,
        deepest.exit_latency.to_exact_string()
    );
    if deepest.exit_latency <= EXIT_LATENCY_MAX {
        return Check::good(NAME, found);
    }
    if timing.idle_states_can_be_held {
        return Check::good(NAME, format!("{found}; probes keep CPUs out of them (/dev/cpu_dma_latency)"));
    }
    Check::limited(
        NAME,
        format!("{found}; this user may not keep CPUs out of them"),
        "give the user write access to /dev/cpu_dma_latency, or disable deep states while measuring",
    )
}

fn clock(facts: &MachineFacts) -> Check {
    const NAME: &str = "clock";
    match facts.clock_source.as_deref() {
        Some(source @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            Check::good(NAME, source)
        }
        Some(source) => Check::limited(
            NAME,
            format!("{source}: reading it is slow and disturbs what is measured"),
            "see /sys/devices/system/clocksource/clocksource0/available_clocksource",
        ),
        None => Check::unknown(NAME),
    }
}

fn timer_slack(facts: &MachineFacts) -> Check {
    const NAME: &str = "timer slack";
    match facts.timing.timer_slack {
        Some(slack) => Check::good(
            NAME,
            format!("a fair thread may wake up to {} late unless it asks for less", slack.to_exact_string()),
        ),
        None => Check::unknown(NAME),
    }
}

fn memory(facts: &MachineFacts) -> Check {
    const NAME: &str = "locked memory";
    // Under any limit a run would lock nothing: what grows past the limit would be refused.
    if facts.privileges.ipc_lock || facts.privileges.locked_memory_limit.is_none() {
        return Check::good(NAME, "memory can be locked while measuring");
    }
    let limit = facts.privileges.locked_memory_limit.unwrap_or_default();
    Check::limited(
        NAME,
        format!("at most {} can be locked, so nothing is locked while measuring", Bytes(limit)),
        "lift the limit (ulimit -l unlimited) or grant CAP_IPC_LOCK",
    )
}

fn paging(facts: &MachineFacts) -> Check {
    const NAME: &str = "paging";
    let timing = &facts.timing;
    let mut found = vec![match timing.swap {
        Some(true) => "swap in use".to_owned(),
        Some(false) => "no swap".to_owned(),
        None => "swap not known".to_owned(),
    }];
    found.extend(timing.huge_pages.as_ref().map(|used| format!("transparent huge pages {used}")));
    if timing.memory_balancing == Some(true) {
        found.push("pages are moved between memory nodes".to_owned());
        return Check::limited(
            NAME,
            found.join(", "),
            "write 0 to /proc/sys/kernel/numa_balancing while measuring: moved pages fault",
        );
    }
    Check::good(NAME, found.join(", "))
}

fn interrupts(facts: &MachineFacts) -> Check {
    const NAME: &str = "interrupts";
    let affinity = facts.timing.interrupt_affinity.as_deref().unwrap_or("not known");
    let found = format!("new ones go to CPUs of the mask {affinity}");
    if facts.timing.watchdog == Some(true) {
        return Check::limited(
            NAME,
            format!("{found}; a watchdog interrupts every CPU"),
            "write 0 to /proc/sys/kernel/nmi_watchdog while measuring",
        );
    }
    Check::good(NAME, found)
}

fn virtualisation(facts: &MachineFacts) -> Check {
    const NAME: &str = "virtual machine";
    if !facts.cpus.virtual_machine {
        return Check::good(NAME, "no");
    }
    let stolen = facts.cpus.stolen.unwrap_or(Nanos::ZERO);
    Check::limited(
        NAME,
        format!("yes; {stolen} of steal time reported since boot, and there may be more that is not"),
        "measure on bare hardware where microseconds count",
    )
}

fn load(facts: &MachineFacts) -> Check {
    const NAME: &str = "load";
    let Some(average) = facts.load_average.clone() else { return Check::unknown(NAME) };
    let first: f64 = average.split_whitespace().next().and_then(|a| a.parse().ok()).unwrap_or(0.0);
    if first > LOAD_MAX {
        return Check::limited(NAME, average, "end what else runs, or choose CPUs with --cpus");
    }
    Check::good(NAME, average)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_kernel::{RealKernel, ScriptedKernel};
    use surety_model::environment::CheckVerdict;

    fn found<'a>(list: &'a [Check], name: &str) -> &'a Check {
        list.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{name} is checked"))
    }

    #[test]
    fn what_is_wrong_has_a_remedy_and_every_name_is_said_once() {
        for facts in [MachineFacts::read(&RealKernel::new()), MachineFacts::read(&ScriptedKernel::new(2))] {
            let list = checks_of(&facts);
            let mut names: Vec<&str> = list.iter().map(|c| c.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), list.len());
            for check in list.iter().filter(|check| check.verdict != CheckVerdict::Good) {
                let told = check.remedy.is_some() || check.found.starts_with("not known");
                assert!(told || check.name == "tracing", "{check:?}");
            }
        }
    }

    #[test]
    fn a_laptop_is_told_what_makes_it_late() {
        let kernel = ScriptedKernel::new(2);
        let file = |path: &str, text: &str| kernel.add_file(path, text);
        file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
        file("/sys/devices/system/cpu/smt/active", "1\n");
        file("/sys/devices/system/cpu/isolated", "1\n");
        file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
        file("/proc/sys/kernel/nmi_watchdog", "1\n");
        file("/proc/sys/kernel/numa_balancing", "1\n");
        file("/proc/sys/kernel/sched_rt_runtime_us", "-1\n");
        file("/proc/sys/kernel/sched_rt_period_us", "1000000\n");
        file("/proc/loadavg", "3.10 2 1 1/9 9\n");
        let list = checks_of(&MachineFacts::read(&kernel));
        for name in [
            "frequency",
            "simultaneous threads",
            "isolated CPUs",
            "clock",
            "interrupts",
            "paging",
            "bandwidth limit",
            "load",
        ] {
            assert_eq!(found(&list, name).verdict, CheckVerdict::Limited, "{name}");
            assert!(found(&list, name).remedy.is_some(), "{name}");
        }
    }

    #[test]
    fn deep_idle_states_matter_only_to_those_who_cannot_hold_them() {
        let kernel = ScriptedKernel::new(1);
        let at = "/sys/devices/system/cpu/cpu0/cpuidle/state0";
        kernel.add_file(format!("{at}/name"), "C10\n");
        kernel.add_file(format!("{at}/latency"), "800\n");
        let mut facts = MachineFacts::read(&kernel);
        facts.timing.idle_states_can_be_held = false;
        assert_eq!(found(&checks_of(&facts), "idle states").verdict, CheckVerdict::Limited);
        facts.timing.idle_states_can_be_held = true;
        assert_eq!(found(&checks_of(&facts), "idle states").verdict, CheckVerdict::Good);
    }
}
