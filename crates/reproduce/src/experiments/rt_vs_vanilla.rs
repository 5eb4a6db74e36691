//! PREEMPT_RT against a plain kernel: how late a thread wakes beside ping floods and memory thrash, as published, and beside a
//! heavier load with larger packets, files and processes that come and go.
//!
//! Published are moments and quantiles of 5000 samples of one run each on a board with a 3.10 kernel. Their times belong to
//! that board; what can be compared is the shape: the lower end stays, the tail goes, skewness and kurtosis fall.

use surety_model::record::{Distribution, Observed, Record};
use surety_model::workload::{ActivityKind, LoadKind};
use surety_model::world::{LAB_PREFIX, RunOptions, WorldError};
use surety_units::{Bytes, Nanos};

use crate::published::Table;
use crate::{
    Bench, COMMON, Cell, Column, Experiment, LatencyProbe, Origin, Probe, Request, Sheet, SheetRow, one_cpu,
};

/// The table as printed.
const PUBLISHED: &str = include_str!("../../published/rt_vs_vanilla.csv");
/// Between two samples: as published, and in a guest, whose loads do in a millisecond what matters of them.
const PERIOD: Nanos = Nanos::from_millis(100);
const PERIOD_IN_GUEST: Nanos = Nanos::from_millis(1);
/// Above the threads of interrupts, which PREEMPT_RT gives 50.
const PRIORITY: u8 = 80;
/// What runs beside it.
struct Beside {
    /// How rows name it.
    name: &'static str,
    words: &'static str,
    /// Kinds, counts and blocks.
    loads: &'static [(LoadKind, u32, Option<Bytes>)],
}

/// The published load first: only its rows stand beside what was published.
const BESIDE: [Beside; 2] = [
    Beside {
        name: "published",
        words: "two ping floods (56 bytes in each packet, which was not published) and a memory thrasher for the one CPU",
        loads: &[(LoadKind::PingFlood, 2, None), (LoadKind::MemoryThrash, 1, None)],
    },
    Beside {
        name: "heavier",
        words: "two ping floods of 16 kB, a memory thrasher, a writer of files, a maker of processes and four groups of processes \
                that talk: of these only floods and thrasher are in the published load, and its packets are not known to be so large",
        loads: &[
            // Longer than a frame of the network: each is cut and put together again, both ways.
            (LoadKind::PingFlood, 2, Some(Bytes(16_000))),
            (LoadKind::MemoryThrash, 1, None),
            (LoadKind::Writers, 1, None),
            (LoadKind::Forks, 1, None),
            (LoadKind::Messages, 4, None),
        ],
    },
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

/// The runs of a world beside one load, seed by seed, or why there are none.
type Runs = Result<Vec<Observed>, String>;

/// Those of every world.
type Found = Vec<(String, Runs)>;

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rt-vs-vanilla",
    title: "wake-up latency with and without PREEMPT_RT beside the published load and a heavier one",
    source: "V. Bridgers, Real Time Linux Scheduling Comparison",
    worlds: &["lab:6.12", "lab:6.12-rt"],
    // One sample a millisecond in a guest: 5000, as published.
    duration: Nanos::from_secs(5),
    // Loads keep the guest busy all the time, and such a second costs the host half as much as with 0.
    lab_shift: 1,
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let jobs = request.options.duration.div_ceil(PERIOD_IN_GUEST).max(1).unsigned_abs();
    let worlds = bench.worlds();
    let mut found: Vec<(&Beside, Found)> = Vec::new();
    for beside in &BESIDE {
        let mut of_load = Found::new();
        for (index, world) in worlds.iter().enumerate() {
            of_load.push((world.clone(), runs_of(bench, (index, world), beside, jobs, request)?));
        }
        found.push((beside, of_load));
    }
    let published = Table::read(PUBLISHED).expect("the embedded table is read by a test");
    let drawn = found.iter().take(1).flat_map(|(_, of_load)| of_load);
    let drawn = drawn.filter_map(|(world, runs)| Some((world.clone(), together(runs.as_ref().ok()?))));
    let drawn = drawn.map(|(name, o)| (name, Distribution::from(o))).collect();
    let rows = found.iter().enumerate().flat_map(|(n, (beside, of_load))| {
        rows(&published, beside, if n == 0 { published.len() } else { 0 }, of_load)
    });
    Ok(Sheet {
        keys: vec!["load", "statistic"],
        columns: columns(&published, &worlds),
        rows: rows.collect(),
        notes: notes(&found, jobs, request.seeds),
        drawn,
    })
}

fn runs_of(
    bench: &mut dyn Bench,
    (index, world): (usize, &str),
    beside: &Beside,
    jobs: u64,
    request: &Request,
) -> Result<Runs, WorldError> {
    let is_guest = world.starts_with(LAB_PREFIX);
    let period = if is_guest { PERIOD_IN_GUEST } else { PERIOD };
    let loads = beside.loads.to_vec();
    let probe = Probe::Latency(LatencyProbe { period, jobs, priority: PRIORITY, loads });
    let mut runs = Vec::new();
    for seed in (0..request.seeds).map(|k| request.options.seed.wrapping_add(u64::from(k))) {
        let options = RunOptions { seed, ..one_cpu(&request.options) };
        match bench.probe(index, &probe, &options, &format!("{world}: {} load, seed {seed}", beside.name)) {
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
    let probe = record.activities.iter().find(|a| a.kind == ActivityKind::Probe)?;
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

/// The rows beside one load; the first `printed` columns of what was published are held beside them.
fn rows(published: &Table, beside: &Beside, printed: usize, found: &Found) -> Vec<SheetRow> {
    let row = |name: &str, title: &str, value: &dyn Fn(&[Observed]) -> Option<f64>| {
        let plain = |value: Option<f64>| value.map_or(Cell::Empty, Cell::plain);
        let is_held = |row: &usize| *row < printed;
        let printed = (0..published.len())
            .map(|row| plain(Some(row).filter(is_held).and_then(|row| published.number(row, title))));
        let ours = found.iter().map(|(_, runs)| match runs {
            Ok(runs) => plain(value(runs)),
            Err(why) => Cell::Refused(why.clone()),
        });
        SheetRow::new(vec![beside.name.to_owned(), name.to_owned()], printed.chain(ours).collect())
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

fn notes(found: &[(&Beside, Found)], jobs: u64, seeds: u32) -> Vec<String> {
    let mut notes = vec![match seeds {
        1 => format!("{jobs} samples of one seed beside each load"),
        _ => format!(
            "{jobs} samples of each seed beside each load; every value is the median of the values of {seeds} seeds"
        ),
    }];
    notes.extend(found.iter().map(|(beside, _)| format!("{} load: {}", beside.name, beside.words)));
    notes.push(
        "different from the publication, beside the published load too: one measuring thread with FIFO priority 80 on one CPU \
         that sleeps until planned instants, every 1 ms in a guest and every 100 ms otherwise. Published are relative sleeps of \
         100 ms of threads of unknown priority, one on each of two CPUs"
            .to_owned(),
    );
    notes.push(
        "times of a guest are counts of its instructions, those published are of a board with a Cyclone V: only shapes \
         and ratios can be compared. The source does not say whether 3 was taken from its kurtosis"
            .to_owned(),
    );
    for (beside, of_load) in found {
        for (world, runs) in of_load {
            let rt = of_load.iter().find(|(other, _)| *other == format!("{world}{RT}"));
            if let (Ok(plain), Some((rt_world, Ok(rt)))) = (runs, rt) {
                let said = Pair::of(plain, rt).map(|pair| pair.in_words(world, rt_world));
                notes.extend(said.map(|said| format!("{} load: {said}", beside.name)));
            }
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
    fn only_the_published_load_stands_beside_what_was_published() {
        let published = Table::read(PUBLISHED).unwrap();
        let found: Found = vec![("lab:a".to_owned(), Ok(vec![run(&[1, 2, 3])]))];
        let kinds = |beside: &Beside| beside.loads.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>();
        assert_eq!(kinds(&BESIDE[0]), [LoadKind::PingFlood, LoadKind::MemoryThrash]);
        let held = |printed| {
            let rows = rows(&published, &BESIDE[0], printed, &found);
            assert!(rows.iter().all(|row| row.keys[0] == "published" && row.cells.len() == 3));
            rows.iter().filter(|row| row.cells[..2].iter().any(|cell| cell.value().is_some())).count()
        };
        assert_eq!((held(2), held(0)), (7, 0));
        let found = [(&BESIDE[0], found.clone()), (&BESIDE[1], found)];
        let notes = notes(&found, 3, 1);
        for name in ["published load: two ping floods", "heavier load: ", "different from the publication"] {
            assert!(notes.iter().any(|note| note.starts_with(name)), "{notes:?}");
        }
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
