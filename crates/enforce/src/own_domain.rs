//! [`OwnDomain`]: CPUs of the running machine made a root domain of their own for a while, under the journal.
//!
//! A thread under SCHED_DEADLINE may run on every CPU of its root domain, whatever the CPUs of its run are, and the kernel refuses it
//! fewer (`__sched_setscheduler` in `kernel/sched/syscalls.c`). What is to be measured of reservations on one CPU needs that CPU to be a
//! domain. With version 1 of the cpuset controller two cpusets that share no CPU make the domains as soon as the topmost one is not
//! balanced, and nobody has to be moved into them: whoever runs there is balanced within the domain it is in.

use std::path::{Path, PathBuf};

use surety_kernel::journal::{EntryId, Journal, JournalError};
use surety_kernel::root_domains::{RootDomains, topmost_cpuset};
use surety_kernel::{Kernel, KernelError};
use surety_units::CpuSet;
use thiserror::Error;

const BALANCED: &str = "cpuset.sched_load_balance";

/// Why CPUs are not made a root domain.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DomainError {
    /// There is nothing it is made with.
    #[error(
        "version 1 of the cpuset controller, which needs no thread to be moved, is not mounted here; make a partition of CPUs {0}"
    )]
    NoCpusets(String),
    /// Somebody has divided the machine otherwise.
    #[error(
        "the machine has root domains already ({0}); choose the CPUs of one of them, or take the division back"
    )]
    Divided(String),
    /// The kernel took everything and made no domain.
    #[error("the kernel made no root domain of CPUs {0}")]
    NotMade(String),
    /// It refused.
    #[error(transparent)]
    Refused(#[from] KernelError),
    /// It could not be written down, so it was not done.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Root domains as they were asked for; taken back when it is dropped.
pub struct OwnDomain<'a> {
    kernel: &'a dyn Kernel,
    journal: &'a Journal,
    entries: Vec<EntryId>,
}

impl<'a> OwnDomain<'a> {
    /// Makes a domain of these CPUs and one of all others. Changes nothing where it is one already.
    ///
    /// # Errors
    /// Why not; what was changed is taken back.
    pub fn make(
        kernel: &'a dyn Kernel,
        journal: &'a Journal,
        cpus: CpuSet,
    ) -> Result<OwnDomain<'a>, DomainError> {
        let mut domain = OwnDomain { kernel, journal, entries: Vec::new() };
        let now = RootDomains::read(kernel);
        if now.balanced.contains(&cpus) {
            return Ok(domain);
        }
        let top = topmost_cpuset(kernel).ok_or_else(|| DomainError::NoCpusets(cpus.to_string()))?;
        if now.balanced.len() != 1 || kernel.read_text(&top.join(BALANCED))?.trim() != "1" {
            let sets: Vec<String> = now.balanced.iter().map(CpuSet::to_string).collect();
            return Err(DomainError::Divided(sets.join(" and ")));
        }
        let others = kernel.online_cpus()?.without(&cpus);
        for (name, cpus) in [("surety-run", cpus), ("surety-others", others)] {
            if !cpus.is_empty() {
                domain.add(&top, name, cpus)?;
            }
        }
        domain.entries.push(journal.write_text(kernel, &top.join(BALANCED), "0")?);
        match RootDomains::read(kernel).balanced.contains(&cpus) {
            true => Ok(domain),
            false => Err(DomainError::NotMade(cpus.to_string())),
        }
    }

    fn add(&mut self, top: &Path, name: &str, cpus: CpuSet) -> Result<(), DomainError> {
        let group: PathBuf = top.join(name);
        self.entries.push(self.journal.make_dir(self.kernel, &group)?);
        let memory = self.kernel.read_text(&top.join("cpuset.mems"))?;
        // What is written into a directory of ours is gone with it.
        self.kernel.write_text(&group.join("cpuset.mems"), memory.trim())?;
        self.kernel.write_text(&group.join("cpuset.cpus"), &cpus.to_string())?;
        self.kernel.write_text(&group.join(BALANCED), "1")?;
        Ok(())
    }
}

impl Drop for OwnDomain<'_> {
    fn drop(&mut self) {
        for entry in self.entries.drain(..).rev() {
            // What fails here stays in the journal, and the next start tries again.
            let _ = self.journal.undo(self.kernel, entry);
        }
    }
}
