//! Loads: best-effort activity that disturbs, each with a result of its own, because its loss is the price.
//!
//! A new load is one file here that implements [`LoadDriver`], and one line in [`DRIVERS`].

mod memory_thrash;
mod readers;
mod spinners;

use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::meter::Metered;
use crate::window::{Gate, Window};

/// A kind of load: makes the workers of one `[[load]]`.
pub(crate) trait LoadDriver: Sync {
    /// Which kind it is.
    fn kind(&self) -> LoadKind;

    /// Makes `count` workers, everything they need at hand: files made, memory touched.
    fn prepare(&self, load: &Load, count: u32) -> Result<Vec<Box<dyn LoadWorker>>, WorldError>;

    /// Turns what the workers did inside `observed` into the load's figures.
    fn figures(&self, done: u64, observed: Nanos) -> Vec<Figure>;
}

/// One thread of a load.
pub(crate) trait LoadWorker: Send {
    /// Works until the window ends.
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun;
}

/// What one worker did inside the observed window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadRun {
    /// What it got.
    pub metered: Metered,
    /// Whether it never sleeps, so that its gaps are time without a CPU.
    pub is_busy: bool,
    /// Units of work: bytes, rounds.
    pub done: u64,
}

/// Every kind of load this world can run.
pub(crate) const DRIVERS: &[&dyn LoadDriver] =
    &[&spinners::Spinners, &memory_thrash::MemoryThrash, &readers::Readers];

/// The driver of a load, or why there is none.
pub(crate) fn driver_of(load: &Load) -> Result<&'static dyn LoadDriver, WorldError> {
    DRIVERS.iter().copied().find(|d| d.kind() == load.kind).ok_or_else(|| {
        let known: Vec<&str> = DRIVERS.iter().map(|d| d.kind().word()).collect();
        WorldError::Unsupported {
            world: "host".to_owned(),
            object: format!("load.{}", load.name),
            why: format!(
                "this version runs loads of kind {}, not `{}`; take one of those",
                known.join(", "),
                load.kind.word()
            ),
        }
    })
}
