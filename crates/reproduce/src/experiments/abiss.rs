//! What the experiments of ABISS have in common: the disk, the I/O schedulers of 2004 and of today, and the guaranteed streams.
//!
//! The schedulers of 2004 are in no kernel any more and are simulated; those of today run on kernels too, on the same modelled disk, where streams are
//! programs that read at their rate, some with a real-time I/O priority.

use std::fmt::Write;

use surety_model::record::Record;
use surety_model::world::WorldError;

use super::under_io::{self, is_simulated};
use crate::{Bench, Builds, Cell, Planned};

/// Pages of a batch in the play-out buffer that is described.
pub(super) const BATCH: f64 = 20.0;

/// A setting of I/O schedulers as the tables call it.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// The word of the I/O scheduler, and what of it is set.
    word: &'static str,
    tunables: &'static str,
    /// Whether streams have a play-out buffer that is filled in batches. Elsewhere they are programs that read at their rate.
    plays_out: bool,
    /// The I/O priority of the streams, where they have one.
    priority: &'static str,
    /// What the disk may take at a time.
    limits: &'static str,
    is_of_2004: bool,
}

/// One of 2004.
const fn of_2004(name: &'static str, word: &'static str, tunables: &'static str) -> Setting {
    Setting { name, word, tunables, plays_out: false, priority: "", limits: "", is_of_2004: true }
}

/// One that the kernel has.
const fn of_today(name: &'static str, word: &'static str, priority: &'static str) -> Setting {
    Setting { name, word, tunables: "", plays_out: false, priority, limits: "", is_of_2004: false }
}

/// Those of 2004, by their names in the tables.
const OF_2004: [Setting; 7] = [
    Setting { plays_out: true, ..of_2004("abiss-rt", "abiss", "") },
    of_2004("abiss-be", "abiss", "realtime = 0"),
    of_2004("anticipatory", "anticipatory", ""),
    of_2004(UNANTICIPATED, "anticipatory", "antic_expire = 0"),
    of_2004("deadline", "deadline", ""),
    of_2004("cfq", "cfq-v2", ""),
    of_2004("noop", "noop", ""),
];

/// Streams of crate `stream`, from a disk that is prepared for them, on a kernel of today.
pub(super) const FETCHED: Setting = Setting {
    tunables: "async_depth = 16, prio_aging_expire = 3600000",
    plays_out: true,
    limits: "depth = 4\nrequest = '128KiB'\n",
    ..of_today("mq-deadline", "mq-deadline", "")
};

/// Those of blk-mq; the streams of a real-time I/O priority where a scheduler knows it.
pub(super) const OF_TODAY: [Setting; 6] = [
    of_today("none", "none", ""),
    of_today("mq-deadline", "mq-deadline", ""),
    of_today("mq-deadline rt:0", "mq-deadline", "rt:0"),
    of_today("kyber", "kyber", ""),
    of_today("bfq", "bfq", ""),
    of_today("bfq rt:0", "bfq", "rt:0"),
];

/// `anticipatory` that never keeps the disk idle: no row of the tables.
pub(super) const UNANTICIPATED: &str = "antic_expire 0";

/// What a note says of the rows that are no row of the tables.
pub(super) const TODAY: &str = "none to bfq: I/O schedulers of blk-mq and today's read-ahead, of which nothing was published; rt:0 is the I/O priority of the plain readers. Kernels run these alone: no kernel has those of 2004 any more";

/// What a note says of the rows of [`FETCHED`], and of what each column is.
pub(super) const READ_BY: [&str; 2] = [
    "read by: a plain reader asks for each access itself, when it is released; a stream has a play-out buffer that is filled in batches ahead of it, by the kernel's prefetcher in the rows abiss-rt, by \
     a thread of the program under mq-deadline, which reads with real-time I/O priority from a disk that takes 4 requests of 128 KiB at most and has 16 places for writes",
    "published is of the disk and the kernel of 2004; host is this machine's kernel on `hdd-2004` as an emulated disk; sim is simulated on the same model, beside host with the places of the files and the driver seen there: \
     compare columns of one row, and no row of 2004 with one of today",
];

/// The setting of 2004 of this name.
pub(super) fn setting(name: &str) -> Option<&'static Setting> {
    OF_2004.iter().find(|row| row.name == name)
}

impl Setting {
    /// Who reads the streams' files, in the tables' words.
    pub(super) fn read_by(&self) -> &'static str {
        if self.plays_out { "stream" } else { "plain reader" }
    }

    /// Whether programs of ours fetch the streams' batches, on any kernel of today.
    pub(super) fn is_fetched(&self) -> bool {
        self.plays_out && !self.is_of_2004
    }

    /// What a run of it is called beside others of its table: one of a play-out buffer by the pages of its batch, too.
    pub(super) fn label(&self, world: &str, pages: Option<f64>, beside: &str) -> String {
        let batches = pages.map(|pages| format!(" stream of {pages} pages")).unwrap_or_default();
        format!("{world}: {}{batches}, {beside}", self.name)
    }

    /// A workload's disk and `streams` streams on it. With a play-out buffer a batch has `pages` pages, and may be late by `jitter`.
    pub(super) fn workload(&self, streams: u32, pages: f64, jitter: &str) -> String {
        let Setting { word, tunables, .. } = self;
        let mut text = format!(
            "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nscheduler = '{word}'\ntunables = {{ {tunables} }}\n{}",
            self.limits
        );
        text += if self.is_of_2004 { "read-ahead = '2.6.10'\n" } else { "make = '2GiB'\n" };
        let _ = writeln!(
            text,
            "[[stream]]\nname = 'guaranteed'\ndisk = 'd'\ncount = {streams}\nfile = {{ make = '105MB' }}\nrate = '1MB/s'\nread = '64KiB'"
        );
        if self.plays_out {
            let _ = writeln!(text, "batch = '{}KiB'\njitter = '{jitter}'", pages * 4.0);
        }
        if !self.priority.is_empty() {
            let _ = writeln!(text, "io-priority = '{}'", self.priority);
        }
        text
    }
}

/// Makes the runs of settings that a world has, those of a kernel of the lab in one boot: what each record shows, or the cell that says why not; `None` for a scheduler of 2004
/// where the world is a kernel, and for streams that records of runs lack.
pub(super) fn show<T>(
    bench: &mut dyn Bench,
    (index, world): (usize, &str),
    runs: &[(&Setting, Planned)],
    builds: &mut Builds,
    seen: impl Fn(&Record) -> Option<T>,
) -> Result<Vec<Option<Result<T, Cell>>>, WorldError> {
    let is_run: Vec<bool> = runs
        .iter()
        .map(|(setting, planned)| match is_simulated(world) {
            true => true,
            // Records that were made before there were such rows have none of them.
            false if setting.is_fetched() => bench.has(index, &planned.label),
            false => !setting.is_of_2004,
        })
        .collect();
    let of_world = runs.iter().zip(&is_run).filter(|(_, is_run)| **is_run);
    let planned: Vec<Planned> = of_world.map(|((_, planned), _)| planned.clone()).collect();
    let mut shown = under_io::show(bench, (index, world), &planned, builds, seen)?.into_iter();
    Ok(is_run.into_iter().map(|is_run| is_run.then(|| shown.next()).flatten()).collect())
}
