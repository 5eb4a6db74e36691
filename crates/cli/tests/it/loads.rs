//! Every kind of load by itself, disks made for a run, and what is refused.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{alone, errors, is_root, surety, surety_as_nobody, text};

fn write(directory: &Path, name: &str, body: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, format!("format = 1\n{body}")).unwrap();
    path
}

/// The figure of a load in the JSON of a run.
fn figure(document: &Value, load: &str, name: &str) -> Option<f64> {
    let activities = document["results"][0]["activities"].as_array()?;
    let activity = activities.iter().find(|a| a["name"] == load)?;
    let figures = activity["figures"].as_array()?;
    figures.iter().find(|f| f["name"] == name)?["value"].as_f64()
}

/// A run's JSON, or what it said instead.
fn run(path: &Path, more: &[&str]) -> Result<Value, String> {
    let mut arguments = vec!["run", path.to_str().unwrap(), "--json", "--no-trace"];
    arguments.extend(more);
    let output = surety(&arguments);
    match output.status.code() {
        Some(0) => Ok(serde_json::from_str(&text(&output)).unwrap()),
        _ => Err(errors(&output)),
    }
}

#[test]
fn each_kind_has_a_result_of_its_own() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut kinds = vec![
        ("memory-thrash", "size = \"1MiB\"", "accesses"),
        ("readers", "size = \"1MiB\"", "rate"),
        ("readers", "size = \"1MiB\"\nrandom = true\nblock = \"4KiB\"", "reads"),
        ("writers", "size = \"1MiB\"", "rate"),
        ("writers", "size = \"1MiB\"\nrandom = true\nblock = \"4KiB\"", "writes"),
        ("file-copy", "size = \"1MiB\"", "copies"),
        ("messages", "", "messages"),
        ("forks", "", "processes"),
        ("timers", "period = \"5ms\"", "timers fired"),
        ("command", "command = \"true\"", "completions"),
    ];
    if is_root() && surety_kernel::net::Cable::new().is_ok() {
        kinds.extend([
            ("ping-flood", "", "echoes"),
            ("ping-flood", "block = \"65kB\"", "echoes"),
            ("udp-sender", "rate = \"8Mbit/s\"", "packets"),
            ("udp-flood", "", "packets"),
        ]);
    } else {
        eprintln!("SKIPPED ping-flood, udp-sender and udp-flood: no namespaces or no veth");
    }
    let body: String = (kinds.iter().enumerate())
        .map(|(n, (kind, keys, _))| format!("[[load]]\nname = \"l{n}\"\nkind = \"{kind}\"\n{keys}\n"))
        .collect();
    let document = run(&write(directory.path(), "all.toml", &body), &["--for", "1s"]).unwrap();
    for (n, (kind, _, name)) in kinds.iter().enumerate() {
        let found = figure(&document, &format!("l{n}"), name);
        assert!(found.is_some_and(|v| v > 0.0), "{kind} {name}: {document}");
    }
}

#[test]
fn a_load_that_cannot_run_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        ("kind = \"command\"\ncommand = \"no-such-program\"", "no-such-program", 2),
        ("kind = \"command\"\ncommand = \"false\"", "failed", 3),
        ("kind = \"spinners\"\nblock = \"4KiB\"", "takes no `block`", 2),
        ("kind = \"ping-flood\"\nblock = \"1MiB\"", "IP packet", 2),
    ];
    for (keys, part, code) in cases {
        let path = write(directory.path(), "bad.toml", &format!("[[load]]\nname = \"l\"\n{keys}\n"));
        let output = surety(&["run", path.to_str().unwrap(), "--for", "500ms", "--no-trace"]);
        assert_eq!(output.status.code(), Some(code), "{keys}: {}", errors(&output));
        assert!(errors(&output).contains(part), "{keys}: {}", errors(&output));
    }
    // The simulator knows loads by their meaning for CPUs only.
    let path = write(directory.path(), "sim.toml", "[[load]]\nname = \"l\"\nkind = \"forks\"\n");
    let why = run(&path, &["--on", "sim"]).unwrap_err();
    assert!(why.contains("`forks`"), "{why}");
}

#[test]
fn an_ordinary_user_has_every_load_but_those_of_the_network() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for (kind, code) in [("ping-flood", 3), ("udp-flood", 3), ("forks", 0), ("messages", 0), ("timers", 0)] {
        let body = format!("[[load]]\nname = \"l\"\nkind = \"{kind}\"\n");
        let path = write(directory.path(), "user.toml", &body);
        let arguments = ["run", path.to_str().unwrap(), "--for", "500ms", "--no-trace"];
        let Some(output) = surety_as_nobody(directory.path(), &arguments) else {
            eprintln!("SKIPPED: no other user can be had");
            return;
        };
        assert_eq!(output.status.code(), Some(code), "{kind}: {}", errors(&output));
        if code == 3 {
            assert!(errors(&output).contains("CAP_SYS_ADMIN"), "{}", errors(&output));
        }
    }
}

#[test]
fn a_disk_is_made_with_each_scheduler_and_an_unknown_one_is_refused_with_the_list() {
    let _alone = alone();
    if !is_root() {
        eprintln!("SKIPPED: only root has loop devices");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let body = |scheduler: &str| {
        format!(
            "[disk.d]\nmake = \"64MiB\"\nscheduler = \"{scheduler}\"\n\
             [[load]]\nname = \"r\"\nkind = \"readers\"\ndisk = \"d\"\nsize = \"4MiB\"\n"
        )
    };
    let path = write(directory.path(), "disk.toml", &body("surely-not"));
    let why = run(&path, &["--for", "500ms"]).unwrap_err();
    let Some((_, list)) = why.split_once("it offers ") else {
        eprintln!("SKIPPED: {why}");
        return;
    };
    let offered: Vec<&str> = list.lines().next().unwrap_or_default().split([',', ' ']).collect();
    for scheduler in offered.into_iter().filter(|word| !word.is_empty()) {
        let path = write(directory.path(), "disk.toml", &body(scheduler));
        let document = match run(&path, &["--for", "500ms"]) {
            Ok(document) => document,
            Err(why) if why.contains("e2fsprogs") => {
                eprintln!("SKIPPED: {why}");
                return;
            }
            Err(why) => panic!("{why}"),
        };
        let environment = &document["results"][0]["in_force"]["environment"];
        assert_eq!(environment["disk d scheduler"], scheduler, "{document}");
        assert!(figure(&document, "r", "rate").is_some_and(|rate| rate > 0.0), "{document}");
    }
}

#[test]
fn a_device_in_use_is_not_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path =
        write(directory.path(), "bound.toml", "[disk.d]\n[[load]]\nname = \"l\"\nkind = \"spinners\"\n");
    let root = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let number = root.lines().find(|l| l.split(' ').nth(4) == Some("/")).unwrap().split(' ').nth(2).unwrap();
    if let Some(device) = std::fs::canonicalize(format!("/sys/dev/block/{number}"))
        .ok()
        .and_then(|p| Some(p.file_name()?.to_owned()))
    {
        let bound = format!("d=/dev/{}", device.display());
        let why = run(&path, &["--for", "500ms", "--disk", &bound]).unwrap_err();
        assert!(why.contains("in use") || why.contains("does not offer"), "{why}");
    }
    let why = run(&path, &["--for", "500ms"]).unwrap_err();
    assert!(why.contains("--disk d="), "{why}");
    let why = run(&path, &["--for", "500ms", "--disk", "e=/dev/loop0"]).unwrap_err();
    assert!(why.contains("disks are d"), "{why}");
}

#[test]
fn a_full_disk_and_a_directory_that_cannot_be_written_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let body = "[[load]]\nname = \"w\"\nkind = \"writers\"\n";
    let path = write(directory.path(), "plain.toml", body);
    let output = std::process::Command::new(crate::common::program())
        .args(["run", path.to_str().unwrap(), "--for", "500ms", "--no-trace"])
        .env("TMPDIR", "/proc")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("load.w") && errors(&output).contains("TMPDIR"), "{}", errors(&output));
    if !is_root() {
        eprintln!("SKIPPED the full disk: only root has loop devices");
        return;
    }
    let path =
        write(directory.path(), "full.toml", &format!("[disk.d]\nmake = \"24MiB\"\n{body}disk = \"d\"\n"));
    let output = surety(&["run", path.to_str().unwrap(), "--for", "500ms", "--no-trace"]);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    let said = errors(&output);
    if said.contains("e2fsprogs") || said.contains("loop") {
        eprintln!("SKIPPED the full disk: {said}");
        return;
    }
    assert!(said.contains("are free on disk `d`") && said.contains("`make`"), "{said}");
}

#[test]
fn a_device_that_fails_under_a_load_ends_the_run_and_keeps_its_scheduler() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let backing = directory.path().join("backing");
    std::fs::File::create(&backing).unwrap().set_len(100 << 20).unwrap();
    let attached = std::process::Command::new("losetup").args(["-f", "--show"]).arg(&backing).output();
    let Some(attached) = attached.ok().filter(|o| o.status.success()) else {
        eprintln!("SKIPPED: losetup attaches nothing here");
        return;
    };
    let device = text(&attached).trim().to_owned();
    let scheduler = format!("/sys/block/{}/queue/scheduler", device.trim_start_matches("/dev/"));
    let before = std::fs::read_to_string(&scheduler).unwrap();
    let body = "[disk.d]\nscheduler = \"mq-deadline\"\n[[load]]\nname = \"w\"\nkind = \"writers\"\n\
                disk = \"d\"\ndirect = true\nsize = \"4MiB\"\n";
    let path = write(directory.path(), "vanishes.toml", body);
    let bound = format!("d={device}");
    let file = std::fs::File::options().read(true).write(true).open(&backing).unwrap();
    let resize = device.clone();
    let cut = std::thread::spawn(move || {
        // Once it has its file system (the magic number of ext4) the load begins.
        let has_file_system = || {
            let mut magic = [0; 2];
            file.read_at(&mut magic, 0x438).is_ok() && magic == [0x53, 0xef]
        };
        for _ in 0..400 {
            if has_file_system() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        std::thread::sleep(std::time::Duration::from_secs(3));
        file.set_len(0).unwrap();
        std::process::Command::new("losetup").args(["-c", &resize]).status().unwrap();
    });
    let output = surety(&["run", path.to_str().unwrap(), "--for", "60s", "--no-trace", "--disk", &bound]);
    cut.join().unwrap();
    let after = std::fs::read_to_string(&scheduler).unwrap();
    std::process::Command::new("losetup").args(["-d", &device]).status().unwrap();
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    if said.contains("e2fsprogs") || said.contains("no scheduler") {
        eprintln!("SKIPPED: {said}");
        return;
    }
    assert!(said.contains("load.w failed"), "{said}");
    assert_eq!(after, before);
}
