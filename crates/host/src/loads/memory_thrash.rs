//! `memory-thrash`: random reads and writes over a block larger than the caches (`size`, 64 MiB each by default).

use surety_kernel::facts::available_memory;
use surety_kernel::{RealKernel, clock};
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_stats::Pcg;
use surety_units::Nanos;

use super::{Counts, Ground, LoadDriver, LoadRun, LoadWorker, Workers, per_second};
use crate::meter::ShareMeter;
use crate::window::{Gate, Window};

/// Accesses between two looks at the clock.
const BATCH: u64 = 256;

/// The row of the kind.
pub(super) const DRIVER: LoadDriver =
    LoadDriver { kind: LoadKind::MemoryThrash, most: 10_000, prepare, figures };

struct Thrasher {
    block: Vec<u64>,
    chance: Pcg,
}

fn prepare(load: &Load, count: u32, _ground: &Ground<'_>) -> Result<Workers, WorldError> {
    let words = usize::try_from(load.size().0 / 8).unwrap_or(usize::MAX).max(1);
    let wanted = u128::from(count) * words as u128 * 8;
    if let Some(free) = available_memory(&RealKernel::new()).filter(|free| wanted > u128::from(free.0)) {
        return Err(WorldError::MachineFor {
            object: format!("load.{}", load.name),
            what: format!(
                "load.{} needs {} MB of memory, and {} MB are available",
                load.name,
                wanted.div_ceil(1_000_000),
                free.0 / 1_000_000
            ),
            remedy: "make `size` or `count` smaller".to_owned(),
        });
    }
    let mut workers: Workers = Vec::new();
    for index in 0..count {
        let mut block = Vec::new();
        block.try_reserve_exact(words).map_err(|_| WorldError::MachineFor {
            object: format!("load.{}", load.name),
            what: format!("there is no memory for load.{} ({count} blocks of {words} words)", load.name),
            remedy: "make `size` or `count` smaller".to_owned(),
        })?;
        // Writing every page takes the faults now, not while others are measured.
        block.resize(words, u64::from(index) + 1);
        workers.push(Box::new(Thrasher { block, chance: Pcg::for_job(0, u64::from(index), 0) }));
    }
    Ok(workers)
}

fn figures(done: &Counts, observed: Nanos) -> Vec<Figure> {
    vec![per_second("accesses", done.rounds, "/s", observed)]
}

impl LoadWorker for Thrasher {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        if !gate.sleep_until(window.begin) {
            return LoadRun::default();
        }
        let mut meter = ShareMeter::new(*window);
        let mut done = 0;
        let words = self.block.len() as u64;
        loop {
            let now = clock::monotonic();
            if gate.is_over(window, now) {
                break;
            }
            meter.look(now);
            for _ in 0..BATCH {
                let chance = self.chance.next_u64();
                // Multiply-shift maps 32 random bits onto the block; its tiny bias does not matter to a load.
                let index = (((chance >> 32) * words) >> 32) as usize;
                let word = &mut self.block[index];
                *word = if chance & 1 == 0 { word.wrapping_add(chance) } else { *word ^ 1 };
            }
            done += if now >= window.observe { BATCH } else { 0 };
        }
        let done = Counts { rounds: done, ..Counts::default() };
        LoadRun { metered: meter.finish(), is_busy: true, done, ..LoadRun::default() }
    }
}
