//! Extreme inputs, outputs that must not be lost, interruptions, and documents that programs read.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{errors, program, root, surety, text};

const TASK: &str = "format = 1\n[[task]]\nname = \"t\"\n";

fn written(room: &Path, name: &str, content: &str) -> String {
    let path = room.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_is_too_much_is_refused_in_words_before_it_is_tried() {
    let room = tempfile::tempdir().unwrap();
    let small = "period = \"10ms\"\nwork = \"1ms\"\n";
    let never = "9223372036854775807ns";
    for (task, extra, says) in [
        (small, vec!["--for", never], "longer than 1000h"),
        (small, vec!["--warm-up", never], "longer than 1000h"),
        ("period = \"10ms\"\nwork = \"1ms\"\nstart = \"9223372036854775807ns\"\n", vec![], "w.toml:6:9"),
        ("period = \"10ms\"\nwork = \"1ms\"\njitter = \"2562047h\"\n", vec![], "longer than 1000h"),
        ("period = \"10ms\"\nwork = \"1ms\"\ninstances = 1000000\n", vec![], "between 1 and 10000"),
        ("period = \"1ns\"\nwork = \"1ns\"\n", vec![], "keeps at most 4194304"),
        ("period = \"1us\"\nwork = \"1ns\"\n", vec!["--for", "25s"], "keeps at most 4194304"),
        (
            "work = \"1ms\"\n[[load]]\nname = \"l\"\nkind = \"spinners\"\ncount = 4000000000\n",
            vec![],
            "between 1 and 10000",
        ),
    ] {
        let file = written(room.path(), "w.toml", &format!("{TASK}{task}"));
        let span: &[&str] = if extra.contains(&"--for") { &[] } else { &["--for", "1s"] };
        let arguments = [&["run", file.as_str(), "--on", "sim"], span, extra.as_slice()].concat();
        let output = surety(&arguments);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{task}{said}");
        assert!(said.contains(says), "{task}{said}");
    }
    for verb in ["report", "plan"] {
        let output = surety(&[verb, "/dev/zero"]);
        assert!(errors(&output).contains("it is a device") && output.status.code() == Some(2), "{verb}");
    }
    // Read whole, its numbers take more than 1 GiB.
    let start = "{\"schema\": \"surety.record/1\", \"results\": [";
    let long = written(room.path(), "long.json", &format!("{start}{}0]}}", "[0, 1], ".repeat(5_000_000)));
    for arguments in [vec!["report", &long], vec!["compare", &long, &long], vec!["plan", "--check", &long]] {
        let output = surety(&arguments);
        let said = errors(&output);
        assert!(
            said.contains("longer than 32 MiB") && output.status.code() == Some(2),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn no_output_takes_the_place_of_an_input() {
    let room = tempfile::tempdir().unwrap();
    let workload = written(
        room.path(),
        "w.toml",
        &format!("{TASK}period = \"10ms\"\nwork = \"1ms\"\npromise = \"response <= 10ms\"\n"),
    );
    let trace = room.path().join("t.jsonl");
    let trace = trace.to_str().unwrap();
    let link = room.path().join("link.html");
    symlink("w.toml", &link).unwrap();
    let result = room.path().join("r.json");
    let made = surety(&["run", &workload, "--on", "sim", "--for", "50ms", "--trace", trace, "--json"]);
    std::fs::write(&result, &made.stdout).unwrap();
    let result = result.to_str().unwrap();
    let dat = room.path().join("t.dat");
    let dat = dat.to_str().unwrap();
    surety(&["run", &workload, "--on", "sim", "--for", "50ms", "--trace", dat]);
    for arguments in [
        vec!["plan", &workload, "--output", &workload],
        vec!["run", &workload, "--on", "sim", "--for", "50ms", "--html", link.to_str().unwrap()],
        vec!["report", result, "--html", result],
        vec!["report", result, "--expect", "missed == 0", "--junit", result],
        vec!["trace", "convert", dat, dat],
        vec!["trace", "fit", dat, "--output", dat],
    ] {
        let before: Vec<Vec<u8>> = [&workload, result, dat].map(|file| std::fs::read(file).unwrap()).into();
        let output = surety(&arguments);
        let after: Vec<Vec<u8>> = [&workload, result, dat].map(|file| std::fs::read(file).unwrap()).into();
        assert!(before == after, "{arguments:?} changed an input");
        assert!(errors(&output).contains("a file that is read"), "{arguments:?}: {}", errors(&output));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    let full = surety(&["report", result, "--html", "/dev/full"]);
    assert_eq!(full.status.code(), Some(3), "{}", errors(&full));
}

/// Starts a command, waits until it says something on standard error, and sends it a signal.
fn interrupted(arguments: &[&str], when: &str, signal: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(program())
        .args(arguments)
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let out = std::thread::spawn(move || std::io::read_to_string(&mut out).unwrap());
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains(when) {
            let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
            assert!(killed.success());
        }
        said += &(line + "\n");
    }
    (child.wait().unwrap().code(), out.join().unwrap(), said)
}

#[test]
fn an_interruption_shows_and_saves_what_is_finished() {
    let room = tempfile::tempdir().unwrap();
    // The second row would take minutes, and a thrashing load is told of when its run begins.
    let varied = "period = \"10ms\"\nstart = \"1s\"\nwork = \"1ms\"\njobs = 5\npromise = \"response <= 10ms @ 50%\"\n\
                  [[load]]\nname = \"late\"\nkind = \"memory-thrash\"\n\
                  [[irq]]\nname = \"n\"\nwork = \"100ns\"\narrivals = { kind = \"sporadic\", gap = \"1us\" }\n\
                  [vary]\nrows = [{ \"load.late.count\" = 0, \"irq.n.arrivals.gap\" = \"1s\" }, { \"load.late.count\" = 1 }]\n";
    let file = written(room.path(), "w.toml", &format!("{TASK}{varied}"));
    let page = room.path().join("page.html");
    let arguments =
        ["run", &file, "--on", "sim", "--for", "200s", "--json", "--html", page.to_str().unwrap()];
    for signal in ["-INT", "-TERM"] {
        let (code, out, said) = interrupted(&arguments, "load.late: simulated", signal);
        assert_eq!(code, Some(130), "{said}");
        let document: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["exit"], 130);
        assert_eq!(document["results"][0]["activities"][0]["completed"], 5, "{said}");
        assert!(said.contains("interrupted: 1 of 2 runs are finished and shown"), "{said}");
        assert!(std::fs::read_to_string(&page).unwrap().contains("</html>"));
    }
    // Nothing finished is nothing to show.
    let other = file.replace("w.toml", "one.toml");
    std::fs::write(&other, std::fs::read_to_string(&file).unwrap().split("[vary]").next().unwrap()).unwrap();
    let alone = ["run", &other, "--on", "sim", "--for", "200s", "--json"];
    let (code, out, _) = interrupted(&alone, "load.late: simulated", "-INT");
    assert_eq!(code, Some(130));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["schema"], "surety.error/1");
}

#[test]
fn every_failure_under_json_is_one_document() {
    let room = tempfile::tempdir().unwrap();
    let wrong = written(room.path(), "w.toml", "format = 1\n[[task]]\nname = \"t\\u001b[31m\"\nwork = 5\n");
    for arguments in [
        vec!["--json"],
        vec!["nonsense", "--json"],
        vec!["run", "--json"],
        vec!["plan", "nowhere.toml", "--json"],
        vec!["--json", "plan", &wrong],
        vec!["report", "--json", "/dev/zero"],
        vec!["compare", "--json", "/dev/null", "/dev/null"],
        vec!["trace", "show", "nowhere.dat", "--json"],
        vec!["latency", "--json", "--for", "0s"],
        vec!["reproduce", "--json", "nothing"],
        vec!["lab", "--json", "check", "nowhere", "6.1"],
        vec!["apply", "--json", &wrong],
    ] {
        let output = surety(&arguments);
        let out = text(&output);
        let document: Value =
            serde_json::from_str(&out).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {out}"));
        assert_eq!(document["schema"], "surety.error/1", "{arguments:?}");
        assert_eq!(document["exit"].as_i64(), output.status.code().map(i64::from), "{arguments:?}");
        assert!(document["error"]["what"].as_str().is_some_and(|what| !what.is_empty()), "{arguments:?}");
        assert!(!errors(&output).contains('\u{1b}'), "{arguments:?}");
    }
}

#[test]
fn changed_inputs_neither_panic_nor_hang() {
    let tool = root().join("tools/extremes");
    let output = Command::new(tool)
        .args(["--count", "80", "--seed", "1", "--binary"])
        .arg(program())
        .arg("--keep")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("extremes"))
        .output();
    match output {
        Err(error) => println!("SKIPPED: python3 is missing: {error}"),
        Ok(output) => assert!(output.status.success(), "{}{}", text(&output), errors(&output)),
    }
}

/// Without a writer it was waited for in `open`, which no signal ended.
#[test]
fn a_pipe_is_read_to_its_end_and_a_signal_ends_the_wait_for_its_writer() {
    let room = tempfile::tempdir().unwrap();
    let pipe = room.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let begun = |verb: &str| {
        let mut command = Command::new(program());
        command.arg(verb).arg(&pipe).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for verb in ["report", "run", "plan"] {
        let mut child = begun(verb);
        let opened = format!("/proc/{}/fd", child.id());
        let is_pipe = |link: std::fs::DirEntry| std::fs::read_link(link.path()).is_ok_and(|to| to == pipe);
        while !std::fs::read_dir(&opened).is_ok_and(|all| all.flatten().any(is_pipe)) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it opened the pipe");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{verb}: {}", errors(&output));
    }
    let file = written(room.path(), "w.toml", &format!("{TASK}period = \"10ms\"\nwork = \"1ms\"\n"));
    let record = surety(&["run", &file, "--on", "sim", "--for", "1s", "--json"]).stdout;
    let child = begun("report");
    std::fs::write(&pipe, &record).unwrap();
    let output = child.wait_with_output().unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown["results"].as_array().map(Vec::len), Some(1), "{}", errors(&output));
}

/// The document of the run stood before that of the failure to write its page.
#[test]
fn outputs_are_checked_before_the_run_and_one_document_is_printed() {
    let room = tempfile::tempdir().unwrap();
    let task = format!("{TASK}period = \"10ms\"\nwork = \"1ms\"\n");
    let file = written(room.path(), "w.toml", &task);
    let (page, same) =
        (room.path().join("page"), room.path().join("../").join(room.path().file_name().unwrap()));
    let (page, same) = (page.to_str().unwrap(), same.join("page"));
    for (outputs, says) in [
        (vec!["--html", "/nowhere/at/all"], "/nowhere/at/all cannot be written"),
        (vec!["--html", page, "--tap", same.to_str().unwrap(), "--expect", "missed == 0"], "another output"),
        (vec!["--html", &file], "a file that is read"),
    ] {
        let output =
            surety(&[&["run", &file, "--on", "sim", "--for", "1s", "--json"], &outputs[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema"], "surety.error/1");
        assert!(document["error"]["what"].as_str().unwrap().contains(says), "{document}");
    }
    assert_eq!((std::fs::read_to_string(&file).unwrap(), Path::new(page).exists()), (task, false));
}
