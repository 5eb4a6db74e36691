//! `[[irq]]` on this machine: the thread that handles a device's packets, found and reserved by the device's role.

use std::path::Path;

use serde_json::Value;
use surety_kernel::RealKernel;
use surety_kernel::net::ThreadedCable;

use crate::common::{alone, errors, is_root, surety};

/// An irq with these lines, and nothing else.
fn write(directory: &Path, name: &str, lines: &str) -> String {
    let path = directory.join(name);
    let text = format!("format = 1\n[[irq]]\nname = \"net\"\ndevice = \"eth\"\nwork = \"20us\"\n{lines}");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn can_run() -> bool {
    if !is_root() {
        eprintln!("SKIPPED: only root may make network devices");
        return false;
    }
    let cable = ThreadedCable::new(&RealKernel::new());
    cable.inspect_err(|why| eprintln!("SKIPPED: {why}")).is_ok()
}

fn json(arguments: &[&str]) -> Value {
    let mut output = surety(arguments);
    if output.status.code() == Some(4) {
        // The kernel keeps the bandwidth of a run that has just ended up to its zero-lag time, and refuses what comes too soon.
        eprintln!("once more: {arguments:?} was undecided: {}", String::from_utf8_lossy(&output.stdout));
        std::thread::sleep(std::time::Duration::from_secs(1));
        output = surety(arguments);
    }
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", errors(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A figure of the first activity.
fn figure(result: &Value, name: &str) -> f64 {
    let figures = result["activities"][0]["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["name"] == name).unwrap()["value"].as_f64().unwrap()
}

#[test]
fn the_thread_of_a_device_gets_its_reservation_and_no_more_than_that() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let flood = "arrivals = { kind = \"sporadic\", gap = \"10us\" }\nbuffer = 256\n";
    let reserved = format!("{flood}reservation = {{ runtime = \"2ms\", period = \"40ms\" }}\n");
    for (name, lines, policy) in
        [("free.toml", flood, "fifo:50"), ("reserved.toml", reserved.as_str(), "deadline 2ms/40ms/40ms")]
    {
        let file = write(directory.path(), name, lines);
        let document = json(&["run", &file, "--for", "3s", "--no-trace", "--json"]);
        let result = &document["results"][0];
        let threads = result["in_force"]["threads"].as_array().unwrap();
        let handler = threads.iter().find(|thread| thread["policy"] == policy);
        assert!(handler.is_some_and(|thread| thread["as_requested"] == true), "{policy}: {threads:?}");
        assert!(figure(result, "rate") > 0.0 && figure(result, "work of a request") > 0.0, "{result}");
        let activity = &result["activities"][0];
        let counts = ["completed", "skipped", "activations"].map(|key| activity[key].as_u64().unwrap());
        assert_eq!(counts[0] + counts[1], counts[2]);
        let share = activity["share"]["fraction"].as_f64().unwrap();
        if name == "reserved.toml" {
            // 5 % of a CPU and not more; a sender that is kept off the CPUs may bring less.
            assert!(share < 0.06, "the thread used {share} of a CPU, 0.05 reserved");
            assert!(
                counts[1] > 0 || share < 0.045,
                "nothing lost of a flood, and the budget used up: {activity}"
            );
        }
    }
}

/// R^2 of a straight line through points.
fn straightness(points: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    sum(&|dx, dy| dx * dy).powi(2) / (sum(&|dx, _| dx * dx) * sum(&|_, dy| dy * dy))
}

#[test]
fn throughput_is_a_straight_line_over_the_reservation() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let sheet = json(&["reproduce", "network-thread", "--for", "1s", "--json"]);
    let notes: Vec<&str> = sheet["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let fitted = notes.iter().find(|note| note.starts_with("sim, sweep 1")).unwrap();
    let fitted = fitted.split("R^2 = ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(fitted.parse::<f64>().unwrap() > 0.999, "{notes:?}");

    let columns = sheet["columns"].as_array().unwrap();
    let column = |title: &str| columns.iter().position(|column| column["title"] == title).unwrap();
    let (reserved, rate, used) = (column("theory"), column("host rate"), column("host used"));
    let rows = sheet["rows"].as_array().unwrap();
    let points: Vec<[f64; 3]> = rows
        .iter()
        .map(|row| [reserved, rate, used].map(|column| row["cells"][column]["value"].as_f64().unwrap()))
        .collect();
    let (least, most) = (points[0], points[points.len() - 1]);
    assert!(most[1] > 2.0 * least[1], "nine times the budget is no more throughput: {points:?}");
    // What a disturbed sender leaves unused was not the budget's doing.
    let bound: Vec<_> = points.iter().filter(|p| p[2] > 0.95).map(|p| (p[0] * p[2], p[1])).collect();
    eprintln!("R^2 {} over {} of {} reservations", straightness(&bound), bound.len(), points.len());
    if notes.iter().any(|note| note.starts_with("host:")) || bound.len() < 5 {
        return eprintln!("SKIPPED judging the line: the runs were disturbed: {notes:?} {points:?}");
    }
    assert!(straightness(&bound) >= 0.95, "{points:?} {notes:?}");
}

#[test]
fn what_a_virtual_cable_cannot_do_is_refused_with_a_way_out() {
    let directory = tempfile::tempdir().unwrap();
    for (name, lines, word) in [
        ("a", "arrivals = { kind = \"closed\", outstanding = 8, service = \"40us\" }\n", "sporadic"),
        ("b", "arrivals = { kind = \"periodic\", period = \"1ms\" }\nbuffer = 64\n", "buffer = 256"),
        ("c", "arrivals = { kind = \"periodic\", period = \"1ms\" }\nhard = \"2us\"\n", "hard"),
        (
            "d",
            "arrivals = { kind = \"periodic\", period = \"1ms\" }\n[[irq]]\nname = \"other\"\ndevice = \"eth\"\n\
             work = \"3us\"\narrivals = { kind = \"periodic\", period = \"1ms\" }\n",
            "device of its own",
        ),
    ] {
        let file = write(directory.path(), &format!("{name}.toml"), lines);
        let output = surety(&["run", &file, "--for", "1s"]);
        assert!(!output.status.success() && errors(&output).contains(word), "{name}: {}", errors(&output));
    }
}
