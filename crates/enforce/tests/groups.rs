//! Control groups of a workload are made in both versions as they are asked for, and nothing of them stays, whatever call fails and
//! wherever we die.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::path::{Path, PathBuf};

use surety_enforce::{ControlGroups, GroupError};
use surety_kernel::journal::{Journal, RuntimeDir, recover_dead};
use surety_kernel::scripted::MachineState;
use surety_kernel::{Kernel, Operation, ScriptedKernel};
use surety_model::workload::{Group, Quota};
use surety_units::{CpuSet, Nanos, Tid};

const TOP: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];
const THREADS: [&str; 2] = ["tasks", "cgroup.threads"];
const PROGRAM: Tid = Tid(77);

/// Makes a machine.
type Machine = fn() -> ScriptedKernel;

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
        ("cgroup.kill", ""),
        ("cgroup.controllers", "cpuset cpu"),
        ("cgroup.subtree_control", ""),
        ("cpu.weight", "100"),
        ("cpu.max", "max 100000"),
        ("cpu.max.burst", "0"),
        ("cpu.idle", "0"),
        ("cpuset.cpus", ""),
        ("cpuset.cpus.effective", "0-1"),
    ];
    let files = [v1, v2][version - 1];
    for (file, text) in files.iter().filter(|(file, _)| file.starts_with("cgroup.") || *file == "tasks") {
        kernel.add_file(format!("{top}/{file}"), text);
    }
    kernel.add_template(top, files);
    for tid in [kernel.own_pid(), PROGRAM] {
        kernel.add_file(format!("/proc/{tid}/status"), &format!("Tgid:\t{tid}\nUid:\t0\t0\t0\t0\n"));
    }
    kernel
}

/// A program is born in a group: it is no call of ours.
fn is_born(kernel: &ScriptedKernel, group: &str) {
    let is_list = |path: &&PathBuf| {
        let name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        name.starts_with("surety") && name.ends_with(group) && THREADS.iter().any(|file| path.ends_with(file))
    };
    let files = kernel.state().files;
    let (list, text) = files.iter().find(|(path, _)| is_list(path)).unwrap();
    kernel.add_thread(PROGRAM, PROGRAM, "program");
    kernel.add_file(list, &format!("{text}\n{PROGRAM}"));
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

/// What a run does with groups: one of our threads goes into one after the other, and a program stays in the innermost.
fn made(journal: &Journal, kernel: &ScriptedKernel, groups: &[Group]) -> Result<Vec<String>, GroupError> {
    let mut groups = ControlGroups::make(kernel, journal, groups)?;
    drop(groups.entered("ui")?);
    let in_inner = groups.entered("inner")?;
    is_born(kernel, "inner");
    drop(in_inner);
    Ok(groups.close())
}

/// As it is, but for who joined.
fn settled(mut state: MachineState) -> MachineState {
    for (path, text) in &mut state.files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if THREADS.contains(&name.as_str()) {
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
            ("ui/surety-inner/cpu.shares", "3072"),
        ],
        &[
            ("ui/cgroup.type", "threaded"),
            ("ui/cpu.weight", "200"),
            ("ui/cpu.max", "20000 50000"),
            ("ui/cpu.max.burst", "5000"),
            ("rest/cpu.idle", "1"),
            ("rest/cpu.weight", "100"),
            ("ui/cgroup.subtree_control", "cpu"),
            ("ui/surety-inner/cgroup.type", "threaded"),
            ("ui/surety-inner/cpu.weight", "300"),
        ],
    ];
    for (version, expected) in [1, 2].into_iter().zip(expected) {
        let kernel = machine(version);
        let (_base, _directory, journal) = journal(&kernel);
        let before = settled(kernel.state());
        let groups = ControlGroups::make(&kernel, &journal, &groups()).unwrap();
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
        assert_eq!(words["group.inner"], said("weight 300"));
        drop(groups);
        assert_eq!(settled(kernel.state()), before, "version {version}");
        assert!(journal.open_entries().is_empty());
    }
}

#[test]
fn what_the_kernel_does_not_take_is_said_and_taken_back() {
    let kernel = ScriptedKernel::new(1);
    let (_base, _directory, none) = journal(&kernel);
    assert!(matches!(made(&none, &kernel, &groups()), Err(GroupError::NoController)));
    let no_burst = "group.ui was refused: this kernel has no cpu.max.burst; leave `burst` out";
    for (version, file, errno, says) in [
        (1, "cpu.cfs_burst_us", 95, "group.ui was refused"),
        (1, "cpu.idle", 95, "group.rest was refused"),
        (2, "cgroup.type", 95, "systemd-run --scope"),
        (2, "cgroup.subtree_control", 95, "systemd-run --scope"),
        (1, "cpu.idle", 2, "this kernel has no cpu.idle; leave `idle` out"),
        (1, "cpu.cfs_burst_us", 2, "this kernel has no cpu.cfs_burst_us; leave `burst` out"),
        (2, "cpu.max.burst", 2, no_burst),
        (2, "cpu.weight", 2, "group.ui was refused: writing"),
    ] {
        let kernel = machine(version);
        let before = settled(kernel.state());
        let (_base, _directory, journal) = journal(&kernel);
        kernel.fail_on(Operation::Write, file, errno);
        let error = made(&journal, &kernel, &groups()).unwrap_err().to_string();
        assert!(error.contains(says), "{file}: {error}");
        kernel.clear_faults();
        drop(journal);
        assert_eq!(settled(kernel.state()), before, "version {version}, {file}");
    }
}

#[test]
fn whatever_fails_and_wherever_we_die_no_group_stays() {
    const MACHINES: [(&str, Machine); 3] = [
        ("version 1", || machine(1)),
        ("version 1 with cpusets", with_cpusets),
        ("version 2", || machine(2)),
    ];
    for ((version, machine), dies) in
        MACHINES.into_iter().flat_map(|machine| [(machine, false), (machine, true)])
    {
        let (mut refused, mut reached_the_end) = (0, false);
        let mut all = groups();
        // Where there are cpusets one of them has CPUs of its own.
        all[1].cpus = (version != "version 1").then(|| CpuSet::first(2));
        for at in 0..400 {
            let kernel = machine();
            let before = settled(kernel.state());
            let (_base, directory, journal) = journal(&kernel);
            let begin = kernel.calls().len();
            match dies {
                true => kernel.die_at(begin + at),
                false => kernel.fail_at(begin + at, 5),
            }
            let said = made(&journal, &kernel, &all);
            let is_made = said.is_ok();
            refused += usize::from(!is_made);
            let calls = kernel.calls().len() - begin;
            drop(journal);
            kernel.clear_faults();
            kernel.restart();
            recover_dead(&kernel, &directory).unwrap();
            assert_eq!(settled(kernel.state()), before, "{version}, call {at}, dies: {dies}");
            if is_made && calls <= at {
                assert_eq!(said.unwrap(), [""; 0], "nothing failed");
                reached_the_end = true;
                break;
            }
        }
        assert!(reached_the_end && refused > 5, "{refused}");
    }
}

/// Another run that ends may take the controller, and what was set with it, away; and a group may not be removable.
#[test]
fn what_a_record_has_to_say_of_its_groups_is_said_when_they_are_closed() {
    for (version, file) in [(1, "cpu.shares"), (2, "cpu.weight")] {
        let kernel = machine(version);
        let (_base, _directory, journal) = journal(&kernel);
        let mut groups = ControlGroups::make(&kernel, &journal, &groups()).unwrap();
        let files = kernel.state().files;
        let path = files.keys().find(|path| path.ends_with(format!("surety-inner/{file}"))).unwrap();
        kernel.write_text(path, if version == 1 { "1024" } else { "100" }).unwrap();
        let said = groups.close();
        let lost =
            "group.inner was given weight 300 and had weight 100 at the end; let no other run end meanwhile";
        assert_eq!(said, [lost]);
        assert_eq!(groups.close(), [""; 0], "closed once");

        let mut groups = ControlGroups::make(&kernel, &journal, &self::groups()).unwrap();
        kernel.fail_on(Operation::RemoveDir, "-ui", 16);
        let said = groups.close();
        assert!(
            said.len() == 1 && said[0].starts_with("control groups of the run could not be removed"),
            "{said:?}"
        );
        assert!(!journal.open_entries().is_empty(), "the next start tries again");
    }
}

/// Of what a group asks for its threads may use what is there: that is in the record, and what became of it.
#[test]
fn the_cpus_that_a_group_has_in_force_are_said() {
    let kernel = machine(2);
    let (_base, _directory, journal) = journal(&kernel);
    let all = [Group { cpus: Some(CpuSet::first(4)), ..Group::new("two") }];
    let mut groups = ControlGroups::make(&kernel, &journal, &all).unwrap();
    let words = groups.in_words();
    assert_eq!(words["group.two"], "weight 100, CPUs 0-1 (control groups, version 2)");
    let files = kernel.state().files;
    let path = files.keys().find(|path| path.ends_with("cpuset.cpus.effective")).unwrap();
    kernel.add_file(path, "0");
    let lost = "group.two was given weight 100, CPUs 0-1 and had weight 100, CPUs 0 at the end; let no other run end meanwhile";
    assert_eq!(groups.close(), [lost]);
}

/// Two runs beside each other: the first one gave the controller, and the second one still uses it.
#[test]
fn a_run_that_ends_leaves_another_ones_groups_what_they_have() {
    let kernel = machine(2);
    let before = settled(kernel.state());
    let given = Path::new(TOP[1]).join("cgroup.subtree_control");
    let (_base, directory, first) = journal(&kernel);
    let (_other, _directory, second) = journal(&kernel);
    let mut of_first = ControlGroups::make(&kernel, &first, &groups()).unwrap();
    let mut of_second = ControlGroups::make(&kernel, &second, &groups()).unwrap();
    let said = of_first.close();
    assert!(said.len() == 1 && said[0].contains("cgroup.subtree_control while "), "{said:?}");
    assert_eq!(kernel.read_text(&given).unwrap(), "cpu");
    assert_eq!(of_second.close(), [""; 0]);
    drop((of_first, of_second));
    drop((first, second));
    kernel.restart();
    recover_dead(&kernel, &directory).unwrap();
    assert_eq!(settled(kernel.state()), before);
}

/// CPUs of a group: given with their controller, read back, and refused where the kernel has other ones in force or none to give.
#[test]
fn groups_have_the_cpus_that_they_are_given() {
    let of = |cpus: &str| vec![Group { cpus: Some(cpus.parse().unwrap()), ..Group::new("two") }];
    let kernel = machine(2);
    let (_base, _directory, journal) = journal(&kernel);
    let before = settled(kernel.state());
    let mut groups = ControlGroups::make(&kernel, &journal, &of("0-1")).unwrap();
    let files = kernel.state().files;
    let text = |end: &str| files.iter().find(|(path, _)| path.ends_with(end)).map(|(_, text)| text.clone());
    assert_eq!(text("cpuset.cpus").as_deref(), Some("0-1"));
    let given = files[&PathBuf::from(TOP[1]).join("cgroup.subtree_control")].clone();
    assert!(given.contains("cpuset") && given.contains("cpu "), "{given}");
    assert_eq!(groups.in_words()["group.two"], "weight 100, CPUs 0-1 (control groups, version 2)");
    assert_eq!(groups.close(), Vec::<String>::new());
    drop(groups);
    assert_eq!(settled(kernel.state()), before, "as it was");
    let refused = |kernel: &ScriptedKernel, cpus: &str| {
        ControlGroups::make(kernel, &journal, &of(cpus)).err().map(|error| error.to_string()).unwrap()
    };
    let others = refused(&kernel, "0");
    assert!(others.contains("group.two was given CPUs 0 and has CPUs 0-1"), "{others}");
    assert_eq!(settled(kernel.state()), before, "as it was");
    let none = refused(&machine(1), "0");
    assert!(none.contains("need the `cpuset` controller"), "{none}");
}

const CPUSETS: &str = "/sys/fs/cgroup/cpuset";

/// Version 1 with both controllers, each with a hierarchy of its own.
fn with_cpusets() -> ScriptedKernel {
    let kernel = machine(1);
    let mounts = format!("cgroup {} cgroup rw,cpu 0 0\ncgroup {CPUSETS} cgroup rw,cpuset 0 0\n", TOP[0]);
    kernel.add_file("/proc/mounts", &mounts);
    kernel.add_file("/proc/self/cgroup", "4:cpuset:/\n3:cpu:/\n");
    let files = [
        ("tasks", ""),
        ("cgroup.procs", ""),
        ("cpuset.cpus", ""),
        ("cpuset.mems", ""),
        ("cpuset.effective_cpus", "0"),
    ];
    for (file, text) in
        [("tasks", ""), ("cgroup.procs", ""), ("cpuset.effective_cpus", "0-1"), ("cpuset.mems", "0\n")]
    {
        kernel.add_file(format!("{CPUSETS}/{file}"), text);
    }
    kernel.add_template(CPUSETS, &files);
    kernel
}

/// Of version 1 a group has a directory in each hierarchy, and whoever is in it is in both.
#[test]
fn cpusets_of_version_1_are_made_beside_the_groups() {
    let all = vec![
        Group { cpus: Some("0".parse().unwrap()), ..Group::new("ui") },
        Group { parent: Some("ui".to_owned()), ..Group::new("inner") },
    ];
    let kernel = with_cpusets();
    let before = settled(kernel.state());
    let (_base, _directory, of_one) = journal(&kernel);
    let mut groups = ControlGroups::make(&kernel, &of_one, &all).unwrap();
    let in_inner = groups.entered("inner").unwrap();
    let files = kernel.state().files;
    let list = |below: &str| {
        let mut lists =
            files.iter().filter(|(path, _)| path.starts_with(below) && path.ends_with("surety-inner/tasks"));
        lists.next().map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let own = kernel.own_tid().to_string();
    assert!(list(TOP[0]).contains(&own) && list(CPUSETS).contains(&own), "in both");
    let of_inner =
        |file: &str| files.iter().find(|(path, _)| path.ends_with(format!("surety-inner/{file}"))).unwrap();
    assert_eq!(["cpuset.cpus", "cpuset.mems"].map(|file| of_inner(file).1.as_str()), ["0", "0"]);
    drop(in_inner);
    assert_eq!(groups.in_words()["group.ui"], "weight 100, CPUs 0 (control groups, version 1)");
    assert_eq!(groups.in_words()["group.inner"], "weight 100 (control groups, version 1)");
    assert_eq!(groups.close(), Vec::<String>::new());
    drop(groups);
    assert_eq!(settled(kernel.state()), before, "as it was");
}
