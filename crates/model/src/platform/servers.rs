//! Deadline servers: what the kernel reserves of each CPU for its own classes, and what admission books for them.

use serde::{Deserialize, Serialize};
use surety_units::{Bandwidth, CpuSet, Nanos};

use super::{Platform, version_of};

/// The reservation the kernel keeps on every CPU so that realtime and deadline tasks cannot starve fair ones
/// (`dl_server`, 6.8 and later).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FairServer {
    /// Its budget.
    pub runtime: Nanos,
    pub period: Nanos,
}

impl FairServer {
    /// 50 ms in each second: the kernel's default.
    pub const DEFAULT: FairServer =
        FairServer { runtime: Nanos::from_millis(50), period: Nanos::from_millis(1000) };

    /// What admission books for it, kernel units, rounded down as the kernel does (`to_ratio`).
    pub fn booked(self) -> u64 {
        Bandwidth::of(self.runtime, self.period).map_or(0, Bandwidth::to_kernel)
    }

    /// Orders servers by their share of a CPU, exactly.
    fn by_share(&self, other: &FairServer) -> std::cmp::Ordering {
        let wide = |time: Nanos| i128::from(time.get());
        let across = wide(self.runtime) * wide(other.period.max(Nanos::new(1)));
        across.cmp(&(wide(other.runtime) * wide(self.period.max(Nanos::new(1)))))
    }
}

/// When a kernel books the server of sched_ext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtServer {
    /// It has none. Before 7.0.
    None,
    /// From the boot on, though nothing is loaded (cd959a356205, "sched_ext: Add a DL server for sched_ext tasks"). On 7.0 and 7.1.
    SinceBoot,
    /// While a scheduler of BPF is loaded; the fair server's booking is then given back where that takes all fair threads (e7b63427fdb4,
    /// "sched_ext: Auto-register/unregister dl_server reservations"). From 7.2 on.
    WhileLoaded,
}

impl ExtServer {
    /// The rule of a kernel by its release.
    pub fn of_release(release: &str) -> ExtServer {
        match version_of(release) {
            Some(version) if version >= (7, 2) => ExtServer::WhileLoaded,
            Some(version) if version >= (7, 0) => ExtServer::SinceBoot,
            _ => ExtServer::None,
        }
    }
}

impl Platform {
    /// Its CPUs by number.
    pub fn cpu_set(&self) -> CpuSet {
        if self.root_domains.is_empty() {
            return CpuSet::first(self.cpus);
        }
        self.root_domains.iter().fold(CpuSet::EMPTY, |all, cpus| all.union(cpus))
    }

    /// The same machine with these fair servers, one for each CPU in their order; a budget of 0: it is off there.
    pub fn with_fair_servers(self, servers: &[FairServer]) -> Platform {
        let largest = servers.iter().copied().max_by(FairServer::by_share);
        let are_alike = servers.iter().all(|server| Some(*server) == largest);
        Platform {
            fair_server: largest.filter(|server| server.runtime.is_positive()),
            fair_servers: if are_alike { Vec::new() } else { servers.to_vec() },
            ..self
        }
    }

    /// The fair server of the CPU at this place among its CPUs; `None`: it has none.
    pub fn fair_server_at(&self, place: usize) -> Option<FairServer> {
        let common = self.fair_server?;
        let own = self.fair_servers.get(place).copied().unwrap_or(common);
        Some(own).filter(|own| self.fair_servers.is_empty() || own.runtime.is_positive())
    }

    /// The fair servers that it has, each with the number of CPUs that have one like it.
    ///
    /// What stands above other threads is judged by every one of them: of two, the one with the smaller share may leave less time in a
    /// short window.
    pub fn unlike_fair_servers(&self) -> Vec<(FairServer, u32)> {
        let Some(common) = self.fair_server else { return Vec::new() };
        if self.fair_servers.is_empty() {
            return vec![(common, self.cpus)];
        }
        let mut found: Vec<(FairServer, u32)> = Vec::new();
        for server in (0..self.cpus as usize).filter_map(|place| self.fair_server_at(place)) {
            match found.iter_mut().find(|(known, _)| *known == server) {
                Some((_, count)) => *count += 1,
                None => found.push((server, 1)),
            }
        }
        found
    }

    /// What fair threads are kept on whichever CPU they are: the fair server with the smallest share. `None` where a CPU has none.
    pub fn least_fair_server(&self) -> Option<FairServer> {
        if self.fair_servers.is_empty() {
            return self.fair_server;
        }
        let each: Option<Vec<_>> = (0..self.cpus as usize).map(|place| self.fair_server_at(place)).collect();
        each?.into_iter().min_by(FairServer::by_share)
    }

    /// The longest period of its fair servers; `None` where it has none.
    pub fn longest_server_period(&self) -> Option<Nanos> {
        self.unlike_fair_servers().into_iter().map(|(server, _)| server.period).max()
    }

    /// The largest share that admission books for a CPU's fair server; none where the kernel has none or does not charge it.
    pub fn booked_for_server(&self) -> Option<Bandwidth> {
        let server = self.fair_server.filter(|_| self.fair_server_charged)?;
        Bandwidth::of(server.runtime, server.period)
    }

    /// What admission books on each CPU for threads of sched_ext.
    pub fn booked_for_ext(&self) -> Option<Bandwidth> {
        self.ext_server.and_then(|server| Bandwidth::of(server.runtime, server.period))
    }

    /// What admission books for the servers of the CPU at this place among its CPUs, kernel units.
    pub fn booked_at(&self, place: usize) -> u64 {
        let fair = self.fair_server_at(place).filter(|_| self.fair_server_charged);
        [fair, self.ext_server].into_iter().flatten().map(FairServer::booked).sum()
    }

    /// What admission books for the servers of all its CPUs, kernel units.
    pub fn booked_for_servers(&self) -> u64 {
        if self.fair_servers.is_empty() {
            return self.booked_at(0).saturating_mul(u64::from(self.cpus));
        }
        (0..self.cpus as usize).map(|place| self.booked_at(place)).sum()
    }

    /// The same machine with the servers of another.
    pub fn with_servers_of(self, other: &Platform) -> Platform {
        Platform {
            fair_server: other.fair_server,
            fair_servers: other.fair_servers.clone(),
            fair_server_charged: other.fair_server_charged,
            ext_server: other.ext_server,
            ..self
        }
    }

    /// Whose servers admission books, in words: `fair servers`.
    pub fn servers_in_words(&self) -> &'static str {
        match (self.booked_for_server(), self.booked_for_ext()) {
            (Some(_), Some(_)) => "fair and ext servers",
            (None, Some(_)) => "ext servers",
            _ => "fair servers",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runtime: i64, period: i64) -> FairServer {
        FairServer { runtime: Nanos::from_millis(runtime), period: Nanos::from_millis(period) }
    }

    #[test]
    fn servers_that_differ_are_booked_one_by_one_and_keep_what_the_smallest_keeps() {
        let alike = Platform::linux_6_18(2);
        assert_eq!(alike.clone().with_fair_servers(&[FairServer::DEFAULT; 2]), alike);
        assert_eq!((alike.booked_at(1), alike.booked_for_servers()), (52_428, 104_856));
        assert_eq!(alike.least_fair_server(), Some(FairServer::DEFAULT));
        let unlike = alike.clone().with_fair_servers(&[of(50, 1000), of(20, 100)]);
        assert_eq!(unlike.fair_server, Some(of(20, 100)));
        assert_eq!((unlike.booked_at(0), unlike.booked_at(1)), (52_428, 209_715));
        assert_eq!(unlike.booked_for_servers(), 262_143);
        assert_eq!(unlike.least_fair_server(), Some(of(50, 1000)));
        assert_eq!(unlike.longest_server_period(), Some(Nanos::SECOND));
        assert_eq!(unlike.unlike_fair_servers(), [(of(50, 1000), 1), (of(20, 100), 1)]);
        // One that is off keeps nothing, books nothing and stands in nobody's way.
        let off = alike.clone().with_fair_servers(&[of(0, 1000), of(50, 1000)]);
        assert_eq!((off.least_fair_server(), off.booked_for_servers()), (None, 52_428));
        assert_eq!(off.unlike_fair_servers(), [(of(50, 1000), 1)]);
        assert_eq!(alike.clone().with_fair_servers(&[of(0, 1000); 2]).fair_server, None);
        let uncharged = Platform { fair_server_charged: false, ..unlike };
        assert_eq!(uncharged.booked_for_servers(), 0);
    }

    #[test]
    fn each_root_domain_has_the_servers_of_its_cpus() {
        let servers = [of(50, 1000), of(50, 1000), of(200, 1000)];
        let domains: Vec<CpuSet> = ["1,4", "2"].iter().map(|text| text.parse().unwrap()).collect();
        // In the order of all CPUs: 1, 2, 4.
        let machine = Platform::linux_6_18(3).with_root_domains(domains).with_fair_servers(&servers);
        let booked: Vec<u64> =
            machine.domains().iter().map(|(_, alone)| alone.booked_for_servers()).collect();
        assert_eq!(booked, [52_428 + 209_715, 52_428]);
        assert_eq!(machine.booked_for_servers(), booked.iter().sum::<u64>());
        let (_, second) = &machine.domains()[1];
        assert_eq!((second.fair_servers.len(), second.fair_server), (0, Some(FairServer::DEFAULT)));
    }
}
