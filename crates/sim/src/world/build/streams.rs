//! Streams of a workload on a stage: who plays, and who fetches.

use surety_block::{Front, IoClass, Priority, elevators};
use surety_model::workload::{
    ActivityKind, BatchMode, Disk, IoPriority, PolicySpec, STREAM_PRIORITY, Stream, StreamFile, Workload,
};
use surety_model::world::WorldError;
use surety_stats::random::Pcg;

use super::super::io::{Actor, Fetcher, IN_DEVICE, OVERLAPPING, Player, Playout, Station, Viewer};
use super::super::unsupported;
use super::disks::{FAIR, account_of, io_priority, known, priority_of};
use super::{Activity, Builder};
use crate::cpu::hardware::Scheduling;
use crate::disk::{FileId, PAGE};

/// Keeps what is drawn of streams apart from what else is drawn by the same seed.
const STREAMS: u64 = 0x5354;

/// What the streams of one station have in common, as on the host.
type StationKey = (Option<String>, Option<IoPriority>, bool);

/// Stations, by the places of their actors.
pub(in crate::world) type Stations = Vec<(StationKey, usize)>;

/// The station of a stream.
pub(in crate::world) fn station_of(stream: &Stream) -> StationKey {
    (stream.disk.clone(), stream.io_priority, stream.overlap)
}

/// Whether streams of a disk have stations: on kernels of today. The prefetcher of ABISS is a part of a kernel of 2004.
pub(in crate::world) fn has_stations(disk: &Disk) -> bool {
    let row = disk.scheduler.as_deref().and_then(elevators::by_word);
    row.is_none_or(|row| row.front == Front::BlkMq)
}

/// What of a workload's streams is not simulated.
pub(in crate::world) fn objections(workload: &Workload) -> Vec<WorldError> {
    let mut found = Vec::new();
    for stream in &workload.streams {
        let path = ActivityKind::Stream.path(&stream.name);
        if let Err(why) = known(workload, &stream.disk) {
            found.push(unsupported(path, why));
        } else if let Err((key, why)) = objection(stream).and_then(|()| mode_objection(stream, workload)) {
            found.push(unsupported(format!("{path}.{key}"), why));
        }
    }
    found
}

/// What of a stream's mode is not simulated: the key, and why.
fn mode_objection(stream: &Stream, workload: &Workload) -> Result<(), (&'static str, &'static str)> {
    let is_other = |other: &Stream| {
        other.batch.is_some() && station_of(other) == station_of(stream) && other.mode != stream.mode
    };
    if stream.batch.is_some() && workload.streams.iter().any(is_other) {
        return Err(("mode", "it is the same for all streams of a disk; give them one `mode`"));
    }
    let disk = workload.disks.iter().find(|disk| Some(&disk.name) == stream.disk.as_ref());
    if stream.overlap && !disk.is_none_or(has_stations) {
        return Err((
            "overlap",
            "the kernels of this I/O scheduler ask for a batch when the one before is there; leave `overlap` out, or give the disk one of today's schedulers",
        ));
    }
    if stream.overlap && stream.batch.is_none() {
        let why = "what is moved one access at a time has no batches to ask for together; give it a `batch`, or run it with a plan";
        return Err(("overlap", why));
    }
    if stream.mode == BatchMode::Steady {
        return Ok(());
    }
    if stream.batch.is_none() {
        return Err(("mode", "what is moved one access at a time has no `mode`; give it a `batch`"));
    }
    if stream.is_reserved() {
        return Err((
            "mode",
            "a bound is on batches that are asked for as soon as they may be; leave out `mode`",
        ));
    }
    if !disk.is_none_or(has_stations) {
        return Err((
            "mode",
            "the kernels of this I/O scheduler know no longest batches; leave out `mode`, or give the disk one of today's schedulers",
        ));
    }
    Ok(())
}

/// What of a stream is not simulated: the key, and why.
fn objection(stream: &Stream) -> Result<(), (&'static str, &'static str)> {
    stream.check_sizes()?;
    if let Some(batch) = stream.batch {
        if batch.0 == 0 || !batch.0.is_multiple_of(PAGE) {
            return Err(("batch", "its `batch` is a multiple of 4KiB"));
        }
    } else if stream.jitter.is_some() {
        return Err(("jitter", "it has `jitter` only with a `batch`; leave it out, or give both"));
    }
    match &stream.file {
        StreamFile::Path(_) => {
            Err(("file", "files of a machine are not simulated; use `file = { make = \"105MB\" }`"))
        }
        StreamFile::Make(_) => Ok(()),
    }
}

/// The I/O priority of who fetches.
fn fetching(stream: &Stream) -> Priority {
    match stream.io_priority {
        None => Priority { class: IoClass::Realtime, ..Priority::default() },
        given => priority_of(given),
    }
}

impl<'a> Builder<'a> {
    /// The threads of a stream.
    pub(in crate::world) fn stream(
        &mut self,
        (index, stream): (usize, &'a Stream),
        disks: &[Disk],
    ) -> Result<(), WorldError> {
        self.group = stream.group.as_deref();
        let StreamFile::Make(size) = stream.file else { return Ok(()) };
        let disk = disks.iter().find(|disk| Some(&disk.name) == stream.disk.as_ref());
        let has_station = disk.is_some_and(has_stations) && (stream.overlap || !stream.is_reserved());
        let fair = if stream.is_reserved() { self.above_fair() } else { FAIR };
        let (activity, scheduling) = (Activity::Stream(index), Scheduling::Policy(fair));
        let named = self.stage.machine.recorder_mut().add_activity(&stream.name);
        for _ in 0..stream.count {
            let path = ActivityKind::Stream.path(&stream.name);
            let file = self.file((&path, "file.make"), stream.disk.as_deref(), size.0)?;
            let Some(batch) = stream.batch else {
                let priority = io_priority(stream.io_priority, scheduling);
                self.actor(activity, &stream.name, (scheduling, priority), |seat| {
                    Actor::Player(Player::new(seat, (stream, named), file, size.0))
                });
                continue;
            };
            let playout = self.stage.machine.programs().io.playouts.len();
            let viewer = self.actor(activity, &stream.name, (scheduling, Priority::default()), |seat| {
                Actor::Viewer(Viewer::new(seat, playout, (stream, named)))
            });
            if has_station {
                self.served(index, stream, viewer, (file, size.0));
                continue;
            }
            let name = format!("{}/fetch", stream.name);
            let mut process = None;
            let threads = (scheduling, fetching(stream));
            let fetcher = self.actor(Activity::Fetcher(index), &name, threads, |seat| {
                process = Some(seat.process);
                Actor::Fetcher(Fetcher::new(seat, playout, stream, batch.0, (file, size.0)))
            });
            let io = &mut self.stage.machine.programs_mut().io;
            if let Some(process) = process {
                io.storage.keep_accesses(process);
                io.storage.keep_requests(process);
            }
            io.playouts.push(Playout::new(stream, batch.0, (viewer, fetcher)));
        }
        Ok(())
    }

    /// A stream gets its buffer, and a place at the station of its disk, which is made for the first.
    fn served(&mut self, index: usize, stream: &'a Stream, viewer: usize, file: (FileId, u64)) {
        let key = station_of(stream);
        let known = self.stations.iter().find(|(other, _)| *other == key).map(|(_, place)| *place);
        let place = known.unwrap_or_else(|| {
            let place = self.station(index, stream);
            self.stations.push((key, place));
            place
        });
        if known.is_some() && stream.overlap {
            self.lanes(place, stream, OVERLAPPING);
        }
        let batch = stream.batch.unwrap_or_default().0;
        let io = &mut self.stage.machine.programs_mut().io;
        let number = io.playouts.len();
        if let Actor::Station(station) = &mut io.actors[place] {
            let playout = Playout::new(stream, batch, (viewer, station.signal()));
            let mut chance = Pcg::for_job(self.seed, STREAMS, number as u64);
            station.attach(stream, (number, batch), file, account_of(Activity::Stream(index)), &mut chance);
            io.playouts.push(playout);
        }
    }

    /// Makes the thread of a station, above fair ones where a scheduler takes that, and the processes of its batches: the place of its actor.
    fn station(&mut self, index: usize, stream: &'a Stream) -> usize {
        let place = self.stage.machine.programs().io.actors.len();
        let threads = (Scheduling::Policy(self.above_fair()), fetching(stream));
        let mut first = None;
        self.actor(Activity::Fetcher(index), "surety/streams", threads, |seat| {
            first = Some(seat.process);
            Actor::Station(Station::new(seat.signal, stream.mode))
        });
        let processes: Vec<_> = first.into_iter().collect();
        let storage = &mut self.stage.machine.programs_mut().io.storage;
        processes.iter().for_each(|process| storage.keep_requests(*process));
        if let Actor::Station(station) = &mut self.stage.machine.programs_mut().io.actors[place] {
            station.serve_with(&processes);
        }
        self.lanes(place, stream, IN_DEVICE - 1);
        place
    }

    /// A station gets so many more processes for batches of a stream.
    fn lanes(&mut self, place: usize, stream: &Stream, count: usize) {
        let mut processes = Vec::new();
        for _ in 0..count {
            let process = self.process(self.group, fetching(stream));
            let storage = &mut self.stage.machine.programs_mut().io.storage;
            let process = storage.add_process(process);
            storage.keep_requests(process);
            processes.push(process);
        }
        if let Actor::Station(station) = &mut self.stage.machine.programs_mut().io.actors[place] {
            self.stage.signals.extend(vec![station.signal(); count]);
            station.serve_with(&processes);
        }
    }

    /// How threads run that are above fair ones, where a scheduler takes that.
    fn above_fair(&self) -> PolicySpec {
        let fifo = PolicySpec::Fifo { priority: STREAM_PRIORITY };
        let is_taken = self.stage.schedulers.iter().any(|row| row.takes.contains(&fifo.word()));
        if is_taken { fifo } else { FAIR }
    }
}
