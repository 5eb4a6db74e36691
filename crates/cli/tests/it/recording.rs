//! `surety trace record` with chosen events, limits, a window and a condition; and what is left when it is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use surety_kernel::tracefs::Tracefs;

use crate::common::{errors, program};

/// A directory to record in and one for journals.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(place.out()).unwrap();
        place
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(["trace", "record"]).args(arguments).current_dir(self.out()).stdin(Stdio::null());
        command.env("SURETY_RUNTIME_DIR", self.directory.path().join("run"));
        command
    }

    fn record(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// A recording that must succeed, in its own words.
    fn made(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).arg("--json").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn stats(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(program());
        let output =
            command.args(["trace", "stats", "--json"]).args(arguments).current_dir(self.out()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.out()).unwrap();
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Tracefs, or a loud reason why nothing can be recorded.
fn tracefs() -> Option<Tracefs> {
    let tried = Tracefs::open().and_then(|tracefs| tracefs.instances().map(|_| tracefs));
    tried.inspect_err(|error| eprintln!("SKIPPED: nothing can be recorded here: {error}")).ok()
}

/// A shell under a name of its own that sleeps over and over.
fn beat(place: &Place, times: u32) -> [String; 3] {
    let path = place.directory.path().join("surety-beat");
    std::os::unix::fs::symlink("/bin/sh", &path).unwrap();
    let script = format!("n=0; while [ $n -lt {times} ]; do sleep 0.02; n=$((n+1)); done");
    [path.to_string_lossy().into_owned(), "-c".to_owned(), script]
}

#[test]
fn chosen_events_are_recorded_and_trace_cmd_counts_each_alike() {
    let Some(tracefs) = tracefs() else { return };
    let place = Place::new();
    let only = ["--only-events", "--event", "sched:sched_sw*ch", "--event", "raw_syscalls"];
    let made = place.made(&[&only[..], &["-o", "a.dat", "--for", "400ms"]].concat());
    let seen = place.stats(&["a.dat"]);
    let counts: BTreeMap<String, u64> = seen["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["event"].as_str().unwrap().to_owned(), e["count"].as_u64().unwrap()))
        .collect();
    let chosen = ["sched:sched_switch", "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];
    let chosen = chosen.map(str::to_owned).into_iter().filter(|event| tracefs.event_format(event).is_ok());
    assert_eq!(counts.keys().cloned().collect::<BTreeSet<_>>(), chosen.collect());
    assert_eq!(counts.values().sum::<u64>(), made["events"].as_u64().unwrap());

    let report = match Command::new("trace-cmd")
        .args(["report", "-R", "-t", "a.dat"])
        .current_dir(place.out())
        .output()
    {
        Ok(report) => report,
        Err(error) => {
            return eprintln!(
                "SKIPPED: trace-cmd cannot be started ({error}); install the package trace-cmd"
            );
        }
    };
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    for line in String::from_utf8_lossy(&report.stdout).lines() {
        // thread [cpu] time: event: fields
        let Some((_, rest)) = line.split_once("] ") else { continue };
        if let Some(event) = rest.split(": ").nth(1) {
            *told.entry(event.trim().trim_end_matches(':').to_owned()).or_default() += 1;
        }
    }
    let short = |(event, count): (String, u64)| (event.split(':').nth(1).unwrap().to_owned(), count);
    assert_eq!(told, counts.into_iter().map(short).collect(), "{}", errors(&report));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_recorded() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    for (arguments, expected) in [
        (&["--event", "sched:sched_swich"][..], "did you mean sched:sched_switch?"),
        (&["--event", "shed"], "did you mean sched?"),
        (&["--event", ""], "this kernel has no event"),
        (&["--only-events"], "--event"),
        (&["--keep", "5s", "--for", "5s"], "nothing to leave out"),
        (&["--size", "1KiB"], "at least 64KiB"),
        (&["--buffer", "8"], "8"),
        (&["--after", "1s"], "--stop-when"),
        (&["--stop-when", "respons(a) > 1ms"], "did you mean response?"),
        (&["--stop-when", "response(a) < 1ms"], "> or >="),
        (&["--only-events", "--event", "irq", "--stop-when", "wait(a) > 1ms"], "sched:sched_switch"),
    ] {
        let refused = place.record(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", errors(&refused));
        assert!(errors(&refused).contains(expected), "{arguments:?}: {}", errors(&refused));
    }
    assert_eq!(place.files(), BTreeSet::new());
}

#[test]
fn a_flight_recorder_stops_on_its_condition_and_holds_the_job_that_met_it() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    let [shell, c, script] = beat(&place, 100_000);
    let made = place.made(&[
        "-o",
        "a.dat",
        "--for",
        "60s",
        "--keep",
        "2s",
        "--stop-when",
        "response(surety-beat) >= 1us",
        "--after",
        "50ms",
        "--filter",
        "irq_handler_entry:irq >= 0",
        "--json",
        "--",
        &shell,
        &c,
        &script,
    ]);
    assert_eq!(
        (&made["ended_by"], &made["condition"]),
        (&"condition".into(), &"response(surety-beat) >= 1us".into())
    );
    let met = &made["met"];
    assert_eq!(met["name"], "surety-beat");
    let number = |value: &Value| value.as_i64().unwrap();
    assert_eq!(number(&met["at_ns"]) - number(&met["release_ns"]), number(&met["value_ns"]));
    let seen = place.stats(&["a.dat", "--tid", &met["tid"].to_string()]);
    assert!(number(&seen["first_ns"]) <= number(&met["release_ns"]), "{made} {seen}");
    assert!(number(&seen["last_ns"]) >= number(&met["at_ns"]), "{made} {seen}");
    let [thread] = seen["threads"].as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert!(number(&thread["response_ns"]["max"]) >= number(&met["value_ns"]), "{thread}");
    assert_eq!(documented_but_not_in(&made), BTreeSet::new());
}

#[test]
fn a_condition_that_is_not_met_does_not_end_it() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    let [shell, c, script] = beat(&place, 10);
    let condition = ["--stop-when", "response(surety-beat) > 1000s"];
    let made = place.made(&[&condition[..], &["-o", "a.dat", "--json", "--", &shell, &c, &script]].concat());
    assert_eq!((&made["ended_by"], &made["met"]), (&"command".into(), &Value::Null));
    assert!(made["condition_cpu_time_ns"].as_i64().unwrap() > 0);
    assert!(made["own_cpu_time_ns"].as_i64() >= made["condition_cpu_time_ns"].as_i64());
    assert_eq!(documented_but_not_in(&made), BTreeSet::new());
}

#[test]
fn a_size_ends_a_recording() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    let busy = ["--", "sh", "-c", "while :; do sleep 0.001; done"];
    let made =
        place.made(&[&["-o", "a.dat", "--for", "60s", "--size", "128KiB", "--json"][..], &busy].concat());
    assert_eq!(made["ended_by"], "size");
    assert!(made["carried"].as_u64().unwrap() >= 128 << 10, "{made}");
    assert!(fs::metadata(place.out().join("a.dat")).unwrap().len() > 128 << 10);
}

#[test]
fn a_file_that_was_there_is_replaced_whole() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    fs::write(place.out().join("old.dat"), vec![b'x'; 64 << 20]).unwrap();
    std::os::unix::fs::symlink("old.dat", place.out().join("a.dat")).unwrap();
    let made = place.made(&["-o", "a.dat", "--for", "200ms"]);
    assert_eq!(place.files(), ["a.dat", "old.dat"].map(str::to_owned).into());
    assert!(fs::symlink_metadata(place.out().join("a.dat")).unwrap().is_symlink());
    let length = fs::metadata(place.out().join("old.dat")).unwrap().len();
    assert_eq!(length, made["bytes"].as_u64().unwrap());
}

#[test]
fn a_killed_recording_leaves_no_file_and_the_next_start_removes_its_instance() {
    let Some(tracefs) = tracefs() else { return };
    let place = Place::new();
    let mut child = place.command(&["-o", "a.dat", "--keep", "1s"]).stderr(Stdio::null()).spawn().unwrap();
    let prefix = format!("surety-{}-", child.id());
    let left = || tracefs.instances().unwrap().into_iter().filter(|name| name.starts_with(&prefix)).count();
    let begun = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        left() > 0
    });
    assert!(begun);
    std::thread::sleep(Duration::from_millis(400));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.files(), BTreeSet::new());
    let next = place.record(&["-o", "b.dat", "--for", "100ms"]);
    assert_eq!(next.status.code(), Some(0), "{}", errors(&next));
    assert_eq!(left(), 0, "{}", errors(&next));
    assert_eq!(place.files(), ["b.dat".to_owned()].into());
}

#[test]
fn a_full_disk_is_said_and_leaves_no_half_file() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    let script = r#"
        mount --make-rprivate / && mount -t tmpfs -o size=128k none "$1" || { echo cannot mount; exit 0; }
        cd "$1"
        SURETY_RUNTIME_DIR="$3" "$2" trace record -o a.dat --for 60s -- sh -c 'while :; do sleep 0.001; done'
        echo "code $?"; ls -A"#;
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(place.out())
        .arg(program())
        .arg(place.directory.path().join("run"))
        .output();
    let output = match output {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("code") => output,
        other => return eprintln!("SKIPPED: no small file system can be mounted here: {other:?}"),
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "code 3\n", "{}", errors(&output));
    assert!(errors(&output).contains("No space left on device"), "{}", errors(&output));
}

/// Keys on which a document and `docs/formats/trace-record.md` differ, whoever has them. `met` may be null.
fn documented_but_not_in(document: &Value) -> BTreeSet<String> {
    let page = include_str!("../../../../docs/formats/trace-record.md");
    let of_met = |key: &String| !document["met"].is_null() || !key.starts_with("met.");
    let documented =
        page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once('`').map(|(k, _)| k.to_owned()));
    let has_filters = document["filters"].as_array().is_some_and(|filters| !filters.is_empty());
    let of_filters = |key: &String| has_filters || !key.starts_with("filters[]");
    let documented: BTreeSet<String> = documented.filter(of_met).filter(of_filters).collect();
    let mut written = BTreeSet::new();
    for (key, value) in document.as_object().unwrap() {
        written.insert(key.clone());
        let below = value.as_object().map(|o| (key.clone(), o));
        let element = value.as_array().and_then(|a| a.first()?.as_object()).map(|o| (format!("{key}[]"), o));
        for (above, object) in below.into_iter().chain(element) {
            written.extend(object.keys().map(|k| format!("{above}.{k}")));
        }
    }
    documented.symmetric_difference(&written).cloned().collect()
}

#[test]
fn without_a_journal_nothing_is_recorded() {
    let Some(tracefs) = tracefs() else { return };
    let place = Place::new();
    let before = tracefs.instances().unwrap();
    let unusable = place.directory.path().join("file");
    fs::write(&unusable, "no directory").unwrap();
    let mut command = place.command(&["--for", "50ms"]);
    let output = command.env("SURETY_RUNTIME_DIR", &unusable).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("no journal can be kept"), "{}", errors(&output));
    assert!(place.files().is_empty());
    let left = tracefs.instances().unwrap();
    assert!(left.iter().all(|name| before.contains(name) || !name.starts_with("surety-")), "{left:?}");
}
