//! What the experiments on modelled disks beside readers and writers have in common: disks, schedulers, loads, and what was asked for of them.
//!
//! The setting is that of the S suite (`comm_startup_lat.sh`): readers and writers begin, and what is measured comes only when no I/O
//! scheduler raises them any more; all writers of a disk that turns write 4 MB/s together, and beside writers everything is synced
//! every 2 s.

use surety_model::record::Record;
use surety_model::world::WorldError;
use surety_units::Nanos;

use crate::{Bench, Builds, Cell, Planned, cell_of};

/// Disks, and whether they turn.
pub(super) const DISKS: [(&str, bool); 3] = [("hdd-2004", true), ("hdd-7200", true), ("emmc", false)];
/// The I/O schedulers of blk-mq.
pub(super) const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
/// The part of each disk that is used.
pub(super) const SIZE: &str = "2GiB";
/// Starts are given up after this.
pub(super) const TIMEOUT: Nanos = Nanos::from_secs(120);
/// Until readers and writers are raised no longer, `transitory_duration` of the suite: the longest raising of BFQ (25 s, `bfq_wr_duration`
/// in `block/bfq-iosched.c`) and 4 s; then the pause of 4 s before a start.
pub(super) const SETTLED: Nanos = Nanos::from_secs(25 + 4 + 4);
/// Between two starts.
pub(super) const PAUSE: &str = "4s";
/// Bytes a second that all writers of a disk that turns write together (`MAXRATE`).
const WRITTEN: u32 = 4_000_000;

/// Readers and writers with the source's name of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub word: &'static str,
    readers: u32,
    writers: u32,
    /// Whether each reads 4 KiB at a time, in random order.
    random: bool,
}

const fn load(word: &'static str, readers: u32, writers: u32, random: bool) -> Load {
    Load { word, readers, writers, random }
}

/// The two of the reference first.
pub(super) const LOADS: [Load; 4] = [
    load("10r", 10, 0, false),
    load("5r5w", 5, 5, false),
    load("10r-rand", 10, 0, true),
    load("10w", 0, 10, false),
];
/// No reader and no writer.
pub(super) const IDLE: Load = load("idle", 0, 0, false);

impl Load {
    /// Its sections of a workload, on the disk `d`.
    pub(super) fn text(&self, rotates: bool) -> String {
        let Load { readers, writers, random, .. } = *self;
        let mut text = String::new();
        let mut add = |kind: &str, keys: &str| {
            text += &format!("[[load]]\nname = '{kind}'\nkind = '{kind}'\ndisk = 'd'\n{keys}\n");
        };
        if readers > 0 {
            let order = if random { "random = true\nblock = '4KiB'" } else { "" };
            add("readers", &format!("count = {readers}\n{order}"));
        }
        // Without writers there is no part of their rate.
        if let Some(part) = WRITTEN.checked_div(writers) {
            let limit = if rotates { format!("rate = '{part}B/s'") } else { String::new() };
            add("writers", &format!("count = {writers}\n{limit}"));
            add("syncs", "count = 1\nperiod = '2s'");
        }
        text
    }
}

/// The disk `d` of a workload, under a scheduler.
pub(super) fn disk(model: &str, scheduler: &str, tunables: &str) -> String {
    format!(
        "format = 1\n[disk.d]\nmodel = '{model}'\nmake = '{SIZE}'\nscheduler = '{scheduler}'\ntunables = {{ {tunables} }}\n"
    )
}

/// Whether a world computes what a kernel would do.
pub(super) fn is_simulated(world: &str) -> bool {
    world.starts_with("sim")
}

/// What was asked for of several configurations.
pub(super) struct Only<'a>(pub &'a [String]);

impl Only<'_> {
    /// Those of a list that were, by their words; all where none of it was.
    pub(super) fn of<T: Copy>(&self, list: &[T], word: impl Fn(&T) -> &str) -> Vec<T> {
        self.or(list, list, word)
    }

    /// The same, and some of them where none was.
    pub(super) fn or<T: Copy>(&self, list: &[T], some: &[T], word: impl Fn(&T) -> &str) -> Vec<T> {
        let asked = list.iter().copied().filter(|one| self.0.iter().any(|only| only == word(one)));
        let asked: Vec<T> = asked.collect();
        if asked.is_empty() { some.to_vec() } else { asked }
    }
}

/// Makes runs in a world, those of a kernel of the lab in one boot: what each record shows, or why it does not.
pub(super) fn show<T>(
    bench: &mut dyn Bench,
    (index, world): (usize, &str),
    runs: &[Planned],
    builds: &mut Builds,
    seen: impl Fn(&Record) -> Option<T>,
) -> Result<Vec<Result<T, Cell>>, WorldError> {
    let mut shown = Vec::new();
    for result in bench.run_each(index, runs) {
        builds.add(world, &result);
        let mut found = None;
        let refused = cell_of(result, |record| {
            found = seen(record);
            Cell::Empty
        })?;
        shown.push(found.ok_or(refused));
    }
    Ok(shown)
}

/// How the loads run, for a note.
pub(super) fn note(before: &str) -> String {
    format!(
        "readers and writers through the page cache, sequentially, files behind one another, for {SETTLED} before {before}; 10r-rand: 4 KiB \
         at a time in random order; writers of a disk that turns 4 MB/s together; beside writers everything is synced every 2 s \
         (comm_startup_lat.sh of the S suite)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_run_alone() {
        let asked = ["bfq", "emmc", "10w"].map(str::to_owned);
        let only = Only(&asked);
        assert_eq!(only.of(&SCHEDULERS, |word| word), ["bfq"]);
        assert_eq!(only.of(&DISKS, |disk| disk.0), [("emmc", false)]);
        assert_eq!(only.or(&LOADS, &LOADS[..2], |load| load.word), [LOADS[3]]);
        assert_eq!(Only(&asked[..1]).or(&LOADS, &LOADS[..2], |load| load.word), LOADS[..2]);
    }
}
