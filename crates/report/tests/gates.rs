//! What a build reads: JUnit's XML is well-formed whatever the names, TAP is what its specification says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod shared;

use std::process::{Command, Stdio};

use serde_json::Value;
use shared::records;
use surety_model::expectation::{Expectation, Standing};
use surety_model::record::Record;
use surety_report::Style;
use surety_report::gates::{Gate, json, junit, tap, text, worst};

/// An activity whose name tries to leave its place in every format.
fn hostile() -> Vec<(&'static str, Record)> {
    let mut records = records();
    for (_, record) in &mut records {
        record.activities[0].name = "<b>&\"'-x ]]> # skip\n\x1b[31m\u{fffe}é".to_owned();
    }
    records
}

fn gates(records: &[(&'static str, Record)]) -> Vec<Gate<'static>> {
    let expected = ["p99 < 1ns", "count >= 1", "'no \\ # figure' > 1ms"];
    let check = |(label, record): &(&'static str, Record)| Gate {
        label,
        checked: expected.iter().map(|e| Expectation::parse(e).unwrap().check(record)).collect(),
    };
    records.iter().map(check).collect()
}

/// Runs a program on a text; `None`, loudly, where it is not installed.
fn peer(program: &str, arguments: &[&str], input: &str) -> Option<(bool, String)> {
    use std::io::Write;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("SKIPPED: {program} is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), said))
}

#[test]
fn junit_is_read_by_another_parser() {
    let records = hostile();
    let gates = gates(&records);
    let program = "import sys, xml.etree.ElementTree as t\n\
                   r = t.fromstring(sys.stdin.buffer.read())\n\
                   print(r.tag, r.get('tests'), len(r.findall('.//testcase')), r.get('failures'), \
                   len(r.findall('.//failure')), r.get('errors'), len(r.findall('.//error')))\n\
                   print(any('<b>&\"' in (f.get('message') or '') for f in r.findall('.//failure')))";
    let Some((passed, said)) = peer("python3", &["-c", program], &junit(&gates)) else { return };
    assert!(passed, "{said}");
    let tests = gates.len() * 3;
    let count = |s| gates.iter().flat_map(|g| &g.checked).filter(|c| c.standing == s).count();
    let (failed, open) = (count(Standing::Failed), count(Standing::CannotTell));
    assert!(failed > 0 && open > 0);
    assert_eq!(said, format!("testsuites {tests} {tests} {failed} {failed} {open} {open}\nTrue\n"));
}

#[test]
fn tap_is_read_by_another_harness() {
    let records = hostile();
    let all = gates(&records);
    let document = tap(&all);
    let lines: Vec<&str> = document.lines().collect();
    assert_eq!(lines[..2], ["TAP version 13", &format!("1..{}", all.len() * 3)]);
    let tests: Vec<&&str> =
        lines.iter().filter(|l| l.starts_with("ok ") || l.starts_with("not ok ")).collect();
    assert_eq!(tests.len(), all.len() * 3);
    assert_eq!(document.matches("\n  ---\n").count(), tests.len());
    assert!(document.contains("'no \\\\ \\# figure'"), "{document}");
    // A harness that reads TAP passes exactly when everything is held.
    let directory = tempfile::tempdir().unwrap();
    let mut held = all.clone();
    held.iter_mut().for_each(|g| g.checked.retain(|c| c.standing == Standing::Held));
    for (name, gates) in [("all.tap", &all), ("held.tap", &held)] {
        let path = directory.path().join(name);
        std::fs::write(&path, tap(gates)).unwrap();
        let Some((passed, said)) = peer("prove", &["-e", "cat", path.to_str().unwrap()], "") else { return };
        assert_eq!(passed, worst(gates) == Some(Standing::Held), "{name}: {said}");
    }
}

#[test]
fn lines_fit_and_say_what_was_found() {
    let records = hostile();
    let gates = gates(&records);
    let shown = text(&gates, &Style::plain(80));
    assert!(shown.lines().all(|l| l.chars().count() <= 80), "{shown}");
    assert!(shown.contains("FAILED") && shown.contains("held") && shown.contains("cannot tell"), "{shown}");
    let Value::Array(all) = json(&gates) else { panic!("an array") };
    assert_eq!(all.len(), gates.len() * 3);
    assert!(all[0]["findings"][0]["because"].as_str().is_some_and(|b| b.contains("values")), "{}", all[0]);
    assert_eq!(worst(&gates), Some(Standing::Failed));
    assert_eq!(worst(&[]), None);
}
