//! `spinners`: busy loops that take every CPU they are given, and see for themselves how long they were away.

use surety_kernel::clock;
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::{Counts, Ground, LoadDriver, LoadRun, LoadWorker, Workers};
use crate::meter::ShareMeter;
use crate::window::{Gate, Window};

/// The row of the kind.
pub(super) const DRIVER: LoadDriver = LoadDriver { kind: LoadKind::Spinners, most: 10_000, prepare, figures };

struct Spinner;

fn prepare(_load: &Load, count: u32, _ground: &Ground<'_>) -> Result<Workers, WorldError> {
    Ok((0..count).map(|_| Box::new(Spinner) as Box<dyn LoadWorker>).collect())
}

fn figures(_done: &Counts, _observed: Nanos) -> Vec<Figure> {
    // Its result is its share.
    Vec::new()
}

impl LoadWorker for Spinner {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        if !gate.sleep_until(window.begin) {
            return LoadRun::default();
        }
        let mut meter = ShareMeter::new(*window);
        loop {
            let now = clock::monotonic();
            if gate.is_over(window, now) {
                break;
            }
            meter.look(now);
        }
        LoadRun { metered: meter.finish(), is_busy: true, ..LoadRun::default() }
    }
}
