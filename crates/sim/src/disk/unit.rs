//! [`Unit`]: one disk: its queue, its device, where its files lie.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use surety_block::{BioId, Op, Positioning, ProcessId, Queue, RequestId};
use surety_device::model::{Completion, Model, Request, Service};
use surety_units::Nanos;

use super::cache::ReadAhead;
use super::tracer::Tracer;
use crate::engine::Slot;

/// The tag of a flush; requests have the number of theirs.
pub(super) const FLUSH: u32 = u32::MAX;

/// Something the device is done with.
#[derive(Clone, Copy, Debug)]
pub enum Done {
    /// A request of a process, how long it was queued, when the driver took it, and what the device took for it.
    Request { process: ProcessId, queued: Nanos, issued: Nanos, service: Service },
    /// The flush of a process.
    Flush(ProcessId),
}

/// A device that its disk drives, and that an I/O scheduler may ask about itself.
#[derive(Clone)]
pub struct Device(Rc<RefCell<Box<dyn Model>>>);

impl Device {
    /// A device whose driver has not begun.
    pub fn new(model: Box<dyn Model>) -> Device {
        Device(Rc::new(RefCell::new(model)))
    }

    /// Requests it takes at a time.
    pub fn depth(&self) -> u32 {
        u32::try_from(self.0.borrow().depth()).unwrap_or(u32::MAX)
    }

    /// Whether it has no request.
    pub(super) fn is_idle(&self) -> bool {
        self.0.borrow().queued() == 0
    }

    /// Whether it takes one more.
    fn has_room(&self) -> bool {
        let model = self.0.borrow();
        model.queued() < model.depth()
    }

    /// Takes a request of the queue.
    pub(super) fn accept(&self, now: Nanos, tag: u32, request: &surety_block::Request) {
        let request = Request::new(of_device(request.op), request.sector, request.sectors);
        self.0.borrow_mut().accept(now, tag, &request);
    }

    fn flush(&self, now: Nanos) {
        let request = Request::new(surety_device::model::Op::Flush, 0, 0);
        self.0.borrow_mut().accept(now, FLUSH, &request);
    }

    /// When something happens in it next.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.0.borrow().next()
    }

    /// The next request that is complete by now.
    pub(super) fn advance(&self, now: Nanos) -> Option<Completion> {
        self.0.borrow_mut().advance(now)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a device of {} sectors", self.0.borrow().sectors())
    }
}

impl Positioning for Device {
    /// By an access of one sector: how long the request is changes nothing.
    fn positioning(&self, now: Nanos, op: Op, sector: u64) -> Option<Nanos> {
        self.0.borrow().estimate(now, &Request::new(of_device(op), sector, 1))
    }
}

/// An operation of the queue as the device knows it.
fn of_device(op: Op) -> surety_device::model::Op {
    match op {
        Op::Read => surety_device::model::Op::Read,
        Op::Write => surety_device::model::Op::Write,
        Op::Discard => surety_device::model::Op::Discard,
        Op::Flush => surety_device::model::Op::Flush,
    }
}

/// The other way.
pub(super) fn of_block(op: surety_device::model::Op) -> Op {
    match op {
        surety_device::model::Op::Read => Op::Read,
        surety_device::model::Op::Write => Op::Write,
        surety_device::model::Op::Discard => Op::Discard,
        surety_device::model::Op::Flush => Op::Flush,
    }
}

/// A disk.
pub struct Unit {
    pub(super) queue: Box<dyn Queue>,
    model: Device,
    /// Requests that the driver takes beyond those of the device, and those that wait there for it.
    spare: usize,
    waiting: VecDeque<RequestId>,
    device: Slot,
    timer: Slot,
    /// By what rules its files are read ahead.
    pub(super) read_ahead: ReadAhead,
    /// The first sector that no file has, and the first that no file may have.
    free: u64,
    end: u64,
    /// Processes that want the device's cache on the medium, the first of them being served.
    flushes: VecDeque<ProcessId>,
    is_flushing: bool,
    served: u64,
    bytes: u64,
}

impl Unit {
    /// An empty disk.
    pub fn new(queue: Box<dyn Queue>, model: Device, (device, timer): (Slot, Slot)) -> Unit {
        let (flushes, is_flushing) = (VecDeque::new(), false);
        let read_ahead = ReadAhead::default();
        let end = model.0.borrow().sectors();
        let (free, served, bytes) = (0, 0, 0);
        let (spare, waiting) = (0, VecDeque::new());
        Unit {
            queue,
            model,
            spare,
            waiting,
            device,
            timer,
            read_ahead,
            free,
            end,
            flushes,
            is_flushing,
            served,
            bytes,
        }
    }

    /// Its files have the first sectors of the device alone.
    pub fn of_size(self, sectors: u64) -> Unit {
        Unit { end: self.end.min(sectors), ..self }
    }

    /// Its driver takes `requests` at a time; those beyond the device's depth wait for it in the order in which they came.
    pub fn behind_a_driver_of(self, requests: u32) -> Unit {
        let spare = requests.saturating_sub(self.model.depth()) as usize;
        Unit { spare, ..self }
    }

    /// Its files are read ahead by these rules.
    pub fn with_read_ahead(self, read_ahead: ReadAhead) -> Unit {
        Unit { read_ahead, ..self }
    }

    /// Requests the device has completed, and their bytes.
    pub fn served(&self) -> (u64, u64) {
        (self.served, self.bytes)
    }

    /// A digest of all that the device took and gave.
    pub fn digest(&self) -> u64 {
        self.model.0.borrow().digest()
    }

    /// The sectors its files may have, and those of them that none has.
    pub fn room(&self) -> (u64, u64) {
        (self.end, self.end - self.free)
    }

    /// A file takes this room, wherever it lies; `None`: the disk ends before it.
    pub(super) fn occupy(&mut self, first: u64, sectors: u64) -> Option<()> {
        let end = first.checked_add(sectors).filter(|end| *end <= self.end)?;
        self.free = self.free.max(end);
        Some(())
    }

    /// Room for a file of so many sectors.
    pub(super) fn place(&mut self, sectors: u64) -> Option<u64> {
        let first = self.free;
        self.occupy(first, sectors).map(|()| first)
    }

    /// A process wants what the device has in its volatile cache on the medium.
    pub(super) fn flush(&mut self, process: ProcessId) {
        self.flushes.push_back(process);
    }

    /// The driver takes requests while the device has room.
    pub(super) fn drive(&mut self, now: Nanos, number: usize, tracer: &mut Tracer) {
        while self.model.has_room() {
            if !self.flushes.is_empty() && !self.is_flushing {
                self.is_flushing = true;
                if tracer.is_on() {
                    tracer.flush(number, false);
                }
                self.model.flush(now);
                continue;
            }
            let Some(id) = self.waiting.pop_front().or_else(|| self.take(now, number, tracer)) else { break };
            self.model.accept(now, id.0, self.queue.request(id));
        }
        while self.waiting.len() < self.spare {
            let Some(id) = self.take(now, number, tracer) else { break };
            self.waiting.push_back(id);
        }
    }

    /// The driver takes a request.
    fn take(&mut self, now: Nanos, number: usize, tracer: &mut Tracer) -> Option<RequestId> {
        let (id, rule) = self.queue.next(now)?;
        let request = self.queue.request(id);
        if tracer.is_on() {
            tracer.issued(number, id, request, rule);
        }
        self.served += 1;
        self.bytes += u64::from(request.sectors) * surety_device::SECTOR;
        Some(id)
    }

    /// When its slots are to be armed.
    pub(super) fn wants(&self) -> [(Slot, Option<Nanos>); 2] {
        [(self.device, self.model.next()), (self.timer, self.queue.timer())]
    }

    /// The next thing that is done by now; its bios, and who may have its request.
    pub(super) fn advance(
        &mut self,
        now: Nanos,
        (done, released): (&mut Vec<BioId>, &mut Vec<ProcessId>),
        number: usize,
        tracer: &mut Tracer,
    ) -> Option<Done> {
        let completion = self.model.advance(now)?;
        if completion.tag == FLUSH {
            self.is_flushing = false;
            if tracer.is_on() {
                tracer.flush(number, true);
            }
            return self.flushes.pop_front().map(Done::Flush);
        }
        let id = RequestId(completion.tag);
        let request = self.queue.request(id);
        let (process, issued) = (request.process, request.issued);
        let queued = completion.accepted - request.inserted;
        if tracer.is_on() {
            tracer.completed(number, id, request, &completion.service);
        }
        self.queue.complete(now, id, done, released);
        Some(Done::Request { process, queued, issued, service: completion.service })
    }
}
