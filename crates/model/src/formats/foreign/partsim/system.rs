//! [`System`]: the machine of a PARTSim run, `system.yml` with the tables it names: islands of CPUs, how each schedules, and how fast its CPUs
//! are.
//!
//! A CPU keeps the frequency that its island begins with, as in PARTSim, whose program changes none. So what a task computes on its
//! island takes one time, whatever else an island could be.

use std::collections::BTreeMap;

use crate::formats::foreign::item::{Item, Value};
use crate::formats::foreign::object::{Object, integer, text};
use crate::formats::foreign::{Reading, yaml};
use crate::source::{Diagnostics, nearest};

/// CPUs of a system at most.
const CPUS_MAX: u32 = 1024;

/// What `system.yml` says.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    pub(super) islands: Vec<Island>,
}

/// CPUs with one frequency.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Island {
    pub(super) name: String,
    /// The first of its CPUs, by the numbers of `startcpu`.
    pub(super) first: u32,
    pub(super) cpus: u32,
    pub(super) scheduler: Scheduler,
    /// Whether a task may run on any of its CPUs.
    pub(super) is_global: bool,
    speed: Speed,
}

/// A scheduler of PARTSim's that has a counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduler {
    Edf,
    /// Who joined the queue first.
    TrueFifo,
}

/// Not among them is `rm`, which in PARTSim gives all tasks the priority 0: what would be simulated by its name is not what its program does.
const SCHEDULERS: [(&str, Scheduler); 2] = [("edf", Scheduler::Edf), ("truefifo", Scheduler::TrueFifo)];

/// What is done in a tick, by the workload of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Speed {
    /// 1 of each: there is no system file.
    One,
    Of(BTreeMap<String, f64>),
}

impl System {
    /// One island of this many CPUs on which EDF is partitioned and everything takes the time it says.
    pub(super) fn plain(cpus: u32) -> System {
        let name = String::new();
        let (scheduler, speed) = (Scheduler::Edf, Speed::One);
        System { islands: vec![Island { name, first: 0, cpus, scheduler, is_global: false, speed }] }
    }

    /// Reads `system.yml`. `name` is what messages call it, and `table` gives the text of a table that it names, beside it.
    ///
    /// # Errors
    /// Everything that is wrong with it, or that changes what is played and has no counterpart.
    pub fn read(
        name: &str,
        text: &str,
        table: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<System, Diagnostics> {
        let mut reading = Reading::default();
        let islands = islands(&mut reading, text, table).unwrap_or_default();
        if reading.diagnostics.is_empty() {
            return Ok(System { islands });
        }
        let mut list = reading.diagnostics;
        list.sort_by_key(|diagnostic| diagnostic.span.start);
        Err(Diagnostics { name: name.to_owned(), text: text.to_owned(), list })
    }

    /// How many CPUs it has.
    pub fn cpus(&self) -> u32 {
        self.islands.iter().map(|island| island.cpus).sum()
    }

    /// The island of a CPU.
    pub(super) fn island_of(&self, cpu: u32) -> Option<&Island> {
        self.islands.iter().find(|island| (island.first..island.first + island.cpus).contains(&cpu))
    }
}

impl Island {
    /// The ticks that an instruction takes, rounded up as PARTSim does; as many as there are where it is slower.
    ///
    /// # Errors
    /// A workload of which it does not know how fast it is, and which ones it knows.
    pub(super) fn ticks(&self, cost: i64, workload: &str) -> Result<i64, String> {
        let Speed::Of(speeds) = &self.speed else { return Ok(cost) };
        let speed = match speeds.get(workload) {
            Some(speed) => *speed,
            None => {
                let known = speeds.keys().filter(|known| *known != "idle").map(String::as_str);
                return Err(match nearest(workload, known.clone()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it knows {}", known.collect::<Vec<_>>().join(", ")),
                });
            }
        };
        Ok((cost as f64 / speed).ceil() as i64)
    }
}

/// A speed model of the file.
struct Model<'j> {
    name: &'j str,
    rows: Rows<'j>,
}

enum Rows<'j> {
    /// `1 / (a + b/f + c exp(-f/d))` with the frequency f in kHz, by workload (Balsini, Pannocchi, Cucinotta, 2019).
    Formula(Vec<(&'j str, [f64; 4])>),
    /// By frequency in MHz and workload.
    Table(Vec<(u64, String, f64)>),
}

fn islands(
    reading: &mut Reading,
    text: &str,
    table: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Option<Vec<Island>> {
    let root = yaml::parse(text).map_err(|diagnostic| reading.diagnostics.push(diagnostic)).ok()?;
    let root = Object::of(reading, "the file", &root)?;
    let list = root.get(reading, "cpu_islands");
    let models = match root.get(reading, "power_models") {
        Some(item) => models(reading, item, table),
        None => Vec::new(),
    };
    root.finish(reading, |_| false);
    let Some(Item { value: Value::Array(items), .. }) = list else {
        let help = "write `cpu_islands:` and a list below it".to_owned();
        let message = "there are no `cpu_islands`: this is no system file of PARTSim".to_owned();
        reading.wrong(&root.span, message, Some(help));
        return None;
    };
    if items.is_empty() {
        let help = "write an island with its `numcpus`".to_owned();
        reading.wrong(&root.span_of("cpu_islands"), "`cpu_islands` is empty".to_owned(), Some(help));
    }
    let mut islands: Vec<Island> = Vec::new();
    for item in items {
        let first = islands.iter().map(|island| island.cpus).sum();
        islands.extend(island(reading, item, first, &models));
    }
    Some(islands)
}

fn island(reading: &mut Reading, item: &Item, first: u32, models: &[Model<'_>]) -> Option<Island> {
    let object = Object::of(reading, "an island", item)?;
    let name = object.text(reading, "name").unwrap_or_default().to_owned();
    let cpus = object.integer(reading, "numcpus", 1..=i64::from(CPUS_MAX - first.min(CPUS_MAX - 1)));
    let kernel = object.get(reading, "kernel");
    let freqs = object.get(reading, "freqs");
    let base = object.integer(reading, "base_freq", 0..=i64::from(i32::MAX)).unwrap_or(0);
    let model = object.get(reading, "speed_model");
    // What power is drawn changes nothing that is played.
    for key in ["volts", "power_model"] {
        object.get(reading, key);
    }
    object.finish(reading, |_| false);
    let mut lacks = |key: &str| {
        let message = format!("the island has no `{key}`");
        reading.wrong(&object.span, message, Some("PARTSim needs it, too".to_owned()));
    };
    let (Some(kernel), Some(freqs), Some(model), Some(cpus)) = (kernel, freqs, model, cpus) else {
        for (key, is_there) in [
            ("kernel", kernel.is_some()),
            ("freqs", freqs.is_some()),
            ("speed_model", model.is_some()),
            ("numcpus", cpus.is_some() || object.has("numcpus")),
        ] {
            if !is_there {
                lacks(key);
            }
        }
        return None;
    };
    let (scheduler, is_global) = of_kernel(reading, kernel)?;
    let frequency = frequency(reading, freqs, base)?;
    let wanted = text(reading, "speed_model", model)?;
    let Some(known) = models.iter().find(|known| known.name == wanted) else {
        let near = nearest(wanted, models.iter().map(|model| model.name));
        let help = near.map(|near| format!("did you mean `{near}`?"));
        reading.wrong(&model.span, format!("there is no power model `{wanted}`"), help);
        return None;
    };
    let speed = Speed::Of(known.at(frequency));
    let cpus = u32::try_from(cpus).expect("within its limits");
    Some(Island { name, first, cpus, scheduler, is_global, speed })
}

/// How an island schedules, and whether all of its CPUs share a queue.
fn of_kernel(reading: &mut Reading, item: &Item) -> Option<(Scheduler, bool)> {
    let object = Object::of(reading, "`kernel`", item)?;
    object.get(reading, "name");
    let scheduler = object.text(reading, "scheduler");
    let placement = object.word(reading, "task_placement", &["partitioned", "global"]);
    object.finish(reading, |_| false);
    let word = scheduler.unwrap_or_default();
    let found = SCHEDULERS.iter().find(|(known, _)| *known == word);
    if found.is_none() {
        let known: Vec<&str> = SCHEDULERS.iter().map(|(known, _)| *known).collect();
        let help = format!("name one of {}", known.join(", "));
        let span = object.span_of("scheduler");
        reading.wrong(&span, format!("the scheduler `{word}` has no counterpart"), Some(help));
    }
    if placement.is_none() && !object.has("task_placement") {
        let help = "write `task_placement: partitioned`, or global".to_owned();
        reading.wrong(&object.span, "the kernel has no `task_placement`".to_owned(), Some(help));
    }
    Some((found?.1, placement? == "global"))
}

/// The frequency that CPUs keep, MHz: `base_freq`, else the highest.
fn frequency(reading: &mut Reading, freqs: &Item, base: i64) -> Option<u64> {
    let Value::Array(items) = &freqs.value else {
        let help = "write `freqs: [1000]`".to_owned();
        reading.wrong(&freqs.span, "`freqs` is a list of MHz".to_owned(), Some(help));
        return None;
    };
    let all: Option<Vec<i64>> =
        items.iter().map(|item| integer(reading, "freqs", item, 1..=i64::from(i32::MAX))).collect();
    let all = all?;
    let highest = all.iter().copied().max();
    if base > 0 && !all.contains(&base) {
        let help = "PARTSim runs at the highest one then; leave `base_freq` out for that".to_owned();
        reading.wrong(&freqs.span, format!("`base_freq` {base} is none of `freqs`"), Some(help));
        return None;
    }
    let Some(highest) = highest else {
        reading.wrong(&freqs.span, "`freqs` is empty".to_owned(), Some("write `freqs: [1000]`".to_owned()));
        return None;
    };
    u64::try_from(if base > 0 { base } else { highest }).ok()
}

fn models<'j>(
    reading: &mut Reading,
    item: &'j Item,
    table: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Vec<Model<'j>> {
    let Value::Array(items) = &item.value else {
        reading.wrong(&item.span, "`power_models` is a list".to_owned(), None);
        return Vec::new();
    };
    items.iter().filter_map(|item| model(reading, item, table)).collect()
}

fn model<'j>(
    reading: &mut Reading,
    item: &'j Item,
    table: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Option<Model<'j>> {
    let object = Object::of(reading, "a power model", item)?;
    let name = object.text(reading, "name").unwrap_or_default();
    let kind = object.word(reading, "type", &["balsini_pannocchi", "table_based"]);
    let file = object.get(reading, "filename").or_else(|| object.get(reading, "fname"));
    let params = object.get(reading, "params");
    object.finish(reading, |_| false);
    let rows = match (kind?, file, params) {
        ("table_based", Some(file), None) => {
            let named = text(reading, "filename", file)?;
            let rows = table(named).and_then(|text| table_rows(name, &text));
            Rows::Table(rows.map_err(|why| reading.wrong(&file.span, format!("{named}: {why}"), None)).ok()?)
        }
        ("balsini_pannocchi", None, Some(params)) => Rows::Formula(formulas(reading, params)?),
        (kind, ..) => {
            let help = "`balsini_pannocchi` has `params`, `table_based` a `filename`".to_owned();
            reading.wrong(&object.span, format!("a model `{kind}` of this form is not read"), Some(help));
            return None;
        }
    };
    Some(Model { name, rows })
}

/// The parameters of each workload.
fn formulas<'j>(reading: &mut Reading, params: &'j Item) -> Option<Vec<(&'j str, [f64; 4])>> {
    let Value::Array(items) = &params.value else {
        reading.wrong(&params.span, "`params` is a list".to_owned(), None);
        return None;
    };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        let object = Object::of(reading, "parameters", item)?;
        let workload = object.text(reading, "workload");
        object.get(reading, "power_params");
        let speed = object.get(reading, "speed_params");
        object.finish(reading, |_| false);
        let numbers = speed.and_then(|item| match &item.value {
            Value::Array(items) => {
                let numbers: Vec<f64> = items.iter().filter_map(of_number).collect();
                <[f64; 4]>::try_from(numbers).ok()
            }
            _ => None,
        });
        let (Some(workload), Some(numbers)) = (workload, numbers) else {
            let help = "write `workload: bzip2` and `speed_params: [1, 0, 0, 0]`".to_owned();
            reading.wrong(&object.span, "a workload has four `speed_params`".to_owned(), Some(help));
            return None;
        };
        found.push((workload, numbers));
    }
    Some(found)
}

fn of_number(item: &Item) -> Option<f64> {
    match &item.value {
        Value::Number(number) => number.parse().ok(),
        _ => None,
    }
}

/// The rows of a model in a table with the columns `model`, `freq`, `workload` and `speed`.
fn table_rows(model: &str, text: &str) -> Result<Vec<(u64, String, f64)>, String> {
    let mut lines = text.lines().map(|line| line.split(',').map(str::trim).collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let column = |name: &str| {
        header.iter().position(|column| *column == name).ok_or_else(|| format!("it has no column `{name}`"))
    };
    let (of_model, of_freq) = (column("model")?, column("freq")?);
    let (of_workload, of_speed) = (column("workload")?, column("speed")?);
    let mut rows = Vec::new();
    for (line, cells) in lines.enumerate() {
        let cell = |column: usize| cells.get(column).copied().unwrap_or_default();
        if cell(of_model) != model {
            continue;
        }
        let wrong = |what: &str, cell: &str| format!("line {}: `{cell}` is no {what}", line + 2);
        let freq = cell(of_freq).parse().map_err(|_| wrong("frequency", cell(of_freq)))?;
        let speed = cell(of_speed).parse().map_err(|_| wrong("speed", cell(of_speed)))?;
        rows.push((freq, cell(of_workload).to_owned(), speed));
    }
    if rows.is_empty() {
        return Err(format!("it has no row of the model `{model}`"));
    }
    Ok(rows)
}

impl Model<'_> {
    /// The speed of each workload at a frequency in MHz, where it is above nothing.
    fn at(&self, frequency: u64) -> BTreeMap<String, f64> {
        let speeds: BTreeMap<String, f64> = match &self.rows {
            Rows::Formula(formulas) => {
                let khz = frequency as f64 * 1000.0;
                let speed = |[a, b, c, d]: [f64; 4]| 1.0 / (a + b / khz + c * libm::exp(-khz / d));
                formulas.iter().map(|(workload, params)| ((*workload).to_owned(), speed(*params))).collect()
            }
            Rows::Table(rows) => {
                let fits = rows.iter().filter(|(freq, ..)| *freq == frequency);
                fits.map(|(_, workload, speed)| (workload.clone(), *speed)).collect()
            }
        };
        speeds.into_iter().filter(|(_, speed)| *speed > 0.0 && speed.is_finite()).collect()
    }
}

/// The island in words.
pub(super) fn described(island: &Island) -> String {
    if island.name.is_empty() { "the system".to_owned() } else { format!("island `{}`", island.name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XU3: &str = "cpu_islands:
  - name: little
    numcpus: 4
    kernel:
      # name:
      scheduler: edf
      task_placement: partitioned
    volts:
      [0.92, 1.25]
    freqs:
      [200, 1400]
    base_freq: 200
    power_model: little
    speed_model: little
  - name: big
    numcpus: 2
    kernel:
      scheduler: truefifo
      task_placement: global
    volts: [1.0]
    freqs: [1000]
    power_model: m
    speed_model: big
power_models:
  - name: little
    type: balsini_pannocchi
    params:
      - workload: idle
        power_params: [0.001, 1e-5, 124.535, 1.0e-10]
        speed_params: [1, 0, 0, 0]
      - workload: bzip2
        power_params: [0, 0, 0, 0]
        speed_params: [0.0256054, 2.9809e+6, 0.602631, 8.13712e+9]
  - name: big
    type: table_based
    filename: big.csv
";
    const CSV: &str =
        "model ,freq ,workload ,power ,speed\nbig ,1000 ,hash ,0.1 ,0.25\nbig ,2000 ,hash ,0.1 ,1\n";

    fn read(text: &str) -> Result<System, String> {
        let mut table =
            |name: &str| if name == "big.csv" { Ok(CSV.to_owned()) } else { Err("gone".to_owned()) };
        System::read("system.yml", text, &mut table).map_err(|error| error.to_string())
    }

    /// 1 / (0.0256 + 2.9809e6 / 2e5 + 0.602631 exp(-2e5 / 8.13712e9)) = 1 / 15.5327 of bzip2 at 200 MHz.
    #[test]
    fn an_island_is_as_fast_as_its_model_at_its_frequency() {
        let system = read(XU3).unwrap();
        assert_eq!(system.cpus(), 6);
        let little = system.island_of(3).unwrap();
        assert_eq!((little.ticks(1, "bzip2"), little.ticks(1000, "bzip2")), (Ok(16), Ok(15_533)));
        let big = system.island_of(4).unwrap();
        assert_eq!((big.scheduler, big.is_global, big.first), (Scheduler::TrueFifo, true, 4));
        assert_eq!(
            (big.ticks(5, "hash"), big.ticks(5, "hassh")),
            (Ok(20), Err("did you mean `hash`?".to_owned()))
        );
        assert!(system.island_of(6).is_none());
    }

    #[test]
    fn a_system_without_cpus_is_refused() {
        let told = read("power_models: []\ncpu_islands: []\n").unwrap_err();
        assert!(told.contains("system.yml:2:1: `cpu_islands` is empty (write an island"), "{told}");
    }

    #[test]
    fn what_changes_what_is_played_is_refused_with_its_place() {
        for (from, to, expected) in [
            (
                "scheduler: edf",
                "scheduler: rr",
                "6:7: the scheduler `rr` has no counterpart (name one of edf, truefifo)",
            ),
            ("base_freq: 200", "base_freq: 300", "11:7: `base_freq` 300 is none of `freqs`"),
            (
                "speed_model: little",
                "speed_model: litle",
                "14:18: there is no power model `litle` (did you mean `little`?)",
            ),
            ("filename: big.csv", "filename: other.csv", "other.csv: gone"),
            ("name: big\n    type", "name: m\n    type", "it has no row of the model `m`"),
            ("    speed_model: big\n", "", "the island has no `speed_model`"),
            ("task_placement: global", "task_placement: none", "`none` is no task_placement"),
            ("numcpus: 2", "numcpus: 2\n    smt: 2", "unknown key `smt`"),
            ("cpu_islands", "islands", "there are no `cpu_islands`"),
        ] {
            let told = read(&XU3.replacen(from, to, 1)).expect_err(to);
            assert!(told.contains(expected), "{to}\n{told}");
        }
    }
}
