//! The lab: the same nanoseconds every time, and a clear end of everything that goes wrong in it.
//!
//! A smoke set: a few boots of one kernel. It is skipped, loudly, where the emulator or that kernel cannot be had.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use surety_model::platform::{Overheads, Platform};

use crate::common::{beside_guests, errors, program, root, text};

/// The kernels that will do, and what is fetched where none of them is here: the smallest.
const KERNELS: [&str; 4] = ["6.12-cloud", "6.1-cloud", "6.12-rt", "6.12"];

/// A kernel that is here, fetched where that can be done soon. Each test that goes without says so.
pub fn kernel() -> Option<&'static str> {
    static FOUND: OnceLock<Result<&'static str, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
            return Err("the emulator is not installed (Debian package qemu-system-x86)".to_owned());
        }
        let is_here = |kernel: &&str| {
            let listed = surety_in(None, &["lab", "list", "--json"]);
            let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
            let kernels = listed["kernels"].as_array().unwrap();
            kernels.iter().any(|k| k["name"] == **kernel && !k["stored"].is_null())
        };
        KERNELS.into_iter().find(is_here).map_or_else(
            || {
                let fetched = surety_in(None, &["lab", "fetch", KERNELS[0], "--within", "3m"]);
                let why = || format!("no kernel for the lab could be fetched: {}", errors(&fetched).trim());
                fetched.status.success().then_some(KERNELS[0]).ok_or_else(why)
            },
            Ok,
        )
    });
    match found {
        Ok(kernel) => Some(kernel),
        Err(why) => {
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

/// Runs the program; its temporary files in a directory.
fn surety_in(directory: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(root());
    if let Some(directory) = directory {
        command.env("TMPDIR", directory).env("SURETY_RUNTIME_DIR", directory.join("run"));
    }
    command.output().unwrap()
}

/// A directory for temporary files, in which nothing is left at the end, and no emulator that was given files of it.
struct Watched(tempfile::TempDir);

impl Watched {
    fn new() -> Watched {
        Watched(tempfile::tempdir().unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = surety_in(Some(self.0.path()), arguments);
        self.check(&arguments.join(" "));
        output
    }

    fn check(&self, when: &str) {
        let entries = std::fs::read_dir(self.0.path()).unwrap().map(|e| e.unwrap().path());
        let left: Vec<PathBuf> = entries.filter(|p| p.file_name().unwrap() != "run").collect();
        assert!(left.is_empty(), "{when} left {left:?}");
        assert_eq!(self.emulators(), 0, "{when} left an emulator");
    }

    fn emulators(&self) -> usize {
        let mark = self.0.path().display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|p| std::fs::read(p.path().join("cmdline")).ok());
        lines.filter(|l| l.starts_with(b"qemu") && String::from_utf8_lossy(l).contains(&mark)).count()
    }
}

/// An emulator before the real one, which counts what it boots.
struct Boots(tempfile::TempDir);

impl Boots {
    fn counted() -> Boots {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (wrapper, list) = (directory.path().join("qemu-system-x86_64"), directory.path().join("boots"));
        let said = format!(
            "#!/bin/sh\nPATH=${{PATH#*:}}\ncase \"$*\" in *-kernel*) echo boot >> '{}';; esac\nexec qemu-system-x86_64 \"$@\"\n",
            list.display()
        );
        std::fs::write(&wrapper, said).unwrap();
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
        Boots(directory)
    }

    fn count(&self) -> usize {
        std::fs::read_to_string(self.0.path().join("boots")).map_or(0, |text| text.lines().count())
    }
}

fn surety_counted(boots: &Boots, arguments: &[&str]) -> Output {
    let path = format!("{}:{}", boots.0.path().display(), std::env::var("PATH").unwrap());
    Command::new(program()).args(arguments).current_dir(root()).env("PATH", path).output().unwrap()
}

/// Runs of `[vary]` and of `--repeat` are made in one guest, and what is simulated beside it is the guest's machine.
#[test]
fn repeated_runs_share_a_boot_and_models_are_of_the_guests_machine() {
    let _guest = beside_guests();
    let Some(kernel) = kernel() else { return };
    let files = tempfile::tempdir().unwrap();
    let workload = files.path().join("w.toml");
    let said = "format = 1\n[[task]]\nname = \"ticker\"\nperiod = \"10ms\"\nwork = \"1ms\"\n\
                [vary]\n\"task.ticker.work\" = [\"1ms\", \"2ms\"]\n";
    std::fs::write(&workload, said).unwrap();
    let (world, boots) = (format!("lab:{kernel}"), Boots::counted());
    let mut words = vec!["run", workload.to_str().unwrap(), "--on", "sim", "analysis", &world];
    words.extend(["--repeat", "2", "--for", "100ms", "--warm-up", "50ms", "--no-trace", "--json"]);
    let output = surety_counted(&boots, &words);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert_eq!(boots.count(), 1);
    let file = surety_model::formats::record::read(&text(&output)).unwrap();
    assert_eq!(file.results.len(), 12);
    let of = |world: &str| file.results.iter().filter(|r| r.record.world == world).collect::<Vec<_>>();
    let machine = of(&world)[0].record.in_force.machine.clone().unwrap();
    assert_eq!(machine.cpus, 1);
    assert!(
        machine.name.starts_with(&format!("linux-{}", kernel.split('-').next().unwrap())),
        "{}",
        machine.name
    );
    for name in [&world, "sim", "analysis"] {
        let results = of(name);
        assert_eq!(results.len(), 4, "{name}");
        // What the kernel's own work takes is measured before each run, and what memory is free.
        let of =
            |machine: &Platform| Platform { overheads: Overheads::NONE, memory: None, ..machine.clone() };
        let machines = results.iter().map(|r| r.record.in_force.machine.as_ref().map(of));
        assert!(machines.clone().all(|found| found == Some(of(&machine))), "{name}");
    }
}

#[test]
fn deterministic_runs_are_the_same_to_the_nanosecond() {
    let _guest = beside_guests();
    let Some(kernel) = kernel() else { return };
    let watched = Watched::new();
    let files = tempfile::tempdir().unwrap();
    let record = |name: &str, cpus: &str, seed: &str| {
        let file = files.path().join(name);
        let file = file.to_str().unwrap();
        let mut words = vec!["lab", "record", kernel, "-o", file, "--", "latency", "--jobs", "200"];
        words.extend(["--warm-up", "50ms", "--lab-cpus", cpus, "--seed", seed]);
        let output = watched.run(&words);
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        std::fs::read_to_string(file).unwrap()
    };
    let hash = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["hash"].clone();
    let first = record("a", "1", "1");
    let file = files.path().join("a");
    let file = file.to_str().unwrap();
    // Two CPUs: `a_run_on_two_cpus_brings_its_trace_and_repeats`.
    let checked = watched.run(&["lab", "check", file]);
    assert_eq!(checked.status.code(), Some(0), "{}", errors(&checked));
    assert!(text(&checked).contains("0 of 200 wake-ups changed"), "{}", text(&checked));
    // The comparison can fail: another seed puts the activations elsewhere between two ticks.
    let other = record("b", "1", "2");
    assert_ne!(hash(&first), hash(&other));

    // A change of one stored value is found and told.
    let mut golden = surety_lab::golden::Golden::read(&first).unwrap();
    golden.samples[0].latency_ns[17] += 5_000;
    golden.hash = format!("{:016x}", surety_lab::samples::hash_of(&golden.samples));
    std::fs::write(file, golden.write()).unwrap();
    let checked = watched.run(&["lab", "check", file]);
    assert_eq!(checked.status.code(), Some(1), "{}", errors(&checked));
    assert!(
        text(&checked).contains("1 of 200 wake-ups changed, first cpu0's wake-up 17 by -5"),
        "{}",
        text(&checked)
    );
}

/// Every class, a network and processes that talk, on two CPUs: the record and the trace come out again, and a thread has the CPU time
/// of its work, not that of turns in which its CPU stood still.
#[test]
fn a_run_on_two_cpus_brings_its_trace_and_repeats() {
    let _guest = beside_guests();
    let Some(kernel) = kernel() else { return };
    let watched = Watched::new();
    let files = tempfile::tempdir().unwrap();
    let workload = files.path().join("w.toml");
    let said = "format = 1\n\
        [[task]]\nname = 'reserved'\nperiod = '20ms'\nwork = '2ms'\n\
        reservation = { runtime = '4ms', period = '20ms' }\n\
        [[task]]\nname = 'fifo'\nperiod = '5ms'\nwork = '300us'\npolicy = 'fifo:10'\n\
        [[task]]\nname = 'fair'\nperiod = '7ms'\nwork = '1ms'\n\
        [[load]]\nname = 'busy'\nkind = 'spinners'\n\
        [[load]]\nname = 'talk'\nkind = 'messages'\n\
        [[load]]\nname = 'ping'\nkind = 'ping-flood'\n";
    std::fs::write(&workload, said).unwrap();
    let trace = files.path().join("t.dat");
    let world = format!("lab:{kernel}");
    let run = || {
        let mut words = vec!["run", workload.to_str().unwrap(), "--on", &world, "--lab-cpus", "2"];
        words.extend(["--for", "300ms", "--warm-up", "50ms", "--json", "--trace", trace.to_str().unwrap()]);
        let output = watched.run(&words);
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        let trace = std::fs::read(&trace).unwrap();
        assert!(trace.len() > 10_000, "{} bytes of trace", trace.len());
        (text(&output), trace)
    };
    let first = run();
    assert!(first == run(), "two runs differ");
    let record: serde_json::Value = serde_json::from_str(&first.0).unwrap();
    let activities = record["results"][0]["activities"].as_array().unwrap();
    // The fair task has what is left beside busy threads and the network.
    for (name, work) in [("reserved", 2.0 / 20.0), ("fifo", 0.3 / 5.0)] {
        let found = activities.iter().find(|activity| activity["name"] == name).unwrap();
        let share = found["share"]["fraction"].as_f64().unwrap();
        // A job more or less in the window, and what going to sleep takes.
        assert!((share - work).abs() < 0.015, "{name}: {share}");
    }
}

/// What is asked of a machine is what its kernel shows, and the simulator beside it has the same.
#[test]
fn a_guest_has_the_cores_and_the_timers_that_were_asked_for() {
    let _guest = beside_guests();
    let Some(kernel) = kernel() else { return };
    let watched = Watched::new();
    let files = tempfile::tempdir().unwrap();
    let workload = files.path().join("w.toml");
    std::fs::write(
        &workload,
        "format = 1\n[[task]]\nname = 't'\nperiod = '5ms'\nwork = '300us'\npolicy = 'fifo:10'\n",
    )
    .unwrap();
    let world = format!("lab:{kernel}");
    let mut words = vec!["run", workload.to_str().unwrap(), "--on", &world, "sim", "--json", "--no-trace"];
    words.extend(["--for", "400ms", "--warm-up", "50ms", "--platform", "cpus=2,smt=2,hrtimers=off"]);
    let output = watched.run(&words);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let document: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    for result in document["results"].as_array().unwrap() {
        let machine = &result["in_force"]["machine"];
        assert_eq!(machine["topology"]["smt"], 2, "{machine}");
        assert_eq!(machine["timers"]["high_resolution"], false, "{machine}");
    }
    let environment = &document["results"][0]["in_force"]["environment"];
    assert_eq!(environment["domains"], "SMT", "{environment}");
    assert!(environment["command line"].as_str().unwrap().contains(" highres=off"), "{environment}");
}

#[test]
fn a_workload_runs_in_the_guest_and_its_trace_comes_back() {
    let _guest = beside_guests();
    let Some(kernel) = kernel() else { return };
    let watched = Watched::new();
    let files = tempfile::tempdir().unwrap();
    let workload = files.path().join("w.toml");
    let said = "format = 1\n[[task]]\nname = \"ticker\"\nperiod = \"10ms\"\nwork = \"1ms\"\n\
                promise = [\"response <= 10ms @ 50%\"]\n";
    std::fs::write(&workload, said).unwrap();
    let (trace, page) = (files.path().join("t.dat"), files.path().join("page.html"));
    let (workload, trace) = (workload.to_str().unwrap(), trace.to_str().unwrap());
    let world = format!("lab:{kernel}");
    let output = watched.run(&[
        "run",
        workload,
        "--on",
        &world,
        "--for",
        "500ms",
        "--warm-up",
        "100ms",
        "--trace",
        trace,
        "--html",
        page.to_str().unwrap(),
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    // The guest says which of its events it observed: of them the longest response is drawn.
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<figure class=\"timeline\">").count(), 1);
    assert!(page.contains("<b>ticker, job ") && page.contains(">deadline 10 ms<"));
    let file = surety_model::formats::record::read(&text(&output)).unwrap();
    let record = &file.results[0].record;
    assert_eq!(record.world, world);
    assert!(record.hash.is_some());
    assert!(record.in_force.environment["lab emulator"].starts_with("QEMU"));
    // The guest's kernel, not this machine's.
    assert!(
        record.in_force.kernel.starts_with(kernel.split('-').next().unwrap()),
        "{}",
        record.in_force.kernel
    );
    let ticker = &record.activities[0];
    assert_eq!((ticker.name.as_str(), ticker.activations), ("ticker", 50));
    let shown = surety_in(None, &["trace", "stats", trace, "--comm", "ticker", "--json"]);
    assert_eq!(shown.status.code(), Some(0), "{}", errors(&shown));
    assert!(text(&shown).contains("ticker"));
}

#[test]
fn what_goes_wrong_is_said_and_leaves_nothing() {
    let _guest = beside_guests();
    let watched = Watched::new();
    let refused = |words: &[&str], code: i32, said: &[&str]| {
        let output = watched.run(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", errors(&output));
        for word in said {
            assert!(errors(&output).contains(word), "{words:?}: {}", errors(&output));
        }
    };
    let player = "examples/video-player.toml";
    refused(&["run", player, "--on", "lab:6.12-rtt"], 2, &["no kernel `6.12-rtt`", "did you mean 6.12-rt?"]);
    refused(&["lab", "fetch", "6.12-rtt"], 2, &["did you mean 6.12-rt?"]);
    refused(&["latency", "--on", "nowhere"], 2, &["lab:KERNEL"]);
    refused(&["latency", "--on", "lab:6.12", "--until", "ci(p99) < 5%"], 2, &["--until"]);
    refused(&["run", player, "--on", "lab:6.12", "--lab-memory", "8MiB"], 2, &["are possible"]);
    refused(&["lab", "check", "examples/video-player.toml"], 2, &["`surety lab record` writes"]);
    let record = |more: &[&'static str]| {
        let words = ["lab", "record", "6.12", "-o", "/nonexistent/x", "--", "run", player];
        [words.as_slice(), more].concat()
    };
    refused(&record(&["--repeat", "2"]), 2, &["--repeat is nothing that can be stored"]);

    let Some(kernel) = kernel() else { return };
    let world = format!("lab:{kernel}");
    refused(&["run", "examples/encoder.toml", "--on", &world], 2, &["cannot run task.", "has no programs"]);
    refused(&["latency", "--on", &world, "--lab-module", "no_such"], 2, &["has no module `no_such`"]);
    refused(&["run", "examples/startup-under-io.toml", "--on", &world], 2, &["the guest has no"]);
    refused(&["latency", "--on", &world, "--lab-within", "1s"], 3, &["the guest said nothing"]);
    // What a guest cannot be is said before one is booted.
    let place = tempfile::tempdir().unwrap();
    let grouped = place.path().join("group.toml");
    let said = "format = 1\n[[group]]\nname = \"g\"\nweight = 50\n[[task]]\nname = \"t\"\nperiod = \"10ms\"\nwork = \"1ms\"\n\
                group = \"g\"\n";
    std::fs::write(&grouped, said).unwrap();
    let (grouped, boots) = (grouped.to_str().unwrap(), Boots::counted());
    let before = |words: &[&str], code: i32, said: &[&str]| {
        let output = surety_counted(&boots, words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", errors(&output));
        said.iter()
            .for_each(|word| assert!(errors(&output).contains(word), "{words:?}: {}", errors(&output)));
        assert_eq!(boots.count(), 0, "{words:?} booted a guest");
    };
    before(
        &["run", grouped, "--on", &world, "--lab-cpus", "2", "--lab-partition"],
        2,
        &["group.g", "--lab-partition"],
    );
    before(
        &["run", player, "--on", &world, "--cpus", "7"],
        3,
        &["CPUs 7", "the guest has CPU 0", "--lab-cpus"],
    );
    before(&["latency", "--on", &world, "--cpus", "7"], 3, &["CPUs 7", "the guest has CPU 0", "--lab-cpus"]);
    let thrash = ["latency", "--on", &world, "--load", "memory-thrash:9"];
    before(&thrash, 3, &["512 MiB of memory", "576 MiB for what loads work on", "--lab-memory"]);
    refused(&["latency", "--on", &world, "--lab-memory", "48MiB"], 3, &["memory", "--lab-memory"]);

    // Without the emulator, and with a kernel that is damaged or not there.
    let elsewhere = |change: &dyn Fn(&mut Command)| {
        let mut command = Command::new(program());
        command.args(["latency", "--on", &world]).current_dir(root()).env("TMPDIR", watched.0.path());
        change(&mut command);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
        watched.check("a machine without");
        errors(&output)
    };
    let said = elsewhere(&|c| {
        c.env("PATH", "/nonexistent");
    });
    assert!(
        said.contains("qemu-system-x86_64") && said.contains("install the package qemu-system-x86"),
        "{said}"
    );
    let said = elsewhere(&|c| {
        c.env("SURETY_LAB_DIR", place.path());
    });
    assert!(said.contains(&format!("run `surety lab fetch {kernel}`")), "{said}");
    let listed = surety_in(None, &["lab", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let from = listed["directory"].as_str().unwrap();
    for part in ["names", "store"] {
        let copied = Command::new("cp").args(["-r", &format!("{from}/{part}")]).arg(place.path()).status();
        assert!(copied.unwrap().success());
    }
    let hash = std::fs::read_to_string(place.path().join("names").join(kernel)).unwrap();
    let image = place.path().join("store").join(hash.trim()).join("vmlinuz");
    let mut bytes = std::fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&image, bytes).unwrap();
    let said = elsewhere(&|c| {
        c.env("SURETY_LAB_DIR", place.path());
    });
    assert!(
        said.contains("vmlinuz is not what was stored") && said.contains("replaces what is damaged"),
        "{said}"
    );
}

#[test]
fn ctrl_c_ends_the_guest_too() {
    let _guest = beside_guests();
    let Some(kernel) = kernel() else { return };
    let watched = Watched::new();
    for (signal, code) in [(2, Some(130)), (9, None)] {
        let mut command = Command::new(program());
        command.args(["latency", "--on", &format!("lab:{kernel}")]).current_dir(root());
        command.env("TMPDIR", watched.0.path()).env("SURETY_RUNTIME_DIR", watched.0.path().join("run"));
        let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let booting = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            watched.emulators() == 1
        });
        assert!(booting);
        let kill = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), code, "{}", errors(&output));
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            watched.emulators() == 0
        });
        assert!(gone, "signal {signal} left an emulator");
        if signal == 9 {
            // What a killed run left is taken away by the next start of a command that works.
            watched.run(&["doctor"]);
        }
        watched.check(&format!("signal {signal}"));
    }
}
