//! [`Virtio`]: a queue in front of another disk, and the host's thread that carries requests between them.
//!
//! The guest puts a request in the queue and wakes the host's thread (a *kick*). The thread takes one thing at a time: a request,
//! which it submits to the disk behind as soon as that takes one more, or a completion, which it puts back and interrupts the
//! guest for. Its times are what a virtual disk adds to the disk it is on; when the thread is the bottleneck they are what the
//! guest's requests wait for.

use std::collections::VecDeque;

use surety_units::Nanos;

use crate::model::{Completion, Ledger, Model, Request, Service};

/// What a virtual disk is made from, beside the disk behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Entries of the queue.
    pub depth: usize,
    /// From the guest's kick until the thread runs, when it slept.
    pub wake: Nanos,
    /// Of the thread, to submit a request.
    pub submit: Nanos,
    /// Of the thread, to complete one.
    pub complete: Nanos,
    /// The disk has so many sectors, the first of the one behind; `None`: as many as that.
    pub sectors: Option<u64>,
}

/// What the guest waits for of one request.
#[derive(Clone, Copy, Debug)]
struct Carried {
    tag: u32,
    request: Request,
    accepted: Nanos,
    /// When the thread had submitted it.
    submitted: Nanos,
}

/// What the thread has to do.
#[derive(Clone, Copy, Debug)]
enum Task {
    Submit(usize),
    Complete(usize, Completion),
}

/// A virtual disk.
pub struct Virtio {
    parameters: Parameters,
    behind: Box<dyn Model + Send>,
    slots: Vec<Option<Carried>>,
    /// In the queue, not yet looked at.
    queue: VecDeque<usize>,
    /// Of the disk behind, not yet carried back.
    returned: VecDeque<(usize, Completion)>,
    /// What the thread does, and until when.
    task: Option<(Nanos, Task)>,
    ledger: Ledger,
}

impl Virtio {
    /// A queue in front of a disk at rest.
    pub fn new(parameters: Parameters, behind: Box<dyn Model + Send>) -> Virtio {
        Virtio {
            slots: vec![None; parameters.depth],
            queue: VecDeque::with_capacity(parameters.depth),
            returned: VecDeque::with_capacity(parameters.depth),
            parameters,
            behind,
            task: None,
            ledger: Ledger::default(),
        }
    }

    /// Gives the idle thread its next task.
    fn think(&mut self, now: Nanos, is_awake: bool) {
        if self.task.is_some() {
            return;
        }
        let wake = if is_awake { Nanos::ZERO } else { self.parameters.wake };
        if let Some((slot, done)) = self.returned.pop_front() {
            self.task = Some((now + wake + self.parameters.complete, Task::Complete(slot, done)));
        } else if self.behind.queued() < self.behind.depth()
            && let Some(slot) = self.queue.pop_front()
        {
            self.task = Some((now + wake + self.parameters.submit, Task::Submit(slot)));
        }
    }

    /// Ends the thread's task.
    fn end_task(&mut self, at: Nanos, task: Task) {
        match task {
            Task::Submit(slot) => {
                if let Some(carried) = &mut self.slots[slot] {
                    carried.submitted = at;
                    let request = carried.request;
                    self.behind.accept(at, slot as u32, &request);
                }
            }
            Task::Complete(slot, done) => {
                let Some(carried) = self.slots[slot].take() else { return };
                let inner = done.service;
                let overhead = inner.overhead + self.parameters.submit + self.parameters.complete;
                let own = inner.seek + inner.rotation + inner.transfer + overhead;
                let queue = at - carried.accepted - own;
                let service = Service { queue, overhead, ..inner };
                let (tag, accepted) = (carried.tag, carried.accepted);
                self.ledger.complete(Completion { tag, accepted, completed: at, hit: done.hit, service });
            }
        }
    }

    /// Does everything up to an instant, in order.
    fn settle(&mut self, now: Nanos) {
        loop {
            let task = self.task.map(|(at, _)| at);
            let behind = self.behind.next();
            let Some(at) = [task, behind].into_iter().flatten().min().filter(|at| *at <= now) else { return };
            if behind == Some(at) {
                while let Some(done) = self.behind.advance(at) {
                    self.returned.push_back((done.tag as usize, done));
                }
                self.think(at, false);
            } else if let Some((_, task)) = self.task.take() {
                self.end_task(at, task);
                self.think(at, true);
            }
        }
    }
}

impl Model for Virtio {
    fn depth(&self) -> usize {
        self.parameters.depth
    }

    fn sectors(&self) -> u64 {
        let behind = self.behind.sectors();
        self.parameters.sectors.map_or(behind, |sectors| sectors.min(behind))
    }

    fn queued(&self) -> usize {
        self.ledger.inside()
    }

    fn accept(&mut self, now: Nanos, tag: u32, request: &Request) {
        self.settle(now);
        self.ledger.enter(now, tag, request, self.parameters.depth, self.sectors());
        let slot =
            self.slots.iter().position(Option::is_none).expect("fewer than the queue's entries are inside");
        self.slots[slot] = Some(Carried { tag, request: *request, accepted: now, submitted: now });
        self.queue.push_back(slot);
        self.think(now, false);
    }

    fn next(&self) -> Option<Nanos> {
        [self.task.map(|(at, _)| at), self.behind.next(), self.ledger.next()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos) -> Option<Completion> {
        self.settle(now);
        self.ledger.take(now)
    }

    fn foreseen(&self, after: usize) -> Option<(u32, Nanos)> {
        self.ledger.foreseen(after)
    }

    fn estimate(&self, now: Nanos, request: &Request) -> Option<Nanos> {
        let own = self.parameters.submit + self.parameters.complete;
        Some(self.behind.estimate(now, request)? + own)
    }

    fn fork(&self) -> Box<dyn Model + Send> {
        Box::new(Virtio {
            behind: self.behind.fork(),
            slots: self.slots.clone(),
            queue: self.queue.clone(),
            returned: self.returned.clone(),
            ledger: self.ledger.clone(),
            ..*self
        })
    }

    fn digest(&self) -> u64 {
        self.ledger.digest() ^ self.behind.digest().rotate_left(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::{self, Fixed};
    use crate::model::Op;
    use surety_units::Rate;

    /// A disk of 100 ns one at a time behind a thread of 10 + 20 ns that takes 5 ns to wake.
    fn disk(depth_behind: usize) -> Virtio {
        let behind = fixed::Parameters {
            sectors: 1000,
            read: Nanos::new(100),
            write: Nanos::new(100),
            flush: Nanos::new(100),
            rate: Rate(0),
            lanes: 1,
            depth: depth_behind,
        };
        let own = Parameters {
            depth: 8,
            wake: Nanos::new(5),
            submit: Nanos::new(10),
            complete: Nanos::new(20),
            sectors: Some(500),
        };
        Virtio::new(own, Box::new(Fixed::new(behind)))
    }

    fn finish(disk: &mut Virtio) -> Vec<(u32, i64)> {
        let mut all = Vec::new();
        while let Some(at) = disk.next() {
            while let Some(done) = disk.advance(at) {
                assert_eq!(done.service.total(), done.completed - done.accepted);
                all.push((done.tag, done.completed.get()));
            }
        }
        all
    }

    #[test]
    fn the_threads_times_are_added() {
        let mut disk = disk(1);
        disk.accept(Nanos::ZERO, 7, &Request::new(Op::Read, 0, 1));
        // 5 to wake, 10 to submit, 100 of the disk, 5 to wake, 20 to complete.
        assert_eq!(finish(&mut disk), [(7, 140)]);
        assert_eq!(disk.sectors(), 500);
    }

    /// With room for one behind, the second is submitted after the first is carried back.
    #[test]
    fn what_the_disk_behind_does_not_take_waits_in_the_queue() {
        for (room, expected) in [(1, [(0, 140), (1, 275)]), (2, [(0, 140), (1, 240)])] {
            let mut disk = disk(room);
            for tag in 0..2 {
                disk.accept(Nanos::ZERO, tag, &Request::new(Op::Read, 0, 1));
            }
            assert_eq!(finish(&mut disk), expected, "{room}");
        }
    }
}
