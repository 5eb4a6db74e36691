//! [`RealKernel`]: this machine.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, mpsc};

use surety_units::{CpuSet, Nanos, Tid};

use crate::clock;
use crate::error::{KernelError, Operation};
use crate::files;
use crate::kernel::{Kernel, ProcessIdentity, SleepingThread};
use crate::pidfd::{open_pidfd, send_signal};
use crate::sched::{self, SchedAttr, SchedPolicy};
use crate::tracefs::Tracefs;

/// The machine this program runs on.
#[derive(Default)]
pub struct RealKernel {
    base_slice: OnceLock<Option<Nanos>>,
    tracefs: Mutex<Option<Tracefs>>,
}

impl RealKernel {
    /// This machine. Asks nothing yet.
    pub fn new() -> RealKernel {
        RealKernel::default()
    }

    /// The slice of a fair thread that asked for none; `None` when this kernel does not say (before 6.12).
    pub fn base_slice(&self) -> Option<Nanos> {
        *self.base_slice.get_or_init(|| {
            // The kernel's own thread that starts others never asks for a slice; in a PID namespace without it,
            // the first process stands in.
            [Tid(2), Tid(1)].into_iter().find_map(|tid| match sched::read_attr(tid).ok()?.policy {
                SchedPolicy::Other { slice, .. } => slice,
                _ => None,
            })
        })
    }
}

impl Kernel for RealKernel {
    fn scheduler(&self, tid: Tid) -> Result<SchedAttr, KernelError> {
        sched::read_attr(tid).map(|attr| self.as_told(attr))
    }

    fn as_told(&self, mut attr: SchedAttr) -> SchedAttr {
        if let SchedPolicy::Other { slice, .. } = &mut attr.policy
            && *slice == self.base_slice()
        {
            *slice = None;
        }
        attr
    }

    fn set_scheduler_directly(&self, tid: Tid, attr: &SchedAttr) -> Result<(), KernelError> {
        sched::write_attr(tid, attr)
    }

    fn affinity(&self, tid: Tid) -> Result<CpuSet, KernelError> {
        sched::read_affinity(tid)
    }

    fn set_affinity(&self, tid: Tid, cpus: &CpuSet) -> Result<(), KernelError> {
        sched::write_affinity(tid, cpus)
    }

    fn read_text(&self, path: &Path) -> Result<String, KernelError> {
        files::read_text(path)
    }

    fn write_text(&self, path: &Path, text: &str) -> Result<(), KernelError> {
        files::write_text(path, text)
    }

    fn list_dir(&self, path: &Path) -> Result<Vec<String>, KernelError> {
        files::list_dir(path)
    }

    fn make_dir(&self, path: &Path) -> Result<(), KernelError> {
        files::make_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<(), KernelError> {
        files::remove_dir(path)
    }

    fn remove_tree(&self, path: &Path) -> Result<(), KernelError> {
        files::remove_tree(path)
    }

    fn unmount(&self, place: &Path) -> Result<(), KernelError> {
        crate::mount::unmount(place, true)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn signal(&self, process: ProcessIdentity, signal: i32) -> Result<bool, KernelError> {
        let descriptor = match open_pidfd(process.pid) {
            Err(error) if error.errno == libc::ESRCH => return Ok(false),
            opened => opened?,
        };
        // The descriptor pins whoever has the number now; only then is the start time worth comparing.
        match self.identity(process.pid) {
            Ok(now) if now == process => send_signal(&descriptor, process.pid, signal),
            Ok(_) => Ok(false),
            Err(error) if error.is_gone() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn sleeping_thread(&self) -> Result<SleepingThread, KernelError> {
        let (tell, told) = mpsc::channel();
        let (wake, sleep) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("surety-sleeper".to_owned())
            .stack_size(64 * 1024)
            .spawn(move || {
                let _ = tell.send(own_tid());
                // Ends when the other side is dropped.
                let _ = sleep.recv();
            })
            .map_err(|error| KernelError::from_io(Operation::Spawn, "a sleeping thread", &error))?;
        let tid =
            told.recv().map_err(|_| KernelError::new(Operation::Spawn, "a sleeping thread", libc::EIO))?;
        let wake = move || {
            drop(wake);
            let _ = thread.join();
        };
        Ok(SleepingThread::new(tid, Box::new(wake)))
    }

    fn tracefs_root(&self) -> Result<PathBuf, KernelError> {
        let mut tracefs = self.tracefs.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(tracefs) = &*tracefs {
            return Ok(tracefs.root().to_owned());
        }
        let opened = Tracefs::open()?;
        let root = opened.root().to_owned();
        *tracefs = Some(opened);
        Ok(root)
    }

    fn own_pid(&self) -> Tid {
        Tid(i32::try_from(std::process::id()).expect("process numbers are positive 32-bit integers"))
    }

    fn own_tid(&self) -> Tid {
        own_tid()
    }

    fn effective_user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn monotonic(&self) -> Nanos {
        clock::monotonic()
    }

    fn pause(&self, time: Nanos) {
        if time.is_positive() {
            // One that ends early leaves the thread to the next look, or to a try that is looked at.
            let _ = clock::sleep_for(time);
        }
    }
}

/// The calling thread's number.
pub(crate) fn own_tid() -> Tid {
    Tid(rustix::thread::gettid().as_raw_pid())
}
