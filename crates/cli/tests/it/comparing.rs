//! `surety run --ab`, `[vary]` and `surety compare`, as their users run them: the form of what they say. How often they
//! err is for `crates/compare/tests` and `tools/compare-trials`.

use crate::common::{alone, surety};

const TICK: &str = "format = 1\n[[task]]\nname = \"tick\"\nperiod = \"4ms\"\nwork = { kind = \"uniform\", low = \"900us\", \
                    high = \"1100us\" }\npromise = [\"response <= 4ms @ 99%\"]\n";

fn written(directory: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn text(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn json(output: &std::process::Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(output)))
}

#[test]
fn sides_of_the_simulator_differ_where_they_should() {
    let directory = tempfile::tempdir().unwrap();
    let file = written(&directory, "tick.toml", TICK);
    let ab = |values: &str| {
        let values = format!("task.tick.period={values}");
        surety(&["run", &file, "--on", "sim", "--for", "1s", "--ab", &values, "--json"])
    };
    let equal = ab("4ms,4ms");
    assert_eq!(equal.status.code(), Some(0), "{}", text(&equal));
    let document = json(&equal);
    assert_eq!(document["schema"], "surety.comparison/1");
    // Paired draws: the same seed gives the same work.
    assert!(document["metrics"].as_array().unwrap().iter().all(|m| m["a"] == m["b"]), "{document}");
    let lower = ab("4ms,8ms");
    let document = json(&lower);
    let share = document["metrics"].as_array().unwrap().iter().find(|m| m["metric"] == "share").unwrap();
    assert_eq!(share["verdict"], "lower", "{document}");
    assert_eq!(share["cliffs_delta"], -1.0);
}

/// Half of the activations are skipped: the quantile among them was once as long as the run.
#[test]
fn times_that_never_came_are_no_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let task = |work: &str| {
        TICK.replace("work = { kind = \"uniform\", low = \"900us\", high = \"1100us\" }", work)
            .replace("promise", "late = \"skip\"\npromise")
    };
    let results = |name: &str, work: &str, lasts: &str| {
        let file = written(&directory, &format!("{name}.toml"), &task(work));
        let output = surety(&["run", &file, "--on", "sim", "--for", lasts, "--repeat", "5", "--json"]);
        written(&directory, &format!("{name}.json"), &String::from_utf8_lossy(&output.stdout))
    };
    let in_time = results("in-time", "work = \"1ms\"", "1s");
    let late = results("late", "work = \"5ms\"", "1s");
    let longer = results("longer", "work = \"5ms\"", "1500ms");
    let told = surety(&["compare", &in_time, &late, "--width", "120", "--metric", "p95"]);
    let said = text(&told);
    assert_eq!(told.status.code(), Some(1), "{said}");
    let row = said.lines().find(|line| line.trim_start().starts_with("tick response p95")).unwrap();
    let row: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(row[3..9], ["1.000", "ms", "never", "-", "-", "-"], "{said}");
    assert!(said.contains("tick response p95 (never in 0 of 5 runs of A, in 5 of 5 of B)"), "{said}");
    // Five are open at the end, one of each run.
    assert!(said.contains("0 of 1250 activations of tick in A and 630 of 1250 in B never ended"), "{said}");
    let document = json(&surety(&["compare", &in_time, &late, "--json", "--metric", "p95"]));
    let metric = &document["metrics"][0];
    assert_eq!(metric["b"], serde_json::json!([null, null, null, null, null]), "{document}");
    assert!(
        metric["median_b"].is_null() && metric["shift"].is_null() && metric["ratio"].is_null(),
        "{metric}"
    );
    assert_eq!(metric["median_a"], 1_000_000.0);
    // Never is never, however long the run was.
    let same = surety(&["compare", &late, &longer, "--metric", "response p95"]);
    assert!(text(&same).contains("the same"), "{}", text(&same));
    assert_eq!(same.status.code(), Some(0), "{}", text(&same));
    // Longer than any limit, and than the run was.
    for limit in ["p95 <= +50%", "p95 <= +2s", "p95 <= +9000%"] {
        let expected = ["compare", &in_time, &late, "--expect", limit, "--metric", "response p95"];
        let failed = surety(&expected);
        assert_eq!(failed.status.code(), Some(1), "{limit}: {}", text(&failed));
        assert!(text(&failed).contains("never in 0 of 5 runs of A"), "{}", text(&failed));
    }
    let expected = ["compare", &late, &in_time, "--expect", "p95 <= -2s", "--metric", "response p95"];
    assert_eq!(surety(&expected).status.code(), Some(0));
}

#[test]
fn written_results_are_compared_and_few_of_them_tell_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let a = written(&directory, "a.toml", TICK);
    let b = written(&directory, "b.toml", &TICK.replace("900us", "1200us").replace("1100us", "1400us"));
    let results = |file: &str, repeat: &str, name: &str| {
        let output = surety(&["run", file, "--on", "sim", "--for", "1s", "--repeat", repeat, "--json"]);
        written(&directory, name, &String::from_utf8_lossy(&output.stdout))
    };
    let (a8, b8) = (results(&a, "8", "a8.json"), results(&b, "8", "b8.json"));
    let worse = surety(&["compare", &a8, &b8]);
    assert_eq!(worse.status.code(), Some(1), "{}", text(&worse));
    assert!(text(&worse).contains("B is worse in tick response p50"), "{}", text(&worse));
    let against = |file: &str, more: &[&str]| {
        let run = ["run", file, "--on", "sim", "--for", "1s", "--repeat", "8", "--baseline", &a8];
        surety(&[&run, more].concat())
    };
    let worse = against(&b, &["--json"]);
    assert_eq!(worse.status.code(), Some(1), "{}", text(&worse));
    assert_eq!((&json(&worse)["exit"], &json(&worse)["b"]["label"]), (&1.into(), &"this run".into()));
    let same = against(&a, &[]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same));
    assert!(text(&same).contains("(the baseline), 8 runs"), "{}", text(&same));
    assert_eq!(against(&a, &["--expect", "max < 1ns"]).status.code(), Some(1), "expectations count, too");
    assert_eq!(against(&a, &["--on", "analysis"]).status.code(), Some(2), "runs of one kind");
    for (expected, code, said) in [
        ("p50 <= +90%", 0, "held"),
        ("upper(p50) <= +90%", 0, "held"),
        ("p50 <= +5%", 1, "failed"),
        ("tick.response.p50 <= +10us", 1, "failed"),
        ("p50 >= +5%", 0, "held"),
        ("nobody.p50 <= +5%", 4, "cannot tell"),
    ] {
        let held = surety(&["compare", &a8, &b8, "--json", "--expect", expected]);
        assert_eq!(held.status.code(), Some(code), "{expected}: {}", text(&held));
        let document = json(&held);
        assert_eq!(document["expectations"][0]["standing"], said, "{document}");
        assert_eq!(document["exit"], code);
    }
    let slip = surety(&["compare", &a8, &b8, "--expect", "p50 <= 5"]);
    assert_eq!(slip.status.code(), Some(2), "{}", text(&slip));
    assert!(text(&slip).contains("is no change"), "{}", text(&slip));
    let (a1, b1) = (results(&a, "1", "a1.json"), results(&b, "1", "b1.json"));
    let single = surety(&["compare", &a1, &b1, "--expect", "p50 <= +90%"]);
    assert_eq!(single.status.code(), Some(4), "{}", text(&single));
    assert!(text(&single).contains("too few runs: needs"), "{}", text(&single));
    let open = surety(&["compare", &a1, "--against", &b1]);
    assert_eq!(open.status.code(), Some(4), "{}", text(&open));
    assert!(text(&open).contains("more runs of each"), "{}", text(&open));
    for (arguments, says) in [
        (vec!["compare", &a1], "--against"),
        (vec!["compare", &a1, &a], "line 1"),
        (vec!["compare", &a1, &b1, "--result", "nothing"], "no result has the label"),
        (vec!["run", &a, "--ab", "task.tick.polcy=fair,idle"], "did you mean `policy`"),
        (vec!["run", &a, "--ab", "task.tick.policy=fair"], "two values"),
    ] {
        let output = surety(&arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(says), "{arguments:?}: {}", text(&output));
    }
}

#[test]
fn combinations_stand_in_one_table_and_what_cannot_run_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let varied = format!(
        "{TICK}[[load]]\nname = \"busy\"\nkind = \"spinners\"\n[[group]]\nname = \"g\"\nweight = 50\n\
         [vary]\n\"load.busy.count\" = [0, 4]\nrows = [{{ \"load.busy.kind\" = \"spinners\" }}, \
         {{ \"load.busy.kind\" = \"ping-flood\" }}]\n"
    );
    let file = written(&directory, "vary.toml", &varied);
    let output = surety(&["run", &file, "--on", "sim", "--for", "500ms", "--repeat", "2", "--json"]);
    let document = json(&output);
    let results = document["results"].as_array().unwrap();
    let labels: Vec<&str> = results.iter().map(|r| r["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"kind=spinners count=4 #2"), "{labels:?}");
    let refused = results.iter().find(|r| r["label"] == "kind=ping-flood count=4").unwrap();
    assert!(refused["degraded"][0].as_str().unwrap().starts_with("could not be run"), "{refused}");
    let table = text(&surety(&["run", &file, "--on", "sim", "--for", "500ms"]));
    assert!(table.contains("kind=spinners count=4"), "{table}");
}

/// On the real machine only the form is looked at.
#[test]
fn equal_sides_on_this_machine() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = written(&directory, "tick.toml", TICK);
    let output = surety(&[
        "run",
        &file,
        "--ab",
        "task.tick.late=queue,queue",
        "--for",
        "50ms",
        "--warm-up",
        "5ms",
        "--no-trace",
        "--pairs",
        "6",
        "--json",
    ]);
    let document = json(&output);
    assert_eq!(document["a"]["runs"], 6, "{document}");
    for metric in document["metrics"].as_array().unwrap() {
        assert_eq!(metric["a"].as_array().unwrap().len(), 6, "{metric}");
        assert!(metric["floor"].is_number(), "{metric}");
    }
}
