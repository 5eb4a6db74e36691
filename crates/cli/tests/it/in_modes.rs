//! Work that comes in modes, through the program: told of a trace, and planned and proven from measurements.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use surety_stats::Pcg;

use crate::common::{errors, program, text};

fn run(directory: &tempfile::TempDir, arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).current_dir(directory.path()).output().unwrap()
}

/// A task whose work is light for a while and heavy for a while, some 1 ms and some 5 ms in each 20 ms, no two jobs alike.
fn scenes(directory: &tempfile::TempDir, promise: &str) {
    let mut chance = Pcg::new(9, 1);
    let mut values = String::new();
    let lengths = [23, 41, 12, 57, 31, 9, 38, 19, 64, 15];
    for (scene, length) in lengths.iter().cycle().take(40).enumerate() {
        for _ in 0..*length {
            let mean = if scene % 2 == 0 { 1_000.0 } else { 5_000.0 };
            let us = (mean * (1.0 + 0.05 * chance.normal())).round() as i64;
            write!(values, "\"{us}us\", ").unwrap();
        }
    }
    let task = format!(
        "format = 1\n[[task]]\nname = \"decoder\"\nperiod = \"20ms\"\nwork = {{ kind = \"sequence\", values = [{values}] }}\n{promise}"
    );
    fs::write(directory.path().join("scenes.toml"), task).unwrap();
}

#[test]
fn a_distribution_tells_the_modes_of_work() {
    let directory = tempfile::tempdir().unwrap();
    scenes(&directory, "");
    let made = run(&directory, &["run", "scenes.toml", "--on", "sim", "--for", "20s", "--trace", "a.dat"]);
    assert_eq!(made.status.code(), Some(0), "{}", errors(&made));
    let closely = ["trace", "stats", "a.dat", "--comm", "decoder", "--distribution"];
    let shown = run(&directory, &closely);
    assert_eq!(shown.status.code(), Some(0), "{}", errors(&shown));
    let shown = text(&shown);
    assert!(
        shown.contains("rejected") && shown.contains("by BIC") && shown.contains("transitions"),
        "{shown}"
    );
    let json = run(&directory, &[&closely[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&text(&json)).unwrap();
    let of = |quantity: &str| {
        let all = json["quantities"].as_array().unwrap();
        all.iter().find(|q| q["quantity"] == quantity).unwrap()["modes"].clone()
    };
    let found = of("execution_net_ns");
    let modes = found["modes"].as_array().unwrap();
    assert!(modes.len() >= 2, "{found}");
    let mean = |mode: &Value| mode["mean_ns"].as_f64().unwrap();
    assert!(mean(&modes[0]) < 2e6 && mean(&modes[modes.len() - 1]) > 4e6, "{found}");
    let shares: f64 = modes.iter().map(|mode| mode["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{found}");
    assert!(modes.iter().any(|mode| mode["at_a_time"].as_f64().unwrap() > 5.0), "{found}");
    // Only work is asked: when jobs come is the clock's affair.
    assert_eq!((of("inter_arrival_ns"), of("response_ns")), (Value::Null, Value::Null));
}
