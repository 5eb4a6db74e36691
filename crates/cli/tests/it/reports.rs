//! `surety report` and `--expect`, as a build uses them: codes, files, and what is printed first.

use crate::common::{errors, program, surety, text};

const CYCLICTEST: &str = "crates/import/tests/data/cyclictest.json";

/// What is imported and written as our JSON reads back as the same tables.
#[test]
fn imported_results_are_records() {
    let direct = surety(&["report", CYCLICTEST]);
    assert_eq!(direct.status.code(), Some(0), "{}", errors(&direct));
    let json = surety(&["report", CYCLICTEST, "--json"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cyclictest.json");
    std::fs::write(&path, &json.stdout).unwrap();
    let again = surety(&["report", path.to_str().unwrap()]);
    assert_eq!(text(&again), text(&direct));
    assert!(text(&direct).contains("all threads"), "{}", text(&direct));
    let mut piped = std::process::Command::new(program());
    let output = piped.args(["report", "-"]).stdin(std::fs::File::open(&path).unwrap()).output().unwrap();
    assert_eq!(text(&output), text(&direct), "by standard input");
    let other = "crates/import/tests/data/fio.json";
    let both = surety(&["report", CYCLICTEST, other]);
    assert!(text(&both).contains("cyclictest.json: cyclictest") && text(&both).contains("read clat"));
}

#[test]
fn expectations_decide_the_code_and_come_first() {
    let directory = tempfile::tempdir().unwrap();
    let (junit, tap) = (directory.path().join("gates.xml"), directory.path().join("gates.tap"));
    for (expected, code, word) in [
        (["count >= 1", "p100 < 1h"], 0, "held"),
        (["count >= 1", "max < 1ns"], 1, "FAILED"),
        (["count >= 1", "'no figure' < 1ns"], 4, "cannot tell"),
        (["max < 1ns", "'no figure' < 1ns"], 1, "FAILED"),
    ] {
        let run = surety(&[
            "report",
            CYCLICTEST,
            "--expect",
            expected[0],
            expected[1],
            "--junit",
            junit.to_str().unwrap(),
            "--tap",
            tap.to_str().unwrap(),
        ]);
        assert_eq!(run.status.code(), Some(code), "{expected:?}: {}", text(&run));
        let first: Vec<String> = text(&run).lines().take(20).map(str::to_owned).collect();
        assert!(first.iter().any(|l| l.starts_with(word)), "{first:?}");
        assert!(first[0].starts_with("held") || first[0].starts_with("FAILED"), "{first:?}");
        assert!(std::fs::read_to_string(&junit).unwrap().contains("<testsuites tests=\"2\""));
        assert!(std::fs::read_to_string(&tap).unwrap().starts_with("TAP version 13\n1..2\n"));
    }
    let json = surety(&["report", CYCLICTEST, "--json", "--expect", "max < 1ns"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&document["exit"], &document["expectations"][0]["standing"]), (&1.into(), &"failed".into()));
}

#[test]
fn slips_are_refused_before_anything_runs() {
    let run = surety(&["run", "examples/video-player.toml", "--on", "sim", "--expect", "p99 < 5"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(errors(&run).contains("    p99 < 5\n          ^"), "{}", errors(&run));
    let report = surety(&["report", "README.md"]);
    assert_eq!(report.status.code(), Some(2));
    assert!(errors(&report).contains("no known format"), "{}", errors(&report));
    let missing = surety(&["report", "no/such/file"]);
    assert_eq!(missing.status.code(), Some(2));
}

/// Simulated twice, told twice: the gate of a run.
#[test]
fn runs_are_gated_too() {
    let run = |expected: &str| {
        let arguments =
            ["run", "examples/video-player.toml", "--on", "sim", "--for", "1s", "--expect", expected];
        surety(&arguments)
    };
    let failed = run("response.max < 1ns");
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed).starts_with("FAILED       sim: response.max < 1ns"), "{}", text(&failed));
    // The promise of the workload still decides where the expectation is held.
    let held = run("response.min > 1ns");
    assert_eq!(held.status.code(), Some(1), "{}", text(&held));
    assert!(text(&held).starts_with("held"), "{}", text(&held));
}

/// The table of `[vary]` is gated line by line; a comparison of two sides has no result to gate.
#[test]
fn varied_runs_are_gated_line_by_line() {
    let directory = tempfile::tempdir().unwrap();
    let tap = directory.path().join("gates.tap");
    let file = directory.path().join("w.toml");
    std::fs::write(&file, VARIED).unwrap();
    let file = file.to_str().unwrap();
    let told = tap.to_str().unwrap();
    let run = surety(&[
        "run",
        file,
        "--on",
        "sim",
        "--for",
        "1s",
        "--expect",
        "t.response.max < 3ms",
        "--tap",
        told,
    ]);
    assert_eq!(run.status.code(), Some(1), "{}", errors(&run));
    let tap = std::fs::read_to_string(&tap).unwrap();
    assert!(tap.contains("1..2") && tap.contains("not ok"), "{tap}");
    assert!(tap.lines().any(|line| line.starts_with("ok")), "{tap}");
    let sides = surety(&["run", file, "--ab", "task.t.work=1ms,2ms", "--expect", "missed == 0"]);
    assert_eq!(sides.status.code(), Some(2), "{}", errors(&sides));
}

/// The first combination breaks the promise and the last keeps it.
const VARIED: &str = "format = 1\n[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"1ms\"\n\
promise = [\"response <= 5ms @ 90%\"]\n[vary]\n\"task.t.work\" = [\"7ms\", \"1ms\"]\n";

/// Sentence and code speak of every line, not of the last one.
#[test]
fn a_promise_broken_in_any_line_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    std::fs::write(&file, VARIED).unwrap();
    let run = surety(&["run", file.to_str().unwrap(), "--on", "sim", "--for", "2s"]);
    assert_eq!(run.status.code(), Some(1), "{}", errors(&run));
    assert!(text(&run).contains("A promise is broken in 1 of 2 results: work=7ms."), "{}", text(&run));
    // Worlds: the simulation sees it broken, the analysis, named last, cannot tell.
    let broken = VARIED.split("[vary]").next().unwrap().replace("\"1ms\"", "\"7ms\"");
    std::fs::write(&file, broken).unwrap();
    for worlds in [["sim", "analysis"], ["analysis", "sim"]] {
        let run = surety(&["run", file.to_str().unwrap(), "--for", "2s", "--on", worlds[0], worlds[1]]);
        assert_eq!(run.status.code(), Some(1), "{worlds:?} {}{}", text(&run), errors(&run));
        assert!(text(&run).contains("broken in"), "{}", text(&run));
    }
}

/// What a program did not say is not shown as a number.
#[test]
fn unknown_is_not_shown_as_nothing() {
    let report = surety(&["report", "crates/import/tests/data/cyclictest-h.txt"]);
    let (head, said) = (text(&report), errors(&report));
    assert!(head.contains("observed for an unknown time"), "{head}{said}");
    assert!(!head.contains("seed") && !head.contains("0 ns observed"), "{head}");
    let json = surety(&["report", "crates/import/tests/data/cyclictest-h.txt", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let result = &document["results"][0];
    assert!(result["seed"].is_null() && result["duration_ns"].is_null(), "{result:#}");
}

/// Threads of a trace are held to expectations as activities by their names.
#[test]
fn a_trace_is_held_to_expectations() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("t.dat").to_str().unwrap().to_owned();
    surety(&["run", "examples/video-player.toml", "--on", "sim", "--for", "1s", "--trace", &trace]);
    for (expected, code, said) in [
        ("player.latency.p90 < 10s", 0, "held"),
        ("player.p50 < 1ns", 1, "failed"),
        ("player.'longest wait' < 1ns", 1, "failed"),
        ("nobody.p50 < 1s", 4, "cannot tell"),
    ] {
        let held = surety(&["trace", "stats", &trace, "--json", "--expect", expected]);
        let printed = String::from_utf8_lossy(&held.stdout).into_owned();
        assert_eq!(held.status.code(), Some(code), "{expected}: {printed}");
        let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(document["expectations"][0]["standing"], said, "{printed}");
        assert_eq!(document["schema"], "surety.trace-stats/1");
    }
    let junit = directory.path().join("gates.xml");
    let arguments = ["trace", "stats", &trace, "--comm", "player", "--distribution", "--junit"];
    let held = surety(&[&arguments[..], &[junit.to_str().unwrap(), "--expect", "p50 < 1ns"]].concat());
    assert_eq!(held.status.code(), Some(1));
    assert!(std::fs::read_to_string(junit).unwrap().contains("failures=\"1\""));
}
