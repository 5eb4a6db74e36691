//! Block events and waits for disks, of simulated disks and of a loop device of this kernel, as people see them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use surety_kernel::block::BlockDevice;
use surety_model::event::{BlockEvent, Event, EventKind};

use crate::common::{alone, errors, is_root, program, text};

const WORKLOAD: &str = "format = 1\n[disk.d]\nmodel = \"hdd-2004\"\nscheduler = \"mq-deadline\"\n\
    [[load]]\nname = \"reader\"\nkind = \"readers\"\ncount = 1\ndisk = \"d\"\nsize = \"8MiB\"\nblock = \"64KiB\"\nrandom = true\ndirect = true\nrate = \"500kB/s\"\n\
    [[load]]\nname = \"writer\"\nkind = \"writers\"\ncount = 1\ndisk = \"d\"\nsize = \"32MiB\"\n\
    [[task]]\nname = \"beat\"\nperiod = \"10ms\"\nwork = \"1ms\"\n";

fn surety(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(directory).env("SURETY_RUNTIME_DIR", directory.join("run"));
    command.output().unwrap()
}

/// Every event of the block layer with its time that a file holds, of any format.
fn blocks(file: Vec<u8>) -> Vec<(i64, BlockEvent)> {
    let mut trace = surety_trace::open(file).unwrap();
    let mut found = Vec::new();
    let mut sink = |event: &Event<'_>| {
        if let EventKind::Block(block) = event.kind {
            found.push((event.time.get(), block));
        }
    };
    trace.read(&mut sink).unwrap();
    found
}

/// The same by trace-cmd's words; `None`, loudly, where it cannot be started.
fn by_trace_cmd(file: &Path) -> Option<Vec<(i64, BlockEvent)>> {
    match Command::new("trace-cmd").args(["report", "-t"]).arg(file).output() {
        Ok(printed) => Some(blocks(printed.stdout)),
        Err(error) => {
            eprintln!("SKIPPED: trace-cmd cannot be started ({error}); install the package trace-cmd");
            None
        }
    }
}

/// The document of waits: every wait is shared out, every group too. Returns it.
fn explained(directory: &Path, file: &str, comm: &str) -> Value {
    let output =
        surety(directory, &["trace", "explain", file, "--disk", "--comm", comm, "--worst", "1000", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["of"], "waits");
    let sum = |list: &Value, key: &str| {
        list.as_array().unwrap().iter().map(|p| p[key].as_i64().unwrap()).sum::<i64>()
    };
    for wait in document["worst"].as_array().unwrap() {
        assert_eq!(sum(&wait["pieces"], "time_ns"), wait["response_ns"].as_i64().unwrap(), "{wait}");
    }
    for group in document["groups"].as_array().unwrap() {
        assert_eq!(sum(&group["causes"], "sum_ns"), group["response_sum_ns"].as_i64().unwrap());
    }
    document
}

/// Causes of all waits: word, name, time.
fn causes(document: &Value) -> Vec<(String, String, i64)> {
    let list = document["groups"][0]["causes"].as_array().unwrap().iter();
    let word = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    list.map(|c| (word(c, "cause"), word(c, "name"), c["sum_ns"].as_i64().unwrap())).collect()
}

#[test]
fn a_simulated_reader_behind_a_writer_is_told_who_delayed_it() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("w.toml"), WORKLOAD).unwrap();
    let run = surety(place, &["run", "w.toml", "--on", "sim", "--for", "2s", "--trace", "w.dat"]);
    assert_eq!(run.status.code(), Some(0), "{}", errors(&run));
    let file = fs::read(place.join("w.dat")).unwrap();
    let ours = blocks(file);
    assert!(ours.len() > 100, "{} events", ours.len());
    if let Some(theirs) = by_trace_cmd(&place.join("w.dat")) {
        assert_eq!(theirs, ours);
    }
    let told = causes(&explained(place, "w.dat", "reader"));
    let of = |word: &str| told.iter().filter(|(cause, ..)| cause == word).map(|(.., time)| time).sum::<i64>();
    assert!(told.iter().any(|(cause, name, _)| cause == "disk-scheduler" && name == "writer"), "{told:?}");
    assert!(of("disk-seek") > 0 && of("disk-rotation") > 0 && of("disk-service") == 0, "{told:?}");

    let explain =
        ["trace", "explain", "w.dat", "--disk", "--comm", "reader", "--worst", "1", "--width", "100"];
    let output = surety(place, &explain);
    let words = text(&output);
    for expected in ["wait for a disk of", "I/O scheduler: behind writer", "disk: transfer", "mean of a wait"]
    {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert!(words.lines().all(|line| line.chars().count() <= 100), "{words}");
    // The Perfetto trace holds the same.
    let converted = surety(place, &["trace", "convert", "w.dat", "w.pftrace"]);
    assert_eq!(converted.status.code(), Some(0), "{}", errors(&converted));
    assert_eq!(causes(&explained(place, "w.pftrace", "reader")), told);

    let nobody = surety(place, &["trace", "explain", "w.dat", "--disk", "--comm", "beat"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(errors(&nobody).contains("no wait of that thread for a disk is in it"), "{}", errors(&nobody));
}

/// A loop device of this kernel: what it tells is decoded as trace-cmd decodes it, and every read of a thread is accounted for.
#[test]
fn reads_of_a_loop_device_are_accounted_for() {
    let _alone = alone();
    if !is_root() {
        return eprintln!("SKIPPED: only root makes loop devices and records this machine");
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let backing =
        fs::File::options().read(true).write(true).create_new(true).open(place.join("disk")).unwrap();
    backing.set_len(16 << 20).unwrap();
    let device = match BlockDevice::on_file(&backing) {
        Ok(device) => device,
        Err(error) => return eprintln!("SKIPPED: {error}"),
    };
    let read = format!("if={}", device.path().display());
    let output = surety(
        place,
        &[
            "trace",
            "record",
            "--event",
            "block",
            "-o",
            "r.dat",
            "--",
            "dd",
            &read,
            "of=/dev/null",
            "bs=64k",
            "count=64",
            "iflag=direct",
        ],
    );
    drop(device);
    if output.status.code() != Some(0) {
        return eprintln!("SKIPPED: nothing can be recorded here: {}", errors(&output));
    }
    let file = fs::read(place.join("r.dat")).unwrap();
    let ours = blocks(file);
    if let Some(theirs) = by_trace_cmd(&place.join("r.dat")) {
        assert_eq!(theirs, ours);
    }
    let document = explained(place, "r.dat", "dd");
    let told = causes(&document);
    // A read may be done before its thread has gone to sleep.
    let waits = document["groups"][0]["jobs"].as_i64().unwrap();
    assert!((32..=80).contains(&waits), "{waits} waits for 64 reads");
    assert!(told.iter().any(|(cause, ..)| cause == "disk-service"), "{told:?}");
}
