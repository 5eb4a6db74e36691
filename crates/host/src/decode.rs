//! A finished recording read: events to the observer, histories of threads for the record.

use std::collections::BTreeMap;

use surety_model::event::{Event, TraceSink};
use surety_model::job::{Job, ThreadHistory};
use surety_model::record::TraceQuality;
use surety_model::world::Observer;
use surety_trace::format::parse_header_page;
use surety_trace::jobs::sink::{Histories, JobSink, ThreadKey, ThreadTotals};
use surety_trace::{Endian, EventTable, JobBuilder, RawPages, ReadSummary, Symbols};
use surety_units::{CpuId, Nanos, Tid};

use crate::program_threads::{ProgramThreads, SeenProgram};
use crate::recorder::{PageFile, RawTrace};
use crate::streams::Requests;

/// What a trace shows.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// Every thread seen.
    pub histories: Vec<ThreadHistory>,
    /// How complete it is; `None` when there is no trace.
    pub quality: Option<TraceQuality>,
    /// The programs of the run, in its order; empty where no trace shows them.
    pub programs_seen: Vec<SeenProgram>,
    /// What each thread ran inside the window, of jobs or not.
    pub runs: BTreeMap<Tid, Nanos>,
    /// Those of streams.
    pub requests: Requests,
    /// Where it comes from, in words.
    pub source: &'static str,
}

impl Default for Decoded {
    fn default() -> Decoded {
        Decoded {
            histories: Vec::new(),
            quality: None,
            programs_seen: Vec::new(),
            runs: BTreeMap::new(),
            requests: Requests::default(),
            source: "none",
        }
    }
}

/// Keeps every job, and what each thread ran inside the window.
#[derive(Default)]
struct Windowed {
    histories: Histories,
    window: (Nanos, Nanos),
    /// By slot.
    open: Vec<Nanos>,
    runs: BTreeMap<Tid, Nanos>,
}

impl JobSink for Windowed {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        self.histories.job(thread, job);
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        self.histories.doubtful(thread, job);
    }

    fn forget(&mut self, thread: &ThreadKey) {
        self.histories.forget(thread);
    }

    fn ran(&mut self, thread: &ThreadKey, _: CpuId, from: Nanos, until: Nanos) {
        if self.open.len() <= thread.slot {
            self.open.resize(thread.slot + 1, Nanos::ZERO);
        }
        let inside = until.min(self.window.1) - from.max(self.window.0);
        self.open[thread.slot] += inside.max(Nanos::ZERO);
    }

    fn ended(&mut self, thread: &ThreadKey, totals: &ThreadTotals) {
        if let Some(run) = self.open.get_mut(thread.slot) {
            *self.runs.entry(thread.tid).or_default() += std::mem::take(run);
        }
        self.histories.ended(thread, totals);
    }
}

/// Builds jobs and passes events on.
struct Both<'a> {
    jobs: JobBuilder<Windowed>,
    program_threads: ProgramThreads,
    requests: Requests,
    observer: Option<&'a mut dyn Observer>,
}

impl TraceSink for Both<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.jobs.event(event);
        self.program_threads.event(event);
        self.requests.event(event);
        if let Some(observer) = &mut self.observer {
            observer.event(event);
        }
    }
}

/// Reads a recording, following the programs of `program_threads`; the error is one sentence.
pub(crate) fn decode(
    raw: &RawTrace,
    program_threads: ProgramThreads,
    observer: &mut dyn Observer,
) -> Result<Decoded, String> {
    let observer = observer.wants_events().then_some(observer);
    let sink = Windowed { window: program_threads.window(), ..Windowed::default() };
    let (jobs, requests) = (JobBuilder::into_sink(sink), Requests::default());
    let mut both = Both { jobs, program_threads, requests, observer };
    let summary = read_raw(raw, &mut both)?;
    let (Windowed { histories, runs, .. }, _) = both.jobs.end();
    let histories = histories.finish();
    let lost = summary.lost.max(raw.lost());
    let quality = quality(summary.delivered, lost, &histories);
    let programs_seen = both.program_threads.finish();
    let requests = both.requests;
    Ok(Decoded { histories, quality: Some(quality), programs_seen, runs, requests, source: "tracefs" })
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
