//! Modelled disks of a run: what is wanted of who makes them, and what their queues are given.

use std::collections::BTreeMap;
use std::path::Path;

use surety_kernel::block::BlockDevice;
use surety_kernel::journal::{Journal, JournalError, Journalled};
use surety_kernel::{Kernel, KernelError};
use surety_model::workload::{Disk, Fault};
use surety_model::world::WorldError;
use surety_units::Bytes;

use super::{MAKE_MIN, Workshop, failed, in_force, unsupported};

/// The setting of a queue that is the latency up to which writes of the page cache are not throttled; 0: they are not at all.
pub(super) const THROTTLING: &str = "wbt_lat_usec";

/// What makes disks that are as fast as a model. It is no part of this world: who enters the world brings it.
pub trait Emulator {
    /// Makes a disk, which answers at once until [`Emulated::begin`].
    ///
    /// # Errors
    /// In words, before anything is made: no such model, no FUSE, no loop devices, not root, more data than memory.
    fn make<'a>(
        &self,
        wanted: &Modelled<'_>,
        kernel: &'a dyn Kernel,
        journal: Option<&'a Journal>,
    ) -> Result<Box<dyn Emulated + 'a>, WorldError>;
}

/// What modelled disk is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Modelled<'w> {
    /// The disk's name in the workload.
    pub name: &'w str,
    /// The name of a profile, or of a file.
    pub model: &'w str,
    /// `None`: as its maker has it.
    pub size: Option<Bytes>,
    pub seed: u64,
    /// Parts that fail from [`Emulated::begin`] on, until [`Emulated::pause`].
    pub faults: &'w [Fault],
    /// Texts of profiles by the names of their files.
    pub files: &'w BTreeMap<String, String>,
}

/// A modelled disk. Dropping takes it away.
pub trait Emulated: std::fmt::Debug {
    /// The block device.
    fn device(&self) -> &BlockDevice;

    /// Requests that the queue of the driver of such a disk takes with an I/O scheduler.
    fn requests_scheduled(&self) -> u32;

    /// The model says when from now on, of a disk that remembers nothing; what was counted is counted anew.
    fn begin(&self);

    /// It answers at once again until the next [`Emulated::begin`].
    fn pause(&self);

    /// Forgets what the disk's own cache has.
    fn forget_cache(&self);

    /// What a reader needs to judge numbers measured on it: what, and its value.
    fn said(&self) -> Vec<(&'static str, String)>;

    /// Why what was measured on it decides nothing.
    fn objection(&self) -> Option<String>;
}

/// A disk as fast as a model.
pub(super) fn emulate<'a>(
    disk: &Disk,
    model: &str,
    size: Option<Bytes>,
    workshop: &Workshop<'a>,
) -> Result<Box<dyn Emulated + 'a>, WorldError> {
    let name = &disk.name;
    let Some(emulator) = workshop.emulator else {
        return Err(unsupported(name, "there are no modelled disks here; leave out `model`"));
    };
    if let Some(size) = size.filter(|size| *size < MAKE_MIN) {
        return Err(unsupported(
            name,
            format!("`make` is {size}, and a file system takes at least {MAKE_MIN}"),
        ));
    }
    let (seed, files) = (workshop.seed, workshop.files);
    let wanted = Modelled { name, model, size, seed, faults: &disk.faults, files };
    emulator.make(&wanted, workshop.kernel, workshop.journal)
}

/// Gives the queue of a modelled disk what the driver of such a disk would have given it; writes of the page cache are throttled only where that was asked for.
pub(super) fn set_queue<'a>(
    (name, throttles): (&str, bool),
    made: &dyn Emulated,
    workshop: &Workshop<'a>,
) -> Result<Vec<Journalled<'a>>, WorldError> {
    let unthrottled = if throttles { None } else { throttle_no_writes(name, made, workshop)? };
    let set = [unthrottled, give_requests(name, made, workshop)?];
    Ok(set.into_iter().flatten().collect())
}

/// Gives the queue of a modelled disk as many requests as that of its driver has with an I/O scheduler, where it has fewer: the kernel gives
/// it twice the requests that the device takes at a time (`blk_mq_init_sched`), and a driver takes more of them than the disk.
fn give_requests<'a>(
    name: &str,
    made: &dyn Emulated,
    workshop: &Workshop<'a>,
) -> Result<Option<Journalled<'a>>, WorldError> {
    let (device, wanted) = (made.device(), made.requests_scheduled());
    let in_words = |error: &str| failed(name, &format!("cannot be given {wanted} requests"), error);
    let kernel = workshop.kernel;
    let scheduler = kernel.read_text(&device.scheduler_file()).map_err(|e| in_words(&e.to_string()))?;
    let given: Option<u32> = device.queue("nr_requests").and_then(|text| text.parse().ok());
    if in_force(&scheduler) == "none" || given.is_none_or(|given| given >= wanted) {
        return Ok(None);
    }
    let Some(journal) = workshop.journal else {
        return Err(in_words("there is no journal to write the change down in"));
    };
    let file = device.queue_file("nr_requests");
    let id = journal.write_text(kernel, &file, &wanted.to_string()).map_err(|e| in_words(&e.to_string()))?;
    let given = Journalled::of(journal, kernel, id);
    has_limits_follow(kernel, &file, wanted).map_err(|e| in_words(&e.to_string()))?;
    Ok(Some(given))
}

/// Has the queue of a modelled disk throttle no writes that the page cache makes (`blk-wbt`): it takes the tags of the loop device for those of the
/// disk, and with one was seen to let two writes go, and the next two when both were done. Without `wbt` the simulator throttles none either.
fn throttle_no_writes<'a>(
    name: &str,
    made: &dyn Emulated,
    workshop: &Workshop<'a>,
) -> Result<Option<Journalled<'a>>, WorldError> {
    let (device, kernel) = (made.device(), workshop.kernel);
    let (Some(journal), Some(target)) = (workshop.journal, device.queue(THROTTLING)) else { return Ok(None) };
    if target == "0" {
        return Ok(None);
    }
    let id = journal.write_text(kernel, &device.queue_file(THROTTLING), "0");
    let in_words = |error: JournalError| failed(name, "throttles writes", &error.to_string());
    Ok(Some(Journalled::of(journal, kernel, id.map_err(in_words)?)))
}

/// Has the I/O scheduler compute its limits on tags for the requests of its queue: some kernels compute them for the number that the queue had
/// before (`blk_mq_update_nr_requests` calls `depth_updated` first), and compute nothing for a number that is in force already. So it is
/// written three times; for one more than `wanted`, which is a multiple of 16, the limits are the same.
fn has_limits_follow(kernel: &dyn Kernel, file: &Path, wanted: u32) -> Result<(), KernelError> {
    [wanted + 1, wanted].iter().try_for_each(|number| kernel.write_text(file, &number.to_string()))
}

#[cfg(test)]
mod tests {
    use surety_kernel::{Operation, ScriptedKernel};

    use super::*;

    /// The kernel looks at no number that is in force already, so another comes between; the one wanted is the last.
    #[test]
    fn limits_are_computed_once_the_requests_are_there() {
        let (kernel, file) = (ScriptedKernel::new(1), Path::new("/sys/block/loop0/queue/nr_requests"));
        kernel.add_file(file, "64");
        has_limits_follow(&kernel, file, 64).unwrap();
        assert_eq!(kernel.read_text(file).unwrap(), "64");
        let writes = kernel.calls().into_iter().filter(|call| call.operation == Operation::Write).count();
        assert_eq!(writes, 2);
    }
}
