//! [`Cast`]: who takes part in a run: every thread and program of a workload, made ready, given its policy and
//! affinity, with what the kernel says about it afterwards.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use surety_enforce::{EnforceError, Enforcer, Owner, attr_of_policy, attr_of_reservation, describe};
use surety_kernel::command::{ChildSetup, Spawned, spawn};
use surety_kernel::tracefs::Marker;
use surety_kernel::{Kernel, SchedAttr, clock, partition, thread};
use surety_model::plan::Homes;
use surety_model::record::ThreadInForce;
use surety_model::workload::{Irq, Load, PolicySpec, Program, Task, TaskBody, ThreadMatch, Workload};
use surety_model::world::WorldError;
use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::interrupts::{self, Devices, Sent};
use crate::loads::{Ground, LoadRun, LoadWorker, driver_of};
use crate::meeting::Meeting;
use crate::programs::{Programs, Reserved};
use crate::scratch::{command_of, not_started};
use crate::streams::{self, StreamRun};
use crate::tasks::{TaskBodySpec, TaskRun};
use crate::window::{Gate, Window};

/// Stack of a thread of ours: its loops need little, and locked memory is not for free.
const STACK: usize = 256 << 10;
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

/// Whose member it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// `workload.tasks[_]`.
    Task(usize),
    /// `workload.loads[_]`.
    Load(usize),
    /// `workload.streams[_]`.
    Stream(usize),
    /// `workload.irqs[_]`.
    Irq(usize),
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
    /// A thread that was running before.
    Found,
    /// A thread of the kernel's that serves a device made for the run.
    Handler,
    /// A thread of ours that sends to that device.
    Sender(JoinHandle<Sent>),
}

/// What a member returned.
#[derive(Debug)]
pub(crate) struct MemberResult {
    pub activity: Activity,
    pub tid: Tid,
    pub outcome: Returned,
}

impl MemberResult {
    /// Why it could not go on, of a load that could not.
    pub fn trouble(&self, workload: &Workload) -> Option<WorldError> {
        let index = match (&self.outcome, self.activity) {
            (Returned::Stream(run), Activity::Stream(index)) => {
                return run.trouble_of(&workload.streams.get(index)?.name);
            }
            (_, Activity::Load(index)) => index,
            _ => return None,
        };
        let name = &workload.loads.get(index)?.name;
        match &self.outcome {
            Returned::Worker(run) => run.trouble.as_ref().map(|trouble| trouble.of_load(name)),
            _ => Some(LoadRun::panicked().of_load(name)),
        }
    }
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

/// What a member returned, by its kind.
#[derive(Debug)]
pub(crate) enum Returned {
    Synthetic(TaskRun),
    Worker(LoadRun),
    Stream(StreamRun),
    Sender(Sent),
    Outside,
}

/// Everybody, ready at the gate.
pub(crate) struct Cast {
    /// In the order of the workload.
    pub members: Vec<Member>,
}

/// What the cast is made from.
pub(crate) struct Stage<'a> {
    /// The kernel.
    pub kernel: &'a dyn Kernel,
    /// The workload.
    pub workload: &'a Workload,
    /// What work is drawn from.
    pub seed: u64,
    /// The CPUs of the run.
    pub cpus: CpuSet,
    /// Every CPU of the root domain: what a deadline thread may use.
    pub all_cpus: CpuSet,
    /// Root domains of their own for reserved threads, by their activity; `all_cpus` for others.
    pub homes: &'a Homes,
    /// Where threads wait.
    pub gate: Arc<Gate>,
    /// What tasks share.
    pub meeting: Arc<Meeting>,
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
    /// Where those are who keep devices busy; `None`: among the others.
    pub outside: Option<CpuId>,
    /// Whether each CPU is a root domain of its own: handlers on the first of the run, tasks on the last.
    pub partitioned: bool,
}

impl Stage<'_> {
    /// Makes everybody and gives each its policy; nobody runs yet, but programs that were asked for do.
    ///
    /// When one cannot be made, those already made are sent home.
    pub fn assemble(&self, enforcer: &mut Enforcer<'_>) -> Result<Cast, WorldError> {
        let mut cast = Cast { members: Vec::new() };
        let made = self.make_all(&mut cast).and_then(|()| self.enforce_all(&cast, enforcer));
        match made {
            Ok(()) => Ok(cast),
            Err(error) => {
                cast.send_home(&self.gate, &self.meeting);
                Err(error)
            }
        }
    }

    fn make_all(&self, cast: &mut Cast) -> Result<(), WorldError> {
        for (index, load) in self.workload.loads.iter().enumerate() {
            self.make_load(cast, index, load)?;
        }
        for (index, stream) in self.workload.streams.iter().enumerate() {
            let threads = streams::threads(stream, &self.ground, &self.gate)?;
            let member = |(tid, handle)| Member {
                activity: Activity::Stream(index),
                tid,
                body: Body::Stream(handle),
                wanted: attr_of_policy(PolicySpec::default()),
                affinity: self.cpus,
            };
            cast.members.extend(threads.into_iter().map(member));
        }
        for (index, irq) in self.workload.irqs.iter().enumerate() {
            self.make_irq(cast, index, irq)?;
        }
        for (index, task) in self.workload.tasks.iter().enumerate() {
            self.make_task(cast, index, task)?;
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
    fn make_irq(&self, cast: &mut Cast, index: usize, irq: &Irq) -> Result<(), WorldError> {
        let Some(tid) = self.devices.thread(index) else { return Ok(()) };
        let activity = Activity::Irq(index);
        let wanted = interrupts::attributes(irq);
        let affinity =
            self.seat(self.cpus.lowest(), wanted.policy.is_deadline().then_some((irq.name.as_str(), 0)));
        cast.members.push(Member { activity, tid, body: Body::Handler, wanted, affinity });
        for sender in self.devices.senders(index, irq, self.seed)? {
            let gate = Arc::clone(&self.gate);
            let run = move || match gate.wait() {
                Some(window) => sender.run(&gate, &window),
                None => Sent::default(),
            };
            let (tid, handle) = spawn_thread(&irq.name, run)?;
            // What arrives does not wait for the loads of the run.
            let wanted = attr_of_policy(PolicySpec::Fair { nice: -20, slice: None });
            let body = Body::Sender(handle);
            let inside = self.seat(self.cpus.lowest(), None);
            let affinity = self.outside.map_or(inside, CpuSet::single);
            cast.members.push(Member { activity, tid, body, wanted, affinity });
        }
        Ok(())
    }

    fn make_load(&self, cast: &mut Cast, index: usize, load: &Load) -> Result<(), WorldError> {
        let driver = driver_of(load)?;
        let count = load.count.on(self.cpus.len() as u32);
        for (instance, mut worker) in driver.prepare(load, count, &self.ground)?.into_iter().enumerate() {
            let gate = Arc::clone(&self.gate);
            let run = move |worker: &mut Box<dyn LoadWorker>| match gate.wait() {
                Some(window) => worker.run(&gate, &window),
                None => LoadRun::default(),
            };
            let (tid, handle) = spawn_thread(&load.name, move || run(&mut worker))?;
            let affinity =
                load.count.pinned_to(instance as u32, &self.cpus).map_or(self.cpus, CpuSet::single);
            cast.members.push(Member {
                activity: Activity::Load(index),
                tid,
                body: Body::Worker(handle),
                wanted: attr_of_policy(load.policy),
                affinity,
            });
        }
        Ok(())
    }

    fn make_task(&self, cast: &mut Cast, index: usize, task: &Task) -> Result<(), WorldError> {
        let wanted = match (&task.reservation, &task.body) {
            // One thread of it, not the first, bears the reservation.
            (Some(_), TaskBody::Command(Program { worker: Some(_), .. })) => attr_of_policy(task.policy),
            (Some(reservation), _) => attr_of_reservation(reservation),
            (None, _) => attr_of_policy(task.policy),
        };
        let is_deadline = wanted.policy.is_deadline();
        for instance in 0..task.instances.on(self.cpus.len() as u32) {
            let reserved = is_deadline.then_some((task.name.as_str(), instance));
            let unpinned = self.seat(self.cpus.iter().last(), reserved);
            let (tid, body) = match &task.body {
                TaskBody::Synthetic(_) | TaskBody::Phases(_) => {
                    // It is judged by the CPU it waits on, so it begins where it belongs.
                    let _confined = (is_deadline && self.homes.contains_key(&task.name))
                        .then(|| Confined::to(self.kernel, unpinned));
                    self.make_thread(task, instance)?
                }
                TaskBody::Command(program) => self.start_program(task, program, unpinned)?,
                TaskBody::Match(which) => (self.find_thread(task, which)?, Body::Found),
            };
            let affinity = task.instances.pinned_to(instance, &self.cpus).map_or(unpinned, CpuSet::single);
            cast.members.push(Member { activity: Activity::Task(index), tid, body, wanted, affinity });
        }
        Ok(())
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

    fn make_thread(&self, task: &Task, instance: u32) -> Result<(Tid, Body), WorldError> {
        let Some(body) = TaskBodySpec::of(task, instance, self.seed, &self.meeting) else {
            let why = "this version takes no work from a recorded file; give a distribution";
            return Err(self.unsupported(task, why));
        };
        let (gate, marker) = (Arc::clone(&self.gate), self.marker.clone());
        let run = move || match gate.wait() {
            Some(window) => body.run(&gate, &window, marker.as_ref()),
            None => body.not_run(),
        };
        let (tid, handle) = spawn_thread(&task.name, run)?;
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
            groups: Vec::new(),
            mark: self.mark.clone(),
            stays_in_group: false,
        };
        let spawned = spawn(&mut command, &setup)
            .map_err(|error| failed(not_started(&program.line, program, &error)))?;
        Ok((spawned.pid(), Body::Program(Box::new(spawned), errors)))
    }

    /// The thread a match means: by its number, or the one of its name.
    fn find_thread(&self, task: &Task, which: &ThreadMatch) -> Result<Tid, WorldError> {
        let failed = |why: String| WorldError::Activity { object: format!("task.{}", task.name), why };
        if let Some(pid) = which.pid {
            return match self.kernel.name(Tid(pid)) {
                Ok(_) => Ok(Tid(pid)),
                Err(_) => Err(failed(format!("no thread {pid} is running; see `ps -eLo tid,comm`"))),
            };
        }
        let name = which.comm.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        for process in self.kernel.processes().unwrap_or_default() {
            for tid in self.kernel.threads(process).unwrap_or_default() {
                if self.kernel.name(tid).is_ok_and(|n| n == name) {
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
    fn seat_all(&self, cast: &Cast) -> Result<(), WorldError> {
        for member in &cast.members {
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
    fn enforce_all(&self, cast: &Cast, enforcer: &mut Enforcer<'_>) -> Result<(), WorldError> {
        let (reserved, plain): (Vec<&Member>, Vec<&Member>) =
            cast.members.iter().partition(|m| m.wanted.policy.is_deadline());
        if self.partitioned {
            self.seat_all(cast)?;
        }
        for member in plain.into_iter().chain(reserved) {
            let name = self.name_of(member.activity);
            let refused = |error: EnforceError| WorldError::Machine {
                what: format!("{name} (thread {}) could not get {}", member.tid, describe(&member.wanted)),
                remedy: error.to_string(),
            };
            // The thread of a device is the kernel's: written down, though it goes with the device.
            let is_ours = !matches!(member.body, Body::Found | Body::Handler);
            let owner = if is_ours { Owner::Ours } else { Owner::Others };
            let is_default = member.wanted == attr_of_policy(PolicySpec::default());
            // What was running before keeps its place unless a reservation needs all of the root domain.
            let moves = match member.body {
                Body::Found => member.wanted.policy.is_deadline(),
                _ => true,
            };
            if moves {
                enforcer.set_affinity(member.tid, member.affinity, owner).map_err(&refused)?;
            }
            if !(is_default && matches!(member.body, Body::Found | Body::Program(..))) {
                enforcer.set_scheduler(member.tid, member.wanted, owner).map_err(&refused)?;
            }
        }
        Ok(())
    }

    fn name_of(&self, activity: Activity) -> &str {
        match activity {
            Activity::Task(index) => &self.workload.tasks[index].name,
            Activity::Load(index) => &self.workload.loads[index].name,
            Activity::Stream(index) => &self.workload.streams[index].name,
            Activity::Irq(index) => &self.workload.irqs[index].name,
        }
    }

    /// The programs whose workers get a reservation once they are there.
    pub fn reserved_programs(&self, cast: &Cast) -> Programs {
        let reserved = cast.members.iter().filter_map(|member| {
            let Activity::Task(index) = member.activity else { return None };
            let task = self.workload.tasks.get(index)?;
            let (TaskBody::Command(program), Some(reservation)) = (&task.body, &task.reservation) else {
                return None;
            };
            Some(Reserved {
                name: task.name.clone(),
                root: member.tid,
                role: program.worker.clone()?,
                attr: attr_of_reservation(reservation),
                home: self.home(&task.name, 0),
                worker: None,
                times: 0,
                refused: None,
            })
        });
        Programs { reserved: reserved.collect() }
    }

    /// What the kernel says about the workers of reserved programs, now.
    pub fn read_back_workers(&self, programs: &Programs) -> Vec<ThreadInForce> {
        let describe_worker = |reserved: &Reserved| {
            let tid = reserved.worker.as_ref()?.tid;
            let attr = self.kernel.scheduler(tid).ok();
            let affinity = self.kernel.affinity(tid).unwrap_or_default();
            Some(ThreadInForce {
                activity: reserved.name.clone(),
                tid: Some(tid),
                policy: attr.as_ref().map_or_else(|| "gone".to_owned(), describe),
                affinity,
                as_requested: attr.is_some_and(|a| a.is_result_of(&reserved.attr))
                    && affinity == reserved.home,
            })
        };
        programs.reserved.iter().filter_map(describe_worker).collect()
    }

    /// What the kernel says about everybody, now; not about the first thread of a program whose worker is told
    /// of on its own.
    pub fn read_back(&self, cast: &Cast) -> Vec<ThreadInForce> {
        let describe_member = |member: &Member| {
            let attr = self.kernel.scheduler(member.tid).ok();
            let affinity = self.kernel.affinity(member.tid).unwrap_or_default();
            let found = matches!(member.body, Body::Found) && !member.wanted.policy.is_deadline();
            ThreadInForce {
                activity: self.name_of(member.activity).to_owned(),
                tid: Some(member.tid),
                policy: attr.as_ref().map_or_else(|| "gone".to_owned(), describe),
                affinity,
                as_requested: found
                    || (attr.is_some_and(|a| a.policy == member.wanted.policy)
                        && affinity == member.affinity),
            }
        };
        let has_worker = |member: &&Member| {
            let Activity::Task(index) = member.activity else { return false };
            let task = self.workload.tasks.get(index);
            task.is_some_and(|task| {
                task.reservation.is_some()
                    && matches!(&task.body, TaskBody::Command(Program { worker: Some(_), .. }))
            })
        };
        cast.members.iter().filter(|m| !has_worker(m)).map(describe_member).collect()
    }
}

impl Cast {
    /// The first threads of programs, with the index of their task.
    pub fn programs(&self) -> Vec<(usize, Tid)> {
        let program = |member: &Member| match (&member.body, member.activity) {
            (Body::Program(..), Activity::Task(index)) => Some((index, member.tid)),
            _ => None,
        };
        self.members.iter().filter_map(program).collect()
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
    pub fn send_home(self, gate: &Gate, meeting: &Meeting) {
        gate.stop();
        meeting.close();
        for member in self.members {
            match member.body {
                Body::Synthetic(handle) => drop(handle.join()),
                Body::Worker(handle) => drop(handle.join()),
                Body::Stream(handle) => drop(handle.join()),
                Body::Sender(handle) => drop(handle.join()),
                Body::Program(..) | Body::Found | Body::Handler => {}
            }
        }
    }
}

/// A thread of ours: named, with exact timers and no page fault ahead, its id known before it works.
pub(crate) fn spawn_thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<(Tid, JoinHandle<T>), WorldError> {
    let (sender, receiver) = mpsc::channel();
    let own_name = name.to_owned();
    let spawned = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        // A thread without its name or with inexact timers still runs; the record shows what it got.
        let _ = thread::set_name(&own_name);
        let _ = thread::set_timer_slack(Nanos::new(1));
        thread::prefault_stack();
        let _ = sender.send(thread::own_tid());
        body()
    });
    let handle = spawned.map_err(|error| WorldError::Machine {
        what: format!("no thread could be made for `{name}`: {error}"),
        remedy: "raise the limit of processes (ulimit -u) or ask for fewer instances".to_owned(),
    })?;
    let tid = receiver.recv().map_err(|_| WorldError::Machine {
        what: format!("the thread of `{name}` ended before it began"),
        remedy: "run again; report it if it repeats".to_owned(),
    })?;
    Ok((tid, handle))
}

/// The last line a program wrote to standard error, for messages.
pub(crate) fn last_words(errors: &mut File) -> Option<String> {
    const ENOUGH: i64 = 4096;
    let length = i64::try_from(errors.metadata().ok()?.len()).ok()?;
    errors.seek(SeekFrom::End(-length.min(ENOUGH))).ok()?;
    let mut bytes = Vec::new();
    errors.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().map(str::trim).find(|l| !l.is_empty()).map(str::to_owned)
}

/// Splits a command line into words as a shell does: blanks, single and double quotes, backslash. No expansion.
pub fn split_command(line: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let into = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        None => return Err(format!("the quote {character} in `{line}` is not closed")),
                        Some(c) if c == character => break,
                        Some('\\') if character == '"' => into.extend(characters.next()),
                        Some(c) => into.push(c),
                    }
                }
            }
            '\\' => match characters.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(format!("`{line}` ends with a backslash")),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.is_empty() { Err("the command is empty".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_split_like_a_shell_does() {
        for (line, words) in [
            ("a b  c", vec!["a", "b", "c"]),
            ("sh -c 'while :; do :; done'", vec!["sh", "-c", "while :; do :; done"]),
            (r#"a "b \"c\"" d\ e"#, vec!["a", r#"b "c""#, "d e"]),
            ("a ''", vec!["a", ""]),
        ] {
            assert_eq!(split_command(line).unwrap(), words, "{line}");
        }
        for line in ["", "  ", "a 'b", "a \\"] {
            assert!(split_command(line).is_err(), "{line}");
        }
    }
}
