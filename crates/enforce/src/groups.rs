//! [`ControlGroups`]: the control groups of a workload, made for a run and removed after it.
//!
//! They are made in the group of this process, so that threads without a group stand beside them as in the workload. Whoever a
//! member starts is born in its group: a thread of ours enters one for as long as it makes the threads and programs of it
//! ([`ControlGroups::entered`]). Nobody who was running before is moved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use surety_kernel::cpu_group::{CpuHierarchy, GIVEN, GroupQuota, GroupSettings, IDLE, Version};
use surety_kernel::journal::{EntryId, Journal, JournalError};
use surety_kernel::{Kernel, KernelError};
use surety_model::workload::Group;
use surety_units::{CpuSet, Tid};
use thiserror::Error;

/// Why there are no such groups.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// There is nothing they are made with.
    #[error(
        "no control groups with the `cpu` controller are mounted below /sys/fs/cgroup; mount them, simulate the workload, or leave `group` out"
    )]
    NoController,
    /// FIFO and RR threads would get no time there.
    #[error(
        "control groups of this kernel have realtime budgets (CONFIG_RT_GROUP_SCHED), and new ones have none; leave `group` out of threads of `fifo` and `rr`, whose time no weight changes"
    )]
    NoRealtimeBudget,
    /// Version 2 divides threads of one process only below a group that is nothing else.
    #[error(
        "the control group {} takes no groups of threads: {error}; start surety in a group of its own: systemd-run --scope -p Delegate=yes surety ...", group.display()
    )]
    NotThreaded { group: PathBuf, error: KernelError },
    /// Groups here have no CPUs of their own.
    #[error(
        "CPUs of a group need the `cpuset` controller of control groups below /sys/fs/cgroup; give its tasks `cpus` instead, or simulate the workload"
    )]
    NoCpusets,
    /// The kernel refused one.
    #[error(
        "group.{group} was refused: {error}; run surety with sudo, see that no group has more quota than the one it is in, or simulate the workload"
    )]
    Refused { group: String, error: KernelError },
    /// An older kernel, where weights and quotas are all there is.
    #[error("group.{group} was refused: this kernel has no {file}; leave `{key}` out")]
    NoFile { group: String, file: &'static str, key: &'static str },
    /// The kernel said yes and did something else.
    #[error("group.{group} was given {wanted} and has {found}; choose values that this kernel keeps")]
    NotAsSet { group: String, wanted: String, found: String },
    /// The same of a thread.
    #[error(
        "a thread was put into the control group {group} and is not there; simulate the workload, or leave `group` out of its phases"
    )]
    NotEntered { group: String },
    /// It could not be written down, so it was not done.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Control groups by the names of a workload; removed when this is dropped, with whoever is in them.
pub struct ControlGroups<'a> {
    kernel: &'a dyn Kernel,
    journal: &'a Journal,
    hierarchy: CpuHierarchy,
    entries: Vec<EntryId>,
    made: BTreeMap<String, Made>,
    /// Whether any of them has CPUs of its own.
    with_cpus: bool,
    /// What went wrong when a thread left a group, for the record.
    not_left: Mutex<Vec<String>>,
}

/// A group that was made.
struct Made {
    path: PathBuf,
    /// Its directory in the hierarchy of cpusets, of version 1 where a group has CPUs.
    cpuset: Option<PathBuf>,
    /// What it has, as read back; of version 1 without CPUs.
    settings: GroupSettings,
    /// Those of its CPUs that it may use, where it has some of its own.
    effective: Option<CpuSet>,
}

impl Made {
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.path).chain(&self.cpuset)
    }

    /// Where its CPUs are read.
    fn cpus_in(&self) -> &Path {
        self.cpuset.as_deref().unwrap_or(&self.path)
    }

    /// What is in force of what it was given.
    fn in_words(&self) -> String {
        in_words(&GroupSettings { cpus: self.effective, ..self.settings })
    }
}

/// The calling thread in a group, until this is dropped.
pub struct Entered<'a> {
    groups: &'a ControlGroups<'a>,
    /// The CPUs it had: a cpuset gives a thread its own CPUs, at leaving too.
    cpus: Option<CpuSet>,
}

/// Where the groups of a run are, without CPUs of their own.
#[derive(Clone, Debug)]
pub struct GroupSeats {
    /// Whether a change of place may change CPUs, which then are given back.
    with_cpus: bool,
    hierarchy: CpuHierarchy,
    places: BTreeMap<String, PathBuf>,
}

impl GroupSeats {
    /// Puts a thread of this process into a group, `None` for the one that all of them were made in, and reads back whether it is there.
    /// The group is removed with whoever is in it, so that nothing more has to be undone.
    ///
    /// # Errors
    /// What the kernel refuses, or that it said yes and left the thread where it was.
    pub fn enter(&self, kernel: &dyn Kernel, group: Option<&str>, tid: Tid) -> Result<(), GroupError> {
        let place = match group {
            None => &self.hierarchy.top,
            Some(name) => self.places.get(name).ok_or(GroupError::NoController)?,
        };
        let named = || group.unwrap_or("/").to_owned();
        let refused = |error| GroupError::Refused { group: named(), error };
        let cpus = self.with_cpus.then(|| kernel.affinity(tid)).transpose().map_err(refused)?;
        self.hierarchy.join(kernel, place, tid).map_err(refused)?;
        cpus.map_or(Ok(()), |cpus| kernel.set_affinity(tid, &cpus)).map_err(refused)?;
        // Of the group of the run its path is not that of a group below.
        let inside = |path: &PathBuf| self.hierarchy.holds(kernel, path, tid);
        let is_there = if group.is_some() { inside(place) } else { !self.places.values().any(inside) };
        match is_there {
            true => Ok(()),
            false => Err(GroupError::NotEntered { group: named() }),
        }
    }
}

impl<'a> ControlGroups<'a> {
    /// Makes them, those around others first.
    ///
    /// # Errors
    /// Why not; what was made is removed.
    pub fn make(
        kernel: &'a dyn Kernel,
        journal: &'a Journal,
        groups: &[Group],
    ) -> Result<ControlGroups<'a>, GroupError> {
        let hierarchy = CpuHierarchy::find(kernel).ok_or(GroupError::NoController)?;
        let with_cpus = groups.iter().any(|group| group.cpus.is_some());
        if with_cpus && !hierarchy.has_cpusets(kernel) {
            return Err(GroupError::NoCpusets);
        }
        let (entries, made) = (Vec::new(), BTreeMap::new());
        let not_left = Mutex::default();
        let mut all = ControlGroups { kernel, journal, hierarchy, entries, made, with_cpus, not_left };
        let mut waiting: Vec<&Group> = groups.iter().collect();
        while !waiting.is_empty() {
            let count = waiting.len();
            let ready = |all: &ControlGroups<'_>, group: &Group| {
                group.parent.as_ref().is_none_or(|parent| all.made.contains_key(parent))
            };
            for group in std::mem::take(&mut waiting) {
                match ready(&all, group) {
                    true => all.add(group)?,
                    false => waiting.push(group),
                }
            }
            // The reader of workloads sees to it that groups form a tree.
            debug_assert!(waiting.len() < count, "groups in a ring");
        }
        Ok(all)
    }

    fn add(&mut self, group: &Group) -> Result<(), GroupError> {
        let kernel = self.kernel;
        let refused = |error| GroupError::Refused { group: group.name.clone(), error };
        let parent = group.parent.as_ref().and_then(|parent| self.made.get(parent));
        let (parent, parent_cpuset) = parent.map(|made| (made.path.clone(), made.cpuset.clone())).unzip();
        let parent_cpuset: Option<PathBuf> = parent_cpuset.flatten();
        let top = self.hierarchy.top.clone();
        self.give(parent.as_ref().unwrap_or(&top), parent.is_none())?;
        let path = self.directory(&group.name, parent.as_deref(), &top)?;
        self.hierarchy
            .make_threaded(kernel, &path)
            .map_err(|error| GroupError::NotThreaded { group: top.clone(), error })?;
        let cpuset = match self.hierarchy.cpusets.clone().filter(|cpusets| self.with_cpus || *cpusets == top)
        {
            // One hierarchy may have both controllers.
            Some(cpusets) => {
                let cpuset = match cpusets == top {
                    true => path.clone(),
                    false => self.directory(&group.name, parent_cpuset.as_deref(), &cpusets)?,
                };
                let around = parent_cpuset.as_ref().unwrap_or(&cpusets);
                self.hierarchy.set_cpuset(kernel, &cpuset, around, group.cpus).map_err(refused)?;
                Some(cpuset)
            }
            None => None,
        };
        let hierarchy = &self.hierarchy;
        let wanted = settings_of(group);
        hierarchy.set(kernel, &path, &wanted).map_err(|error| {
            match hierarchy.missing_file(kernel, &path, &error) {
                Some(file) => no_file(&group.name, file),
                None => refused(error),
            }
        })?;
        let wanted = GroupSettings { cpus: wanted.cpus.filter(|_| cpuset.is_none()), ..wanted };
        let settings = hierarchy.read(kernel, &path).map_err(refused)?;
        let mut made = Made { path, cpuset, settings, effective: None };
        made.effective = hierarchy.effective_cpus(kernel, made.cpus_in()).map_err(refused)?;
        self.check(group, &wanted, &made)?;
        made.effective = made.effective.filter(|_| group.cpus.is_some());
        self.made.insert(group.name.clone(), made);
        Ok(())
    }

    /// Makes the directory of a group, which goes with the one around it; under the journal where that is not ours.
    fn directory(&mut self, name: &str, parent: Option<&Path>, top: &Path) -> Result<PathBuf, GroupError> {
        let kernel = self.kernel;
        let refused = |error| GroupError::Refused { group: name.to_owned(), error };
        let Some(parent) = parent else {
            let made = self.journal.make_group(kernel, top, name);
            let (entry, path) = made.map_err(|error| match error {
                JournalError::Kernel(error) => refused(error),
                other => other.into(),
            })?;
            self.entries.push(entry);
            return Ok(path);
        };
        let path = parent.join(format!("surety-{name}"));
        kernel.make_dir(&path).map_err(refused)?;
        Ok(path)
    }

    /// Whether the kernel did what it said yes to.
    fn check(&self, group: &Group, wanted: &GroupSettings, made: &Made) -> Result<(), GroupError> {
        let not = |wanted: String, found: String| {
            Err(GroupError::NotAsSet { group: group.name.clone(), wanted, found })
        };
        if let Some(cpus) = group.cpus
            && made.effective.is_none_or(|effective| !effective.is_subset(&cpus))
        {
            let found = made.effective.map_or_else(|| "none".to_owned(), |cpus| cpus.to_string());
            return not(format!("CPUs {cpus}"), format!("CPUs {found}"));
        }
        match made.settings == *wanted {
            true => Ok(()),
            false => not(in_words(wanted), in_words(&made.settings)),
        }
    }

    /// Lets a group give its children the controllers: under the journal where the group is not ours.
    fn give(&mut self, group: &Path, is_others: bool) -> Result<(), GroupError> {
        let missing = self.hierarchy.to_give_below(self.kernel, group, self.with_cpus);
        missing.iter().try_for_each(|controller| self.give_one(group, is_others, controller))
    }

    fn give_one(&mut self, group: &Path, is_others: bool, controller: &str) -> Result<(), GroupError> {
        let file = group.join(GIVEN);
        let not = |error| GroupError::NotThreaded { group: group.to_owned(), error };
        match is_others {
            false => self.kernel.write_text(&file, controller).map_err(not),
            true => match self.journal.write_text(self.kernel, &file, controller) {
                Ok(entry) => {
                    self.entries.push(entry);
                    Ok(())
                }
                Err(JournalError::Kernel(error)) => Err(not(error)),
                Err(other) => Err(other.into()),
            },
        }
    }

    /// Puts the calling thread into a group: what it makes meanwhile is born there.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn entered(&'a self, name: &str) -> Result<Entered<'a>, GroupError> {
        let made = self.made.get(name).ok_or(GroupError::NoController)?;
        let refused = |error| GroupError::Refused { group: name.to_owned(), error };
        let tid = self.kernel.own_tid();
        let cpus = self.with_cpus.then(|| self.kernel.affinity(tid)).transpose().map_err(refused)?;
        let entered = Entered { groups: self, cpus };
        made.paths().try_for_each(|path| self.hierarchy.join(self.kernel, path, tid)).map_err(refused)?;
        Ok(entered)
    }

    /// The places of the groups, for threads that go from one to another by themselves.
    pub fn seats(&self) -> GroupSeats {
        let places = self.made.iter().map(|(name, made)| (name.clone(), made.path.clone()));
        GroupSeats { with_cpus: self.with_cpus, hierarchy: self.hierarchy.clone(), places: places.collect() }
    }

    /// Whether a thread is in a group.
    pub fn holds(&self, name: &str, tid: Tid) -> bool {
        let holds = |path: &PathBuf| self.hierarchy.holds(self.kernel, path, tid);
        self.made.get(name).is_some_and(|made| made.paths().all(holds))
    }

    /// Whether they stand beside groups that autogroup makes of sessions.
    pub fn are_topmost(&self) -> bool {
        self.hierarchy.is_topmost(self.kernel)
    }

    /// Removes the groups, with whoever is in them, and says what a record of their run has to say: which group no longer had what it
    /// was given, which thread did not get its CPUs back, and the first that could not be removed. The latter stays in the journal, and the next start tries again.
    pub fn close(&mut self) -> Vec<String> {
        let mut said: Vec<String> = match self.entries.is_empty() {
            true => Vec::new(),
            false => self.made.iter().filter_map(|(name, made)| self.changed(name, made)).collect(),
        };
        said.append(self.not_left.get_mut().unwrap_or_else(PoisonError::into_inner));
        said.extend(
            self.remove().map(|error| format!("control groups of the run could not be removed: {error}")),
        );
        said
    }

    /// What became of a group's settings, where they are others than it was given: another run that ends may take the controller away.
    fn changed(&self, name: &str, made: &Made) -> Option<String> {
        let effective = || match made.effective {
            Some(_) => self.hierarchy.effective_cpus(self.kernel, made.cpus_in()),
            None => Ok(None),
        };
        let found = self.hierarchy.read(self.kernel, &made.path).and_then(|read| Ok((read, effective()?)));
        let became = match found {
            Ok((found, effective)) if found == made.settings && effective == made.effective => return None,
            Ok((found, effective)) => {
                let now = GroupSettings { cpus: effective, ..found };
                format!("had {} at the end", in_words(&now))
            }
            Err(error) => format!("could not be read at the end: {error}"),
        };
        Some(format!(
            "group.{name} was given {} and {became}; let no other run end meanwhile",
            made.in_words()
        ))
    }

    /// Undoes what was made, the last first; the first failure.
    fn remove(&mut self) -> Option<JournalError> {
        let (journal, kernel) = (self.journal, self.kernel);
        let failures = self.entries.drain(..).rev().filter_map(|entry| journal.undo(kernel, entry).err());
        // All are tried.
        failures.reduce(|first, _| first)
    }

    /// What each group has, as read back, by name.
    pub fn in_words(&self) -> BTreeMap<String, String> {
        let version = match self.hierarchy.version {
            Version::V1 => 1,
            Version::V2 => 2,
        };
        let of = |(name, made): (&String, &Made)| {
            (format!("group.{name}"), format!("{} (control groups, version {version})", made.in_words()))
        };
        self.made.iter().map(of).collect()
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let ControlGroups { kernel, hierarchy, with_cpus, .. } = self.groups;
        let cpusets = hierarchy.cpusets.as_ref().filter(|_| *with_cpus);
        for top in std::iter::once(&hierarchy.top).chain(cpusets) {
            // A thread that stays is in the way of removing the group, and that is said there.
            let _ = hierarchy.join(*kernel, top, kernel.own_tid());
        }
        if let Some(cpus) = &self.cpus {
            let tid = kernel.own_tid();
            if let Err(error) = kernel.set_affinity(tid, cpus) {
                let words = format!(
                    "thread {} did not get its CPUs {cpus} back when it left a control group, and is where that was: {error}",
                    tid.0
                );
                self.groups.not_left.lock().unwrap_or_else(PoisonError::into_inner).push(words);
            }
        }
    }
}

impl Drop for ControlGroups<'_> {
    fn drop(&mut self) {
        // Of a run that failed, which has no record to say more in: what is not removed stays in the journal, as of `close`.
        let _ = self.remove();
    }
}

fn no_file(group: &str, file: &'static str) -> GroupError {
    let key = if file == IDLE { "idle" } else { "burst" };
    GroupError::NoFile { group: group.to_owned(), file, key }
}

fn settings_of(group: &Group) -> GroupSettings {
    let quota = group.quota.map(|quota| GroupQuota {
        runtime: quota.runtime,
        period: quota.period,
        burst: quota.burst,
    });
    // A weight written to an idle group is refused, and does not count there.
    GroupSettings { weight: (!group.idle).then_some(group.weight), quota, idle: group.idle, cpus: group.cpus }
}

/// `weight 200, 10ms in 100ms and 5ms saved`.
fn in_words(settings: &GroupSettings) -> String {
    let mut words = match settings.weight {
        Some(weight) => format!("weight {weight}"),
        None => "idle".to_owned(),
    };
    if let Some(GroupQuota { runtime, period, burst }) = settings.quota {
        words += &format!(", {} in {}", runtime.to_exact_string(), period.to_exact_string());
        if burst.is_positive() {
            words += &format!(", {} saved at most", burst.to_exact_string());
        }
    }
    if let Some(cpus) = settings.cpus {
        words += &format!(", CPUs {cpus}");
    }
    words
}
