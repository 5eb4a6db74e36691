//! [`RootDomains`]: the sets of CPUs in each of which the kernel admits and schedules SCHED_DEADLINE threads as one pool.
//!
//! The rules are those of `generate_sched_domains` (`kernel/cgroup/cpuset.c`, `cpuset-v1.c`) and of
//! `partition_sched_domains` (`kernel/sched/topology.c`):
//!
//! - Version 1 of the cpuset controller: while the topmost cpuset has `cpuset.sched_load_balance`, all CPUs are one domain.
//!   Without it, every topmost cpuset below that has the switch on is one, and those that share a CPU are one together.
//! - Version 2: what every control group whose `cpuset.cpus.partition` reads `root` has for itself (`cpuset.cpus.effective`)
//!   is one, and so is what the root keeps. An `isolated` partition is none, an `invalid` one is none of its own.
//! - CPUs taken out at boot (`isolcpus=`) are in none of these.
//! - Every CPU that is in none, offline ones included, is in the kernel's *default* root domain together with the others of
//!   its kind.
//!
//! A thread gets the class in the domain of the CPU it last ran on, and only if its affinity has every CPU of it
//! (`__sched_setscheduler` in `kernel/sched/syscalls.c`). Nothing here looks at the kernel's version: what cannot be
//! read is said.

use std::path::{Path, PathBuf};

use serde::Serialize;
use surety_units::{CpuId, CpuSet};

use crate::kernel::Kernel;

/// The root domains of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RootDomains {
    /// The domains over which the scheduler balances, by their lowest CPU. They share no CPU; offline CPUs are left out.
    pub balanced: Vec<CpuSet>,
    /// Online CPUs of the default root domain: isolated at boot, in an isolated partition, or in no balanced cpuset.
    pub isolated: CpuSet,
    /// Offline CPUs that are in the default root domain too. While there are any, a thread that was ever bound to CPUs gets no
    /// reservation on `isolated`: its affinity cannot have them all.
    pub isolated_offline: CpuSet,
    /// Why there may be more domains than these, in words; `None` where everything could be read.
    pub unseen: Option<String>,
}

/// Where the controller's files are.
enum Hierarchy {
    V1(PathBuf),
    V2(PathBuf),
}

impl RootDomains {
    /// Reads them; where nothing can be read, all online CPUs are one.
    pub fn read(kernel: &dyn Kernel) -> RootDomains {
        let reader = Reader { kernel };
        let cpus = |file: &str| reader.cpus(&Path::new("/sys/devices/system/cpu").join(file));
        let online = cpus("online").unwrap_or_else(|| CpuSet::first(1));
        let possible = cpus("possible").unwrap_or(online);
        let at_boot = cpus("isolated").unwrap_or_default();
        let usable = online.without(&at_boot);
        let (mut balanced, mut unseen) = reader.of_cpusets(usable);
        if unseen.is_some()
            && let Some(spans) = reader.of_schedstat()
        {
            balanced = spans;
            unseen = None;
        }
        balanced.iter_mut().for_each(|cpus| *cpus = cpus.intersection(&usable));
        balanced.retain(|cpus| !cpus.is_empty());
        balanced.sort_by_key(CpuSet::lowest);
        let all = balanced.iter().fold(CpuSet::EMPTY, |all, cpus| all.union(cpus));
        let isolated = online.without(&all);
        let offline = possible.without(&online);
        RootDomains {
            balanced,
            isolated,
            isolated_offline: if isolated.is_empty() { CpuSet::EMPTY } else { offline },
            unseen,
        }
    }

    /// One domain of these CPUs and nothing else.
    pub fn one(cpus: CpuSet) -> RootDomains {
        RootDomains { balanced: vec![cpus], ..RootDomains::default() }
    }

    /// Where reservations can be put, by their lowest CPU: the balanced domains; the default one only where no other is.
    ///
    /// Whoever isolates CPUs keeps them for threads that are bound there, so others are not put beside these.
    pub fn for_reservations(&self) -> Vec<CpuSet> {
        match self.balanced.is_empty() {
            false => self.balanced.clone(),
            true => vec![self.isolated],
        }
    }

    /// Every domain in which the kernel admits threads bound to its online CPUs.
    pub fn admitting(&self) -> Vec<CpuSet> {
        let isolated =
            (!self.isolated.is_empty() && self.isolated_offline.is_empty()).then_some(self.isolated);
        self.balanced.iter().copied().chain(isolated).collect()
    }
}

/// The topmost directory of version 1 of the cpuset controller, where it is in sight.
pub fn topmost_cpuset(kernel: &dyn Kernel) -> Option<PathBuf> {
    let reader = Reader { kernel };
    match reader.hierarchy(&reader.line(Path::new("/proc/self/mounts"))?)? {
        Hierarchy::V1(root) if kernel.exists(&root.join("release_agent")) => Some(root),
        _ => None,
    }
}

/// Where a controller of version 1 of control groups is mounted, from the lines of `/proc/self/mounts`.
pub(crate) fn hierarchy_of(mounts: &str, controller: &str) -> Option<PathBuf> {
    mounted(mounts, "cgroup")
        .find(|(_, options)| options.split(',').any(|o| o == controller))
        .map(|(root, _)| root)
}

/// Mounts of a kind of file system, each with its options.
fn mounted<'m>(mounts: &'m str, wanted: &'m str) -> impl Iterator<Item = (PathBuf, &'m str)> {
    mounts.lines().filter_map(move |line| {
        let mut fields = line.split(' ').skip(1);
        let (target, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == wanted).then(|| (PathBuf::from(target.replace("\\040", " ")), options))
    })
}

struct Reader<'k> {
    kernel: &'k dyn Kernel,
}

impl Reader<'_> {
    fn line(&self, path: &Path) -> Option<String> {
        Some(self.kernel.read_text(path).ok()?.trim().to_owned())
    }

    fn cpus(&self, path: &Path) -> Option<CpuSet> {
        self.line(path)?.parse().ok()
    }

    /// The balanced domains as the cpusets make them, of these CPUs where there are no cpusets; and what hides some.
    fn of_cpusets(&self, usable: CpuSet) -> (Vec<CpuSet>, Option<String>) {
        let one = || vec![usable];
        let mounts = self.line(Path::new("/proc/self/mounts")).unwrap_or_default();
        let Some(hierarchy) = self.hierarchy(&mounts) else {
            // Control groups that are mounted nowhere in sight still partition the machine.
            let groups = self.line(Path::new("/proc/cgroups")).unwrap_or_default();
            let hidden = cpusets_of(&groups).is_some_and(|count| count > 1);
            let why = "there are cpusets, and none is mounted here".to_owned();
            return (one(), hidden.then_some(why));
        };
        match hierarchy {
            // Only the topmost directory of the hierarchy has this file.
            Hierarchy::V1(root) if !self.kernel.exists(&root.join("release_agent")) => {
                (one(), Some(below(&root)))
            }
            Hierarchy::V1(root) => match self.is_balanced(&root) {
                None => (one(), Some(format!("{}: the switch of balancing cannot be read", root.display()))),
                Some(true) => (one(), None),
                Some(false) => {
                    let mut found = Vec::new();
                    self.balanced_below(&root, &usable, &mut found);
                    (joined(found), None)
                }
            },
            Hierarchy::V2(root) => {
                let mut found = vec![self.cpus(&root.join("cpuset.cpus.effective")).unwrap_or(usable)];
                self.partitions_below(&root, &mut found);
                // Every directory but the topmost has this file.
                let why = self.kernel.exists(&root.join("cgroup.type")).then(|| below(&root));
                (joined(found), why)
            }
        }
    }

    /// The hierarchy that has the cpuset controller, from the lines of `/proc/self/mounts`.
    fn hierarchy(&self, mounts: &str) -> Option<Hierarchy> {
        if let Some(root) = hierarchy_of(mounts, "cpuset") {
            return Some(Hierarchy::V1(root));
        }
        let has_cpusets = |root: &Path| {
            let controllers = self.line(&root.join("cgroup.controllers")).unwrap_or_default();
            controllers.split(' ').any(|controller| controller == "cpuset")
        };
        let (root, _) = mounted(mounts, "cgroup2").find(|(root, _)| has_cpusets(root))?;
        Some(Hierarchy::V2(root))
    }

    /// The directories below one that have a file of this name.
    fn children(&self, dir: &Path, file: &str) -> Vec<PathBuf> {
        let names = self.kernel.list_dir(dir).unwrap_or_default();
        names
            .iter()
            .map(|name| dir.join(name))
            .filter(|child| self.kernel.exists(&child.join(file)))
            .collect()
    }

    /// A file of a cpuset of version 1, which some mounts name without its prefix.
    fn of_cpuset(&self, dir: &Path, name: &str) -> Option<String> {
        self.line(&dir.join(format!("cpuset.{name}"))).or_else(|| self.line(&dir.join(name)))
    }

    fn is_balanced(&self, dir: &Path) -> Option<bool> {
        Some(self.of_cpuset(dir, "sched_load_balance")? == "1")
    }

    /// Version 1: the topmost cpusets that are balanced. One that is not, or that has only CPUs isolated at boot, is looked into.
    fn balanced_below(&self, dir: &Path, usable: &CpuSet, found: &mut Vec<CpuSet>) {
        for child in self.children(dir, "tasks") {
            let set = |name: &str| self.of_cpuset(&child, name).and_then(|text| text.parse::<CpuSet>().ok());
            let cpus = set("cpus").unwrap_or_default();
            if cpus.is_empty() {
                continue;
            }
            if self.is_balanced(&child) == Some(true) && !cpus.intersection(usable).is_empty() {
                found.push(set("effective_cpus").unwrap_or(cpus));
            } else {
                self.balanced_below(&child, usable, found);
            }
        }
    }

    /// Version 2: what every valid partition that is balanced has for itself.
    fn partitions_below(&self, dir: &Path, found: &mut Vec<CpuSet>) {
        for child in self.children(dir, "cpuset.cpus.partition") {
            if self.line(&child.join("cpuset.cpus.partition")).as_deref() == Some("root") {
                found.extend(self.cpus(&child.join("cpuset.cpus.effective")));
            }
            self.partitions_below(&child, found);
        }
    }

    /// The widest scheduling domain of each CPU, which spans its root domain, where the kernel keeps statistics. CPUs alone
    /// in a domain have none, and are told apart from isolated ones by nothing: they are left out.
    fn of_schedstat(&self) -> Option<Vec<CpuSet>> {
        let text = self.line(Path::new("/proc/schedstat"))?;
        let mut widest: Vec<CpuSet> = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            match words.next()? {
                word if word.starts_with("cpu") => widest.push(CpuSet::EMPTY),
                // The mask, before which newer kernels write the name of the level.
                word if word.starts_with("domain") => {
                    let cpus = words.take(2).find_map(of_mask)?;
                    let of_cpu = widest.last_mut()?;
                    if cpus.len() > of_cpu.len() {
                        *of_cpu = cpus;
                    }
                }
                _ => {}
            }
        }
        widest.retain(|cpus| !cpus.is_empty());
        (!widest.is_empty()).then(|| joined(widest))
    }
}

fn below(root: &Path) -> String {
    format!("{} is not the topmost control group: partitions beside it are not in sight", root.display())
}

/// How many cpusets there are, from the lines of `/proc/cgroups`: name, hierarchy, groups, whether enabled.
fn cpusets_of(groups: &str) -> Option<u64> {
    let line = groups.lines().find(|line| line.starts_with("cpuset"))?;
    line.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// A mask as `0000000f,ffffffff`: words of 32 bits, the most significant first.
fn of_mask(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::EMPTY;
    for (word, digits) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        let first = u32::try_from(word).ok()?.checked_mul(32)?;
        (0..32).filter(|bit| bits & (1 << bit) != 0).for_each(|bit| {
            cpus.insert(CpuId(first + bit));
        });
    }
    Some(cpus)
}

/// Sets that share a CPU, directly or through others, as one.
fn joined(sets: Vec<CpuSet>) -> Vec<CpuSet> {
    let mut apart: Vec<CpuSet> = Vec::new();
    for mut set in sets {
        apart.retain(|other| {
            let shares = !other.intersection(&set).is_empty();
            if shares {
                set = set.union(other);
            }
            !shares
        });
        apart.push(set);
    }
    apart
}

#[cfg(test)]
mod tests;
