//! [`Enforcer`]: changes threads, reads back what came of it, and takes it all back.

use std::path::Path;

use surety_kernel::journal::{EntryId, Journal, JournalError, Undone};
use surety_kernel::sched::{RELEASE, keeps_slices};
use surety_kernel::transition::{Owed, set_scheduler};
use surety_kernel::{Kernel, KernelError, SchedAttr, SchedPolicy};
use surety_units::{CpuSet, Nanos, Tid};
use thiserror::Error;

use crate::attributes::describe;

/// Whose thread is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A thread or child of this process: it ends with us, nothing has to be undone.
    Ours,
    /// Somebody else's: journalled, and given back as it was.
    Others,
}

/// Why something is not in force.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EnforceError {
    /// The kernel refused.
    #[error(transparent)]
    Refused(#[from] KernelError),
    /// It could not be written down, so it was not done.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel said yes and did something else.
    #[error("thread {tid} was given {wanted} and has {found}; another program may be changing it")]
    NotAsSet {
        /// The thread.
        tid: Tid,
        /// What was set.
        wanted: String,
        /// What was read back.
        found: String,
    },
    /// The kernel took the policy and left the slice out, which it does not know.
    #[error(
        "thread {tid} cannot have a slice of {slice} of its own: Linux {release} knows none, 6.12 and later do; leave `slice` out"
    )]
    NoSlices {
        tid: Tid,
        slice: Nanos,
        /// Of the running kernel.
        release: String,
    },
    /// Others' threads are only changed with a journal.
    #[error("thread {tid} is not ours, and there is no journal to write the change down in")]
    NoJournal {
        /// The thread.
        tid: Tid,
    },
}

/// Puts policies and affinities in force. What it changed of others is undone when it is dropped.
pub struct Enforcer<'a> {
    kernel: &'a dyn Kernel,
    journal: Option<&'a Journal>,
    entries: Vec<EntryId>,
    owed: Owed,
}

impl<'a> Enforcer<'a> {
    /// For threads of ours, and with a journal for others' too.
    pub fn new(kernel: &'a dyn Kernel, journal: Option<&'a Journal>) -> Enforcer<'a> {
        Enforcer { kernel, journal, entries: Vec::new(), owed: Owed::default() }
    }

    /// Gives a thread its class and verifies that it has it.
    pub fn set_scheduler(&mut self, tid: Tid, wanted: SchedAttr, owner: Owner) -> Result<(), EnforceError> {
        let wanted = self.kernel.as_told(wanted);
        match owner {
            Owner::Ours => set_scheduler(self.kernel, &self.owed, tid, &wanted)?,
            Owner::Others => {
                let journal = self.journal.ok_or(EnforceError::NoJournal { tid })?;
                self.entries.push(journal.set_scheduler(self.kernel, tid, wanted)?);
            }
        }
        verify_scheduler(self.kernel, tid, &wanted)
    }

    /// Gives a thread its CPUs and verifies that it has them.
    pub fn set_affinity(&mut self, tid: Tid, wanted: CpuSet, owner: Owner) -> Result<(), EnforceError> {
        if self.kernel.affinity(tid)? == wanted {
            return Ok(());
        }
        match owner {
            Owner::Ours => self.kernel.set_affinity(tid, &wanted)?,
            Owner::Others => {
                let journal = self.journal.ok_or(EnforceError::NoJournal { tid })?;
                self.entries.push(journal.set_affinity(self.kernel, tid, wanted)?);
            }
        }
        let found = self.kernel.affinity(tid)?;
        if found != wanted {
            return Err(EnforceError::NotAsSet {
                tid,
                wanted: format!("CPUs {wanted}"),
                found: format!("CPUs {found}"),
            });
        }
        Ok(())
    }

    /// Takes back what was changed of others, last first, and says what could not be; ends of threads are no
    /// failure, and what somebody changed after us stays as they want it.
    pub fn undo(&mut self) -> Vec<JournalError> {
        let Some(journal) = self.journal else { return Vec::new() };
        let undo = |id| journal.undo(self.kernel, id).map(|_: Undone| ());
        self.entries.drain(..).rev().filter_map(|id| undo(id).err()).collect()
    }
}

/// Whether a thread has what it was given.
///
/// # Errors
/// The kernel took it and did something else, or does not say what the thread has.
pub fn verify_scheduler(kernel: &dyn Kernel, tid: Tid, wanted: &SchedAttr) -> Result<(), EnforceError> {
    let wanted = &kernel.as_told(*wanted);
    let found = kernel.scheduler(tid)?;
    if found.is_result_of(wanted) {
        return Ok(());
    }
    if let Some(slice) = left_out(wanted, &found)
        && let Some(release) = release_without_slices(kernel)
    {
        return Err(EnforceError::NoSlices { tid, slice, release });
    }
    Err(EnforceError::NotAsSet { tid, wanted: describe(wanted), found: describe(&found) })
}

/// The release of the running kernel, where it is one that knows no slices of threads.
fn release_without_slices(kernel: &dyn Kernel) -> Option<String> {
    let release = kernel.read_text(Path::new(RELEASE)).ok()?;
    (keeps_slices(&release) == Some(false)).then(|| release.trim().to_owned())
}

/// The slice that was asked for, where all else is as asked and there is none.
fn left_out(wanted: &SchedAttr, found: &SchedAttr) -> Option<Nanos> {
    let SchedPolicy::Other { nice, slice: Some(slice) } = wanted.policy else { return None };
    let without = SchedAttr { policy: SchedPolicy::Other { nice, slice: None }, ..*wanted };
    found.is_result_of(&without).then_some(slice)
}

impl Drop for Enforcer<'_> {
    fn drop(&mut self) {
        // What fails here stays in the journal, and the next start tries again.
        let _ = self.undo();
    }
}
