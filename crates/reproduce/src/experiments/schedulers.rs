//! What each scheduling class gives threads of one CPU: shares of busy loops, how long each waits, and the responses of a
//! periodic thread, in the simulator and on real kernels of the lab.
//!
//! Nothing of it was published: what is held against a share is the rule of the class. The lab's values are what the
//! simulator is validated with. Times are chosen in milliseconds, so that what a switch or an interrupt costs, which a
//! guest counts in instructions, does not matter.

use surety_model::formats::toml;
use surety_model::platform::Platform;
use surety_model::record::{ActivityRecord, Record};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, WorldError};
use surety_units::Nanos;

use crate::{
    Bench, Builds, COMMON, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow, cell_of, one_cpu,
};

/// How a simulated platform is named.
pub(super) const SIMULATED: &str = "sim:";

/// Threads of one CPU.
struct Scenario {
    name: &'static str,
    workload: &'static str,
    /// What is taken of each thread.
    metrics: &'static [(&'static str, Metric)],
}

/// A number of a thread.
#[derive(Clone, Copy, Debug)]
enum Metric {
    /// Its share of the CPU, with what the rules of its class give, where the rule is the same in every kernel.
    Share(Option<f64>),
    /// The longest it waited.
    Gap,
    /// A quantile of its response times.
    Response(f64),
}

const SCENARIOS: [Scenario; 9] = [
    Scenario {
        name: "nice -8 beside 3",
        workload: "[[task]]\nname = 'high'\nwork = 'forever'\nnice = -8\n\
                   [[load]]\nname = 'normal'\nkind = 'spinners'\ncount = 3\n",
        // Weights 6100 and 1024.
        metrics: &[
            ("high", Metric::Share(Some(6100.0 / 9172.0))),
            ("normal", Metric::Share(Some(3072.0 / 9172.0))),
            ("high", Metric::Gap),
        ],
    },
    Scenario {
        name: "nice 0, 5, 10",
        workload: "[[task]]\nname = 'first'\nwork = 'forever'\n\
                   [[task]]\nname = 'second'\nwork = 'forever'\nnice = 5\n\
                   [[task]]\nname = 'third'\nwork = 'forever'\nnice = 10\n",
        // Weights 1024, 335 and 110.
        metrics: &[
            ("first", Metric::Share(Some(1024.0 / 1469.0))),
            ("second", Metric::Share(Some(335.0 / 1469.0))),
            ("third", Metric::Share(Some(110.0 / 1469.0))),
            ("third", Metric::Gap),
        ],
    },
    Scenario {
        name: "FIFO",
        workload: "[[task]]\nname = 'hog'\nwork = 'forever'\npolicy = 'fifo:10'\n\
                   [[task]]\nname = 'normal'\nwork = 'forever'\n",
        // 950 ms of every second by throttling, or 50 ms of every second by the server of the fair class.
        metrics: &[
            ("hog", Metric::Share(Some(0.95))),
            ("normal", Metric::Share(Some(0.05))),
            ("hog", Metric::Gap),
            ("normal", Metric::Gap),
        ],
    },
    Scenario {
        name: "RR",
        workload: "[[task]]\nname = 'first'\nwork = 'forever'\npolicy = 'rr:10'\n\
                   [[task]]\nname = 'second'\nwork = 'forever'\npolicy = 'rr:10'\n\
                   [[task]]\nname = 'normal'\nwork = 'forever'\n",
        metrics: &[
            ("first", Metric::Share(Some(0.475))),
            ("second", Metric::Share(Some(0.475))),
            ("normal", Metric::Share(Some(0.05))),
            ("second", Metric::Gap),
        ],
    },
    Scenario {
        name: "DEADLINE 2/10",
        workload: "[[task]]\nname = 'reserved'\nwork = 'forever'\n\
                   reservation = { runtime = '2ms', period = '10ms' }\n\
                   [[task]]\nname = 'normal'\nwork = 'forever'\n",
        metrics: &[
            ("reserved", Metric::Share(Some(0.2))),
            ("normal", Metric::Share(Some(0.8))),
            ("reserved", Metric::Gap),
            ("normal", Metric::Gap),
        ],
    },
    Scenario {
        name: "the same, reclaiming",
        workload: "[[task]]\nname = 'reserved'\nwork = 'forever'\n\
                   reservation = { runtime = '2ms', period = '10ms', reclaim = true }\n\
                   [[task]]\nname = 'normal'\nwork = 'forever'\n",
        // What GRUB hands out of the rest changed from kernel to kernel.
        metrics: &[("reserved", Metric::Share(None)), ("normal", Metric::Share(None))],
    },
    Scenario {
        name: "DEADLINE 3/10, 5/20",
        workload: "[[task]]\nname = 'first'\nwork = 'forever'\n\
                   reservation = { runtime = '3ms', period = '10ms' }\n\
                   [[task]]\nname = 'second'\nwork = 'forever'\n\
                   reservation = { runtime = '5ms', period = '20ms' }\n\
                   [[task]]\nname = 'normal'\nwork = 'forever'\n",
        metrics: &[
            ("first", Metric::Share(Some(0.3))),
            ("second", Metric::Share(Some(0.25))),
            ("normal", Metric::Share(Some(0.45))),
            ("second", Metric::Gap),
        ],
    },
    Scenario {
        name: "DEADLINE 12/40",
        workload: "[[task]]\nname = 'player'\nperiod = '40ms'\nwork = '10ms'\n\
                   reservation = { runtime = '12ms', period = '40ms' }\n\
                   [[task]]\nname = 'hog'\nwork = 'forever'\npolicy = 'fifo:10'\n",
        metrics: &[
            ("player", Metric::Share(Some(0.25))),
            ("player", Metric::Response(0.5)),
            ("player", Metric::Response(0.95)),
        ],
    },
    Scenario {
        name: "fair, 10 of 40 ms",
        workload: "[[task]]\nname = 'player'\nperiod = '40ms'\nwork = '10ms'\n\
                   [[load]]\nname = 'normal'\nkind = 'spinners'\ncount = 2\n",
        metrics: &[
            ("player", Metric::Share(Some(0.25))),
            ("player", Metric::Response(0.5)),
            ("player", Metric::Response(0.95)),
        ],
    },
];

fn workload(scenario: &Scenario) -> Workload {
    let text = format!("format = 1\n{}", scenario.workload);
    toml::read("scenario", &text).expect("the embedded workloads are read by a test")
}

impl Metric {
    fn in_words(self) -> String {
        match self {
            Metric::Share(_) => "share, %".to_owned(),
            Metric::Gap => "longest wait, ms".to_owned(),
            Metric::Response(q) => format!("response p{}, ms", (q * 100.0).round()),
        }
    }

    fn rule(self) -> Option<f64> {
        match self {
            Metric::Share(rule) => rule.map(|share| share * 100.0),
            Metric::Gap | Metric::Response(_) => None,
        }
    }

    /// In percent or milliseconds.
    fn of(self, activity: &ActivityRecord) -> Option<f64> {
        let millis = |time: Nanos| time.as_millis_f64();
        match self {
            Metric::Share(_) => activity.share.as_ref().map(|share| share.fraction() * 100.0),
            Metric::Gap => activity.longest_gap.map(millis),
            Metric::Response(q) => {
                let observed = activity.response.as_ref()?.observed()?;
                Some(millis(Nanos::new(i64::try_from(observed.histogram.quantile(q)?).ok()?)))
            }
        }
    }

    fn cell(self, record: &Record, thread: &str) -> Cell {
        let value = record.activity(thread).and_then(|activity| self.of(activity));
        value.map_or(Cell::Empty, |value| Cell::against(value, self.rule()))
    }
}

/// Runs a workload of one CPU: a simulated machine has no other.
pub(super) fn run_alone(
    bench: &mut dyn Bench,
    world: (usize, &str),
    workload: &Workload,
    options: &RunOptions,
    label: &str,
) -> Result<Record, WorldError> {
    let (index, word) = world;
    match word.strip_prefix(SIMULATED).and_then(|name| Platform::named(name, 1)) {
        Some(platform) => bench.run_on(&platform, index, workload, options, label),
        None => bench.run(index, workload, options, label),
    }
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "schedulers",
    title: "shares, waits and responses under each scheduling class",
    source: "the kernel's rules; nothing published",
    worlds: &["sim:linux-6.12", "lab:6.12", "sim:linux-6.1", "lab:6.1"],
    // Ten periods of throttling.
    duration: Nanos::from_secs(10),
    // None of it hangs on how long an instruction takes, and a busy second costs the host a quarter.
    lab_shift: 2,
    is_traced: true,
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let options = one_cpu(&request.options);
    let worlds = bench.worlds();
    let mut columns = vec![Column { title: "by the rule".to_owned(), unit: "", origin: Origin::Theory }];
    columns.extend(worlds.iter().map(|w| Column { title: w.clone(), unit: "", origin: Origin::World }));
    let mut rows = Vec::new();
    let mut builds = Builds::default();
    for scenario in &SCENARIOS {
        let mut records = Vec::new();
        for (index, world) in worlds.iter().enumerate() {
            let label = format!("{world}: {}", scenario.name);
            let result = run_alone(bench, (index, world), &workload(scenario), &options, &label);
            builds.add(world, &result);
            records.push(result);
        }
        for (name, metric) in scenario.metrics {
            let mut cells = vec![metric.rule().map_or(Cell::Empty, Cell::plain)];
            for result in &records {
                cells.push(cell_of(result.clone(), |record| metric.cell(record, name))?);
            }
            let keys = vec![scenario.name.to_owned(), (*name).to_owned(), metric.in_words()];
            rows.push(SheetRow::new(keys, cells));
        }
    }
    let mut notes = vec![
        "one CPU; what is not reserved and not fair gets 950 ms of every second, by throttling up to 6.6 and by \
         the server of the fair class since 6.8"
            .to_owned(),
        "beside FIFO, RR and DEADLINE stands a busy loop of the fair class, beside nice -8 three, beside `fair, 10 of \
         40 ms` two; beside DEADLINE 12/40, whose thread uses 10 ms of every 40, one of FIFO"
            .to_owned(),
    ];
    notes.extend(builds.0);
    Ok(Sheet { keys: vec!["scenario", "thread", "metric"], columns, rows, notes, drawn: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_a_workload_whose_rules_share_out_no_more_than_the_cpu() {
        for scenario in &SCENARIOS {
            let workload = workload(scenario);
            let mut sum = 0.0;
            for (name, metric) in scenario.metrics {
                assert!(workload.activities().iter().any(|a| a.name == *name), "{}: {name}", scenario.name);
                sum += metric.rule().unwrap_or_default();
            }
            assert!(sum <= 100.0 + 1e-9, "{}", scenario.name);
        }
    }
}
