//! Streams: a thread that reads or writes a file block after block at a byte rate, each block by its deadline.
//!
//! Block `k` is released at `k * block / rate` and is due when the play-out buffer runs empty: `buffer / rate` later, which
//! is one block's time where no buffer is given. A thread that is behind goes on with the next block at once. A block that
//! is due before its access could begin is dropped: a player shows the frame after it. Otherwise it counts as late when it
//! completes after it was due, and is shown then.

mod ahead;
mod recorder;
mod requests;

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::thread::JoinHandle;

use surety_kernel::clock;
use surety_kernel::files::{evict, reopen_direct};
use surety_model::event::{Span, SpanFate, SpanMarker};
use surety_model::playout::{Inside, Waits};
use surety_model::record::{ActivityRecord, Caveat, StreamAccess, StreamThread, guarantee_of, stream_record};
use surety_model::workload::{BatchMode, Direction, Stream, StreamFile, Workload, release_of};
use surety_model::world::WorldError;
use surety_units::{Nanos, Rate, Tid};

use crate::loads::files::{ALIGNMENT, BlockFile, FileOf, Shape};
use crate::loads::{Ground, Trouble};
use crate::meter::{Metered, ShareMeter};
use crate::said::said;
use crate::spans::Speaker;
use crate::threads::{give_io_priority, spawn_thread};
use crate::window::{Gate, Window};

pub(crate) use ahead::Stations;
use ahead::{Ahead, Fetched};
use recorder::Recorder;
pub(crate) use requests::Requests;

/// More accesses than this in one run are not kept.
const ACCESSES_MAX: i128 = 10_000_000;
/// More threads of one stream than this are refused.
const COUNT_MAX: u32 = 1_000;

/// Where the bytes of a stream come from, or go.
enum Bytes {
    /// Block after block, when each is due.
    ByBlock { file: BlockFile, is_direct: bool, blocks: u64 },
    /// Fetched ahead.
    Ahead(Box<Ahead>),
    /// Written from a buffer.
    Recorder(Box<Recorder>),
}

/// One thread of a stream, before it runs.
struct Player {
    bytes: Bytes,
    block: u64,
    rate: Rate,
    direction: Direction,
    deadline: Nanos,
    name: String,
    /// Says in the trace which accesses were not in time.
    speaker: Speaker,
    /// Why a bound is none here.
    objection: Option<String>,
}

/// What one thread did.
#[derive(Debug, Default)]
pub(crate) struct StreamRun {
    accesses: Vec<StreamAccess>,
    metered: Metered,
    is_direct: bool,
    fetched: Option<Fetched>,
    /// Why it could not go on.
    trouble: Option<Trouble>,
}

/// A thread of a stream that waits at the gate.
pub(crate) type Waiting = (Tid, JoinHandle<StreamRun>);

impl StreamRun {
    /// As the error of a run: nothing was observed of the stream for the rest of it.
    pub fn trouble_of(&self, name: &str) -> Option<WorldError> {
        self.trouble.as_ref().map(|trouble| WorldError::MachineFor {
            object: format!("stream.{name}"),
            what: format!("stream.{name} failed: {}", trouble.what),
            remedy: trouble.remedy.clone(),
        })
    }
}

/// Makes the threads of a stream with their files.
///
/// # Errors
/// In words: sizes that do not fit each other, a file that is not there, no room.
pub(crate) fn threads(
    stream: &Stream,
    ground: &Ground<'_>,
    stations: &mut Stations,
    (gate, speaker): (&Arc<Gate>, &Speaker),
) -> Result<Vec<Waiting>, WorldError> {
    check(stream)?;
    let mut players = Vec::new();
    for number in 0..stream.count {
        let player = Player::prepare(stream, u64::from(number), (ground, stations))?;
        players.push(Player { speaker: speaker.clone(), ..player });
    }
    let mut threads: Vec<Waiting> = Vec::new();
    for mut player in players {
        // Who fetches ahead has the priority, not who plays.
        let priority = stream.io_priority.filter(|_| stream.batch.is_none());
        let of_player = Arc::clone(gate);
        let made = spawn_thread(&stream.name, gate, move || match of_player.wait() {
            Some(window) => match give_io_priority(priority) {
                Ok(()) => player.run(&of_player, &window),
                Err((what, remedy)) => {
                    StreamRun { trouble: Some(Trouble { what, remedy }), ..StreamRun::default() }
                }
            },
            None => StreamRun::default(),
        });
        match made {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                gate.stop();
                threads.into_iter().for_each(|(_, handle)| drop(handle.join()));
                return Err(error);
            }
        }
    }
    Ok(threads)
}

fn refused(stream: &Stream, why: impl Into<String>) -> WorldError {
    refused_at(format!("stream.{}", stream.name), why)
}

fn refused_at(object: String, why: impl Into<String>) -> WorldError {
    WorldError::Unsupported { world: "host".to_owned(), object, why: why.into() }
}

/// What this world cannot do of a stream.
fn check(stream: &Stream) -> Result<(), WorldError> {
    stream.check_sizes().map_err(|(key, why)| refused_at(format!("stream.{}.{key}", stream.name), why))?;
    if stream.mode == BatchMode::Longest && stream.batch.is_none() {
        return Err(refused(stream, "what is moved one access at a time has no `mode`; give it a `batch`"));
    }
    if stream.jitter.is_some() && stream.batch.is_none() {
        let why = "what is fetched one access at a time has no `jitter` to save; give it a `batch`";
        return Err(refused(stream, why));
    }
    if matches!((&stream.file, stream.direction), (StreamFile::Path(_), Direction::Write)) {
        let why = "it writes to files made for the run only; use `file = { make = \"105MB\" }`";
        return Err(refused(stream, why));
    }
    if stream.count > COUNT_MAX {
        return Err(refused(stream, format!("at most {COUNT_MAX} of one stream run at once")));
    }
    Ok(())
}

impl Player {
    fn prepare(
        stream: &Stream,
        number: u64,
        (ground, stations): (&Ground<'_>, &mut Stations),
    ) -> Result<Player, WorldError> {
        let block = stream.access_bytes();
        let wants_direct = block.is_multiple_of(ALIGNMENT as u64);
        let (file, is_direct, blocks) = match &stream.file {
            StreamFile::Make(size) => made(stream, size.0, number, wants_direct, ground)?,
            StreamFile::Path(path) => {
                found(path, block, wants_direct).map_err(|why| refused(stream, format!("`{path}` {why}")))?
            }
        };
        let bytes = match stream.batch {
            None => Bytes::ByBlock { file, is_direct, blocks },
            Some(batch) => {
                let path = match &stream.file {
                    StreamFile::Path(path) => path.clone(),
                    StreamFile::Make(_) => format!("the file made for stream.{}", stream.name),
                };
                let (of, file, path) = ((stream, batch), file.file(), path.as_ref());
                match stream.direction {
                    Direction::Read => Bytes::Ahead(Box::new(stations.open(of, file, path)?)),
                    Direction::Write => Bytes::Recorder(Box::new(Recorder::open(stations, of, file, path)?)),
                }
            }
        };
        Ok(Player {
            bytes,
            block,
            rate: stream.rate,
            direction: stream.direction,
            deadline: stream.deadline(),
            name: stream.name.clone(),
            speaker: Speaker::default(),
            objection: stream.bound.and_then(|_| ground.overtaken(stream.disk.as_deref())),
        })
    }

    fn run(&mut self, gate: &Gate, window: &Window) -> StreamRun {
        let span = i128::from((window.end - window.begin).get());
        let planned = span * i128::from(self.rate.0) / (i128::from(self.block) * 1_000_000_000) + 1;
        if planned > ACCESSES_MAX {
            let trouble = Trouble {
                what: format!("{planned} accesses are more than are kept of one run ({ACCESSES_MAX})"),
                remedy: "observe it for less with --for, or make one access larger".to_owned(),
            };
            return StreamRun { trouble: Some(trouble), ..StreamRun::default() };
        }
        let mut run = StreamRun::default();
        run.accesses.reserve(usize::try_from(planned).unwrap_or(0));
        let mut meter = ShareMeter::new(*window);
        if let Bytes::Ahead(ahead) = &mut self.bytes
            && gate.sleep_until(window.begin)
        {
            ahead.go();
        }
        for number in 0.. {
            let release = release_of(self.rate, self.block, number);
            let begin = window.begin + release;
            if begin >= window.end || (begin > clock::monotonic() && !gate.sleep_until(begin)) {
                break;
            }
            let start = clock::monotonic();
            if gate.is_over(window, start) {
                // What was released and never begun stays open.
                if !gate.is_stopped() {
                    self.leave_open(number, window, &mut run);
                }
                break;
            }
            meter.look(start);
            if start > begin + self.deadline {
                self.missed(number, SpanFate::Dropped, begin, start);
                run.accesses.push(StreamAccess { release, done: None });
                if let Bytes::Ahead(ahead) = &mut self.bytes {
                    ahead.drop_one();
                }
                continue;
            }
            if let Err(error) = self.access(number) {
                run.trouble = Some(failed(&error));
                break;
            }
            let end = clock::monotonic();
            if end > begin + self.deadline {
                self.missed(number, SpanFate::Late, begin, end);
            }
            let done = (window.since_begin(start), window.since_begin(end));
            run.accesses.push(StreamAccess { release, done: Some(done) });
        }
        run.metered = meter.finish();
        if let Bytes::Recorder(recorder) = &mut self.bytes
            && run.trouble.is_none()
        {
            // No access came after it to be told.
            run.trouble = recorder.check().err().as_ref().map(failed);
        }
        self.tell(&mut run, window);
        run
    }

    /// What there is to say of its buffer.
    fn tell(&mut self, run: &mut StreamRun, window: &Window) {
        match &mut self.bytes {
            Bytes::ByBlock { is_direct, .. } => run.is_direct = *is_direct,
            Bytes::Ahead(ahead) => run.fetched = Some(ahead.fetched()),
            Bytes::Recorder(recorder) => {
                let fetched = recorder.fetched();
                recorder::settle(&mut run.accesses, self.block, &fetched, window);
                run.fetched = Some(fetched);
            }
        }
        if let (Some(fetched), Some(why)) = (&mut run.fetched, &self.objection) {
            fetched.object(why.clone());
        }
    }

    fn missed(&mut self, number: u64, fate: SpanFate, begin: Nanos, end: Nanos) {
        let span = Span { fate, number, begin, end, thread: None, name: self.name.as_str() };
        self.speaker.say(&SpanMarker::Over(span));
    }

    /// Accesses released before the end that nobody came to.
    fn leave_open(&self, from: u64, window: &Window, run: &mut StreamRun) {
        let end = window.since_begin(window.end);
        for number in from.. {
            let release = release_of(self.rate, self.block, number);
            if release >= end {
                return;
            }
            run.accesses.push(StreamAccess { release, done: Some((end, Nanos::MAX)) });
        }
    }

    fn access(&mut self, number: u64) -> std::io::Result<()> {
        let (file, is_direct, blocks) = match &mut self.bytes {
            Bytes::Ahead(ahead) => return ahead.read(),
            Bytes::Recorder(recorder) => return recorder.write(),
            Bytes::ByBlock { file, is_direct, blocks } => (file, *is_direct, *blocks),
        };
        let block = number % blocks;
        let (doing, moved) = match self.direction {
            Direction::Read => ("reading", file.read(block)),
            Direction::Write => ("writing", file.write(block)),
        };
        let at = block * self.block;
        let in_words = |error: std::io::Error| {
            let words = format!("{doing} its file at byte {at} failed: {}", said(&error));
            std::io::Error::new(error.kind(), words)
        };
        let moved = moved.map_err(in_words)?;
        // The file got shorter meanwhile.
        if moved < self.block {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if !is_direct && block + 1 == blocks {
            let _ = evict(file.file());
        }
        Ok(())
    }
}

/// What became of an access that failed.
fn failed(error: &std::io::Error) -> Trouble {
    // What failed in its buffer says which file.
    let what = match error.get_ref() {
        Some(_) => said(error),
        None => format!("its file failed: {}", said(error)),
    };
    let remedy = "the device failed, was detached, or what it stands on is full; see `dmesg`";
    Trouble { what, remedy: remedy.to_owned() }
}

/// A file made for the run: past the page cache where its file system can, else dropped from it.
fn made(
    stream: &Stream,
    size: u64,
    number: u64,
    wants_direct: bool,
    ground: &Ground<'_>,
) -> Result<(BlockFile, bool, u64), WorldError> {
    // Of whole batches, so that no round has a shorter one, which costs the disk almost as much.
    let unit = stream.batch.map_or(stream.access_bytes(), |batch| batch.0.next_multiple_of(ALIGNMENT as u64));
    let blocks = size / unit;
    if blocks == 0 {
        let what = if stream.batch.is_some() { "batch" } else { "access" };
        return Err(refused(stream, format!("its file is smaller than one {what}")));
    }
    let object = format!("stream.{}", stream.name);
    let of = FileOf { object: &object, disk: stream.disk.as_deref() };
    let block = usize::try_from(unit).unwrap_or(usize::MAX);
    let file = Shape { block, blocks, direct: false }.make(of, number, ground)?;
    let direct = wants_direct.then(|| reopen_direct(file.file(), true).ok()).flatten();
    let _ = evict(file.file());
    Ok(match direct {
        Some(direct) => (BlockFile::of(direct, block, number), true, blocks),
        None => (file, false, blocks),
    })
}

/// A file that is there, to read; the error says what is wrong with it.
fn found(path: &str, block: u64, wants_direct: bool) -> Result<(BlockFile, bool, u64), String> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.map_err(|error| format!("cannot be read: {}", said(&error)))?;
    let blocks = metadata.len() / block;
    if !metadata.is_file() || blocks == 0 {
        return Err(format!("is no file of {block} bytes or more"));
    }
    let direct = wants_direct.then(|| reopen_direct(&file, false).ok()).flatten();
    let _ = evict(&file);
    let is_direct = direct.is_some();
    let block = usize::try_from(block).unwrap_or(usize::MAX);
    Ok((BlockFile::of(direct.unwrap_or(file), block, 0), is_direct, blocks))
}

/// How the files were accessed, by name of the stream, for whoever reads the numbers.
pub(crate) fn environment<'r>(
    workload: &Workload,
    window: &Window,
    requests: &Requests,
    runs_of: impl Fn(usize) -> Vec<&'r StreamRun>,
) -> Vec<(String, String)> {
    let all: Vec<&StreamRun> = (0..workload.streams.len()).flat_map(&runs_of).collect();
    let told = told_by(requests, &all);
    let of = |(index, stream): (usize, &Stream)| {
        let runs = runs_of(index);
        let fetched: Vec<&Fetched> = runs.iter().filter_map(|run| run.fetched.as_ref()).collect();
        let level = guarantee_of(stream, &parts(&runs, window)).map(|of| of.words);
        let waits: Vec<Waits> = fetched.iter().map(|each| each.waits(&told)).collect();
        let way = ahead::described(&fetched, level, &waits).unwrap_or_else(|| {
            let is_direct = runs.iter().all(|run| run.is_direct);
            let way = match is_direct {
                true => "past the page cache",
                false => "through the page cache, dropped before each pass",
            };
            way.to_owned()
        });
        (format!("stream {}", stream.name), way)
    };
    workload.streams.iter().enumerate().map(of).collect()
}

/// What a trace tells of the time of batches in the kernel, by the thread that moved them and the instant at which it handed them over.
type Told = BTreeMap<(Tid, Nanos), Inside>;

fn told_by(requests: &Requests, runs: &[&StreamRun]) -> Told {
    let mut batches: BTreeMap<Tid, Vec<_>> = BTreeMap::new();
    for fetched in runs.iter().filter_map(|run| run.fetched.as_ref()) {
        batches.entry(fetched.served_by).or_default().extend_from_slice(&fetched.batches);
    }
    let of = |(tid, batches): (Tid, Vec<_>)| {
        requests.inside(tid, &batches).into_iter().map(move |(at, inside)| ((tid, at), inside))
    };
    batches.into_iter().flat_map(of).collect()
}

/// The record of a stream from what its threads did.
pub(crate) fn record(stream: &Stream, runs: &[&StreamRun], window: &Window) -> ActivityRecord {
    let span = (window.since_begin(window.observe), window.since_begin(window.end));
    let mut record = stream_record(stream, &parts(runs, window), span);
    let not_planned = runs.iter().find_map(|run| run.fetched.as_ref()?.is_not_as_planned());
    if let (true, Some(why)) = (stream.is_reserved(), not_planned) {
        record.caveats.push(Caveat::withholds(format!("what the plan relies on was not there: {why}")));
    }
    record
}

fn parts(runs: &[&StreamRun], window: &Window) -> Vec<StreamThread> {
    let part = |run: &&StreamRun| StreamThread {
        accesses: run.accesses.clone(),
        batches: run.fetched.as_ref().map(|fetched| fetched.batches(window)).unwrap_or_default(),
        open: run.fetched.as_ref().and_then(|fetched| fetched.open),
        run: run.metered.run,
        waited: run.metered.waited,
    };
    runs.iter().map(part).collect()
}

#[cfg(test)]
mod tests;
