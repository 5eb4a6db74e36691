//! A program in threaded control groups of version 2 ends with them, on the kernel that runs this.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use surety_kernel::journal::{Journal, RuntimeDir, Undone};
use surety_kernel::{Kernel, RealKernel};

/// Where version 2 is mounted, below which anybody who is root makes groups.
fn version_2() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let of = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words.get(2) == Some(&"cgroup2")).then(|| PathBuf::from(words[1]))
    };
    mounts.lines().find_map(of).filter(|path| path.starts_with("/sys/fs/cgroup"))
}

#[test]
fn a_program_in_a_threaded_group_ends_and_the_group_goes() {
    let kernel = RealKernel::new();
    let Some(top) = version_2().filter(|_| kernel.effective_user() == 0) else {
        eprintln!("SKIPPED: only root makes control groups, where version 2 is mounted");
        return;
    };
    let base = tempfile::tempdir().unwrap();
    let journal = Journal::open(&kernel, &RuntimeDir::at(&base.path().join("run")).unwrap()).unwrap();
    let (entry, outer) = match journal.make_group(&kernel, &top, "threaded") {
        Ok(made) => made,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            return;
        }
    };
    let inner = outer.join("surety-in");
    kernel.make_dir(&inner).unwrap();
    for group in [&outer, &inner] {
        kernel.write_text(&group.join("cgroup.type"), "threaded").unwrap();
    }
    let mut program = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
    kernel.write_text(&inner.join("cgroup.procs"), &program.id().to_string()).unwrap();
    let undone = journal.undo(&kernel, entry);
    let ended = program.try_wait().unwrap();
    let _ = program.kill();
    let _ = program.wait();
    assert_eq!(undone.unwrap(), Undone::Restored);
    assert!(ended.is_some() && !outer.exists(), "{ended:?}");
}
