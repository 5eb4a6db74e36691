//! The lab's devices: their interrupt threads found by device and held to a reservation, the same every time.
//!
//! Two boots of one kernel. Skipped, loudly, where the emulator or that kernel is not here.

use std::process::Command;

use serde_json::Value;

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
