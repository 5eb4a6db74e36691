//! Many CPUs' pages as one stream in time: a merge that holds one page of each CPU.
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
    /// Fills `page` with the next page and returns how many bytes there were; 0 when there is none now.
    fn fill(&mut self, page: &mut [u8]) -> io::Result<usize>;

    /// Where the next page begins.
    fn offset(&self) -> u64;

    /// Whether no page comes any more after the last.
    fn has_ended(&self) -> bool;
}

/// Pages that lie one after the other in a source.
struct InSource<S> {
    source: S,
    offset: u64,
}

impl<S: ReadAt> PageSource for InSource<S> {
    fn fill(&mut self, page: &mut [u8]) -> io::Result<usize> {
        let filled = read_full(&self.source, self.offset, page)?;
        self.offset += filled as u64;
        Ok(filled)
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
    page: Vec<u8>,
    /// Bytes of `page` that were read.
    filled: usize,
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
        let stream = |(cpu, source)| Stream::new(cpu, InSource { source, offset: 0 }, layout, endian);
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
            stream.pages.offset = 0;
            stream.forget(*layout, *endian);
            if stream.advance(*layout, *endian, counts)? {
                heap.push(Reverse((stream.time, index)));
            }
        }
        while let Some(Reverse((_, index))) = heap.pop() {
            let limit = heap.peek().map(|Reverse(next)| *next);
            let stream = &mut streams[index];
            loop {
                stream.show(&mut visit);
                if !stream.advance(*layout, *endian, counts)? {
                    break;
                }
                if limit.is_some_and(|limit| (stream.time, index) > limit) {
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
        Stream {
            cpu,
            pages,
            page: vec![0; layout.page_size()],
            filled: 0,
            walk: Walk::new(&[], layout, endian),
            time: 0,
            head: Head::End,
            broken: false,
        }
    }

    /// Back to the state before the first page.
    fn forget(&mut self, layout: PageLayout, endian: Endian) {
        self.filled = 0;
        self.walk = Walk::new(&[], layout, endian);
        self.time = 0;
        self.head = Head::End;
        self.broken = false;
    }

    #[inline]
    fn show(&self, visit: &mut impl FnMut(CpuId, u64, Item<'_>)) {
        match self.head {
            Head::Record { start, end } => visit(self.cpu, self.time, Item::Record(&self.page[start..end])),
            Head::Lost { count, .. } => visit(self.cpu, self.time, Item::Lost(count)),
            Head::End => {}
        }
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
            if let Some(span) = self.walk.next(&self.page[..self.filled]) {
                self.set_time(span.time, counts);
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

    #[inline]
    fn set_time(&mut self, time: u64, counts: &mut MergeCounts) {
        let time = time.min(TIME_MAX);
        if time < self.time {
            counts.disordered += 1;
            counts.disorder_max = counts.disorder_max.max(self.time - time);
        } else {
            self.time = time;
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
        self.filled = self.pages.fill(&mut self.page).map_err(|source| PageReadError {
            cpu: self.cpu,
            offset,
            source,
        })?;
        self.walk = Walk::new(&self.page[..self.filled], layout, endian);
        if self.filled == 0 {
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

#[cfg(test)]
mod tests;
