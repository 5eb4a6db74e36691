//! A finished recording read: events to the observer, histories of threads for the record.

use surety_model::event::{Event, TraceSink};
use surety_model::job::ThreadHistory;
use surety_model::record::TraceQuality;
use surety_model::world::Observer;
use surety_trace::format::parse_header_page;
use surety_trace::{Endian, EventTable, JobBuilder, RawPages, ReadSummary, Symbols};

use crate::kin::{Family, Kin};
use crate::recorder::{PageFile, RawTrace};

/// What a trace shows.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// Every thread seen.
    pub histories: Vec<ThreadHistory>,
    /// How complete it is; `None` when there is no trace.
    pub quality: Option<TraceQuality>,
    /// The programs of the run, in its order; empty where no trace shows them.
    pub families: Vec<Family>,
    /// Where it comes from, in words.
    pub source: &'static str,
}

impl Default for Decoded {
    fn default() -> Decoded {
        Decoded { histories: Vec::new(), quality: None, families: Vec::new(), source: "none" }
    }
}

/// Builds jobs and passes events on.
struct Both<'a> {
    jobs: JobBuilder,
    kin: Kin,
    observer: Option<&'a mut dyn Observer>,
}

impl TraceSink for Both<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.jobs.event(event);
        self.kin.event(event);
        if let Some(observer) = &mut self.observer {
            observer.event(event);
        }
    }
}

/// Reads a recording, following the programs of `kin`; the error is one sentence.
pub(crate) fn decode(raw: &RawTrace, kin: Kin, observer: &mut dyn Observer) -> Result<Decoded, String> {
    let observer = observer.wants_events().then_some(observer);
    let mut both = Both { jobs: JobBuilder::new(), kin, observer };
    let summary = read_raw(raw, &mut both)?;
    let histories = both.jobs.finish().threads;
    let lost = summary.lost.max(raw.lost());
    let quality = quality(summary.delivered, lost, &histories);
    Ok(Decoded { histories, quality: Some(quality), families: both.kin.finish(), source: "tracefs" })
}

/// Passes a recording's events to a sink; the error is one sentence.
pub(crate) fn read_raw(raw: &RawTrace, sink: &mut dyn TraceSink) -> Result<ReadSummary, String> {
    let layout = parse_header_page(&raw.header_page).map_err(|e| e.to_string())?;
    if layout.page_size() != raw.page_size {
        return Err(format!(
            "pages are {} bytes and their description is for {}",
            raw.page_size,
            layout.page_size()
        ));
    }
    let symbols = raw.symbols.as_deref().map(Symbols::parse).unwrap_or_default();
    let formats = raw.formats.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };
    let table = EventTable::new(endian, formats, symbols).map_err(|e| e.to_string())?;
    let sources = raw.pages.iter().map(|(cpu, file): &(_, PageFile)| (*cpu, file));
    RawPages::new(table, layout, sources).read_into(sink).map_err(|e| e.to_string())
}

/// How complete a trace is, for a record.
pub(crate) fn quality(events: u64, lost: u64, histories: &[ThreadHistory]) -> TraceQuality {
    let censored_jobs = if lost == 0 { 0 } else { histories.iter().map(|h| h.censored).sum() };
    TraceQuality { events, lost, censored_jobs }
}
