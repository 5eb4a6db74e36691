//! The experiments with interrupt threads on kernels of the lab, whose devices and costs are their own.
//!
//! A run without reservations says what the device's thread needs: its part of a CPU, the CPU time of a request, the rate.
//! These, measured, are all that the rule and the simulator are given; what they say of every reservation is held against what
//! the kernel did under it. So one row is calibrated on, and the published column is a comparison of another machine.

use surety_model::distribution::TimeDistribution;
use surety_model::platform::Platform;
use surety_model::record::{ActivityRecord, Record};
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Irq, Workload};
use surety_model::world::{LAB_PREFIX, RunOptions, Unobserved, World, WorldError};
use surety_sim::SimWorld;
use surety_units::Nanos;

use super::interrupts::{Line, SOURCE_NAME, held, key, part_kept, rate_of};
use crate::{Bench, Builds, Cell, Column, Mark, Origin, Planned, Request, Sheet, SheetRow, cell_of};

/// How a world is called that is a kernel of the lab.
/// How long a reservation is observed where nothing is said, and how many of its periods at least.
pub(super) const OBSERVED: Nanos = Nanos::SECOND;
const PERIODS: i64 = 4;
/// How long the simulator is given: it is cheap.
const SIMULATED: Nanos = Nanos::from_secs(20);
/// Of the thread's own need, up to which the line is fitted: beyond it the need binds.
const BELOW_NEED: f64 = 0.97;

/// The kernels of the lab among the worlds asked for; empty: the experiment is run as it was published.
pub(super) fn kernels(bench: &dyn Bench) -> Vec<(usize, String)> {
    bench.worlds().into_iter().enumerate().filter(|(_, name)| name.starts_with(LAB_PREFIX)).collect()
}

/// The options of a run under a reservation.
pub(super) fn observed(request: &Request, reservation: Option<Reservation>) -> RunOptions {
    let periods = reservation.map_or(Nanos::ZERO, |r| r.period * PERIODS);
    let duration = request.options.duration.max(periods);
    RunOptions { duration, cpus: None, ..request.options.clone() }
}

/// What a thread needs that nothing holds back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Free {
    /// Requests a second.
    pub rate: f64,
    /// The part of a CPU.
    pub need: f64,
    /// CPU time of a request.
    pub work: Nanos,
    /// The kernel's release.
    pub kernel: String,
}

fn figure(activity: &ActivityRecord, name: &str) -> Option<f64> {
    activity.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
}

/// CPU time of a request.
pub(super) fn work_of(activity: &ActivityRecord) -> Option<Nanos> {
    Some(Nanos::from_f64_rounded(figure(activity, "work of a request")?))
}

impl Free {
    /// `None` where the record lacks the load or one of its figures.
    pub fn of(record: &Record) -> Option<Free> {
        let activity = record.activity(SOURCE_NAME)?;
        Some(Free {
            rate: figure(activity, "rate")?,
            need: activity.share.as_ref()?.fraction(),
            work: work_of(activity)?,
            kernel: record.in_force.kernel.clone(),
        })
    }
}

/// The options of a simulated run whose rate is to be exact.
fn long(seed: u64) -> RunOptions {
    RunOptions { duration: SIMULATED, seed, ..RunOptions::default() }
}

/// The simulator of the kernel with this release.
pub(super) fn simulated(
    workload: &Workload,
    release: &str,
    options: &RunOptions,
) -> Result<Record, WorldError> {
    SimWorld::new(Platform::of_release(release, 1)).run(workload, options, &mut Unobserved)
}

/// What a sheet of reservations for one device shows.
pub(super) struct Lines<'a> {
    /// Row by row: the reservation, and what was published of it.
    pub rows: Vec<(Option<Reservation>, Option<f64>)>,
    /// The title of what was published.
    pub published: &'static str,
    /// The workload under a reservation or none.
    pub workload: &'a dyn Fn(Option<Reservation>) -> Workload,
    /// What is shown of a part of the unreserved throughput, its unit, and what it is in words.
    pub shown: fn(f64) -> f64,
    pub unit: &'static str,
    pub words: &'static str,
}

impl Lines<'_> {
    /// Runs everything in every kernel.
    pub fn sheet(&self, bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
        let kernels = kernels(bench);
        let column = |title: String, origin| Column { title, unit: self.unit, origin };
        let mut columns = vec![column(self.published.to_owned(), Origin::Published)];
        let mut cells: Vec<Vec<Cell>> =
            self.rows.iter().map(|(_, published)| vec![published.map_or(Cell::Empty, Cell::plain)]).collect();
        let mut notes = Vec::new();
        let mut builds = Builds::default();
        for (world, name) in &kernels {
            columns.push(column(name.clone(), Origin::World));
            columns.push(column("analysis".to_owned(), Origin::Theory));
            columns.push(column("simulation".to_owned(), Origin::World));
            let found = self.kernel(bench, request, *world, name, &mut builds, &mut notes)?;
            for (row, found) in cells.iter_mut().zip(found) {
                row.extend(found);
            }
        }
        let rows = self.rows.iter().zip(cells).map(|((reservation, _), cells)| SheetRow {
            mark: reservation.is_none().then_some(Mark::Calibrated),
            ..SheetRow::new(vec![key(*reservation)], cells)
        });
        let rows = rows.collect();
        notes.push(self.words.to_owned());
        notes.push(
            "errors: the lab's against what was published, of another device and another kernel; analysis and simulation \
             against the lab. Both are given what the unreserved run says, nothing else"
                .to_owned(),
        );
        notes.push("the lab's clock counts instructions: these are no times of any hardware".to_owned());
        notes.extend(builds.0);
        Ok(Sheet { keys: vec!["reservation"], columns, rows, notes, drawn: Vec::new() })
    }

    /// A row as a run.
    fn planned(&self, request: &Request, name: &str, reservation: Option<Reservation>) -> Planned {
        Planned {
            workload: (self.workload)(reservation),
            options: observed(request, reservation),
            label: format!("{name}: {}", key(reservation)),
        }
    }

    /// Runs every row in one kernel, in one boot where they can share it. The first is then made once more, in another boot for
    /// all of them that is ended behind it.
    fn kernel(
        &self,
        bench: &mut dyn Bench,
        request: &Request,
        world: usize,
        name: &str,
        builds: &mut Builds,
        notes: &mut Vec<String>,
    ) -> Result<Vec<[Cell; 3]>, WorldError> {
        let runs: Vec<Planned> = self.rows.iter().map(|(row, _)| self.planned(request, name, *row)).collect();
        let made = bench.run_each(world, &runs);
        if made.iter().any(|result| matches!(result, Err(WorldError::Interrupted))) {
            return Err(WorldError::Interrupted);
        }
        made.iter().for_each(|result| builds.add(name, result));
        let free = self.rows.iter().position(|(row, _)| row.is_none());
        let free = free.and_then(|row| made.get(row)?.as_ref().ok()).and_then(Free::of);
        let Some(free) = free else {
            let cells = made.into_iter().map(|result| match result {
                Ok(_) => [held(None, None), Cell::Empty, Cell::Empty],
                Err(why) => [Cell::Refused(why.to_string()), Cell::Empty, Cell::Empty],
            });
            return Ok(cells.collect());
        };
        let again = bench.run_first(1, world, &runs).into_iter().next();
        if let Some(Err(WorldError::Interrupted)) | None = &again {
            return Err(WorldError::Interrupted);
        }
        if let (Some(Ok(first)), Some(again)) = (made.first(), &again) {
            notes.push(in_words(name, &free, first, again));
        }
        let mut points = Vec::new();
        let mut found = Vec::new();
        for ((reservation, published), result) in self.rows.iter().zip(made) {
            let mut part = None;
            let measured = cell_of(result, |record| {
                part = rate_of(record).map(|rate| rate / free.rate);
                held(part.map(self.shown), *published)
            })?;
            if let (Some(part), Some(reservation)) = (part, reservation) {
                points.push((reservation.bandwidth().as_f64(), part));
            }
            let lab = measured.value();
            let by_rule = part_kept(*reservation, free.need).map(self.shown);
            let analysed = by_rule.map_or(Cell::Empty, |value| Cell::against(value, lab));
            let mut source = (self.workload)(*reservation);
            model(&mut source, &free);
            let cycle = |record: &Record| rate_of(record).map(|rate| (self.shown)(rate / free.rate));
            let simulated = match simulated(&source, &free.kernel, &long(request.options.seed)) {
                Ok(record) => cycle(&record).map_or(Cell::Empty, |value| Cell::against(value, lab)),
                Err(why) => Cell::Refused(why.to_string()),
            };
            found.push([measured, analysed, simulated]);
        }
        points.retain(|(share, _)| *share <= free.need * BELOW_NEED);
        notes.extend(Line::through(&points).map(|line| {
            format!(
                "{name}: throughput = {:.4} + Q/T x {:.4}, R^2 = {:.5} over the {} reservations below the thread's need",
                line.intercept,
                line.slope,
                line.r_squared,
                points.len()
            )
        }));
        Ok(found)
    }
}

/// A source as the unreserved run says it is: the thread takes its part of each cycle.
fn model(workload: &mut Workload, free: &Free) {
    for irq in &mut workload.irqs {
        irq.work = TimeDistribution::Constant(free.work);
        if let Arrivals::Closed { .. } = irq.arrivals {
            let cycle = Nanos::from_f64_rounded(1e9 / free.rate);
            irq.arrivals =
                Arrivals::Closed { outstanding: 1, service: (cycle - free.work).max(Nanos::new(1)) };
        }
    }
}

fn in_words(name: &str, free: &Free, first: &Record, again: &Result<Record, WorldError>) -> String {
    let device = first.in_force.environment.iter().find(|(name, _)| name.starts_with("device "));
    let device = device.map_or("its device", |(_, words)| words);
    let same = match again {
        Err(why) => format!("a second boot came to nothing ({why})"),
        Ok(again) if first.hash.is_some() && first.hash == again.hash => {
            "the first of them in a second boot gave the same record, bit for bit".to_owned()
        }
        Ok(_) => "the first of them in a second boot gave another record, so these are statistics".to_owned(),
    };
    format!(
        "{name}: {device}. Unreserved {:.1} requests a second, {} of CPU time each, {:.1} % of a CPU; all rows are runs in one boot, and {same}",
        free.rate,
        free.work,
        free.need * 100.0
    )
}

/// A source that is never idle, and the device that is to stand for it.
pub(super) fn source(arrivals: Arrivals, work: Nanos, reservation: Option<Reservation>) -> Workload {
    let irq = Irq { reservation, ..Irq::new(SOURCE_NAME, arrivals, TimeDistribution::Constant(work)) };
    Workload { irqs: vec![irq], ..Workload::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_of_6_12_admits_its_cap_beside_the_fair_server_and_others_do_not() {
        let ms = Nanos::from_millis;
        let disk = |share: i64| {
            let reservation = Some(Reservation::implicit(ms(share), ms(1000)));
            let arrivals = Arrivals::Closed { outstanding: 1, service: Nanos::from_micros(63) };
            source(arrivals, Nanos::from_micros(691), reservation)
        };
        let run = |share, release| simulated(&disk(share), release, &long(1));
        let admitted = run(950, "6.12.107+deb13-rt-amd64").unwrap();
        // More than it needs: nothing is held back.
        let part = rate_of(&admitted).unwrap() * 754e-6;
        assert!((part - 1.0).abs() < 0.01, "{part}");
        assert!(run(951, "6.12.107+deb13-rt-amd64").is_err());
        assert!(run(950, "6.18.5").is_err() && run(900, "6.18.5").is_ok());
        // No limit for realtime threads: all but the fair server's, and 7.1 has one for sched_ext too.
        assert!(run(950, "7.2.12").is_ok() && run(951, "7.2.12").is_err());
        assert!(run(900, "7.1.0").is_ok() && run(901, "7.1.0").is_err());
        assert!(run(950, "6.1.0-50-amd64").is_ok() && run(951, "6.1.0-50-amd64").is_err());
    }
}
