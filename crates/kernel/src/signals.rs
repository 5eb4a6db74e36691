//! [`Interrupt`]: Ctrl-C, SIGTERM and the loss of the terminal as a flag that work in progress looks at.
//!
//! The first signal asks for an orderly end, in which everything is undone. A second one of the kind acts as if
//! nothing were installed and ends the program at once; what was not undone then is in the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{KernelError, Operation};

/// Whether the user, or the system, wants the program to end. Uninstalled on drop.
#[derive(Debug)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
    installed: Vec<SigId>,
}

impl Interrupt {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on; SIGHUP not where it is ignored, as `nohup` has it.
    pub fn install() -> Result<Interrupt, KernelError> {
        let mut interrupt = Interrupt { flag: Arc::new(AtomicBool::new(false)), installed: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| *s != SIGHUP || !is_ignored(*s)) {
            let failed = |error: std::io::Error| {
                KernelError::from_io(Operation::Signal, format!("ourselves, signal {signal},"), &error)
            };
            // Handlers run in the order they were registered: the default acts only when the flag was set before.
            let default =
                signal_hook::flag::register_conditional_default(signal, Arc::clone(&interrupt.flag));
            interrupt.installed.push(default.map_err(failed)?);
            let set = signal_hook::flag::register(signal, Arc::clone(&interrupt.flag));
            interrupt.installed.push(set.map_err(failed)?);
        }
        Ok(interrupt)
    }

    /// Whether a signal came.
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag itself, for [`crate::clock::sleep_until`] and for threads that outlive a borrow.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}

/// What ends others of its terminal does not end this process: Ctrl-C, SIGQUIT, SIGTERM and the loss of the terminal are ignored from now on.
pub fn ignore_endings() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: no handler is installed; the signal is ignored from now on.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Does something while no signal reaches the calling thread; threads that it starts never get one. Those of a library are started so, because
/// the handlers of a program are for the program's own threads.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    struct Before(libc::sigset_t);
    impl Drop for Before {
        fn drop(&mut self) {
            // SAFETY: the set is the one that was in force; the call reads it and keeps nothing.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
        }
    }
    // SAFETY: sets of signals are plain data, for which zero bytes are a value; the calls write the two sets, which are valid over them.
    let _before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        Before(before)
    };
    start()
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: `sigaction` is plain data, for which zero bytes are a value; the place is valid over the call, which changes
    // nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for id in self.installed.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signals that a thread does not get, as the kernel says.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    }

    #[test]
    fn a_thread_that_is_started_without_signals_gets_none() {
        let before = blocked();
        let inside = without_signals(|| std::thread::spawn(blocked)).join().unwrap();
        for signal in [SIGHUP, SIGINT, SIGTERM, libc::SIGALRM, libc::SIGCHLD] {
            assert_ne!(inside & 1 << (signal - 1), 0, "{signal}");
        }
        assert_eq!(blocked(), before);
    }

    #[test]
    fn a_signal_sets_the_flag_and_wakes_a_sleeper() {
        let interrupt = Interrupt::install().unwrap();
        assert!(!interrupt.is_set());
        let flag = interrupt.flag();
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            // SAFETY: takes no argument and cannot fail.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            let hour = crate::clock::monotonic() + surety_units::Nanos::from_secs(3600);
            crate::clock::sleep_until(hour, Some(&flag))
        });
        let thread = told.recv().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: the thread has not been joined, so its handle is valid; the handler only sets a flag.
        unsafe { libc::pthread_kill(thread, SIGTERM) };
        assert_eq!(sleeper.join().unwrap(), Ok(crate::clock::Woken::Cancelled));
        assert!(interrupt.is_set());
    }
}
