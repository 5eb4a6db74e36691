//! [`EmulatedDisk`]: a block device of this machine that is as fast as a model.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use surety_device::profile::Profile;
use surety_kernel::block::{BlockDevice, has_loop_devices};
use surety_kernel::fuse::control::Control;
use surety_kernel::fuse::{Connection, connection_of, is_offered};
use surety_kernel::journal::{Journal, Journalled};
use surety_kernel::{Kernel, KernelError, Operation, clock};
use surety_units::Nanos;

use crate::account::Summary;
use crate::core::Core;
use crate::error::EmulationError;
use crate::fault::Fault;
use crate::server::{BYTES_MAX, Server, WATCHDOG_ENDED};
use crate::store::Store;
use crate::tree::NAME;
use crate::watchdog::Watchdog;
use crate::way;

/// A size is a multiple of this.
const BLOCK: u64 = 4096;
/// A smaller disk is of no use.
const BYTES_MIN: u64 = 1 << 20;
/// What a disk reads ahead of need by default (`VM_READAHEAD_PAGES`), in KiB; a loop device has another number.
const READ_AHEAD_KIB: u32 = 128;

/// What disk is to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    pub profile: Profile,
    /// Bytes of it, from its beginning on: a multiple of 4096.
    pub bytes: u64,
    /// Bytes of memory that have to be available for data in memory. What is never written takes none.
    pub needs: u64,
    /// The file for its data; `None`: memory.
    pub backing: Option<PathBuf>,
    pub seed: u64,
    /// For the last of each wait the reply thread spins instead of sleeping ([`crate::SPIN`]); nothing where a sleep ends at its instant, as
    /// on a virtual clock.
    pub spin: Nanos,
    /// What of it fails from [`EmulatedDisk::begin`] on, until [`EmulatedDisk::pause`].
    pub faults: Vec<Fault>,
    /// The program that is started as its watchdog: one whose `main` begins with [`crate::watchdog_main`].
    pub watchdog: PathBuf,
}

/// A modelled disk under this kernel. Dropping takes it away; who still uses it gets errors.
pub struct EmulatedDisk<'a> {
    // In this order: what was set of its queue, itself, and who serves it.
    _settings: Settings<'a>,
    device: BlockDevice,
    server: Server,
    profile: Profile,
    seed: u64,
    way: Nanos,
    kernel: &'a dyn Kernel,
    /// What the kernel had counted when counting began here.
    before: Mutex<Kernels>,
}

/// What the kernel counts of a disk (`/sys/block/NAME/stat`): requests, and their time from before the I/O scheduler on, in ms.
#[derive(Clone, Copy, Debug, Default)]
struct Kernels {
    requests: u64,
    ms: u64,
}

impl Plan {
    /// Why it cannot be made, found without making anything.
    ///
    /// # Errors
    /// No root, no FUSE, no loop devices, a size that the device has not, a fault that the size has not.
    pub fn check(&self, kernel: &dyn Kernel) -> Result<(), EmulationError> {
        let capacity = self.profile.sectors() * surety_device::SECTOR;
        let is_size = self.bytes.is_multiple_of(BLOCK) && (BYTES_MIN..=capacity).contains(&self.bytes);
        if !is_size {
            return Err(EmulationError::Size { capacity });
        }
        if let Some(beyond) = self.faults.iter().find(|fault| fault.range.end > self.bytes) {
            return Err(EmulationError::Fault { end: beyond.range.end, bytes: self.bytes });
        }
        if kernel.effective_user() != 0 {
            return Err(EmulationError::NotRoot);
        }
        is_offered()?;
        has_loop_devices()?;
        Ok(())
    }
}

impl<'a> EmulatedDisk<'a> {
    /// Makes the disk, and measures the way of a request to it and back, which takes 0.2 s. Until [`EmulatedDisk::begin`] it answers at once.
    ///
    /// # Errors
    /// As [`Plan::check`]; more data than memory; what the kernel refuses.
    pub fn make(
        plan: &Plan,
        kernel: &'a dyn Kernel,
        journal: &'a Journal,
    ) -> Result<EmulatedDisk<'a>, EmulationError> {
        plan.check(kernel)?;
        // A loop device has the limits of the one before it: they would be found as its own. What cannot be taken back now is at the next start.
        let _ = journal.recover_dead(kernel);
        let store = match &plan.backing {
            Some(path) => Store::in_file(path, plan.bytes)?,
            None => Store::in_memory(plan.bytes, plan.needs)?,
        };
        let core = Core::new(way::pace(plan.bytes));
        // Hard disks have no TRIM.
        let discards = !plan.profile.is_rotational();
        let of_disk = (plan.bytes, discards, plan.faults.clone());
        let mut server =
            Server::new(Connection::open()?, store, of_disk, (core, plan.profile.depth() == 1, plan.spin));
        // From here on what is made is dropped in the reverse order: the mount goes before its server waits for that.
        let mount = server.shared().connection.mount(BYTES_MAX)?;
        server.serve()?;
        let connection = connection_of(&mount)?;
        server.control = Some(Control::of(connection)?);
        server.tell(Watchdog::start(&plan.watchdog, connection)?)?;
        let path = mount.root().join(NAME);
        let open = OpenOptions::new().read(true).write(true).open(&path);
        let file = open.map_err(|error| match server.shared().trouble_met() {
            Some(_) => EmulationError::Protocol,
            None => KernelError::from_io(Operation::Open, "the disk's file", &error).into(),
        })?;
        let device = BlockDevice::on_file(&file)?;
        // The loop device has the file, and that the mount.
        drop((file, mount));
        let settings = set_queue(&plan.profile, &device, kernel, journal)?;
        let shared = server.shared();
        shared.begin();
        let way = way::measure(&device)?;
        shared.pause(way);
        // Somebody else may have looked at the new device; those requests end at the pace of the measurement.
        while !shared.renew(plan.profile.build(plan.seed)) && !shared.is_over() {
            clock::sleep_for(Nanos::MILLISECOND)?;
        }
        let (profile, seed, before) = (plan.profile.clone(), plan.seed, Mutex::default());
        server.shared().store().keep();
        Ok(EmulatedDisk { _settings: settings, device, server, profile, seed, way, kernel, before })
    }

    /// The model says when from now on, of a disk that remembers nothing, and requests are counted.
    pub fn begin(&self) {
        self.forget_cache();
        self.server.shared().begin();
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = self.counted().unwrap_or_default();
    }

    /// It answers at once again until the next [`EmulatedDisk::begin`].
    pub fn pause(&self) {
        self.server.shared().pause(self.way);
    }

    /// Forgets what the disk's own cache has, as if it had just been switched on. Nothing while requests are under way.
    pub fn forget_cache(&self) {
        let _ = self.server.shared().renew(self.profile.build(self.seed));
    }

    /// What a request's way to the disk and back took when the disk was made. The model is told of requests as if they had come this much earlier.
    pub fn way(&self) -> Nanos {
        self.way
    }

    /// How much more requests took in the mean by the kernel's account than by the model: what their way took beyond [`EmulatedDisk::way`], which
    /// is in no lateness, by the part of them that the disk had room for when they came. `None` without requests, and where an I/O scheduler may have held them back.
    pub fn beyond_way(&self) -> Option<Nanos> {
        let scheduler = self.device.queue("scheduler")?;
        let before = *self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let (after, summary) = (self.counted()?, self.summary()?);
        let requests = after.requests.saturating_sub(before.requests);
        if requests == 0 || !scheduler.contains("[none]") && scheduler != "none" {
            return None;
        }
        let mean = u128::from(after.ms.saturating_sub(before.ms)) * 1_000_000 / u128::from(requests);
        let beyond = (Nanos::new(i64::try_from(mean).ok()?) - summary.response).max(Nanos::ZERO);
        // A request that came to a full disk would have waited in front of it for as much longer.
        let share = u128::from(beyond.get_unsigned()) * u128::from(summary.prompt);
        Some(Nanos::new(i64::try_from(share / u128::from(summary.requests())).ok()?))
    }

    /// Why what was measured on it decides nothing, where that is so.
    pub fn objection(&self) -> Option<String> {
        let summary = self.summary()?;
        let way = self.beyond_way().filter(|way| summary.is_exceeded_by(*way));
        let long = way.map(|way| {
            format!(
                "disturbed: by the kernel's account requests took {way} longer in the mean than by the model, more than 4 % of the {} of the model: \
                 the kernel's thread that hands them on had no CPU",
                summary.response
            )
        });
        let both: Vec<String> = [summary.objection(), long].into_iter().flatten().collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    fn counted(&self) -> Option<Kernels> {
        let text = self.kernel.read_text(&self.device.queue_file("../stat")).ok()?;
        let numbers: Vec<u64> = text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        // Reads, writes, discards, flushes: how many, and the ms they took.
        let of = |places: &[usize]| places.iter().filter_map(|place| numbers.get(*place)).sum();
        Some(Kernels { requests: of(&[0, 4, 11, 15]), ms: of(&[3, 7, 14, 16]) })
    }

    /// The block device.
    pub fn device(&self) -> &BlockDevice {
        &self.device
    }

    /// What it is as fast as.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The file of its data; `None`: they are in memory.
    pub fn backing(&self) -> Option<&Path> {
        self.server.shared().store().path()
    }

    /// What was counted since [`EmulatedDisk::begin`]; `None` without a request.
    pub fn summary(&self) -> Option<Summary> {
        self.server.shared().account().summary()
    }

    /// Why it serves no longer, or not as it should.
    pub fn trouble(&self) -> Option<String> {
        let met = self.server.shared().trouble_met();
        // It ends once it has ended a connection.
        let met = met.filter(|met| !(self.is_over() && met == WATCHDOG_ENDED));
        let over =
            || "its connection was ended: its server stood still for 5 s, or somebody ended it".to_owned();
        if self.is_over() { Some(met.unwrap_or_else(over)) } else { met }
    }

    /// Whether it serves no longer.
    pub fn is_over(&self) -> bool {
        self.server.shared().is_over()
    }
}

impl std::fmt::Debug for EmulatedDisk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} as {}", self.device.path().display(), self.profile.name)
    }
}

/// What was set of a queue; dropping takes it back, the last first.
struct Settings<'a>(Vec<Journalled<'a>>);

impl Drop for Settings<'_> {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// Gives the device's queue what the modelled disk would have given it.
fn set_queue<'a>(
    profile: &Profile,
    device: &BlockDevice,
    kernel: &'a dyn Kernel,
    journal: &'a Journal,
) -> Result<Settings<'a>, EmulationError> {
    let sectors = profile.request_sectors_max().unwrap_or(u32::MAX).min(BYTES_MAX / 512);
    // Read-ahead last: the kernel computes it anew with every limit that changes.
    let wanted = [
        ("rotational", u32::from(profile.is_rotational())),
        ("max_sectors_kb", sectors / 2),
        ("read_ahead_kb", READ_AHEAD_KIB),
    ];
    let mut settings = Settings(Vec::new());
    for (name, value) in wanted {
        let id = journal.write_text(kernel, &device.queue_file(name), &value.to_string())?;
        settings.0.push(Journalled::of(journal, kernel, id));
    }
    Ok(settings)
}
