//! This machine as a [`Platform`], and as the environment a record states.

use std::collections::BTreeMap;

use surety_kernel::facts::{MachineFacts, SchedulerFacts};
use surety_kernel::root_domains::RootDomains;
use surety_kernel::servers::ServerKind;
use surety_model::platform::{Enforcement, Platform, RealtimeLimit, Reclaiming};
use surety_units::{Bandwidth, CpuSet, Nanos};

use crate::servers::{ext_in_words, fair_in_words, unknown_in_words, with_servers};

/// The platform of the running kernel, from what it says of itself; where it says nothing, the defaults of a current
/// kernel. Its CPUs are those of the root domains that take reservations: CPUs that are isolated are kept for what is
/// bound to them.
///
/// What is not known is taken from the safe side: that a kernel with fair servers throttles realtime threads, too; that budgets are enforced
/// on the tick; that servers are charged to reservations. A kernel without the server is taken for one that hands out less to what reclaims.
pub fn platform_of(facts: &MachineFacts) -> Platform {
    let scheduler = &facts.scheduler;
    let domains = facts.cpus.root_domains.for_reservations();
    let cpus = domains.iter().map(CpuSet::len).sum::<usize>().max(1);
    let release = facts.kernel_release.as_deref().unwrap_or_default();
    let known = Platform::of_release(release, u32::try_from(cpus).unwrap_or(u32::MAX));
    let tick = scheduler.tick;
    let has_server = scheduler.servers.has(ServerKind::Fair);
    let limit = scheduler.rt_runtime.zip(scheduler.rt_period).filter(|(runtime, _)| !runtime.is_negative());
    let cap = limit.and_then(|(runtime, period)| Bandwidth::of(runtime, period));
    let is_unlimited = scheduler.rt_runtime.is_some_and(Nanos::is_negative);
    let online = facts.cpus.online.as_ref().map_or(cpus, CpuSet::len);
    let platform = Platform {
        other_cpus: u32::try_from(online.saturating_sub(cpus)).unwrap_or(u32::MAX),
        name: facts.kernel_release.as_ref().map_or(known.name, |release| format!("linux-{release}")),
        tick,
        enforcement: if scheduler.budget_end.is_by_timer() {
            Enforcement::Exact
        } else {
            Enforcement::Tick(tick)
        },
        base_slice: scheduler.base_slice.unwrap_or(known.base_slice),
        realtime_limit: limit
            .filter(|_| !has_server || scheduler.rt_throttles != Some(false))
            .map(|(runtime, period)| RealtimeLimit { runtime, period }),
        deadline_cap: if is_unlimited { Bandwidth::ONE } else { cap.unwrap_or(known.deadline_cap) },
        deadline_unlimited: is_unlimited,
        reclaiming: Reclaiming::of_release(release),
        autogroup: scheduler.divides_by_session(),
        ..known
    };
    // One domain that is not the first CPUs of the machine is told by its CPUs, too: a thread has to be put there.
    let is_whole = domains.len() == 1 && facts.cpus.online == domains.first().copied();
    let all = domains.iter().fold(CpuSet::EMPTY, |all, cpus| all.union(cpus));
    let platform = if is_whole { platform } else { platform.with_root_domains(domains) };
    let all = if all.is_empty() { platform.cpu_set() } else { all };
    with_servers(platform, facts, &all)
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
    say("root domains", Some(in_words(&cpus.root_domains)));
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
    say("fair server", Some(fair_in_words(facts)));
    if let Some(words) = ext_in_words(facts) {
        say("ext server", Some(words));
    }
    if let Some(words) = unknown_in_words(&scheduler.servers) {
        say("other servers", Some(words));
    }
    say("realtime throttling", Some(throttling_in_words(scheduler)));
    say("budgets end", Some(scheduler.budget_end.in_words(scheduler.tick)));
    say("sched_ext enabled", Some(format!("{} (read)", yes(scheduler.sched_ext))));
    say("control groups", facts.cgroups.version.map(str::to_owned));
    say("user", Some(facts.privileges.user.to_string()));
    say("load average before", facts.load_average.clone());
    environment
}

/// Whether realtime threads are stopped, after how long, and how that was found.
pub(crate) fn throttling_in_words(scheduler: &SchedulerFacts) -> String {
    let limit = scheduler.rt_runtime.zip(scheduler.rt_period);
    match (limit, scheduler.rt_throttles) {
        (_, Some(false)) => "no (read)".to_owned(),
        (None, _) => "not known".to_owned(),
        (Some((runtime, _)), _) if runtime.is_negative() => "no: sched_rt_runtime_us is -1".to_owned(),
        (Some((runtime, period)), found) => {
            let found = if found.is_some() { "read" } else { "assumed, debugfs is out of reach" };
            format!("after {} in {} ({found})", runtime.to_exact_string(), period.to_exact_string())
        }
    }
}

/// `CPUs 0-3; CPUs 4-7; isolated: CPU 8`.
pub(crate) fn in_words(domains: &RootDomains) -> String {
    let mut parts: Vec<String> = domains.balanced.iter().map(CpuSet::in_words).collect();
    if !domains.isolated.is_empty() {
        parts.push(format!("isolated: {}", domains.isolated.in_words()));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_kernel::ScriptedKernel;
    use surety_kernel::facts::BudgetEnd;
    use surety_kernel::servers::{Charge, Charged, DeadlineServers, ServerBudget, ServersFound};
    use surety_units::CpuId;

    /// Servers of the first CPU with these budgets in a second, ms.
    fn servers(found: ServersFound, there: &[(ServerKind, i64)]) -> DeadlineServers {
        let of = |(kind, runtime): &(ServerKind, i64)| {
            let budget = ServerBudget { runtime: Nanos::from_millis(*runtime), period: Nanos::SECOND };
            (*kind, [(CpuId(0), budget)].into())
        };
        DeadlineServers { found, there: there.iter().map(of).collect(), ..DeadlineServers::assumed() }
    }

    #[test]
    fn what_was_tried_counts_and_how_it_was_found_is_said() {
        let mut facts = MachineFacts::read(&ScriptedKernel::new(1));
        facts.scheduler.tick = Nanos::from_millis(4);
        facts.kernel_release = Some("6.18.44".to_owned());
        facts.scheduler.servers = servers(ServersFound::Counted, &[(ServerKind::Fair, 50)]);
        let assumed = platform_of(&facts);
        assert_eq!(assumed.enforcement, Enforcement::Tick(Nanos::from_millis(4)));
        let said = environment_of(&facts);
        assert_eq!(said["budgets end"], "on the tick: assumed, not tried");
        assert_eq!(
            said["fair server"],
            "yes (counted), charged to reservations (assumed; `surety doctor` tries it while nobody else reserves)"
        );
        assert_eq!(said["sched_ext enabled"], "no (read)");
        facts.scheduler.servers.charged = Charged::Tried(Charge::default());
        for by_timer in [false, true] {
            let (budget, overrun) = (Nanos::from_micros(500), Nanos::from_micros(20));
            facts.scheduler.budget_end = BudgetEnd::Tried { by_timer, budget, overrun };
            let exact = platform_of(&facts).enforcement == Enforcement::Exact;
            assert_eq!(exact, by_timer);
        }
        let tried = platform_of(&facts);
        assert_eq!(tried.deadline_cap, assumed.deadline_cap);
        assert!(assumed.booked_for_server().is_some() && tried.booked_for_server().is_none());
        assert_eq!(tried.fair_server, assumed.fair_server, "it acts all the same");
        let said = environment_of(&facts);
        assert!(said["budgets end"].starts_with("on a timer: tried, a budget of 500us"), "{said:?}");
        assert_eq!(said["fair server"], "yes (counted), not charged to reservations (tried)");
    }

    /// By `e7b63427fdb4` from 7.2 on; 7.2.13 in the lab has both directories, takes 94.8 % of a CPU and refuses 95.1 %.
    #[test]
    fn the_server_of_sched_ext_is_charged_as_the_kernel_books_it() {
        let mut facts = MachineFacts::read(&ScriptedKernel::new(1));
        let counted = ServersFound::Counted;
        let assumed = ServersFound::Assumed;
        let tried = |ext| Charged::Tried(Charge { fair: true, ext });
        for (release, found, count, loaded, charged, booked) in [
            ("7.2.13", counted, 2, false, Charged::Untried, 1),
            ("7.2.13", counted, 2, true, Charged::Untried, 2),
            ("7.2.13", assumed, 1, false, Charged::Untried, 1),
            ("7.2.13", assumed, 1, true, Charged::Untried, 2),
            ("7.0.4", counted, 2, false, Charged::Untried, 2),
            ("7.1.2", assumed, 1, false, Charged::Untried, 2),
            ("7.1.2", counted, 1, false, Charged::Untried, 1),
            ("7.1.2", counted, 2, false, tried(false), 1),
            ("7.2.13", counted, 2, false, tried(true), 2),
            ("7.2.13", counted, 2, false, Charged::NotObservable(vec![Charge { fair: true, ext: true }]), 2),
            ("6.18.1", counted, 2, false, Charged::Untried, 2),
            ("6.18.1", assumed, 1, false, Charged::Untried, 1),
        ] {
            facts.kernel_release = Some(release.to_owned());
            let case = format!("{release} {found:?} {count} {loaded} {charged:?}");
            let there = [(ServerKind::Fair, 50), (ServerKind::Ext, 50)];
            facts.scheduler.sched_ext = loaded;
            facts.scheduler.servers = DeadlineServers { charged, ..servers(found, &there[..count]) };
            let platform = platform_of(&facts);
            assert_eq!(platform.booked_for_servers(), booked * 52_428, "{case}");
            let said = environment_of(&facts).remove("ext server").unwrap_or_default();
            assert_eq!(said.contains(", charged"), booked == 2, "{case}: {said}");
        }
    }

    #[test]
    fn servers_are_what_debugfs_shows() {
        let mut facts = MachineFacts::read(&ScriptedKernel::new(1));
        facts.kernel_release = Some("7.2.13".to_owned());
        let shown =
            |ext, fair| servers(ServersFound::Counted, &[(ServerKind::Ext, ext), (ServerKind::Fair, fair)]);
        facts.scheduler.servers = shown(30, 200);
        let read = platform_of(&facts);
        assert_eq!((read.booked_for_servers(), read.ext_server), (209_715, None));
        assert!(environment_of(&facts)["fair server"].starts_with("yes (counted), 200ms in 1s (read), "));
        facts.scheduler.sched_ext = true;
        assert_eq!(platform_of(&facts).booked_for_servers(), 209_715 + 31_457);
        assert_eq!(
            environment_of(&facts)["ext server"],
            "yes, 30ms in 1s (read), charged to reservations (a scheduler is loaded)"
        );
        facts.scheduler.servers = shown(50, 0);
        assert_eq!(platform_of(&facts).fair_server, None);
    }

    #[test]
    fn a_kernel_with_fair_servers_may_throttle_too() {
        let mut facts = MachineFacts::read(&ScriptedKernel::new(1));
        let limit = Some((Nanos::from_millis(950), Nanos::from_secs(1)));
        (facts.scheduler.rt_runtime, facts.scheduler.rt_period) = limit.unzip();
        facts.scheduler.servers = DeadlineServers::assumed();
        for (throttles, limited, words) in [
            (Some(true), true, "after 950ms in 1s (read)"),
            (Some(false), false, "no (read)"),
            (None, true, "after 950ms in 1s (assumed, debugfs is out of reach)"),
        ] {
            facts.scheduler.rt_throttles = throttles;
            let platform = platform_of(&facts);
            assert_eq!(platform.realtime_limit.is_some(), limited, "{throttles:?}");
            assert!(platform.fair_server.is_some());
            assert_eq!(environment_of(&facts)["realtime throttling"], words);
        }
        facts.scheduler.rt_runtime = Some(Nanos::from_millis(500));
        assert_eq!(platform_of(&facts).admitted_per_cpu(), Some(1 << 19));
        facts.scheduler.rt_runtime = Some(Nanos::new(-1000));
        let unlimited = platform_of(&facts);
        assert_eq!((unlimited.realtime_limit, unlimited.admitted_per_cpu()), (None, None));
        facts.scheduler.rt_runtime = None;
        assert_eq!(platform_of(&facts).admitted_per_cpu(), Some(996_147), "not known: that of its release");
    }

    #[test]
    fn the_platform_has_the_root_domains_of_the_kernel() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let of = |balanced: &[&str], isolated: &str| {
            let mut facts = MachineFacts::read(&ScriptedKernel::new(4));
            facts.cpus.root_domains = RootDomains {
                balanced: balanced.iter().map(|text| set(text)).collect(),
                isolated: set(isolated),
                ..RootDomains::default()
            };
            let platform = platform_of(&facts);
            let domains: Vec<String> = platform.root_domains.iter().map(CpuSet::to_string).collect();
            (platform.cpus, domains.join(" "), in_words(&facts.cpus.root_domains))
        };
        let said = |cpus, domains: &str, words: &str| (cpus, domains.to_owned(), words.to_owned());
        assert_eq!(of(&["0-3"], ""), said(4, "", "CPUs 0-3"));
        assert_eq!(of(&["0,2", "1,3"], ""), said(4, "0,2 1,3", "CPUs 0,2; CPUs 1,3"));
        assert_eq!(of(&["0-1", "2"], "3"), said(3, "0-1 2", "CPUs 0-1; CPU 2; isolated: CPU 3"));
        assert_eq!(of(&["0-2"], "3"), said(3, "0-2", "CPUs 0-2; isolated: CPU 3"));
        assert_eq!(of(&[], "0-3"), said(4, "", "isolated: CPUs 0-3"));
    }
}
