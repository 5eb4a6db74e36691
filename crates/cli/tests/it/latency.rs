//! The latency probe and the noise probe on the real machine, and cyclictest beside the former.
//!
//! The machine may be shared: nothing here asserts how fast it is. What must hold whatever others do is that every planned
//! activation is accounted for; figures are printed.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use surety_kernel::{Kernel, RealKernel, clock};
use surety_units::Tid;

use crate::common::{NOBODY, alone, errors, is_root, program, root, surety, surety_as_nobody, text};

const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// The document of a run that must come to its end.
fn document(output: &std::process::Output) -> Value {
    serde_json::from_str(&text(output)).unwrap_or_else(|e| panic!("{e}: {} {}", text(output), errors(output)))
}

fn probe(document: &Value) -> &Value {
    &document["results"][0]["activities"][0]
}

/// Every planned activation is there, woken for or missed.
fn check_counts(activity: &Value, planned: u64) {
    assert_eq!(activity["kind"], "probe");
    assert_eq!(activity["activations"], planned);
    let of = |key: &str| activity[key].as_u64().unwrap();
    assert_eq!(of("completed") + of("missed"), planned);
    assert_eq!(activity["latency_ns"]["count"], planned);
    // A stall that began in the warm-up has its raw value there.
    let raw = activity["series"]["raw latency"]["count"].as_u64().unwrap();
    assert_eq!(raw, of("completed"));
}

/// The policy this user may have.
fn policy() -> &'static str {
    if is_root() { "fifo:80" } else { "fair" }
}

#[test]
fn every_planned_activation_is_accounted_for() {
    let _alone = alone();
    for (extra, planned) in [(&["--jobs", "300"][..], 300), (&["--for", "200ms", "--relative"][..], 200)] {
        let arguments = ["latency", "--cpus", "0", "--policy", policy(), "--warm-up", "20ms", "--json"];
        let output = surety(&[&arguments[..], extra, &["--expect", "max < 1ns"]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
        let document = document(&output);
        assert_eq!(document["schema"], "surety.record/1");
        check_counts(probe(&document), planned);
        let environment = &document["results"][0]["in_force"]["environment"];
        for name in ["idle states", "memory", "grid", "own CPU time", "used by others"] {
            assert!(environment[name].is_string(), "{name}: {environment}");
        }
        assert_eq!(document["expectations"][0]["standing"], "failed", "no wake-up takes nothing");
        let read = surety_model::formats::record::read(&text(&output)).unwrap();
        let measured = &read.results[0].record.activities[0];
        assert_eq!(measured.activations, planned);
        // So few values say nothing of an hour, and that is read back as it was written.
        let next = measured.next_largest.as_ref().unwrap();
        assert!(next.median_ns.is_none() && next.to_string().contains("too few values"), "{next}");
        assert_eq!(probe(&document)["next_largest"]["because"].as_str(), next.because.as_deref());
    }
}

#[test]
fn an_ordinary_user_measures_what_it_may() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| surety_as_nobody(directory.path(), arguments);
    let Some(output) = run(&["latency", "--cpus", "0", "--policy", "fair", "--jobs", "50", "--json"]) else {
        eprintln!("SKIPPED: no setpriv to become user {NOBODY}");
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    check_counts(probe(&document(&output)), 50);
    let refused = run(&["latency", "--cpus", "0", "--policy", "fifo:80", "--jobs", "50"]).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{}", errors(&refused));
    assert!(errors(&refused).contains("fifo:80"), "{}", errors(&refused));
    let noise = run(&["noise", "--cpus", "0", "--for", "50ms"]).unwrap();
    assert_eq!(noise.status.code(), Some(0), "{}", errors(&noise));
}

#[test]
fn a_rule_that_cannot_be_met_in_time_is_undecided() {
    let _alone = alone();
    let arguments =
        ["latency", "--cpus", "0", "--policy", policy(), "--for", "300ms", "--until", "ci(p99.9) < 1%"];
    let output = surety(&arguments);
    assert_eq!(output.status.code(), Some(4), "{}", errors(&output));
    assert!(text(&output).contains("not met"), "{}", text(&output));
}

#[test]
fn a_spike_ends_the_run_and_its_trace_can_be_explained() {
    let _alone = alone();
    if !is_root() {
        eprintln!("SKIPPED: only root records what the scheduler does");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spike.dat");
    let path = path.to_str().unwrap();
    // Every wake-up is later than a nanosecond.
    let output = surety(&["latency", "--cpus", "0", "--stop-over", "1ns", "--output", path, "--for", "5s"]);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(text(&output).contains("spike: cpu0 woke"), "{}", text(&output));
    // The first one ends it: no more are planned than pass by until then, on a machine that stalls more than one.
    let count =
        text(&output).split("cpu0  ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(count.is_some_and(|count| (1..100).contains(&count)), "{}", text(&output));
    let explained = surety(&["trace", "explain", path, "--comm", "surety-cpu0", "--worst", "1"]);
    assert_eq!(explained.status.code(), Some(0), "{}", errors(&explained));
    assert!(text(&explained).contains("surety-cpu0"), "{}", text(&explained));
}

#[test]
fn noise_is_shares_of_what_was_observed() {
    let _alone = alone();
    let output = surety(&["noise", "--cpus", "0", "--for", "300ms", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let document = document(&output);
    let activity = probe(&document);
    let figure = |name: &str| {
        let figures = activity["figures"].as_array().unwrap();
        figures.iter().find(|f| f["name"] == name).map(|f| f["value"].as_f64().unwrap())
    };
    let noise = figure("noise").unwrap();
    assert!((0.0..=1.0).contains(&noise), "{noise}");
    assert!(figure("readings").unwrap() > 1000.0);
    // Every nanosecond of every gap has one cause.
    let causes: Vec<&Value> = activity["figures"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["name"].as_str().unwrap().starts_with("noise by"))
        .collect();
    if causes.is_empty() {
        eprintln!("SKIPPED: no trace says what was in the gaps");
        return;
    }
    let explained: f64 = causes.iter().map(|c| c["value"].as_f64().unwrap()).sum();
    let page = std::fs::read_to_string(root().join("docs/formats/noise.md")).unwrap();
    for figure in activity["figures"].as_array().unwrap() {
        // Up to the name of the cause, which is the machine's.
        let name = figure["name"].as_str().unwrap();
        let named = name.split_once(": ").map_or(name.to_owned(), |(kind, _)| format!("{kind}: NAME"));
        assert!(
            page.contains(&format!("| `{named}` |")),
            "{named} is not described in docs/formats/noise.md"
        );
    }
    let away = noise * activity["share"]["span_ns"].as_f64().unwrap();
    assert!((explained - away).abs() <= away * 1e-6 + 1.0, "{explained} of {away}");
    let refused = surety(&["noise", "--policy", "deadline:100us/1ms/1ms"]);
    assert_eq!(refused.status.code(), Some(2));
}

/// cyclictest on one CPU; `None`, loudly, where it cannot run.
fn cyclictest(arguments: &[&str]) -> Option<Child> {
    if !is_root() {
        eprintln!("SKIPPED: only root may give cyclictest a real-time class");
        return None;
    }
    let started = Command::new("cyclictest")
        .args(["-q", "-m", "-t", "1", "-p", "80", "-i", "1000"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    started
        .map_err(|e| eprintln!("SKIPPED: cyclictest cannot be started ({e}); it is in package rt-tests"))
        .ok()
}

fn latency(arguments: &[&str]) -> Child {
    Command::new(program())
        .args(["latency", "--json", "--warm-up", "100ms", "--policy", "fifo:80"])
        .args(arguments)
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn tid(child: &Child) -> Tid {
    Tid(i32::try_from(child.id()).unwrap())
}

/// `C:` of cyclictest's summary: how many samples it took.
fn cycles(output: &str) -> u64 {
    let after = output.split("C:").nth(1).unwrap_or_else(|| panic!("{output}"));
    after.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// A real stall: both are stopped for 50 ms and go on.
#[test]
fn a_stopped_probe_accounts_for_the_stall_and_cyclictest_loses_it() {
    let _alone = alone();
    let other = if RealKernel::new().online_cpus().unwrap().len() > 1 { "1" } else { "0" };
    let Some(peer) = cyclictest(&["-a", other, "-D", "1"]) else { return };
    let probe_run = latency(&["--cpus", "0", "--for", "1s"]);
    let kernel = RealKernel::new();
    let victims: Vec<_> = [&peer, &probe_run].map(|c| kernel.identity(tid(c)).unwrap()).into();
    sleep(Duration::from_millis(600));
    let stopped = clock::monotonic();
    for victim in &victims {
        assert!(kernel.signal(*victim, SIGSTOP).unwrap());
    }
    sleep(Duration::from_millis(50));
    for victim in &victims {
        assert!(kernel.signal(*victim, SIGCONT).unwrap());
    }
    let stall = clock::monotonic() - stopped;
    let output = probe_run.wait_with_output().unwrap();
    let peer = peer.wait_with_output().unwrap();
    let document = document(&output);
    let activity = probe(&document);
    let of = |value: &Value| value.as_u64().unwrap();
    check_counts(activity, 1000);
    let missed = of(&activity["missed"]);
    let quantile = |distribution: &Value, q: f64| {
        let quantiles = distribution["quantiles"].as_array().unwrap();
        of(&quantiles.iter().find(|v| v["q"] == q).unwrap()["value"])
    };
    let (intended, raw) = (&activity["latency_ns"], &activity["series"]["raw latency"]);
    let samples = cycles(&String::from_utf8_lossy(&peer.stdout));
    eprintln!("stopped for {stall}:          surety  cyclictest");
    eprintln!("  planned in one second        1000        1000");
    eprintln!("  woken                  {:>10}  {samples:>10}", of(&activity["completed"]));
    eprintln!("  missed and said so     {missed:>10}           -");
    eprintln!(
        "  p99 raw, intended      {} us, {} us",
        quantile(raw, 0.99) / 1000,
        quantile(intended, 0.99) / 1000
    );
    // How soon a stop takes effect is the machine's affair; half of it must be there.
    assert!(missed >= 25, "{missed} of a stall of {stall}");
    assert!(of(&intended["max"]) >= 25_000_000);
    // 25 and more of 1000 were at least 1, 2, 3, ... ms late: the 10th latest is 15 ms late at the least.
    assert!(quantile(intended, 0.99) >= 14_900_000, "{}", quantile(intended, 0.99));
    assert!(samples + 25 <= 1000, "cyclictest took {samples} samples in one second with a stall of {stall}");
}

/// The middle value of cyclictest's histogram, in microseconds.
fn median_of_histogram(output: &str) -> u64 {
    let mut rows = Vec::new();
    for line in output.lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit())) {
        let mut words = line.split_ascii_whitespace().map(|w| w.parse::<u64>());
        if let (Some(Ok(us)), Some(Ok(count))) = (words.next(), words.next()) {
            rows.push((us, count));
        }
    }
    let all: u64 = rows.iter().map(|(_, count)| count).sum();
    let mut below = 0;
    let middle = rows.iter().find(|(_, count)| {
        below += count;
        below * 2 >= all
    });
    middle.unwrap_or_else(|| panic!("no histogram: {output}")).0
}

/// CPU time a child uses in 700 ms in the middle of its run, in microseconds.
fn cpu_time_in_the_middle(child: &Child) -> i64 {
    sleep(Duration::from_millis(400));
    let before = clock::process_cpu_time(tid(child)).unwrap();
    sleep(Duration::from_millis(700));
    (clock::process_cpu_time(tid(child)).unwrap() - before).get() / 1000
}

/// Side by side, interleaved, same policy and CPU. Printed: on a shared machine nothing about speed can be asserted.
#[test]
fn beside_cyclictest() {
    let _alone = alone();
    eprintln!("            median us           CPU time us in 700 ms");
    eprintln!("         surety  cyclictest     surety  cyclictest");
    for round in 0..2 {
        let Some(peer) = cyclictest(&["-a", "0", "-D", "2", "-h", "20000"]) else { return };
        let peer_cpu = cpu_time_in_the_middle(&peer);
        let peer = peer.wait_with_output().unwrap();
        let own = latency(&["--cpus", "0", "--for", "1800ms"]);
        let own_cpu = cpu_time_in_the_middle(&own);
        let own = own.wait_with_output().unwrap();
        let document = document(&own);
        let raw = &probe(&document)["series"]["raw latency"];
        let median = raw["quantiles"][0]["value"].as_u64().unwrap() as f64 / 1e3;
        let peer_median = median_of_histogram(&String::from_utf8_lossy(&peer.stdout));
        eprintln!("round {round}  {median:>6.1}  {peer_median:>10}  {own_cpu:>9}  {peer_cpu:>10}");
        check_counts(probe(&document), 1800);
        let degraded = &document["results"][0]["degraded"];
        if !degraded.as_array().unwrap().is_empty() {
            eprintln!("SKIPPED: no comparison, the machine was disturbed: {degraded}");
        }
    }
}
