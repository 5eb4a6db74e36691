//! Disks of a simulated machine: page cache, queue with its I/O scheduler, and the device, on the engine of the CPUs.
//!
//! ```text
//! thread -> Operation (page cache, read-ahead, direct, fsync) -> bio -> block::Queue -> device::Model
//!    ^                                                                                        |
//!    '---------------- woken behind the disk's interrupt <- pages there, bios done <----------'
//! ```
//!
//! A thread does one [`Operation`] at a time: it polls it while it is on a CPU ([`Storage::poll`]); where that says that there is
//! something to wait for it sleeps, and is woken when there is something new. So everything a process does for its I/O is done
//! when its scheduler lets it run, and completions wait for the interrupt of the disk.
//!
//! What a disk does has no CPU of its own, but the completion's interrupt; the flushers that write dirty pages back take no
//! CPU time.

mod bandwidth;
mod cache;
mod direct;
mod flusher;
mod guest;
mod marks;
mod operation;
pub mod optimum;
mod parts;
mod tracer;
mod two_windows;
mod unit;

use std::ops::Range;

use surety_block::{Bio, BioId, Op, Process, ProcessId};
use surety_device::model::Service;
use surety_model::event::SpanMarker;
use surety_model::record::Distribution;
use surety_units::{Bytes, Nanos};

use crate::cpu::at_disk::AtDisk;
use crate::engine::{ComponentId, Engine, Event, Slot};
use cache::File;
pub use cache::ReadAhead;
use flusher::Flusher;
use guest::Guest;
pub use guest::{DEPTH as VIRTUAL_DEPTH, Virtual};
pub use operation::Operation;
use parts::Parts;
use tracer::Tracer;
pub use unit::{Device, Done, Unit};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Sectors of a page.
pub const SECTORS: u64 = PAGE / 512;
/// The longest bio: 256 pages (`BIO_MAX_VECS` in `include/linux/bio.h`).
const BIO_PAGES: u64 = 256;

/// The number of the flusher's slot; those of disks are from 0 on.
const FLUSHER: u32 = u32::MAX;

/// A file, by its place in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(pub usize);

/// Whom a bio is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// Pages of a file come from the disk, or go to it: then with the group of such bios that this one is of.
    Pages { file: FileId, first: u64, count: u64, group: Option<u32> },
    /// A direct access of a process.
    Direct(ProcessId),
    /// A request of a guest's disk.
    Guest { guest: usize, tag: u32 },
}

/// What a process waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wait {
    #[default]
    Nothing,
    /// A page that is being read.
    Page(FileId, u64),
    /// Its bios, so many.
    Bios,
    /// The pages of a file that are being written.
    Written(FileId),
    /// Those of all files of a disk, in a sync.
    DiskWritten,
    /// A request of the queue.
    Request,
    /// Less that is dirty on a disk.
    Dirty(usize),
    /// The device's cache.
    Flush,
}

/// What a process is at.
#[derive(Clone, Debug, Default)]
struct Doing {
    operation: Option<Operation>,
    wait: Wait,
    /// When it is late with it.
    deadline: Option<Nanos>,
    /// Bios for which there was no request yet.
    unsent: std::collections::VecDeque<(Bio, BioId)>,
    /// Its direct bios that are not complete.
    direct: u32,
    /// Which account its requests are counted in.
    account: Option<usize>,
    /// The direct access that follows the one it is at, and when it is late with that.
    chained: Option<(Operation, Option<Nanos>)>,
    /// Accesses that were complete when the next one followed them, and it was not yet told of.
    passed: u64,
    /// When its direct access was asked for; and of each, where that is kept, when it was and when all of it was there.
    asked: Nanos,
    kept: Option<Vec<(Nanos, Nanos)>>,
    /// Where that is kept, when the driver had each request of its direct accesses, those that nobody has asked for.
    in_device: Option<Vec<(Nanos, Nanos)>>,
}

/// All disks of a machine, with files and the processes that use them.
#[derive(Default)]
pub struct Storage {
    component: Option<ComponentId>,
    units: Vec<Unit>,
    files: Vec<File>,
    doing: Vec<Doing>,
    processes: Vec<Process>,
    bios: Vec<For>,
    free: Vec<BioId>,
    /// Whether anything was submitted since the last time the drivers looked.
    is_stirred: bool,
    /// The kernel's workers, which run the queues, have no CPU.
    are_workers_held: bool,
    flusher: Flusher,
    guests: Vec<Guest>,
    /// Where the time of requests went, once that is observed.
    accounts: Vec<Parts>,
    is_observed: bool,
    tracer: Tracer,
    woken: Vec<Woken>,
    /// Processes that wait until less is dirty; one that goes on for another reason may stand here still.
    soilers: Vec<ProcessId>,
    /// Processes that wait for all of a disk; as above.
    syncers: Vec<ProcessId>,
    candidates: Vec<ProcessId>,
    arms: Vec<(Slot, Option<Nanos>)>,
    done: Vec<BioId>,
    released: Vec<ProcessId>,
}

/// A process that goes on, behind the interrupt of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The disk, by its place.
    pub disk: usize,
    pub process: ProcessId,
}

impl Storage {
    /// Disks of a machine with so much memory for programs and the page cache; 1 GiB where nobody says.
    pub fn on_a_machine_with(memory: Option<Bytes>) -> Storage {
        Storage {
            flusher: memory.map_or_else(Flusher::default, |bytes| Flusher::of(bytes.0)),
            ..Storage::default()
        }
    }

    /// Adds a disk and says by which place it is named.
    pub fn add_disk(&mut self, engine: &mut Engine, make: impl FnOnce(Slot, Slot) -> Unit) -> usize {
        let component = self.component.unwrap_or_else(|| {
            let component = engine.add_component();
            self.flusher.set_up(engine.add_slot(component, FLUSHER));
            component
        });
        self.component = Some(component);
        let number = u32::try_from(self.units.len() * 2).expect("fewer than 2^31 disks");
        let (device, timer) = (engine.add_slot(component, number), engine.add_slot(component, number + 1));
        let mut unit = make(device, timer);
        self.processes.iter().for_each(|process| unit.queue.add_process(*process));
        self.units.push(unit);
        self.flusher.add_disk();
        self.units.len() - 1
    }

    /// The component of the engine that its events are of.
    pub fn component(&self) -> Option<ComponentId> {
        self.component
    }

    /// A disk.
    pub fn unit(&self, disk: usize) -> &Unit {
        &self.units[disk]
    }

    /// From here on requests are counted.
    pub fn observe_from_here(&mut self) {
        self.is_observed = true;
    }

    /// From here on what happens is kept for [`Storage::take_told`].
    pub fn trace(&mut self) {
        self.tracer.start();
        self.guests.iter().for_each(|guest| guest.tell(&mut self.tracer));
        self.units.iter_mut().for_each(|unit| unit.queue.keep_steps());
    }

    /// What happened since this was last asked, in order; nothing where nobody wants it.
    pub fn take_told(&mut self) -> impl Iterator<Item = AtDisk> + '_ {
        self.gather();
        self.tracer.told().drain(..)
    }

    /// The thread whose turn it is says something of a start-up or a stream, where somebody wants events.
    pub fn say(&mut self, marker: SpanMarker<usize>) {
        self.tracer.say(marker);
    }

    /// Has the queues tell what they did.
    fn gather(&mut self) {
        if self.tracer.is_on() {
            for (disk, unit) in self.units.iter_mut().enumerate() {
                unit.queue.take_steps(&mut self.tracer.steps);
                self.tracer.queue_did(disk);
            }
        }
    }

    /// Where the time of an account's requests went, each part by its name.
    pub fn parts(&self, account: usize) -> impl Iterator<Item = (String, Distribution)> + '_ {
        self.accounts.get(account).into_iter().flat_map(Parts::series)
    }

    /// Has the requests of a process counted in an account.
    pub fn count_in(&mut self, process: ProcessId, account: usize) {
        self.accounts.resize_with(self.accounts.len().max(account + 1), Parts::default);
        self.doing[process.index()].account = Some(account);
    }

    /// Adds a process.
    pub fn add_process(&mut self, process: Process) -> ProcessId {
        let id = ProcessId(u32::try_from(self.doing.len()).expect("fewer than 2^32 processes"));
        self.doing.push(Doing::default());
        self.processes.push(process);
        self.units.iter_mut().for_each(|unit| unit.queue.add_process(process));
        id
    }

    /// A process exits: what is done under its number from here on is another's.
    pub fn exit(&mut self, now: Nanos, process: ProcessId) {
        self.is_stirred = true;
        self.units.iter_mut().for_each(|unit| unit.queue.exits(now, process));
        self.flush_behind(now, process);
    }

    /// Adds a file of so many bytes, in one piece behind those before it; `None`: the disk is full.
    pub fn add_file(&mut self, disk: usize, bytes: u64) -> Option<FileId> {
        let first = self.units[disk].place(bytes.div_ceil(PAGE) * SECTORS)?;
        self.add_file_at(disk, vec![(0, first)], bytes)
    }

    /// Files that have no place get none before the end of this one.
    pub fn reserve(&mut self, disk: usize, pieces: &[(u64, u64)], bytes: u64) {
        self.occupy(disk, pieces, bytes.div_ceil(PAGE));
    }

    /// Adds a file of so many bytes, in pieces: the first page of each, from 0 on, and its sector; `None`: the disk ends before it.
    pub fn add_file_at(&mut self, disk: usize, pieces: Vec<(u64, u64)>, bytes: u64) -> Option<FileId> {
        let pages = bytes.div_ceil(PAGE);
        self.occupy(disk, &pieces, pages)?;
        self.files.push(File::new(disk, self.units[disk].read_ahead, pieces, pages));
        Some(FileId(self.files.len() - 1))
    }

    fn occupy(&mut self, disk: usize, pieces: &[(u64, u64)], pages: u64) -> Option<()> {
        let ends = pieces.iter().skip(1).map(|(first, _)| *first).chain([pages]);
        let mut each = pieces.iter().zip(ends);
        each.try_for_each(|((first, sector), end)| {
            self.units[disk].occupy(*sector, end.saturating_sub(*first) * SECTORS)
        })
    }

    /// Bytes that the disk of a file has moved for all processes, those of completed requests.
    pub fn moved(&self, file: FileId) -> u64 {
        self.units[self.files[file.0].disk].served().1
    }

    /// What of a file is not dirty and not under way leaves the page cache (`POSIX_FADV_DONTNEED`).
    pub fn evict(&mut self, file: FileId) {
        self.files[file.0].evict();
    }

    /// A process begins an operation; it has none. `deadline`: when it is late with it, where it knows.
    pub fn begin(&mut self, process: ProcessId, operation: Operation, deadline: Option<Nanos>) {
        let doing = &mut self.doing[process.index()];
        debug_assert!(doing.operation.is_none(), "one operation at a time");
        (doing.operation, doing.deadline) = (Some(operation), deadline);
    }

    /// Goes on with a process's operation; false: it has to wait, and is among the woken later.
    pub fn poll(&mut self, now: Nanos, process: ProcessId) -> bool {
        let index = process.index();
        self.doing[index].wait = Wait::Nothing;
        let Some(mut operation) = self.doing[index].operation.take() else { return true };
        self.is_stirred = true;
        let wait = self.go_on(now, process, &mut operation);
        self.flush_behind(now, process);
        if wait == Wait::Nothing {
            return true;
        }
        match wait {
            Wait::Page(file, _) | Wait::Written(file) => self.files[file.0].waiting.push(process),
            Wait::Dirty(disk) => {
                self.soilers.push(process);
                self.units[disk].queue.dirtiers(now, true);
            }
            Wait::DiskWritten => self.syncers.push(process),
            _ => {}
        }
        let doing = &mut self.doing[index];
        (doing.operation, doing.wait) = (Some(operation), wait);
        false
    }

    /// Has drivers take what they can, and says which slots of the engine are to be armed, and when; `None`: not at all.
    /// The list is given back with [`Storage::take_back`].
    pub fn settle(&mut self, now: Nanos) -> Vec<(Slot, Option<Nanos>)> {
        self.arms.clear();
        if std::mem::take(&mut self.is_stirred) {
            self.gather();
            self.carry(now);
            for (disk, unit) in self.units.iter_mut().enumerate() {
                unit.drive(now, disk, &mut self.tracer);
                self.arms.extend(unit.wants());
            }
            self.arms.extend(self.flusher.wants());
        }
        std::mem::take(&mut self.arms)
    }

    /// Whether the kernel's workers have to wait for a CPU: queues that they are to run are run when they have one.
    pub fn hold_workers(&mut self, now: Nanos, holds: bool) {
        if std::mem::replace(&mut self.are_workers_held, holds) != holds {
            self.is_stirred |= !holds;
            self.units.iter_mut().for_each(|unit| unit.queue.holds_worker(now, holds));
        }
    }

    /// Takes the list of [`Storage::settle`] back.
    pub fn take_back(&mut self, arms: Vec<(Slot, Option<Nanos>)>) {
        self.arms = arms;
    }

    /// An event of its component: who goes on because of it.
    pub fn occur(&mut self, now: Nanos, event: Event) -> &[Woken] {
        self.woken.clear();
        self.is_stirred = true;
        if event.number == FLUSHER {
            self.write_old_pages(now);
            return &self.woken;
        }
        let disk = event.number as usize / 2;
        if event.number % 2 == 1 {
            self.units[disk].queue.expired(now);
            return &self.woken;
        }
        self.count_raised(disk);
        loop {
            self.gather();
            let (done, released) = (&mut self.done, &mut self.released);
            let Some(done) = self.units[disk].advance(now, (done, released), disk, &mut self.tracer) else {
                break;
            };
            self.flush_held(now, disk);
            let (mut served, mut since) = (Service::default(), now);
            match done {
                Done::Flush(process) if self.flushed(now, process) => {}
                Done::Flush(process) => {
                    self.wake(disk, process, Wait::Flush);
                }
                Done::Request { process, queued, issued, service } => {
                    (served, since) = (service, issued);
                    if let Some(account) = self.doing[process.index()].account.filter(|_| self.is_observed) {
                        self.accounts[account].add(queued, &service);
                    }
                }
            }
            let finished = std::mem::take(&mut self.done);
            for bio in &finished {
                self.finish(now, disk, *bio, (since, &served));
            }
            self.done = finished;
            self.done.clear();
            let mut released = std::mem::take(&mut self.released);
            for process in released.drain(..) {
                match self.flusher.disk_of(process) {
                    Some(disk) => self.flush_in_turn(now, disk),
                    None if self.wake(disk, process, Wait::Request) => self.flusher.woken(disk, process),
                    None => {}
                }
            }
            self.flusher.end_of_batch(disk);
            self.released = released;
        }
        &self.woken
    }

    /// Counts what the disk's I/O scheduler says of raised processes.
    fn count_raised(&mut self, disk: usize) {
        while let Some((process, time)) = self.units[disk].queue.raised() {
            if let Some(account) = self.doing[process.index()].account.filter(|_| self.is_observed) {
                self.accounts[account].add_raised(time);
            }
        }
    }

    /// A bio is complete, whose request the driver took then and the device has served so.
    fn finish(&mut self, now: Nanos, disk: usize, bio: BioId, (issued, served): (Nanos, &Service)) {
        self.free.push(bio);
        match self.bios[bio.0 as usize] {
            For::Direct(process) => {
                let doing = &mut self.doing[process.index()];
                doing.in_device.iter_mut().for_each(|kept| kept.push((issued, now)));
                doing.direct -= 1;
                if doing.direct == 0 {
                    let asked = doing.asked;
                    if let Some(kept) = &mut doing.kept {
                        kept.push((asked, now));
                    }
                    self.follow(now, process);
                    self.wake(disk, process, Wait::Bios);
                }
            }
            For::Guest { guest, tag } => {
                let guest = &mut self.guests[guest];
                if guest.one_less(tag) {
                    guest.completes(now, tag, served);
                }
            }
            For::Pages { file, first, count, group } => {
                match group {
                    Some(group) => {
                        self.files[file.0].written(first, count);
                        self.flusher.wrote(now, disk, group, count);
                    }
                    None => self.files[file.0].arrived(first, count),
                }
                self.wake_readers(now, disk, file, first..first + count);
            }
        }
    }

    /// Pages of a file came from the disk, or went to it: whoever waited for that goes on, in the order in which processes were added.
    fn wake_readers(&mut self, now: Nanos, disk: usize, file: FileId, pages: Range<u64>) {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.extend_from_slice(&self.files[file.0].waiting);
        candidates.extend_from_slice(&self.syncers);
        let waits_for = |process: &&ProcessId| match self.doing[process.index()].wait {
            Wait::Dirty(disk) => !self.flusher.is_full(disk),
            _ => false,
        };
        candidates.extend(self.soilers.iter().filter(waits_for).take(self.flusher.admits(disk)));
        candidates.sort_unstable();
        for process in candidates.drain(..) {
            let wait = self.doing[process.index()].wait;
            let goes_on = match wait {
                Wait::Page(of, page) => of == file && pages.contains(&page),
                Wait::Written(of) => of == file && self.files[file.0].is_written(),
                Wait::Dirty(_) => true,
                Wait::DiskWritten => self.is_synced(process),
                _ => false,
            };
            if goes_on {
                self.wake(disk, process, wait);
            }
        }
        self.candidates = candidates;
        let doing = &self.doing;
        let waits = |process: &ProcessId| doing[process.index()].wait;
        let before = self.soilers.len();
        self.soilers.retain(|process| matches!(waits(process), Wait::Dirty(_)));
        if self.soilers.len() < before {
            for (disk, unit) in self.units.iter_mut().enumerate() {
                let wait = self.soilers.iter().any(|process| waits(process) == Wait::Dirty(disk));
                unit.queue.dirtiers(now, wait);
            }
        }
        self.syncers.retain(|process| waits(process) == Wait::DiskWritten);
        self.files[file.0]
            .waiting
            .retain(|process| matches!(waits(process), Wait::Page(of, _) | Wait::Written(of) if of == file));
    }

    /// Wakes a process that waits for this; whether it does.
    fn wake(&mut self, disk: usize, process: ProcessId, from: Wait) -> bool {
        let doing = &mut self.doing[process.index()];
        let waits = doing.wait == from && from != Wait::Nothing;
        if waits {
            doing.wait = Wait::Nothing;
            self.woken.push(Woken { disk, process });
        }
        waits
    }

    fn bio(&mut self, of: For) -> BioId {
        match self.free.pop() {
            Some(id) => {
                self.bios[id.0 as usize] = of;
                id
            }
            None => {
                self.bios.push(of);
                BioId(u32::try_from(self.bios.len() - 1).expect("fewer than 2^32 bios"))
            }
        }
    }

    /// Where a page of a file is: its disk and sector.
    fn place(&self, file: FileId, page: u64) -> (usize, u64) {
        let file = &self.files[file.0];
        (file.disk, file.sector(page))
    }

    /// Submits pages of a file, to be there, or to be written, once their bios are complete.
    fn submit_pages(
        &mut self,
        now: Nanos,
        process: ProcessId,
        how: (Op, bool),
        file: FileId,
        (first, end): (u64, u64),
    ) {
        let disk = self.files[file.0].disk;
        let group = (how.0 == Op::Write).then(|| self.flusher.group(disk));
        let of = |first, count| For::Pages { file, first, count, group };
        let bios = self.submit_of_file(now, process, how, file, (first, end), of);
        if group.is_some() {
            self.flusher.submitted(disk, bios);
        }
    }

    /// Makes bios of pages of a file and submits them; how many. `of`: whom a bio is for, by its first page and their number.
    fn submit_of_file(
        &mut self,
        now: Nanos,
        process: ProcessId,
        how: (Op, bool),
        file: FileId,
        (first, end): (u64, u64),
        of: impl Fn(u64, u64) -> For,
    ) -> u32 {
        let (mut page, mut bios) = (first, 0);
        while page < end {
            let (place, pages) = (self.place(file, page), self.files[file.0].together(page).min(end - page));
            bios += self.submit_bios(now, process, how, place, pages, |from, count| of(page + from, count));
            page += pages;
        }
        bios
    }

    /// Makes bios of pages from a sector of a disk on and submits them, as far as there are requests; how many. `of`: whom a bio
    /// is for, by its first page among them and their number.
    fn submit_bios(
        &mut self,
        now: Nanos,
        process: ProcessId,
        how: (Op, bool),
        (disk, sector): (usize, u64),
        pages: u64,
        of: impl Fn(u64, u64) -> For,
    ) -> u32 {
        let most = BIO_PAGES.min(u64::from(self.units[disk].queue.max_sectors()) / SECTORS);
        let (mut from, mut bios) = (0, 0);
        while from < pages {
            let count = (pages - from).min(most);
            let id = self.bio(of(from, count));
            self.submit(now, process, how, (disk, sector + from * SECTORS, count), id);
            from += count;
            bios += 1;
        }
        bios
    }

    fn submit(
        &mut self,
        now: Nanos,
        process: ProcessId,
        (op, sync): (Op, bool),
        (disk, sector, pages): (usize, u64, u64),
        id: BioId,
    ) {
        let sectors = u32::try_from(pages * SECTORS).expect("a bio has few sectors");
        let deadline = self.doing[process.index()].deadline;
        let cached = op == Op::Write && matches!(self.bios[id.0 as usize], For::Pages { .. });
        let bio = Bio { op, sync, meta: false, cached, sector, sectors, process, deadline };
        if self.tracer.is_on() {
            self.gather();
            self.tracer.submitted(disk, &bio);
        }
        self.doing[process.index()].unsent.push_back((bio, id));
        self.send_to(now, process, disk);
    }

    /// A process wants what a device has in its volatile cache on the medium.
    fn flush(&mut self, disk: usize, process: ProcessId) {
        self.units[disk].flush(process);
        if self.tracer.is_on() {
            let (op, sync, meta, cached, deadline) = (Op::Flush, true, false, false, None);
            let bio = Bio { op, sync, meta, cached, sector: 0, sectors: 0, process, deadline };
            self.tracer.submitted(disk, &bio);
        }
    }

    /// Submits what could not be submitted before; whether all is.
    fn send_to(&mut self, now: Nanos, process: ProcessId, disk: usize) -> bool {
        let unsent = &mut self.doing[process.index()].unsent;
        while let Some((bio, id)) = unsent.front() {
            if self.units[disk].queue.submit(now, *bio, *id) == surety_block::Submitted::Wait {
                return false;
            }
            unsent.pop_front();
        }
        true
    }
}

#[cfg(test)]
mod tests;
