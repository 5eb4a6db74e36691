//! `fork`: threads that others begin. One becomes a task with an instance for each time that the event comes, which waits until
//! it was begun and then does all of its passes as one job.
//!
//! A thread is made with the CPUs that the one which makes it has at that moment, and keeps them wherever neither it nor its phase names
//! any (`set_thread_affinity` in `rt-app.c`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use surety_units::CpuSet;

use crate::formats::foreign::Reading;
use crate::workload::{Instances, Phase, Release, Task, TaskBody, Workload, leaves};

/// Threads that are begun so, of one name.
const THREADS_MAX: u64 = 10_000;

/// A `fork` of the file.
struct Fork {
    /// The thread it begins, as the file calls it.
    target: String,
    /// The task it is in, and how often each instance comes to it; `None`: without end.
    task: String,
    times: Option<u64>,
    /// The CPUs of that task there; `None`: those of the run.
    cpus: Option<CpuSet>,
    span: Range<usize>,
}

/// The events of a file.
#[derive(Default)]
pub(super) struct Forks {
    list: Vec<Fork>,
}

impl Forks {
    /// Notes one of a task, how often each instance comes to it and with which CPUs, and says which event it raises.
    pub(super) fn note(
        &mut self,
        target: &str,
        (task, times, cpus): (&str, Option<u64>, Option<CpuSet>),
        span: &Range<usize>,
    ) -> String {
        let (target, task, span) = (target.to_owned(), task.to_owned(), span.clone());
        let event = event_of(&target);
        self.list.push(Fork { target, task, times, cpus, span });
        event
    }

    /// Makes the tasks of threads that are begun, beside those that run from the beginning; `threads` by the names of the file, with
    /// `instance` 0 too.
    pub(super) fn settle(
        &self,
        reading: &mut Reading,
        threads: &BTreeMap<String, Task>,
        workload: &mut Workload,
    ) {
        let mut counts: BTreeMap<&str, (u64, &Range<usize>)> = BTreeMap::new();
        let targets = self.list.iter().filter_map(|fork| threads.get(&fork.target));
        let forked: BTreeSet<&str> = targets.map(|thread| thread.name.as_str()).collect();
        for fork in &self.list {
            let target = fork.target.as_str();
            let before = counts.get(target).map_or(0, |(count, _)| *count);
            match fork.all(threads, &forked, workload, before) {
                Ok(all) => drop(counts.insert(target, (all, &fork.span))),
                Err((message, help)) => reading.wrong(&fork.span, message, Some(help.to_owned())),
            }
        }
        for (target, (count, span)) in counts {
            let thread = self.with_cpus(reading, target, threads[target].clone());
            let ours = begun(reading, &thread, (target, count, span), workload);
            workload.tasks.extend(ours);
        }
    }

    /// A thread as those have it that are begun: with the CPUs of who begins it where it names none.
    fn with_cpus(&self, reading: &mut Reading, target: &str, mut thread: Task) -> Task {
        let TaskBody::Phases(phases) = &mut thread.body else { return thread };
        let places = phases.iter().filter(|phase| matches!(phase, Phase::Cpus(_)));
        let names_all =
            places.clone().count() > 0 && places.clone().all(|phase| matches!(phase, Phase::Cpus(Some(_))));
        if thread.cpus.is_some() || names_all {
            return thread;
        }
        let mut forks = self.list.iter().filter(|fork| fork.target == target);
        let first = forks.next().and_then(|fork| fork.cpus);
        if let Some(other) = forks.find(|fork| fork.cpus != first) {
            let word =
                |cpus: Option<CpuSet>| cpus.map_or("all of the run".to_owned(), |cpus| cpus.to_string());
            let message = format!(
                "`{target}` is forked here with the CPUs {}, and before with {}",
                word(other.cpus),
                word(first)
            );
            reading.wrong(&other.span, message, Some("give it `cpus`".to_owned()));
        }
        for phase in phases.iter_mut().filter(|phase| matches!(phase, Phase::Cpus(None))) {
            *phase = Phase::Cpus(first);
        }
        thread.cpus = first;
        thread
    }
}

impl Fork {
    /// How often the thread of a fork is begun with this fork counted, which was begun `before` times without it; else why that is not
    /// known, and what to do. Those of a thread that is itself `forked` are not counted: its copies would fork, too.
    fn all(
        &self,
        threads: &BTreeMap<String, Task>,
        forked: &BTreeSet<&str>,
        workload: &Workload,
        before: u64,
    ) -> Result<u64, (String, &'static str)> {
        let Fork { target, task, times, .. } = self;
        let Some(thread) = threads.get(target) else {
            return Err((format!("there is no thread `{target}` to fork"), "name one of `tasks`"));
        };
        let other = "fork from a thread that runs from the beginning and that none forks";
        if thread.name == *task {
            return Err((format!("`{target}` forks itself"), other));
        }
        if forked.contains(task.as_str()) {
            return Err((format!("`{target}` is forked by `{task}`, which is itself forked"), other));
        }
        let instances = workload.task(task).map_or(0, |task| task.instances.on(1));
        if instances == 0 {
            return Err((format!("`{target}` is forked by `{task}`, which has no instance"), other));
        }
        let total = times.and_then(|times| u64::from(instances).checked_mul(times)?.checked_add(before));
        total.filter(|total| *total <= THREADS_MAX).ok_or_else(|| {
            let help = "give the thread that forks it a `loop` with an end";
            (format!("`{target}` is forked more than {THREADS_MAX} times"), help)
        })
    }
}

/// The event that is raised for each.
fn event_of(target: &str) -> String {
    format!("fork:{target}")
}

/// The task of a thread that is begun so often.
fn begun(
    reading: &mut Reading,
    thread: &Task,
    (target, count, span): (&str, u64, &Range<usize>),
    workload: &Workload,
) -> Option<Task> {
    let TaskBody::Phases(phases) = &thread.body else { return None };
    let mut refuse = |what: &str, help: &str| {
        reading.wrong(span, format!("`{target}`, which is forked, {what}"), Some(help.to_owned()));
    };
    if thread.release.start().is_positive() {
        refuse("has a `delay`", "begin its phases with a `sleep`");
    }
    if leaves(phases).into_iter().any(|phase| matches!(phase, Phase::Timer(_))) {
        refuse("has a timer, which would begin with the run", "write `sleep` in its place");
    }
    let mut name = format!("{}-forked", thread.name);
    while workload.task(&name).is_some() {
        name.push('-');
    }
    reading.place(format!("task.{name}"), span);
    let wait = Phase::Wait(event_of(target));
    let passes = Phase::Loop { times: thread.jobs, phases: phases.clone() };
    let phases = match thread.jobs {
        Some(1) => std::iter::once(wait).chain(phases.iter().cloned()).collect(),
        _ => vec![wait, passes],
    };
    Some(Task {
        name,
        body: TaskBody::Phases(phases),
        release: Release::BackToBack { start: surety_units::Nanos::ZERO },
        jobs: Some(1),
        together: false,
        instances: Instances::Count(u32::try_from(count).expect("a few thousand")),
        ..thread.clone()
    })
}
