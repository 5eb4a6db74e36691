//! [`adopt_orphans`] and [`end_adopted`]: processes whose parents have ended, wherever they hid.
//!
//! A program that puts itself into a session of its own and drops its environment is found neither by its group nor by its
//! mark. But whoever has lost its parent is given another one: the nearest ancestor that asked for it
//! (PR_SET_CHILD_SUBREAPER), and nothing it does changes that.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::process::{getpid, set_child_subreaper};
use surety_units::Tid;

use super::child::kill_and_reap;
use crate::error::{KernelError, Operation};
use crate::files::list_dir;

/// The programs of [`super::spawn`] that have not been reaped.
static STARTED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
/// Whether orphans come to this process.
static ADOPTS: AtomicBool = AtomicBool::new(false);

pub(super) fn started(pid: Tid) {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).insert(pid.0);
}

pub(super) fn reaped(pid: Tid) {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid.0);
}

/// From now on descendants of this process that lose their parent become its children, until it ends itself.
///
/// # Errors
/// None that a kernel since 3.4 has.
pub fn adopt_orphans() -> Result<(), KernelError> {
    set_child_subreaper(Some(getpid()))
        .map_err(|e| KernelError::new(Operation::Spawn, "whoever loses its parent", e.raw_os_error()))?;
    ADOPTS.store(true, Ordering::Relaxed);
    Ok(())
}

/// Kills and reaps every child of this process that it did not start itself, until there is none; how many there were.
/// Nothing where [`adopt_orphans`] was not asked. For a process whose children are all started by [`super::spawn`], or
/// waited for by the thread that calls this.
pub fn end_adopted() -> usize {
    if !ADOPTS.load(Ordering::Relaxed) {
        return 0;
    }
    let mut ended = 0;
    // What is killed leaves its own children behind, which are ours then.
    for _ in 0..1000 {
        let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let adopted: Vec<i32> = children().into_iter().filter(|pid| !started.contains(pid)).collect();
        if adopted.is_empty() {
            break;
        }
        ended += adopted.len();
        for pid in adopted {
            // Ours and not reaped, so the number is its own.
            kill_and_reap(pid);
        }
    }
    ended
}

/// The children of every thread of this process; none where the kernel does not list them (CONFIG_PROC_CHILDREN).
fn children() -> Vec<i32> {
    let threads = list_dir(Path::new("/proc/self/task")).unwrap_or_default();
    let of = |thread: &String| std::fs::read_to_string(format!("/proc/self/task/{thread}/children")).ok();
    let texts: Vec<String> = threads.iter().filter_map(of).collect();
    texts.iter().flat_map(|text| text.split_ascii_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}
