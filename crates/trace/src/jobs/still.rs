//! Threads of which no event tells: where the recorder says they are when it ends, they have been all the time.

use surety_model::event::{Event, ThreadNote};

use super::Machine;
use super::sink::JobSink;
use super::watch::{Occupant, Watch};

impl<W: Watch> Machine<W> {
    /// The recorder says where a thread is. Of one that events told of that is no news but its name.
    #[cold]
    pub(super) fn note(&mut self, event: &Event<'_>, note: &ThreadNote) {
        if let Some(slot) = self.threads.living(note.tid) {
            self.threads.slots[slot].name(note.comm);
            return;
        }
        if !W::Sink::TAKES_STILL_THREADS || !self.has_cpu(note.cpu) || self.anomalies.gaps > 0 {
            return;
        }
        let first = self.first.unwrap_or(event.time);
        let slot = self.life(note.tid, first);
        self.threads.slots[slot].note(note, first);
        // Without an event of its CPU nobody else is known to have had it.
        if note.is_runnable() && self.cpus[note.cpu.index()].occupant == Occupant::Unknown {
            self.threads.slots[slot].found_running(note.cpu, first, self.watch.sink());
            self.cpus[note.cpu.index()].occupant = Occupant::Thread(slot);
        }
    }
}
