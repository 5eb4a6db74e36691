//! What a job of steps asks for: work, sleep, and sections in which it holds a lock.
//!
//! Locks with inheritance keep a thread waiting for sections of those below it (`surety_analysis::schedulability::resources`);
//! that bound is for one CPU, for sections that do not contain others, and for threads that do not sleep. Sleep is
//! self-suspension (`surety_analysis::schedulability::suspension`). Events are no part of either.

use surety_analysis::schedulability::SporadicTask;
use surety_analysis::schedulability::resources::{Section, blocked, inheritance};
use surety_analysis::work::declared_bound;
use surety_model::workload::{LockProtocol, Phase, Task, TaskBody, Workload};
use surety_units::Nanos;

/// The longest that jobs of steps ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) work: Nanos,
    pub(super) sleep: Nanos,
    /// Locks held, each as long as it is at most.
    pub(super) sections: Vec<(String, Nanos)>,
}

/// The steps of a task's jobs added up; or what no test covers.
pub(super) fn steps_of(task: &Task, phases: &[Phase], workload: &Workload) -> Result<Steps, String> {
    let name = &task.name;
    let mut steps = Steps::default();
    let mut held: Option<(String, Nanos)> = None;
    for phase in phases {
        match phase {
            Phase::Run(work) => {
                let most = declared_bound(work)
                    .ok_or_else(|| format!("a run of `{name}` has no largest value that is declared"))?;
                steps.work += most;
                held.iter_mut().for_each(|(_, length)| *length += most);
            }
            Phase::Sleep(_) if held.is_some() => {
                return Err(format!("`{name}` sleeps while it holds a lock, which no test here covers"));
            }
            Phase::Sleep(length) => steps.sleep += *length,
            Phase::Lock(_) if held.is_some() => {
                return Err(format!(
                    "`{name}` takes a lock while it holds another, which no test here covers"
                ));
            }
            Phase::Lock(lock) => {
                let protocol = workload.resources.iter().find(|r| r.name == *lock).map(|r| r.protocol);
                if protocol != Some(LockProtocol::Inherit) {
                    return Err(format!(
                        "the lock `{lock}` of `{name}` has no protocol: its holder can be held up for any time; give it \
                         `protocol = \"inherit\"`"
                    ));
                }
                held = Some((lock.clone(), Nanos::ZERO));
            }
            Phase::Unlock(_) => steps.sections.extend(held.take()),
            Phase::Wait(event) => {
                return Err(format!("`{name}` waits for `{event}`, and nothing bounds how long"));
            }
            Phase::Signal(_) | Phase::Notify(_) | Phase::NotifyAll(_) => {}
            other => {
                let word = other.beyond_sums().unwrap_or("step");
                return Err(format!("the jobs of `{name}` have a `{word}`, which no test here covers"));
            }
        }
    }
    // A lock that is kept to the end is kept to the next job.
    match held {
        Some((lock, _)) => Err(format!("`{name}` ends its jobs with the lock `{lock}` held")),
        None => Ok(steps),
    }
}

/// The sections of tasks that are no real-time threads: below all of them, and raised while one waits.
///
/// Only those with a lock in `taken` count. Errors: one of these has a reservation, which it would lend, or is not covered.
pub(super) fn sections_below(
    workload: &Workload,
    is_level: impl Fn(&Task) -> bool,
    is_reserved: impl Fn(&Task) -> bool,
    taken: &[&String],
    cpus: u32,
) -> Result<Vec<Vec<(String, Nanos)>>, String> {
    let mut below = Vec::new();
    for task in workload.tasks.iter().filter(|task| !is_level(task)) {
        let TaskBody::Phases(phases) = &task.body else { continue };
        let shares = |phase: &&Phase| matches!(phase, Phase::Lock(lock) if taken.contains(&lock));
        if !task.body.leaves().iter().any(shares) {
            continue;
        }
        if is_reserved(task) {
            let name = &task.name;
            return Err(format!(
                "`{name}` has a reservation and shares a lock with them: its holder runs under its deadline"
            ));
        }
        let steps = steps_of(task, phases, workload)?;
        below.extend((0..task.instances.on(cpus)).map(|_| steps.sections.clone()));
    }
    Ok(below)
}

/// The tasks, in order of falling priority, with what sections below keep each waiting.
pub(super) fn with_blocking(
    tasks: &[SporadicTask],
    sections: &[&[(String, Nanos)]],
    below: &[Vec<(String, Nanos)>],
) -> Vec<SporadicTask> {
    let all = || sections.iter().copied().chain(below.iter().map(Vec::as_slice));
    let mut locks: Vec<&String> = all().flatten().map(|(lock, _)| lock).collect();
    locks.sort_unstable();
    locks.dedup();
    let place = |lock: &String| locks.iter().position(|l| *l == lock).unwrap_or(0);
    let of = |(task, own): (usize, &[(String, Nanos)])| -> Vec<Section> {
        own.iter().map(|(lock, length)| Section { task, lock: place(lock), length: *length }).collect()
    };
    let sections: Vec<Section> = all().enumerate().flat_map(of).collect();
    blocked(tasks, &inheritance(tasks.len(), &sections))
}
