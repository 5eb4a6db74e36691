//! [`ModelledDisks`]: the disks that a workload wants as fast as a model, for runs on this kernel.
//!
//! The host world knows no models, and what emulates disks knows no workloads: they meet here.

use std::path::PathBuf;

use surety_device::SECTOR;
use surety_device::profile::{PROFILES, Profile};
use surety_emudisk::{EmulatedDisk, EmulationError, Plan};
use surety_host::disks::{Emulated, Emulator, Modelled};
use surety_kernel::Kernel;
use surety_kernel::block::BlockDevice;
use surety_kernel::journal::Journal;
use surety_model::source::nearest;
use surety_model::world::WorldError;
use surety_units::Bytes;

/// The size of a disk whose `make` says none, where its model has more.
const SIZE: Bytes = Bytes(1 << 30);

/// Makes disks with a model. The program that runs is their watchdog: its `main` begins with [`surety_emudisk::watchdog_main`].
#[derive(Debug)]
pub struct ModelledDisks;

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
        let plan = Plan { profile, bytes: size, backing: None, seed: wanted.seed, watchdog };
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

    fn begin(&self) {
        self.disk.begin();
    }

    fn said(&self) -> Vec<(&'static str, String)> {
        let profile = self.disk.profile();
        let unknown = || "not known".to_owned();
        let tags = self.disk.device().tags().map_or_else(unknown, |tags| tags.to_string());
        let depth = format!("the kernel sends {tags} requests at a time, the disk takes {}", profile.depth());
        let lateness =
            self.disk.summary().map_or_else(|| "no requests".to_owned(), |summary| summary.to_string());
        vec![
            ("model", format!("{}, its first {} in memory", profile.name, self.size)),
            ("depth", depth),
            ("lateness", lateness),
            ("way", self.disk.way().map_or_else(unknown, |way| format!("{way} in the mean"))),
        ]
    }

    fn objection(&self) -> Option<String> {
        self.disk.trouble().or_else(|| self.disk.objection())
    }
}

fn profile_of(wanted: &Modelled<'_>) -> Result<Profile, WorldError> {
    let (name, model) = (wanted.name, wanted.model);
    let refuse = |why: String| WorldError::Unsupported {
        world: "host".to_owned(),
        object: format!("disk.{name}.model"),
        why,
    };
    if let Some(read) = Profile::among(model, wanted.files) {
        return read.map_err(|wrong| refuse(wrong.to_string()));
    }
    Profile::named(model).ok_or_else(|| {
        let names: Vec<&str> = PROFILES.iter().map(|row| row.0).collect();
        let meant = nearest(model, names.iter().copied()).map(|near| format!("did you mean `{near}`? "));
        refuse(format!(
            "there is no model `{model}`; {}name a profile's file (FILE.toml), one of DiskSim (FILE.diskspecs), or one of {}",
            meant.unwrap_or_default(),
            names.join(", ")
        ))
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
            let wanted = Modelled { name: "d", model, size: Some(Bytes(size)), seed: 1, files: &files };
            ModelledDisks.make(&wanted, &kernel, None).unwrap_err().to_string()
        };
        assert!(words("hdd-2040", 1 << 30).contains("did you mean `hdd-2004`"));
        assert!(words("hdd-2004", (1 << 30) + 1).contains("multiple of 4096"));
        assert!(words("hdd-2004", 1 << 50).contains("modelled device has"));
    }
}
