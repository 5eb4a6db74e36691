//! [`Platform`]: what the machine is, as far as scheduling depends on it.

pub mod changes;
pub mod features;
mod overheads;
mod servers;
mod timers;
mod unvalidated;

use serde::{Deserialize, Serialize};
use surety_units::{Bandwidth, Bytes, CpuId, CpuSet, Nanos};

use crate::places::FilePlaces;
use crate::reservation::Reservation;
use crate::schedulers::SchedulerRow;
use crate::workload::PolicySpec;

pub use crate::topology::Topology;
pub use changes::PlatformChanges;
pub use overheads::Overheads;
pub use servers::{ExtServer, FairServer};
pub use timers::TimerRules;

/// How the kernel stops a task whose budget is used up.
///
/// Without high-resolution enforcement (`HRTICK_DL`) the budget is looked at on each tick and at each switch, so
/// a task overruns by up to one tick and pays it back later. Every supply bound depends on this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// On the tick: an overrun of up to this length.
    Tick(Nanos),
    /// By a timer, at the exact time.
    Exact,
}

impl Enforcement {
    /// The longest overrun.
    pub fn overrun_max(self) -> Nanos {
        match self {
            Enforcement::Tick(tick) => tick,
            Enforcement::Exact => Nanos::ZERO,
        }
    }
}

/// Realtime throttling of kernels without the fair server: all realtime tasks of a CPU stop for the rest of the
/// period once they have run this long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealtimeLimit {
    /// `sched_rt_runtime_us`.
    pub runtime: Nanos,
    /// `sched_rt_period_us`.
    pub period: Nanos,
}

/// How fast the budget of a reservation with `reclaim` runs down while others leave time unused (`grub_reclaim` in
/// `kernel/sched/deadline.c`). `U` is its own bandwidth, `Umax` the cap, `Uinact` what reservations asleep have booked,
/// `Uextra` what none has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reclaiming {
    /// At `max(U, Umax - Uinact - Uextra) / Umax`: alone it gets all up to the cap. Since 6.5.
    #[default]
    ToCap,
    /// The same with every fair server taken from `Uextra` twice, when it is made and when its CPU joins a root domain. What is
    /// then less than nothing counts as more than there is, so the budget runs down at `U / Umax`. In 6.12.
    ToCapServersTwice,
    /// At `max(U / Umax, 1 - Uinact - Uextra)`: what is above the cap counts as used, so alone it gets
    /// `U / (1 - Umax + U)`. Before 6.5.
    BelowCap,
}

impl Reclaiming {
    /// The rule of a kernel by its release, such as `6.12.107-amd64`.
    pub fn of_release(release: &str) -> Reclaiming {
        match version_of(release) {
            Some((6, 12)) => Reclaiming::ToCapServersTwice,
            Some(version) if version < (6, 5) => Reclaiming::BelowCap,
            _ => Reclaiming::ToCap,
        }
    }
}

/// The numbers that a kernel release begins with.
fn numbers_of(release: &str) -> impl Iterator<Item = u32> {
    release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok())
}

/// The first two of them.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = numbers_of(release);
    Some((numbers.next()?, numbers.next()?))
}

/// What drives the disks of a machine that have a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskDriver {
    /// The driver of such a disk: SCSI's, ATA's, MMC's.
    #[default]
    OfDisk,
    /// A loop device in front of the model: it takes as many requests as it has tags, or as the disk takes at a time where that is not said.
    Loop { tags: Option<u32> },
}

impl DiskDriver {
    fn is_of_disk(&self) -> bool {
        *self == DiskDriver::OfDisk
    }
}

/// A reservation that a plan counts and does not make: one the workload declares, or one that another process of the machine
/// holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherReservation {
    /// Its activity, or its thread.
    pub name: String,
    /// (Q, D, T).
    pub reservation: Reservation,
    /// Threads with this reservation each.
    pub threads: u32,
    /// Whether no job of these threads ever needs more than one budget.
    pub bounded: bool,
    /// Whether they may sleep inside a budget and wake to what is left of it.
    pub sleeps: bool,
    /// The CPUs of its root domain, where that is known; none: it may be in any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_domain: Option<CpuSet>,
}

impl OtherReservation {
    /// One of which nothing else is known, on one thread.
    pub fn unknown(name: String, reservation: Reservation) -> OtherReservation {
        OtherReservation { name, reservation, threads: 1, bounded: false, sleeps: true, root_domain: None }
    }

    /// The bandwidth of all its threads, in CPUs.
    pub fn bandwidth(&self) -> f64 {
        self.reservation.bandwidth().as_f64() * f64::from(self.threads)
    }
}

/// What realtime threads below the reservations take: it decides whether the fair servers have to act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealtimeDemand {
    /// Whose, in words.
    pub who: String,
    /// The most that all of them take of a CPU in any period of its fair server; none: they may never yield it.
    pub takes: Option<Nanos>,
}

/// A platform with a number of CPUs.
pub type Profile = fn(u32) -> Platform;

/// The platforms that have a name.
pub const PROFILES: &[(&str, Profile)] = &[
    ("linux-7.2", Platform::linux_7_2),
    ("linux-6.18", Platform::linux_6_18),
    ("linux-6.12", Platform::linux_6_12),
    ("linux-6.6", Platform::linux_6_6),
    ("linux-6.1", Platform::linux_6_1),
    ("linux-2.6.23", Platform::linux_2_6_23),
];

/// A CPU of a machine whose CPUs are not all alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuSpec {
    /// Its speed at its highest frequency, in 1024ths of the fastest CPU's (`cpu_capacity`).
    pub capacity: u32,
    /// CPUs with the same number change their frequency together.
    pub frequency_domain: u32,
    /// What it does while it is idle, the shallowest first (`cpuidle`).
    pub idle_states: Vec<IdleState>,
}

impl Default for CpuSpec {
    fn default() -> CpuSpec {
        CpuSpec { capacity: 1024, frequency_domain: 0, idle_states: Vec::new() }
    }
}

/// A state of an idle CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    /// Its name in `cpuidle`: `C1`.
    pub name: String,
    /// From the interrupt that ends it to the first instruction.
    pub exit_latency: Nanos,
    /// The shortest idle time for which it pays.
    pub residency: Nanos,
}

/// A machine as scheduling sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// A name for tables: `linux-6.18`, or this machine's kernel.
    pub name: String,
    pub cpus: u32,
    /// CPUs beside these that are online: isolated ones, which run what is bound to them, handlers and kernel threads.
    #[serde(default, skip_serializing_if = "is_none_other")]
    pub other_cpus: u32,
    /// What each of them is, by number; empty: all are alike. This version computes with CPUs that are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_specs: Vec<CpuSpec>,
    /// The CPUs of each root domain, where cpuset partitions make several; empty: one with all of them.
    /// Deadline threads are admitted in one of them and never leave it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_domains: Vec<CpuSet>,
    /// What its CPUs share; `None`: nothing is said of it, and all share a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// The tick's length (1/HZ).
    pub tick: Nanos,
    /// How long after a run's beginning its first tick comes; `None`: drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_phase: Option<Nanos>,
    /// How budgets are enforced.
    pub enforcement: Enforcement,
    /// The fair class's base slice on this many CPUs.
    pub base_slice: Nanos,
    /// The fair server of each CPU, where the kernel has one; where they differ, the one with the largest share.
    pub fair_server: Option<FairServer>,
    /// That of each CPU in their order, where they differ; a budget of 0: it is off there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fair_servers: Vec<FairServer>,
    /// Whether admission books the fair servers like deadline tasks: on 6.12 what is booked for them is lost when the root domains
    /// are made, so deadline tasks may have all of the cap, and the servers act all the same.
    #[serde(default = "charged", skip_serializing_if = "is_charged")]
    pub fair_server_charged: bool,
    /// What admission books on each CPU for threads of sched_ext: on 7.0 and 7.1 from the boot on, from 7.2 on while a scheduler of BPF
    /// is loaded ([`ExtServer`]). No thread here is one of those, so the server acts for nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext_server: Option<FairServer>,
    /// Realtime throttling, where the kernel throttles that way.
    pub realtime_limit: Option<RealtimeLimit>,
    /// How long after time 0 a throttling period ends that lasts already, as after other realtime threads; `None`: none does, and one
    /// begins as the first realtime thread is made. A state of a machine.
    #[serde(skip)]
    pub realtime_period_left: Option<Nanos>,
    /// Whether chance decides, on a tick of several CPUs, which of them read `jiffies` before the first one has counted it, as where virtual CPUs take turns: such
    /// a CPU finds its balancing not due yet. Else none does. A state of a machine.
    #[serde(skip)]
    pub ticks_by_chance: bool,
    /// Whether realtime threads that throttling stops run on as fair threads of nice 0 until it lets them go on. No kernel does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub realtime_demoted: bool,
    /// Whether a reserved thread that waits for a lock that lends has its holder run on its budget (bandwidth inheritance). No
    /// kernel does that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bandwidth_inheritance: bool,
    /// Time slice of `SCHED_RR`.
    pub round_robin_slice: Nanos,
    /// The fraction of each CPU that deadline tasks may reserve (`sched_rt_runtime / sched_rt_period`).
    pub deadline_cap: Bandwidth,
    /// Whether they are admitted however much is reserved, as where `sched_rt_runtime_us` is -1; `deadline_cap` is 1 then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deadline_unlimited: bool,
    /// What reservations that reclaim get.
    #[serde(default)]
    pub reclaiming: Reclaiming,
    /// What drives modelled disks.
    #[serde(default, skip_serializing_if = "DiskDriver::is_of_disk")]
    pub disk_driver: DiskDriver,
    /// Memory that programs and the page cache had when something was run on it; `None`: nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Where files of runs lie on modelled disks, each list of another workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FilePlaces>,
    /// Whether the threads are a session of their own that is scheduled as a group (autogroup).
    pub autogroup: bool,
    /// Its schedulers by their words, the most important first.
    #[serde(rename = "class_order")]
    pub schedulers: Vec<String>,
    /// Features of the fair class that are otherwise than when that kernel starts: `NO_RUN_TO_PARITY` ([`features`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// What the kernel's own work takes of the CPUs.
    #[serde(flatten)]
    pub overheads: Overheads,
    /// How timers expire; `None`: nothing is said of it, and no timer is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timers: Option<TimerRules>,
    /// What is reserved on it beside what is planned or run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherReservation>,
    /// What realtime threads of the workload take that is planned or run; none: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realtime: Option<RealtimeDemand>,
}

fn is_none_other(cpus: &u32) -> bool {
    *cpus == 0
}

fn charged() -> bool {
    true
}

fn is_charged(charged: &bool) -> bool {
    *charged
}

/// The order of a mainline kernel with this fair class.
fn schedulers(fair: &str) -> Vec<String> {
    ["deadline", "realtime", fair].map(str::to_owned).to_vec()
}

/// The number of CPUs up to which the kernel's scheduler settings grow with them.
const SCALED_CPUS: u32 = 8;

/// The factor for a number of CPUs, of which at most `most` count (`get_update_sysctl_factor`, kernel/sched/fair.c).
fn scale_of(cpus: u32, most: u32) -> u32 {
    1 + cpus.clamp(1, most).ilog2()
}

impl Platform {
    /// The scheduler that stands above reservations, or may have taken the place of the kernel's, where one does.
    pub fn above_reservations(&self) -> Option<&str> {
        if self.schedulers.iter().any(|word| word == "deadline") {
            return self.schedulers.first().map(String::as_str).filter(|word| *word != "deadline");
        }
        // Without its word it stands first, unless one of these has its threads: only those of the table are known not to.
        let reserved = PolicySpec::Deadline.word();
        let has_others =
            |word: &str| SchedulerRow::of(word).is_some_and(|row| !row.takes.contains(&reserved));
        self.schedulers.iter().map(String::as_str).find(|word| !has_others(word))
    }

    /// Whether timers wait for ticks.
    pub fn has_late_timers(&self) -> bool {
        self.timers.is_some_and(|timers| !timers.high_resolution)
    }

    /// A mainline 6.18 kernel at 250 Hz with this many CPUs and its defaults.
    ///
    /// The base slice is 0.70 ms times `1 + ilog2(min(cpus, 8))` (`kernel/sched/fair.c`, logarithmic scaling).
    pub fn linux_6_18(cpus: u32) -> Platform {
        let tick = Nanos::from_millis(4);
        Platform {
            name: "linux-6.18".to_owned(),
            cpus,
            cpu_specs: Vec::new(),
            root_domains: Vec::new(),
            topology: None,
            tick,
            tick_phase: None,
            enforcement: Enforcement::Tick(tick),
            base_slice: Nanos::from_micros(700) * i64::from(scale_of(cpus, SCALED_CPUS)),
            fair_server: Some(FairServer::DEFAULT),
            fair_servers: Vec::new(),
            fair_server_charged: true,
            ext_server: None,
            realtime_limit: None,
            realtime_period_left: None,
            ticks_by_chance: false,
            realtime_demoted: false,
            bandwidth_inheritance: false,
            round_robin_slice: Nanos::from_millis(100),
            deadline_cap: Bandwidth::new(95, 100).expect("constant"),
            deadline_unlimited: false,
            reclaiming: Reclaiming::ToCap,
            other_cpus: 0,
            disk_driver: DiskDriver::OfDisk,
            memory: None,
            files: Vec::new(),
            autogroup: true,
            schedulers: schedulers("fair"),
            features: Vec::new(),
            overheads: Overheads::NONE,
            timers: None,
            others: Vec::new(),
            realtime: None,
        }
    }

    /// A mainline 7.2 kernel at 250 Hz: budgets and slices of fair threads end on a timer (`HRTICK_DL`, `HRTICK`), and
    /// realtime threads have no limit, so reservations may have each CPU up to its fair server.
    pub fn linux_7_2(cpus: u32) -> Platform {
        Platform {
            name: "linux-7.2".to_owned(),
            enforcement: Enforcement::Exact,
            deadline_cap: Bandwidth::ONE,
            schedulers: schedulers("eevdf-7.2"),
            ..Platform::linux_6_18(cpus)
        }
    }

    /// A mainline 6.12 kernel at 250 Hz: as 6.18, except what reservations reclaim and are admitted, and how long a fair thread is
    /// protected.
    pub fn linux_6_12(cpus: u32) -> Platform {
        Platform {
            name: "linux-6.12".to_owned(),
            fair_server_charged: false,
            reclaiming: Reclaiming::ToCapServersTwice,
            schedulers: schedulers("eevdf-6.12"),
            ..Platform::linux_6_18(cpus)
        }
    }

    /// A mainline 6.1 kernel at 250 Hz: realtime threads are throttled, and reservations reclaim less.
    ///
    /// Its fair class is CFS: the base slice is its smallest granularity, 0.75 ms for each doubling of CPUs
    /// (`kernel/sched/fair.c`).
    pub fn linux_6_1(cpus: u32) -> Platform {
        let known = Platform::linux_6_18(cpus);
        let limit = RealtimeLimit { runtime: Nanos::from_millis(950), period: Nanos::from_millis(1000) };
        Platform {
            name: "linux-6.1".to_owned(),
            base_slice: known.base_slice.mul_ratio(75, 70),
            fair_server: None,
            realtime_limit: Some(limit),
            reclaiming: Reclaiming::BelowCap,
            schedulers: schedulers("cfs-6.1"),
            ..known
        }
    }

    /// A mainline 6.6 kernel at 250 Hz: between 6.1 and 6.12, with the throttling of the one and EEVDF as it came in, without
    /// `DELAY_DEQUEUE`, `PREEMPT_SHORT` and slices that threads ask for. No kernel of the lab has this fair class.
    pub fn linux_6_6(cpus: u32) -> Platform {
        Platform {
            name: "linux-6.6".to_owned(),
            reclaiming: Reclaiming::ToCap,
            schedulers: schedulers("eevdf-6.6"),
            ..Platform::linux_6_1(cpus)
        }
    }

    /// A mainline 2.6.23 kernel at 250 Hz: CFS as it came in, a smallest granularity of 2 ms for each doubling of CPUs, and realtime threads without a limit. It has
    /// no reservations, control groups and fair server. Realtime threads are pushed and pulled as later kernels do.
    pub fn linux_2_6_23(cpus: u32) -> Platform {
        Platform {
            name: "linux-2.6.23".to_owned(),
            base_slice: Nanos::from_millis(2) * i64::from(scale_of(cpus, u32::MAX)),
            realtime_limit: None,
            autogroup: false,
            schedulers: schedulers("cfs-2.6.23"),
            ..Platform::linux_6_1(cpus)
        }
    }

    /// The profile next to a kernel by its release, for what that kernel does not say of itself: the first CFS of 2.6.23, that of 6.1 up to 6.5,
    /// of EEVDF without fair servers up to 6.11, that protects whole slices up to 6.16, with slices that end on a timer from 7.1.
    pub fn of_release(release: &str, cpus: u32) -> Platform {
        let ext_server =
            (ExtServer::of_release(release) == ExtServer::SinceBoot).then_some(FairServer::DEFAULT);
        let known = match version_of(release) {
            Some(_) if numbers_of(release).take(3).eq([2, 6, 23]) => Platform::linux_2_6_23(cpus),
            Some(version) if version < (6, 6) => Platform::linux_6_1(cpus),
            Some(version) if version < (6, 12) => Platform::linux_6_6(cpus),
            Some(version) if version < (6, 17) => Platform::linux_6_12(cpus),
            Some(version) if version >= (7, 1) => Platform::linux_7_2(cpus),
            _ => Platform::linux_6_18(cpus),
        };
        Platform { ext_server, ..known }
    }

    /// The same machine with root domains of these many CPUs, numbered one after the other.
    pub fn partitioned(self, root_domains: &[u32]) -> Platform {
        let mut first = 0u32;
        let domain = |cpus: &u32| {
            let start = first;
            first = first.saturating_add(*cpus).min(CpuSet::LIMIT);
            (start..first).map(CpuId).collect()
        };
        self.with_root_domains(root_domains.iter().map(domain).collect())
    }

    /// The same machine with these root domains, which share no CPU, and no other CPUs.
    pub fn with_root_domains(self, root_domains: Vec<CpuSet>) -> Platform {
        let cpus = root_domains.iter().map(CpuSet::len).sum::<usize>();
        // Whose these are is not known of other CPUs.
        let fair_servers = if self.fair_servers.len() == cpus { self.fair_servers } else { Vec::new() };
        Platform { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), root_domains, fair_servers, ..self }
    }

    /// Each root domain as a machine of its own, with its CPUs.
    pub fn domains(&self) -> Vec<(CpuSet, Platform)> {
        let is_in = |other: &&OtherReservation, cpus: &CpuSet| {
            other.root_domain.is_none_or(|own| own.iter().any(|cpu| cpus.contains(cpu)))
        };
        let all = self.cpu_set();
        let alone = |cpus: &CpuSet| {
            let count = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
            let each = all.iter().zip(&self.fair_servers).filter(|(cpu, _)| cpus.contains(*cpu));
            let servers: Vec<FairServer> = each.map(|(_, server)| *server).collect();
            let others = self.others.iter().filter(|other| is_in(other, cpus)).cloned().collect();
            let specs = cpus.iter().filter_map(|cpu| self.cpu_specs.get(cpu.index()).cloned());
            let cpu_specs = specs.collect();
            let domain =
                Platform { cpus: count, cpu_specs, root_domains: Vec::new(), others, ..self.clone() };
            (*cpus, if servers.is_empty() { domain } else { domain.with_fair_servers(&servers) })
        };
        let one = [CpuSet::first(self.cpus)];
        let sets: &[CpuSet] = if self.root_domains.is_empty() { &one } else { &self.root_domains };
        sets.iter().map(alone).collect()
    }

    /// Why its CPUs cannot share things as its topology says, and what to change.
    pub fn topology_objection(&self) -> Option<String> {
        let topology = self.topology?;
        if self.root_domains.len() > 1 {
            return Some(
                "several root domains, whose CPUs may share in different ways, have no topology: leave the topology out, or say `cpus=N`"
                    .to_owned(),
            );
        }
        topology.check(self.cpus).err()
    }

    /// Whether a CPU is other than the first one.
    pub fn has_unlike_cpus(&self) -> bool {
        self.cpu_specs.iter().any(|spec| *spec != self.cpu_specs[0])
    }

    /// Sets what limits realtime and deadline threads as `sched_rt_runtime_us` and `sched_rt_period_us` do; `None`: -1, neither has a
    /// limit. The cap of reservations follows the same two numbers (`init_dl_bw` in `kernel/sched/deadline.c`).
    pub fn with_realtime_limit(self, limit: Option<RealtimeLimit>) -> Platform {
        let cap = limit.and_then(|limit| Bandwidth::of(limit.runtime, limit.period));
        Platform {
            realtime_limit: limit,
            deadline_cap: cap.unwrap_or(Bandwidth::ONE),
            deadline_unlimited: limit.is_none(),
            ..self
        }
    }

    /// What admission may book on each CPU, its servers included, in kernel units; `None`: it does not count.
    pub fn admitted_per_cpu(&self) -> Option<u64> {
        (!self.deadline_unlimited).then(|| self.deadline_cap.to_kernel())
    }

    /// What tells one machine from another in the result of a run: kernel, CPUs, tick, base slice, what limits realtime and
    /// deadline threads.
    pub fn in_words(&self) -> String {
        let cpus = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
        let mut parts = vec![self.name.clone(), cpus];
        if self.root_domains.len() > 1 {
            let sets: Vec<String> = self.root_domains.iter().map(ToString::to_string).collect();
            parts.push(format!("root domains {}", sets.join(" and ")));
        }
        if self.has_unlike_cpus() {
            parts.push("unlike CPUs".to_owned());
        }
        parts.extend(self.topology.map(|topology| topology.to_string()));
        parts.push(format!("tick {}", self.tick.to_exact_string()));
        if self.enforcement == Enforcement::Exact {
            parts.push("budgets end on a timer".to_owned());
        }
        parts.push(format!("base slice {}", self.base_slice.to_exact_string()));
        if self.realtime_limit.is_some() {
            let to = if self.realtime_demoted { ", to fair" } else { "" };
            parts.push(format!("realtime throttling{to}"));
        } else if self.fair_server.is_none() {
            parts.push("no fair server".to_owned());
        }
        if !self.fair_servers.is_empty() {
            parts.push("unlike fair servers".to_owned());
        }
        if self.deadline_unlimited {
            parts.push("no limit of reservations".to_owned());
        } else if ![95, 100].iter().any(|usual| Bandwidth::new(*usual, 100) == Some(self.deadline_cap)) {
            parts.push(format!("reservations up to {}", self.deadline_cap));
        }
        parts.extend(self.booked_for_ext().map(|_| "an ext server".to_owned()));
        if self.bandwidth_inheritance {
            parts.push("bandwidth inheritance".to_owned());
        }
        if self.fair_version().is_some() && !self.is_fair_class_validated() {
            parts.push("fair class unvalidated".to_owned());
        }
        if !self.overheads.are_none() {
            parts.push(format!("overheads {}", self.overheads));
        }
        parts.join(", ")
    }

    /// The platform of this name in [`PROFILES`], with this many CPUs.
    pub fn named(name: &str, cpus: u32) -> Option<Platform> {
        PROFILES.iter().find(|(known, _)| *known == name).map(|(_, of)| of(cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_reclaims_by_its_own_rule() {
        for (release, rule) in [
            ("6.1.0-50-amd64", Reclaiming::BelowCap),
            ("6.4.16", Reclaiming::BelowCap),
            ("6.5", Reclaiming::ToCap),
            ("6.12.107+deb13-cloud-amd64", Reclaiming::ToCapServersTwice),
            ("6.18.44-fc-v669", Reclaiming::ToCap),
            ("7.2.13+deb14-cloud-amd64", Reclaiming::ToCap),
            ("", Reclaiming::ToCap),
        ] {
            assert_eq!(Reclaiming::of_release(release), rule, "{release}");
        }
        for (name, of) in PROFILES {
            let release = &name["linux-".len()..];
            assert_eq!(of(1).reclaiming, Reclaiming::of_release(release), "{name}");
            assert_eq!(Platform::of_release(release, 1), of(1), "{name}");
        }
    }

    /// A scheduler that is not known may have the threads of the kernel's where that is not named.
    #[test]
    fn what_is_not_known_stands_above_reservations() {
        let above = |words: &str| {
            let schedulers = words.split('+').map(str::to_owned).collect();
            let platform = Platform { schedulers, ..Platform::linux_6_18(2) };
            platform.above_reservations().map(str::to_owned)
        };
        for words in ["deadline+realtime+fair", "deadline+other", "realtime+cfs-6.1", "high+edf+muqss"] {
            assert_eq!(above(words), None, "{words}");
        }
        for (words, found) in
            [("realtime+deadline+fair", "realtime"), ("other+fair", "other"), ("realtime+other", "other")]
        {
            assert_eq!(above(words).as_deref(), Some(found), "{words}");
        }
    }

    /// What is not said of a CPU is not written, and is read as it was before CPUs could differ.
    #[test]
    fn cpus_are_written_where_they_differ() {
        let alike = Platform::linux_6_18(2);
        let text = serde_json::to_string(&alike).unwrap();
        assert!(!text.contains("cpu_specs"), "{text}");
        let little = CpuSpec { capacity: 512, frequency_domain: 1, idle_states: Vec::new() };
        let mut unlike = Platform { cpu_specs: vec![CpuSpec::default(), little.clone()], ..alike.clone() };
        let text = serde_json::to_string(&unlike).unwrap();
        assert_eq!(serde_json::from_str::<Platform>(&text).unwrap(), unlike);
        assert!(
            unlike.has_unlike_cpus() && unlike.in_words().contains("unlike CPUs"),
            "{}",
            unlike.in_words()
        );
        assert!(!alike.has_unlike_cpus());
        assert_eq!(serde_json::from_str::<CpuSpec>("{}").unwrap(), CpuSpec::default());
        unlike.root_domains = vec![CpuSet::single(CpuId(0)), CpuSet::single(CpuId(1))];
        let specs: Vec<Vec<CpuSpec>> =
            unlike.domains().into_iter().map(|(_, alone)| alone.cpu_specs).collect();
        assert_eq!(specs, [vec![CpuSpec::default()], vec![little]]);
    }
}
