//! The scheduler's deadline servers of this machine: which of them admission charges, and as parts of a [`Platform`].
//!
//! What one CPU's servers book is [`DeadlineServers::booked_on`] for everybody: `doctor` takes stock with it, and the platform that plans and
//! models have is made of the same parameters (a test holds both to each other).

use surety_kernel::deadline::{self, Booked};
use surety_kernel::facts::MachineFacts;
use surety_kernel::servers::{Charge, Charged, DeadlineServers, ServerBudget, ServerKind, ServersFound};
use surety_kernel::{Kernel, KernelError};
use surety_model::platform::{ExtServer, FairServer, Platform};
use surety_units::{CpuId, CpuSet};

/// The sets of servers that a kernel may charge, by its release and what was read of it, the largest first.
///
/// 6.12 was seen to lose what it books for fair servers, and later kernels up to 6.16 may: both are open. The server of sched_ext is booked by
/// [`ExtServer`]; on a kernel older than those that have it, both are open, and so is the fair server's booking while a scheduler of BPF is
/// loaded, which gives it back where it takes all fair threads.
pub fn possible(facts: &MachineFacts) -> Vec<Charge> {
    let servers = &facts.scheduler.servers;
    let release = facts.kernel_release.as_deref().unwrap_or_default();
    let rule = rule_of_ext(servers, release);
    let fair = match servers.has(ServerKind::Fair) {
        false => vec![false],
        true if !Platform::of_release(release, 1).fair_server_charged => vec![true, false],
        true if rule == ExtServer::WhileLoaded && facts.scheduler.sched_ext => vec![true, false],
        true => vec![true],
    };
    let is_older = ExtServer::of_release(release) == ExtServer::None;
    let ext = match rule {
        ExtServer::None => vec![false],
        ExtServer::SinceBoot if is_older => vec![true, false],
        ExtServer::SinceBoot => vec![true],
        ExtServer::WhileLoaded => vec![facts.scheduler.sched_ext],
    };
    ext.iter().flat_map(|ext| fair.iter().map(|fair| Charge { fair: *fair, ext: *ext })).collect()
}

/// Which servers the kernel charges, from what is booked.
///
/// # Errors
/// As [`deadline::charged`].
pub fn tried(kernel: &dyn Kernel, facts: &MachineFacts, booked: Booked) -> Result<Charged, KernelError> {
    deadline::charged(kernel, &facts.scheduler.servers, &possible(facts), booked)
}

/// The servers to count: as was tried, else all that may be charged.
pub fn counted(facts: &MachineFacts) -> Charge {
    let usual = possible(facts).into_iter().fold(Charge::default(), Charge::or);
    match &facts.scheduler.servers.charged {
        Charged::Tried(charge) => *charge,
        Charged::Untried => usual,
        Charged::NotObservable(open) => open.iter().copied().fold(usual, Charge::or),
    }
}

/// When a kernel books the server of sched_ext: by its release, and what debugfs shows. One that older kernels have counts as booked from the
/// boot on, as on those that had it first.
pub(crate) fn rule_of_ext(servers: &DeadlineServers, release: &str) -> ExtServer {
    let is_there = match servers.found {
        ServersFound::Counted => Some(servers.has(ServerKind::Ext)),
        ServersFound::Assumed => None,
    };
    match (is_there, ExtServer::of_release(release)) {
        (Some(false), _) => ExtServer::None,
        (Some(true), ExtServer::None) => ExtServer::SinceBoot,
        (_, rule) => rule,
    }
}

/// A platform with the servers of these CPUs, which are its own in their order.
pub(crate) fn with_servers(platform: Platform, facts: &MachineFacts, cpus: &CpuSet) -> Platform {
    let servers = &facts.scheduler.servers;
    let charge = counted(facts);
    let of = |kind, cpu| {
        let ServerBudget { runtime, period } = servers.on(kind, cpu);
        FairServer { runtime, period }
    };
    let each = |kind| cpus.iter().map(|cpu| of(kind, cpu)).collect::<Vec<FairServer>>();
    let fair = if servers.has(ServerKind::Fair) { each(ServerKind::Fair) } else { Vec::new() };
    // Its budget never runs here: what counts is the largest that admission may book on a CPU.
    let ext = each(ServerKind::Ext).into_iter().filter(|server| server.runtime.is_positive());
    let platform = Platform {
        fair_server_charged: charge.fair || !servers.has(ServerKind::Fair),
        ext_server: ext.max_by_key(|server| server.booked()).filter(|_| charge.ext),
        ..platform
    };
    platform.with_fair_servers(&fair)
}

/// Whether reservations are charged for the server of sched_ext, and why; `None` where the kernel has none.
pub(crate) fn ext_in_words(facts: &MachineFacts) -> Option<String> {
    let servers = &facts.scheduler.servers;
    let rule = rule_of_ext(servers, facts.kernel_release.as_deref().unwrap_or_default());
    if rule == ExtServer::None {
        return None;
    }
    let why = match (&servers.charged, rule, facts.scheduler.sched_ext) {
        (Charged::Tried(_), ..) => "tried",
        (Charged::NotObservable(_), ..) => "not observable",
        (Charged::Untried, ExtServer::SinceBoot, _) => "from the boot on, by the kernel's release",
        (Charged::Untried, _, true) => "a scheduler is loaded",
        (Charged::Untried, _, false) => "no scheduler is loaded",
    };
    let said = if counted(facts).ext { "charged" } else { "not charged" };
    Some(format!("yes{}, {said} to reservations ({why})", parameters_in_words(servers, ServerKind::Ext)))
}

/// Whether there are fair servers and whether reservations are charged for them, each with how that was found.
pub(crate) fn fair_in_words(facts: &MachineFacts) -> String {
    let servers = &facts.scheduler.servers;
    let found = match servers.found {
        ServersFound::Counted if !servers.has(ServerKind::Fair) => return "no (counted)".to_owned(),
        ServersFound::Counted => "counted",
        ServersFound::Assumed => "assumed, debugfs is out of reach",
    };
    let said = if counted(facts).fair { "charged" } else { "not charged" };
    let why = match &servers.charged {
        Charged::Tried(_) => "tried",
        Charged::NotObservable(_) => "assumed, not observable: a leak would look the same",
        Charged::Untried => "assumed; `surety doctor` tries it while nobody else reserves",
    };
    format!("yes ({found}){}, {said} to reservations ({why})", parameters_in_words(servers, ServerKind::Fair))
}

/// Servers that this program does not know; `None`: there are none.
pub(crate) fn unknown_in_words(servers: &DeadlineServers) -> Option<String> {
    let names = servers.unknown.join(", ");
    (!names.is_empty()).then(|| format!("{names}: not known, so what they book and take is not counted"))
}

/// `, 20ms in 1s (read)` where a server is not as kernels make it, CPU by CPU where they differ.
fn parameters_in_words(servers: &DeadlineServers, kind: ServerKind) -> String {
    let read: Vec<(CpuId, ServerBudget)> =
        servers.there.get(&kind).into_iter().flatten().map(|(cpu, budget)| (*cpu, *budget)).collect();
    let one = |budget: &ServerBudget| {
        if !budget.runtime.is_positive() {
            return "switched off".to_owned();
        }
        format!("{} in {}", budget.runtime.to_exact_string(), budget.period.to_exact_string())
    };
    let Some((_, first)) = read.first() else { return String::new() };
    if read.iter().all(|(_, budget)| budget == first) {
        let is_usual = *first == ServerBudget::DEFAULT;
        return if is_usual { String::new() } else { format!(", {} (read)", one(first)) };
    }
    let mut groups: Vec<(ServerBudget, Vec<CpuId>)> = Vec::new();
    for (cpu, budget) in &read {
        match groups.iter_mut().find(|(known, _)| known == budget) {
            Some((_, cpus)) => cpus.push(*cpu),
            None => groups.push((*budget, vec![*cpu])),
        }
    }
    let groups = groups.iter().map(|(budget, cpus)| {
        let cpus: CpuSet = cpus.iter().copied().collect();
        format!("{} on {}", one(budget), cpus.in_words())
    });
    format!(", {} (read)", groups.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::platform_of;
    use proptest::prelude::*;
    use surety_kernel::ScriptedKernel;
    use surety_units::Nanos;

    fn budget(runtime: i64, period: i64) -> ServerBudget {
        ServerBudget { runtime: Nanos::from_millis(runtime), period: Nanos::from_millis(period) }
    }

    fn facts(cpus: u32, release: &str, there: &[(ServerKind, &[ServerBudget])]) -> MachineFacts {
        let mut facts = MachineFacts::read(&ScriptedKernel::new(cpus));
        facts.kernel_release = Some(release.to_owned());
        let servers = &mut facts.scheduler.servers;
        *servers = DeadlineServers { found: ServersFound::Counted, ..DeadlineServers::assumed() };
        let each = |budgets: &[ServerBudget]| (0..).map(CpuId).zip(budgets.iter().copied()).collect();
        servers.there = there.iter().map(|(kind, budgets)| (*kind, each(budgets))).collect();
        facts
    }

    proptest! {
        /// What `doctor` takes for booked and what plans and the simulator admit beside is one number, CPU by CPU.
        #[test]
        fn the_platform_books_what_the_account_does(
            fair in prop::collection::vec((0_i64..=900, 1_000_i64..=2_000), 1..5),
            ext in (0_i64..=900, 1_000_i64..=2_000),
            release in prop::sample::select(vec!["6.1.0", "6.12.107", "6.18.44", "7.1.2", "7.2.13"]),
            loaded: bool,
            which in 0_usize..6,
        ) {
            let each: Vec<ServerBudget> = fair.iter().map(|(runtime, period)| budget(*runtime, *period)).collect();
            let alike = vec![budget(ext.0, ext.1); each.len()];
            let cpus = u32::try_from(each.len()).unwrap();
            let mut facts = facts(cpus, release, &[(ServerKind::Fair, &each), (ServerKind::Ext, &alike)]);
            facts.scheduler.sched_ext = loaded;
            facts.scheduler.servers.charged = match Charge::ALL.get(which) {
                Some(charge) => Charged::Tried(*charge),
                None if which == 4 => Charged::NotObservable(vec![Charge { fair: true, ext: true }]),
                None => Charged::Untried,
            };
            let platform = platform_of(&facts);
            let servers = &facts.scheduler.servers;
            for place in 0..cpus {
                let booked = servers.booked_on(counted(&facts), CpuId(place));
                prop_assert_eq!(platform.booked_at(place as usize), booked);
            }
            let least = each.iter().map(|one| one.booked()).min().unwrap_or_default();
            prop_assert_eq!(platform.least_fair_server().map_or(0, FairServer::booked), least);
        }
    }

    #[test]
    fn fair_servers_that_differ_are_told_cpu_by_cpu() {
        let unlike = [budget(200, 1000), budget(50, 1000), budget(0, 1000), budget(50, 1000)];
        let facts = facts(4, "6.18.44", &[(ServerKind::Fair, &unlike)]);
        let said = fair_in_words(&facts);
        assert!(
            said.starts_with(
                "yes (counted), 200ms in 1s on CPU 0, 50ms in 1s on CPUs 1,3, switched off on CPU 2 (read), charged"
            ),
            "{said}"
        );
        let platform = platform_of(&facts);
        assert_eq!(
            (platform.booked_for_servers(), platform.least_fair_server()),
            (209_715 + 2 * 52_428, None)
        );
    }

    #[test]
    fn what_reading_leaves_open_is_possible() {
        let usual: &[ServerBudget] = &[ServerBudget::DEFAULT];
        let (fair, ext) = ((ServerKind::Fair, usual), (ServerKind::Ext, usual));
        for (release, there, loaded, expected) in [
            ("6.18.1", &[fair][..], false, "fair servers"),
            ("6.12.107", &[fair], false, "fair servers | no servers"),
            ("6.18.1", &[fair, ext], false, "fair and ext servers | fair servers"),
            ("7.1.2", &[fair, ext], false, "fair and ext servers"),
            ("7.1.2", &[fair], false, "fair servers"),
            ("7.2.13", &[fair, ext], false, "fair servers"),
            ("7.2.13", &[fair, ext], true, "fair and ext servers | ext servers"),
            ("6.1.0", &[], false, "no servers"),
        ] {
            let mut facts = facts(1, release, there);
            facts.scheduler.sched_ext = loaded;
            let found: Vec<String> = possible(&facts).into_iter().map(Charge::in_words).collect();
            assert_eq!(found.join(" | "), expected, "{release} {loaded}");
        }
    }

    #[test]
    fn a_server_of_another_name_is_said_and_is_not_the_one_of_sched_ext() {
        let mut facts = facts(1, "6.18.44", &[(ServerKind::Fair, &[ServerBudget::DEFAULT])]);
        facts.scheduler.servers.unknown = vec!["rt_server".to_owned()];
        assert_eq!(platform_of(&facts).booked_for_servers(), 52_428);
        let said = crate::platform::environment_of(&facts);
        assert!(said["other servers"].starts_with("rt_server: not known"), "{said:?}");
        assert!(!said.contains_key("ext server"));
    }
}
