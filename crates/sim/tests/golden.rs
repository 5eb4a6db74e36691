//! The same bytes on every machine: the hash of a few runs, written down.
//!
//! A change of a hash is a change of what the simulator says. When it is meant, the new value goes here together
//! with the reason in the change's message.

mod common;

use common::simulate;

const SCENARIOS: &[(&str, &str, u32, u64)] = &[
    (
        "a player beside hogs on one CPU",
        r#"
[[task]]
name   = "player"
period = "40ms"
work   = { kind = "lognormal", mean = "14ms", p99 = "22ms" }
late   = "skip"

[[load]]
name  = "busy"
kind  = "spinners"
count = 4
"#,
        1,
        0x6996d1284d6f796b,
    ),
    (
        "reservations and realtime threads on two CPUs",
        r#"
[[task]]
name        = "a"
period      = "10ms"
jitter      = "1ms"
work        = { kind = "uniform", low = "1ms", high = "4ms" }
reservation = { runtime = "3ms", deadline = "8ms", period = "10ms" }

[[task]]
name        = "b"
work        = "forever"
reservation = { runtime = "2ms", period = "10ms", reclaim = true }

[[task]]
name      = "c"
gap       = "7ms"
work      = { kind = "exponential", mean = "2ms" }
policy    = "fifo:10"
instances = 2

[[task]]
name   = "d"
work   = "forever"
policy = "rr:5"

[[load]]
name  = "busy"
kind  = "spinners"
count = "2 per-cpu"
"#,
        2,
        0xc1a3a4d92ab7e831,
    ),
    (
        "groups, nice values and slices on two CPUs",
        r#"
[[task]]
name   = "ui"
period = "16ms"
work   = { kind = "normal", mean = "3ms", std_dev = "1ms" }
slice  = "500us"
group  = "front"

[[task]]
name   = "batch"
work   = "forever"
policy = "batch"
nice   = 5
group  = "back"

[[load]]
name  = "busy"
kind  = "spinners"
count = 3
group = "back"

[[group]]
name   = "front"
weight = 300

[[group]]
name   = "back"
weight = 50
"#,
        2,
        0x530301f93833b727,
    ),
    (
        "phases with a lock that passes priority on",
        r#"
[[task]]
name   = "low"
period = "20ms"
policy = "fifo:1"
phases = [{ lock = "l" }, { run = "3ms" }, { unlock = "l" }, { sleep = "1ms" }, { run = "1ms" }]

[[task]]
name   = "middle"
period = "15ms"
policy = "fifo:5"
work   = { kind = "uniform", low = "1ms", high = "6ms" }

[[task]]
name   = "high"
period = "25ms"
start  = "1ms"
policy = "fifo:9"
phases = [{ run = "1ms" }, { lock = "l" }, { run = "1ms" }, { unlock = "l" }]

[[resource]]
name     = "l"
protocol = "inherit"
"#,
        1,
        0xca68b1006ce267ce,
    ),
    (
        "devices with finite queues, reserved and not, beside a player on one CPU",
        r#"
[[task]]
name        = "player"
period      = "40ms"
work        = { kind = "lognormal", mean = "14ms", p99 = "22ms" }
late        = "skip"
reservation = { runtime = "20ms", period = "40ms" }

[[irq]]
name        = "net"
arrivals    = { kind = "poisson", rate = "3kHz" }
work        = { kind = "exponential", mean = "30us" }
hard        = "2us"
buffer      = 64
reservation = { runtime = "12ms", period = "100ms" }

[[irq]]
name     = "disk"
arrivals = { kind = "closed", outstanding = 4, service = "900us" }
work     = { kind = "uniform", low = "100us", high = "300us" }
hard     = "5us"

[[irq]]
name     = "sensor"
arrivals = { kind = "periodic", period = "7ms" }
work     = "3ms"
buffer   = 1

[[load]]
name  = "busy"
kind  = "spinners"
count = 2
"#,
        1,
        0x6100e7d2a60a1887,
    ),
];

#[test]
fn runs_hash_as_written_down() {
    let hashes: Vec<String> = SCENARIOS
        .iter()
        .map(|(name, text, cpus, _)| {
            let hash = simulate(text, 5, *cpus).hash.unwrap();
            format!("{hash:#018x} {name}")
        })
        .collect();
    let expected: Vec<String> =
        SCENARIOS.iter().map(|(name, _, _, hash)| format!("{hash:#018x} {name}")).collect();
    assert_eq!(hashes, expected);
}
