//! Control groups of a workload are made in both versions as they are asked for, and nothing of them stays, whatever call fails and
//! wherever we die.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::path::Path;

use surety_enforce::{ControlGroups, GroupError};
use surety_kernel::journal::{Journal, RuntimeDir, recover_dead};
use surety_kernel::scripted::MachineState;
use surety_kernel::{Kernel, Operation, ScriptedKernel};
use surety_model::workload::{Group, Quota};
use surety_units::Nanos;

const TOP: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];

/// A machine with version 1 or 2 of control groups, this process in the topmost.
fn machine(version: usize) -> ScriptedKernel {
    let kernel = ScriptedKernel::new(2);
    let top = TOP[version - 1];
    let (kind, own) = [("cgroup", "3:cpu:/\n"), ("cgroup2", "0::/\n")][version - 1];
    kernel.add_file("/proc/mounts", &format!("{kind} {top} {kind} rw,cpu 0 0\n"));
    kernel.add_file("/proc/self/cgroup", own);
    let v1: &[(&str, &str)] = &[
        ("tasks", ""),
        ("cgroup.procs", ""),
        ("cpu.shares", "1024"),
        ("cpu.cfs_quota_us", "-1"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_burst_us", "0"),
        ("cpu.idle", "0"),
    ];
    let v2: &[(&str, &str)] = &[
        ("cgroup.type", "domain"),
        ("cgroup.threads", ""),
        ("cgroup.procs", ""),
        ("cgroup.controllers", "cpu"),
        ("cgroup.subtree_control", ""),
        ("cpu.weight", "100"),
        ("cpu.max", "max 100000"),
        ("cpu.max.burst", "0"),
        ("cpu.idle", "0"),
    ];
    let files = [v1, v2][version - 1];
    for (file, text) in files.iter().filter(|(file, _)| file.starts_with("cgroup.") || *file == "tasks") {
        kernel.add_file(format!("{top}/{file}"), text);
    }
    kernel.add_template(top, files);
    kernel
}

fn groups() -> Vec<Group> {
    let ms = Nanos::from_millis;
    vec![
        // A child may stand before the group it is in.
        Group { parent: Some("ui".to_owned()), weight: 300, ..Group::new("inner") },
        Group {
            quota: Some(Quota { runtime: ms(20), period: ms(50), burst: ms(5) }),
            weight: 200,
            ..Group::new("ui")
        },
        Group { idle: true, ..Group::new("rest") },
    ]
}

fn made(journal: &Journal, kernel: &ScriptedKernel) -> Result<(), GroupError> {
    // Of the scripted kernel no new directory below a new one has files, as those of the kernel do: one group in another is tested
    // on the real one.
    let flat: Vec<Group> = groups().into_iter().filter(|group| group.parent.is_none()).collect();
    let groups = ControlGroups::make(kernel, journal, &flat)?;
    let _in_ui = groups.entered("ui")?;
    Ok(())
}

/// As it is, but for who joined.
fn settled(mut state: MachineState) -> MachineState {
    for (path, text) in &mut state.files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if ["tasks", "cgroup.threads"].contains(&name.as_str()) {
            text.clear();
        }
    }
    state
}

fn journal(kernel: &ScriptedKernel) -> (tempfile::TempDir, RuntimeDir, Journal) {
    let base = tempfile::tempdir().unwrap();
    let directory = RuntimeDir::at(&base.path().join("run")).unwrap();
    let journal = Journal::open(kernel, &directory).unwrap();
    (base, directory, journal)
}

#[test]
fn each_version_gets_what_was_asked_for_in_its_own_words() {
    let expected: [&[(&str, &str)]; 2] = [
        &[
            ("ui/cpu.shares", "2048"),
            ("ui/cpu.cfs_quota_us", "20000"),
            ("ui/cpu.cfs_period_us", "50000"),
            ("ui/cpu.cfs_burst_us", "5000"),
            ("rest/cpu.idle", "1"),
            ("rest/cpu.shares", "1024"),
        ],
        &[
            ("ui/cgroup.type", "threaded"),
            ("ui/cpu.weight", "200"),
            ("ui/cpu.max", "20000 50000"),
            ("ui/cpu.max.burst", "5000"),
            ("rest/cpu.idle", "1"),
            ("rest/cpu.weight", "100"),
        ],
    ];
    for (version, expected) in [1, 2].into_iter().zip(expected) {
        let kernel = machine(version);
        let (_base, _directory, journal) = journal(&kernel);
        let before = settled(kernel.state());
        let flat: Vec<Group> = groups().into_iter().filter(|group| group.parent.is_none()).collect();
        let groups = ControlGroups::make(&kernel, &journal, &flat).unwrap();
        let names = kernel.list_dir(Path::new(TOP[version - 1])).unwrap();
        for (file, text) in expected {
            let (group, file) = file.split_once('/').unwrap();
            let name = names.iter().find(|name| name.ends_with(&format!("-{group}"))).unwrap();
            let path = Path::new(TOP[version - 1]).join(name).join(file);
            assert_eq!(kernel.read_text(&path).unwrap(), *text, "version {version}, {group}/{file}");
        }
        let words = groups.in_words();
        let said = |what: &str| format!("{what} (control groups, version {version})");
        assert_eq!(words["group.ui"], said("weight 200, 20ms in 50ms, 5ms saved at most"));
        assert_eq!(words["group.rest"], said("idle"));
        drop(groups);
        assert_eq!(settled(kernel.state()), before, "version {version}");
        assert!(journal.open_entries().is_empty());
    }
}

#[test]
fn what_the_kernel_does_not_take_is_said_and_taken_back() {
    let kernel = ScriptedKernel::new(1);
    let (_base, _directory, none) = journal(&kernel);
    assert!(matches!(made(&none, &kernel), Err(GroupError::NoController)));
    for (version, file, says) in [
        (1, "cpu.cfs_burst_us", "group.ui was refused"),
        (1, "cpu.idle", "group.rest was refused"),
        (2, "cgroup.type", "systemd-run --scope"),
        (2, "cgroup.subtree_control", "systemd-run --scope"),
    ] {
        let kernel = machine(version);
        let before = settled(kernel.state());
        let (_base, _directory, journal) = journal(&kernel);
        kernel.fail_on(Operation::Write, file, 95);
        let error = made(&journal, &kernel).unwrap_err().to_string();
        assert!(error.contains(says), "{file}: {error}");
        kernel.clear_faults();
        drop(journal);
        assert_eq!(settled(kernel.state()), before, "version {version}, {file}");
    }
}

#[test]
fn whatever_fails_and_wherever_we_die_no_group_stays() {
    for (version, dies) in [(1, false), (1, true), (2, false), (2, true)] {
        let (mut refused, mut reached_the_end) = (0, false);
        for at in 0..200 {
            let kernel = machine(version);
            let before = settled(kernel.state());
            let (_base, directory, journal) = journal(&kernel);
            let begin = kernel.calls().len();
            match dies {
                true => kernel.die_at(begin + at),
                false => kernel.fail_at(begin + at, 5),
            }
            let is_made = made(&journal, &kernel).is_ok();
            refused += usize::from(!is_made);
            let calls = kernel.calls().len() - begin;
            drop(journal);
            kernel.clear_faults();
            kernel.restart();
            recover_dead(&kernel, &directory).unwrap();
            assert_eq!(settled(kernel.state()), before, "version {version}, call {at}, dies: {dies}");
            if is_made && calls <= at {
                reached_the_end = true;
                break;
            }
        }
        assert!(reached_the_end && refused > 5, "{refused}");
    }
}
