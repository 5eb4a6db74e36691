//! How long guaranteed streams wait for their data beside best-effort file operations, under the I/O schedulers of 2004 and of today.
//!
//! Graphs were published and no numbers, beside a file copy; and one bound in words, beside eight greedy readers and writers.

use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::abiss::{self, BATCH, FETCHED, OF_TODAY, READ_BY, Setting, TODAY};
use crate::{
    Bench, Builds, COMMON, Cell, Column, Experiment, Origin, Planned, Request, Sheet, SheetRow, one_cpu,
};

/// In the order of the graphs.
const SCHEDULERS: [&str; 6] = ["abiss-rt", "deadline", "abiss-be", "cfq", "anticipatory", "noop"];
const STREAMS: u32 = 4;
/// The buffer of 564 kB less one access and one batch, at 1 MB/s.
const JITTER: &str = "420ms";
/// "All read and write operations completed within 6 ms", of ABISS beside eight greedy readers and writers.
const PUBLISHED: (&str, &str, f64) = ("abiss-rt", "4r4w", 6e6);

/// What runs beside the streams: what it is called, and its loads.
const BESIDE: [(&str, &[(&str, u32)]); 2] =
    [("copy", &[("file-copy", 1)]), ("4r4w", &[("readers", 4), ("writers", 4)])];

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "abiss-latency",
    title: "how long four guaranteed streams wait for their data beside a copy or 8 readers and writers, under the I/O schedulers of 2004 and of today",
    source: "B. van den Brink, W. Almesberger, The Active Block I/O Scheduling System (ABISS), 2004; G. de Nijs et al., OLS 2005 (abstract)",
    worlds: &["sim"],
    duration: Nanos::from_secs(60),
    lab_memory_mib: 3072,
    reproduce,
    ..COMMON
};

fn workload(setting: &Setting, loads: &[(&str, u32)]) -> Workload {
    let mut text = setting.workload(STREAMS, BATCH, JITTER);
    for (kind, count) in loads {
        text += &format!(
            "[[load]]\nname = '{kind}'\nkind = '{kind}'\ncount = {count}\ndisk = 'd'\nblock = '128KiB'\nsize = '175MB'\n"
        );
    }
    toml::read("abiss-latency", &text).expect("each is read by a test")
}

/// A row: what runs beside the streams, and the setting.
struct Case {
    beside: &'static str,
    loads: &'static [(&'static str, u32)],
    setting: &'static Setting,
}

impl Case {
    /// The pages of a batch, where the row is of streams on a kernel of today.
    fn pages(&self) -> Option<f64> {
        self.setting.is_fetched().then_some(BATCH)
    }
}

fn cases() -> Vec<Case> {
    let of_2004 = SCHEDULERS.iter().filter_map(|name| abiss::setting(name));
    let settings: Vec<&Setting> = of_2004.chain(&OF_TODAY).chain([&FETCHED]).collect();
    let of = |(beside, loads): (&'static str, _)| {
        settings.iter().map(move |setting| Case { beside, loads, setting })
    };
    BESIDE.into_iter().flat_map(of).collect()
}

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let (cases, worlds, options) = (cases(), bench.worlds(), one_cpu(&request.options));
    let mut builds = Builds::default();
    let mut columns =
        vec![Column { title: "published, longest".to_owned(), unit: "ns", origin: Origin::Published }];
    let published = |case: &Case| {
        let is_published = PUBLISHED.0 == case.setting.name && PUBLISHED.1 == case.beside;
        vec![if is_published { Cell::Below(PUBLISHED.2) } else { Cell::Empty }]
    };
    let mut cells: Vec<Vec<Cell>> = cases.iter().map(published).collect();
    for (index, world) in worlds.iter().enumerate() {
        let title = |what: &str| format!("{world} {what}");
        columns.extend(FIGURES.map(|(what, unit)| Column {
            title: title(what),
            unit,
            origin: Origin::World,
        }));
        let planned = |case: &Case| {
            let label = case.setting.label(world, case.pages(), case.beside);
            let workload = workload(case.setting, case.loads);
            (case.setting, Planned { workload, options: options.clone(), label })
        };
        let runs: Vec<(&Setting, Planned)> = cases.iter().map(planned).collect();
        let shown = abiss::show(bench, (index, world), &runs, &mut builds, seen)?;
        for (cells, shown) in cells.iter_mut().zip(shown) {
            let mut of_world = [const { Cell::Empty }; FIGURES.len()];
            match shown {
                Some(Ok(figures)) => of_world = figures.map(Cell::plain),
                Some(Err(why)) => of_world[0] = why,
                None => {}
            }
            cells.extend(of_world);
        }
    }
    let row = |(case, cells): (&Case, Vec<Cell>)| {
        let keys = [case.beside, case.setting.name, case.setting.read_by()];
        SheetRow::new(keys.map(str::to_owned).to_vec(), cells)
    };
    let rows = cases.iter().zip(cells).map(row).collect();
    let mut notes: Vec<String> = READ_BY.into_iter().chain(NOTES).chain([TODAY]).map(str::to_owned).collect();
    notes.extend(builds.0);
    Ok(Sheet { keys: vec!["beside", "scheduler", "read by"], columns, rows, notes, drawn: Vec::new() })
}

/// What is told of each run, and its unit.
const FIGURES: [(&str, &str); 6] =
    [("median", "ns"), ("p99", "ns"), ("longest", "ns"), ("late", "%"), ("left out", "%"), ("beside", "B/s")];

/// What the streams saw of a run, and what was done beside them.
fn seen(record: &Record) -> Option<[f64; FIGURES.len()]> {
    let streams = record.activity("guaranteed")?;
    let latency = streams.series.get("read latency")?.observed()?;
    let of = |q: f64| latency.quantile(q).map(|time| time.get() as f64);
    let beside = BESIDE.iter().flat_map(|row| row.1).filter_map(|(kind, _)| {
        let figures = &record.activity(kind)?.figures;
        figures.iter().find(|figure| figure.name == "rate").map(|figure| figure.value)
    });
    Some([
        of(0.5)?,
        of(0.99)?,
        latency.histogram.max()? as f64,
        streams.miss_ratio()?,
        streams.skipped as f64 / streams.activations as f64,
        beside.sum(),
    ])
}

const NOTES: [&str; 4] = [
    "median, p99, longest: from a request of the program until its 64 KiB are there; late: after its deadline of one access (65.5 ms), or left out, \
     because its time was over before the one before it was complete",
    "streams: a play-out buffer of 564 kB, filled in batches of 20 pages; plain readers read past the page cache. Beside them: a copy of 175 MB in \
     a loop, or four readers and four writers of 128 KiB each; B/s of all of them, in memory where they write",
    "published beside the copy are graphs, not numbers; of eight readers and writers that all operations of guaranteed streams were complete \
     within 6 ms. Streams that write are not simulated here",
    "hdd-2004, read-ahead and I/O schedulers as in abiss-be",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_reads() {
        let cases = cases();
        assert_eq!(cases.len(), BESIDE.len() * (SCHEDULERS.len() + OF_TODAY.len() + 1));
        for case in cases {
            assert_eq!(workload(case.setting, case.loads).loads.len(), case.loads.len());
        }
    }
}
