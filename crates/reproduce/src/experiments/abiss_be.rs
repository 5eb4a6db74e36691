//! What ABISS leaves to best-effort reading beside one and four guaranteed streams, under the I/O schedulers of its time.
//!
//! Published is the throughput of the best-effort reader for 10 rows, of which six are I/O schedulers and five of the first are batches. The
//! disk and its driver are not; `hdd-2004` is fitted to the table by three numbers, and no row is fitted by more.

use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::workload::Workload;
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::published::Table;
use crate::{Bench, COMMON, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow, cell_of, one_cpu};

/// The throughputs as printed.
const PUBLISHED: &str = include_str!("../../published/abiss_be_throughput.csv");
/// The batch of rows that name none: the one whose buffer is described.
const BATCH: f64 = 20.0;
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

/// An I/O scheduler as the table calls it: its word, and what of it is set.
fn scheduler(name: &str) -> (&str, &'static str) {
    match name {
        "abiss-rt" => ("abiss", ""),
        "abiss-be" => ("abiss", "realtime = 0"),
        "cfq" => ("cfq-v2", ""),
        other => (other, ""),
    }
}

fn workload(name: &str, batch: f64, streams: u32) -> Workload {
    let (word, tunables) = scheduler(name);
    let text = format!(
        "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nscheduler = '{word}'\ntunables = {{ {tunables} }}\n\
         [[stream]]\nname = 'guaranteed'\ndisk = 'd'\ncount = {streams}\nfile = {{ make = '105MB' }}\n\
         rate = '1MB/s'\nread = '64KiB'\nbatch = '{}KiB'\n\
         [[load]]\nname = 'best-effort'\nkind = 'readers'\ncount = 1\ndisk = 'd'\nblock = '128KiB'\nsize = '175MB'\n",
        batch * 4.0
    );
    toml::read("abiss-be", &text).expect("an embedded workload is read by a test")
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
        let mut cells = Vec::new();
        for (streams, title) in STREAMS {
            let published = table.number(row, title).map(|rate| rate * 1e6);
            cells.push(published.map_or(Cell::Empty, Cell::plain));
            let workload = workload(name, pages.unwrap_or(BATCH), streams);
            for (index, world) in worlds.iter().enumerate() {
                let label = format!("{world}: {name}, {} pages, {streams}", pages.unwrap_or(BATCH));
                let result = bench.run(index, &workload, &options, &label);
                let late = result.as_ref().ok().and_then(late).map_or(Cell::Empty, Cell::plain);
                cells.push(cell_of(result, |record| {
                    rate(record).map_or(Cell::Empty, |rate| Cell::against(rate, published))
                })?);
                cells.push(late);
            }
        }
        let pages = pages.map_or_else(|| format!("({BATCH})"), |pages| pages.to_string());
        rows.push(SheetRow::new(vec![name.to_owned(), pages], cells));
    }
    let notes = notes(&columns, &rows);
    Ok(Sheet { keys: vec!["scheduler", "pages"], columns, rows, notes, drawn: Vec::new() })
}

/// Bytes a second of the best-effort reader.
fn rate(record: &Record) -> Option<f64> {
    let figures = &record.activity("best-effort")?.figures;
    figures.iter().find(|figure| figure.name == "rate").map(|figure| figure.value)
}

/// The part of the streams' accesses that came after their deadline, or not at all.
fn late(record: &Record) -> Option<f64> {
    let streams = record.activity("guaranteed")?;
    let all = (streams.completed + streams.skipped) as f64;
    (all > 0.0).then(|| (streams.missed + streams.skipped) as f64 / all)
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
        let all = errors(&|_| true);
        let abiss = errors(&|row| row.keys[0] == "abiss-rt");
        notes.push(format!(
            "{world}: {} of {} cells within 0.8 MB/s of the published ones, root mean square of the errors {:.2} MB/s; of the rows \
             abiss-rt {:.2} MB/s",
            all.iter().filter(|error| error.abs() <= 0.8e6).count(),
            all.len(),
            root_mean_square(&all) / 1e6,
            root_mean_square(&abiss) / 1e6,
        ));
    }
    notes.push(
        "late: accesses of the streams after their deadline of one access (65.5 ms), or left out; nothing of it was published as a number"
            .to_owned(),
    );
    notes.push(format!(
        "streams of 1 MB/s read 64 KiB from files of 105 MB through a play-out buffer filled in batches; rows without a batch have \
         {BATCH} pages, that of the published buffer. The reader takes 128 KiB at a time of 175 MB, through the page cache"
    ));
    notes.push(
        "hdd-2004: its rate, overhead and seeks are fitted to this table (see `surety device show hdd-2004`), by an earlier model; the \
         row noop, and every other I/O scheduler, is computed from them"
            .to_owned(),
    );
    notes.push(
        "assumed: the I/O schedulers of 2.6.20 for those of 2004, but for cfq; the read-ahead of today; files behind one another"
            .to_owned(),
    );
    notes
}

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
            let batch = table.number(row, "batch_pages").unwrap_or(BATCH);
            assert_eq!(workload(name, batch, 4).streams[0].count, 4);
        }
    }
}
