//! The simulator against kernels of the lab: what they did is stored, what the simulator does is computed now, and the page
//! `docs/validation.md` holds how far apart they are. The test fails where a number is further off than the page says.
//!
//! The stored files are made by `make lab`, the page's table by this test with `SURETY_VALIDATION=write`.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::{errors, root, surety, text};

/// Errors are written to a hundredth.
const ROUNDING: f64 = 0.005;
const BEGIN: &str = "<!-- begin of the table -->\n";
const END: &str = "<!-- end of the table -->\n";

/// One number of one kernel.
struct Row {
    /// Scenario, thread, metric, kernel.
    names: Vec<String>,
    lab: f64,
    sim: f64,
}

impl Row {
    /// In points of a CPU or milliseconds, with its sign.
    fn error(&self) -> f64 {
        self.sim - self.lab
    }

    fn key(&self) -> String {
        self.names.join(" | ")
    }
}

fn golden(name: &str) -> Value {
    let file = root().join("crates/sim/tests/golden-lab").join(name);
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Which simulator stands for a kernel of the lab.
fn simulator_of(kernel: &str) -> String {
    format!("sim:linux-{}", kernel.trim_start_matches("lab:"))
}

/// The titles of the columns of worlds.
fn worlds(document: &Value) -> Vec<(usize, String)> {
    let columns = document["columns"].as_array().unwrap().iter().enumerate();
    let of_worlds = columns.filter(|(_, column)| column["origin"] == "world");
    of_worlds.map(|(index, column)| (index, column["title"].as_str().unwrap().to_owned())).collect()
}

/// The golden run's seed and duration, in the simulator.
fn simulated(experiment: &str, golden: &Value) -> Value {
    let duration = format!("{}ns", golden["duration_ns"].as_u64().unwrap());
    let seed = golden["seed"].as_u64().unwrap().to_string();
    let mut words = vec!["reproduce", experiment, "--json", "--for", &duration, "--seed", &seed];
    let simulators: Vec<String> = worlds(golden).iter().map(|(_, kernel)| simulator_of(kernel)).collect();
    for simulator in &simulators {
        words.extend(["--on", simulator]);
    }
    let output = surety(&words);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    serde_json::from_str(&text(&output)).unwrap()
}

fn rows(golden: &Value, sim: &Value) -> Vec<Row> {
    let (kernels, simulators) = (worlds(golden), worlds(sim));
    assert!(!kernels.is_empty());
    let (golden, sim) = (golden["rows"].as_array().unwrap(), sim["rows"].as_array().unwrap());
    assert_eq!(golden.len(), sim.len(), "refresh the stored file: the scenarios are others now");
    let mut found = Vec::new();
    for (stored, simulated) in golden.iter().zip(sim) {
        assert_eq!(
            stored["keys"], simulated["keys"],
            "refresh the stored file: the scenarios are others now"
        );
        let keys = stored["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap().to_owned());
        let keys: Vec<String> = keys.collect();
        for ((at, kernel), (sim_at, _)) in kernels.iter().zip(&simulators) {
            let value = |row: &Value, at: usize| row["cells"][at]["value"].as_f64();
            let names = [keys.clone(), vec![kernel.clone()]].concat();
            let lab = value(stored, *at).unwrap_or_else(|| panic!("{names:?} has no value of the lab"));
            let sim = value(simulated, *sim_at).unwrap_or_else(|| panic!("{names:?} has no simulated value"));
            found.push(Row { names, lab, sim });
        }
    }
    found
}

fn table(golden: &Value, rows: &[Row]) -> String {
    let mut out = "| scenario | thread | metric | kernel | lab | simulator | error |\n".to_owned();
    out += "|---|---|---|---|---|---|---|\n";
    for row in rows {
        let _ = writeln!(out, "| {} | {:.2} | {:.2} | {:+.2} |", row.key(), row.lab, row.sim, row.error());
    }
    out.push('\n');
    for note in golden["notes"].as_array().unwrap().iter().filter_map(Value::as_str) {
        if note.starts_with("lab:") {
            let _ = writeln!(out, "- {note}");
        }
    }
    out
}

fn page() -> PathBuf {
    root().join("docs/validation.md")
}

/// The page before its table, the table, and what comes after it.
fn parts(page: &str) -> (&str, &str, &str) {
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    (before, table, after)
}

#[test]
fn the_simulator_is_no_further_from_the_kernels_than_the_page_says() {
    let golden = golden("schedulers.json");
    let rows = rows(&golden, &simulated("schedulers", &golden));
    let text = std::fs::read_to_string(page()).unwrap();
    let (before, written, after) = parts(&text);
    if std::env::var("SURETY_VALIDATION").is_ok_and(|word| word == "write") {
        let new = format!("{before}{BEGIN}{}{END}{after}", table(&golden, &rows));
        std::fs::write(page(), new).unwrap();
        return;
    }
    let lines = written.lines().filter(|line| line.starts_with("| ")).count();
    assert_eq!(lines, rows.len() + 1, "the page has a line for what is no longer compared");
    for row in &rows {
        let line = written.lines().find(|l| l.starts_with(&format!("| {} |", row.key())));
        let line = line.unwrap_or_else(|| panic!("the page has no line for {}", row.key()));
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let number = |cell: usize| cells[cell].parse::<f64>().unwrap();
        let (lab, sim, error) = (number(4), number(5), number(6));
        assert!((lab - row.lab).abs() <= ROUNDING + 1e-9, "{}: the page has another value", row.key());
        // Where it got nearer, the page is to say so: `SURETY_VALIDATION=write`.
        assert!(
            (sim - row.sim).abs() <= ROUNDING + 1e-9,
            "{}: simulated {}, the page has {sim}",
            row.key(),
            row.sim
        );
        assert!(
            row.error().abs() <= error.abs() + ROUNDING + 1e-9,
            "{}: the error was {error:+.2} and is {:+.2}",
            row.key(),
            row.error()
        );
    }
}

/// Shares by weight: the kernels' and the simulator's are within a point of the rule and of each other.
#[test]
fn spinners_have_the_shares_of_their_weights_in_the_kernels_and_in_the_simulator() {
    let golden = golden("spinner.json");
    let columns = golden["columns"].as_array().unwrap();
    let rule = columns.iter().position(|column| column["title"] == "by weight").unwrap();
    let by_weight = |row: &Value| row["cells"][rule]["value"].as_f64().unwrap();
    let rows_of_rule = golden["rows"].as_array().unwrap();
    let found = rows(&golden, &simulated("spinner", &golden));
    assert_eq!(found.len(), 2 * rows_of_rule.len());
    for (pair, row) in found.chunks(2).zip(rows_of_rule) {
        for kernel in pair {
            for share in [kernel.lab, kernel.sim] {
                assert!((share - by_weight(row)).abs() < 0.01, "{}: {share}", kernel.key());
            }
            assert!(kernel.error().abs() < 0.01, "{}: {:+.4}", kernel.key(), kernel.error());
        }
    }
}
