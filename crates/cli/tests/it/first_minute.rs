//! The first minute: `surety` alone, `surety init`, and what an ordinary user gets at once.

use std::path::Path;

use serde_json::Value;

use crate::common::{alone, beside_guests, errors, surety, surety_as_nobody, text};

#[test]
fn without_a_verb_it_says_what_to_type_next() {
    let _beside = beside_guests();
    let output = surety(&[]);
    assert_eq!(output.status.code(), Some(2), "an incomplete command line proves nothing");
    assert!(text(&output).contains("Next:") && text(&output).contains("surety init"), "{}", text(&output));
    let room = tempfile::tempdir().unwrap();
    let Some(output) = surety_as_nobody(room.path(), &[]) else {
        return eprintln!("SKIPPED: no ordinary user to be");
    };
    let said = text(&output);
    assert!(
        said.contains("refused:") && said.contains("sudo setcap cap_sys_nice"),
        "{said} {}",
        errors(&output)
    );
}

#[test]
fn an_ordinary_user_measures_latency_under_the_class_they_may_have() {
    let _alone = alone();
    let room = tempfile::tempdir().unwrap();
    let arguments = ["latency", "--cpus", "0", "--jobs", "50", "--warm-up", "0ms", "--json"];
    let Some(output) = surety_as_nobody(room.path(), &arguments) else {
        return eprintln!("SKIPPED: no ordinary user to be");
    };
    let document: Value =
        serde_json::from_str(&text(&output)).unwrap_or_else(|e| panic!("{e}: {}", errors(&output)));
    let policy = document["results"][0]["in_force"]["threads"][0]["policy"].as_str().unwrap();
    // Another limit of real-time priorities gives another class, and fifo:80 needs no word.
    let class = policy.split(' ').next().unwrap();
    let is_told = errors(&output).contains(&format!("measured under `{class}`"));
    assert!(is_told || class == "fifo:80", "{policy}: {}", errors(&output));
}

#[test]
fn every_template_runs_as_it_is_written() {
    let room = tempfile::tempdir().unwrap();
    for name in ["player", "control-loop", "audio", "server", "disk", "irq"] {
        let path = room.path().join(format!("{name}.toml"));
        let file = path.to_str().unwrap();
        let output = surety(&["init", "--template", name, "--output", file]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", errors(&output));
        assert!(std::fs::read_to_string(&path).unwrap().contains(&format!("surety run {file} --on sim")));
        let output = surety(&["run", file, "--on", "sim", "--for", "300ms", "--json"]);
        let document: Value = serde_json::from_str(&text(&output))
            .unwrap_or_else(|e| panic!("{name}: {e}: {}", errors(&output)));
        assert_eq!(document["schema"], "surety.record/1", "{name}: {document}");
        // Nothing is replaced unasked.
        let output = surety(&["init", "--template", name, "--output", file]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(errors(&output).contains("--force"), "{}", errors(&output));
    }
}

/// What a watched program gives is a file that is taken. Whether its period is seen depends on what else runs here.
#[test]
fn a_watched_program_gives_a_file_that_is_taken() {
    let _alone = alone();
    let room = tempfile::tempdir().unwrap();
    let path = |name: &str| room.path().join(name).to_str().unwrap().to_owned();
    let (inner, drawn) = (path("inner.toml"), path("drawn.toml"));
    std::fs::write(&inner, "format = 1\n[[task]]\nname = \"ticker\"\nperiod = \"20ms\"\nwork = \"4ms\"\n")
        .unwrap();
    let command = format!("{} run {inner} --for 9s --no-trace --quiet", crate::common::program().display());
    let output = surety(&[
        "init",
        "--command",
        &command,
        "--for",
        "1s",
        "--warm-up",
        "800ms",
        "--keep-capabilities",
        "all",
        "--output",
        &drawn,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let written = std::fs::read_to_string(&drawn).unwrap();
    let workload = surety_model::formats::toml::read("drawn", &written).unwrap_or_else(|e| panic!("{e}"));
    assert!(written.contains("Thread ticker") && written.contains("waits for"), "{written}");
    if let Some(interval) = workload.tasks[0].release.interval() {
        let millis = interval.as_millis_f64();
        assert!((5.0..80.0).contains(&millis), "{written}");
    }
}

#[test]
fn what_cannot_be_watched_is_refused_with_the_next_step() {
    let _beside = beside_guests();
    let room = tempfile::tempdir().unwrap();
    let file = room.path().join("no.toml");
    for (command, code, what, help) in [
        ("true", 2, "ended after", "while :; do COMMAND; done"),
        ("ls /nowhere/at/all", 2, "it said: ls:", "run it by itself"),
        ("no-such-program", 2, "No such file", "check the command's name"),
        ("ls | wc", 2, "is a shell's", "sh -c"),
        ("sleep 9", 4, "it slept", "give it work"),
    ] {
        let arguments = ["init", "--for", "100ms", "--warm-up", "100ms", "--command", command, "--output"];
        let output = surety(&[&arguments[..], &[file.to_str().unwrap()]].concat());
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(code), "{command}: {said}");
        assert!(said.contains(what) && said.contains(help), "{command}: {said}");
        assert!(!Path::new(&file).exists(), "{command}");
    }
    let output = surety(&["init", "--pid", "2147483647"]);
    assert!(
        output.status.code() == Some(2) && errors(&output).contains("there is no process"),
        "{}",
        errors(&output)
    );
}
