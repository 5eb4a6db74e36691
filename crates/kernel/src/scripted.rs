//! [`ScriptedKernel`]: a machine in memory, with a record of every call and a fault at any of them.
//!
//! It keeps the rules that enforcement must survive: SCHED_DEADLINE's checks and admission
//! (`kernel/sched/deadline.c`), affinity against the root domain, and the leak of bandwidth when a thread that
//! has not run leaves the class. Everything else is files that hold what was last written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use surety_units::{CpuId, CpuSet, Nanos, Tid};

use crate::cpu_group::GIVEN;
use crate::error::{KernelError, Operation};
use crate::kernel::{Kernel, ProcessIdentity, SleepingThread};
use crate::sched::SchedAttr;

mod groups;
mod rules;

/// What a scripted machine consists of; compare two to see that all was undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineState {
    /// Files with their text.
    pub files: BTreeMap<PathBuf, String>,
    /// Directories that are kernel objects.
    pub dirs: BTreeSet<PathBuf>,
    /// Threads by number.
    pub threads: BTreeMap<Tid, ScriptedThread>,
    /// Bandwidth that is booked and held by no thread, in the kernel's 20-bit fixed point.
    pub leaked: u64,
}

/// A thread of a scripted machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedThread {
    /// The process it belongs to.
    pub process: Tid,
    pub name: String,
    /// Ticks since boot.
    pub start_time: u64,
    /// Its scheduling.
    pub attr: SchedAttr,
    /// The CPUs it may use.
    pub affinity: CpuSet,
    /// Whether it runs; one that sleeps leaks its bandwidth when it leaves SCHED_DEADLINE carelessly.
    pub running: bool,
    /// Its environment, `NAME=VALUE` each.
    pub environment: Vec<String>,
    /// What is left of its budget, where `/proc/TID/sched` says so.
    pub budget: Option<Nanos>,
}

/// One call, as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was asked.
    pub operation: Operation,
    /// Of which thread or file, and with which value.
    pub object: String,
}

/// A fault to come.
#[derive(Clone, Debug)]
enum Fault {
    /// Call number `at` fails.
    At { at: usize, errno: i32 },
    /// Every call of this operation whose object contains the text fails.
    Named { operation: Operation, object: String, errno: i32 },
    /// The process is dead from call number `at` on: nothing it does reaches the machine any more.
    Dead { at: usize },
}

#[derive(Debug, Default)]
struct Script {
    machine: MachineState,
    templates: BTreeMap<PathBuf, Vec<(String, String)>>,
    online: CpuSet,
    capacity: u64,
    privileged: bool,
    own_pid: Tid,
    next_tid: i32,
    next_start: u64,
    now: Nanos,
    calls: Vec<Call>,
    faults: Vec<Fault>,
}

/// A machine in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct ScriptedKernel {
    script: Arc<Mutex<Script>>,
}

const OWN_PID: Tid = Tid(1000);
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const ONLINE: &str = "/sys/devices/system/cpu/online";

impl ScriptedKernel {
    /// A machine of some CPUs with one process, the caller's, and root's privileges. Its root domain admits
    /// 0.9 of each CPU, as Linux 6.18 does (0.95 less the fair server's 0.05).
    pub fn new(cpus: u32) -> ScriptedKernel {
        let online = CpuSet::first(cpus);
        // 996147 and 52428 are 0.95 and 0.05 in the kernel's fixed point, each rounded down.
        let capacity = u64::from(cpus) * (996_147 - 52_428);
        let mut script = Script {
            online,
            capacity,
            privileged: true,
            own_pid: OWN_PID,
            next_tid: OWN_PID.0 + 1,
            next_start: 5_000,
            now: Nanos::SECOND,
            ..Script::default()
        };
        script.add_thread(OWN_PID, OWN_PID, "surety");
        let kernel = ScriptedKernel { script: Arc::new(Mutex::new(script)) };
        kernel.add_file(BOOT_ID, "11111111-2222-3333-4444-555555555555\n");
        kernel.add_file(ONLINE, &format!("{online}\n"));
        kernel.add_dir("/sys/kernel/tracing/instances");
        kernel
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a file, and the directories it is in.
    pub fn add_file(&self, path: impl AsRef<Path>, text: &str) {
        let path = path.as_ref();
        if let Some(parent) = path.parent() {
            self.add_dir(parent);
        }
        self.lock().machine.files.insert(path.to_owned(), text.to_owned());
    }

    /// Adds a directory, and those it is in.
    pub fn add_dir(&self, path: impl AsRef<Path>) {
        let mut script = self.lock();
        for dir in path.as_ref().ancestors() {
            script.machine.dirs.insert(dir.to_owned());
        }
    }

    /// Directories made below `parent`, at any depth, come with these files, as those of control groups do.
    pub fn add_template(&self, parent: impl AsRef<Path>, files: &[(&str, &str)]) {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        self.add_dir(parent.as_ref());
        self.lock().templates.insert(parent.as_ref().to_owned(), files);
    }

    /// Adds a thread of a process (its own number when it is the first); it sleeps.
    pub fn add_thread(&self, tid: Tid, process: Tid, name: &str) -> ProcessIdentity {
        let mut script = self.lock();
        script.add_thread(tid, process, name);
        ProcessIdentity { pid: tid, start_time: script.next_start - 1 }
    }

    /// Ends a thread; a reservation it held is given back.
    pub fn end_thread(&self, tid: Tid) {
        self.lock().machine.threads.remove(&tid);
    }

    /// What `/proc/TID/sched` says is left of a thread's budget.
    pub fn set_budget(&self, tid: Tid, left: Option<Nanos>) {
        if let Some(thread) = self.lock().machine.threads.get_mut(&tid) {
            thread.budget = left;
        }
    }

    /// Lets a thread run or sleep.
    pub fn set_running(&self, tid: Tid, running: bool) {
        if let Some(thread) = self.lock().machine.threads.get_mut(&tid) {
            thread.running = running;
        }
    }

    /// Gives a thread a variable of its environment, `NAME=VALUE`.
    pub fn set_environment(&self, tid: Tid, variable: &str) {
        if let Some(thread) = self.lock().machine.threads.get_mut(&tid) {
            thread.environment.push(variable.to_owned());
        }
    }

    /// Changes a thread behind the caller's back, unrecorded and unchecked.
    pub fn interfere(&self, tid: Tid, attr: SchedAttr) {
        if let Some(thread) = self.lock().machine.threads.get_mut(&tid) {
            thread.attr = attr;
        }
    }

    /// Takes a CPU offline, or brings it back. A thread that is left without a CPU gets all that are online, as
    /// `select_fallback_rq` does; it does not return by itself.
    pub fn set_online(&self, cpu: CpuId, online: bool) {
        let mut script = self.lock();
        let left = match online {
            true => script.online.iter().chain([cpu]).collect(),
            false => script.online.without(&CpuSet::single(cpu)),
        };
        script.online = left;
        for thread in script.machine.threads.values_mut() {
            let kept = thread.affinity.intersection(&left);
            thread.affinity = if kept.is_empty() { left } else { kept };
        }
        script.machine.files.insert(ONLINE.into(), format!("{left}\n"));
    }

    /// Books bandwidth for nobody.
    pub fn leak(&self, bandwidth: u64) {
        self.lock().machine.leaked += bandwidth;
    }

    /// Takes root's privileges away, or gives them back.
    pub fn set_privileged(&self, privileged: bool) {
        self.lock().privileged = privileged;
    }

    /// Moves CLOCK_MONOTONIC on.
    pub fn advance(&self, span: Nanos) {
        self.lock().now += span;
    }

    /// Call number `at`, counted from 0 since the machine was made, fails.
    pub fn fail_at(&self, at: usize, errno: i32) {
        self.lock().faults.push(Fault::At { at, errno });
    }

    /// Every call of an operation on an object whose text contains `object` fails.
    pub fn fail_on(&self, operation: Operation, object: &str, errno: i32) {
        self.lock().faults.push(Fault::Named { operation, object: object.to_owned(), errno });
    }

    /// The calling process dies just before call number `at`: neither that call nor any later one happens.
    pub fn die_at(&self, at: usize) {
        self.lock().faults.push(Fault::Dead { at });
    }

    /// No more faults.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// The calling process ends, with its threads, and is started anew under another number; faults are cleared.
    pub fn restart(&self) {
        let mut script = self.lock();
        script.faults.clear();
        let old = script.own_pid;
        script.machine.threads.retain(|_, thread| thread.process != old);
        let new = Tid(script.next_tid);
        script.next_tid += 1;
        script.own_pid = new;
        script.add_thread(new, new, "surety");
    }

    /// The machine now, without the calling process, whose number changes when it is restarted.
    pub fn state(&self) -> MachineState {
        let script = self.lock();
        let mut machine = script.machine.clone();
        machine.threads.retain(|_, thread| thread.process != script.own_pid);
        machine
    }

    /// A thread as it is now.
    pub fn thread(&self, tid: Tid) -> Option<ScriptedThread> {
        self.lock().machine.threads.get(&tid).cloned()
    }

    /// Every call so far, those that failed too.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Records a call and returns the fault it meets, if any.
    fn call(
        &self,
        operation: Operation,
        object: impl Into<String>,
    ) -> Result<MutexGuard<'_, Script>, KernelError> {
        let object = object.into();
        let mut script = self.lock();
        let number = script.calls.len();
        let errno = script.faults.iter().find_map(|fault| match fault {
            Fault::At { at, errno } if *at == number => Some(*errno),
            Fault::Dead { at } if number >= *at => Some(libc::ECANCELED),
            Fault::Named { operation: op, object: part, errno } => {
                (*op == operation && object.contains(part)).then_some(*errno)
            }
            _ => None,
        });
        script.calls.push(Call { operation, object: object.clone() });
        match errno {
            Some(errno) => Err(KernelError::new(operation, object, errno)),
            None => Ok(script),
        }
    }
}

impl Kernel for ScriptedKernel {
    fn scheduler(&self, tid: Tid) -> Result<SchedAttr, KernelError> {
        let object = format!("thread {tid}");
        let script = self.call(Operation::ReadScheduler, &object)?;
        let thread = script.machine.threads.get(&script.caller(tid));
        thread.map(|t| t.attr).ok_or_else(|| KernelError::new(Operation::ReadScheduler, object, libc::ESRCH))
    }

    fn set_scheduler_directly(&self, tid: Tid, attr: &SchedAttr) -> Result<(), KernelError> {
        let operation = attr.policy.set_operation();
        let object = format!("thread {tid}");
        let mut script = self.call(operation, &object)?;
        script.set_scheduler(tid, attr).map_err(|errno| KernelError::new(operation, object, errno))
    }

    fn affinity(&self, tid: Tid) -> Result<CpuSet, KernelError> {
        let object = format!("thread {tid}");
        let script = self.call(Operation::ReadAffinity, &object)?;
        let thread = script.machine.threads.get(&script.caller(tid));
        thread
            .map(|t| t.affinity)
            .ok_or_else(|| KernelError::new(Operation::ReadAffinity, object, libc::ESRCH))
    }

    fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> Result<(), KernelError> {
        let object = format!("thread {tid}, CPUs {cpus},");
        let mut script = self.call(Operation::SetAffinity, &object)?;
        let (caller, online) = (script.caller(tid), script.online);
        let failed = |errno| Err(KernelError::new(Operation::SetAffinity, object, errno));
        let allowed = cpus.intersection(&online);
        match script.machine.threads.get_mut(&caller) {
            None => failed(libc::ESRCH),
            Some(_) if allowed.is_empty() => failed(libc::EINVAL),
            Some(thread) if thread.attr.policy.is_deadline() && allowed != online => failed(libc::EBUSY),
            Some(thread) => {
                thread.affinity = allowed;
                Ok(())
            }
        }
    }

    fn read_text(&self, path: &Path) -> Result<String, KernelError> {
        let object = path.display().to_string();
        let script = self.call(Operation::Read, &object)?;
        if let Some(members) = script.members_text(path) {
            return members.map_err(|errno| KernelError::new(Operation::Read, object, errno));
        }
        let text = script.machine.files.get(path).cloned().or_else(|| script.proc_text(path));
        text.ok_or_else(|| KernelError::new(Operation::Read, object, libc::ENOENT))
    }

    fn write_text(&self, path: &Path, text: &str) -> Result<(), KernelError> {
        let object = path.display().to_string();
        let mut script = self.call(Operation::Write, &object)?;
        let failed = |errno| KernelError::new(Operation::Write, &object, errno);
        if script.machine.files.contains_key(path) && script.write_to_group(path, text).map_err(failed)? {
            return Ok(());
        }
        match script.machine.files.get_mut(path) {
            Some(file) if path.ends_with(GIVEN) => *file = rules::given(file, text),
            Some(file) => text.clone_into(file),
            None => return Err(failed(libc::ENOENT)),
        }
        // Changing how the machine is balanced makes the kernel count its bandwidth anew.
        if path.ends_with("cpuset.sched_load_balance") || path.ends_with("cpuset.cpus.partition") {
            script.machine.leaked = 0;
        }
        Ok(())
    }

    fn list_dir(&self, path: &Path) -> Result<Vec<String>, KernelError> {
        let object = path.display().to_string();
        let script = self.call(Operation::List, &object)?;
        if let Some(names) = script.proc_list(path) {
            return Ok(names);
        }
        if !script.machine.dirs.contains(path) {
            return Err(KernelError::new(Operation::List, object, libc::ENOENT));
        }
        let inside = script.machine.files.keys().chain(&script.machine.dirs);
        let names: BTreeSet<String> = inside
            .filter(|entry| entry.parent() == Some(path))
            .filter_map(|entry| Some(entry.file_name()?.to_string_lossy().into_owned()))
            .collect();
        Ok(names.into_iter().collect())
    }

    fn make_dir(&self, path: &Path) -> Result<(), KernelError> {
        let object = path.display().to_string();
        let mut script = self.call(Operation::MakeDir, &object)?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        if !script.machine.dirs.contains(parent) {
            return Err(KernelError::new(Operation::MakeDir, object, libc::ENOENT));
        }
        if !script.machine.dirs.insert(path.to_owned()) {
            return Err(KernelError::new(Operation::MakeDir, object, libc::EEXIST));
        }
        let template = path.ancestors().skip(1).find_map(|above| script.templates.get(above)).cloned();
        for (name, text) in template.unwrap_or_default() {
            script.machine.files.insert(path.join(name), text);
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> Result<(), KernelError> {
        let object = path.display().to_string();
        let mut script = self.call(Operation::RemoveDir, &object)?;
        if script.machine.dirs.iter().any(|dir| dir.parent() == Some(path))
            || !script.members(path).is_empty()
        {
            return Err(KernelError::new(Operation::RemoveDir, object, libc::EBUSY));
        }
        if !script.machine.dirs.remove(path) {
            return Err(KernelError::new(Operation::RemoveDir, object, libc::ENOENT));
        }
        script.machine.files.retain(|file, _| file.parent() != Some(path));
        Ok(())
    }

    fn remove_tree(&self, path: &Path) -> Result<(), KernelError> {
        let object = path.display().to_string();
        let mut script = self.call(Operation::RemoveDir, &object)?;
        if !script.machine.dirs.contains(path) {
            return Err(KernelError::new(Operation::RemoveDir, object, libc::ENOENT));
        }
        script.machine.dirs.retain(|dir| !dir.starts_with(path));
        script.machine.files.retain(|file, _| !file.starts_with(path));
        Ok(())
    }

    /// The last line of `/proc/self/mountinfo` that names the place goes.
    fn unmount(&self, place: &Path) -> Result<(), KernelError> {
        let object = place.display().to_string();
        let mut script = self.call(Operation::Unmount, &object)?;
        let list = script.machine.files.get_mut(Path::new("/proc/self/mountinfo"));
        let of = |line: &str| line.split(' ').nth(4) == Some(object.as_str());
        let Some(list) = list.filter(|list| list.lines().any(of)) else {
            return Err(KernelError::new(Operation::Unmount, object, libc::EINVAL));
        };
        let last = list.lines().filter(|line| of(line)).count();
        let mut seen = 0;
        let stays = |line: &&str| {
            seen += usize::from(of(line));
            !of(line) || seen != last
        };
        *list = list.lines().filter(stays).map(|line| format!("{line}\n")).collect();
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        let script = self.lock();
        script.machine.files.contains_key(path)
            || script.machine.dirs.contains(path)
            || script.proc_text(path).is_some()
    }

    fn signal(&self, process: ProcessIdentity, signal: i32) -> Result<bool, KernelError> {
        let object = format!("process {}, signal {signal}", process.pid);
        let mut script = self.call(Operation::Signal, object)?;
        let same =
            script.machine.threads.get(&process.pid).is_some_and(|t| t.start_time == process.start_time);
        if same && signal == libc::SIGKILL {
            script.machine.threads.retain(|_, thread| thread.process != process.pid);
        }
        Ok(same)
    }

    fn sleeping_thread(&self) -> Result<SleepingThread, KernelError> {
        let mut script = self.call(Operation::Spawn, "a sleeping thread")?;
        let (tid, process) = (Tid(script.next_tid), script.own_pid);
        script.next_tid += 1;
        script.add_thread(tid, process, "surety-sleeper");
        let kernel = self.clone();
        Ok(SleepingThread::new(tid, Box::new(move || kernel.end_thread(tid))))
    }

    fn tracefs_root(&self) -> Result<PathBuf, KernelError> {
        let recorded = self.call(Operation::OpenTracefs, "a mount of our own");
        recorded.map(|_| PathBuf::from("/sys/kernel/tracing"))
    }

    fn own_pid(&self) -> Tid {
        self.lock().own_pid
    }

    fn own_tid(&self) -> Tid {
        self.own_pid()
    }

    fn effective_user(&self) -> u32 {
        if self.lock().privileged { 0 } else { 65_534 }
    }

    fn monotonic(&self) -> Nanos {
        self.lock().now
    }

    fn pause(&self, time: Nanos) {
        self.lock().now += time.max(Nanos::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::SchedPolicy;
    use crate::transition::set_once;

    fn reservation(percent: i64) -> SchedAttr {
        let period = Nanos::from_millis(10);
        SchedPolicy::deadline(Nanos::new(period.get() / 100 * percent), period, period).into()
    }

    #[test]
    fn admission_is_as_measured_on_linux_6_18() {
        let kernel = ScriptedKernel::new(2);
        for tid in [Tid(1), Tid(2), Tid(3)] {
            kernel.add_thread(tid, tid, "task");
        }
        set_once(&kernel, Tid(1), &reservation(90)).unwrap();
        assert_eq!(set_once(&kernel, Tid(2), &reservation(91)).unwrap_err().errno, libc::EBUSY);
        set_once(&kernel, Tid(2), &reservation(90)).unwrap();
        let times = |runtime, period| -> SchedAttr {
            SchedPolicy::deadline(Nanos::new(runtime), Nanos::new(period), Nanos::new(period)).into()
        };
        for (runtime, period) in [(1023, 100_000), (1024, 99_999), (1024, 4_194_304_001)] {
            let errno = set_once(&kernel, Tid(3), &times(runtime, period)).unwrap_err().errno;
            assert_eq!(errno, libc::EINVAL, "({runtime}, {period})");
        }
        kernel.set_affinity(Tid(3), &CpuSet::single(surety_units::CpuId(1))).unwrap();
        assert_eq!(set_once(&kernel, Tid(3), &reservation(0)).unwrap_err().errno, libc::EINVAL);
        assert_eq!(set_once(&kernel, Tid(3), &reservation(1)).unwrap_err().errno, libc::EPERM);
    }

    #[test]
    fn only_the_protected_way_out_of_deadline_leaks_nothing() {
        for (protected, leaked) in [(true, 0), (false, reservation(30).policy.booked_bandwidth())] {
            let kernel = ScriptedKernel::new(2);
            kernel.add_thread(Tid(1), Tid(1), "task");
            set_once(&kernel, Tid(1), &reservation(30)).unwrap();
            let fair = SchedPolicy::DEFAULT.into();
            match protected {
                true => set_once(&kernel, Tid(1), &fair).unwrap(),
                false => kernel.set_scheduler_directly(Tid(1), &fair).unwrap(),
            }
            assert_eq!(kernel.state().leaked, leaked);
            assert_eq!(kernel.thread(Tid(1)).unwrap().attr, fair);
        }
    }

    #[test]
    fn faults_meet_the_calls_they_were_meant_for() {
        let kernel = ScriptedKernel::new(1);
        kernel.add_file("/sys/a", "1");
        kernel.fail_at(1, libc::EIO);
        kernel.fail_on(Operation::Write, "/sys/a", libc::EACCES);
        assert!(kernel.read_text(Path::new("/sys/a")).is_ok());
        assert_eq!(kernel.read_text(Path::new("/sys/a")).unwrap_err().errno, libc::EIO);
        assert!(kernel.read_text(Path::new("/sys/a")).is_ok());
        assert_eq!(kernel.write_text(Path::new("/sys/a"), "2").unwrap_err().errno, libc::EACCES);
        assert_eq!(kernel.calls().len(), 4);
        kernel.clear_faults();
        kernel.die_at(4);
        assert!(kernel.write_text(Path::new("/sys/a"), "2").is_err());
        assert!(kernel.read_text(Path::new("/sys/a")).is_err());
        kernel.restart();
        assert_eq!(kernel.read_text(Path::new("/sys/a")).unwrap(), "1");
    }

    #[test]
    fn processes_are_told_apart_by_their_start() {
        let kernel = ScriptedKernel::new(1);
        let first = kernel.add_thread(Tid(7), Tid(7), "a (b)");
        kernel.add_thread(Tid(8), Tid(7), "second");
        assert_eq!(kernel.identity(Tid(7)), Ok(first));
        assert_eq!(kernel.threads(Tid(7)).unwrap(), [Tid(7), Tid(8)]);
        assert_eq!(kernel.processes().unwrap(), [Tid(7), OWN_PID]);
        kernel.end_thread(Tid(7));
        assert_eq!(kernel.identity(Tid(7)).unwrap_err().errno, libc::ESRCH);
        let second = kernel.add_thread(Tid(7), Tid(7), "again");
        assert_ne!(first, second);
        assert!(!kernel.is_alive(first) && kernel.is_alive(second));
        assert_eq!(kernel.signal(first, libc::SIGKILL), Ok(false));
        assert_eq!(kernel.signal(second, libc::SIGKILL), Ok(true));
        assert!(!kernel.is_alive(second));
    }
}
