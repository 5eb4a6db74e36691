//! [`Recorder`]: what happened on a machine, as a hash always and as events when somebody wants them.
//!
//! Events are kept until the machine has worked off one instant of one slot and are then handed on, so that the
//! policies need no access to the observer. Without an observer only the hash is made.

use surety_model::event::{Comm, Event, EventKind, JobMarker, LeaveState, TimerFunction, Woken};
use surety_model::world::Observer;
use surety_units::{CpuId, Nanos, Tid};

use crate::cpu::at_disk::AtDisk;

/// A thread as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its id.
    pub tid: Tid,
    /// Its name.
    pub comm: Comm,
    /// The kernel's internal priority.
    pub prio: i32,
}

impl Named {
    /// The thread a CPU runs when it has nothing to run.
    pub fn idle(cpu: CpuId) -> Named {
        Named { tid: Tid::IDLE, comm: Comm::new(&format!("swapper/{cpu}")), prio: 120 }
    }
}

/// What is kept of an event until it is handed on; the name of a handler is the number that [`Recorder::add_name`] gave.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Switch { prev: Named, state: LeaveState, next: Named },
    Waking { thread: Named, target: CpuId },
    Wakeup { thread: Named, target: CpuId },
    Migrate { thread: Named, from: CpuId, to: CpuId },
    TimerStart { timer: u64, expires: Nanos },
    TimerExpire { timer: u64 },
    Tick { entry: bool },
    Handler { irq: u32, name: usize, entry: bool },
    Marker(JobMarker),
    AtDisk(AtDisk),
}

#[derive(Clone, Copy, Debug)]
struct Line {
    time: Nanos,
    cpu: CpuId,
    current: Tid,
    kept: Kept,
}

/// Keeps the hash and, when asked to, the events.
#[derive(Clone, Debug)]
pub struct Recorder {
    wanted: bool,
    hash: u64,
    lines: Vec<Line>,
    names: Vec<String>,
    activities: Vec<String>,
}

/// The multiplier of the 64-bit FNV hash.
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
/// The starting value of the 64-bit FNV hash.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

impl Recorder {
    /// An empty one.
    pub fn new(wanted: bool) -> Recorder {
        Recorder { wanted, hash: FNV_OFFSET, lines: Vec::new(), names: Vec::new(), activities: Vec::new() }
    }

    /// Whether events are kept.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Takes a word into the hash: FNV-1a over 64-bit words, with the upper half folded down so that every bit
    /// of a word reaches every bit of the hash.
    pub fn mix(&mut self, word: u64) {
        let mixed = (self.hash ^ word).wrapping_mul(FNV_PRIME);
        self.hash = mixed ^ (mixed >> 32);
    }

    /// The hash of everything mixed in so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Keeps what happened at an instant on a CPU that ran this thread.
    #[inline]
    pub(crate) fn keep(&mut self, at: (Nanos, CpuId, Tid), kept: Kept) {
        if self.wanted {
            self.lines.push(Line { time: at.0, cpu: at.1, current: at.2, kept });
        }
    }

    /// Keeps the name of a hard handler and says by which number handlers are recorded.
    pub fn add_name(&mut self, name: &str) -> usize {
        self.names.push(name.to_owned());
        self.names.len() - 1
    }

    /// Keeps the name of a start-up or a stream and says by which number it is recorded.
    pub fn add_activity(&mut self, name: &str) -> usize {
        self.activities.push(name.to_owned());
        self.activities.len() - 1
    }

    /// A program writes a marker: it goes into the hash as well.
    pub fn marker(&mut self, at: (Nanos, CpuId, Tid), marker: JobMarker) {
        let (kind, job) = match marker {
            JobMarker::Begin { job, .. } => (1, job),
            JobMarker::End { job } => (2, job),
        };
        self.mix(at.0.get_unsigned());
        self.mix(job << 34 ^ u64::from(at.2.0.unsigned_abs()) << 2 ^ kind);
        self.keep(at, Kept::Marker(marker));
    }

    /// Hands everything kept to the observer, in order.
    pub fn hand_on(&mut self, observer: &mut dyn Observer) {
        let mut words = String::new();
        for line in self.lines.drain(..) {
            let mut text = [0; 64];
            let kind = match line.kept {
                Kept::Switch { prev, state, next } => EventKind::Switch {
                    prev: prev.tid,
                    prev_comm: prev.comm,
                    prev_prio: prev.prio,
                    prev_state: state,
                    next: next.tid,
                    next_comm: next.comm,
                    next_prio: next.prio,
                },
                Kept::Waking { thread, target } => EventKind::Waking(woken(thread, target)),
                Kept::Wakeup { thread, target } => EventKind::Wakeup(woken(thread, target)),
                Kept::Migrate { thread, from, to } => {
                    EventKind::Migrate { tid: thread.tid, comm: thread.comm, from, to }
                }
                Kept::TimerStart { timer, expires } => {
                    EventKind::TimerStart { timer, function: TimerFunction::DeadlineReplenish, expires }
                }
                Kept::TimerExpire { timer } => {
                    EventKind::TimerExpire { timer, function: TimerFunction::DeadlineReplenish }
                }
                Kept::Tick { entry: true } => EventKind::VectorEntry { name: "local_timer" },
                Kept::Tick { entry: false } => EventKind::VectorExit { name: "local_timer" },
                Kept::Handler { irq, name, entry: true } => {
                    EventKind::IrqEntry { irq, name: &self.names[name] }
                }
                Kept::Handler { irq, entry: false, .. } => EventKind::IrqExit { irq },
                Kept::AtDisk(AtDisk::Step(event)) => EventKind::Block(event),
                Kept::AtDisk(AtDisk::Served(served)) => {
                    words.clear();
                    served.write(&mut words);
                    EventKind::Marker { text: &words }
                }
                Kept::AtDisk(AtDisk::Guest(guest)) => {
                    words.clear();
                    guest.write(&mut words);
                    EventKind::Marker { text: &words }
                }
                Kept::AtDisk(AtDisk::Span(marker)) => {
                    words.clear();
                    marker.named(|activity| &self.activities[activity]).write(&mut words);
                    EventKind::Marker { text: &words }
                }
                Kept::Marker(marker) => {
                    let length = marker.write(&mut text);
                    let text = std::str::from_utf8(&text[..length]).expect("markers are ASCII");
                    EventKind::Marker { text }
                }
            };
            observer.event(&Event { time: line.time, cpu: line.cpu, current: line.current, kind });
        }
    }
}

fn woken(thread: Named, target: CpuId) -> Woken {
    Woken { tid: thread.tid, comm: thread.comm, prio: thread.prio, target }
}
