//! Inter-packet times: packets sent every T, how far apart they are at the sender, at the receiver and in the trace.

use surety_model::interpacket::{HANDLED, POLLED, RECEIVED, SENT, TRACED};
use surety_model::record::{Observed, Record};
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::published::Table;
use crate::{Bench, COMMON, Cell, Column, Experiment, Origin, Probe, Request, Sheet, SheetRow};

/// The distances in milliseconds.
const INTERVALS: [i64; 5] = [1, 5, 10, 50, 100];

/// Where packets are seen, with the table as printed; nothing was printed of polls.
const PLACES: [(&str, Option<&str>); 4] = [
    (SENT, Some(include_str!("../../published/irq_interpacket_sent.csv"))),
    (RECEIVED, Some(include_str!("../../published/irq_interpacket_received.csv"))),
    (TRACED, Some(include_str!("../../published/irq_interpacket_traced.csv"))),
    (POLLED, None),
];

/// CPU time of the interrupt thread for a packet, as printed.
const EXECUTION: &str = include_str!("../../published/irq_execution.csv");

/// Titles of the values in the tables, in the order of [`Stats`].
const TITLES: [&str; 4] = ["average_us", "std_dev_us", "max_us", "min_us"];
const SHOWN: [&str; 4] = ["mean", "std dev", "max", "min"];

/// Mean, standard deviation, maximum, minimum in nanoseconds.
type Stats = [f64; 4];

/// The published row of an interval.
fn published(table: &Table, interval: i64) -> Option<Stats> {
    let name = format!("T{interval}");
    let row = (0..table.len()).find(|row| table.text(*row, "test") == Some(&name))?;
    let mut stats = [0.0; 4];
    for (value, title) in stats.iter_mut().zip(TITLES) {
        *value = table.number(row, title)? * 1e3;
    }
    Some(stats)
}

/// Why no set of numbers has these statistics; empty when one may.
///
/// A mean lies between the extremes, and a standard deviation is at most half their distance (Popoviciu's inequality, for
/// that of a population; of a sample of two it may be 1.42 times as much).
fn impossible([mean, deviation, max, min]: Stats) -> &'static str {
    if mean > max {
        "mean above maximum"
    } else if mean < min {
        "mean below minimum"
    } else if deviation > (max - min) / 2.0 * std::f64::consts::SQRT_2 {
        "deviation beyond the range"
    } else {
        ""
    }
}

fn stats_of(record: &Record, series: &str) -> Option<Stats> {
    let observed: &Observed = record.activity("packets")?.series.get(series)?.observed()?;
    let moments = &observed.moments;
    Some([moments.mean()?, moments.std_dev()?, moments.max()?, moments.min()?])
}

/// Four cells; the mean is held against another mean where there is one.
fn cells_of(stats: Option<Stats>, against: Option<f64>) -> Vec<Cell> {
    let Some(stats) = stats else { return vec![Cell::Empty; SHOWN.len()] };
    let mut cells: Vec<Cell> = stats.into_iter().map(Cell::plain).collect();
    cells[0] = Cell::Value { value: stats[0], error: against.map(|against| stats[0] - against) };
    cells
}

/// What one world gave for one interval.
enum Measured {
    Record(Box<Record>),
    Refused(String),
}

impl Measured {
    /// The cells of one place.
    fn cells(&self, series: &str) -> Vec<Cell> {
        match self {
            Measured::Refused(why) => vec![Cell::Refused(why.clone()); SHOWN.len()],
            Measured::Record(record) => {
                let sent = stats_of(record, SENT).map(|s| s[0]).filter(|_| series != SENT);
                cells_of(stats_of(record, series), sent)
            }
        }
    }

    /// A figure of the packets.
    fn figure(&self, name: &str) -> Option<f64> {
        let Measured::Record(record) = self else { return None };
        record.activity("packets")?.figures.iter().find(|f| f.name == name).map(|f| f.value)
    }

    /// How far the mean in the trace is from that at the sender, as a fraction of it.
    fn traced_error(&self) -> Option<f64> {
        let Measured::Record(record) = self else { return None };
        let (sent, traced) = (stats_of(record, SENT)?[0], stats_of(record, TRACED)?[0]);
        (sent > 0.0).then(|| traced / sent - 1.0)
    }
}

fn columns(worlds: &[String]) -> Vec<Column> {
    let of = |source: &str, origin: Origin| {
        SHOWN.map(|name| Column { title: format!("{source} {name}"), unit: "ns", origin })
    };
    let measured = worlds.iter().flat_map(|world| of(world, Origin::World));
    of("published", Origin::Published).into_iter().chain(measured).collect()
}

/// A standard deviation that is this many times the published one, or this part of it, is another.
const ALIKE: f64 = 2.0;

/// The standard deviations that are not the published ones, in words; empty where all are alike.
fn other_deviations(world: &str, measured: &[Measured]) -> String {
    let mut others = Vec::new();
    for (place, text) in PLACES {
        let Some(text) = text else { continue };
        let table = Table::read(text).expect("the embedded tables are read by a test");
        for (interval, m) in INTERVALS.iter().zip(measured) {
            let Measured::Record(record) = m else { continue };
            let printed = published(&table, *interval).filter(|stats| impossible(*stats).is_empty());
            if let (Some(printed), Some(ours)) = (printed, stats_of(record, place)) {
                let (printed, ours) = (printed[1], ours[1]);
                if ours > printed * ALIKE || ours * ALIKE < printed {
                    let us = Nanos::from_f64_rounded;
                    others.push(format!("{place} at {interval} ms {} ({} published)", us(ours), us(printed)));
                }
            }
        }
    }
    if others.is_empty() {
        return String::new();
    }
    format!(
        "{world}: not reproduced, standard deviations that are more than {ALIKE} times or less than 1/{ALIKE} of the published ones: \
         {}. Nothing is calibrated on them: they are those of wake-ups of fair threads here",
        others.join(", ")
    )
}

/// What is to be said of a world's records: the trace against the sender, then whatever speaks against them.
fn notes_of(world: &str, measured: &[Measured]) -> Vec<String> {
    let mut notes = Vec::new();
    let by_interval = |value: &dyn Fn(&Measured) -> Option<String>| -> String {
        let texts = INTERVALS.iter().zip(measured);
        let texts: Vec<String> =
            texts.filter_map(|(ms, m)| Some(format!("{} at {ms} ms", value(m)?))).collect();
        texts.join(", ")
    };
    let errors = by_interval(&|m| Some(format!("{:+.4} %", m.traced_error()? * 100.0)));
    notes.extend(Some(other_deviations(world, measured)).filter(|said| !said.is_empty()));
    if !errors.is_empty() {
        notes.push(format!("{world}: mean in the trace against the mean sent: {errors}"));
    }
    let inside = by_interval(&|m| Some(format!("{:.1} %", m.figure("in the sender's context")? * 100.0)));
    if !inside.is_empty() {
        notes.push(format!("{world}: packets handed up while their sender was current: {inside}"));
    }
    let threads = by_interval(&|m| {
        let share = m.figure("by threads that poll")?;
        (share > 0.0).then(|| format!("{:.1} %", share * 100.0))
    });
    if !threads.is_empty() {
        notes.push(format!("{world}: packets taken by a thread that does nothing but poll: {threads}"));
    }
    let handled = by_interval(&|m| Some(format!("{:.1} us", m.figure(HANDLED)? / 1e3)));
    if !handled.is_empty() {
        let table = Table::read(EXECUTION).expect("the embedded tables are read by a test");
        let printed = (0..table.len()).filter_map(|row| table.number(row, "average_us"));
        let printed: Vec<String> = printed.map(|us| us.to_string()).collect();
        notes.push(format!(
            "{world}: CPU time of the interrupt's threads for a packet, on average: {handled}; published, of another machine: {} us",
            printed.join(", ")
        ));
    }
    for (interval, m) in INTERVALS.iter().zip(measured) {
        let Measured::Record(record) = m else { continue };
        if let Some(lost) = m.figure("lost").filter(|lost| *lost > 0.0) {
            notes.push(format!("{world}, {interval} ms: {lost:.0} packets were lost"));
        }
        if !record.degraded.is_empty() {
            notes.push(format!("{world}, {interval} ms, degraded: {}", record.degraded.join("; ")));
        }
    }
    notes
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "interpacket",
    title: "how far apart packets are that are sent every T: at the sender, the receiver and in the trace",
    source: "N. Manica et al., Schedulable Device Drivers, 2010",
    worlds: &["host"],
    duration: Nanos::from_secs(10),
    lab_shift: 1,
    lab_devices: &["packets=pcnet"],
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let worlds = bench.worlds();
    let mut measured: Vec<Vec<Measured>> = Vec::new();
    for (index, world) in worlds.iter().enumerate() {
        let mut of_world = Vec::new();
        for interval in INTERVALS {
            let probe = Probe::Interpacket { interval: Nanos::from_millis(interval) };
            let label = format!("{world}: a packet each {interval} ms");
            of_world.push(match bench.probe(index, &probe, &request.options, &label) {
                Ok(record) => Measured::Record(Box::new(record)),
                Err(WorldError::Interrupted) => return Err(WorldError::Interrupted),
                Err(why) => Measured::Refused(why.to_string()),
            });
        }
        measured.push(of_world);
    }
    let mut rows = Vec::new();
    for (index, interval) in INTERVALS.iter().enumerate() {
        for (place, text) in PLACES {
            let table = text.map(|text| Table::read(text).expect("the embedded tables are read by a test"));
            let printed = table.and_then(|table| published(&table, *interval));
            let mark = printed.map_or("", impossible);
            let mut cells = cells_of(printed, None);
            cells.extend(measured.iter().flat_map(|of_world| of_world[index].cells(place)));
            rows.push(SheetRow::new(vec![format!("{interval} ms {place}"), mark.to_owned()], cells));
        }
    }
    let mut notes = vec![
        "a published row cannot be right where it says why; nothing is held against it".to_owned(),
        "errors are of the mean against the mean at the sender in the same run; the published means are 0.2 ms \
         longer than T, as of a sender that sleeps T after each packet; this one keeps to a grid, so its mean is T"
            .to_owned(),
        "published extremes at the receiver are multiples of 2.048 ms: its clock told no finer \
         times, which is most of the deviation there".to_owned(),
        "on the host the packets cross a virtual cable (veth), which has no hardware interrupt: the trace is of the packet \
         handed up by the device, in a softirq of the CPU that sent it; polled is the end of the poll that took it. In the lab \
         they go from one card to another, and are handed up by the thread of the interrupt"
            .to_owned(),
    ];
    for (world, of_world) in worlds.iter().zip(&measured) {
        notes.extend(notes_of(world, of_world));
    }
    Ok(Sheet {
        keys: vec!["T, seen at", "as printed"],
        columns: columns(&worlds),
        rows,
        notes,
        drawn: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::platform::Platform;
    use surety_model::record::{ActivityRecord, Basis, Distribution, InForce};
    use surety_model::workload::{ActivityKind, Workload};
    use surety_model::world::RunOptions;

    #[test]
    fn two_published_rows_cannot_be_right_and_all_are_there() {
        let mut marked = Vec::new();
        for (place, text) in PLACES {
            let Some(table) = text.map(|text| Table::read(text).unwrap()) else { continue };
            assert_eq!(table.len(), INTERVALS.len());
            for interval in INTERVALS {
                let stats = published(&table, interval).unwrap();
                if !impossible(stats).is_empty() {
                    marked.push((place, interval));
                }
            }
        }
        assert_eq!(marked, [(TRACED, 50), (TRACED, 100)]);
        assert_eq!(Table::read(EXECUTION).unwrap().number(4, "average_us"), Some(21.0));
    }

    #[test]
    fn the_published_receivers_clock_was_coarse() {
        let table = Table::read(PLACES[1].1.unwrap()).unwrap();
        for interval in INTERVALS {
            let [_, _, max, min] = published(&table, interval).unwrap();
            assert_eq!((max % 2_048_000.0, min % 2_048_000.0), (0.0, 0.0), "{interval}");
        }
    }

    #[test]
    fn deviations_that_are_not_the_published_ones_are_named() {
        let of = |spread: i64| {
            let mut observed = Observed::default();
            for k in 0..1000 {
                observed.record(Nanos::from_micros(1190 + if k % 2 == 0 { spread } else { -spread }));
            }
            let mut packets = ActivityRecord::new("packets", ActivityKind::Probe, Basis::Sample);
            packets.series.insert(SENT.to_owned(), Distribution::from(observed));
            let record = Record { activities: vec![packets], ..empty() };
            other_deviations("lab:a", &[Measured::Record(Box::new(record))])
        };
        // 29 us were published of the sender at 1 ms.
        assert_eq!((of(29), of(50), of(20)), (String::new(), String::new(), String::new()));
        assert!(
            of(583).contains("sent at 1 ms 583.") && of(583).contains("(29.00 us published)"),
            "{}",
            of(583)
        );
        assert!(of(3).contains("not reproduced"));
    }

    fn empty() -> Record {
        Record {
            world: "lab:a".to_owned(),
            reserved: false,
            seed: None,
            duration: None,
            in_force: InForce::default(),
            degraded: Vec::new(),
            activities: Vec::new(),
            trace: None,
            hash: None,
        }
    }

    /// A bench in which nothing can be measured.
    struct Nothing;

    impl Bench for Nothing {
        fn worlds(&self) -> Vec<String> {
            vec!["sim".to_owned()]
        }

        fn run(&mut self, _: usize, _: &Workload, _: &RunOptions, _: &str) -> Result<Record, WorldError> {
            unreachable!("it is no workload")
        }

        fn probe(&mut self, _: usize, _: &Probe, _: &RunOptions, _: &str) -> Result<Record, WorldError> {
            Err(WorldError::Unsupported {
                world: "sim".to_owned(),
                object: "packets".to_owned(),
                why: "it has no network".to_owned(),
            })
        }

        fn run_on(
            &mut self,
            _: &Platform,
            _: usize,
            _: &Workload,
            _: &RunOptions,
            _: &str,
        ) -> Result<Record, WorldError> {
            unreachable!("it is no workload")
        }
    }

    #[test]
    fn a_world_without_a_network_is_refused_row_by_row() {
        let request = Request { options: RunOptions::default(), seeds: 1, only: Vec::new() };
        let sheet = reproduce(&mut Nothing, &request).unwrap();
        assert_eq!(sheet.rows.len(), 20);
        for (row, (_, printed)) in sheet.rows.iter().zip(PLACES.iter().cycle()) {
            assert_eq!(row.cells.len(), sheet.columns.len());
            assert!(row.cells[..4].iter().all(|c| c.value().is_some() == printed.is_some()));
            assert!(row.cells[4..].iter().all(|c| matches!(c, Cell::Refused(_))));
        }
    }
}
