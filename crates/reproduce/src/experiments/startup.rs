//! Start-up of programs beside readers and writers, under each I/O scheduler of blk-mq, on three modelled disks.
//!
//! Published is an order alone: under none, mq-deadline and kyber a start beside ten sequential readers, or five and five writers, takes
//! strikingly long or does not end within 120 s; under BFQ it takes about as long as on the idle disk. What is held against it is the
//! *wait for the disk*: the start-up less what the program thinks between its requests.
//!
//! The experiment is that of `comm_startup_lat.sh` of the S suite: readers and writers begin, and a start comes only when no I/O scheduler
//! raises them any more; all writers of a disk that turns write 4 MB/s together; everything is synced every 2 s beside writers; 4 s pass
//! between two starts. Where BFQ misses what was published, sets of its rules are left out, the smallest first, until it is met.
//!
//! Beside the gain stands its price: what the disk moves for all processes together while a process starts, against the same load under the same
//! scheduler while none does, and the CPU time that the scheduler takes for a request ([`price`]).

mod price;

use std::sync::Arc;

use surety_model::formats::io_trace::IoTrace;
use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::startup::{OTHERWISE, STARTING, survival};
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, WorldError};
use surety_units::Nanos;

use crate::{Bench, Builds, COMMON, Cell, Column, Experiment, Origin, Planned, Request, Sheet, SheetRow};

use super::under_io::{self, DISKS, LOADS, Load, Only, PAUSE, SCHEDULERS, SETTLED, TIMEOUT, is_simulated};
use price::Costs;

/// The loads of the reference; those of [`LOADS`] behind them where they are asked for.
const PUBLISHED: usize = 2;
/// Starts of each configuration, and at most where one of the worlds takes the time that they take: one start under BFQ is no measure.
const STARTS: (u32, u32) = (3, 5);
/// How long starts are observed there at most: one of them is given up before.
const OBSERVED: Nanos = Nanos::from_secs(130);
/// Rules of BFQ with what leaves them out.
static RULES: [Rule; 10] = [
    ("wakers", "wakers = 0"),
    ("injection", "injection = 0"),
    ("several requests in the device", "strict_guarantees = 1"),
    ("merging", "merging = 0"),
    ("bursts", "bursts = 0"),
    ("idling", "idling = 0"),
    ("soft real-time raising", "wr_soft_rt = 0"),
    ("interactive raising", "wr_interactive = 0"),
    ("feedback of budgets", "feedback = 0"),
    ("charging of time", "charge_time = 0"),
];
/// Up to this many times the idle start-up is close to it; from so many times the idle wait on it is strikingly high.
const CLOSE: f64 = 1.25;
const HIGH: f64 = 5.0;

/// Its row.
pub const EXPERIMENT: Experiment = Experiment {
    name: "startup",
    title: "start-up of programs beside readers and writers, by I/O scheduler and disk",
    source: "P. Valente, BFQ's results and the S suite: orderings alone",
    worlds: &["sim"],
    duration: Nanos::from_secs(400),
    lab_memory_mib: 2560,
    selects: &[
        "hdd-2004",
        "hdd-7200",
        "emmc",
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

/// The name of the recording that is made where none is given.
const MADE: &str = "made";

/// A start of 600 reads: runs of eight of 16 KiB at places all over 160 MB, 4 ms of thought before each run and 0.2 ms within.
fn made() -> String {
    let line = |n: u64| {
        let (run, place) = (n / 8, n % 8);
        let think = if place == 0 { "0.004" } else { "0.0002" };
        format!("made-1 {think} 32 {} Rand 0 0 R 0 C\n", run * 7919 % 1250 * 256 + place * 32)
    };
    (0..600).map(line).collect()
}

/// One configuration.
#[derive(Clone, Copy)]
struct Case<'a> {
    disk: (&'a str, bool),
    start: &'a str,
    load: Load,
    scheduler: &'a str,
    tunables: &'a str,
}

impl Case<'_> {
    /// The workload, with `starts` starts.
    fn workload(&self, starts: u32) -> Workload {
        let Case { disk: (disk, rotates), start, load, scheduler, tunables } = self;
        let timeout = TIMEOUT.get() / 1_000_000;
        let text = under_io::disk(disk, scheduler, tunables)
            + &format!(
                "[[startup]]\nname = 'start'\nreplay = '{start}'\ndisk = 'd'\ncold = true\nrepeat = {starts}\ngap = '{PAUSE}'\n\
                 timeout = '{timeout}ms'\n"
            )
            + &load.text(*rotates);
        toml::read("startup", &text).expect("an embedded workload is read by a test")
    }
}

/// What a run says of the starts.
struct Seen {
    idle: Option<f64>,
    loaded: Option<f64>,
    /// How long raising lasted where it ended before the start did, at most.
    raised: Option<f64>,
    /// Bytes a second of the disk while a process started, and while none did.
    moved: (Option<f64>, Option<f64>),
}

impl Seen {
    fn of(record: &Record) -> Option<Seen> {
        let starts = record.activity("start")?;
        let median = |idle| survival(starts, idle)?.median(0.95).estimate.map(|ns| ns as f64);
        let raised = starts.series.get("I/O weight raised").and_then(|series| series.observed());
        let raised = raised.and_then(|observed| observed.histogram.max()).map(|ns| ns as f64);
        let rate = |name| starts.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
        let moved = (rate(STARTING), rate(OTHERWISE));
        Some(Seen { idle: median(true), loaded: median(false), raised, moved })
    }

    /// How many times the idle start-up, and the idle wait for the disk, a start takes beside the loads; a floor where it was given up.
    fn ratios(&self, think: f64) -> Option<(f64, f64)> {
        let (idle, loaded) = (self.idle?, self.loaded.unwrap_or(TIMEOUT.get() as f64));
        Some((loaded / idle, (loaded - think).max(0.0) / (idle - think).max(1.0)))
    }

    /// Cells of [`TITLES`]; that of the scheduler's CPU time is given.
    fn cells(&self, think: f64, cost: Cell) -> [Cell; TITLES.len()] {
        let held = |value: f64| if self.loaded.is_some() { Cell::plain(value) } else { Cell::Above(value) };
        let plain = |value: Option<f64>| value.map_or(Cell::Empty, Cell::plain);
        let ratios = self.ratios(think);
        let (starting, otherwise) = self.moved;
        let part = starting.zip(otherwise.filter(|rate| *rate > 0.0)).map(|(starting, rate)| starting / rate);
        [
            plain(self.idle),
            held(self.loaded.unwrap_or(TIMEOUT.get() as f64)),
            ratios.map_or(Cell::Empty, |(whole, _)| held(whole)),
            ratios.map_or(Cell::Empty, |(_, wait)| held(wait)),
            plain(starting),
            plain(part),
            cost,
            plain(self.raised),
        ]
    }
}

/// Columns of each world, with their units.
const TITLES: [(&str, &str); 8] = [
    ("idle", "ns"),
    ("start-up", "ns"),
    ("of idle", "x"),
    ("disk wait of idle", "x"),
    ("disk while starting", "B/s"),
    ("of disk otherwise", "x"),
    ("CPU of scheduler", "ns"),
    ("raised", "ns"),
];

fn columns(worlds: &[String]) -> Vec<Column> {
    let of = |world: &String| {
        let world = world.clone();
        TITLES.map(|(title, unit)| Column { title: format!("{world} {title}"), unit, origin: Origin::World })
    };
    worlds.iter().flat_map(of).collect()
}

/// Rows as published, and not, of those to which it applies.
#[derive(Default)]
struct Tally {
    followed: [usize; 2],
    all: [usize; 2],
    against: Vec<String>,
}

impl Tally {
    /// Takes a row.
    fn add(&mut self, case: &Case<'_>, world: &str, seen: &Seen, think: f64) {
        let Some((whole, wait)) = seen.ratios(think) else { return };
        let is_bfq = case.scheduler == "bfq";
        let follows = if is_bfq { whole <= CLOSE } else { wait >= HIGH || seen.loaded.is_none() };
        self.all[usize::from(is_bfq)] += 1;
        self.followed[usize::from(is_bfq)] += usize::from(follows);
        if !follows {
            let Case { disk: (disk, _), start, load: Load { word: load, .. }, scheduler, .. } = case;
            let ratio = if is_bfq { whole } else { wait };
            self.against.push(format!("{world}, {disk}, {start}, {load}, {scheduler} {ratio:.2}"));
        }
    }

    fn notes(self) -> Vec<String> {
        let [others, bfq] = [0, 1].map(|kind| (self.followed[kind], self.all[kind]));
        let mut notes = vec![
            format!(
                "published: under none, mq-deadline and kyber strikingly high, or X; held against it: a wait for the disk of {HIGH} times \
                 the idle one, or given up: {} of {} rows",
                others.0, others.1
            ),
            format!(
                "published: under BFQ close to the idle disk; held against it: {CLOSE} times the idle start-up: {} of {} rows. A row \
                 `bfq without ...` below one that is not leaves out the fewest rules that bring it there, or nearest, and the one below it is without think times",
                bfq.0, bfq.1
            ),
        ];
        if !self.against.is_empty() {
            notes.push(format!("not as published: {}", self.against.join("; ")));
        }
        notes
    }
}

/// Runs that become rows.
struct Runs<'a> {
    bench: &'a mut dyn Bench,
    options: RunOptions,
    worlds: Vec<String>,
    rows: Vec<SheetRow>,
    tally: Tally,
    /// Starts of each configuration.
    starts: u32,
    builds: Builds,
    /// Rows of BFQ that take longer than was published, and what it is due to.
    due: Vec<String>,
    costs: Costs,
}

/// What each world showed of a case, or why it did not.
type Shown = Vec<Result<Seen, Cell>>;

/// The largest multiple of the idle start-up in any world.
fn most(shown: &Shown, think: f64) -> f64 {
    let ratios = shown.iter().filter_map(|seen| seen.as_ref().ok()?.ratios(think));
    ratios.map(|(whole, _)| whole).fold(0.0, f64::max)
}

impl Runs<'_> {
    /// Runs cases in every world, those of a kernel of the lab in one boot: what came of each case there.
    fn show(&mut self, cases: &[(Case<'_>, String)]) -> Result<Vec<Shown>, WorldError> {
        let mut shown: Vec<Shown> = cases.iter().map(|_| Vec::new()).collect();
        for (index, world) in self.worlds.iter().enumerate() {
            if cases.iter().any(|(case, _)| !case.tunables.is_empty()) && !is_simulated(world) {
                shown.iter_mut().for_each(|of_case| of_case.push(Err(Cell::Empty)));
                continue;
            }
            let planned = |(case, title): &(Case<'_>, String)| {
                let Case { disk: (disk, _), start, load: Load { word: load, .. }, .. } = case;
                let label = format!("{world}: {start} on {disk} beside {load} under {title}");
                Planned { workload: case.workload(self.starts), options: self.options.clone(), label }
            };
            let runs: Vec<Planned> = cases.iter().map(planned).collect();
            let of_world = under_io::show(self.bench, (index, world), &runs, &mut self.builds, Seen::of)?;
            shown.iter_mut().zip(of_world).for_each(|(of_case, seen)| of_case.push(seen));
        }
        Ok(shown)
    }

    /// The same of one case.
    fn show_one(&mut self, case: Case<'_>, title: &str) -> Result<Shown, WorldError> {
        Ok(self.show(&[(case, title.to_owned())])?.remove(0))
    }

    /// Adds the row of a case.
    fn row(&mut self, case: &Case<'_>, title: &str, shown: &Shown, think: f64) {
        let Case { disk: (disk, _), start, load: Load { word: load, .. }, scheduler, .. } = case;
        let of = |(world, seen): (usize, &Result<Seen, Cell>)| match seen {
            Ok(seen) => seen.cells(think, self.costs.cell(world, scheduler)),
            Err(refused) => {
                let mut cells = [const { Cell::Empty }; TITLES.len()];
                cells[0] = refused.clone();
                cells
            }
        };
        let cells = shown.iter().enumerate().flat_map(of).collect();
        let keys = [start, disk, load, title].map(str::to_owned).to_vec();
        self.rows.push(SheetRow::new(keys, cells));
    }

    /// One recording on one disk: a row for each load and scheduler, and one that says what BFQ's is due to where that takes long in a
    /// simulation.
    fn rows_of(&mut self, start: (&str, f64), disk: (&str, bool), only: &Only<'_>) -> Result<(), WorldError> {
        let mut cases = Vec::new();
        for load in only.or(&LOADS, &LOADS[..PUBLISHED], |load| load.word) {
            for scheduler in only.of(&SCHEDULERS, |scheduler| scheduler) {
                let case = Case { disk, start: start.0, load, scheduler, tunables: "" };
                cases.push((case, (*scheduler).to_owned()));
            }
        }
        let shown = self.show(&cases)?;
        for ((case, title), shown) in cases.iter().zip(shown) {
            self.row(case, title, &shown, start.1);
            for (world, seen) in self.worlds.iter().zip(&shown) {
                if let Ok(seen) = seen {
                    self.tally.add(case, world, seen, start.1);
                }
            }
            let simulated = self.worlds.iter().zip(shown).filter(|(world, _)| is_simulated(world));
            let whole = most(&simulated.map(|(_, shown)| shown).collect(), start.1);
            if case.scheduler == "bfq" && whole > CLOSE {
                self.explain(case, start.1, whole)?;
            }
        }
        Ok(())
    }

    /// Leaves rules of BFQ out until a start is close to the idle one: each alone, then two of the four that count most. Then, without think
    /// times.
    fn explain(&mut self, case: &Case<'_>, think: f64, whole: f64) -> Result<(), WorldError> {
        let mut tried = Vec::new();
        for rule in &RULES {
            tried.push(self.without(case, &[rule], think)?);
        }
        tried.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
        if tried[0].ratio > CLOSE {
            let first: Vec<&Rule> = tried.iter().take(4).map(|tried| tried.rules[0]).collect();
            for (at, one) in first.iter().enumerate() {
                for other in &first[at + 1..] {
                    tried.push(self.without(case, &[one, other], think)?);
                }
            }
            tried.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
        }
        let best = tried.swap_remove(0);
        let names: Vec<&str> = best.rules.iter().map(|rule| rule.0).collect();
        self.row(case, &title_of(&best.rules), &best.shown, think);
        let start = unthinking(case.start);
        let replayed = Case { start: &start, ..*case };
        let shown = self.show_one(replayed, "bfq")?;
        self.row(&replayed, "bfq", &shown, 0.0);
        let Case { disk: (disk, _), start, load: Load { word: load, .. }, .. } = case;
        let found = if best.ratio <= CLOSE { "due to" } else { "no two rules explain it; nearest" };
        self.due.push(format!(
            "{disk}, {start}, {load}: {whole:.2}, {found} {} ({:.2} without); {:.2} without think times, as the suite replays",
            names.join(" and "),
            best.ratio,
            most(&shown, 0.0)
        ));
        Ok(())
    }

    fn without(&mut self, case: &Case<'_>, rules: &[&'static Rule], think: f64) -> Result<Tried, WorldError> {
        let keys: Vec<&str> = rules.iter().map(|rule| rule.1).collect();
        let shown = self.show_one(Case { tunables: &keys.join(", "), ..*case }, &title_of(rules))?;
        Ok(Tried { ratio: most(&shown, think), rules: rules.to_vec(), shown })
    }
}

/// A rule of BFQ, and what leaves it out.
type Rule = (&'static str, &'static str);

/// What came of leaving rules out.
struct Tried {
    ratio: f64,
    rules: Vec<&'static Rule>,
    shown: Shown,
}

/// What a recording is called whose requests follow one another at once.
fn unthinking(start: &str) -> String {
    format!("{start}, no think times")
}

/// A recording without think times: that is how the suite replays it (`issue_next_rq` in `replay-startup-io.cc`, from February 2018 on).
fn without_thinking(text: &str) -> String {
    let line = |line: &str| {
        let mut fields: Vec<&str> = line.split_whitespace().collect();
        if let Some(think) = fields.get_mut(1) {
            *think = "0";
        }
        fields.join(" ") + "\n"
    };
    text.lines().filter(|text| !text.starts_with('#')).map(line).collect()
}

fn title_of(rules: &[&Rule]) -> String {
    let names: Vec<&str> = rules.iter().map(|rule| rule.0).collect();
    format!("bfq without {}", names.join(", "))
}

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let mut options = RunOptions { warm_up: SETTLED, ..request.options.clone() };
    if options.files.is_empty() {
        options.files = Arc::new([(MADE.to_owned(), made())].into());
    }
    let (files, worlds) = (options.files.clone(), bench.worlds());
    let silent = files.iter().map(|(start, text)| (unthinking(start), without_thinking(text)));
    options.files =
        Arc::new(files.iter().map(|(start, text)| (start.clone(), text.clone())).chain(silent).collect());
    let is_limited = !worlds.iter().all(|world| is_simulated(world));
    let starts = if is_limited { STARTS.1 } else { STARTS.0 };
    if is_limited {
        options.duration = options.duration.min(OBSERVED);
    }
    let costs = Costs::measure(bench, &options)?;
    let (rows, tally, builds, due) = (Vec::new(), Tally::default(), Builds::default(), Vec::new());
    let mut runs = Runs { bench, options, worlds, rows, tally, starts, builds, due, costs };
    let only = Only(&request.only);
    for (start, text) in files.iter() {
        // A world says what is wrong with it.
        let think = IoTrace::parse(text).map_or(0.0, |trace| trace.think().get() as f64);
        for disk in only.of(&DISKS, |disk| disk.0) {
            runs.rows_of((start, think), disk, &only)?;
        }
    }
    let mut notes = runs.tally.notes();
    notes.extend(runs.due);
    let within = if is_limited { format!(", as many as begin within {OBSERVED}") } else { String::new() };
    notes.push(format!(
        "medians of {starts} cold starts of a recording{within}, each of new processes, 4 s after one another; given up after {TIMEOUT}. `disk wait`: \
         less what the program thinks. `raised`: how long BFQ raised the weight of a process that starts, at most, where that ended before \
         the start did"
    ));
    notes.push(
        "`disk while starting`: bytes a second of the disk for all processes together while a start was under way; `of disk otherwise`: of those \
         while none was, after the first start, beside the same load under the same scheduler. `CPU of scheduler`: CPU time that it takes for a \
         request"
            .to_owned(),
    );
    notes.extend(runs.costs.notes());
    if files.contains_key(MADE) {
        notes.push(
            "`made`: 600 reads made for this, no program; give recordings of programs with --replay FILE"
                .to_owned(),
        );
    }
    notes.push(under_io::note("the first start"));
    notes.extend(runs.builds.0);
    let keys = vec!["start", "disk", "beside", "scheduler"];
    Ok(Sheet { keys, columns: columns(&runs.worlds), rows: runs.rows, notes, drawn: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_can_be_asked_for() {
        let words =
            DISKS.iter().map(|disk| disk.0).chain(LOADS.iter().map(|load| load.word)).chain(SCHEDULERS);
        assert!(words.eq(EXPERIMENT.selects.iter().copied()));
    }

    #[test]
    fn what_is_made_and_every_workload_read() {
        let trace = IoTrace::parse(&made()).unwrap();
        assert_eq!((trace.requests.len(), trace.think()), (600, Nanos::from_millis(405)));
        for (disk, load) in DISKS.into_iter().zip(LOADS.into_iter().cycle()) {
            for (_, tunables) in RULES {
                let case = Case { disk, start: MADE, load, scheduler: "bfq", tunables };
                assert_eq!(case.workload(3).startups[0].repeat, 3);
            }
        }
        let written = Case { disk: DISKS[0], start: MADE, load: LOADS[1], scheduler: "bfq", tunables: "" };
        assert_eq!(written.workload(1).loads[1].rate().map(|rate| rate.0), Some(800_000));
    }
}
