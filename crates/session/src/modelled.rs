//! [`ModelledDisks`]: the disks that a workload wants as fast as a model, for runs on this kernel.
//!
//! The host world knows no models, and what emulates disks knows no workloads: they meet here.

use std::path::PathBuf;

use surety_device::SECTOR;
use surety_device::profile::Profile;
use surety_emudisk::{EmulatedDisk, EmulationError, Fault, Plan, SPIN};
use surety_host::disks::{Emulated, Emulator, Modelled};
use surety_kernel::Kernel;
use surety_kernel::block::BlockDevice;
use surety_kernel::journal::Journal;
use surety_model::workload::Fails;
use surety_model::world::WorldError;
use surety_units::{Bytes, Nanos};

/// The size of a disk whose `make` says none, where its model has more.
const SIZE: Bytes = Bytes(1 << 30);

/// Makes disks with a model. The program that runs is their watchdog: its `main` begins with [`surety_emudisk::watchdog_main`].
#[derive(Debug)]
pub struct ModelledDisks {
    /// How long the threads that answer spin before an instant.
    spin: Nanos,
    /// Whether memory for whatever is written was seen to before.
    is_provided: bool,
}

impl ModelledDisks {
    /// On a machine with a clock of its own.
    pub const HOST: ModelledDisks = ModelledDisks { spin: SPIN, is_provided: false };

    /// In a guest of the lab: a sleep ends at its instant of the virtual clock, and who spins takes the only CPU from those who use the
    /// disk. Its memory was held against what is written before it booted.
    pub const GUEST: ModelledDisks = ModelledDisks { spin: Nanos::ZERO, is_provided: true };
}

impl Emulator for ModelledDisks {
    fn make<'a>(
        &self,
        wanted: &Modelled<'_>,
        kernel: &'a dyn Kernel,
        journal: Option<&'a Journal>,
    ) -> Result<Box<dyn Emulated + 'a>, WorldError> {
        let profile = profile_of(wanted)?;
        let size = wanted.size.map_or((profile.sectors() * SECTOR).min(SIZE.0), |size| size.0);
        let watchdog = PathBuf::from("/proc/self/exe");
        let needs = if self.is_provided { 0 } else { size };
        let plan = Plan {
            profile,
            bytes: size,
            needs,
            backing: None,
            seed: wanted.seed,
            spin: self.spin,
            faults: wanted.faults.iter().map(fault).collect(),
            watchdog,
        };
        let made = plan.check(kernel).and_then(|()| match journal {
            Some(journal) => EmulatedDisk::make(&plan, kernel, journal),
            None => Err(EmulationError::NoJournal),
        });
        let disk = made.map_err(|error| WorldError::MachineFor {
            object: format!("disk.{}", wanted.name),
            what: format!("disk.{} cannot be as fast as {}", wanted.name, wanted.model),
            remedy: error.to_string(),
        })?;
        Ok(Box::new(Disk { disk, size: Bytes(size) }))
    }
}

/// A disk, and how large it was made.
#[derive(Debug)]
struct Disk<'a> {
    disk: EmulatedDisk<'a>,
    size: Bytes,
}

impl Emulated for Disk<'_> {
    fn device(&self) -> &BlockDevice {
        self.disk.device()
    }

    fn requests_scheduled(&self) -> u32 {
        self.disk.profile().requests_scheduled()
    }

    fn begin(&self) {
        self.disk.begin();
    }

    fn pause(&self) {
        self.disk.pause();
    }

    fn forget_cache(&self) {
        self.disk.forget_cache();
    }

    fn said(&self) -> Vec<(&'static str, String)> {
        let profile = self.disk.profile();
        let way = self.disk.way();
        let way = match self.disk.beyond_way() {
            Some(beyond) => format!("{way} taken off, {beyond} in the mean beyond it"),
            None => format!("{way} taken off"),
        };
        let tags = self.disk.device().tags().map_or_else(
            || "an unknown number of requests".to_owned(),
            |tags| if tags == 1 { "1 request".to_owned() } else { format!("{tags} requests") },
        );
        let depth = format!("the kernel sends {tags} at a time, the disk takes {}", profile.depth());
        let lateness =
            self.disk.summary().map_or_else(|| "no requests".to_owned(), |summary| summary.to_string());
        vec![
            ("model", format!("{}, its first {} in memory", profile.name, self.size)),
            ("depth", depth),
            ("lateness", lateness),
            ("way", way),
        ]
    }

    fn objection(&self) -> Option<String> {
        self.disk.trouble().or_else(|| self.disk.objection())
    }
}

/// A part that fails, as the disk is told of it.
pub fn fault(of: &surety_model::workload::Fault) -> Fault {
    let (reads, writes) = (of.fails != Fails::Writes, of.fails != Fails::Reads);
    Fault { range: of.at.0..of.at.0.saturating_add(of.bytes.0), reads, writes }
}

fn profile_of(wanted: &Modelled<'_>) -> Result<Profile, WorldError> {
    Profile::of_model(wanted.model, wanted.files).map_err(|why| WorldError::Unsupported {
        world: "host".to_owned(),
        object: format!("disk.{}.model", wanted.name),
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use surety_kernel::ScriptedKernel;

    #[test]
    fn what_cannot_be_a_modelled_disk_is_refused_in_words_before_anything_is_made() {
        let (kernel, files) = (ScriptedKernel::new(1), BTreeMap::new());
        let words = |model: &str, size: u64| {
            let wanted =
                Modelled { name: "d", model, size: Some(Bytes(size)), seed: 1, faults: &[], files: &files };
            ModelledDisks::HOST.make(&wanted, &kernel, None).unwrap_err().to_string()
        };
        assert!(words("hdd-2040", 1 << 30).contains("did you mean `hdd-2004`"));
        assert!(words("hdd-2004", (1 << 30) + 1).contains("multiple of 4096"));
        assert!(words("hdd-2004", 1 << 50).contains("modelled device has"));
    }
}
