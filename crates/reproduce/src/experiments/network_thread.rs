//! A network device's thread under one reservation after the other: is what it gets through a straight line over Q/T?
//!
//! The reservations of the published experiment [`super::player_network`], all of 100 ms, and two smaller ones. More
//! packets arrive than any of them carries, so that the budget binds; a busy loop on every CPU wants what the thread does not
//! get. Packets of another machine take another time each, so rates are compared as parts of the rate at 13/100, the
//! row that calibrates there too: `(Q/T) / (13/100)` in theory.

use surety_model::distribution::TimeDistribution;
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Instances, Irq, Load, LoadKind, Workload};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::cards;
use super::in_lab::{self, Lines};
use super::interrupts::{Line, SOURCE, SOURCE_NAME, key, rate_of, reservation};
use crate::published::Table;
use crate::{Bench, COMMON, Cell, Column, Experiment, Mark, Origin, Request, Sheet, SheetRow};

/// Reservations and throughputs as printed.
const PUBLISHED: &str = include_str!("../../published/irq_player_network.csv");

/// The period of all reservations.
const PERIOD: Nanos = Nanos::from_millis(100);
/// Budgets that were not published, in milliseconds.
const FURTHER: [i64; 2] = [2, 5];
/// The row that all rates are compared with.
const WHOLE: &str = "Test3";
/// Between two packets: they come faster than the thread handles them, so its queue is never empty while it has budget. A thread
/// that waits for each packet alone takes much longer for it, for want of a warm cache.
const GAP: Nanos = Nanos::from_micros(10);
/// CPU time of a packet: near what the published rows imply, 21.3 us.
const WORK: Nanos = Nanos::from_micros(20);
/// Packets the device holds: a virtual cable's queue.
const ROOM: u64 = 256;

/// The row of the line's own rate.
const LINE: &str = "no-reservation-irq-first";
/// Further budgets for the lab, in milliseconds.
const FURTHER_IN_LAB: [i64; 6] = [4, 6, 8, 10, 11, 16];
/// How long a run takes when nothing is said, and how long in the lab: the rates are some hundred packets a second.
const DURATION: Nanos = Nanos::from_secs(10);
const OBSERVED_IN_LAB: Nanos = Nanos::from_secs(4);

/// One reservation.
struct Point {
    test: String,
    reservation: Reservation,
    published: Option<f64>,
}

impl Point {
    fn share(&self) -> f64 {
        self.reservation.bandwidth().as_f64()
    }
}

/// Every reservation, the smallest first.
fn points(table: &Table) -> Vec<Point> {
    let further = FURTHER.map(|budget| Point {
        test: String::new(),
        reservation: Reservation::implicit(Nanos::from_millis(budget), PERIOD),
        published: None,
    });
    let printed = (0..table.len()).filter_map(|row| {
        Some(Point {
            test: table.text(row, "test")?.to_owned(),
            reservation: reservation(table, row, "irq_budget_ms", "irq_period_ms")?,
            published: table.number(row, "throughput_Mbps"),
        })
    });
    further.into_iter().chain(printed).collect()
}

fn workload(reservation: Reservation) -> Workload {
    let irq = Irq {
        device: Some("eth".to_owned()),
        buffer: Some(ROOM),
        reservation: Some(reservation),
        ..Irq::new(SOURCE_NAME, Arrivals::Sporadic { gap: GAP }, TimeDistribution::Constant(WORK))
    };
    let busy = Load { count: Instances::PerCpu(1), ..Load::new("busy", LoadKind::Spinners, 1) };
    Workload { irqs: vec![irq], loads: vec![busy], ..Workload::default() }
}

/// The published reservations and further ones for a card of the lab, as parts of what comes on the wire.
fn lines_in_lab(table: &Table) -> Lines<'static> {
    let line = (0..table.len()).find(|row| table.text(*row, "test") == Some(LINE));
    let line = line.and_then(|row| table.number(row, "throughput_Mbps"));
    let part = |megabits: Option<f64>| Some(megabits? / line?);
    let mut rows: Vec<_> = points(table)
        .into_iter()
        .map(|point| (Some(point.reservation), part(point.published)))
        .chain(FURTHER_IN_LAB.map(|ms| (Some(Reservation::implicit(Nanos::from_millis(ms), PERIOD)), None)))
        .collect();
    rows.sort_by_key(|(reservation, _)| reservation.map(|r| r.runtime));
    rows.insert(0, (None, Some(1.0)));
    Lines {
        rows,
        published: "published",
        workload: &|reservation| cards::card(cards::RING_MAX, reservation),
        shown: |part| part,
        unit: "%",
        words: "throughput: as a part of that without a reservation",
    }
}

/// What a run gave.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    /// Packets a second.
    rate: f64,
    /// Part of a CPU the thread used.
    share: f64,
}

fn outcome(record: &Record) -> Option<Outcome> {
    let share = record.activity(SOURCE_NAME)?.share.as_ref()?.fraction();
    Some(Outcome { rate: rate_of(record)?, share })
}

/// The outcomes of a world: of each point in each sweep, or why there are none.
struct World {
    name: String,
    sweeps: Vec<Vec<Outcome>>,
    refused: Option<String>,
    runs: u32,
    /// Of them, those that are not to be taken at their word.
    disturbed: u32,
    /// The most that other programs and the hypervisor took of the CPUs in a run.
    others: f64,
    stolen: f64,
}

impl World {
    /// Runs every reservation, sweep by sweep, until the world refuses.
    fn measure(
        bench: &mut dyn Bench,
        index: usize,
        name: &str,
        points: &[Point],
        request: &Request,
    ) -> Result<World, WorldError> {
        let mut world = World {
            name: name.to_owned(),
            sweeps: Vec::new(),
            refused: None,
            runs: 0,
            disturbed: 0,
            others: 0.0,
            stolen: 0.0,
        };
        for sweep in 0..request.seeds {
            let mut outcomes = Vec::new();
            for point in points {
                let mut options = request.options.clone();
                options.seed += u64::from(sweep);
                let label = format!(
                    "{name}: {}, sweep {} of {}",
                    key(Some(point.reservation)),
                    sweep + 1,
                    request.seeds
                );
                match bench.run(index, &workload(point.reservation), &options, &label) {
                    Ok(record) => {
                        world.runs += 1;
                        world.disturbed += u32::from(!record.is_trusted());
                        if let Some(disturbance) = record.in_force.disturbance {
                            world.others = world.others.max(disturbance.others);
                            world.stolen = world.stolen.max(disturbance.stolen);
                        }
                        outcomes.extend(outcome(&record));
                    }
                    Err(WorldError::Interrupted) => return Err(WorldError::Interrupted),
                    Err(why) => {
                        world.refused = Some(why.to_string());
                        return Ok(world);
                    }
                }
            }
            if outcomes.len() < points.len() {
                world.refused = Some("it says no rate or no CPU time of an interrupt source".to_owned());
                return Ok(world);
            }
            world.sweeps.push(outcomes);
        }
        Ok(world)
    }

    /// The mean over the sweeps.
    fn mean(&self, point: usize, of: fn(&Outcome) -> f64) -> Option<f64> {
        let values: Vec<f64> = self.sweeps.iter().filter_map(|sweep| sweep.get(point)).map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The three cells of a row.
    fn cells(&self, point: usize, whole: usize, share: f64, theory: f64) -> Vec<Cell> {
        let (rate, used) = (self.mean(point, |o| o.rate), self.mean(point, |o| o.share));
        match (rate, self.mean(whole, |o| o.rate), used) {
            (Some(rate), Some(all), Some(used)) => {
                vec![Cell::against(rate / all, Some(theory)), Cell::plain(rate), Cell::plain(used / share)]
            }
            _ => {
                let why = self.refused.clone().unwrap_or_else(|| "it was not run".to_owned());
                vec![Cell::Refused(why), Cell::Empty, Cell::Empty]
            }
        }
    }

    /// How far its runs were disturbed, where they were.
    fn remark(&self) -> Option<String> {
        let World { name, runs, disturbed, others, stolen, .. } = self;
        (*disturbed > 0).then(|| {
            format!(
                "{name}: {disturbed} of {runs} runs were disturbed; other programs used up to {:.1} % of the CPUs meanwhile, the \
                 hypervisor took up to {:.1} %, which comes out of the budget",
                others * 100.0,
                stolen * 100.0
            )
        })
    }

    /// The line of each sweep, in words.
    fn lines(&self, points: &[Point]) -> Vec<String> {
        let fitted = |(sweep, outcomes): (usize, &Vec<Outcome>)| {
            let pairs: Vec<(f64, f64)> =
                points.iter().map(Point::share).zip(outcomes.iter().map(|o| o.rate)).collect();
            let line = Line::through(&pairs)?;
            Some(format!("{}, sweep {}: {}", self.name, sweep + 1, in_words(&line, "/s", points.len())))
        };
        self.sweeps.iter().enumerate().filter_map(fitted).collect()
    }
}

fn in_words(line: &Line, unit: &str, points: usize) -> String {
    format!(
        "throughput = {:.1}{unit} + Q/T x {:.1}{unit}, R^2 = {:.5} over {points} reservations",
        line.intercept, line.slope, line.r_squared
    )
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "network-thread",
    title: "what a network device's thread gets through over its reservation",
    source: SOURCE,
    worlds: &["host", "sim"],
    duration: DURATION,
    lab_duration: Some(OBSERVED_IN_LAB),
    lab_shift: 1,
    lab_devices: &[cards::DEVICE],
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let table = Table::read(PUBLISHED).expect("the embedded table is read by a test");
    if !in_lab::kernels(bench).is_empty() {
        return lines_in_lab(&table).sheet(bench, request);
    }
    let points = points(&table);
    let whole = points.iter().position(|p| p.test == WHOLE).expect("a test finds the row");
    let mut worlds = Vec::new();
    for (index, name) in bench.worlds().iter().enumerate() {
        worlds.push(World::measure(bench, index, name, &points, request)?);
    }
    let column = |title: String, unit, origin| Column { title, unit, origin };
    let mut columns = vec![
        column("published".to_owned(), "%", Origin::Published),
        column("theory".to_owned(), "%", Origin::Theory),
    ];
    for world in &worlds {
        columns.push(column(world.name.clone(), "%", Origin::World));
        columns.push(column(format!("{} rate", world.name), "/s", Origin::World));
        columns.push(column(format!("{} used", world.name), "%", Origin::World));
    }
    let mut rows = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let theory = point.share() / points[whole].share();
        let printed = point.published.zip(points[whole].published).map(|(some, all)| some / all);
        let mut cells =
            vec![printed.map_or(Cell::Empty, |p| Cell::against(p, Some(theory))), Cell::plain(theory)];
        worlds.iter().for_each(|world| cells.extend(world.cells(index, whole, point.share(), theory)));
        let mark = (index == whole).then_some(Mark::Calibrated);
        rows.push(SheetRow {
            mark,
            ..SheetRow::new(vec![point.test.clone(), key(Some(point.reservation))], cells)
        });
    }
    Ok(Sheet {
        keys: vec!["test", "network"],
        columns,
        rows,
        notes: notes(&points, &worlds),
        drawn: Vec::new(),
    })
}

fn notes(points: &[Point], worlds: &[World]) -> Vec<String> {
    let printed: Vec<(f64, f64)> = points.iter().filter_map(|p| Some((p.share(), p.published?))).collect();
    let mut notes = vec![
        format!(
            "every rate is a part of the one at 13/100 ms of the same column, and errors are against Q/T as a part of 13/100; \
             `used` is the part of the budget that the thread used: near 100 % it was the budget that bound"
        ),
        format!(
            "a packet at most every {GAP}, {ROOM} of them held by the device, a busy loop on every CPU; \
             a packet takes {WORK} of CPU time"
        ),
    ];
    notes.extend(Line::through(&printed).map(|line| {
        format!("published: {}; Test5 is at the rate of its line", in_words(&line, " Mbit/s", printed.len()))
    }));
    for world in worlds {
        notes.extend(world.lines(points));
        notes.extend(world.remark());
    }
    notes
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::Probe;
    use surety_model::platform::Platform;
    use surety_model::record::{ActivityRecord, Basis, Figure, InForce, Share};
    use surety_model::workload::ActivityKind;
    use surety_model::world::RunOptions;
    use surety_units::CpuSet;

    /// A bench whose thread gets through what its budget carries at 4 us a packet.
    struct Ideal;

    impl Bench for Ideal {
        fn worlds(&self) -> Vec<String> {
            vec!["ideal".to_owned()]
        }

        fn run(
            &mut self,
            _: usize,
            workload: &Workload,
            options: &RunOptions,
            _: &str,
        ) -> Result<Record, WorldError> {
            let share = workload.irqs[0].reservation.unwrap().bandwidth().as_f64();
            let mut activity = ActivityRecord::new(SOURCE_NAME, ActivityKind::Irq, Basis::Sample);
            activity.figures =
                vec![Figure { name: "rate".to_owned(), value: share / 4e-6, unit: "/s".into() }];
            let run = Nanos::from_f64_rounded(options.duration.get() as f64 * share);
            activity.share = Some(Share { threads: vec![(run, None)], span: options.duration });
            Ok(Record {
                world: "ideal".to_owned(),
                reserved: true,
                seed: None,
                duration: Some(options.duration),
                in_force: InForce { cpus: CpuSet::first(1), ..InForce::default() },
                degraded: Vec::new(),
                activities: vec![activity],
                trace: None,
                hash: None,
            })
        }

        fn probe(&mut self, _: usize, _: &Probe, _: &RunOptions, _: &str) -> Result<Record, WorldError> {
            unreachable!("it probes nothing")
        }

        fn run_on(
            &mut self,
            _: &Platform,
            world: usize,
            workload: &Workload,
            options: &RunOptions,
            label: &str,
        ) -> Result<Record, WorldError> {
            self.run(world, workload, options, label)
        }
    }

    #[test]
    fn an_ideal_thread_lies_on_the_line() {
        let options = RunOptions { duration: Nanos::SECOND, ..RunOptions::default() };
        let sheet = reproduce(&mut Ideal, &Request { options, seeds: 2, only: Vec::new() }).unwrap();
        assert_eq!(sheet.rows.len(), 7);
        for row in &sheet.rows {
            assert!(row.cells[2].error().unwrap().abs() < 1e-6, "{row:?}");
            assert!((row.cells[4].value().unwrap() - 1.0).abs() < 1e-6, "{row:?}");
        }
        let lines: Vec<&String> = sheet.notes.iter().filter(|note| note.contains("sweep")).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.contains("x 250000.0/s, R^2 = 1.00000")), "{lines:?}");
        // By hand of the five published rows: the squared correlation of (9, 12, 13, 14, 18) and their rates.
        let published = sheet.notes.iter().find(|note| note.starts_with("published")).unwrap();
        assert!(published.contains("R^2 = 0.97468 over 5 reservations"), "{published}");
    }
}
