//! [`DiskInUse`]: the disk below a directory of this machine, and its settings for as long as streams are read from it.
//!
//! The same settings as those of a run's disk, by the same code and the same journal; nothing is made on it or mounted.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use surety_kernel::block::{BlockDevice, disks_below};
use surety_kernel::journal::{Journal, Journalled};
use surety_kernel::{Kernel, KernelError};
use surety_model::workload::Disk;
use surety_model::world::{Cancel, WorldError};
use surety_units::Bytes;

use super::limits::{Limits, limit, tune};
use super::{Workshop, in_force, set_scheduler};

/// What streams want of a disk: an I/O scheduler that serves the real-time class first.
const SCHEDULER: &str = "mq-deadline";
/// Requests in its driver, where no I/O scheduler orders them any more: the fewest that the kernel gives a queue.
const DEPTH: u32 = 4;
/// The largest request.
const REQUEST: Bytes = Bytes(128 << 10);
/// Of its I/O scheduler, where that has them: places in the queue for what is written, and that no request of best effort ages within an hour, ms.
const TUNABLES: [(&str, u64); 2] = [("async_depth", 16), (AGING, 3_600_000)];
const AGING: &str = "prio_aging_expire";

/// Where the system's own file systems are.
const OF_SYSTEM: [&str; 7] = ["/", "/usr", "/etc", "/var", "/boot", "/home", "/opt"];

/// A disk that file systems of this machine are on.
#[derive(Debug)]
pub struct DiskInUse {
    device: BlockDevice,
    name: String,
    is_of_system: bool,
}

/// What was set of a disk in use; dropped, all is as before.
#[derive(Debug)]
pub struct PreparedDisk<'a> {
    // In the order in which they are taken back.
    _tunables: Vec<Journalled<'a>>,
    _scheduler: Option<Journalled<'a>>,
    _limits: Limits<'a>,
}

impl DiskInUse {
    /// The disk that the file system of a directory is on.
    ///
    /// # Errors
    /// ENOTBLK where that is on no one disk (tmpfs, overlay, btrfs, a network).
    pub fn below(directory: &Path) -> Result<DiskInUse, KernelError> {
        let device = BlockDevice::below(directory)?;
        let name = device.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let disks = |path: &Path| fs::metadata(path).map(|metadata| disks_below(metadata.dev())).ok();
        let this = disks(directory).unwrap_or_default();
        let of_system = OF_SYSTEM.iter().filter_map(|path| disks(Path::new(path)));
        // Where it cannot be told what a file system of the system is on, it may be on this one.
        let is_of_system =
            of_system.into_iter().any(|all| all.is_empty() || all.iter().any(|disk| this.contains(disk)));
        Ok(DiskInUse { device, name, is_of_system })
    }

    /// The kernel's name of it: `sda`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the root file system, or what belongs to it, is on it: then it is not [prepared](DiskInUse::prepare).
    pub fn is_of_system(&self) -> bool {
        self.is_of_system
    }

    /// What of it has best effort go before streams, in words; nothing: it serves them first as it is, as far as settings say.
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        let scheduler = in_force(&self.device.queue("scheduler").unwrap_or_default());
        if scheduler != SCHEDULER && scheduler != "bfq" {
            lacks.push(format!("its I/O scheduler `{scheduler}` serves no request first for its priority"));
        }
        let aging: Option<u64> = self.tunable(AGING).and_then(|text| text.parse().ok());
        if let Some(ms) = aging.filter(|ms| *ms < TUNABLES[1].1) {
            lacks.push(format!("requests of others that have waited for {ms} ms go first"));
        }
        if let Some(kib) = self.largest_kib().filter(|kib| kib * 1024 > REQUEST.0) {
            lacks.push(format!("a request of others may have {kib} KiB"));
        }
        // With an I/O scheduler the driver's own limit is not to be read.
        if let Some(tags) = self.device.tags().filter(|tags| *tags > DEPTH && !lacks.is_empty()) {
            lacks.push(format!(
                "up to {tags} requests are in its driver, where the I/O scheduler no longer orders them"
            ));
        }
        lacks
    }

    /// Sets it for streams: under the journal, read back.
    ///
    /// # Errors
    /// In words: it is the root file system's, an I/O scheduler or a setting that it has not, no privilege, no journal.
    pub fn prepare<'a>(
        &self,
        kernel: &'a dyn Kernel,
        journal: &'a Journal,
        cancel: &'a Cancel,
    ) -> Result<PreparedDisk<'a>, WorldError> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        if self.is_of_system {
            return Err(WorldError::MachineFor {
                object: format!("disk.{}", self.name),
                what: format!("disk.{} is not prepared: the root file system is on it", self.name),
                remedy: "have the files on a disk of their own".to_owned(),
            });
        }
        let journal = Some(journal);
        let workshop =
            &Workshop { kernel, journal, mark: None, cancel, emulator: None, seed: 1, files: &NONE };
        let wanted = self.wanted();
        let limits = self.device.keeping_read_ahead(|| limit(&wanted, &self.device, workshop))?;
        let scheduler = set_scheduler(&self.name, &self.device, SCHEDULER, workshop)?;
        let tunables = wanted.tunables.into_iter().filter(|(name, _)| self.tunable(name).is_some()).collect();
        let _tunables = tune(&self.name, &tunables, &self.device, workshop)?;
        Ok(PreparedDisk { _tunables, _scheduler: Some(scheduler), _limits: limits })
    }

    fn wanted(&self) -> Disk {
        let is_longer = |kib: u64| kib * 1024 > REQUEST.0;
        Disk {
            name: self.name.clone(),
            scheduler: Some(SCHEDULER.to_owned()),
            depth: Some(DEPTH),
            // One that takes no longer ones is left as it is.
            request: self.largest_kib().is_some_and(is_longer).then_some(REQUEST),
            tunables: TUNABLES.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Disk::default()
        }
    }

    fn tunable(&self, name: &str) -> Option<String> {
        self.device.queue(&format!("iosched/{name}"))
    }

    fn largest_kib(&self) -> Option<u64> {
        self.device.queue("max_sectors_kb")?.parse().ok()
    }
}

/// What [`DiskInUse::prepare`] sets.
impl fmt::Display for DiskInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = self.wanted();
        write!(f, "{SCHEDULER}, {DEPTH} requests in its driver")?;
        if let Some(request) = wanted.request {
            write!(f, " of {request} at most")?;
        }
        TUNABLES.iter().try_for_each(|(name, value)| write!(f, ", {name} {value}"))?;
        f.write_str(" as far as its kernel has them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_kernel::ScriptedKernel;
    use surety_kernel::journal::RuntimeDir;

    /// Nothing of this machine is written to: the scripted kernel would.
    #[test]
    fn the_disk_of_the_root_file_system_is_left_alone() {
        let disk = match DiskInUse::below(Path::new("/")) {
            Ok(disk) => disk,
            Err(error) => return eprintln!("SKIPPED: the root file system is on no disk: {error}"),
        };
        let (kernel, base) = (ScriptedKernel::new(1), tempfile::tempdir().unwrap());
        let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
        assert!(disk.is_of_system());
        let before = kernel.calls().len();
        let refused = disk.prepare(&kernel, &journal, &Cancel::default()).unwrap_err().to_string();
        assert!(refused.contains("is not prepared: the root file system is on it"), "{refused}");
        assert_eq!((kernel.calls().len(), journal.open_entries().len()), (before, 0));
    }

    #[test]
    fn what_is_on_no_disk_has_none() {
        let error = DiskInUse::below(Path::new("/proc")).unwrap_err();
        assert_eq!(error.errno, 15, "{error}");
    }
}
