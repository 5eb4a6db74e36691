//! [`File`]: the pages of a file in the page cache, and its read-ahead.
//!
//! Read-ahead is that of `mm/readahead.c` of today: a window that doubles from a multiple of the first read up to `read_ahead_kb`, asked
//! for again when a reader comes to the page marked in it; or that of kernels up to 2.6.10 ([`TwoWindows`]). A file has one reader at a time.

use surety_block::ProcessId;
use surety_units::Nanos;

use super::marks::Marks;
use super::two_windows::TwoWindows;
use super::{PAGE, SECTORS};

/// A page is there.
const PRESENT: u8 = 1;
const READING: u8 = 2;
const DIRTY: u8 = 4;
const WRITING: u8 = 8;
/// Who comes to it has the next window read.
const MARKED: u8 = 16;

/// `read_ahead_kb` of 128, in pages (`VM_READAHEAD_PAGES`).
const AHEAD_MOST: u64 = 128 * 1024 / PAGE;

/// By the rules of which kernel files of a disk are read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// 6.1, in what is simulated also later ones.
    #[default]
    Marked,
    /// Up to 2.6.10.
    TwoWindows,
}

impl ReadAhead {
    /// The kernels, as a workload names them.
    pub const WORDS: [(&str, ReadAhead); 2] = [("6.1", ReadAhead::Marked), ("2.6.10", ReadAhead::TwoWindows)];
}

/// A file with what is cached of it.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub disk: usize,
    /// Its pieces in order: the first page of each, and where that is.
    pieces: Vec<(u64, u64)>,
    pages: Vec<u8>,
    /// Those that are dirty and not being written.
    to_write: Marks,
    /// Where the flusher goes on (`writeback_index`).
    written_to: u64,
    window: Window,
    /// In place of `window` where the disk's rules are those of 2.6.10.
    windows: Option<TwoWindows>,
    dirty: u64,
    /// Since when the oldest of them is.
    dirty_since: Nanos,
    /// Pages being written.
    writing: u64,
    /// The page behind the one read last.
    previous: u64,
    /// Processes that wait for its pages; one that goes on for another reason may stand here still.
    pub waiting: Vec<ProcessId>,
}

/// What is read ahead (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: u64,
    size: u64,
    /// Pages from the mark to the window's end.
    ahead: u64,
}

impl Window {
    fn mark(&self) -> u64 {
        self.start + self.size - self.ahead
    }

    /// The first window of a reader that wants so many pages (`get_init_ra_size`).
    fn first_size(wanted: u64) -> u64 {
        let size = wanted.max(1).next_power_of_two();
        if size <= AHEAD_MOST / 32 {
            size * 4
        } else if size <= AHEAD_MOST / 4 {
            size * 2
        } else {
            AHEAD_MOST
        }
    }

    /// The size of the window behind this one (`get_next_ra_size`).
    fn next_size(&self) -> u64 {
        if self.size < AHEAD_MOST / 16 {
            4 * self.size
        } else if self.size <= AHEAD_MOST / 2 {
            2 * self.size
        } else {
            AHEAD_MOST
        }
    }
}

/// What a reader meets at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// It is there.
    Present,
    /// It is on its way.
    Reading,
    Absent,
}

impl File {
    /// In pieces, the first of which begins with page 0.
    pub(super) fn new(disk: usize, rules: ReadAhead, pieces: Vec<(u64, u64)>, pages: u64) -> File {
        let pages = vec![0; usize::try_from(pages).expect("a file that fits a simulated disk")];
        File {
            disk,
            pieces,
            to_write: Marks::none(pages.len()),
            written_to: 0,
            pages,
            window: Window::default(),
            windows: (rules == ReadAhead::TwoWindows).then(|| TwoWindows::new(AHEAD_MOST)),
            dirty: 0,
            dirty_since: Nanos::ZERO,
            writing: 0,
            previous: u64::MAX,
            waiting: Vec::new(),
        }
    }

    /// The first sector of a page.
    pub(super) fn sector(&self, page: u64) -> u64 {
        let (first, sector) = self.pieces[self.piece(page)];
        sector + (page - first) * SECTORS
    }

    /// How many pages from this one on lie in one piece.
    pub(super) fn together(&self, page: u64) -> u64 {
        self.pieces.get(self.piece(page) + 1).map_or(self.len(), |(next, _)| *next) - page
    }

    /// The piece that a page is in.
    fn piece(&self, page: u64) -> usize {
        self.pieces.partition_point(|(first, _)| *first <= page) - 1
    }

    pub(super) fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    fn page(&mut self, page: u64) -> &mut u8 {
        &mut self.pages[place(page)]
    }

    /// A reader comes to a page.
    pub(super) fn meet(&mut self, page: u64) -> Met {
        let state = *self.page(page);
        if state & PRESENT != 0 {
            Met::Present
        } else if state & READING != 0 {
            Met::Reading
        } else {
            Met::Absent
        }
    }

    /// A reader who wants `wanted` pages from `page` on comes to it: the pages to be read now, if any.
    pub(super) fn read_ahead(&mut self, page: u64, wanted: u64) -> Option<(u64, u64)> {
        if let Some((start, size)) = self.windows.as_mut().and_then(|windows| windows.come_to(page)) {
            let range = self.begin_reading(start, (start + size).min(self.len()), None);
            if range.is_some() {
                return range;
            }
        }
        if self.meet(page) == Met::Absent
            && let Some(windows) = &mut self.windows
        {
            windows.missed(page);
            return self.begin_reading(page, page + 1, None);
        }
        if self.windows.is_some() { None } else { self.read_to_mark(page, wanted) }
    }

    /// The same by today's rules, where the page is absent or marked.
    fn read_to_mark(&mut self, page: u64, wanted: u64) -> Option<(u64, u64)> {
        let is_marked = *self.page(page) & MARKED != 0;
        if self.meet(page) != Met::Absent && !is_marked {
            return None;
        }
        *self.page(page) &= !MARKED;
        let window = self.window;
        let is_expected = page == window.mark() || page == window.start + window.size;
        // The begin of a file begins anew.
        let follows = window.size > 0 && page > 0 && is_expected;
        if follows {
            self.window = Window { start: window.start + window.size, size: window.next_size(), ahead: 0 };
            self.window.ahead = self.window.size;
        } else if is_marked {
            // Marked by another reader's window: goes on behind what is there.
            let start = (page + 1..self.len()).find(|p| self.meet(*p) == Met::Absent)?;
            if start - page > AHEAD_MOST {
                return None;
            }
            let grown = Window { start, size: start - page + wanted, ahead: 0 };
            self.window = Window { start, size: grown.next_size(), ahead: grown.next_size() };
        } else if page == 0 || page == self.previous || page == self.previous.wrapping_add(1) {
            let size = Window::first_size(wanted);
            let ahead = if size > wanted { size - wanted } else { size };
            self.window = Window { start: page, size, ahead };
        } else {
            // At random: what is wanted and no more.
            let end = (page + wanted.min(AHEAD_MOST)).min(self.len());
            return self.begin_reading(page, end, None);
        }
        // Whoever waits for the page that is marked has the window behind it read, too.
        if page == self.window.start && self.window.size == self.window.ahead {
            let more = self.window.next_size();
            let whole = (self.window.size + more).min(AHEAD_MOST);
            let ahead = if self.window.size + more <= AHEAD_MOST { more } else { AHEAD_MOST / 2 };
            self.window = Window { size: whole, ahead, ..self.window };
        }
        let (start, end) = (self.window.start, (self.window.start + self.window.size).min(self.len()));
        let mark = self.window.mark();
        self.begin_reading(start, end, Some(mark))
    }

    /// Pages a program asks for without waiting (`POSIX_FADV_WILLNEED`): the first absent ones of a range.
    pub(super) fn begin_reading(&mut self, start: u64, end: u64, mark: Option<u64>) -> Option<(u64, u64)> {
        let first = (start..end).find(|page| self.meet(*page) == Met::Absent)?;
        let last = (first..end).find(|page| self.meet(*page) != Met::Absent).unwrap_or(end);
        for page in first..last {
            *self.page(page) |= READING;
        }
        if let Some(mark) = mark.filter(|mark| (first..last).contains(mark)) {
            *self.page(mark) |= MARKED;
        }
        Some((first, last))
    }

    /// The reader took a page.
    pub(super) fn took(&mut self, page: u64) {
        self.previous = page;
    }

    /// A page is written to in memory; whether it was not dirty.
    pub(super) fn soil(&mut self, page: u64, now: Nanos) -> bool {
        let state = self.page(page);
        let was_clean = *state & DIRTY == 0;
        *state |= DIRTY | PRESENT;
        if *state & WRITING == 0 {
            self.to_write.set(place(page), true);
        }
        if was_clean && self.dirty == 0 {
            self.dirty_since = now;
        }
        self.dirty += u64::from(was_clean);
        was_clean
    }

    /// Its dirty pages that are not being written.
    pub(super) fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Since when it has had dirty pages.
    pub(super) fn dirty_since(&self) -> Option<Nanos> {
        (self.dirty > 0).then_some(self.dirty_since)
    }

    /// The next run of at most `most` dirty pages from `from` on, now being written. What is being written already waits.
    pub(super) fn begin_writing(&mut self, from: u64, most: u64) -> Option<(u64, u64)> {
        let first = self.to_write.next(usize::try_from(from).ok()?)? as u64;
        let mut end = first;
        while end < self.len().min(first + most) && *self.page(end) & (DIRTY | WRITING) == DIRTY {
            *self.page(end) = *self.page(end) & !DIRTY | WRITING;
            self.to_write.set(place(end), false);
            end += 1;
        }
        self.writing += end - first;
        self.dirty -= end - first;
        Some((first, end))
    }

    /// The same from where the last turn of the flusher ended on, in ascending order; at the end of the file the turn is over, and
    /// the next one begins at its begin (`write_cache_pages` with `range_cyclic`).
    pub(super) fn go_on_writing(&mut self, most: u64) -> Option<(u64, u64)> {
        let range = self.begin_writing(self.written_to, most);
        self.written_to = range.map_or(0, |(_, end)| end);
        range
    }

    /// A bio that read these pages is complete.
    pub(super) fn arrived(&mut self, first: u64, count: u64) {
        for page in first..first + count {
            let state = self.page(page);
            *state = *state & !READING | PRESENT;
        }
    }

    /// A bio that wrote these pages is complete.
    pub(super) fn written(&mut self, first: u64, count: u64) {
        for page in first..first + count {
            let state = self.page(page);
            *state &= !WRITING;
            let is_dirty = *state & DIRTY != 0;
            self.to_write.set(place(page), is_dirty);
        }
        self.writing -= count;
    }

    /// Whether none of its pages is being written.
    pub(super) fn is_written(&self) -> bool {
        self.writing == 0
    }

    /// Clean pages that are not under way are forgotten.
    pub(super) fn evict(&mut self) {
        for state in &mut self.pages {
            if *state & (READING | DIRTY | WRITING) == 0 {
                *state = 0;
            }
        }
        (self.window, self.previous) = (Window::default(), u64::MAX);
        self.windows = self.windows.map(|_| TwoWindows::new(AHEAD_MOST));
    }
}

/// Where a page of a file stands.
fn place(page: u64) -> usize {
    usize::try_from(page).expect("a page of the file")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file in accesses of `wanted` pages, everything arriving at once: the windows asked for.
    fn windows(pages: u64, wanted: u64) -> Vec<(u64, u64)> {
        let mut file = File::new(0, ReadAhead::Marked, vec![(0, 0)], pages);
        let mut found = Vec::new();
        for first in (0..pages).step_by(usize::try_from(wanted).unwrap()) {
            for page in first..(first + wanted).min(pages) {
                if let Some((start, end)) = file.read_ahead(page, first + wanted - page) {
                    found.push((start, end - start));
                    file.arrived(start, end - start);
                }
                file.took(page);
            }
        }
        found
    }

    /// `mm/readahead.c` with 128 KiB: a first read of one page begins with 4, of 16 with 32; then it doubles to 32.
    #[test]
    fn a_file_in_pieces_is_where_each_of_them_is() {
        let file = File::new(0, ReadAhead::Marked, vec![(0, 800), (4, 80), (5, 8000)], 10);
        let at: Vec<(u64, u64)> =
            [0, 3, 4, 5, 9].map(|page| (file.sector(page), file.together(page))).to_vec();
        assert_eq!(at, [(800, 4), (824, 1), (80, 1), (8000, 5), (8032, 1)]);
    }

    #[test]
    fn windows_grow_to_the_limit() {
        assert_eq!(windows(200, 1)[..5], [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32)]);
        assert_eq!(windows(100, 16)[..3], [(0, 32), (32, 32), (64, 32)]);
    }

    #[test]
    fn a_page_at_random_brings_itself() {
        let mut file = File::new(0, ReadAhead::Marked, vec![(0, 0)], 1000);
        assert_eq!(file.read_ahead(500, 1), Some((500, 501)));
        file.took(500);
        assert_eq!(file.read_ahead(20, 4), Some((20, 24)));
    }

    #[test]
    fn what_is_dirty_stays_and_what_is_clean_goes() {
        let mut file = File::new(0, ReadAhead::Marked, vec![(0, 0)], 10);
        let mut soil = |page| file.soil(page, Nanos::ZERO);
        assert!(soil(3) && soil(4) && !soil(3));
        file.evict();
        assert_eq!(file.begin_writing(0, 100), Some((3, 5)));
        assert!(!file.is_written());
        // Written to again meanwhile: it is dirty once more, and is not written twice at a time.
        assert!(file.soil(4, Nanos::ZERO));
        assert_eq!(file.begin_writing(0, 100), None);
        file.written(3, 2);
        assert!(file.is_written());
        assert_eq!(file.begin_writing(0, 100), Some((4, 5)));
    }
}
