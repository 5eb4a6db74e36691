//! Choices that fit nothing in a trace are said, not shown as nothing.

use std::process::{Command, Output};

use crate::common::{errors, program, root, text};

/// A directory with a simulated second of a video player as `a.dat`.
fn traced() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let example = root().join("examples/video-player.toml");
    let made = trace(
        &directory,
        &["run", example.to_str().unwrap(), "--on", "sim", "--for", "1s", "--trace", "a.dat"],
    );
    assert!(directory.path().join("a.dat").exists(), "{}", errors(&made));
    directory
}

fn trace(directory: &tempfile::TempDir, arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).current_dir(directory.path()).output().unwrap()
}

#[test]
fn a_promise_of_no_thread_is_said() {
    let directory = traced();
    let convert = |promises: &[&str]| {
        let output = trace(&directory, &[&["trace", "convert", "a.dat", "a.pftrace"], promises].concat());
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        errors(&output)
    };
    let said = convert(&["--deadline", "playr=40ms", "--reservation", "999999=4ms/10ms"]);
    assert!(said.contains("there is no thread named `playr`"), "{said}");
    assert!(said.contains("there is no thread 999999"), "{said}");
    let said = convert(&["--deadline", "player=40ms", "--reservation", "player=20ms/40ms"]);
    assert!(!said.contains("there is no thread"), "{said}");
}

#[test]
fn showing_nobody_is_refused_as_everywhere() {
    let directory = traced();
    for verb in ["show", "stats"] {
        let output = trace(&directory, &["trace", verb, "a.dat", "--comm", "nosuch"]);
        assert_eq!(output.status.code(), Some(2), "{verb}: {}", errors(&output));
        assert!(errors(&output).contains("no thread named `nosuch`"), "{verb}: {}", errors(&output));
    }
    // A thread that is there and does nothing there is no slip.
    let quiet = trace(&directory, &["trace", "show", "a.dat", "--comm", "player", "--cpus", "63", "--jobs"]);
    assert_eq!(quiet.status.code(), Some(0), "{}", errors(&quiet));
    assert!(errors(&quiet).contains("no job fits what was chosen"), "{}", errors(&quiet));
}

#[test]
fn times_behind_the_end_are_refused_with_the_end() {
    let directory = traced();
    for arguments in [
        &["stats", "a.dat"][..],
        &["stats", "a.dat", "--distribution", "--comm", "player"],
        &["explain", "a.dat"],
        &["irqs", "a.dat"],
        &["show", "a.dat"],
        &["convert", "a.dat", "b.jsonl"],
    ] {
        let output = trace(&directory, &[&["trace"], arguments, &["--from", "1h"]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}{}", text(&output), errors(&output));
        assert!(errors(&output).contains("the trace ends at"), "{arguments:?}: {}", errors(&output));
    }
    assert!(!directory.path().join("b.jsonl").exists());
    let explained = trace(&directory, &["trace", "explain", "a.dat", "--to", "1ns"]);
    assert!(!errors(&explained).contains("that thread"), "{}", errors(&explained));
}
