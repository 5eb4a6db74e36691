//! Threads of a run: made, and read back.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use surety_enforce::describe;
use surety_kernel::error::KernelError;
use surety_kernel::io_priority::{IoPriority as Given, own_io_priority, set_own_io_priority};
use surety_kernel::{Kernel, thread};
use surety_model::record::ThreadInForce;
use surety_model::workload::IoPriority;
use surety_model::world::WorldError;
use surety_units::{Nanos, Tid};

use crate::window::Gate;

/// An I/O priority in the words of the kernel.
pub(crate) fn given_of(wanted: IoPriority) -> Given {
    match wanted {
        IoPriority::Realtime(level) => Given::Realtime(level),
        IoPriority::BestEffort(level) => Given::BestEffort(level),
        IoPriority::Idle => Given::Idle,
    }
}

/// Gives the calling thread the I/O priority of its activity, where it has one: what failed and what to do about it.
pub(crate) fn give_io_priority(wanted: Option<IoPriority>) -> Result<(), (String, String)> {
    let Some(wanted) = wanted else { return Ok(()) };
    let given = given_of(wanted);
    let failed = |error: KernelError| {
        let remedy = "run as root, or leave `io-priority` out".to_owned();
        (format!("it could not be given the I/O priority {wanted}: {error}"), remedy)
    };
    set_own_io_priority(given).map_err(failed)?;
    match own_io_priority().map_err(failed)? {
        found if found == given => Ok(()),
        found => Err((
            format!("it was given the I/O priority {wanted}, and has {found:?}"),
            "leave `io-priority` out".to_owned(),
        )),
    }
}

/// The timer slack of a thread of which nothing else is said: the least there is.
pub(crate) const SLACK: Nanos = Nanos::new(1);
/// Stack of a thread of ours: its loops need little, and locked memory is not for free.
const STACK: usize = 256 << 10;
/// A thread of ours: named, with exact timers and no page fault ahead, its id known before it works. When it is done it says
/// at the gate what it still had.
pub(crate) fn spawn_thread<T: Send + 'static>(
    name: &str,
    gate: &Arc<Gate>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<(Tid, JoinHandle<T>), WorldError> {
    spawn_with_slack(name, gate, SLACK, body)
}

/// The same with timers that may be so late.
pub(crate) fn spawn_with_slack<T: Send + 'static>(
    name: &str,
    gate: &Arc<Gate>,
    slack: Nanos,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<(Tid, JoinHandle<T>), WorldError> {
    let (sender, receiver) = mpsc::channel();
    let (own_name, gate) = (name.to_owned(), Arc::clone(gate));
    let spawned = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        // A thread without its name or with inexact timers still runs; the record shows what it got.
        let _ = thread::set_name(&own_name);
        let _ = thread::set_timer_slack(slack);
        thread::prefault_stack();
        let _ = sender.send(thread::own_tid());
        let result = body();
        gate.leave();
        result
    });
    let handle = spawned.map_err(|error| WorldError::Machine {
        what: format!("no thread could be made for `{name}`: {error}"),
        remedy: "raise the limit of processes (ulimit -u) or ask for fewer instances".to_owned(),
    })?;
    let tid = receiver.recv().map_err(|_| WorldError::Machine {
        what: format!("the thread of `{name}` ended before it began"),
        remedy: "run again; report it if it repeats".to_owned(),
    })?;
    Ok((tid, handle))
}

/// What the kernel says about a thread, now. Whether that is what was asked for the inspector says.
pub(crate) fn thread_in_force(kernel: &dyn Kernel, activity: &str, tid: Tid) -> ThreadInForce {
    let attr = kernel.scheduler(tid).ok();
    ThreadInForce {
        activity: activity.to_owned(),
        tid: Some(tid),
        policy: attr.as_ref().map_or_else(|| "gone".to_owned(), describe),
        affinity: kernel.affinity(tid).unwrap_or_default(),
        as_requested: true,
    }
}

/// What is said of a thread with its timer slack, where it was asked for one. The kernel gives realtime and deadline threads none.
pub(crate) fn with_slack(kernel: &dyn Kernel, asked: Option<Nanos>, thread: ThreadInForce) -> ThreadInForce {
    let Some((asked, tid)) = asked.zip(thread.tid) else { return thread };
    let text = kernel.read_text(Path::new(&format!("/proc/{tid}/timerslack_ns")));
    let found = text.ok().and_then(|text| text.trim().parse().ok()).map(Nanos::new);
    let words = found.map_or_else(|| "not known".to_owned(), Nanos::to_exact_string);
    let policy = format!("{}, timer slack {words}", thread.policy);
    let is_exact = found == Some(Nanos::ZERO);
    ThreadInForce {
        policy,
        as_requested: thread.as_requested && (found == Some(asked) || is_exact),
        ..thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_io_priority_of_its_activity() {
        for wanted in [IoPriority::BestEffort(6), IoPriority::Idle] {
            let given = std::thread::spawn(move || (give_io_priority(Some(wanted)), own_io_priority()));
            let (result, found) = given.join().expect("it ends");
            assert_eq!(result, Ok(()));
            assert_eq!(matches!(found, Ok(Given::Idle)), wanted == IoPriority::Idle, "{found:?}");
        }
    }
}
