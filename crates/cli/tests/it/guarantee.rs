//! The loop on the machine that runs the tests: what it writes is what its schema says and what the kernel did.

use serde_json::Value;
use surety_analysis::Supply;
use surety_kernel::RealKernel;
use surety_kernel::facts::MachineFacts;
use surety_model::platform::Enforcement;
use surety_model::reservation::Reservation;
use surety_units::Nanos;

use crate::common::{alone, errors, is_root, surety, surety_as_nobody, text};

/// Small enough for a short run; every number is checked against itself, not against the clock.
const WORKLOAD: &str = "format = 1\ntitle = \"small\"\n[[task]]\nname = \"player\"\nperiod = \"20ms\"\n\
work = { kind = \"lognormal\", mean = \"4ms\", p99 = \"6ms\" }\nlate = \"skip\"\n\
promise = [\"response <= 20ms @ 90%\"]\n[[load]]\nname = \"busy\"\nkind = \"spinners\"\ncount = \"3 per-cpu\"\n";

fn parse(output: &std::process::Output) -> Value {
    serde_json::from_str(&text(output))
        .unwrap_or_else(|e| panic!("{e}: {}\n{}", text(output), errors(output)))
}

fn result<'v>(document: &'v Value, world: &str, reserved: bool) -> &'v Value {
    let results = document["results"].as_array().expect("results is a list");
    results
        .iter()
        .find(|r| r["world"] == world && r["reserved"] == reserved)
        .unwrap_or_else(|| panic!("no result of {world}, reserved {reserved}: {document:#}"))
}

fn player(result: &Value) -> &Value {
    result["activities"]
        .as_array()
        .unwrap()
        .iter()
        .find(|a| a["name"] == "player")
        .expect("the player has a record")
}

/// What is measured while the CPU is taken away may need more than there is; `refused` promises are refused all the same.
fn nothing_planned_because_disturbed(document: &Value, refused: usize) -> bool {
    let degraded = &result(document, "host", false)["degraded"];
    let is_refused = document["plan"]["refusals"].as_array().is_some_and(|all| all.len() > refused);
    let is_disturbed = degraded.as_array().is_some_and(|reasons| !reasons.is_empty());
    if is_refused && is_disturbed {
        eprintln!("SKIPPED: nothing could be planned, the run was disturbed: {degraded}");
    }
    is_refused && is_disturbed
}

#[test]
fn as_root_every_world_speaks_and_the_reservation_is_in_force() {
    if !is_root() {
        eprintln!("SKIPPED: only root may set SCHED_DEADLINE");
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    let page = directory.path().join("page.html");
    std::fs::write(&file, WORKLOAD).unwrap();
    let arguments =
        ["guarantee", file.to_str().unwrap(), "--for", "4s", "--json", "--html", page.to_str().unwrap()];
    let output = surety(&arguments);
    let document = parse(&output);
    assert_eq!(document["schema"], "surety.record/1");
    if nothing_planned_because_disturbed(&document, 0) {
        return;
    }
    for (world, reserved) in
        [("host", false), ("analysis", true), ("sim", false), ("sim", true), ("host", true)]
    {
        let record = player(result(&document, world, reserved));
        if world != "analysis" {
            assert_eq!(record["activations"], 200, "{world}");
            let sum: u64 =
                ["completed", "skipped", "unfinished"].iter().map(|k| record[k].as_u64().unwrap()).sum();
            assert_eq!(sum, 200, "{world}");
        }
        let promise = &record["promises"][0];
        assert_eq!(promise["text"], "response <= 20ms @ 90%");
        assert!(promise["because"].as_str().is_some_and(|b| !b.is_empty()));
    }
    let planned = &document["plan"]["reservations"][0];
    assert_eq!(planned["activity"], "player");
    let (runtime, period) = (planned["runtime_ns"].as_u64().unwrap(), planned["period_ns"].as_u64().unwrap());
    assert_eq!(period, 20_000_000);
    assert!((4_000_000..20_000_000).contains(&runtime), "{runtime}");
    assert!(!planned["proof"]["steps"].as_array().unwrap().is_empty());
    assert_eq!(planned["proof"]["simulations"][0]["hash"].as_str().unwrap().len(), 16);
    let reserved = result(&document, "host", true);
    let thread = reserved["in_force"]["threads"]
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["activity"] == "player")
        .unwrap();
    assert!(thread["policy"].as_str().unwrap().starts_with("deadline "), "{thread}");
    // The same promise, beside the same loads: reserved it misses less than as it is, whatever else runs.
    let missed = |reserved| player(result(&document, "host", reserved))["missed"].as_u64().unwrap();
    assert!(missed(true) < missed(false), "{} reserved, {} as it is", missed(true), missed(false));
    let verdict = player(reserved)["promises"][0]["verdict"].as_str().unwrap();
    let code = match verdict {
        "kept" => 0,
        "broken" => 1,
        _ => 4,
    };
    assert_eq!(output.status.code(), Some(code), "{verdict}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("</html>"));
    for state in ["host unreserved", "sim unreserved", "sim reserved", "host reserved"] {
        assert!(page.contains(&format!("<b>{state}: player, job ")), "no timeline of {state}");
    }
    assert!(page.contains("<b>Reserved</b> for player <code>"));
}

#[test]
fn an_ordinary_user_measures_plans_and_simulates_and_learns_what_is_missing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("w.toml"), WORKLOAD).unwrap();
    let arguments = ["guarantee", "w.toml", "--for", "4s", "--json"];
    let Some(output) = surety_as_nobody(directory.path(), &arguments) else {
        eprintln!("SKIPPED: setpriv is missing, no other user to be");
        return;
    };
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("CAP_SYS_NICE"), "{said}");
    let document = parse(&output);
    let measured = player(result(&document, "host", false));
    assert_eq!(measured["activations"], 200);
    assert!(measured["response_ns"]["count"].as_u64().unwrap() > 0);
    let simulated = player(result(&document, "sim", true));
    assert_eq!(simulated["promises"][0]["verdict"], "kept", "{simulated:#}");
    assert!(document["plan"]["reservations"][0]["runtime_ns"].as_u64().unwrap() > 4_000_000);
    assert!(
        !document["results"]
            .as_array()
            .unwrap()
            .iter()
            .any(|r| r["world"] == "host" && r["reserved"] == true)
    );
}

#[test]
fn a_command_gets_its_share() {
    if !is_root() {
        eprintln!("SKIPPED: only root may set SCHED_DEADLINE");
        return;
    }
    let _alone = alone();
    let arguments = [
        "guarantee",
        "--share",
        "30%",
        "--load",
        "6s",
        "--for",
        "3s",
        "--json",
        "--",
        "sh",
        "-c",
        "while :; do :; done",
    ];
    let output = surety(&arguments);
    let document = parse(&output);
    let planned = &document["plan"]["reservations"][0];
    let ratio = planned["runtime_ns"].as_f64().unwrap() / planned["period_ns"].as_f64().unwrap();
    assert!((0.30..0.40).contains(&ratio), "{ratio}");
    let reserved_from = |key: &str| Nanos::new(planned[key].as_i64().unwrap());
    let least = {
        let reservation = Reservation {
            deadline: reserved_from("deadline_ns"),
            ..Reservation::implicit(reserved_from("runtime_ns"), reserved_from("period_ns"))
        };
        let tick = MachineFacts::read(&RealKernel::new()).scheduler.tick;
        let span = &result(&document, "host", true)["activities"][0]["share"]["span_ns"];
        let span = Nanos::new(span.as_i64().unwrap());
        let supply = Supply::new(reservation, Enforcement::Tick(tick), false);
        supply.guaranteed(span).get() as f64 / span.get() as f64
    };
    let share = |reserved| {
        let result = result(&document, "host", reserved);
        result["activities"][0]["share"]["fraction"].as_f64().unwrap()
    };
    let disturbed = &result(&document, "host", true)["degraded"];
    let outcome = &document["verdict"]["outcome"];
    // A share below the promise in such a run stands against the proof.
    if (share(true) < least || outcome == "undecided")
        && disturbed.as_array().is_some_and(|reasons| !reasons.is_empty())
    {
        eprintln!("SKIPPED: the share was not judged, the run was disturbed: {disturbed}");
        return;
    }
    // A window of 3 s begins and ends inside periods: the reservation gives its share in the long run, and this much in
    // every such window.
    assert!(share(true) >= least, "{} of a CPU where {ratio} are reserved and {least} are due", share(true));
    // One run has no interval: what it shows is observed, and the proof of the reservation keeps the promise.
    assert_eq!(result(&document, "host", true)["activities"][0]["promises"][0]["verdict"], "undecided");
    assert_eq!((outcome, &document["verdict"]["by_proof"]), (&"kept".into(), &1.into()));
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
}

#[test]
fn a_plan_is_written_and_put_on_a_command() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (file, plan) = (directory.path().join("w.toml"), directory.path().join("p.json"));
    std::fs::write(&file, WORKLOAD).unwrap();
    let output = surety(&["plan", file.to_str().unwrap(), "--output", plan.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    if !is_root() {
        eprintln!("SKIPPED: only root may set SCHED_DEADLINE");
        return;
    }
    let shell = "sleep 0.2; grep '^policy' /proc/$$/sched 2>/dev/null; chrt -p $$";
    let output = surety(&["apply", plan.to_str().unwrap(), "--", "sh", "-c", shell]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert!(text(&output).contains("SCHED_DEADLINE"), "{}", text(&output));
    let failing = surety(&["apply", plan.to_str().unwrap(), "--", "sh", "-c", "exit 3"]);
    assert_eq!(failing.status.code(), Some(1), "{}", errors(&failing));
}

#[test]
fn the_doctor_speaks_and_its_json_holds_every_check() {
    let output = surety(&["doctor", "--json"]);
    let document = parse(&output);
    assert_eq!(document["schema"], "surety.doctor/1");
    let checks = document["checks"].as_array().unwrap();
    assert!(checks.len() >= 10);
    for check in checks {
        assert!(["good", "limited", "bad"].contains(&check["verdict"].as_str().unwrap()), "{check}");
    }
}

/// Expectations are held against the state in force, the last result, printed first and written for a build server.
#[test]
fn a_guarantee_is_gated() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("w.toml"), WORKLOAD).unwrap();
    let arguments = [
        "guarantee",
        "w.toml",
        "--for",
        "2s",
        "--expect",
        "player.response.max < 1ns",
        "player.count >= 1",
        "--junit",
        "gates.xml",
        "--tap",
        "gates.tap",
    ];
    let Some(output) = surety_as_nobody(directory.path(), &arguments) else {
        eprintln!("SKIPPED: setpriv is missing, no other user to be");
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output), errors(&output));
    assert!(text(&output).starts_with("FAILED"), "{}", text(&output));
    let tap = std::fs::read_to_string(directory.path().join("gates.tap")).unwrap();
    assert!(tap.starts_with("TAP version 13\n1..2\n") && tap.contains("sim reserved"), "{tap}");
    let junit = std::fs::read_to_string(directory.path().join("gates.xml")).unwrap();
    assert!(junit.contains("<testsuites tests=\"2\" failures=\"1\""), "{junit}");
}

/// A promise that cannot be planned is refused by itself: the others are planned, and the code says that one is not.
#[test]
fn what_can_be_planned_is_although_one_promise_is_refused() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let greedy =
        "[[task]]\nname = \"greedy\"\nperiod = \"20ms\"\nwork = \"1ms\"\npromise = [\"response <= 1us\"]\n";
    std::fs::write(directory.path().join("w.toml"), format!("{WORKLOAD}{greedy}")).unwrap();
    let arguments = ["guarantee", "w.toml", "--for", "4s", "--json"];
    let Some(output) = surety_as_nobody(directory.path(), &arguments) else {
        eprintln!("SKIPPED: setpriv is missing, no other user to be");
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    let document = parse(&output);
    if nothing_planned_because_disturbed(&document, 1) {
        return;
    }
    assert_eq!(document["plan"]["reservations"][0]["activity"], "player", "{document:#}");
    assert_eq!(document["plan"]["refusals"][0]["activity"], "greedy");
    let simulated = player(result(&document, "sim", true));
    assert_eq!(simulated["promises"][0]["verdict"], "kept", "{simulated:#}");
}
