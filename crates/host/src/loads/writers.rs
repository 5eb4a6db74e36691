//! `writers`: each writes a file of its own over and over: `size` (64 MiB), `block` (64 KiB), in order or `random`,
//! `direct` past the page cache or through it, at most `rate`.
//!
//! After each pass a writer waits until its file is on the disk, so that its rate is one the disk can keep up with and the
//! page cache never holds more than one pass of it.

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
pub(super) const DRIVER: LoadDriver = LoadDriver { kind: LoadKind::Writers, most: 1_000, prepare, figures };

struct Writer {
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
        // Full from the beginning: what is written over needs no room any more.
        let file = shape.make_file(load, index, ground)?;
        let chance = Pcg::for_job(0, index, 3);
        workers.push(Box::new(Writer { file, shape, random: load.random, rate: load.rate(), chance }));
    }
    Ok(workers)
}

fn figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    vec![per_second("rate", done.bytes, "B/s", observed), per_second("writes", done.rounds, "/s", observed)]
}

impl LoadWorker for Writer {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        let blocks = self.shape.blocks;
        let mut written = 0_u64;
        block_by_block("writing", self.rate, gate, window, || {
            let block = if self.random { self.chance.below(blocks) } else { written % blocks };
            let bytes = self.file.write(block)?;
            written += 1;
            if written.is_multiple_of(blocks) {
                self.file.file().sync_data()?;
            }
            Ok(Moved { bytes, rounds: 1, is_last: false })
        })
    }
}
