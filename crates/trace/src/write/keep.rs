//! [`Kept`]: passes on the events that are wanted.

use std::collections::BTreeMap;

use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_units::{CpuSet, Nanos, Tid};

use super::fields::{Value, each};

/// Which events are wanted; what is `None` excludes none. An event has to fit every condition.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Events in the context of this thread, or that name it.
    pub tid: Option<Tid>,
    /// Events in the context of a thread of this name, as far as earlier events told it, or that have the name.
    pub comm: Option<String>,
    /// Events on these CPUs.
    pub cpus: Option<CpuSet>,
    /// Events so long after the trace's first, or later.
    pub from: Option<Nanos>,
    /// Events less than this after the trace's first.
    pub to: Option<Nanos>,
}

/// A sink before another. Marks of lost events fit every thread: they may hide any.
#[derive(Debug)]
pub struct Kept<K> {
    wanted: Wanted,
    first: Option<Nanos>,
    names: BTreeMap<Tid, Comm>,
    sink: K,
}

impl<K: TraceSink> Kept<K> {
    /// Passes on to `sink` what is wanted.
    pub fn new(wanted: Wanted, sink: K) -> Kept<K> {
        Kept { wanted, first: None, names: BTreeMap::new(), sink }
    }

    /// The sink behind.
    pub fn into_inner(self) -> K {
        self.sink
    }

    /// Whether the event concerns a wanted thread.
    fn concerns(&self, event: &Event<'_>) -> bool {
        if matches!(event.kind, EventKind::Lost { .. }) {
            return true;
        }
        let Wanted { tid, comm, .. } = &self.wanted;
        let mut by_tid = tid.is_none_or(|tid| event.current == tid);
        let of_name = |c: &Comm, name: &str| c.text() == name;
        let current = self.names.get(&event.current);
        let mut by_name =
            comm.as_deref().is_none_or(|name| current.is_some_and(|current| of_name(current, name)));
        each(&event.kind, |key, value| match value {
            Value::Integer(id) if matches!(key, "prev_tid" | "next_tid" | "thread" | "parent" | "old") => {
                by_tid |= tid.is_some_and(|tid| i64::from(tid.0) == id);
            }
            Value::Name(found) => by_name |= comm.as_deref().is_some_and(|name| of_name(&found, name)),
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
        let since = event.time - *self.first.get_or_insert(event.time);
        if self.wanted.comm.is_some() {
            self.learn(event);
        }
        let Wanted { cpus, from, to, .. } = &self.wanted;
        let fits = cpus.as_ref().is_none_or(|cpus| cpus.contains(event.cpu))
            && from.is_none_or(|from| since >= from)
            && to.is_none_or(|to| since < to);
        if fits && self.concerns(event) {
            self.sink.event(event);
        }
    }
}
