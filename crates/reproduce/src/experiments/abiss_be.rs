//! What ABISS leaves to best-effort reading beside one and four guaranteed streams, under the I/O schedulers of its time.
//!
//! Published is the throughput of the best-effort reader for 10 rows, of which six are I/O schedulers and five of the first are batches. The
//! disk and its driver are not; `hdd-2004` is fitted to the table by three numbers, and no row is fitted by more.

use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::abiss::{self, BATCH, UNANTICIPATED};
use crate::published::Table;
use crate::{
    Bench, COMMON, Cell, Column, Experiment, Mark, Origin, Request, Sheet, SheetRow, cell_of, one_cpu,
};

/// The throughputs as printed.
const PUBLISHED: &str = include_str!("../../published/abiss_be_throughput.csv");
/// Streams beside the reader, and the title of their column in the table.
const STREAMS: [(u32, &str); 2] = [(1, "one_rt_reader_MBps"), (4, "four_rt_readers_MBps")];

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "abiss-be",
    title: "best-effort reading beside one and four guaranteed streams, under the I/O schedulers of 2004",
    source: "B. van den Brink, W. Almesberger, The Active Block I/O Scheduling System (ABISS), 2004",
    worlds: &["sim"],
    duration: Nanos::from_secs(60),
    reproduce,
    ..COMMON
};

/// How late a batch may be: the default of `jitter`. The size of the play-out buffer does not change what is left to the reader.
const JITTER: &str = "430ms";

fn workload(name: &str, pages: Option<f64>, streams: u32) -> Option<Workload> {
    let mut text = abiss::workload(abiss::setting(name)?, streams, pages.unwrap_or(BATCH), JITTER);
    text.push_str("[[load]]\nname = 'best-effort'\nkind = 'readers'\ncount = 1\ndisk = 'd'\nblock = '128KiB'\nsize = '175MB'\n");
    toml::read("abiss-be", &text).ok()
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

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let table = Table::read(PUBLISHED).expect("the embedded table is read by a test");
    let options = one_cpu(&request.options);
    let worlds = bench.worlds();
    let mut columns = Vec::new();
    for (streams, _) in STREAMS {
        let of = if streams == 1 { "1 stream".to_owned() } else { format!("{streams} streams") };
        columns.push(Column { title: format!("published, {of}"), unit: "B/s", origin: Origin::Published });
        for world in &worlds {
            columns.push(Column { title: format!("{world}, {of}"), unit: "B/s", origin: Origin::World });
            columns.push(Column { title: format!("{world} late, {of}"), unit: "%", origin: Origin::World });
        }
    }
    let mut rows = Vec::new();
    for row in 0..table.len() {
        let name = table.text(row, "elevator").unwrap_or_default();
        let pages = table.number(row, "batch_pages");
        let also = (name == "anticipatory").then_some(UNANTICIPATED);
        for setting in [Some(name), also].into_iter().flatten() {
            let mut cells = Vec::new();
            for (streams, title) in STREAMS {
                let published = table.number(row, title).map(|rate| rate * 1e6);
                cells.push(published.map_or(Cell::Empty, Cell::plain));
                let workload = workload(setting, pages, streams).expect("each is read by a test");
                for (index, world) in worlds.iter().enumerate() {
                    let label = format!("{world}: {setting}, {streams}");
                    let result = bench.run(index, &workload, &options, &label);
                    cells.extend(of_a_run(result, published)?);
                }
            }
            let pages = pages.map_or_else(|| "-".to_owned(), |pages| pages.to_string());
            let mark = mark(setting);
            rows.push(SheetRow { mark, ..SheetRow::new(vec![setting.to_owned(), pages], cells) });
        }
    }
    let notes = notes(&columns, &rows);
    Ok(Sheet { keys: vec!["scheduler", "pages"], columns, rows, notes, drawn: Vec::new() })
}

/// What is left to the reader, and how many accesses of the streams were late.
fn of_a_run(result: Result<Record, WorldError>, published: Option<f64>) -> Result<[Cell; 2], WorldError> {
    let late = result.as_ref().ok().and_then(late).map_or(Cell::Empty, Cell::plain);
    let rate =
        cell_of(result, |record| rate(record).map_or(Cell::Empty, |rate| Cell::against(rate, published)))?;
    Ok([rate, late])
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
    notes.extend(ASSUMED.map(str::to_owned));
    notes
}

const ASSUMED: [&str; 4] = [
    "late: accesses of the streams after their deadline of one access (65.5 ms), or left out; nothing of it was published as a number",
    "streams of 1 MB/s read 64 KiB from files of 105 MB. Rows with a batch have them fetched in batches into a play-out buffer, with real-time \
     priority; in the others programs read them past the page cache. The reader takes 128 KiB at a time of 175 MB, through the page cache",
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
        let table = Table::read(PUBLISHED).unwrap();
        assert_eq!(table.len(), 10);
        for row in 0..table.len() {
            let name = table.text(row, "elevator").unwrap();
            let workload = workload(name, table.number(row, "batch_pages"), 4).unwrap();
            assert_eq!(workload.streams[0].count, 4);
        }
        assert!(workload(UNANTICIPATED, None, 1).is_some());
    }
}
