//! [`LiveMerge`]: the same order for pages that come one by one while they are recorded.
//!
//! Whoever hands the pages in knows up to when all of them have come, and asks for what was recorded before that instant:
//! then nothing that comes later belongs before what was given out, and the whole is what [`super::Merge`] gives of the same
//! pages. A record that comes too late all the same gets the time of the last one given out, and is counted.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use surety_units::CpuId;

use super::{Head, Item, MergeCounts, PageSource, Stream, TIME_MAX};
use crate::endian::Endian;
use crate::page::PageLayout;

/// Pages that have come and were not walked yet.
#[derive(Default)]
struct Queue {
    pages: VecDeque<Vec<u8>>,
    /// The one that is walked.
    page: Vec<u8>,
    /// Emptied pages, to be filled again.
    spare: Vec<Vec<u8>>,
    /// Bytes walked.
    offset: u64,
    /// Whether the recording is over and all of its pages have come.
    ended: bool,
}

/// Emptied pages that are kept.
const SPARE: usize = 64;

impl PageSource for Queue {
    fn turn(&mut self) -> io::Result<usize> {
        let next = self.pages.pop_front().unwrap_or_default();
        let walked = std::mem::replace(&mut self.page, next);
        if self.spare.len() < SPARE && walked.capacity() > 0 {
            self.spare.push(walked);
        }
        self.offset += self.page.len() as u64;
        Ok(self.page.len())
    }

    #[inline]
    fn page(&self) -> &[u8] {
        &self.page
    }

    fn offset(&self) -> u64 {
        self.offset
    }

    fn has_ended(&self) -> bool {
        self.ended
    }
}

/// A merge of pages as they come.
pub struct LiveMerge {
    streams: Vec<Stream<Queue>>,
    layout: PageLayout,
    endian: Endian,
    counts: MergeCounts,
    /// Time of the last item given out.
    given: u64,
    late: u64,
}

impl LiveMerge {
    /// Nothing has come yet.
    pub fn new(layout: PageLayout, endian: Endian) -> LiveMerge {
        LiveMerge { streams: Vec::new(), layout, endian, counts: MergeCounts::default(), given: 0, late: 0 }
    }

    /// Takes the next page of a CPU. Empty ones are none.
    pub fn push(&mut self, cpu: CpuId, page: &[u8]) {
        if page.is_empty() {
            return;
        }
        let at = match self.streams.binary_search_by_key(&cpu, |s| s.cpu) {
            Ok(at) => at,
            Err(at) => {
                self.streams.insert(at, Stream::new(cpu, Queue::default(), self.layout, self.endian));
                at
            }
        };
        let queue = &mut self.streams[at].pages;
        let mut copy = queue.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(&page[..page.len().min(self.layout.page_size())]);
        queue.pages.push_back(copy);
    }

    /// Hands every item recorded before `until` to `visit`, in order. The end of time says that all pages have come:
    /// then a loss behind a CPU's last event is told too.
    pub fn drain(&mut self, until: u64, mut visit: impl FnMut(CpuId, u64, Item<'_>)) {
        let LiveMerge { streams, layout, endian, counts, given, late } = self;
        streams.iter_mut().for_each(|stream| stream.pages.ended = until >= TIME_MAX);
        let mut heap = BinaryHeap::with_capacity(streams.len());
        // A queue never fails to be read.
        let mut advance = |stream: &mut Stream<Queue>, given: u64| {
            let there = stream.advance(*layout, *endian, counts).unwrap_or(false);
            if there && stream.time < given {
                stream.time = given;
                *late += 1;
            }
            there
        };
        for (index, stream) in streams.iter_mut().enumerate() {
            if !matches!(stream.head, Head::End) || advance(stream, *given) {
                heap.push(Reverse((stream.time, index)));
            }
        }
        while let Some(Reverse((time, index))) = heap.pop() {
            if time >= until {
                break;
            }
            let limit = heap.peek().map_or((until, 0), |Reverse(next)| (*next).min((until, 0)));
            let stream = &mut streams[index];
            loop {
                *given = stream.time;
                stream.show(&mut visit);
                if !advance(stream, *given) {
                    break;
                }
                if (stream.time, index) >= limit {
                    heap.push(Reverse((stream.time, index)));
                    break;
                }
            }
        }
    }

    /// Bytes of pages that wait: what a [`LiveMerge::drain`] may free.
    pub fn waiting(&self) -> usize {
        self.streams.iter().map(|s| s.pages.pages.iter().map(Vec::len).sum::<usize>()).sum()
    }

    /// What was met so far.
    pub fn counts(&self) -> MergeCounts {
        self.counts
    }

    /// Records that came after later ones had been given out.
    pub fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests;
