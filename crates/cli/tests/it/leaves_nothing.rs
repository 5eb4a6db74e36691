//! The machine before and after: whatever way a run ends, nothing of it stays.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use surety_kernel::facts::MachineFacts;
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
    marked: BTreeSet<Tid>,
    files: BTreeSet<String>,
    /// Deadline bandwidth booked for nobody.
    leaked: deadline::KernelBandwidth,
}

impl Machine {
    /// Looks at everything; `victim` is a thread of somebody else, `directory` where runs keep their files.
    fn look(victim: Tid, directory: &Path) -> Machine {
        let kernel = RealKernel::new();
        // Another run of the program on this machine is not ours to judge.
        let names = |list: Vec<String>| -> BTreeSet<String> {
            let ours =
                |name: &String| started().iter().any(|pid| name.starts_with(&format!("surety-{pid}-")));
            list.into_iter().filter(ours).collect()
        };
        // Read once, before anything is judged: reading the limits already mends a leak.
        static SERVERS: OnceLock<u64> = OnceLock::new();
        let servers = *SERVERS.get_or_init(|| MachineFacts::read(&kernel).scheduler.deadline_servers);
        let account = deadline::account(&kernel, servers);
        Machine {
            victim: (kernel.scheduler(victim).unwrap(), kernel.affinity(victim).unwrap()),
            instances: names(Tracefs::open().and_then(|t| t.instances()).unwrap_or_default()),
            cpusets: names(kernel.list_dir(Path::new("/sys/fs/cgroup/cpuset")).unwrap_or_default()),
            marked: marked_processes(&kernel, directory),
            files: files_in(directory),
            leaked: account.unwrap().map_or(deadline::KernelBandwidth(0), |a| a.leaked()),
        }
    }
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
        kernel.set_scheduler(tid, &SchedAttr::from(nice)).unwrap();
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
fn workload(victim: Tid, command: &str) -> String {
    format!(
        "format = 1\n\
         [[task]]\nname = \"victim\"\nmatch = {{ pid = {victim} }}\n\
         reservation = {{ runtime = \"1ms\", period = \"50ms\" }}\n\
         [[task]]\nname = \"own\"\nperiod = \"10ms\"\nwork = \"1ms\"\n\
         reservation = {{ runtime = \"2ms\", period = \"10ms\" }}\n\
         [[task]]\nname = \"program\"\ncommand = \"sh -c '{command}'\"\n\
         [[load]]\nname = \"busy\"\nkind = \"spinners\"\ncount = 2\n\
         [[load]]\nname = \"readers\"\nkind = \"readers\"\nsize = \"1MiB\"\n"
    )
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
    let before = Machine::look(victim.tid(), directory.path());
    let (good, bad) = (directory.path().join("good.toml"), directory.path().join("bad.toml"));
    std::fs::write(&good, workload(victim.tid(), "sleep 500 & while :; do :; done")).unwrap();
    std::fs::write(&bad, workload(victim.tid(), "sleep 500 & sleep 0.5; exit 9")).unwrap();
    let compare =
        |what: &str| assert_eq!(Machine::look(victim.tid(), directory.path()), before, "after {what}");

    let output =
        start(directory.path(), &["run", good.to_str().unwrap(), "--for", "1s"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    compare("success");

    let output =
        start(directory.path(), &["run", bad.to_str().unwrap(), "--for", "30s"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    compare("an error");

    // The comparison can fail: while a run lasts the machine is not as before.
    let child = start(directory.path(), &["run", good.to_str().unwrap(), "--for", "30s"]);
    std::thread::sleep(Duration::from_millis(1500));
    let meanwhile = Machine::look(victim.tid(), directory.path());
    signal(&child, 2);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_ne!(meanwhile.victim, before.victim);
    assert_ne!(meanwhile.instances, before.instances);
    assert_ne!(meanwhile.marked, before.marked);
    assert_ne!(meanwhile.files, before.files);
    compare("Ctrl-C in the middle of a run");

    let seed = u64::from(std::process::id());
    let mut chance = Pcg::for_job(seed, 0, 0);
    for trial in 0..3 {
        let delay = Duration::from_millis(20 + chance.below(1500));
        let child = start(directory.path(), &["run", good.to_str().unwrap(), "--for", "30s"]);
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
        let delay = Duration::from_millis(20 + chance.below(1500));
        let child = start(directory.path(), &["run", good.to_str().unwrap(), "--for", "30s"]);
        std::thread::sleep(delay);
        signal(&child, 9);
        child.wait_with_output().unwrap();
        let mended = start(directory.path(), &["doctor"]).wait_with_output().unwrap();
        assert_eq!(mended.status.code(), Some(0), "{}", errors(&mended));
        compare(&format!("kill -9 number {trial} after {delay:?} and the next start (seed {seed})"));
    }
}
