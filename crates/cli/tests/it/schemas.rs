//! The JSON Schemas of `docs/schemas`: there is one for every document, and what the program prints keeps to it.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use surety_kernel::facts::MachineFacts;
use surety_kernel::scripted::ScriptedKernel;
use surety_kernel::{Kernel, RealKernel};

use crate::common::{errors, root, surety, text};

/// What of a document is not as its schema says, by place. Knows the words that our schemas use, and refuses others.
fn faults(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        match word.as_str() {
            "$schema" | "$id" | "title" => {}
            "const" if rule == value => {}
            "const" => found.push(format!("{at} is {value}, not {rule}")),
            "type" => {
                let is = |name: &Value| match name.as_str().unwrap() {
                    "null" => value.is_null(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    "string" => value.is_string(),
                    "array" => value.is_array(),
                    "object" => value.is_object(),
                    other => panic!("there is no type {other}"),
                };
                if !rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is)) {
                    found.push(format!("{at} is {value}, which is no {rule}"));
                }
            }
            "required" => {
                let Some(object) = value.as_object() else { continue };
                let names = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                found.extend(
                    names.filter(|n| !object.contains_key(*n)).map(|n| format!("{at}.{n} is missing")),
                );
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    value.get(name).inspect(|inner| faults(rule, inner, &format!("{at}.{name}"), found));
                }
            }
            "items" => {
                for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                    faults(rule, inner, &format!("{at}[{index}]"), found);
                }
            }
            "additionalProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    faults(rule, inner, &format!("{at}.{name}"), found);
                }
            }
            other => panic!("{at}: this test does not know `{other}`"),
        }
    }
}

/// What kernels did in the scenarios of the validation.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/tests/golden-lab/validation");

/// Holds a document against the schema that it names, and returns that name.
pub fn keeps_to_its_schema(command: &[&str], document: &str) -> String {
    let document: Value = serde_json::from_str(document).unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let name = document["schema"].as_str().unwrap().to_owned();
    let schema = schema_of(&name);
    let mut found = Vec::new();
    faults(&schema, &document, "", &mut found);
    assert!(found.is_empty(), "{command:?} against {name}: {}", found.join("\n"));
    name
}

fn schema_of(name: &str) -> Value {
    let file = name.strip_prefix("surety.").unwrap().replace('/', "-");
    let path = root().join("docs/schemas").join(format!("{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn documents_keep_to_their_published_schemas() {
    let room = tempfile::tempdir().unwrap();
    let at = |name: &str| room.path().join(name).to_str().unwrap().to_owned();
    let (trace, result, plan) = (at("t.dat"), at("r.json"), at("plan.json"));
    let (player, net) = ("examples/video-player.toml", "examples/irq-reservation.toml");
    let varied = "examples/policies-under-load.toml";
    surety(&["run", net, "--on", "sim", "--for", "300ms", "--trace", &trace]);
    std::fs::write(&result, surety(&["run", player, "--on", "sim", "--for", "1s", "--json"]).stdout).unwrap();
    let mut seen = BTreeSet::new();
    for command in [
        vec!["run", player, "--on", "sim", "analysis", "--for", "1s", "--expect", "p99 < 1ms", "missed == 0"],
        vec!["run", net, "--on", "sim", "--for", "300ms"],
        vec!["run", varied, "--on", "sim", "--for", "300ms"],
        vec![
            "run",
            player,
            "--on",
            "sim",
            "--for",
            "300ms",
            "--ab",
            "task.player.work=14ms,15ms",
            "--pairs",
            "3",
        ],
        vec!["plan", player, "--output", &plan],
        vec!["plan", player, "--front"],
        vec!["plan", "examples/control-loop.toml", "--tests"],
        vec!["plan", "--check", &plan],
        vec!["plan", "nowhere.toml"],
        vec!["report", &result, "crates/import/tests/data/cyclictest-h.txt"],
        vec!["compare", &result, &result],
        vec!["trace", "stats", &trace],
        vec!["trace", "stats", &trace, "--comm", "player", "--distribution"],
        vec!["trace", "explain", &trace, "--comm", "player"],
        vec!["trace", "timehist", &trace, "--summary"],
        vec!["trace", "irqs", &trace],
        vec!["trace", "fit", &trace],
        vec!["trace", "reserve", &trace, "--comm", "player", "--response", "40ms", "--at", "90%"],
        vec!["trace", "convert", &trace, &at("t.csv")],
        vec!["reproduce"],
        vec!["validate", "FIFO beside fair", "--stored", "--on", "lab:6.12-cloud", "--records", KEPT],
        vec!["lab", "list"],
        vec!["device", "list"],
        vec!["doctor"],
        vec!["init", "--template", "server"],
        vec!["run", player, "--on", "host", "--for", "300ms"],
    ] {
        let output = surety(&[command.as_slice(), &["--json", "--quiet"]].concat());
        assert!(!text(&output).is_empty(), "{command:?}: {}", errors(&output));
        seen.insert(keeps_to_its_schema(&command, &text(&output)));
    }
    seen.insert(keeps_to_its_schema(&["plan", "--output"], &std::fs::read_to_string(&plan).unwrap()));
    assert!(seen.len() >= 17, "{seen:?}");
    // A schema that takes everything would be none.
    let (schema, mut found) = (schema_of("surety.record/1"), Vec::new());
    let wrong = serde_json::json!({ "schema": "surety.record/1", "results": [{ "label": 5 }], "exit": "no" });
    faults(&schema, &wrong, "", &mut found);
    assert!(found.len() > 10 && found.iter().any(|f| f.starts_with(".exit is \"no\"")), "{found:?}");
}

/// Nothing of what one machine says of itself has to be there on another.
#[test]
fn facts_of_a_machine_that_says_nothing_keep_to_the_schema_too() {
    let facts = |kernel: &dyn Kernel| serde_json::to_value(MachineFacts::read(kernel)).unwrap();
    let schema = &schema_of("surety.doctor/1")["properties"]["facts"];
    for facts in [facts(&ScriptedKernel::new(3)), facts(&RealKernel::new())] {
        let mut found = Vec::new();
        faults(schema, &facts, "", &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn every_document_that_is_written_has_a_schema() {
    let mut names = BTreeSet::new();
    for krate in ["cli", "report", "model", "lab"] {
        collect(&root().join("crates").join(krate).join("src"), &mut names);
    }
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert_eq!(schema_of(&name)["properties"]["schema"]["const"], name.as_str());
    }
}

/// The names of schemas in the sources below a directory, outside of tests.
fn collect(directory: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            collect(&entry, names);
            continue;
        }
        let source = std::fs::read_to_string(&entry).unwrap_or_default();
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for start in source.split("\"surety.").skip(1) {
            let name = start.split('"').next().unwrap_or_default();
            let is_schema = name.rsplit_once('/').is_some_and(|(_, version)| version.parse::<u32>().is_ok());
            names.extend(is_schema.then(|| format!("surety.{name}")));
        }
    }
}
