//! [`Unit`]: one disk: its queue, its device, where its files lie.

use std::collections::VecDeque;

use surety_block::{BioId, Op, ProcessId, Queue, RequestId};
use surety_device::model::{Model, Request, Service};
use surety_units::Nanos;

use super::tracer::Tracer;
use crate::engine::Slot;

/// The tag of a flush; requests have the number of theirs.
const FLUSH: u32 = u32::MAX;

/// Something the device is done with.
#[derive(Clone, Copy, Debug)]
pub enum Done {
    /// A request of a process, how long it was queued, and what the device took for it.
    Request { process: ProcessId, queued: Nanos, service: Service },
    /// The flush of a process.
    Flush(ProcessId),
}

/// A disk.
pub struct Unit {
    pub(super) queue: Box<dyn Queue>,
    model: Box<dyn Model>,
    device: Slot,
    timer: Slot,
    /// The first sector that no file has.
    free: u64,
    /// Processes that want the device's cache on the medium, the first of them being served.
    flushes: VecDeque<ProcessId>,
    is_flushing: bool,
    served: u64,
    bytes: u64,
}

impl Unit {
    /// An empty disk.
    pub fn new(queue: Box<dyn Queue>, model: Box<dyn Model>, (device, timer): (Slot, Slot)) -> Unit {
        let (flushes, is_flushing) = (VecDeque::new(), false);
        Unit { queue, model, device, timer, free: 0, flushes, is_flushing, served: 0, bytes: 0 }
    }

    /// Requests the device has completed, and their bytes.
    pub fn served(&self) -> (u64, u64) {
        (self.served, self.bytes)
    }

    /// A digest of all that the device took and gave.
    pub fn digest(&self) -> u64 {
        self.model.digest()
    }

    /// Room for a file of so many sectors.
    pub(super) fn place(&mut self, sectors: u64) -> Option<u64> {
        let first = self.free;
        let end = first.checked_add(sectors)?;
        (end <= self.model.sectors()).then(|| {
            self.free = end;
            first
        })
    }

    /// A process wants what the device has in its volatile cache on the medium.
    pub(super) fn flush(&mut self, process: ProcessId) {
        self.flushes.push_back(process);
    }

    /// The driver takes requests while the device has room.
    pub(super) fn drive(&mut self, now: Nanos, number: usize, tracer: &mut Tracer) {
        while self.model.queued() < self.model.depth() {
            if !self.flushes.is_empty() && !self.is_flushing {
                self.is_flushing = true;
                if tracer.is_on() {
                    tracer.flush(number, false);
                }
                self.model.accept(now, FLUSH, &Request::new(surety_device::model::Op::Flush, 0, 0));
                continue;
            }
            let Some((id, rule)) = self.queue.next(now) else { break };
            let request = self.queue.request(id);
            if tracer.is_on() {
                tracer.issued(number, id, request, rule);
            }
            let op = match request.op {
                Op::Read => surety_device::model::Op::Read,
                Op::Write => surety_device::model::Op::Write,
                Op::Discard => surety_device::model::Op::Discard,
                Op::Flush => surety_device::model::Op::Flush,
            };
            self.served += 1;
            self.bytes += u64::from(request.sectors) * 512;
            self.model.accept(now, id.0, &Request::new(op, request.sector, request.sectors));
        }
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
        let (process, queued) = (request.process, completion.accepted - request.inserted);
        if tracer.is_on() {
            tracer.completed(number, id, request, &completion.service);
        }
        self.queue.complete(now, id, done, released);
        Some(Done::Request { process, queued, service: completion.service })
    }
}
