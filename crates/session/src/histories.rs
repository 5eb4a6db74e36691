//! [`Seen`]: what a run's events show of threads, kept while the run is watched.

use std::collections::BTreeMap;

use surety_model::event::{Event, EventKind, JobUse, TraceSink};
use surety_model::job::ThreadHistory;
use surety_model::workload::Workload;
use surety_model::world::Observer;
use surety_trace::JobBuilder;
use surety_trace::blame::Around;
use surety_units::{Nanos, Tid};

use crate::longest::Longest;
use crate::wakers::Wakers;

/// What a run's events show: jobs, and what each used by its thread's own clock where the thread said so.
#[derive(Default)]
pub struct Seen {
    jobs: JobBuilder,
    used: BTreeMap<(Tid, u64), Nanos>,
    wakers: Wakers,
    window: Option<(Nanos, Nanos)>,
    longest: Option<Longest>,
}

/// Every thread of a run.
pub struct Histories {
    /// By thread id.
    pub threads: Vec<ThreadHistory>,
    /// Who woke whom.
    pub wakers: Wakers,
    /// What was observed, on the clock of their jobs, where the world says so.
    pub window: Option<(Nanos, Nanos)>,
    /// The longest response with the CPUs around it, where that was asked for.
    pub around: Option<Around>,
}

impl TraceSink for Seen {
    fn event(&mut self, event: &Event<'_>) {
        self.jobs.event(event);
        self.wakers.event(event);
        self.longest.iter_mut().for_each(|longest| longest.event(event));
        if let EventKind::Marker { text } = event.kind
            && let Some(JobUse { job, cpu }) = JobUse::parse(text)
        {
            self.used.insert((event.current, job), cpu);
        }
    }
}

impl Seen {
    /// Keeps the longest response of the workload's promised tasks with the CPUs around it too.
    pub fn with_longest(workload: &Workload) -> Seen {
        Seen { longest: Longest::of(workload), ..Seen::default() }
    }

    /// The histories, with the execution that is charged to a budget: a hypervisor's share is taken out of marked jobs.
    pub fn histories(self) -> Histories {
        let mut threads = self.jobs.finish().threads;
        for history in &mut threads {
            for job in &mut history.jobs {
                let used = job.index.and_then(|index| self.used.get(&(history.tid, index)));
                if let Some(used) = used.filter(|used| **used <= job.execution) {
                    job.interrupted = job.interrupted.min(*used);
                    job.execution = *used;
                }
            }
        }
        let threads = threads.into_iter().map(ThreadHistory::at_most).collect();
        let around = self.longest.and_then(Longest::finish);
        Histories { threads, wakers: self.wakers, window: self.window, around }
    }
}

impl Histories {
    /// The thread with this id.
    pub fn of(&self, tid: Tid) -> Option<&ThreadHistory> {
        self.threads.iter().find(|history| history.tid == tid)
    }
}

/// Shows a run's progress and keeps what it shows.
pub struct Measuring<'a> {
    /// Where progress is shown.
    pub watch: &'a mut dyn Observer,
    /// Where events go.
    pub seen: &'a mut Seen,
}

impl Observer for Measuring<'_> {
    fn progress(&mut self, done: Nanos, total: Nanos) {
        self.watch.progress(done, total);
    }

    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.seen.window = Some(window);
        self.seen.longest.iter_mut().for_each(|longest| longest.observes(window));
    }

    fn notice(&mut self, text: &str) {
        self.watch.notice(text);
    }

    fn wants_events(&self) -> bool {
        true
    }

    fn event(&mut self, event: &Event<'_>) {
        self.seen.event(event);
    }
}
