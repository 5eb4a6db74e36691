//! PREEMPT_RT against a plain kernel: how late a thread wakes beside ping flood, memory thrash, and files and processes
//! that come and go.
//!
//! Published are moments and quantiles of 5000 samples of one run each on a board with a 3.10 kernel. Their times belong to
//! that board; what can be compared is the shape: the lower end stays, the tail goes, skewness and kurtosis fall.

use surety_model::record::{Distribution, Observed, Record};
use surety_model::workload::LoadKind;
use surety_model::world::{RunOptions, WorldError};
use surety_units::{Bytes, Nanos};

use crate::published::Table;
use crate::{
    Bench, Cell, Column, Experiment, LatencyProbe, Origin, Probe, Request, Sheet, SheetRow, one_cpu,
};

/// The table as printed.
const PUBLISHED: &str = include_str!("../../published/rt_vs_vanilla.csv");
/// Between two samples: as published, and in a guest, whose loads do in a millisecond what matters of them.
const PERIOD: Nanos = Nanos::from_millis(100);
const PERIOD_IN_GUEST: Nanos = Nanos::from_millis(1);
/// Above the threads of interrupts, which PREEMPT_RT gives 50.
const PRIORITY: u8 = 80;
/// What runs beside it.
const LOADS: [(LoadKind, u32, Option<Bytes>); 5] = [
    // Longer than a frame of the network: each is cut and put together again, both ways.
    (LoadKind::PingFlood, 2, Some(Bytes(16_000))),
    (LoadKind::MemoryThrash, 1, None),
    (LoadKind::Writers, 1, None),
    (LoadKind::Forks, 1, None),
    (LoadKind::Messages, 4, None),
];
/// How a kernel with PREEMPT_RT is named beside the plain one.
const RT: &str = "-rt";

/// A line of the sheet: its name, its title in the published table, and what it is of one run.
type Statistic = (&'static str, &'static str, fn(&Observed) -> Option<f64>);

const STATISTICS: [Statistic; 9] = [
    ("mean (us)", "mean_us", |o| o.moments.mean().map(us)),
    ("sigma (us)", "std_dev_us", |o| o.moments.std_dev().map(us)),
    ("skewness", "skew", |o| o.moments.skewness()),
    ("excess kurtosis", "kurtosis", |o| o.moments.excess_kurtosis()),
    ("p5 (us)", "p5_us", |o| quantile(o, 0.05)),
    ("p95 (us)", "p95_us", |o| quantile(o, 0.95)),
    ("p99 (us)", "p99_us", |o| quantile(o, 0.99)),
    ("p99.9 (us)", "p99.9_us", |o| quantile(o, 0.999)),
    ("max (us)", "max_us", |o| o.moments.max().map(us)),
];

fn us(ns: f64) -> f64 {
    ns / 1e3
}

fn quantile(observed: &Observed, q: f64) -> Option<f64> {
    observed.histogram.quantile(q).map(|ns| us(ns as f64))
}

/// See the module.
pub struct RtVsVanilla;

/// The runs of a world, seed by seed, or why there are none.
type Runs = Result<Vec<Observed>, String>;

impl Experiment for RtVsVanilla {
    fn name(&self) -> &'static str {
        "rt-vs-vanilla"
    }

    fn title(&self) -> &'static str {
        "wake-up latency with and without PREEMPT_RT beside heavy loads"
    }

    fn source(&self) -> &'static str {
        "V. Bridgers, Real Time Linux Scheduling Comparison"
    }

    fn worlds(&self) -> &'static [&'static str] {
        &["lab:6.12", "lab:6.12-rt"]
    }

    /// One sample a millisecond in a guest: 5000, as published.
    fn duration(&self) -> Nanos {
        Nanos::from_secs(5)
    }

    /// Loads keep the guest busy all the time, and such a second costs the host half as much as with 0.
    fn lab_shift(&self) -> u32 {
        1
    }

    fn reproduce(&self, bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
        let jobs = request.options.duration.div_ceil(PERIOD_IN_GUEST).max(1).unsigned_abs();
        let worlds = bench.worlds();
        let mut found: Vec<(String, Runs)> = Vec::new();
        for (index, world) in worlds.iter().enumerate() {
            let runs = runs_of(bench, index, world, jobs, request)?;
            found.push((world.clone(), runs));
        }
        let published = Table::read(PUBLISHED).expect("the embedded table is read by a test");
        let drawn =
            found.iter().filter_map(|(world, runs)| Some((world.clone(), together(runs.as_ref().ok()?))));
        Ok(Sheet {
            keys: vec!["statistic"],
            columns: columns(&published, &worlds),
            rows: rows(&published, &found),
            notes: notes(&found, jobs, request.seeds),
            drawn: drawn.map(|(name, o)| (name, Distribution::Observed(Box::new(o)))).collect(),
        })
    }
}

fn runs_of(
    bench: &mut dyn Bench,
    index: usize,
    world: &str,
    jobs: u64,
    request: &Request,
) -> Result<Runs, WorldError> {
    let is_guest = world.starts_with("lab:");
    let period = if is_guest { PERIOD_IN_GUEST } else { PERIOD };
    let probe = Probe::Latency(LatencyProbe { period, jobs, priority: PRIORITY, loads: LOADS.to_vec() });
    let mut runs = Vec::new();
    for seed in (0..request.seeds).map(|k| request.options.seed.wrapping_add(u64::from(k))) {
        let options = RunOptions { seed, ..one_cpu(&request.options) };
        match bench.probe(index, &probe, &options, &format!("{world}: seed {seed}")) {
            Ok(record) => match samples(&record) {
                Some(observed) => runs.push(observed),
                None => return Ok(Err(format!("{world}: seed {seed} gave no samples"))),
            },
            Err(WorldError::Interrupted) => return Err(WorldError::Interrupted),
            Err(why) => return Ok(Err(why.to_string())),
        }
    }
    Ok(Ok(runs))
}

/// The latencies of the one probe of a record.
fn samples(record: &Record) -> Option<Observed> {
    let probe = record.activities.iter().find(|a| a.kind == "probe")?;
    probe.latency.as_ref()?.observed().filter(|o| o.histogram.count() > 0).cloned()
}

/// The samples of all runs.
fn together(runs: &[Observed]) -> Observed {
    let mut all = Observed::default();
    for run in runs {
        all.histogram.merge(&run.histogram);
        all.moments.merge(&run.moments);
    }
    all
}

fn columns(published: &Table, worlds: &[String]) -> Vec<Column> {
    let printed = (0..published.len()).map(|row| {
        let kernel = published.text(row, "kernel").unwrap_or_default();
        Column { title: format!("{kernel} published"), unit: "", origin: Origin::Published }
    });
    let ours = worlds.iter().map(|world| Column { title: world.clone(), unit: "", origin: Origin::World });
    printed.chain(ours).collect()
}

fn rows(published: &Table, found: &[(String, Runs)]) -> Vec<SheetRow> {
    let row = |name: &str, title: &str, value: &dyn Fn(&[Observed]) -> Option<f64>| {
        let plain = |value: Option<f64>| value.map_or(Cell::Empty, Cell::plain);
        let printed = (0..published.len()).map(|row| plain(published.number(row, title)));
        let ours = found.iter().map(|(_, runs)| match runs {
            Ok(runs) => plain(value(runs)),
            Err(why) => Cell::Refused(why.clone()),
        });
        SheetRow::new(vec![name.to_owned()], printed.chain(ours).collect())
    };
    let each = STATISTICS
        .iter()
        .map(|(name, title, of)| row(name, title, &|runs| median(runs.iter().filter_map(of).collect())));
    let largest = row("largest of all seeds (us)", "", &|runs| together(runs).moments.max().map(us));
    each.chain([largest]).collect()
}

/// The median; the mean of the two in the middle of an even number.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let high = *values.get(values.len() / 2)?;
    let low = values[(values.len() - 1) / 2];
    Some(low + (high - low) / 2.0)
}

fn notes(found: &[(String, Runs)], jobs: u64, seeds: u32) -> Vec<String> {
    let mut notes = vec![
        match seeds {
            1 => format!("{jobs} samples of one seed"),
            _ => format!("{jobs} samples of each seed; every value is the median of the values of {seeds} seeds"),
        },
        "the probe has FIFO priority 80 on one CPU and sleeps until planned instants, every 1 ms in a guest and every \
         100 ms otherwise; beside it two ping floods of 16 kB, a memory thrasher, a writer of files, a maker of processes and \
         four groups of processes that talk. Published are relative sleeps of 100 ms of threads of unknown priority, one on each CPU"
            .to_owned(),
        "times of a guest are counts of its instructions, those published are of a board with a Cyclone V: only shapes \
         and ratios can be compared. The source does not say whether 3 was taken from its kurtosis"
            .to_owned(),
    ];
    for (world, runs) in found {
        let rt = found.iter().find(|(other, _)| *other == format!("{world}{RT}"));
        if let (Ok(plain), Some((rt_world, Ok(rt)))) = (runs, rt) {
            notes.extend(Pair::of(plain, rt).map(|pair| pair.in_words(world, rt_world)));
        }
    }
    notes
}

/// A kernel with PREEMPT_RT against the plain one, seed by seed.
#[derive(Debug, PartialEq)]
struct Pair {
    /// Of the ratio of maxima, plain over RT.
    ratio: f64,
    lowest_ratio: f64,
    highest_ratio: f64,
    /// The largest of all samples with PREEMPT_RT.
    rt_worst: f64,
    /// Of all samples of the plain kernel.
    plain_high: f64,
    /// Skewness and kurtosis, plain and RT, medians over the seeds.
    skewness: (f64, f64),
    kurtosis: (f64, f64),
}

impl Pair {
    fn of(plain: &[Observed], rt: &[Observed]) -> Option<Pair> {
        let max = |o: &Observed| o.moments.max();
        let ratios: Option<Vec<f64>> = plain.iter().zip(rt).map(|(p, r)| Some(max(p)? / max(r)?)).collect();
        let ratios = ratios?;
        let medians = |of: fn(&Observed) -> Option<f64>| {
            let one = |runs: &[Observed]| median(runs.iter().filter_map(of).collect());
            Some((one(plain)?, one(rt)?))
        };
        Some(Pair {
            lowest_ratio: ratios.iter().copied().min_by(f64::total_cmp)?,
            highest_ratio: ratios.iter().copied().max_by(f64::total_cmp)?,
            ratio: median(ratios)?,
            rt_worst: us(together(rt).moments.max()?),
            plain_high: quantile(&together(plain), 0.999)?,
            skewness: medians(|o| o.moments.skewness())?,
            kurtosis: medians(|o| o.moments.excess_kurtosis())?,
        })
    }

    fn in_words(&self, plain: &str, rt: &str) -> String {
        let falls = |(plain, rt): (f64, f64)| {
            format!("{} from {plain:.1} to {rt:.1}", if rt < plain { "falls" } else { "does not fall" })
        };
        let side = if self.rt_worst < self.plain_high { "below" } else { "not below" };
        format!(
            "{plain} against {rt}: the ratio of the maxima of a seed is {:.1} in the median ({:.1} to {:.1}); the worst \
             maximum with PREEMPT_RT, {:.1} us, is {side} the plain kernel's p99.9 of {:.1} us; skewness {}, excess \
             kurtosis {}",
            self.ratio,
            self.lowest_ratio,
            self.highest_ratio,
            self.rt_worst,
            self.plain_high,
            falls(self.skewness),
            falls(self.kurtosis)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[i64]) -> Observed {
        let mut observed = Observed::default();
        values.iter().for_each(|us| observed.record(Nanos::from_micros(*us)));
        observed
    }

    #[test]
    fn the_published_table_has_every_statistic_but_the_extremes() {
        let table = Table::read(PUBLISHED).unwrap();
        assert_eq!(table.len(), 2);
        assert_eq!(table.text(0, "kernel"), Some("3.10-rt"));
        let missing: Vec<&str> =
            STATISTICS.iter().filter(|(_, t, _)| table.number(1, t).is_none()).map(|(n, ..)| *n).collect();
        assert_eq!(missing, ["p99.9 (us)", "max (us)"]);
        assert_eq!(table.number(1, "kurtosis"), Some(1000.0));
    }

    #[test]
    fn medians_of_even_and_odd_numbers() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_pair_is_compared_seed_by_seed() {
        let plain = [run(&[1, 1, 1, 1, 100]), run(&[1, 1, 1, 1, 60])];
        let rt = [run(&[1, 2, 3, 4, 5]), run(&[1, 2, 3, 4, 10])];
        let pair = Pair::of(&plain, &rt).unwrap();
        assert_eq!((pair.ratio, pair.lowest_ratio, pair.highest_ratio), (13.0, 6.0, 20.0));
        assert!((pair.rt_worst - 10.0).abs() < 1e-9);
        assert!(pair.skewness.1 < pair.skewness.0 && pair.kurtosis.1 < pair.kurtosis.0);
        let said = pair.in_words("lab:a", "lab:a-rt");
        assert!(said.contains("is below") && said.contains("falls from") && !said.contains("not"), "{said}");
        let said = Pair::of(&rt, &plain).unwrap().in_words("lab:a", "lab:a-rt");
        assert!(said.contains("is not below") && said.contains("does not fall"), "{said}");
    }
}
