//! `file-copy`: each copies one file to another, block by block: `size` (64 MiB), `block` (64 KiB), `direct` past the
//! page cache or through it, at most `rate`; again and again, or `once`.
//!
//! A copy is complete when it is on the disk. Then the page cache forgets both files, so that each copy reads and writes
//! as the first did.

use surety_kernel::files::evict;
use surety_model::record::loads::file_figures;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_units::Rate;

use super::block_by_block::{Moved, block_by_block};
use super::files::{BlockFile, Shape};
use super::{Ground, LoadDriver, LoadRun, LoadWorker, Workers};
use crate::window::{Gate, Window};

/// The row of the kind.
pub(super) const DRIVER: LoadDriver = LoadDriver {
    kind: LoadKind::FileCopy,
    most: 1_000,
    prepare,
    figures: |done, observed| file_figures(LoadKind::FileCopy, done, observed),
};

struct Copier {
    from: BlockFile,
    to: BlockFile,
    shape: Shape,
    rate: Option<Rate>,
    once: bool,
}

fn prepare(load: &Load, count: u32, ground: &Ground<'_>) -> Result<Workers, WorldError> {
    let shape = Shape::of(load)?;
    shape.check_room(load, u64::from(count) * 2, ground)?;
    let mut workers: Workers = Vec::new();
    for index in 0..u64::from(count) {
        let from = shape.make_file(load, index * 2, ground)?;
        let to = shape.make_file(load, index * 2 + 1, ground)?;
        let _ = (evict(from.file()), evict(to.file()));
        workers.push(Box::new(Copier { from, to, shape, rate: load.rate(), once: load.once }));
    }
    Ok(workers)
}

impl LoadWorker for Copier {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        let mut block = 0_u64;
        block_by_block("copying", self.rate, gate, window, || {
            let bytes = self.from.copy_to(&self.to, block)?;
            block += 1;
            let is_complete = block == self.shape.blocks;
            if is_complete {
                block = 0;
                self.to.file().sync_data()?;
                let _ = (evict(self.from.file()), evict(self.to.file()));
            }
            Ok(Moved { bytes, rounds: u64::from(is_complete), is_last: is_complete && self.once })
        })
    }
}
