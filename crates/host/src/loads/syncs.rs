//! `syncs`: every `period` (2 s), all that was written to the file system of its disk is to be on the disk (`syncfs`), as `sync` in a
//! loop; one that takes longer than a period begins the next at the period after.

use std::fs::File;

use surety_kernel::clock;
use surety_kernel::files::sync_file_system;
use surety_model::record::loads::file_figures;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::Nanos;

use super::files::{FileOf, lost_file};
use super::{Counts, Ground, LoadDriver, LoadRun, LoadWorker, Workers, refused};
use crate::meter::ShareMeter;
use crate::window::{Gate, Window};

/// A shorter period leaves nothing to write.
const PERIOD_MIN: Nanos = Nanos::MILLISECOND;

/// The row of the kind.
pub(super) const DRIVER: LoadDriver = LoadDriver {
    kind: LoadKind::Syncs,
    most: 16,
    prepare,
    figures: |done, observed| file_figures(LoadKind::Syncs, done, observed),
};

struct Syncer {
    directory: File,
    period: Nanos,
}

fn prepare(load: &Load, count: u32, ground: &Ground<'_>) -> Result<Workers, WorldError> {
    let period = load.period();
    if period < PERIOD_MIN {
        return Err(refused(load, format!("`period` is at least {}", PERIOD_MIN.to_exact_string())));
    }
    let object = format!("load.{}", load.name);
    let directory = ground.directory(FileOf { object: &object, disk: load.disk.as_deref() })?;
    let make = |_| {
        let directory = File::open(&directory).map_err(|error| {
            refused(load, format!("the directory {} cannot be opened: {error}", directory.display()))
        })?;
        Ok(Box::new(Syncer { directory, period }) as Box<dyn LoadWorker>)
    };
    (0..count).map(make).collect()
}

impl LoadWorker for Syncer {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        let mut meter = ShareMeter::new(*window);
        let mut done = Counts::default();
        let mut due = window.begin;
        while gate.sleep_until(due) {
            let begun = clock::monotonic();
            if gate.is_over(window, begun) {
                break;
            }
            meter.look(begun);
            if let Err(error) = sync_file_system(&self.directory) {
                return lost_file("having everything written", &error);
            }
            let ended = clock::monotonic();
            if begun >= window.observe {
                done = done.plus(Counts { rounds: 1, taken: ended - begun, ..Counts::default() });
            }
            let periods = (ended - window.begin).get() / self.period.get() + 1;
            due = (window.begin + Nanos::new(self.period.get() * periods)).min(window.end);
        }
        LoadRun { metered: meter.finish(), is_busy: false, done, ..LoadRun::default() }
    }
}
