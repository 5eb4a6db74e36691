//! [`Meetings`]: conditions and barriers. Who waits for one stands in its line and waits for an event of its own, so that
//! who came first is woken first, and nobody takes what another was woken for.

use std::collections::VecDeque;

use crate::cpu::hardware::ThreadId;

/// Those who wait at one condition or barrier.
#[derive(Clone, Debug, Default)]
struct Line {
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
    lines: Vec<Line>,
    /// The event of each thread that may wait at one, by its number.
    events: Vec<Option<usize>>,
}

impl Meetings {
    /// One more: a barrier where so many meet, a condition with none.
    pub(super) fn add(&mut self, parties: usize) -> usize {
        self.lines.push(Line { parties, ..Line::default() });
        self.lines.len() - 1
    }

    /// A thread that may wait, and the event it waits for.
    pub(super) fn may_wait(&mut self, thread: ThreadId, event: usize) {
        if self.events.len() <= thread.index() {
            self.events.resize(thread.index() + 1, None);
        }
        self.events[thread.index()] = Some(event);
    }

    /// Stands in the line of a condition; the event to wait for.
    pub(super) fn join(&mut self, line: usize, thread: ThreadId) -> usize {
        let event = self.events[thread.index()].expect("who may wait has an event");
        self.lines[line].waiting.push_back(event);
        event
    }

    /// The event of who came first, who waits no more.
    pub(super) fn first(&mut self, line: usize) -> Option<usize> {
        self.lines[line].waiting.pop_front()
    }

    /// The events of all, who wait no more.
    pub(super) fn all(&mut self, line: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.lines[line].waiting.drain(..)
    }

    /// Comes to a barrier.
    pub(super) fn arrive(&mut self, line: usize, thread: ThreadId) -> Met {
        if self.lines[line].waiting.len() + 1 < self.lines[line].parties {
            return Met::Waits(self.join(line, thread));
        }
        Met::Last(self.all(line).collect())
    }
}
