//! Ring-buffer pages: the time-stamped records of one CPU (`kernel/trace/ring_buffer.c`).
//!
//! A page is a 64-bit time, a `commit` of the kernel's long size, and records. `commit` holds the bytes of records in
//! its low 27 bits; bit 31 says that events were lost before this page, bit 30 that a long right after the records
//! holds how many. Every record begins with one word: 5 bits of type, 27 bits of time since the record before (the
//! halves swap places with the byte order).
//!
//! | type | meaning | length in bytes |
//! |---|---|---|
//! | 0 | event; the next word is its length, that word included | that word + 4 |
//! | 1..=28 | event of `4 * type` bytes | `4 * type` + 4 |
//! | 29 | padding; no time: the page ends here, otherwise a discarded event whose next word is its length | word + 4 |
//! | 30 | the next word extends the time by 27 bits | 8 |
//! | 31 | the next word and these 27 bits are the time itself; its top 5 bits stay | 8 |
//!
//! A discarded event's time counts: the writer measured the following record from it.
//!
//! The walk never panics and never stalls: every step moves on by at least four bytes, and the first step that does
//! not fit ends the walk with a [`PageFault`]; what came before stays good.

use crate::endian::Endian;

/// The bits of `commit` that count bytes.
const COMMIT_BYTES: u64 = (1 << 27) - 1;
/// Events were lost before this page.
const MISSING_EVENTS: u64 = 1 << 31;
/// Their number is stored behind the records.
const MISSING_STORED: u64 = 1 << 30;
/// Bits of time a record's first word holds.
const TIME_BITS: u32 = 27;
/// The bits of a time that an absolute time stamp does not carry.
const TIME_TOP: u64 = 0xf8 << 56;
/// Type numbers above those of events.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Where a page keeps its parts; from `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    commit_offset: usize,
    long_size: u8,
    data_offset: usize,
    page_size: usize,
}

impl PageLayout {
    /// A layout, or `None` when no ring buffer can have it: the long is 4 or 8 bytes, the records lie behind
    /// `commit`, a page is at most 128 MiB.
    pub fn new(
        commit_offset: usize,
        long_size: usize,
        data_offset: usize,
        page_size: usize,
    ) -> Option<PageLayout> {
        let fits = (long_size == 4 || long_size == 8)
            && commit_offset >= 8
            && commit_offset.checked_add(long_size)? <= data_offset
            && data_offset.checked_add(8)? <= page_size
            && page_size <= 1 << 27;
        let long_size = u8::try_from(long_size).ok()?;
        fits.then_some(PageLayout { commit_offset, long_size, data_offset, page_size })
    }

    /// Bytes of a whole page.
    pub fn page_size(self) -> usize {
        self.page_size
    }

    /// The same layout of pages of another size: a buffer may have larger ones than the kernel's description says.
    pub fn with_page_size(self, page_size: usize) -> Option<PageLayout> {
        PageLayout::new(self.commit_offset, self.long_size.into(), self.data_offset, page_size)
    }

    /// Bytes of the recording kernel's `long`.
    pub fn long_size(self) -> u8 {
        self.long_size
    }
}

/// Why a page could not be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// The page has fewer bytes than it says it holds: the file was cut.
    Truncated,
    /// A record says it is longer than the page.
    Overlong,
}

/// One event's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The time the page gives it, on the trace's clock, in the clock's unit.
    pub time: u64,
    /// The event's bytes, the common fields first; padded at the end to a multiple of 4.
    pub bytes: &'a [u8],
}

/// A record as a place in its page: what a walk gives that does not borrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) time: u64,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// How far a page has been walked; holds no borrow, so a stream can keep it beside the page it owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    endian: Endian,
    time: u64,
    at: usize,
    end: usize,
    fault: Option<PageFault>,
    /// Events lost before this page; the inner `None` is an unknown number.
    pub(crate) lost: Option<Option<u64>>,
}

impl Walk {
    /// Reads the header; a page too short for one has no records.
    pub(crate) fn new(page: &[u8], layout: PageLayout, endian: Endian) -> Walk {
        let mut walk = Walk { endian, time: 0, at: 0, end: 0, fault: None, lost: None };
        let header = endian.u64(page, 0).zip(endian.unsigned(page, layout.commit_offset, layout.long_size));
        let Some((time, commit)) = header else {
            walk.fault = (!page.is_empty()).then_some(PageFault::Truncated);
            return walk;
        };
        let committed = layout.data_offset + (commit & COMMIT_BYTES) as usize;
        if commit & MISSING_EVENTS != 0 {
            let stored = (commit & MISSING_STORED != 0)
                .then(|| endian.unsigned(page, committed, layout.long_size))
                .flatten();
            walk.lost = Some(stored);
        }
        walk.time = time;
        walk.at = layout.data_offset;
        walk.end = committed.min(page.len());
        if committed > page.len() {
            // No whole page can hold more than a page: that is damage, not a cut file.
            let cut = committed <= layout.page_size;
            walk.fault = Some(if cut { PageFault::Truncated } else { PageFault::Overlong });
        }
        walk
    }

    /// The next event of the page.
    #[inline]
    pub(crate) fn next(&mut self, page: &[u8]) -> Option<Span> {
        // Most are events that say their length in their type, of a little-endian machine.
        if self.endian == Endian::Little
            && let Some(word) = page.get(self.at..self.end).and_then(|rest| rest.first_chunk())
        {
            let word = u32::from_le_bytes(*word);
            let (kind, start) = (word & 31, self.at + 4);
            let end = start + 4 * kind as usize;
            if (1..PADDING).contains(&kind) && end <= self.end {
                self.time = self.time.wrapping_add(u64::from(word >> 5));
                self.at = end;
                return Some(Span { time: self.time, start, end });
            }
        }
        self.next_of_any(page)
    }

    /// The same of every type and byte order.
    fn next_of_any(&mut self, page: &[u8]) -> Option<Span> {
        while self.at < self.end {
            let Some(word) = self.word(page, self.at) else { return self.stop() };
            let (kind, delta) = match self.endian {
                Endian::Little => (word & 31, u64::from(word >> 5)),
                Endian::Big => (word >> TIME_BITS, u64::from(word & ((1 << TIME_BITS) - 1))),
            };
            let body = self.at + 4;
            if (1..PADDING).contains(&kind) {
                let end = body + 4 * kind as usize;
                if end > self.end {
                    return self.stop();
                }
                self.time = self.time.wrapping_add(delta);
                self.at = end;
                return Some(Span { time: self.time, start: body, end });
            }
            if kind == PADDING && delta == 0 {
                self.at = self.end;
                return None;
            }
            let Some(second) = self.word(page, body) else { return self.stop() };
            match kind {
                TIME_EXTEND => {
                    self.time = self.time.wrapping_add(delta + (u64::from(second) << TIME_BITS));
                    self.at = body + 4;
                }
                TIME_STAMP => {
                    self.time = absolute(self.time, delta + (u64::from(second) << TIME_BITS));
                    self.at = body + 4;
                }
                _ => {
                    // An event of explicit length, or a discarded one.
                    let length = (second as usize).checked_next_multiple_of(4);
                    let end = length.and_then(|length| body.checked_add(length));
                    let Some(end) = end.filter(|end| *end <= self.end && second >= 4) else {
                        return self.stop();
                    };
                    self.time = self.time.wrapping_add(delta);
                    self.at = end;
                    if kind != PADDING {
                        return Some(Span { time: self.time, start: body + 4, end });
                    }
                }
            }
        }
        None
    }

    /// Goes on behind a record that a copy of it has given. Copied as a whole, that copy would have to be in memory first, where
    /// the last step has just begun to write its parts.
    #[inline]
    pub(crate) fn pass(&mut self, span: Span) {
        (self.time, self.at) = (span.time, span.end);
    }

    /// Why the walk ended early, if it did. Final once [`Walk::next`] has returned `None`.
    pub(crate) fn fault(&self) -> Option<PageFault> {
        self.fault
    }

    /// Where the walk is in time.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    #[inline]
    fn word(&self, page: &[u8], at: usize) -> Option<u32> {
        (at.checked_add(4)? <= self.end).then(|| self.endian.u32(page, at)).flatten()
    }

    #[cold]
    fn stop(&mut self) -> Option<Span> {
        self.at = self.end;
        self.fault.get_or_insert(PageFault::Overlong);
        None
    }
}

/// An absolute stamp's 59 bits with the top bits of the time before; a stamp that went back has wrapped around.
fn absolute(before: u64, stamp: u64) -> u64 {
    let time = stamp & !TIME_TOP | before & TIME_TOP;
    if before & TIME_TOP != 0 && time < before { time.wrapping_add(1 << 59) } else { time }
}

/// One page and the walk through it.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    page: &'a [u8],
    walk: Walk,
}

impl<'a> Records<'a> {
    /// Starts at the first record of `page`. A page shorter than its layout says is read as far as it reaches.
    pub fn new(page: &'a [u8], layout: PageLayout, endian: Endian) -> Records<'a> {
        Records { page, walk: Walk::new(page, layout, endian) }
    }

    /// Whether events were lost before this page, and how many where the kernel stored that.
    pub fn lost(&self) -> Option<Option<u64>> {
        self.walk.lost
    }

    /// Why the page could not be read to its end; final once the iterator is exhausted.
    pub fn fault(&self) -> Option<PageFault> {
        self.walk.fault()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let span = self.walk.next(self.page)?;
        Some(Record { time: span.time, bytes: &self.page[span.start..span.end] })
    }
}

#[cfg(test)]
mod tests;
