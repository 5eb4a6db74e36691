//! The machine before and after: whatever way a run ends, nothing of it stays.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use surety_kernel::cpu_group::CpuHierarchy;
use surety_kernel::facts::MachineFacts;
use surety_kernel::net::ThreadedCable;
use surety_kernel::tracefs::Tracefs;
use surety_kernel::{Kernel, RealKernel, SchedAttr, deadline};
use surety_stats::Pcg;
use surety_units::{CpuId, CpuSet, Tid};

use crate::common::{alone, errors, is_root, program};

/// What a run could leave changed.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    victim: (SchedAttr, CpuSet),
    instances: BTreeSet<String>,
    cpusets: BTreeSet<String>,
    /// Control groups of programs.
    groups: BTreeSet<String>,
    /// Control groups of the workload.
    cpu_groups: BTreeSet<String>,
    marked: BTreeSet<Tid>,
    files: BTreeSet<String>,
    /// Loop devices on files of ours.
    loops: BTreeSet<String>,
    /// Loop devices that nobody uses and that schedule as the run asked.
    schedulers: BTreeSet<String>,
    /// The I/O scheduler of a device that runs are told to use.
    bound: Option<String>,
    /// What is mounted here.
    mounts: BTreeSet<String>,
    /// Network devices of this namespace.
    devices: BTreeSet<String>,
    /// Threads of the kernel's that serve devices of a run.
    handlers: BTreeSet<Tid>,
    /// Deadline bandwidth booked and held by no thread.
    leaked: deadline::KernelBandwidth,
}

impl Machine {
    /// Looks at everything; `victim` is a thread of somebody else, `directory` where runs keep their files, `bound` a disk.
    fn look(victim: Tid, directory: &Path, bound: Option<&BoundDisk>) -> Machine {
        let kernel = RealKernel::new();
        // Another run of the program on this machine is not ours to judge.
        let names = |list: Vec<String>| -> BTreeSet<String> {
            let ours =
                |name: &String| started().iter().any(|pid| name.starts_with(&format!("surety-{pid}-")));
            list.into_iter().filter(ours).collect()
        };
        // Read once, before anything is judged: reading the limits already mends a leak.
        static FACTS: OnceLock<MachineFacts> = OnceLock::new();
        let facts = FACTS.get_or_init(|| MachineFacts::read(&kernel));
        let charge = surety_host::servers::counted(facts);
        let account = deadline::account(&kernel, &|cpu| facts.scheduler.servers.booked_on(charge, cpu));
        Machine {
            victim: (kernel.scheduler(victim).unwrap(), kernel.affinity(victim).unwrap()),
            instances: names(Tracefs::open().and_then(|t| t.instances()).unwrap_or_default()),
            groups: names(kernel.list_dir(Path::new("/sys/fs/cgroup/pids")).unwrap_or_default()),
            cpu_groups: names(
                CpuHierarchy::find(&kernel).and_then(|h| kernel.list_dir(&h.top).ok()).unwrap_or_default(),
            ),
            cpusets: names(kernel.list_dir(Path::new("/sys/fs/cgroup/cpuset")).unwrap_or_default()),
            marked: marked_processes(&kernel, directory),
            files: files_in(directory),
            loops: loop_devices(|device| {
                backing_file(device).is_some_and(|f| f.starts_with(directory.join("tmp")))
            }),
            schedulers: loop_devices(|device| {
                let scheduler = std::fs::read_to_string(device.join("queue/scheduler"));
                backing_file(device).is_none() && scheduler.is_ok_and(|s| s.contains("[mq-deadline]"))
            }),
            bound: bound.map(BoundDisk::scheduler),
            mounts: kernel
                .read_text(Path::new("/proc/self/mountinfo"))
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect(),
            devices: kernel.list_dir(Path::new("/sys/class/net")).unwrap_or_default().into_iter().collect(),
            handlers: handlers(&kernel),
            leaked: account.unwrap().map_or(deadline::KernelBandwidth(0), |a| a.leaked()),
        }
    }
}

/// A loop device of somebody else that runs are told to use.
struct BoundDisk(String);

impl BoundDisk {
    fn attach(directory: &Path) -> Option<BoundDisk> {
        let backing = directory.join("bound");
        std::fs::File::create(&backing).unwrap().set_len(64 << 20).unwrap();
        let attached = Command::new("losetup").args(["-f", "--show"]).arg(&backing).output();
        let attached = attached.ok().filter(|output| output.status.success())?;
        let disk = BoundDisk(String::from_utf8_lossy(&attached.stdout).trim().to_owned());
        // Whoever had the device before may have left it with the one that the runs ask for.
        std::fs::write(disk.scheduler_file(), "none").unwrap();
        Some(disk)
    }

    fn scheduler_file(&self) -> String {
        format!("/sys/block/{}/queue/scheduler", self.0.trim_start_matches("/dev/"))
    }

    fn scheduler(&self) -> String {
        std::fs::read_to_string(self.scheduler_file()).unwrap()
    }
}

impl Drop for BoundDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// Threads that serve the queue of a virtual cable: they are there as long as its device is.
fn handlers(kernel: &RealKernel) -> BTreeSet<Tid> {
    let prefix = format!("napi/{}-", surety_kernel::net::DEVICE);
    let serves = |tid: &Tid| {
        kernel.name(*tid).is_ok_and(|name| name.starts_with(&prefix)) && kernel.is_kernel_thread(*tid)
    };
    kernel.processes().unwrap().into_iter().filter(serves).collect()
}

/// Looks until `is_enough`, for some seconds at most, and returns the last look: a busy machine takes its time.
fn look_until(seconds: u32, look: impl Fn() -> Machine, is_enough: impl Fn(&Machine) -> bool) -> Machine {
    for _ in 0..10 * seconds {
        let machine = look();
        if is_enough(&machine) {
            return machine;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    look()
}

impl Machine {
    /// What the kernel takes back in threads and timers of its own, after the last user is gone, is as it was: namespaces, loop devices, bandwidth
    /// of threads up to their zero-lag time.
    fn has_settled(&self, before: &Machine) -> bool {
        self.handlers.is_subset(&before.handlers)
            && self.loops.is_subset(&before.loops)
            && self.leaked <= before.leaked
    }

    /// All that a run of `workload` on this machine changes is changed.
    fn is_in_use(&self, before: &Machine) -> bool {
        let asked = network_and_disk();
        self.victim != before.victim
            && self.instances != before.instances
            && self.marked != before.marked
            && (self.groups != before.groups || !Path::new("/sys/fs/cgroup/pids").exists())
            && (self.cpu_groups != before.cpu_groups || !groups().contains("[[group]]"))
            && self.files != before.files
            && (self.loops != before.loops || !asked.contains("disk.d"))
            && (self.bound != before.bound || before.bound.is_none())
            && (self.handlers != before.handlers || !asked.contains("[[irq]]"))
    }
}

/// The loop devices of the machine that are meant.
fn loop_devices(is_meant: impl Fn(&Path) -> bool) -> BTreeSet<String> {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|entry| entry.path());
    let loops = devices.filter(|path| path.to_string_lossy().contains("/loop"));
    loops.filter(|path| is_meant(path)).map(|path| path.display().to_string()).collect()
}

/// The file a loop device is on.
fn backing_file(device: &Path) -> Option<std::path::PathBuf> {
    let text = std::fs::read_to_string(device.join("loop/backing_file")).ok()?;
    Some(text.trim().into())
}

/// Processes started by runs of this test: they carry its directory in their environment.
fn marked_processes(kernel: &RealKernel, directory: &Path) -> BTreeSet<Tid> {
    let mark = format!("SURETY_RUNTIME_DIR={}", directory.join("run").display());
    let carries = |pid: &Tid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|v| v == mark.as_bytes())
    };
    kernel.processes().unwrap().into_iter().filter(carries).collect()
}

fn files_in(directory: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in ["run", "tmp"] {
        for entry in std::fs::read_dir(directory.join(name)).into_iter().flatten().flatten() {
            found.insert(entry.path().display().to_string());
        }
    }
    found
}

/// Somebody else's thread with a policy and an affinity of its own.
struct Victim(Child);

impl Victim {
    fn new() -> Victim {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let kernel = RealKernel::new();
        let tid = Tid(i32::try_from(child.id()).unwrap());
        let nice = surety_kernel::SchedPolicy::Other { nice: 7, slice: None };
        surety_kernel::transition::set_once(&kernel, tid, &SchedAttr::from(nice)).unwrap();
        kernel.set_affinity(tid, &CpuSet::single(CpuId(0))).unwrap();
        Victim(child)
    }

    fn tid(&self) -> Tid {
        Tid(i32::try_from(self.0.id()).unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run that changes everything a run can change.
fn workload(victim: Tid, command: &str, directory: &Path, bound: Option<&BoundDisk>) -> String {
    let grouped = if groups().is_empty() { "" } else { "group = \"in\"\n" };
    format!(
        "format = 1\n\
         [[task]]\nname = \"victim\"\nmatch = {{ pid = {victim} }}\n\
         reservation = {{ runtime = \"1ms\", period = \"50ms\" }}\n\
         [[task]]\nname = \"own\"\nperiod = \"10ms\"\nwork = \"1ms\"\n\
         reservation = {{ runtime = \"2ms\", period = \"10ms\" }}\n\
         [[task]]\nname = \"program\"\ncommand = \"sh -c '{command}'\"\n{grouped}\
         [[load]]\nname = \"busy\"\nkind = \"spinners\"\ncount = 2\n{grouped}\
         [[load]]\nname = \"readers\"\nkind = \"readers\"\nsize = \"1MiB\"\n\
         [[load]]\nname = \"forks\"\nkind = \"forks\"\n\
         [[load]]\nname = \"messages\"\nkind = \"messages\"\n\
         [[load]]\nname = \"kin\"\nkind = \"command\"\ncommand = \"sh -c 'sleep 400 & sleep 0.2'\"\n\
         [[load]]\nname = \"copy\"\nkind = \"file-copy\"\nsize = \"1MiB\"\n\
         [[load]]\nname = \"timers\"\nkind = \"timers\"\n{}{}{}",
        groups(),
        network_and_disk(),
        bound.map_or_else(String::new, |_| on_bound(directory))
    )
}

/// Control groups, one in the other, where there are any.
fn groups() -> String {
    if CpuHierarchy::find(&RealKernel::new()).is_none() {
        eprintln!("SKIPPED the control groups: none with the `cpu` controller are mounted");
        return String::new();
    }
    "[[group]]\nname = \"around\"\nquota = \"40ms\"\n[[group]]\nname = \"in\"\nparent = \"around\"\nweight = 20\n".to_owned()
}

/// A recorded start on the disk of somebody else, by real-time threads, beside readers there.
fn on_bound(directory: &Path) -> String {
    let recording = directory.join("start.trace");
    let line = |i: usize| format!("p-{} .002 8 {} Rand 0 0 R 0 C\n", i % 4, 1000 + i * 8 % 800);
    std::fs::write(&recording, (0..300).map(line).collect::<String>()).unwrap();
    format!(
        "[disk.e]\nscheduler = \"mq-deadline\"\n\
         [[load]]\nname = \"there\"\nkind = \"readers\"\ndisk = \"e\"\nsize = \"1MiB\"\n\
         [[startup]]\nname = \"replay\"\ndisk = \"e\"\nrepeat = 2\ngap = \"20ms\"\nreplay = {recording:?}\n"
    )
}

/// What needs more of the kernel than the rest, where it is there.
fn network_and_disk() -> String {
    let mut text = String::new();
    if surety_kernel::net::Cable::new().is_ok() {
        text += "[[load]]\nname = \"ping\"\nkind = \"ping-flood\"\n\
                 [[load]]\nname = \"udp\"\nkind = \"udp-sender\"\nrate = \"8Mbit/s\"\n";
    } else {
        eprintln!("SKIPPED the network: there are no namespaces or no veth");
    }
    if ThreadedCable::new(&RealKernel::new()).is_ok() {
        text += "[[irq]]\nname = \"net\"\ndevice = \"eth\"\narrivals = { kind = \"sporadic\", gap = \"20us\" }\n\
                 work = \"3us\"\nreservation = { runtime = \"1ms\", period = \"20ms\" }\n";
    } else {
        eprintln!("SKIPPED the network's thread: the kernel does not say which thread serves a device");
    }
    let has_maker = Command::new("mkfs.ext4").arg("-V").stderr(Stdio::null()).status().is_ok();
    if has_maker && Path::new("/dev/loop-control").exists() {
        text += "[disk.d]\nmake = \"24MiB\"\nscheduler = \"mq-deadline\"\ndepth = 4\n\
                 tunables = { prio_aging_expire = 3600000 }\n\
                 [[stream]]\nname = \"planned\"\nfile = { make = \"1MB\" }\nrate = \"200kB/s\"\ndisk = \"d\"\n\
                 batch = \"64KiB\"\nbound = \"1s\"\n\
                 [[load]]\nname = \"writers\"\nkind = \"writers\"\ndisk = \"d\"\nsize = \"1MiB\"\n\
                 [[stream]]\nname = \"film\"\nfile = { make = \"1MB\" }\nrate = \"200kB/s\"\ndisk = \"d\"\n\
                 [[startup]]\nname = \"start\"\ndisk = \"d\"\ncold = true\nrepeat = 3\ngap = \"20ms\"\n\
                 prepare = \"cp -L /bin/sh sh\"\nready = \"stdout:up\"\n\
                 command = \"./sh -c 'sleep 600 & echo up; wait'\"\n";
    } else {
        eprintln!("SKIPPED the disk: there are no loop devices or no mkfs.ext4");
    }
    text
}

/// Numbers of the runs started so far.
fn started() -> MutexGuard<'static, Vec<u32>> {
    static STARTED: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(directory: &Path, arguments: &[&str]) -> Child {
    let child = Command::new(program())
        .args(arguments)
        .env("SURETY_RUNTIME_DIR", directory.join("run"))
        .env("TMPDIR", directory.join("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    started().push(child.id());
    child
}

fn signal(child: &Child, signal: i32) {
    let kernel = RealKernel::new();
    let process = kernel.identity(Tid(i32::try_from(child.id()).unwrap())).unwrap();
    kernel.signal(process, signal).unwrap();
}

#[test]
fn after_success_error_ctrl_c_and_kill_at_any_moment() {
    if !is_root() {
        eprintln!("SKIPPED: only root may change others' threads");
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for name in ["run", "tmp"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    let victim = Victim::new();
    // Made once: a disk of somebody else keeps the file system it gets.
    let has_disk = network_and_disk().contains("disk.d");
    let bound = has_disk.then(|| BoundDisk::attach(directory.path())).flatten();
    let look = || Machine::look(victim.tid(), directory.path(), bound.as_ref());
    let binding = bound.as_ref().map(|bound| format!("e={}", bound.0));
    let run = |path: &Path, time: &str| {
        let mut arguments = vec!["run", path.to_str().unwrap(), "--for", time];
        arguments.extend(binding.iter().flat_map(|binding| ["--disk", binding.as_str()]));
        start(directory.path(), &arguments)
    };
    // What the test before this one made is taken apart, and what it reserved is booked until its zero-lag time.
    let before = look_until(10, look, |now| now.handlers.is_empty() && now.leaked.0 == 0);
    let (good, bad) = (directory.path().join("good.toml"), directory.path().join("bad.toml"));
    std::fs::write(
        &good,
        workload(victim.tid(), "sleep 500 & while :; do :; done", directory.path(), bound.as_ref()),
    )
    .unwrap();
    std::fs::write(
        &bad,
        workload(victim.tid(), "sleep 500 & sleep 0.5; exit 9", directory.path(), bound.as_ref()),
    )
    .unwrap();
    let compare = |what: &str| {
        assert_eq!(look_until(10, look, |now| now.has_settled(&before)), before, "after {what}");
    };

    let output = run(&good, "1s").wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    compare("success");

    let output = run(&bad, "30s").wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    compare("an error");

    // The comparison can fail: while a run lasts the machine is not as before.
    let child = run(&good, "30s");
    let meanwhile = look_until(30, look, |now| now.is_in_use(&before));
    signal(&child, 2);
    let ended = child.wait_with_output().unwrap();
    assert!(meanwhile.is_in_use(&before), "a run changed no more than {meanwhile:#?} of {before:#?}");
    assert_eq!(ended.status.code(), Some(130), "{}", errors(&ended));
    compare("Ctrl-C in the middle of a run");

    let seed = u64::from(std::process::id());
    let mut chance = Pcg::for_job(seed, 0, 0);
    for trial in 0..3 {
        let delay = Duration::from_millis(20 + chance.below(2500));
        let child = run(&good, "30s");
        std::thread::sleep(delay);
        signal(&child, 2);
        let output = child.wait_with_output().unwrap();
        let code = output.status.code();
        // Before the handler is installed the signal ends the program at once, and nothing was changed yet.
        assert!(
            code == Some(130) || code.is_none(),
            "Ctrl-C after {delay:?} ended in {code:?}: {}",
            errors(&output)
        );
        compare(&format!("Ctrl-C number {trial} after {delay:?} (seed {seed})"));
    }

    for trial in 0..6 {
        let delay = Duration::from_millis(20 + chance.below(2500));
        let child = run(&good, "30s");
        std::thread::sleep(delay);
        signal(&child, 9);
        child.wait_with_output().unwrap();
        let mended = start(directory.path(), &["doctor"]).wait_with_output().unwrap();
        assert_eq!(mended.status.code(), Some(0), "{}", errors(&mended));
        compare(&format!("kill -9 number {trial} after {delay:?} and the next start (seed {seed})"));
    }
}
