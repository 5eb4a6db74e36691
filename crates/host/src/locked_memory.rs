//! [`LockedMemory`]: no page fault while a run lasts.

use surety_kernel::thread;

/// The process's memory, locked and faulted in while a run lasts, where the user may.
pub(crate) struct LockedMemory {
    refused: Option<String>,
}

impl LockedMemory {
    /// Locks what is mapped now and later (mlockall).
    pub fn lock() -> LockedMemory {
        LockedMemory { refused: thread::lock_memory().err().map(|e| e.to_string()) }
    }

    /// `locked`, or why not.
    pub fn in_words(&self) -> String {
        self.refused.as_ref().map_or_else(|| "locked".to_owned(), |why| format!("not locked: {why}"))
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        if self.refused.is_none() {
            thread::unlock_memory();
        }
    }
}
