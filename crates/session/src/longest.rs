//! [`Longest`]: the longest response of a run's promised tasks, with the CPUs around it.

use surety_model::event::{Comm, Event, TraceSink};
use surety_model::promise::Promise;
use surety_model::workload::{Task, Workload};
use surety_trace::blame::Around;
use surety_trace::{BlameBuilder, Wanted};
use surety_units::Nanos;

/// Takes a run's events and keeps what is drawn of them.
#[derive(Debug)]
pub struct Longest {
    blame: BlameBuilder,
    is_observed: bool,
}

impl Longest {
    /// Of the tasks that something is promised of; where nothing is, of all. `None`: there is no task.
    pub fn of(workload: &Workload) -> Option<Longest> {
        let is_promised = |task: &&Task| !task.promises.is_empty();
        let any = workload.tasks.iter().any(|task| is_promised(&task));
        let tasks = workload.tasks.iter().filter(|task| !any || is_promised(task));
        let names: Vec<Comm> = tasks.map(|task| Comm::new(&task.name)).collect();
        if names.is_empty() {
            return None;
        }
        let wanted = Wanted { names, ..Wanted::default() };
        Some(Longest { blame: BlameBuilder::new(wanted, 0).with_around(), is_observed: false })
    }

    /// The job; `None`: there were no events, the world does not say which of them it observed, or no job of these tasks was
    /// released and completed in that time.
    pub fn finish(self) -> Option<Around> {
        self.blame.finish().around.filter(|_| self.is_observed)
    }
}

impl TraceSink for Longest {
    fn event(&mut self, event: &Event<'_>) {
        self.blame.event(event);
    }

    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.is_observed = true;
        self.blame.observes(window);
    }
}

/// The time that a task is promised to respond in.
pub fn deadline_of(workload: &Workload, around: &Around) -> Option<Nanos> {
    let task = workload.tasks.iter().find(|task| Comm::new(&task.name) == around.comm)?;
    task.promises.iter().find_map(Promise::response_limit)
}
