//! [`Tracer`]: what happens at the disks, as the kernel's block layer would tell it, where somebody wants events.
//!
//! Disks have the numbers of SCSI disks (8:0, 8:16, ...). What a process does is told of the thread that does it; what the flusher
//! and the processes of virtual machines do bears their names, though they have no thread here.

use surety_block::{Bio, IoClass, Op, Priority, ProcessId, Request, RequestId, Rule, Step, StepKind};
use surety_device::model::Service;
use surety_model::event::{
    BlockEvent, BlockStep, Comm, DiskNumber, GuestDisk, RequestServed, Rwbs, SpanMarker,
};

use crate::cpu::at_disk::AtDisk;

/// The major number of SCSI disks, and how many minor numbers each has.
const MAJOR: u32 = 8;
const MINORS: u32 = 16;

/// Keeps what happens, once somebody wants it.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    is_on: bool,
    told: Vec<AtDisk>,
    /// Of a queue, between its telling and ours.
    pub(super) steps: Vec<Step>,
    /// By disk and request: by which rule it was dispatched.
    rules: Vec<Vec<&'static str>>,
    /// Processes that are no threads here.
    names: Vec<(ProcessId, Comm)>,
}

impl Tracer {
    pub(super) fn start(&mut self) {
        self.is_on = true;
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// What a process does bears this name: it is no thread here.
    pub(super) fn call(&mut self, process: ProcessId, name: &str) {
        self.names.push((process, Comm::new(name)));
    }

    /// What was told, to be emptied.
    pub(super) fn told(&mut self) -> &mut Vec<AtDisk> {
        &mut self.told
    }

    /// A process submits a bio, or asks for a flush.
    pub(super) fn submitted(&mut self, disk: usize, bio: &Bio) {
        let Bio { op, sync, meta, sector, sectors, process, .. } = *bio;
        let told = event(BlockStep::BioQueued, disk, letters(op, sync, meta), (sector, sectors));
        self.put(BlockEvent { comm: self.name(process), ..told });
    }

    /// Tells the steps of a disk's queue.
    pub(super) fn queue_did(&mut self, disk: usize) {
        for at in 0..self.steps.len() {
            let Step { kind, op, sync, meta, sector, sectors, process, priority } = self.steps[at];
            let step = match kind {
                StepKind::Appended => BlockStep::BioAppended,
                StepKind::Prepended => BlockStep::BioPrepended,
                StepKind::Made => BlockStep::RequestMade,
                StepKind::Inserted => BlockStep::Inserted,
                StepKind::Joined => BlockStep::Joined,
            };
            let told = event(step, disk, letters(op, sync, meta), (sector, sectors));
            self.put(BlockEvent { comm: self.name(process), ..with_priority(told, priority) });
        }
        self.steps.clear();
    }

    /// The current thread says something of a start-up or a stream.
    pub(super) fn say(&mut self, marker: SpanMarker<usize>) {
        if self.is_on {
            self.told.push(AtDisk::Span(marker));
        }
    }

    /// The driver takes a request.
    pub(super) fn issued(&mut self, disk: usize, id: RequestId, request: &Request, rule: Rule) {
        if self.rules.len() <= disk {
            self.rules.resize_with(disk + 1, Vec::new);
        }
        let rules = &mut self.rules[disk];
        if rules.len() <= id.index() {
            rules.resize(id.index() + 1, "");
        }
        rules[id.index()] = rule.0;
        self.put(of_request(BlockStep::Issued, disk, request));
    }

    /// The device is done with a request.
    pub(super) fn completed(&mut self, disk: usize, id: RequestId, request: &Request, service: &Service) {
        let Service { queue, overhead, seek, rotation, transfer } = *service;
        let rule = self.rules.get(disk).and_then(|rules| rules.get(id.index())).copied().unwrap_or_default();
        let parts = [queue, overhead, seek, rotation, transfer];
        let served = RequestServed { disk: number(disk), sector: request.sector, parts, rule };
        self.told.push(AtDisk::Served(served));
        self.put(of_request(BlockStep::Completed, disk, request));
    }

    /// The driver has the device flush its cache, or the device has done so.
    pub(super) fn flush(&mut self, disk: usize, is_done: bool) {
        let step = if is_done { BlockStep::Completed } else { BlockStep::Issued };
        self.put(event(step, disk, letters(Op::Flush, true, false), (0, 0)));
    }

    /// A disk is a guest's: a piece of its host's from a sector on, where a process of the host makes its requests again.
    pub(super) fn guest(
        &mut self,
        (disk, host): (usize, usize),
        (first, sectors): (u64, u64),
        process: ProcessId,
    ) {
        let (disk, host, process) = (number(disk), number(host), self.name(process));
        self.told.push(AtDisk::Guest(GuestDisk { disk, host, first, sectors, process }));
    }

    fn put(&mut self, event: BlockEvent) {
        self.told.push(AtDisk::Step(event));
    }

    fn name(&self, process: ProcessId) -> Comm {
        self.names.iter().find(|(named, _)| *named == process).map_or(Comm::default(), |(_, name)| *name)
    }
}

fn number(disk: usize) -> DiskNumber {
    let disk = u32::try_from(disk).expect("fewer than 2^31 disks");
    DiskNumber { major: MAJOR, minor: disk * MINORS }
}

/// The kernel's letters (`blk_fill_rwbs`): a flush is an operation, and one before the operation too.
fn letters(op: Op, sync: bool, meta: bool) -> Rwbs {
    let word: &[u8] = match op {
        Op::Read => b"R",
        Op::Write => b"W",
        Op::Discard => b"D",
        Op::Flush => b"FF",
    };
    // Who reads waits in any case: the kernel marks only writes.
    let sync = sync && op == Op::Write;
    let word: Vec<u8> =
        word.iter().copied().chain(sync.then_some(b'S')).chain(meta.then_some(b'M')).collect();
    Rwbs::new(&word)
}

fn event(step: BlockStep, disk: usize, rwbs: Rwbs, (sector, sectors): (u64, u32)) -> BlockEvent {
    let bytes = if step.has_bytes() { sectors.saturating_mul(512) } else { 0 };
    let (disk, comm) = (number(disk), Comm::default());
    BlockEvent { step, disk, sector, sectors, bytes, priority: 0, rwbs, comm, error: 0 }
}

fn of_request(step: BlockStep, disk: usize, request: &Request) -> BlockEvent {
    let Request { op, sync, meta, sector, sectors, priority, .. } = *request;
    with_priority(event(step, disk, letters(op, sync, meta), (sector, sectors)), priority)
}

/// The class above bit 13, as `ioprio_set(2)` numbers them.
fn with_priority(mut event: BlockEvent, priority: Priority) -> BlockEvent {
    let class = match priority.class {
        IoClass::Realtime => 1,
        IoClass::BestEffort => 2,
        IoClass::Idle => 3,
    };
    if event.step.has_priority() {
        event.priority = class << 13 | u16::from(priority.level);
    }
    event
}
