//! [`ChildrenEntry`]: what programs of a run, and all they start, are marked with, and the control group they are in: whoever still
//! carries the mark or is in the group at the end of the run, or at the next start of this program, is ended.

use surety_kernel::Kernel;
use surety_kernel::command::end_adopted;
use surety_kernel::journal::{Journal, Journalled};
use surety_model::workload::{Load, TaskBody, Workload};

/// The mark, and its entry in the journal.
pub struct ChildrenEntry<'a> {
    mark: String,
    // The group first: whoever is in it ends without a look at the environment of every process.
    _group: Option<Journalled<'a>>,
    _entry: Journalled<'a>,
}

impl<'a> ChildrenEntry<'a> {
    /// Where the workload starts programs and there is a journal.
    pub fn open(
        workload: &Workload,
        journal: Option<&'a Journal>,
        kernel: &'a dyn Kernel,
    ) -> Option<ChildrenEntry<'a>> {
        let of_tasks = workload.tasks.iter().any(|t| matches!(t.body, TaskBody::Command(_)));
        let of_tasks = of_tasks || !workload.startups.is_empty();
        let has_programs = of_tasks || !workload.disks.is_empty() || has_processes(&workload.loads);
        has_programs.then(|| ChildrenEntry::mark_in(journal?, kernel)).flatten()
    }

    /// For programs that are started anyhow.
    pub fn of_command(journal: Option<&'a Journal>, kernel: &'a dyn Kernel) -> Option<ChildrenEntry<'a>> {
        ChildrenEntry::mark_in(journal?, kernel)
    }

    /// The same for loads alone.
    pub fn of_loads(
        loads: &[Load],
        journal: Option<&'a Journal>,
        kernel: &'a dyn Kernel,
    ) -> Option<ChildrenEntry<'a>> {
        has_processes(loads).then(|| ChildrenEntry::mark_in(journal?, kernel)).flatten()
    }

    fn mark_in(journal: &'a Journal, kernel: &'a dyn Kernel) -> Option<ChildrenEntry<'a>> {
        let (id, mark) = journal.mark_children(kernel).ok()?;
        let entry = Journalled::of(journal, kernel, id);
        let group = journal.group_children(kernel, &mark).map(|id| Journalled::of(journal, kernel, id));
        Some(ChildrenEntry { mark, _group: group, _entry: entry })
    }

    /// What they carry.
    pub fn mark(&self) -> &str {
        &self.mark
    }
}

impl Drop for ChildrenEntry<'_> {
    /// Ends those that dropped the mark; the entry ends those that carry it.
    fn drop(&mut self) {
        end_adopted();
    }
}

/// Whether any of these loads makes processes.
fn has_processes(loads: &[Load]) -> bool {
    loads.iter().any(|load| load.kind.row().has_processes)
}
