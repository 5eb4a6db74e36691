//! `surety top`: what it says of threads is what the kernel counts, and a replay says what was recorded.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use surety_kernel::schedstat::Schedstat;
use surety_kernel::{Kernel, RealKernel, clock, thread};
use surety_model::top::{Counters, Snapshot, ThreadNow};
use surety_units::{Nanos, Tid};

use crate::common::{beside_guests, errors, program, surety, surety_as_nobody, text};
use crate::schemas::keeps_to_its_schema;

fn counted(kernel: &RealKernel) -> Schedstat {
    Schedstat::read(kernel, kernel.own_pid(), thread::own_tid()).unwrap()
}

/// What intervals say of a thread, summed.
fn sum<'a>(threads: impl Iterator<Item = &'a ThreadNow>) -> Counters {
    threads.fold(Counters::default(), |sum, t| Counters {
        run: sum.run + t.run,
        waited: sum.waited + t.waited,
        switches: sum.switches + t.switches,
    })
}

fn since_1970() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// This thread burns CPU time between two readings of its own: the intervals from the one that is under way then until one that began
/// after the second hold at least that much, and all intervals together no more than the thread got while the program ran.
#[test]
fn documents_agree_with_schedstat() {
    let _shared = beside_guests();
    let (kernel, tid) = (RealKernel::new(), thread::own_tid());
    let before_all = counted(&kernel);
    let mut child = Command::new(program())
        .args(["top", "--json", "--no-trace", "--interval", "100ms", "--filter", &tid.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Snapshot>(&lines.next().unwrap().unwrap()).unwrap();
    let mut seen = vec![next()];
    let first = seen.len();
    let before = counted(&kernel);
    clock::spin_cpu_time(Nanos::from_millis(40));
    let after = counted(&kernel);
    let (end, mut later) = (since_1970(), 0);
    // One whose reading may have begun before, and one whose has not.
    while later < 2 {
        seen.push(next());
        later += usize::from(seen.last().unwrap().unix_ns > end);
    }
    let after_all = counted(&kernel);
    child.kill().unwrap();
    child.wait().unwrap();
    let is_own = |t: &&ThreadNow| t.tid == tid;
    let of = |part: &[Snapshot]| sum(part.iter().flat_map(|snapshot| snapshot.threads.iter()).filter(is_own));
    let (burnt, all) = (of(&seen[first..]), of(&seen));
    assert!(burnt.run >= after.run - before.run, "{burnt:?} of {before:?} to {after:?}");
    assert!(burnt.switches >= after.timeslices - before.timeslices, "{burnt:?}");
    assert!(all.run <= after_all.run - before_all.run, "{all:?} of {before_all:?} to {after_all:?}");
    assert!(all.waited <= after_all.waited - before_all.waited, "{all:?}");
    assert!(all.switches <= after_all.timeslices - before_all.timeslices, "{all:?}");
    assert!(seen.iter().all(|snapshot| !snapshot.is_traced && snapshot.missing.is_empty()));
}

#[test]
fn a_replay_says_what_was_recorded() {
    let room = tempfile::tempdir().unwrap();
    let file = room.path().join("top.jsonl");
    let path = file.to_str().unwrap();
    let two = ["--count", "2", "--interval", "100ms"];
    let recorded = surety(&[&["top", "--no-trace", "--json", "--record", path][..], &two].concat());
    assert!(recorded.status.success(), "{}", errors(&recorded));
    let lines = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text(&recorded), lines);
    assert_eq!(lines.lines().count(), 2);
    for line in lines.lines() {
        assert_eq!(keeps_to_its_schema(&["top"], line), "surety.top/1");
    }
    assert_eq!(text(&surety(&["top", "--replay", path, "--json"])), lines);
    let tables = surety(&["top", "--replay", path, "--width", "80", "--sort", "pid"]);
    let snapshots: Vec<Snapshot> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for thread in snapshots.iter().flat_map(|snapshot| &snapshot.threads) {
        let id = format!("{:>7} ", thread.tid.to_string());
        assert!(text(&tables).lines().any(|line| line.starts_with(&id)), "{id} of {}", text(&tables));
    }
    assert!(text(&tables).lines().all(|line| line.chars().count() <= 80), "{}", text(&tables));
    std::fs::write(&file, format!("{lines}{{\"schema\": 1}}\n")).unwrap();
    let refused = surety(&["top", "--replay", path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("line 3"), "{}", errors(&refused));
}

#[test]
fn an_ordinary_user_sees_less_and_is_told_what() {
    let room = tempfile::tempdir().unwrap();
    let arguments = ["top", "--count", "1", "--interval", "100ms", "--width", "80"];
    let Some(output) = surety_as_nobody(room.path(), &arguments) else {
        eprintln!("SKIPPED: no ordinary user to run as");
        return;
    };
    let said = text(&output);
    assert!(output.status.success(), "{}", errors(&output));
    if !said.contains("RAN INSTEAD") {
        assert!(said.contains("missing: ") && said.contains("sudo surety top"), "{said}");
    }
    assert!(said.contains("WAITms") && said.contains("CPU 0"), "{said}");
}

/// Two threads on one CPU: each waits while another has it.
#[test]
fn who_runs_instead_is_traced() {
    let _shared = beside_guests();
    let kernel = RealKernel::new();
    let stop = AtomicBool::new(false);
    let cpu = kernel.affinity(Tid(0)).unwrap().iter().next().unwrap();
    let cpus = [cpu].into_iter().collect();
    let (tell, told) = std::sync::mpsc::channel();
    let (tids, output) = std::thread::scope(|scope| {
        for _ in 0..2 {
            let (kernel, stop, tell) = (&kernel, &stop, tell.clone());
            scope.spawn(move || {
                kernel.set_affinity(Tid(0), &cpus).unwrap();
                tell.send(thread::own_tid()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    clock::spin_cpu_time(Nanos::MILLISECOND);
                }
            });
        }
        let tids: Vec<Tid> = (0..2).map(|_| told.recv().unwrap()).collect();
        let output = surety(&["top", "--json", "--count", "2", "--interval", "300ms"]);
        stop.store(true, Ordering::Relaxed);
        (tids, output)
    });
    let snapshots: Vec<Snapshot> =
        text(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(snapshots.len(), 2, "{}", errors(&output));
    if !snapshots[0].is_traced {
        eprintln!("SKIPPED: {}", snapshots[0].missing.join("; "));
        return;
    }
    let threads = snapshots.iter().flat_map(|snapshot| &snapshot.threads);
    for tid in &tids {
        let traced: Vec<_> =
            threads.clone().filter(|t| t.tid == *tid).filter_map(|t| t.traced.as_ref()).collect();
        let instead = traced.iter().flat_map(|traced| &traced.instead);
        assert!(traced.iter().any(|traced| traced.wait_max.is_positive()), "{traced:?}");
        assert!(instead.clone().count() > 0 && instead.clone().all(|other| other.tid != *tid), "{traced:?}");
        // From the second on, what is traced is of a stretch of exactly the interval's length.
        let last = snapshots.last().unwrap();
        let own = last.threads.iter().find(|t| t.tid == *tid).and_then(|t| t.traced.as_ref());
        let time: i64 = own.iter().flat_map(|traced| &traced.instead).map(|other| other.time.get()).sum();
        assert!(time <= last.interval.get(), "{own:?}");
    }
}
