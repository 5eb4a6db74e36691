//! [`Operation`]: what a process does with a file, and how it goes on.

use surety_block::{Op, ProcessId};
use surety_units::Nanos;

use super::cache::{File, Met};
use super::{BIO_PAGES, FileId, For, Storage, Wait};

/// What a process does with pages of a file, from `first` up to, not including, `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads through the page cache.
    Read { file: FileId, first: u64, end: u64 },
    /// Writes into the page cache.
    Write { file: FileId, first: u64, end: u64 },
    /// Reads or writes past the page cache.
    Direct { file: FileId, write: bool, first: u64, end: u64, is_sent: bool },
    /// Has pages read and does not wait.
    Ahead { file: FileId, first: u64, end: u64 },
    /// Waits until all that was written is on the medium (`fdatasync`).
    Sync { file: FileId, from: u64, is_again: bool, is_flushed: bool },
    /// Waits until all that was written on a disk is on its medium (`sync`).
    SyncDisk { disk: usize, is_begun: bool, group: Option<u32>, is_flushed: bool },
}

impl Operation {
    /// Reads pages past the page cache.
    pub fn direct(file: FileId, write: bool, first: u64, end: u64) -> Operation {
        Operation::Direct { file, write, first, end, is_sent: false }
    }

    /// `fdatasync`.
    pub fn sync(file: FileId) -> Operation {
        Operation::Sync { file, from: 0, is_again: false, is_flushed: false }
    }

    /// `sync`, of one disk.
    pub fn sync_disk(disk: usize) -> Operation {
        Operation::SyncDisk { disk, is_begun: false, group: None, is_flushed: false }
    }

    /// The disk it is at.
    fn disk(&self, files: &[File]) -> usize {
        match self {
            Operation::SyncDisk { disk, .. } => *disk,
            Operation::Read { file, .. }
            | Operation::Write { file, .. }
            | Operation::Direct { file, .. }
            | Operation::Ahead { file, .. }
            | Operation::Sync { file, .. } => files[file.0].disk,
        }
    }
}

impl Storage {
    /// When the direct access was asked for that a process is at, where that is kept.
    pub fn open_access(&self, process: ProcessId) -> Option<Nanos> {
        let doing = &self.doing[process.index()];
        (doing.direct > 0 && doing.kept.is_some()).then_some(doing.asked)
    }

    /// Goes on until there is something to wait for.
    pub(super) fn go_on(&mut self, now: Nanos, process: ProcessId, operation: &mut Operation) -> Wait {
        let disk = operation.disk(&self.files);
        self.units[disk].queue.plug(now, process);
        let wait = if self.send_to(now, process, disk) {
            match operation {
                Operation::Read { file, first, end } => self.read(now, process, *file, (first, *end)),
                Operation::Write { file, first, end } => self.write(now, *file, (first, *end)),
                Operation::Direct { file, write, first, end, is_sent } => {
                    if !std::mem::replace(is_sent, true) {
                        self.direct(now, process, *file, *write, (*first, *end));
                    }
                    if self.doing[process.index()].direct > 0 { Wait::Bios } else { Wait::Nothing }
                }
                Operation::Ahead { file, first, end } => {
                    while let Some((from, to)) = self.files[file.0].begin_reading(*first, *end, None) {
                        self.submit_pages(now, process, (Op::Read, true), *file, (from, to));
                        *first = to;
                    }
                    Wait::Nothing
                }
                Operation::Sync { file, from, is_again, is_flushed } => {
                    self.sync(now, process, *file, (from, is_again, is_flushed))
                }
                Operation::SyncDisk { disk, is_begun, group, is_flushed } => {
                    self.sync_disk(now, process, *disk, (is_begun, group, is_flushed))
                }
            }
        } else {
            Wait::Request
        };
        self.units[disk].queue.unplug(now, process);
        let wait = if self.doing[process.index()].unsent.is_empty() { wait } else { Wait::Request };
        if wait != Wait::Nothing {
            self.units[disk].queue.blocks();
        }
        wait
    }

    fn read(&mut self, now: Nanos, process: ProcessId, file: FileId, (page, end): (&mut u64, u64)) -> Wait {
        while *page < end {
            while let Some(range) = self.files[file.0].read_ahead(*page, end - *page) {
                self.submit_pages(now, process, (Op::Read, true), file, range);
                if self.files[file.0].meet(*page) != Met::Absent {
                    break;
                }
            }
            if self.files[file.0].meet(*page) == Met::Absent {
                // What was read ahead did not bring it: it is read by itself (`filemap_create_folio` in `mm/filemap.c`).
                self.files[file.0].begin_reading(*page, *page + 1, None);
                self.submit_pages(now, process, (Op::Read, true), file, (*page, *page + 1));
            }
            if self.files[file.0].meet(*page) != Met::Present {
                return Wait::Page(file, *page);
            }
            self.files[file.0].took(*page);
            *page += 1;
        }
        Wait::Nothing
    }

    fn write(&mut self, now: Nanos, file: FileId, (page, end): (&mut u64, u64)) -> Wait {
        let disk = self.files[file.0].disk;
        while *page < end {
            if self.flusher.is_full(disk) {
                return Wait::Dirty(disk);
            }
            self.soil(now, file, *page);
            *page += 1;
        }
        Wait::Nothing
    }

    /// Submits the dirty pages of a file from a page on.
    fn write_back(&mut self, now: Nanos, process: ProcessId, file: FileId, from: &mut u64) {
        while let Some((first, end)) = self.files[file.0].begin_writing(*from, BIO_PAGES) {
            self.flusher.begins(now, self.files[file.0].disk, end - first);
            self.submit_pages(now, process, (Op::Write, true), file, (first, end));
            *from = end;
            if !self.doing[process.index()].unsent.is_empty() {
                return;
            }
        }
        *from = u64::MAX;
    }

    pub(super) fn direct(
        &mut self,
        now: Nanos,
        process: ProcessId,
        file: FileId,
        write: bool,
        (first, end): (u64, u64),
    ) {
        self.doing[process.index()].asked = now;
        let op = if write { Op::Write } else { Op::Read };
        let of = |_, _| For::Direct(process);
        let bios = self.submit_of_file(now, process, (op, true), file, (first, end), of);
        self.doing[process.index()].direct += bios;
    }

    fn sync(
        &mut self,
        now: Nanos,
        process: ProcessId,
        file: FileId,
        (from, is_again, is_flushed): (&mut u64, &mut bool, &mut bool),
    ) -> Wait {
        loop {
            if *from != u64::MAX {
                self.write_back(now, process, file, from);
            }
            if !self.files[file.0].is_written() {
                return Wait::Written(file);
            }
            // Pages that were being written had been dirtied again: they are written behind that.
            if std::mem::replace(is_again, true) || self.files[file.0].dirty() == 0 {
                break;
            }
            *from = 0;
        }
        if !std::mem::replace(is_flushed, true) {
            self.flush(self.files[file.0].disk, process);
            return Wait::Flush;
        }
        Wait::Nothing
    }

    fn sync_disk(
        &mut self,
        now: Nanos,
        process: ProcessId,
        disk: usize,
        (is_begun, group, is_flushed): (&mut bool, &mut Option<u32>, &mut bool),
    ) -> Wait {
        if !std::mem::replace(is_begun, true) {
            self.write_disk(now, disk);
        }
        // Waits once for what is being written, not until nothing is (`wait_sb_inodes`).
        *group = group.or_else(|| self.flusher.cut(disk));
        if group.is_none() || !self.flusher.is_synced(disk, *group) {
            return Wait::DiskWritten;
        }
        if !std::mem::replace(is_flushed, true) {
            self.flush(disk, process);
            return Wait::Flush;
        }
        Wait::Nothing
    }

    /// Whether a process that waits for a sync of a disk goes on with it.
    pub(super) fn is_synced(&self, process: ProcessId) -> bool {
        match &self.doing[process.index()].operation {
            Some(Operation::SyncDisk { disk, group, .. }) => self.flusher.is_synced(*disk, *group),
            _ => false,
        }
    }
}
