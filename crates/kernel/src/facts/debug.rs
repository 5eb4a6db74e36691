//! What the scheduler tells of itself in debugfs alone: its deadline servers, and whether it throttles realtime threads.

use std::fs::{File, read_dir};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::mount::DetachedMount;

/// What was found there; `None`: debugfs, or the file, is out of reach.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SchedulerDebug {
    /// Directories `fair_server`, `ext_server`, which are listed even where their files cannot be read.
    pub servers: Option<u64>,
    /// Whether the run queues of realtime threads have a limit. Up to 6.11 all kernels have; from 6.12 on those with CONFIG_RT_GROUP_SCHED,
    /// beside the fair server (`print_rt_rq` in `kernel/sched/debug.c`).
    pub throttles: Option<bool>,
}

impl SchedulerDebug {
    pub(super) fn read() -> SchedulerDebug {
        let mounted = PathBuf::from("/sys/kernel/debug/sched");
        if mounted.is_dir() {
            return SchedulerDebug::of(&mounted);
        }
        let own = DetachedMount::of(c"debugfs").ok();
        own.map(|mount| SchedulerDebug::of(&mount.root().join("sched"))).unwrap_or_default()
    }

    fn of(directory: &Path) -> SchedulerDebug {
        let is_server = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().ends_with("_server");
        let servers = read_dir(directory).ok();
        let servers = servers.map(|entries| entries.flatten().filter(is_server).count() as u64);
        // One system call of the kernel's shows a whole CPU; the first is enough.
        let text = File::open(directory.join("debug")).ok();
        SchedulerDebug { servers, throttles: text.and_then(|text| throttles(BufReader::new(text))) }
    }
}

/// Whether the first run queue of realtime threads has a limit, in the lines of `sched/debug`.
fn throttles(text: impl BufRead) -> Option<bool> {
    let lines = text.lines().map_while(Result::ok);
    let mut queue = lines.skip_while(|line| !line.starts_with("rt_rq[")).skip(1).peekable();
    queue.peek()?;
    Some(queue.take_while(|line| line.starts_with(' ')).any(|line| line.contains(".rt_throttled")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_seen_where_the_kernel_shows_one() {
        let shown = |of_queue: &str| {
            throttles(format!("cpu#0\ncfs_rq[0]:/\n  .nr_running : 0\n\n{of_queue}").as_bytes())
        };
        let with = "rt_rq[0]:/\n  .rt_nr_running                 : 0\n  .rt_throttled                  : 0\n\ndl_rq[0]:\n";
        let without = "rt_rq[0]:\n  .rt_nr_running                 : 0\n\ndl_rq[0]:\n  .rt_throttled : 0\n";
        assert_eq!((shown(with), shown(without), shown("")), (Some(true), Some(false), None));
    }
}
