//! What the experiments of ABISS have in common: the disk, the I/O schedulers of 2004 and the guaranteed streams.

use std::fmt::Write;

/// Pages of a batch in the play-out buffer that is described.
pub(super) const BATCH: f64 = 20.0;

/// A setting of I/O schedulers as the tables call it.
pub(super) struct Setting {
    /// The word of the I/O scheduler, and what of it is set.
    pub(super) word: &'static str,
    pub(super) tunables: &'static str,
    /// Whether streams have a play-out buffer that is filled in batches. Elsewhere they are programs that read at their rate.
    pub(super) plays_out: bool,
}

/// Those of 2004, by their names in the tables.
const SETTINGS: [(&str, Setting); 7] = [
    ("abiss-rt", Setting { word: "abiss", tunables: "", plays_out: true }),
    ("abiss-be", Setting { word: "abiss", tunables: "realtime = 0", plays_out: false }),
    ("anticipatory", Setting { word: "anticipatory", tunables: "", plays_out: false }),
    (UNANTICIPATED, Setting { word: "anticipatory", tunables: "antic_expire = 0", plays_out: false }),
    ("deadline", Setting { word: "deadline", tunables: "", plays_out: false }),
    ("cfq", Setting { word: "cfq-v2", tunables: "", plays_out: false }),
    ("noop", Setting { word: "noop", tunables: "", plays_out: false }),
];

/// `anticipatory` that never keeps the disk idle: no row of the tables.
pub(super) const UNANTICIPATED: &str = "antic_expire 0";

/// The setting of this name.
pub(super) fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|row| row.0 == name).map(|row| &row.1)
}

/// A workload's disk and `streams` streams on it. With a play-out buffer a batch has `pages` pages, and may be late by `jitter`.
pub(super) fn workload(setting: &Setting, streams: u32, pages: f64, jitter: &str) -> String {
    let Setting { word, tunables, plays_out } = setting;
    let mut text = format!(
        "format = 1\n[disk.d]\nmodel = 'hdd-2004'\nread-ahead = '2.6.10'\nscheduler = '{word}'\ntunables = {{ {tunables} }}\n\
         [[stream]]\nname = 'guaranteed'\ndisk = 'd'\ncount = {streams}\nfile = {{ make = '105MB' }}\nrate = '1MB/s'\nread = '64KiB'\n"
    );
    if *plays_out {
        let _ = writeln!(text, "batch = '{}KiB'\njitter = '{jitter}'", pages * 4.0);
    }
    text
}
