//! `surety trace explain --startup` and `--stream`: where the time of whole start-ups went, and of late and dropped frames.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{alone, errors, is_root, program, text};
use crate::schemas::keeps_to_its_schema;

fn surety(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(directory).env("SURETY_RUNTIME_DIR", directory.join("run"));
    command.output().unwrap()
}

/// A recording of three processes that take turns: reads with think times of 1 ms, some of them read ahead.
fn recording() -> String {
    let line = |index: u64| {
        let (process, action) = (index % 3, if index.is_multiple_of(7) { "RA" } else { "R" });
        format!("p-{process} .001 {} {} Rand 0 0 {action} 0 C\n", 8 + index % 5 * 8, index * 7919 % 4096 * 64)
    };
    (0..60).map(line).collect()
}

fn workload(model: &str, scheduler: &str, readers: u32) -> String {
    let mut text = format!(
        "format = 1\n[disk.d]\nmodel = \"{model}\"\nscheduler = \"{scheduler}\"\n\
         [[startup]]\nname = \"program\"\nreplay = \"recorded\"\ndisk = \"d\"\ncold = true\nrepeat = 3\ngap = \"100ms\"\ntimeout = \"60s\"\n"
    );
    if readers > 0 {
        write!(text, "[[load]]\nname = \"readers\"\nkind = \"readers\"\ncount = {readers}\ndisk = \"d\"\nsize = \"16MiB\"\n")
            .unwrap();
    }
    text
}

/// Runs a workload in the simulator, and returns its record.
fn simulated(place: &Path, workload: &str, seconds: u32) -> Value {
    fs::write(place.join("recorded"), recording()).unwrap();
    fs::write(place.join("w.toml"), workload).unwrap();
    let length = format!("{seconds}s");
    let run = surety(
        place,
        &["run", "w.toml", "--on", "sim", "--for", &length, "--warm-up", "0s", "--trace", "w.dat", "--json"],
    );
    assert_eq!(run.status.code(), Some(0), "{}", errors(&run));
    serde_json::from_str(&text(&run)).unwrap()
}

fn activity<'a>(document: &'a Value, name: &str) -> &'a Value {
    let list = document["results"][0]["activities"].as_array().unwrap();
    list.iter().find(|activity| activity["name"] == name).unwrap()
}

/// The document: each start-up or access is shared out exactly. Returns it.
fn explained(place: &Path, file: &str, what: &str, name: &str) -> Value {
    let output = surety(place, &["trace", "explain", file, what, name, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    keeps_to_its_schema(&["trace", "explain", what], &text(&output));
    let document: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(keys(&document), documented());
    for span in document["spans"].as_array().unwrap() {
        let time = span["time_ns"].as_i64().unwrap();
        assert_eq!(time, span["end_ns"].as_i64().unwrap() - span["begin_ns"].as_i64().unwrap());
        assert_eq!(sum(span, |_| true), time, "{span}");
        let shares = span["parts"].as_array().unwrap().iter().map(|part| part["share"].as_f64().unwrap());
        assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{span}");
    }
    document
}

/// Keys of a document but those of `quality`, as the page names them.
fn keys(document: &Value) -> BTreeSet<String> {
    let of = |value: &Value, above: &str| {
        let object = value.as_object().unwrap();
        object.keys().map(|key| format!("{above}{key}")).collect::<Vec<String>>()
    };
    let span = &document["spans"][0];
    let all = [of(document, ""), of(span, "spans[]."), of(&span["parts"][0], "spans[].parts[].")];
    all.into_iter().flatten().collect()
}

/// Keys that `docs/formats/trace-attribution.md` names: those of its lines with a type.
fn documented() -> BTreeSet<String> {
    let page = include_str!("../../../../docs/formats/trace-attribution.md");
    let typed = page.lines().filter(|line| line.starts_with("| `") && line.matches(" | ").count() == 2);
    typed.filter_map(|line| line.split('`').nth(1)).map(str::to_owned).collect()
}

/// The time of some parts of a start-up.
fn sum(span: &Value, which: impl Fn(&Value) -> bool) -> i64 {
    let parts = span["parts"].as_array().unwrap().iter().filter(|part| which(part));
    parts.map(|part| part["time_ns"].as_i64().unwrap()).sum()
}

fn median(document: &Value) -> &Value {
    &document["spans"][document["median"].as_u64().unwrap() as usize]
}

/// Removing the readers shortens the median start-up by what they were blamed for and by what the disk takes longer beside them, since its arm is
/// elsewhere: to a tenth, as requests of the start-up wait for one another then, too.
#[test]
fn a_start_up_is_shared_out_and_what_is_blamed_is_what_is_gained() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    for scheduler in ["none", "mq-deadline", "kyber", "bfq"] {
        let record = simulated(place, &workload("hdd-7200", scheduler, 4), 30);
        let beside = explained(place, "w.dat", "--startup", "program");
        let spans = beside["spans"].as_array().unwrap();
        let measured = &activity(&record, "program")["series"]["startup"]["sequence"]["values"];
        let told: Vec<&Value> = spans.iter().map(|span| &span["time_ns"]).collect();
        assert_eq!(told, measured.as_array().unwrap().iter().collect::<Vec<_>>(), "{scheduler}");
        assert_eq!(spans.len(), 3, "{scheduler}");
        for span in spans {
            // Nobody else has a CPU, and a think time is what was recorded.
            assert_eq!(sum(span, |part| part["kind"] == "think"), 60_000_000, "{scheduler}: {span}");
            assert_eq!(sum(span, |part| part["kind"] == "unknown" || part["kind"] == "waits"), 0, "{span}");
        }
        let (with, blamed) = (
            median(&beside)["time_ns"].as_i64().unwrap(),
            sum(median(&beside), |part| part["kind"] == "requests" && part["name"] == "readers"),
        );
        assert!(blamed > with / 10, "{scheduler}: {}", median(&beside));

        simulated(place, &workload("hdd-7200", scheduler, 0), 30);
        let alone = explained(place, "w.dat", "--startup", "program");
        let without = median(&alone)["time_ns"].as_i64().unwrap();
        let disk = |document| sum(median(document), |part| part["kind"] == "disk");
        let (gained, longer) = (with - without, disk(&beside) - disk(&alone));
        assert!(
            (blamed + longer - gained).abs() < with / 10,
            "{scheduler}: {with} with readers, {without} without, {blamed} blamed, the disk took {longer} longer"
        );
    }
}

#[test]
fn a_start_up_is_told_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    simulated(place, &workload("hdd-2004", "kyber", 2), 60);
    let words =
        text(&surety(place, &["trace", "explain", "w.dat", "--startup", "program", "--width", "100"]));
    for expected in [
        "median  start-up ",
        "slowest  start-up ",
        "think time",
        "I/O scheduler, behind  readers",
        "its domain has its turn",
        "disk: seek",
        "100.0 %",
        "3 start-ups of program",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    assert!(words.lines().all(|line| line.chars().count() <= 100), "{words}");
    // The Perfetto trace holds the same.
    let converted = surety(place, &["trace", "convert", "w.dat", "w.pftrace"]);
    assert_eq!(converted.status.code(), Some(0), "{}", errors(&converted));
    let spans = |file| explained(place, file, "--startup", "program")["spans"].clone();
    assert_eq!(spans("w.pftrace"), spans("w.dat"));

    for (arguments, expected) in [
        (
            ["--startup", "progam"].as_slice(),
            "no start-up of `progam` is in it\n  help: did you mean program?",
        ),
        (&["--startup", "program", "--from", "59s"], "leave out --from and --to"),
        (&["--stream", "program"], "no access of a stream `program` was late or dropped in it"),
        (&["--startup", "program", "--comm", "program"], "cannot be used with"),
    ] {
        let output = surety(place, &[&["trace", "explain", "w.dat"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(errors(&output).contains(expected), "{arguments:?}: {}", errors(&output));
    }
    simulated(place, &workload("hdd-2004", "kyber", 2), 1);
    let early = surety(place, &["trace", "explain", "w.dat", "--startup", "program"]);
    assert!(errors(&early).contains("still under way at the end: record longer"), "{}", errors(&early));
}

/// What the trace tells of frames is what the record counts; with and without a play-out buffer.
#[test]
fn late_and_dropped_frames_are_told_who_delayed_them() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    for keys in ["", "batch = \"96KiB\"\nbuffer = \"144KiB\"\njitter = \"1ms\"\nio-priority = \"be:4\"\n"] {
        let film = format!(
            "format = 1\n[disk.d]\nmodel = \"hdd-2004\"\nscheduler = \"mq-deadline\"\n\
             [[stream]]\nname = \"film\"\ndisk = \"d\"\nfile = {{ make = \"12MB\" }}\nrate = \"589824B/s\"\nread = \"24KiB\"\n{keys}\
             [[load]]\nname = \"readers\"\nkind = \"readers\"\ncount = 10\ndisk = \"d\"\nsize = \"64MiB\"\n"
        );
        let record = simulated(place, &film, 20);
        let film = activity(&record, "film");
        let document = explained(place, "w.dat", "--stream", "film");
        let spans = document["spans"].as_array().unwrap();
        let of = |fate: &str| spans.iter().filter(|span| span["fate"] == fate).count() as u64;
        let (missed, skipped, open) =
            (&film["missed"], &film["skipped"], film["unfinished"].as_u64().unwrap());
        let (late, dropped) = (of("late"), of("dropped"));
        assert_eq!(dropped, skipped.as_u64().unwrap(), "{keys}: {late} late");
        let missed = missed.as_u64().unwrap();
        assert!(
            (missed - open..=missed).contains(&(late + dropped)),
            "{keys}: {missed}, {late} and {dropped}, {open} open"
        );
        let slowest = &spans[document["slowest"].as_u64().unwrap() as usize];
        let behind = sum(slowest, |part| part["kind"] == "requests" && part["name"] == "readers");
        assert!(behind > slowest["time_ns"].as_i64().unwrap() / 2, "{keys}: {slowest}");
        assert_eq!(sum(slowest, |part| part["kind"] == "unknown"), 0, "{keys}: {slowest}");
        let words = text(&surety(place, &["trace", "explain", "w.dat", "--stream", "film"]));
        assert!(words.contains("accesses of film: "), "{words}");
    }
}

/// A real program that starts others on a disk of its own beside readers: its processes are told apart, and the disk.
#[test]
fn a_program_that_starts_others_is_told_over_all_of_them() {
    let _alone = alone();
    let has_disks =
        Command::new("mkfs.ext4").arg("-V").output().is_ok() && Path::new("/dev/loop-control").exists();
    if !is_root() || !has_disks {
        return eprintln!("SKIPPED: only root makes disks of loop devices, with mkfs.ext4");
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let workload = "format = 1\n[disk.d]\nmake = \"64MiB\"\n\
        [[startup]]\nname = \"program\"\ndisk = \"d\"\ncold = true\nrepeat = 2\ngap = \"50ms\"\ntimeout = \"10s\"\n\
        prepare = \"sh -c 'head -c 4000000 /dev/urandom > part'\"\n\
        command = \"sh -c 'cat part > /dev/null; sleep 0.05; sort part > /dev/null'\"\n\
        [[startup]]\nname = \"prints\"\nready = \"stdout:READY\"\nrepeat = 1\ntimeout = \"10s\"\n\
        command = \"sh -c '(sleep 0.05; echo READY; sleep 10) & wait'\"\n";
    fs::write(place.join("w.toml"), workload).unwrap();
    let run = surety(place, &["run", "w.toml", "--on", "host", "--for", "6s", "--trace", "w.dat", "--json"]);
    assert_eq!(run.status.code(), Some(0), "{}", errors(&run));
    if !place.join("w.dat").exists() {
        return eprintln!("SKIPPED: nothing can be recorded here: {}", errors(&run));
    }
    let record: Value = serde_json::from_str(&text(&run)).unwrap();
    for name in ["program", "prints"] {
        let document = explained(place, "w.dat", "--startup", name);
        let measured = &activity(&record, name)["series"]["startup"]["sequence"]["values"];
        let spans = document["spans"].as_array().unwrap();
        let told: Vec<&Value> = spans.iter().map(|span| &span["time_ns"]).collect();
        assert_eq!(told, measured.as_array().unwrap().iter().collect::<Vec<_>>(), "{name}");
        for span in spans {
            let time = span["time_ns"].as_i64().unwrap();
            let clock = sum(span, |part| part["cause"] == "clock");
            // Until the thread is there that reads what is printed, what made it counts.
            let least = if name == "program" { 49_000_000 } else { 25_000_000 };
            assert!((least..time).contains(&clock), "it sleeps for 50 ms: {span}");
            assert!(sum(span, |part| part["cause"] == "ran" && part["name"] == "sleep") > 0, "{span}");
            assert!(sum(span, |part| part["kind"] == "unknown") < time / 20, "{span}");
            if name == "program" {
                assert!(sum(span, |part| part["cause"] == "ran" && part["name"] == "sort") > 0, "{span}");
                assert!(sum(span, |part| part["cause"] == "ran" && part["name"] == "cat") > 0, "{span}");
                let disk = sum(span, |part| part["kind"] == "disk" || part["kind"] == "requests");
                assert!(disk > 0, "what it reads was not in the cache: {span}");
            }
        }
    }
}
