//! What ABISS leaves to best-effort reading beside one and four guaranteed streams, under the I/O schedulers of its time, and what those of today leave.
//!
//! Published is the throughput of the best-effort reader for 10 rows, of which six are I/O schedulers and five of the first are batches. The
//! disk and its driver are not; `hdd-2004` is fitted to the table by three numbers, and no row is fitted by more.

use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::abiss::{self, BATCH, FETCHED, OF_TODAY, READ_BY, Setting, TODAY, UNANTICIPATED};
use super::under_io::is_simulated;
use crate::published::Table;
use crate::{
    Bench, Builds, COMMON, Cell, Column, Experiment, Mark, Origin, Planned, Request, Sheet, SheetRow, one_cpu,
};

/// The throughputs as printed.
const PUBLISHED: &str = include_str!("../../published/abiss_be_throughput.csv");
/// Streams beside the reader, and the title of their column in the table.
const STREAMS: [(u32, &str); 2] = [(1, "one_rt_reader_MBps"), (4, "four_rt_readers_MBps")];

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "abiss-be",
    title: "best-effort reading beside one and four guaranteed streams, under the I/O schedulers of 2004 and of today",
    source: "B. van den Brink, W. Almesberger, The Active Block I/O Scheduling System (ABISS), 2004",
    worlds: &["sim"],
    duration: Nanos::from_secs(60),
    lab_memory_mib: 2560,
    reproduce,
    ..COMMON
};

/// How late a batch may be: the default of `jitter`. The size of the play-out buffer does not change what is left to the reader.
const JITTER: &str = "430ms";

fn workload(setting: &Setting, pages: Option<f64>, streams: u32) -> Workload {
    let mut text = setting.workload(streams, pages.unwrap_or(BATCH), JITTER);
    text.push_str("[[load]]\nname = 'best-effort'\nkind = 'readers'\ncount = 1\ndisk = 'd'\nblock = '128KiB'\nsize = '175MB'\n");
    toml::read("abiss-be", &text).expect("each is read by a test")
}

/// What sets a row apart.
fn mark(name: &str) -> Option<Mark> {
    match name {
        "abiss-rt" | UNANTICIPATED => Some(Mark::Calibrated),
        "anticipatory" => Some(Mark::NotExplained(
            "it goes on with the reader until a stream's access has expired, so the streams starve; published is what it gives \
             without anticipation"
                .to_owned(),
        )),
        _ => None,
    }
}

/// A row: a setting, and the pages of a batch.
struct Case {
    setting: &'static Setting,
    pages: Option<f64>,
    /// Beside each number of [`STREAMS`].
    published: [Option<f64>; STREAMS.len()],
}

/// Those that were published, behind `anticipatory` what it gives without anticipation; and those of today: plain readers, then streams with the published batches.
fn cases() -> Vec<Case> {
    let table = Table::read(PUBLISHED).expect("the embedded table is read by a test");
    let mut cases = Vec::new();
    for row in 0..table.len() {
        let name = table.text(row, "elevator").unwrap_or_default();
        let published = STREAMS.map(|(_, title)| table.number(row, title).map(|rate| rate * 1e6));
        let also = (name == "anticipatory").then_some(UNANTICIPATED);
        for setting in [Some(name), also].into_iter().flatten().filter_map(abiss::setting) {
            cases.push(Case { setting, pages: table.number(row, "batch_pages"), published });
        }
    }
    cases.extend(OF_TODAY.iter().map(|setting| Case {
        setting,
        pages: None,
        published: [None; STREAMS.len()],
    }));
    let batches = (0..table.len()).filter_map(|row| table.number(row, "batch_pages"));
    cases.extend(batches.map(|pages| Case {
        setting: &FETCHED,
        pages: Some(pages),
        published: [None; STREAMS.len()],
    }));
    cases
}

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let (cases, worlds, options) = (cases(), bench.worlds(), one_cpu(&request.options));
    let mut builds = Builds::default();
    let mut columns = Vec::new();
    let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); cases.len()];
    for (place, (streams, _)) in STREAMS.into_iter().enumerate() {
        let of = if streams == 1 { "1 stream".to_owned() } else { format!("{streams} streams") };
        columns.push(Column { title: format!("published, {of}"), unit: "B/s", origin: Origin::Published });
        for (case, cells) in cases.iter().zip(&mut cells) {
            cells.push(case.published[place].map_or(Cell::Empty, Cell::plain));
        }
        for (index, world) in worlds.iter().enumerate() {
            columns.push(Column { title: format!("{world}, {of}"), unit: "B/s", origin: Origin::World });
            columns.push(Column { title: format!("{world} late, {of}"), unit: "%", origin: Origin::World });
            let planned = |case: &Case| {
                let label = case.setting.label(world, case.pages, &streams.to_string());
                let workload = workload(case.setting, case.pages, streams);
                (case.setting, Planned { workload, options: options.clone(), label })
            };
            let runs: Vec<(&Setting, Planned)> = cases.iter().map(planned).collect();
            let seen = |record: &Record| Some((rate(record)?, late(record)));
            let shown = abiss::show(bench, (index, world), &runs, &mut builds, seen)?;
            for ((case, cells), shown) in cases.iter().zip(&mut cells).zip(shown) {
                cells.extend(of_a_run(shown, case.published[place]));
            }
        }
    }
    let row = |(case, cells): (&Case, Vec<Cell>)| {
        let pages = case.pages.map_or_else(|| "-".to_owned(), |pages| pages.to_string());
        SheetRow {
            mark: mark(case.setting.name),
            ..SheetRow::new(
                vec![case.setting.name.to_owned(), case.setting.read_by().to_owned(), pages],
                cells,
            )
        }
    };
    let rows: Vec<SheetRow> = cases.iter().zip(cells).map(row).collect();
    let mut notes = notes(&columns, &rows);
    notes.extend(builds.0);
    Ok(Sheet { keys: vec!["scheduler", "read by", "pages"], columns, rows, notes, drawn: Vec::new() })
}

/// What is left to the reader, and how many accesses of the streams were late.
fn of_a_run(shown: Option<Result<(f64, Option<f64>), Cell>>, published: Option<f64>) -> [Cell; 2] {
    match shown {
        Some(Ok((rate, late))) => [Cell::against(rate, published), late.map_or(Cell::Empty, Cell::plain)],
        Some(Err(why)) => [why, Cell::Empty],
        None => [Cell::Empty, Cell::Empty],
    }
}

/// Bytes a second of the best-effort reader.
fn rate(record: &Record) -> Option<f64> {
    let figures = &record.activity("best-effort")?.figures;
    figures.iter().find(|figure| figure.name == "rate").map(|figure| figure.value)
}

/// The part of the streams' accesses that came after their deadline, or not at all.
fn late(record: &Record) -> Option<f64> {
    record.activity("guaranteed")?.miss_ratio()
}

fn notes(columns: &[Column], rows: &[SheetRow]) -> Vec<String> {
    let mut notes = Vec::new();
    for world in columns.iter().filter_map(|column| column.title.strip_suffix(", 1 stream")) {
        if world.ends_with("late") || world == "published" {
            continue;
        }
        // A kernel has none of the published schedulers.
        if !is_simulated(world) {
            continue;
        }
        let of = |column: &Column| {
            column.title.starts_with(world) && column.unit == "B/s" && column.origin == Origin::World
        };
        let places: Vec<usize> = (0..columns.len()).filter(|index| of(&columns[*index])).collect();
        let errors = |wanted: &dyn Fn(&SheetRow) -> bool| -> Vec<f64> {
            let rows = rows.iter().filter(|row| wanted(row));
            rows.flat_map(|row| places.iter().filter_map(|place| row.cells[*place].error())).collect()
        };
        for (with, other) in [("with antic_expire 0", "anticipatory"), ("with anticipation", UNANTICIPATED)] {
            let all = errors(&|row| row.keys[0] != other);
            notes.push(format!(
                "{world}, {with}: {} of {} cells within 0.8 MB/s of the published ones, root mean square of the errors {:.2} MB/s",
                all.iter().filter(|error| error.abs() <= 0.8e6).count(),
                all.len(),
                root_mean_square(&all) / 1e6,
            ));
        }
        let [fitted, predicted] = [&[Some(Mark::Calibrated)][..], &[None]].map(|marks| {
            root_mean_square(&errors(&|row| row.keys[0] != UNANTICIPATED && marks.contains(&row.mark)))
        });
        notes.push(format!(
            "{world}: {:.2} MB/s in the rows abiss-rt, {:.2} MB/s in abiss-be, deadline, cfq and noop, on which nothing was fitted",
            fitted / 1e6,
            predicted / 1e6,
        ));
    }
    notes.extend(READ_BY.into_iter().chain(ASSUMED).chain([TODAY]).map(str::to_owned));
    notes
}

const ASSUMED: [&str; 4] = [
    "late: accesses of the streams after their deadline of one access (65.5 ms), or left out; nothing of it was published as a number",
    "streams of 1 MB/s read 64 KiB from files of 105 MB; plain readers past the page cache. The best-effort reader takes 128 KiB at a time of 175 MB, through the page cache",
    "hdd-2004: its rate, overhead and shortest seek are fitted to the rows abiss-rt (see `surety device show hdd-2004`)",
    "assumed: the I/O schedulers of 2.6.20 for those of 2004, but for cfq; the read-ahead of 2.6.10; files behind one another",
];

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_every_workload_read() {
        let cases = cases();
        let table = Table::read(PUBLISHED).unwrap();
        let batches = cases.iter().filter(|case| case.setting.name == "abiss-rt").count();
        assert_eq!((batches, table.len() + 1 + OF_TODAY.len() + batches), (5, cases.len()));
        for case in cases {
            let workload = workload(case.setting, case.pages, 4);
            assert_eq!(workload.streams[0].count, 4);
            assert_eq!(workload.streams[0].io_priority.is_some(), case.setting.name.ends_with("rt:0"));
        }
    }
}
