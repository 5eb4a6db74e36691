//! What the scheduler tells of itself in debugfs alone: its deadline servers, and whether it throttles realtime threads.

use std::fs::{File, read_dir, read_to_string};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Serialize;
use surety_units::Nanos;

use crate::mount::DetachedMount;

/// A server that the scheduler has on each CPU, as debugfs shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerFound {
    /// For whom: `fair`, `ext`.
    pub serves: String,
    /// Its budget on the CPU on which it may take the largest part; 0: it never starts.
    pub runtime: Nanos,
    /// Its period there.
    pub period: Nanos,
}

/// What was found there; `None`: debugfs, or the file, is out of reach.
#[derive(Clone, Debug, Default)]
pub(super) struct SchedulerDebug {
    /// Directories `fair_server`, `ext_server`, which are listed even where their files cannot be read.
    pub servers: Option<u64>,
    /// Those whose files could be read, by whom they serve (`cpu*/runtime` and `cpu*/period` in each directory, ns).
    pub parameters: Vec<ServerFound>,
    /// Whether the run queues of realtime threads have a limit. Up to 6.11 all kernels have; from 6.12 on those with CONFIG_RT_GROUP_SCHED,
    /// beside the fair server (`print_rt_rq` in `kernel/sched/debug.c`).
    pub throttles: Option<bool>,
    /// Which preemption a kernel that can be given another has now (`sched/preempt`): `none`, `voluntary`, `full`, `lazy`.
    pub preempts: Option<String>,
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
        let named = |entry: std::fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name.strip_suffix("_server")?.to_owned(), entry.path()))
        };
        let servers = read_dir(directory).ok();
        let servers: Option<Vec<_>> = servers.map(|entries| entries.flatten().filter_map(named).collect());
        let read = |(serves, path): &(String, PathBuf)| server(serves, path);
        let mut parameters: Vec<_> = servers.iter().flatten().filter_map(read).collect();
        parameters.sort_by(|a, b| a.serves.cmp(&b.serves));
        // One system call of the kernel's shows a whole CPU; the first is enough.
        let text = File::open(directory.join("debug")).ok();
        let throttles = text.and_then(|text| throttles(BufReader::new(text)));
        let preempts = read_to_string(directory.join("preempt")).ok().and_then(|text| chosen(&text));
        SchedulerDebug { servers: servers.map(|all| all.len() as u64), parameters, throttles, preempts }
    }
}

/// The server of a directory; `None` where no CPU's files can be read.
fn server(serves: &str, directory: &Path) -> Option<ServerFound> {
    let number = |path: PathBuf| -> Option<i64> { read_to_string(path).ok()?.trim().parse().ok() };
    let of_cpu = |cpu: std::fs::DirEntry| {
        let period = number(cpu.path().join("period")).filter(|period| *period > 0)?;
        Some((number(cpu.path().join("runtime"))?, period))
    };
    let part = |(runtime, period): &(i64, i64)| (i128::from(*runtime) << 20) / i128::from(*period);
    let all = read_dir(directory).ok()?.flatten().filter_map(of_cpu);
    let (runtime, period) = all.max_by_key(part)?;
    Some(ServerFound { serves: serves.to_owned(), runtime: Nanos::new(runtime), period: Nanos::new(period) })
}

/// The word in parentheses: `none voluntary (full)`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('(')?.1.split_once(')')?.0.to_owned())
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
    fn the_chosen_preemption_is_in_parentheses() {
        assert_eq!(chosen("none voluntary (full) lazy \n").as_deref(), Some("full"));
        assert_eq!(chosen("none voluntary"), None);
    }

    #[test]
    fn servers_are_read_from_the_cpu_on_which_they_may_take_most() {
        let place = tempfile::tempdir().unwrap();
        let cpu = |server: &str, number: u32, runtime: &str, period: &str| {
            let path = place.path().join(format!("{server}_server/cpu{number}"));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("runtime"), runtime).unwrap();
            std::fs::write(path.join("period"), period).unwrap();
        };
        cpu("fair", 0, "50000000\n", "1000000000\n");
        cpu("fair", 1, "20000000\n", "100000000\n");
        cpu("ext", 0, "0\n", "1000000000\n");
        std::fs::create_dir(place.path().join("other_server")).unwrap();
        std::fs::create_dir(place.path().join("llc")).unwrap();
        let found = SchedulerDebug::of(place.path());
        let read: Vec<_> = found
            .parameters
            .iter()
            .map(|of| (of.serves.as_str(), of.runtime.get(), of.period.get()))
            .collect();
        assert_eq!(read, [("ext", 0, 1_000_000_000), ("fair", 20_000_000, 100_000_000)]);
        assert_eq!((found.servers, found.throttles), (Some(3), None));
    }

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
