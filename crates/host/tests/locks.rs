//! Tasks with phases on the kernel that runs the tests: their locks, with and without inheritance, and their events.
//!
//! Nothing here depends on how fast the machine is: what is compared lies inside one run and far apart, and a run that its
//! own record calls disturbed says nothing.

use std::sync::{Mutex, PoisonError};

use surety_host::HostWorld;
use surety_kernel::{Kernel, RealKernel};
use surety_model::formats::toml::{self, vary};
use surety_model::promise::Metric;
use surety_model::record::{ActivityRecord, Record};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, Unobserved, World, WorldError};
use surety_units::{CpuId, CpuSet, Nanos};

const EXAMPLE: &str = include_str!("../../../examples/priority-inversion.toml");

/// One experiment at a time: they share a CPU.
static ALONE: Mutex<()> = Mutex::new(());

fn read(text: &str) -> Workload {
    toml::read("test.toml", &format!("format = 1\n{text}")).unwrap_or_else(|e| panic!("{e}"))
}

fn run(workload: &Workload, options: &RunOptions) -> Result<Record, WorldError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    HostWorld::new(&RealKernel::new(), None).run(workload, options, &mut Unobserved)
}

fn short(millis: i64) -> RunOptions {
    RunOptions {
        duration: Nanos::from_millis(millis),
        warm_up: Nanos::from_millis(100),
        cpus: Some(CpuSet::single(CpuId(0))),
        ..RunOptions::default()
    }
}

/// Whether this user may have realtime threads.
fn may_have_realtime() -> bool {
    let root = RealKernel::new().effective_user() == 0;
    if !root {
        eprintln!("SKIPPED: only root may have realtime threads here");
    }
    root
}

/// The median response, in milliseconds.
fn median_ms(task: &ActivityRecord) -> f64 {
    let response = task.response.as_ref().unwrap_or_else(|| panic!("no response of {}", task.name));
    response.quantile(0.5).expect("a median of completed jobs").as_secs_f64() * 1e3
}

#[test]
fn without_inheritance_a_wait_contains_the_middle_task_and_with_it_only_a_section() {
    if !may_have_realtime() {
        return;
    }
    let varied = toml::read("priority-inversion.toml", EXAMPLE).unwrap_or_else(|e| panic!("{e}"));
    // Which protocol, the response of high, and the record.
    let runs: Vec<(String, f64, Record)> = vary::combinations(&varied)
        .unwrap()
        .iter()
        .map(|settings| {
            let workload = vary::with(&varied, settings).unwrap();
            let record = run(&workload, &short(2_000)).unwrap_or_else(|e| panic!("{e}"));
            (settings.to_string(), median_ms(record.activity("high").unwrap()), record)
        })
        .collect();
    for (protocol, high, record) in &runs {
        eprintln!("{protocol}: high {high:.2} ms, {:?}", record.degraded);
        let tasks = ["low", "medium", "high"].map(|name| record.activity(name).unwrap());
        for task in tasks {
            assert_eq!(task.completed + task.unfinished + task.skipped, 20, "{protocol}: {}", task.name);
        }
        // Each uses the CPU time its phases say: blocked time is none of it. Of one job alone a hypervisor may take time off that the
        // kernel learns of late (`update_rq_clock_task`).
        for (task, work) in tasks.iter().zip([10, 40, 2]) {
            let usual = task.execution.as_ref().and_then(|e| e.quantile(0.5)).unwrap();
            assert!(usual >= Nanos::from_millis(work), "{protocol}: {} {usual}", task.name);
        }
        // Fair programs cannot delay realtime threads; a hypervisor can, and then anything may come before anything.
        if record.degraded.iter().any(|why| why.contains("hypervisor")) {
            eprintln!("SKIPPED: the run was disturbed, its times say nothing: {:?}", record.degraded);
            continue;
        }
        // Medium needs 40 ms; half of that is far above a section of 10 ms and high's own 2 ms.
        assert_eq!(*high > 30.0, protocol.contains("none"), "{protocol}: {high} ms");
        assert!(
            tasks[2].execution.as_ref().unwrap().quantile(0.5).unwrap() < Nanos::from_millis(5),
            "{protocol}"
        );
        let (within, of) = tasks[2].promised[0].evidence.counted().unwrap();
        assert_eq!(varied.tasks[2].promises[0].metric, Metric::Response);
        assert!(
            of >= 19 && if protocol.contains("none") { within * 4 < of } else { within * 4 > of * 3 },
            "{within} of {of}"
        );
    }
}

#[test]
fn phases_run_in_turn_and_events_are_passed() {
    let text = r#"
[[task]]
name   = "producer"
period = "20ms"
phases = [{ run = "1ms" }, { lock = "l" }, { run = "1ms" }, { unlock = "l" }, { signal = "e" }]

[[task]]
name   = "consumer"
period = "20ms"
phases = [{ wait = "e" }, { lock = "l" }, { run = "2ms" }, { unlock = "l" }, { sleep = "3ms" }, { run = "1ms" }]

[[resource]]
name = "l"
"#;
    let record = run(&read(text), &short(1_000)).unwrap_or_else(|e| panic!("{e}"));
    for (name, least) in [("producer", 2), ("consumer", 8)] {
        let task = record.activity(name).unwrap();
        assert_eq!((task.activations, task.completed + task.unfinished), (50, 50), "{name}");
        assert!(task.completed >= 25 || !record.is_trusted(), "{name}: {}", task.completed);
        let response = task.response.as_ref().and_then(|r| r.observed()).unwrap();
        // The consumer has 2 ms of work of the producer, 3 of its own and 3 of sleep before it.
        assert!(response.moments.min().unwrap() >= f64::from(least) * 1e6, "{name}");
    }
    let share = record.activity("consumer").unwrap().share_received().unwrap();
    assert!(share < 0.3, "waiting and sleeping is no CPU time: {share}");
}

/// Tasks that wait for ever: two for each other's locks, which they ask for once both have their own, and one for an event
/// that comes too seldom.
fn stuck(protocol: &str) -> String {
    let task = |name: &str, other: &str, first: &str, second: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nphases = [{{ lock = \"{first}\" }}, {{ signal = \"{name}\" }}, \
             {{ wait = \"{other}\" }}, {{ lock = \"{second}\" }}, {{ run = \"1ms\" }}, {{ unlock = \"{second}\" }}, \
             {{ unlock = \"{first}\" }}, {{ signal = \"e\" }}]\n"
        )
    };
    let lock = |name: &str| format!("[[resource]]\nname = \"{name}\"\nprotocol = \"{protocol}\"\n");
    let waits = "[[task]]\nname = \"w\"\nphases = [{ wait = \"e\" }, { wait = \"e\" }, { wait = \"e\" }]\n";
    [task("a", "b", "k", "l"), task("b", "a", "l", "k"), waits.to_owned(), lock("k"), lock("l")].concat()
}

#[test]
fn a_run_ends_though_its_tasks_wait_for_ever() {
    for protocol in ["none", "inherit"] {
        let record = run(&read(&stuck(protocol)), &short(400)).unwrap_or_else(|e| panic!("{e}"));
        let count = |name: &str| {
            let task = record.activity(name).unwrap();
            (task.completed, task.unfinished)
        };
        assert_eq!(count("w"), (0, 1), "{protocol}");
        let done = count("a").0 + count("b").0;
        assert_eq!(count("a").1 + count("b").1, 2 - done);
        let told = record.degraded.iter().filter(|why| why.contains("waits in a ring")).count();
        // The kernel finds the ring where it hands locks over itself: one task gives up, and the other goes on.
        assert_eq!(
            (done, told),
            if protocol == "inherit" { (1, 1) } else { (0, 0) },
            "{:?}",
            record.degraded
        );
    }
}

#[test]
fn cancelling_frees_tasks_that_wait() {
    for protocol in ["none", "inherit"] {
        let options = short(60_000);
        let cancel = options.cancel.clone();
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            cancel.cancel();
        });
        assert_eq!(run(&read(&stuck(protocol)), &options).unwrap_err(), WorldError::Interrupted);
    }
}

#[test]
fn a_waiter_with_a_reservation_lends_it() {
    if !may_have_realtime() {
        return;
    }
    let text = r#"
[[task]]
name   = "reserved"
period = "100ms"
start  = "5ms"
phases = [{ lock = "m" }, { run = "1ms" }, { unlock = "m" }]
reservation = { runtime = "10ms", period = "100ms" }

[[task]]
name   = "low"
period = "100ms"
policy = "fifo:1"
phases = [{ lock = "m" }, { run = "10ms" }, { unlock = "m" }]

[[resource]]
name     = "m"
protocol = "inherit"
"#;
    let record = run(&read(text), &short(1_000)).unwrap_or_else(|e| panic!("{e}"));
    for name in ["reserved", "low"] {
        let task = record.activity(name).unwrap();
        assert_eq!(task.completed + task.unfinished + task.skipped, 10, "{name}");
        assert!(
            task.completed >= 5 || !record.is_trusted(),
            "{name}: {} {:?}",
            task.completed,
            record.degraded
        );
    }
}
