//! [`MachineFacts`]: what this machine is and allows, read once.
//!
//! Every fact that may be absent is an `Option`: no file is required. A Record carries the facts so that a
//! measurement can be judged later; `doctor` turns them into advice.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use surety_units::{Bytes, CpuId, CpuSet, Nanos, Tid};

use crate::clock;
use crate::command::of_status;
use crate::kernel::Kernel;
use crate::root_domains::{RootDomains, hierarchy_of};
use crate::sched::{self, SchedPolicy};
use crate::servers::DeadlineServers;
use crate::thread::CAP_IPC_LOCK;
use crate::tracefs::TracefsAccess;
use debug::SchedulerDebug;

mod budget;
mod debug;
mod timing;

pub use budget::BudgetEnd;
pub use timing::{IdleState, TimingFacts};

/// Memory that the kernel can give without swapping (`MemAvailable` of `/proc/meminfo`); `None` where it does not say.
pub fn available_memory(kernel: &dyn Kernel) -> Option<Bytes> {
    let text = kernel.read_text(Path::new("/proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(Bytes(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10))
}

/// What the machine is and what this process may do on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineFacts {
    /// The kernel's release, such as `6.18.44`.
    pub kernel_release: Option<String>,
    /// The machine's architecture as the kernel names it.
    pub architecture: &'static str,
    pub cpus: CpuFacts,
    /// Limits and switches of the scheduler.
    pub scheduler: SchedulerFacts,
    /// What makes wake-ups late.
    pub timing: TimingFacts,
    /// What this process may do.
    pub privileges: Privileges,
    /// Control groups.
    pub cgroups: CgroupFacts,
    /// How tracing files are reached, or why they are not.
    pub tracefs: Result<TracefsAccess, String>,
    /// `kernel.perf_event_paranoid`; an ordinary user needs 2 or less.
    pub perf_event_paranoid: Option<i64>,
    /// What the kernel keeps time by, such as `tsc`.
    pub clock_source: Option<String>,
    /// Runnable threads on average over 1, 5 and 15 minutes, as the kernel prints them.
    pub load_average: Option<String>,
}

/// The machine's CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuFacts {
    /// Running.
    pub online: Option<CpuSet>,
    /// Could ever be there.
    pub possible: Option<CpuSet>,
    /// Taken out of load balancing at boot.
    pub isolated: Option<CpuSet>,
    /// How cpusets part them for deadline threads.
    pub root_domains: RootDomains,
    /// Those this thread may use.
    pub own_affinity: Option<CpuSet>,
    /// The processor's name.
    pub model: Option<String>,
    /// Whether several CPUs share a core now.
    pub simultaneous_threads: Option<bool>,
    /// Capacity of each CPU of 1024, where the kernel says it.
    pub capacity: BTreeMap<CpuId, u64>,
    /// Frequency governor of the CPUs, several where they differ; `None` where the frequency is not the kernel's to choose.
    pub frequency_governor: Option<String>,
    /// The driver that chooses idle states.
    pub idle_driver: Option<String>,
    /// Whether a hypervisor announces itself: gaps may then come from outside.
    pub virtual_machine: bool,
    /// CPU time the hypervisor gave to others since boot, as far as it tells.
    pub stolen: Option<Nanos>,
}

/// Limits and switches of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchedulerFacts {
    /// The tick: budgets are enforced on it where no high-resolution timer does.
    pub tick: Nanos,
    /// Real-time and deadline threads get this in each [`SchedulerFacts::rt_period`]; negative: no limit.
    pub rt_runtime: Option<Nanos>,
    /// Period of that limit.
    pub rt_period: Option<Nanos>,
    /// Whether it stops realtime threads, and is not for admission alone; `None`: not known.
    pub rt_throttles: Option<bool>,
    /// Shortest period a SCHED_DEADLINE reservation may have.
    pub deadline_period_min: Option<Nanos>,
    /// Longest period a SCHED_DEADLINE reservation may have.
    pub deadline_period_max: Option<Nanos>,
    /// Its deadline servers.
    pub servers: DeadlineServers,
    /// How budgets of reservations end.
    pub budget_end: BudgetEnd,
    /// Whether shares are first divided between sessions.
    pub autogroup: Option<bool>,
    /// This process's autogroup, such as `/autogroup-6 nice 0`.
    pub own_autogroup: Option<String>,
    /// This process's session.
    pub own_session: Option<Tid>,
    /// The slice of a fair thread that asked for none, as this thread has it.
    pub base_slice: Option<Nanos>,
    /// Preemption model from the kernel's version line, with what debugfs says of one that can be changed: `PREEMPT_DYNAMIC`, `PREEMPT_DYNAMIC full`. `None`: the line
    /// names none, as where a thread in the kernel is preempted only where it says so.
    pub preemption: Option<String>,
    /// Whether a scheduler loaded as BPF is enabled now: a kernel that can load one is not one that has.
    pub sched_ext: bool,
}

/// What this process may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Privileges {
    /// Effective user; 0 is root.
    pub user: u32,
    /// May set real-time and deadline policies (CAP_SYS_NICE).
    pub sys_nice: bool,
    /// May mount and administer (CAP_SYS_ADMIN).
    pub sys_admin: bool,
    /// May lock memory without limit (CAP_IPC_LOCK).
    pub ipc_lock: bool,
    /// May observe the whole system's performance events (CAP_PERFMON).
    pub perfmon: bool,
    /// Highest real-time priority without CAP_SYS_NICE (RLIMIT_RTPRIO).
    pub realtime_priority_limit: u64,
    /// Bytes that may be locked without CAP_IPC_LOCK (RLIMIT_MEMLOCK); `None` is no limit.
    pub locked_memory_limit: Option<u64>,
}

/// Control groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupFacts {
    /// The versions that are mounted: `v1`, `v2`, or both (`hybrid`).
    pub version: Option<&'static str>,
    /// This process's cpuset, as a path in the hierarchy that has the cpuset controller.
    pub own_cpuset: Option<String>,
    /// Controllers of version 2 at its root.
    pub controllers: Vec<String>,
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_PERFMON: u32 = 38;

/// What the version line says of a kernel whose preemption can be changed.
const DYNAMIC: &str = "PREEMPT_DYNAMIC";

impl SchedulerFacts {
    /// Whether a thread may be preempted in the kernel anywhere but where it says so; `None`: it can be changed, and debugfs is out of reach.
    pub fn preempts_kernel(&self) -> Option<bool> {
        let Some(model) = self.preemption.as_deref() else { return Some(false) };
        match model.strip_prefix(DYNAMIC).map(str::trim) {
            None => Some(true),
            Some("") => None,
            Some(now) => Some(!matches!(now, "none" | "voluntary")),
        }
    }

    /// Whether threads of this process share CPUs as one group: autogroup is on, and their session has a group of its own. The first one,
    /// `/autogroup-0`, is the root (`kernel/sched/autogroup.c`): programs that no session was made for are in it.
    pub fn divides_by_session(&self) -> bool {
        let own = self.own_autogroup.as_deref();
        self.autogroup == Some(true) && own.is_some_and(|own| !own.starts_with("/autogroup-0 "))
    }
}

impl MachineFacts {
    /// Reads everything. Takes a few milliseconds. The tick, the slice and the limits are always those of the
    /// calling thread on the real machine; tests of decisions make their facts by hand.
    ///
    /// Reading the limits of real-time threads mends leaked bandwidth on kernels since 6.15: whoever looks for a
    /// leak calls [`crate::deadline::account`] first.
    pub fn read(kernel: &dyn Kernel) -> MachineFacts {
        let ask = Ask { kernel };
        let kernel_release = ask.line(sched::RELEASE);
        MachineFacts {
            architecture: std::env::consts::ARCH,
            cpus: ask.cpus(),
            scheduler: ask.scheduler(),
            timing: ask.timing(),
            privileges: ask.privileges(),
            cgroups: ask.cgroups(),
            tracefs: match kernel.tracefs_root() {
                Ok(root) if root.starts_with("/sys") => Ok(TracefsAccess::Mounted),
                Ok(_) => Ok(TracefsAccess::Detached),
                Err(error) => Err(error.to_string()),
            },
            perf_event_paranoid: ask.number("/proc/sys/kernel/perf_event_paranoid"),
            clock_source: ask.line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            load_average: ask
                .line("/proc/loadavg")
                .map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")),
            kernel_release,
        }
    }

    /// The same with what has to be tried: how budgets end ([`BudgetEnd::tried`]). For a machine whose reservations count.
    pub fn tried(kernel: &dyn Kernel) -> MachineFacts {
        let mut facts = MachineFacts::read(kernel);
        facts.scheduler.budget_end = BudgetEnd::tried();
        facts
    }
}

/// Reads single facts; what is not there is `None`.
struct Ask<'k> {
    kernel: &'k dyn Kernel,
}

impl Ask<'_> {
    fn text(&self, path: &str) -> Option<String> {
        self.kernel.read_text(Path::new(path)).ok()
    }

    fn line(&self, path: &str) -> Option<String> {
        self.text(path).map(|text| text.trim().to_owned()).filter(|line| !line.is_empty())
    }

    fn number(&self, path: &str) -> Option<i64> {
        self.line(path)?.parse().ok()
    }

    fn micros(&self, path: &str) -> Option<Nanos> {
        self.number(path).and_then(|us| Nanos::MICROSECOND.checked_mul(us))
    }

    fn cpu_list(&self, path: &str) -> Option<CpuSet> {
        self.text(path)?.trim().parse().ok()
    }

    fn cpus(&self) -> CpuFacts {
        let at = |file: &str| format!("/sys/devices/system/cpu/{file}");
        let online = self.cpu_list(&at("online"));
        let processors = self.text("/proc/cpuinfo").unwrap_or_default();
        let capacity = online.iter().flat_map(|set| set.iter()).filter_map(|cpu| {
            let value = self.number(&at(&format!("cpu{cpu}/cpu_capacity")))?;
            Some((cpu, u64::try_from(value).ok()?))
        });
        CpuFacts {
            possible: self.cpu_list(&at("possible")),
            isolated: self.cpu_list(&at("isolated")),
            root_domains: RootDomains::read(self.kernel),
            own_affinity: self.kernel.affinity(Tid(0)).ok(),
            model: of_cpuinfo(&processors, "model name").map(str::to_owned),
            simultaneous_threads: self.number(&at("smt/active")).map(|active| active != 0),
            capacity: capacity.collect(),
            frequency_governor: self.governors(online.unwrap_or_default()),
            idle_driver: self.line(&at("cpuidle/current_driver")),
            virtual_machine: of_cpuinfo(&processors, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            stolen: self.text("/proc/stat").and_then(|text| stolen_of_stat(&text)),
            online,
        }
    }

    /// Every governor in use, `powersave, performance`.
    fn governors(&self, cpus: CpuSet) -> Option<String> {
        let mut seen: Vec<String> = Vec::new();
        for cpu in cpus.iter() {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
            seen.extend(self.line(&path).filter(|governor| !seen.contains(governor)));
        }
        (!seen.is_empty()).then(|| seen.join(", "))
    }

    fn scheduler(&self) -> SchedulerFacts {
        let sysctl = |name: &str| format!("/proc/sys/kernel/{name}");
        let own = |field: usize| -> Option<i32> {
            let stat = self.text("/proc/self/stat")?;
            stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(field - 3)?.parse().ok()
        };
        let sched_ext = self.line("/sys/kernel/sched_ext/state").as_deref() == Some("enabled");
        let SchedulerDebug { servers, throttles, preempts } = SchedulerDebug::read();
        let base_slice = match sched::read_attr(Tid(0)).map(|attr| attr.policy) {
            Ok(SchedPolicy::Other { slice, .. }) => slice,
            _ => None,
        };
        SchedulerFacts {
            tick: clock::tick_length(),
            rt_runtime: self.micros(&sysctl("sched_rt_runtime_us")),
            rt_period: self.micros(&sysctl("sched_rt_period_us")),
            rt_throttles: throttles.or_else(|| self.has_limits_of_groups()),
            deadline_period_min: self.micros(&sysctl("sched_deadline_period_min_us")),
            deadline_period_max: self.micros(&sysctl("sched_deadline_period_max_us")),
            servers: servers.unwrap_or_else(DeadlineServers::assumed),
            budget_end: BudgetEnd::untried(),
            autogroup: self.number(&sysctl("sched_autogroup_enabled")).map(|on| on != 0),
            own_autogroup: self.line("/proc/self/autogroup"),
            own_session: own(6).map(Tid),
            base_slice,
            preemption: self.text("/proc/version").and_then(|version| {
                let word = version.split_ascii_whitespace().find(|word| word.starts_with("PREEMPT"))?;
                let now = preempts.filter(|_| word == DYNAMIC).map(|now| format!(" {now}"));
                Some(format!("{word}{}", now.unwrap_or_default()))
            }),
            sched_ext,
        }
    }

    /// Control groups of version 1 have a limit of their own (`cpu.rt_runtime_us`) where the kernel throttles.
    fn has_limits_of_groups(&self) -> Option<bool> {
        let root = hierarchy_of(&self.text("/proc/self/mounts")?, "cpu")?;
        Some(self.kernel.exists(&root.join("cpu.rt_runtime_us")))
    }

    fn privileges(&self) -> Privileges {
        let status = self.text("/proc/self/status").unwrap_or_default();
        let effective = of_status(&status, "CapEff:");
        let may = |capability: u32| effective.0 & (1 << capability) != 0;
        Privileges {
            user: self.kernel.effective_user(),
            sys_nice: may(CAP_SYS_NICE),
            sys_admin: may(CAP_SYS_ADMIN),
            ipc_lock: may(CAP_IPC_LOCK),
            perfmon: may(CAP_PERFMON),
            realtime_priority_limit: limit(Resource::Rtprio).unwrap_or(u64::MAX),
            locked_memory_limit: limit(Resource::Memlock),
        }
    }

    fn cgroups(&self) -> CgroupFacts {
        let own = self.text("/proc/self/cgroup").unwrap_or_default();
        let mounts = self.text("/proc/self/mounts").unwrap_or_default();
        let mounted = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
        CgroupFacts {
            version: match (mounted("cgroup"), mounted("cgroup2")) {
                (true, true) => Some("hybrid"),
                (true, false) => Some("v1"),
                (false, true) => Some("v2"),
                (false, false) => None,
            },
            own_cpuset: cpuset_of_cgroups(&own).map(str::to_owned),
            controllers: self
                .line("/sys/fs/cgroup/cgroup.controllers")
                .map(|line| line.split(' ').map(str::to_owned).collect())
                .unwrap_or_default(),
        }
    }
}

/// A soft limit; `None` is no limit.
fn limit(resource: Resource) -> Option<u64> {
    getrlimit(resource).current
}

/// The first processor's value of a key in `/proc/cpuinfo`.
fn of_cpuinfo<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// Field 8 of the first line of `/proc/stat`, in ticks of 1/100 s (`USER_HZ`, fixed on every architecture here).
fn stolen_of_stat(stat: &str) -> Option<Nanos> {
    let ticks: i64 =
        stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Nanos::from_millis(10).checked_mul(ticks)
}

/// The path of the hierarchy with the cpuset controller: version 1's own, else version 2's.
fn cpuset_of_cgroups(text: &str) -> Option<&str> {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    lines()
        .find(|(controllers, _)| controllers.split(',').any(|c| c == "cpuset"))
        .or_else(|| lines().find(|(controllers, _)| controllers.is_empty()))
        .map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RealKernel, ScriptedKernel};

    #[test]
    fn this_machine_has_facts_and_they_are_the_kernels() {
        let facts = MachineFacts::read(&RealKernel::new());
        let json = serde_json::to_value(&facts).unwrap();
        eprintln!("{json:#}");
        let run = |program: &str, argument: &str| {
            let arguments = (!argument.is_empty()).then_some(argument);
            let output = std::process::Command::new(program).args(arguments).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        assert_eq!(facts.kernel_release.as_deref(), Some(run("uname", "-r").as_str()));
        assert_eq!(facts.architecture, run("uname", "-m"));
        let own = facts.cpus.own_affinity.unwrap();
        assert_eq!(own.len().to_string(), run("nproc", ""));
        assert!(own.is_subset(&facts.cpus.possible.unwrap()));
        // SAFETY: takes an integer; 0 is the caller.
        assert_eq!(facts.scheduler.own_session, Some(Tid(unsafe { libc::getsid(0) })));
        assert_eq!(facts.privileges.user.to_string(), run("id", "-u"));
    }

    #[test]
    fn the_first_session_is_no_group() {
        let mut scheduler = MachineFacts::read(&ScriptedKernel::new(2)).scheduler;
        for (autogroup, own, divides) in [
            (None, None, false),
            (Some(true), Some("/autogroup-0 nice 0"), false),
            (Some(true), Some("/autogroup-275 nice 0"), true),
            (Some(false), Some("/autogroup-275 nice 0"), false),
        ] {
            (scheduler.autogroup, scheduler.own_autogroup) = (autogroup, own.map(str::to_owned));
            assert_eq!(scheduler.divides_by_session(), divides, "{autogroup:?} {own:?}");
        }
    }

    #[test]
    fn nothing_is_required_to_be_there() {
        let facts = MachineFacts::read(&ScriptedKernel::new(2));
        assert_eq!(facts.cpus.online, Some(CpuSet::first(2)));
        assert_eq!(facts.cpus.root_domains, RootDomains::one(CpuSet::first(2)));
        assert_eq!((facts.kernel_release, facts.clock_source, facts.cgroups.version), (None, None, None));
        assert!(!facts.cpus.virtual_machine && !facts.privileges.sys_nice);
    }

    #[test]
    fn a_scheduler_that_could_be_loaded_is_not_one_that_is() {
        for (state, is_enabled) in [
            (None, false),
            (Some("disabled\n"), false),
            (Some("enabled\n"), true),
            (Some("enabling\n"), false),
        ] {
            let kernel = ScriptedKernel::new(1);
            kernel.add_dir("/sys/kernel/sched_ext");
            if let Some(text) = state {
                kernel.add_file("/sys/kernel/sched_ext/state", text);
            }
            assert_eq!(MachineFacts::read(&kernel).scheduler.sched_ext, is_enabled, "{state:?}");
        }
    }

    #[test]
    fn texts_of_the_kernel_are_read() {
        assert_eq!(stolen_of_stat("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n"), Some(Nanos::from_millis(80)));
        assert_eq!(cpuset_of_cgroups("3:cpuset:/a\n0::/b\n"), Some("/a"));
        assert_eq!(cpuset_of_cgroups("4:cpu,cpuacct:/c\n0::/b:x\n"), Some("/b:x"));
        assert_eq!(of_cpuinfo("model name\t: A: B\nflags\t\t: x hypervisor\n", "model name"), Some("A: B"));
    }
}
