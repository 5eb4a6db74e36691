//! `surety device characterise` on what there is here: a file, a loop device; and what it refuses.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use surety_device::profile::Profile;

use crate::common::{alone, errors, program, surety, text};

/// A file full of bytes that no file system leaves out.
fn filled(path: &Path, megabytes: usize) {
    let mut chance = surety_stats::Pcg::new(1, 1);
    let mut file = std::fs::File::create(path).unwrap();
    for _ in 0..megabytes {
        let bytes: Vec<u8> = (0..1 << 17).flat_map(|_| chance.next_u64().to_le_bytes()).collect();
        file.write_all(&bytes).unwrap();
    }
    file.sync_all().unwrap();
}

/// Whether this directory's file system can be read past the page cache; said loudly where not.
fn is_refused(said: &str) -> bool {
    let refused = said.contains("past the page cache");
    if refused {
        eprintln!("SKIPPED: {said}");
    }
    refused
}

#[test]
fn a_file_gives_a_profile_that_the_simulator_loads_and_is_not_changed() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (disk, profile) = (directory.path().join("disk"), directory.path().join("mine.toml"));
    filled(&disk, 64);
    let before = std::fs::read(&disk).unwrap();
    let (disk, profile) = (disk.to_str().unwrap(), profile.to_str().unwrap());
    let output = surety(&["device", "characterise", disk, "--for", "3s", "-o", profile]);
    let said = errors(&output);
    if is_refused(&said) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let page = text(&output);
    for part in ["p50", "p99", "model", "random 4KiB x 8", "row from", "nothing was written"] {
        let is_there = page.contains(part) || part == "nothing was written" && page.contains("`fixed`");
        assert!(is_there, "{part}: {page}");
    }
    assert_eq!(std::fs::read(disk).unwrap(), before, "nothing is written without --write");
    let written = std::fs::read_to_string(profile).unwrap();
    let read = Profile::read("mine", "mine.toml", &written).unwrap();
    assert_eq!(read.sectors(), 64 << 11);
    // Each number says where it is from.
    let numbers = written.lines().skip_while(|line| !line.starts_with("size"));
    for line in numbers.filter(|line| line.contains(" = ")) {
        assert!(line.contains('#'), "{line}");
    }
    let workload = directory.path().join("w.toml");
    let stream = "[[stream]]\nname = \"s\"\ndisk = \"d\"\nfile = { make = \"10MB\" }\nrate = \"1MB/s\"\n";
    std::fs::write(&workload, format!("format = 1\n[disk.d]\nmodel = \"mine.toml\"\n{stream}")).unwrap();
    let output = surety(&["run", workload.to_str().unwrap(), "--on", "sim", "--for", "1s"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(text(&output).contains("request overhead"), "{}", text(&output));
}

#[test]
fn a_loop_device_is_read_and_written_where_it_is_named_only() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let backing = directory.path().join("backing");
    filled(&backing, 64);
    let attached = Command::new("losetup").args(["-f", "--show"]).arg(&backing).output();
    let Some(attached) = attached.ok().filter(|output| output.status.success()) else {
        eprintln!("SKIPPED: losetup attaches nothing here");
        return;
    };
    let device = text(&attached).trim().to_owned();
    let backing = backing.to_str().unwrap();
    let profile = directory.path().join("loop.toml");
    let before = std::fs::read(backing).unwrap();
    let run = |more: &[&str]| {
        let output = ["device", "characterise", &device, "--for", "3s", "-o", profile.to_str().unwrap()];
        surety(&[&output[..], more].concat())
    };
    let read = run(&[]);
    let is_same = std::fs::read(backing).unwrap() == before;
    // The file below a device that is there is not written, the device is.
    let refused = run(&["--write", backing]);
    let is_still_same = std::fs::read(backing).unwrap() == before;
    let written = run(&["--write", &device]);
    let detached = Command::new("losetup").args(["-d", &device]).status();
    assert!(detached.is_ok_and(|status| status.success()));
    if is_refused(&errors(&read)) {
        return;
    }
    assert_eq!(read.status.code(), Some(0), "{}", errors(&read));
    assert!(errors(&read).contains("a loop device is measured with"), "{}", errors(&read));
    assert_eq!(refused.status.code(), Some(3), "{}", errors(&refused));
    assert!(errors(&refused).contains("in use"), "{}", errors(&refused));
    assert!(is_same && is_still_same);
    assert_eq!(written.status.code(), Some(0), "{}", errors(&written));
    assert!(text(&written).contains("flush"), "{}", text(&written));
    let after = std::fs::read(backing).unwrap();
    assert!(after != before && after.len() == before.len());
}

#[test]
fn a_mounted_device_is_not_written_over() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (backing, root) = (directory.path().join("backing"), directory.path().join("root"));
    std::fs::File::create(&backing).unwrap().set_len(64 << 20).unwrap();
    std::fs::create_dir(&root).unwrap();
    let attached = Command::new("losetup").args(["-f", "--show"]).arg(&backing).output();
    let Some(attached) = attached.ok().filter(|output| output.status.success()) else {
        eprintln!("SKIPPED: losetup attaches nothing here");
        return;
    };
    let device = text(&attached).trim().to_owned();
    let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let is_mounted = succeeds(Command::new("mkfs.ext4").args(["-q", &device]))
        && succeeds(Command::new("mount").arg(&device).arg(&root));
    let before = std::fs::read(&backing).unwrap();
    let output = surety(&["device", "characterise", &device, "--for", "1s", "--write", &device]);
    let is_same = std::fs::read(&backing).unwrap() == before;
    let unmounted = !is_mounted || succeeds(Command::new("umount").arg(&root));
    let detached = succeeds(Command::new("losetup").args(["-d", &device]));
    assert!(unmounted && detached);
    if !is_mounted {
        eprintln!("SKIPPED: no file system can be made and mounted here");
        return;
    }
    let said = errors(&output);
    assert!(output.status.code() == Some(3) && said.contains("in use") && is_same, "{said}");
}

#[test]
fn what_is_no_disk_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let small = directory.path().join("small");
    filled(&small, 1);
    let cases = [
        ("/no/such", "there is no /no/such"),
        ("/dev/null", "neither a block device nor a file"),
        (directory.path().to_str().unwrap(), "neither a block device nor a file"),
        (small.to_str().unwrap(), "less than 16MiB"),
    ];
    for (name, words) in cases {
        let output = surety(&["device", "characterise", name, "--for", "1s"]);
        let said = errors(&output);
        if is_refused(&said) {
            continue;
        }
        assert!(output.status.code() == Some(3) && said.contains(words), "{name}: {said}");
        assert!(said.contains("help:"), "{said}");
    }
}

#[test]
fn an_interrupted_measurement_leaves_no_profile() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    filled(&directory.path().join("disk"), 64);
    let child = Command::new(program())
        .args(["device", "characterise", "disk", "--for", "60s", "-o", "mine.toml"])
        .current_dir(directory.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    if is_refused(&errors(&output)) {
        return;
    }
    assert_eq!(output.status.code(), Some(130), "{}", errors(&output));
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(names, ["disk"]);
}
