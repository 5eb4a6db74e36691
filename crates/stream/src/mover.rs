//! [`Mover`]: carries transfers out, by io_uring where the kernel has it, else one after another in the calling thread.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;

use surety_kernel::KernelError;
use surety_kernel::ring::{Action, Bell, Completed, Ring, Transfer};
use surety_units::Nanos;

/// Transfers under way, and how.
#[derive(Debug)]
pub(crate) enum Mover {
    Ring(Box<Ring>),
    /// What was carried out and not looked at yet.
    Blocking {
        bell: Bell,
        done: VecDeque<Completed>,
    },
}

impl Mover {
    /// For so many transfers at a time; and why they go one after another, where they do.
    pub(crate) fn new(depth: u32, bell: Bell) -> (Mover, Option<KernelError>) {
        match Ring::new(depth, bell.clone()) {
            Ok(ring) => (Mover::Ring(Box::new(ring)), None),
            Err(error) => (Mover::blocking(bell), Some(error)),
        }
    }

    pub(crate) fn blocking(bell: Bell) -> Mover {
        Mover::Blocking { bell, done: VecDeque::new() }
    }

    /// Whether each is over when it is begun.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self, Mover::Blocking { .. })
    }

    /// Begins a transfer.
    ///
    /// # Errors
    /// It comes back, with why.
    pub(crate) fn submit(&mut self, mut transfer: Transfer) -> Result<(), (Transfer, KernelError)> {
        match self {
            Mover::Ring(ring) => ring.submit(transfer),
            Mover::Blocking { done, .. } => {
                let (file, offset, length) = (&transfer.file, transfer.offset, transfer.length);
                let moved = match transfer.action {
                    Action::Read => file.read_at(&mut transfer.pages[..length], offset),
                    Action::Write => file.write_at(&transfer.pages[..length], offset),
                    Action::Sync => file.sync_data().map(|()| 0),
                };
                let result = moved.map_err(|error| error.raw_os_error().unwrap_or(0));
                done.push_back(Completed { transfer, result });
                Ok(())
            }
        }
    }

    /// The next that is complete; `None` when the bell rang, after a time (`None`: any), or after a signal.
    ///
    /// # Errors
    /// The ring is of no use any more.
    pub(crate) fn wait(&mut self, within: Option<Nanos>) -> Result<Option<Completed>, KernelError> {
        match self {
            Mover::Ring(ring) => ring.wait(within),
            Mover::Blocking { bell, done } => {
                if done.is_empty() {
                    bell.wait(within);
                }
                Ok(done.pop_front())
            }
        }
    }
}
