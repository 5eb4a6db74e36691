//! [`TraceInstance`]: buffers of our own inside tracefs, and the [`Marker`] that writes into them.
//!
//! An instance leaves everybody else's tracing alone. It is removed when dropped.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use surety_units::{Bytes, CpuId};

use super::raw::{CpuStats, RawPages};
use super::{Tracefs, split_event};
use crate::error::{KernelError, Operation};
use crate::files::{make_dir, read_text, remove_dir, write_text};

/// An instance directory: its events, clock and buffers are nobody else's. Removed on drop.
///
/// Readers ([`RawPages`]) and markers must be dropped first, or the kernel keeps the directory (EBUSY); then a
/// later [`TraceInstance::remove`] or the journal removes it.
#[derive(Debug)]
pub struct TraceInstance {
    tracefs: Tracefs,
    name: String,
    path: PathBuf,
}

impl TraceInstance {
    pub(super) fn create(tracefs: Tracefs, name: &str) -> Result<TraceInstance, KernelError> {
        let path = tracefs.instance_path(name)?;
        make_dir(&path)?;
        let instance = TraceInstance { tracefs, name: name.to_owned(), path };
        // A new instance records from the start; ours record only when told to.
        instance.set_recording(false)?;
        Ok(instance)
    }

    /// Its name under `instances/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory; valid in this process while the instance lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file system it is in.
    pub fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }

    /// Removes it now and says whether that worked; dropping does the same silently.
    pub fn remove(self) -> Result<(), KernelError> {
        remove_dir(&self.path)
    }

    /// Chooses the clock of time stamps, such as `"mono"`: CLOCK_MONOTONIC. Empties the buffers.
    pub fn set_clock(&self, clock: &str) -> Result<(), KernelError> {
        write_text(&self.path.join("trace_clock"), clock)
    }

    /// Sets the size of each CPU's buffer; the kernel rounds up to whole pages.
    pub fn set_buffer_size(&self, per_cpu: Bytes) -> Result<(), KernelError> {
        let kib = per_cpu.0.div_ceil(1024).max(1);
        write_text(&self.path.join("buffer_size_kb"), &kib.to_string())
    }

    /// Sets a trace option: `overwrite` (drop the oldest when full, else the newest), `record-cmd`, ...
    pub fn set_option(&self, option: &str, on: bool) -> Result<(), KernelError> {
        write_text(&self.path.join("options").join(option), if on { "1" } else { "0" })
    }

    /// Starts or stops recording. What was recorded can still be read after stopping.
    pub fn set_recording(&self, on: bool) -> Result<(), KernelError> {
        write_text(&self.path.join("tracing_on"), if on { "1" } else { "0" })
    }

    /// Enables events by `system:event` and returns those this kernel does not have.
    ///
    /// # Errors
    /// Only for events that are there and cannot be enabled.
    pub fn enable_events<'a>(&self, events: &[&'a str]) -> Result<Vec<&'a str>, KernelError> {
        let mut missing = Vec::new();
        for event in events {
            let path = self.event_path(event)?;
            if path.exists() {
                write_text(&path.join("enable"), "1")?;
            } else {
                missing.push(*event);
            }
        }
        Ok(missing)
    }

    /// A handle that writes text into the trace.
    pub fn marker(&self) -> Result<Marker, KernelError> {
        let path = self.path.join("trace_marker");
        let file = OpenOptions::new()
            .write(true)
            .open(&path)
            .map_err(|e| KernelError::from_io(Operation::Open, path.display().to_string(), &e))?;
        Ok(Marker { file: Arc::new(file) })
    }

    /// A reader of one CPU's raw pages.
    pub fn raw_pages(&self, cpu: CpuId) -> Result<RawPages, KernelError> {
        RawPages::open(&self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")), cpu, self.page_size()?)
    }

    /// The size of a page of the ring buffer in bytes.
    ///
    /// The instance's own `buffer_subbuf_size_kb` says it since 6.8; before, pages are as `header_page` has them.
    pub fn page_size(&self) -> Result<usize, KernelError> {
        let own = self.path.join("buffer_subbuf_size_kb");
        if let Ok(text) = read_text(&own)
            && let Ok(kib) = text.trim().parse::<usize>()
        {
            return Ok(kib * 1024);
        }
        let text = self.tracefs.header_page()?;
        super::raw::page_size_of_header(&text)
            .ok_or_else(|| KernelError::new(Operation::Read, "events/header_page", libc::EIO))
    }

    /// What one CPU's buffer has held and lost.
    pub fn stats(&self, cpu: CpuId) -> Result<CpuStats, KernelError> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/stats"));
        CpuStats::parse(&read_text(&path)?)
            .ok_or_else(|| KernelError::new(Operation::Read, path.display().to_string(), libc::EIO))
    }

    pub(super) fn event_path(&self, event: &str) -> Result<PathBuf, KernelError> {
        let (system, name) = split_event(event)?;
        Ok(self.path.join("events").join(system).join(name))
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        // A failure is left to the journal, which knows the name.
        let _ = remove_dir(&self.path);
    }
}

/// Writes marks into a trace. Cheap to clone, usable from any thread; one system call a mark.
#[derive(Clone, Debug)]
pub struct Marker {
    file: Arc<File>,
}

impl Marker {
    /// Writes one mark; it becomes an `ftrace:print` event of the calling thread. A mark longer than about a
    /// page is cut by the kernel. While recording is off the mark is not kept, which is no error.
    pub fn mark(&self, text: &[u8]) -> Result<(), KernelError> {
        match (&*self.file).write(text) {
            Ok(_) => Ok(()),
            // EBADF is how the kernel says that recording is off.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(()),
            Err(error) => Err(KernelError::from_io(Operation::Write, "trace_marker", &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instance to test with, or a loud reason why not.
    fn instance(label: &str) -> Option<TraceInstance> {
        let name = format!("surety-test-{}-{label}", std::process::id());
        match Tracefs::open().and_then(|tracefs| tracefs.create_instance(&name)) {
            Ok(instance) => Some(instance),
            Err(error) if error.is_refused() => {
                eprintln!("SKIPPED: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn an_instance_is_gone_when_it_is_dropped() {
        let Some(instance) = instance("drop") else { return };
        let (tracefs, name) = (instance.tracefs().clone(), instance.name().to_owned());
        assert!(tracefs.instances().unwrap().contains(&name));
        assert_eq!(tracefs.create_instance(&name).unwrap_err().errno, libc::EEXIST);
        drop(instance);
        assert!(!tracefs.instances().unwrap().contains(&name));
        for bad in ["", "..", "a/b", ".x"] {
            assert_eq!(tracefs.create_instance(bad).unwrap_err().errno, libc::EINVAL, "{bad}");
        }
    }

    #[test]
    fn an_instance_outlives_its_mount_and_is_found_by_name_through_another() {
        let Some(instance) = instance("crash") else { return };
        let name = instance.name().to_owned();
        // What a `kill -9` does: the descriptor goes, Drop does not run.
        let TraceInstance { tracefs, .. } = &*std::mem::ManuallyDrop::new(instance);
        if let Some(mount) = &tracefs.mount {
            use std::os::fd::{AsFd, AsRawFd};
            // SAFETY: the owner is never dropped, so the descriptor is closed only here; nothing uses it again.
            unsafe { libc::close(mount.as_fd().as_raw_fd()) };
        }
        let again = Tracefs::open().unwrap();
        assert!(again.instances().unwrap().contains(&name));
        remove_dir(&again.instance_path(&name).unwrap()).unwrap();
        assert!(!again.instances().unwrap().contains(&name));
    }

    #[test]
    fn marks_and_switches_come_back_as_raw_pages_even_from_a_page_not_full() {
        let Some(instance) = instance("pages") else { return };
        instance.set_clock("mono").unwrap();
        instance.set_buffer_size(Bytes(256 * 1024)).unwrap();
        instance.set_option("overwrite", false).unwrap();
        let missing = instance.enable_events(&["sched:sched_switch", "sched:no_such_event"]).unwrap();
        assert_eq!(missing, ["sched:no_such_event"]);

        let marker = instance.marker().unwrap();
        marker.mark(b"before recording: not kept").unwrap();
        let start = crate::clock::monotonic().get_unsigned();
        instance.set_recording(true).unwrap();
        marker.mark(b"surety mark one").unwrap();
        crate::clock::sleep_until(crate::clock::monotonic() + surety_units::Nanos::MILLISECOND, None)
            .unwrap();
        marker.mark(b"surety mark two").unwrap();
        instance.set_recording(false).unwrap();
        let end = crate::clock::monotonic().get_unsigned();

        let mut page = vec![0; instance.page_size().unwrap()];
        let (mut text, mut pages, mut entries, mut lost) = (Vec::new(), 0, 0, 0);
        let cpus = crate::sched::read_affinity(surety_units::Tid(0)).unwrap();
        for cpu in cpus.iter() {
            entries += instance.stats(cpu).unwrap().entries;
            let mut reader = instance.raw_pages(cpu).unwrap();
            while let Some(bytes) = reader.read_page(&mut page).unwrap() {
                let stamp = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
                assert!((start..=end).contains(&stamp), "{stamp} not in {start}..={end}");
                text.extend_from_slice(bytes);
                pages += 1;
            }
            lost += instance.stats(cpu).unwrap().lost();
        }
        if lost > 0 {
            eprintln!("SKIPPED: others switched so often meanwhile that {lost} events found no room");
            return;
        }
        let found = |mark: &[u8]| text.windows(mark.len()).filter(|w| *w == mark).count();
        assert_eq!((found(b"surety mark one"), found(b"surety mark two")), (1, 1), "{pages} pages");
        assert_eq!(found(b"before recording"), 0);
        assert!(entries >= 3, "two marks and a switch, {entries} entries");
        assert!(instance.tracefs().event_format("sched:sched_switch").unwrap().contains("prev_state"));
        assert!(instance.tracefs().event_format("ftrace:print").is_ok());
        drop(marker);
        instance.remove().unwrap();
    }

    #[test]
    fn a_full_buffer_counts_what_it_dropped() {
        let Some(instance) = instance("full") else { return };
        instance.set_buffer_size(Bytes(4096)).unwrap();
        instance.set_option("overwrite", false).unwrap();
        instance.set_recording(true).unwrap();
        let marker = instance.marker().unwrap();
        for _ in 0..2_000 {
            marker.mark(&[b'x'; 200]).unwrap();
        }
        let cpus = crate::sched::read_affinity(surety_units::Tid(0)).unwrap();
        let lost: u64 = cpus.iter().map(|cpu| instance.stats(cpu).unwrap().lost()).sum();
        let kept: u64 = cpus.iter().map(|cpu| instance.stats(cpu).unwrap().entries).sum();
        assert!(lost > 0);
        assert_eq!(kept + lost, 2_000);
    }
}
