//! The lab's devices: their interrupt threads found by device and held to a reservation, the same every time.
//!
//! Four boots of one kernel. Skipped, loudly, where the emulator or that kernel is not here.

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

use crate::common::{alone, errors, program, root};

/// The kernel that is booted: its interrupts have threads by themselves.
const KERNEL: &str = "6.12-rt";

/// Whether it can be booted here; says so where it cannot.
fn is_there() -> bool {
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        eprintln!("SKIPPED: the emulator is not installed (Debian package qemu-system-x86)");
        return false;
    }
    let listed = Command::new(program()).args(["lab", "list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let kernels = listed["kernels"].as_array().unwrap();
    let is_here = kernels.iter().any(|k| k["name"] == KERNEL && !k["stored"].is_null());
    if !is_here {
        eprintln!("SKIPPED: {KERNEL} is not here: surety lab fetch {KERNEL}");
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
    let _alone = alone();
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
    let _alone = alone();
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
