//! What is said of a thread when its life, or the trace, ends.

use surety_model::event::ThreadNote;
use surety_model::job::{OpenJob, Separation};
use surety_units::{CpuId, Nanos};

use super::super::sink::{JobSink, ThreadTotals, Throughout};
use super::{Place, Thread};

impl Thread {
    /// No event named it from `first` on, when the trace began, until its end is near, where the recorder says where it is.
    pub(in crate::jobs) fn note(&mut self, note: &ThreadNote, first: Nanos) {
        self.name(note.comm);
        self.last_cpu = note.cpu;
        if note.is_runnable() {
            self.place = Place::Waiting { since: first };
            self.throughout = Some(Throughout::Ready);
        } else {
            self.place = Place::Asleep { since: first };
            self.throughout = Some(Throughout::Asleep);
        }
    }

    /// It has had that CPU from `first` on.
    pub(in crate::jobs) fn found_running<S: JobSink>(&mut self, cpu: CpuId, first: Nanos, sink: &mut S) {
        self.place = Place::Unknown;
        self.adopt(first, cpu, sink);
    }

    /// Another thread bears its id: whatever is open ended unseen.
    pub(in crate::jobs) fn retire<S: JobSink>(&mut self, sink: &mut S) {
        self.lose(self.seen.1, sink);
        self.ended = true;
    }

    /// Nothing more comes of it: tells the sink what it was.
    pub(in crate::jobs) fn report<S: JobSink>(&mut self, end: Nanos, sink: &mut S) {
        let (seen, throughout) = (self.seen, self.throughout);
        let open = self.open(end);
        self.lose(end, sink);
        let totals = ThreadTotals {
            prio: self.prio,
            open,
            censored: self.censored,
            run: self.tally.run,
            interrupted: self.tally.interrupted,
            waited: self.waited,
            longest_wait: self.longest_wait,
            unknown: self.tally.unknown,
            seen,
            throughout,
        };
        sink.ended(&self.key, &totals);
    }

    /// The job that is open at the end.
    fn open(&self, end: Nanos) -> Option<OpenJob> {
        let run = match self.place {
            Place::Running { since } => self.tally.run + (end - since).max(Nanos::ZERO),
            _ => self.tally.run,
        };
        let (release, began) = match self.key.separation {
            Separation::BusyPeriod => {
                let busy = self.busy?;
                (busy.release?, busy.start.map_or(run, |start| start.tally.run))
            }
            Separation::Markers => self.marked.map(|marked| (marked.release, marked.at_begin.run))?,
        };
        Some(OpenJob { release, execution: run - began })
    }
}
