//! [`KernelError`]: what was asked of the kernel, of which object, and what it answered.
//!
//! The text is one sentence with the remedy. The remedies follow the refusals in `kernel/sched/syscalls.c` and
//! `kernel/sched/deadline.c`: EPERM, EBUSY and EINVAL of `sched_setattr` each have a small set of causes.

use std::fmt;
use std::io;

use serde::Serialize;
use thiserror::Error;

/// An operation on the machine, as named in errors and in the scripted kernel's record of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub enum Operation {
    /// Read a thread's scheduling policy.
    ReadScheduler,
    /// Give a thread SCHED_DEADLINE or change its reservation.
    SetDeadline,
    /// Give a thread a fixed real-time priority.
    SetRealtime,
    /// Give a thread a fair policy.
    SetFair,
    /// Read a thread's CPU affinity.
    ReadAffinity,
    /// Set a thread's CPU affinity.
    SetAffinity,
    /// Read a file.
    Read,
    /// Write a file.
    Write,
    /// List a directory.
    List,
    /// Make a directory.
    MakeDir,
    /// Remove a directory.
    RemoveDir,
    /// Reach the tracing file system.
    OpenTracefs,
    /// Open a file.
    Open,
    /// Signal a process.
    Signal,
    /// Start a thread or a process.
    Spawn,
    LockMemory,
    /// Open a performance event.
    OpenPerf,
    /// Change a property of the calling thread.
    Prctl,
    /// Take a lock or an event, or give it back.
    Futex,
    /// Sleep on a clock.
    Sleep,
    /// Wait for a process to end.
    Wait,
    /// Make a network namespace.
    MakeNamespace,
    /// Enter a network namespace.
    EnterNamespace,
    /// Make a virtual network device.
    MakeLink,
    /// Give the queue of a network device a thread.
    ThreadQueue,
    /// Attach a file to a loop device.
    AttachLoop,
    /// Open the device that file systems in user space are served through.
    OpenFuse,
    /// Mount a file system.
    Mount,
    /// Unmount a file system.
    Unmount,
    /// Load a module of the kernel.
    LoadModule,
    /// Change a network device.
    Network,
    /// Get the right to an I/O port.
    Port,
    /// Switch the machine off.
    PowerOff,
    /// Become another user.
    SetUser,
    /// Drop capabilities, and the chance to gain some.
    SetCapabilities,
}

impl Operation {
    /// The operation as the beginning of a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Operation::ReadScheduler => "reading the scheduling policy of",
            Operation::SetDeadline => "setting SCHED_DEADLINE for",
            Operation::SetRealtime => "setting a real-time priority for",
            Operation::SetFair => "setting a fair policy for",
            Operation::ReadAffinity => "reading the CPU affinity of",
            Operation::SetAffinity => "setting the CPU affinity of",
            Operation::Read => "reading",
            Operation::Write => "writing",
            Operation::List => "listing",
            Operation::MakeDir => "making the directory",
            Operation::RemoveDir => "removing the directory",
            Operation::OpenTracefs => "reaching the tracing file system by",
            Operation::Open => "opening",
            Operation::Signal => "signalling",
            Operation::Spawn => "starting",
            Operation::LockMemory => "locking memory of",
            Operation::OpenPerf => "opening scheduling events of",
            Operation::Prctl => "changing",
            Operation::Futex => "using",
            Operation::Sleep => "sleeping on",
            Operation::Wait => "waiting for",
            Operation::MakeNamespace => "making a network namespace for",
            Operation::EnterNamespace => "entering a network namespace of",
            Operation::MakeLink => "making a pair of virtual network devices (veth) for",
            Operation::ThreadQueue => "giving a thread to the receive queue of",
            Operation::AttachLoop => "attaching a file to",
            Operation::OpenFuse => "opening",
            Operation::Mount => "mounting the file system of",
            Operation::Unmount => "unmounting",
            Operation::LoadModule => "loading the module",
            Operation::Network => "bringing up",
            Operation::Port => "getting the right to port",
            Operation::PowerOff => "switching off",
            Operation::SetUser => "changing the user of",
            Operation::SetCapabilities => "dropping the capabilities of",
        }
    }

    /// What to do about a refusal, where its causes are known.
    fn remedy(self, errno: i32) -> Option<&'static str> {
        use Operation as Op;
        Some(match (self, errno) {
            (Op::Futex, libc::ENOSYS) => {
                "this kernel lends no priority through a lock: that needs Linux 5.14 or later with CONFIG_FUTEX_PI"
            }
            (Op::SetDeadline, libc::EPERM) => {
                "CAP_SYS_NICE is missing (run as root, or grant it), or the thread's affinity is smaller than its \
                 root domain: let it use every CPU of the domain, or make a cpuset partition for it"
            }
            (Op::SetDeadline, libc::EBUSY) => {
                "the root domain has no such bandwidth left: ask for less, end other reservations, or run \
                 `surety doctor`, which finds bandwidth that leaked"
            }
            (Op::SetDeadline, libc::EINVAL) => {
                "runtime must be at least 1024 ns, runtime <= deadline <= period, and the period within \
                 kernel.sched_deadline_period_min_us and _max_us"
            }
            (Op::SetRealtime, libc::EPERM) => {
                "grant CAP_SYS_NICE or raise the limit RLIMIT_RTPRIO (ulimit -r) to the priority"
            }
            (Op::SetRealtime, libc::EINVAL) => "real-time priorities are 1 to 99",
            (Op::SetFair, libc::EPERM) => {
                "lowering nice, or clearing reset-on-fork, needs CAP_SYS_NICE; another user's thread needs it too"
            }
            (Op::SetFair | Op::SetDeadline | Op::SetRealtime, libc::EOPNOTSUPP) => {
                "this kernel is built without utilisation clamping (CONFIG_UCLAMP_TASK): leave the clamps out"
            }
            (Op::SetAffinity, libc::EINVAL) => {
                "none of these CPUs is online and allowed by the thread's cpuset: choose among its cpuset's CPUs"
            }
            (Op::SetAffinity, libc::EPERM) => "the thread belongs to another user: CAP_SYS_NICE is needed",
            (Op::SetAffinity, libc::EBUSY) => {
                "a SCHED_DEADLINE thread must keep every CPU of its root domain: take the reservation off first"
            }
            (_, libc::ESRCH) => "it has ended: start it again or choose another",
            (Op::OpenPerf, libc::EACCES | libc::EPERM) => {
                "lower kernel.perf_event_paranoid to 2 or less, grant CAP_PERFMON, or observe only threads of \
                 your own"
            }
            (Op::OpenPerf, libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP) => {
                "this kernel has no performance events (CONFIG_PERF_EVENTS): run as root and record by tracefs"
            }
            (Op::OpenPerf, libc::EMFILE) => "raise the limit of open files (ulimit -n)",
            (Op::OpenTracefs, libc::EPERM | libc::EACCES) => {
                "run as root, or have an administrator mount tracefs and give your group access to it"
            }
            (Op::OpenTracefs, libc::ENODEV) => "this kernel is built without tracing (CONFIG_FTRACE)",
            (Op::OpenTracefs, libc::ENOSYS) => {
                "this kernel is older than 5.2: mount tracefs at /sys/kernel/tracing first"
            }
            (Op::LockMemory, libc::EPERM | libc::ENOMEM) => {
                "raise the limit RLIMIT_MEMLOCK (ulimit -l unlimited) or grant CAP_IPC_LOCK"
            }
            (Op::Spawn, libc::EAGAIN) => {
                "a SCHED_DEADLINE thread cannot start others, or the limit of processes is reached (ulimit -u)"
            }
            (Op::MakeDir, libc::EEXIST) => "another owner uses this name: choose another, or remove it",
            (Op::RemoveDir, libc::EBUSY) => {
                "something in it is still in use: end the readers or tasks in it first"
            }
            (Op::MakeNamespace | Op::EnterNamespace | Op::MakeLink, libc::EPERM | libc::EACCES) => {
                "network namespaces need CAP_SYS_ADMIN and CAP_NET_ADMIN: run as root"
            }
            (Op::MakeNamespace, libc::EINVAL) => "this kernel has no network namespaces (CONFIG_NET_NS)",
            (Op::MakeLink, libc::EOPNOTSUPP) => {
                "this kernel has no veth devices: load the module (modprobe veth) or take one with CONFIG_VETH"
            }
            (Op::ThreadQueue, libc::EOPNOTSUPP | libc::ENODEV) => {
                "this needs threaded NAPI and a kernel that says which thread serves a device: Linux 6.8 or later"
            }
            (Op::SetUser, libc::EPERM) => {
                "only root may start programs as another user (CAP_SETUID and CAP_SETGID)"
            }
            (Op::ThreadQueue, libc::EPERM | libc::EACCES) => "run as root",
            (Op::AttachLoop, libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
                "this kernel has no loop devices (CONFIG_BLK_DEV_LOOP, modprobe loop), or /dev is not populated"
            }
            (Op::OpenFuse, libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
                "this kernel has no file systems in user space (CONFIG_FUSE_FS, modprobe fuse), or /dev is not populated"
            }
            (Op::AttachLoop | Op::OpenFuse | Op::Mount | Op::Unmount, libc::EPERM | libc::EACCES) => {
                "run as root"
            }
            (Op::Unmount, libc::EBUSY) => {
                "end who has something in it open, or the directory as its own, first"
            }
            (Op::Mount, libc::ENODEV) => "this kernel has no such file system (CONFIG_EXT4_FS)",
            (Op::Mount, libc::EINVAL | libc::EUCLEAN) => "there is no sound file system of that kind on it",
            (Op::Open, libc::EBUSY) => "it is in use: unmount what is on it (and on its partitions) first",
            (Op::Open, libc::ENOTBLK) => "name a block device, such as /dev/loop3",
            (Op::Open, libc::EMFILE) => "raise the limit of open files (ulimit -n)",
            (
                Op::MakeDir | Op::RemoveDir | Op::Write | Op::Open | Op::Read | Op::List,
                libc::EACCES | libc::EPERM,
            ) => "run as root, or as the user who owns it",
            (Op::Write, libc::ENOSPC | libc::EDQUOT) => "make room there, or write less or elsewhere",
            (Op::Write, libc::EINVAL) => "the kernel does not accept this value there",
            (Op::Read | Op::Write | Op::Open | Op::List, libc::ENOENT) => {
                "this kernel does not offer it; `surety doctor` lists what this machine can do"
            }
            _ => return None,
        })
    }
}

/// The kernel refused: the operation, its object, the error number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct KernelError {
    /// What was tried.
    pub operation: Operation,
    /// Of which thread, process or file.
    pub object: String,
    /// The kernel's error number, `libc::E*`.
    pub errno: i32,
}

impl KernelError {
    /// An error of an operation on an object.
    pub fn new(operation: Operation, object: impl Into<String>, errno: i32) -> KernelError {
        KernelError { operation, object: object.into(), errno }
    }

    /// From the standard library's error; one that has no error number becomes EIO.
    pub fn from_io(operation: Operation, object: impl Into<String>, error: &io::Error) -> KernelError {
        let errno = error.raw_os_error().unwrap_or(match error.kind() {
            io::ErrorKind::NotFound => libc::ENOENT,
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => libc::EINVAL,
            _ => libc::EIO,
        });
        KernelError::new(operation, object, errno)
    }

    /// Whether the object does not exist, or no longer.
    pub fn is_gone(&self) -> bool {
        matches!(self.errno, libc::ESRCH | libc::ENOENT | libc::ENODEV)
    }

    /// Whether what was asked for is taken by others now.
    pub fn is_busy(&self) -> bool {
        self.errno == libc::EBUSY
    }

    /// Whether a privilege is missing.
    pub fn is_refused(&self) -> bool {
        matches!(self.errno, libc::EPERM | libc::EACCES)
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = io::Error::from_raw_os_error(self.errno).to_string();
        // The standard library appends "(os error N)", which tells a reader nothing.
        let reason = reason.split(" (os error").next().unwrap_or(&reason);
        write!(f, "{} {} failed: {}", self.operation.phrase(), self.object, reason)?;
        match self.operation.remedy(self.errno) {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

/// The calling thread's `errno`.
pub(crate) fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// Turns the `-1 and errno` convention into a result.
pub(crate) fn check(value: libc::c_long) -> Result<libc::c_long, i32> {
    if value < 0 { Err(last_errno()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_sentence_that_ends_with_its_remedy() {
        let cases = [
            (Operation::SetDeadline, libc::EPERM, "root domain"),
            (Operation::SetDeadline, libc::EBUSY, "surety doctor"),
            (Operation::SetDeadline, libc::EINVAL, "1024 ns"),
            (Operation::SetRealtime, libc::EPERM, "RLIMIT_RTPRIO"),
            (Operation::ReadScheduler, libc::ESRCH, "ended"),
            (Operation::OpenPerf, libc::EACCES, "perf_event_paranoid"),
        ];
        for (operation, errno, part) in cases {
            let text = KernelError::new(operation, "thread 7", errno).to_string();
            assert!(text.contains("thread 7"), "{text}");
            assert!(text.contains(part), "{text}");
            assert!(!text.contains("os error"), "{text}");
        }
    }
}
