//! [`Kept`]: passes on the events that are wanted.

use std::collections::BTreeMap;

use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_units::Tid;

use super::fields::{Value, each};
pub use crate::wanted::Wanted;
use crate::wanted::Window;

/// A sink before another. Marks of lost events fit every thread: they may hide any.
#[derive(Debug)]
pub struct Kept<K> {
    wanted: Wanted,
    window: Option<Window>,
    /// Names by id, as far as earlier events told them.
    names: BTreeMap<Tid, Comm>,
    sink: K,
}

impl<K: TraceSink> Kept<K> {
    /// Passes on to `sink` what is wanted.
    pub fn new(wanted: Wanted, sink: K) -> Kept<K> {
        Kept { wanted, window: None, names: BTreeMap::new(), sink }
    }

    /// The sink behind.
    pub fn sink(&self) -> &K {
        &self.sink
    }

    /// The sink behind, alone.
    pub fn into_inner(self) -> K {
        self.sink
    }

    /// Whether the event concerns a wanted thread.
    fn concerns(&self, event: &Event<'_>) -> bool {
        if !self.wanted.chooses_threads() || matches!(event.kind, EventKind::Lost { .. }) {
            return true;
        }
        let Wanted { tids, names, .. } = &self.wanted;
        let mut by_tid = tids.is_empty() || tids.contains(&event.current);
        let mut by_name =
            names.is_empty() || self.names.get(&event.current).is_some_and(|name| names.contains(name));
        each(&event.kind, |key, value| match value {
            Value::Integer(id) if matches!(key, "prev_tid" | "next_tid" | "thread" | "parent" | "old") => {
                by_tid |= tids.iter().any(|tid| i64::from(tid.0) == id);
            }
            Value::Name(found) => by_name |= names.contains(&found),
            _ => {}
        });
        by_tid && by_name
    }

    fn learn(&mut self, event: &Event<'_>) {
        match event.kind {
            EventKind::Switch { prev, prev_comm, next, next_comm, .. } => {
                self.names.insert(prev, prev_comm);
                self.names.insert(next, next_comm);
            }
            EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
                self.names.insert(woken.tid, woken.comm);
            }
            EventKind::Fork { child, child_comm, .. } => drop(self.names.insert(child, child_comm)),
            _ => {}
        }
    }
}

impl<K: TraceSink> TraceSink for Kept<K> {
    fn event(&mut self, event: &Event<'_>) {
        let window = *self.window.get_or_insert_with(|| self.wanted.window(event.time));
        if !self.wanted.names.is_empty() {
            self.learn(event);
        }
        if self.wanted.cpu(event.cpu) && window.contains(event.time) && self.concerns(event) {
            self.sink.event(event);
        }
    }
}
