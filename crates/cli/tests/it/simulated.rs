//! Traces of simulated runs: what the program writes holds exactly the events the simulator had, for us and for
//! trace-cmd.

use std::process::Command;

use surety_host::recorder::PageFile;
use surety_kernel::RealKernel;
use surety_kernel::facts::MachineFacts;
use surety_model::platform::Platform;
use surety_model::platform::changes::{KEYS, KeyRow};
use surety_model::world::{EventsTo, RunOptions, World};
use surety_sim::SimWorld;
use surety_trace::{JobBuilder, Jobs};
use surety_units::Nanos;

use crate::common::{errors, root, surety, text};

fn simulated(file: &str) -> Jobs {
    let source = std::fs::read_to_string(root().join(file)).unwrap();
    let workload = surety_model::formats::toml::read(file, &source).unwrap();
    let cpus = MachineFacts::read(&RealKernel::new()).cpus.online.map_or(1, |cpus| cpus.len() as u32);
    let options = RunOptions { duration: Nanos::SECOND, ..RunOptions::default() };
    let mut jobs = JobBuilder::new();
    let world = SimWorld::new(Platform::linux_6_18(cpus));
    world.run(&workload, &options, &mut EventsTo(&mut jobs)).unwrap();
    jobs.finish()
}

#[test]
fn a_written_run_has_the_jobs_of_the_run_itself() {
    let directory = tempfile::tempdir().unwrap();
    for example in ["examples/video-player.toml", "examples/deadline-spinner.toml"] {
        let expected = simulated(example);
        assert!(!expected.threads.is_empty());
        for (name, options) in [
            ("six.dat", &["--file-version", "6"][..]),
            ("none.dat", &["--compression", "none"]),
            ("zlib.dat", &["--compression", "zlib"]),
            ("zstd.dat", &[]),
        ] {
            let path = directory.path().join(name);
            let file = path.to_str().unwrap();
            let mut arguments =
                vec!["run", example, "--on", "sim:linux-6.18", "--for", "1s", "--trace", file];
            arguments.extend(options);
            let output = surety(&arguments);
            assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", errors(&output));
            let opened = std::fs::File::open(&path).and_then(PageFile::new).unwrap();
            let mut jobs = JobBuilder::new();
            let summary = surety_trace::open(opened).unwrap().read(&mut jobs).unwrap();
            assert!(summary.is_complete());
            assert_eq!(jobs.finish(), expected, "{example} as {name}");
            listed_by_trace_cmd(file, name, summary.delivered);
        }
    }
}

fn listed_by_trace_cmd(file: &str, name: &str, events: u64) {
    let run = |arguments: &[&str]| Command::new("trace-cmd").args(arguments).output().ok();
    let Some(known) = run(&["list", "-c"]) else {
        eprintln!("SKIPPED: trace-cmd cannot be started; install the package trace-cmd");
        return;
    };
    if name == "zlib.dat" && !text(&known).contains("zlib") {
        eprintln!("SKIPPED: this trace-cmd was built without zlib");
        return;
    }
    let Some(report) = run(&["report", "-R", "-t", file]) else { return };
    let lines = text(&report).lines().filter(|line| line.contains("] ")).count() as u64;
    assert_eq!(lines, events, "{name}: {}", errors(&report));
}

#[test]
fn traces_are_written_as_their_endings_say_and_refused_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let run = |world: &[&str], file: &str, options: &[&str]| {
        let mut arguments =
            vec!["run", "examples/video-player.toml", "--for", "200ms", "--trace", file, "--on"];
        arguments.extend(world);
        arguments.extend(options);
        surety(&arguments)
    };
    for name in ["a.jsonl", "a.csv", "a.pftrace"] {
        let output = run(&["sim"], &path(name), &[]);
        assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", errors(&output));
        assert!(std::fs::metadata(path(name)).unwrap().len() > 1000, "{name}");
    }
    run(&["sim", "sim:linux-6.18"], &path("two.dat"), &[]);
    let stats = surety(&["trace", "stats", &path("two.sim-linux-6.18.dat")]);
    assert!(text(&stats).contains("player"), "{}", errors(&stats));
    assert!(std::fs::exists(path("two.sim.dat")).unwrap());
    for (world, name, options, words) in [
        ("analysis", "b.dat", &[][..], "no world of this run has a scheduler"),
        ("sim", "b.xml", &[], "its ending names no format that is written"),
        ("sim", "b.csv", &["--file-version", "7"], "of trace.dat files only"),
        ("sim", "b.dat", &["--file-version", "6", "--compression", "zstd"], "never compressed"),
    ] {
        let refused = run(&[world], &path(name), options);
        assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
        assert!(errors(&refused).contains(words), "{}", errors(&refused));
        assert!(!std::fs::exists(path(name)).unwrap());
    }
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 5, "no half file stays behind");
}

/// The lines of the table in `docs/simulator.md` for the keys of `--platform`.
fn documented_keys() -> String {
    let line = |row: &KeyRow| format!("| `{}` | `{}` | {} |\n", row.word, row.example, row.about);
    KEYS.iter().map(line).collect()
}

#[test]
fn a_platform_is_what_it_is_changed_to_and_running_kernels_are_not_changed() {
    let docs = std::fs::read_to_string(root().join("docs/simulator.md")).unwrap();
    assert!(docs.contains(&documented_keys()), "docs/simulator.md needs:\n{}", documented_keys());
    let file = "examples/video-player.toml";
    let run = |rest: &[&str]| surety(&[&["run", file, "--for", "1s"], rest].concat());
    let output = run(&["--on", "sim", "analysis", "--platform", "hz=1000,cpus=4", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    for result in document["results"].as_array().unwrap() {
        let machine = &result["in_force"]["machine"];
        assert_eq!((&machine["cpus"], &machine["tick"]), (&4.into(), &1_000_000.into()), "{machine}");
        assert!(machine["name"].as_str().unwrap().ends_with(" with cpus=4,hz=1000"), "{machine}");
    }
    for (on, changes, words) in [
        (["sim", "host"], "cpus=4", "host is a running kernel"),
        (["sim", "lab:6.12-cloud"], "hz=1000", "`hz` of a stock kernel is as it was built"),
        (["sim", "lab:6.12-cloud"], "nohz=late", "a guest has `nohz=on` or `nohz=off`"),
        (["sim", "analysis"], "cpus=0", "a number from 1 to 1024"),
        (["sim", "analysis"], "cpu=2", "known are cpus, smt, llc, nodes, hz"),
    ] {
        let refused = run(&["--on", on[0], on[1], "--platform", changes]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(errors(&refused).contains(words), "{}", errors(&refused));
    }
    let planned = surety(&["plan", file, "--platform", "cpus=8"]);
    assert!(text(&planned).contains(" of 8 CPUs"), "{}", text(&planned));
}
