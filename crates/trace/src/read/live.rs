//! [`LivePages`]: a trace that is being recorded, read as it comes.
//!
//! The caller hands in pages as it takes them from the ring buffers, and says up to when all CPUs' pages have come; what
//! was recorded before that goes to a sink, all CPUs merged by time. Pages that wait are the only memory that grows: a
//! caller that flushes after each round over the CPUs holds one round.

use surety_model::event::TraceSink;
use surety_units::{CpuId, Nanos};

use crate::decode::EventTable;
use crate::merge::live::LiveMerge;
use crate::page::PageLayout;
use crate::read::ReadSummary;
use crate::read::raw_pages::Tally;

/// Pages of a recording that goes on.
///
/// ```
/// use surety_model::event::Event;
/// use surety_trace::{Endian, EventTable, LivePages, PageLayout, Symbols};
/// use surety_units::{CpuId, Nanos};
///
/// let table = EventTable::new(Endian::Little, [], Symbols::default()).unwrap();
/// let mut pages = LivePages::new(table, PageLayout::new(8, 8, 16, 4096).unwrap());
/// pages.push(CpuId(0), &[0; 4096]);
/// pages.flush(Nanos::from_millis(1), &mut |event: &Event<'_>| println!("{event:?}"));
/// assert_eq!(pages.waiting(), 0);
/// ```
pub struct LivePages {
    table: EventTable,
    merge: LiveMerge,
    tally: Tally,
}

impl LivePages {
    /// Pages of this layout, decoded by this table.
    pub fn new(table: EventTable, layout: PageLayout) -> LivePages {
        let merge = LiveMerge::new(layout, table.endian());
        let tally = Tally::new(&table);
        LivePages { table, merge, tally }
    }

    /// Takes the next page of a CPU.
    pub fn push(&mut self, cpu: CpuId, page: &[u8]) {
        self.merge.push(cpu, page);
    }

    /// Hands every event recorded before `until` to `sink`. All pages that hold one must have come: a record that comes
    /// later gets the time of the last one handed out ([`LivePages::late`]). [`Nanos::MAX`] says that the recording is
    /// over.
    pub fn flush<K: TraceSink + ?Sized>(&mut self, until: Nanos, sink: &mut K) {
        let LivePages { table, merge, tally } = self;
        merge.drain(until.get_unsigned(), |cpu, time, item| tally.take(table, cpu, time, item, sink));
    }

    /// Bytes of pages that wait for a flush.
    pub fn waiting(&self) -> usize {
        self.merge.waiting()
    }

    /// Records that came after later ones had been handed out.
    pub fn late(&self) -> u64 {
        self.merge.late()
    }

    /// What was met so far.
    pub fn summary(&self) -> ReadSummary {
        self.tally.clone().summary(&self.table, &self.merge.counts())
    }
}
