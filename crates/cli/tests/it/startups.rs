//! Start-ups: when a program is ready, when it is given up, and recorded ones replayed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{alone, errors, is_root, root, surety, text};

fn write(directory: &Path, body: &str) -> PathBuf {
    let path = directory.join("w.toml");
    std::fs::write(&path, format!("format = 1\n{body}")).unwrap();
    path
}

fn run(path: &Path, seconds: u32) -> Value {
    let output =
        surety(&["run", path.to_str().unwrap(), "--json", "--no-trace", "--for", &format!("{seconds}s")]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    serde_json::from_str(&text(&output)).unwrap()
}

fn activity<'a>(document: &'a Value, name: &str) -> &'a Value {
    let list = document["results"][0]["activities"].as_array().unwrap();
    list.iter().find(|a| a["name"] == name).unwrap()
}

fn has(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok()
}

/// Whether a disk can be made here; says so loudly where not.
fn has_disks() -> bool {
    let maker = Command::new("mkfs.ext4").arg("-V").stderr(Stdio::null()).status().is_ok();
    let all = is_root() && maker && Path::new("/dev/loop-control").exists();
    if !all {
        eprintln!("SKIPPED: no disk can be made without root, loop devices and mkfs.ext4");
    }
    all
}

#[test]
fn a_program_is_ready_when_it_exits_or_prints_or_takes_connections() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let mut body = "[[startup]]\nname = \"exits\"\ncommand = \"sh -c 'sleep 0.05'\"\nrepeat = 3\ngap = \"1ms\"\n\
                    [[startup]]\nname = \"prints\"\nready = \"stdout:is up\"\nrepeat = 2\ngap = \"1ms\"\n\
                    command = \"sh -c 'echo nothing; printf it; echo \\\" is up now\\\"; sleep 100 & wait'\"\n"
        .to_owned();
    let python = has("python3");
    if python {
        let code = "import socket,time;s=socket.socket(socket.AF_UNIX);time.sleep(0.05);s.bind('{}');s.listen();time.sleep(100)";
        let code = code.replace("{}", socket.to_str().unwrap());
        let command = format!("python3 -c \\\"{code}\\\"");
        writeln!(
            body,
            "[[startup]]\nname = \"listens\"\ncommand = \"{command}\"\nready = \"socket:{}\"\nrepeat = 2\ngap = \"1ms\"",
            socket.display()
        )
        .unwrap();
    } else {
        eprintln!("SKIPPED the socket: no python3 to listen at it");
    }
    let document = run(&write(directory.path(), &body), 8);
    for (name, repeat, least) in [("exits", 3, 50_000_000), ("prints", 2, 0), ("listens", 2, 50_000_000)] {
        if name == "listens" && !python {
            continue;
        }
        let found = activity(&document, name);
        assert_eq!(
            (&found["completed"], &found["unfinished"]),
            (&repeat.into(), &0.into()),
            "{name}: {found}"
        );
        for series in ["startup", "idle startup"] {
            let values = found["series"][series]["sequence"]["values"].as_array().unwrap();
            assert_eq!(values.len(), repeat, "{name}: {found}");
            assert!(values.iter().all(|v| v.as_u64().unwrap() >= least), "{name}: {values:?}");
            // Waiting for its end would have lasted 100 s.
            assert!(values.iter().all(|v| v.as_u64().unwrap() < 60_000_000_000), "{name}: {values:?}");
        }
    }
    assert!(!socket.exists(), "the socket of a program that was ended is left");
}

/// What is made for the run has no place in the file system; programs that ask where they are get one all the same, and nobody else sees it.
#[test]
fn a_program_on_a_disk_that_was_made_knows_where_it_is() {
    let _alone = alone();
    if !has_disks() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().join("here");
    let body = format!(
        "[disk.d]\nmake = \"32MiB\"\n[[startup]]\nname = \"asks\"\ndisk = \"d\"\ncold = true\nrepeat = 2\ngap = \"1ms\"\n\
         prepare = \"sh -c 'cp -L /bin/pwd where; echo kept > kept'\"\n\
         command = \"sh -c './where -P >> {} && cat kept'\"\nready = \"stdout:kept\"\n",
        here.display()
    );
    let before = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let path = write(directory.path(), &body);
    let arguments = ["run", path.to_str().unwrap(), "--json", "--no-trace", "--for", "4s"];
    let output = surety(&arguments);
    let told = std::fs::read_to_string(&here).unwrap_or_default();
    if output.status.code() == Some(2) && told.is_empty() {
        return eprintln!("SKIPPED: this kernel clones no detached mount: {}", errors(&output));
    }
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 4, "idle, and beside nothing: {told}");
    assert!(lines.iter().all(|line| line.starts_with('/') && !line.contains("unreachable")), "{told}");
    assert_eq!(std::fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
}

#[test]
fn what_is_given_up_is_an_x_and_breaks_what_it_outlived() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let body = "[[startup]]\nname = \"slow\"\ncommand = \"sleep 30\"\ntimeout = \"1ms\"\nrepeat = 4\ngap = \"1ms\"\n\
                promise = [\"startup <= 500us\"]\n";
    let path = write(directory.path(), body);
    let output = surety(&["run", path.to_str().unwrap(), "--no-trace", "--for", "2s"]);
    let said = text(&output);
    // A disturbance of the machine may explain a miss: then nothing is broken, and nothing kept.
    let excused = said.contains("which may explain it");
    assert_eq!(output.status.code(), Some(if excused { 4 } else { 1 }), "{said}{}", errors(&output));
    let outcome = if excused { "undecided" } else { "broken" };
    // Idle and beside the loads, though there are none.
    let words: Vec<Vec<&str>> = said.lines().map(|l| l.split_ascii_whitespace().collect()).collect();
    let is_line = |words: &&Vec<&str>| words.first() == Some(&"host") && words.last() == Some(&outcome);
    let line = words.iter().find(is_line).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(line.iter().filter(|word| **word == "X").count(), 2, "{said}");
}

#[test]
fn what_cannot_be_started_is_said() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for (keys, word) in [
        ("command = \"sh -c 'echo no such luck >&2; exit 3'\"", "no such luck"),
        ("command = \"/no/such/program\"", "/no/such/program"),
        ("command = \"true\"\nready = \"stdout:x\"", "closed its standard output"),
        ("command = \"true\"\nready = \"socket:/tmp/surety-no-socket\"", "before its socket"),
        ("command = \"true\"\ncold = true", "add `disk`"),
        ("command = \"true\"\nprepare = \"true\"", "add `disk`"),
        ("replay = \"x.trace\"", "add `disk`"),
    ] {
        let path = write(directory.path(), &format!("[[startup]]\nname = \"s\"\n{keys}\n"));
        let output = surety(&["run", path.to_str().unwrap(), "--no-trace", "--for", "1s"]);
        assert!(![Some(0), Some(1)].contains(&output.status.code()), "{keys}");
        assert!(errors(&output).contains(word), "{keys}: {}", errors(&output));
    }
}

/// The replay of a recording: its record.
fn replayed(recording: &Path, seconds: u32) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let body = format!(
        "[disk.d]\nmake = \"256MiB\"\n[[startup]]\nname = \"s\"\nreplay = \"{}\"\ndisk = \"d\"\ngap = \"1ms\"\n",
        recording.display()
    );
    let document = run(&write(directory.path(), &body), seconds);
    activity(&document, "s").clone()
}

/// A gap is never shorter than recorded; that it is hardly longer is looked at only where the machine was calm.
fn gaps_are_kept(record: &Value, recorded: usize, what: &str) {
    let figure = |name: &str| {
        let figures = record["figures"].as_array().unwrap();
        figures.iter().find(|f| f["name"] == name).unwrap()["value"].as_f64().unwrap()
    };
    assert_eq!(figure("gaps") as usize, recorded, "{what}: {record}");
    let (close, median) = (figure("within 1 %"), figure("median error"));
    println!("{what}: {close} % of {recorded} gaps within 1 %, median error {median} %");
    if median > 1.0 {
        eprintln!("SKIPPED the accuracy of {what}: the machine is disturbed, median error {median} %");
    }
}

#[test]
fn a_recorded_start_takes_its_think_times() {
    if !has_disks() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut recording = String::new();
    for i in 0..30 {
        let action = ["R", "RA", "RM", "WS"][i % 4];
        let think = if i % 3 == 0 { ".010000" } else { ".000040" };
        writeln!(recording, "p-{} {think} 8 {} Rand 0 0 {action} 0 C", i % 3, 1000 + i * 8 % 96).unwrap();
    }
    let path = directory.path().join("small.trace");
    std::fs::write(&path, recording).unwrap();
    let record = replayed(&path, 2);
    assert_eq!((&record["completed"], &record["unfinished"]), (&1.into(), &0.into()), "{record}");
    let took = record["series"]["startup"]["sequence"]["values"][0].as_u64().unwrap();
    assert!(took >= 10 * 10_000_000 + 20 * 40_000, "all think times fit into {took} ns");
    gaps_are_kept(&record, 10, "a small recording");
    // The disk moved what it reads and writes past the page cache, 22 times 4 KiB, while it started; what went on then is told apart.
    let rate = |name: &str| {
        let figures = record["figures"].as_array().unwrap();
        figures.iter().find(|f| f["name"] == name).unwrap()["value"].as_f64().unwrap()
    };
    let moved = rate("disk while starting") * took as f64 / 1e9;
    assert!(moved > 22.0 * 4096.0 / 2.0, "{moved} bytes: {record}");
    assert!(rate("disk otherwise") < rate("disk while starting"), "{record}");
}

#[test]
fn recorded_starts_of_real_programs_are_replayed() {
    let recordings = root().join("../shared/data/startup");
    if !recordings.exists() {
        eprintln!("SKIPPED: the recorded start-ups are not here");
        return;
    }
    if !has_disks() {
        return;
    }
    let _alone = alone();
    for (name, think, gaps, seconds) in [("gnometerm", 511_122_000, 67, 8), ("xterm", 2_436_270_000, 122, 12)]
    {
        let record = replayed(&recordings.join(name).with_extension("trace"), seconds);
        assert_eq!(record["completed"], 1, "{record}");
        let took = record["series"]["startup"]["sequence"]["values"][0].as_u64().unwrap();
        assert!(took > think / 1000 * 999, "{name}: all think times fit into {took} ns");
        gaps_are_kept(&record, gaps, name);
    }
}
