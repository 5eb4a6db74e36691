//! What under-runs of streams waited for, as `run` says it: all told apart in `sim` and by the trace of a run, and named as it is without one.

use std::path::Path;

use serde_json::Value;

use crate::common::{alone, errors, is_root, surety, text};

/// More than the disk can do: streams beside readers that no I/O scheduler holds back.
const WORKLOAD: &str = "format = 1\n[disk.d]\nmodel = \"hdd-2004\"\nmake = \"64MiB\"\nscheduler = \"none\"\n\
[[stream]]\nname = \"movie\"\ncount = 2\ndisk = \"d\"\nfile = { make = \"4MB\" }\nrate = \"2MB/s\"\nread = \"64KiB\"\nbatch = \"128KiB\"\njitter = \"1ms\"\n\
[[load]]\nname = \"reader\"\nkind = \"readers\"\ncount = 4\ndisk = \"d\"\nsize = \"4MiB\"\n";

/// What is said of the stream.
fn words(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    std::fs::write(&file, WORKLOAD).unwrap();
    let output = surety(&[&["run", file.to_str().unwrap(), "--for", "2s", "--json"], arguments].concat());
    let document: Value =
        serde_json::from_str(&text(&output)).unwrap_or_else(|_| panic!("{}", errors(&output)));
    let words = &document["results"][0]["in_force"]["environment"]["stream movie"];
    words.as_str().unwrap_or_else(|| panic!("{document:#}")).to_owned()
}

/// Whether the disk's time is told apart, and whether some of it is not.
fn told(words: &str) -> (bool, bool) {
    let (_, causes) = words.split_once(" waited up to ").unwrap_or_else(|| panic!("{words}"));
    let causes: Vec<&str> =
        causes.split(", ").filter_map(|one| one.split_once(" for ")).map(|(_, name)| name).collect();
    let has = |name: &str| causes.contains(&name);
    assert_eq!(has("the device"), has("the I/O scheduler"), "{words}");
    (has("the device"), has("the I/O scheduler or the device"))
}

#[test]
fn the_simulator_tells_the_scheduler_from_the_device() {
    assert_eq!(told(&words(&["--on", "sim"])), (true, false));
}

#[test]
fn a_trace_tells_the_scheduler_from_the_device_and_nothing_else_does() {
    if !is_root() || !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        eprintln!("SKIPPED: modelled disks need root, /dev/fuse and loop devices");
        return;
    }
    let _alone = alone();
    assert_eq!(told(&words(&["--no-trace"])), (false, true));
    if surety_kernel::tracefs::Tracefs::open().is_err() {
        return eprintln!("SKIPPED: there is no tracer to divide by");
    }
    // Of what is under way at the end some may not be.
    assert!(told(&words(&[])).0);
}
