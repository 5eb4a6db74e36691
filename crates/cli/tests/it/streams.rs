//! Streams on this kernel, and packets seen at four places.

use std::path::Path;

use serde_json::Value;

use crate::common::{alone, errors, is_root, surety, text};

fn run(directory: &Path, body: &str, more: &[&str]) -> Result<Value, (Option<i32>, String)> {
    let path = directory.join("streams.toml");
    std::fs::write(&path, format!("format = 1\n{body}")).unwrap();
    let mut arguments = vec!["run", path.to_str().unwrap(), "--json", "--no-trace", "--for", "1s"];
    arguments.extend(more);
    let output = surety(&arguments);
    let document: Value =
        serde_json::from_str(&text(&output)).unwrap_or_else(|_| panic!("{}", errors(&output)));
    match document["error"]["what"].as_str() {
        Some(what) => Err((output.status.code(), what.to_owned())),
        None => Ok(document),
    }
}

const STREAM: &str = "[[stream]]\nname = \"s\"\nrate = \"500kB/s\"\n";

#[test]
fn a_stream_reads_what_its_rate_says_or_counts_what_is_missing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let movie = directory.path().join("movie");
    std::fs::write(&movie, vec![7; 300_000]).unwrap();
    let files = [
        "file = { make = \"1MB\" }\nread = \"20KiB\"".to_owned(),
        "file = { make = \"1MB\" }\nread = \"10kB\"\nbuffer = \"200kB\"\ncount = 2".to_owned(),
        "file = { make = \"1MB\" }\nwrite = \"20KiB\"".to_owned(),
        format!("file = {:?}\nread = \"20KiB\"", movie.to_str().unwrap()),
    ];
    for file in files {
        let body = format!("{STREAM}{file}\npromise = [\"late == 0\", \"rate >= 1B/s\"]\n");
        let document = run(directory.path(), &body, &[]).unwrap_or_else(|why| panic!("{file}: {why:?}"));
        let stream = &document["results"][0]["activities"][0];
        assert_eq!(stream["kind"], "stream");
        let count = |key: &str| stream[key].as_u64().unwrap_or_else(|| panic!("{key}: {stream}"));
        let block = if file.contains("10kB") { 10_000 } else { 20_480 };
        let threads = if file.contains("count") { 2 } else { 1 };
        let planned = threads * 500_000 / block;
        assert!(count("activations").abs_diff(planned) <= threads, "{file}: {stream}");
        assert_eq!(
            count("activations"),
            count("completed") + count("skipped") + count("unfinished"),
            "{stream}"
        );
        let name = if file.contains("write") { "write latency" } else { "read latency" };
        let series = &stream["series"][name];
        assert_eq!(series["count"].as_u64(), Some(count("completed")), "{stream}");
        assert!(series["sequence"]["values"].as_array().is_some(), "{stream}");
    }
}

/// A world that cannot play a workload takes no result away from one that can.
#[test]
fn other_worlds_say_why_they_cannot_see_a_stream() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let body = format!("{STREAM}file = {{ make = \"1MB\" }}\nread = \"20KiB\"\npromise = [\"late == 0\"]\n");
    let document = run(directory.path(), &body, &["--on", "analysis", "sim", "host"]).unwrap();
    let results = document["results"].as_array().unwrap();
    let labels: Vec<_> = results.iter().map(|result| result["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["analysis", "sim", "host"]);
    let evidence = |result: &Value| result["activities"][0]["promises"][0]["verdict"].clone();
    assert_eq!(evidence(&results[0]), "not-observable", "{}", results[0]);
    assert!(
        results[1]["degraded"][0].as_str().unwrap().contains("stream.s: it is on no disk of the workload")
    );
    assert_eq!(results[1]["activities"].as_array().map(Vec::len), Some(0));
    assert!(results[2]["activities"][0]["completed"].as_u64().unwrap() > 0, "{}", results[2]);
    assert_eq!(document["exit"], 4);
    // Where none can, the first says so and nothing runs.
    let (code, said) = run(directory.path(), &body, &["--on", "sim"]).unwrap_err();
    assert_eq!(code, Some(2));
    assert!(said.contains("streams.toml:3:8: sim cannot run stream.s"), "{said}");
}

#[test]
fn what_a_stream_cannot_be_is_said() {
    let directory = tempfile::tempdir().unwrap();
    for (keys, part, code) in [
        ("file = \"/no/such/file\"", "No such file", 2),
        ("file = { make = \"1MB\" }\nbuffer = \"1kB\"", "`buffer`", 2),
        ("file = { make = \"1MB\" }\njitter = \"1ms\"", "`jitter`", 2),
        ("file = { make = \"1kB\" }", "smaller than one access", 2),
        ("file = \"/tmp/x\"\nwrite = true", "made for the run", 2),
    ] {
        let (got, said) = run(directory.path(), &format!("{STREAM}{keys}\n"), &[]).unwrap_err();
        assert_eq!(got, Some(code), "{keys}: {said}");
        assert!(said.contains(part) && said.contains("streams.toml:"), "{keys}: {said}");
    }
    let body = format!("{STREAM}file = {{ make = \"1MB\" }}\n");
    let (_, said) = run(directory.path(), &body, &["--on", "sim"]).unwrap_err();
    assert!(said.contains("on no disk of the workload"), "{said}");
}

#[test]
fn packets_are_seen_at_four_places_and_only_this_kernel_has_a_network() {
    let _alone = alone();
    let output = surety(&["reproduce", "interpacket", "--on", "sim", "--json"]);
    assert!(text(&output).contains("no network"), "{} {}", text(&output), errors(&output));
    if !is_root() || surety_kernel::net::Cable::new().is_err() {
        eprintln!("SKIPPED: no network namespaces or no veth");
        return;
    }
    let output = surety(&["reproduce", "interpacket", "--json", "--for", "1s", "--warm-up", "100ms"]);
    let document: Value =
        serde_json::from_str(&text(&output)).unwrap_or_else(|_| panic!("{}", errors(&output)));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    let mean = |row: &Value| row["cells"][4]["value"].as_f64();
    for of_interval in rows.chunks(4) {
        let (sent, received, traced) = (mean(&of_interval[0]), mean(&of_interval[1]), mean(&of_interval[2]));
        let sent = sent.unwrap_or_else(|| panic!("{document}"));
        assert!(received.is_some(), "{document}");
        let Some(traced) = traced else {
            eprintln!("SKIPPED the trace: {}", document["notes"]);
            return;
        };
        // A packet is handed up inside the poll that takes it.
        let polled = mean(&of_interval[3]).unwrap_or_else(|| panic!("{document}"));
        assert!((polled / traced - 1.0).abs() < 0.3, "{document}");
        let off = (traced / sent - 1.0).abs();
        // Packets counted twice or missing would be far more than any stall.
        assert!(off < 0.3, "{document}");
        if off > 0.01 {
            eprintln!(
                "SKIPPED: disturbed, the mean in the trace is {:.2} % off: {}",
                off * 100.0,
                document["notes"]
            );
        }
    }
}
