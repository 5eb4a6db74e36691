//! [`Profile`]: a device as a file describes it, in TOML, each number with its source in a comment beside it.
//!
//! ```toml
//! format = 1
//! model = "fixed"
//! about = "What it stands for, in a sentence."
//! sources = ["Where its numbers are from"]
//!
//! size = "1GiB"
//! read = "100us"
//! write = "100us"
//! flush = "1ms"
//! depth = 1
//! ```
//!
//! What follows the first four keys is the model's own ([`MODELS`]). A profile of one's own loads as those of [`PROFILES`] do; what
//! is wrong with it is told with its line and column, nothing is filled in silently, and a device that could not be is refused.

mod flash;
mod hdd;
mod keys;
mod others;
mod quantity;
mod show;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::fixed::Fixed;
use crate::flash::Flash;
use crate::hdd::Hdd;
use crate::model::Model;
use crate::virtio::Virtio;
use surety_model::source::{Diagnostic, Diagnostics, nearest};
use surety_units::Nanos;

use keys::keys;
use quantity::{DISK_MAX, Size, Time};
pub use show::{Line, capacity, list, show};

/// What a device is made from.
#[derive(Clone, Debug)]
pub enum Device {
    Fixed(crate::fixed::Parameters),
    Hdd(Box<crate::hdd::Parameters>),
    Flash(Box<crate::flash::Parameters>),
    Virtio(crate::virtio::Parameters, Box<Profile>),
}

/// A device with what is said about it.
#[derive(Clone, Debug)]
pub struct Profile {
    /// By which it is chosen.
    pub name: String,
    /// Word of its model.
    pub model: &'static str,
    /// What it stands for, in a sentence.
    pub about: String,
    /// Where its numbers are from.
    pub sources: Vec<String>,
    /// Where it was measured: of the reads that were made one at a time the one that took longest, as against what the model takes at most.
    pub slowest_read: Option<SlowestRead>,
    pub device: Device,
}

/// A read that was made alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowestRead {
    pub sectors: u64,
    pub took: Nanos,
}

/// A model: its word, what it is, and what reads its keys.
pub struct ModelRow {
    pub word: &'static str,
    /// What it stands for, in a sentence.
    pub about: &'static str,
    /// What it has, in the words of docs/disk-models.md.
    pub has: &'static str,
    /// What it has not.
    pub lacks: &'static str,
    read: fn(&str, &mut Open<'_>) -> Result<Device, Diagnostic>,
}

/// Gives the text of another profile by its name; or says why not.
pub type Open<'a> = dyn FnMut(&str) -> Result<Profile, String> + 'a;

/// The models there are.
pub const MODELS: &[ModelRow] = &[
    ModelRow {
        word: "fixed",
        about: "every request takes the same time",
        has: "a time by kind of request, a rate, lanes",
        lacks: "any memory of what came before",
        read: others::fixed,
    },
    ModelRow {
        word: "hdd",
        about: "a hard disk",
        has: "zones, skews, spares, seek curve, head switch, exact rotation, read segments and read-ahead, zero-latency access, \
              write-back, command queue by positioning time with an age limit, flush, retries",
        lacks: "power states, vibration, sectors moved to spare ones, host-managed and drive-managed shingling",
        read: hdd::read,
    },
    ModelRow {
        word: "flash",
        about: "a solid state disk",
        has: "channels, dies, reads first with program suspend, write buffer, cleaning, several sequential writers, fast cells, flush, discard",
        lacks: "a page map, what an earlier load left in the cells, page types of their own speed, wear, reads from the write buffer, several submission queues",
        read: flash::read,
    },
    ModelRow {
        word: "emmc",
        about: "an eMMC or a memory card: flash that takes one command at a time",
        has: "what flash has, at depth 1",
        lacks: "the command queue of eMMC 5.1, packed commands",
        read: flash::read_card,
    },
    ModelRow {
        word: "virtio",
        about: "a virtual disk: a queue and the host's thread in front of another device",
        has: "queue, wake-up and time of the thread, the device behind",
        lacks: "the host's scheduler, its page cache, several queues",
        read: others::virtio,
    },
];

/// Profiles that come with the program: name and text.
pub const PROFILES: &[(&str, &str)] = &[
    ("emmc", include_str!("profiles/emmc.toml")),
    ("hdd-2004", include_str!("profiles/hdd-2004.toml")),
    ("hdd-7200", include_str!("profiles/hdd-7200.toml")),
    ("null", include_str!("profiles/null.toml")),
    ("nvme", include_str!("profiles/nvme.toml")),
    ("ssd-sata", include_str!("profiles/ssd-sata.toml")),
    ("virtio-hdd", include_str!("profiles/virtio-hdd.toml")),
];

/// How the files end in which DiskSim describes a drive.
const DISKSIM: &str = ".diskspecs";

/// What every profile begins with.
#[derive(Deserialize)]
struct Head {
    format: Spanned<i64>,
    model: Spanned<String>,
    about: String,
    sources: Vec<String>,
    slowest_read: Option<SlowestReadKeys>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SlowestReadKeys {
    bytes: Size<DISK_MAX>,
    took: Time<3600>,
}

impl Profile {
    /// The profile of a name that comes with the program.
    pub fn named(name: &str) -> Option<Profile> {
        let (name, text) = PROFILES.iter().find(|row| row.0 == name)?;
        Some(Profile::read(name, name, text).unwrap_or_else(|wrong| panic!("a profile of our own: {wrong}")))
    }

    /// The profile of a disk's `model`: of a file among texts by their paths, or one of ours.
    ///
    /// # Errors
    /// What is wrong with the file, or that it is not there; no such model, with the nearest and what there is.
    pub fn of_model(model: &str, files: &BTreeMap<String, String>) -> Result<Profile, String> {
        if let Some(read) = Profile::among(model, files) {
            return read.map_err(|wrong| wrong.to_string());
        }
        if Profile::is_file(model) {
            return Err(format!("its profile `{model}` was not given; keep it beside the workload"));
        }
        Profile::named(model).ok_or_else(|| {
            let names: Vec<&str> = PROFILES.iter().map(|row| row.0).collect();
            let meant = nearest(model, names.iter().copied()).map(|near| format!("did you mean `{near}`? "));
            format!(
                "there is no model `{model}`; {}name a profile's file (FILE.toml), one of DiskSim (FILE.diskspecs), or one of {}",
                meant.unwrap_or_default(),
                names.join(", ")
            )
        })
    }

    /// Reads a profile. `name` is what it will be called, `file` what messages call the text.
    pub fn read(name: &str, file: &str, text: &str) -> Result<Profile, Diagnostics> {
        let mut open = |behind: &str| {
            Profile::named(behind).ok_or_else(|| {
                let names: Vec<&str> = PROFILES.iter().map(|row| row.0).collect();
                format!("there is no profile {behind}; there are {}", names.join(", "))
            })
        };
        Profile::read_with(name, file, text, &mut open)
    }

    /// Reads a profile that may be in front of others, which `open` gives.
    pub fn read_with(
        name: &str,
        file: &str,
        text: &str,
        open: &mut Open<'_>,
    ) -> Result<Profile, Diagnostics> {
        let mut read = || -> Result<Profile, Diagnostic> {
            let head: Head = keys(text)?;
            if *head.format.as_ref() != 1 {
                let message = format!("format {} is not one that is read", head.format.as_ref());
                return Err(Diagnostic::new(head.format.span(), message).help("write `format = 1`"));
            }
            let word = head.model.as_ref();
            let row = MODELS.iter().find(|row| row.word == word).ok_or_else(|| {
                let words: Vec<&str> = MODELS.iter().map(|row| row.word).collect();
                Diagnostic::new(head.model.span(), format!("there is no model `{word}`"))
                    .help(format!("use one of {}", words.join(", ")))
            })?;
            let device = (row.read)(text, open)?;
            let (model, name) = (row.word, name.to_owned());
            let slowest_read =
                head.slowest_read.map(|read| SlowestRead { sectors: read.bytes.0, took: read.took.0 });
            Ok(Profile { name, model, about: head.about, sources: head.sources, slowest_read, device })
        };
        read().map_err(|wrong| Diagnostics::one(file, text, wrong))
    }

    /// Whether a word names a file that describes a device: a profile, or a drive in DiskSim's words.
    pub fn is_file(word: &str) -> bool {
        word.ends_with(".toml") || word.ends_with(DISKSIM)
    }

    /// Reads a file of either kind, whose profile is called `name`. `open` gives the files that DiskSim's one names, by their paths: it
    /// names them as they stand beside it.
    pub fn of_file(
        name: &str,
        file: &str,
        text: &str,
        open: &mut crate::disksim::Open<'_>,
    ) -> Result<Profile, Diagnostics> {
        if !file.ends_with(DISKSIM) {
            return Profile::read(name, file, text);
        }
        let directory = file.rfind('/').map_or("", |slash| &file[..=slash]);
        let mut beside = |inner: &str| open(&format!("{directory}{inner}"));
        crate::disksim::read(file, text, &mut beside).map(Profile::of_drive)
    }

    /// The profile of a file among texts by their paths; `None`: it is not there.
    pub fn among(file: &str, files: &BTreeMap<String, String>) -> Option<Result<Profile, Diagnostics>> {
        let mut open = |path: &str| files.get(path).cloned().ok_or_else(|| "it is not there".to_owned());
        files.get(file).map(|text| Profile::of_file(file, file, text, &mut open))
    }

    /// Of texts by their paths those that the profile of a disk's `model` is made from; none of one of ours.
    pub fn texts_of(model: &str, files: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let Some(text) = files.get(model) else { return BTreeMap::new() };
        let mut found = BTreeMap::from([(model.to_owned(), text.clone())]);
        let mut open = |path: &str| {
            let text = files.get(path).ok_or_else(|| "it is not there".to_owned())?;
            found.insert(path.to_owned(), text.clone());
            Ok(text.clone())
        };
        // What is wrong with it is told by whoever reads it.
        drop(Profile::of_file(model, model, text, &mut open));
        found
    }

    /// A profile of a drive that DiskSim describes.
    pub fn of_drive(drive: crate::disksim::Drive) -> Profile {
        Profile {
            name: drive.name.clone(),
            model: "hdd",
            about: format!("the drive {} as DiskSim describes it", drive.name),
            sources: vec!["DiskSim parameter files".to_owned()],
            slowest_read: None,
            device: Device::Hdd(Box::new(drive.parameters)),
        }
    }

    /// The device at rest. What is left to chance in it follows from the seed.
    pub fn build(&self, seed: u64) -> Box<dyn Model + Send> {
        match &self.device {
            Device::Fixed(parameters) => Box::new(Fixed::new(*parameters)),
            Device::Hdd(parameters) => Box::new(Hdd::new((**parameters).clone(), seed)),
            Device::Flash(parameters) => Box::new(Flash::new((**parameters).clone(), seed)),
            Device::Virtio(parameters, behind) => Box::new(Virtio::new(*parameters, behind.build(seed))),
        }
    }

    /// Whether it turns, as the kernel's `queue/rotational` says.
    pub fn is_rotational(&self) -> bool {
        match &self.device {
            Device::Hdd(_) => true,
            Device::Virtio(_, behind) => behind.is_rotational(),
            _ => false,
        }
    }

    /// Its sectors of 512 bytes.
    pub fn sectors(&self) -> u64 {
        match &self.device {
            Device::Fixed(parameters) => parameters.sectors,
            Device::Hdd(parameters) => parameters.geometry.sectors(),
            Device::Flash(parameters) => parameters.sectors,
            Device::Virtio(parameters, behind) => {
                parameters.sectors.map_or(behind.sectors(), |sectors| sectors.min(behind.sectors()))
            }
        }
    }

    /// Sectors of the longest request that it can be told of; `None`: longer than a kernel makes them. An IDE disk without 48-bit
    /// addresses takes a byte's worth (`ATA_MAX_SECTORS`), the controller of an eMMC 512 KiB (`max_req_size` in `drivers/mmc/host/sdhci.c`).
    pub fn request_sectors_max(&self) -> Option<u32> {
        match self.model {
            "hdd" if self.depth() == 1 && self.sectors() < 1 << 28 => Some(256),
            "emmc" => Some(1024),
            _ => None,
        }
    }

    /// Whether it holds in a volatile cache what was written.
    pub fn has_volatile_cache(&self) -> bool {
        match &self.device {
            Device::Fixed(_) => false,
            Device::Hdd(parameters) => parameters.write_back.is_some(),
            Device::Flash(parameters) => parameters.buffer_sectors > 0 && !parameters.protected,
            Device::Virtio(_, behind) => behind.has_volatile_cache(),
        }
    }

    /// Requests it takes at a time.
    pub fn depth(&self) -> usize {
        match &self.device {
            Device::Fixed(parameters) => parameters.depth,
            Device::Hdd(parameters) => parameters.depth,
            Device::Flash(parameters) => parameters.depth,
            Device::Virtio(parameters, _) => parameters.depth,
        }
    }

    /// Requests that the queue of Linux's driver of such a disk takes with an I/O scheduler: twice its tags, of which no more than 128
    /// count (`blk_mq_init_sched`). Drivers have 32 tags (ATA) or 64 (MMC) where the disk takes fewer requests at a time.
    pub fn requests_scheduled(&self) -> u32 {
        2 * self.driver_tags().min(128)
    }

    /// Whether its driver is asked for room before a request leaves the I/O scheduler (`scsi_mq_get_budget`): hard disks are SCSI's or ATA's, and
    /// so is flash that takes no more than ATA can name. Of others one request waits outside of it for a tag.
    pub fn asks_first(&self) -> bool {
        self.model == "hdd" || (self.model == "flash" && self.depth() <= 32)
    }

    /// Tags of Linux's driver of such a disk.
    pub fn driver_tags(&self) -> u32 {
        let depth = u32::try_from(self.depth()).unwrap_or(u32::MAX);
        depth.max(if self.model == "emmc" { 64 } else { 32 })
    }
}

#[cfg(test)]
mod tests;
