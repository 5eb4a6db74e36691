//! What must hold of the steps of jobs: locks are given back, what is waited for comes, and whatever is done without end
//! takes time.

use std::collections::BTreeSet;

use super::Check;
use crate::source::nearest;
use crate::workload::{Instances, Phase, PolicySpec, Release, Schedule, Task, TaskBody, UtilClamp, Workload};

/// What wakes those who wait: the events that tasks raise, or a run's beginning, and the conditions they notify.
pub(super) struct Raised<'a> {
    events: BTreeSet<&'a str>,
    conditions: BTreeSet<&'a str>,
    /// The events that tasks wait for.
    awaited: BTreeSet<&'a str>,
}

impl<'a> Raised<'a> {
    /// By the tasks of a workload.
    pub(super) fn of(workload: &'a Workload) -> Raised<'a> {
        let mut raised = Raised {
            events: workload.events.iter().map(|event| event.name.as_str()).collect(),
            conditions: BTreeSet::new(),
            awaited: BTreeSet::new(),
        };
        for phase in workload.tasks.iter().flat_map(|task| task.body.leaves()) {
            match phase {
                Phase::Signal(name) => drop(raised.events.insert(name)),
                Phase::Wait(name) => drop(raised.awaited.insert(name)),
                Phase::Notify(name) | Phase::NotifyAll(name) => drop(raised.conditions.insert(name)),
                _ => {}
            }
        }
        raised
    }
}

/// The kernel would take some orders of the two.
const BESIDE_CPUS: &str = "SCHED_DEADLINE and CPUs of its own are not played of one thread, though it may have them one after the other: \
                           the kernel refuses them together";

/// More passes of a loop that takes no time than this are as good as endless.
const TIMELESS_MAX: u64 = 10_000;

impl Check<'_> {
    /// The steps of one task.
    pub(super) fn phases(&mut self, path: &str, task: &Task, raised: &Raised<'_>) {
        let TaskBody::Phases(phases) = &task.body else { return };
        let path = format!("{path}.phases");
        let mut held: Vec<&str> = Vec::new();
        self.locks(&path, phases, &mut held);
        for name in held {
            let message = format!("the job ends and still holds `{name}`");
            self.wrong(&path, message, Some(format!("add {{ unlock = \"{name}\" }}")));
        }
        self.waits(&path, phases, raised);
        let is_back_to_back = matches!(task.release, Release::BackToBack { .. });
        let jobs = if is_back_to_back { task.jobs } else { Some(1) };
        self.takes_time(&path, phases, jobs.unwrap_or(TIMELESS_MAX).min(TIMELESS_MAX));
        let is_long = jobs.is_none_or(|jobs| jobs > TIMELESS_MAX);
        if is_back_to_back && is_long && !phases.iter().any(Phase::takes_time) {
            let message = format!("the jobs of `{}` come back to back and take no time", task.name);
            self.wrong(&path, message, Some("add { run = \"1ms\" }, or a sleep or timer".to_owned()));
        }
    }

    /// A step that changes how its thread is scheduled says a policy that kernels have, with a reservation where that needs one, on all
    /// CPUs of the run and without `demote`.
    pub(super) fn changes(&mut self, path: &str, task: &Task) {
        let TaskBody::Phases(phases) = &task.body else { return };
        let has_cpus = |phase: &&Phase| matches!(phase, Phase::Cpus(Some(_)));
        let confined = task.cpus.is_some()
            || matches!(task.instances, Instances::PerCpu(_))
            || task.body.leaves().iter().any(has_cpus);
        self.schedules(&format!("{path}.phases"), phases, confined);
        if task.reservation.is_some_and(|reservation| reservation.demote) && task.changes().1 {
            let message = "`demote` beside steps that change the policy is not played".to_owned();
            self.wrong(path, message, Some("leave one of them out".to_owned()));
        }
        if task.reservation.is_some() && task.body.leaves().iter().any(has_cpus) {
            self.wrong(path, BESIDE_CPUS.to_owned(), Some("leave `cpus` out of its phases".to_owned()));
        }
    }

    /// The groups that steps bring a thread into are there, and its CPUs stay as they are; clamps are in order as they follow each other.
    pub(super) fn clamps_and_groups(&mut self, path: &str, task: &Task) {
        let TaskBody::Phases(phases) = &task.body else { return };
        self.groups_named(&format!("{path}.phases"), phases);
        // What the last step leaves is there when the next job begins.
        let mut state = (task.util, task.policy.is_realtime());
        for _ in 0..2 {
            if self.clamps(&format!("{path}.phases"), phases, &mut state) {
                break;
            }
        }
        let own = task.group.as_deref();
        let groups = || std::iter::once(own).chain(task.later_groups()).flatten();
        if task.later_groups().is_empty() {
            return;
        }
        let is_special = |name: &str| {
            let find = |name: &str| self.workload.groups.iter().find(|group| group.name == name);
            // As many as there are: a circle is told where it is.
            let chain = std::iter::successors(find(name), |group| group.parent.as_deref().and_then(find))
                .take(self.workload.groups.len());
            chain.into_iter().any(|group| group.reservation.is_some())
                || self.workload.cpus_of_group(Some(name)).is_some()
        };
        if let Some(name) = groups().find(|name| is_special(name)).map(str::to_owned) {
            let message = format!(
                "`{name}`, or a group around it, has CPUs or a reservation: no step leads into it or out of it"
            );
            let help = "leave these out of the groups, or `group` out of the steps".to_owned();
            self.wrong(&format!("{path}.phases"), message, Some(help));
        }
    }

    fn groups_named(&mut self, path: &str, phases: &[Phase]) {
        for (index, phase) in phases.iter().enumerate() {
            let path = format!("{path}.{index}");
            match phase {
                Phase::Group(Some(group)) => self.named(&path, "group", group),
                Phase::Loop { phases, .. } => self.groups_named(&format!("{path}.phases"), phases),
                _ => {}
            }
        }
    }

    /// Whether clamps are out of order. `state`: the clamps, and whether the thread is FIFO or RR, before them and then behind them.
    fn clamps(&mut self, path: &str, phases: &[Phase], state: &mut (UtilClamp, bool)) -> bool {
        for (index, phase) in phases.iter().enumerate() {
            let path = format!("{path}.{index}");
            match phase {
                Phase::Become(schedule) => state.1 = schedule.policy.is_realtime(),
                Phase::Clamp(clamp) => {
                    state.0 = clamp.after(state.0);
                    let (util, is_realtime) = *state;
                    if !util.is_in_order(is_realtime) {
                        let own =
                            if is_realtime && util.min.is_none() { " (1024 of FIFO and RR)" } else { "" };
                        let message = format!("`util-min`{own} is more than `util-max` from here on");
                        self.wrong(&path, message, Some("give the step both".to_owned()));
                        return true;
                    }
                }
                Phase::Loop { phases, .. } => {
                    let path = format!("{path}.phases");
                    if self.clamps(&path, phases, state) || self.clamps(&path, phases, state) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    fn schedules(&mut self, path: &str, phases: &[Phase], confined: bool) {
        for (index, phase) in phases.iter().enumerate() {
            let path = format!("{path}.{index}");
            let Phase::Become(Schedule { policy, reservation }) = phase else {
                if let Phase::Loop { phases, .. } = phase {
                    self.schedules(&format!("{path}.phases"), phases, confined);
                }
                continue;
            };
            let (why, help) = match (policy, reservation) {
                (PolicySpec::Simulated { .. } | PolicySpec::LatencyNice { .. }, _) => {
                    ("a step has a policy that kernels have", "give the whole task this policy")
                }
                (PolicySpec::Deadline, None) => (
                    "policy `deadline` needs a reservation",
                    "write `reservation = { runtime = \"5ms\", period = \"40ms\" }`",
                ),
                (PolicySpec::Deadline, Some(_)) if confined => {
                    (BESIDE_CPUS, "leave `cpus` out of the task and its phases")
                }
                (PolicySpec::Deadline, Some(reservation)) if reservation.demote => {
                    ("the reservation of a step has no `demote`", "leave it out")
                }
                (PolicySpec::Deadline, Some(_)) | (_, None) => continue,
                (_, Some(_)) => ("a reservation needs the policy `deadline`", "leave one of them out"),
            };
            self.wrong(&path, why.to_owned(), Some(help.to_owned()));
        }
    }

    /// Every resource is there, and each job takes and gives back in turn: a job that kept one would wait for itself in
    /// the next, and the kernel refuses to take a lock twice or to give back what is not held. The same of a loop's passes.
    fn locks<'p>(&mut self, path: &str, phases: &'p [Phase], held: &mut Vec<&'p str>) {
        for (index, phase) in phases.iter().enumerate() {
            let path = format!("{path}.{index}");
            match phase {
                Phase::Lock(name) => {
                    self.named(&path, "resource", name);
                    if held.contains(&name.as_str()) {
                        let message = format!("`{name}` is locked twice: the job would wait for itself");
                        self.wrong(&path, message, Some(format!("unlock `{name}` before")));
                    } else {
                        held.push(name);
                    }
                }
                Phase::Unlock(name) => {
                    self.named(&path, "resource", name);
                    self.held(&path, name, held, "unlocked");
                    held.retain(|other| *other != name);
                }
                Phase::Await { lock, .. } => {
                    self.named(&path, "resource", lock);
                    self.held(&path, lock, held, "given back by `await`");
                }
                Phase::Loop { phases, .. } => {
                    let before = held.clone();
                    self.locks(&format!("{path}.phases"), phases, held);
                    if *held != before {
                        let message = "a pass of the loop ends with other locks than it begins with";
                        let help = "give back what is taken in the same pass";
                        self.wrong(&path, message.to_owned(), Some(help.to_owned()));
                        *held = before;
                    }
                }
                _ => {}
            }
        }
    }

    fn held(&mut self, path: &str, name: &str, held: &[&str], what: &str) {
        if !held.contains(&name) {
            let message = format!("`{name}` is {what} but not held");
            self.wrong(path, message, Some(format!("lock `{name}` before")));
        }
    }

    /// An event that is raised from the beginning is waited for.
    pub(super) fn events(&mut self, raised: &Raised<'_>) {
        let workload = self.workload;
        for event in workload.events.iter().filter(|event| !raised.awaited.contains(event.name.as_str())) {
            let help = match nearest(&event.name, raised.awaited.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add {{ wait = \"{}\" }} to the phases of a task", event.name),
            };
            let message = format!("no task waits for the event `{}`", event.name);
            self.wrong(&format!("event.{}", event.name), message, Some(help));
        }
    }

    /// Somebody raises each event, and notifies of each condition, that is waited for.
    fn waits(&mut self, path: &str, phases: &[Phase], raised: &Raised<'_>) {
        for (index, phase) in phases.iter().enumerate() {
            let path = format!("{path}.{index}");
            let (name, all, what, key) = match phase {
                Phase::Wait(name) => (name, &raised.events, "raises the event", "signal"),
                Phase::Await { condition, .. } => {
                    (condition, &raised.conditions, "notifies of the condition", "notify")
                }
                Phase::Loop { phases, .. } => {
                    self.waits(&format!("{path}.phases"), phases, raised);
                    continue;
                }
                _ => continue,
            };
            if !all.contains(name.as_str()) {
                let help = match nearest(name, all.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("add {{ {key} = \"{name}\" }} to the phases of a task"),
                };
                self.wrong(&path, format!("no task {what} `{name}`: the wait would not end"), Some(help));
            }
        }
    }

    /// What is done more than some thousand times takes time: else no other thread of a simulated machine would come to run. `passes`: of
    /// the loops around these steps that take none.
    fn takes_time(&mut self, path: &str, phases: &[Phase], passes: u64) {
        for (index, phase) in phases.iter().enumerate() {
            let Phase::Loop { times, phases } = phase else { continue };
            let path = format!("{path}.{index}");
            if phases.iter().any(Phase::takes_time) {
                self.takes_time(&format!("{path}.phases"), phases, 1);
                continue;
            }
            let all = times.map_or(u64::MAX, |times| times.saturating_mul(passes));
            if all > TIMELESS_MAX {
                let help = format!("add {{ run = \"1ms\" }}, or at most {TIMELESS_MAX} passes in all");
                self.wrong(&path, "the loop takes no time".to_owned(), Some(help));
                continue;
            }
            self.takes_time(&format!("{path}.phases"), phases, all.max(1));
        }
    }
}
