//! [`RawPages`]: ring-buffer pages as `per_cpu/cpuN/trace_pipe_raw` gives them, one source of pages per CPU.
//!
//! Record with the instance's `overwrite` option on. With it off a full buffer drops the newest events and leaves no mark
//! in the pages (only `per_cpu/cpuN/stats` counts them, and writing a marker fails with EBADF), so the jobs around the
//! hole could not be censored; with it on the page behind the hole says how many are missing. Measured on 6.18.

use surety_model::event::{Event, EventKind, TraceSink};
use surety_units::{CpuId, Nanos};

use crate::decode::EventTable;
use crate::merge::{Item, Merge, MergeCounts};
use crate::page::PageLayout;
use crate::read::{Description, EventCount, ReadSummary, TraceError, TraceReader};
use crate::source::ReadAt;

/// Raw pages of some CPUs and what is needed to read them.
pub struct RawPages<S> {
    table: EventTable,
    merge: Merge<S>,
}

impl<S: ReadAt> RawPages<S> {
    /// Pages of this layout, decoded by this table; each source holds one CPU's pages one after the other.
    pub fn new(
        table: EventTable,
        layout: PageLayout,
        sources: impl IntoIterator<Item = (CpuId, S)>,
    ) -> RawPages<S> {
        let merge = Merge::new(layout, table.endian(), sources);
        RawPages { table, merge }
    }

    /// Reads all of it into `sink`. The trait's method is this one for a sink behind a pointer; a sink whose type is
    /// known is called directly.
    ///
    /// # Errors
    /// A source that fails.
    pub fn read_into<K: TraceSink + ?Sized>(&mut self, sink: &mut K) -> Result<ReadSummary, TraceError> {
        let RawPages { table, merge } = self;
        let mut tally = Tally::new(table);
        let merged = merge.for_each(|cpu, time, item| tally.take(table, cpu, time, item, sink))?;
        Ok(tally.summary(table, &merged))
    }
}

/// What was met so far, while it is handed on.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    summary: ReadSummary,
    /// Times of the first item and of the last.
    first: Option<Nanos>,
    last: Nanos,
    /// By event of the table.
    counts: Vec<u64>,
    /// Where texts are put together.
    scratch: String,
}

impl Tally {
    pub(super) fn new(table: &EventTable) -> Tally {
        Tally {
            summary: ReadSummary::default(),
            first: None,
            last: Nanos::ZERO,
            counts: vec![0; table.names().len()],
            scratch: String::new(),
        }
    }

    /// Counts one item of the merge and hands it to the sink.
    #[inline]
    pub(super) fn take<K: TraceSink + ?Sized>(
        &mut self,
        table: &EventTable,
        cpu: CpuId,
        time: u64,
        item: Item<'_>,
        sink: &mut K,
    ) {
        let summary = &mut self.summary;
        let time = instant(time);
        self.first.get_or_insert(time);
        self.last = time;
        let record = match item {
            Item::Record(record) => record,
            Item::Lost(count) => {
                summary.gaps += 1;
                summary.lost = summary.lost.saturating_add(count.unwrap_or(0));
                sink.event(&Event {
                    time,
                    cpu,
                    current: surety_units::Tid::IDLE,
                    kind: EventKind::Lost { count },
                });
                return;
            }
        };
        let Some(index) = table.identify(record) else {
            summary.unknown += 1;
            return;
        };
        self.counts[index.index()] += 1;
        if table.decode_to(index, (cpu, time), record, &mut self.scratch, |event| sink.event(event)) {
            summary.delivered += 1;
        } else {
            summary.malformed += u64::from(table.is_decoded(index));
        }
    }

    /// All of it, with what the merge met.
    pub(super) fn summary(self, table: &EventTable, merged: &MergeCounts) -> ReadSummary {
        let mut summary = self.summary;
        summary.span = self.first.map(|first| (first, self.last));
        summary.events = table
            .names()
            .iter()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
            .map(|(event, count)| EventCount { event: event.clone(), count })
            .collect();
        summary.disordered = merged.disordered;
        summary.disorder_max = instant(merged.disorder_max);
        summary.damaged_pages = merged.damaged_pages;
        summary.truncated = merged.truncated;
        summary
    }
}

impl<S: ReadAt> TraceReader for RawPages<S> {
    fn description(&self) -> Description {
        Description { format: "pages of the ring buffers".to_owned(), cpus: None, clock: None }
    }

    fn keep_undecoded(&mut self) {
        self.table.keep_undecoded();
    }

    fn read(&mut self, sink: &mut dyn TraceSink) -> Result<ReadSummary, TraceError> {
        self.read_into(sink)
    }
}

/// A merged time as an instant; the merge keeps it within 63 bits.
#[inline]
fn instant(time: u64) -> Nanos {
    Nanos::new(i64::try_from(time).unwrap_or(i64::MAX))
}
