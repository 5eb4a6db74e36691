//! `readers` and `writers`: each reads, or writes, a file of its own again and again: `size` (64 MiB), `block` (64 KiB), in order or
//! `random`, `direct` past the page cache or through it, at most `rate`.
//!
//! After each pass a reader drops what the page cache holds of its own file, so that the next one comes from the disk as
//! the first did; a writer waits until its file is on the disk, so that its rate is one the disk can keep up with and the
//! page cache never holds more than one pass of it.

use surety_kernel::files::evict;
use surety_model::record::loads::file_figures;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_stats::Pcg;
use surety_units::Rate;

use super::block_by_block::{Moved, block_by_block};
use super::files::{BlockFile, Shape};
use super::{Ground, LoadDriver, LoadRun, LoadWorker, Workers};
use crate::window::{Gate, Window};

/// The row of those that read.
pub(super) const READERS: LoadDriver = LoadDriver {
    kind: LoadKind::Readers,
    most: 1_000,
    prepare: |load, count, ground| prepare(load, count, ground, false),
    figures: |done, observed| file_figures(LoadKind::Readers, done, observed),
};

/// The row of those that write.
pub(super) const WRITERS: LoadDriver = LoadDriver {
    kind: LoadKind::Writers,
    most: 1_000,
    prepare: |load, count, ground| prepare(load, count, ground, true),
    figures: |done, observed| file_figures(LoadKind::Writers, done, observed),
};

struct Worker {
    file: BlockFile,
    shape: Shape,
    writes: bool,
    random: bool,
    rate: Option<Rate>,
    chance: Pcg,
}

/// Every file is full from the beginning: what is written over needs no room any more.
fn prepare(load: &Load, count: u32, ground: &Ground<'_>, writes: bool) -> Result<Workers, WorldError> {
    let shape = Shape::of(load)?;
    shape.check_room(load, u64::from(count), ground)?;
    let mut workers: Workers = Vec::new();
    for index in 0..u64::from(count) {
        let file = shape.make_file(load, index, ground)?;
        if !writes {
            // What is not dropped is read from memory once.
            let _ = evict(file.file());
        }
        let chance = Pcg::for_job(0, index, if writes { 3 } else { 1 });
        let (random, rate) = (load.random, load.rate());
        workers.push(Box::new(Worker { file, shape, writes, random, rate, chance }));
    }
    Ok(workers)
}

impl LoadWorker for Worker {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        let blocks = self.shape.blocks;
        let mut moved = 0_u64;
        let doing = if self.writes { "writing" } else { "reading" };
        block_by_block(doing, self.rate, gate, window, || {
            let block = if self.random { self.chance.below(blocks) } else { moved % blocks };
            let bytes = if self.writes { self.file.write(block)? } else { self.file.read(block)? };
            moved += 1;
            match moved.is_multiple_of(blocks) {
                true if self.writes => self.file.file().sync_data()?,
                true => drop(evict(self.file.file())),
                false => {}
            }
            Ok(Moved { bytes, rounds: 1, is_last: false })
        })
    }
}
