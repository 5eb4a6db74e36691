//! The scheduler's deadline servers (`dl_server`): what was read of them, and what admission books for them on each CPU.
//!
//! A server is booked like a reservation of its CPU, with its own parameters, rounded down (`dl_server_apply_params` in
//! `kernel/sched/deadline.c`). Where they can be read, debugfs has them (`sched/fair_server/cpu0/runtime`, `period`); which servers a kernel
//! charges it shows nowhere.

use std::collections::BTreeMap;

use serde::Serialize;
use surety_units::{Bandwidth, CpuId, Nanos};

/// Budget and period of a server on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ServerBudget {
    /// 0: it never starts.
    pub runtime: Nanos,
    pub period: Nanos,
}

impl ServerBudget {
    /// What kernels make it with: 50 ms in each second.
    pub const DEFAULT: ServerBudget =
        ServerBudget { runtime: Nanos::from_millis(50), period: Nanos::from_millis(1000) };

    /// What admission books for it, kernel units.
    pub fn booked(self) -> u64 {
        Bandwidth::of(self.runtime, self.period).map_or(0, Bandwidth::to_kernel)
    }
}

/// For whom a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// Ordinary threads.
    Fair,
    /// Threads of sched_ext.
    Ext,
}

impl ServerKind {
    /// Those that kernels have.
    pub const ALL: [ServerKind; 2] = [ServerKind::Fair, ServerKind::Ext];

    /// The word before `_server` in debugfs.
    pub fn word(self) -> &'static str {
        match self {
            ServerKind::Fair => "fair",
            ServerKind::Ext => "ext",
        }
    }
}

/// How it was found which servers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServersFound {
    /// Listed in debugfs: these are there.
    Counted,
    /// debugfs is out of reach: a fair server, as current kernels have.
    Assumed,
}

/// Which servers admission books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Charge {
    pub fair: bool,
    pub ext: bool,
}

impl Charge {
    /// Every set of them, the smallest first.
    pub const ALL: [Charge; 4] = [
        Charge { fair: false, ext: false },
        Charge { fair: true, ext: false },
        Charge { fair: false, ext: true },
        Charge { fair: true, ext: true },
    ];

    /// Whether it has the server.
    pub fn has(self, kind: ServerKind) -> bool {
        match kind {
            ServerKind::Fair => self.fair,
            ServerKind::Ext => self.ext,
        }
    }

    /// All that one or the other has.
    pub fn or(self, other: Charge) -> Charge {
        Charge { fair: self.fair || other.fair, ext: self.ext || other.ext }
    }

    /// `fair and ext servers`.
    pub fn in_words(self) -> String {
        let words: Vec<&str> =
            ServerKind::ALL.into_iter().filter(|kind| self.has(*kind)).map(ServerKind::word).collect();
        if words.is_empty() { "no servers".to_owned() } else { format!("{} servers", words.join(" and ")) }
    }
}

/// What is known of [`Charge`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Charged {
    /// Nobody tried, or what is admitted agrees with no set of servers.
    #[default]
    Untried,
    /// The kernel admits what it would with these, by [`crate::deadline::charged`].
    Tried(Charge),
    /// The kernel admits what it would with one of these, and with a leak beside fewer: from outside they look the same.
    NotObservable(Vec<Charge>),
}

/// The servers of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadlineServers {
    pub found: ServersFound,
    /// What each CPU's has, by whom it serves; a CPU whose files cannot be read is left out.
    pub there: BTreeMap<ServerKind, BTreeMap<CpuId, ServerBudget>>,
    /// Directories `*_server` of debugfs that this program does not know: what those servers book is not counted.
    pub unknown: Vec<String>,
    pub charged: Charged,
}

impl DeadlineServers {
    /// Of a kernel of which nothing can be read.
    pub fn assumed() -> DeadlineServers {
        DeadlineServers {
            found: ServersFound::Assumed,
            there: BTreeMap::from([(ServerKind::Fair, BTreeMap::new())]),
            unknown: Vec::new(),
            charged: Charged::Untried,
        }
    }

    /// Whether there is such a server, as far as is known.
    pub fn has(&self, kind: ServerKind) -> bool {
        self.there.contains_key(&kind)
    }

    /// What a CPU's server has: as read, else as kernels make it.
    pub fn on(&self, kind: ServerKind, cpu: CpuId) -> ServerBudget {
        let read = self.there.get(&kind).and_then(|cpus| cpus.get(&cpu));
        read.copied().unwrap_or(ServerBudget::DEFAULT)
    }

    /// What admission books on a CPU for these servers, kernel units.
    pub fn booked_on(&self, which: Charge, cpu: CpuId) -> u64 {
        let of = ServerKind::ALL.into_iter().filter(|kind| which.has(*kind));
        of.map(|kind| self.on(kind, cpu).booked()).sum()
    }

    /// The sets of servers that could be charged: of those that are there, or of all where nobody counted them.
    pub fn sets(&self) -> Vec<Charge> {
        let is_there = |kind| self.found == ServersFound::Assumed || self.has(kind);
        let fits =
            |which: &Charge| ServerKind::ALL.into_iter().all(|kind| !which.has(kind) || is_there(kind));
        Charge::ALL.into_iter().filter(fits).collect()
    }
}
