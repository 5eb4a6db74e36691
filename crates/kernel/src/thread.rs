//! The calling thread: its number, name, timer slack and memory.

use std::ffi::CString;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use rustix::mm::MlockAllFlags;
use rustix::process::{Resource, getrlimit};
use surety_units::{CpuSet, Nanos, Tid};

use crate::command::of_status;
use crate::error::{KernelError, Operation};
use crate::schedstat::Schedstat;

/// The calling thread's number.
pub fn own_tid() -> Tid {
    crate::real::own_tid()
}

/// Names the calling thread for traces and `ps`; the kernel keeps 15 bytes, and what follows a NUL is cut.
pub fn set_name(name: &str) -> Result<(), KernelError> {
    let bytes: Vec<u8> = name.bytes().take_while(|b| *b != 0).collect();
    let name = CString::new(bytes).expect("bytes before the first NUL hold none");
    rustix::thread::set_name(&name)
        .map_err(|e| KernelError::new(Operation::Prctl, "the thread's name", e.raw_os_error()))
}

/// How much later than asked the calling thread's sleeps may end so that timers can be joined; 50 us by default,
/// at least 1 ns. Real-time and deadline threads have none.
pub fn set_timer_slack(slack: Nanos) -> Result<(), KernelError> {
    // A slack of 0 would restore the default.
    let slack = NonZeroU64::new(slack.get_unsigned()).unwrap_or(NonZeroU64::MIN);
    rustix::thread::set_current_timer_slack(Some(slack))
        .map_err(|e| KernelError::new(Operation::Prctl, "the timer slack", e.raw_os_error()))
}

/// The calling thread's timer slack.
pub fn timer_slack() -> Result<Nanos, KernelError> {
    let slack = rustix::thread::current_timer_slack();
    let failed = |errno| KernelError::new(Operation::Prctl, "the timer slack", errno);
    let slack = slack.map_err(|error| failed(error.raw_os_error()))?;
    Ok(Nanos::new(i64::try_from(slack).unwrap_or(i64::MAX)))
}

/// Says that the calling thread is a part of a disk: memory it asks for is not had by writing to disks, which could wait for this very
/// thread, and its own writes are not slowed down for theirs (PR_SET_IO_FLUSHER).
///
/// # Errors
/// EPERM without CAP_SYS_RESOURCE, EINVAL before Linux 5.6.
pub fn serve_disks() -> Result<(), KernelError> {
    rustix::process::configure_io_flusher_behavior(true)
        .map_err(|e| KernelError::new(Operation::Prctl, "the thread's memory", e.raw_os_error()))
}

/// Keeps all memory of the process, now and later, out of swap and faulted in. Undone by [`unlock_memory`].
///
/// Only where locking has no limit: under one, a process that fits today dies of the first stack or buffer that does
/// not, because memory that may not be locked is not given at all.
///
/// # Errors
/// ENOMEM where RLIMIT_MEMLOCK is a limit and CAP_IPC_LOCK is missing.
pub fn lock_memory() -> Result<(), KernelError> {
    if !may_lock_without_limit() {
        return Err(KernelError::new(Operation::LockMemory, "the process", libc::ENOMEM));
    }
    rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|e| KernelError::new(Operation::LockMemory, "the process", e.raw_os_error()))
}

/// Undoes [`lock_memory`].
pub fn unlock_memory() {
    let _ = rustix::mm::munlockall();
}

/// How long the calling thread has wanted a CPU and had none, since it began; `None` where the kernel does not count
/// that (`CONFIG_SCHED_INFO`).
pub fn own_wait_time() -> Option<Nanos> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Schedstat::parse(&text)?.waited)
}

/// The same of the thread that made it, for one that asks often: its file stays open.
#[derive(Debug)]
pub struct OwnWaits(File);

impl OwnWaits {
    /// Of the calling thread; `None` as with [`own_wait_time`].
    pub fn open() -> Option<OwnWaits> {
        let waits = OwnWaits(File::open("/proc/thread-self/schedstat").ok()?);
        waits.so_far().map(|_| waits)
    }

    /// How long it has wanted a CPU and had none, since it began.
    pub fn so_far(&self) -> Option<Nanos> {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0).ok()?;
        Some(Schedstat::parse(std::str::from_utf8(&text[..length]).ok()?)?.waited)
    }
}

/// Gives the calling thread these CPUs.
///
/// # Errors
/// EINVAL where none of them is online and allowed to it, EBUSY for a thread with a reservation.
pub fn set_own_affinity(cpus: &CpuSet) -> Result<(), KernelError> {
    crate::sched::write_affinity(own_tid(), cpus)
}

/// Lets another thread of the same CPU run first, where one waits (`sched_yield`).
pub fn give_way() {
    rustix::thread::sched_yield();
}

/// Touches 128 KiB of the calling thread's stack so that measured code takes no page fault there.
#[inline(never)]
pub fn prefault_stack() {
    let mut pages = [0_u8; 128 * 1024];
    for byte in pages.iter_mut().step_by(4096) {
        // A volatile write cannot be optimised away.
        // SAFETY: `byte` is a valid exclusive reference.
        unsafe { std::ptr::write_volatile(byte, 1) };
    }
    std::hint::black_box(&pages);
}

/// `include/uapi/linux/capability.h`.
pub(crate) const CAP_IPC_LOCK: u32 = 14;

/// Whether this process may lock whatever it will ever map: CAP_IPC_LOCK, or no RLIMIT_MEMLOCK.
fn may_lock_without_limit() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    of_status(&status, "CapEff:").0 & (1 << CAP_IPC_LOCK) != 0
        || getrlimit(Resource::Memlock).current.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_slack_are_the_threads_own() {
        let before = timer_slack().unwrap();
        let other = std::thread::spawn(|| {
            set_name("surety-name-longer-than-15").unwrap();
            set_timer_slack(Nanos::new(1)).unwrap();
            let comm = std::fs::read_to_string(format!("/proc/self/task/{}/comm", own_tid())).unwrap();
            prefault_stack();
            (comm, timer_slack().unwrap(), own_tid())
        });
        let (comm, slack, tid) = other.join().unwrap();
        assert_eq!(comm, "surety-name-lon\n");
        assert_eq!(slack, Nanos::new(1));
        assert_ne!(tid, own_tid());
        assert_eq!(timer_slack().unwrap(), before);
    }

    #[test]
    fn memory_is_locked_or_the_limit_is_named() {
        // Under a small limit the refusal must say what to raise; later tests must not run locked.
        match lock_memory() {
            Ok(()) => {
                // Locked under a limit, the next thread's stack would be refused and the process die of it.
                assert!(may_lock_without_limit());
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let locked = status.lines().find_map(|l| l.strip_prefix("VmLck:")).unwrap();
                unlock_memory();
                assert_ne!(locked.trim(), "0 kB");
            }
            Err(error) => assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}"),
        }
    }
}
