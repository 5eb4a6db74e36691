//! Files that loads read and write: without a name, full of bytes no file system can store as a hole, in blocks.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use surety_kernel::block::room_in;
use surety_kernel::clock;
use surety_kernel::files::{nameless_in, reopen_direct};
use surety_model::workload::Load;
use surety_model::world::WorldError;
use surety_stats::Pcg;
use surety_units::{Nanos, Rate};

use super::{Ground, LoadRun, refused};
use crate::said::{remedy_of, said};
use crate::window::{Gate, Window};

/// Direct accesses need buffers and offsets that are multiples of the device's block; this fits all of today's.
pub(crate) const ALIGNMENT: usize = 4096;

/// How a load accesses a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of one access.
    pub block: usize,
    /// Accesses from one end of the file to the other.
    pub blocks: u64,
    /// Past the page cache.
    pub direct: bool,
}

/// Whose file it is, and where it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOf<'a> {
    /// `load.copy`.
    pub object: &'a str,
    /// Disk, by name.
    pub disk: Option<&'a str>,
}

impl Shape {
    /// What a load asks for.
    pub fn of(load: &Load) -> Result<Shape, WorldError> {
        load.check_sizes().map_err(|why| refused(load, why))?;
        let block = usize::try_from(load.block().0).unwrap_or(usize::MAX);
        Ok(Shape { block, blocks: load.size().0 / block as u64, direct: load.direct })
    }

    /// Whether `files` of them have room where they are made; a full file system would hold up everybody on it.
    pub fn check_room(&self, load: &Load, files: u64, ground: &Ground<'_>) -> Result<(), WorldError> {
        let object = format!("load.{}", load.name);
        let directory = ground.directory(FileOf { object: &object, disk: load.disk.as_deref() })?;
        let wanted = u128::from(files) * u128::from(self.blocks) * self.block as u128;
        match room_in(&directory) {
            Ok(room) if wanted > u128::from(room) => Err(WorldError::MachineFor {
                object: object.clone(),
                what: format!(
                    "the files of {object} need {} MB, and {} MB are free {}",
                    wanted.div_ceil(1_000_000),
                    room / 1_000_000,
                    load.disk.as_ref().map_or_else(
                        || format!("in {}", directory.display()),
                        |disk| format!("on disk `{disk}`")
                    ),
                ),
                remedy: remedy_of(&io::ErrorKind::StorageFull.into(), load.disk.is_some(), false).to_owned(),
            }),
            // What cannot be asked is found out when they are made.
            _ => Ok(()),
        }
    }

    /// A file of this shape, filled and on disk, gone when closed.
    pub fn make_file(&self, load: &Load, seed: u64, ground: &Ground<'_>) -> Result<BlockFile, WorldError> {
        let object = format!("load.{}", load.name);
        self.make(FileOf { object: &object, disk: load.disk.as_deref() }, seed, ground)
    }

    /// The same for whatever it is for.
    pub fn make(&self, of: FileOf<'_>, seed: u64, ground: &Ground<'_>) -> Result<BlockFile, WorldError> {
        let directory = ground.directory(of)?;
        let on_disk =
            of.disk.map_or_else(|| format!("in {}", directory.display()), |disk| format!("on disk `{disk}`"));
        let failed = |error: io::Error| WorldError::MachineFor {
            object: of.object.to_owned(),
            what: format!("the file of {} cannot be made {on_disk}: {}", of.object, said(&error)),
            remedy: remedy_of(&error, of.disk.is_some(), self.direct).to_owned(),
        };
        // Where a file system has no files without a name, one is made and its name removed.
        let made = nameless_in(&directory).or_else(|_| tempfile::tempfile_in(&directory));
        let mut file = made.map_err(failed)?;
        let mut bytes = vec![0; self.block];
        fill(&mut bytes, seed);
        for number in 0..self.blocks {
            if ground.cancel.is_cancelled() {
                return Err(WorldError::Interrupted);
            }
            // No two blocks alike.
            let tag = number.to_le_bytes();
            let length = tag.len().min(bytes.len());
            bytes[..length].copy_from_slice(&tag[..length]);
            file.write_all(&bytes).map_err(failed)?;
        }
        file.sync_data().map_err(failed)?;
        ground.note(of, &file, self.blocks * self.block as u64);
        let direct = self.direct.then(|| reopen_direct(&file, true)).transpose().map_err(failed)?;
        Ok(BlockFile::of(direct.unwrap_or(file), self.block, seed))
    }
}

/// Bytes that do not compress.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut chance = Pcg::for_job(seed, 0, 2);
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&chance.next_u64().to_le_bytes()[..word.len()]);
    }
}

/// A file with one buffer that suits it.
#[derive(Debug)]
pub(crate) struct BlockFile {
    file: File,
    block: usize,
    buffer: Vec<u8>,
}

impl BlockFile {
    /// An open file, read and written in blocks of so many bytes; what is written is drawn from `seed`.
    pub fn of(file: File, block: usize, seed: u64) -> BlockFile {
        let mut buffer = vec![0; block + ALIGNMENT];
        fill(&mut buffer, seed ^ 1);
        BlockFile { file, block, buffer }
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn buffer(&mut self) -> (&File, &mut [u8]) {
        let offset = self.buffer.as_ptr().align_offset(ALIGNMENT);
        (&self.file, &mut self.buffer[offset..offset + self.block])
    }

    /// Reads a block and says how many bytes came.
    pub fn read(&mut self, block: u64) -> io::Result<u64> {
        let at = block * self.block as u64;
        let (file, buffer) = self.buffer();
        file.read_at(buffer, at).map(|count| count as u64)
    }

    /// Writes a block.
    pub fn write(&mut self, block: u64) -> io::Result<u64> {
        let at = block * self.block as u64;
        let (file, buffer) = self.buffer();
        file.write_all_at(buffer, at).map(|()| buffer.len() as u64)
    }

    /// Reads a block and writes it to another file of the same shape.
    pub fn copy_to(&mut self, to: &BlockFile, block: u64) -> io::Result<u64> {
        let at = block * self.block as u64;
        let (file, buffer) = self.buffer();
        file.read_exact_at(buffer, at)?;
        to.file.write_all_at(buffer, at).map(|()| buffer.len() as u64)
    }
}

/// A worker whose file failed it: the device is gone, or full.
pub(super) fn lost_file(doing: &str, error: &io::Error) -> LoadRun {
    LoadRun::gave_up(
        format!("{doing} its file failed: {}", said(error)),
        "the device failed, was detached, or what it stands on is full; see `dmesg`",
    )
}

/// Keeps a byte rate: sleeps until `moved` bytes since the beginning are due. False when the run is over.
pub(super) fn keep_rate(rate: Option<Rate>, moved: u64, gate: &Gate, window: &Window) -> bool {
    let Some(rate) = rate.filter(|r| r.0 > 0) else { return true };
    let due = window.begin + Nanos::SECOND.mul_ratio(moved, rate.0);
    due <= clock::monotonic() || gate.sleep_until(due.min(window.end))
}
