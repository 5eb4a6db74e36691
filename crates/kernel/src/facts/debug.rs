//! What the scheduler tells of itself in debugfs alone: its deadline servers, and whether it throttles realtime threads.

use std::collections::BTreeMap;
use std::fs::{File, read_dir, read_to_string};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use surety_units::{CpuId, Nanos};

use crate::mount::DetachedMount;
use crate::servers::{DeadlineServers, ServerBudget, ServerKind, ServersFound};

/// What was found there; `None`: debugfs, or the file, is out of reach.
#[derive(Clone, Debug, Default)]
pub(super) struct SchedulerDebug {
    /// Directories `fair_server` and `ext_server`, which are listed even where their files cannot be read.
    pub servers: Option<DeadlineServers>,
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
        let servers = read_dir(directory).ok().map(|entries| {
            let mut servers = DeadlineServers { found: ServersFound::Counted, ..DeadlineServers::assumed() };
            servers.there.clear();
            for (serves, path) in entries.flatten().filter_map(named) {
                match ServerKind::ALL.into_iter().find(|kind| kind.word() == serves) {
                    Some(kind) => drop(servers.there.insert(kind, budgets(&path))),
                    None => servers.unknown.push(format!("{serves}_server")),
                }
            }
            servers.unknown.sort();
            servers
        });
        // One system call of the kernel's shows a whole CPU; the first is enough.
        let text = File::open(directory.join("debug")).ok();
        let throttles = text.and_then(|text| throttles(BufReader::new(text)));
        let preempts = read_to_string(directory.join("preempt")).ok().and_then(|text| chosen(&text));
        SchedulerDebug { servers, throttles, preempts }
    }
}

/// What a directory of a server says of each CPU (`cpu*/runtime` and `cpu*/period`, ns), where its files can be read.
fn budgets(directory: &Path) -> BTreeMap<CpuId, ServerBudget> {
    let number = |path: PathBuf| -> Option<i64> { read_to_string(path).ok()?.trim().parse().ok() };
    let of_cpu = |entry: std::fs::DirEntry| {
        let cpu = entry.file_name().to_string_lossy().strip_prefix("cpu")?.parse().ok()?;
        let period = number(entry.path().join("period")).filter(|period| *period > 0)?;
        let runtime = number(entry.path().join("runtime"))?;
        Some((CpuId(cpu), ServerBudget { runtime: Nanos::new(runtime), period: Nanos::new(period) }))
    };
    read_dir(directory).into_iter().flatten().flatten().filter_map(of_cpu).collect()
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
    use crate::servers::Charge;

    #[test]
    fn the_chosen_preemption_is_in_parentheses() {
        assert_eq!(chosen("none voluntary (full) lazy \n").as_deref(), Some("full"));
        assert_eq!(chosen("none voluntary"), None);
    }

    #[test]
    fn servers_are_read_cpu_by_cpu_and_those_of_other_names_are_said() {
        let place = tempfile::tempdir().unwrap();
        let cpu = |server: &str, number: u32, runtime: &str, period: &str| {
            let path = place.path().join(format!("{server}_server/cpu{number}"));
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("runtime"), runtime).unwrap();
            std::fs::write(path.join("period"), period).unwrap();
        };
        cpu("fair", 0, "50000000\n", "1000000000\n");
        cpu("fair", 1, "20000000\n", "100000000\n");
        cpu("fair", 2, "20000000\n", "0\n");
        cpu("ext", 0, "0\n", "1000000000\n");
        std::fs::create_dir(place.path().join("other_server")).unwrap();
        std::fs::create_dir(place.path().join("llc")).unwrap();
        let found = SchedulerDebug::of(place.path());
        let servers = found.servers.unwrap();
        assert_eq!(
            (servers.found, servers.unknown.as_slice()),
            (ServersFound::Counted, &["other_server".to_owned()][..])
        );
        assert_eq!(
            (servers.has(ServerKind::Fair), servers.has(ServerKind::Ext), found.throttles),
            (true, true, None)
        );
        let all = Charge { fair: true, ext: true };
        // 5 % of the default where nothing can be read; the second CPU's own 20 %; a server that is off books nothing.
        let booked: Vec<u64> = (0..3).map(|cpu| servers.booked_on(all, CpuId(cpu))).collect();
        assert_eq!(booked, [52_428, 209_715 + 52_428, 2 * 52_428]);
        assert_eq!(servers.booked_on(Charge { ext: false, ..all }, CpuId(1)), 209_715);
        assert_eq!(servers.sets().len(), 4);
        std::fs::remove_dir_all(place.path().join("ext_server")).unwrap();
        let fair = SchedulerDebug::of(place.path()).servers.unwrap();
        assert_eq!(fair.sets(), [Charge::default(), Charge { fair: true, ext: false }]);
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
