//! A film played from a disk that others read and write meanwhile, under each I/O scheduler of blk-mq, on three modelled disks.
//!
//! Published is an order in words alone: reading the frames of a video suffers beside other I/O, and BFQ is the cure. What is held
//! against it is the part of the frames that were late or dropped, and the time until the first frame is shown.
//!
//! The film needs no display and is not decoded: a stream whose block is a frame, read without a buffer, and a start that reads what a
//! player has to read before it shows the first frame.

use std::sync::Arc;

use surety_model::formats::toml;
use surety_model::record::{ActivityRecord, Record};
use surety_model::startup::survival;
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, WorldError};
use surety_units::Nanos;

use super::under_io::{self, DISKS, IDLE, LOADS, Load, Only, PAUSE, SCHEDULERS, SETTLED};
use crate::{Bench, Builds, COMMON, Cell, Column, Experiment, Origin, Planned, Request, Sheet, SheetRow};

/// Frames a second, and bytes of one.
const FRAMES: u64 = 24;
const FRAME: u64 = 24 * 1024;
/// Bytes of the film.
const FILM: u64 = 1500 * FRAME;
/// What a player has to read of it before the first frame: the head of the file, the index at its end, and these many frames for its
/// decoder.
const OPENED: u64 = 64 * 1024;
const DECODED: u64 = 5;
/// Times that a player is started.
const STARTS: u32 = 3;

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "video-under-io",
    title: "frames dropped and time to the first one of a film beside readers and writers, by I/O scheduler and disk",
    source: "P. Valente, report from ELC North America 2018: an order in words",
    worlds: &["sim"],
    duration: Nanos::from_secs(60),
    lab_memory_mib: 2560,
    selects: &[
        "hdd-2004",
        "hdd-7200",
        "emmc",
        "idle",
        "10r",
        "5r5w",
        "10r-rand",
        "10w",
        "none",
        "mq-deadline",
        "kyber",
        "bfq",
    ],
    reproduce,
    ..COMMON
};

/// What the recording of a player's first reads is called.
const OPENING: &str = "opening";

/// The reads of a player before it shows a frame, in the form of recordings of start-ups. It thinks for 2 ms after each.
fn opening() -> String {
    let line = |at: u64, bytes: u64| format!("player-1 .002 {} {} Rand 0 0 R 0 C\n", bytes / 512, at / 512);
    let frames = (0..DECODED).map(|frame| line(OPENED + frame * FRAME, FRAME));
    [line(0, OPENED), line(FILM - OPENED, OPENED)].into_iter().chain(frames).collect()
}

/// One configuration.
#[derive(Clone, Copy)]
struct Case {
    disk: (&'static str, bool),
    load: Load,
    scheduler: &'static str,
}

impl Case {
    /// The disk and the load.
    fn place(&self) -> (&'static str, &'static str) {
        (self.disk.0, self.load.word)
    }

    fn workload(&self) -> Workload {
        let Case { disk: (disk, rotates), load, scheduler } = self;
        let (rate, timeout) = (FRAMES * FRAME, under_io::TIMEOUT.get() / 1_000_000);
        let text = under_io::disk(disk, scheduler, "")
            + &format!(
                "[[stream]]\nname = 'film'\ndisk = 'd'\nfile = {{ make = '{FILM}B' }}\nrate = '{rate}B/s'\nread = '{FRAME}B'\n\
                 [[startup]]\nname = 'player'\nreplay = '{OPENING}'\ndisk = 'd'\ncold = true\nrepeat = {STARTS}\ngap = '{PAUSE}'\n\
                 timeout = '{timeout}ms'\n"
            )
            + &load.text(*rotates);
        toml::read("video-under-io", &text).expect("an embedded workload is read by a test")
    }
}

/// What a run says of the film.
struct Seen {
    /// Parts of the frames.
    late: f64,
    dropped: f64,
    longest: Option<f64>,
    /// Until the first frame; `None`: given up, or not shown at the end of the run.
    first: Option<f64>,
    idle: Option<f64>,
    /// Bytes a second of all others, where there are any.
    others: Option<f64>,
}

impl Seen {
    fn of(record: &Record) -> Option<Seen> {
        let (film, player) = (record.activity("film")?, record.activity("player")?);
        let frames = (film.activations > 0).then_some(film.activations as f64)?;
        let median = |idle| survival(player, idle)?.median(0.95).estimate.map(|ns| ns as f64);
        let longest = film.series.get("read latency").and_then(|series| series.observed());
        let others: Vec<f64> =
            ["readers", "writers"].iter().filter_map(|kind| rate(record.activity(kind)?)).collect();
        Some(Seen {
            late: film.missed as f64 / frames,
            dropped: film.skipped as f64 / frames,
            longest: longest.and_then(|observed| observed.histogram.max()).map(|ns| ns as f64),
            first: median(false),
            idle: median(true),
            others: (!others.is_empty()).then(|| others.iter().sum()),
        })
    }

    fn cells(&self) -> [Cell; COLUMNS.len()] {
        let plain = |value: Option<f64>| value.map_or(Cell::Empty, Cell::plain);
        let first = self.first.map_or(Cell::Above(under_io::TIMEOUT.get() as f64), Cell::plain);
        let (late, dropped) = (Cell::plain(self.late), Cell::plain(self.dropped));
        [late, dropped, plain(self.longest), plain(self.idle), first, plain(self.others)]
    }
}

fn rate(load: &ActivityRecord) -> Option<f64> {
    load.figures.iter().find(|figure| figure.name == "rate").map(|figure| figure.value)
}

const COLUMNS: [(&str, &str); 6] = [
    ("late", "%"),
    ("dropped", "%"),
    ("longest read", "ns"),
    ("first frame, idle", "ns"),
    ("first frame", "ns"),
    ("others", "B/s"),
];

/// Disks and loads in one world where BFQ is no worse than each other scheduler, and all.
#[derive(Default)]
struct Order {
    followed: usize,
    all: usize,
    against: Vec<String>,
}

impl Order {
    /// Takes what one world showed of one disk beside one load, scheduler by scheduler.
    fn add(&mut self, place: &str, seen: &[(&str, &Seen)]) {
        let Some((_, bfq)) = seen.iter().find(|(scheduler, _)| *scheduler == "bfq") else { return };
        for (scheduler, other) in seen.iter().filter(|(scheduler, _)| *scheduler != "bfq") {
            let sooner = bfq.first.is_some_and(|first| other.first.is_none_or(|other| first <= other));
            self.all += 1;
            if bfq.late <= other.late && sooner {
                self.followed += 1;
            } else {
                self.against.push(format!("{place}, {scheduler}"));
            }
        }
    }

    fn notes(self) -> Vec<String> {
        let (followed, all) = (self.followed, self.all);
        let mut notes = vec![format!(
            "published: a film suffers beside other I/O, less under BFQ; held against it: under BFQ no more frames late and the first one no later \
             than under each other scheduler: {followed} of {all} pairs"
        )];
        if !self.against.is_empty() {
            notes.push(format!("not so: {}", self.against.join("; ")));
        }
        notes
    }
}

/// The cases that were asked for: those of one disk and load behind one another.
fn cases(only: &Only<'_>) -> Vec<Case> {
    let loads: Vec<Load> = [IDLE].into_iter().chain(LOADS).collect();
    let mut cases = Vec::new();
    for disk in only.of(&DISKS, |disk| disk.0) {
        for load in only.of(&loads, |load| load.word) {
            for scheduler in only.of(&SCHEDULERS, |scheduler| scheduler) {
                cases.push(Case { disk, load, scheduler });
            }
        }
    }
    cases
}

/// What one world showed of each case, or why it did not.
fn show(
    bench: &mut dyn Bench,
    (index, world): (usize, &str),
    cases: &[Case],
    options: &RunOptions,
    builds: &mut Builds,
) -> Result<Vec<Result<Seen, Cell>>, WorldError> {
    let planned = |case: &Case| {
        let Case { disk: (disk, _), load, scheduler } = case;
        let label = format!("{world}: a film on {disk} beside {} under {scheduler}", load.word);
        Planned { workload: case.workload(), options: options.clone(), label }
    };
    let runs: Vec<Planned> = cases.iter().map(planned).collect();
    under_io::show(bench, (index, world), &runs, builds, Seen::of)
}

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let files = Arc::new([(OPENING.to_owned(), opening())].into());
    let options = RunOptions { warm_up: SETTLED, files, ..request.options.clone() };
    let (cases, worlds) = (cases(&Only(&request.only)), bench.worlds());
    let mut cells = vec![Vec::new(); cases.len()];
    let (mut builds, mut order) = (Builds::default(), Order::default());
    for (index, world) in worlds.iter().enumerate() {
        let shown = show(bench, (index, world), &cases, &options, &mut builds)?;
        for (cells, seen) in cells.iter_mut().zip(&shown) {
            let [first, rest @ ..] =
                seen.as_ref().map_or([const { Cell::Empty }; COLUMNS.len()], Seen::cells);
            cells.push(seen.as_ref().err().cloned().unwrap_or(first));
            cells.extend(rest);
        }
        let pairs: Vec<(&Case, &Seen)> =
            cases.iter().zip(&shown).filter_map(|(case, seen)| Some((case, seen.as_ref().ok()?))).collect();
        for group in pairs.chunk_by(|(one, _), (other, _)| one.place() == other.place()) {
            let (disk, load) = group[0].0.place();
            if load != IDLE.word {
                let seen: Vec<(&str, &Seen)> =
                    group.iter().map(|(case, seen)| (case.scheduler, *seen)).collect();
                order.add(&format!("{world}, {disk}, {load}"), &seen);
            }
        }
    }
    let row = |(case, cells): (&Case, Vec<Cell>)| {
        let (disk, load) = case.place();
        SheetRow::new([disk, load, case.scheduler].map(str::to_owned).to_vec(), cells)
    };
    let rows = cases.iter().zip(cells).map(row).collect();
    let mut notes = order.notes();
    notes.extend(NOTES.map(str::to_owned));
    notes.push(under_io::note("the frames that count"));
    notes.extend(builds.0);
    let keys = vec!["disk", "beside", "scheduler"];
    Ok(Sheet { keys, columns: columns(&worlds), rows, notes, drawn: Vec::new() })
}

fn columns(worlds: &[String]) -> Vec<Column> {
    let of = |world: &String| {
        let world = world.clone();
        COLUMNS.map(|(title, unit)| Column { title: format!("{world} {title}"), unit, origin: Origin::World })
    };
    worlds.iter().flat_map(of).collect()
}

const NOTES: [&str; 2] = [
    "the film has 24 frames of 24 KiB a second, read past the page cache, each at the instant at which the one before it is shown: late is one that was not there \
     in time, or dropped, because it was due before its read could begin",
    "first frame: a player beside the film reads 64 KiB at either end of it and five frames, and thinks for 2 ms after each; median of three, X: not within 120 s \
     or the run",
];

#[cfg(test)]
mod tests {
    use super::*;
    use surety_model::formats::io_trace::IoTrace;

    #[test]
    fn every_workload_reads() {
        let trace = IoTrace::parse(&opening()).unwrap();
        assert_eq!((trace.requests.len(), trace.think()), (7, Nanos::from_millis(14)));
        for disk in DISKS {
            for load in [IDLE].into_iter().chain(LOADS) {
                let workload = Case { disk, load, scheduler: "kyber" }.workload();
                assert_eq!((workload.streams.len(), workload.startups.len()), (1, 1));
            }
        }
        let written = Case { disk: DISKS[0], load: LOADS[1], scheduler: "bfq" }.workload();
        assert_eq!(written.loads[1].rate().map(|rate| rate.0), Some(800_000));
        let words =
            DISKS.iter().map(|disk| disk.0).chain([IDLE.word]).chain(LOADS.iter().map(|load| load.word));
        assert!(words.chain(SCHEDULERS).eq(EXPERIMENT.selects.iter().copied()), "each can be asked for");
    }
}
