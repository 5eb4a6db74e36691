//! What `kill -9` leaves behind is undone at the next start: on the real kernel, with a real death.
//!
//! This program starts itself as the victim, which changes things under its journal and waits to be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use surety_kernel::command::{ChildSetup, Command, Stream, spawn};
use surety_kernel::journal::{Entry, Journal, Recovered, RuntimeDir, Undone, recover_dead};
use surety_kernel::tracefs::Tracefs;
use surety_kernel::{Kernel, RealKernel, SchedAttr, SchedPolicy};
use surety_units::{CpuSet, Nanos, Tid};

const DIRECTORY: &str = "SURETY_TEST_DIRECTORY";
const SUBJECT: &str = "SURETY_TEST_SUBJECT";

fn instance_name(victim: Tid) -> String {
    format!("surety-kill-{victim}")
}

/// Not a test by itself: what the victim does. Without its environment it has nothing to do.
#[test]
fn victim() {
    let (Some(directory), Ok(subject)) = (std::env::var_os(DIRECTORY), std::env::var(SUBJECT)) else {
        return;
    };
    let kernel = RealKernel::new();
    let subject = Tid(subject.parse().unwrap());
    let directory = RuntimeDir::at(Path::new(&directory)).unwrap();
    let journal = Journal::open(&kernel, &directory).unwrap();
    let one = CpuSet::single(kernel.affinity(subject).unwrap().lowest().unwrap());
    let privileged = kernel.effective_user() == 0;
    if privileged {
        let reservation =
            SchedPolicy::deadline(Nanos::from_millis(1), Nanos::from_millis(100), Nanos::from_millis(100));
        journal.set_scheduler(&kernel, subject, reservation.into()).unwrap();
    } else {
        journal.set_affinity(&kernel, subject, one).unwrap();
        journal.set_scheduler(&kernel, subject, SchedPolicy::Batch { nice: 0 }.into()).unwrap();
    }
    let mut instance = None;
    if let Ok(tracefs) = Tracefs::open() {
        let name = instance_name(kernel.own_pid());
        journal.record(Entry::TraceInstance { name: name.clone() }).unwrap();
        instance = Some(tracefs.create_instance(&name).unwrap());
    }
    // A grandchild that the parent-death signal does not reach.
    let (_, mark) = journal.mark_children(&kernel).unwrap();
    let is_grouped = journal.group_children(&kernel, &mark).is_some();
    let mut command = Command::new("sh");
    // One carries the mark; the other is in a session of its own, without an environment: only the group knows it.
    let script = "sleep 1000 & a=$!; env -i setsid sleep 1000 & b=$!; sleep 0.1; echo $a $b; wait";
    command.args(["-c", script]).stdout(Stream::Pipe);
    let mut child = spawn(&mut command, &ChildSetup { mark: Some(mark), ..ChildSetup::default() }).unwrap();
    let mut line = String::new();
    BufReader::new(child.take_stdout().unwrap()).read_line(&mut line).unwrap();
    eprintln!("READY {} {is_grouped} {}", line.trim(), instance.is_some());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_owner_is_cleaned_up_after() {
    let kernel = RealKernel::new();
    let base = tempfile::tempdir().unwrap();
    let path: PathBuf = base.path().join("run");
    let mut sleep = Command::new("sleep");
    sleep.arg("60");
    let subject = spawn(&mut sleep, &ChildSetup::default()).unwrap();
    let before: (SchedAttr, CpuSet) =
        (kernel.scheduler(subject.pid()).unwrap(), kernel.affinity(subject.pid()).unwrap());

    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "victim", "--nocapture"]).env(DIRECTORY, &path);
    victim.env(SUBJECT, subject.pid().to_string()).stdout(Stream::Null).stderr(Stream::Pipe);
    let mut victim = spawn(&mut victim, &ChildSetup::default()).unwrap();
    let lines = BufReader::new(victim.take_stderr().unwrap()).lines();
    let ready =
        lines.map(|line| line.unwrap()).find(|line| line.starts_with("READY")).expect("the victim works");
    let mut words = ready.split(' ').skip(1);
    let mut identity = || kernel.identity(Tid(words.next().unwrap().parse().unwrap())).unwrap();
    let (grandchild, hidden) = (identity(), identity());
    let grouped = words.next() == Some("true");
    let traced = words.next() == Some("true");
    let directory = RuntimeDir::at(&path).unwrap();

    assert_ne!(kernel.scheduler(subject.pid()).unwrap(), before.0, "the victim changed it");
    assert!(recover_dead(&kernel, &directory).unwrap().is_empty(), "the owner lives");
    victim.signal(libc::SIGKILL).unwrap();
    let name = instance_name(victim.pid());
    victim.end().unwrap();
    assert!(kernel.is_alive(grandchild), "nothing but recovery ends it");

    let recovered = recover_dead(&kernel, &directory).unwrap();
    for one in &recovered {
        let by_group = |entry: &Entry| grouped && matches!(entry, Entry::Marked { .. });
        let restored = match one {
            // Whoever carried the mark was in the group, which is newer and ended first.
            Recovered::Entry { entry, result: Ok(Undone::AsBefore), .. } => by_group(entry),
            Recovered::Entry { result: Ok(Undone::Restored), .. } => true,
            _ => false,
        };
        assert!(restored, "{one:?}");
    }
    assert!(recovered.len() >= 2, "{recovered:?}");
    assert_eq!(kernel.scheduler(subject.pid()).unwrap(), before.0);
    assert_eq!(kernel.affinity(subject.pid()).unwrap(), before.1);
    assert!(!kernel.is_alive(grandchild));
    if grouped {
        assert!(!kernel.is_alive(hidden), "nobody hides from the group");
    } else {
        eprintln!("SKIPPED the group: there is no place for one, or this user may not make any");
        let _ = kernel.signal(hidden, libc::SIGKILL);
    }
    match (traced, Tracefs::open()) {
        (true, Ok(tracefs)) => assert!(!tracefs.instances().unwrap().contains(&name)),
        _ => eprintln!("SKIPPED the trace instance: tracefs is out of reach"),
    }
    assert!(recover_dead(&kernel, &directory).unwrap().is_empty(), "all done");
}
