//! [`LiveRecording`]: scheduling events handed on a round after they were recorded, and kept nowhere.

use std::sync::Arc;

use surety_kernel::journal::{Journal, Journalled};
use surety_kernel::tracefs::{RawPages, TraceInstance, Tracefs};
use surety_kernel::{Kernel, KernelError};
use surety_model::event::TraceSink;
use surety_trace::LivePages;
use surety_units::{CpuId, CpuSet, Nanos};

use super::collector::BEING_WRITTEN;
use super::journalled::entered;
use super::{Buffers, RecordingError, RecordingOptions};

/// A recording that is read by its caller, a round at a time. Nothing is on disk.
pub struct LiveRecording<'a> {
    // Dropped in this order.
    readers: Vec<RawPages>,
    instance: Arc<TraceInstance>,
    entry: Option<Journalled<'a>>,
    pages: LivePages,
    page: Vec<u8>,
}

impl<'a> LiveRecording<'a> {
    /// Starts recording in an instance named after this process; with a journal, the name is in it before the instance is made.
    /// Of the options the events and the buffer count.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn start(
        tracefs: &Tracefs,
        journal: Option<&'a Journal>,
        kernel: &'a dyn Kernel,
        options: &RecordingOptions,
        cpus: &CpuSet,
    ) -> Result<LiveRecording<'a>, RecordingError> {
        let (name, entry) = entered(journal, kernel)?;
        let Buffers { readers, instance, texts } = Buffers::make(tracefs, &name, options, cpus)?;
        let page_size = instance.page_size()?;
        let pages = texts.live(page_size)?;
        instance.set_recording(true)?;
        Ok(LiveRecording { readers, instance, entry, pages, page: vec![0; page_size] })
    }

    /// Whether a killed run would leave nothing.
    pub fn is_journalled(&self) -> bool {
        self.entry.is_some()
    }

    /// Hands on what was recorded before `now`, CLOCK_MONOTONIC, less what a CPU may still be writing; returns until when that is. A page that
    /// is being filled while it is read ends the round of its CPU.
    ///
    /// # Errors
    /// Pages that cannot be read.
    pub fn round<K: TraceSink + ?Sized>(&mut self, now: Nanos, sink: &mut K) -> Result<Nanos, KernelError> {
        let until = now - BEING_WRITTEN;
        for reader in &mut self.readers {
            let cpu: CpuId = reader.cpu();
            // What is recorded while this reads would keep it here for ever on a busy machine.
            while let Some(page) = reader.read_page(&mut self.page)? {
                self.pages.push(cpu, page);
                let begin = u64::from_ne_bytes(page[..8].try_into().expect("a page begins with its time"));
                if begin >= now.get_unsigned() {
                    break;
                }
            }
        }
        self.pages.flush(until, sink);
        Ok(until)
    }

    /// Events that were lost so far: overwritten before they were read.
    ///
    /// # Errors
    /// Counts that cannot be read.
    pub fn lost(&self) -> Result<u64, KernelError> {
        let of = |reader: &RawPages| Ok(self.instance.stats(reader.cpu())?.lost());
        self.readers.iter().map(of).sum()
    }
}
