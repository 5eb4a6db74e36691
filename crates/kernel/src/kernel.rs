//! [`Kernel`]: everything that changes or asks the machine, behind one trait.
//!
//! An implementation provides a dozen single operations; what can be built from them (identities, the CPUs that
//! are online) is written here once, so the scripted kernel tests the same code that runs on the real one.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use surety_units::{CpuSet, Nanos, Tid};

use crate::error::{KernelError, Operation};
use crate::sched::SchedAttr;

/// A process or thread that no later one with the same number can be mistaken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: Tid,
    /// When it started, in clock ticks since boot: field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

/// Whose a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadOwner {
    pub process: Tid,
    /// The real and the effective user.
    pub users: [u32; 2],
}

/// A thread that sleeps until it is dropped: a holder for bandwidth that never runs.
pub struct SleepingThread {
    /// Its number.
    pub tid: Tid,
    wake: Option<Box<dyn FnOnce() + Send>>,
}

impl SleepingThread {
    /// A sleeping thread; `wake` ends it and waits for its end.
    pub fn new(tid: Tid, wake: Box<dyn FnOnce() + Send>) -> SleepingThread {
        SleepingThread { tid, wake: Some(wake) }
    }
}

impl Drop for SleepingThread {
    fn drop(&mut self) {
        if let Some(wake) = self.wake.take() {
            wake();
        }
    }
}

/// The machine: threads and their scheduling, files of /proc and /sys, directories that are kernel objects.
pub trait Kernel: Send + Sync {
    /// A thread's scheduling. A fair thread with the kernel's base slice has slice `None`. Thread 0 is the caller.
    fn scheduler(&self, tid: Tid) -> Result<SchedAttr, KernelError>;

    /// How [`Kernel::scheduler`] tells of a thread that was given this: a slice of its own that is the base slice is told as none.
    fn as_told(&self, attr: SchedAttr) -> SchedAttr {
        attr
    }

    /// One call of `sched_setattr` without protection against the bandwidth leak. Callers want
    /// [`crate::transition::set_scheduler`].
    fn set_scheduler_directly(&self, tid: Tid, attr: &SchedAttr) -> Result<(), KernelError>;

    /// The CPUs a thread may use. Thread 0 is the caller.
    fn affinity(&self, tid: Tid) -> Result<CpuSet, KernelError>;

    /// Sets the CPUs a thread may use. Thread 0 is the caller.
    fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> Result<(), KernelError>;

    /// A file's whole text.
    fn read_text(&self, path: &Path) -> Result<String, KernelError>;

    /// Writes a text to an existing file in one `write`, as files of the kernel require. Never makes a file.
    fn write_text(&self, path: &Path, text: &str) -> Result<(), KernelError>;

    /// The names in a directory, in ascending order.
    fn list_dir(&self, path: &Path) -> Result<Vec<String>, KernelError>;

    /// Makes one directory: a cpuset, a trace instance.
    fn make_dir(&self, path: &Path) -> Result<(), KernelError>;

    /// Removes one directory.
    fn remove_dir(&self, path: &Path) -> Result<(), KernelError>;

    /// Removes a directory of ordinary files with everything in it; links are removed, not followed.
    fn remove_tree(&self, path: &Path) -> Result<(), KernelError>;

    /// Takes what is mounted last at a place away from there; what is open in it goes on.
    fn unmount(&self, place: &Path) -> Result<(), KernelError>;

    /// Whether a file or directory exists.
    fn exists(&self, path: &Path) -> bool;

    /// Signals a process if it is still the same one; `false` when that one has ended.
    fn signal(&self, process: ProcessIdentity, signal: i32) -> Result<bool, KernelError>;

    /// A new thread of the calling process that only sleeps.
    fn sleeping_thread(&self) -> Result<SleepingThread, KernelError>;

    /// The directory under which this kernel's tracing files are.
    fn tracefs_root(&self) -> Result<PathBuf, KernelError>;

    /// The calling process.
    fn own_pid(&self) -> Tid;

    /// The calling thread.
    fn own_tid(&self) -> Tid;

    /// The user the calling process acts as; 0 is root.
    fn effective_user(&self) -> u32;

    /// CLOCK_MONOTONIC.
    fn monotonic(&self) -> Nanos;

    /// Sleeps this long, not at all for nothing and less.
    fn pause(&self, time: Nanos);

    /// Whether a thread runs, or would if it got a CPU and a budget.
    fn can_run(&self, tid: Tid) -> bool {
        let stat = self.read_text(Path::new(&format!("/proc/{tid}/stat"))).ok();
        stat.as_deref().and_then(state_of_stat) == Some('R')
    }

    /// Whether a process is gone, or on its way out and waits for something there (`PF_EXITING` of the flags, field 9).
    fn is_exiting(&self, pid: Tid) -> bool {
        let stat = self.read_text(Path::new(&format!("/proc/{pid}/stat"))).ok();
        let flags = stat.as_deref().and_then(|stat| fields_of_stat(stat)?.nth(9 - 3)?.parse::<u32>().ok());
        flags.is_none_or(|flags| flags & EXITING != 0)
    }

    /// Whether a thread is killed: it is gone, on its way out, or does nothing more but that (a SIGKILL is pending, which the kernel gives every
    /// thread of a process that a signal ends).
    fn is_killed(&self, tid: Tid) -> bool {
        let status = self.read_text(Path::new(&format!("/proc/{tid}/status"))).ok();
        status.as_deref().is_none_or(is_killed_by_status) || self.is_exiting(tid)
    }

    /// What is left of a thread's budget, where the kernel says so (`dl.runtime` in `/proc/TID/sched`).
    fn budget_left(&self, tid: Tid) -> Option<Nanos> {
        let text = self.read_text(Path::new(&format!("/proc/{tid}/sched"))).ok()?;
        let line = text.lines().find(|line| line.starts_with("dl.runtime"))?;
        line.rsplit(':').next()?.trim().parse().ok().map(Nanos::new)
    }

    /// Who a process or thread is now; ESRCH when there is none of that number.
    fn identity(&self, pid: Tid) -> Result<ProcessIdentity, KernelError> {
        let gone =
            |errno| KernelError::new(Operation::Read, format!("the start time of process {pid}"), errno);
        let text = self.read_text(Path::new(&format!("/proc/{pid}/stat"))).map_err(|e| match e.errno {
            libc::ENOENT => gone(libc::ESRCH),
            _ => e,
        })?;
        let start_time = start_time_of_stat(&text).ok_or_else(|| gone(libc::EIO))?;
        Ok(ProcessIdentity { pid, start_time })
    }

    /// Whether exactly this process or thread is still there (a zombie is not).
    fn is_alive(&self, process: ProcessIdentity) -> bool {
        let Ok(text) = self.read_text(Path::new(&format!("/proc/{}/stat", process.pid))) else {
            return false;
        };
        start_time_of_stat(&text) == Some(process.start_time)
            && !matches!(state_of_stat(&text), Some('Z' | 'X') | None)
    }

    /// Whether this is a thread of the kernel's own, which has no program and no environment.
    fn is_kernel_thread(&self, pid: Tid) -> bool {
        /// `PF_KTHREAD` of `include/linux/sched.h`, in field 9 of the stat file.
        const FLAG: u64 = 0x20_0000;
        let stat = self.read_text(Path::new(&format!("/proc/{pid}/stat")));
        let flags = |stat: &str| fields_of_stat(stat)?.nth(9 - 3)?.parse::<u64>().ok();
        stat.ok().as_deref().and_then(flags).is_some_and(|flags| flags & FLAG != 0)
    }

    /// The process and the users a thread belongs to.
    fn owner(&self, tid: Tid) -> Result<ThreadOwner, KernelError> {
        let path = format!("/proc/{tid}/status");
        let text = self.read_text(Path::new(&path))?;
        owner_of_status(&text).ok_or_else(|| KernelError::new(Operation::Read, path, libc::EIO))
    }

    /// The threads of a process, in ascending order.
    fn threads(&self, pid: Tid) -> Result<Vec<Tid>, KernelError> {
        let names =
            self.list_dir(Path::new(&format!("/proc/{pid}/task"))).map_err(|error| match error.errno {
                libc::ENOENT => {
                    KernelError::new(Operation::List, format!("the threads of process {pid}"), libc::ESRCH)
                }
                _ => error,
            })?;
        Ok(numbers(&names))
    }

    /// Every process of the machine that this user can see, in ascending order.
    fn processes(&self) -> Result<Vec<Tid>, KernelError> {
        self.list_dir(Path::new("/proc")).map(|names| numbers(&names))
    }

    /// A thread's name, at most 15 bytes for user threads.
    fn name(&self, tid: Tid) -> Result<String, KernelError> {
        let text = self.read_text(Path::new(&format!("/proc/{tid}/comm")))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// The CPUs that are online.
    fn online_cpus(&self) -> Result<CpuSet, KernelError> {
        let path = "/sys/devices/system/cpu/online";
        let text = self.read_text(Path::new(path))?;
        text.trim().parse().map_err(|_| KernelError::new(Operation::Read, path, libc::EIO))
    }

    /// The identity of this boot: start times compare only within one.
    fn boot_id(&self) -> Result<String, KernelError> {
        Ok(self.read_text(Path::new("/proc/sys/kernel/random/boot_id"))?.trim().to_owned())
    }
}

/// The fields of `/proc/PID/stat` after the name, which may itself hold spaces and parentheses.
fn fields_of_stat(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

/// `PF_EXITING` of `include/linux/sched.h`.
const EXITING: u32 = 4;

/// Field 22, the start time; the name is field 2 and the state field 3.
fn start_time_of_stat(stat: &str) -> Option<u64> {
    fields_of_stat(stat)?.nth(22 - 3)?.parse().ok()
}

fn state_of_stat(stat: &str) -> Option<char> {
    fields_of_stat(stat)?.next()?.chars().next()
}

/// Whether SIGKILL is among the signals that are pending for a thread or its process.
fn is_killed_by_status(status: &str) -> bool {
    let pending = |line: &str| {
        let set = line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(set.trim(), 16).ok()
    };
    status.lines().filter_map(pending).any(|set| set & 1 << (libc::SIGKILL - 1) != 0)
}

fn owner_of_status(status: &str) -> Option<ThreadOwner> {
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let process = Tid(of("Tgid")?.trim().parse().ok()?);
    let mut users = of("Uid")?.split_ascii_whitespace().map(|user| user.parse().ok());
    Some(ThreadOwner { process, users: [users.next()??, users.next()??] })
}

fn numbers(names: &[String]) -> Vec<Tid> {
    let mut tids: Vec<Tid> = names.iter().filter_map(|n| n.parse().ok()).map(Tid).collect();
    tids.sort_unstable();
    tids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21";
        for name in ["a", "a b", "x) y", "((", ")"] {
            let stat = format!("12 ({name}) {rest}");
            assert_eq!(start_time_of_stat(&stat), Some(987_654), "{name}");
            assert_eq!(state_of_stat(&stat), Some('S'), "{name}");
        }
        assert_eq!(start_time_of_stat("12 (a) S 1 2"), None);
        assert_eq!(start_time_of_stat(""), None);
    }

    #[test]
    fn who_is_killed_has_the_signal_pending() {
        let status = |own: &str, shared: &str| {
            format!("Name:\tx\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0000000000000100\n")
        };
        let [none, kill] = ["0000000000004000", "0000000000000100"];
        assert!(!is_killed_by_status(&status(none, none)));
        assert!(is_killed_by_status(&status(kill, none)) && is_killed_by_status(&status(none, kill)));
    }

    /// 0x40010c of a thread that exits, 0x400108 of one that does not.
    #[test]
    fn who_exits_says_so_in_its_flags() {
        let kernel = crate::scripted::ScriptedKernel::new(1);
        for (pid, flags) in [(12, 0x40_010c), (13, 0x40_0108)] {
            kernel.add_file(format!("/proc/{pid}/stat"), &format!("{pid} (x) D 1 2 3 4 5 {flags} 7 8"));
        }
        assert_eq!([12, 13, 14].map(|pid| kernel.is_exiting(Tid(pid))), [true, false, true]);
    }
}
