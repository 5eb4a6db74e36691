//! [`reproduce`]: the player and the network's thread on kernels of the lab.
//!
//! A packet takes longer there, and packets come as much more slowly, so that the thread needs the same part of a CPU of the line:
//! the sender is on a CPU of its own, but the emulator runs CPUs in turns, and so it has to matter little. Rates are shown as the
//! published line's. As of the published rows, two give what the rule and the simulator are told: interrupts first the rate
//! of the line, and Test3 the CPU time of a packet.

use surety_analysis::interrupts::throughput::open;
use surety_model::distribution::TimeDistribution;
use surety_model::record::Record;
use surety_model::workload::{Arrivals, Workload};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::super::in_lab::{kernels, observed, simulated};
use super::super::interrupts::{held, rate_of};
use super::super::network_thread::LAB_WORK;
use super::{Calibration, FRAME, IRQ_FIRST, PLAYER_FIRST, RESERVED, megabits, network, player, workload};
use crate::published::Table;
use crate::{Bench, Builds, Cell, Column, Mark, Origin, Request, Sheet, SheetRow};

/// The lab's packets come this much more slowly: then a packet of [`LAB_WORK`] takes the part of a CPU that was published.
const SLOWER: f64 = 28.0;

/// The part of the player's frames that were shown in time.
fn kept(record: &Record) -> Option<f64> {
    let player = record.activity("player")?;
    (player.activations > 0).then(|| 1.0 - player.missed as f64 / player.activations as f64)
}

fn in_lab(calibration: &Calibration, table: &Table, row: usize, test: &str) -> Workload {
    let mut workload = workload(calibration, table, row, test);
    for irq in &mut workload.irqs {
        // On a grid: a sender that is late now and then keeps its rate.
        irq.arrivals =
            Arrivals::Periodic { period: Nanos::from_f64_rounded(SLOWER * 1e9 / calibration.line) };
        irq.work = TimeDistribution::Constant(LAB_WORK);
    }
    workload
}

pub(super) fn reproduce(
    bench: &mut dyn Bench,
    request: &Request,
    table: &Table,
    calibration: &Calibration,
    duration: Nanos,
) -> Result<Sheet, WorldError> {
    let column = |title: &str, unit, origin| Column { title: title.to_owned(), unit, origin };
    let mut columns = vec![column("published", "Mbit/s", Origin::Published)];
    let test_of = |row| table.text(row, "test").unwrap_or_default();
    let mut cells: Vec<Vec<Cell>> = (0..table.len())
        .map(|row| vec![table.number(row, "throughput_Mbps").map_or(Cell::Empty, Cell::plain)])
        .collect();
    let mut notes = Vec::new();
    let mut builds = Builds::default();
    for (world, name) in kernels(bench) {
        let mut records = Vec::new();
        for row in 0..table.len() {
            let options = observed(request, duration, network(table, row).or(player(table, row)));
            let test = test_of(row);
            let result = bench.run(
                world,
                &in_lab(calibration, table, row, test),
                &options,
                &format!("{name}: {test}"),
            );
            builds.add(&name, &result);
            if matches!(result, Err(WorldError::Interrupted)) {
                return Err(WorldError::Interrupted);
            }
            records.push(result);
        }
        let rate = |test: &str| {
            let row = (0..table.len()).find(|row| test_of(*row) == test)?;
            Some((rate_of(records[row].as_ref().ok()?)?, network(table, row)))
        };
        let given = rate(IRQ_FIRST).zip(rate(RESERVED)).and_then(|((line, _), (reserved, reservation))| {
            Some((line, Nanos::from_f64_rounded(reservation?.bandwidth().as_f64() / reserved * 1e9)))
        });
        for (row, result) in records.iter().enumerate() {
            let test = test_of(row);
            let published = table.number(row, "throughput_Mbps");
            let shown = |rate: f64| megabits(rate * SLOWER);
            let measured = match result {
                Ok(record) => held(rate_of(record).map(shown), published),
                Err(why) => Cell::Refused(why.to_string()),
            };
            let lab = measured.value();
            let frames = result.as_ref().ok().and_then(kept).map_or(Cell::Empty, Cell::plain);
            let Some((line, work)) = given else {
                cells[row].extend([measured, Cell::Empty, Cell::Empty, frames, Cell::Empty]);
                continue;
            };
            let by_rule = match network(table, row) {
                Some(reservation) => open(line, work, &reservation).ok().map(|through| through.at_most),
                // What the player leaves, where it comes first.
                None if test == PLAYER_FIRST => {
                    let left = 1.0 - calibration.frame().get() as f64 / FRAME.get() as f64;
                    Some((left / work.as_secs_f64()).min(line))
                }
                None => Some(line),
            };
            let analysed = by_rule.map_or(Cell::Empty, |rate| Cell::against(shown(rate), lab));
            let mut told = in_lab(calibration, table, row, test);
            for irq in &mut told.irqs {
                irq.arrivals = Arrivals::Periodic { period: Nanos::from_f64_rounded(1e9 / line) };
                irq.work = TimeDistribution::Constant(work);
            }
            let (by_simulation, simulated_frames) = match simulated(&told, request.options.seed) {
                Ok(record) => (
                    rate_of(&record).map_or(Cell::Empty, |rate| Cell::against(shown(rate), lab)),
                    kept(&record).map_or(Cell::Empty, |part| Cell::against(part, frames.value())),
                ),
                Err(why) => (Cell::Refused(why.to_string()), Cell::Empty),
            };
            cells[row].extend([measured, analysed, by_simulation, frames, simulated_frames]);
        }
        columns.extend([
            column(&name, "Mbit/s", Origin::World),
            column("analysis", "Mbit/s", Origin::Theory),
            column("simulation", "Mbit/s", Origin::World),
            column("frames in time", "%", Origin::World),
            column("simulated", "%", Origin::World),
        ]);
        notes.extend(given.map(|(line, work)| {
            format!("{name}: {line:.1} packets a second on the line, {work} of CPU time each; shown times {SLOWER}, as packets of 1448 bytes")
        }));
    }
    let key = |r: Option<surety_model::reservation::Reservation>| {
        r.map_or_else(String::new, |r| {
            format!("{}/{}", r.runtime.get() / 1_000_000, r.period.get() / 1_000_000)
        })
    };
    let rows = cells.into_iter().enumerate().map(|(row, cells)| {
        let test = test_of(row);
        let name = test.trim_start_matches("no-reservation-").to_owned();
        let mark = [IRQ_FIRST, RESERVED].contains(&test).then_some(Mark::Calibrated);
        SheetRow {
            mark,
            ..SheetRow::new(vec![name, key(player(table, row)), key(network(table, row))], cells)
        }
    });
    let rows = rows.collect();
    notes.push(format!(
        "errors: the lab's against what was published; analysis and simulation against the lab. The player needs {} of each {FRAME} \
         frame, as the published rows imply, and gives a frame up while one is late",
        calibration.frame()
    ));
    notes.push("the lab's clock counts instructions: these are no times of any hardware".to_owned());
    notes.extend(builds.0);
    Ok(Sheet { keys: vec!["test", "player, ms", "network, ms"], columns, rows, notes, drawn: Vec::new() })
}
