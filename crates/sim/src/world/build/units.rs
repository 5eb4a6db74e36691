//! [`Bound`]: what a disk of a workload is simulated as: its device, its I/O scheduler, its driver, and the kernels whose rules it
//! has.

use std::rc::Rc;

use surety_block::elevator::Making;
use surety_block::elevators::{self, ELEVATORS};
use surety_block::{ElevatorRow, Front, IoGroup, Rules, Settings, SettingsError, Throttling, kernels, queue};
use surety_device::model::SECTOR;
use surety_device::profile::Profile;
use surety_model::platform::{DiskDriver, Platform};
use surety_model::source::nearest;
use surety_model::workload::Disk;
use surety_model::world::{RunOptions, WorldError};

use surety_units::{Bytes, Nanos};

use super::super::refuse;
use crate::disk::{self, ReadAhead, Unit, VIRTUAL_DEPTH};
use crate::engine::Slot;

/// The model of a disk that names none.
pub(super) const MODEL: &str = "hdd-7200";
/// The I/O scheduler of one that names none, as the kernel chooses for a device with one queue.
const SCHEDULER: &str = "mq-deadline";
/// Requests of each direction in a queue of 2.6 (`BLKDEV_MAX_RQ`).
const LEGACY_REQUESTS: u32 = 128;
/// Sectors of a request of a loop device on a file of FUSE at most.
const LOOP_SECTORS: u32 = 2048;

/// The rules of blk-mq of a platform: of the kernel that was named, `linux-6.12`. A machine whose own release is its name has those of no
/// kernel in particular, unless its own kernel ran the same disks.
fn rules_of(platform: &Platform) -> &'static Rules {
    let named = platform.name.split(' ').next().and_then(|name| name.strip_prefix("linux-"));
    let of = match platform.disk_driver {
        DiskDriver::OfDisk => Rules::named,
        DiskDriver::Loop { .. } => Rules::of_release,
    };
    named.and_then(of).unwrap_or(&kernels::UNNAMED)
}

/// A disk of a workload as it is simulated.
pub(super) struct Bound {
    /// `None`: it is a virtual machine's.
    pub(super) profile: Option<Profile>,
    row: &'static ElevatorRow,
    settings: Settings,
    rules: &'static Rules,
    read_ahead: ReadAhead,
    driver: DiskDriver,
    /// Requests that the driver takes, and the largest, at most.
    limits: (Option<u32>, Option<Bytes>),
    /// The target of the throttling of what the page cache writes, where it is not off.
    wbt: Option<Nanos>,
}

fn profile_of(disk: &Disk, options: &RunOptions) -> Result<Profile, WorldError> {
    let model = disk.model.as_deref().unwrap_or(MODEL);
    let object = format!("disk.{}.model", disk.name);
    Profile::of_model(model, &options.files).or_else(|why| refuse(object, why))
}

/// The word that was meant, where one is near: `did you mean bfq? `.
fn meant(word: &str, words: &[&str]) -> String {
    nearest(word, words.iter().copied()).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default()
}

fn read_ahead_of(disk: &Disk, object: &str) -> Result<ReadAhead, WorldError> {
    let Some(kernel) = disk.read_ahead.as_deref() else { return Ok(ReadAhead::default()) };
    if let Some((_, rules)) = ReadAhead::WORDS.iter().find(|(word, _)| *word == kernel) {
        return Ok(*rules);
    }
    let words = ReadAhead::WORDS.map(|(word, _)| word).join(", ");
    let why = format!("read-ahead of Linux {kernel} is not simulated; use one of {words}");
    refuse(format!("{object}.read-ahead"), why)
}

/// What is wrong with a tunable that an I/O scheduler has not: who has it, and what this one has.
fn unknown(row: &ElevatorRow, name: &str, is_default: bool) -> String {
    let own: Vec<&str> = row.tunables.iter().map(|tunable| tunable.name).collect();
    let of = elevators::with_tunable(name);
    let whose = match of.as_slice() {
        [] => "no I/O scheduler has one of that name".to_owned(),
        [one] => format!("{one} has one of that name"),
        several => format!("{} have one of that name", several.join(", ")),
    };
    let instead = of.first().map(|of| format!(", or write `scheduler = \"{of}\"`")).unwrap_or_default();
    let own = match own.as_slice() {
        [] => format!("`{}` has none at all: leave it out{instead}", row.word),
        own => {
            format!("{}`{}` has {}: set one of those{instead}", meant(name, own), row.word, own.join(", "))
        }
    };
    let default = if is_default { ", which a disk without `scheduler` has" } else { "" };
    format!("`{}`{default}: there is no tunable `{name}`; {whose}; {own}", row.word)
}

/// What the driver of a disk says of it.
struct Driver {
    /// Requests that it takes at a time, and that it has tags for.
    depth: u32,
    tags: u32,
    /// Requests of its queue with an I/O scheduler.
    scheduled: u32,
    asks_first: bool,
    max_sectors: u32,
    rotational: bool,
    /// Whether it says that the device has a volatile cache.
    write_cache: bool,
}

impl Driver {
    /// virtio-blk: one device of 256 requests, which the kernel takes for one that turns.
    const VIRTUAL: Driver = Driver {
        depth: VIRTUAL_DEPTH,
        tags: VIRTUAL_DEPTH,
        scheduled: 2 * 128,
        asks_first: false,
        max_sectors: u32::MAX,
        rotational: true,
        write_cache: true,
    };

    /// Of a device that takes `depth` requests at a time.
    fn of(profile: &Profile, depth: u32) -> Driver {
        Driver {
            depth,
            tags: profile.driver_tags(),
            scheduled: profile.requests_scheduled(),
            asks_first: profile.asks_first(),
            max_sectors: profile.request_sectors_max().unwrap_or(u32::MAX),
            rotational: profile.is_rotational(),
            write_cache: profile.has_volatile_cache(),
        }
    }

    /// A loop device with `tags` tags in front of such a disk; its queue is given the requests of the disk's own driver where they are more.
    fn looped(profile: &Profile, tags: u32) -> Driver {
        Driver {
            depth: tags,
            tags,
            scheduled: profile.requests_scheduled().max(2 * tags.min(128)),
            asks_first: false,
            max_sectors: profile.request_sectors_max().unwrap_or(u32::MAX).min(LOOP_SECTORS),
            rotational: profile.is_rotational(),
            // In front of a file that can be synced.
            write_cache: true,
        }
    }
}

impl Driver {
    /// The same with the limits that a workload sets.
    fn limited(self, (depth, request): (Option<u32>, Option<Bytes>)) -> Driver {
        let depth = depth.unwrap_or(u32::MAX);
        let sectors = request.map_or(u64::MAX, |bytes| bytes.0 / SECTOR);
        Driver {
            depth: self.depth.min(depth),
            tags: self.tags.min(depth),
            max_sectors: self.max_sectors.min(u32::try_from(sectors).unwrap_or(u32::MAX)),
            ..self
        }
    }
}

impl Bound {
    /// Of a disk on a machine of this platform.
    pub(super) fn of(disk: &Disk, platform: &Platform, options: &RunOptions) -> Result<Bound, WorldError> {
        let object = format!("disk.{}", disk.name);
        let profile = match disk.on {
            Some(_) => None,
            None => Some(profile_of(disk, options)?),
        };
        let scheduler = disk.scheduler.as_deref().unwrap_or(SCHEDULER);
        let Some(row) = elevators::by_word(scheduler) else {
            let words: Vec<&str> = ELEVATORS.iter().map(|row| row.word).collect();
            let why = format!(
                "the I/O scheduler `{scheduler}` is not simulated; {}use one of {}",
                meant(scheduler, &words),
                words.join(", ")
            );
            return refuse(format!("{object}.scheduler"), why);
        };
        let mut settings = Settings::new(row.tunables);
        for (name, value) in &disk.tunables {
            if let Err(error) = settings.set(name, *value) {
                let why = match error {
                    SettingsError::Unknown { name, .. } => unknown(row, &name, disk.scheduler.is_none()),
                    error => format!("{scheduler}: {error}"),
                };
                return refuse(format!("{object}.tunables.{name}"), why);
            }
        }
        if !disk.faults.is_empty() {
            let why =
                "requests that fail are not simulated; leave it out, or run it on a kernel (`--on host`)";
            return refuse(format!("{object}.faults"), why.to_owned());
        }
        let read_ahead = read_ahead_of(disk, &object)?;
        let (rules, driver) = (rules_of(platform), platform.disk_driver);
        let limits = (disk.depth, disk.request);
        let wbt = disk.wbt.filter(|target| *target > Nanos::ZERO);
        if wbt.is_some() && row.front == Front::Legacy {
            let why = format!(
                "the block layer of `{}` throttles no writes of the page cache; leave it out",
                row.word
            );
            return refuse(format!("{object}.wbt"), why);
        }
        Ok(Bound { profile, row, settings, rules, read_ahead, driver, limits, wbt })
    }

    /// The disk, with requests as the kernel gives its queue: as many as its driver has tags, and with an I/O scheduler twice as many
    /// up to 256 (`blk_mq_init_sched`), unless they were set.
    pub(super) fn unit(
        self,
        (hz, groups): (u32, Vec<IoGroup>),
        device: disk::Device,
        slots: (Slot, Slot),
    ) -> Unit {
        let driver = match (&self.profile, self.driver) {
            (None, _) => Driver::VIRTUAL,
            (Some(profile), DiskDriver::OfDisk) => Driver::of(profile, device.depth()),
            // Loop devices of 2.6 had no queue with an I/O scheduler: such a disk is of no machine that a record is of.
            (Some(profile), _) if self.row.front == Front::Legacy => Driver::of(profile, device.depth()),
            (Some(profile), DiskDriver::Loop { tags }) => {
                Driver::looped(profile, tags.unwrap_or(device.depth()))
            }
        };
        // The kernel begins it when the disk is made, with all of the driver's tags.
        let (tags, write_cache) = (driver.tags, driver.write_cache);
        let throttling = self.wbt.map(|target| Throttling { target, tags, write_cache });
        let driver = driver.limited(self.limits);
        let takes = driver.depth;
        let making = Making {
            hz,
            requests: match self.row.front {
                Front::Legacy => LEGACY_REQUESTS,
                Front::BlkMq if self.row.word == "none" => driver.tags,
                Front::BlkMq => driver.scheduled,
            },
            tags: driver.depth,
            asks_first: driver.asks_first,
            max_sectors: driver.max_sectors,
            rotational: driver.rotational,
            device: Some(Rc::new(device.clone())),
            settings: self.settings,
            groups,
            rules: self.rules,
            throttling,
        };
        Unit::new(queue::make(self.row, &making), device, slots)
            .with_read_ahead(self.read_ahead)
            .behind_a_driver_of(takes)
    }

    /// What a record says of it.
    pub(super) fn in_words(&self, disk: &Disk) -> Vec<(String, String)> {
        let mut said = vec![
            match (&self.profile, &disk.on) {
                (Some(profile), _) => (format!("disk {} model", disk.name), profile.name.clone()),
                (None, on) => (format!("disk {} on", disk.name), on.clone().unwrap_or_default()),
            },
            (format!("disk {} scheduler", disk.name), format!("{} ({})", self.row.word, self.row.source)),
        ];
        if self.row.front == Front::BlkMq {
            let kernel = match self.rules.kernel {
                "" => "no kernel in particular".to_owned(),
                kernel => format!("Linux {kernel}"),
            };
            said.push((format!("disk {} rules", disk.name), format!("{kernel} (read: {})", self.rules.seen)));
        }
        if let Some(kernel) = &disk.read_ahead {
            said.push((format!("disk {} read-ahead", disk.name), format!("Linux {kernel}")));
        }
        let set: Vec<String> =
            disk.tunables.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        if !set.is_empty() {
            said.push((format!("disk {} tunables", disk.name), set.join(", ")));
        }
        said
    }
}
