//! `surety doctor`: what this machine can and cannot do, and how to mend it.

use std::path::Path;

use serde_json::json;
use surety_kernel::KernelError;
use surety_kernel::deadline::{self, BandwidthAccount, KernelBandwidth};
use surety_kernel::facts::MachineFacts;
use surety_kernel::perf::ThreadSwitches;
use surety_report::table::{Check, CheckVerdict, checks};
use surety_units::{Bytes, Nanos, Tid};

use crate::args::DoctorArgs;
use crate::exit::{Code, Failure};
use crate::session::Session;

/// The verb. Good and limited machines end in 0; one that can keep no promise in 3.
pub fn doctor(args: &DoctorArgs, session: &Session) -> Result<Code, Failure> {
    // Opening the journal takes back what killed runs left.
    session.journal();
    // First, because reading the limits already mends a leak on kernels since 6.15.
    let admissible = deadline::admissible_bandwidth(&session.kernel);
    let facts = MachineFacts::read(&session.kernel);
    let mut list = vec![kernel(&facts), cpus(&facts), reservations(&facts), throttling(&facts)];
    list.push(bandwidth(args, session, &facts, admissible));
    list.extend([tracing(&facts), own_events(), enforcement(&facts), autogroup(&facts), memory(&facts)]);
    list.extend([frequency(&facts), clock(&facts), virtualisation(&facts), load(&facts)]);
    let bad = list.iter().any(|c| c.verdict == CheckVerdict::Bad);
    let code = if bad { Code::Machine } else { Code::Kept };
    if session.json {
        let rows: Vec<_> = list
            .iter()
            .map(|c| {
                let verdict = match c.verdict {
                    CheckVerdict::Good => "good",
                    CheckVerdict::Limited => "limited",
                    CheckVerdict::Bad => "bad",
                };
                json!({ "name": c.name, "verdict": verdict, "found": c.found, "remedy": c.remedy })
            })
            .collect();
        session.print_json(&json!({
            "schema": "surety.doctor/1",
            "checks": rows,
            "facts": serde_json::to_value(&facts).unwrap_or_default(),
            "exit": code as u8,
        }));
    } else {
        print!("{}", checks(&list, &session.style()));
    }
    Ok(code)
}

fn check(name: &str, verdict: CheckVerdict, found: impl Into<String>, remedy: Option<&str>) -> Check {
    Check { name: name.to_owned(), verdict, found: found.into(), remedy: remedy.map(str::to_owned) }
}

fn kernel(facts: &MachineFacts) -> Check {
    let release = facts.kernel_release.as_deref().unwrap_or("not known");
    let preemption = facts.scheduler.preemption.as_deref().unwrap_or("not known");
    check(
        "kernel",
        CheckVerdict::Good,
        format!("{release}, tick {}, preemption {preemption}", facts.scheduler.tick.to_exact_string()),
        None,
    )
}

fn cpus(facts: &MachineFacts) -> Check {
    let shown = |set: Option<surety_units::CpuSet>| set.map_or("not known".to_owned(), |s| s.to_string());
    let found =
        format!("online {}, allowed here {}", shown(facts.cpus.online), shown(facts.cpus.own_affinity));
    match (facts.cpus.online, facts.cpus.own_affinity) {
        (Some(online), Some(own)) if online != own => check(
            "cpus",
            CheckVerdict::Limited,
            found,
            Some("start surety with all CPUs (taskset) so that reservations can be made"),
        ),
        _ => check("cpus", CheckVerdict::Good, found, None),
    }
}

fn reservations(facts: &MachineFacts) -> Check {
    if facts.privileges.sys_nice {
        check("reservations", CheckVerdict::Good, "this user may set SCHED_DEADLINE", None)
    } else {
        check(
            "reservations",
            CheckVerdict::Limited,
            format!(
                "user {} may not set SCHED_DEADLINE: promises are kept in simulation only",
                facts.privileges.user
            ),
            Some("run as root, or give the program CAP_SYS_NICE"),
        )
    }
}

fn throttling(facts: &MachineFacts) -> Check {
    let scheduler = &facts.scheduler;
    let servers = scheduler.deadline_servers;
    match scheduler.rt_runtime.zip(scheduler.rt_period) {
        Some((runtime, _)) if runtime.is_negative() => check(
            "bandwidth limit",
            CheckVerdict::Limited,
            "sched_rt_runtime_us is -1: the kernel admits reservations without any limit",
            Some("write 950000 to /proc/sys/kernel/sched_rt_runtime_us"),
        ),
        Some((runtime, period)) => check(
            "bandwidth limit",
            CheckVerdict::Good,
            format!(
                "{} in {} of each CPU, {}",
                runtime.to_exact_string(),
                period.to_exact_string(),
                match (servers, scheduler.deadline_servers_counted) {
                    (0, _) => "no fair server",
                    (_, true) => "fair servers charged",
                    (_, false) => "a fair server assumed (debugfs is out of reach)",
                }
            ),
            None,
        ),
        None => check("bandwidth limit", CheckVerdict::Limited, "not known", None),
    }
}

/// Compares what the kernel still admits with what it should.
fn bandwidth(
    args: &DoctorArgs,
    session: &Session,
    facts: &MachineFacts,
    admissible: Result<KernelBandwidth, KernelError>,
) -> Check {
    const NAME: &str = "deadline bandwidth";
    let limited = |why: String| check(NAME, CheckVerdict::Limited, why, None);
    let servers = facts.scheduler.deadline_servers;
    let taken = admissible.and_then(|admissible| deadline::account_of(&session.kernel, servers, admissible));
    let account = match taken {
        Ok(Some(account)) => account,
        Ok(None) => return limited("the kernel admits without limit".to_owned()),
        Err(error) => return limited(format!("not tried: {error}")),
    };
    let found = describe(&account);
    if account.leaked().0 == 0 {
        return check(NAME, CheckVerdict::Good, found, None);
    }
    if !args.repair {
        let remedy = "`surety doctor --repair` has the kernel count anew";
        return check(NAME, CheckVerdict::Bad, found, Some(remedy));
    }
    let repaired = deadline::repair_leak(&session.kernel)
        .and_then(|_| deadline::admissible_bandwidth(&session.kernel))
        .and_then(|admissible| deadline::account_of(&session.kernel, servers, admissible));
    match repaired {
        Ok(Some(after)) if after.leaked().0 == 0 => {
            check(NAME, CheckVerdict::Good, format!("repaired: {found}; now {}", describe(&after)), None)
        }
        Ok(_) => check(
            NAME,
            CheckVerdict::Bad,
            format!("{found}; still so after the repair"),
            Some("restart the machine"),
        ),
        Err(error) => check(NAME, CheckVerdict::Bad, format!("{found}; not repaired: {error}"), None),
    }
}

fn describe(account: &BandwidthAccount) -> String {
    let cpus = |b: KernelBandwidth| format!("{:.3}", b.as_f64());
    let text = format!(
        "{} CPUs can be reserved, threads hold {}, {} are still admitted",
        cpus(account.capacity),
        cpus(account.held),
        cpus(account.admissible)
    );
    match account.leaked().0 {
        0 => text,
        _ => format!("{text}: {} are booked for nobody", cpus(account.leaked())),
    }
}

fn tracing(facts: &MachineFacts) -> Check {
    match &facts.tracefs {
        Ok(access) => {
            let how = serde_json::to_value(access).ok().and_then(|v| v.as_str().map(str::to_owned));
            check("tracing", CheckVerdict::Good, format!("tracefs is {}", how.unwrap_or_default()), None)
        }
        Err(why) => check(
            "tracing",
            CheckVerdict::Limited,
            why.clone(),
            Some("run as root to see interrupts and other programs"),
        ),
    }
}

/// Whether an ordinary user sees their own threads' switches, tried.
fn own_events() -> Check {
    match ThreadSwitches::open(Tid(0), Bytes(4096)) {
        Ok(_) => check(
            "own scheduling events",
            CheckVerdict::Good,
            "perf events of own threads can be opened",
            None,
        ),
        Err(error) => check("own scheduling events", CheckVerdict::Limited, error.to_string(), None),
    }
}

fn enforcement(facts: &MachineFacts) -> Check {
    check(
        "budget enforcement",
        CheckVerdict::Good,
        format!(
            "taken to be on the tick: a budget can be overrun by up to {}, and every proof counts that",
            facts.scheduler.tick.to_exact_string()
        ),
        None,
    )
}

fn autogroup(facts: &MachineFacts) -> Check {
    match facts.scheduler.autogroup {
        Some(true) => check(
            "autogroup",
            CheckVerdict::Limited,
            "on: CPU time is divided between sessions first, so shares depend on who runs in which",
            Some("compare shares only within one session"),
        ),
        Some(false) => check("autogroup", CheckVerdict::Good, "off", None),
        None => check("autogroup", CheckVerdict::Good, "not in this kernel", None),
    }
}

fn memory(facts: &MachineFacts) -> Check {
    // Under any limit a run would lock nothing: what grows past the limit would be refused.
    if facts.privileges.ipc_lock || facts.privileges.locked_memory_limit.is_none() {
        check("locked memory", CheckVerdict::Good, "memory can be locked while measuring", None)
    } else {
        let limit = facts.privileges.locked_memory_limit.unwrap_or_default();
        check(
            "locked memory",
            CheckVerdict::Limited,
            format!("at most {} can be locked, so nothing is locked while measuring", Bytes(limit)),
            Some("lift the limit (ulimit -l unlimited) or grant CAP_IPC_LOCK"),
        )
    }
}

fn frequency(facts: &MachineFacts) -> Check {
    match facts.cpus.frequency_governor.as_deref() {
        None => check("frequency", CheckVerdict::Good, "not the kernel's to choose", None),
        Some("performance") => check("frequency", CheckVerdict::Good, "governor performance", None),
        Some(other) => check(
            "frequency",
            CheckVerdict::Limited,
            format!("governor {other}: the same work takes different times"),
            Some("choose the governor `performance` while measuring"),
        ),
    }
}

fn clock(facts: &MachineFacts) -> Check {
    match facts.clock_source.as_deref() {
        Some(source @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            check("clock", CheckVerdict::Good, source, None)
        }
        Some(source) => check(
            "clock",
            CheckVerdict::Limited,
            format!("{source}: reading it is slow and disturbs what is measured"),
            Some("see /sys/devices/system/clocksource/clocksource0/available_clocksource"),
        ),
        None => check("clock", CheckVerdict::Limited, "not known", None),
    }
}

fn virtualisation(facts: &MachineFacts) -> Check {
    let stolen = facts.cpus.stolen.unwrap_or(Nanos::ZERO);
    if facts.cpus.virtual_machine {
        check(
            "virtual machine",
            CheckVerdict::Limited,
            format!("yes; the hypervisor admits to {stolen} taken since boot, and may take more unseen"),
            Some("measure on bare hardware where microseconds count"),
        )
    } else {
        check("virtual machine", CheckVerdict::Good, "no", None)
    }
}

fn load(facts: &MachineFacts) -> Check {
    let average = facts.load_average.clone().unwrap_or_else(|| "not known".to_owned());
    let first: f64 = average.split_whitespace().next().and_then(|a| a.parse().ok()).unwrap_or(0.0);
    let others = Path::new("/proc/loadavg").exists() && first > 0.5;
    let verdict = if others { CheckVerdict::Limited } else { CheckVerdict::Good };
    let remedy = others.then_some("end what else runs, or choose CPUs with --cpus");
    check("load", verdict, average, remedy)
}
