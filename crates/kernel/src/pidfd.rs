//! Processes by descriptor.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use surety_units::Tid;

use crate::error::{KernelError, Operation, check};

/// A descriptor of a process, which no later process with its number can take over.
pub(crate) fn open_pidfd(pid: Tid) -> Result<OwnedFd, KernelError> {
    let opened = Pid::from_raw(pid.0).ok_or(Errno::INVAL).and_then(|p| pidfd_open(p, PidfdFlags::empty()));
    opened.map_err(|e| KernelError::new(Operation::Signal, format!("process {pid}"), e.raw_os_error()))
}

/// Signals the process behind a descriptor; `false` when it has ended.
pub(crate) fn send_signal(descriptor: &OwnedFd, pid: Tid, signal: i32) -> Result<bool, KernelError> {
    // SAFETY: the descriptor is open; a null `siginfo` asks the kernel to fill in the usual one.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            descriptor.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0_u32,
        )
    };
    match check(result) {
        Ok(_) => Ok(true),
        Err(libc::ESRCH) => Ok(false),
        Err(errno) => Err(KernelError::new(Operation::Signal, format!("process {pid}"), errno)),
    }
}
