//! Chains on the kernel that runs the tests: every event is accounted for, and nobody waits beyond the end. No time is held against a limit.

use std::sync::{Mutex, PoisonError};

use surety_host::HostWorld;
use surety_kernel::RealKernel;
use surety_model::formats::toml;
use surety_model::record::{ActivityRecord, Distribution, Record, stages_of};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, Unobserved, World, WorldError};
use surety_units::Nanos;

/// One experiment at a time: they share the CPUs.
static ALONE: Mutex<()> = Mutex::new(());

fn read(text: &str) -> Workload {
    toml::read("test.toml", &format!("format = 1\n{text}")).unwrap_or_else(|e| panic!("{e}"))
}

fn run(workload: &Workload, options: &RunOptions) -> Result<Record, WorldError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    HostWorld::new(&RealKernel::new(), None).run(workload, options, &mut Unobserved)
}

fn short(millis: i64) -> RunOptions {
    RunOptions { duration: Nanos::from_millis(millis), warm_up: Nanos::ZERO, ..RunOptions::default() }
}

fn played(workload: &Workload, options: &RunOptions) -> Record {
    run(workload, options).unwrap_or_else(|e| panic!("{e}"))
}

fn counts(record: &Record, name: &str) -> (u64, u64, u64) {
    let activity = record.activity(name).unwrap_or_else(|| panic!("no {name}"));
    (activity.activations, activity.completed, activity.unfinished)
}

/// The least of a series, in ms.
fn least(activity: &ActivityRecord, series: &str) -> f64 {
    let found = activity.series.get(series).unwrap_or_else(|| panic!("no {series}"));
    found.observed().expect("it was seen").moments.min().expect("there are values") / 1e6
}

fn mean(found: &Distribution) -> f64 {
    found.observed().expect("it was seen").moments.mean().expect("there are values")
}

const KEYS: &str = r#"
[[task]]
name = "input"
work = "500us"
[[task]]
name = "page"
phases = [{ run = "1ms" }, { sleep = "1ms" }, { run = "1ms" }]
[[task]]
name = "compositor"
period = "10ms"
work = "1ms"
[[chain]]
name = "key"
start = { kind = "poisson", rate = "60/s" }
through = ["input", "page", "compositor"]
promise = ["response <= 60ms @ 50%"]
[[chain]]
name = "tick"
start = { kind = "periodic", period = "25ms" }
through = ["page", "compositor"]
"#;

#[test]
fn every_event_has_one_outcome_and_its_parts_make_up_its_response() {
    let (workload, options) = (read(KEYS), short(1_000));
    let record = played(&workload, &options);
    let end = options.duration;
    let came =
        |index: usize| workload.chains[index].events(options.seed).take_while(|at| *at < end).count() as u64;
    let (key, tick, input, page) =
        (counts(&record, "key"), counts(&record, "tick"), counts(&record, "input"), counts(&record, "page"));
    assert_eq!((key.0, tick.0, input.0), (came(0), 40, came(0)), "fed by events, one job each");
    for (activations, completed, unfinished) in [key, tick, input, page] {
        assert!(completed > 0 && activations == completed + unfinished);
    }
    assert_eq!(page.0, input.1 + tick.0, "a job for each delivery");
    assert!(key.1 + tick.1 <= page.1 && counts(&record, "compositor").0 == 100);
    // The first reading of a job's CPU time is some microseconds beside its start.
    const READ: f64 = 0.02;
    for (name, stages) in [
        ("key", &[("1 input", 0.5), ("2 page", 2.0), ("3 compositor", 1.0)][..]),
        ("tick", &[("1 page", 2.0)]),
    ] {
        let activity = record.activity(name).unwrap();
        let parts: f64 = stages_of(activity).iter().map(|stage| stage.all()).sum();
        assert!((parts / mean(activity.response.as_ref().unwrap()) - 1.0).abs() < 1e-9, "{name}: {parts}");
        for (stage, work) in stages {
            assert!(least(activity, &format!("{stage} run")) + READ >= *work, "{stage}");
            assert!(least(activity, &format!("{stage} wait")) >= 0.0, "{stage}");
            let sleeps = if stage.contains("page") { 1.0 } else { 0.0 };
            assert!(least(activity, &format!("{stage} held up")) + READ >= sleeps, "{stage}");
        }
    }
}

#[test]
fn more_events_than_a_stage_can_handle_are_open_at_the_end() {
    let text = "[[task]]\nname = \"slow\"\nwork = \"8ms\"\n[[chain]]\nname = \"key\"\nthrough = [\"slow\"]\n\
                start = { kind = \"sporadic\", gap = \"5ms\" }\npromise = [\"response <= 50ms @ 95%\"]\n";
    let record = played(&read(text), &short(400));
    let (activations, completed, unfinished) = counts(&record, "key");
    assert_eq!((activations, completed + unfinished), (80, 80));
    assert!((1..=50).contains(&completed), "each needs 8 ms: {completed}");
    assert_eq!(counts(&record, "slow"), (80, completed, unfinished));
    assert!(record.activity("key").unwrap().missed >= 10, "those after 50 are late");
}

/// The second stage begins a job that outlasts the run, and the third is never handed anything; no thread is left.
#[test]
fn nobody_waits_beyond_the_end() {
    let text = "[[task]]\nname = \"stage-one\"\nwork = \"1ms\"\n\
                [[task]]\nname = \"stage-two\"\nphases = [{ run = \"1ms\" }, { sleep = \"1h\" }]\n\
                [[task]]\nname = \"stage-three\"\nwork = \"1ms\"\n\
                [[chain]]\nname = \"key\"\nthrough = [\"stage-one\", \"stage-two\", \"stage-three\"]\n\
                start = { kind = \"periodic\", period = \"50ms\" }\n";
    let workload = read(text);
    let record = played(&workload, &short(300));
    assert_eq!(counts(&record, "key"), (6, 0, 6));
    let (one, two) = (counts(&record, "stage-one"), counts(&record, "stage-two"));
    assert!(one.0 == 6 && two == (one.1, 0, one.1), "{one:?} {two:?}");
    assert_eq!(counts(&record, "stage-three"), (0, 0, 0));
    let options = short(60_000);
    let cancel = options.cancel.clone();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(400));
        cancel.cancel();
    });
    assert_eq!(run(&workload, &options).unwrap_err(), WorldError::Interrupted);
    canceller.join().unwrap();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let name = std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default();
        assert!(!name.starts_with("stage-"), "{name}");
    }
}

#[test]
fn more_events_than_a_run_keeps_are_refused() {
    let text = "[[task]]\nname = \"t\"\nwork = \"1us\"\n[[chain]]\nname = \"key\"\nthrough = [\"t\"]\n\
                start = { kind = \"poisson\", rate = \"1000000/s\" }\n";
    let refusal = run(&read(text), &short(60_000)).unwrap_err().to_string();
    assert!(
        refusal.contains("host cannot run chain.key") && refusal.contains("run it shorter with --for"),
        "{refusal}"
    );
}
