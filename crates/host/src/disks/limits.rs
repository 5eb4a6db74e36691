//! What of best effort can be in a disk at a time: `depth` requests, none larger than `request`; what the page cache writes at a time; and the tunables of its I/O scheduler.
//!
//! An I/O scheduler decides about what waits in front of the driver; what the driver has taken is the device's, and no priority counts there.
//! Without an I/O scheduler `nr_requests` is the number of the driver's tags (`blk_mq_update_nr_requests`), and it stays that when one
//! is set after; so it is set in between. On 6.18 a loop device under mq-deadline took 4 requests after that and 64 before (fio, 64 at a time).

use std::collections::BTreeMap;

use surety_kernel::block::BlockDevice;
use surety_kernel::journal::Journalled;
use surety_model::workload::Disk;
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::modelled::THROTTLING;
use super::{NO_SCHEDULER, Workshop, failed, in_force, set_scheduler, unsupported};

/// `BLKDEV_MIN_RQ`: no queue has fewer requests.
const DEPTH_MIN: u32 = 4;

/// The limits of a disk, and the I/O scheduler it had where none is wanted. Dropped, all is as before.
#[derive(Debug, Default)]
pub(super) struct Limits<'a> {
    // In the order in which they are taken back: the I/O scheduler, the requests without one, the one before.
    _again: Option<Journalled<'a>>,
    _requests: Option<Journalled<'a>>,
    _without: Option<Journalled<'a>>,
    _writeback: Option<Journalled<'a>>,
    _largest: Option<Journalled<'a>>,
}

/// Limits what a disk takes. Its I/O scheduler is `none` afterwards where it has a `depth`, and one is wanted.
///
/// # Errors
/// In words.
pub(super) fn limit<'a>(
    disk: &Disk,
    device: &BlockDevice,
    workshop: &Workshop<'a>,
) -> Result<Limits<'a>, WorldError> {
    let mut limits = Limits::default();
    if let Some(largest) = disk.request {
        let kib = (largest.0 / 1024).to_string();
        limits._largest = Some(write(&disk.name, device, "max_sectors_kb", &kib, workshop)?);
    }
    let Some(depth) = disk.depth else {
        limits._writeback = throttle(disk, device, workshop)?;
        return Ok(limits);
    };
    if depth < DEPTH_MIN {
        return Err(unsupported(
            &disk.name,
            format!("the kernel gives no queue fewer than {DEPTH_MIN} requests; `depth` is {depth}"),
        ));
    }
    if device.tags().is_some_and(|tags| tags <= depth) {
        limits._writeback = throttle(disk, device, workshop)?;
        return Ok(limits);
    }
    let before = workshop.kernel.read_text(&device.scheduler_file());
    let before = in_force(
        &before.map_err(|error| failed(&disk.name, "has no I/O scheduler to read", &error.to_string()))?,
    );
    limits._without = Some(set_scheduler(&disk.name, device, NO_SCHEDULER, workshop)?);
    limits._requests = Some(write(&disk.name, device, "nr_requests", &depth.to_string(), workshop)?);
    limits._writeback = throttle(disk, device, workshop)?;
    if disk.scheduler.is_none() {
        limits._again = Some(set_scheduler(&disk.name, device, &before, workshop)?);
    }
    Ok(limits)
}

/// Limits what the page cache writes at a time. The kernel takes the requests of the queue for the depth of the device when this begins (`wbt_init`), and never lets
/// more of such writes by than that: so it is begun while there is no I/O scheduler, when these are as many as `depth`.
fn throttle<'a>(
    disk: &Disk,
    device: &BlockDevice,
    workshop: &Workshop<'a>,
) -> Result<Option<Journalled<'a>>, WorldError> {
    let Some(target) = disk.wbt else { return Ok(None) };
    let micros = target.max(Nanos::ZERO).get() / 1_000;
    write(&disk.name, device, THROTTLING, &micros.to_string(), workshop).map(Some)
}

/// Gives the I/O scheduler in force its tunables.
///
/// # Errors
/// In words: it has none of that name, the kernel takes no such value.
pub(super) fn tune<'a>(
    name: &str,
    tunables: &BTreeMap<String, u64>,
    device: &BlockDevice,
    workshop: &Workshop<'a>,
) -> Result<Vec<Journalled<'a>>, WorldError> {
    let one = |(tunable, value): (&String, &u64)| {
        let setting = format!("iosched/{tunable}");
        if device.queue(&setting).is_none() {
            let why = format!("the I/O scheduler that it has on this kernel has no tunable `{tunable}`");
            return Err(unsupported(name, why));
        }
        write(name, device, &setting, &value.to_string(), workshop)
    };
    tunables.iter().map(one).collect()
}

/// Writes a setting of the queue under the journal and reads it back.
fn write<'a>(
    name: &str,
    device: &BlockDevice,
    setting: &str,
    value: &str,
    workshop: &Workshop<'a>,
) -> Result<Journalled<'a>, WorldError> {
    let in_words = |error: &str| failed(name, &format!("cannot be given {setting} {value}"), error);
    let Some(journal) = workshop.journal else {
        return Err(in_words("there is no journal to write the change down in"));
    };
    let id = journal.write_text(workshop.kernel, &device.queue_file(setting), value);
    let entry = Journalled::of(journal, workshop.kernel, id.map_err(|error| in_words(&error.to_string()))?);
    match device.queue(setting) {
        Some(found) if found == value => Ok(entry),
        found => {
            Err(in_words(&format!("the kernel has {} instead", found.unwrap_or_else(|| "none".to_owned()))))
        }
    }
}
