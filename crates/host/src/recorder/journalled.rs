//! [`JournalledRecording`]: a recording that a killed run leaves nothing of.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use surety_kernel::journal::{Entry, Journal, Journalled};
use surety_kernel::tracefs::{Marker, Tracefs};
use surety_kernel::{Kernel, KernelError};
use surety_units::{CpuSet, Tid};

use super::{RawTrace, Recording, RecordingError, RecordingOptions};

/// A recording with its entry in the journal. The entry is closed once the instance is gone.
#[derive(Debug)]
pub struct JournalledRecording<'a> {
    // Dropped in this order.
    recording: Recording,
    entry: Option<Journalled<'a>>,
}

/// A name for an instance of this process, which is in the journal from now on, where there is one.
pub(super) fn entered<'a>(
    journal: Option<&'a Journal>,
    kernel: &'a dyn Kernel,
) -> Result<(String, Option<Journalled<'a>>), RecordingError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("surety-{}-{number}", kernel.own_pid());
    let entry = journal
        .map(|journal| Journalled::record(journal, kernel, Entry::TraceInstance { name: name.clone() }))
        .transpose()?;
    Ok((name, entry))
}

/// Records all threads of these processes. Threads that recorded ones make are recorded already; others are looked for until
/// there are none.
fn add_threads_of(pids: &[Tid], recording: &Recording, kernel: &dyn Kernel) -> Result<(), RecordingError> {
    for pid in pids {
        if kernel.owner(*pid)?.process != *pid {
            continue;
        }
        let mut known = BTreeSet::from([*pid]);
        loop {
            let new: Vec<Tid> = kernel.threads(*pid)?.into_iter().filter(|tid| known.insert(*tid)).collect();
            if new.is_empty() {
                break;
            }
            recording.add_threads(&new)?;
        }
    }
    Ok(())
}

impl<'a> JournalledRecording<'a> {
    /// Starts a recording in an instance named after this process; with a journal, the name is in it before the instance
    /// is made. Of processes all threads are recorded. See [`Recording::start`].
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn start(
        tracefs: &Tracefs,
        journal: Option<&'a Journal>,
        kernel: &'a dyn Kernel,
        options: &RecordingOptions,
        cpus: CpuSet,
    ) -> Result<JournalledRecording<'a>, RecordingError> {
        let (name, entry) = entered(journal, kernel)?;
        let recording = Recording::start(tracefs, &name, options, cpus)?;
        add_threads_of(&options.pids, &recording, kernel)?;
        Ok(JournalledRecording { recording, entry })
    }

    /// A handle that writes markers into this recording.
    pub fn marker(&self) -> Marker {
        self.recording.marker()
    }

    /// Whether a limit of its own ended it, or something failed.
    pub fn is_over(&self) -> bool {
        self.recording.is_over()
    }

    /// Stops recording, carries off the rest, removes the instance and closes the entry.
    ///
    /// # Errors
    /// What the kernel refuses, and pages that cannot be read or kept.
    pub fn finish(self) -> Result<RawTrace, KernelError> {
        let JournalledRecording { recording, entry } = self;
        let finished = recording.finish();
        drop(entry);
        finished
    }
}
