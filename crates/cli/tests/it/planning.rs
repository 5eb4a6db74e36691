//! `surety plan` as a user meets it: fronts, interrupts beside tasks, alternatives, plans verified again.

use crate::common::{errors, program, surety, text};

/// Writes a workload and plans it; the plan's file.
fn planned(directory: &std::path::Path, workload: &str) -> String {
    let (file, plan) = (directory.join("w.toml"), directory.join("w.plan"));
    std::fs::write(&file, workload).unwrap();
    let output = surety(&["plan", file.to_str().unwrap(), "--cpus", "2", "--output", plan.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    plan.to_str().unwrap().to_owned()
}

const PLAYER: &str = "format = 1\n[[task]]\nname = \"player\"\nperiod = \"40ms\"\nlate = \"queue\"\n\
    work = { kind = \"lognormal\", mean = \"14ms\", p99 = \"22ms\" }\npromise = \"response <= 79ms @ 99%\"\n";

#[test]
fn a_front_shows_what_was_compared_and_marks_what_is_planned() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    std::fs::write(&file, PLAYER).unwrap();
    let output = surety(&["plan", file.to_str().unwrap(), "--cpus", "2", "--front", "--try", "27ms"]);
    let shown = text(&output);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    for word in ["chosen", "front", "27 ms", "39 ms", "exact", "left for everything else", "fair server"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let output = surety(&["plan", file.to_str().unwrap(), "--cpus", "2", "--front", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = document["fronts"][0]["points"].as_array().unwrap();
    assert_eq!(points.iter().filter(|p| p["mark"] == "chosen").count(), 1);
    for point in points {
        let (proven, exact) = (point["proven"].as_f64().unwrap(), point["exact"].as_f64());
        assert!(exact.is_none_or(|exact| proven <= exact + 1e-12), "{point}");
        assert!(point["without_costs"].as_f64() < point["bandwidth"].as_f64(), "{point}");
    }
}

#[test]
fn a_plan_is_verified_again_and_an_altered_one_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let plan = planned(directory.path(), PLAYER);
    let output = surety(&["plan", "--check", &plan]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output), errors(&output));
    assert!(text(&output).contains("simulation") && text(&output).contains("verified again"));
    let original = std::fs::read_to_string(&plan).unwrap();
    let change = |what: &dyn Fn(&mut serde_json::Value)| {
        let mut document: serde_json::Value = serde_json::from_str(&original).unwrap();
        what(&mut document);
        std::fs::write(&plan, document.to_string()).unwrap();
        let output = surety(&["plan", "--check", &plan]);
        (output.status.code(), text(&output) + &errors(&output))
    };
    let claim = "/claims/0/about/response";
    for (code, word, path, value) in [
        (2, "sum to 0.9", "/work", serde_json::json!({ "masses": [[5_000_000, 0.5], [9_000_000, 0.4]] })),
        (2, "the budget left for work is 0s", "/worth", 0.into()),
        (2, "larger runtime", "/work", serde_json::json!({ "constant": 39_000_000 })),
        (2, "the fraction of its proof", "/proven", 0.999_999.into()),
        (2, "its numbers (99 % within 30ms) differ", "/limit", 30_000_000.into()),
        (2, "the distance of releases is 9000000000s", "/gap", 9_000_000_000_000_000_000_i64.into()),
    ] {
        let (found, words) = change(&|document| {
            *document.pointer_mut(&format!("{claim}{path}")).unwrap() = value.clone();
        });
        assert_eq!(found, Some(code), "{words}");
        assert!(words.contains(word), "{word}: {words}");
    }
    let (code, words) = change(&|document| {
        *document.pointer_mut("/reservations/0/reservation/runtime").unwrap() = 12_000_000.into();
    });
    assert!(code == Some(2) && words.contains("altered") && words.contains("12ms"), "{words}");
    // The same in both places is another plan, and what it claims is not so.
    let (code, words) = change(&|document| {
        *document.pointer_mut(&format!("{claim}/proven")).unwrap() = 0.999_999.into();
        *document.pointer_mut("/reservations/0/proof/probability").unwrap() = 0.999_999.into();
    });
    assert!(code == Some(1) && words.contains("disagrees"), "{words}");
    let (code, words) = change(&|document| *document.pointer_mut("/claims").unwrap() = serde_json::json!([]));
    assert!(code == Some(2) && words.contains("claims nothing about `player`"), "{words}");
}

/// Hundreds of tasks on a few CPUs take a while; the first signal is enough, whichever it is.
#[test]
fn the_first_signal_ends_a_plan() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("many.toml");
    let task = |n: u32| {
        let (period, work) = (40 + 10 * (n % 17), 1_000 + 37 * (n % 61));
        let limit = period * 1_000 * (6 + n % 4) / 10;
        format!(
            "[[task]]\nname = \"t{n}\"\nperiod = \"{period}ms\"\nwork = \"{work}us\"\npromise = \"response <= {limit}us\"\n"
        )
    };
    let tasks: String = (0..600).map(task).collect();
    std::fs::write(&file, format!("format = 1\n{tasks}")).unwrap();
    for signal in ["TERM", "INT"] {
        let mut child = std::process::Command::new(program())
            .args(["plan", file.to_str().unwrap(), "--cpus", "16", "--tests"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // It plans in a thread of this name, begun after the signals were asked for.
        let tasks = format!("/proc/{}/task", child.id());
        let is_planning = || {
            std::fs::read_dir(&tasks).is_ok_and(|all| {
                let comm = |task: std::fs::DirEntry| {
                    std::fs::read_to_string(task.path().join("comm")).unwrap_or_default()
                };
                all.flatten().any(|task| comm(task).trim() == "plan")
            })
        };
        while !is_planning() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was looked at");
            std::thread::yield_now();
        }
        let sent =
            std::process::Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}
