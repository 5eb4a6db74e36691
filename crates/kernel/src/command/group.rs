//! The control group of a run: whatever the run's programs start is in it, in whatever session, group and environment it hides.
//!
//! The group must not change what is measured. So it is made in a hierarchy without the `cpu` and `cpuset` controllers: of
//! version 1 the one of `pids`, which counts only, or a named one; of version 2 a leaf below our own group, where that
//! group gives its children neither. Where there is none, orphans are found as children of ours ([`super::adopt_orphans`]).
//!
//! To join a group takes the kernel a grace period of RCU (`cgroup_threadgroup_rwsem`). A program whose start is timed inherits the
//! group from the thread that starts it ([`enter`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use surety_units::{Nanos, Tid};

use crate::error::{KernelError, Operation};
use crate::kernel::{Kernel, ProcessIdentity};

/// Where control groups are mounted; what is elsewhere is left alone.
pub(crate) const PLACE: &str = "/sys/fs/cgroup";
/// Controllers that would change how programs are scheduled.
const SCHEDULING: [&str; 2] = ["cpu", "cpuset"];
/// The file of version 1 that takes single threads.
const THREADS: &str = "tasks";
const PROCESSES: &str = "cgroup.procs";

/// The groups of the marks of this process.
static GROUPS: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// The group in which a group of ours can be made.
pub(crate) fn parent(kernel: &dyn Kernel) -> Option<PathBuf> {
    let mounts = kernel.read_text(Path::new("/proc/mounts")).ok()?;
    let own = kernel.read_text(Path::new("/proc/self/cgroup")).ok()?;
    let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::parse).collect();
    let of_pids = mounts.iter().find(|m| m.has("pids"));
    let named = || mounts.iter().find(|m| m.name().is_some());
    let first = of_pids.filter(|m| m.is_harmless()).or_else(|| named().filter(|m| m.is_harmless()));
    if let Some(mount) = first {
        let controller = if mount.has("pids") { "pids" } else { mount.name()? };
        return Some(mount.below(own_group(&own, controller)?, kernel));
    }
    let group = mounts.iter().find(|m| m.is_unified)?.below(own_group(&own, "")?, kernel);
    let given = kernel.read_text(&group.join("cgroup.subtree_control")).ok()?;
    let is_leaf = !given.split_ascii_whitespace().any(|controller| SCHEDULING.contains(&controller));
    is_leaf.then_some(group)
}

/// A mounted hierarchy.
pub(crate) struct Mount<'a> {
    path: &'a Path,
    options: Vec<&'a str>,
    pub(crate) is_unified: bool,
}

impl<'a> Mount<'a> {
    pub(crate) fn parse(line: &'a str) -> Option<Mount<'a>> {
        let mut words = line.split(' ').skip(1);
        let (path, kind, options) = (Path::new(words.next()?), words.next()?, words.next()?);
        let is_ours = path.starts_with(PLACE) && matches!(kind, "cgroup" | "cgroup2");
        is_ours.then(|| Mount { path, options: options.split(',').collect(), is_unified: kind == "cgroup2" })
    }

    pub(crate) fn has(&self, controller: &str) -> bool {
        !self.is_unified && self.options.contains(&controller)
    }

    fn name(&self) -> Option<&'a str> {
        self.options.iter().find(|option| option.starts_with("name=")).copied()
    }

    fn is_harmless(&self) -> bool {
        !SCHEDULING.iter().any(|controller| self.has(controller))
    }

    /// A group's directory; in a container what is mounted may already be that group.
    pub(crate) fn below(&self, group: &str, kernel: &dyn Kernel) -> PathBuf {
        let path = self.path.join(group.trim_start_matches('/'));
        if kernel.exists(&path.join(PROCESSES)) { path } else { self.path.to_owned() }
    }
}

/// The group of a thread in a hierarchy, from the lines of its `/proc/TID/cgroup`: `8:pids:/a`.
pub(crate) fn own_group<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    let of = |line: &'a str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|one| one == controller).then_some(path)
    };
    text.lines().find_map(of)
}

/// From now on programs that carry a mark join this group.
pub(crate) fn open(mark: &str, path: &Path) {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).insert(mark.to_owned(), path.to_owned());
}

/// Where programs with a mark join; `None` where they have no group, or inherit it.
pub(super) fn procs_of(mark: &str) -> Option<PathBuf> {
    let groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    groups.get(mark).map(|path| path.join(PROCESSES))
}

/// Puts the calling thread into the group of a mark, so that what it starts is born there. Nothing where the kernel takes whole
/// processes only (version 2): then a program joins by itself or not at all.
///
/// # Errors
/// What the kernel refuses.
pub fn enter(kernel: &dyn Kernel, mark: &str) -> Result<(), KernelError> {
    let path = GROUPS.lock().unwrap_or_else(PoisonError::into_inner).get(mark).cloned();
    match path.map(|path| path.join(THREADS)).filter(|tasks| kernel.exists(tasks)) {
        Some(tasks) => kernel.write_text(&tasks, &kernel.own_tid().to_string()),
        None => Ok(()),
    }
}

/// Ends everybody in a group and removes it; whether there was one. The calling process is left out: its threads leave by themselves.
pub(crate) fn end(kernel: &dyn Kernel, path: &Path) -> Result<bool, KernelError> {
    const ROUNDS: u32 = 400;
    const PAUSE: Nanos = Nanos::from_millis(5);
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, group| group != path);
    if !kernel.exists(path) {
        return Ok(false);
    }
    for _ in 0..ROUNDS {
        let groups = with_descendants(kernel, path);
        for group in &groups {
            // Nobody there starts anybody any more; and all end at once, where the kernel can do that.
            for (file, text) in [("pids.max", "0"), ("cgroup.kill", "1")] {
                let file = group.join(file);
                if kernel.exists(&file) {
                    let _ = kernel.write_text(&file, text);
                }
            }
        }
        let members = |groups: &[PathBuf]| -> Vec<Tid> {
            let own = kernel.own_pid();
            groups.iter().flat_map(|group| members_of(kernel, group)).filter(|pid| *pid != own).collect()
        };
        let seen: Vec<ProcessIdentity> =
            members(&groups).into_iter().filter_map(|pid| kernel.identity(pid).ok()).collect();
        // Read again: who is there now under a number is whom the identity is of.
        let still = members(&groups);
        for process in seen.iter().filter(|process| still.contains(&process.pid)) {
            kernel.signal(*process, libc::SIGKILL)?;
        }
        // Deepest first; one that is not empty yet stays.
        let removed = groups.iter().rev().try_for_each(|group| kernel.remove_dir(group));
        match removed {
            Ok(()) => return Ok(true),
            Err(error) if error.is_gone() && !kernel.exists(path) => return Ok(true),
            // One below it went by itself.
            Err(error) if error.is_gone() => {}
            Err(error) if error.errno == libc::EBUSY => kernel.pause(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Err(KernelError::new(Operation::RemoveDir, path.display().to_string(), libc::EBUSY))
}

/// The processes in a group. A threaded one of version 2 lists only its threads (`cgroup.procs` and `cgroup.kill` are EOPNOTSUPP
/// there).
fn members_of(kernel: &dyn Kernel, group: &Path) -> Vec<Tid> {
    match kernel.read_text(&group.join(PROCESSES)) {
        Err(error) if error.errno == libc::EOPNOTSUPP => {
            let threads = kernel.read_text(&group.join("cgroup.threads")).unwrap_or_default();
            let process_of = |tid| Some(kernel.owner(tid).ok()?.process);
            let processes: BTreeSet<Tid> = numbers(&threads).filter_map(process_of).collect();
            processes.into_iter().collect()
        }
        read => numbers(&read.unwrap_or_default()).collect(),
    }
}

/// The numbers in a list of members; 0 is one that this namespace cannot name.
fn numbers(text: &str) -> impl Iterator<Item = Tid> {
    text.split_ascii_whitespace()
        .filter_map(|number| number.parse().ok())
        .filter(|number| *number > 0)
        .map(Tid)
}

/// A group and those below it, each before its children.
fn with_descendants(kernel: &dyn Kernel, path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    let mut next = 0;
    while let Some(group) = found.get(next).cloned() {
        next += 1;
        let names = kernel.list_dir(&group).unwrap_or_default();
        let groups = names.into_iter().map(|name| group.join(name));
        found.extend(groups.filter(|group| kernel.exists(&group.join(PROCESSES))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptedKernel;

    #[test]
    fn a_group_is_made_where_it_changes_nothing_of_scheduling() {
        let pids = "cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0\n";
        let cpu_pids = "cgroup /sys/fs/cgroup/all cgroup rw,cpu,pids 0 0\n";
        let named = "cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n";
        let cpu = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
        let unified = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let elsewhere = "cgroup /mnt/pids cgroup rw,pids 0 0\n";
        let own = "9:name=systemd:/s\n8:cpu,pids:/a\n7:pids:/a\n1:cpu:/c\n0::/u\n";
        for (mounts, given, found) in [
            (format!("{cpu}{pids}{named}"), "", Some("/sys/fs/cgroup/pids/a")),
            (format!("{cpu_pids}{named}"), "", Some("/sys/fs/cgroup/systemd/s")),
            (format!("{cpu}{elsewhere}{unified}"), "memory pids\n", Some("/sys/fs/cgroup/unified/u")),
            (format!("{cpu}{unified}"), "memory cpu\n", None),
            (format!("{cpu}{unified}"), "cpuset\n", None),
            (format!("{cpu}{cpu_pids}{elsewhere}"), "", None),
            (String::new(), "", None),
        ] {
            let kernel = ScriptedKernel::new(1);
            kernel.add_file("/proc/mounts", &mounts);
            kernel.add_file("/proc/self/cgroup", own);
            kernel.add_file("/sys/fs/cgroup/unified/u/cgroup.subtree_control", given);
            for group in ["pids/a", "systemd/s", "all/a", "unified/u"] {
                kernel.add_file(Path::new(PLACE).join(group).join(PROCESSES), "");
            }
            assert_eq!(parent(&kernel), found.map(PathBuf::from), "{mounts}");
        }
    }

    /// A group of version 2 with one in it, in which a process of two threads is; ours has one in the outer.
    fn threaded() -> ScriptedKernel {
        let kernel = ScriptedKernel::new(1);
        kernel.add_thread(Tid(7), Tid(7), "program");
        kernel.add_thread(Tid(8), Tid(7), "second");
        for (tid, process) in [(7, 7), (8, 7), (kernel.own_pid().0, kernel.own_pid().0)] {
            kernel.add_file(format!("/proc/{tid}/status"), &format!("Tgid:\t{process}\nUid:\t0\t0\t0\t0\n"));
        }
        for (group, threads) in [("surety-1", ""), ("surety-1/surety-in", "8")] {
            for (file, text) in [
                ("cgroup.type", "threaded"),
                (PROCESSES, ""),
                ("cgroup.threads", threads),
                ("cgroup.kill", ""),
            ] {
                kernel.add_file(Path::new(PLACE).join(group).join(file), text);
            }
        }
        kernel
    }

    #[test]
    fn who_is_in_a_threaded_group_is_found_by_threads_and_ends_and_we_do_not() {
        let path = Path::new(PLACE).join("surety-1");
        let kernel = threaded();
        let procs = kernel.read_text(&path.join(PROCESSES)).map_err(|error| error.errno);
        assert_eq!(procs, Err(libc::EOPNOTSUPP));
        assert_eq!(end(&kernel, &path), Ok(true));
        assert!(!kernel.exists(&path) && kernel.thread(Tid(7)).is_none() && kernel.thread(Tid(8)).is_none());

        let (kernel, own) = (threaded(), kernel.own_pid());
        kernel.write_text(&path.join("cgroup.threads"), &own.to_string()).unwrap();
        assert_eq!(
            end(&kernel, &path).map_err(|error| error.errno),
            Err(libc::EBUSY),
            "a thread of ours stays"
        );
        assert!(kernel.thread(own).is_some() && kernel.thread(Tid(7)).is_none());
    }

    #[test]
    fn a_group_that_goes_by_itself_meanwhile_is_no_failure() {
        let path = Path::new(PLACE).join("surety-1");
        let removes = |kernel: &ScriptedKernel| -> Vec<usize> {
            let calls = kernel.calls().into_iter().enumerate();
            calls.filter(|(_, call)| call.operation == Operation::RemoveDir).map(|(at, _)| at).collect()
        };
        let whole = threaded();
        end(&whole, &path).unwrap();
        assert_eq!(removes(&whole).len(), 2);
        for at in removes(&whole) {
            let kernel = threaded();
            kernel.fail_at(at, libc::ENOENT);
            assert_eq!(end(&kernel, &path), Ok(true), "call {at}");
            assert!(!kernel.exists(&path), "call {at}");
        }
    }
}
