//! Start-up of programs beside readers and writers, under each I/O scheduler of blk-mq, on three modelled disks.
//!
//! Published is an order alone: under none, mq-deadline and kyber a start beside ten sequential readers, or five and five writers, takes
//! strikingly long or does not end within 120 s; under BFQ it takes about as long as on the idle disk. What is held against it is the
//! *wait for the disk*: the start-up less what the program thinks between its requests. Where BFQ misses it, the rows below it say
//! which of its rules costs what.

use std::sync::Arc;

use surety_model::formats::io_trace::IoTrace;
use surety_model::formats::toml;
use surety_model::record::Record;
use surety_model::startup::survival;
use surety_model::workload::Workload;
use surety_model::world::{RunOptions, WorldError};
use surety_units::Nanos;

use crate::{Bench, COMMON, Cell, Column, Experiment, Origin, Request, Sheet, SheetRow, cell_of};

const DISKS: [&str; 3] = ["hdd-2004", "hdd-7200", "emmc"];
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
/// Readers and writers, as the source calls them.
const LOADS: [(&str, u32, u32); 2] = [("10r", 10, 0), ("5r5w", 5, 5)];
/// Starts are given up after this.
const TIMEOUT: Nanos = Nanos::from_secs(120);
/// Parts of BFQ that are left out where a start takes longer under it than was published, and what then is set.
const ABLATIONS: [(&str, &str); 4] = [
    ("bfq, no wakers", "wakers = 0"),
    ("bfq, no injection", "injection = 0"),
    ("bfq, one request at a time", "strict_guarantees = 1"),
    ("bfq, no raising", "low_latency = 0"),
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
struct Case<'a> {
    disk: &'a str,
    start: &'a str,
    load: (&'a str, u32, u32),
    scheduler: &'a str,
    tunables: &'a str,
}

impl Case<'_> {
    fn workload(&self) -> Workload {
        let Case { disk, start, load: (_, readers, writers), scheduler, tunables } = self;
        let mut text = format!(
            "format = 1\n[disk.d]\nmodel = '{disk}'\nscheduler = '{scheduler}'\ntunables = {{ {tunables} }}\n\
             [[startup]]\nname = 'start'\nreplay = '{start}'\ndisk = 'd'\ncold = true\nrepeat = 3\ntimeout = '{}ms'\n",
            TIMEOUT.get() / 1_000_000
        );
        for (kind, count) in [("readers", readers), ("writers", writers)] {
            if *count > 0 {
                text += &format!("[[load]]\nname = '{kind}'\nkind = '{kind}'\ncount = {count}\ndisk = 'd'\n");
            }
        }
        toml::read("startup", &text).expect("an embedded workload is read by a test")
    }
}

/// What a run says of the starts.
struct Seen {
    idle: Option<f64>,
    loaded: Option<f64>,
    /// How long raising lasted where it ended before the start did, at most.
    raised: Option<f64>,
}

impl Seen {
    fn of(record: &Record) -> Option<Seen> {
        let starts = record.activity("start")?;
        let median = |idle| survival(starts, idle)?.median(0.95).estimate.map(|ns| ns as f64);
        let raised = starts.series.get("I/O weight raised").and_then(|series| series.observed());
        let raised = raised.and_then(|observed| observed.histogram.max()).map(|ns| ns as f64);
        Some(Seen { idle: median(true), loaded: median(false), raised })
    }

    /// How many times the idle start-up, and the idle wait for the disk, a start takes beside the loads; a floor where it was given up.
    fn ratios(&self, think: f64) -> Option<(f64, f64)> {
        let (idle, loaded) = (self.idle?, self.loaded.unwrap_or(TIMEOUT.get() as f64));
        Some((loaded / idle, (loaded - think).max(0.0) / (idle - think).max(1.0)))
    }

    fn cells(&self, think: f64) -> [Cell; 5] {
        let held = |value: f64| if self.loaded.is_some() { Cell::plain(value) } else { Cell::Above(value) };
        let plain = |value: Option<f64>| value.map_or(Cell::Empty, Cell::plain);
        let ratios = self.ratios(think);
        [
            plain(self.idle),
            held(self.loaded.unwrap_or(TIMEOUT.get() as f64)),
            ratios.map_or(Cell::Empty, |(whole, _)| held(whole)),
            ratios.map_or(Cell::Empty, |(_, wait)| held(wait)),
            plain(self.raised),
        ]
    }
}

fn columns(worlds: &[String]) -> Vec<Column> {
    let titles =
        [("idle", "ns"), ("start-up", "ns"), ("of idle", "x"), ("disk wait of idle", "x"), ("raised", "ns")];
    let of = |world: &String| {
        let world = world.clone();
        titles.map(|(title, unit)| Column { title: format!("{world} {title}"), unit, origin: Origin::World })
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
    /// Takes a row; whether it is one of BFQ that takes longer than was published.
    fn add(&mut self, case: &Case<'_>, world: &str, seen: &Seen, think: f64) -> bool {
        let Some((whole, wait)) = seen.ratios(think) else { return false };
        let is_bfq = case.scheduler == "bfq";
        let follows = if is_bfq { whole <= CLOSE } else { wait >= HIGH || seen.loaded.is_none() };
        self.all[usize::from(is_bfq)] += 1;
        self.followed[usize::from(is_bfq)] += usize::from(follows);
        if !follows {
            let Case { disk, start, load: (load, ..), scheduler, .. } = case;
            let ratio = if is_bfq { whole } else { wait };
            self.against.push(format!("{world}, {disk}, {start}, {load}, {scheduler} {ratio:.2}"));
        }
        is_bfq && !follows
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
                "published: under BFQ close to the idle disk; held against it: {CLOSE} times the idle start-up: {} of {} rows. Rows `bfq, no \
                 ...` below one that is not say which rule it is",
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
}

impl Runs<'_> {
    /// Runs a case in every world: a row. Whether BFQ takes longer than was published in one of them.
    fn row(&mut self, case: &Case<'_>, title: &str, think: f64) -> Result<bool, WorldError> {
        let (mut cells, mut is_missed) = (Vec::new(), false);
        let Case { disk, start, load: (load, ..), .. } = case;
        for (index, world) in self.worlds.iter().enumerate() {
            let label = format!("{world}: {start} on {disk} beside {load} under {title}");
            let mut seen = None;
            let refused =
                cell_of(self.bench.run(index, &case.workload(), &self.options, &label), |record| {
                    seen = Seen::of(record);
                    Cell::Empty
                })?;
            match &seen {
                Some(seen) => cells.extend(seen.cells(think)),
                None => cells.extend([refused, Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty]),
            }
            if let Some(seen) = seen.filter(|_| case.tunables.is_empty()) {
                is_missed |= self.tally.add(case, world, &seen, think);
            }
        }
        let keys = [start, disk, load, title].map(str::to_owned).to_vec();
        self.rows.push(SheetRow::new(keys, cells));
        Ok(is_missed)
    }

    /// One recording on one disk beside one load: a row for each scheduler, and for each part of BFQ where that takes long.
    fn rows_of(
        &mut self,
        (start, think): (&str, f64),
        disk: &str,
        load: (&str, u32, u32),
    ) -> Result<(), WorldError> {
        let mut is_missed = false;
        for scheduler in SCHEDULERS {
            let case = Case { disk, start, load, scheduler, tunables: "" };
            is_missed |= self.row(&case, scheduler, think)?;
        }
        for (title, tunables) in ABLATIONS.iter().filter(|_| is_missed) {
            self.row(&Case { disk, start, load, scheduler: "bfq", tunables }, title, think)?;
        }
        Ok(())
    }
}

fn reproduce(bench: &mut dyn Bench, request: &Request) -> Result<Sheet, WorldError> {
    let mut options = request.options.clone();
    if options.files.is_empty() {
        options.files = Arc::new([(MADE.to_owned(), made())].into());
    }
    let (files, worlds) = (options.files.clone(), bench.worlds());
    let mut runs = Runs { bench, options, worlds, rows: Vec::new(), tally: Tally::default() };
    for (start, text) in files.iter() {
        // A world says what is wrong with it.
        let think = IoTrace::parse(text).map_or(0.0, |trace| trace.think().get() as f64);
        for disk in DISKS {
            for load in LOADS {
                runs.rows_of((start, think), disk, load)?;
            }
        }
    }
    let mut notes = runs.tally.notes();
    notes.push(format!(
        "medians of three cold starts of a recording, each of new processes; given up after {TIMEOUT}. `disk wait`: less what the program \
         thinks. `raised`: how long BFQ raised the weight of a process that starts, at most, where that ended before the start did"
    ));
    if files.contains_key(MADE) {
        notes.push(
            "`made`: 600 reads made for this, no program; give recordings of programs with --replay FILE"
                .to_owned(),
        );
    }
    notes.push(
        "readers and writers through the page cache, sequentially, files behind one another".to_owned(),
    );
    let keys = vec!["start", "disk", "beside", "scheduler"];
    Ok(Sheet { keys, columns: columns(&runs.worlds), rows: runs.rows, notes, drawn: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_and_every_workload_read() {
        let trace = IoTrace::parse(&made()).unwrap();
        assert_eq!((trace.requests.len(), trace.think()), (600, Nanos::from_millis(405)));
        for load in LOADS {
            for (_, tunables) in ABLATIONS {
                let case = Case { disk: "emmc", start: MADE, load, scheduler: "bfq", tunables };
                assert_eq!(case.workload().startups[0].repeat, 3);
            }
        }
    }
}
