//! `readers`: each reads a file of its own again and again: `size` (64 MiB), `block` (64 KiB), in order or `random`,
//! `direct` past the page cache or through it, at most `rate`.
//!
//! After each pass a reader drops what the page cache holds of its own file, so that the next one comes from the disk as
//! the first did.

use surety_kernel::files::evict;
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_stats::Pcg;
use surety_units::{Nanos, Rate};

use super::block_by_block::{Moved, block_by_block};
use super::files::{BlockFile, Shape};
use super::{Counts, Ground, LoadDriver, LoadRun, LoadWorker, Workers, per_second};
use crate::window::{Gate, Window};

/// The row of the kind.
pub(super) const DRIVER: LoadDriver = LoadDriver { kind: LoadKind::Readers, most: 1_000, prepare, figures };

struct Reader {
    file: BlockFile,
    shape: Shape,
    random: bool,
    rate: Option<Rate>,
    chance: Pcg,
}

fn prepare(load: &Load, count: u32, ground: &Ground<'_>) -> Result<Workers, WorldError> {
    let shape = Shape::of(load)?;
    shape.check_room(load, u64::from(count), ground)?;
    let mut workers: Workers = Vec::new();
    for index in 0..u64::from(count) {
        let file = shape.make_file(load, index, ground)?;
        // What is not dropped is read from memory once.
        let _ = evict(file.file());
        let chance = Pcg::for_job(0, index, 1);
        workers.push(Box::new(Reader { file, shape, random: load.random, rate: load.rate(), chance }));
    }
    Ok(workers)
}

fn figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    vec![per_second("rate", done.bytes, "B/s", observed), per_second("reads", done.rounds, "/s", observed)]
}

impl LoadWorker for Reader {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        let blocks = self.shape.blocks;
        let mut read = 0_u64;
        block_by_block("reading", self.rate, gate, window, || {
            let block = if self.random { self.chance.below(blocks) } else { read % blocks };
            let bytes = self.file.read(block)?;
            read += 1;
            if read.is_multiple_of(blocks) {
                let _ = evict(self.file.file());
            }
            Ok(Moved { bytes, rounds: 1, is_last: false })
        })
    }
}
