//! [`IoPriority`]: which of two processes a disk serves first.

use std::fmt;
use std::str::FromStr;

/// An I/O priority (`ioprio_set(2)`), as a file says it: `rt:LEVEL`, `be:LEVEL` or `idle`; levels are from 0, the most important, to 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPriority {
    Realtime(u8),
    BestEffort(u8),
    Idle,
}

impl FromStr for IoPriority {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<IoPriority, &'static str> {
        let level = |text: &str| text.parse().ok().filter(|level| *level <= 7);
        let found = match text.split_once(':') {
            None if text == "idle" => Some(IoPriority::Idle),
            Some(("rt", text)) => level(text).map(IoPriority::Realtime),
            Some(("be", text)) => level(text).map(IoPriority::BestEffort),
            _ => None,
        };
        found.ok_or("an I/O priority is `rt:0` to `rt:7`, `be:0` to `be:7`, or `idle`")
    }
}

impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoPriority::Realtime(level) => write!(f, "rt:{level}"),
            IoPriority::BestEffort(level) => write!(f, "be:{level}"),
            IoPriority::Idle => f.write_str("idle"),
        }
    }
}
