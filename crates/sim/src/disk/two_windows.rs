//! [`TwoWindows`]: read-ahead as Linux had it from 2.6.0 to 2.6.10 (`mm/readahead.c`, `page_cache_readahead`).
//!
//! There is a current window, which the reader is in, and one ahead of it. The one ahead is read once the reader has gone through
//! enough pages for its accesses to be taken for sequential ones, at most one at a time: when the reader comes to its first page
//! it becomes the current one, and only the *second* page has the next one read. A reader that has to wait for the disk waits at the
//! first, so it has one window at the disk, where kernels from 2.6.11 on have two.
//!
//! The window ahead grows by two pages with each page that was read on from the last, and shrinks by two with each that was not;
//! at nothing read-ahead is off, until as many pages in a row were missing as a window has at most.

/// What is read ahead in one file (`struct file_ra_state`).
#[derive(Clone, Copy, Debug)]
pub(super) struct TwoWindows {
    /// Pages of a window at most.
    most: u64,
    start: u64,
    /// While read-ahead is off: pages in a row that were missing.
    size: u64,
    /// Of the one ahead: its first page and its pages; none: 0.
    ahead: (u64, u64),
    /// Pages that the next window has.
    next: Next,
    /// The page looked at last.
    previous: Option<u64>,
    /// Pages that were met in a row, up to twice `most` and one.
    hits: u64,
    /// Of such rows, on average.
    average: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The file was not read yet.
    First,
    Pages(u64),
    Off,
}

impl TwoWindows {
    pub(super) fn new(most: u64) -> TwoWindows {
        TwoWindows {
            most,
            start: 0,
            size: 0,
            ahead: (0, 0),
            next: Next::First,
            previous: None,
            hits: 0,
            average: most / 2,
        }
    }

    /// A reader comes to a page: the window to be read now, if any, by its first page and its pages.
    pub(super) fn come_to(&mut self, page: u64) -> Option<(u64, u64)> {
        let size = match self.next {
            Next::Off => return None,
            Next::Pages(_) if self.previous == Some(page) => return None,
            Next::First => {
                self.hits += 1;
                (self.next, self.previous) = (Next::Pages(self.most / 2), Some(page));
                return Some(self.restart(page, self.most / 2));
            }
            Next::Pages(size) => size,
        };
        self.previous = Some(page);
        let size = if (self.start..=self.start + self.size).contains(&page) {
            self.hits += u64::from(self.hits <= self.most * 2);
            (size + 2).min(self.most)
        } else {
            let average = self.average + u64::from(self.average < self.hits);
            (self.average, self.hits) = (u64::midpoint(average, self.hits), 1);
            size.saturating_sub(2)
        };
        if size == 0 {
            (self.next, self.size) = (Next::Off, 0);
            return None;
        }
        self.next = Next::Pages(size);
        if (self.start..self.start + self.size).contains(&page) {
            if self.ahead.1 > 0 || self.expected() <= self.most {
                return None;
            }
            self.ahead = (self.start + self.size, size);
            return Some(self.ahead);
        }
        if self.ahead.1 > 0 && page == self.ahead.0 {
            ((self.start, self.size), self.ahead) = (self.ahead, (0, 0));
            return None;
        }
        let expected = self.expected().min(self.most);
        self.next = Next::Pages(expected);
        Some(self.restart(page, expected))
    }

    /// Pages that are likely to be read in a row.
    fn expected(&self) -> u64 {
        if self.hits > self.average { (self.hits + self.average).div_ceil(2) } else { self.average }
    }

    fn restart(&mut self, page: u64, size: u64) -> (u64, u64) {
        (self.start, self.size, self.ahead) = (page, size, (0, 0));
        (page, size)
    }

    /// A page that the reader has come to is neither there nor under way: it is read alone.
    pub(super) fn missed(&mut self, page: u64) {
        match self.next {
            Next::Off => {
                let follows = page > 0 && self.previous == Some(page - 1);
                self.size = if follows { self.size + 1 } else { self.size.saturating_sub(1) };
                if self.size >= self.most {
                    self.start = page.saturating_sub(self.most);
                    (self.next, self.size, self.ahead) = (Next::Pages(self.most), self.most, (0, 0));
                    self.average = self.most / 2;
                }
                self.previous = Some(page);
            }
            Next::Pages(size) => self.next = Next::Pages(size.saturating_sub(3).max(LEAST)),
            Next::First => {}
        }
    }
}

/// `VM_MIN_READAHEAD`: 16 KiB.
const LEAST: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows that a reader of these pages has read, each with the page it was at.
    fn windows(pages: impl Iterator<Item = u64>) -> Vec<(u64, (u64, u64))> {
        let mut file = TwoWindows::new(32);
        pages.filter_map(|page| Some((page, file.come_to(page)?))).collect()
    }

    /// By hand from the rules: 16 pages; 17 and 25 as long as the row is not long enough; at its 49th page the window ahead of 32 pages; then
    /// the second page of each window has the next one read.
    #[test]
    fn the_second_page_of_a_window_has_the_next_one_read() {
        let expected = [
            (0, (0, 16)),
            (16, (16, 17)),
            (33, (33, 25)),
            (48, (58, 32)),
            (59, (90, 32)),
            (91, (122, 32)),
            (123, (154, 32)),
        ];
        assert_eq!(windows(0..150), expected);
    }

    /// Pages far from each other: windows shrink to what is expected, one page in the end, and read-ahead goes off; 32 missing pages in a
    /// row have it back.
    #[test]
    fn reading_at_random_turns_it_off_until_a_row_is_missing() {
        let mut file = TwoWindows::new(32);
        let at_random = (0..40).map(|n| n * 1000 + 500);
        let sizes: Vec<u64> = at_random.filter_map(|page| file.come_to(page)).map(|(_, size)| size).collect();
        assert!(sizes.is_sorted_by(|a, b| a >= b) && *sizes.last().unwrap() <= 2, "{sizes:?}");
        assert_eq!(file.next, Next::Off);
        for page in 100_000..100_033 {
            assert_eq!(file.come_to(page), None);
            file.missed(page);
        }
        assert_eq!(file.next, Next::Pages(32));
    }
}
