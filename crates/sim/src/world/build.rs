//! From a workload to a machine with threads; what cannot be simulated is refused in words.

mod changes;
pub(super) mod disks;
mod groups;
mod lends;
pub(super) mod messages;
pub(super) mod servers;
mod streams;
mod units;

use std::collections::BTreeMap;

use surety_block::IoGroup;
use surety_model::activation::{draw_key, first_tick};
use surety_model::distribution::TimeDistribution;
use surety_model::first_cpus::FirstCpus;
use surety_model::places::{FilePlace, FilePlaces};
use surety_model::platform::{Platform, TimerRules};
use surety_model::reservation::Reservation;
use surety_model::workload::{
    ActivityKind, Course, Fill, Instances, Irq, LOAD_KINDS, Load, LoadRow, LockProtocol, Phase as TaskPhase,
    Task, TaskBody, Timer, Together, Treatment, Work, Workload, leaves,
};
use surety_model::world::{RunOptions, WorldError, refused_kinds, refused_loads};
use surety_units::{CpuId, CpuSet, Nanos};

use super::chains::Chains;
use super::interrupts;
use super::jobs::{Jobs, Phase, RunPlace, Thread};
use super::{NAME, SimWorld, refuse};
use crate::cpu::at_disk::AtDisk;
use crate::cpu::hardware::{GroupSpec, Scheduling, ThreadId};
use crate::cpu::machine::{Machine, MachineSpec, ThreadSpec};
use crate::cpu::policies;
use crate::cpu::policy::Scheduler;
use crate::disk::Woken;

/// A thread of a run with what it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) thread: ThreadId,
    pub(super) activity: Activity,
    pub(super) scheduling: Scheduling,
    pub(super) allowed: Option<CpuSet>,
}

/// Whose thread: the place of a task, an interrupt source or a load in the workload. Interrupt sources and devices of
/// the machine have the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Task(usize),
    Irq(usize),
    Stream(usize),
    Startup(usize),
    /// Begins start-ups; no activity of the workload's.
    Starter,
    /// Fetches for a stream.
    Fetcher(usize),
    Load(usize),
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// The place of its group.
    pub(super) group: Option<usize>,
    /// The CPUs it may use; `None`: all.
    pub(super) allowed: Option<CpuSet>,
    /// The CPU on which it sleeps until it starts; `None`: it is made then.
    pub(super) slept_on: Option<CpuId>,
}

/// A machine ready to run a workload.
pub(super) struct Stage {
    pub(super) machine: Machine<Jobs>,
    pub(super) schedulers: Vec<Scheduler>,
    pub(super) members: Vec<Member>,
    /// The machine's device of each disk, and the event of each process.
    pub(super) interrupts: Vec<usize>,
    pub(super) signals: Vec<usize>,
    pub(super) woken: Vec<Woken>,
    /// Whether events are wanted, and what disks did that is still to be told.
    pub(super) traces: bool,
    pub(super) told: Vec<AtDisk>,
    /// What each disk is, for whoever reads the numbers.
    pub(super) disks: Vec<(String, String)>,
}

impl Stage {
    /// With nobody on it yet.
    fn new(machine: Machine<Jobs>, schedulers: Vec<Scheduler>, events: bool) -> Stage {
        Stage {
            machine,
            schedulers,
            members: Vec::new(),
            interrupts: Vec::new(),
            signals: Vec::new(),
            woken: Vec::new(),
            traces: events,
            told: Vec::new(),
            disks: Vec::new(),
        }
    }
}

/// The threads of a workload on a machine with these CPUs.
pub(super) fn stage(
    world: &SimWorld,
    workload: &Workload,
    options: &RunOptions,
    cpus: &CpuSet,
    events: bool,
) -> Result<Stage, WorldError> {
    objections(workload, &world.platform).into_iter().next().map_or(Ok(()), Err)?;
    let groups::Groups { specs: groups, io: io_groups, cpus: group_cpus, places } =
        groups::groups(workload, cpus)?;
    // All of the machine is simulated, so that servers, reclaiming and migration are the machine's own; threads without a
    // reservation stay on the CPUs of the run, as on the host.
    let ids: Vec<CpuId> = CpuSet::first(world.platform.cpus).iter().collect();
    let (mut machine, schedulers) = machine(world, workload, &ids, groups, (options.seed, events))?;
    machine.set_home(cpus.lowest().map_or(0, CpuId::index));
    let mut builder = Builder {
        stage: Stage::new(machine, schedulers, events),
        places,
        io_groups,
        group_cpus,
        group: None,
        locks: BTreeMap::new(),
        signals: BTreeMap::new(),
        conditions: BTreeMap::new(),
        barriers: BTreeMap::new(),
        timers: BTreeMap::new(),
        seed: options.seed,
        observe: options.warm_up,
        end: options.warm_up + options.duration,
        hz: u32::try_from(Nanos::SECOND.get() / world.platform.tick.get().max(1)).unwrap_or(u32::MAX),
        cpus: *cpus,
        first_cpus: FirstCpus::of(workload, cpus),
        together: Together::of(workload, cpus.len() as u32),
        opening: None,
        ids,
        platform: world.platform.clone(),
        files: FilePlaces::of(&world.platform.files, workload),
        disks: disks::Places::new(),
        stations: streams::Stations::new(),
    };
    builder.chains(workload);
    for (index, task) in workload.tasks.iter().enumerate() {
        builder.task(workload, index, task)?;
    }
    for (index, irq) in workload.irqs.iter().enumerate() {
        builder.irq(index, irq)?;
    }
    builder.disks(workload, options)?;
    // Files lie on a disk in the order in which the host world makes them.
    builder.startups(workload, options)?;
    for (index, stream) in workload.streams.iter().enumerate() {
        builder.stream((index, stream), &workload.disks)?;
    }
    for (index, load) in workload.loads.iter().enumerate() {
        builder.load(index, load)?;
    }
    admit(world, workload, &builder.stage, builder.ids.len())?;
    Ok(builder.stage)
}

/// A machine without threads, and its schedulers.
fn machine(
    world: &SimWorld,
    workload: &Workload,
    ids: &[CpuId],
    groups: Vec<GroupSpec>,
    (seed, events): (u64, bool),
) -> Result<(Machine<Jobs>, Vec<Scheduler>), WorldError> {
    let policies =
        workload.tasks.iter().map(|task| task.policy).chain(workload.loads.iter().map(|load| load.policy));
    let schedulers = policies::for_policies(&world.platform.schedulers, policies)?;
    let says_slack = workload.tasks.iter().any(|task| task.timer_slack.is_some());
    let timers = world.platform.timers.or_else(|| says_slack.then(TimerRules::default));
    let spec = MachineSpec {
        platform: Platform { timers, ..world.platform.clone() },
        schedulers: schedulers.clone(),
        tick_phases: vec![first_tick(&world.platform, seed); ids.len()],
        cpus: ids.to_vec(),
        groups,
        seed,
        events,
    };
    Ok((Machine::new(spec, Jobs::default()), schedulers))
}

/// What of a workload is not simulated, on this machine or on any.
pub(super) fn objections(workload: &Workload, platform: &Platform) -> Vec<WorldError> {
    let mut found = refused_kinds(NAME, workload, |row| row.simulator);
    let say = |row: &LoadRow, why: &str| {
        let is_simulated = |row: &&LoadRow| !matches!(row.simulator, Treatment::Refused { .. });
        let simulated = LOAD_KINDS.iter().filter(is_simulated).map(|row| format!("`{}`", row.word));
        let simulated = simulated.collect::<Vec<_>>().join(" and ");
        format!("only {simulated} are simulated, not `{}`; {why}", row.word)
    };
    found.extend(refused_loads(NAME, workload, |row| row.simulator, say));
    found.extend(streams::objections(workload));
    found.extend(messages::objections(workload));
    found.extend(disks::objections(workload));
    found.extend(topology_objection(platform));
    found.extend(servers_objection(platform));
    found.extend(workload.latency_nice().filter(|_| platform.fair_version().is_none()).map(|object| {
        let why = format!(
            "`{}` has no latency nice; leave it out, or name another fair class in `class-order`",
            platform.fair_scheduler().word
        );
        WorldError::Unsupported { world: NAME.to_owned(), object, why }
    }));
    found.extend(groups_objection(workload, platform));
    let lacking = workload.lacking_on(platform).into_iter();
    found.extend(lacking.map(|(object, why)| WorldError::Unsupported {
        world: NAME.to_owned(),
        object,
        why,
    }));
    found
}

/// Steps between control groups where no fair class of a kernel is, as on MuQSS, which shares among threads whatever their groups: to queue a thread again would cost
/// it its place.
fn groups_objection(workload: &Workload, platform: &Platform) -> Option<WorldError> {
    if platform.fair_version().is_some() {
        return None;
    }
    let task = workload.tasks.iter().find(|task| !task.later_groups().is_empty())?;
    let why = format!(
        "`{}` shares CPUs among threads, whatever their groups; leave `group` out of its steps, or name another fair class in \
         `class-order`",
        platform.fair_scheduler().word
    );
    Some(WorldError::Unsupported { world: NAME.to_owned(), object: ActivityKind::Task.path(&task.name), why })
}

/// Why the fair servers of a machine cannot be simulated.
fn servers_objection(platform: &Platform) -> Option<WorldError> {
    let is_off = |place: &usize| platform.fair_server.is_some() && platform.fair_server_at(*place).is_none();
    let place = (0..platform.cpus as usize).find(is_off)?;
    let why = format!(
        "the fair server of CPU {place} is off and others are not, which is not simulated; say `--platform fair-server=50ms/1s` or \
         `fair-server=off` for all, or set the machine's alike"
    );
    Some(WorldError::Unsupported { world: NAME.to_owned(), object: "platform.fair_servers".to_owned(), why })
}

/// Why the CPUs of a machine cannot be simulated as they share things.
fn topology_objection(platform: &Platform) -> Option<WorldError> {
    platform.topology?;
    let is_unheeded = platform.fair_version().is_none();
    let unheeded = is_unheeded.then(|| {
        "MuQSS is simulated on CPUs that share all they have: leave `smt`, `llc` and `nodes` out, or name another fair class in \
         `class-order`"
            .to_owned()
    });
    let why = platform.topology_objection().or(unheeded)?;
    Some(WorldError::Unsupported { world: NAME.to_owned(), object: "platform.topology".to_owned(), why })
}

pub(super) struct Builder<'a> {
    pub(super) stage: Stage,
    places: BTreeMap<&'a str, usize>,
    /// Its groups at disks, and the group by name of whom threads are made for.
    io_groups: Vec<IoGroup>,
    group_cpus: Vec<Option<CpuSet>>,
    group: Option<&'a str>,
    locks: BTreeMap<&'a str, usize>,
    signals: BTreeMap<&'a str, usize>,
    conditions: BTreeMap<&'a str, usize>,
    barriers: BTreeMap<&'a str, usize>,
    timers: BTreeMap<&'a str, usize>,
    pub(super) seed: u64,
    observe: Nanos,
    end: Nanos,
    /// Ticks per second.
    pub(super) hz: u32,
    /// The name of the machine.
    pub(super) platform: Platform,
    /// Where the files are that a kernel's file system was seen to place, those that are not made yet.
    files: Vec<FilePlace>,
    pub(super) cpus: CpuSet,
    first_cpus: FirstCpus,
    /// Who begins together, and the event that those wait for who are not the last of them.
    together: Together,
    opening: Option<usize>,
    pub(super) ids: Vec<CpuId>,
    pub(super) disks: disks::Places<'a>,
    pub(super) stations: streams::Stations,
}

impl<'a> Builder<'a> {
    /// The inboxes of tasks that chains pass, each with an event where another task wakes it.
    fn chains(&mut self, workload: &Workload) {
        let machine = &mut self.stage.machine;
        let chains = Chains::new(workload, self.seed, || machine.add_signal());
        machine.programs_mut().chains = chains;
    }

    fn task(&mut self, workload: &'a Workload, index: usize, task: &'a Task) -> Result<(), WorldError> {
        let object = format!("task.{}", task.name);
        let Some(scheduling) = Scheduling::of_task(task) else {
            let word = task.policy.word();
            let why = if task.policy.has_deadlines() {
                format!(
                    "policy `{word}` needs a deadline; give its jobs a period, or a promise about their response"
                )
            } else {
                format!("policy `{word}` needs a reservation; give it one or let `plan` find one")
            };
            return refuse(object, why);
        };
        if let Scheduling::Reserved(_, asked) = scheduling
            && asked != Reservation::implicit(asked.runtime, asked.period)
        {
            let why = "has the period for a deadline and nothing to add to a budget: leave out `deadline`, `reclaim` and `demote`";
            return refuse(object, format!("`{}` {why}", scheduling.word()));
        }
        if task.release.interval().is_some_and(|interval| !interval.is_positive()) {
            return refuse(object, "its period or gap is not above zero; give it one");
        }
        if task.reservation.is_some() {
            self.check_reservation(workload, task, &object)?;
        }
        let group = self.group(&object, task.group.as_deref())?;
        let confined = (task.reservation.is_none() && self.cpus.len() < self.ids.len()).then_some(self.cpus);
        let of_group = workload.cpus_of_group(task.group.as_deref());
        task.check_cpus(&self.cpus, of_group, &self.ids.iter().copied().collect())
            .and_then(|()| groups::may_change(&self.stage, task, group))
            .or_else(|why| refuse(object.clone(), why))?;
        for instance in 0..task.instances.on(self.cpus.len() as u32) {
            let phases = self.phases(workload, task, instance, &object)?;
            let seat = self.stage.machine.programs().chains.seat(index);
            let thread = Thread::of_task(task, instance, phases, self.seed, self.end).seated(seat);
            let meeting = self.together.meeting(task, instance);
            let opening = meeting.map(|meeting| (meeting, self.opening()));
            let thread = match opening {
                Some((meeting, event)) => thread.together(meeting.is_last().then_some(event)),
                None => thread,
            };
            let pinned = task.instances.pinned_to(instance, &self.cpus).map(CpuSet::single).or(task.cpus);
            let slept_on = self.first_cpus.of_task(index, instance).map(|turn| turn.cpu);
            let is_reserved = matches!(scheduling, Scheduling::Deadline(_));
            let allowed = self.member_within_group(&object, group, (pinned.or(confined), is_reserved))?;
            let place = Place { group, allowed, slept_on };
            let id = self.member(Activity::Task(index), &task.name, scheduling, place, thread);
            if let Some((_, event)) = opening.filter(|(meeting, _)| !meeting.is_last()) {
                self.stage.machine.begins_waiting(id, event);
            }
            if let Some(slack) = task.timer_slack {
                self.stage.machine.set_timer_slack(id, slack);
            }
            let meets = |phase: &TaskPhase| matches!(phase, TaskPhase::Await { .. } | TaskPhase::Barrier(_));
            if task.body.leaves().into_iter().any(meets) {
                let event = self.stage.machine.add_signal();
                self.stage.machine.programs_mut().meetings.may_wait(id, event);
            }
        }
        Ok(())
    }

    /// The event that those wait for who begin together.
    fn opening(&mut self) -> usize {
        let machine = &mut self.stage.machine;
        *self.opening.get_or_insert_with(|| machine.add_signal())
    }

    fn check_reservation(&self, workload: &Workload, task: &Task, object: &str) -> Result<(), WorldError> {
        let Some(Err(error)) = task.reservation.map(|r| task.policy.check_reservation(&r)) else {
            if matches!(task.instances, Instances::PerCpu(_)) {
                let why = "the kernel refuses a reservation to a thread pinned to one CPU; give a number of instances";
                return refuse(object.to_owned(), why);
            }
            return match lends::refused(workload, task, &self.platform) {
                Some(why) => refuse(object.to_owned(), why),
                None => Ok(()),
            };
        };
        refuse(object.to_owned(), format!("{error}; change its reservation"))
    }

    fn group(&self, object: &str, name: Option<&str>) -> Result<Option<usize>, WorldError> {
        match name {
            None => Ok(None),
            Some(name) => match self.places.get(name) {
                Some(place) => Ok(Some(*place)),
                None => refuse(
                    object.to_owned(),
                    format!("there is no group `{name}`; add [[group]] or correct it"),
                ),
            },
        }
    }

    fn phases(
        &mut self,
        workload: &'a Workload,
        task: &'a Task,
        instance: u32,
        object: &str,
    ) -> Result<(Vec<Phase>, Course), WorldError> {
        let key = draw_key(&task.name, instance);
        let phases = match &task.body {
            TaskBody::Synthetic(Work::Forever) => {
                return Ok((vec![Phase::Run(None, RunPlace::default())], Course::straight(1)));
            }
            TaskBody::Synthetic(Work::Drawn(work)) => {
                let run = Phase::Run(Some(work.clone()), RunPlace::of(&key, 0));
                return Ok((vec![run], Course::straight(1)));
            }
            TaskBody::Synthetic(Work::Trace(_)) => {
                let why = "its work is in a file this world does not read; fit a distribution from it first";
                return refuse(object.to_owned(), why);
            }
            TaskBody::Command(_) => {
                let why =
                    "a program cannot be simulated; fit a workload from a trace of it, or run on the host";
                return refuse(object.to_owned(), why);
            }
            TaskBody::Match(_) => {
                let why =
                    "there is no running thread to match; fit a workload from a trace, or run on the host";
                return refuse(object.to_owned(), why);
            }
            TaskBody::Phases(phases) => phases,
        };
        let mut runs = 0;
        let mut timers: Vec<&str> = Vec::new();
        let mut steps = Vec::new();
        for phase in leaves(phases) {
            steps.push(match phase {
                TaskPhase::Run(work) => {
                    runs += 1;
                    Phase::Run(Some(work.clone()), RunPlace::of(&key, runs - 1))
                }
                TaskPhase::Timer(Timer { name, period, absolute, shared: true }) => {
                    Phase::SharedTimer { timer: self.timer(name), period: *period, absolute: *absolute }
                }
                TaskPhase::Fill(fill) => filling(fill, object)?,
                TaskPhase::Cpus(cpus) => Phase::Confine(self.confinement(task, *cpus)),
                TaskPhase::Become(schedule) => {
                    Phase::Become(self.schedule(workload, (task, object), *schedule)?)
                }
                TaskPhase::Clamp(_) => Phase::Clamp,
                TaskPhase::Group(group) => Phase::Regroup(self.group(object, group.as_deref())?),
                TaskPhase::Timer(timer) => {
                    let place = timers.iter().position(|name| *name == timer.name).unwrap_or_else(|| {
                        timers.push(&timer.name);
                        timers.len() - 1
                    });
                    Phase::Timer { timer: place, period: timer.period, absolute: timer.absolute }
                }
                other => self.step(workload, other),
            });
        }
        Ok((steps, Course::of(phases)))
    }

    /// A step of one of the other kinds.
    fn step(&mut self, workload: &'a Workload, phase: &'a TaskPhase) -> Phase {
        match phase {
            TaskPhase::Busy(length) => Phase::Busy(*length),
            TaskPhase::Sleep(length) => Phase::Sleep(*length),
            TaskPhase::Lock(name) => Phase::Lock(self.lock(workload, name)),
            TaskPhase::Unlock(name) => Phase::Unlock(self.lock(workload, name)),
            TaskPhase::Wait(name) => Phase::Wait(self.signal(workload, name)),
            TaskPhase::Signal(name) => Phase::Signal(self.signal(workload, name)),
            TaskPhase::Await { condition, lock } => {
                Phase::Await { condition: self.condition(condition), lock: self.lock(workload, lock) }
            }
            TaskPhase::Notify(name) => Phase::Notify(self.condition(name)),
            TaskPhase::NotifyAll(name) => Phase::NotifyAll(self.condition(name)),
            TaskPhase::Barrier(name) => Phase::Barrier(self.barrier(workload, name)),
            TaskPhase::Yield => Phase::Yield,
            TaskPhase::Run(_)
            | TaskPhase::Fill(_)
            | TaskPhase::Timer(_)
            | TaskPhase::Cpus(_)
            | TaskPhase::Become(_)
            | TaskPhase::Clamp(_)
            | TaskPhase::Group(_)
            | TaskPhase::Loop { .. } => {
                unreachable!("told apart by the caller")
            }
        }
    }

    fn condition(&mut self, name: &'a str) -> usize {
        let meetings = &mut self.stage.machine.programs_mut().meetings;
        *self.conditions.entry(name).or_insert_with(|| meetings.add(0))
    }

    fn barrier(&mut self, workload: &Workload, name: &'a str) -> usize {
        let parties = workload.parties(name, self.cpus.len() as u32);
        let meetings = &mut self.stage.machine.programs_mut().meetings;
        *self.barriers.entry(name).or_insert_with(|| meetings.add(parties))
    }

    fn lock(&mut self, workload: &Workload, name: &'a str) -> usize {
        let machine = &mut self.stage.machine;
        *self.locks.entry(name).or_insert_with(|| {
            let resource = workload.resources.iter().find(|r| r.name == name);
            machine.add_lock(resource.is_some_and(|r| r.protocol == LockProtocol::Inherit))
        })
    }

    fn signal(&mut self, workload: &Workload, name: &'a str) -> usize {
        let machine = &mut self.stage.machine;
        let raised = || machine.add_raised_signal(workload.raised_at_begin(name));
        *self.signals.entry(name).or_insert_with(raised)
    }

    fn irq(&mut self, index: usize, irq: &'a Irq) -> Result<(), WorldError> {
        // Interrupts go to the CPUs of the run in turn, and the kernel keeps their threads there; a thread with a
        // reservation may run anywhere.
        let turn = index % self.cpus.len().max(1);
        let cpu = self.cpus.iter().nth(turn).expect("a run has a CPU");
        let spec = interrupts::device(irq, index, cpu, self.seed)?;
        let name = interrupts::thread_name(&spec);
        let device = self.stage.machine.add_device(spec);
        let unreserved = Scheduling::Policy(interrupts::POLICY);
        let scheduling = irq.reservation.map_or(unreserved, Scheduling::Deadline);
        let allowed = irq.reservation.is_none().then(|| CpuSet::single(cpu));
        let place = Place { allowed, ..Place::default() };
        self.member(Activity::Irq(index), &name, scheduling, place, Thread::of_device(device));
        Ok(())
    }

    fn load(&mut self, index: usize, load: &'a Load) -> Result<(), WorldError> {
        let object = format!("load.{}", load.name);
        let Some(scheduling) = Scheduling::of(load.policy, None) else {
            let word = load.policy.word();
            let why = format!("a load takes no {word} policy; make it a task with a reservation");
            return refuse(object, why);
        };
        let group = self.group(&object, load.group.as_deref())?;
        self.group = load.group.as_deref();
        let confined = (self.cpus.len() < self.ids.len()).then_some(self.cpus);
        for instance in 0..load.count.on(self.cpus.len() as u32) {
            if disks::is_on_disk(load.kind) {
                self.mover(index, instance, load, scheduling, self.observe)?;
                continue;
            }
            let pinned = load.count.pinned_to(instance, &self.cpus).map(CpuSet::single);
            let slept_on = self.first_cpus.of_load(index, instance).map(|turn| turn.cpu);
            let allowed = self.member_within_group(&object, group, (pinned.or(confined), false))?;
            let place = Place { group, allowed, slept_on };
            if messages::talks(load.kind) {
                self.talkers(index, load, (scheduling, place));
                continue;
            }
            self.member(Activity::Load(index), &load.name, scheduling, place, Thread::hog());
        }
        Ok(())
    }

    pub(super) fn member(
        &mut self,
        activity: Activity,
        name: &str,
        scheduling: Scheduling,
        place: Place,
        thread: Thread,
    ) -> ThreadId {
        let Place { group, allowed, slept_on } = place;
        // CPU numbers are places: every CPU from 0 on is simulated.
        let slept_on = slept_on.map(CpuId::index);
        let spec = ThreadSpec { name: name.to_owned(), scheduling, group, allowed, slept_on };
        let id = self.stage.machine.spawn(&spec, thread.first_release());
        self.stage.machine.programs_mut().threads.push(thread);
        self.stage.members.push(Member { thread: id, activity, scheduling, allowed });
        id
    }
}

/// The kernel's admission: all bandwidth reserved, the fair servers' included where they are charged, fits under the cap on every
/// CPU (`__dl_overflow` in `kernel/sched/deadline.c`).
/// One that changes its reservation counts with the largest. Where `sched_rt_runtime_us` is -1 nothing is counted.
fn admit(world: &SimWorld, workload: &Workload, stage: &Stage, cpus: usize) -> Result<(), WorldError> {
    groups::inside_one_cpu(workload, stage, cpus)?;
    let reservations = || {
        stage.members.iter().filter_map(|member| match (member.scheduling, member.activity) {
            (_, Activity::Task(task)) => {
                let task = &workload.tasks[task];
                Some((changes::largest(task)?, ActivityKind::Task, &task.name))
            }
            (Scheduling::Deadline(reservation), Activity::Irq(irq)) => {
                Some((reservation, ActivityKind::Irq, &workload.irqs[irq].name))
            }
            _ => None,
        })
    };
    let Some(cap) = world.platform.admitted_per_cpu().map(|cap| cap * cpus as u64) else { return Ok(()) };
    let servers = world.platform.booked_for_servers();
    let mut booked = servers;
    let groups = workload
        .groups
        .iter()
        .filter_map(|group| Some((group.reservation?, format!("group.{}", group.name))));
    let groups = groups.map(|(reservation, path)| (reservation.bandwidth().to_kernel() * cpus as u64, path));
    let threads = reservations()
        .map(|(reservation, kind, name)| (reservation.bandwidth().to_kernel(), kind.path(name)));
    for (bandwidth, path) in groups.chain(threads) {
        booked += bandwidth;
        if booked > cap {
            let percent = |bandwidth: u64| bandwidth as f64 / (1u64 << 20) as f64 * 100.0;
            let servers = if servers > 0 {
                let whose = world.platform.servers_in_words();
                format!(", the {whose}' {:.1} % included,", percent(servers))
            } else {
                String::new()
            };
            let why = format!(
                "with it {:.1} % of a CPU are reserved{servers} and the kernel admits {:.1} % on {cpus} CPUs; reserve less",
                percent(booked),
                percent(cap),
            );
            return refuse(path, why);
        }
    }
    Ok(())
}

/// A step that writes bytes: work of the time that it was seen to take.
fn filling(fill: &Fill, object: &str) -> Result<Phase, WorldError> {
    let Some(takes) = fill.takes else {
        let (word, bytes) = (fill.word(), fill.bytes.to_exact_string());
        let why = format!(
            "nothing says how long its step `{word} = {bytes}` takes; add `takes`, which `surety workload convert` measures of memory and of \
             devices such as /dev/null"
        );
        return refuse(object.to_owned(), why);
    };
    Ok(Phase::Run(Some(TimeDistribution::Constant(takes)), RunPlace::default()))
}
