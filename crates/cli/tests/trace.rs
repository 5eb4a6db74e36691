//! `surety trace` as people run it: the built program, real recordings where this user may make them, and files of every
//! kind.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use surety_kernel::tracefs::Tracefs;
use surety_trace::{Endian, TraceDatContent};
use surety_units::CpuId;

#[path = "trace/filtered.rs"]
mod filtered;
#[path = "trace/packed.rs"]
mod packed;
#[path = "trace/switches_alone.rs"]
mod switches_alone;

/// A directory for one test: an output directory that must hold nothing but what was asked for, and one for journals.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(place.out()).unwrap();
        fs::create_dir(place.journals()).unwrap();
        place
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    fn journals(&self) -> PathBuf {
        self.directory.path().join("journals")
    }

    /// The program with its journals in this place.
    fn surety(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surety"));
        command.args(arguments).env("SURETY_RUNTIME_DIR", self.journals()).current_dir(self.out());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.surety(arguments).output().unwrap()
    }

    /// What the output directory holds.
    fn files(&self) -> BTreeSet<String> {
        names(&self.out())
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", words(output)))
}

/// Tracefs, or a loud reason why nothing can be recorded.
fn tracefs() -> Option<Tracefs> {
    let tried = Tracefs::open().and_then(|tracefs| tracefs.instances().map(|_| tracefs));
    tried.inspect_err(|error| eprintln!("SKIPPED: nothing can be recorded here: {error}")).ok()
}

/// Instances that a process of that number made.
fn instances_of(tracefs: &Tracefs, pid: u32) -> Vec<String> {
    let all = tracefs.instances().unwrap();
    all.into_iter().filter(|name| name.starts_with(&format!("surety-{pid}-"))).collect()
}

/// Waits for an end that must come.
fn end_of(mut child: Child) -> (u32, Output) {
    let pid = child.id();
    for _ in 0..600 {
        if child.try_wait().unwrap().is_some() {
            return (pid, child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    panic!("the program did not end");
}

#[test]
fn a_recording_shows_the_periodic_command_and_leaves_only_its_file() {
    let Some(tracefs) = tracefs() else { return };
    let place = Place::new();
    // A shell under a name of its own, which sleeps 20 times.
    std::os::unix::fs::symlink("/bin/sh", place.directory.path().join("surety-beat")).unwrap();
    let beat = place.directory.path().join("surety-beat");
    let script = "n=0; while [ $n -lt 20 ]; do sleep 0.02; n=$((n+1)); done; echo out";
    let mut command = place.surety(&["trace", "record", "-o", "a.dat", "--for", "60s", "--json", "--"]);
    let child = command.arg(&beat).args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (pid, output) = end_of(child.spawn().unwrap());
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let made = json(&output);
    assert!(made["events"].as_u64().unwrap() > 100, "{made}");
    assert_eq!((&made["interrupted"], &made["command"]), (&false.into(), &"exit status: 0".into()));
    assert!(words(&output).contains("out"), "the command's output is not lost");

    assert_eq!(place.files(), ["a.dat".to_owned()].into());
    assert_eq!(instances_of(&tracefs, pid), [] as [String; 0]);
    assert_eq!(names(&place.journals()), BTreeSet::new());
    assert_eq!(fs::metadata(place.out().join("a.dat")).unwrap().len(), made["bytes"].as_u64().unwrap());

    let seen = json(&place.run(&["trace", "stats", "a.dat", "--comm", "surety-beat", "--json"]));
    let [thread] = seen["threads"].as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert_eq!((&thread["name"], &seen["clock"]), (&"surety-beat".into(), &"mono".into()));
    if seen["quality"]["lost"] == 0 {
        assert!(thread["jobs"].as_u64().unwrap() >= 20, "{thread}");
        assert!(thread["run_ns"].as_u64().unwrap() > 0);
    }
    let counted: u64 = seen["events"].as_array().unwrap().iter().map(|e| e["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, made["events"].as_u64().unwrap());

    let table = place.run(&["trace", "stats", "a.dat", "--top", "100000"]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    // A name that is too long for its column stands below the number.
    let tid = thread["tid"].to_string();
    assert!(text.lines().any(|l| l.starts_with(&tid) && l.contains('%')), "{text}");
    assert!(text.contains("surety-beat"), "{text}");

    let told = json(&place.run(&["trace", "explain", "a.dat", "--comm", "surety-beat", "--json"]));
    assert_shared_out(&told);
    assert!(told["groups"][0]["jobs"].as_u64().unwrap() > 0, "{told}");
    same_as_trace_cmd(&place.out().join("a.dat"), counted);
}

/// The number of events trace-cmd reads, where it is installed.
fn same_as_trace_cmd(file: &Path, events: u64) {
    match Command::new("trace-cmd").args(["report", "-R", "-t"]).arg(file).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            // Its lines of events hold the CPU in brackets; headings and notes about lost events do not.
            let lines = text.lines().filter(|l| l.contains("] ") && l.contains(": ")).count();
            assert_eq!(lines as u64, events, "{}", words(&output));
        }
        Err(error) => {
            eprintln!("SKIPPED: trace-cmd cannot be started ({error}); install the package trace-cmd")
        }
    }
}

#[test]
fn an_interrupt_ends_a_recording_in_good_order() {
    let Some(tracefs) = tracefs() else { return };
    let place = Place::new();
    let mut command = place.surety(&["trace", "record"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        !instances_of(&tracefs, child.id()).is_empty()
    });
    assert!(begun);
    // The machine is never quite still: some events come.
    std::thread::sleep(Duration::from_millis(500));
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(told.success());
    let (pid, output) = end_of(child);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(place.files(), ["trace.dat".to_owned()].into());
    assert_eq!(instances_of(&tracefs, pid), [] as [String; 0]);
    assert!(words(&output).contains("trace.dat: "), "{}", words(&output));
    assert_eq!(place.run(&["trace", "stats"]).status.code(), Some(0));
}

#[test]
fn commands_that_fail_are_reported() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    let absent = place.run(&["trace", "record", "-o", "a.dat", "--", "/no/such/program"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(words(&absent).contains("/no/such/program"), "{}", words(&absent));
    assert_eq!(place.files(), BTreeSet::new(), "no file of nothing");
    fs::write(place.out().join("b.dat"), "precious").unwrap();
    assert_eq!(
        place.run(&["trace", "record", "-o", "b.dat", "--", "/no/such/program"]).status.code(),
        Some(2)
    );
    assert_eq!(fs::read_to_string(place.out().join("b.dat")).unwrap(), "precious");
    let failed = place.run(&["trace", "record", "-o", "c.dat", "--", "sh", "-c", "sleep 0.1; exit 7"]);
    assert_eq!(failed.status.code(), Some(1), "{}", words(&failed));
    assert!(words(&failed).contains("exit status: 7"));
    assert!(place.files().contains("c.dat"), "what was recorded is kept");
}

#[test]
fn a_recording_is_not_given_the_ending_of_another_format() {
    let place = Place::new();
    let refused = place.run(&["trace", "record", "-o", "a.pftrace", "--", "sh", "-c", "echo ran > ran"]);
    assert_eq!(refused.status.code(), Some(2), "{}", words(&refused));
    assert!(words(&refused).contains("surety trace convert"), "{}", words(&refused));
    assert_eq!(place.files(), BTreeSet::new());
}

#[test]
fn an_output_that_cannot_be_made_is_refused_before_anything_runs() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    for output in [".", "no/such/directory/a.dat"] {
        let refused = place.run(&["trace", "record", "-o", output, "--", "sh", "-c", "echo ran > ran"]);
        assert_eq!(refused.status.code(), Some(2), "{}", words(&refused));
        assert!(words(&refused).contains("cannot be written"), "{}", words(&refused));
        assert_eq!(place.files(), BTreeSet::new());
    }
}

#[test]
fn without_privilege_the_remedy_is_said() {
    let place = Place::new();
    let readable = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // The build directory may be closed to others.
    let program = place.directory.path().join("surety");
    fs::copy(env!("CARGO_BIN_EXE_surety"), &program).unwrap();
    [place.directory.path(), &program].into_iter().for_each(readable);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    command.args(["trace", "record", "--for", "1s"]).current_dir("/");
    let output = match command.output() {
        Ok(output) if !words(&output).starts_with("setpriv:") => output,
        Ok(output) => return eprintln!("SKIPPED: this user cannot become another: {}", words(&output)),
        Err(error) => return eprintln!("SKIPPED: setpriv cannot be started: {error}"),
    };
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert!(words(&output).contains("run as root"), "{}", words(&output));
}

/// A file of two CPUs with 300 events, as another program might have written it.
fn a_file() -> Vec<u8> {
    macro_rules! fixture {
        ($name:literal) => {
            include_str!(concat!("../../trace/tests/fixtures/", $name))
        };
    }
    let pages = [
        include_bytes!("../../trace/tests/fixtures/throttled/cpu0.raw").to_vec(),
        include_bytes!("../../trace/tests/fixtures/throttled/cpu1.raw").to_vec(),
    ];
    let content = TraceDatContent {
        endian: Endian::Little,
        header_page: fixture!("formats/header_page.txt"),
        header_event: "",
        formats: vec![
            ("ftrace:print", fixture!("formats/ftrace/print.txt")),
            ("sched:sched_switch", fixture!("formats/sched/sched_switch.txt")),
            ("sched:sched_waking", fixture!("formats/sched/sched_waking.txt")),
            ("sched:sched_wakeup", fixture!("formats/sched/sched_wakeup.txt")),
            ("timer:hrtimer_start", fixture!("formats/timer/hrtimer_start.txt")),
            ("timer:hrtimer_expire_entry", fixture!("formats/timer/hrtimer_expire_entry.txt")),
        ],
        symbols: fixture!("throttled/kallsyms.txt"),
        printk_formats: "",
        names: "",
        clock: "mono",
        statistics: Vec::new(),
        pages: (0..).map(CpuId).zip(pages).collect(),
    };
    let mut file = Vec::new();
    content.write(&mut file).unwrap();
    file
}

#[test]
fn stats_show_jobs_and_say_what_is_missing() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let output = place.run(&["trace", "stats", "a.dat", "--tid", "8795", "--json"]);
    let seen = json(&output);
    let [player] = seen["threads"].as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert_eq!((&player["name"], &player["separation"]), (&"player".into(), &"markers".into()));
    // The switch to one of them was not recorded and cannot be placed.
    assert_eq!((&player["jobs"], &player["response_ns"]["count"]), (&1.into(), &1.into()));
    assert_eq!(player["doubtful"], 1);
    assert_eq!(documented_but_not_in(&seen), BTreeSet::new());

    let table = place.run(&["trace", "stats", "a.dat", "--width", "100"]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("8795 player"), "{text}");
    assert!(text.contains("by their own markers for threads that write them (1)"), "{text}");
    assert!(text.contains("records of events the file does not describe"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");

    let nobody = place.run(&["trace", "stats", "a.dat", "--comm", "playr"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(words(&nobody).contains("did you mean player?"), "{}", words(&nobody));
}

/// As behind `| head`, whose end came first; with `--json`, and with words for people.
#[test]
fn every_verb_ends_quietly_when_nobody_reads_it() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let verbs: [&[&str]; 11] = [
        &["trace", "stats", "a.dat"],
        &["trace", "stats", "a.dat", "--json"],
        &["trace", "irqs", "a.dat"],
        &["trace", "irqs", "a.dat", "--json"],
        &["trace", "explain", "a.dat"],
        &["trace", "explain", "a.dat", "--json"],
        &["trace", "fit", "a.dat"],
        &["trace", "show", "a.dat"],
        &["trace", "convert", "a.dat", "b.csv", "--json"],
        &["doctor"],
        &["--help"],
    ];
    let shut = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    for verb in verbs {
        // What `doctor` finds of a machine that others use may differ from one time to the next: one try of five has to agree.
        let tries = if *verb == ["doctor"] { 5 } else { 1 };
        let mut codes = Vec::new();
        for _ in 0..tries {
            let whole = place.run(verb);
            let closed = place.surety(verb).stdout(shut()).output().unwrap();
            assert!(!words(&closed).contains("panicked"), "{verb:?}: {}", words(&closed));
            assert!(!words(&closed).contains("error:"), "{verb:?}: {}", words(&closed));
            // Nor does anything go wrong where nobody hears its notes.
            let deaf = place.surety(verb).stderr(shut()).output().unwrap();
            codes.push([whole, closed, deaf].map(|output| output.status.code()));
            if codes.last().is_some_and(|[whole, closed, deaf]| whole == closed && whole == deaf) {
                break;
            }
        }
        let [whole, closed, deaf] = codes.last().unwrap();
        assert!(
            whole == closed && whole == deaf,
            "{verb:?}: status, with stdout closed, with stderr closed: {codes:?}"
        );
    }
}

/// A full disk is another matter: what cannot be written is said.
#[test]
fn an_output_that_is_full_is_an_error() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let Ok(full) = fs::File::options().write(true).open("/dev/full") else {
        return eprintln!("SKIPPED: there is no /dev/full");
    };
    let output = place.surety(&["trace", "stats", "a.dat"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert!(words(&output).contains("standard output could not be written"), "{}", words(&output));
}

#[test]
fn filters_and_a_close_look() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let number = |arguments: &[&str], key: &str| {
        let mut all = vec!["trace", "stats", "a.dat", "--comm", "player", "--json"];
        all.extend(arguments);
        json(&place.run(&all))["threads"][0][key].as_i64().unwrap()
    };
    let run = number(&[], "run_ns");
    assert_eq!(number(&["--cpus", "0"], "run_ns") + number(&["--cpus", "1"], "run_ns"), run);
    assert_eq!(number(&["--to", "20ms"], "run_ns") + number(&["--from", "20ms"], "run_ns"), run);
    assert_eq!(number(&["--to", "20ms"], "jobs") + number(&["--from", "20ms"], "jobs"), 1);
    let nothing = place.run(&["trace", "stats", "a.dat", "--from", "20ms", "--to", "10ms"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(words(&nothing).contains("nothing in between"), "{}", words(&nothing));

    let closely = ["trace", "stats", "a.dat", "--tid", "8795", "--distribution", "--html", "a.html"];
    let output = place.run(&closely);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("2 jobs by their own markers") && text.contains("rounded down"), "{text}");
    assert!(fs::read_to_string(place.out().join("a.html")).unwrap().contains("<svg"));
    let seen = json(&place.run(&[&closely[..6], &["--grid", "1ms", "--json"]].concat()));
    let pmf = seen["quantities"][0]["pmf"].as_array().unwrap();
    let mass: i64 = pmf.iter().map(|point| point[1].as_i64().unwrap()).sum();
    assert_eq!((mass, &seen["quantities"][0]["grid_ns"]), (2, &1_000_000.into()));
    assert!(pmf.iter().all(|point| point[0].as_i64().unwrap() % 1_000_000 == 0), "{seen}");

    let none = place.run(&["trace", "irqs", "a.dat", "--irq", "nothing"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(words(&none).contains("no interrupt `nothing`"), "{}", words(&none));
}

#[test]
fn events_and_jobs_are_shown_as_lines() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let lines = |arguments: &[&str]| {
        let output = place.run(&[&["trace", "show", "a.dat"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = lines(&[]);
    assert!(all.len() > 100 && all.iter().any(|line| line.contains("says: surety:b:0:")), "{all:?}");
    assert_eq!(lines(&["--limit", "3"]), all[..3]);
    let some = lines(&["--comm", "player", "--cpus", "1"]);
    assert!(!some.is_empty() && some.len() < all.len());
    let jobs = lines(&["--jobs", "--tid", "8795"]);
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    assert!(jobs[1].contains("job 1:") && jobs[1].contains("out of budget"), "{jobs:?}");
    for line in lines(&["--jobs", "--json"]).iter().chain(&lines(&["--json", "--limit", "5"])) {
        assert!(serde_json::from_str::<Value>(line).unwrap().is_object(), "{line}");
    }

    let mut child = place.surety(&["trace", "show", "a.dat"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Nobody reads.
    drop(child.stdout.take());
    let (_, output) = end_of(child);
    assert_eq!((output.status.code(), words(&output).as_str()), (Some(0), ""), "it ends quietly");
}

#[test]
fn slices_and_changes_of_cpus_are_shown_as_lines() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let lines = |arguments: &[&str]| {
        let output = place.run(&[&["trace"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let values = |arguments: &[&str]| {
        let lines = lines(&[arguments, &["--json"]].concat());
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let slices = lines(&["timehist", "a.dat"]);
    assert!(slices[0].trim_start().starts_with("time CPU"), "{slices:?}");
    let objects = values(&["timehist", "a.dat"]);
    // The header, and a line for each switch.
    let switches = lines(&["show", "a.dat"]).iter().filter(|line| line.contains(" switch: ")).count();
    assert_eq!((slices.len(), objects.len()), (switches + 1, switches));
    assert_eq!(lines(&["timehist", "a.dat", "--limit", "2"]), slices[..3]);
    let of_player = values(&["timehist", "a.dat", "--pid", "8795"]);
    assert!(!of_player.is_empty() && of_player.iter().all(|slice| slice["name"] == "player"));
    let sums = lines(&["timehist", "a.dat", "--summary", "--tid", "8795", "--json"]).concat();
    let sums: Value = serde_json::from_str(&sums).unwrap();
    let known = of_player.iter().filter_map(|slice| slice["run_ns"].as_i64()).sum::<i64>();
    assert!(sums["threads"][0]["run"]["sum_ns"].as_i64().unwrap() >= known, "{sums}");

    let map = lines(&["map", "a.dat", "--width", "60"]);
    assert!(!map.is_empty() && map.iter().all(|line| line.len() <= 60), "{map:?}");
    assert!(map.iter().any(|line| line.ends_with("= player 8795")), "{map:?}");
    let changes = values(&["map", "a.dat"]);
    assert_eq!(changes.len(), map.iter().filter(|line| !line.starts_with('#')).count());
    for verb in ["timehist", "map"] {
        let nobody = place.run(&["trace", verb, "a.dat", "--comm", "nobody"]);
        assert_eq!(nobody.status.code(), Some(2), "{}", words(&nobody));
    }
    for (verb, page) in [
        ("timehist", include_str!("../../../docs/formats/trace-timehist.md")),
        ("map", include_str!("../../../docs/formats/trace-map.md")),
    ] {
        for key in values(&[verb, "a.dat"])[0].as_object().unwrap().keys().filter(|key| *key != "next") {
            assert!(page.contains(&format!("| `{key}` |")), "{verb} {key}");
        }
    }
}

/// The parts of every chain and the causes of every group sum to their responses.
fn assert_shared_out(seen: &Value) {
    let sum =
        |list: &Value, key: &str| list.as_array().unwrap().iter().map(|v| v[key].as_i64().unwrap()).sum();
    for job in seen["worst"].as_array().unwrap() {
        let total: i64 = sum(&job["pieces"], "time_ns");
        assert_eq!(total, job["response_ns"].as_i64().unwrap(), "{job}");
    }
    for group in seen["groups"].as_array().unwrap() {
        let total: i64 = sum(&group["causes"], "sum_ns");
        assert_eq!(total, group["response_sum_ns"].as_i64().unwrap(), "{group}");
    }
}

#[test]
fn explain_tells_the_worst_jobs_and_shares_every_response_out() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let seen = json(&place.run(&["trace", "explain", "a.dat", "--tid", "8795", "--json"]));
    assert_eq!((&seen["schema"], &seen["threads"][0]["jobs"]), (&"surety.trace-explain/1".into(), &1.into()));
    assert_eq!(seen["worst"].as_array().unwrap().len(), 2);
    assert_shared_out(&seen);
    let everybody = json(&place.run(&["trace", "explain", "a.dat", "--worst", "50", "--json"]));
    assert_shared_out(&everybody);
    let (documented, written) = (explain_page(), explain_keys(&everybody));
    assert_eq!(documented, written);

    let output =
        place.run(&["trace", "explain", "a.dat", "--comm", "player", "--worst", "1", "--width", "100"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for expected in ["8795 player, job ", "starts to run", "done", "slowest 0.1 %", "1 job of 8795 player"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");

    let nobody = place.run(&["trace", "explain", "a.dat", "--comm", "playr"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(words(&nobody).contains("did you mean player?"), "{}", words(&nobody));
}

/// Keys that `docs/formats/trace-explain.md` names.
fn explain_page() -> BTreeSet<String> {
    let page = include_str!("../../../docs/formats/trace-explain.md");
    let keys = page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once("` | ").map(|(key, _)| key));
    // Words of causes have no type: their lines have two columns only.
    let typed: BTreeSet<&str> =
        page.lines().filter(|l| l.matches(" | ").count() == 2).filter_map(|l| l.split('`').nth(1)).collect();
    keys.filter(|key| typed.contains(key)).map(str::to_owned).collect()
}

/// Keys of a document, those of causes and of `quality` as the page has them.
fn explain_keys(document: &Value) -> BTreeSet<String> {
    let mut written = BTreeSet::new();
    keys(document, "", &mut written);
    let causes = ["cause", "number", "name", "class", "prio", "rule"];
    let elsewhere = |key: &String| key.starts_with("quality.") || key.starts_with("anomalies.");
    let folded = written.into_iter().filter(|key| !elsewhere(key)).map(|key| {
        let cause = ["groups[].causes[].", "worst[].pieces[]."]
            .iter()
            .find_map(|above| key.strip_prefix(above))
            .filter(|last| causes.contains(last));
        cause.map_or(key.clone(), |last| format!("cause.{last}"))
    });
    folded.collect()
}

/// Counts of `/proc/interrupts` over all CPUs, by the first column without its colon.
fn interrupt_counts(text: &str) -> BTreeMap<String, u64> {
    let cpus = text.lines().next().map_or(0, |l| l.split_whitespace().count());
    let line = |l: &str| {
        let (name, rest) = l.split_once(':')?;
        let counts = rest.split_whitespace().take(cpus).map_while(|n| n.parse::<u64>().ok());
        Some((name.trim().to_owned(), counts.sum()))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// The kernel's own counts, read inside and around the recording, hold the traced arrivals between them.
#[test]
fn traced_interrupts_are_those_the_kernel_counted() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    let counts = || interrupt_counts(&fs::read_to_string("/proc/interrupts").unwrap());
    let script = "cat /proc/interrupts > inner-a; dd if=/dev/zero of=blob bs=64k count=64 conv=fsync 2>/dev/null; \
                  sleep 0.3; cat /proc/interrupts > inner-b";
    let before = counts();
    let recorded = place.run(&["trace", "record", "-o", "a.dat", "--", "sh", "-c", script]);
    let after = counts();
    assert_eq!(recorded.status.code(), Some(0), "{}", words(&recorded));
    let inner = |name: &str| interrupt_counts(&fs::read_to_string(place.out().join(name)).unwrap());
    let (inner_before, inner_after) = (inner("inner-a"), inner("inner-b"));
    let seen = json(&place.run(&["trace", "irqs", "a.dat", "--json"]));
    if seen["quality"]["lost"] != 0 {
        return eprintln!("SKIPPED: the tracer lost events on this busy machine");
    }
    let difference = |from: &BTreeMap<String, u64>, to: &BTreeMap<String, u64>, key: &str| {
        to.get(key).copied().unwrap_or(0) - from.get(key).copied().unwrap_or(0)
    };
    let mut compared = 0;
    for interrupt in seen["interrupts"].as_array().unwrap() {
        let key = match (interrupt["kind"].as_str().unwrap(), interrupt["name"].as_str().unwrap()) {
            ("irq", _) => interrupt["number"].to_string(),
            ("vector", "local_timer") => "LOC".to_owned(),
            _ => continue,
        };
        let traced = interrupt["count"].as_u64().unwrap();
        let least = difference(&inner_before, &inner_after, &key);
        let most = difference(&before, &after, &key);
        assert!(least <= traced && traced <= most, "{key}: {least} <= {traced} <= {most}");
        eprintln!("{key}: {least} <= {traced} <= {most}");
        compared += 1;
    }
    assert!(compared > 0, "{seen}");
}

#[test]
fn irqs_show_every_interrupt_as_documented() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let without = json(&place.run(&["trace", "irqs", "a.dat", "--json"]));
    assert_eq!(without["interrupts"].as_array().unwrap().len(), 0, "this file has no interrupt events");
    if tracefs().is_none() {
        return;
    }
    let made = place.run(&["trace", "record", "-o", "b.dat", "--", "sh", "-c", "sleep 0.2; sleep 0.2"]);
    assert_eq!(made.status.code(), Some(0), "{}", words(&made));
    let seen = json(&place.run(&["trace", "irqs", "b.dat", "--json"]));
    let page = include_str!("../../../docs/formats/trace-irqs.md");
    let documented: BTreeSet<&str> =
        page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once('`').map(|(key, _)| key)).collect();
    let mut written = BTreeSet::new();
    keys(&seen, "", &mut written);
    for key in written {
        // The objects of times have keys of their own; on a quiet machine some arrays are empty.
        let is_time = ["spread.", "quality.", "series."].iter().any(|p| key.starts_with(p))
            || key.rsplit_once('.').is_some_and(|(above, _)| above.ends_with("_ns"));
        assert!(is_time || documented.contains(key.as_str()), "{key} is not documented");
    }
    let table = place.run(&["trace", "irqs", "b.dat", "--width", "100"]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("softirq") && text.contains("/s"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
}

#[test]
fn a_fit_names_everything_as_documented() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let made = json(&place.run(&["trace", "fit", "a.dat", "-o", "a.toml", "--json"]));
    assert_eq!(made["written"], "a.toml");
    let page = include_str!("../../../docs/formats/trace-fit.md");
    let documented: BTreeSet<&str> =
        page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once('`').map(|(key, _)| key)).collect();
    let mut written = BTreeSet::new();
    keys(&made, "", &mut written);
    for key in written.iter().filter(|key| !key.starts_with("quality.")) {
        assert!(documented.contains(key.as_str()), "{key} is not documented");
    }
    let parts: i64 = made["accounts"].as_object().unwrap().values().map(|v| v.as_i64().unwrap()).sum();
    assert_eq!(parts, 2 * made["accounts"]["total_ns"].as_i64().unwrap(), "{}", made["accounts"]);
    // Few jobs: everything is left out, and the file says what.
    assert_eq!(made["sources"].as_array().unwrap().len(), 0);
    let text = fs::read_to_string(place.out().join("a.toml")).unwrap();
    assert!(text.contains("# Left out: ") && text.contains("format = 1"), "{text}");
    let nobody = place.run(&["trace", "fit", "a.dat", "--comm", "playr"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(words(&nobody).contains("did you mean player?"), "{}", words(&nobody));
    assert_eq!(place.files(), ["a.dat", "a.toml"].map(str::to_owned).into());
}

#[test]
fn a_recorded_task_is_fitted_and_simulated() {
    if tracefs().is_none() {
        return;
    }
    let place = Place::new();
    let workload =
        "format = 1\n[[task]]\nname = \"beat\"\nperiod = \"10ms\"\nwork = \"1ms\"\npolicy = \"fifo:50\"\n";
    fs::write(place.out().join("w.toml"), workload).unwrap();
    let surety = env!("CARGO_BIN_EXE_surety");
    let run = ["run", "w.toml", "--on", "host", "--for", "2s"];
    let record = ["trace", "record", "-o", "b.dat", "--keep-capabilities", "all", "--", surety];
    let made = place.run(&[&record[..], &run[..]].concat());
    assert!(place.files().contains("b.dat"), "{}", words(&made));
    let arguments =
        ["trace", "fit", "b.dat", "--no-irqs", "--comm", "beat", "-o", "f.toml", "--width", "100"];
    let fitted = place.run(&arguments);
    let text = String::from_utf8_lossy(&fitted.stdout).into_owned();
    assert_eq!(fitted.status.code(), Some(0), "{}", words(&fitted));
    assert!(text.contains("beat") && text.contains("fifo:50"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    let file = fs::read_to_string(place.out().join("f.toml")).unwrap();
    // Where others take the CPU away releases may leave their grid; then there is a gap.
    assert!(file.contains("period = ") || file.contains("spacing = "), "{file}");
    let simulated = place.run(&["run", "f.toml", "--on", "sim", "--for", "1s"]);
    assert_eq!(simulated.status.code(), Some(0), "{}", words(&simulated));
}

#[test]
fn files_that_are_no_traces_are_refused_with_their_place() {
    let place = Place::new();
    let whole = a_file();
    let seven = b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0lz4\x001.9\0";
    let cases: [(&str, &[u8], &str); 4] = [
        ("garbage.dat", b"these are no events", "garbage.dat: byte 0: this is no trace"),
        ("empty.dat", b"", "empty.dat: byte 0: "),
        ("cut.dat", &whole[..1000], "cut.dat: byte "),
        ("seven.dat", seven, "byte 18: the file is compressed with `lz4`, which is not read"),
    ];
    for (name, bytes, expected) in cases {
        fs::write(place.out().join(name), bytes).unwrap();
        let output = place.run(&["trace", "stats", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(words(&output).contains(expected), "{name}: {}", words(&output));
        assert!(output.stdout.is_empty());
    }
    for name in ["no-such.dat", "."] {
        let output = place.run(&["trace", "stats", name]);
        assert_eq!(output.status.code(), Some(2));
        assert!(words(&output).contains(&format!("error: {name}: ")), "{}", words(&output));
    }
}

#[test]
fn events_are_converted_into_text() {
    let place = Place::new();
    fs::write(place.out().join("a.dat"), a_file()).unwrap();
    let made = json(&place.run(&["trace", "convert", "a.dat", "a.jsonl", "--json"]));
    let text = fs::read_to_string(place.out().join("a.jsonl")).unwrap();
    assert_eq!(made["written"].as_u64().unwrap(), text.lines().count() as u64);
    assert_eq!((&made["events"], &made["complete"]), (&made["written"], &true.into()));
    let switches = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    assert!(switches.filter(|o| o["event"] == "sched_switch").count() > 10);

    let output =
        place.run(&["trace", "convert", "a.dat", "a.csv", "--tid", "8795", "--cpus", "0-1", "--from", "1ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    let table = fs::read_to_string(place.out().join("a.csv")).unwrap();
    assert!(table.starts_with("time_ns,cpu,tid,event,"));
    let rows = table.lines().count();
    assert!(rows > 5 && rows < text.lines().count(), "{rows}");
    assert!(table.lines().skip(1).all(|row| row.contains("8795")), "{table}");

    let output = place.run(&["trace", "convert", "a.dat", "a.pftrace"]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(!words(&output).contains("left out"), "every event of that file is decoded: {}", words(&output));
    // A Perfetto trace is packets: field 1, a message.
    assert_eq!(fs::read(place.out().join("a.pftrace")).unwrap()[0], 1 << 3 | 2);

    let none = place.run(&["trace", "convert", "a.dat", "a.csv", "--comm", "nobody"]);
    assert_eq!(none.status.code(), Some(0));
    assert!(words(&none).contains("no event fits"), "{}", words(&none));

    for (arguments, expected) in [
        (["a.dat", "a.xml"], "its ending names no format that is written"),
        (["a.csv", "b.csv"], "a.csv: byte 0: this is no trace"),
        (["a.dat", "no/such/b.csv"], "cannot be written"),
    ] {
        let refused = place.run(&["trace", "convert", arguments[0], arguments[1]]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(words(&refused).contains(expected), "{}", words(&refused));
    }
    let left: BTreeSet<String> = ["a.csv", "a.dat", "a.jsonl", "a.pftrace"].map(str::to_owned).into();
    assert_eq!(place.files(), left, "no half file stays behind");
}

/// Keys on which a document and its page differ, whoever has them.
fn documented_but_not_in(document: &Value) -> BTreeSet<String> {
    let page = include_str!("../../../docs/formats/trace-stats.md");
    let documented = page.lines().filter_map(|l| l.strip_prefix("| `")?.split_once('`').map(|(key, _)| key));
    // Other documents of the page, and what an empty list does not show.
    let documented = documented.filter(|k| !k.starts_with("distribution.") && !k.starts_with("folded[]."));
    let documented: BTreeSet<String> = documented.map(str::to_owned).collect();
    let mut written = BTreeSet::new();
    keys(document, "", &mut written);
    documented.symmetric_difference(&written).cloned().collect()
}

fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                found.insert(below.clone());
                let is_spread = value.get("median").is_some();
                keys(value, if is_spread { "spread" } else { &below }, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, &format!("{path}[]"), found)),
        _ => {}
    }
}
