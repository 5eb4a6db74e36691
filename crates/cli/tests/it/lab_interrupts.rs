//! The lab's devices: their interrupt threads found by device and held to a reservation, the same every time.
//!
//! A dozen boots. Skipped, loudly, where the emulator or that kernel is not here.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use surety_kernel::{Kernel, RealKernel};
use surety_lab::LabWorld;
use surety_lab::devices::Device;
use surety_lab::lab::Lab;
use surety_lab::store::Store;
use surety_lab::vm::{LabOptions, Mode};
use surety_model::distribution::TimeDistribution;
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Irq, Workload};
use surety_model::world::{Observer, RunOptions, World, WorldError};
use surety_units::Nanos;

use crate::common::{beside_guests, errors, program, root};

/// The kernel that is booted: its interrupts have threads by themselves.
const KERNEL: &str = "6.12-rt";

/// One without, whose interrupts have threads because the lab asks for them.
const PLAIN: &str = "6.12";

/// Whether it can be booted here; says so where it cannot.
fn is_there() -> bool {
    is_here(KERNEL)
}

/// The same of any kernel.
fn is_here(kernel: &str) -> bool {
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        eprintln!("SKIPPED: the emulator is not installed (Debian package qemu-system-x86)");
        return false;
    }
    let listed = Command::new(program()).args(["lab", "list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let kernels = listed["kernels"].as_array().unwrap();
    let is_here = kernels.iter().any(|k| k["name"] == kernel && !k["stored"].is_null());
    if !is_here {
        eprintln!("SKIPPED: {kernel} is not here: surety lab fetch {kernel}");
    }
    is_here
}

fn run(device: &str) -> Value {
    let output = Command::new(program())
        .args(["run", "examples/lab-disk.toml", "--on", &format!("lab:{KERNEL}"), "--lab-device", device])
        .args(["--lab-shift", "1", "--for", "400ms", "--warm-up", "100ms", "--no-trace", "--json"])
        .current_dir(root())
        .output()
        .unwrap();
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)));
    document["results"][0].clone()
}

#[test]
fn a_disks_interrupt_thread_keeps_to_its_reservation_and_runs_repeat() {
    let _guest = beside_guests();
    if !is_there() {
        return;
    }
    let (first, again) = (run("disk=sd-card-pio:32KiB"), run("disk=sd-card-pio:32KiB"));
    assert!(first["hash"].is_string(), "{first}");
    assert_eq!(first["hash"], again["hash"]);
    let device = first["in_force"]["environment"]["device disk"].as_str().unwrap();
    assert!(device.contains("mmcblk0, thread irq/") && device.contains("reads of 32768 bytes"), "{device}");
    let activity = &first["activities"][0];
    // 30 of each 100 ms, looked at on a tick of 4 ms; four periods are observed.
    let share = activity["share"]["fraction"].as_f64().unwrap();
    assert!((0.25..0.35).contains(&share), "{share}");
    assert!(activity["completed"].as_u64().unwrap() > 50, "{activity}");
}

#[test]
fn a_device_that_does_not_fit_is_refused_before_a_guest_is_booted() {
    if !is_there() {
        return;
    }
    for (device, said) in
        [("disk=e1000", "closed loop"), ("eth=pcnet", "has disk"), ("disk=sd-cart", "did you mean sd-card?")]
    {
        let output = Command::new(program())
            .args(["run", "examples/lab-disk.toml", "--on", &format!("lab:{KERNEL}"), "--lab-device", device])
            .current_dir(root())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        assert!(errors(&output).contains(said), "{}", errors(&output));
    }
}

/// A disk that its interrupt thread moves the data of, and a player, each under a reservation.
const TOGETHER: &str = r#"format = 1
[[irq]]
name        = "reads"
device      = "disk"
arrivals    = { kind = "closed", outstanding = 2, service = "63us" }
work        = "691us"
reservation = { runtime = "30ms", period = "100ms" }

[[task]]
name        = "player"
period      = "40ms"
work        = "10ms"
reservation = { runtime = "12ms", period = "40ms" }
"#;

/// Runs a workload on a kernel and gives its record.
fn run_on(kernel: &str, workload: &str, more: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("workload.toml");
    std::fs::write(&file, workload).unwrap();
    let output = Command::new(program())
        .args(["run", file.to_str().unwrap(), "--on", &format!("lab:{kernel}"), "--lab-shift", "1", "--json"])
        .args(["--for", "400ms", "--warm-up", "100ms"])
        .args(more)
        .output()
        .unwrap();
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)));
    document["results"][0].clone()
}

/// The CPUs a thread of an activity may run on, and its policy, as the kernel says.
fn in_force(record: &Value, activity: &str) -> (String, String) {
    let threads = record["in_force"]["threads"].as_array().unwrap();
    let is_reserved = |t: &&Value| {
        t["activity"] == activity && t["policy"].as_str().is_some_and(|policy| policy.contains("deadline"))
    };
    let thread = threads.iter().find(is_reserved).unwrap_or_else(|| panic!("{activity}: {threads:?}"));
    assert_eq!(thread["as_requested"], true, "{thread}");
    let word = |key: &str| thread[key].as_str().unwrap().to_owned();
    (word("affinity"), word("policy"))
}

#[test]
fn partitions_let_bound_threads_have_reservations_on_one_cpu_and_on_two() {
    let _guest = beside_guests();
    if !is_there() {
        return;
    }
    let device =
        ["--lab-device", "disk=sd-card-pio:32KiB", "--no-trace", "--lab-cpus", "2", "--lab-partition"];
    for (cpus, handler, player) in [("0-1", "0", "1"), ("1", "1", "1")] {
        let record = run_on(KERNEL, TOGETHER, &[&device[..], &["--cpus", cpus]].concat());
        assert_eq!(in_force(&record, "reads").0, handler, "--cpus {cpus}");
        assert_eq!(in_force(&record, "player").0, player, "--cpus {cpus}");
        let share = |index: usize| record["activities"][index]["share"]["fraction"].as_f64().unwrap();
        let of =
            |name| record["activities"].as_array().unwrap().iter().position(|a| a["name"] == name).unwrap();
        // 30 of each 100 ms, looked at on a tick of 4 ms, four periods of it; and 10 of each 40 ms.
        assert!((0.2..0.36).contains(&share(of("reads"))), "--cpus {cpus}: {}", share(of("reads")));
        assert!((0.24..0.28).contains(&share(of("player"))), "--cpus {cpus}: {}", share(of("player")));
        assert_eq!(record["activities"][of("player")]["missed"], 0, "--cpus {cpus}");
    }
}

/// The thread of a card sleeps on the CPU it was on, and is judged by that one: packets bring it where it is to be.
#[test]
fn a_cards_thread_comes_to_another_partition() {
    let _guest = beside_guests();
    if !is_there() {
        return;
    }
    let device =
        ["--lab-device", "eth=pcnet", "--no-trace", "--lab-cpus", "2", "--lab-partition", "--cpus", "1"];
    let workload = r#"format = 1
[[irq]]
name        = "eth"
arrivals    = { kind = "sporadic", gap = "2ms" }
work        = "320us"
buffer      = 64
reservation = { runtime = "500us", period = "2ms" }

[[task]]
name        = "player"
period      = "40ms"
work        = "10ms"
reservation = { runtime = "12ms", period = "40ms" }
"#;
    let record = run_on(KERNEL, workload, &device);
    assert_eq!((in_force(&record, "eth").0.as_str(), in_force(&record, "player").0.as_str()), ("1", "1"));
    let of =
        |name| record["activities"].as_array().unwrap().iter().find(|a| a["name"] == name).unwrap().clone();
    assert_eq!(
        (of("eth")["missed"].as_u64(), of("player")["missed"].as_u64()),
        (Some(0), Some(0)),
        "{record}"
    );
    assert!(of("eth")["completed"].as_u64().is_some_and(|packets| packets > 150), "{record}");
}

#[test]
fn a_plain_kernel_has_interrupt_threads_too_and_they_take_reservations() {
    let _guest = beside_guests();
    if !is_here(PLAIN) {
        return;
    }
    let disk = run_on(PLAIN, TOGETHER, &["--lab-device", "disk=sd-card-pio:32KiB", "--no-trace"]);
    let device = disk["in_force"]["environment"]["device disk"].as_str().unwrap();
    assert!(device.contains("mmcblk0, thread irq/"), "{device}");
    assert!(in_force(&disk, "reads").1.contains("30"), "{disk}");
    let card = r#"format = 1
[[irq]]
name        = "eth"
arrivals    = { kind = "sporadic", gap = "2ms" }
work        = "320us"
buffer      = 512
reservation = { runtime = "600us", period = "2ms" }
"#;
    let card = run_on(PLAIN, card, &["--lab-device", "eth=pcnet", "--no-trace"]);
    let device = card["in_force"]["environment"]["device eth"].as_str().unwrap();
    assert!(device.contains("thread napi/"), "{device}");
    in_force(&card, "eth");
    assert!(card["activities"][0]["completed"].as_u64().unwrap() > 150, "{}", card["activities"][0]);
}

#[test]
fn the_reservation_that_a_trace_of_the_guest_asks_for_keeps_what_it_promises_there() {
    let _guest = beside_guests();
    if !is_there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("t.dat").display().to_string();
    let card = |reservation: &str| {
        format!(
            "format = 1\n[[irq]]\nname = 'eth'\narrivals = {{ kind = 'sporadic', gap = '2ms' }}\nwork = '320us'\n\
             buffer = 512\n{reservation}"
        )
    };
    let json = |arguments: &[&str]| -> Value {
        let output = Command::new(program()).args(arguments).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)))
    };
    let traced = ["--lab-device", "eth=pcnet", "--trace", trace.as_str()];
    // Under a generous one, for a job takes longer there than in another class.
    run_on(KERNEL, &card("reservation = { runtime = '1ms', period = '2ms' }"), &traced);
    let thread = ["--comm", "napi/surety0-81"];
    let asked = ["trace", "reserve", &trace, "--response", "4ms", "--at", "99%", "--json"];
    let chosen = json(&[&asked[..], &thread[..]].concat())["chosen"].clone();
    let (runtime, period) = (chosen["runtime_ns"].as_i64().unwrap(), chosen["period_ns"].as_i64().unwrap());
    // A packet of about 320 us every 2 ms.
    assert!((0.16..0.4).contains(&(runtime as f64 / period as f64)), "{chosen}");
    let reservation = format!("reservation = {{ runtime = '{runtime}ns', period = '{period}ns' }}");
    let record = run_on(KERNEL, &card(&reservation), &traced);
    in_force(&record, "eth");
    let stats = json(&[&["trace", "stats", &trace, "--json"][..], &thread[..]].concat());
    let p99 = stats["threads"][0]["response_ns"]["p99"].as_i64().unwrap();
    assert!(p99 <= 4_000_000, "{p99}");
}

/// Eight readers of a disk whose thread has a reservation of so much in 100 ms.
fn reads(budget: Nanos) -> Workload {
    let ms = Nanos::from_millis;
    let arrivals = Arrivals::Closed { outstanding: 8, service: Nanos::from_micros(63) };
    let irq = Irq {
        reservation: Some(Reservation::implicit(budget, ms(100))),
        ..Irq::new("disk", arrivals, TimeDistribution::Constant(Nanos::from_micros(691)))
    };
    Workload { irqs: vec![irq], ..Workload::default() }
}

/// Wants the first so many runs, and remembers which it was asked about.
struct First {
    count: usize,
    asked: Vec<usize>,
}

impl Observer for First {
    fn wants_run(&mut self, number: usize) -> bool {
        self.asked.push(number);
        number < self.count
    }
}

#[test]
fn one_boot_makes_several_runs_and_a_refused_one_ends_no_other() {
    let _guest = beside_guests();
    if !is_there() {
        return;
    }
    let kernel = RealKernel::new();
    let store = Store::find(kernel.effective_user() == 0).unwrap();
    let options = LabOptions {
        devices: vec![Device::of_words("disk=sd-card-pio:32KiB").unwrap()],
        mode: Mode::Deterministic { shift: 1 },
        ..LabOptions::default()
    };
    let stored = store.kernel(KERNEL).unwrap();
    let lab = Lab::new(&kernel, None, stored, options, Path::new(program()), &[]).unwrap();
    let world = LabWorld::new(lab).untraced();
    let ms = Nanos::from_millis;
    // The second asks for more than any kernel admits.
    let options = RunOptions { duration: ms(400), warm_up: ms(100), ..RunOptions::default() };
    let runs = [20, 99, 60].map(|budget| (reads(ms(budget)), options.clone()));
    let make = |count: usize| {
        let mut first = First { count, asked: Vec::new() };
        let made = world.run_each(&runs, &mut first);
        (made, first.asked)
    };
    let (made, asked) = make(3);
    assert_eq!(asked, [0, 1, 2]);
    let share = |made: &Result<Record, WorldError>| {
        let record = made.as_ref().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(record.world, format!("lab:{KERNEL}"));
        record.activity("disk").unwrap().share.as_ref().unwrap().fraction()
    };
    // Looked at on a tick of 4 ms; four periods are observed.
    let shares = [share(&made[0]), share(&made[2])];
    assert!((0.15..0.25).contains(&shares[0]) && (0.55..0.65).contains(&shares[1]), "{shares:?}");
    let refused = made[1].as_ref().unwrap_err();
    assert!(refused.to_string().contains("bandwidth"), "{refused}");
    // The same guest, ended behind its first run.
    let (again, asked) = make(1);
    assert_eq!(asked, [0, 1]);
    let hash = |made: &Result<Record, WorldError>| made.as_ref().ok().and_then(|record| record.hash);
    assert!(hash(&made[0]).is_some());
    assert_eq!(hash(&made[0]), hash(&again[0]));
    assert_eq!(again[1].as_ref().unwrap_err(), &WorldError::Interrupted);
    assert_eq!(again[2].as_ref().unwrap_err(), &WorldError::Interrupted);
}
