//! Whatever stands in a file: a record or an error with its place, never a panic, and old programs' broken JSON is read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use std::path::Path;

use proptest::prelude::*;
use surety_import::{ImportError, read};

fn files() -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|e| e.unwrap().path()).filter(|p| !p.ends_with("README.md"));
    let mut files: Vec<_> = paths
        .map(|p| (p.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&p).unwrap()))
        .collect();
    files.sort();
    files
}

fn file(name: &str) -> String {
    let found = files().into_iter().find(|(n, _)| n == name);
    String::from_utf8(found.unwrap().1).unwrap()
}

fn why(name: &str, text: &str) -> String {
    read(name, text.as_bytes()).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn every_fixture_is_read_and_knows_its_label() {
    let files = files();
    assert!(files.len() >= 29, "{}", files.len());
    for (name, bytes) in files {
        let read = read(&format!("some/where/{name}"), &bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(read.label, name.rsplit_once('.').unwrap().0);
        assert!(!read.record.activities.is_empty(), "{name}");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    assert!(matches!(read("x", b"nothing of the kind"), Err(ImportError::Unknown)));
    assert!(matches!(read("x", b""), Err(ImportError::Unknown)));
    let text = file("cyclictest-h.txt");
    let cut = &text[..text.find("# Total").unwrap()];
    assert!(why("c", cut).contains("cut off"), "{}", why("c", cut));
    let negative = text.replacen("000003 000000", "000003 -00001", 1);
    assert!(why("c", &negative).contains("line 6: `-00001`"), "{}", why("c", &negative));
    let twice = text.replacen("000003 ", "000002 ", 1);
    assert!(why("c", &twice).contains("line 6"), "{}", why("c", &twice));
    let huge = text.replacen("000003 000000", "000003 18446744073709551615", 1);
    assert!(why("c", &huge).contains("2^64"), "{}", why("c", &huge));
    let json = file("cyclictest.json");
    let wrong = json.replacen("\"cycles\": ", "\"cycles\": -", 1);
    assert!(why("c", &wrong).contains("`thread.0.cycles`"), "{}", why("c", &wrong));
    let fewer = file("cyclictest.json").replacen("\"cycles\": ", "\"cycles\": 1,\"x\": ", 1);
    assert!(why("c", &fewer).contains("more than its 1 cycles"), "{}", why("c", &fewer));
    let fio = file("fio.json").replacen("\"N\" : 10,\n", "\"N\" : 11,\n", 9);
    assert!(why("f", &fio).contains("`N` says 11"), "{}", why("f", &fio));
    let rtla = file("rtla-timerlat.txt").replacen("10            0        55", "10            0", 1);
    assert!(why("r", &rtla).contains("line 6: 5 values where 6 belong"), "{}", why("r", &rtla));
    let hdr = file("hdr.hlog").replacen("HISTF", "HIST!", 1);
    assert!(why("h", &hdr).contains("character 5"), "{}", why("h", &hdr));
    let s = file("bfq-10r0w-seq-lat_thr_stat.txt").replacen("1.29", "nan", 1);
    assert!(why("s", &s).contains("`nan` is no number"), "{}", why("s", &s));
    let raw: Vec<u8> = [0u8; 28 + 11].to_vec();
    let error = read("samples.raw", &raw).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("byte 28: 11 bytes"), "{error}");
}

#[test]
fn mistakes_of_benchmarks_are_told_with_their_place() {
    let refused = |name: &str, from: &str, to: &str, told: &str| {
        let text = file(name);
        assert!(text.contains(from), "{name} holds no `{from}`");
        let why = why(name, &text.replacen(from, to, 1));
        assert!(why.contains(told), "{name}: {why}");
    };
    refused("hyperfine.json", "\"times\"", "\"time\"", "`results[0]`: there is no array `times`");
    refused("hyperfine.json", "\"times\": [", "\"times\": [-1,", "`results[0]`: `times[0]`: -1 s is no time");
    refused("wrk.txt", "14.00ms", "14.00xs", "line 10: `14.00xs` has none of the units us, ms, s, m, h");
    refused("wrk.txt", "4267 requests", "x requests", "line 11: `x` is no whole number");
    refused("wrk.txt", "Transfer/sec", "", "it is cut off");
    refused("wrk.txt", "Running 3s", "Running 3s test @ a\nRunning 3s", "line 2: a second run");
    refused("wrk2.txt", "Total count    =          594", "Total count    =          595", "hold 594 samples");
    refused("hackbench.txt", "Time: 0.028\n", "", "line 1: no `Time:` follows");
    refused("hackbench.txt", "Time: 0.031", "Time: soon", "line 6: `soon` is no number");
    refused("perf-bench.txt", "     Total time: 0.010 [sec]\n", "", "line 22: no total time follows");
    refused("perf-sched-latency.txt", "|        3 | avg", "|        4 | avg", "`TOTAL` says otherwise");
    refused("perf-sched-latency.txt", "avg:   0.136 ms", "avg:   9.136 ms", "line 6: the average delay");
    refused("perf-sched-latency.txt", "  TOTAL:", "  SUM:", "columns are no row of a task");
    // A number alone is a total only as perf writes it.
    assert!(why("n.txt", "0.0301\n").contains("no known format"));
}

/// Programs hold the words of their own output, and a log may hold no interval: neither is a result.
#[test]
fn programs_and_empty_logs_are_no_results() {
    let cyclictest = "#include <stdio.h>\nint main(void)\n{\n\tprintf(\"T:%2d (%5d) P:%2d I:%ld C:%7lu Min:%7ld Act:%5ld Avg:%5ld \"\n                      \t\t\"Max:%8ld\", 1);\n\tfprintf(f, \"T:%2d (%5d) P:%2d C:%7lu Min:%7ld Avg:%5ld Max:%8ld\\n\", 1);\n}\n";
    assert!(why("c", cyclictest).contains("no known format"), "{}", why("c", cyclictest));
    // A comment that quotes a result is none.
    let quoted = "/* as in:\n * T: 0 ( 1) P:99 I:1000 C: 5 Min: 1 Act: 2 Avg: 2 Max: 9\n */\n\
                  // T: 0 ( 1) P:99 I:1000 C: 5 Min: 1 Act: 2 Avg: 2 Max: 9\nint main(void) { return 0; }\n";
    assert!(why("c", quoted).contains("no known format"), "{}", why("c", quoted));
    // Before its first cycle the extremes are those that it starts from.
    let started = "T: 0 ( 1) P:99 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0\n";
    assert!(why("c", started).contains("it holds no value: no sample"), "{}", why("c", started));
    // A terminal's cursor is moved up before each line but the first.
    let live = "\u{1b}[1AT: 0 ( 1) P:99 I:1000 C: 5 Min: 1 Act: 2 Avg: 2 Max: 9\n";
    assert_eq!(read("c", live.as_bytes()).unwrap().record.activities[0].figures[2].value, 9_000.0);
    let schbench = "#include <stdio.h>\nfprintf(stderr, \"%s percentiles (%s) runtime %lu (s) (%lu total samples)\\n\", a, b);\n";
    assert!(why("s", schbench).contains("is no number"), "{}", why("s", schbench));
    let log = file("hdr.hlog");
    let head: String = log.lines().filter(|l| l.starts_with(['#', '"'])).map(|l| format!("{l}\n")).collect();
    assert!(why("h", &head).contains("HdrHistogram log: it holds no value"), "{}", why("h", &head));
}

/// Without -h cyclictest's JSON has an empty histogram: there are extremes, and no quantile.
#[test]
fn an_empty_histogram_gives_no_quantiles() {
    let mut value: serde_json::Value = serde_json::from_str(&file("cyclictest.json")).unwrap();
    for (_, thread) in value["thread"].as_object_mut().unwrap() {
        thread["histogram"] = serde_json::json!({});
    }
    let record = read("c.json", value.to_string().as_bytes()).unwrap().record;
    assert!(record.activities.iter().all(|a| a.latency.is_none()), "{:?}", record.activities);
    assert!(record.activities.iter().any(|a| a.figures.iter().any(|f| f.name == "largest latency")));
}

/// Old versions print JSON with printf: quotes of the command line stand as they were typed, averages of nothing are nan.
#[test]
fn json_by_printf_is_mended_and_said_so() {
    let text = file("cyclictest.json").replacen("cyclictest -q", "cyclictest -q --x \"a \\b\"", 1).replacen(
        "\"node\": 0",
        "\"node\": -nan",
        1,
    );
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_err());
    let record = read("c.json", text.as_bytes()).unwrap().record;
    assert!(record.in_force.environment["command line"].contains("\"a \\b\""));
    assert!(record.in_force.environment["mended JSON"].starts_with("line 3, line "));
    // What is no JSON beyond that is refused where it stands.
    let broken = text.replacen("\"num_threads\"", "num_threads", 1);
    assert!(why("c", &broken).contains("line 3"), "{}", why("c", &broken));
    // Warnings before the document are passed over.
    let fio = format!("fio: a warning\nnote: {{x\n{}", file("fio.json"));
    assert!(read("f.json", fio.as_bytes()).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any fixture cut anywhere and with any byte changed is read or refused.
    #[test]
    fn damaged_files_are_read_or_refused(which in 0usize..29, cut in any::<prop::sample::Index>(),
                                         changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let files = files();
        let (name, bytes) = &files[which];
        let mut bytes = bytes[..=cut.index(bytes.len())].to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read(name, &bytes);
    }

    /// Digits become other digits: counts and times of every size.
    #[test]
    fn other_numbers_are_read_or_refused(which in 0usize..29, digits in prop::collection::vec(0u8..10, 1..40)) {
        let files = files();
        let (name, bytes) = &files[which];
        let mut next = digits.iter().cycle();
        let changed: Vec<u8> = bytes
            .iter()
            .map(|b| if b.is_ascii_digit() { b'0' + next.next().copied().unwrap_or(0) } else { *b })
            .collect();
        let _ = read(name, &changed);
    }
}
