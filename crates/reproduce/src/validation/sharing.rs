//! [`Sharing`]: for which part of their CPU time the threads of a run shared a core, a cache or a node with another one of them.
//!
//! Equal threads change places, and who is on which CPU is a matter of the beginning; how many of them are together is not. So it is one figure
//! for the whole run, taken from its switches in the same way on a kernel and simulated.

use std::collections::BTreeMap;

use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_model::platform::Topology;
use surety_model::workload::Workload;
use surety_units::{CpuId, Nanos};

use super::Figures;

/// The name that stands for all activities.
pub const ALL: &str = "all tasks";
/// What is shared, from the nearest on.
pub(super) const SHARED: [&str; 3] = ["core shared", "cache shared", "node shared"];

/// Adds up while events come.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// CPUs of a core, of a cache and of a node.
    sizes: [usize; 3],
    /// Names of the workload's threads as the kernel keeps them.
    names: Vec<Comm>,
    window: (Nanos, Nanos),
    /// Whether a thread of the workload is on each CPU, since [`Sharing::since`].
    busy: Vec<bool>,
    since: Nanos,
    /// CPU time of all of them, and of those that share each.
    total: Nanos,
    shared: [Nanos; 3],
}

impl Sharing {
    /// Of a workload's tasks on CPUs that share things so.
    pub fn of(workload: &Workload, topology: Topology, cpus: u32) -> Sharing {
        let sizes = [topology.smt, topology.llc(cpus), topology.node(cpus)];
        Sharing {
            sizes: sizes.map(|size| size.max(1) as usize),
            names: workload.tasks.iter().map(|task| Comm::new(&task.name)).collect(),
            window: (Nanos::ZERO, Nanos::MAX),
            busy: vec![false; cpus as usize],
            since: Nanos::ZERO,
            total: Nanos::ZERO,
            shared: [Nanos::ZERO; 3],
        }
    }

    /// Goes on to an instant.
    fn until(&mut self, time: Nanos) {
        let (begin, end) = (self.since.max(self.window.0), time.min(self.window.1));
        self.since = self.since.max(time);
        if end <= begin {
            return;
        }
        let together = |size: usize| -> i64 {
            let busy = self.busy.chunks(size).map(|part| part.iter().filter(|busy| **busy).count());
            busy.filter(|count| *count > 1).map(|count| count as i64).sum()
        };
        let counts = self.sizes.map(together);
        self.total += (end - begin) * self.busy.iter().filter(|busy| **busy).count() as i64;
        for (shared, count) in self.shared.iter_mut().zip(counts) {
            *shared += (end - begin) * count;
        }
    }

    /// The figures, in percent of the CPU time; what all CPUs share is none, and there are none where no thread was seen.
    pub fn figures(mut self) -> Figures {
        self.until(self.window.1);
        let all = self.busy.len();
        let percent = |shared: Nanos| shared.get() as f64 * 100.0 / self.total.get() as f64;
        let figures: BTreeMap<String, f64> = SHARED
            .iter()
            .zip(self.sizes.iter().zip(self.shared))
            .filter(|(_, (size, _))| (2..all).contains(*size) && self.total.is_positive())
            .map(|(word, (_, shared))| ((*word).to_owned(), percent(shared)))
            .collect();
        Figures { activity: ALL.to_owned(), figures }
    }
}

impl TraceSink for Sharing {
    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.window = window;
    }

    fn event(&mut self, event: &Event<'_>) {
        let EventKind::Switch { next_comm, .. } = event.kind else { return };
        self.until(event.time);
        let CpuId(cpu) = event.cpu;
        let is_ours = self.names.contains(&next_comm);
        if let Some(busy) = self.busy.get_mut(cpu as usize) {
            *busy = is_ours;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::event::LeaveState;
    use surety_model::formats::toml;
    use surety_units::Tid;

    #[test]
    fn what_two_threads_share_counts_for_both_while_they_do() {
        let text = "format = 1\n[[task]]\nname = \"a\"\nwork = \"forever\"\n[[task]]\nname = \"b\"\nwork = \"forever\"\n";
        let workload = toml::read("two", text).unwrap();
        let mut sharing = Sharing::of(&workload, Topology { smt: 2, llc: Some(4), nodes: 1 }, 8);
        sharing.observes((Nanos::new(100), Nanos::new(1100)));
        let mut switch = |time, cpu, next: &str| {
            sharing.event(&Event {
                time: Nanos::new(time),
                cpu: CpuId(cpu),
                current: Tid(0),
                kind: EventKind::Switch {
                    prev: Tid(0),
                    prev_comm: Comm::default(),
                    prev_prio: 120,
                    prev_state: LeaveState::Sleeping,
                    next: Tid(1),
                    next_comm: Comm::new(next),
                    next_prio: 120,
                },
            });
        };
        // Both of one core for 200, then of one cache for 300, then of two for the other 500.
        switch(0, 0, "a");
        switch(50, 1, "b");
        switch(300, 1, "kworker");
        switch(300, 2, "b");
        switch(600, 2, "swapper");
        switch(600, 4, "b");
        let Figures { activity, figures } = sharing.figures();
        assert_eq!(activity, ALL);
        let found: Vec<(&str, f64)> = figures.iter().map(|(word, figure)| (word.as_str(), *figure)).collect();
        assert_eq!(found, [("cache shared", 50.0), ("core shared", 20.0)]);
    }
}
