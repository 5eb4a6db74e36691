//! [`Hardware`]: devices the machine has, for `[[irq]]` activities whose role they stand for: a disk, or two network cards whose
//! wires meet; and their interrupt threads.
//!
//! An interrupt thread is found by its device. The device's directory in sysfs names the lines it interrupts by (`msi_irqs`,
//! or `irq` for the old line), the kernel calls a line's threads `irq/N-...` (`setup_irq_thread` in `kernel/irq/manage.c`), and of
//! several that one is taken which works when the device is given something to do. On kernels without PREEMPT_RT there
//! are such threads with `threadirqs` on the kernel's command line.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use surety_kernel::files::reopen_direct;
use surety_kernel::net::cards::Ring;
use surety_kernel::net::{CardPair, Counts, Flow, Metronome, STEPS_MAX};
use surety_kernel::{Kernel, KernelError, Operation, clock};
use surety_stats::random::{Pcg, stream_of};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use super::{Sent, run_time};
use crate::window::{Gate, Window};

/// What stands for the role of an interrupt source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// A block device. It is read, never written.
    Disk {
        /// Its name in sysfs, `vda`.
        name: String,
        /// Bytes of a read: a multiple of 4096.
        block: usize,
    },
    /// Two network cards by their names, `eth0`: the near one sends, the far one interrupts.
    Cards {
        /// Who sends.
        near: String,
        /// Who receives.
        far: String,
        /// Whether packets are handled in the softirqs that its interrupt thread runs, instead of in a thread of their own
        /// (threaded NAPI). Those it does not finish within 2 ms go to `ksoftirqd`, which no reservation of the thread binds.
        softirqs: bool,
        /// A third card, whose wire repeats what it is given at the distance of the workload's arrivals, to the far one: then no
        /// thread sends.
        metronome: Option<String>,
    },
}

/// Devices by role.
pub type Equipment = BTreeMap<String, Hardware>;

/// Reads are at multiples of this, which every disk takes.
const ALIGNED: usize = 4096;
/// Requests that show which of several threads works.
const TRIED: u32 = 32;
/// After them a thread's time is added up.
const PAUSE: Nanos = Nanos::from_millis(100);
/// A metronome that goes is heard in this time.
const BEATS_WITHIN: Nanos = Nanos::from_millis(200);
/// Above the directory of a class there are so many of a device at most.
const DEPTH: usize = 6;

/// The disk, or the card, of this machine at a place on the PCI bus; `class` is `block` or `net`.
///
/// # Errors
/// In words, where nothing of that class is at that place.
pub fn at_place(class: &str, place: &str) -> Result<String, String> {
    let directory = Path::new("/sys/class").join(class);
    let names = std::fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut names: Vec<PathBuf> = names.filter_map(|entry| Some(entry.ok()?.path())).collect();
    names.sort();
    let is_there = |path: &PathBuf| {
        path.canonicalize().is_ok_and(|real| real.components().any(|part| part.as_os_str() == place))
    };
    let found = names.iter().find(|path| is_there(path)).and_then(|path| path.file_name()?.to_str());
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("the kernel has no {class} device at {place}: no driver of it is loaded"))
}

/// Where a run takes place, and where those are who keep devices busy from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides {
    /// The CPUs of the run.
    pub inside: CpuSet,
    /// A CPU of no root domain of theirs.
    pub outside: Option<CpuId>,
    /// The CPU that devices are to interrupt, where it is one.
    pub handlers: Option<CpuId>,
}

/// Has a device's lines interrupt these CPUs only.
fn steer(kernel: &dyn Kernel, directory: &Path, cpus: CpuSet) -> Result<(), String> {
    lines_of(kernel, directory).into_iter().try_for_each(|line| {
        let file = format!("/proc/irq/{line}/smp_affinity_list");
        kernel.write_text(Path::new(&file), &cpus.to_string()).map_err(|error| error.to_string())
    })
}

/// An interrupt thread with its full name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Handler {
    /// The thread.
    pub tid: Tid,
    /// `irq/25-virtio0-req.0`.
    name: String,
}

/// The lines a device interrupts by; `directory` is that of its class.
fn lines_of(kernel: &dyn Kernel, directory: &Path) -> Vec<u32> {
    let mut device = directory.join("device");
    for _ in 0..DEPTH {
        let vectors = kernel.list_dir(&device.join("msi_irqs")).unwrap_or_default();
        let mut vectors: Vec<u32> = vectors.iter().filter_map(|name| name.parse().ok()).collect();
        if !vectors.is_empty() {
            vectors.sort_unstable();
            return vectors;
        }
        // A device without a line says 0.
        let line = kernel.read_text(&device.join("irq")).ok().and_then(|text| text.trim().parse().ok());
        if let Some(line @ 1..) = line {
            return vec![line];
        }
        device.push("..");
    }
    Vec::new()
}

/// The kernel's threads whose names begin so, in the order of their ids.
fn handlers_of(kernel: &dyn Kernel, begins: &[String]) -> Vec<Handler> {
    let of = |tid: Tid| {
        let name = kernel.name(tid).ok()?;
        let is_one = begins.iter().any(|begin| name.starts_with(begin)) && kernel.is_kernel_thread(tid);
        is_one.then_some(Handler { tid, name })
    };
    kernel.processes().unwrap_or_default().into_iter().filter_map(of).collect()
}

/// CPU time that the threads of a device's interrupts have had since their start.
pub(crate) fn time_of_threads(kernel: &dyn Kernel, directory: &Path) -> Nanos {
    let begins: Vec<String> = lines_of(kernel, directory).iter().map(|line| format!("irq/{line}-")).collect();
    let handlers = handlers_of(kernel, &begins);
    handlers.iter().filter_map(|handler| run_time(kernel, handler.tid).ok()).sum()
}

/// The thread that works when a device is given something to do, of its interrupt threads and of those whose names begin like
/// `polled`; and the others.
fn handler(
    kernel: &dyn Kernel,
    directory: &Path,
    polled: Option<String>,
    provoke: impl FnOnce(),
) -> Result<(Handler, Vec<Handler>), String> {
    let lines = lines_of(kernel, directory);
    let begins = lines.iter().map(|line| format!("irq/{line}-")).chain(polled);
    let mut handlers = handlers_of(kernel, &begins.collect::<Vec<_>>());
    if handlers.is_empty() {
        return Err(format!(
            "no interrupt thread serves it (lines {lines:?}); use a kernel with PREEMPT_RT, or one that was booted with \
             `threadirqs`"
        ));
    }
    let times = |handlers: &[Handler]| -> Vec<Nanos> {
        handlers.iter().map(|h| run_time(kernel, h.tid).unwrap_or(Nanos::ZERO)).collect()
    };
    let before = times(&handlers);
    provoke();
    let _ = clock::sleep_until(clock::monotonic() + PAUSE, None);
    let used: Vec<Nanos> =
        times(&handlers).iter().zip(&before).map(|(after, before)| *after - *before).collect();
    let (busiest, most) = used
        .iter()
        .enumerate()
        .max_by_key(|(index, used)| (**used, std::cmp::Reverse(*index)))
        .expect("there is one");
    if *most == Nanos::ZERO {
        let names: Vec<&str> = handlers.iter().map(|h| h.name.as_str()).collect();
        return Err(format!(
            "none of its interrupt threads ({}) works for it: it is served by softirqs",
            names.join(", ")
        ));
    }
    let found = handlers.remove(busiest);
    Ok((found, handlers))
}

fn beside(others: &[Handler]) -> String {
    let names: Vec<&str> = others.iter().map(|h| h.name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!(", beside {}", names.join(", ")) }
}

/// Two cards, the thread of the far one.
pub(super) struct Cards {
    pub pair: CardPair,
    pub thread: Handler,
    others: Vec<Handler>,
    names: (String, String),
    driver: String,
    ring: Option<Ring>,
}

impl Cards {
    /// Takes two cards, with a receive ring of so many places where it is said.
    pub fn open(
        kernel: &dyn Kernel,
        (near, far): (&str, &str),
        metronome: Option<&str>,
        softirqs: bool,
        ring: Option<u64>,
        sides: Sides,
    ) -> Result<Cards, String> {
        let words = |error: KernelError| error.to_string();
        let pair = CardPair::new(near, far).map_err(words)?;
        let pair = match metronome {
            None => pair,
            Some(name) => pair.with_metronome(name).map_err(words)?,
        };
        if let Some(outside) = sides.outside {
            steer(kernel, &pair.sender_directory(), CpuSet::single(outside))?;
            steer(kernel, &pair.directory(), sides.inside)?;
        }
        if let Some(cpu) = sides.handlers {
            steer(kernel, &pair.directory(), CpuSet::single(cpu))?;
        }
        let ring = match ring {
            None => pair.ring().ok(),
            Some(places) => {
                let wanted = u32::try_from(places).unwrap_or(u32::MAX);
                let set = pair.set_ring(wanted).map_err(|error| {
                    let most = pair.ring().map_or_else(
                        |_| String::new(),
                        |ring| format!(" (it has {} of {} at most)", ring.places, ring.most),
                    );
                    format!("its ring cannot have {places} places{most}: {error}")
                })?;
                if set.places != wanted {
                    return Err(format!(
                        "its ring gets {} places where {places} were asked for; write `buffer = {}`",
                        set.places, set.places
                    ));
                }
                Some(set)
            }
        };
        let polled = if softirqs { None } else { Some(pair.poll_in_a_thread().map_err(words)?) };
        // Packets with much to do for whoever takes them through the layers, not for whoever only says that they are there.
        let flow = pair.flow(STEPS_MAX).map_err(words)?;
        let (thread, others) = handler(kernel, &pair.directory(), polled, || {
            (0..TRIED).for_each(|_| {
                flow.send();
            });
        })?;
        let driver = std::fs::read_link(pair.directory().join("device/driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let driver = driver.unwrap_or_else(|| "card".to_owned());
        let names = (near.to_owned(), far.to_owned());
        Ok(Cards { pair, thread, others, names, driver, ring })
    }

    /// Sends a few packets.
    pub fn rouse(&self) {
        if let Ok(flow) = self.pair.flow(0) {
            (0..TRIED).for_each(|_| {
                flow.send();
            });
        }
    }

    /// Whether its wire repeats what it is given.
    pub fn repeats(&self) -> bool {
        self.pair.repeats()
    }

    /// Who sets its metronome going with packets of so many steps.
    pub fn metronome(&self, steps: usize) -> Result<Beats, String> {
        let words = |error: KernelError| error.to_string();
        let flow = self.pair.flow_of_metronome(steps).map_err(words)?;
        let metronome = self.pair.metronome(&flow).map_err(words)?;
        let metronome = metronome.ok_or_else(|| "it has no card for a metronome".to_owned())?;
        let before = flow.arrived().map_err(words)?;
        let _ = clock::sleep_until(clock::monotonic() + BEATS_WITHIN, None);
        let goes = flow.arrived().map_err(words)? != before;
        Ok(Beats { metronome, _flow: flow, goes })
    }

    /// For the record.
    pub fn in_words(&self) -> String {
        let sender = if self.repeats() { ", which repeats a packet" } else { "" };
        let ring = self
            .ring
            .map_or_else(|| "a ring of unknown size".to_owned(), |ring| format!("a ring of {}", ring.places));
        let Cards { names: (near, far), driver, thread, others, .. } = self;
        format!(
            "{far} ({driver}), wired to {near}{sender}, thread {} ({}){}, {ring}",
            thread.name,
            thread.tid,
            beside(others)
        )
    }
}

/// Sets a metronome going.
pub(crate) struct Beats {
    metronome: Metronome,
    /// Where its frames end.
    _flow: Flow,
    /// It goes already, from an earlier run: it cannot be stopped.
    goes: bool,
}

impl Beats {
    /// Until the window ends.
    pub fn run(&self, gate: &Gate, window: &Window) -> Sent {
        if !gate.sleep_until(window.begin) {
            return Sent::default();
        }
        let refused = !self.goes && self.metronome.start().is_err();
        gate.sleep_until(window.end);
        Sent { left_out: u64::from(refused), ..Sent::default() }
    }
}

/// A disk, with its thread.
pub(super) struct DiskDevice {
    name: String,
    file: File,
    block: usize,
    blocks: u64,
    pub thread: Handler,
    others: Vec<Handler>,
}

impl DiskDevice {
    /// Takes a disk by the name of its block device.
    pub fn open(kernel: &dyn Kernel, name: &str, block: usize, sides: Sides) -> Result<DiskDevice, String> {
        let path = Path::new("/dev").join(name);
        let file = File::open(&path).and_then(|file| reopen_direct(&file, false));
        let file = file.map_err(|e| format!("{}: {e}", path.display()))?;
        let directory = Path::new("/sys/class/block").join(name);
        let size = kernel.read_text(&directory.join("size")).map_err(|e| e.to_string())?;
        let sectors: u64 = size.trim().parse().map_err(|_| format!("{name} says no size"))?;
        let blocks = sectors * 512 / block as u64;
        if blocks == 0 {
            return Err(format!("{name} holds nothing"));
        }
        if let Some(cpu) = sides.handlers {
            steer(kernel, &directory, CpuSet::single(cpu))?;
        }
        let mut tried = Ok(());
        let (thread, others) = handler(kernel, &directory, None, || {
            let mut memory = Block::new(block);
            tried = (0..u64::from(TRIED)).try_for_each(|n| memory.read(&file, n % blocks));
        })?;
        tried.map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
        Ok(DiskDevice { name: name.to_owned(), file, block, blocks, thread, others })
    }

    /// Reads a few blocks; one that cannot be read is met again by who reads it in the run.
    pub fn rouse(&self) {
        let mut memory = Block::new(self.block);
        (0..u64::from(TRIED)).for_each(|n| {
            let _ = memory.read(&self.file, n % self.blocks);
        });
    }

    /// Reads that were completed; a disk loses none.
    pub fn counts(&self) -> Result<Counts, KernelError> {
        let path = Path::new("/sys/class/block").join(&self.name).join("stat");
        let bad = |errno| KernelError::new(Operation::Read, path.display().to_string(), errno);
        let text = std::fs::read_to_string(&path).map_err(|e| bad(e.raw_os_error().unwrap_or(libc_eio())))?;
        let first = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        Ok(Counts { handled: first.ok_or_else(|| bad(libc_eio()))?, lost: 0 })
    }

    /// Packets do not go to a disk.
    pub fn no_flow(&self) -> KernelError {
        KernelError::new(Operation::Open, format!("a flow of packets to {}", self.name), libc_eio())
    }

    /// One of those that read it.
    pub fn reader(&self, seed: u64, number: u32) -> std::io::Result<Reader> {
        let stream = stream_of(&format!("{}~reader{number}", self.name));
        Ok(Reader { file: self.file.try_clone()?, block: self.block, blocks: self.blocks, seed, stream })
    }

    /// For the record.
    pub fn in_words(&self) -> String {
        let DiskDevice { name, thread, others, block, .. } = self;
        format!(
            "{name}, thread {} ({}){}, direct reads of {block} bytes anywhere",
            thread.name,
            thread.tid,
            beside(others)
        )
    }
}

/// `EIO`.
const fn libc_eio() -> i32 {
    5
}

/// Reads a disk past the page cache, one block somewhere after the other.
pub(crate) struct Reader {
    file: File,
    block: usize,
    blocks: u64,
    seed: u64,
    stream: u64,
}

impl Reader {
    /// Until the window ends; gives the blocks read while it is observed.
    pub fn run(&self, gate: &Gate, window: &Window) -> u64 {
        if !gate.sleep_until(window.begin) {
            return 0;
        }
        let mut block = Block::new(self.block);
        let mut places = Pcg::for_job(self.seed, self.stream, 0);
        let mut done = 0;
        loop {
            if gate.is_over(window, clock::monotonic()) {
                return done;
            }
            if block.read(&self.file, places.next_u64() % self.blocks).is_err() {
                return done;
            }
            done += u64::from(clock::monotonic() >= window.observe);
        }
    }
}

/// Memory that a disk's blocks can be read into directly: at a multiple of their size.
struct Block {
    bytes: Vec<u8>,
    from: usize,
    block: usize,
}

impl Block {
    fn new(block: usize) -> Block {
        let bytes = vec![0; ALIGNED + block];
        let from = bytes.as_ptr().align_offset(ALIGNED);
        Block { bytes, from, block }
    }

    fn read(&mut self, file: &File, number: u64) -> std::io::Result<()> {
        file.read_exact_at(&mut self.bytes[self.from..self.from + self.block], number * self.block as u64)
    }
}
