//! [`Placement`]: where the threads of a run are placed, in figures that do not say which of equal CPUs is which.
//!
//! Equal CPUs change places, and who is on which of them is a matter of the beginning. What a scheduler makes of them is not: for which part of
//! its CPU time a thread has been on the CPU where it has most ([`ON_ONE_CPU`]), how often it came to another CPU than it had before
//! ([`MIGRATIONS`]), and for which part of their CPU time threads shared a core, a cache or a node. All of them are taken from switches, in the same
//! way on a kernel and simulated.

use std::collections::BTreeMap;

use surety_model::event::{Comm, Event, EventKind, TraceSink};
use surety_model::platform::Topology;
use surety_model::workload::{Instances, Workload};
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use super::Figures;

/// The name that stands for all activities.
const ALL: &str = "all tasks";
/// What is shared, from the nearest on.
pub(super) const SHARED: [&str; 3] = ["core shared", "cache shared", "node shared"];
/// The part of the CPU time that threads have on the CPU where each has most of its own.
pub(super) const ON_ONE_CPU: &str = "on one CPU";
/// How often in a second threads come to another CPU than they had before.
pub(super) const MIGRATIONS: &str = "migrations";
/// The part of an activity's CPU time in which another CPU is busy, with whatever thread. It is compared with nothing: it tells whose times are.
pub(super) const BESIDE_OTHERS: &str = "beside others";

/// Adds up while events come.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The CPUs of the run, which have their places here by their order.
    of_run: Vec<CpuId>,
    /// CPUs of a core, of a cache and of a node.
    sizes: [usize; 3],
    activities: Vec<Member>,
    window: (Nanos, Nanos),
    since: Nanos,
    /// Who has each CPU since then.
    cpus: Vec<Occupant>,
    threads: Vec<Thread>,
    numbers: BTreeMap<Tid, usize>,
    /// CPU time of all of them, and of those that share each.
    total: Nanos,
    shared: [Nanos; 3],
}

/// An activity whose threads are told by their names.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    /// As the kernel keeps it.
    comm: Comm,
    /// Whether its threads may choose among CPUs.
    is_free: bool,
}

/// Who has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occupant {
    Nobody,
    /// A thread that is not of the workload.
    Other,
    /// One of it, by its number.
    Thread(usize),
}

#[derive(Clone, Debug)]
struct Thread {
    activity: usize,
    /// CPU time on each CPU, and of all of it what another CPU was busy in.
    runs: Vec<Nanos>,
    beside_others: Nanos,
    /// The CPU that it had last.
    last: Option<usize>,
    migrations: u32,
}

impl Placement {
    /// Of a workload's tasks and loads on these CPUs, which share things so.
    pub fn of(workload: &Workload, topology: Option<Topology>, all: CpuSet) -> Placement {
        let topology = topology.unwrap_or(Topology { smt: 1, llc: None, nodes: 1 });
        let of_run: Vec<CpuId> = all.iter().collect();
        let cpus = of_run.len() as u32;
        let sizes = [topology.smt, topology.llc(cpus), topology.node(cpus)];
        let member = |name: &String, instances: Instances, chosen: Option<CpuSet>| Member {
            name: name.clone(),
            comm: Comm::new(name),
            is_free: matches!(instances, Instances::Count(_)) && chosen.is_none_or(|chosen| chosen == all),
        };
        let tasks = workload.tasks.iter().map(|task| member(&task.name, task.instances, task.cpus));
        let loads = workload.loads.iter().map(|load| member(&load.name, load.count, None));
        Placement {
            sizes: sizes.map(|size| size.max(1) as usize),
            activities: tasks.chain(loads).collect(),
            window: (Nanos::ZERO, Nanos::MAX),
            since: Nanos::ZERO,
            cpus: vec![Occupant::Nobody; of_run.len()],
            of_run,
            threads: Vec::new(),
            numbers: BTreeMap::new(),
            total: Nanos::ZERO,
            shared: [Nanos::ZERO; 3],
        }
    }

    /// The place of a CPU, if it is one of the run's.
    fn place(&self, cpu: CpuId) -> Option<usize> {
        self.of_run.iter().position(|of_run| *of_run == cpu)
    }

    /// The number of a thread of the workload.
    fn number(&mut self, tid: Tid, comm: Comm) -> Option<usize> {
        if let Some(number) = self.numbers.get(&tid) {
            return Some(*number);
        }
        let activity = self.activities.iter().position(|member| member.comm == comm)?;
        let runs = vec![Nanos::ZERO; self.cpus.len()];
        let beside_others = Nanos::ZERO;
        self.threads.push(Thread { activity, runs, beside_others, last: None, migrations: 0 });
        self.numbers.insert(tid, self.threads.len() - 1);
        Some(self.threads.len() - 1)
    }

    /// Goes on to an instant.
    fn until(&mut self, time: Nanos) {
        let (begin, end) = (self.since.max(self.window.0), time.min(self.window.1));
        self.since = self.since.max(time);
        if end <= begin {
            return;
        }
        let span = end - begin;
        let busy = self.cpus.iter().filter(|on| **on != Occupant::Nobody).count();
        for (cpu, on) in self.cpus.iter().enumerate() {
            let Occupant::Thread(number) = on else { continue };
            let thread = &mut self.threads[*number];
            thread.runs[cpu] += span;
            thread.beside_others += if busy > 1 { span } else { Nanos::ZERO };
            self.total += span;
        }
        let is_ours = |on: &&Occupant| matches!(on, Occupant::Thread(_));
        for (shared, size) in self.shared.iter_mut().zip(self.sizes) {
            let together = self.cpus.chunks(size).map(|part| part.iter().filter(is_ours).count());
            *shared += span * together.filter(|count| *count > 1).map(|count| count as i64).sum::<i64>();
        }
    }

    /// A CPU changes hands.
    fn switch(&mut self, time: Nanos, cpu: usize, next: Occupant) {
        self.until(time);
        if let Occupant::Thread(number) = next {
            let is_seen = self.window.0 <= time && time < self.window.1;
            let thread = &mut self.threads[number];
            thread.migrations += u32::from(is_seen && thread.last.is_some_and(|last| last != cpu));
            thread.last = Some(cpu);
        }
        self.cpus[cpu] = next;
    }

    /// The figures: parts in percent, and migrations per second. What all CPUs share is none, there are none of threads that never ran, and none of
    /// where those are that may not choose.
    pub fn figures(mut self) -> Vec<Figures> {
        self.until(self.window.1);
        let percent = |part: Nanos, of: Nanos| part.get() as f64 * 100.0 / of.get() as f64;
        let span = self.window.1 - self.window.0;
        let mut all = Vec::new();
        for (place, member) in self.activities.iter().enumerate() {
            let of = || self.threads.iter().filter(|thread| thread.activity == place);
            let run: Nanos = of().flat_map(|thread| thread.runs.iter().copied()).sum();
            if !run.is_positive() {
                continue;
            }
            let mut figures = BTreeMap::new();
            let beside = of().map(|thread| thread.beside_others).sum();
            figures.insert(BESIDE_OTHERS.to_owned(), percent(beside, run));
            if member.is_free {
                let most = of().filter_map(|thread| thread.runs.iter().max()).copied().sum();
                let migrations: u32 = of().map(|thread| thread.migrations).sum();
                figures.insert(ON_ONE_CPU.to_owned(), percent(most, run));
                figures.insert(MIGRATIONS.to_owned(), f64::from(migrations) * 1e9 / span.get() as f64);
            }
            all.push(Figures { activity: member.name.clone(), figures });
        }
        let is_part = |size: usize| (2..self.cpus.len()).contains(&size) && self.total.is_positive();
        let shared = SHARED.iter().zip(self.sizes.into_iter().zip(self.shared));
        let figures: BTreeMap<String, f64> = shared
            .filter(|(_, (size, _))| is_part(*size))
            .map(|(word, (_, shared))| ((*word).to_owned(), percent(shared, self.total)))
            .collect();
        if !figures.is_empty() {
            all.push(Figures { activity: ALL.to_owned(), figures });
        }
        all
    }
}

impl TraceSink for Placement {
    fn observes(&mut self, window: (Nanos, Nanos)) {
        self.window = window;
    }

    fn event(&mut self, event: &Event<'_>) {
        let EventKind::Switch { next, next_comm, .. } = event.kind else { return };
        let Some(cpu) = self.place(event.cpu) else { return };
        let next = match self.number(next, next_comm) {
            Some(number) => Occupant::Thread(number),
            None if next == Tid::IDLE => Occupant::Nobody,
            None => Occupant::Other,
        };
        self.switch(event.time, cpu, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::event::LeaveState;
    use surety_model::formats::toml;

    const TWO: &str = "format = 1\n[[task]]\nname = \"a\"\nwork = \"forever\"\n[[task]]\nname = \"b\"\nwork = \"forever\"\n";
    const A: (i32, &str) = (1, "a");
    const B: (i32, &str) = (2, "b");
    const KERNEL: (i32, &str) = (9, "kworker");
    const IDLE: (i32, &str) = (0, "swapper");

    fn of(topology: Option<Topology>, cpus: u32) -> Placement {
        let mut placement = Placement::of(&toml::read("two", TWO).unwrap(), topology, CpuSet::first(cpus));
        placement.observes((Nanos::new(100), Nanos::new(1100)));
        placement
    }

    type Named = (i32, &'static str);

    fn switch(placement: &mut Placement, (time, cpu): (i64, u32), next: Named) {
        let kind = EventKind::Switch {
            prev: Tid(0),
            prev_comm: Comm::new(""),
            prev_prio: 120,
            prev_state: LeaveState::Sleeping,
            next: Tid(next.0),
            next_comm: Comm::new(next.1),
            next_prio: 120,
        };
        placement.event(&Event { time: Nanos::new(time), cpu: CpuId(cpu), current: Tid(0), kind });
    }

    /// What is found of an activity, by name.
    fn found(all: &[Figures], activity: &str) -> Vec<(String, f64)> {
        let figures = all.iter().find(|figures| figures.activity == activity).unwrap();
        figures.figures.iter().map(|(word, figure)| (word.clone(), *figure)).collect()
    }

    fn words(figures: &[(&str, f64)]) -> Vec<(String, f64)> {
        figures.iter().map(|(word, figure)| ((*word).to_owned(), *figure)).collect()
    }

    #[test]
    fn what_two_threads_share_counts_for_both_while_they_do() {
        let mut placement = of(Some(Topology { smt: 2, llc: Some(4), nodes: 1 }), 8);
        // Both of one core for 200, then of one cache for 300, then of two for the other 500.
        switch(&mut placement, (0, 0), A);
        switch(&mut placement, (50, 1), B);
        switch(&mut placement, (300, 1), KERNEL);
        switch(&mut placement, (300, 2), B);
        switch(&mut placement, (600, 2), IDLE);
        switch(&mut placement, (600, 4), B);
        let all = placement.figures();
        let shared = [("cache shared", 50.0), ("core shared", 20.0)];
        assert_eq!(found(&all, ALL), words(&shared));
    }

    #[test]
    fn a_thread_is_on_the_cpu_where_it_has_most_and_migrates_where_it_comes_to_another() {
        let mut placement = of(None, 2);
        switch(&mut placement, (0, 0), A);
        // Preempted and back on the same CPU, then on the other one; it begins there outside of what is observed, and sleeps in between.
        switch(&mut placement, (50, 0), IDLE);
        switch(&mut placement, (60, 1), A);
        switch(&mut placement, (200, 1), KERNEL);
        switch(&mut placement, (300, 1), A);
        switch(&mut placement, (700, 1), IDLE);
        switch(&mut placement, (800, 0), A);
        let all = placement.figures();
        // 100 and 400 of 800, and the last 300 on the other.
        let of_a = [(BESIDE_OTHERS, 0.0), (MIGRATIONS, 1e6), (ON_ONE_CPU, 62.5)];
        assert_eq!(found(&all, "a"), words(&of_a));
        assert!(all.iter().all(|figures| figures.activity != "b"), "{all:?}");
    }

    /// A thread of the kernel's makes a CPU as busy as one of the workload.
    #[test]
    fn a_thread_is_beside_others_while_another_cpu_is_busy() {
        let mut placement = of(None, 2);
        switch(&mut placement, (0, 0), A);
        switch(&mut placement, (400, 1), KERNEL);
        switch(&mut placement, (500, 1), IDLE);
        switch(&mut placement, (900, 1), B);
        let all = placement.figures();
        assert_eq!(found(&all, "a")[0], (BESIDE_OTHERS.to_owned(), 30.0));
        assert_eq!(found(&all, "b")[0], (BESIDE_OTHERS.to_owned(), 100.0));
    }

    #[test]
    fn threads_that_may_not_choose_are_placed_by_nobody() {
        let text = "format = 1\n[[load]]\nname = \"a\"\nkind = \"spinners\"\ncount = \"1 per-cpu\"\n";
        let mut placement = Placement::of(&toml::read("pinned", text).unwrap(), None, CpuSet::first(2));
        placement.observes((Nanos::new(0), Nanos::new(100)));
        switch(&mut placement, (0, 0), A);
        assert_eq!(found(&placement.figures(), "a"), words(&[(BESIDE_OTHERS, 0.0)]));
    }
}
