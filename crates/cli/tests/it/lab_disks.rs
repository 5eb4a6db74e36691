//! Modelled disks in the lab: a boot with all I/O schedulers, twice the same. Skipped, loudly, where the emulator or that kernel is not here.

use std::fs;
use std::process::{Command, Output};

use surety_model::formats::record::{self, RecordFile};

use crate::common::{beside_guests, errors, program, root, text};

const KERNEL: &str = "6.12-cloud";
const WORLD: &str = "lab:6.12-cloud";

/// A start-up beside a reader, on a disk of 2004.
const WORKLOAD: &str = "format = 1\n\
    [disk.d]\nmodel = 'hdd-2004'\nmake = '64MiB'\n\
    [[startup]]\nname = 'start'\nreplay = 'start.trace'\ndisk = 'd'\ncold = true\nrepeat = 1\n\
    [[load]]\nname = 'readers'\nkind = 'readers'\ncount = 2\nsize = '1MiB'\ndisk = 'd'\n\
    [vary]\n\"disk.d.scheduler\" = ['none', 'mq-deadline', 'kyber', 'bfq']\n";
const RECORDING: &str =
    "made .0 8 0 Rand 0 0 R .0 C\nmade .001 64 4096 Rand 0 0 R .0 C\nmade .002 8 2048 Rand 0 0 R .0 C\n";

fn run(directory: &tempfile::TempDir, more: &[&str]) -> Output {
    let workload = directory.path().join("w.toml");
    Command::new(program())
        .args(["run", workload.to_str().unwrap(), "--on", WORLD, "--no-trace", "--warm-up", "100ms"])
        .args(more)
        .current_dir(root())
        .output()
        .unwrap()
}

/// A directory with the workload, where a guest can run it.
fn prepared() -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("w.toml"), WORKLOAD).unwrap();
    fs::write(directory.path().join("start.trace"), RECORDING).unwrap();
    // Refused before a boot, for want of memory, where everything else is here.
    let tried = run(&directory, &["--for", "1s", "--lab-memory", "49MiB"]);
    let said = errors(&tried);
    if said.contains("MiB of memory and needs") {
        return Some(directory);
    }
    assert!(said.contains("qemu-system") || said.contains("surety lab fetch"), "{said}");
    eprintln!("SKIPPED: modelled disks in the lab: {}; surety lab fetch {KERNEL}", said.trim());
    None
}

fn records(output: &Output) -> RecordFile {
    assert!(output.status.success(), "{}", errors(output));
    record::read(&text(output)).unwrap()
}

#[test]
fn a_modelled_disk_in_a_guest_has_its_own_depth_is_never_late_and_repeats_under_every_scheduler() {
    let _guest = beside_guests();
    let Some(directory) = prepared() else { return };
    let run = || records(&run(&directory, &["--for", "2s", "--json"]));
    let (first, second) = (run(), run());
    assert_eq!(first.results.len(), 4);
    for (result, again) in first.results.iter().zip(&second.results) {
        let (record, label) = (&result.record, &result.label);
        assert!(record.hash.is_some() && record.hash == again.record.hash, "{label}: two boots differ");
        let said = &record.in_force.environment;
        assert!(said["disk d depth"].starts_with("the kernel sends 1 request at a time"), "{said:?}");
        assert!(said["disk d model"].starts_with("hdd-2004"), "{said:?}");
        assert!(said["lab programs"].starts_with("mkfs.ext4 "), "{said:?}");
        let scheduler = said["disk d scheduler"].as_str();
        let requests = if scheduler == "none" { "1" } else { "64" };
        assert_eq!(said["disk d queue depth"], requests, "{scheduler}");
        assert!(!record.degraded.iter().any(|why| why.contains("disturbed")), "{label}");
        let start = record.activities.iter().find(|activity| activity.name == "start").unwrap();
        assert_eq!(start.activations, 1, "{label}");
    }
    let schedulers = first.results.iter().map(|r| r.record.in_force.environment["disk d scheduler"].clone());
    assert_eq!(schedulers.collect::<Vec<_>>(), ["none", "mq-deadline", "kyber", "bfq"]);
}

/// What no guest has is told before one is booted.
#[test]
fn disks_and_starts_that_no_guest_has_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    if prepared().is_none() {
        return;
    }
    let cases = [
        (WORKLOAD.replace("model = 'hdd-2004'\n", ""), 2, "modelled disks only"),
        (WORKLOAD.replace("hdd-2004", "hdd-2005"), 2, "did you mean `hdd-2004`"),
        (WORKLOAD.replace("replay = 'start.trace'", "command = 'sh'"), 2, "the guest has no programs"),
        (WORKLOAD.replace("size = '1MiB'", "size = '600MiB'"), 3, "--lab-memory"),
    ];
    for (workload, code, said) in cases {
        fs::write(directory.path().join("w.toml"), &workload).unwrap();
        fs::write(directory.path().join("start.trace"), RECORDING).unwrap();
        let output = run(&directory, &["--for", "1s"]);
        assert!(errors(&output).contains(said), "{said}: {}", errors(&output));
        assert_eq!(output.status.code(), Some(code), "{said}: {}", errors(&output));
    }
}
