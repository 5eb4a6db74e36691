//! What experiments have in common whose figures stand beside what a rule says of them, since none was published: rows of one workload on
//! one CPU, each on a machine of its own where it says so.

use surety_model::formats::toml;
use surety_model::platform::Platform;
use surety_model::record::{ActivityRecord, CpuTimers, Distribution, Record};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, WorldError};
use surety_units::Nanos;

use super::schedulers::{SIMULATED, run_alone};
use crate::{Bench, Builds, Cell, Column, Origin, Request, Sheet, SheetRow, cell_of, one_cpu};

/// Before it is looked at: the first period of throttling ends while nobody is throttled, so the first wait is nearly two.
const SETTLES: Nanos = Nanos::from_secs(3);

/// A figure of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Share,
    /// The longest it waited.
    Gap,
    /// Jobs beyond their deadline, of all.
    Missed,
    /// The mean response of all threads, and the longest of any, of jobs that were done.
    Mean,
    Longest,
    /// Timer interrupts of the CPU that had no tick in them, and how often it stopped being idle; where the world counts them.
    Interrupts,
    IdleExits,
}

impl Figure {
    fn in_words(self) -> &'static str {
        match self {
            Figure::Share => "share, %",
            Figure::Gap => "longest wait, ms",
            Figure::Missed => "missed, %",
            Figure::Mean => "mean response, ms",
            Figure::Longest => "longest response, ms",
            Figure::Interrupts => "timer interrupts, 1/s",
            Figure::IdleExits => "exits from idle, 1/s",
        }
    }

    /// In percent, milliseconds, or of a second; that of the CPU or of all threads whatever thread is asked for.
    fn of(self, record: &Record, thread: &str) -> Option<f64> {
        let activity = || record.activity(thread);
        let longest = |a: &ActivityRecord| a.response.as_ref()?.observed()?.histogram.max();
        let of_cpu = |count: fn(&CpuTimers) -> u64| {
            let counts = record.in_force.timers.first().map(count)?;
            Some(counts as f64 / record.duration?.as_secs_f64())
        };
        match self {
            Figure::Share => activity()?.share.as_ref().map(|share| share.fraction() * 100.0),
            Figure::Gap => activity()?.longest_gap.map(Nanos::as_millis_f64),
            Figure::Missed => activity()?.miss_ratio().map(|ratio| ratio * 100.0),
            Figure::Mean => {
                let mut all = (0, 0.0);
                for activity in &record.activities {
                    let Some(of) = activity.response.as_ref().and_then(Distribution::observed) else {
                        continue;
                    };
                    let count = of.moments.count();
                    all = (all.0 + count, all.1 + of.moments.mean()? * count as f64);
                }
                (all.0 > 0).then(|| all.1 / all.0 as f64 / 1e6)
            }
            Figure::Longest => {
                let longest = record.activities.iter().filter_map(longest).max();
                longest.map(|ns| ns as f64 / 1e6)
            }
            Figure::Interrupts => of_cpu(|timers| timers.interrupts),
            Figure::IdleExits => of_cpu(|timers| timers.idle_exits),
        }
    }
}

/// A machine made from a simulated one; `None`: as it is, and on kernels too.
pub(super) type Change = Option<fn(Platform) -> Platform>;

/// A run and what is taken of it.
pub(super) struct Setting {
    pub name: String,
    pub machine: Change,
    /// As a file.
    pub workload: String,
    /// Threads by name, what is taken of each, and what the rule says of it.
    pub figures: Vec<(&'static str, Figure, Option<f64>)>,
}

/// A workload of one CPU, from its file without the format.
pub(super) fn workload(text: &str) -> Workload {
    toml::read("setting", &format!("format = 1\n{text}")).expect("the workloads are read by a test")
}

fn run(
    bench: &mut dyn Bench,
    (index, world): (usize, &str),
    setting: &Setting,
    options: &RunOptions,
) -> Result<Record, WorldError> {
    let label = format!("{world}: {}", setting.name);
    let workload = workload(&setting.workload);
    let Some(change) = setting.machine else {
        return run_alone(bench, (index, world), &workload, options, &label);
    };
    let named = world.strip_prefix(SIMULATED).and_then(|name| Platform::named(name, 1));
    let platform = change(named.unwrap_or_else(|| Platform::linux_6_18(1)));
    let platform = Platform { name: format!("{} with {}", platform.name, setting.name), ..platform };
    bench.run_on(&platform, index, &workload, options, &label)
}

/// Runs all and sets their figures beside the rules.
pub(super) fn sheet(
    bench: &mut dyn Bench,
    request: &Request,
    settings: &[Setting],
    notes: Vec<String>,
) -> Result<Sheet, WorldError> {
    let options = one_cpu(&request.options);
    let options = RunOptions { warm_up: options.warm_up.max(SETTLES), ..options };
    let worlds = bench.worlds();
    let mut columns = vec![Column { title: "by the rule".to_owned(), unit: "", origin: Origin::Theory }];
    columns.extend(worlds.iter().map(|w| Column { title: w.clone(), unit: "", origin: Origin::World }));
    let (mut rows, mut builds) = (Vec::new(), Builds::default());
    for setting in settings {
        let mut records = Vec::new();
        for (index, world) in worlds.iter().enumerate() {
            let result = run(bench, (index, world), setting, &options);
            builds.add(world, &result);
            records.push(result);
        }
        for (thread, figure, rule) in &setting.figures {
            let mut cells = vec![rule.map_or(Cell::Empty, Cell::plain)];
            for result in &records {
                cells.push(cell_of(result.clone(), |record| {
                    figure.of(record, thread).map_or(Cell::Empty, |value| Cell::against(value, *rule))
                })?);
            }
            let keys = vec![setting.name.clone(), (*thread).to_owned(), figure.in_words().to_owned()];
            rows.push(SheetRow::new(keys, cells));
        }
    }
    let notes = notes.into_iter().chain(builds.0).collect();
    Ok(Sheet { keys: vec!["setting", "thread", "figure"], columns, rows, notes, drawn: Vec::new() })
}

/// Every setting simulated for some seconds: what each figure is and what the rule says.
#[cfg(test)]
pub(super) fn simulated(
    settings: &[Setting],
    seconds: i64,
) -> Vec<(String, Option<f64>, Result<f64, String>)> {
    use surety_model::world::{Unobserved, World as _};
    let duration = Nanos::from_secs(seconds);
    let options = RunOptions { duration, warm_up: SETTLES, ..RunOptions::default() };
    let mut found = Vec::new();
    for setting in settings {
        let platform =
            setting.machine.map_or_else(|| Platform::linux_6_18(1), |of| of(Platform::linux_6_18(1)));
        let world = surety_sim::SimWorld::new(platform);
        let record = world.run(&workload(&setting.workload), &options, &mut Unobserved);
        for (thread, figure, rule) in &setting.figures {
            let value = record
                .as_ref()
                .map_err(ToString::to_string)
                .map(|record| figure.of(record, thread).expect("the thread has the figure"));
            found.push((format!("{} {thread} {}", setting.name, figure.in_words()), *rule, value));
        }
    }
    found
}
