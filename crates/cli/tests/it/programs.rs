//! Programs of several threads: the one that does the work is found, gets the reservation, and the share of all of the
//! program is counted, with children that have ended.

use std::time::{Duration, Instant};

use serde_json::Value;
use surety_kernel::{Kernel, RealKernel, clock};
use surety_units::Nanos;

use crate::common::{alone, errors, is_root, surety, text};

/// The thread of [`program_of_several_threads`] that works.
const WORKER: &str = "works-a-lot";

/// Not a test: the program that tests here run, as this same file started with its name. One thread works 12 ms of CPU
/// time every 50 ms, one looks in now and then, the first waits.
#[test]
#[ignore = "run as a program by other tests"]
fn program_of_several_threads() {
    let end = Instant::now() + Duration::from_secs(60);
    let looks = std::thread::Builder::new().name("looks-in".to_owned()).spawn(move || {
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let works = std::thread::Builder::new().name(WORKER.to_owned()).spawn(move || {
        let mut next = clock::monotonic();
        while Instant::now() < end {
            clock::spin_cpu_time(Nanos::from_millis(12));
            next = (next + Nanos::from_millis(50)).max(clock::monotonic());
            let _ = clock::sleep_until(next, None);
        }
    });
    for thread in [looks, works].into_iter().flatten() {
        let _ = thread.join();
    }
}

/// Not a test: a program whose work two threads do, each in its own rhythm; or, with two names, one hands it to the other.
fn two_threads_work(first: &'static str, second: &'static str, hands: bool) {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let end = Instant::now() + Duration::from_secs(60);
    let periodic = move |period: i64, work: i64, sender: Option<std::sync::mpsc::Sender<()>>| {
        let mut next = clock::monotonic();
        while Instant::now() < end {
            clock::spin_cpu_time(Nanos::from_millis(work));
            if let Some(sender) = &sender {
                let _ = sender.send(());
            }
            next = (next + Nanos::from_millis(period)).max(clock::monotonic());
            let _ = clock::sleep_until(next, None);
        }
    };
    let one = std::thread::Builder::new()
        .name(first.to_owned())
        .spawn(move || periodic(20, 3, hands.then_some(sender)));
    let two = std::thread::Builder::new().name(second.to_owned()).spawn(move || match hands {
        false => periodic(40, 4, None),
        true => receiver.iter().for_each(|()| {
            clock::spin_cpu_time(Nanos::from_millis(2));
        }),
    });
    for thread in [one, two].into_iter().flatten() {
        let _ = thread.join();
    }
}

/// Not a test: as [`two_threads_work`].
#[test]
#[ignore = "run as a program by other tests"]
fn program_of_two_workers() {
    two_threads_work("video", "audio", false);
}

/// Not a test: as [`two_threads_work`].
#[test]
#[ignore = "run as a program by other tests"]
fn program_that_hands_work_on() {
    two_threads_work("makes", "takes", true);
}

/// Starts a program of these for as long as this lives.
struct Running(std::process::Child);

impl Running {
    fn new(program: &str) -> Running {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("programs::{program}"), "--ignored", "--nocapture"]);
        let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        // Its threads are there before anybody looks for them.
        let task = std::path::PathBuf::from(format!("/proc/{}/task", child.id()));
        while std::fs::read_dir(&task).map_or(0, Iterator::count) < 4 {
            std::thread::sleep(Duration::from_millis(5));
        }
        Running(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Some kernels leave switches of a thread out of the trace for a while (6.18, from and to idle). Nothing is planned then.
fn is_refused_for_its_trace(document: &Value) -> bool {
    let because = document["plan"]["refusals"][0]["because"].as_str();
    let is_refused = because.is_some_and(|because| because.contains("left events of its threads out"));
    if is_refused {
        assert_eq!(document["plan"]["reservations"], serde_json::json!([]));
        eprintln!("the trace left out a thread: measured again");
    }
    is_refused
}

/// One thread was reserved once, and the promise given for all of the program.
#[test]
fn every_thread_that_does_the_work_of_a_process_is_reserved() {
    if !may_reserve_and_trace() {
        return;
    }
    let _alone = alone();
    let measured = || {
        let program = Running::new("program_of_two_workers");
        let pid = program.pid();
        let output = surety(&["guarantee", "--pid", &pid, "--share", "40%", "--for", "1s", "--json"]);
        (program, parse(&output), output)
    };
    let (mut program, mut document, mut output) = measured();
    for _ in 0..3 {
        if !is_refused_for_its_trace(&document) {
            break;
        }
        (program, document, output) = measured();
    }
    if is_refused_for_its_trace(&document) {
        return eprintln!("SKIPPED: this kernel leaves events of a thread out of every trace");
    }
    let pid = program.pid();
    let planned = document["plan"]["reservations"].as_array().unwrap();
    let names: Vec<&str> = planned.iter().map(|r| r["activity"].as_str().unwrap()).collect();
    let name = |thread: &str| format!("process-{pid}-{thread}");
    assert_eq!(names.len(), 2, "{names:?}\n{}", errors(&output));
    assert!(names.contains(&name("video").as_str()) && names.contains(&name("audio").as_str()), "{names:?}");
    let ratio = |r: &Value| r["runtime_ns"].as_f64().unwrap() / r["period_ns"].as_f64().unwrap();
    let all: f64 = planned.iter().map(ratio).sum();
    assert!((0.40..0.45).contains(&all), "the threads' shares are that of the program: {all}");
    let reserved = host(&document, true);
    let under = reserved_threads(reserved);
    assert_eq!(under.len(), 2, "{under:?}");
    assert!(under.iter().all(|thread| thread["as_requested"] == true), "{under:?}");
    // The whole is judged beside its threads.
    let activities = reserved["activities"].as_array().unwrap();
    let whole = activities.iter().find(|a| a["name"] == format!("process-{pid}").as_str()).unwrap();
    assert_eq!(whole["promises"].as_array().unwrap().len(), 1, "{whole:#}");
    assert!(
        activities.iter().filter(|a| a["activations"].as_u64() > Some(0)).count() == 2,
        "{activities:#?}"
    );
    // And everything is as before.
    for thread in under {
        let policy = RealKernel::new().scheduler(surety_units::Tid(thread["tid"].as_i64().unwrap() as i32));
        assert!(!policy.unwrap().policy.is_deadline());
    }
}

/// What is proven of each thread's own wake-ups says nothing of the way through several.
#[test]
fn no_response_is_promised_of_threads_that_hand_work_to_each_other() {
    if !may_reserve_and_trace() {
        return;
    }
    let _alone = alone();
    let measured = || {
        let program = Running::new("program_that_hands_work_on");
        let pid = program.pid();
        let arguments =
            ["guarantee", "--pid", &pid, "--response", "20ms", "--at", "90%", "--for", "600ms", "--json"];
        let output = surety(&arguments);
        assert_ne!(output.status.code(), Some(0), "it is never kept");
        (pid, parse(&output), output)
    };
    let (mut pid, mut document, mut output) = measured();
    for _ in 0..3 {
        // A thread that was left out has done nothing, as far as is seen.
        let planned = document["plan"]["reservations"].as_array().unwrap();
        if planned.iter().all(|r| r["activity"] != format!("process-{pid}-makes").as_str())
            && !is_refused_for_its_trace(&document)
        {
            break;
        }
        eprintln!("the trace left out the thread that takes: measured again");
        (pid, document, output) = measured();
    }
    if is_refused_for_its_trace(&document) {
        return eprintln!("SKIPPED: this kernel leaves events of a thread out of every trace");
    }
    assert_eq!(document["plan"]["reservations"], serde_json::json!([]), "{}", errors(&output));
    let refusal = &document["plan"]["refusals"][0];
    assert_eq!(refusal["activity"], format!("process-{pid}").as_str(), "{refusal:#}");
    let because = refusal["because"].as_str().unwrap();
    assert!(because.contains("takes: ") && because.contains("most of them from thread `makes`"), "{because}");
    let nearest = refusal["nearest"][0].as_str().unwrap();
    assert!(nearest.contains(&format!("surety guarantee --pid {pid} --share ")), "{nearest}");
}

/// Not a test: a program with a frame of 6 ms every 20 ms that waits for the next one with sleeps of 1 ms.
#[test]
#[ignore = "run as a program by other tests"]
fn program_that_polls() {
    let end = Instant::now() + Duration::from_secs(60);
    let mut next = clock::monotonic();
    while Instant::now() < end {
        while clock::monotonic() < next {
            std::thread::sleep(Duration::from_millis(1));
        }
        next += Nanos::from_millis(20);
        clock::spin_cpu_time(Nanos::from_millis(6));
    }
}

/// Every poll was an activation once, and most of what was reserved for was nothing.
#[test]
fn polls_are_no_activations_of_a_program() {
    if !may_reserve_and_trace() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    let own = std::env::current_exe().unwrap();
    let task = format!(
        "format = 1\n[[task]]\nname = \"loop\"\nperiod = \"20ms\"\npromise = [\"response <= 20ms @ 95%\"]\n\
         command = \"{} --exact programs::program_that_polls --ignored --nocapture\"\n\
         worker = {{ comm = \"programs::progr\" }}\n",
        own.display()
    );
    std::fs::write(&file, task).unwrap();
    let output = surety(&["run", file.to_str().unwrap(), "--for", "2s", "--json"]);
    let document = parse(&output);
    let result = host(&document, false);
    let activity = &result["activities"][0];
    let count = activity["activations"].as_u64().unwrap();
    assert!((99..=100).contains(&count), "100 points of 20 ms lie in 2 s: {activity:#}");
    let rule = result["in_force"]["environment"]["jobs of loop"].as_str().unwrap();
    assert!(rule.contains("10 % of the median work") && rule.contains("are no jobs"), "{rule}");
    if is_disturbed(result) {
        return;
    }
    // The work of a job is that of a frame with its polls.
    let work = activity["execution_ns"]["mean"].as_f64().unwrap();
    assert!((6e6..8e6).contains(&work), "{work}");
}

fn may_reserve_and_trace() -> bool {
    let may = is_root() && RealKernel::new().tracefs_root().is_ok();
    if !may {
        eprintln!("SKIPPED: only root may set SCHED_DEADLINE and read the tracer");
    }
    may
}

fn parse(output: &std::process::Output) -> Value {
    serde_json::from_str(&text(output))
        .unwrap_or_else(|e| panic!("{e}: {}\n{}", text(output), errors(output)))
}

fn host(document: &Value, reserved: bool) -> &Value {
    let results = document["results"].as_array().expect("results is a list");
    let found = results.iter().find(|r| r["world"] == "host" && r["reserved"] == reserved);
    found.unwrap_or_else(|| panic!("no host result, reserved {reserved}: {document:#}"))
}

fn is_disturbed(result: &Value) -> bool {
    let reasons = result["degraded"].as_array().is_some_and(|reasons| !reasons.is_empty());
    if reasons {
        eprintln!("SKIPPED: figures were not judged, the run was disturbed: {}", result["degraded"]);
    }
    reasons
}

fn reserved_threads(result: &Value) -> Vec<&Value> {
    let threads = result["in_force"]["threads"].as_array().expect("threads is a list");
    threads.iter().filter(|t| t["policy"].as_str().is_some_and(|p| p.starts_with("deadline "))).collect()
}

#[test]
fn the_thread_that_works_is_found_and_reserved_and_the_others_stay_fair() {
    if !may_reserve_and_trace() {
        return;
    }
    let _alone = alone();
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let arguments = [
        "guarantee",
        "--share",
        "40%",
        "--load",
        "6s",
        "--for",
        "3s",
        "--json",
        "--",
        own,
        "--exact",
        "programs::program_of_several_threads",
        "--ignored",
        "--nocapture",
    ];
    let output = surety(&arguments);
    let document = parse(&output);
    let reserved = host(&document, true);
    let activity = &reserved["activities"][0];
    let threads = activity["threads"].as_array().unwrap();
    let worker = threads.iter().find(|t| t["comm"] == WORKER).unwrap_or_else(|| panic!("{threads:?}"));
    for thread in threads {
        assert!(thread["run_ns"].as_i64() <= worker["run_ns"].as_i64(), "{threads:?}");
    }
    let under = reserved_threads(reserved);
    assert_eq!(under.len(), 1, "{under:?}");
    assert_eq!(under[0]["tid"], worker["tid"]);
    assert_eq!(under[0]["as_requested"], true, "{under:?}");
    let planned = &document["plan"]["reservations"][0];
    let ratio = planned["runtime_ns"].as_f64().unwrap() / planned["period_ns"].as_f64().unwrap();
    assert!((0.40..0.45).contains(&ratio), "{ratio}");
    if is_disturbed(reserved) {
        return;
    }
    // 12 ms every 50 ms are 24 %: less than the 40 % it may have, so it was not kept waiting.
    assert_eq!(planned["period_ns"], 50_000_000, "{}", errors(&output));
    assert_eq!(document["verdict"]["outcome"], "kept", "{activity:#}");
    let share = activity["share"]["fraction"].as_f64().unwrap();
    assert!((0.15..0.40).contains(&share), "{share}");
}

#[test]
fn the_time_of_children_that_have_ended_is_in_the_share() {
    if !may_reserve_and_trace() {
        return;
    }
    let _alone = alone();
    // Every child counts for a while and ends; the shell that waits for them does next to nothing.
    let child = "n=0; while [ $n -lt 8000 ]; do n=$((n+1)); done";
    let script = format!("while :; do sh -c '{child}'; done");
    let arguments =
        ["guarantee", "--share", "30%", "--load", "1s", "--for", "3s", "--json", "--", "sh", "-c", &script];
    let output = surety(&arguments);
    let document = parse(&output);
    let unreserved = host(&document, false);
    let activity = &unreserved["activities"][0];
    let threads = activity["threads"].as_array().unwrap();
    assert!(threads.len() > 3, "children come and go: {threads:?}");
    // What the trace shows on CPUs, the kernel has charged: ended children too, but for what a hypervisor took.
    let traced: f64 = threads.iter().map(|t| t["run_ns"].as_f64().unwrap()).sum();
    let charged =
        activity["share"]["fraction"].as_f64().unwrap() * activity["share"]["span_ns"].as_f64().unwrap();
    assert!(charged > 0.0);
    let children: f64 = threads.iter().skip(1).map(|t| t["run_ns"].as_f64().unwrap()).sum();
    assert!(children > 0.5 * traced, "{threads:?}");
    if !is_disturbed(unreserved) {
        assert!((charged / traced - 1.0).abs() < 0.1, "{charged} charged, {traced} traced");
    }
    // A reservation is not inherited: it was put on one child after another, and the record says so.
    let degraded = host(&document, true)["degraded"].to_string();
    assert!(degraded.contains("in turn"), "{degraded}");
}

#[test]
fn a_missing_program_is_refused_with_the_package_that_brings_it_and_nothing_is_left() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    let write =
        |task: &str| std::fs::write(&file, format!("format = 1\n[[task]]\nname = \"t\"\n{task}\n")).unwrap();
    let run = || {
        std::process::Command::new(crate::common::program())
            .args(["run", file.to_str().unwrap(), "--for", "200ms"])
            .env("TMPDIR", directory.path())
            .output()
            .unwrap()
    };
    for (task, words) in [
        (
            "command = \"no-such-ffmpeg -i x\"\npackage = \"tools-extra\"",
            ["no-such-ffmpeg", "apt-get install tools-extra"],
        ),
        ("command = \"sleep 9\"\nprepare = \"no-such-maker\"\npackage = \"makers\"", ["`prepare`", "makers"]),
        ("command = \"sleep 9\"\nprepare = \"sh -c 'echo no disk >&2; exit 7'\"", ["no disk", "7"]),
    ] {
        write(task);
        let output = run();
        assert!(matches!(output.status.code(), Some(1..=3)), "{:?}", output.status);
        for word in words {
            assert!(errors(&output).contains(word), "{word}: {}", errors(&output));
        }
    }
    // What was prepared is where the command runs, and is gone afterwards.
    write(
        "command = \"sh -c 'test -s made && exec sleep 9; echo nothing made >&2; exit 5'\"\nprepare = \"sh -c 'echo 1 > made'\"",
    );
    let output = run();
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["w.toml"]);
}

/// Killed while a program is prepared, and again while it runs: the next start removes the directory with all in it
/// and says so.
#[test]
fn a_prepared_directory_of_a_killed_run_is_removed_at_the_next_start() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let (scratch, file) = (place.path().join("tmp"), place.path().join("w.toml"));
    std::fs::create_dir(&scratch).unwrap();
    let start = |arguments: &[&str]| {
        std::process::Command::new(crate::common::program())
            .args(arguments)
            .env("TMPDIR", &scratch)
            .env("SURETY_RUNTIME_DIR", place.path().join("run"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let made = || {
        let directories = std::fs::read_dir(&scratch).unwrap().flatten().map(|entry| entry.path());
        directories.filter(|path| path.join("deep/made").exists()).collect::<Vec<_>>()
    };
    let making = "mkdir deep && echo 1 > deep/made";
    for prepare in [format!("{making} && sleep 300"), making.to_owned()] {
        let task = format!(
            "format = 1\n[[task]]\nname = \"t\"\ncommand = \"sleep 300\"\nprepare = \"sh -c '{prepare}'\"\n"
        );
        std::fs::write(&file, task).unwrap();
        let mut child = start(&["run", file.to_str().unwrap(), "--for", "60s", "--no-trace"]);
        let begun = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(25));
            !made().is_empty()
        });
        assert!(begun, "{prepare}: nothing was prepared");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(made().len(), 1, "{prepare}: a killed run cannot clean up");
        let next = start(&["doctor"]).wait_with_output().unwrap();
        assert!(errors(&next).contains("took back what it left: directory"), "{}", errors(&next));
        let left: Vec<_> = std::fs::read_dir(&scratch).unwrap().flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "{prepare}: {left:?}");
    }
}

#[test]
fn ffmpeg_is_found_out_and_guaranteed() {
    if !may_reserve_and_trace() {
        return;
    }
    let is_there =
        std::process::Command::new("ffmpeg").arg("-version").output().is_ok_and(|o| o.status.success());
    if !is_there {
        eprintln!("SKIPPED: ffmpeg is not installed: apt-get install ffmpeg");
        return;
    }
    let _alone = alone();
    let output = surety(&["guarantee", "examples/encoder.toml", "--for", "3s", "--json"]);
    let document = parse(&output);
    if is_refused_for_its_trace(&document) {
        return eprintln!("SKIPPED: this kernel leaves events of a thread out of every trace");
    }
    let (before, after) = (host(&document, false), host(&document, true));
    let threads = after["activities"][0]["threads"].as_array().unwrap();
    let busiest = threads.iter().max_by_key(|t| t["run_ns"].as_i64()).unwrap();
    let under = reserved_threads(after);
    assert!(under.iter().any(|thread| thread["tid"] == busiest["tid"]), "{threads:?}");
    let share = |result: &Value| result["activities"][0]["share"]["fraction"].as_f64().unwrap();
    if is_disturbed(before) || is_disturbed(after) {
        return;
    }
    assert!(share(after) > share(before), "{} reserved, {} as it is", share(after), share(before));
    assert_eq!(document["verdict"]["outcome"], "kept", "{:#}", after["activities"][0]);
}
