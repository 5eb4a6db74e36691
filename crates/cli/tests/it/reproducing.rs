//! Published experiments with interrupts, and simulated interrupts seen through their trace.

use serde_json::Value;

use crate::common::{errors, surety, text};

fn json(arguments: &[&str]) -> Value {
    let output = surety(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", errors(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The largest error of each column among the predicted rows, relative to what was published.
fn worst_predictions(sheet: &Value) -> Vec<f64> {
    let width = sheet["columns"].as_array().unwrap().len();
    let predicted = || sheet["rows"].as_array().unwrap().iter().filter(|row| row["mark"].is_null());
    let relative = |cell: &Value| {
        let (value, error) = (cell["value"].as_f64().unwrap(), cell["error"].as_f64().unwrap());
        (error / (value - error)).abs()
    };
    (1..width).map(|c| predicted().map(|row| relative(&row["cells"][c])).fold(0.0, f64::max)).collect()
}

#[test]
fn experiments_with_interrupts_come_out_as_published() {
    // The largest relative errors of predictions; rows that are calibrated or not explained are marked.
    for (name, within, marks) in [("irq-copy", 0.015, 2), ("irq-disk", 0.1, 0), ("player-network", 0.01, 4)] {
        let sheet = json(&["reproduce", name, "--json"]);
        let worst = worst_predictions(&sheet);
        assert!(worst.len() >= 3 && worst.iter().all(|error| *error < within), "{name}: {worst:?}");
        let marked = sheet["rows"].as_array().unwrap().iter().filter(|row| row["mark"].is_string());
        assert_eq!(marked.count(), marks, "{name}");
    }
    let sheet = json(&["reproduce", "player-network", "--json"]);
    let rows = sheet["rows"].as_array().unwrap();
    for column in 0..sheet["columns"].as_array().unwrap().len() {
        let tests = rows.iter().filter(|row| row["keys"][0].as_str().unwrap().starts_with("Test"));
        let values: Vec<f64> = tests.map(|row| row["cells"][column]["value"].as_f64().unwrap()).collect();
        assert!(values.len() == 5 && values.windows(2).all(|w| w[0] < w[1]), "{values:?}");
    }
    let table = text(&surety(&["reproduce", "player-network"]));
    assert!(table.contains("calibrated") && table.contains("not explained: Test1"), "{table}");
}

#[test]
fn inter_frame_times_spread_below_a_player_and_are_bounded_by_a_reservation() {
    let sheet = json(&["reproduce", "inter-frame", "--for", "20s", "--json"]);
    let value = |policy: &str, player: &str, statistic: &str, column: usize| {
        let rows = sheet["rows"].as_array().unwrap();
        let is_row = |row: &&Value| row["keys"] == serde_json::json!([policy, player, statistic]);
        rows.iter().find(is_row).unwrap()["cells"][column].clone()
    };
    let number = |policy, statistic| value(policy, "light", statistic, 1)["value"].as_f64().unwrap();
    let (fifo, deadline) = ("FIFO, heavy first", "DEADLINE");
    assert!(number(fifo, "std dev") > 2.0 * number(deadline, "std dev"));
    let limit = value(deadline, "light", "max", 0)["below"].as_f64().unwrap();
    assert!(number(deadline, "max") <= limit && number(fifo, "max") > limit);
    assert_eq!(sheet["distributions"].as_array().unwrap().len(), 2);
    assert!(sheet["notes"][0].as_str().unwrap().ends_with(": as published"), "{}", sheet["notes"]);
}

#[test]
fn a_trace_of_simulated_interrupts_gives_their_numbers_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (workload, trace) = (path("net.toml"), path("net.dat"));
    let lines = r#"format = 1
[[irq]]
name        = "net"
device      = "eth"
arrivals    = { kind = "poisson", rate = "5kHz" }
work        = { kind = "exponential", mean = "30us" }
hard        = "2us"
reservation = { runtime = "5ms", period = "20ms" }

[[load]]
name = "busy"
kind = "spinners"
"#;
    std::fs::write(&workload, lines).unwrap();
    let on = ["--on", "sim:linux-6.18", "--cpus", "0", "--for", "2s", "--warm-up", "0s"];
    let mut arguments = vec!["run", &workload, "--json", "--trace", &trace];
    arguments.extend(on);
    let record = json(&arguments);
    let net = &record["results"][0]["activities"][0];
    assert_eq!((net["kind"].as_str(), net["name"].as_str()), (Some("irq"), Some("net")));
    let seen = json(&["trace", "irqs", &trace, "--irq", "eth", "--json"]);
    let irq = &seen["interrupts"][0];
    assert_eq!((irq["name"].as_str(), &irq["count"]), (Some("eth"), &net["activations"]));
    assert_eq!(
        (irq["service_ns"]["min"].as_i64(), irq["service_ns"]["max"].as_i64()),
        (Some(2000), Some(2000))
    );
    let gap = irq["inter_arrival_ns"]["mean"].as_f64().unwrap();
    assert!((gap / 200_000.0 - 1.0).abs() < 0.05, "{gap}");
    let thread = &seen["threads"][0];
    assert_eq!(thread["name"].as_str(), Some("irq/1-eth"));
    // Its jobs hold what came while it ran: their work in all is what the record says.
    let jobs = thread["jobs"].as_f64().unwrap() * thread["execution_ns"]["mean"].as_f64().unwrap();
    let run = net["share"]["threads"][0]["run_ns"].as_f64().unwrap();
    let inside = irq["count"].as_f64().unwrap() * 2000.0;
    assert!(jobs <= run * 1.001 && jobs >= run - inside - 5e6, "{jobs} of {run}");
}

/// What no experiment calls a configuration is refused, with the nearest word or all of them.
#[test]
fn configurations_are_asked_for_by_their_words() {
    for (name, word, said) in [
        ("startup", "mq-deadlin", "did you mean mq-deadline?"),
        ("startup", "zzzzzz", "use hdd-2004, hdd-7200"),
        ("irq-copy", "bfq", "leave --only out"),
    ] {
        let output = surety(&["reproduce", name, "--only", word]);
        assert_eq!(output.status.code(), Some(2), "{name} {word}");
        assert!(errors(&output).contains(said), "{}", errors(&output));
    }
}

/// What BFQ costs stands beside what it gains: the disk moves less while a process starts, and in a simulation the CPU time of an I/O
/// scheduler is not observable.
#[test]
fn the_price_of_a_start_up_stands_beside_it() {
    let asked =
        ["reproduce", "startup", "--only", "emmc", "--only", "10r", "--only", "bfq", "--only", "kyber"];
    let output = surety(&[&asked[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let columns = document["columns"].as_array().unwrap();
    let place = |title: &str| columns.iter().position(|column| column["title"] == title).unwrap();
    let cells = |row: usize| document["rows"][row]["cells"].as_array().unwrap();
    let value = |row, title| cells(row)[place(title)]["value"].as_f64().unwrap();
    assert_eq!(columns[place("sim disk while starting")]["unit"], "B/s");
    let [kyber, bfq] = [0, 1].map(|row| value(row, "sim of disk otherwise"));
    assert!(bfq < 0.5 && kyber > 0.9, "{bfq} {kyber}");
    assert!(value(1, "sim disk while starting") < value(0, "sim disk while starting") / 2.0);
    let why = cells(1)[place("sim CPU of scheduler")]["not_observable"].as_str().unwrap();
    assert!(why.contains("--on lab:KERNEL"), "{why}");
}

/// A simulation beside stored records is of the machine of each record, not of this one: of a simulated kernel it computes the same again.
#[test]
fn a_simulation_beside_records_is_of_their_machine() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("records.json");
    let file = file.to_str().unwrap();
    let asked = ["reproduce", "video-under-io", "--only", "hdd-2004", "--only", "10r", "--only", "none"];
    let made = surety(&[&asked[..], &["--on", "sim", "--records", file, "--quiet"]].concat());
    assert_eq!(made.status.code(), Some(0), "{}", errors(&made));
    let beside = json(&[&asked[..], &["--from", file, "--on", "sim:linux-6.1", "--json"]].concat());
    let columns = beside["columns"].as_array().unwrap();
    let cells = beside["rows"][0]["cells"].as_array().unwrap();
    let value = |title: String| {
        let place = columns.iter().position(|column| column["title"] == title.as_str()).unwrap();
        cells[place]["value"].as_f64()
    };
    let titles = columns.iter().filter_map(|column| column["title"].as_str()?.strip_prefix("sim "));
    let titles: Vec<&str> = titles.collect();
    assert!(titles.contains(&"late"), "{columns:?}");
    for title in titles {
        assert_eq!(value(format!("sim {title}")), value(format!("sim:linux-6.1 {title}")), "{title}");
    }
    let refused = surety(&[&asked[..], &["--from", file, "--on", "host"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("host is a running kernel"), "{}", errors(&refused));
}
