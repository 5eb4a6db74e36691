//! Control groups of a workload on the real machine: who is in them gets what their weights and quotas say.

use std::collections::BTreeMap;

use surety_kernel::RealKernel;
use surety_kernel::cpu_group::CpuHierarchy;

use crate::common::{alone, beside_guests, errors, is_root, surety};
use crate::lab::kernel;

const WORKLOAD: &str = r#"
format = 1
[[group]]
name = "ui"
weight = 300
[[group]]
name = "inner"
parent = "ui"
weight = 50
[[group]]
name = "limited"
quota = "2ms"
quota-period = "20ms"
burst = "1ms"
[[group]]
name = "nobody"
idle = true
[[task]]
name = "beside"
work = "forever"
group = "ui"
[[task]]
name = "inside"
work = "forever"
group = "inner"
[[load]]
name = "limited-spinner"
kind = "spinners"
group = "limited"
[[task]]
name = "rest"
REST
group = "nobody"
"#;

/// The result of a run: what each has of a CPU by name, and all that is said.
fn played(arguments: &[&str], workload: &str) -> (BTreeMap<String, f64>, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("groups.toml");
    std::fs::write(&file, workload).unwrap();
    let output = surety(&[&["--json", "run", file.to_str().unwrap()], arguments].concat());
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", errors(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let record = &document["results"][0];
    let activities = record["activities"].as_array().unwrap();
    let share =
        |a: &serde_json::Value| Some((a["name"].as_str()?.to_owned(), a["share"]["fraction"].as_f64()?));
    (activities.iter().filter_map(share).collect(), format!("{record:#}"))
}

/// Everybody is in the group that [`WORKLOAD`] names, which has what it says, and weights and quotas order who gets how much.
fn assert_divided((shares, said): &(BTreeMap<String, f64>, String), version: &str) {
    let [beside, inside, limited, rest] =
        ["beside", "inside", "limited-spinner", "rest"].map(|name| shares[name]);
    assert!(beside > inside && inside > limited && inside > rest, "{shares:?}");
    for words in ["weight 300", "weight 50", "weight 100, 2ms in 20ms, 1ms saved at most", "idle"] {
        assert!(said.contains(&format!("\"{words} (control groups, version {version}")), "{words}: {said}");
    }
    for group in ["ui", "inner", "limited", "nobody"] {
        assert!(said.contains(&format!(", in group {group}\"")), "{group}: {said}");
    }
    for words in ["not in group", "at the end; let no other run", "could not be removed"] {
        assert!(!said.contains(words), "{words}: {said}");
    }
}

#[test]
fn members_of_groups_get_what_weights_and_quotas_say() {
    if !is_root() || CpuHierarchy::find(&RealKernel::new()).is_none() {
        eprintln!("SKIPPED: only root makes control groups, where the `cpu` controller is mounted");
        return;
    }
    let _alone = alone();
    // A program is born in its group as threads are.
    let rest = "command = \"sh -c 'while :; do :; done'\"";
    let found = played(&["--on", "host", "--for", "6s", "--cpus", "0"], &WORKLOAD.replace("REST", rest));
    assert_divided(&found, "");
}

/// A spinner in a group on one CPU and two beside it in a group inside: all three share that CPU by their weights.
#[test]
fn members_of_groups_have_their_cpus() {
    let kernel = RealKernel::new();
    if !is_root() || CpuHierarchy::find(&kernel).is_none_or(|hierarchy| !hierarchy.has_cpusets(&kernel)) {
        eprintln!("SKIPPED: only root gives control groups CPUs, where the `cpuset` controller is mounted");
        return;
    }
    let _alone = alone();
    let workload = "format = 1\n[[group]]\nname = \"one\"\ncpus = \"0\"\n\
                    [[group]]\nname = \"inner\"\nparent = \"one\"\nweight = 300\n\
                    [[task]]\nname = \"beside\"\nwork = \"forever\"\ngroup = \"one\"\n\
                    [[load]]\nname = \"two\"\nkind = \"spinners\"\ncount = 2\ngroup = \"inner\"\n";
    let (shares, said) = played(&["--on", "host", "--for", "2s"], workload);
    // Of one CPU, whatever others take of it.
    assert!(shares["beside"] + shares["two"] <= 1.01 && shares["two"] > shares["beside"], "{shares:?}");
    assert!(said.contains("\"weight 100, CPUs 0 (control groups, version"), "{said}");
    assert_eq!(said.matches("\"affinity\": \"0\"").count(), 3, "{said}");
    assert!(said.contains(", in group one\"") && !said.contains("not in group"), "{said}");
}

/// Version 2, which the machine that runs this test may not have.
#[test]
fn members_of_groups_get_it_in_a_guest_too() {
    let Some(kernel) = kernel() else { return };
    let _guest = beside_guests();
    let world = format!("lab:{kernel}");
    let found = played(&["--on", &world, "--for", "3s"], &WORKLOAD.replace("REST", "work = \"forever\""));
    assert_divided(&found, "2)");
    // Weights inside one group, 1024 beside 512 of `inner`: what else the machine does takes the same part from both.
    let shares = &found.0;
    let ratio = shares["beside"] / shares["inside"];
    assert!((ratio - 2.0).abs() < 0.1, "{shares:?}");
    assert!(shares["limited-spinner"] < 0.11 && shares["rest"] < 0.05, "{shares:?}");
}
