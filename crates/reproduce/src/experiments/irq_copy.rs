//! The time to copy a file under reservations for the disk's interrupt thread.
//!
//! One parameter decides: the part `need` of a CPU that the thread uses while nothing holds it back. A copy then takes
//! `t0 max(1, need T / Q)`. Two rows give both unknowns; the others are predicted. In the simulator the disk serves one
//! request at a time and the thread handles it before the next is issued, as without DMA, where the thread itself moves
//! the data: a request takes `1 - need` of its time in the device and `need` of it in the thread.

use surety_model::distribution::TimeDistribution;
use surety_model::record::Record;
use surety_model::reservation::Reservation;
use surety_model::workload::{Arrivals, Irq, Workload};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::in_lab::{Lines, OBSERVED, kernels, source};
use super::interrupts::{SOURCE, SOURCE_NAME, columns, held, key, machines, part_kept, rate_of, reserved};
use crate::published::Table;
use crate::{Bench, COMMON, Cell, Experiment, Mark, Request, Sheet, SheetRow, cell_of, one_cpu};

/// The times as printed.
const PUBLISHED: &str = include_str!("../../published/irq_disk_copy.csv");

/// Budget in milliseconds of the reserved row that is calibrated on; the other is the row without reservation.
const CALIBRATED_ON: f64 = 50.0;

/// Time of one request without reservation. Not published; it matters only against the budget.
pub(super) const CYCLE: Nanos = Nanos::from_millis(1);

/// The disk of the lab: an SD card whose data the interrupt thread moves word by word, in reads of 32 KiB. So its thread needs
/// nine tenths of a CPU, as without DMA on the machine of the experiment; with smaller reads the rest of the kernel takes a
/// larger part, and with DMA the thread needs a third.
pub(super) const LAB_DEVICE: &str = "device=sd-card-pio:32KiB";
/// Who reads it all the time.
const READERS: u32 = 8;

/// The disk as the lab reads it; how long a request takes is the kernel's and the device's business.
pub(super) fn lab_disk(reservation: Option<Reservation>) -> Workload {
    source(Arrivals::Closed { outstanding: READERS, service: CYCLE }, CYCLE, reservation)
}

/// What two rows say about the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Calibration {
    /// Seconds without reservation.
    pub free: f64,
    /// The part of a CPU the thread uses then.
    pub need: f64,
}

pub(super) fn calibration() -> Calibration {
    let table = Table::read(PUBLISHED).expect("the embedded table is read by a test");
    let seconds = |row| table.number(row, "average_s");
    let rows = || 0..table.len();
    let free = rows().find(|row| reserved(&table, *row).is_none()).and_then(seconds);
    let row = rows().find(|row| table.number(*row, "budget_ms") == Some(CALIBRATED_ON));
    let bandwidth = row.and_then(|row| reserved(&table, row)).map(|r| r.bandwidth().as_f64());
    let (Some(free), Some(slowed), Some(bandwidth)) = (free, row.and_then(seconds), bandwidth) else {
        unreachable!("both rows are in the embedded table, as a test makes sure");
    };
    Calibration { free, need: bandwidth * slowed / free }
}

/// A disk whose thread needs this part of a CPU, under a reservation or none.
pub(super) fn disk(need: f64, reservation: Option<Reservation>) -> Workload {
    let work = Nanos::from_f64_rounded(CYCLE.get() as f64 * need);
    let arrivals = Arrivals::Closed { outstanding: 1, service: CYCLE - work };
    let irq = Irq { reservation, ..Irq::new(SOURCE_NAME, arrivals, TimeDistribution::Constant(work)) };
    Workload { irqs: vec![irq], ..Workload::default() }
}

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "irq-copy",
    title: "the time to copy a file under reservations for the disk's interrupt thread",
    source: SOURCE,
    worlds: &["sim"],
    duration: Nanos::from_secs(60),
    lab_duration: Some(OBSERVED),
    lab_shift: 1,
    lab_devices: &[LAB_DEVICE],
    reproduce,
    ..COMMON
};

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let table = Table::read(PUBLISHED).expect("the embedded table is read by a test");
    if !kernels(bench).is_empty() {
        let free = calibration().free;
        let slowed = |row| table.number(row, "average_s").map(|seconds| seconds / free);
        let lines = Lines {
            rows: (0..table.len()).map(|row| (reserved(&table, row), slowed(row))).collect(),
            published: "published",
            workload: &lab_disk,
            // How many times as long the same number of requests takes; the guest copies no file of the published length.
            shown: |part| 1.0 / part,
            unit: "x",
            words: "slowdown: how many times as long as without a reservation; published are times of a copy, here divided by \
                    that of their own row without a reservation",
        };
        return lines.sheet(bench, request);
    }
    let Calibration { free, need } = calibration();
    let options = one_cpu(&request.options);
    let worlds = bench.worlds();
    // Requests of one copy.
    let requests = free / CYCLE.as_secs_f64();
    let mut rows = Vec::new();
    for row in 0..table.len() {
        let reservation = reserved(&table, row);
        let published = table.number(row, "average_s");
        let theory = part_kept(reservation, need).map(|part| free / part);
        let mut cells = vec![published.map_or(Cell::Empty, Cell::plain), held(theory, published)];
        let workload = disk(need, reservation);
        for (index, world) in worlds.iter().enumerate() {
            for (word, platform) in machines() {
                let label = format!("{world} {word}: {}", key(reservation));
                let result = bench.run_on(&platform, index, &workload, &options, &label);
                let seconds = |record: &Record| rate_of(record).map(|rate| requests / rate);
                cells.push(cell_of(result, |record| held(seconds(record), published))?);
            }
        }
        let is_calibrated = reservation.is_none() || table.number(row, "budget_ms") == Some(CALIBRATED_ON);
        let mark = is_calibrated.then_some(Mark::Calibrated);
        rows.push(SheetRow { mark, ..SheetRow::new(vec![key(reservation)], cells) });
    }
    let notes = vec![
        format!(
            "theory: t0 max(1, need T / Q) with t0 = {free} s and need = {:.1} % of a CPU, both from the rows \
             marked calibrated; the other rows are predicted, errors are against what was published",
            need * 100.0
        ),
        format!(
            "assumed: the thread moves the data (no DMA), so device and thread take turns, one request in \
             flight; a request takes {CYCLE} without reservation, which matters only against the budget"
        ),
        "exact: budgets enforced by a timer, as on the machine of the experiment; tick: on its ticks, \
         as Linux 6.18 at 250 Hz does, without fair server"
            .to_owned(),
    ];
    Ok(Sheet { keys: vec!["reservation"], columns: columns("s", &worlds), rows, notes, drawn: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_give_the_need_and_the_formula_the_other_six() {
        let table = Table::read(PUBLISHED).unwrap();
        let Calibration { free, need } = calibration();
        assert_eq!((table.len(), free), (8, 16.89));
        assert!((need - 0.9322).abs() < 1e-4, "{need}");
        for row in 0..table.len() {
            let published = table.number(row, "average_s").unwrap();
            let theory = free / part_kept(reserved(&table, row), need).unwrap();
            assert!((theory / published - 1.0).abs() < 0.015, "row {row}: {theory} {published}");
        }
    }

    #[test]
    fn the_disk_takes_its_whole_cycle() {
        let irq = &disk(0.9322, None).irqs[0];
        let Arrivals::Closed { outstanding: 1, service } = irq.arrivals else { panic!("{irq:?}") };
        assert_eq!(irq.work, TimeDistribution::Constant(CYCLE - service));
    }
}
