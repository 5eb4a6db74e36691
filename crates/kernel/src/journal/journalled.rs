//! [`Journalled`]: an entry of the journal that is undone when its owner is done with it.

use super::{Entry, EntryId, Journal, JournalError};
use crate::kernel::Kernel;

/// An entry of the journal that is undone when this is dropped, or at the next start.
pub struct Journalled<'a> {
    journal: &'a Journal,
    kernel: &'a dyn Kernel,
    id: EntryId,
}

impl<'a> Journalled<'a> {
    /// Puts an entry in the journal.
    ///
    /// # Errors
    /// Where it cannot be written down.
    pub fn record(
        journal: &'a Journal,
        kernel: &'a dyn Kernel,
        entry: Entry,
    ) -> Result<Journalled<'a>, JournalError> {
        Ok(Journalled { journal, kernel, id: journal.record(entry)? })
    }

    /// Takes charge of an entry that is in the journal already.
    pub fn of(journal: &'a Journal, kernel: &'a dyn Kernel, id: EntryId) -> Journalled<'a> {
        Journalled { journal, kernel, id }
    }
}

impl std::fmt::Debug for Journalled<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Journalled").field(&self.id).finish()
    }
}

impl Drop for Journalled<'_> {
    fn drop(&mut self) {
        // What fails here stays in the journal, and the next start tries again.
        let _ = self.journal.undo(self.kernel, self.id);
    }
}
