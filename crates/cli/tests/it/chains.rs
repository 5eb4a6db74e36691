//! A workload with a chain on this kernel, in a guest and simulated: the same events in each, and no part of a response without its work.

use serde_json::Value;

use crate::common::{alone, beside_guests, errors, surety};
use crate::lab::kernel;

const WORKLOAD: &str = r#"
format = 1
[[task]]
name = "input"
work = "500us"
[[task]]
name = "page"
work = "2ms"
[[task]]
name = "compositor"
period = "16.6ms"
work = "1ms"
[[chain]]
name = "key"
start = { kind = "poisson", rate = "40/s" }
through = ["input", "page", "compositor"]
promise = ["response <= 60ms @ 50%"]
[[load]]
name = "busy"
kind = "spinners"
"#;

/// The results of a world and of the simulator.
fn played(world: &str, length: &str) -> [Value; 2] {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    std::fs::write(&file, WORKLOAD).unwrap();
    let file = file.to_str().unwrap();
    let output =
        surety(&["--json", "run", file, "--on", world, "--on", "sim", "--for", length, "--cpus", "0"]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{:?} {}", output.status, errors(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |world: &str| {
        let mut results = document["results"].as_array().unwrap().iter();
        let found = results.find(|result| result["world"] == world);
        found.unwrap_or_else(|| panic!("no {world}: {document:#}")).clone()
    };
    [of(world), of("sim")]
}

fn activity<'v>(result: &'v Value, name: &str) -> &'v Value {
    let mut activities = result["activities"].as_array().unwrap().iter();
    activities.find(|activity| activity["name"] == name).unwrap_or_else(|| panic!("no {name}: {result:#}"))
}

/// Both have the same events, each with one outcome, and every part of a response is there; it is no less than the work of its stage.
fn assert_alike([world, sim]: &[Value; 2]) {
    let key = |result: &Value, count: &str| activity(result, "key")[count].as_u64().unwrap();
    let events = key(sim, "activations");
    assert!(events > 0 && key(world, "activations") == events, "{world:#}");
    // The first stage has a job for each event.
    assert_eq!(activity(world, "input")["activations"], activity(sim, "input")["activations"]);
    for result in [world, sim] {
        assert_eq!(key(result, "completed") + key(result, "unfinished"), events, "{result:#}");
        assert!(key(result, "completed") > 0, "{result:#}");
        let series = activity(result, "key")["series"].as_object().unwrap();
        assert_eq!(series.len(), 9, "{series:?}");
        // The CPU time of a job is first read some microseconds beside its start.
        for (stage, work) in [("1 input", 500e3), ("2 page", 2e6), ("3 compositor", 1e6)] {
            let least = |part: &str| series[&format!("{stage} {part}")]["min"].as_f64().unwrap();
            assert!(least("run") + 20e3 >= work, "{stage}: {series:?}");
            assert!(least("wait") >= 0.0 && least("held up") >= 0.0, "{stage}: {series:?}");
        }
    }
}

#[test]
fn this_kernel_and_the_simulator_have_the_same_events() {
    let _alone = alone();
    assert_alike(&played("host", "2s"));
}

#[test]
fn a_guest_and_the_simulator_have_the_same_events() {
    let Some(kernel) = kernel() else { return };
    let _guest = beside_guests();
    assert_alike(&played(&format!("lab:{kernel}"), "1s"));
}
