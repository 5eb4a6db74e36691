//! Many CPUs' pages as one stream in time: a merge that holds a few pages of each CPU.
//!
//! Order: by time, then by CPU, then as recorded. Within a CPU time never goes back: where the recorded clock does by
//! some nanoseconds, the later record gets the earlier one's time, and that is counted with the largest step.
//!
//! The stream whose head is first is drained until another's head comes before its own, so a CPU that is alone costs no
//! comparison with the rest.
//!
//! [`Merge`] does so for sources that are whole, [`live::LiveMerge`] for pages that come one by one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;

use surety_units::CpuId;

use crate::endian::Endian;
use crate::page::{PageFault, PageLayout, Walk};
use crate::source::{ReadAt, read_full};

pub mod live;

/// Times are instants of 63 bits ([`surety_units::Nanos`]); what a broken page says beyond stops here, before it is
/// ordered.
const TIME_MAX: u64 = i64::MAX as u64;

/// What a merged stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An event's record.
    Record(&'a [u8]),
    /// The tracer lost events of this CPU before this point; how many, where it knows.
    Lost(Option<u64>),
}

/// A page source failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the pages of CPU {cpu} at byte {offset}: {source}")]
pub struct PageReadError {
    /// Whose pages.
    pub cpu: CpuId,
    /// Where.
    pub offset: u64,
    /// Why.
    pub source: io::Error,
}

/// What a merge met besides records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Pages read.
    pub pages: u64,
    /// Records whose time lay before their predecessor's on the same CPU.
    pub disordered: u64,
    /// The largest such step back.
    pub disorder_max: u64,
    /// Pages that end in the middle of a record, or claim to hold more than a page.
    pub damaged_pages: u64,
    /// Streams that end in the middle of a page.
    pub truncated: u64,
}

/// Where a CPU's pages come from, one after the other.
trait PageSource {
    /// Goes to the next page and returns how many bytes it has; 0 when there is none now.
    fn turn(&mut self) -> io::Result<usize>;

    /// The page gone to last.
    fn page(&self) -> &[u8];

    /// Where the next page begins.
    fn offset(&self) -> u64;

    /// Whether no page comes any more after the last.
    fn has_ended(&self) -> bool;
}

/// Pages that lie one after the other in a source, read some at a time.
struct InSource<S> {
    source: S,
    page_size: usize,
    /// Where the next page begins.
    offset: u64,
    /// Pages that were read together, and how many of their bytes there are.
    read: Vec<u8>,
    filled: usize,
    /// Those of the page gone to last.
    page: Range<usize>,
}

/// Bytes that are read of a CPU together, and of all CPUs at most, where a page is no longer.
const READ: usize = 64 << 10;
const READ_MAX: usize = 8 << 20;

impl<S: ReadAt> InSource<S> {
    /// One of `sources`.
    fn new(source: S, page_size: usize, sources: usize) -> InSource<S> {
        let together = READ.min(READ_MAX / sources.max(1)) / page_size;
        let read = vec![0; page_size * together.max(1)];
        InSource { source, page_size, offset: 0, read, filled: 0, page: 0..0 }
    }

    /// Back to the beginning.
    fn rewind(&mut self) {
        (self.offset, self.filled, self.page) = (0, 0, 0..0);
    }

    #[cold]
    fn refill(&mut self) -> io::Result<()> {
        self.page = 0..0;
        self.filled = 0;
        // Where pages together cannot be read, those before the one that cannot are still good.
        self.filled = match read_full(&self.source, self.offset, &mut self.read) {
            Ok(filled) => filled,
            Err(_) => read_full(&self.source, self.offset, &mut self.read[..self.page_size])?,
        };
        Ok(())
    }
}

impl<S: ReadAt> PageSource for InSource<S> {
    fn turn(&mut self) -> io::Result<usize> {
        if self.page.end >= self.filled {
            self.refill()?;
        }
        let start = self.page.end;
        self.page = start..self.filled.min(start + self.page_size);
        self.offset += self.page.len() as u64;
        Ok(self.page.len())
    }

    #[inline]
    fn page(&self) -> &[u8] {
        &self.read[self.page.clone()]
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn has_ended(&self) -> bool {
        true
    }
}

/// The pages of one CPU.
struct Stream<P> {
    cpu: CpuId,
    pages: P,
    walk: Walk,
    /// Time of the head, never before an earlier head's.
    time: u64,
    head: Head,
    /// The page before was damaged: what it held is lost.
    broken: bool,
}

/// What stands first in a stream.
#[derive(Clone, Copy)]
enum Head {
    End,
    Record {
        start: usize,
        end: usize,
    },
    /// Then the record, if the page has one.
    Lost {
        count: Option<u64>,
        then: Option<(usize, usize)>,
    },
}

/// A merge of per-CPU page streams.
pub struct Merge<S> {
    streams: Vec<Stream<InSource<S>>>,
    layout: PageLayout,
    endian: Endian,
    counts: MergeCounts,
}

impl<S: ReadAt> Merge<S> {
    /// A merge of the streams of these CPUs; each source is whole pages one after the other.
    pub fn new(
        layout: PageLayout,
        endian: Endian,
        sources: impl IntoIterator<Item = (CpuId, S)>,
    ) -> Merge<S> {
        let sources: Vec<(CpuId, S)> = sources.into_iter().collect();
        let count = sources.len();
        let pages = |source| InSource::new(source, layout.page_size(), count);
        let stream = |(cpu, source)| Stream::new(cpu, pages(source), layout, endian);
        let mut streams: Vec<Stream<InSource<S>>> = sources.into_iter().map(stream).collect();
        // Equal times are told by CPU; two streams of one CPU keep the order they were given in.
        streams.sort_by_key(|s| s.cpu);
        Merge { streams, layout, endian, counts: MergeCounts::default() }
    }

    /// What was met so far.
    pub fn counts(&self) -> MergeCounts {
        self.counts
    }

    /// Hands every item to `visit` in order, from the beginning of all sources.
    ///
    /// # Errors
    /// The first read that fails ends the merge.
    pub fn for_each(
        &mut self,
        mut visit: impl FnMut(CpuId, u64, Item<'_>),
    ) -> Result<MergeCounts, PageReadError> {
        let Merge { streams, layout, endian, counts } = self;
        *counts = MergeCounts::default();
        let mut heap = BinaryHeap::with_capacity(streams.len());
        for (index, stream) in streams.iter_mut().enumerate() {
            stream.pages.rewind();
            stream.forget(*layout, *endian);
            if stream.advance(*layout, *endian, counts)? {
                heap.push(Reverse((stream.time, index)));
            }
        }
        while let Some(Reverse((_, index))) = heap.pop() {
            let limit = heap.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
            let stream = &mut streams[index];
            loop {
                stream.show(&mut visit);
                let stopped = stream.show_page(|time| (time, index) <= limit, &mut visit, counts);
                if !stopped && !stream.advance(*layout, *endian, counts)? {
                    break;
                }
                if (stream.time, index) > limit {
                    heap.push(Reverse((stream.time, index)));
                    break;
                }
            }
        }
        Ok(*counts)
    }
}

impl<P: PageSource> Stream<P> {
    fn new(cpu: CpuId, pages: P, layout: PageLayout, endian: Endian) -> Stream<P> {
        Stream { cpu, pages, walk: Walk::new(&[], layout, endian), time: 0, head: Head::End, broken: false }
    }

    /// Back to the state before the first page.
    fn forget(&mut self, layout: PageLayout, endian: Endian) {
        self.walk = Walk::new(&[], layout, endian);
        self.time = 0;
        self.head = Head::End;
        self.broken = false;
    }

    #[inline]
    fn show(&self, visit: &mut impl FnMut(CpuId, u64, Item<'_>)) {
        match self.head {
            Head::Record { start, end } => {
                visit(self.cpu, self.time, Item::Record(&self.pages.page()[start..end]))
            }
            Head::Lost { count, .. } => visit(self.cpu, self.time, Item::Lost(count)),
            Head::End => {}
        }
    }

    /// Shows the records behind the head that are on its page, as long as their time `is_due`; true where one is not, which
    /// is the head then.
    #[inline]
    fn show_page(
        &mut self,
        is_due: impl Fn(u64) -> bool,
        visit: &mut impl FnMut(CpuId, u64, Item<'_>),
        counts: &mut MergeCounts,
    ) -> bool {
        if !matches!(self.head, Head::Record { .. }) {
            return false;
        }
        // A page tells of a loss before its first record only. The walk is a copy that nobody else can see.
        let (page, mut walk) = (self.pages.page(), self.walk);
        while let Some(span) = walk.next(page) {
            set_time(&mut self.time, span.time, counts);
            if !is_due(self.time) {
                self.head = Head::Record { start: span.start, end: span.end };
                self.walk.pass(span);
                return true;
            }
            visit(self.cpu, self.time, Item::Record(&page[span.start..span.end]));
        }
        self.walk = walk;
        false
    }

    /// Moves the head on; `false` at the end.
    #[inline]
    fn advance(
        &mut self,
        layout: PageLayout,
        endian: Endian,
        counts: &mut MergeCounts,
    ) -> Result<bool, PageReadError> {
        if let Head::Lost { then: Some((start, end)), .. } = self.head {
            self.head = Head::Record { start, end };
            return Ok(true);
        }
        loop {
            if let Some(span) = self.walk.next(self.pages.page()) {
                set_time(&mut self.time, span.time, counts);
                let lost = self.walk.lost.take();
                self.head = match lost {
                    Some(count) => Head::Lost { count, then: Some((span.start, span.end)) },
                    None => Head::Record { start: span.start, end: span.end },
                };
                return Ok(true);
            }
            if !self.turn_page(layout, endian, counts)? {
                // No event follows that could tell of the loss.
                let untold = if self.pages.has_ended() { self.walk.lost.take() } else { None };
                self.head = untold.map_or(Head::End, |count| Head::Lost { count, then: None });
                return Ok(untold.is_some());
            }
        }
    }

    /// Reads the next page; `false` when there is none.
    fn turn_page(
        &mut self,
        layout: PageLayout,
        endian: Endian,
        counts: &mut MergeCounts,
    ) -> Result<bool, PageReadError> {
        match self.walk.fault() {
            Some(PageFault::Truncated) => counts.truncated += 1,
            Some(PageFault::Overlong) => {
                counts.damaged_pages += 1;
                self.broken = true;
            }
            None => {}
        }
        // A page without records may still tell of a loss: it is told with the next record.
        let (untold, told_at) = (self.walk.lost.take(), self.walk.time());
        let offset = self.pages.offset();
        let filled = self.pages.turn().map_err(|source| PageReadError { cpu: self.cpu, offset, source })?;
        self.walk = Walk::new(self.pages.page(), layout, endian);
        if filled == 0 {
            // A page may still come; where none does, the loss is told by itself.
            if untold.is_some() {
                self.walk.lost = untold;
                self.time = self.time.max(told_at.min(TIME_MAX));
            }
            return Ok(false);
        }
        counts.pages += 1;
        self.walk.lost = match (untold, self.walk.lost, std::mem::take(&mut self.broken)) {
            (None, None, false) => None,
            (Some(a), Some(b), false) => Some(a.zip(b).map(|(a, b)| a.saturating_add(b))),
            (Some(count), None, false) | (None, Some(count), false) => Some(count),
            // What a damaged page held nobody knows.
            (_, _, true) => Some(None),
        };
        Ok(true)
    }
}

/// Moves a stream's time on, never back.
#[inline]
fn set_time(now: &mut u64, time: u64, counts: &mut MergeCounts) {
    let time = time.min(TIME_MAX);
    if time < *now {
        counts.disordered += 1;
        counts.disorder_max = counts.disorder_max.max(*now - time);
    } else {
        *now = time;
    }
}

#[cfg(test)]
mod tests;
