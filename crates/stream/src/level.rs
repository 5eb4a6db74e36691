//! [`Level`]: how much of a guarantee a stream has.

use std::fmt;

/// From what is only looked at to what was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Fetched ahead and counted; the disk treats it as anybody's.
    Observed,
    /// Past the page cache, from locked memory, at real-time I/O priority.
    Scheduled,
    /// The same, and the latency of its batches is bounded by admission. A batch that took longer than the bound ends this.
    Admitted,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Observed => "observed",
            Level::Scheduled => "scheduled",
            Level::Admitted => "admitted",
        })
    }
}
