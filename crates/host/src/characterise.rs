//! A plan of requests ([`surety_device::characterise`]) carried to a device or a file of this machine.
//!
//! Nothing is written unless a medium to write on is given. What is under way when the user ends it is waited for, and nothing stays.

use std::path::Path;

use surety_device::characterise::{Measured, Part, Plan, SECTORS_MIN, Scope, Step};
use surety_device::{Op, Request, SECTOR};
use surety_kernel::direct::{Access, DirectQueue, Medium};
use surety_kernel::{KernelError, Operation, clock};
use surety_model::world::{Cancel, WorldError};
use surety_units::{Bytes, Nanos};

/// The most requests of a plan at a time, and the most bytes of one.
const DEPTH_MAX: u32 = 64;
const BYTES_MAX: usize = 2048 * SECTOR as usize;
/// Between two looks at Ctrl-C.
const LOOK: Nanos = Nanos::from_millis(100);

/// What is measured.
#[derive(Debug)]
pub struct Target {
    pub medium: Medium,
    /// What may be written over.
    pub writable: Option<Medium>,
}

impl Target {
    /// Opens what is named.
    ///
    /// # Errors
    /// In words: what is not there, what is neither a device nor a file, what is too small, what has no direct access, and what may
    /// not be written over because something uses it.
    pub fn open(device: &Path, write: Option<&Path>) -> Result<Target, WorldError> {
        let medium = Medium::open(device).map_err(|error| refused(device, &error, false))?;
        let writable =
            write.map(|path| Medium::open_to_write(path).map_err(|error| refused(path, &error, true)));
        let target = Target { medium, writable: writable.transpose()? };
        let is_small = |medium: &&Medium| medium.bytes() / SECTOR < SECTORS_MIN;
        if let Some(small) = target.writable.iter().chain([&target.medium]).find(is_small) {
            let least = Bytes(SECTORS_MIN * SECTOR).to_exact_string();
            let what = format!("{} has {} bytes", small.path().display(), small.bytes());
            return Err(machine(
                what,
                format!("less than {least} says nothing about a disk: name a larger one"),
            ));
        }
        Ok(target)
    }

    /// What the kernel says of it: words for a reader, one after the other.
    pub fn told(&self) -> Vec<String> {
        let medium = &self.medium;
        let mut told = Vec::new();
        let name = medium.path().display();
        match (medium.is_device(), medium.disk()) {
            (true, Some(disk)) => told.push(format!("{name}, of the disk {disk}")),
            (true, None) => told.push(format!("{name}")),
            (false, Some(disk)) => told.push(format!(
                "{name}, a file on a file system of the disk {disk}: measured with that file system"
            )),
            (false, None) => told.push(format!("{name}, a file: measured with the file system it is on")),
        }
        if let Some(model) = medium.property("device/model") {
            let vendor = medium.property("device/vendor").map_or_else(String::new, |vendor| vendor + " ");
            told.push(format!("the kernel calls it {vendor}{model}"));
        }
        if let Some(rotational) = medium.property("queue/rotational") {
            let turns = if rotational == "1" { "turns" } else { "does not turn" };
            told.push(format!("the kernel says that it {turns} (queue/rotational is {rotational})"));
        }
        if let Some(scheduler) = medium.property("queue/scheduler") {
            told.push(format!("requests passed the I/O scheduler: {scheduler}"));
        }
        told
    }

    /// What makes its numbers less than those of the disk, in words.
    pub fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        if self.medium.has_holes() {
            caveats.push(
                "parts of the file are not on the disk, and reads of them do not reach it: fill it first (dd, shred)".to_owned(),
            );
        }
        if self.medium.property("loop/backing_file").is_some() {
            caveats.push(
                "a loop device is measured with the file, the file system and the disk below it".to_owned(),
            );
        }
        caveats
    }

    /// Commands the device takes at a time, where its driver says so; of a file, nobody knows.
    pub fn depth(&self) -> Option<u32> {
        let depth = self.medium.property("device/queue_depth").filter(|_| self.medium.is_device())?;
        depth.parse().ok().filter(|depth| *depth > 0)
    }

    /// Measures for at most a time. `watch` is told of each part that begins.
    ///
    /// # Errors
    /// When a request fails, and [`WorldError::Interrupted`].
    pub fn measure(
        &self,
        time: Nanos,
        seed: u64,
        cancel: &Cancel,
        watch: &mut dyn FnMut(Part),
    ) -> Result<Measured, WorldError> {
        // Whole blocks of 4 KiB, which every device can be asked for.
        let sectors = |medium: &Medium| medium.bytes() / 4096 * (4096 / SECTOR);
        let writable = self.writable.as_ref().map(sectors);
        let mut plan = Plan::new(Scope { sectors: sectors(&self.medium), writable, time, seed });
        let mut queue = DirectQueue::new(DEPTH_MAX, BYTES_MAX).map_err(|error| {
            machine(error.to_string(), "raise fs.aio-max-nr, or end what uses it".to_owned())
        })?;
        let mut lengths: Vec<usize> = Vec::new();
        let mut part = None;
        loop {
            if cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            match plan.next(clock::monotonic()) {
                Step::Issue(tag, request) => {
                    if plan.part() != part {
                        part = plan.part();
                        part.into_iter().for_each(&mut *watch);
                    }
                    lengths.resize(lengths.len().max(tag as usize + 1), 0);
                    lengths[tag as usize] = request.bytes() as usize;
                    if self.issue(&mut queue, tag, &request)? {
                        plan.complete(tag, clock::monotonic());
                    }
                }
                Step::Wait => {
                    let done = queue.wait(LOOK).map_err(|error| failed(&error))?;
                    let now = clock::monotonic();
                    let Some((tag, result)) = done else { continue };
                    let wanted = lengths.get(tag as usize).copied().unwrap_or(0);
                    self.check(result, wanted)?;
                    plan.complete(tag, now);
                }
                Step::Done => return Ok(plan.into_measured()),
            }
        }
    }

    /// Issues a request; `true`: it is complete already.
    fn issue(&self, queue: &mut DirectQueue, tag: u32, request: &Request) -> Result<bool, WorldError> {
        let place = (request.sector * SECTOR, request.bytes() as usize);
        let (medium, access) = match (request.op, &self.writable) {
            (Op::Flush, Some(medium)) => {
                medium.flush().map_err(|error| failed(&error))?;
                return Ok(true);
            }
            (Op::Write, Some(medium)) => (medium, Access::Write),
            (Op::Read, _) => (&self.medium, Access::Read),
            // The plan asks for nothing else without a medium to write on.
            _ => return Ok(true),
        };
        queue.submit(tag, medium, access, place).map_err(|error| failed(&error))?;
        Ok(false)
    }

    /// What a request moved has to be what it asked for.
    fn check(&self, result: Result<usize, i32>, wanted: usize) -> Result<(), WorldError> {
        let name = self.medium.path().display().to_string();
        match result {
            Ok(moved) if moved == wanted => Ok(()),
            Ok(moved) => Err(machine(
                format!("{name} gave {moved} bytes of {wanted}"),
                "its size changed while it was measured: measure again".to_owned(),
            )),
            Err(errno) => Err(failed(&KernelError::new(Operation::Read, name, errno))),
        }
    }
}

fn machine(what: String, remedy: String) -> WorldError {
    WorldError::Machine { what, remedy }
}

fn failed(error: &KernelError) -> WorldError {
    machine(error.to_string(), "the device or its driver failed: see the kernel's log (dmesg)".to_owned())
}

/// Why something was not opened, and what to do.
fn refused(path: &Path, error: &KernelError, to_write: bool) -> WorldError {
    use std::io::ErrorKind::{InvalidInput, NotFound, PermissionDenied, ResourceBusy};
    let name = path.display();
    let kind = std::io::Error::from_raw_os_error(error.errno).kind();
    match kind {
        NotFound => machine(
            format!("there is no {name}"),
            "name a block device or a file; lsblk lists devices".to_owned(),
        ),
        PermissionDenied => machine(
            format!("{name} may not be opened"),
            "run as root, or as a user who may read it (and write it, with --write); where root is refused too, the device rules of a \
             container forbid it"
                .to_owned(),
        ),
        ResourceBusy if to_write => machine(
            format!(
                "{name} is in use and is not written over: it, or a part of it, is mounted, swap, or below another device"
            ),
            "name a device that nothing uses, or a file made for it".to_owned(),
        ),
        InvalidInput => machine(
            format!("{name} is on a file system that cannot be read past the page cache"),
            "name a file on another file system, or the device itself".to_owned(),
        ),
        _ if !path.is_file() => machine(
            format!("{name} is neither a block device nor a file"),
            "name a block device such as /dev/sda, a partition, or a file".to_owned(),
        ),
        _ => machine(error.to_string(), "name another device or file".to_owned()),
    }
}
