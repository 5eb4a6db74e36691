//! Every kind of bad input: a message that names place, what, why and what to do, and the documented exit code.

use crate::common::{errors, surety, text};

/// A workload, the verb it is given to, the exit code, and what the message holds.
struct Case {
    text: &'static str,
    verb: &'static [&'static str],
    code: i32,
    says: &'static [&'static str],
}

const PLAYER: &str = "format = 1\n[[task]]\nname = \"player\"\nperiod = \"40ms\"\nwork = \"10ms\"\n";

#[test]
fn mistakes_in_workload_files() {
    let cases = [
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\nperod = \"40ms\"\nwork = \"5ms\"\n",
            verb: &["plan"],
            code: 2,
            says: &["w.toml:4:1", "perod", "period"],
        },
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\nperiod = 40\nwork = \"5ms\"\n",
            verb: &["plan"],
            code: 2,
            says: &["w.toml:4:10", "unit", "40ms"],
        },
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\nperiod = \"-40ms\"\nwork = \"5ms\"\n",
            verb: &["run"],
            code: 2,
            says: &["w.toml:4:10", "negative"],
        },
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\nwork = \"5ms\"\nreservation = { runtime = \"20us\", period = \"50us\" }\n",
            verb: &["run"],
            code: 2,
            says: &["w.toml:5:44", "100us"],
        },
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\nwork = \"5ms\"\nreservation = { runtime = \"50ms\", period = \"40ms\" }\n",
            verb: &["guarantee"],
            code: 2,
            says: &["w.toml:5:27", "longer than the period"],
        },
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\nwork = \"5ms\"\n[[load]]\nname = \"t\"\nkind = \"spinners\"\n",
            verb: &["run"],
            code: 2,
            says: &["w.toml:6:8", "two activities", "`t`"],
        },
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\nwork = \"5ms\"\npromise = [\"response <= 40ms @ 99\"]\n",
            verb: &["plan"],
            code: 2,
            says: &["w.toml:5:32", "unit"],
        },
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\ncommand = \"/no/such/program --now\"\npromise = \"share >= 10%\"\n",
            verb: &["run", "--for", "1s"],
            code: 2,
            says: &["w.toml:3:8", "/no/such/program"],
        },
        Case {
            text: "format = 1\n[[task]]\nname = \"t\"\ncommand = \"sh -c 'echo no disk >&2; exit 7'\"\npromise = \"share >= 10%\"\n",
            verb: &["run", "--for", "2s"],
            code: 2,
            says: &["w.toml:3:8", "no disk", "7"],
        },
        Case {
            text: "format = 1\n[[stream]]\nname = \"m\"\nfile = { make = \"1MB\" }\nrate = \"1MB/s\"\n",
            verb: &["run", "--on", "sim"],
            code: 2,
            says: &["w.toml:3:8", "stream.m"],
        },
        Case {
            text: "format = 1\n[vary]\n\"task.t.nice\" = [1]\n",
            verb: &["run"],
            code: 2,
            says: &["w.toml:3:1", "no task"],
        },
    ];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    for case in &cases {
        std::fs::write(&file, case.text).unwrap();
        check(case, file.to_str().unwrap());
    }
}

#[test]
fn promises_no_reservation_can_keep_are_refused_with_the_nearest_that_can() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    for (promise, says) in
        [("response <= 5ms @ 99%", ["refused", "nearest"]), ("share >= 99%", ["refused", "nearest"])]
    {
        std::fs::write(&file, format!("{PLAYER}promise = [\"{promise}\"]\n")).unwrap();
        let output = surety(&["plan", file.to_str().unwrap(), "--cpu-count", "2"]);
        let said = text(&output) + &errors(&output);
        assert_eq!(output.status.code(), Some(1), "{promise}: {said}");
        for word in says {
            assert!(said.contains(word), "{promise}: {said}");
        }
    }
}

#[test]
fn mistakes_on_the_command_line() {
    let cases = [
        Case {
            text: "",
            verb: &["run", "no-such-file.toml"],
            code: 2,
            says: &["no-such-file.toml", "cannot be read"],
        },
        Case {
            text: "",
            verb: &["run", "examples/video-player.toml", "--on", "simm"],
            code: 2,
            says: &["simm", "did you mean sim"],
        },
        Case {
            text: "",
            verb: &["run", "examples/video-player.toml", "--for", "25"],
            code: 2,
            says: &["unit"],
        },
        Case { text: "", verb: &["guarantee"], code: 2, says: &["WORKLOAD"] },
        Case { text: "", verb: &["guarantee", "--share", "0%", "--", "true"], code: 2, says: &["nothing"] },
        Case {
            text: "",
            verb: &["guarantee", "--share", "25%", "--load", "9x", "--", "true"],
            code: 2,
            says: &["9x"],
        },
        Case {
            text: "",
            verb: &["guarantee", "--share", "25%", "--for", "1s", "--", "/no/such/program"],
            code: 2,
            says: &["/no/such/program"],
        },
        Case { text: "", verb: &["apply", "no-such.plan", "--", "true"], code: 2, says: &["no-such.plan"] },
        Case { text: "", verb: &["frobnicate"], code: 2, says: &["frobnicate"] },
    ];
    for case in &cases {
        let output = surety(case.verb);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(case.code), "{:?}: {said}", case.verb);
        for word in case.says {
            assert!(said.contains(word), "{:?}: {said} lacks `{word}`", case.verb);
        }
    }
}

#[test]
fn cpus_that_are_not_there_are_the_machines_limit() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    std::fs::write(&file, PLAYER).unwrap();
    let output = surety(&["run", file.to_str().unwrap(), "--cpus", "1000", "--for", "1s"]);
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(errors(&output).contains("1000"), "{}", errors(&output));
}

fn check(case: &Case, file: &str) {
    let (verb, rest) = case.verb.split_first().unwrap();
    let mut arguments = vec![*verb, file];
    arguments.extend(rest);
    let output = surety(&arguments);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(case.code), "{}\n{said}", case.text);
    for word in case.says {
        assert!(said.contains(word), "{}\n{said}\nlacks `{word}`", case.text);
    }
}
