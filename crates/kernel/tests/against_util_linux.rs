//! Differential tests: what this crate sets, `chrt` and `taskset` read, and the other way round.

use std::process::Command;

use surety_kernel::command::{ChildSetup, Spawned, spawn};
use surety_kernel::{Kernel, RealKernel, SchedAttr, SchedPolicy};
use surety_units::{CpuSet, Nanos};

/// A process that sleeps, ended when the test ends.
fn sleeper() -> Spawned {
    let mut command = surety_kernel::command::Command::new("sleep");
    command.arg("60");
    spawn(&mut command, &ChildSetup::default()).expect("sleep can be started")
}

/// A program's standard output; `None`, loudly, when it is not there or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            eprintln!("SKIPPED: {program}: {}", String::from_utf8_lossy(&output.stderr));
            None
        }
        Err(error) => {
            eprintln!("SKIPPED: {program}: {error}");
            None
        }
    }
}

fn ms(count: i64) -> Nanos {
    Nanos::from_millis(count)
}

#[test]
fn chrt_reads_what_we_set() {
    let kernel = RealKernel::new();
    let child = sleeper();
    let pid = child.pid().to_string();
    let reclaim = SchedPolicy::Deadline {
        runtime: ms(1),
        deadline: ms(50),
        period: ms(100),
        reclaim: true,
        overrun_signal: true,
    };
    let cases = [
        (SchedPolicy::Fifo { priority: 7 }, vec!["SCHED_FIFO", "priority: 7"]),
        (SchedPolicy::RoundRobin { priority: 99 }, vec!["SCHED_RR", "priority: 99"]),
        (SchedPolicy::deadline(ms(1), ms(50), ms(100)), vec!["SCHED_DEADLINE", "1000000/50000000/100000000"]),
        (reclaim, vec!["SCHED_DEADLINE", "1000000/50000000/100000000"]),
        (SchedPolicy::Batch { nice: 3 }, vec!["SCHED_BATCH"]),
        (SchedPolicy::Idle, vec!["SCHED_IDLE"]),
        (SchedPolicy::Other { nice: 4, slice: Some(ms(3)) }, vec!["SCHED_OTHER"]),
        (SchedPolicy::DEFAULT, vec!["SCHED_OTHER", "priority: 0"]),
    ];
    for (policy, expected) in cases {
        for reset_on_fork in [false, true] {
            let attr = SchedAttr { reset_on_fork, ..policy.into() };
            match surety_kernel::transition::set_once(&kernel, child.pid(), &attr) {
                Err(error) if error.is_refused() => {
                    eprintln!("SKIPPED: {error}");
                    continue;
                }
                result => result.unwrap(),
            }
            let read = kernel.scheduler(child.pid()).unwrap();
            match (policy, read.policy) {
                // Kernels before 6.12 have no slices.
                (
                    SchedPolicy::Other { nice, slice: Some(_) },
                    SchedPolicy::Other { nice: now, slice: None },
                ) => {
                    assert_eq!(nice, now);
                }
                _ => assert_eq!(read, attr),
            }
            let Some(text) = output("chrt", &["-p", &pid]) else { return };
            for part in &expected {
                assert!(text.contains(part), "{policy:?}: {text}");
            }
            assert_eq!(text.contains("SCHED_RESET_ON_FORK"), reset_on_fork, "{text}");
        }
    }
}

#[test]
fn we_read_what_chrt_set() {
    let kernel = RealKernel::new();
    let child = sleeper();
    let pid = child.pid().to_string();
    let deadline =
        ["-d", "-T", "2000000", "-D", "20000000", "-P", "40000000", "-p", "0", pid.as_str()].to_vec();
    let cases = [
        (vec!["-f", "-p", "5", &pid], SchedPolicy::Fifo { priority: 5 }),
        (vec!["-r", "-p", "6", &pid], SchedPolicy::RoundRobin { priority: 6 }),
        (deadline, SchedPolicy::deadline(ms(2), ms(20), ms(40))),
        (vec!["-b", "-p", "0", &pid], SchedPolicy::Batch { nice: 0 }),
        (vec!["-i", "-p", "0", &pid], SchedPolicy::Idle),
        (vec!["-o", "-p", "0", &pid], SchedPolicy::DEFAULT),
    ];
    for (arguments, expected) in cases {
        // chrt leaves SCHED_DEADLINE carelessly: leave it ourselves first, so that this test leaks nothing.
        if kernel.scheduler(child.pid()).unwrap().policy.is_deadline() {
            surety_kernel::transition::set_once(&kernel, child.pid(), &SchedPolicy::DEFAULT.into()).unwrap();
        }
        if output("chrt", &arguments).is_none() {
            continue;
        }
        assert_eq!(kernel.scheduler(child.pid()).unwrap().policy, expected, "{arguments:?}");
    }
}

#[test]
fn affinity_is_the_same_to_taskset() {
    let kernel = RealKernel::new();
    let child = sleeper();
    let pid = child.pid().to_string();
    let all = kernel.affinity(child.pid()).unwrap();
    for cpu in all.iter() {
        let one = CpuSet::single(cpu);
        kernel.set_affinity(child.pid(), &one).unwrap();
        let Some(text) = output("taskset", &["-cp", &pid]) else { return };
        assert!(text.trim_end().ends_with(&format!("list: {cpu}")), "{text}");
    }
    output("taskset", &["-cp", &all.to_string(), &pid]);
    assert_eq!(kernel.affinity(child.pid()), Ok(all));
}

#[test]
fn refusals_are_the_kernels_own() {
    let kernel = RealKernel::new();
    let mut child = sleeper();
    let too_short = SchedPolicy::deadline(Nanos::new(1023), ms(1), ms(1));
    assert_eq!(
        surety_kernel::transition::set_once(&kernel, child.pid(), &too_short.into()).unwrap_err().errno,
        libc::EINVAL
    );
    let all = kernel.online_cpus().unwrap();
    if all.len() > 1 && kernel.affinity(child.pid()) == Ok(all) {
        kernel.set_affinity(child.pid(), &CpuSet::single(all.lowest().unwrap())).unwrap();
        let small = SchedPolicy::deadline(Nanos::new(1024), ms(100), ms(100));
        let error = surety_kernel::transition::set_once(&kernel, child.pid(), &small.into()).unwrap_err();
        assert_eq!(error.errno, libc::EPERM);
        assert!(error.to_string().contains("root domain"));
    }
    let identity = child.identity();
    assert!(kernel.is_alive(identity));
    child.end().unwrap();
    assert!(!kernel.is_alive(identity));
    assert_eq!(kernel.scheduler(identity.pid).unwrap_err().errno, libc::ESRCH);
    assert_eq!(kernel.identity(identity.pid).unwrap_err().errno, libc::ESRCH);
    assert_eq!(kernel.signal(identity, libc::SIGTERM), Ok(false));
}
