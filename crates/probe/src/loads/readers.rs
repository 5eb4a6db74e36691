//! `readers`: each reads a file of its own from start to end, again and again: `size` (64 MiB), `block` (64 KiB),
//! `random` order, `direct` past the page cache, at most `rate`.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use surety_kernel::clock;
use surety_kernel::files::reopen_direct;
use surety_model::record::Figure;
use surety_model::workload::{Load, LoadKind};
use surety_model::world::WorldError;
use surety_stats::Pcg;
use surety_units::{Bytes, Nanos, Rate};

use super::{LoadDriver, LoadRun, LoadWorker};
use crate::meter::ShareMeter;
use crate::window::{Gate, Window};

const SIZE: Bytes = Bytes(64 << 20);
const BLOCK: Bytes = Bytes(64 << 10);
/// Direct reads need buffers and offsets that are multiples of the device's block; this fits all of today's.
const ALIGNMENT: usize = 4096;

/// The kind.
pub(super) struct Readers;

struct Reader {
    file: File,
    blocks: u64,
    block: usize,
    random: bool,
    rate: Option<Rate>,
    buffer: Vec<u8>,
    chance: Pcg,
}

impl LoadDriver for Readers {
    fn kind(&self) -> LoadKind {
        LoadKind::Readers
    }

    fn prepare(&self, load: &Load, count: u32) -> Result<Vec<Box<dyn LoadWorker>>, WorldError> {
        if let Some(disk) = &load.disk {
            return Err(WorldError::Unsupported {
                world: "host".to_owned(),
                object: format!("load.{}", load.name),
                why: format!(
                    "this version makes and binds no disks; leave out `disk = \"{disk}\"`: the readers \
                              then read files in the directory for temporary files"
                ),
            });
        }
        let block = usize::try_from(load.block.unwrap_or(BLOCK).0).unwrap_or(usize::MAX).max(1);
        let size = load.size.unwrap_or(SIZE).0;
        let blocks = size / block as u64;
        if blocks == 0 || block > 1 << 30 || (load.direct && !block.is_multiple_of(ALIGNMENT)) {
            return Err(WorldError::Unsupported {
                world: "host".to_owned(),
                object: format!("load.{}", load.name),
                why: format!(
                    "`block` is at most `size` and 1GiB, and with `direct` a multiple of 4KiB, not {block} bytes of {size}"
                ),
            });
        }
        let failed = |error: std::io::Error| WorldError::Machine {
            what: format!("the file of load.{} cannot be made or read: {error}", load.name),
            remedy: "make room in the directory for temporary files or set TMPDIR to one with room"
                .to_owned(),
        };
        let mut workers: Vec<Box<dyn LoadWorker>> = Vec::new();
        for index in 0..count {
            let made = make_file(blocks, block, u64::from(index)).map_err(failed)?;
            let file = if load.direct { reopen_direct(&made).map_err(failed)? } else { made };
            workers.push(Box::new(Reader {
                file,
                blocks,
                block,
                random: load.random,
                rate: load.rate,
                buffer: vec![0; block + ALIGNMENT],
                chance: Pcg::for_job(0, u64::from(index), 1),
            }));
        }
        Ok(workers)
    }

    fn figures(&self, done: u64, observed: Nanos) -> Vec<Figure> {
        let rate = done as f64 / observed.as_secs_f64();
        vec![Figure { name: "rate".to_owned(), value: rate, unit: "B/s".into() }]
    }
}

/// A file without a name, full of bytes no file system can store as a hole. It is gone when closed.
fn make_file(blocks: u64, block: usize, seed: u64) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    let mut chance = Pcg::for_job(seed, 0, 2);
    let mut bytes = vec![0; block];
    for _ in 0..blocks {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&chance.next_u64().to_le_bytes()[..word.len()]);
        }
        file.write_all(&bytes)?;
    }
    file.sync_data()?;
    Ok(file)
}

impl LoadWorker for Reader {
    fn run(&mut self, gate: &Gate, window: &Window) -> LoadRun {
        if !gate.sleep_until(window.begin) {
            return LoadRun::default();
        }
        let mut meter = ShareMeter::new(*window);
        let offset = self.buffer.as_ptr().align_offset(ALIGNMENT);
        let (mut done, mut read, mut next) = (0_u64, 0_u64, 0_u64);
        loop {
            let now = clock::monotonic();
            if gate.is_over(window, now) {
                break;
            }
            meter.look(now);
            if self.random {
                next = self.chance.below(self.blocks);
            }
            let at = next * self.block as u64;
            let count = match self.file.read_at(&mut self.buffer[offset..offset + self.block], at) {
                Ok(count) => count as u64,
                // The file is ours alone; a read error means a failing disk, and the rate shows it.
                Err(_) => break,
            };
            next = (next + 1) % self.blocks;
            read += count;
            done += if now >= window.observe { count } else { 0 };
            if let Some(rate) = self.rate.filter(|r| r.0 > 0) {
                let due = Nanos::SECOND.mul_ratio(read, rate.0);
                if !gate.sleep_until((window.begin + due).min(window.end)) {
                    break;
                }
            }
        }
        LoadRun { metered: meter.finish(), is_busy: false, done }
    }
}
