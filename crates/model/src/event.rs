//! What happens on a machine, event by event: the words a trace is written in.
//!
//! The kernel's tracer and the simulator both speak in these, so one analysis reads either. Names and meanings
//! follow the kernel's own trace events (`include/trace/events/sched.h`, `irq.h`, `timer.h`, `block.h`).

mod block;
mod note;
mod span;

use std::fmt;

use serde::{Deserialize, Serialize};
use surety_units::{CpuId, Nanos, Tid};

pub use block::{BlockEvent, BlockStep, DiskNumber, GuestDisk, RequestServed, Rwbs};
pub use note::ThreadNote;
pub use span::{Span, SpanFate, SpanMarker};

/// A thread's name as the kernel keeps it: up to 15 bytes, zero padded.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// From text; what does not fit in 15 bytes is cut, as the kernel does.
    pub fn new(name: &str) -> Comm {
        let mut bytes = [0; 16];
        let kept = name.len().min(15);
        bytes[..kept].copy_from_slice(&name.as_bytes()[..kept]);
        Comm(bytes)
    }

    /// The name as text; bytes that are no UTF-8 are replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(16);
        String::from_utf8_lossy(&self.0[..end])
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// Why a thread left its CPU, from the event's own flag table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaveState {
    /// Still wanted to run: preempted (`R+`), yielded or throttled (`R`).
    Runnable {
        /// The kernel marked it preempted (`R+`).
        preempted: bool,
    },
    /// Waits and a signal may wake it (`S`).
    Sleeping,
    /// Waits and no signal wakes it (`D`).
    Uninterruptible,
    /// Stopped or traced (`T`, `t`).
    Stopped,
    /// Gone (`X`, `Z`).
    Dead,
    /// Parked or idle kernel thread, or a letter this program does not know.
    Other(u8),
}

impl LeaveState {
    /// Whether the thread gave up the CPU by its own will: its job may be over.
    pub fn is_blocked(self) -> bool {
        !matches!(self, LeaveState::Runnable { .. })
    }
}

/// A thread as a wake-up event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The thread.
    pub tid: Tid,
    /// Its name.
    pub comm: Comm,
    /// The kernel's internal priority: below 0 deadline, 0..=98 realtime, 100..=139 fair.
    pub prio: i32,
    /// The CPU it is put on.
    pub target: CpuId,
}

/// What a kernel timer is for, as far as the function it calls tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimerFunction {
    /// `dl_task_timer`: replenishes a throttled deadline task, or the fair server of a CPU.
    DeadlineReplenish,
    /// `hrtimer_wakeup`: wakes a sleeper.
    Wakeup,
    /// `tick_sched_timer` / `tick_nohz_handler`: the tick.
    Tick,
    /// Any other.
    Other,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// When, on the trace's clock.
    pub time: Nanos,
    /// Where.
    pub cpu: CpuId,
    /// The thread that was current then (the event's `common_pid`).
    pub current: Tid,
    pub kind: EventKind<'a>,
}

/// The kinds of event Surety reasons with. Others are skipped by their length and counted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// `sched_switch`: a CPU changes hands.
    Switch {
        /// The thread that leaves.
        prev: Tid,
        /// Its name.
        prev_comm: Comm,
        /// Its priority.
        prev_prio: i32,
        /// Why it leaves.
        prev_state: LeaveState,
        /// The thread that enters.
        next: Tid,
        /// Its name.
        next_comm: Comm,
        /// Its priority.
        next_prio: i32,
    },
    /// `sched_waking`: the request to wake, in the waker's context. A job's release.
    Waking(Woken),
    /// `sched_wakeup`: the thread is enqueued.
    Wakeup(Woken),
    /// `sched_wakeup_new`: a new thread is enqueued for the first time.
    WakeupNew(Woken),
    /// `sched_migrate_task`.
    Migrate {
        /// The thread.
        tid: Tid,
        /// Its name.
        comm: Comm,
        from: CpuId,
        to: CpuId,
    },
    /// `sched_process_fork`.
    Fork {
        /// Who forked.
        parent: Tid,
        /// The new thread.
        child: Tid,
        /// Its name.
        child_comm: Comm,
    },
    /// `sched_process_exec`.
    Exec {
        /// The thread, with its new program.
        tid: Tid,
        /// Its id before, when a non-leader called exec.
        old: Tid,
    },
    /// `sched_process_exit`.
    Exit {
        /// The thread.
        tid: Tid,
        /// Its last name.
        comm: Comm,
    },
    /// `irq_handler_entry`: a device's handler begins.
    IrqEntry {
        /// The interrupt number.
        irq: u32,
        /// The handler's name.
        name: &'a str,
    },
    /// `irq_handler_exit`.
    IrqExit {
        /// The interrupt number.
        irq: u32,
    },
    /// An `irq_vectors:*_entry`: on x86 the tick, reschedule and call-function interrupts.
    VectorEntry {
        /// The event's name without `_entry`: `local_timer`, `reschedule`, ...
        name: &'static str,
    },
    /// The matching `_exit`.
    VectorExit {
        /// The event's name without `_exit`.
        name: &'static str,
    },
    /// `softirq_raise`.
    SoftirqRaise {
        /// The softirq number (1 TIMER, 2 NET_TX, 3 NET_RX, 4 BLOCK, 7 SCHED, 8 HRTIMER, 9 RCU).
        vector: u32,
    },
    /// `softirq_entry`.
    SoftirqEntry {
        /// The softirq number.
        vector: u32,
    },
    /// `softirq_exit`.
    SoftirqExit {
        /// The softirq number.
        vector: u32,
    },
    /// `timer:hrtimer_start`.
    TimerStart {
        /// The timer's address: its identity.
        timer: u64,
        /// What it will call.
        function: TimerFunction,
        /// When it should expire.
        expires: Nanos,
    },
    /// `timer:hrtimer_cancel`.
    TimerCancel {
        /// The timer's address.
        timer: u64,
    },
    /// `timer:hrtimer_expire_entry`.
    TimerExpire {
        /// The timer's address.
        timer: u64,
        /// What it calls.
        function: TimerFunction,
    },
    /// `power:cpu_frequency`: a CPU's clock changes.
    Frequency {
        /// Whose; the event may come on another CPU.
        of: CpuId,
        /// Its new frequency in kHz.
        khz: u32,
    },
    /// Text written into the trace by a program (`ftrace:print`).
    Marker {
        /// The text without its newline.
        text: &'a str,
    },
    /// Something of the system `block`: a bio or a request goes on its way to a disk and back.
    Block(BlockEvent),
    /// `syscalls:sys_enter_futex`: the current thread asks the kernel to wait or to wake at an address.
    FutexEnter {
        /// The address: the lock's identity within its process.
        address: u64,
        /// What is asked for, with its flags (`include/uapi/linux/futex.h`).
        operation: u32,
        /// The value the operation is given.
        value: u32,
    },
    /// `syscalls:sys_exit_futex`: and it is back.
    FutexExit,
    /// An event of any other kind, as it was recorded. Readers hand these over only when asked.
    Raw(RawEvent<'a>),
    /// The tracer lost events on this CPU before this point.
    Lost {
        /// How many, where the tracer knows.
        count: Option<u64>,
    },
}

/// Whether a futex call waits for a lock, and not for work: the operations of locks with inheritance, and the wait of glibc's
/// ordinary locks, which expect 2, "taken, with waiters", at their address. Condition variables and semaphores wait by other
/// operations or for other values.
pub fn waits_for_lock(operation: u32, value: u32) -> bool {
    const WAIT: u32 = 0;
    const LOCK_PI: u32 = 6;
    const LOCK_PI2: u32 = 13;
    // FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
    match operation & !(128 | 256) {
        LOCK_PI | LOCK_PI2 => true,
        WAIT => value == 2,
        _ => false,
    }
}

/// A record that is not decoded, with what is needed to decode it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// `system:name`.
    pub name: &'a str,
    /// The kernel's text of its format.
    pub format: &'a str,
    /// The bytes, common fields first.
    pub record: &'a [u8],
    /// Their numbers begin with the lowest byte.
    pub is_little_endian: bool,
}

/// Somebody who wants events as they come: a recorder, a job builder, a file writer.
pub trait TraceSink {
    /// Takes one event. Times never go back within one CPU; sinks that need a global order say so.
    fn event(&mut self, event: &Event<'_>);

    /// What a run observes begins and ends at these instants of the events' clock; a trace file says nothing of it.
    fn observes(&mut self, _window: (Nanos, Nanos)) {}
}

impl<F: FnMut(&Event<'_>)> TraceSink for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}

/// The text of a job marker: how a synthetic task says in the trace where a job begins and ends, so that busy
/// periods that hold several releases can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobMarker {
    /// Job `job` of the writing thread starts its work; its planned release was `release`.
    Begin {
        /// The job's index from 0.
        job: u64,
        /// The planned release on the trace's clock.
        release: Nanos,
    },
    /// Job `job` is done.
    End {
        /// The job's index.
        job: u64,
    },
}

impl JobMarker {
    /// Writes the marker's text into `buffer` without allocating and returns its length.
    pub fn write(self, buffer: &mut [u8; 64]) -> usize {
        use std::io::Write as _;
        let mut cursor = std::io::Cursor::new(&mut buffer[..]);
        let written = match self {
            JobMarker::Begin { job, release } => write!(cursor, "surety:b:{job}:{}", release.get()),
            JobMarker::End { job } => write!(cursor, "surety:e:{job}"),
        };
        written.expect("two integers and a tag fit 64 bytes");
        usize::try_from(cursor.position()).expect("at most 64")
    }

    /// Reads a marker's text; `None` when it is somebody else's.
    pub fn parse(text: &str) -> Option<JobMarker> {
        let mut parts = text.trim_end().strip_prefix("surety:")?.split(':');
        let (kind, job) = (parts.next()?, parts.next()?.parse().ok()?);
        match (kind, parts.next(), parts.next()) {
            ("b", Some(release), None) => {
                Some(JobMarker::Begin { job, release: Nanos::new(release.parse().ok()?) })
            }
            ("e", None, None) => Some(JobMarker::End { job }),
            _ => None,
        }
    }
}

/// A marker that says how much CPU time a job used, by the thread's own clock: what the kernel charges to a budget.
/// Time that a hypervisor takes is in what a trace shows and not in this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobUse {
    /// The job's index.
    pub job: u64,
    /// CPU time used.
    pub cpu: Nanos,
}

impl JobUse {
    /// Writes the marker's text into `buffer` without allocating and returns its length.
    pub fn write(self, buffer: &mut [u8; 64]) -> usize {
        use std::io::Write as _;
        let mut cursor = std::io::Cursor::new(&mut buffer[..]);
        write!(cursor, "surety:u:{}:{}", self.job, self.cpu.get())
            .expect("two integers and a tag fit 64 bytes");
        usize::try_from(cursor.position()).expect("at most 64")
    }

    /// Reads a marker's text; `None` when it is another's.
    pub fn parse(text: &str) -> Option<JobUse> {
        let (job, cpu) = text.trim_end().strip_prefix("surety:u:")?.split_once(':')?;
        Some(JobUse { job: job.parse().ok()?, cpu: Nanos::new(cpu.parse().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_like_the_kernels() {
        assert_eq!(Comm::new("a-very-long-thread-name").text(), "a-very-long-thr");
        assert_eq!(Comm::new("").text(), "");
    }

    #[test]
    fn locks_are_told_from_other_waits() {
        for (operation, value, is_lock) in [
            (0, 2, true),
            (128, 2, true),
            (128, 0, false),
            (6, 0, true),
            (6 | 128, 0, true),
            (13 | 128 | 256, 0, true),
            // FUTEX_WAKE, FUTEX_WAIT_BITSET of a condition variable, FUTEX_UNLOCK_PI.
            (1 | 128, 2, false),
            (9 | 128 | 256, 2, false),
            (7, 2, false),
        ] {
            assert_eq!(waits_for_lock(operation, value), is_lock, "{operation} {value}");
        }
    }

    #[test]
    fn use_markers_read_back_and_are_no_job_markers() {
        let used = JobUse { job: 7, cpu: Nanos::from_millis(14) };
        let mut buffer = [0; 64];
        let length = used.write(&mut buffer);
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        assert_eq!((JobUse::parse(text), JobMarker::parse(text)), (Some(used), None));
        assert_eq!(JobUse::parse("surety:e:7"), None);
    }

    #[test]
    fn markers_read_back() {
        for marker in [
            JobMarker::Begin { job: 0, release: Nanos::new(i64::MAX) },
            JobMarker::Begin { job: u64::MAX, release: Nanos::new(-1) },
            JobMarker::End { job: 17 },
        ] {
            let mut buffer = [0; 64];
            let length = marker.write(&mut buffer);
            let text = std::str::from_utf8(&buffer[..length]).unwrap();
            assert_eq!(JobMarker::parse(text), Some(marker));
        }
        for other in ["", "surety:", "surety:b:1", "surety:e:1:2", "surety:x:1", "hello"] {
            assert_eq!(JobMarker::parse(other), None, "{other}");
        }
    }
}
