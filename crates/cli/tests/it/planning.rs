//! `surety plan` as a user meets it: fronts, interrupts beside tasks, alternatives, plans verified again.

use surety_kernel::{Kernel, RealKernel, SchedPolicy};
use surety_units::Nanos;

use crate::common::{alone, errors, is_root, program, surety, text};

/// Writes a workload and plans it; the plan's file.
fn planned(directory: &std::path::Path, workload: &str) -> String {
    let (file, plan) = (directory.join("w.toml"), directory.join("w.plan"));
    std::fs::write(&file, workload).unwrap();
    let output =
        surety(&["plan", file.to_str().unwrap(), "--cpu-count", "2", "--output", plan.to_str().unwrap()]);
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
    let output = surety(&["plan", file.to_str().unwrap(), "--cpu-count", "2", "--front", "--try", "27ms"]);
    let shown = text(&output);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    for word in ["chosen", "front", "27 ms", "39 ms", "exact", "left for everything else", "fair server"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let output = surety(&["plan", file.to_str().unwrap(), "--cpu-count", "2", "--front", "--json"]);
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
        (2, "beyond the longest time a document holds", "/gap", 9_000_000_000_000_000_000_i64.into()),
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
    for (place, word) in [
        ("/reservations/0/proof/theorem", "digest"),
        ("/reservations/0/proof/steps/0", "digest"),
        ("/reservations/0/proof/conclusion", "digest"),
        ("/left/best_effort", "what is left ("),
    ] {
        let (code, words) = change(&|document| {
            let found = document.pointer_mut(place).unwrap();
            *found = found.as_f64().map_or("it is so".into(), |value| (value + 0.1).into());
        });
        assert!(code == Some(2) && words.contains(word) && words.contains("altered"), "{place}: {words}");
    }
    let (code, words) = change(&|document| *document.pointer_mut("/claims").unwrap() = serde_json::json!([]));
    assert!(code == Some(2) && words.contains("claims nothing about `player`"), "{words}");
}

const RESERVED: &str = "format = 1\n[[task]]\nname = \"a\"\nperiod = \"10ms\"\nwork = \"8ms\"\n\
    reservation = { runtime = \"8ms\", period = \"10ms\" }\n\
    [[task]]\nname = \"b\"\nperiod = \"10ms\"\nwork = \"WORK\"\npromise = \"response <= 10ms\"\n";

#[test]
fn what_the_workload_reserves_without_a_promise_is_counted_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    let plan = |work: &str, cpus: &str| {
        std::fs::write(&file, RESERVED.replace("WORK", work)).unwrap();
        surety(&["plan", file.to_str().unwrap(), "--cpu-count", cpus])
    };
    let refused = plan("4ms", "1");
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("beside a") && text(&refused).contains("80.00 % admitted"));
    let shown = text(&plan("4ms", "2"));
    assert!(shown.contains("reserved by others and counted: a 8 ms in 10 ms (80.0 %)"), "{shown}");
    assert!(shown.contains("left for everything else: 78.9 % of 2 CPUs"), "{shown}");
}

/// A thread of another process (here of the test's) holds a little while a plan is made for this machine.
#[test]
fn what_other_processes_of_the_machine_have_reserved_is_counted() {
    if !is_root() {
        return eprintln!("SKIPPED: only root may reserve");
    }
    // Others reserve all there is for a moment.
    let _alone = alone();
    let kernel = RealKernel::new();
    let held = kernel.sleeping_thread().unwrap();
    let (runtime, period) = (Nanos::from_micros(1_234), Nanos::from_millis(400));
    surety_kernel::transition::set_once(
        &kernel,
        held.tid,
        &SchedPolicy::deadline(runtime, period, period).into(),
    )
    .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    std::fs::write(&file, RESERVED.replace("WORK", "100us").replace("8ms", "1ms")).unwrap();
    let plan = directory.path().join("w.plan");
    let output = surety(&["plan", file.to_str().unwrap(), "--output", plan.to_str().unwrap()]);
    surety_kernel::transition::set_once(&kernel, held.tid, &SchedPolicy::DEFAULT.into()).unwrap();
    let shown = text(&output) + &std::fs::read_to_string(plan).unwrap();
    assert!(shown.contains(&format!("(thread {})", held.tid.0)), "{shown}");
    assert!(shown.contains("1234000"), "{shown}");
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
            .args(["plan", file.to_str().unwrap(), "--cpu-count", "16", "--tests"])
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

/// Whatever is asked for, there is an answer after the search's limit of CPU time; what it plans stands, and it says what it left out.
#[test]
fn a_search_ends_in_time_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let (file, plan) = (directory.path().join("w.toml"), directory.path().join("w.plan"));
    let tasks = |count: u32, work: &str| -> String {
        let task = |n: u32| {
            format!(
                "[[task]]\nname = \"t{n}\"\nperiod = \"40ms\"\nwork = {work}\npromise = \"response <= 40ms @ 99%\"\n"
            )
        };
        (0..count).map(task).collect()
    };
    let lognormal =
        |mean: &str, p99: &str| format!("{{ kind = \"lognormal\", mean = \"{mean}\", p99 = \"{p99}\" }}");
    let rare = "{ kind = \"empirical\", values = [\"1ms\", \"3h\"], counts = [999999999, 1] }";
    for (workload, planned) in [
        (tasks(200, &lognormal("1ms", "2ms")), 10),
        (tasks(8, &lognormal("14ms", "22ms")), 2),
        (tasks(1, rare), 0),
    ] {
        std::fs::write(&file, format!("format = 1\n{workload}")).unwrap();
        // The shell's limit of CPU time kills it where its own does not end it.
        let output = std::process::Command::new("sh")
            .args(["-c", "ulimit -t 30; exec \"$@\"", "sh", program().to_str().unwrap(), "plan"])
            .args([file.to_str().unwrap(), "--cpu-count", "2", "--search", "300ms", "--json"])
            .args(["--output", plan.to_str().unwrap()])
            .output()
            .unwrap();
        let said = errors(&output);
        assert!(matches!(output.status.code(), Some(1 | 2 | 4)), "{:?}: {said}", output.status);
        assert!(said.contains("the search was cut short after 150.0 ms of CPU time"), "{said}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let count = |what: &str| document["plan"][what].as_array().unwrap().len();
        assert!(count("reservations") >= planned && count("refusals") > 0, "{document}");
        let because = |refusal: &serde_json::Value| {
            refusal["because"].as_str().unwrap().contains("was ended by its time limit")
        };
        assert!(document["plan"]["refusals"].as_array().unwrap().iter().any(because), "{document}");
        let checked = surety(&["plan", "--check", plan.to_str().unwrap()]);
        assert_eq!(checked.status.code(), Some(0), "{}{}", text(&checked), errors(&checked));
    }
}

/// A thread of 2 ms every 10 ms, and what was left of one busy period in sixty.
fn traced() -> String {
    let mut lines = String::new();
    let mut switch = |ms: i64, from: (&str, i64), to: (&str, i64), state: &str| {
        let (at, cpu) = (format!("{}.{:06}", ms / 1000, ms % 1000 * 1000), "[000] d..2");
        lines += &format!(
            "{:>16}-{} {cpu} {at}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> \
             next_comm={} next_pid={} next_prio=120\n",
            from.0, from.1, from.0, from.1, to.0, to.1
        );
    };
    let mut wakes = Vec::new();
    for k in 0..120 {
        let at = 1_000 + 10 * k;
        wakes.push(at);
        switch(at, ("swapper/0", 0), ("foo", 100), "R");
        switch(at + 2, ("foo", 100), ("swapper/0", 0), "S");
    }
    let woken = |at: &i64| {
        let at = format!("{}.{:06}", at / 1000, at % 1000 * 1000);
        format!(
            "          <idle>-0 [000] d..2 {at}: sched_wakeup: comm=foo pid=100 prio=120 target_cpu=000\n"
        )
    };
    let pairs: Vec<&str> = lines.split_inclusive('\n').collect();
    wakes.iter().zip(pairs.chunks(2)).map(|(at, pair)| woken(at) + &pair.concat()).collect()
}

/// The largest of 120 jobs stood in the file as if somebody had declared it, and was the proof of every activation.
#[test]
fn what_was_fitted_to_a_trace_proves_no_every_activation() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, fitted) = (directory.path().join("trace.txt"), directory.path().join("fitted.toml"));
    std::fs::write(&trace, traced()).unwrap();
    let (trace, path) = (trace.to_str().unwrap(), fitted.to_str().unwrap());
    for kept in [&[][..], &["--in-order"]] {
        let output = surety(&[&["trace", "fit", trace, "--output", path], kept].concat());
        assert_eq!(output.status.code(), Some(0), "{}{}", text(&output), errors(&output));
        let written = std::fs::read_to_string(&fitted).unwrap();
        let of = |promise: &str| {
            std::fs::write(&fitted, format!("{written}promise = [\"{promise}\"]\n")).unwrap();
            let output = surety(&["plan", path, "--cpu-count", "2"]);
            (output.status.code(), text(&output) + &errors(&output))
        };
        let (code, said) = of("response <= 10ms");
        assert_eq!(code, Some(1), "{said}{written}");
        assert!(said.contains("bounds no other"), "{said}");
        let (code, said) = of("response <= 10ms @ 95%");
        assert_eq!(code, Some(0), "{said}{written}");
        // So few jobs bound no larger fraction.
        let (code, said) = of("response <= 10ms @ 99.9%");
        assert_eq!(code, Some(4), "{said}{written}");
        // Nor is it bounded work below which others of a fixed priority are safe.
        std::fs::write(&fitted, format!("{written}policy = \"fifo:80\"\n")).unwrap();
        let said = text(&surety(&["plan", path, "--cpu-count", "2", "--tests"]));
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("`foo` has no largest value that is declared"), "{said}");
    }
}

#[test]
fn a_jitter_beyond_the_period_is_told_as_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    std::fs::write(&file, PLAYER.replace("late =", "jitter = \"1000h\"\nlate =")).unwrap();
    let output = surety(&["plan", file.to_str().unwrap(), "--cpu-count", "2"]);
    let said = text(&output) + &errors(&output);
    assert!(said.contains("declare a jitter below the period") && !said.contains("-3600"), "{said}");
}
