//! `surety doctor`: what this machine can and cannot do, and how to mend it.

use serde_json::json;
use surety_host::checks_of;
use surety_host::noise_probe::{NoiseOptions, NoiseProbe};
use surety_host::overheads;
use surety_host::platform::platform_of;
use surety_kernel::deadline::{self, BandwidthAccount, Booked, KernelBandwidth};
use surety_kernel::facts::{MachineFacts, ServersFound};
use surety_kernel::perf::ThreadSwitches;
use surety_kernel::{Kernel, KernelError};
use surety_model::platform::Overheads;
use surety_model::workload::PolicySpec;
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
    let booked = Booked::settled(&session.kernel);
    let mut facts = MachineFacts::tried(&session.kernel);
    // What is booked and held by no thread would look like one more: there are no more than were counted.
    let is_counted = facts.scheduler.deadline_servers_found == ServersFound::Counted;
    let known = if is_counted { facts.scheduler.deadline_servers } else { u64::MAX };
    if let Some(servers) = charged(session, &booked).filter(|servers| *servers <= known) {
        facts.scheduler.deadline_servers_charged = Some(servers);
    }
    let mut list = checks_of(&facts);
    // Beside the limit it is about.
    let place = list.iter().position(|c| c.name == "bandwidth limit").map_or(list.len(), |at| at + 1);
    list.insert(place, bandwidth(args, session, &facts, booked));
    list.push(own_events());
    list.push(noise(session));
    let overheads = measured_overheads(session);
    list.push(match &overheads {
        Ok(_) => Check::good("overheads", overheads::in_words(&overheads)),
        Err(_) => Check::limited(
            "overheads",
            overheads::in_words(&overheads),
            "allow surety a CPU that nothing else keeps busy; until then models take the kernel's own work for nothing",
        ),
    });
    let bad = list.iter().any(|c| c.verdict == CheckVerdict::Bad);
    let code = if bad { Code::Machine } else { Code::Kept };
    if session.json {
        session.print_json(&json!({
            "schema": "surety.doctor/1",
            "checks": list,
            "facts": serde_json::to_value(&facts).unwrap_or_default(),
            "overheads": overheads.ok(),
            "exit": code as u8,
        }))?;
    } else {
        session.print(&checks(&list, &session.style()))?;
    }
    Ok(code)
}

/// How many servers the kernel charges, by what it admits.
fn charged(session: &Session, booked: &Result<Booked, KernelError>) -> Option<u64> {
    deadline::servers_charged(&session.kernel, *booked.as_ref().ok()?).ok()?
}

/// Compares what the kernel still admits with what it should.
fn bandwidth(
    args: &DoctorArgs,
    session: &Session,
    facts: &MachineFacts,
    booked: Result<Booked, KernelError>,
) -> Check {
    const NAME: &str = "deadline bandwidth";
    let check = |verdict, found: String, remedy: Option<&str>| Check {
        name: NAME.to_owned(),
        verdict,
        found,
        remedy: remedy.map(str::to_owned),
    };
    let limited = |why: String| check(CheckVerdict::Limited, why, None);
    let servers = facts.scheduler.deadline_servers_charged.unwrap_or_else(|| {
        let platform = platform_of(facts);
        u64::from(platform.fair_server.is_some()) + u64::from(platform.ext_server.is_some())
    });
    let taken = booked.and_then(|booked| deadline::account_of(&session.kernel, servers, booked));
    let account = match taken {
        Ok(Some(account)) => account,
        Ok(None) => return limited("the kernel admits without limit".to_owned()),
        Err(error) => return limited(format!("not tried: {error}")),
    };
    let found = describe(&account);
    if account.excess().0 > 1 << 10 {
        let remedy =
            "write 950000 to /proc/sys/kernel/sched_rt_runtime_us, or its own value: the kernel counts anew";
        return check(CheckVerdict::Limited, found, Some(remedy));
    }
    if account.leaked().0 == 0 {
        return check(CheckVerdict::Good, found, None);
    }
    if !args.repair {
        let remedy = "`surety doctor --repair` has the kernel count anew";
        return check(CheckVerdict::Bad, found, Some(remedy));
    }
    let repaired = deadline::repair_leak(&session.kernel)
        .and_then(|_| Booked::settled(&session.kernel))
        .and_then(|booked| deadline::account_of(&session.kernel, servers, booked));
    match repaired {
        Ok(Some(after)) if after.leaked().0 == 0 => {
            check(CheckVerdict::Good, format!("repaired: {found}; now {}", describe(&after)), None)
        }
        Ok(_) => check(
            CheckVerdict::Bad,
            format!("{found}; still so after the repair"),
            Some("restart the machine"),
        ),
        Err(error) => check(CheckVerdict::Bad, format!("{found}; not repaired: {error}"), None),
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
    match (account.leaked().0, account.excess().0) {
        (0, 0..=1024) => text,
        (0, _) => format!("{text}: {} more than there are", cpus(account.excess())),
        _ => format!("{text}: {} are booked and held by no thread", cpus(account.leaked())),
    }
}

/// What a busy thread on each CPU missed just now.
fn noise(session: &Session) -> Check {
    const NAME: &str = "noise";
    const REMEDY: &str = "`surety noise` says what took it";
    /// More than this, and short promises are others' to keep.
    const MAX: f64 = 0.01;
    let options = NoiseOptions {
        cpus: None,
        duration: Nanos::from_millis(200),
        threshold: Nanos::from_micros(1),
        policy: PolicySpec::default(),
        loads: Vec::new(),
        trace: false,
        cancel: session.cancel.clone(),
    };
    let run = match NoiseProbe::new(&session.kernel, None).run(&options) {
        Ok(run) => run,
        Err(error) => return Check::limited(NAME, format!("not measured: {error}"), REMEDY),
    };
    let observed: Nanos =
        run.record.activities.iter().filter_map(|a| a.share.as_ref()).map(|share| share.span).sum();
    let longest = run.record.activities.iter().filter_map(|a| a.longest_gap).max().unwrap_or(Nanos::ZERO);
    let share = run.away.get() as f64 / observed.get().max(1) as f64;
    let found = format!(
        "in {} a busy fair thread was without its CPU for {:.2} %, {longest} at the longest",
        options.duration.to_exact_string(),
        share * 100.0
    );
    if share > MAX { Check::limited(NAME, found, REMEDY) } else { Check::good(NAME, found) }
}

/// What the kernel's own work takes on the first CPU that this process may use, without a tracer.
fn measured_overheads(session: &Session) -> Result<Overheads, String> {
    let allowed = session.kernel.affinity(Tid(0)).map_err(|error| error.to_string())?;
    let cpu = allowed.lowest().ok_or("there is no CPU")?;
    overheads::measure(&session.kernel, cpu, None)
}

/// Whether an ordinary user sees their own threads' switches, tried.
fn own_events() -> Check {
    const NAME: &str = "own scheduling events";
    match ThreadSwitches::open(Tid(0), Bytes(4096)) {
        Ok(_) => Check::good(NAME, "perf events of own threads can be opened"),
        Err(error) => {
            Check::limited(NAME, error.to_string(), "write 2 to /proc/sys/kernel/perf_event_paranoid")
        }
    }
}
