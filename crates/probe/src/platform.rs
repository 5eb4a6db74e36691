//! This machine as a [`Platform`], and as the environment a record states.

use std::collections::BTreeMap;

use surety_kernel::facts::MachineFacts;
use surety_model::platform::{Enforcement, FairServer, Platform, RealtimeLimit, Reclaiming};
use surety_units::{Bandwidth, Nanos};

/// The platform of the running kernel on `cpus` CPUs, from what it says of itself; where it says nothing, the
/// defaults of a current kernel.
///
/// Budgets are taken to be enforced on the tick: high-resolution enforcement (`HRTICK_DL`) is off by default and
/// its switch cannot be read everywhere. That errs on the safe side, and so does what reclaims: a kernel without the
/// server is taken for one that hands out less.
pub fn platform_of(facts: &MachineFacts, cpus: u32) -> Platform {
    let scheduler = &facts.scheduler;
    let known = Platform::linux_6_18(cpus);
    let tick = scheduler.tick;
    let has_server = scheduler.deadline_servers > 0;
    let limit = scheduler.rt_runtime.zip(scheduler.rt_period).filter(|(runtime, _)| !runtime.is_negative());
    Platform {
        name: facts.kernel_release.as_ref().map_or(known.name, |release| format!("linux-{release}")),
        tick,
        enforcement: Enforcement::Tick(tick),
        base_slice: scheduler.base_slice.unwrap_or(known.base_slice),
        fair_server: has_server.then_some(FairServer::DEFAULT),
        realtime_limit: limit
            .filter(|_| !has_server)
            .map(|(runtime, period)| RealtimeLimit { runtime, period }),
        deadline_cap: limit
            .and_then(|(runtime, period)| Bandwidth::of(runtime, period))
            .unwrap_or(Bandwidth::ONE),
        root_domains: Vec::new(),
        reclaiming: if has_server { Reclaiming::ToCap } else { Reclaiming::BelowCap },
        autogroup: scheduler.autogroup.unwrap_or(false),
        ..known
    }
}

/// What a reader needs to judge numbers measured here, by name.
pub fn environment_of(facts: &MachineFacts) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    let mut say = |name: &str, value: Option<String>| {
        environment.insert(name.to_owned(), value.unwrap_or_else(|| "not known".to_owned()));
    };
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let cpus = &facts.cpus;
    let scheduler = &facts.scheduler;
    say("architecture", Some(facts.architecture.to_owned()));
    say("processor", cpus.model.clone());
    say("cpus online", cpus.online.map(|c| c.to_string()));
    say("simultaneous threads", cpus.simultaneous_threads.map(yes));
    say("virtual machine", Some(yes(cpus.virtual_machine)));
    say("frequency governor", Some(cpus.frequency_governor.clone().unwrap_or_else(|| "none".to_owned())));
    say("idle driver", Some(cpus.idle_driver.clone().unwrap_or_else(|| "none".to_owned())));
    say("clock source", facts.clock_source.clone());
    say("tick", Some(scheduler.tick.to_exact_string()));
    say("base slice", scheduler.base_slice.map(Nanos::to_exact_string));
    say("preemption", scheduler.preemption.clone());
    say("autogroup", scheduler.autogroup.map(yes));
    say("session", scheduler.own_session.map(|s| s.to_string()));
    say("fair server", Some(yes(scheduler.deadline_servers > 0)));
    say("sched_ext loaded", Some(yes(scheduler.sched_ext)));
    say("control groups", facts.cgroups.version.map(str::to_owned));
    say("user", Some(facts.privileges.user.to_string()));
    say("load average before", facts.load_average.clone());
    environment
}
