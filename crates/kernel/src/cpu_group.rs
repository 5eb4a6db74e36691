//! Control groups of the `cpu` and `cpuset` controllers: where the caller may make them, and what is written into them.
//!
//! Version 1 has a hierarchy for each controller, whose groups take single threads (`tasks`): a group with CPUs of its own has a
//! directory in both, and a new cpuset has neither CPUs nor memory until they are written (`Documentation/admin-guide/cgroup-v1/cpusets.rst`).
//! Version 2 has one hierarchy: groups that divide the threads of one process are *threaded*, and their parent gives its children
//! the controllers (`Documentation/admin-guide/cgroup-v2.rst`). Groups are made in the caller's own group, so that its threads without a
//! group stand beside them.

use std::path::{Path, PathBuf};

use surety_units::{CpuSet, Nanos, Tid};

use crate::boot;
use crate::command::group::{self, Mount};
use crate::error::{KernelError, Operation};
use crate::kernel::Kernel;

/// The controller of weights and quotas, as `cgroup.controllers` lists it.
const CPU: &str = "cpu";

/// The controller of which CPUs a group has.
const CPUSET: &str = "cpuset";

const CPUS: &str = "cpuset.cpus";
const MEMORY: &str = "cpuset.mems";
/// The CPUs that threads of a cpuset of version 1 may use.
const V1_EFFECTIVE: &str = "cpuset.effective_cpus";

/// The file by which a group of version 2 gives its children controllers.
pub const GIVEN: &str = "cgroup.subtree_control";

/// The file that makes a group idle, since Linux 5.15.
pub const IDLE: &str = "cpu.idle";

/// Which interface the controller has here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// Where groups with the controller are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuHierarchy {
    pub version: Version,
    /// The group of this process, in which others are made.
    pub top: PathBuf,
    /// The same in the hierarchy of cpusets, of version 1 where one is mounted.
    pub cpusets: Option<PathBuf>,
}

/// What a group has. Times are whole microseconds where the kernel said them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// 1..=10000 as `cpu.weight`; of an idle group it does not count, and is not there.
    pub weight: Option<u32>,
    pub quota: Option<GroupQuota>,
    /// `cpu.idle`.
    pub idle: bool,
    /// `cpuset.cpus`; `None`: all of the group it is in.
    pub cpus: Option<CpuSet>,
}

/// A limit of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupQuota {
    /// In each period, of all CPUs together.
    pub runtime: Nanos,
    pub period: Nanos,
    pub burst: Nanos,
}

/// Mounts version 2, where no hierarchy has the controller: in the guest of a virtual machine, and is not undone.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN.
pub fn mount_where_there_is_none(kernel: &dyn Kernel) -> Result<(), KernelError> {
    match CpuHierarchy::find(kernel) {
        Some(_) => Ok(()),
        None => boot::mount("cgroup2", Path::new(group::PLACE)),
    }
}

impl CpuHierarchy {
    /// The hierarchy that has the controller, where it is mounted below `/sys/fs/cgroup`.
    pub fn find(kernel: &dyn Kernel) -> Option<CpuHierarchy> {
        let mounts = kernel.read_text(Path::new("/proc/mounts")).ok()?;
        let own = kernel.read_text(Path::new("/proc/self/cgroup")).ok()?;
        let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::parse).collect();
        if let Some(mount) = mounts.iter().find(|mount| mount.has(CPU)) {
            let top = mount.below(group::own_group(&own, CPU)?, kernel);
            let cpusets = mounts.iter().find(|mount| mount.has(CPUSET));
            let cpusets =
                cpusets.zip(group::own_group(&own, CPUSET)).map(|(mount, own)| mount.below(own, kernel));
            return Some(CpuHierarchy { version: Version::V1, top, cpusets });
        }
        let top = mounts.iter().find(|mount| mount.is_unified)?.below(group::own_group(&own, "")?, kernel);
        lists(kernel, &top.join("cgroup.controllers"), CPU).then_some(CpuHierarchy {
            version: Version::V2,
            top,
            cpusets: None,
        })
    }

    /// Whether groups are made in the topmost one, whose threads autogroup puts into groups of their sessions. Of version 1 it alone
    /// has a release agent, of version 2 it alone has no type.
    pub fn is_topmost(&self, kernel: &dyn Kernel) -> bool {
        match self.version {
            Version::V1 => kernel.exists(&self.top.join("release_agent")),
            Version::V2 => !kernel.exists(&self.top.join("cgroup.type")),
        }
    }

    /// Whether groups may have CPUs of their own here.
    pub fn has_cpusets(&self, kernel: &dyn Kernel) -> bool {
        match self.version {
            Version::V1 => self.cpusets.is_some(),
            Version::V2 => lists(kernel, &self.top.join("cgroup.controllers"), CPUSET),
        }
    }

    /// Gives a new cpuset of version 1 the memory of the one around it, and these CPUs as far as that one has them; all of them where
    /// none are given.
    ///
    /// # Errors
    /// EIO where what is around it cannot be read, EINVAL where none of the CPUs are in it.
    pub fn set_cpuset(
        &self,
        kernel: &dyn Kernel,
        cpuset: &Path,
        around: &Path,
        cpus: Option<CpuSet>,
    ) -> Result<(), KernelError> {
        let there =
            self.cpus_in(kernel, around, V1_EFFECTIVE)?.ok_or_else(|| unreadable(around, V1_EFFECTIVE))?;
        let cpus = cpus.map_or(there, |cpus| cpus.intersection(&there));
        if cpus.is_empty() {
            let file = cpuset.join(CPUS).display().to_string();
            return Err(KernelError::new(Operation::Write, file, libc::EINVAL));
        }
        let memory = kernel.read_text(&around.join(MEMORY))?;
        kernel.write_text(&cpuset.join(MEMORY), memory.trim())?;
        kernel.write_text(&cpuset.join(CPUS), &cpus.to_string())
    }

    /// What of this is written to [`GIVEN`] of a group before its children have the controller of weights, and that of CPUs where it is
    /// wanted; of version 1 every group gives it.
    pub fn to_give_below(&self, kernel: &dyn Kernel, group: &Path, cpus: bool) -> Vec<String> {
        let wanted = [CPU].into_iter().chain(cpus.then_some(CPUSET));
        let missing = wanted.filter(|controller| {
            self.version == Version::V2 && !lists(kernel, &group.join(GIVEN), controller)
        });
        missing.map(|controller| format!("+{controller}")).collect()
    }

    /// The CPUs that threads of a group may use, of version 1 those of its cpuset; `None` where groups have none of their own.
    ///
    /// # Errors
    /// EIO for a text that is no list of CPUs.
    pub fn effective_cpus(&self, kernel: &dyn Kernel, group: &Path) -> Result<Option<CpuSet>, KernelError> {
        let file = if self.version == Version::V1 { V1_EFFECTIVE } else { "cpuset.cpus.effective" };
        self.cpus_in(kernel, group, file)
    }

    fn cpus_in(&self, kernel: &dyn Kernel, group: &Path, file: &str) -> Result<Option<CpuSet>, KernelError> {
        match kernel.read_text(&group.join(file)) {
            Err(error) if error.errno == libc::ENOENT => Ok(None),
            Err(error) => Err(error),
            Ok(text) if text.trim().is_empty() => Ok(None),
            Ok(text) => text.trim().parse().map(Some).map_err(|_| unreadable(group, file)),
        }
    }

    /// Lets a new group take single threads; of version 1 every one does.
    ///
    /// # Errors
    /// EOPNOTSUPP where its parent has members or controllers that allow no threaded group below it.
    pub fn make_threaded(&self, kernel: &dyn Kernel, group: &Path) -> Result<(), KernelError> {
        match self.version {
            Version::V1 => Ok(()),
            Version::V2 => kernel.write_text(&group.join("cgroup.type"), "threaded"),
        }
    }

    /// Whether groups of this hierarchy take FIFO and RR threads only with a realtime budget of their own (CONFIG_RT_GROUP_SCHED),
    /// which new ones do not have.
    pub fn needs_realtime_budget(&self, kernel: &dyn Kernel) -> bool {
        self.version == Version::V1 && kernel.exists(&self.top.join("cpu.rt_runtime_us"))
    }

    /// Puts a thread of the calling process into a group.
    ///
    /// # Errors
    /// What the kernel refuses: EINVAL for a realtime thread where groups have budgets of their own.
    pub fn join(&self, kernel: &dyn Kernel, group: &Path, tid: Tid) -> Result<(), KernelError> {
        let file = match self.version {
            Version::V1 => "tasks",
            Version::V2 => "cgroup.threads",
        };
        kernel.write_text(&group.join(file), &tid.to_string())
    }

    /// Whether a thread is in a group that was made here, or in a cpuset of version 1.
    pub fn holds(&self, kernel: &dyn Kernel, group: &Path, tid: Tid) -> bool {
        let text = kernel.read_text(Path::new(&format!("/proc/{tid}/cgroup"))).unwrap_or_default();
        let cpusets =
            self.cpusets.as_ref().filter(|top| group.starts_with(top) && !group.starts_with(&self.top));
        let (top, controller) = match (cpusets, self.version) {
            (Some(top), _) => (top, CPUSET),
            (None, Version::V1) => (&self.top, CPU),
            (None, Version::V2) => (&self.top, ""),
        };
        let below = group.strip_prefix(top).ok();
        below
            .zip(group::own_group(&text, controller))
            .is_some_and(|(below, found)| Path::new(found).ends_with(below))
    }

    /// Writes what a new group is to have; of version 1 the CPUs are its cpuset's ([`CpuHierarchy::set_cpuset`]).
    ///
    /// # Errors
    /// ENOENT for what this kernel has not; EINVAL of version 1 where the quota is more than the parent's.
    pub fn set(
        &self,
        kernel: &dyn Kernel,
        group: &Path,
        settings: &GroupSettings,
    ) -> Result<(), KernelError> {
        let write = |file: &str, text: String| kernel.write_text(&group.join(file), &text);
        let micros = |time: Nanos| (time.get() / 1_000).to_string();
        if let Some(weight) = settings.weight {
            match self.version {
                Version::V1 => write("cpu.shares", shares_of(weight).to_string())?,
                Version::V2 => write("cpu.weight", weight.to_string())?,
            }
        }
        if let Some(quota) = settings.quota {
            match self.version {
                Version::V1 => {
                    write("cpu.cfs_period_us", micros(quota.period))?;
                    write("cpu.cfs_quota_us", micros(quota.runtime))?;
                }
                Version::V2 => {
                    write("cpu.max", format!("{} {}", micros(quota.runtime), micros(quota.period)))?;
                }
            }
            if quota.burst > Nanos::ZERO {
                write(self.burst_file(), micros(quota.burst))?;
            }
        }
        if settings.idle {
            write(IDLE, "1".to_owned())?;
        }
        if let Some(cpus) = settings.cpus.filter(|_| self.version == Version::V2) {
            write(CPUS, cpus.to_string())?;
        }
        Ok(())
    }

    /// Which file [`CpuHierarchy::set`] was refused for because this kernel has none in groups that have the controller.
    pub fn missing_file(
        &self,
        kernel: &dyn Kernel,
        group: &Path,
        error: &KernelError,
    ) -> Option<&'static str> {
        let weight = match self.version {
            Version::V1 => "cpu.shares",
            Version::V2 => "cpu.weight",
        };
        let is_missing = error.errno == libc::ENOENT && kernel.exists(&group.join(weight));
        let optional = [IDLE, self.burst_file()].into_iter();
        optional.filter(|_| is_missing).find(|file| Path::new(&error.object).ends_with(file))
    }

    /// What a group has, of version 1 without CPUs. A file that this kernel has not says what no group has there.
    ///
    /// # Errors
    /// EIO for a text that is no setting.
    pub fn read(&self, kernel: &dyn Kernel, group: &Path) -> Result<GroupSettings, KernelError> {
        let text = |file: &str| match kernel.read_text(&group.join(file)) {
            Err(error) if error.errno == libc::ENOENT => Ok(None),
            read => read.map(|text| Some(text.trim().to_owned())),
        };
        let number = |file: &str| -> Result<i64, KernelError> {
            let Some(text) = text(file)? else { return Ok(0) };
            text.parse().map_err(|_| unreadable(group, file))
        };
        let idle = number(IDLE)? == 1;
        let (weight, runtime, period) = match self.version {
            Version::V1 => {
                (weight_of(number("cpu.shares")?), number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
            }
            Version::V2 => {
                let max = text("cpu.max")?.unwrap_or_default();
                let words: Vec<i64> = max.split(' ').map(|word| word.parse().unwrap_or(-1)).collect();
                let [runtime, period] = words[..] else { return Err(unreadable(group, "cpu.max")) };
                (number("cpu.weight")?, runtime, period)
            }
        };
        let quota = (runtime > 0)
            .then(|| {
                let burst = Nanos::from_micros(number(self.burst_file())?);
                let (runtime, period) = (Nanos::from_micros(runtime), Nanos::from_micros(period));
                Ok(GroupQuota { runtime, period, burst })
            })
            .transpose()?;
        let weight = u32::try_from(weight).map_err(|_| unreadable(group, "cpu.shares"))?;
        let cpus = match self.version {
            Version::V1 => None,
            Version::V2 => self.cpus_in(kernel, group, CPUS)?,
        };
        Ok(GroupSettings { weight: (!idle).then_some(weight), quota, idle, cpus })
    }

    fn burst_file(&self) -> &'static str {
        match self.version {
            Version::V1 => "cpu.cfs_burst_us",
            Version::V2 => "cpu.max.burst",
        }
    }
}

/// Whether a list of controllers has one.
fn lists(kernel: &dyn Kernel, file: &Path, controller: &str) -> bool {
    let list = kernel.read_text(file).unwrap_or_default();
    list.split_ascii_whitespace().any(|one| one == controller)
}

/// `cpu.shares` of a weight: 100 is 1024 (`cpu_weight_write_u64`).
fn shares_of(weight: u32) -> u64 {
    (u64::from(weight) * 1024 + 50) / 100
}

/// The weight of `cpu.shares`, to the nearest.
fn weight_of(shares: i64) -> i64 {
    shares.saturating_mul(100).saturating_add(512) / 1024
}

fn unreadable(group: &Path, file: &str) -> KernelError {
    KernelError::new(Operation::Read, group.join(file).display().to_string(), libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptedKernel;

    const V1: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
    const V2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";

    fn kernel(mounts: &str, own: &str) -> ScriptedKernel {
        let kernel = ScriptedKernel::new(1);
        kernel.add_file("/proc/mounts", mounts);
        kernel.add_file("/proc/self/cgroup", own);
        kernel
    }

    #[test]
    fn groups_are_made_in_the_own_group_of_the_hierarchy_with_the_controller() {
        let both = format!("{V1}cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
        let found = |version, top: &str| Some(CpuHierarchy { version, top: top.into(), cpusets: None });
        let with_cpusets = format!("{V1}cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n");
        for (mounts, own, wanted) in [
            (V1, "1:cpu:/a\n0::/\n", found(Version::V1, "/sys/fs/cgroup/cpu/a")),
            (both.as_str(), "1:cpu:/\n0::/u\n", found(Version::V1, "/sys/fs/cgroup/cpu")),
            (
                with_cpusets.as_str(),
                "2:cpuset:/b\n1:cpu:/a\n",
                found(Version::V1, "/sys/fs/cgroup/cpu/a")
                    .map(|all| CpuHierarchy { cpusets: Some("/sys/fs/cgroup/cpuset/b".into()), ..all }),
            ),
            (V2, "0::/u\n", found(Version::V2, "/sys/fs/cgroup/u")),
            (V2, "0::/none\n", None),
            ("", "0::/\n", None),
        ] {
            let kernel = kernel(mounts, own);
            kernel.add_file("/sys/fs/cgroup/cpu/a/cgroup.procs", "");
            kernel.add_file("/sys/fs/cgroup/cpuset/b/cgroup.procs", "");
            for (group, controllers) in [("u", "cpuset cpu io\n"), ("none", "cpuset io\n")] {
                kernel.add_file(format!("/sys/fs/cgroup/{group}/cgroup.procs"), "");
                kernel.add_file(format!("/sys/fs/cgroup/{group}/cgroup.controllers"), controllers);
            }
            assert_eq!(CpuHierarchy::find(&kernel), wanted, "{mounts}{own}");
        }
    }

    #[test]
    fn what_is_written_in_either_version_is_read_again() {
        let ms = Nanos::from_millis;
        let quota = Some(GroupQuota { runtime: ms(20), period: ms(50), burst: ms(5) });
        let group = Path::new("/sys/fs/cgroup/g");
        let texts = |kernel: &ScriptedKernel, files: &[&str]| -> Vec<String> {
            files.iter().map(|file| kernel.read_text(&group.join(file)).unwrap()).collect()
        };
        let v1 = ["cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.idle"];
        let v2 = ["cpu.weight", "cpu.max", "cpu.max.burst", "cpu.idle", "cpuset.cpus"];
        for (version, files, defaults, written) in [
            (
                Version::V1,
                &v1[..],
                &["1024", "-1", "100000", "0", "0"][..],
                &["2560", "20000", "50000", "5000", "0"][..],
            ),
            (
                Version::V2,
                &v2[..],
                &["100", "max 100000", "0", "0", ""][..],
                &["250", "20000 50000", "5000", "0", "0,2-3"][..],
            ),
        ] {
            let kernel = ScriptedKernel::new(1);
            for (file, text) in files.iter().zip(defaults) {
                kernel.add_file(group.join(file), text);
            }
            let hierarchy = CpuHierarchy { version, top: "/sys/fs/cgroup".into(), cpusets: None };
            let new = GroupSettings { weight: Some(100), ..GroupSettings::default() };
            assert_eq!(hierarchy.read(&kernel, group).unwrap(), new);
            let cpus: Option<CpuSet> = (version == Version::V2).then(|| "0,2-3".parse().unwrap());
            let wanted = GroupSettings { weight: Some(250), quota, idle: false, cpus };
            hierarchy.set(&kernel, group, &wanted).unwrap();
            assert_eq!(texts(&kernel, files), written);
            assert_eq!(hierarchy.read(&kernel, group).unwrap(), wanted);
            hierarchy.set(&kernel, group, &GroupSettings { idle: true, ..GroupSettings::default() }).unwrap();
            assert_eq!(
                hierarchy.read(&kernel, group).unwrap(),
                GroupSettings { weight: None, quota, idle: true, cpus }
            );
        }
    }

    #[test]
    fn every_weight_comes_back_from_its_shares() {
        for weight in 1..=10_000 {
            assert_eq!(weight_of(shares_of(weight) as i64), i64::from(weight));
        }
        assert_eq!([1, 100, 10_000].map(shares_of), [10, 1024, 102_400]);
    }

    #[test]
    fn a_thread_is_held_by_the_group_its_own_list_names() {
        let cpusets = Some("/sys/fs/cgroup/cpuset".into());
        let hierarchy = CpuHierarchy { version: Version::V1, top: "/sys/fs/cgroup/cpu".into(), cpusets };
        let kernel = kernel(V1, "");
        kernel.add_file("/proc/7/cgroup", "2:cpuset:/surety-2\n1:cpu:/x/surety-1/in\n");
        let holds = |name: &str| hierarchy.holds(&kernel, &Path::new("/sys/fs/cgroup").join(name), Tid(7));
        assert_eq!(["cpu/surety-1/in", "cpu/surety-1", "cpu/surety-2"].map(holds), [true, false, false]);
        assert_eq!(["cpuset/surety-1/in", "cpuset/surety-2"].map(holds), [false, true]);
    }

    #[test]
    fn a_new_cpuset_has_the_memory_around_it_and_no_cpus_beyond() {
        let kernel = kernel(V1, "");
        let (around, cpuset) = (Path::new("/sys/fs/cgroup/cpuset"), Path::new("/sys/fs/cgroup/cpuset/g"));
        for (file, text) in [("cpuset.effective_cpus", "0-2\n"), ("cpuset.mems", "0\n")] {
            kernel.add_file(around.join(file), text);
        }
        for file in ["cpuset.cpus", "cpuset.mems"] {
            kernel.add_file(cpuset.join(file), "\n");
        }
        let cpusets = Some(around.to_owned());
        let hierarchy = CpuHierarchy { version: Version::V1, top: "/sys/fs/cgroup/cpu".into(), cpusets };
        let made = |cpus: Option<&str>| {
            let cpus = cpus.map(|cpus| cpus.parse().unwrap());
            hierarchy.set_cpuset(&kernel, cpuset, around, cpus).map_err(|error| error.errno)?;
            Ok(["cpuset.mems", "cpuset.cpus"].map(|file| kernel.read_text(&cpuset.join(file)).unwrap()))
        };
        let given = |cpus: &str| Ok(["0".to_owned(), cpus.to_owned()]);
        assert_eq!(made(None), given("0-2"));
        assert_eq!(made(Some("2-3")), given("2"));
        assert_eq!(made(Some("3")), Err(libc::EINVAL));
    }
}
