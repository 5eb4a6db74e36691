//! [`Flusher`]: what is dirty, and who writes it back.
//!
//! Each disk has a flusher of its own (`struct bdi_writeback`). Above a tenth of memory (`vm.dirty_background_ratio`) the flusher of the disk
//! that is written to works until less is dirty. Above the middle between that and a fifth (`vm.dirty_ratio`) processes that dirty
//! pages wait if their disk has its share of the dirty pages, which is as large as its share of what was written back lately
//! (`balance_dirty_pages` and `wb_calc_thresh` in `mm/page-writeback.c`; the kernel holds writers up a little earlier and bit by bit). Pages that
//! have been dirty for 30 s (`dirty_expire_centisecs`) are written too; that is looked at every 5 s (`dirty_writeback_centisecs`). A file has
//! 4 MiB written in its turn (`MIN_WRITEBACK_PAGES` in `fs/fs-writeback.c`), in ascending order from where its last turn ended on.

use std::collections::VecDeque;

use surety_block::{Op, Process, ProcessId};
use surety_units::Nanos;

use super::bandwidth::Bandwidth;
use super::{FileId, PAGE, Storage};
use crate::engine::Slot;

/// Memory of the machine, where nothing else is said.
const MEMORY: u64 = 1 << 30;
/// Pages of a turn at least (`MIN_WRITEBACK_PAGES`), and the part of the limit that it is at most (`DIRTY_SCOPE`).
const TURN: u64 = (4 << 20) / PAGE;
const SCOPE: u64 = 8;
const PERIOD: Nanos = Nanos::from_secs(5);
const OLD: Nanos = Nanos::from_secs(30);
/// After this, what was written back counts half as much for a disk's share (`VM_COMPLETIONS_PERIOD_LEN`).
const LATELY: Nanos = Nanos::from_secs(3);
/// Pages that a writer is let go on for, at least (`ratelimit_pages`).
const PAUSE: u64 = 32;

/// Counts of dirty pages, and the flushers of disks.
#[derive(Debug)]
pub(super) struct Flusher {
    slot: Option<Slot>,
    /// When it is looked for old pages next; `None`: nothing is dirty.
    look: Option<Nanos>,
    /// Pages that are dirty and not being written, and that are being written.
    dirty: u64,
    writing: u64,
    background: u64,
    most: u64,
    limit: u64,
    disks: Vec<WriteBack>,
    /// Since when what was written has not been halved.
    since: Nanos,
}

/// The flusher of a disk.
#[derive(Debug)]
struct WriteBack {
    process: Option<ProcessId>,
    /// Pages of its files that are dirty or being written, and those written lately.
    soiled: u64,
    written: u64,
    bandwidth: Bandwidth,
    /// The file whose turn it is, and how many pages are left of the turn.
    turn: usize,
    left: u64,
    /// Whether files that have been dirty for long are written, whatever the limit.
    ages: bool,
    /// Files that a sync has written. The last is next.
    synced: Vec<Sweep>,
    bios: UnderWay,
    /// Processes that were woken for a request by the completion at hand.
    batch: Vec<ProcessId>,
    /// Of those that were woken before the flusher, who have not come for their requests: it goes on behind them. Empty: it is not held.
    ahead: Vec<ProcessId>,
}

/// A file that a sync has written, in ascending order.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    file: FileId,
    from: u64,
    /// Pages that were dirty when its turn came, less those written since: pages dirtied meanwhile are not waited for
    /// (`tag_pages_for_writeback` in `mm/page-writeback.c`). `None`: its turn has not come.
    left: Option<u64>,
}

impl Default for WriteBack {
    fn default() -> WriteBack {
        WriteBack {
            process: None,
            soiled: 0,
            written: 0,
            bandwidth: Bandwidth::default(),
            // The first is next.
            turn: usize::MAX,
            left: 0,
            ages: false,
            synced: Vec::new(),
            bios: UnderWay::default(),
            batch: Vec::new(),
            ahead: Vec::new(),
        }
    }
}

/// Bios under way that write pages back, in groups: a sync waits for those that were there before it, and for no later ones.
#[derive(Debug)]
struct UnderWay {
    /// The number of the first group.
    first: u32,
    /// How many bios each has; the last group takes new ones.
    groups: VecDeque<u32>,
}

impl Default for UnderWay {
    fn default() -> UnderWay {
        UnderWay { first: 0, groups: VecDeque::from([0]) }
    }
}

impl UnderWay {
    /// The group that takes new bios.
    fn last(&self) -> u32 {
        self.first + self.groups.len() as u32 - 1
    }

    /// Begins a new group; the bios before are of groups up to the one returned.
    fn cut(&mut self) -> u32 {
        let last = self.last();
        self.groups.push_back(0);
        self.forget();
        last
    }

    fn complete(&mut self, group: u32) {
        self.groups[(group - self.first) as usize] -= 1;
        self.forget();
    }

    fn forget(&mut self) {
        while self.groups.len() > 1 && self.groups[0] == 0 {
            self.groups.pop_front();
            self.first += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.groups.iter().all(|bios| *bios == 0)
    }

    /// Whether all bios of groups up to this one are complete.
    fn are_complete(&self, group: u32) -> bool {
        self.first > group
    }
}

impl Default for Flusher {
    fn default() -> Flusher {
        Flusher::of(MEMORY)
    }
}

impl Flusher {
    /// On a machine whose programs and page cache have `memory` bytes.
    pub(super) fn of(memory: u64) -> Flusher {
        let (background, limit) = (memory / 10 / PAGE, memory / 5 / PAGE);
        Flusher {
            slot: None,
            look: None,
            dirty: 0,
            writing: 0,
            background,
            most: (background + limit) / 2,
            limit,
            disks: Vec::new(),
            since: Nanos::ZERO,
        }
    }

    pub(super) fn set_up(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }

    pub(super) fn add_disk(&mut self) {
        self.disks.push(WriteBack::default());
    }

    /// The disk whose flusher a process is.
    pub(super) fn disk_of(&self, process: ProcessId) -> Option<usize> {
        self.disks.iter().position(|disk| disk.process == Some(process))
    }

    /// Whether a process that dirties pages of a disk has to wait.
    pub(super) fn is_full(&self, disk: usize) -> bool {
        self.dirty + self.writing >= self.most && self.disks[disk].soiled >= self.share(disk)
    }

    /// Dirty pages that a disk may have while there are as many as may be in all.
    fn share(&self, disk: usize) -> u64 {
        let used = self.disks.iter().filter(|disk| disk.soiled + disk.written > 0);
        let all: u64 = used.map(|disk| disk.written + 1).sum();
        let own = self.disks[disk].written + 1;
        (u128::from(self.most) * u128::from(own) / u128::from(all.max(own))) as u64
    }

    /// How many of those that wait to dirty pages may go on, after pages of a disk were written.
    pub(super) fn admits(&self, disk: usize) -> usize {
        let all = self.dirty + self.writing;
        if all <= self.background {
            return usize::MAX;
        }
        let room = match self.most.checked_sub(all) {
            Some(room) if room > 0 => room,
            _ => self.share(disk).saturating_sub(self.disks[disk].soiled),
        };
        room.div_ceil(PAUSE) as usize
    }

    /// Pages of a file that a turn has on a disk.
    fn turn(&self, disk: usize) -> u64 {
        let most = (self.disks[disk].bandwidth.smooth() / 2).min(self.limit / SCOPE);
        (most + TURN) / TURN * TURN
    }

    /// Pages of a disk begin to be written.
    pub(super) fn begins(&mut self, now: Nanos, disk: usize, pages: u64) {
        if self.disks[disk].bios.is_empty() {
            self.disks[disk].bandwidth.begins(now);
        }
        self.dirty -= pages;
        self.writing += pages;
    }

    /// The group of the bios that write pages of a disk from now on.
    pub(super) fn group(&self, disk: usize) -> u32 {
        self.disks[disk].bios.last()
    }

    /// Adds bios to the last group of a disk.
    pub(super) fn submitted(&mut self, disk: usize, bios: u32) {
        *self.disks[disk].bios.groups.back_mut().expect("there is always one") += bios;
    }

    /// A bio of a group is complete, which wrote `pages` pages.
    pub(super) fn wrote(&mut self, now: Nanos, disk: usize, group: u32, pages: u64) {
        self.writing -= pages;
        while now - self.since >= LATELY {
            self.since =
                if self.disks.iter().all(|disk| disk.written == 0) { now } else { self.since + LATELY };
            self.disks.iter_mut().for_each(|disk| disk.written /= 2);
        }
        let disk = &mut self.disks[disk];
        disk.soiled -= pages;
        disk.written += pages;
        disk.bandwidth.wrote(now, pages);
        disk.bios.complete(group);
    }

    /// The group up to which a sync of a disk waits: what is under way now. `None`: not all that it is to write has been sent.
    pub(super) fn cut(&mut self, disk: usize) -> Option<u32> {
        let disk = &mut self.disks[disk];
        disk.synced.is_empty().then(|| disk.bios.cut())
    }

    /// Whether a sync goes on: all up to its group is complete, or, where it has none yet, all that it is to write has been sent.
    pub(super) fn is_synced(&self, disk: usize, group: Option<u32>) -> bool {
        let disk = &self.disks[disk];
        group.map_or(disk.synced.is_empty(), |group| disk.bios.are_complete(group))
    }

    /// A process was woken for a request of a disk.
    pub(super) fn woken(&mut self, disk: usize, process: ProcessId) {
        self.disks[disk].batch.push(process);
    }

    /// All whom a completion wakes are woken.
    pub(super) fn end_of_batch(&mut self, disk: usize) {
        self.disks[disk].batch.clear();
    }

    pub(super) fn wants(&self) -> Option<(Slot, Option<Nanos>)> {
        self.slot.map(|slot| (slot, self.look))
    }
}

impl Storage {
    /// A page of a file is dirtied.
    pub(super) fn soil(&mut self, now: Nanos, file: FileId, page: u64) {
        let disk = self.files[file.0].disk;
        if !self.files[file.0].soil(page, now) {
            return;
        }
        self.flusher.dirty += 1;
        self.flusher.disks[disk].soiled += 1;
        self.flusher.look.get_or_insert(now + PERIOD);
        if self.flusher.dirty > self.flusher.background {
            self.start_flushing(now, disk);
        }
    }

    /// Has the flusher of a disk look for what is to be written. While it waits for a request it does nothing else.
    fn start_flushing(&mut self, now: Nanos, disk: usize) {
        let process = self.flusher(disk);
        if self.doing[process.index()].unsent.is_empty() {
            self.flush_on(now, disk);
        }
    }

    /// Everything that is dirty on a disk is written (`sync`): its files one behind the other, each once from its begin to its end, by
    /// the flusher, with requests that are waited for (`sync_inodes_sb` in `fs/fs-writeback.c`).
    pub(super) fn write_disk(&mut self, now: Nanos, disk: usize) {
        let files = self.files.iter().enumerate().rev();
        let dirty = files.filter(|(_, file)| file.disk == disk && file.dirty() > 0);
        let sweeps = dirty.map(|(number, _)| Sweep { file: FileId(number), from: 0, left: None });
        self.flusher.disks[disk].synced.splice(0..0, sweeps);
        self.start_flushing(now, disk);
    }

    /// Writes pages of a disk back: first those of a sync, then a turn for each file, until there is less than the background limit,
    /// and none is old, or no request.
    pub(super) fn flush_on(&mut self, now: Nanos, disk: usize) {
        // Of a file all of whose dirty pages are being written still nothing is written: twice in vain for each, and it is over.
        let mut in_vain = 0;
        while in_vain < 2 * self.files.len() && self.sends_all(now, disk) {
            if let Some(sweep) = self.flusher.disks[disk].synced.pop() {
                if let Some(rest) = self.sweep(now, sweep) {
                    self.flusher.disks[disk].synced.push(rest);
                }
                continue;
            }
            let Some(file) = self.in_turn(now, disk) else {
                self.flusher.disks[disk].ages = false;
                return;
            };
            in_vain = if self.flush_turn(now, file) { 0 } else { in_vain + 1 };
        }
    }

    /// The flusher of a disk is woken for a request: it goes on when those have come that were woken before it. It is a thread like others
    /// in the kernel, and takes what they leave.
    pub(super) fn flush_in_turn(&mut self, now: Nanos, disk: usize) {
        let of_disk = &mut self.flusher.disks[disk];
        std::mem::swap(&mut of_disk.ahead, &mut of_disk.batch);
        if of_disk.ahead.is_empty() {
            self.flush_on(now, disk);
        }
    }

    /// A process has come for its request, or exits: flushers that go on behind it.
    pub(super) fn flush_behind(&mut self, now: Nanos, process: ProcessId) {
        for disk in 0..self.units.len() {
            let ahead = &mut self.flusher.disks[disk].ahead;
            if let Some(place) = ahead.iter().position(|one| *one == process) {
                ahead.swap_remove(place);
                if ahead.is_empty() {
                    self.flush_on(now, disk);
                }
            }
        }
    }

    /// The next completion of a disk: its flusher has had a CPU by now.
    pub(super) fn flush_held(&mut self, now: Nanos, disk: usize) {
        let ahead = &mut self.flusher.disks[disk].ahead;
        if !ahead.is_empty() {
            ahead.clear();
            self.flush_on(now, disk);
        }
    }

    /// The file of a disk whose turn it is to be written; `None`: there is none.
    fn in_turn(&mut self, now: Nanos, disk: usize) -> Option<FileId> {
        let is_beyond = self.flusher.dirty > self.flusher.background;
        let WriteBack { turn, left, ages, .. } = self.flusher.disks[disk];
        if !is_beyond && !ages {
            return None;
        }
        let is_old = |since: Option<Nanos>| since.is_some_and(|since| now - since >= OLD);
        let is_due = |number: usize| {
            let file = &self.files[number];
            file.disk == disk && file.dirty() > 0 && (is_beyond || is_old(file.dirty_since()))
        };
        if left > 0 && is_due(turn) {
            return Some(FileId(turn));
        }
        let files = self.files.len();
        let mut behind = (1..=files).map(|ahead| turn.wrapping_add(ahead) % files);
        let next = behind.find(|file| is_due(*file))?;
        let pages = self.flusher.turn(disk);
        (self.flusher.disks[disk].turn, self.flusher.disks[disk].left) = (next, pages);
        Some(FileId(next))
    }

    /// Submits dirty pages of the file whose turn it is, as far as there are requests; whether there were any.
    fn flush_turn(&mut self, now: Nanos, file: FileId) -> bool {
        let disk = self.files[file.0].disk;
        let process = self.flusher(disk);
        let mut is_some = false;
        self.units[disk].queue.plug(now, process);
        while self.flusher.disks[disk].left > 0 && self.doing[process.index()].unsent.is_empty() {
            let Some((first, end)) = self.files[file.0].go_on_writing(self.flusher.disks[disk].left) else {
                self.flusher.disks[disk].left = 0;
                break;
            };
            is_some = true;
            self.flusher.disks[disk].left -= end - first;
            self.flusher.begins(now, disk, end - first);
            self.submit_pages(now, process, (Op::Write, false), file, (first, end));
        }
        self.units[disk].queue.unplug(now, process);
        is_some
    }

    /// Files that have been dirty for long are written; looks again later.
    pub(super) fn write_old_pages(&mut self, now: Nanos) {
        for disk in 0..self.units.len() {
            if self.flusher.disks[disk].soiled > 0 {
                self.flusher.disks[disk].ages = true;
                self.start_flushing(now, disk);
            }
        }
        self.flusher.look = (self.flusher.dirty > 0).then_some(now + PERIOD);
    }

    /// Sends what the disk's flusher has waiting for a request; whether nothing is left.
    fn sends_all(&mut self, now: Nanos, disk: usize) -> bool {
        let process = self.flusher(disk);
        self.send_to(now, process, disk)
    }

    /// Submits some dirty pages of a file that a sync has written; returns what is left to do of the file.
    fn sweep(&mut self, now: Nanos, Sweep { file, from, left }: Sweep) -> Option<Sweep> {
        let left = left.unwrap_or(self.files[file.0].dirty());
        if left == 0 {
            return None;
        }
        let (first, end) = self.files[file.0].begin_writing(from, TURN.min(left))?;
        let disk = self.files[file.0].disk;
        let process = self.flusher(disk);
        self.flusher.begins(now, disk, end - first);
        self.units[disk].queue.plug(now, process);
        self.submit_pages(now, process, (Op::Write, true), file, (first, end));
        self.units[disk].queue.unplug(now, process);
        Some(Sweep { file, from: end, left: Some(left - (end - first)) })
    }

    fn flusher(&mut self, disk: usize) -> ProcessId {
        if let Some(process) = self.flusher.disks[disk].process {
            return process;
        }
        let process = self.add_process(Process::default());
        self.flusher.disks[disk].process = Some(process);
        self.tracer.call(process, "flusher");
        process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a second of 100 MiB/s is more than an eighth of 205 MiB, 25.6 MiB: 28. Half a second of 20 MiB/s is 10 MiB: 12. Of 2 MiB/s it is 4.
    #[test]
    fn a_turn_is_as_long_as_its_disk_is_fast() {
        let turn = |mib_per_second: u64| {
            let mut flusher = Flusher::default();
            flusher.add_disk();
            for tenth in 1..=1000 {
                let pages = mib_per_second * (1 << 20) / PAGE / 10;
                flusher.disks[0].bandwidth.wrote(Nanos::from_millis(100 * tenth), pages);
            }
            (flusher.turn(0) * PAGE) >> 20
        };
        assert_eq!([100, 20, 2].map(turn), [28, 12, 4]);
    }

    /// What comes after a sync is not waited for, whatever is complete first.
    #[test]
    fn a_sync_waits_for_what_was_there() {
        let mut bios = UnderWay::default();
        let add = |bios: &mut UnderWay| *bios.groups.back_mut().unwrap() += 1;
        add(&mut bios);
        add(&mut bios);
        let (old, first) = (bios.last(), bios.cut());
        assert_eq!(old, first);
        add(&mut bios);
        let new = bios.last();
        bios.complete(new);
        assert!(!bios.are_complete(first));
        bios.complete(old);
        bios.complete(old);
        assert!(bios.are_complete(first));
        let second = bios.cut();
        assert!(bios.are_complete(second), "nothing was under way");
    }
}
