//! The simulator against kernels of the lab: what they did is stored, what the simulator does is computed now, and the page
//! `docs/validation.md` holds how far apart they are. The test fails where a number is further off than the page says.
//!
//! The stored files are made by `make lab`, the page's table by this test with `SURETY_VALIDATION=write`.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::Value;

use crate::common::{errors, root, surety, text};

/// Errors are written to a hundredth.
const ROUNDING: f64 = 0.005;
/// The comments around the table of the page that is made here.
const INTERRUPTS: (&str, &str) = ("<!-- begin of the interrupts -->\n", "<!-- end of the interrupts -->\n");
const DISKS: (&str, &str) = ("<!-- begin of the disks -->\n", "<!-- end of the disks -->\n");
/// Experiments with interrupt threads whose records are stored.
const EXPERIMENTS: [&str; 4] = ["irq-disk", "irq-copy", "network-thread", "player-network"];

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

fn page() -> PathBuf {
    root().join("docs/validation.md")
}

/// The page before its table, the table, and what comes after it.
fn parts<'p>(page: &'p str, (begin, end): (&str, &str)) -> (&'p str, &'p str, &'p str) {
    let (before, rest) = page.split_once(begin).unwrap();
    let (table, after) = rest.split_once(end).unwrap();
    (before, table, after)
}

/// Held while the page is written.
static PAGE: Mutex<()> = Mutex::new(());

/// Whether the page is to be written; then a table of it is.
fn is_written(of: (&str, &str), table: &str) -> bool {
    let _alone = PAGE.lock().unwrap();
    let is_asked = std::env::var("SURETY_VALIDATION").is_ok_and(|word| word == "write");
    if is_asked {
        let text = std::fs::read_to_string(page()).unwrap();
        let (before, _, after) = parts(&text, of);
        std::fs::write(page(), format!("{before}{}{table}{}{after}", of.0, of.1)).unwrap();
    }
    is_asked
}

/// What kernels did is stored; what the simulator says of it is computed now. The page has both.
#[test]
fn the_page_says_how_far_the_simulator_is_from_the_kernels() {
    let stored = root().join("crates/sim/tests/golden-lab/validation");
    let _alone = PAGE.lock().unwrap();
    let copy = std::env::temp_dir().join(format!("validation-{}.md", std::process::id()));
    std::fs::copy(page(), &copy).unwrap();
    let words =
        ["validate", "--stored", "--records", stored.to_str().unwrap(), "--write", copy.to_str().unwrap()];
    let output = surety(&words);
    let now = std::fs::read_to_string(&copy).unwrap();
    std::fs::remove_file(&copy).unwrap();
    // What has no cause yet stands on the page as such.
    let open = i32::from(now.contains("| not known |"));
    assert_eq!(output.status.code(), Some(open), "{}{}", text(&output), errors(&output));
    if std::env::var("SURETY_VALIDATION").is_ok_and(|word| word == "write") {
        return std::fs::write(page(), now).unwrap();
    }
    let written = std::fs::read_to_string(page()).unwrap();
    let differs = written.lines().zip(now.lines()).find(|(written, now)| written != now);
    assert!(written == now, "the page says other than now (SURETY_VALIDATION=write): {differs:?}");
}

/// A file is compared as the scenario of the list with the same text, without its causes; what is kept of another text is not compared.
#[test]
fn a_workload_file_is_compared_as_a_scenario_of_the_list_is() {
    const TITLE: &str = "three reservations and FIFO";
    const KERNEL: &str = "lab:6.12-cloud";
    let stored = root().join("crates/sim/tests/golden-lab/validation");
    let validate = |name: &str, records: &std::path::Path| {
        let records = records.to_str().unwrap();
        let output = surety(&["validate", name, "--stored", "--on", KERNEL, "--records", records, "--json"]);
        let document: Value = serde_json::from_str(&text(&output)).unwrap_or_default();
        (output.status.code(), document)
    };
    let (code, listed) = validate(TITLE, &stored);
    assert_eq!(code, Some(0));
    let kept: Value = golden("validation/lab-6.12-cloud.json")["scenarios"][TITLE].clone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    let name = file.to_str().unwrap();
    let keep = |kept: &Value| {
        let document = serde_json::json!({ "schema": "surety.validation/1", "kernel": KERNEL, "scenarios": { name: kept } });
        std::fs::write(directory.path().join("lab-6.12-cloud.json"), document.to_string()).unwrap();
    };
    std::fs::write(&file, kept["workload"].as_str().unwrap()).unwrap();
    let (code, document) = validate(name, directory.path());
    assert_eq!(
        (code, document["not_compared"][0]["why"].as_str().map(|why| why.contains("nothing is kept"))),
        (Some(4), Some(true))
    );
    keep(&kept);
    let (code, mine) = validate(name, directory.path());
    assert_eq!(code, Some(0), "{mine}");
    let values = |document: &Value| -> Vec<(f64, f64, f64)> {
        let of = |row: &Value| {
            let [one, other, third] =
                ["measured", "simulated", "tolerance"].map(|key| row[key].as_f64().unwrap());
            (one, other, third)
        };
        document["figures"].as_array().unwrap().iter().map(of).collect()
    };
    assert!(values(&mine).len() > 5);
    assert_eq!(values(&mine), values(&listed));
    // A share that the kernel did not give.
    let mut wrong = kept.clone();
    wrong["runs"][0][0]["figures"]["share"] = 99.0.into();
    keep(&wrong);
    let (code, found) = validate(name, directory.path());
    let outside: Vec<&Value> =
        found["figures"].as_array().unwrap().iter().filter(|row| row["agrees"] == false).collect();
    assert_eq!((code, outside.len(), outside[0]["cause"].is_null()), (Some(1), 1, true), "{outside:?}");
    let altered = format!("{}\n# another\n", kept["workload"].as_str().unwrap());
    std::fs::write(&file, altered).unwrap();
    let (code, found) = validate(name, directory.path());
    let why = found["not_compared"][0]["why"].as_str().unwrap_or_default();
    assert!(code == Some(4) && why.contains("of another workload"), "{code:?} {found}");
    for (name, words) in
        [("FIFO besides fair", "did you mean `FIFO beside fair`?"), ("none.toml", "none.toml cannot be read")]
    {
        let output = surety(&["validate", name, "--stored", "--on", KERNEL]);
        assert!(output.status.code() == Some(2) && errors(&output).contains(words), "{}", errors(&output));
    }
}

/// What the command says of the stored records, as JSON.
fn validity() -> Value {
    let stored = root().join("crates/sim/tests/golden-lab/validation");
    let output = surety(&["validate", "--stored", "--records", stored.to_str().unwrap(), "--json"]);
    serde_json::from_str(&text(&output)).unwrap()
}

#[test]
fn every_cause_excuses_a_figure_of_the_records() {
    let document = validity();
    assert_eq!(document["causes_without_use"], serde_json::json!([]));
    let outside = document["figures"].as_array().unwrap().iter().filter(|row| row["agrees"] == false);
    assert!(outside.count() > 0, "the causes are of figures");
}

/// Of a thread without jobs its longest wait is what a reservation or a realtime policy promises, and what throttling takes.
#[test]
fn longest_waits_are_compared_on_every_kernel_of_the_lab() {
    let document = validity();
    for kernel in ["lab:6.1-cloud", "lab:6.12-cloud", "lab:7-cloud"] {
        for (scenario, activity) in [
            ("FIFO beside fair", "hog"),
            ("FIFO beside fair", "normal"),
            ("RR beside fair", "second"),
            ("DEADLINE 3/10, 5/20", "second"),
            ("two reclaimers", "second"),
        ] {
            let is_it = |row: &&Value| {
                row["kernel"] == kernel
                    && row["scenario"] == scenario
                    && row["activity"] == activity
                    && row["figure"] == "longest wait"
            };
            let found: Vec<&Value> = document["figures"].as_array().unwrap().iter().filter(is_it).collect();
            assert_eq!(found.len(), 1, "{kernel}, {scenario}, {activity}");
            assert!(found[0]["measured"].as_f64().unwrap() > 0.0, "{kernel}, {scenario}, {activity}");
        }
        let of_threads = document["figures"].as_array().unwrap().iter();
        let spreads = of_threads.filter(|row| row["kernel"] == kernel && row["figure"] == "spread");
        let equal = spreads.filter(|row| row["scenario"].as_str().unwrap().contains("equal spinners"));
        // On one, two and four CPUs; nine spinners on eight were run on one kernel.
        let on_eight = usize::from(kernel == "lab:6.12-cloud");
        assert_eq!(equal.count(), 3 + on_eight, "{kernel}");
    }
}

/// On several CPUs of the lab where threads are placed is compared, and times of those alone beside which the other CPUs idle.
#[test]
fn placement_is_compared_on_several_cpus_of_the_lab_and_times_where_others_idle() {
    let document = validity();
    let of = |scenario: &str, figure: &str| {
        let rows = document["figures"].as_array().unwrap().iter();
        let is_it = |row: &&Value| {
            row["kernel"] == "lab:6.12-cloud" && row["scenario"] == scenario && row["figure"] == figure
        };
        rows.filter(is_it).count()
    };
    for (scenario, free) in [("3 equal spinners on 2 CPUs", 1), ("4 periodic tasks on 2 CPUs", 4)] {
        let found = ["on one CPU", "migrations"].map(|figure| of(scenario, figure));
        assert_eq!(found, [free, free], "{scenario}");
        assert_eq!(of(scenario, "response p50"), 0, "{scenario}: virtual CPUs take turns");
    }
    for (scenario, timed) in
        [("one periodic task on 2 CPUs", 1), ("fair, FIFO and DEADLINE that never overlap on 2 CPUs", 3)]
    {
        assert_eq!(of(scenario, "response p99"), timed, "{scenario}");
    }
}

/// Analysis and simulation of an experiment beside its stored records, computed now.
fn beside_records(experiment: &str) -> Value {
    let file = root().join("crates/sim/tests/golden-lab").join(format!("{experiment}.json"));
    let output = surety(&["reproduce", experiment, "--from", file.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    serde_json::from_str(&text(&output)).unwrap()
}

/// A row of an experiment: its names; what the lab gave, the analysis and the simulator say, in percent or seconds.
fn interrupts(experiment: &str) -> Vec<(String, [f64; 3])> {
    let sheet = beside_records(experiment);
    let columns = sheet["columns"].as_array().unwrap();
    let find = |is: &dyn Fn(&str) -> bool| {
        columns.iter().position(|column| is(column["title"].as_str().unwrap())).expect("the column is there")
    };
    let places =
        [find(&|title| title.starts_with("lab:")), find(&|t| t == "analysis"), find(&|t| t == "simulation")];
    let scale = if columns[places[0]]["unit"] == "%" { 100.0 } else { 1.0 };
    let rows = sheet["rows"].as_array().unwrap().iter().map(|row| {
        let keys: Vec<&str> = row["keys"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let key = keys.iter().filter(|key| !key.is_empty()).copied().collect::<Vec<_>>().join(", ");
        let values = places.map(|place| row["cells"][place]["value"].as_f64().unwrap() * scale);
        (format!("{experiment} | {key}"), values)
    });
    rows.collect()
}

#[test]
fn the_rules_of_interrupt_threads_are_no_further_from_the_lab_than_the_page_says() {
    let rows: Vec<(String, [f64; 3])> = EXPERIMENTS.iter().flat_map(|name| interrupts(name)).collect();
    let mut table =
        "| experiment | row | lab | analysis | error | simulator | error |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    for (key, [lab, analysis, sim]) in &rows {
        let _ = writeln!(
            table,
            "| {key} | {lab:.2} | {analysis:.2} | {:+.2} | {sim:.2} | {:+.2} |",
            analysis - lab,
            sim - lab
        );
    }
    if is_written(INTERRUPTS, &table) {
        return;
    }
    let text = std::fs::read_to_string(page()).unwrap();
    let (_, written, _) = parts(&text, INTERRUPTS);
    for (line, (key, [lab, analysis, sim])) in written.lines().skip(2).zip(&rows) {
        let rest =
            line.strip_prefix(&format!("| {key} |")).unwrap_or_else(|| panic!("{line} is not of {key}"));
        let cells: Vec<f64> = rest.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
        let now = [*lab, *analysis, analysis - lab, *sim, sim - lab];
        assert_eq!(cells.len(), now.len(), "{line}");
        for (written, now) in cells.iter().zip(now) {
            assert!((written - now).abs() <= ROUNDING + 1e-9, "{line}: now {now}");
        }
        // Both foretell a stock kernel within a tenth.
        for foretold in [analysis, sim] {
            assert!((foretold / lab - 1.0).abs() < 0.1, "{key}: {lab} {foretold}");
        }
    }
    assert_eq!(written.lines().count(), rows.len() + 2, "the page has other lines");
}

/// Rows of `abiss-be` that a kernel ran: name; what is left to the reader, in MB/s, and which part of the streams' accesses was late, in percent, of a kernel and
/// simulated beside its record.
fn disks() -> Vec<(String, [f64; 2], [f64; 2])> {
    let file = root().join("crates/sim/tests/golden-lab/abiss-be.json");
    let words = ["reproduce", "abiss-be", "--from", file.to_str().unwrap(), "--on", "sim", "--json"];
    let output = surety(&words);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let sheet: Value = serde_json::from_str(&text(&output)).unwrap();
    let columns = sheet["columns"].as_array().unwrap();
    let mut found = Vec::new();
    for streams in ["1 stream", "4 streams"] {
        let place = |title: String| {
            let is = |column: &Value| column["title"] == title.as_str();
            columns.iter().position(is).unwrap_or_else(|| panic!("{title}"))
        };
        let worlds = ["lab:6.12-cloud", "sim"];
        let rates = worlds.map(|world| place(format!("{world}, {streams}")));
        let lates = worlds.map(|world| place(format!("{world} late, {streams}")));
        for row in sheet["rows"].as_array().unwrap() {
            let value = |at: usize| row["cells"][at]["value"].as_f64();
            if value(rates[0]).is_none() {
                continue;
            }
            let key = format!("{} | {streams}", row["keys"][0].as_str().unwrap());
            found.push((
                key,
                rates.map(|at| value(at).unwrap() / 1e6),
                lates.map(|at| value(at).unwrap() * 100.0),
            ));
        }
    }
    found
}

/// The kernel's own I/O schedulers on a modelled disk, and the simulator with that kernel's driver and files: within a tenth, and as the page says.
#[test]
fn streams_on_a_modelled_disk_are_no_further_from_the_lab_than_the_page_says() {
    let rows = disks();
    assert_eq!(rows.len(), 12);
    let mut table =
        "| scheduler | beside | reader, lab | simulator | error | late, lab | simulator | error |\n\
                     |---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for (key, [lab, sim], [late, sim_late]) in &rows {
        let _ = writeln!(
            table,
            "| {key} | {lab:.3} MB/s | {sim:.3} MB/s | {:+.1} % | {late:.1} % | {sim_late:.1} % | {:+.1} |",
            (sim / lab - 1.0) * 100.0,
            sim_late - late
        );
    }
    if is_written(DISKS, &table) {
        return;
    }
    for (key, [lab, sim], [late, sim_late]) in &rows {
        assert!((sim / lab - 1.0).abs() < 0.1, "{key}: {lab} {sim}");
        assert!((sim_late - late).abs() < 10.0, "{key}: {late} {sim_late}");
    }
    let text = std::fs::read_to_string(page()).unwrap();
    let (_, written, _) = parts(&text, DISKS);
    assert_eq!(written, table, "SURETY_VALIDATION=write writes the page");
}

/// Nothing was lost where the safe rule holds, and something far beyond the paper's.
#[test]
fn the_lab_lost_packets_on_one_side_of_the_rules_only() {
    let sheet = beside_records("irq-loss");
    let columns = sheet["columns"].as_array().unwrap();
    let lost = columns.iter().position(|c| c["title"].as_str().unwrap().ends_with(" lost")).unwrap();
    let rows = sheet["rows"].as_array().unwrap();
    let of = |verdict: &str| -> Vec<f64> {
        let of_it = rows.iter().filter(|row| row["keys"][1] == verdict);
        of_it.map(|row| row["cells"][lost]["value"].as_f64().unwrap()).collect()
    };
    let safe = [of("all hold"), of("both hold")].concat();
    assert!(safe.len() >= 5 && safe.iter().all(|lost| *lost == 0.0), "{safe:?}");
    assert!(of("none holds").last().is_some_and(|lost| *lost > 0.05), "{rows:?}");
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
