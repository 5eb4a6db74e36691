//! [`Participants`]: who takes part in a run: every thread and program of a workload, made ready, given its policy and
//! affinity, with what the kernel says about it afterwards.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use surety_enforce::{
    ControlGroups, Enforcer, Owner, Wanted, attr_of_policy, attr_of_reservation, describe, enforce_all,
};
use surety_kernel::command::{ChildSetup, Spawned, spawn};
use surety_kernel::tracefs::Marker;
use surety_kernel::{Kernel, SchedAttr, clock, partition};
use surety_model::first_cpus::{FirstCpus, Turn};
use surety_model::plan::Homes;
use surety_model::workload::{
    Irq, Load, PolicySpec, Program, STREAM_PRIORITY, Task, TaskBody, ThreadMatch, Workload,
};
use surety_model::world::WorldError;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::groups;
use crate::interrupts::{self, Devices, Sent};
use crate::loads::{Ground, LoadRun, LoadWorker, driver_of};
use crate::programs::{self, LiveThread, Programs, Reserved};
use crate::returned::{Activity, MemberResult, Returned};
use crate::rights::rights_of;
use crate::scratch::{command_of, not_started};
use crate::shared::SharedObjects;
use crate::spans::Speaker;
use crate::streams::{self, Stations, StreamRun};
use crate::tasks::{TaskBodySpec, TaskRun};
use crate::threads::{SLACK, spawn_thread, spawn_with_slack};
use crate::window::{Gate, Window};

mod in_force;

/// How often threads that wait are had to look, a millisecond apart, so that they are on their CPUs.
const ROUSED: u32 = 3;

/// Somebody who takes part.
pub(crate) struct Member {
    /// Index into the workload's tasks or loads.
    pub activity: Activity,
    /// The thread.
    pub tid: Tid,
    /// What runs there.
    pub body: Body,
    /// What it was asked to have.
    wanted: SchedAttr,
    /// The CPUs it was asked to stay on.
    affinity: CpuSet,
}

impl Member {
    /// What it is to get before the run begins.
    fn wanted(&self) -> Wanted {
        // The thread of a device is the kernel's: written down, though it goes with the device.
        let is_ours = !matches!(self.body, Body::Found | Body::Process | Body::Handler);
        let is_default = self.wanted == attr_of_policy(PolicySpec::default());
        // What was running before keeps its place unless a reservation needs all of the root domain.
        let moves = match self.body {
            Body::Found => self.wanted.policy.is_deadline(),
            Body::Process => false,
            _ => true,
        };
        let keeps = is_default && matches!(self.body, Body::Found | Body::Process | Body::Program(..));
        Wanted {
            tid: self.tid,
            owner: if is_ours { Owner::Ours } else { Owner::Others },
            affinity: moves.then_some(self.affinity),
            attr: (!keeps).then_some(self.wanted),
        }
    }
}

/// What runs in a member.
pub(crate) enum Body {
    /// A thread of ours with jobs.
    Synthetic(JoinHandle<TaskRun>),
    /// A thread of ours that disturbs.
    Worker(JoinHandle<LoadRun>),
    /// A thread of ours that reads or writes at a rate.
    Stream(JoinHandle<StreamRun>),
    /// A program we started, with what it wrote to standard error.
    Program(Box<Spawned>, File),
    /// A thread that was running before, or one of a program.
    Found,
    /// A process that was running before, with all its threads.
    Process,
    /// A thread of the kernel's that serves a device made for the run.
    Handler,
    /// A thread of ours that sends to that device.
    Sender(JoinHandle<Sent>),
}

/// The calling thread kept to some CPUs until this is dropped, for the threads it makes meanwhile.
struct Confined<'k> {
    kernel: &'k dyn Kernel,
    before: Option<CpuSet>,
}

impl<'k> Confined<'k> {
    /// Where it cannot be done, threads begin anywhere, and the record says what they got.
    fn to(kernel: &'k dyn Kernel, cpus: CpuSet) -> Confined<'k> {
        let before = kernel.affinity(Tid(0)).ok();
        let is_confined = kernel.set_affinity(Tid(0), &cpus).is_ok();
        Confined { kernel, before: before.filter(|_| is_confined) }
    }
}

impl Drop for Confined<'_> {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = self.kernel.set_affinity(Tid(0), before);
        }
    }
}

/// Everybody, ready at the gate.
pub(crate) struct Participants {
    /// In the order of the workload.
    pub members: Vec<Member>,
}

/// What the participants are made from.
pub(crate) struct Stage<'a> {
    pub kernel: &'a dyn Kernel,
    pub workload: &'a Workload,
    /// What work is drawn from.
    pub seed: u64,
    /// The CPUs of the run, and on which of them its threads sleep until time 0.
    pub cpus: CpuSet,
    pub first_cpus: FirstCpus,
    /// Every CPU of the root domain: what a deadline thread may use.
    pub all_cpus: CpuSet,
    /// Root domains of their own for reserved threads, by their activity; `all_cpus` for others.
    pub homes: &'a Homes,
    /// Where threads wait.
    pub gate: Arc<Gate>,
    /// What tasks share.
    pub shared: Arc<SharedObjects>,
    /// Where markers go.
    pub marker: Option<Marker>,
    /// What programs and all they start carry, so that a later start finds what a killed run left.
    pub mark: Option<String>,
    /// Where programs run that had to be prepared.
    pub scratch: Option<&'a Path>,
    /// What loads stand on.
    pub ground: Ground<'a>,
    /// What interrupts.
    pub devices: &'a Devices,
    /// Those of the workload, where anybody is in one.
    pub groups: Option<&'a ControlGroups<'a>>,
    /// Where those are who keep devices busy; `None`: among the others.
    pub outside: Option<CpuId>,
    /// Whether each CPU is a root domain of its own: handlers on the first of the run, tasks on the last.
    pub partitioned: bool,
}

impl Stage<'_> {
    /// Makes everybody and gives each its policy; nobody runs yet, but programs that were asked for do.
    ///
    /// When one cannot be made, those already made are sent home.
    pub fn assemble(&self, enforcer: &mut Enforcer<'_>) -> Result<Participants, WorldError> {
        let mut participants = Participants { members: Vec::new() };
        let made = self.make_all(&mut participants).and_then(|()| self.enforce_all(&participants, enforcer));
        match made {
            Ok(()) => Ok(participants),
            Err(error) => {
                participants.send_home(&self.gate, &self.shared);
                Err(error)
            }
        }
    }

    fn make_all(&self, participants: &mut Participants) -> Result<(), WorldError> {
        for (index, load) in self.workload.loads.iter().enumerate() {
            self.make_load(participants, index, load)?;
        }
        let mut stations = Stations::default();
        for (index, stream) in self.workload.streams.iter().enumerate() {
            let speaker = Speaker::new(self.marker.clone());
            let to = (&self.gate, &speaker);
            let threads = streams::threads(stream, &self.ground, &mut stations, to)?;
            let policy = match stream.is_reserved() {
                true => PolicySpec::Fifo { priority: STREAM_PRIORITY },
                false => PolicySpec::default(),
            };
            let member = |(tid, handle)| Member {
                activity: Activity::Stream(index),
                tid,
                body: Body::Stream(handle),
                wanted: attr_of_policy(policy),
                affinity: self.cpus,
            };
            participants.members.extend(threads.into_iter().map(member));
        }
        for (index, irq) in self.workload.irqs.iter().enumerate() {
            self.make_irq(participants, index, irq)?;
        }
        for (index, task) in self.workload.tasks.iter().enumerate() {
            self.make_task(participants, index, task)?;
        }
        Ok(())
    }

    /// Where a thread may run: on the whole root domain under a reservation, or the kernel refuses it; that is one CPU where there are
    /// partitions.
    fn seat(&self, own: Option<CpuId>, reserved: Option<(&str, u32)>) -> CpuSet {
        match (own.filter(|_| self.partitioned), reserved) {
            (Some(cpu), _) => CpuSet::single(cpu),
            (None, Some((name, instance))) => self.home(name, instance),
            (None, None) => self.cpus,
        }
    }

    /// The thread that handles, and those that keep the device busy.
    fn make_irq(&self, participants: &mut Participants, index: usize, irq: &Irq) -> Result<(), WorldError> {
        let Some(tid) = self.devices.thread(index) else { return Ok(()) };
        let activity = Activity::Irq(index);
        let wanted = interrupts::attributes(irq);
        let affinity =
            self.seat(self.cpus.lowest(), wanted.policy.is_deadline().then_some((irq.name.as_str(), 0)));
        participants.members.push(Member { activity, tid, body: Body::Handler, wanted, affinity });
        for sender in self.devices.senders(index, irq, self.seed)? {
            let gate = Arc::clone(&self.gate);
            let run = move || match gate.wait() {
                Some(window) => sender.run(&gate, &window),
                None => Sent::default(),
            };
            let (tid, handle) = spawn_thread(&irq.name, &self.gate, run)?;
            // What arrives does not wait for the loads of the run.
            let wanted = attr_of_policy(PolicySpec::Fair { nice: -20, slice: None });
            let body = Body::Sender(handle);
            let inside = self.seat(self.cpus.lowest(), None);
            let affinity = self.outside.map_or(inside, CpuSet::single);
            participants.members.push(Member { activity, tid, body, wanted, affinity });
        }
        Ok(())
    }

    fn make_load(
        &self,
        participants: &mut Participants,
        index: usize,
        load: &Load,
    ) -> Result<(), WorldError> {
        let driver = driver_of(load)?;
        let _entered = groups::enter(self.groups, load.group.as_deref())?;
        let count = load.count.on(self.cpus.len() as u32);
        for (instance, mut worker) in driver.prepare(load, count, &self.ground)?.into_iter().enumerate() {
            let (gate, turn) = (Arc::clone(&self.gate), self.first_cpus.of_load(index, instance as u32));
            let run = move |worker: &mut Box<dyn LoadWorker>| match gate.wait_on(turn) {
                Some(window) => worker.run(&gate, &window),
                None => LoadRun::default(),
            };
            let (tid, handle) = spawn_thread(&load.name, &self.gate, move || run(&mut worker))?;
            let affinity =
                load.count.pinned_to(instance as u32, &self.cpus).map_or(self.cpus, CpuSet::single);
            let affinity = self.within_group(load.group.as_deref(), affinity);
            participants.members.push(Member {
                activity: Activity::Load(index),
                tid,
                body: Body::Worker(handle),
                wanted: attr_of_policy(load.policy),
                affinity,
            });
        }
        Ok(())
    }

    fn make_task(
        &self,
        participants: &mut Participants,
        index: usize,
        task: &Task,
    ) -> Result<(), WorldError> {
        let wanted = match (&task.reservation, &task.body) {
            // One thread of it, not the first, bears the reservation.
            (Some(_), TaskBody::Command(Program { worker: Some(_), .. })) => attr_of_policy(task.policy),
            (Some(reservation), _) => attr_of_reservation(reservation),
            (None, _) => attr_of_policy(task.policy),
        };
        let is_deadline = wanted.policy.is_deadline();
        let of_group = self.workload.cpus_of_group(task.group.as_deref());
        task.check_cpus(&self.cpus, of_group, &self.all_cpus).map_err(|why| self.unsupported(task, &why))?;
        if task.thread_of().is_some() {
            // It takes part once its program has made it.
            return Ok(());
        }
        let _entered = groups::enter(self.groups, task.group.as_deref())?;
        for instance in 0..task.instances.on(self.cpus.len() as u32) {
            let reserved = is_deadline.then_some((task.name.as_str(), instance));
            let unpinned = self.seat(self.cpus.iter().last(), reserved);
            let (tid, body) = match &task.body {
                TaskBody::Synthetic(_) | TaskBody::Phases(_) => {
                    // It is judged by the CPU it waits on, and stays there as long as no other deadline thread runs there: it
                    // begins where it belongs.
                    let turn = self.first_cpus.of_task(index, instance);
                    let own = task.cpus.unwrap_or(self.cpus);
                    let first = turn.map_or(own, |turn| CpuSet::single(turn.cpu));
                    let begins = if self.homes.contains_key(&task.name) { unpinned } else { first };
                    let _confined = is_deadline.then(|| Confined::to(self.kernel, begins));
                    // Under its reservation it cannot be moved.
                    self.make_thread(task, instance, turn.filter(|_| !is_deadline))?
                }
                TaskBody::Command(program) => self.start_program(task, program, unpinned)?,
                TaskBody::Match(which @ ThreadMatch::Process(_)) => {
                    (self.find_thread(task, which)?, Body::Process)
                }
                TaskBody::Match(which) => (self.find_thread(task, which)?, Body::Found),
            };
            let pinned = task.instances.pinned_to(instance, &self.cpus).map(CpuSet::single);
            let affinity = pinned.or(task.cpus).unwrap_or(unpinned);
            let affinity = self.within_group(task.group.as_deref(), affinity);
            participants.members.push(Member {
                activity: Activity::Task(index),
                tid,
                body,
                wanted,
                affinity,
            });
        }
        Ok(())
    }

    /// The CPUs of these that are of a group: of others the kernel takes none.
    fn within_group(&self, group: Option<&str>, cpus: CpuSet) -> CpuSet {
        self.workload.cpus_of_group(group).map_or(cpus, |own| own.intersection(&cpus))
    }

    /// The CPUs a reserved thread of an activity may use: those of its root domain.
    fn home(&self, name: &str, instance: u32) -> CpuSet {
        let own = self.homes.get(name).and_then(|homes| homes.get(instance as usize));
        own.copied().unwrap_or(self.all_cpus)
    }

    fn unsupported(&self, task: &Task, why: &str) -> WorldError {
        WorldError::Unsupported {
            world: "host".to_owned(),
            object: format!("task.{}", task.name),
            why: why.to_owned(),
        }
    }

    fn make_thread(&self, task: &Task, instance: u32, turn: Option<Turn>) -> Result<(Tid, Body), WorldError> {
        let Some(body) = TaskBodySpec::of(task, instance, self.seed, &self.shared) else {
            let why = "this version takes no work from a recorded file; give a distribution";
            return Err(self.unsupported(task, why));
        };
        let (gate, marker) = (Arc::clone(&self.gate), self.marker.clone());
        let run = move || {
            let fillers = body.fillers();
            match gate.wait_on(turn) {
                Some(window) => body.run(&gate, &window, marker.as_ref(), fillers),
                None => body.not_run(),
            }
        };
        let slack = task.timer_slack.unwrap_or(SLACK);
        let (tid, handle) = spawn_with_slack(&task.name, &self.gate, slack, run)?;
        Ok((tid, Body::Synthetic(handle)))
    }

    fn start_program(&self, task: &Task, program: &Program, cpus: CpuSet) -> Result<(Tid, Body), WorldError> {
        let object = format!("task.{}", task.name);
        let failed = |why: String| WorldError::Activity { object: object.clone(), why };
        let errors = tempfile::tempfile().map_err(|e| failed(format!("no file for its messages: {e}")))?;
        let directory = self.scratch.filter(|_| program.prepare.is_some());
        let mut command = command_of(&program.line, directory, &errors).map_err(failed)?;
        // A reservation comes once the program runs: a deadline thread cannot start others.
        let scheduler = attr_of_policy(task.policy);
        let default = task.policy == PolicySpec::default();
        let setup = ChildSetup {
            affinity: Some(if self.homes.contains_key(&task.name) { cpus } else { self.cpus }),
            scheduler: (!default).then_some(scheduler),
            mark: self.mark.clone(),
            rights: Some(rights_of(&object, &program.rights)?),
            ..ChildSetup::default()
        };
        let spawned = spawn(&mut command, &setup)
            .map_err(|error| failed(not_started(&program.line, program, &error)))?;
        Ok((spawned.pid(), Body::Program(Box::new(spawned), errors)))
    }

    /// The thread a match means: by its number, or the one of its name.
    fn find_thread(&self, task: &Task, which: &ThreadMatch) -> Result<Tid, WorldError> {
        let failed = |why: String| WorldError::Activity { object: format!("task.{}", task.name), why };
        let name = match which {
            ThreadMatch::Thread(pid) | ThreadMatch::Process(pid) => {
                return match self.kernel.name(Tid(*pid)) {
                    Ok(_) => Ok(Tid(*pid)),
                    Err(_) => Err(failed(format!("no thread {pid} is running; see `ps -eLo tid,comm`"))),
                };
            }
            ThreadMatch::Named(name) => name,
            ThreadMatch::Of { role, .. } => &role.comm,
        };
        let mut found = Vec::new();
        for process in self.kernel.processes().unwrap_or_default() {
            for tid in self.kernel.threads(process).unwrap_or_default() {
                if self.kernel.name(tid).is_ok_and(|n| n == *name) {
                    found.push(tid);
                }
            }
        }
        match found.as_slice() {
            [tid] => Ok(*tid),
            [] => Err(failed(format!("no running thread is called `{name}`; see `ps -eLo tid,comm`"))),
            many => {
                let list: Vec<String> = many.iter().take(8).map(Tid::to_string).collect();
                Err(failed(format!(
                    "{} threads are called `{name}` ({}); choose one with `match = {{ pid = N }}`",
                    many.len(),
                    list.join(", ")
                )))
            }
        }
    }

    /// Brings everybody to the partition of its CPU, so that the kernel finds it there when it is to have a reservation.
    fn seat_all(&self, participants: &Participants) -> Result<(), WorldError> {
        for member in &participants.members {
            let Some(cpu) = member.affinity.lowest() else { continue };
            let joined = partition::join(self.kernel, member.tid, cpu);
            joined.and_then(|()| self.kernel.set_affinity(member.tid, &member.affinity)).map_err(
                |error| WorldError::Machine {
                    what: format!(
                        "{} (thread {}) could not go to CPU {cpu}",
                        self.name_of(member.activity),
                        member.tid
                    ),
                    remedy: error.to_string(),
                },
            )?;
        }
        for _ in 0..ROUSED {
            self.gate.rouse();
            self.devices.rouse();
            let _ = clock::sleep_until(clock::monotonic() + Nanos::MILLISECOND, None);
        }
        Ok(())
    }

    /// Gives everybody affinity and policy, reservations last so that nothing half set up uses them.
    fn enforce_all(
        &self,
        participants: &Participants,
        enforcer: &mut Enforcer<'_>,
    ) -> Result<(), WorldError> {
        if self.partitioned {
            self.seat_all(participants)?;
        }
        let wanted: Vec<Wanted> = participants.members.iter().map(Member::wanted).collect();
        enforce_all(enforcer, &wanted).map_err(|(place, error)| {
            let member = &participants.members[place];
            let (name, tid) = (self.name_of(member.activity), member.tid);
            WorldError::Machine {
                what: format!("{name} (thread {tid}) could not get {}", describe(&member.wanted)),
                remedy: error.to_string(),
            }
        })
    }

    fn name_of(&self, activity: Activity) -> &str {
        match activity {
            Activity::Task(index) => &self.workload.tasks[index].name,
            Activity::Load(index) => &self.workload.loads[index].name,
            Activity::Stream(index) => &self.workload.streams[index].name,
            Activity::Irq(index) => &self.workload.irqs[index].name,
        }
    }

    /// The threads of programs that are told of by themselves or get a reservation, once they are there.
    pub fn workers(&self, participants: &Participants) -> Programs {
        let root = |name: &str| {
            let of_task = |member: &&Member| match member.activity {
                Activity::Task(index) => self.workload.tasks.get(index).is_some_and(|task| task.name == name),
                _ => false,
            };
            participants.members.iter().find(of_task)
        };
        let worker = |task: &Task| {
            let attr = task.reservation.as_ref().map(attr_of_reservation);
            let (of, role) = match (&task.body, task.thread_of()) {
                (_, Some((of, role))) => (of, role.clone()),
                (TaskBody::Command(program), None) if attr.is_some() => {
                    (task.name.as_str(), program.worker.clone()?)
                }
                _ => return None,
            };
            let program = root(of)?;
            let owner = if matches!(program.body, Body::Process) { Owner::Others } else { Owner::Ours };
            Some(Reserved {
                name: task.name.clone(),
                owner,
                root: program.tid,
                role,
                attr,
                home: self.home(&task.name, 0),
                worker: None,
                times: 0,
                refused: None,
            })
        };
        Programs { reserved: self.workload.tasks.iter().filter_map(worker).collect() }
    }

    /// Lets the threads of programs that are tasks of their own take part, when they are there.
    pub fn admit(&self, participants: &mut Participants, programs: &Programs) {
        for (index, task) in self.workload.tasks.iter().enumerate().filter(|(_, t)| t.thread_of().is_some()) {
            let found = programs.reserved.iter().find(|reserved| reserved.name == task.name);
            let Some(worker) = found.and_then(|reserved| reserved.worker.as_ref()) else { continue };
            participants.members.push(Member {
                activity: Activity::Task(index),
                tid: worker.tid,
                body: Body::Found,
                wanted: attr_of_policy(PolicySpec::default()),
                affinity: self.all_cpus,
            });
        }
    }
}

impl Participants {
    /// The first threads of programs and processes, with the index of their task.
    pub fn programs(&self) -> Vec<(usize, Tid)> {
        let program = |member: &Member| match (&member.body, member.activity) {
            (Body::Program(..) | Body::Process, Activity::Task(index)) => Some((index, member.tid)),
            _ => None,
        };
        self.members.iter().filter_map(program).collect()
    }

    /// The same with the threads a process had before the run; those of a program are seen to be made.
    pub fn followed(&self, kernel: &dyn Kernel) -> Vec<(Tid, Vec<LiveThread>)> {
        let before = |member: &Member| match (&member.body, member.activity) {
            (Body::Program(..), Activity::Task(_)) => Some((member.tid, Vec::new())),
            (Body::Process, _) => Some((member.tid, programs::threads(kernel, member.tid))),
            _ => None,
        };
        self.members.iter().filter_map(before).collect()
    }

    /// The threads of tasks made for the run.
    pub fn own_tasks(&self) -> impl Iterator<Item = Tid> + '_ {
        self.members.iter().filter(|m| matches!(m.body, Body::Synthetic(_))).map(|m| m.tid)
    }

    /// Why a load ended before its time, where one did; it is taken out.
    pub fn load_that_gave_up(&mut self, workload: &Workload, window: &Window) -> Option<WorldError> {
        let ended = |m: &Member| matches!(&m.body, Body::Worker(handle) if handle.is_finished());
        let index = self.members.iter().position(ended)?;
        // Looked at afterwards: one that ended at its time has not given up.
        if clock::monotonic() >= window.end {
            return None;
        }
        let member = self.members.remove(index);
        let Body::Worker(handle) = member.body else { return None };
        let outcome = handle.join().map_or(Returned::Outside, Returned::Worker);
        let result = MemberResult { activity: member.activity, tid: member.tid, outcome };
        result.trouble(workload)
    }

    /// Ends everybody: threads by the gate and where they meet, programs by signal.
    pub fn send_home(self, gate: &Gate, shared: &SharedObjects) {
        gate.stop();
        shared.close();
        for member in self.members {
            match member.body {
                Body::Synthetic(handle) => drop(handle.join()),
                Body::Worker(handle) => drop(handle.join()),
                Body::Stream(handle) => drop(handle.join()),
                Body::Sender(handle) => drop(handle.join()),
                Body::Program(..) | Body::Found | Body::Process | Body::Handler => {}
            }
        }
    }
}
