//! Results of programs that time commands, requests, messages and switches: runs are kept, summaries stay summaries.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

mod samples;

use samples::{activity, bytes, count, extremes, figure, imported, json};
use surety_import::read;
use surety_units::Nanos;

/// Every time of every command, in order; a command that fails is said.
#[test]
fn hyperfine_keeps_every_run() {
    let record = imported("hyperfine.json");
    let told = json("hyperfine.json");
    for (index, name) in ["sleep 0.002", "false"].into_iter().enumerate() {
        let told = &told["results"][index];
        let command = activity(&record, name);
        let response = command.response.as_ref().unwrap();
        assert_eq!((command.activations, count(response)), (6, 6));
        let ns = |key: &str| (told[key].as_f64().unwrap() * 1e9).round() as u64;
        assert_eq!(extremes(response), (ns("min"), ns("max")));
        let mean = response.observed().unwrap().moments.mean().unwrap();
        assert!((mean / ns("mean") as f64 - 1.0).abs() < 1e-6, "{mean}");
        assert!(response.observed().unwrap().has_order(), "runs stand in their order");
        assert_eq!(figure(command, "user time, mean"), told["user"].as_f64().unwrap() * 1e9);
    }
    assert_eq!(record.degraded, ["false: 6 of 6 runs did not end with code 0"]);
}

/// wrk prints four percentiles and no counts; what took longer than its timeout is in none of them.
#[test]
fn wrk_tells_percentiles_and_failures() {
    let record = imported("wrk.txt");
    let requests = activity(&record, "requests");
    assert!(requests.response.is_none() && requests.series.is_empty());
    for (name, value) in [
        ("latency p50", 2_230_000.0),
        ("latency p99", 14_000_000.0),
        ("latency max", 35_860_000.0),
        ("requests", 4267.0),
        ("request rate", 1418.17),
        ("transfer rate", 263.20 * 1024.0),
    ] {
        assert!((figure(requests, name) / value - 1.0).abs() < 1e-12, "{name}");
    }
    assert_eq!((record.world.as_str(), record.duration), ("wrk", Some(Nanos::from_millis(3010))));
    let record = imported("wrk-timeouts.txt");
    assert_eq!(figure(activity(&record, "requests"), "timeout errors"), 3.0);
    assert!(record.degraded.iter().any(|d| d.ends_with("no percentile")), "{:?}", record.degraded);
}

/// wrk2's tables are counts: its percentiles are found in them again, and its averages are not taken over.
#[test]
fn wrk2_tables_are_responses() {
    let record = imported("wrk2.txt");
    let requests = activity(&record, "requests");
    let response = requests.response.as_ref().unwrap();
    assert_eq!((requests.activations, count(response)), (594, 594));
    assert_eq!(extremes(response), (242_000, 5_464_000));
    for (q, told) in [(0.5, 1_280_000), (0.9, 1_910_000), (0.99, 2_910_000)] {
        let found = response.quantile(q).unwrap();
        // A value stands for the upper edge of its row, and rows are up to an eighth of a rank apart.
        assert!(found.get() >= told - 10_000 && found.get() < told + told / 10, "{q}: {found}");
    }
    assert!(requests.figures.iter().all(|f| !f.name.starts_with("latency")), "{:?}", requests.figures);
    assert_eq!(record.world, "wrk2");
    let record = imported("wrk2-uncorrected.txt");
    let requests = activity(&record, "requests");
    let uncorrected = &requests.series["uncorrected"];
    assert_eq!((count(requests.response.as_ref().unwrap()), count(uncorrected)), (293, 293));
    assert_eq!(extremes(uncorrected).1, 4_168_000);
    assert_eq!(record.degraded, ["3299 of 3299 answers are errors of the server: their times count"]);
}

/// A run is one value: a figure. Several of one configuration are responses, another configuration is another activity.
#[test]
fn total_times_are_runs() {
    let record = imported("hackbench.txt");
    let response = activity(&record, "hackbench").response.as_ref().unwrap();
    assert_eq!((count(response), extremes(response)), (3, (28_000_000, 31_000_000)));
    let threads = activity(&record, "hackbench (2)");
    assert_eq!((figure(threads, "total time"), threads.response.is_none()), (25_000_000.0, true));
    assert!(record.in_force.environment["hackbench (2)"].starts_with("in threaded mode with 1 groups"));

    let record = imported("perf-bench.txt");
    let pipe = activity(&record, "sched/pipe").response.as_ref().unwrap();
    assert_eq!((count(pipe), extremes(pipe)), (3, (7_000_000, 11_000_000)));
    assert_eq!(figure(activity(&record, "sched/messaging"), "total time"), 10_000_000.0);
    assert_eq!(record.degraded, ["line 27: mem/memcpy tells no total time and is left out"]);
    let one: String = String::from_utf8(bytes("perf-bench.txt")).unwrap();
    let one: String = one.lines().take(7).map(|l| format!("{l}\n")).collect();
    let record = read("pipe.txt", one.as_bytes()).unwrap().record;
    let pipe = activity(&record, "sched/pipe");
    assert_eq!(figure(pipe, "time of an operation, mean"), 2_562.333);
    assert_eq!(figure(pipe, "operations"), 390_269.0);

    let record = imported("perf-bench-simple.txt");
    let runs = activity(&record, "perf-bench-simple").response.as_ref().unwrap();
    assert_eq!((count(runs), extremes(runs)), (4, (30_000_000, 86_000_000)));
}

/// A row for each task with an average and a maximum: no quantile is made of them. Rows are checked against the total.
#[test]
fn perf_sched_latency_has_no_quantile() {
    let record = imported("perf-sched-latency.txt");
    let pipe = activity(&record, "sched-pipe:(3)");
    for (name, value) in [
        ("CPU time", 27_858_000.0),
        ("switches", 3.0),
        ("average delay", 23_000.0),
        ("largest delay", 60_000.0),
    ] {
        assert!((figure(pipe, name) - value).abs() < 1e-3, "{name}");
    }
    assert_eq!(record.activities.len(), 9);
    assert!(record.activities.iter().all(|a| a.latency.is_none() && a.series.is_empty()));
    // Older versions have other words in the head, and one column less.
    let old = " Task | Runtime ms | Switches | Average delay ms | Maximum delay ms | Maximum delay at |\n\
               a:1 | 1.000 ms | 2 | avg: 0.010 ms | max: 0.015 ms | max at: 3.5 s\n\
               TOTAL: | 1.000 ms | 2 |\n INFO: 9.524% context switch bugs (4 out of 42)\n";
    let record = read("old.txt", old.as_bytes()).unwrap().record;
    assert_eq!(figure(activity(&record, "a:1"), "largest delay"), 15_000.0);
    assert_eq!(record.degraded, ["perf says: 9.524% context switch bugs (4 out of 42)"]);
}
