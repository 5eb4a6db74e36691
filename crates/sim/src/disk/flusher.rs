//! [`Flusher`]: what is dirty, and who writes it back.
//!
//! Above a tenth of memory (`vm.dirty_background_ratio`) the flusher writes until it is less; above the middle between that
//! and a fifth (`vm.dirty_ratio`) whoever dirties pages waits (`balance_dirty_pages` in `mm/page-writeback.c`, which holds writers up a little
//! earlier and bit by bit). Pages that have been dirty for 30 s (`dirty_expire_centisecs`) are written too; that is looked at every
//! 5 s (`dirty_writeback_centisecs`). A file has 4 MiB written in its turn (`MIN_WRITEBACK_PAGES` in `fs/fs-writeback.c`), in ascending order from
//! where its last turn ended on.

use surety_block::{Op, Process, ProcessId};
use surety_units::Nanos;

use super::{FileId, PAGE, Storage};
use crate::engine::Slot;

/// Memory of the machine, where nothing else is said.
const MEMORY: u64 = 1 << 30;
const TURN: u64 = (4 << 20) / PAGE;
const PERIOD: Nanos = Nanos::from_secs(5);
const OLD: Nanos = Nanos::from_secs(30);

/// Counts of dirty pages, and the process that writes them back.
#[derive(Debug)]
pub(super) struct Flusher {
    process: Option<ProcessId>,
    slot: Option<Slot>,
    /// When it looks for old pages next; `None`: nothing is dirty.
    look: Option<Nanos>,
    /// Pages that are dirty and not being written.
    pub dirty: u64,
    pub writing: u64,
    background: u64,
    most: u64,
    /// The file whose turn it is, and how many pages are left of the turn.
    turn: usize,
    left: u64,
    /// Whether files that have been dirty for long are written, whatever the limit.
    ages: bool,
    /// What a sync has written: files, and the page from which on that is still to do. The last is next.
    synced: Vec<(FileId, u64)>,
}

impl Default for Flusher {
    fn default() -> Flusher {
        let (background, limit) = (MEMORY / 10 / PAGE, MEMORY / 5 / PAGE);
        Flusher {
            process: None,
            slot: None,
            look: None,
            dirty: 0,
            writing: 0,
            background,
            most: (background + limit) / 2,
            // The first is next.
            turn: usize::MAX,
            left: 0,
            ages: false,
            synced: Vec::new(),
        }
    }
}

impl Flusher {
    pub(super) fn set_up(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }

    pub(super) fn is(&self, process: ProcessId) -> bool {
        self.process == Some(process)
    }

    /// Whether who dirties pages has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.dirty + self.writing >= self.most
    }

    pub(super) fn wants(&self) -> Option<(Slot, Option<Nanos>)> {
        self.slot.map(|slot| (slot, self.look))
    }
}

impl Storage {
    /// A page of a file is dirtied.
    pub(super) fn soil(&mut self, now: Nanos, file: FileId, page: u64) {
        if !self.files[file.0].soil(page, now) {
            return;
        }
        self.flusher.dirty += 1;
        self.flusher.look.get_or_insert(now + PERIOD);
        if self.flusher.dirty > self.flusher.background {
            self.start_flushing(now);
        }
    }

    /// Has the flusher look for what is to be written. While it waits for a request it does nothing else.
    fn start_flushing(&mut self, now: Nanos) {
        let process = self.flusher();
        if self.doing[process.index()].unsent.is_empty() {
            self.flush_on(now);
        }
    }

    /// Everything that is dirty on a disk is written (`sync`): its files one behind the other, each once from its begin to its end, by
    /// the flusher, with requests that are waited for (`sync_inodes_sb` in `fs/fs-writeback.c`).
    pub(super) fn write_disk(&mut self, now: Nanos, disk: usize) {
        let files = self.files.iter().enumerate().rev();
        let dirty = files.filter(|(_, file)| file.disk == disk && file.dirty() > 0);
        self.flusher.synced.splice(0..0, dirty.map(|(number, _)| (FileId(number), 0)));
        self.start_flushing(now);
    }

    /// Whether nothing on a disk is being written, or is to be for a sync.
    pub(super) fn is_disk_written(&self, disk: usize) -> bool {
        let is_to_be = self.flusher.synced.iter().any(|(file, _)| self.files[file.0].disk == disk);
        !is_to_be && self.files.iter().all(|file| file.disk != disk || file.is_written())
    }

    /// Writes pages back: first those of a sync, then a turn for each file, until there is less than the background limit, and none is
    /// old, or no request.
    pub(super) fn flush_on(&mut self, now: Nanos) {
        // Of a file all of whose dirty pages are being written still nothing is written: twice in vain for each, and it is over.
        let mut in_vain = 0;
        while in_vain < 2 * self.files.len() && self.sends_all(now) {
            if let Some((file, from)) = self.flusher.synced.last().copied() {
                match self.flush_file(now, file, from) {
                    Some(end) => self.flusher.synced.last_mut().expect("it was just looked at").1 = end,
                    None => drop(self.flusher.synced.pop()),
                }
                continue;
            }
            let Some(file) = self.in_turn(now) else {
                self.flusher.ages = false;
                return;
            };
            in_vain = if self.flush_turn(now, file) { 0 } else { in_vain + 1 };
        }
    }

    /// The file whose turn it is to be written; `None`: there is none.
    fn in_turn(&mut self, now: Nanos) -> Option<FileId> {
        let is_beyond = self.flusher.dirty > self.flusher.background;
        if !is_beyond && !self.flusher.ages {
            return None;
        }
        let is_old = |since: Option<Nanos>| since.is_some_and(|since| now - since >= OLD);
        let is_due = |number: usize| {
            let file = &self.files[number];
            file.dirty() > 0 && (is_beyond || is_old(file.dirty_since()))
        };
        let (files, turn) = (self.files.len(), self.flusher.turn);
        if self.flusher.left == 0 || !is_due(turn) {
            let mut behind = (1..=files).map(|ahead| turn.wrapping_add(ahead) % files);
            self.flusher.turn = behind.find(|file| is_due(*file))?;
            self.flusher.left = TURN;
        }
        Some(FileId(self.flusher.turn))
    }

    /// Submits dirty pages of the file whose turn it is, as far as there are requests; whether there were any.
    fn flush_turn(&mut self, now: Nanos, file: FileId) -> bool {
        let process = self.flusher();
        let disk = self.files[file.0].disk;
        let mut is_some = false;
        self.units[disk].queue.plug(now, process);
        while self.flusher.left > 0 && self.doing[process.index()].unsent.is_empty() {
            let Some((first, end)) = self.files[file.0].go_on_writing(self.flusher.left) else {
                self.flusher.left = 0;
                break;
            };
            is_some = true;
            self.flusher.left -= end - first;
            self.wrote(end - first);
            self.submit_pages(now, process, (Op::Write, false), file, (first, end));
        }
        self.units[disk].queue.unplug(now, process);
        is_some
    }

    /// Files that have been dirty for long are written; looks again later.
    pub(super) fn write_old_pages(&mut self, now: Nanos) {
        self.flusher.ages = true;
        self.start_flushing(now);
        self.flusher.look = (self.flusher.dirty > 0).then_some(now + PERIOD);
    }

    /// Whether nothing of the flusher's waits for a request.
    fn sends_all(&mut self, now: Nanos) -> bool {
        let process = self.flusher();
        match self.doing[process.index()].unsent.front() {
            None => true,
            Some(_) => (0..self.units.len()).all(|disk| self.send_to(now, process, disk)),
        }
    }

    /// Submits some dirty pages of a file from a page on, which somebody waits for: the page behind them; `None`: it has none.
    fn flush_file(&mut self, now: Nanos, file: FileId, from: u64) -> Option<u64> {
        let process = self.flusher();
        let (first, end) = self.files[file.0].begin_writing(from, TURN)?;
        self.wrote(end - first);
        let disk = self.files[file.0].disk;
        self.units[disk].queue.plug(now, process);
        self.submit_pages(now, process, (Op::Write, true), file, (first, end));
        self.units[disk].queue.unplug(now, process);
        Some(end)
    }

    /// So many pages are being written from here on.
    pub(super) fn wrote(&mut self, pages: u64) {
        self.flusher.dirty -= pages;
        self.flusher.writing += pages;
    }

    fn flusher(&mut self) -> ProcessId {
        if let Some(process) = self.flusher.process {
            return process;
        }
        let process = self.add_process(Process::default());
        self.flusher.process = Some(process);
        self.tracer.call(process, "flusher");
        process
    }
}
