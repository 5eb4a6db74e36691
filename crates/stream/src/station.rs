//! [`Station`]: the thread that serves the streams of one disk.
//!
//! It asks for a batch whenever fewer of its own than the limit are in the device and a stream wants one, the stream first
//! whose buffer is empty first; then it sleeps until a batch is there, until there is credit for one, or until a program has
//! made room.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use surety_kernel::io_priority::{IoPriority, set_own_io_priority};
use surety_kernel::pages::Pages;
use surety_kernel::ring::{Bell, Completed};
use surety_kernel::sched::{SchedAttr, SchedPolicy};
use surety_kernel::signals::without_signals;
use surety_kernel::thread::{OwnWaits, set_name, set_timer_slack};
use surety_kernel::{Kernel as _, KernelError, Operation, RealKernel, clock};
use surety_units::{Nanos, Tid};

use crate::account::Account;
use crate::contract::Contract;
use crate::desk::{BATCHES_MAX, Served, Shared, Way};
use crate::error::StreamError;
use crate::failure::EIO;
use crate::mode::{Mode, Rest};
use crate::mover::Mover;
use crate::reader::Reader;
use crate::sink::Sink;
use crate::source::{Layout, Source};
use crate::target::Target;
use crate::track::Track;
use crate::writer::Writer;

/// How the thread of a station is made.
#[derive(Clone, Copy, Debug)]
pub struct StationSettings {
    /// Batches in the device at a time, of all streams; where a contract has a bound, one of each stream.
    pub in_device: u32,
    /// Its I/O priority; `None`: that of its scheduling class.
    pub io_priority: Option<IoPriority>,
    /// Its priority of SCHED_FIFO; `None`: it stays fair.
    pub realtime: Option<u8>,
    /// Transfers go one after another even where the kernel has io_uring.
    pub is_blocking: bool,
    /// When its streams are served at first.
    pub mode: Mode,
}

impl Default for StationSettings {
    /// Two batches in the device, I/O priority real-time 0, SCHED_FIFO 1, steady.
    fn default() -> StationSettings {
        StationSettings {
            in_device: 2,
            io_priority: Some(IoPriority::Realtime(0)),
            realtime: Some(1),
            is_blocking: false,
            mode: Mode::Steady,
        }
    }
}

const NOT_WHOLE: StreamError = StreamError::Contract {
    key: "repeats",
    why: "needs a file to write over whose length is a multiple of a page",
};

/// The streams of one disk. It goes on until it and its last stream are dropped.
#[derive(Clone, Debug)]
pub struct Station(Arc<Served>);

impl Station {
    /// Starts the thread. What it may not have is a caveat of its streams, not an error.
    ///
    /// # Errors
    /// EAGAIN, EMFILE: the system has no thread or descriptor left.
    pub fn start(settings: StationSettings) -> Result<Station, StreamError> {
        let bell = Bell::new()?;
        let shared = Arc::new(Shared::new(bell.clone()));
        shared.desk().change_mode(settings.mode, clock::monotonic());
        let (sender, receiver) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let builder = thread::Builder::new().name("surety/streams".to_owned()).stack_size(256 << 10);
        let life = move || {
            let (mover, caveats) = prepare(settings, bell);
            // Who started it waits.
            let _ = sender.send((surety_kernel::thread::own_tid(), caveats));
            let in_device = if mover.is_blocking() { 1 } else { settings.in_device.max(1) };
            live(&of_thread, mover, in_device as usize);
        };
        // The program's handlers of signals run on threads of the program.
        let thread = without_signals(|| builder.spawn(life));
        let failed =
            |error: &std::io::Error| KernelError::from_io(Operation::Spawn, "a thread for streams", error);
        let thread = thread.map_err(|error| failed(&error))?;
        let (tid, caveats) = receiver.recv().unwrap_or_default();
        Ok(Station(Arc::new(Served::new(shared, thread, tid, caveats))))
    }

    /// Its thread.
    pub fn tid(&self) -> Tid {
        self.0.tid
    }

    /// What it was not given, in words: a lower level of every stream.
    pub fn caveats(&self) -> &[String] {
        &self.0.caveats
    }

    /// When its streams are served, from now on.
    pub fn set_mode(&self, mode: Mode) {
        self.0.shared.desk().change_mode(mode, clock::monotonic());
        self.0.shared.bell.strike();
    }

    /// When its streams are served.
    pub fn mode(&self) -> Mode {
        self.0.shared.desk().mode()
    }

    /// The times so far in which nothing of it was at the disk.
    pub fn rest(&self) -> Rest {
        self.0.shared.desk().rest(clock::monotonic())
    }

    /// Opens a file as a stream from its beginning; fetching begins at once.
    ///
    /// # Errors
    /// In words: no file, nothing in it, a contract that cannot be, no memory.
    pub fn open(&self, path: &Path, contract: &Contract) -> Result<Reader, StreamError> {
        self.attach(Source::open(path)?, contract)
    }

    /// The same of a file that is open already; `path` names it in errors.
    ///
    /// # Errors
    /// As [`Station::open`].
    pub fn open_file(
        &self,
        file: &std::fs::File,
        path: &Path,
        contract: &Contract,
    ) -> Result<Reader, StreamError> {
        self.attach(Source::of(path, file)?, contract)
    }

    /// Makes a file to write as a stream, or empties the one that is there. Room for the contract's `length` is allocated now.
    ///
    /// # Errors
    /// In words: no such directory, no file, a contract that cannot be, no memory.
    pub fn create(&self, path: &Path, contract: &Contract) -> Result<Writer, StreamError> {
        // Before what is in the file is gone.
        contract.check()?;
        if contract.repeats {
            return Err(NOT_WHOLE);
        }
        let mut target = Target::create(path)?;
        let memory = Account::open((path, contract), target.alignment, clock::monotonic())?;
        target.empty(path, contract)?;
        self.attach_writer(target, memory, contract)
    }

    /// Writes over a file that is there, from its beginning. Its room is there already, so writing within its length changes nothing but data.
    ///
    /// # Errors
    /// As [`Station::create`]; no file, or an end that is no multiple of what direct access needs where it is to repeat.
    pub fn write_over(
        &self,
        file: &std::fs::File,
        path: &Path,
        contract: &Contract,
    ) -> Result<Writer, StreamError> {
        let target = Target::over(path, file)?;
        if contract.repeats && !target.is_whole() {
            return Err(NOT_WHOLE);
        }
        let memory = Account::open((path, contract), target.alignment, clock::monotonic())?;
        self.attach_writer(target, memory, contract)
    }

    fn attach(&self, source: Source, contract: &Contract) -> Result<Reader, StreamError> {
        let track = Track::new(contract, source, clock::monotonic())?;
        let wake = Arc::clone(&track.account.wake);
        let number = self.0.shared.desk().attach(Way::In(track), clock::monotonic());
        self.0.shared.bell.strike();
        Ok(Reader::new(Arc::clone(&self.0), number, wake))
    }

    fn attach_writer(
        &self,
        mut target: Target,
        (mut account, free): (Account, Vec<Pages>),
        contract: &Contract,
    ) -> Result<Writer, StreamError> {
        account.caveats.append(&mut target.caveats);
        if !target.unbounded.is_empty() {
            account.may_change_metadata();
        }
        account.unbounded.append(&mut target.unbounded);
        account.unbounded.extend(Layout::broken(&target.breaks, account.batch));
        let sink = Sink::new(account, free, Arc::clone(&target.file))?;
        let (wake, batch) = (Arc::clone(&sink.account.wake), sink.account.batch);
        let number = self.0.shared.desk().attach(Way::Out(sink), clock::monotonic());
        Ok(Writer::new((Arc::clone(&self.0), number, wake), target, batch, contract))
    }
}

/// Gives the calling thread what the settings ask for; what it may not have is said.
fn prepare(settings: StationSettings, bell: Bell) -> (Mover, Vec<String>) {
    let mut caveats = Vec::new();
    let _ = set_name("surety/streams");
    let _ = set_timer_slack(Nanos::new(1));
    match settings.realtime {
        None => caveats.push("the thread that fetches is not real-time: it was not to be".to_owned()),
        Some(priority) => {
            let wanted = SchedPolicy::Fifo { priority: priority.into() };
            let attributes = SchedAttr { reset_on_fork: true, ..SchedAttr::from(wanted) };
            if let Err(error) = RealKernel::default().set_scheduler_directly(Tid(0), &attributes) {
                caveats.push(format!("the thread that fetches is not real-time: {error}"));
            }
        }
    }
    if let Some(priority) = settings.io_priority
        && let Err(error) = set_own_io_priority(priority)
    {
        caveats.push(format!("its requests have no priority at the disk: {error}"));
    }
    if matches!(settings.io_priority, Some(priority) if !matches!(priority, IoPriority::Realtime(_))) {
        caveats
            .push("its requests do not go first at the disk: their I/O priority is not real-time".to_owned());
    }
    if settings.is_blocking {
        caveats.push("one batch at a time is fetched: without io_uring, as it was to be".to_owned());
        return (Mover::blocking(bell), caveats);
    }
    // One more, for a sync.
    let batches = u32::try_from(BATCHES_MAX).unwrap_or(u32::MAX).max(settings.in_device);
    let (mover, missing) = Mover::new(batches + 1, bell);
    caveats.extend(missing.map(|error| format!("one batch at a time is fetched: {error}")));
    (mover, caveats)
}

/// The thread's life. Whatever ends it is told to all streams: nobody waits for it any more.
fn live(shared: &Shared, mover: Mover, in_device: usize) {
    let served = catch_unwind(AssertUnwindSafe(|| serve(shared, mover, in_device)));
    if served.is_err() {
        let why = KernelError::new(Operation::Wait, "transfers: the thread that serves streams failed", EIO);
        shared.desk().give_up(why);
    }
}

fn serve(shared: &Shared, mut mover: Mover, in_device: usize) {
    // A wait for a CPU is that of what the thread was woken for.
    let waits = OwnWaits::open();
    let so_far = || waits.as_ref().and_then(OwnWaits::so_far).unwrap_or_default();
    let (mut before, mut ready) = (so_far(), Nanos::ZERO);
    loop {
        let (transfer, within) = {
            let mut desk = shared.desk();
            if desk.is_closing() {
                return;
            }
            desk.was_ready(std::mem::take(&mut ready));
            desk.next(clock::monotonic(), in_device)
        };
        // Not while the desk is held: handing over may take its time.
        if let Some(transfer) = transfer {
            if let Err((transfer, error)) = mover.submit(transfer) {
                shared.desk().complete(Completed { transfer, result: Err(error.errno) }, clock::monotonic());
            }
            continue;
        }
        // Of a transfer that is over when it is begun all waits are its own.
        if !mover.is_blocking() {
            before = so_far();
        }
        let done = match mover.wait(within) {
            Ok(done) => done,
            Err(error) => return shared.desk().give_up(error),
        };
        let now = so_far();
        ready = now - std::mem::replace(&mut before, now);
        if let Some(done) = done {
            let mut desk = shared.desk();
            desk.was_ready(ready);
            desk.complete(done, clock::monotonic());
        }
    }
}
