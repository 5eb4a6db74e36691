//! Control groups of the scripted machine: who is in one, and what a threaded one of version 2 refuses
//! (`kernel/cgroup/cgroup.c`: `cgroup_procs_start`, `cgroup_kill_write`, `cgroup_destroy_locked`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use surety_units::Tid;

use super::Script;

/// The files that list single threads, of version 1 and 2.
const THREADS: [&str; 2] = ["tasks", "cgroup.threads"];

impl Script {
    /// What a file of a control group says of its members; `None` for other files, and where no thread was put into the group.
    ///
    /// # Errors
    /// EOPNOTSUPP for the processes of a threaded group.
    pub(super) fn members_text(&self, path: &Path) -> Option<Result<String, i32>> {
        let group = path.parent().filter(|_| path.ends_with("cgroup.procs"))?;
        if self.is_threaded(group) {
            return Some(Err(libc::EOPNOTSUPP));
        }
        let living = self.members(group);
        let processes: BTreeSet<Tid> = living.iter().map(|tid| self.machine.threads[tid].process).collect();
        (!processes.is_empty()).then(|| Ok(lines(processes)))
    }

    /// Whether what is written to a file was for its control group: a thread that joins leaves the group of the same hierarchy that it
    /// was in.
    ///
    /// # Errors
    /// EOPNOTSUPP for ending a threaded group at once.
    pub(super) fn write_to_group(&mut self, path: &Path, text: &str) -> Result<bool, i32> {
        let Some(group) = path.parent() else { return Ok(false) };
        if path.ends_with("cgroup.kill") && self.is_threaded(group) {
            return Err(libc::EOPNOTSUPP);
        }
        let file = THREADS.into_iter().find(|file| path.ends_with(file));
        let (Some(file), Ok(tid)) = (file, text.parse().map(Tid)) else { return Ok(false) };
        let top = self.top_of(group, file);
        let lists: Vec<PathBuf> =
            self.machine.files.keys().filter(|one| one.ends_with(file)).cloned().collect();
        for list in lists.iter().filter(|list| list.starts_with(&top)) {
            let mut tids = numbers(&self.machine.files[list]);
            tids.retain(|one| *one != tid && self.machine.threads.contains_key(one));
            if list == path {
                tids.push(tid);
            }
            self.machine.files.insert(list.clone(), lines(tids));
        }
        Ok(true)
    }

    /// The living threads of a group.
    pub(super) fn members(&self, group: &Path) -> Vec<Tid> {
        let texts = THREADS.iter().filter_map(|file| self.machine.files.get(&group.join(file)));
        texts.flat_map(|text| numbers(text)).filter(|tid| self.machine.threads.contains_key(tid)).collect()
    }

    fn is_threaded(&self, group: &Path) -> bool {
        self.machine.files.get(&group.join("cgroup.type")).is_some_and(|kind| kind.trim() == "threaded")
    }

    /// The topmost group of a hierarchy.
    fn top_of(&self, group: &Path, file: &str) -> PathBuf {
        let is_group = |dir: &&Path| self.machine.files.contains_key(&dir.join(file));
        group.ancestors().take_while(is_group).last().unwrap_or(group).to_owned()
    }
}

fn numbers(text: &str) -> Vec<Tid> {
    text.split_ascii_whitespace().filter_map(|tid| tid.parse().ok()).map(Tid).collect()
}

fn lines(tids: impl IntoIterator<Item = Tid>) -> String {
    let words: Vec<String> = tids.into_iter().map(|tid| tid.to_string()).collect();
    words.join("\n")
}
