//! Virtual disks: each is a file of another disk, the host's, where a process of the virtual machine's host makes their requests again, past
//! the host's page cache.
//!
//! In the guest a virtual disk is a device like others ([`Virtual`], a [`Model`]), but for one thing: its requests end when those made for
//! them on the host's disk do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use surety_block::{Op, ProcessId};
use surety_device::model::{Completion, Hit, Model, Request, Service};
use surety_units::Nanos;

use super::tracer::Tracer;
use super::unit::{FLUSH, of_block};
use super::{For, SECTORS, Storage};

/// Requests that a virtual disk takes at a time: the queue of virtio-blk as QEMU makes it.
pub const DEPTH: u32 = 256;

/// What the guest and the host both know of a virtual disk.
#[derive(Clone, Debug)]
struct State {
    sectors: u64,
    /// By tag, when the request was taken that is under way.
    accepted: Vec<(u32, Nanos)>,
    /// For the host's process.
    out: VecDeque<(u32, Request)>,
    done: VecDeque<Completion>,
}

/// A virtual disk as its guest sees it.
#[derive(Debug)]
pub struct Virtual(Arc<Mutex<State>>);

impl Virtual {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Model for Virtual {
    fn depth(&self) -> usize {
        DEPTH as usize
    }

    fn sectors(&self) -> u64 {
        self.state().sectors
    }

    fn queued(&self) -> usize {
        let state = self.state();
        state.accepted.len() + state.done.len()
    }

    fn accept(&mut self, now: Nanos, tag: u32, request: &Request) {
        let mut state = self.state();
        assert!(request.end() <= state.sectors, "{request:?} is beyond {} sectors", state.sectors);
        state.accepted.push((tag, now));
        state.out.push_back((tag, *request));
    }

    fn next(&self) -> Option<Nanos> {
        self.state().done.front().map(|done| done.completed)
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        let mut state = self.state();
        state.done.pop_front_if(|done| done.completed <= now)
    }

    fn estimate(&self, _now: Nanos, _request: &Request) -> Option<Nanos> {
        None
    }

    /// Nobody completes what the other takes.
    fn fork(&self) -> Box<dyn Model + Send> {
        Box::new(Virtual(Arc::new(Mutex::new(self.state().clone()))))
    }

    /// What it took and gave stands in the digest of the host's disk.
    fn digest(&self) -> u64 {
        0
    }
}

/// A virtual disk as its host sees it.
pub(super) struct Guest {
    state: Arc<Mutex<State>>,
    /// The guest's disk, and the host's.
    disk: usize,
    host: usize,
    process: ProcessId,
    /// The first sector of its file.
    first: u64,
    /// By tag: bios of the request that are under way on the host.
    left: Vec<u32>,
}

impl Guest {
    /// A request of the guest, or a flush, is done: what the host's device did for the last of the requests made for it is its own, and what
    /// lies before that it was queued.
    pub(super) fn completes(&mut self, now: Nanos, tag: u32, last: &Service) {
        let mut state = lock(&self.state);
        let Some(place) = state.accepted.iter().position(|(known, _)| *known == tag) else { return };
        let (_, accepted) = state.accepted.swap_remove(place);
        let Service { overhead, seek, rotation, transfer, .. } = *last;
        let queue = now - accepted - (overhead + seek + rotation + transfer);
        let service = Service { queue, overhead, seek, rotation, transfer };
        state.done.push_back(Completion { tag, accepted, completed: now, hit: Hit::Miss, service });
    }

    /// Tells where its disk lies.
    pub(super) fn tell(&self, tracer: &mut Tracer) {
        let sectors = lock(&self.state).sectors;
        tracer.guest((self.disk, self.host), (self.first, sectors), self.process);
    }

    /// One more of a request's bios is done; whether all are.
    pub(super) fn one_less(&mut self, tag: u32) -> bool {
        let left = &mut self.left[tag as usize];
        *left -= 1;
        *left == 0
    }
}

impl Storage {
    /// Makes a virtual disk of so many bytes on a disk of the host's, for a process of the host that traces call so; the next disk that is
    /// added has to have its device. `None`: the host's disk is full.
    pub fn make_virtual(
        &mut self,
        host: usize,
        bytes: u64,
        (process, name): (ProcessId, &str),
    ) -> Option<Virtual> {
        let sectors = bytes.div_ceil(super::PAGE) * SECTORS;
        let first = self.units[host].place(sectors)?;
        let state = State { sectors, accepted: Vec::new(), out: VecDeque::new(), done: VecDeque::new() };
        let state = Arc::new(Mutex::new(state));
        let disk = self.units.len();
        self.tracer.call(process, name);
        self.guests.push(Guest { state: state.clone(), disk, host, process, first, left: Vec::new() });
        Some(Virtual(state))
    }

    /// Processes of hosts make the requests of their guests again.
    pub(super) fn carry(&mut self, now: Nanos) {
        for index in 0..self.guests.len() {
            let Guest { disk, host, process, .. } = self.guests[index];
            self.units[disk].drive(now, disk, &mut self.tracer);
            self.units[host].queue.plug(now, process);
            while let Some((tag, request)) = self.taken(index) {
                self.make_again(now, index, tag, &request);
            }
            self.send_to(now, process, host);
            self.units[host].queue.unplug(now, process);
            self.gather();
        }
    }

    fn taken(&mut self, guest: usize) -> Option<(u32, Request)> {
        lock(&self.guests[guest].state).out.pop_front()
    }

    fn make_again(&mut self, now: Nanos, index: usize, tag: u32, request: &Request) {
        let Guest { host, process, first, .. } = self.guests[index];
        let op = of_block(request.op);
        if op == Op::Flush {
            return self.flush(host, process);
        }
        let (place, pages) = ((host, first + request.sector), u64::from(request.sectors) / SECTORS);
        // Past the host's page cache, so the process waits for writes, too.
        let of = |_, _| For::Guest { guest: index, tag };
        let bios = self.submit_bios(now, process, (op, true), place, pages, of);
        let counts = &mut self.guests[index].left;
        counts.resize(counts.len().max(tag as usize + 1), 0);
        counts[tag as usize] = bios;
    }

    /// The device's cache was flushed for a process: for its guest, where it has one.
    pub(super) fn flushed(&mut self, now: Nanos, process: ProcessId) -> bool {
        let Some(guest) = self.guests.iter_mut().find(|guest| guest.process == process) else { return false };
        guest.completes(now, FLUSH, &Service::default());
        true
    }
}
