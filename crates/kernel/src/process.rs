//! Children of a process with one thread: made by `fork`, without a program of their own, ended with their parent.
//!
//! The loads that make processes run in a small program of their own (never in the one that measures: a fork makes
//! every page of the forking process read-only until it is next written to).

use std::path::Path;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use surety_units::Tid;

use crate::command::die_with_parent;
use crate::error::{KernelError, Operation, last_errno};
use crate::files::list_dir;

/// A child that has not been waited for. Dropping kills and reaps it.
#[derive(Debug)]
pub struct Child {
    pid: Option<Pid>,
}

/// Makes a child that runs `body` and then ends, whatever its parent does: it is killed when the parent's thread
/// ends. Destructors of what the parent owns do not run in the child.
///
/// # Errors
/// EBUSY where the process has more than one thread: what the others hold would be held for ever in the child.
pub fn fork_child(body: impl FnOnce()) -> Result<Child, KernelError> {
    let failed = |errno| KernelError::new(Operation::Spawn, "a child process", errno);
    if list_dir(Path::new("/proc/self/task"))?.len() != 1 {
        return Err(failed(libc::EBUSY));
    }
    fork_child_unchecked(body)
}

/// The same for a caller that knows it has one thread: see [`Forker`].
fn fork_child_unchecked(body: impl FnOnce()) -> Result<Child, KernelError> {
    let parent = std::process::id();
    // SAFETY: the process has one thread (checked by the callers), so the child has all of it and may run any code.
    match unsafe { libc::fork() } {
        0 => {
            // A panic must not go on into the parent's frames.
            let run = std::panic::AssertUnwindSafe(|| {
                if die_with_parent(parent).is_ok() {
                    body();
                }
            });
            let _ = std::panic::catch_unwind(run);
            // SAFETY: takes an integer and does not return; nothing of the parent's is cleaned up twice.
            unsafe { libc::_exit(0) }
        }
        -1 => Err(KernelError::new(Operation::Spawn, "a child process", last_errno())),
        pid => Ok(Child { pid: Pid::from_raw(pid) }),
    }
}

/// Makes children that end at once, many in a row: the check for other threads is made once.
#[derive(Debug)]
pub struct Forker {
    // Not to be made elsewhere, nor sent to another thread, which would be a second one.
    _one_thread: std::marker::PhantomData<*const ()>,
}

impl Forker {
    /// For a process with one thread that makes no others while this lives.
    ///
    /// # Errors
    /// EBUSY where it has more.
    pub fn new() -> Result<Forker, KernelError> {
        match list_dir(Path::new("/proc/self/task"))?.len() {
            1 => Ok(Forker { _one_thread: std::marker::PhantomData }),
            _ => Err(KernelError::new(Operation::Spawn, "children of several threads", libc::EBUSY)),
        }
    }

    /// Makes a child that ends at once, and waits for it.
    pub fn fork_and_wait(&self) -> Result<(), KernelError> {
        fork_child_unchecked(|| ())?.wait()
    }
}

impl Child {
    /// Its number.
    pub fn pid(&self) -> Tid {
        Tid(Pid::as_raw(self.pid))
    }

    /// Waits until it ends.
    pub fn wait(mut self) -> Result<(), KernelError> {
        self.reap()
    }

    fn reap(&mut self) -> Result<(), KernelError> {
        let Some(pid) = self.pid.take() else { return Ok(()) };
        retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))
            .map(|_| ())
            .map_err(|e| KernelError::new(Operation::Wait, format!("process {pid}"), e.raw_os_error()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            // The child has not been reaped, so the number is its own.
            let _ = kill_process(pid, Signal::KILL);
            let _ = self.reap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_threads_is_refused() {
        // The test harness itself has more than one.
        let refused = fork_child(|| ()).unwrap_err();
        assert_eq!((refused.operation, refused.errno), (Operation::Spawn, libc::EBUSY));
        assert_eq!(Forker::new().unwrap_err().errno, libc::EBUSY);
    }
}
