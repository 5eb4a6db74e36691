//! [`Phase`]: the steps of a job, and what follows from them about its task.

use surety_units::{Bytes, CpuSet, Nanos};

use super::{LockProtocol, PolicySpec, Task, TaskBody, Work, Workload};
use crate::distribution::TimeDistribution;
use crate::reservation::Reservation;

/// One step of a job. A job gives back every resource it takes, and takes none twice ([`crate::formats::toml`] checks).
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Burns CPU time.
    Run(TimeDistribution),
    /// Burns CPU time in pieces of [`Phase::PIECE`] until this long has passed since it began, whoever had the CPU.
    Busy(Nanos),
    Sleep(Nanos),
    /// Writes bytes.
    Fill(Fill),
    Timer(Timer),
    /// Takes a resource.
    Lock(String),
    /// Gives it back.
    Unlock(String),
    /// Waits for an event.
    Wait(String),
    /// Raises an event.
    Signal(String),
    /// Gives a resource back, waits until the condition is notified, and takes the resource again. What was notified before
    /// is not waited for: a condition is not counted, as an event is.
    Await {
        condition: String,
        lock: String,
    },
    /// Ends the wait of whoever has waited longest for the condition.
    Notify(String),
    /// Ends all waits for the condition.
    NotifyAll(String),
    /// Waits until as many have come as [`Workload::parties`] says.
    Barrier(String),
    /// Lets others of the same importance run first (`sched_yield`).
    Yield,
    /// May use these CPUs from now on; `None`: all of the run.
    Cpus(Option<CpuSet>),
    /// Is scheduled so from now on.
    Become(Schedule),
    /// Has these clamps of utilisation from now on.
    Clamp(UtilClamp),
    /// Is in this control group from now on; `None`: in that of the run.
    Group(Option<String>),
    /// Steps taken again and again.
    Loop {
        /// How often, at least once; `None`: for ever.
        times: Option<u64>,
        phases: Vec<Phase>,
    },
}

/// Writes bytes over a buffer of the thread's own, from its beginning again and again, or from it into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    pub bytes: Bytes,
    /// Bytes of the buffer, above zero: memory is written over so much of it, and a file so much at a time.
    pub buffer: Bytes,
    /// The file; `None`: memory alone. It is made where it is not there, and written on in each use.
    pub file: Option<String>,
    /// The CPU time that it takes, where a machine was asked; a kernel's world takes what it takes.
    pub takes: Option<Nanos>,
}

impl Fill {
    /// rt-app's buffer where its file says none (`DEFAULT_MEM_BUF_SIZE`).
    pub const BUFFER: Bytes = Bytes(4 << 20);

    /// The largest buffer of a thread.
    pub const BUFFER_MAX: Bytes = Bytes(1 << 30);

    /// The key of the step in a file.
    pub fn word(&self) -> &'static str {
        if self.file.is_some() { "write" } else { "memory" }
    }

    /// Whether one use takes time as far as is known.
    fn takes_time(&self) -> bool {
        self.bytes > Bytes(0) && self.takes.is_none_or(Nanos::is_positive)
    }
}

/// Within which limits the utilisation of a thread is taken (`sched_util_min` and `sched_util_max` of `sched_setattr`), of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtilClamp {
    /// 0..=1024; `None`: as it is.
    pub min: Option<u32>,
    pub max: Option<u32>,
}

impl UtilClamp {
    /// The whole of a CPU.
    pub const SCALE: u32 = 1024;

    /// Whether it says anything.
    pub fn is_given(&self) -> bool {
        self.min.is_some() || self.max.is_some()
    }

    /// What is in force of both when this one comes behind `before`.
    pub fn after(self, before: UtilClamp) -> UtilClamp {
        UtilClamp { min: self.min.or(before.min), max: self.max.or(before.max) }
    }

    /// Whether the kernel takes it: the least is no more than the most. Of FIFO and RR threads the least is the whole where nothing says it
    /// (`sched_util_clamp_min_rt_default`).
    pub fn is_in_order(&self, is_realtime: bool) -> bool {
        let least = if is_realtime { UtilClamp::SCALE } else { 0 };
        self.min.unwrap_or(least) <= self.max.unwrap_or(UtilClamp::SCALE)
    }
}

/// How a thread is scheduled from a step of its jobs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub policy: PolicySpec,
    /// That of [`PolicySpec::Deadline`].
    pub reservation: Option<Reservation>,
}

impl Schedule {
    /// Whether it is SCHED_DEADLINE: that policy, or a reservation under one that has none of its own.
    pub fn is_deadline(&self) -> bool {
        let reserves = self.reservation.is_some() && !self.policy.takes_reservation();
        self.policy == PolicySpec::Deadline || reserves
    }
}

/// An event that is raised when a run begins, before a task raises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaisedEvent {
    pub name: String,
    /// The number of waits that end although no task raises it, 1..=[`RaisedEvent::MAX`].
    pub times: u32,
}

impl RaisedEvent {
    /// As often as the host world's events are raised at most.
    pub const MAX: u32 = (1 << 31) - 1;
}

/// Sleeps until an instant of a timer: one of the thread's own, which lives as long as the thread, or one of all threads that name it.
///
/// Each use moves the timer a period on, the first from the instant at which the thread that uses it is to start. Time that has passed
/// is not slept for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    pub name: String,
    /// How far this use moves it on.
    pub period: Nanos,
    /// Whether a use that comes late leaves the timer where it is: later uses then catch up. Else it is set to now.
    pub absolute: bool,
    /// Whether it is one timer for all threads that name it so.
    pub shared: bool,
}

impl Timer {
    /// A use at `now` of a timer that stood at `last`: the instant to sleep until, past where the use comes late, and where the timer
    /// stands then.
    pub fn moves_on(last: Nanos, (period, absolute): (Nanos, bool), now: Nanos) -> (Nanos, Nanos) {
        let next = last + period;
        (next, if absolute { next } else { next.max(now) })
    }
}

impl Phase {
    /// The CPU time between two looks at the clock of [`Phase::Busy`], as in rt-app's `runtime`.
    pub const PIECE: Nanos = Nanos::from_micros(32);

    /// Whether taking it surely takes time.
    pub(crate) fn takes_time(&self) -> bool {
        match self {
            Phase::Run(work) => work.quantile(0.5).is_positive(),
            Phase::Busy(length) | Phase::Sleep(length) => length.is_positive(),
            Phase::Fill(fill) => fill.takes_time(),
            Phase::Timer(timer) => timer.period.is_positive(),
            Phase::Loop { phases, .. } => phases.iter().any(Phase::takes_time),
            _ => false,
        }
    }

    /// The step in words, where the thread may stand still in it.
    fn stands_still(&self) -> Option<String> {
        match self {
            Phase::Sleep(length) => Some(format!("sleep {length}")),
            Phase::Timer(timer) => Some(format!("timer `{}`", timer.name)),
            Phase::Lock(name) => Some(format!("lock `{name}`")),
            Phase::Wait(name) => Some(format!("wait `{name}`")),
            Phase::Await { condition, .. } => Some(format!("await `{condition}`")),
            Phase::Barrier(name) => Some(format!("barrier `{name}`")),
            Phase::Run(_) | Phase::Busy(_) | Phase::Unlock(_) | Phase::Signal(_) => None,
            Phase::Notify(_) | Phase::NotifyAll(_) | Phase::Yield | Phase::Loop { .. } => None,
            Phase::Cpus(_) | Phase::Become(_) | Phase::Fill(_) | Phase::Clamp(_) | Phase::Group(_) => None,
        }
    }

    /// The group that it brings its thread into; inside, `None`: that of the run.
    fn later_group(&self) -> Option<Option<&str>> {
        match self {
            Phase::Group(group) => Some(group.as_deref()),
            _ => None,
        }
    }

    /// What a bound of a sum of its steps does not cover: its word.
    pub fn beyond_sums(&self) -> Option<&'static str> {
        match self {
            Phase::Busy(_) => Some("busy"),
            Phase::Fill(fill) => Some(fill.word()),
            Phase::Timer(_) => Some("timer"),
            Phase::Await { .. } => Some("await"),
            Phase::Barrier(_) => Some("barrier"),
            Phase::Yield => Some("yield"),
            Phase::Cpus(_) => Some("cpus"),
            Phase::Become(_) => Some("policy"),
            Phase::Clamp(_) => Some("util-min"),
            Phase::Group(_) => Some("group"),
            Phase::Loop { .. } => Some("loop"),
            _ => None,
        }
    }
}

/// The steps that write bytes, inside loops too.
pub fn fills_mut(phases: &mut [Phase]) -> Vec<&mut Fill> {
    let mut found = Vec::new();
    for phase in phases {
        match phase {
            Phase::Fill(fill) => found.push(fill),
            Phase::Loop { phases, .. } => found.extend(fills_mut(phases)),
            _ => {}
        }
    }
    found
}

/// The steps that are no loops, in the order of the file: those of a loop once.
pub fn leaves(phases: &[Phase]) -> Vec<&Phase> {
    let mut found = Vec::with_capacity(phases.len());
    for phase in phases {
        match phase {
            Phase::Loop { phases, .. } => found.extend(leaves(phases)),
            _ => found.push(phase),
        }
    }
    found
}

impl TaskBody {
    /// Whether a thread is made for it that tells of its jobs itself.
    pub fn is_made(&self) -> bool {
        matches!(self, TaskBody::Synthetic(_) | TaskBody::Phases(_))
    }

    /// [`leaves`] of its steps; none where it has no steps.
    pub fn leaves(&self) -> Vec<&Phase> {
        match self {
            TaskBody::Phases(phases) => leaves(phases),
            _ => Vec::new(),
        }
    }
}

/// What a job takes that waits for others: how often these come is not looked into.
const OTHERS: Nanos = Nanos::MILLISECOND;

/// How long steps take on average where nobody else runs and what is waited for is there: by work and sleep, and by timers.
fn usual(phases: &[Phase]) -> (Nanos, Nanos) {
    let of = |phase: &Phase| match phase {
        Phase::Run(work) => (Nanos::from_f64_rounded(work.mean_ns()), Nanos::ZERO),
        Phase::Busy(length) | Phase::Sleep(length) => (*length, Nanos::ZERO),
        Phase::Fill(fill) => (fill.takes.unwrap_or(Nanos::ZERO), Nanos::ZERO),
        Phase::Timer(timer) => (Nanos::ZERO, timer.period),
        Phase::Loop { times, phases } => {
            let times = times.and_then(|times| i64::try_from(times).ok()).unwrap_or(i64::MAX);
            let (own, timers) = usual(phases);
            let all = |each: Nanos| Nanos::new(each.get().saturating_mul(times));
            (all(own), all(timers))
        }
        _ => (Nanos::ZERO, Nanos::ZERO),
    };
    phases.iter().map(of).fold((Nanos::ZERO, Nanos::ZERO), |(own, timers), (more, period)| {
        (own.saturating_add(more), timers.saturating_add(period))
    })
}

impl Task {
    /// How long a job takes at least on average, as far as room for it goes; a program's or what is read from a file is not known, which is no time.
    pub fn usual_pass(&self) -> Nanos {
        match &self.body {
            TaskBody::Phases(phases) => {
                let (own, timers) = usual(phases);
                let waits =
                    |phase: &Phase| matches!(phase, Phase::Wait(_) | Phase::Await { .. } | Phase::Barrier(_));
                let others = if leaves(phases).into_iter().any(waits) { OTHERS } else { Nanos::ZERO };
                own.max(timers).max(others)
            }
            TaskBody::Synthetic(Work::Drawn(work)) => Nanos::from_f64_rounded(work.mean_ns()),
            _ => Nanos::ZERO,
        }
    }

    /// How its threads are scheduled: at first, then what each step makes of it, in the order of the file.
    pub fn schedules(&self) -> impl Iterator<Item = Schedule> {
        let own = Schedule { policy: self.policy, reservation: self.reservation };
        let later = self.body.leaves().into_iter().filter_map(|phase| match phase {
            Phase::Become(schedule) => Some(*schedule),
            _ => None,
        });
        std::iter::once(own).chain(later)
    }

    /// Whether its threads change their CPUs, and whether how they are scheduled.
    pub fn changes(&self) -> (bool, bool) {
        let leaves = self.body.leaves();
        let any = |is: fn(&Phase) -> bool| leaves.iter().any(|phase| is(phase));
        let becomes = |phase: &Phase| matches!(phase, Phase::Become(_));
        (any(|phase| matches!(phase, Phase::Cpus(_))), any(becomes))
    }

    /// The groups that its steps bring it into, in the order of the file; `None`: that of the run.
    pub fn later_groups(&self) -> Vec<Option<&str>> {
        self.body.leaves().into_iter().filter_map(Phase::later_group).collect()
    }

    /// Whether one of its steps says within which limits its utilisation is taken.
    pub fn clamps_later(&self) -> bool {
        self.body.leaves().iter().any(|phase| matches!(phase, Phase::Clamp(_)))
    }

    /// Whether it or one of its steps does.
    pub fn is_clamped(&self) -> bool {
        self.util.is_given() || self.clamps_later()
    }

    /// Whether its CPUs and those of its steps are among those of the run, `cpus`, and some of them its group's, and whether it may become what its
    /// steps say on a machine with `all`.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check_cpus(&self, cpus: &CpuSet, group: Option<CpuSet>, all: &CpuSet) -> Result<(), String> {
        let leaves = self.body.leaves();
        let later = leaves.iter().filter_map(|phase| match phase {
            Phase::Cpus(cpus) => *cpus,
            _ => None,
        });
        let none_of_group = |own: &CpuSet| group.filter(|group| own.intersection(group).is_empty());
        let mut all_own = self.cpus.into_iter().chain(later);
        if let Some((own, group)) = all_own.clone().find_map(|own| Some((own, none_of_group(&own)?))) {
            return Err(format!(
                "it is given the CPUs {own}, and its group has {group}; correct `cpus` of one of them"
            ));
        }
        if let Some(own) = all_own.find(|own| !own.is_subset(cpus)) {
            return Err(format!("its CPUs {own} are not all among those of the run, {cpus}; correct `cpus`"));
        }
        if group.unwrap_or(*cpus).intersection(cpus) == *all {
            return Ok(());
        }
        if self.schedules().skip(1).any(|of| of.is_deadline()) {
            return Err(
                "it becomes SCHED_DEADLINE, which the kernel refuses to threads that may not use all CPUs; run it on all of them"
                    .to_owned(),
            );
        }
        if self.changes().0 && self.schedules().any(|of| of.is_deadline()) {
            return Err(
                "its steps give it CPUs, and the kernel takes none from a thread that is SCHED_DEADLINE; run it on all of them, or leave \
                 `cpus` out of its steps"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The first phase in which its jobs may stand still: a sleep, a timer, a lock, an event, a condition or a barrier, in words.
    pub fn waits_inside(&self) -> Option<String> {
        self.body.leaves().into_iter().find_map(Phase::stands_still)
    }
}

impl Workload {
    /// The first lock with inheritance that a task takes.
    pub fn lending_lock_of<'t>(&self, task: &'t Task) -> Option<&'t str> {
        self.lending_locks_of(task).first().copied()
    }

    /// The locks with inheritance that a task takes, in its order.
    pub fn lending_locks_of<'t>(&self, task: &'t Task) -> Vec<&'t str> {
        let lends = |name: &String| {
            self.resources.iter().any(|r| r.name == *name && r.protocol == LockProtocol::Inherit)
        };
        let lock = |phase: &'t Phase| match phase {
            Phase::Lock(name) if lends(name) => Some(name.as_str()),
            _ => None,
        };
        task.body.leaves().into_iter().filter_map(lock).collect()
    }

    /// How often an event is raised when a run begins.
    pub fn raised_at_begin(&self, event: &str) -> u32 {
        self.events.iter().find(|raised| raised.name == event).map_or(0, |raised| raised.times)
    }

    /// How many have to come to a barrier in a run on this number of CPUs: each place that names it, once for each instance.
    pub fn parties(&self, barrier: &str, cpus: u32) -> usize {
        let names = |phase: &&Phase| matches!(phase, Phase::Barrier(name) if name == barrier);
        let of = |task: &Task| {
            task.body.leaves().into_iter().filter(names).count() * task.instances.on(cpus) as usize
        };
        self.tasks.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_that_names_a_barrier_is_a_party_for_each_instance() {
        let barrier = || Phase::Barrier("b".to_owned());
        let mut task = Task::periodic("t", Nanos::SECOND, TimeDistribution::Constant(Nanos::SECOND));
        task.instances = super::super::Instances::Count(3);
        let inside = Phase::Loop { times: Some(9), phases: vec![barrier(), Phase::Yield] };
        task.body = TaskBody::Phases(vec![barrier(), inside]);
        let workload = Workload { tasks: vec![task], ..Workload::default() };
        assert_eq!((workload.parties("b", 2), workload.parties("c", 2)), (6, 0));
        assert_eq!(workload.tasks[0].waits_inside().as_deref(), Some("barrier `b`"));
    }

    /// With an affinity and a cpuset that share no CPU the kernel refuses the thread (EINVAL).
    #[test]
    fn a_task_has_cpus_of_its_group() {
        let cpus = |text: &str| text.parse::<CpuSet>().unwrap();
        let mut task = Task::periodic("t", Nanos::SECOND, TimeDistribution::Constant(Nanos::SECOND));
        let check = |task: &Task, group| task.check_cpus(&cpus("0-3"), Some(cpus(group)), &cpus("0-3"));
        assert_eq!(check(&task, "1"), Ok(()));
        task.cpus = Some(cpus("0-1"));
        assert_eq!(check(&task, "1-2"), Ok(()));
        assert!(check(&task, "2-3").unwrap_err().contains("given the CPUs 0-1, and its group has 2-3"));
        task.body = TaskBody::Phases(vec![Phase::Cpus(Some(cpus("3")))]);
        assert!(check(&task, "1-2").unwrap_err().contains("given the CPUs 3, and its group has 1-2"));
    }

    #[test]
    fn a_pass_takes_its_work_and_sleep_or_its_timers() {
        let ms = Nanos::from_millis;
        let timer = |period| {
            Phase::Timer(Timer { name: "t".to_owned(), period: ms(period), absolute: false, shared: false })
        };
        let run = |work| Phase::Run(TimeDistribution::Constant(ms(work)));
        let mut task = Task::periodic("t", Nanos::SECOND, TimeDistribution::Constant(ms(3)));
        assert_eq!(task.usual_pass(), ms(3));
        for (phases, expected) in [
            (vec![run(2), Phase::Sleep(ms(5)), Phase::Busy(ms(1))], ms(8)),
            (vec![Phase::Loop { times: Some(3), phases: vec![run(2), timer(5)] }], ms(15)),
            (vec![Phase::Loop { times: None, phases: vec![run(2)] }], Nanos::MAX),
        ] {
            task.body = TaskBody::Phases(phases);
            assert_eq!(task.usual_pass(), expected);
        }
    }

    fn deadline(policy: PolicySpec) -> Schedule {
        let reservation = Some(Reservation::implicit(Nanos::MILLISECOND, Nanos::SECOND));
        Schedule { policy, reservation }
    }

    #[test]
    fn a_reservation_of_a_step_reserves() {
        let mut task = Task::periodic("t", Nanos::SECOND, TimeDistribution::Constant(Nanos::MILLISECOND));
        let of = |task: &Task| {
            let workload = Workload { tasks: vec![task.clone()], ..Workload::default() };
            (workload.is_reserved(), workload.holds_bandwidth("t"))
        };
        assert_eq!(of(&task), (false, false));
        let inside = |schedule| {
            TaskBody::Phases(vec![Phase::Loop { times: Some(2), phases: vec![Phase::Become(schedule)] }])
        };
        task.body = inside(deadline(PolicySpec::Deadline));
        assert_eq!(of(&task), (true, true));
        task.body = inside(Schedule { policy: PolicySpec::Fifo { priority: 1 }, reservation: None });
        assert_eq!(of(&task), (false, true));
    }

    /// The kernel takes no CPUs from a thread under SCHED_DEADLINE, and gives that to none which may not use all CPUs.
    #[test]
    fn reservations_beside_steps_with_cpus_need_all_cpus() {
        let cpus = |text: &str| text.parse::<CpuSet>().unwrap();
        let of = |own: Schedule, phases: Vec<Phase>| {
            let mut task = Task::periodic("t", Nanos::SECOND, TimeDistribution::Constant(Nanos::SECOND));
            (task.policy, task.reservation, task.body) =
                (own.policy, own.reservation, TaskBody::Phases(phases));
            task
        };
        let fair = Schedule { policy: PolicySpec::default(), reservation: None };
        let reserved = deadline(PolicySpec::default());
        let becomes = || vec![Phase::Become(deadline(PolicySpec::Deadline))];
        for (task, says) in [
            (of(fair, vec![Phase::Cpus(None)]), None),
            (of(reserved, vec![Phase::Cpus(None)]), Some("its steps give it CPUs")),
            (of(reserved, Vec::new()), None),
            (of(fair, becomes()), Some("it becomes SCHED_DEADLINE")),
        ] {
            let on = |part: &str| task.check_cpus(&cpus(part), None, &cpus("0-3"));
            assert_eq!(on("0-3"), Ok(()));
            let refused = on("0-1").err();
            assert_eq!(refused.is_some(), says.is_some(), "{refused:?}");
            assert!(refused.unwrap_or_default().contains(says.unwrap_or_default()));
        }
    }
}
