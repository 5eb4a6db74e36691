//! [`Ahead`]: a stream with a `batch` is fetched ahead into a play-out buffer, by one [`Station`] for each disk; and what is said of it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use surety_device::power::ULTRASTAR_36Z15;
use surety_model::playout::{buffer_of, jitter_of};
use surety_model::workload::{BatchMode, Stream};
use surety_model::world::WorldError;
use surety_stream::{
    Batch, Contract, Level, Reader, Rest, Station, StationSettings, Stats, StreamError, UnderRun, Waits,
};
use surety_units::{Bytes, Nanos, Tid};

use super::Told;
use crate::threads::given_of;
use crate::window::Window;

/// The stations of a run, by the disk and the I/O priority of their streams.
#[derive(Debug, Default)]
pub(crate) struct Stations(BTreeMap<(Option<String>, String), Station>);

/// A stream's play-out buffer with who fills it.
#[derive(Debug)]
pub(super) struct Ahead {
    station: Station,
    reader: Reader,
    block: Vec<u8>,
    jitter: Nanos,
}

impl Stations {
    /// That of a stream's disk; it is started for the first.
    pub(super) fn of(&mut self, stream: &Stream) -> Result<&Station, StreamError> {
        let key = (stream.disk.clone(), format!("{:?}", stream.io_priority));
        let station = match self.0.remove(&key) {
            Some(station) => station,
            None => {
                let default = StationSettings::default();
                let io_priority = stream.io_priority.map(given_of).or(default.io_priority);
                Station::start(StationSettings { io_priority, mode: stream.mode, ..default })?
            }
        };
        let station = self.0.entry(key).or_insert(station);
        match station.mode() == stream.mode {
            true => Ok(station),
            false => Err(StreamError::Contract { key: "mode", why: "is the same for all streams of a disk" }),
        }
    }

    /// A stream of an open file, which fetches nothing before it is to go.
    pub(super) fn open(
        &mut self,
        (stream, batch): (&Stream, Bytes),
        file: &std::fs::File,
        path: &Path,
    ) -> Result<Ahead, WorldError> {
        let contract = Contract { is_paused: true, ..contract_of(stream, batch) };
        let in_words = |error| refused(stream, "fetched ahead", &error);
        let station = self.of(stream).map_err(in_words)?.clone();
        let reader = station.open_file(file, path, &contract).map_err(in_words)?;
        let block = vec![0; usize::try_from(stream.access_bytes()).unwrap_or(usize::MAX)];
        Ok(Ahead { station, reader, block, jitter: contract.jitter })
    }
}

/// What a stream asks for.
pub(super) fn contract_of(stream: &Stream, batch: Bytes) -> Contract {
    Contract {
        jitter: jitter_of(stream),
        buffer: Some(buffer_of(stream, batch.0)),
        repeats: true,
        notes_batches: true,
        overlap: stream.overlap,
        bound: stream.bound,
        ..Contract::new(stream.rate).with_access(stream.access_bytes()).with_batch(batch.0)
    }
}

/// Why a stream has no buffer of its own.
pub(super) fn refused(stream: &Stream, how: &str, error: &StreamError) -> WorldError {
    WorldError::MachineFor {
        object: format!("stream.{}", stream.name),
        what: format!("stream.{} cannot be {how}: {error}", stream.name),
        remedy: "leave `batch` out, or make its `buffer` or `jitter` smaller".to_owned(),
    }
}

/// What is said of a stream that went through a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub(super) level: Level,
    /// What keeps it from a higher one, in words.
    pub(super) caveats: Vec<String>,
    pub(super) buffer: u64,
    pub(super) jitter: Nanos,
    pub(super) stats: Stats,
    /// In the order in which they were there.
    pub(super) batches: Vec<Batch>,
    /// How long one has been wanted that is not there.
    pub(super) open: Option<Nanos>,
    pub(super) writes: bool,
    pub(super) rest: Option<Rest>,
    /// What its program waited for, in the order in which it did.
    pub(super) under_runs: Vec<UnderRun>,
    /// The thread that moved its batches.
    pub(super) served_by: Tid,
}

/// How a station's disk rested, where its mode is to have it do so.
pub(super) fn rest_of(station: &Station) -> Option<Rest> {
    (station.mode() == BatchMode::Longest).then(|| station.rest())
}

impl Fetched {
    /// Why a plan's bound says nothing of this run, where what it relies on was not there.
    pub(super) fn is_not_as_planned(&self) -> Option<String> {
        (!self.caveats.is_empty()).then(|| format!("it was {}: {}", self.level, self.caveats.join("; ")))
    }

    /// Something else that a bound relies on was not there.
    pub(super) fn object(&mut self, why: String) {
        self.level = self.level.min(Level::Scheduled);
        self.caveats.push(why);
    }

    /// What its program waited for, the time of batches in the kernel divided as far as it is told.
    pub(super) fn waits(&self, told: &Told) -> Waits {
        let mut waits = Waits::default();
        for under_run in &self.under_runs {
            waits.add(under_run, told.get(&(self.served_by, under_run.batch.submitted)));
        }
        // More than are kept one by one, or calls of their own: nothing is told of those.
        if waits.under_runs == self.stats.waits.under_runs { waits } else { self.stats.waits }
    }

    /// When each batch was asked for and when it was there, since the beginning of the run.
    pub(super) fn batches(&self, window: &Window) -> Vec<(Nanos, Nanos)> {
        let of = |batch: &Batch| (window.since_begin(batch.wanted), window.since_begin(batch.done));
        self.batches.iter().map(of).collect()
    }

    /// The bytes of each batch and when it was there, in the order of the stream.
    pub(super) fn in_order(&self, window: &Window) -> Vec<(u64, Nanos)> {
        let mut batches = self.batches.clone();
        batches.sort_by_key(|batch| batch.submitted);
        batches.iter().map(|batch| (batch.bytes, window.since_begin(batch.done))).collect()
    }
}

impl Ahead {
    /// Fetching begins.
    pub(super) fn go(&mut self) {
        self.reader.go_on();
    }

    /// One block is taken.
    pub(super) fn read(&mut self) -> io::Result<()> {
        self.reader.read_exact(&mut self.block)
    }

    /// One block is not needed any more.
    pub(super) fn drop_one(&mut self) {
        self.reader.skip(self.block.len() as u64);
    }

    /// What there is to say of it.
    pub(super) fn fetched(&mut self) -> Fetched {
        let reader = &mut self.reader;
        Fetched {
            level: reader.level(),
            caveats: reader.caveats(),
            buffer: reader.buffer(),
            jitter: self.jitter,
            stats: reader.stats(),
            open: reader.waits(),
            batches: reader.take_batches(),
            writes: false,
            rest: rest_of(&self.station),
            under_runs: reader.take_under_runs(),
            served_by: self.station.tid(),
        }
    }
}

/// In the environment of a record: how the threads of a stream were served.
///
/// `level`: how much of a guarantee a plan gave it, where all was as planned. `waits`: what each waited for.
pub(super) fn described(fetched: &[&Fetched], level: Option<String>, waits: &[Waits]) -> Option<String> {
    let first = fetched.first()?;
    let lowest = fetched.iter().map(|each| each.level).min().unwrap_or(first.level);
    let mut caveats: Vec<&str> = Vec::new();
    for caveat in fetched.iter().flat_map(|each| &each.caveats) {
        if !caveats.contains(&caveat.as_str()) {
            caveats.push(caveat);
        }
    }
    let with_caveats = (!caveats.is_empty()).then(|| format!("{lowest}: {}", caveats.join("; ")));
    let level = with_caveats.or(level).unwrap_or_else(|| lowest.to_string());
    let worst = fetched.iter().map(|each| each.stats.worst_batch).max()?;
    let in_device = fetched.iter().map(|each| each.stats.worst_in_device).max()?;
    let least = fetched.iter().filter_map(|each| each.stats.least_ahead).min();
    let way = if first.writes { "written from a buffer" } else { "fetched ahead" };
    let mut text = format!(
        "{way}, {level}; {} each, jitter {}; longest batch {worst}, longest in the kernel and the disk {in_device}",
        Bytes(first.buffer),
        first.jitter,
    );
    if let Some(least) = least {
        let what = if first.writes { "least room" } else { "least ahead" };
        text += &format!("; {what} {}", Bytes(least));
    }
    if let Some(rest) = &first.rest {
        text += &format!("; {}", ULTRASTAR_36Z15.rested(rest));
    }
    if let Some(words) = Waits::in_words(waits) {
        text += &format!("; {words}");
    }
    Some(text)
}
