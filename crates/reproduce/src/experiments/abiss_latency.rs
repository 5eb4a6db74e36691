//! How long guaranteed streams wait for their data beside best-effort file operations, under the I/O schedulers of 2004.
//!
//! Graphs were published and no numbers, beside a file copy; and one bound in words, beside eight greedy readers and writers.

use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::abiss::{self, BATCH};
use crate::{Bench, COMMON, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow, cell_of, one_cpu};

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
    title: "how long four guaranteed streams wait for their data beside a copy or 8 readers and writers, under the I/O schedulers of 2004",
    source: "B. van den Brink, W. Almesberger, The Active Block I/O Scheduling System (ABISS), 2004; G. de Nijs et al., OLS 2005 (abstract)",
    worlds: &["sim"],
    duration: Nanos::from_secs(60),
    reproduce,
    ..COMMON
};

fn workload(scheduler: &str, loads: &[(&str, u32)]) -> Option<Workload> {
    let mut text = abiss::workload(abiss::setting(scheduler)?, STREAMS, BATCH, JITTER);
    for (kind, count) in loads {
        text += &format!(
            "[[load]]\nname = '{kind}'\nkind = '{kind}'\ncount = {count}\ndisk = 'd'\nblock = '128KiB'\nsize = '175MB'\n"
        );
    }
    toml::read("abiss-latency", &text).ok()
}

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let options = one_cpu(&request.options);
    let worlds = bench.worlds();
    let mut columns =
        vec![Column { title: "published, longest".to_owned(), unit: "ns", origin: Origin::Published }];
    for world in &worlds {
        for (what, unit) in [
            ("median", "ns"),
            ("p99", "ns"),
            ("longest", "ns"),
            ("late", "%"),
            ("left out", "%"),
            ("beside", "B/s"),
        ] {
            columns.push(Column { title: format!("{world} {what}"), unit, origin: Origin::World });
        }
    }
    let mut rows = Vec::new();
    for (beside, loads) in BESIDE {
        for scheduler in SCHEDULERS {
            let published = (PUBLISHED.0 == scheduler && PUBLISHED.1 == beside).then_some(PUBLISHED.2);
            let mut cells = vec![published.map_or(Cell::Empty, Cell::Below)];
            let workload = workload(scheduler, loads).expect("each is read by a test");
            for (index, world) in worlds.iter().enumerate() {
                let label = format!("{world}: {scheduler}, {beside}");
                cells.extend(of_a_run(bench.run(index, &workload, &options, &label))?);
            }
            rows.push(SheetRow::new(vec![beside.to_owned(), scheduler.to_owned()], cells));
        }
    }
    let notes = NOTES.map(str::to_owned).to_vec();
    Ok(Sheet { keys: vec!["beside", "scheduler"], columns, rows, notes, drawn: Vec::new() })
}

/// What the streams saw of a run, and what was done beside them.
fn of_a_run(result: Result<Record, WorldError>) -> Result<[Cell; 6], WorldError> {
    let figures = result.as_ref().ok().and_then(seen);
    match figures {
        Some(figures) => Ok(figures.map(Cell::plain)),
        None => {
            let first = cell_of(result, |_| Cell::Empty)?;
            Ok([first, Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty])
        }
    }
}

fn seen(record: &Record) -> Option<[f64; 6]> {
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
    "abiss-rt: a play-out buffer of 564 kB, filled in batches of 20 pages; the others read past the page cache. Beside them: a copy of 175 MB in \
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
        for (_, loads) in BESIDE {
            assert!(SCHEDULERS.iter().all(|name| workload(name, loads).is_some()));
        }
    }
}
