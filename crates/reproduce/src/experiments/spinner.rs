//! The spinner: what a thread of high priority gets of a CPU beside many of normal priority.
//!
//! The fair class shares a CPU by weight: of one thread of weight `w` beside `n` of weight 1024 the part
//! `w / (w + 1024 n)`. A published share therefore says which weight its thread had, `1024 n s / (1 - s)`.

use surety_model::distribution::TimeDistribution;
use surety_model::record::Record;
use surety_model::weight::{NICE_0_WEIGHT, nice_weight};
use surety_model::workload::{Load, LoadKind, PolicySpec, Task, TaskBody, Work, Workload};
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::published::Table;
use crate::{
    Bench, Builds, COMMON, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow, cell_of, one_cpu,
};

/// The shares as printed.
const PUBLISHED: &str = include_str!("../../published/spinner.csv");

/// Nice values of the thread under study: normal, the one that the published shares imply, and the published one.
const NICE: [i32; 3] = [0, -8, -20];

/// How many normal threads stand beside it.
const BESIDE: [u32; 3] = [1, 10, 100];

/// Where a share is printed as less than this, it says so.
const BELOW: &str = "<";

/// The weight a share beside `count` normal threads implies.
fn implied_weight(share: f64, count: u32) -> f64 {
    NICE_0_WEIGHT as f64 * f64::from(count) * share / (1.0 - share)
}

/// The share by weight.
fn share_by_weight(nice: i32, count: u32) -> f64 {
    let weight = nice_weight(nice) as f64;
    weight / (weight + NICE_0_WEIGHT as f64 * f64::from(count))
}

fn workload(nice: i32, count: u32) -> Workload {
    let mut high = Task::periodic("high", Nanos::from_secs(1), TimeDistribution::Constant(Nanos::new(1)));
    high.body = TaskBody::Synthetic(Work::Forever);
    high.policy = PolicySpec::Fair { nice, slice: None };
    let normal = Load::new("normal", LoadKind::Spinners, count);
    Workload { tasks: vec![high], loads: vec![normal], ..Workload::default() }
}

/// What was published for a nice value and a number of threads.
fn published(table: &Table, nice: i32, count: u32) -> Cell {
    let is_row = |row: &usize| {
        table.number(*row, "high_nice_as_published") == Some(f64::from(nice))
            && table.number(*row, "normal_threads") == Some(f64::from(count))
    };
    let text = (0..table.len()).find(is_row).and_then(|row| table.text(row, "share_percent"));
    match text {
        None => Cell::Empty,
        Some(text) => {
            let number = text.trim_start_matches(BELOW).parse::<f64>().map(|percent| percent / 100.0);
            match (text.starts_with(BELOW), number) {
                (true, Ok(limit)) => Cell::Below(limit),
                (false, Ok(value)) => Cell::plain(value),
                (_, Err(_)) => Cell::Empty,
            }
        }
    }
}

fn share_of(record: &Record, theory: f64) -> Cell {
    let share = record.activity("high").and_then(|a| a.share.as_ref());
    share.map_or(Cell::Empty, |s| Cell::Value { value: s.fraction(), error: Some(s.fraction() - theory) })
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "spinner",
    title: "the share of a high-priority spinner beside normal ones",
    source: "S. Rostedt's spinner test, as reported of OSPM 2023",
    worlds: &["sim", "host"],
    duration: Nanos::from_secs(20),
    // Shares do not hang on how long an instruction takes, and a busy second costs the host a quarter.
    lab_shift: 2,
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let table = Table::read(PUBLISHED).expect("the embedded table is read by a test");
    let options = one_cpu(&request.options);
    let worlds = bench.worlds();
    let share = |title: &str, origin| Column { title: title.to_owned(), unit: "%", origin };
    let mut columns = vec![
        share("published", Origin::Published),
        Column { title: "implied weight".to_owned(), unit: "", origin: Origin::Theory },
        share("by weight", Origin::Theory),
    ];
    columns.extend(worlds.iter().map(|world| share(world, Origin::World)));
    let mut rows = Vec::new();
    let mut builds = Builds::default();
    for nice in NICE {
        for count in BESIDE {
            let printed = published(&table, nice, count);
            let implied = printed.value().map_or(Cell::Empty, |s| Cell::plain(implied_weight(s, count)));
            let theory = share_by_weight(nice, count);
            let mut cells = vec![printed, implied, Cell::plain(theory)];
            let workload = workload(nice, count);
            for (index, world) in worlds.iter().enumerate() {
                let label = format!("{world}: nice {nice} beside {count}");
                let result = bench.run(index, &workload, &options, &label);
                builds.add(world, &result);
                cells.push(cell_of(result, |record| share_of(record, theory))?);
            }
            rows.push(SheetRow::new(vec![nice.to_string(), count.to_string()], cells));
        }
    }
    let mut notes = vec![
        "by weight: w / (w + 1024 n) with the kernel's weight of the nice value; errors are against it"
            .to_owned(),
        format!(
            "the published shares were printed of nice -20, weight {}; the weights they imply lie between \
             those of nice -8 ({}) and -9 ({}), so the thread of that test had another nice value, or its \
             share was divided between groups first",
            nice_weight(-20),
            nice_weight(-8),
            nice_weight(-9)
        ),
        "all threads are in one session on one CPU: autogroup divides between sessions first".to_owned(),
        "published of 1000 threads beside one of nice -20: less than 1 %, which implies a weight below \
         10343 and is not run"
            .to_owned(),
    ];
    notes.extend(builds.0);
    Ok(Sheet { keys: vec!["nice", "normal threads"], columns, rows, notes, drawn: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_rows_are_found_and_imply_nice_minus_eight_or_nine() {
        let table = Table::read(PUBLISHED).unwrap();
        assert_eq!(table.len(), 3);
        assert_eq!(published(&table, -20, 1), Cell::plain(0.87));
        assert_eq!(published(&table, -20, 1000), Cell::Below(0.01));
        assert_eq!(published(&table, 0, 1), Cell::Empty);
        for (share, count) in [(0.87, 1), (0.40, 10)] {
            let weight = implied_weight(share, count);
            assert!(weight > nice_weight(-8) as f64 && weight < nice_weight(-9) as f64, "{weight}");
        }
    }

    #[test]
    fn a_share_and_its_implied_weight_are_inverse() {
        for (nice, count) in [(0, 1), (-8, 10), (-20, 100)] {
            let back = implied_weight(share_by_weight(nice, count), count);
            assert!((back / nice_weight(nice) as f64 - 1.0).abs() < 1e-12);
        }
    }
}
