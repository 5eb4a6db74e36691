//! [`Meetings`]: conditions, barriers and timers that threads share. Who waits for one stands in its queue and waits for an event of its own, so that
//! who came first is woken first, and nobody takes what another was woken for.

use std::collections::VecDeque;

use surety_model::workload::Timer;
use surety_units::Nanos;

use crate::cpu::hardware::ThreadId;

/// Those who wait at one condition or barrier.
#[derive(Clone, Debug, Default)]
struct WaitQueue {
    /// Their events, in the order in which they came.
    waiting: VecDeque<usize>,
    /// Of a barrier: how many have to come.
    parties: usize,
}

/// What coming to a barrier means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// Others are still to come: it waits for this event.
    Waits(usize),
    /// All are there: these are the events the others wait for.
    Last(Vec<usize>),
}

/// All conditions and barriers of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Meetings {
    queues: Vec<WaitQueue>,
    /// The event of each thread that may wait at one, by its number.
    events: Vec<Option<usize>>,
    /// Where timers stand that were used.
    timers: Vec<Option<Nanos>>,
}

impl Meetings {
    /// Adds a barrier of this many parties, or with 0 a condition.
    pub(super) fn add(&mut self, parties: usize) -> usize {
        self.queues.push(WaitQueue { parties, ..WaitQueue::default() });
        self.queues.len() - 1
    }

    /// Adds a timer.
    pub(super) fn add_timer(&mut self) -> usize {
        self.timers.push(None);
        self.timers.len() - 1
    }

    /// A use of a timer by a thread that began at `begin`: the instant to sleep until.
    pub(super) fn timer(&mut self, timer: usize, by: (Nanos, bool), begin: Nanos, now: Nanos) -> Nanos {
        let (next, stands) = Timer::moves_on(self.timers[timer].unwrap_or(begin), by, now);
        self.timers[timer] = Some(stands);
        next
    }

    /// A thread that may wait, and the event it waits for.
    pub(super) fn may_wait(&mut self, thread: ThreadId, event: usize) {
        if self.events.len() <= thread.index() {
            self.events.resize(thread.index() + 1, None);
        }
        self.events[thread.index()] = Some(event);
    }

    /// Stands in the queue of a condition; the event to wait for.
    pub(super) fn join(&mut self, queue: usize, thread: ThreadId) -> usize {
        let event = self.events[thread.index()].expect("who may wait has an event");
        self.queues[queue].waiting.push_back(event);
        event
    }

    /// The event of who came first, who waits no more.
    pub(super) fn first(&mut self, queue: usize) -> Option<usize> {
        self.queues[queue].waiting.pop_front()
    }

    /// The events of all, who wait no more.
    pub(super) fn all(&mut self, queue: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.queues[queue].waiting.drain(..)
    }

    /// Comes to a barrier.
    pub(super) fn arrive(&mut self, queue: usize, thread: ThreadId) -> Met {
        if self.queues[queue].waiting.len() + 1 < self.queues[queue].parties {
            return Met::Waits(self.join(queue, thread));
        }
        Met::Last(self.all(queue).collect())
    }
}
