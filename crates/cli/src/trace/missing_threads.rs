//! [`MissingThreads`]: whether threads that were named occur in a trace at all.

use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_trace::write::perfetto::OverlayOf;
use surety_units::Tid;

/// A sink before another that looks for threads.
pub struct MissingThreads<K> {
    missing: Vec<OverlayOf>,
    sink: K,
}

impl<K: TraceSink> MissingThreads<K> {
    /// Looks for these threads.
    pub fn new(threads: impl IntoIterator<Item = OverlayOf>, sink: K) -> MissingThreads<K> {
        MissingThreads { missing: threads.into_iter().collect(), sink }
    }

    /// The sink behind, and the threads that no event told of.
    pub fn finish(self) -> (K, Vec<OverlayOf>) {
        (self.sink, self.missing)
    }

    fn thread(&mut self, tid: Tid, comm: Comm) {
        self.missing.retain(|of| match of {
            OverlayOf::Thread(wanted) => *wanted != tid,
            OverlayOf::Named(name) => comm.text() != *name,
        });
    }
}

impl<K: TraceSink> TraceSink for MissingThreads<K> {
    fn event(&mut self, event: &Event<'_>) {
        if !self.missing.is_empty() {
            match event.kind {
                EventKind::Switch { prev, prev_comm, next, next_comm, .. } => {
                    self.thread(prev, prev_comm);
                    self.thread(next, next_comm);
                }
                EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
                    self.thread(woken.tid, woken.comm);
                }
                EventKind::Fork { child, child_comm, .. } => self.thread(child, child_comm),
                _ => self.missing.retain(|of| *of != OverlayOf::Thread(event.current)),
            }
        }
        self.sink.event(event);
    }
}
