//! What a world cannot do is said before anything runs, proves nothing, and costs nobody else a finished result.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{errors, surety, text};

const RESERVED: &str = "format = 1\n[[task]]\nname = \"ctl\"\nperiod = \"10ms\"\nwork = \"1ms\"\n\
                        reservation = { runtime = \"2ms\", period = \"10ms\" }\npromise = [\"response <= 10ms\"]\n";

/// A workload file in a directory.
fn file(directory: &Path, name: &str, sections: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, format!("{RESERVED}{sections}")).unwrap();
    path
}

#[test]
fn nothing_is_proven_beside_interrupts_that_are_not_analysed() {
    let directory = tempfile::tempdir().unwrap();
    let verdict = |sections: &str| -> (String, String) {
        let path = file(directory.path(), "w.toml", sections);
        let output = surety(&["run", path.to_str().unwrap(), "--on", "analysis", "--for", "1s", "--json"]);
        let document: Value = serde_json::from_str(&text(&output)).unwrap();
        let task = &document["results"][0]["activities"][0]["promises"][0];
        let word = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
        (word("verdict"), task.to_string())
    };
    assert_eq!(verdict("").0, "kept");
    let irq = "[[irq]]\nname = \"net\"\ndevice = \"eth0\"\nwork = \"5us\"\n\
               arrivals = { kind = \"periodic\", period = \"100us\" }\n";
    assert_eq!(verdict(irq).0, "kept", "its thread is below every reservation");
    for (sections, why) in [
        (format!("{irq}hard = \"90us\"\n"), "irq.net has a hard handler"),
        (
            "[[stream]]\nname = \"film\"\nfile = { make = \"1MB\" }\nrate = \"1MB/s\"\n".to_owned(),
            "stream.film has interrupts work for it",
        ),
        (
            "[[startup]]\nname = \"app\"\ncommand = \"true\"\n".to_owned(),
            "startup.app has interrupts work for it",
        ),
    ] {
        let (outcome, whole) = verdict(&sections);
        assert_eq!(outcome, "not-observable", "{whole}");
        assert!(whole.contains(why), "{whole}");
    }
}

#[test]
fn the_loop_asks_this_kernel_before_it_runs_anything() {
    let directory = tempfile::tempdir().unwrap();
    let ran = directory.path().join("ran");
    let sections = format!(
        "[[task]]\nname = \"tool\"\ncommand = \"sleep 5\"\nprepare = \"touch {}\"\n\
         [link.l]\nrate = \"1MB/s\"\n[[flow]]\nname = \"key\"\nlink = \"l\"\n\
         arrivals = {{ kind = \"periodic\", period = \"10ms\" }}\n",
        ran.display()
    );
    let path = file(directory.path(), "w.toml", &sections);
    let output = surety(&["guarantee", path.to_str().unwrap(), "--for", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(errors(&output).contains("cannot run flow.key"), "{}", errors(&output));
    assert!(!ran.exists(), "nothing was prepared");
}

#[test]
fn links_are_refused_where_kernels_run_and_the_words_name_what_linux_has() {
    let directory = tempfile::tempdir().unwrap();
    let flow = "[link.l]\nrate = \"1MB/s\"\n[[flow]]\nname = \"f\"\nlink = \"l\"\n\
                arrivals = { kind = \"periodic\", period = \"10ms\" }\n";
    let path = file(directory.path(), "w.toml", flow);
    let path = path.to_str().unwrap();
    let output = surety(&["run", path, "--on", "host", "--for", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    assert!(errors(&output).contains("w.toml:11:8: host cannot run flow.f"), "{}", errors(&output));
    assert!(errors(&output).contains("`tc qdisc`"), "{}", errors(&output));
    // The task beside it is analysed, as packets take no time of it.
    let output = surety(&["run", path, "--on", "analysis", "sim", "--for", "1s", "--json"]);
    let document: Value = serde_json::from_str(&text(&output)).unwrap();
    let of = |world: usize, activity: usize| document["results"][world]["activities"][activity].clone();
    assert_eq!(of(0, 0)["promises"][0]["verdict"], "kept", "{document}");
    assert_eq!((of(1, 1)["kind"].as_str(), of(1, 1)["completed"].as_u64()), (Some("flow"), Some(100)));
}

#[test]
fn traces_that_cannot_be_written_are_told_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let path = file(directory.path(), "w.toml", "");
    std::fs::create_dir(directory.path().join("x.sim-linux-6.12.dat")).unwrap();
    let trace = directory.path().join("x.dat");
    let output = surety(&[
        "run",
        path.to_str().unwrap(),
        "--on",
        "sim",
        "sim:linux-6.12",
        "--for",
        "1s",
        "--trace",
        trace.to_str().unwrap(),
    ]);
    assert!(errors(&output).contains("x.sim-linux-6.12.dat"), "{}", errors(&output));
    assert!(!directory.path().join("x.sim.dat").exists(), "no world was run");
}

#[test]
fn what_was_not_run_says_why_wherever_it_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let stream = "[[stream]]\nname = \"film\"\nfile = { make = \"1MB\" }\nrate = \"1MB/s\"\n";
    let path = file(directory.path(), "w.toml", stream);
    let path = path.to_str().unwrap();
    let output = surety(&["run", path, "--on", "analysis", "sim", "--for", "1s", "--json"]);
    let document: Value = serde_json::from_str(&text(&output)).unwrap();
    let sim = document["results"].as_array().unwrap().iter().find(|r| r["label"] == "sim").unwrap();
    assert_eq!(sim["world"], "sim");
    let place = sim["degraded"][0].as_str().unwrap();
    assert!(place.contains("w.toml:9:8: sim cannot run stream.film"), "{place}");
    let results = directory.path().join("r.json");
    std::fs::write(&results, text(&output)).unwrap();
    let results = results.to_str().unwrap();
    let compared = surety(&["compare", results, results, "--result", "sim"]);
    assert!(errors(&compared).contains("sim: could not be run"), "{}", errors(&compared));
    // A load of the command line has no place in the file.
    let load = surety(&["run", path, "--on", "sim", "--load", "ping-flood", "--for", "1s"]);
    assert!(!errors(&load).contains("w.toml:7"), "{}", errors(&load));
}
