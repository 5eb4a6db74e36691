//! A root domain is made of cpusets of version 1, and the machine is as it was afterwards, whatever call fails and wherever we die.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_enforce::{DomainError, OwnDomain};
use surety_kernel::ScriptedKernel;
use surety_kernel::journal::{Journal, RuntimeDir, recover_dead};
use surety_kernel::root_domains::RootDomains;
use surety_units::{CpuId, CpuSet};

const TOP: &str = "/sys/fs/cgroup/cpuset";

fn machine() -> ScriptedKernel {
    let kernel = ScriptedKernel::new(2);
    kernel.add_file("/proc/self/mounts", &format!("cgroup {TOP} cgroup rw,relatime,cpuset 0 0\n"));
    for (file, text) in [
        ("release_agent", ""),
        ("tasks", ""),
        ("cpuset.mems", "0\n"),
        ("cpuset.cpus", "0-1"),
        ("cpuset.sched_load_balance", "1"),
    ] {
        kernel.add_file(format!("{TOP}/{file}"), text);
    }
    let files = [("tasks", ""), ("cpuset.mems", ""), ("cpuset.cpus", ""), ("cpuset.sched_load_balance", "1")];
    kernel.add_template(TOP, &files);
    kernel
}

fn last() -> CpuSet {
    CpuSet::single(CpuId(1))
}

#[test]
fn a_cpu_is_a_domain_for_as_long_as_it_is_held() {
    let kernel = machine();
    let before = kernel.state();
    let base = tempfile::tempdir().unwrap();
    let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
    {
        let _domain = OwnDomain::make(&kernel, &journal, last()).unwrap();
        assert_eq!(RootDomains::read(&kernel).balanced, [CpuSet::single(CpuId(0)), last()]);
        // One that is there already is left alone, by who takes it and by who gives it back.
        drop(OwnDomain::make(&kernel, &journal, last()).unwrap());
        assert_eq!(RootDomains::read(&kernel).balanced.len(), 2);
    }
    assert_eq!(kernel.state(), before);
    assert!(journal.open_entries().is_empty());
}

#[test]
fn without_cpusets_and_on_a_divided_machine_it_is_refused_in_words() {
    let base = tempfile::tempdir().unwrap();
    let kernel = ScriptedKernel::new(2);
    let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
    let refused = OwnDomain::make(&kernel, &journal, last()).err().unwrap();
    assert!(matches!(refused, DomainError::NoCpusets(_)), "{refused}");

    let kernel = machine();
    let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("other")).unwrap()).unwrap();
    kernel.add_file(format!("{TOP}/cpuset.sched_load_balance"), "0");
    let refused = OwnDomain::make(&kernel, &journal, last()).err().unwrap();
    assert!(matches!(refused, DomainError::Divided(_)), "{refused}");
}

#[test]
fn whatever_fails_and_wherever_we_die_the_machine_is_as_it_was() {
    for dies in [false, true] {
        let (mut refused, mut reached_the_end) = (0, false);
        for at in 0..200 {
            let kernel = machine();
            let before = kernel.state();
            let base = tempfile::tempdir().unwrap();
            let directory = RuntimeDir::at(&base.path().join("run")).unwrap();
            let journal = Journal::open(&kernel, &directory).unwrap();
            let begin = kernel.calls().len();
            match dies {
                true => kernel.die_at(begin + at),
                false => kernel.fail_at(begin + at, 5),
            }
            let made = OwnDomain::make(&kernel, &journal, last());
            let is_made = made.is_ok();
            refused += usize::from(!is_made);
            drop(made);
            let calls = kernel.calls().len() - begin;
            drop(journal);
            kernel.clear_faults();
            kernel.restart();
            recover_dead(&kernel, &directory).unwrap();
            assert_eq!(kernel.state(), before, "call {at}, dies: {dies}, made: {is_made}");
            if is_made && calls <= at {
                reached_the_end = true;
                break;
            }
        }
        assert!(reached_the_end && refused > 5, "{refused}");
    }
}
