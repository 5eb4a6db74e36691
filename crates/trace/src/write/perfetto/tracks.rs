//! [`Tracks`]: what threads were promised and what they got, as tracks beside the events.
//!
//! Every thread an [`Overlay`] names gets a group of tracks, `NAME TID`:
//! - *reservation*: one slice from its first event to the trace's end, named by runtime, deadline and period;
//! - *budget*: a counter in nanoseconds, by the rules of a constant-bandwidth server (below);
//! - *jobs*: a slice for each job from release to completion, or from the one before, where jobs overlap;
//! - *deadlines*: an instant for each job;
//! - *misses*: a slice from a deadline to the late completion;
//! - *throttled*: a slice while it waits for its budget. Deadline threads that no overlay names have this one too.
//!
//! **Budget** (Abeni and Buttazzo 1998, section 3; `kernel/sched/deadline.c`). The server has a budget q and a deadline d.
//! A thread that wakes at t gets q = Q and d = t + D unless what is left may still be used by d: t < d and
//! q T <= (d - t) Q. Running uses q up; at a replenishment q grows by Q, to Q at most, and d by T. Events do not show q
//! itself, so this is a reckoning: the kernel enforces on the tick, and q may end below 0.
//!
//! Jobs and throttles come from the state machine of [`crate::jobs`]. It runs from the first event on that concerns a
//! thread of an overlay or a deadline thread; a trace with neither costs nothing.

use std::collections::BTreeMap;
use std::io::{self, Write};

use surety_model::event::{Comm, Event, EventKind, Woken};
use surety_model::job::Job;
use surety_model::reservation::Reservation;
use surety_units::{CpuId, Nanos, Tid};

use super::Packets;
use crate::jobs::Machine;
use crate::jobs::interrupts::Context;
use crate::jobs::sink::{JobSink, ThreadKey, ThreadTotals};
use crate::jobs::watch::{Occupant, Seen, Watch, Whereabouts};
use crate::perfetto::{packet, track};

/// Threads that get tracks; further ones are passed over.
const THREADS_MAX: u64 = 1 << 12;

/// Which thread an overlay is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayOf {
    /// The one with this id.
    Thread(Tid),
    /// Every one with this name.
    Named(String),
}

/// What a thread was promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// Which thread.
    pub of: OverlayOf,
    /// Its reserved CPU time.
    pub reservation: Option<Reservation>,
    /// Release to completion of each job at most. Without it the reservation's deadline counts.
    pub response_limit: Option<Nanos>,
}

impl Overlay {
    fn is_of(&self, tid: Tid, comm: Comm) -> bool {
        match &self.of {
            OverlayOf::Thread(wanted) => *wanted == tid,
            OverlayOf::Named(name) => comm.text() == *name,
        }
    }
}

/// One of a thread's tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Group,
    Reservation,
    Budget,
    Jobs,
    Deadlines,
    Misses,
    Throttled,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Group => "",
            Kind::Reservation => "reservation",
            Kind::Budget => "budget",
            Kind::Jobs => "jobs",
            Kind::Deadlines => "deadlines",
            Kind::Misses => "misses",
            Kind::Throttled => "throttled",
        }
    }
}

/// Tracks have ids from here on, eight for each thread.
const FIRST_TRACK: u64 = 0x5375_7265_7479_0000;

/// Something to be drawn on a thread's track.
#[derive(Clone, Debug)]
enum Mark {
    Slice { from: Nanos, to: Nanos, name: String, numbers: Vec<(&'static str, i64)> },
    Instant { at: Nanos, name: String },
    Counter { at: Nanos, value: i64 },
}

/// The tracks of all threads.
#[derive(Debug)]
pub(super) struct Tracks {
    overlays: Vec<Overlay>,
    /// Runs once a thread has tracks.
    machine: Option<Machine<Follower>>,
    last: Nanos,
}

impl Tracks {
    pub(super) fn new(overlays: Vec<Overlay>) -> Tracks {
        Tracks { overlays, machine: None, last: Nanos::ZERO }
    }

    /// Takes an event, and writes what it ends.
    pub(super) fn event<W: Write>(&mut self, event: &Event<'_>, out: &mut Packets<W>) -> io::Result<()> {
        self.last = self.last.max(event.time);
        if self.machine.is_none() {
            if !self.concerns(event) {
                return Ok(());
            }
            self.machine =
                Some(Machine::new(Follower { overlays: self.overlays.clone(), ..Follower::default() }));
        }
        let Some(machine) = &mut self.machine else { return Ok(()) };
        machine.event(event);
        machine.watch_mut().write(out)
    }

    /// Ends what is still open.
    pub(super) fn finish<W: Write>(self, out: &mut Packets<W>) -> io::Result<()> {
        let Some(machine) = self.machine else { return Ok(()) };
        let (mut follower, _) = machine.finish();
        follower.end(self.last);
        follower.write(out)
    }

    /// Whether the event names a thread that gets tracks.
    fn concerns(&self, event: &Event<'_>) -> bool {
        let one = |tid, comm, prio| prio < 0 || self.overlays.iter().any(|o| o.is_of(tid, comm));
        match event.kind {
            EventKind::Switch { prev, prev_comm, prev_prio, next, next_comm, next_prio, .. } => {
                one(prev, prev_comm, prev_prio) || one(next, next_comm, next_prio)
            }
            EventKind::Waking(Woken { tid, comm, prio, .. })
            | EventKind::Wakeup(Woken { tid, comm, prio, .. })
            | EventKind::WakeupNew(Woken { tid, comm, prio, .. }) => one(tid, comm, prio),
            _ => false,
        }
    }
}

/// A thread the machine knows.
#[derive(Clone, Debug)]
struct Known {
    tid: Tid,
    comm: Comm,
    /// It has tracks.
    followed: Option<Followed>,
    /// It is dead.
    ended: bool,
}

/// A thread with tracks.
#[derive(Clone, Debug)]
struct Followed {
    /// Position in the order of appearance: gives the tracks' ids.
    position: u64,
    overlay: Option<Overlay>,
    since: Nanos,
    place: Whereabouts,
    /// From when on it is at that place.
    placed: Nanos,
    server: Option<Server>,
    /// Jobs that were drawn.
    drawn: u64,
    /// Where the last slices of jobs and of misses ended.
    job_end: Nanos,
    miss_end: Nanos,
    /// Tracks whose descriptor was written, a bit for each.
    described: u8,
}

/// A constant-bandwidth server.
#[derive(Clone, Copy, Debug)]
struct Server {
    reservation: Reservation,
    budget: Nanos,
    deadline: Nanos,
}

impl Server {
    /// A full one.
    fn new(reservation: Reservation, at: Nanos) -> Server {
        Server { reservation, budget: reservation.runtime, deadline: at.saturating_add(reservation.deadline) }
    }

    /// The thread wakes.
    fn wake(&mut self, at: Nanos) {
        let (left, budget) =
            (i128::from(self.deadline.saturating_sub(at).get()), i128::from(self.budget.get()));
        let Reservation { runtime, deadline, period, .. } = self.reservation;
        let usable = left > 0 && budget * i128::from(period.get()) <= left * i128::from(runtime.get());
        if !usable {
            self.budget = runtime;
            self.deadline = at.saturating_add(deadline);
        }
    }

    fn replenish(&mut self) {
        self.budget = self.budget.saturating_add(self.reservation.runtime).min(self.reservation.runtime);
        self.deadline = self.deadline.saturating_add(self.reservation.period);
    }
}

/// Watches the threads that get tracks.
#[derive(Debug, Default)]
struct Follower {
    overlays: Vec<Overlay>,
    /// By slot.
    threads: BTreeMap<usize, Known>,
    followed: u64,
    marks: Vec<(usize, Kind, Mark)>,
}

impl Watch for Follower {
    const WATCHES: bool = true;
    const REMEMBERED: usize = 64;
    type Sink = Follower;

    fn sink(&mut self) -> &mut Follower {
        self
    }

    fn cpu(&mut self, _: CpuId, _: Nanos, _: Occupant, _: i32, _: Option<Context>) {}

    fn thread(&mut self, slot: usize, at: Nanos, seen: Seen) {
        self.place(slot, at, seen);
    }
}

impl JobSink for Follower {
    fn job(&mut self, thread: &ThreadKey, job: &Job) {
        self.complete(thread.slot, job);
    }

    fn doubtful(&mut self, thread: &ThreadKey, job: &Job) {
        self.complete(thread.slot, job);
    }

    /// Busy periods that were drawn before a thread marked its jobs stay drawn: the file is written as it comes.
    fn forget(&mut self, _: &ThreadKey) {}

    fn ended(&mut self, _: &ThreadKey, _: &ThreadTotals) {}
}

impl Follower {
    /// From `at` on the thread is so.
    fn place(&mut self, slot: usize, at: Nanos, seen: Seen) {
        let Follower { overlays, threads, followed: count, marks } = self;
        let Seen { tid, comm, place, ended } = seen;
        let fresh = Known { tid, comm, followed: None, ended: false };
        let mut is_new = false;
        let known = threads.entry(slot).or_insert_with(|| {
            is_new = true;
            fresh.clone()
        });
        if known.ended && !ended {
            // The dead one's slot is another's now.
            is_new = true;
            *known = fresh;
        }
        let renamed = is_new || known.tid != tid || known.comm != comm;
        (known.tid, known.comm) = (tid, comm);
        if known.followed.is_none() && *count < THREADS_MAX {
            let overlay = if renamed { overlays.iter().find(|o| o.is_of(tid, comm)) } else { None };
            if overlay.is_some() || place == Whereabouts::Throttled {
                known.followed = Some(Followed::new(*count, overlay.cloned(), at));
                *count += 1;
            }
        }
        let has_died = ended && !std::mem::replace(&mut known.ended, ended);
        if let Some(followed) = &mut known.followed {
            followed.moved(at, place, |kind, mark| marks.push((slot, kind, mark)));
            if has_died {
                followed.close(at, |kind, mark| marks.push((slot, kind, mark)));
            }
        }
    }

    /// A job is complete.
    fn complete(&mut self, slot: usize, job: &Job) {
        let Follower { threads, marks, .. } = self;
        if let Some(followed) = threads.get_mut(&slot).and_then(|known| known.followed.as_mut()) {
            followed.complete(job, |kind, mark| marks.push((slot, kind, mark)));
        }
    }

    /// The trace ends.
    fn end(&mut self, last: Nanos) {
        let Follower { threads, marks, .. } = self;
        for (slot, known) in threads.iter_mut().filter(|(_, known)| !known.ended) {
            if let Some(followed) = &mut known.followed {
                followed.close(last, |kind, mark| marks.push((*slot, kind, mark)));
            }
        }
    }

    /// Writes what was drawn, each track's description before it.
    fn write<W: Write>(&mut self, out: &mut Packets<W>) -> io::Result<()> {
        for (slot, kind, mark) in self.marks.drain(..) {
            let Some(known) = self.threads.get_mut(&slot) else { continue };
            let title = format!("{} {}", known.comm, known.tid.0);
            let Some(followed) = &mut known.followed else { continue };
            followed.describe(Kind::Group, &title, out)?;
            followed.describe(kind, kind.name(), out)?;
            mark.write(followed.track(kind), out)?;
        }
        Ok(())
    }
}

impl Followed {
    fn new(position: u64, overlay: Option<Overlay>, at: Nanos) -> Followed {
        let reservation = overlay.as_ref().and_then(|overlay| overlay.reservation);
        Followed {
            position,
            overlay,
            since: at,
            place: Whereabouts::Unknown,
            placed: at,
            server: reservation.map(|reservation| Server::new(reservation, at)),
            drawn: 0,
            job_end: at,
            miss_end: at,
            described: 0,
        }
    }

    /// Nothing more comes of the thread.
    fn close(&mut self, at: Nanos, mut draw: impl FnMut(Kind, Mark)) {
        self.moved(at, Whereabouts::Unknown, &mut draw);
        if let Some(reservation) = self.overlay.as_ref().and_then(|o| o.reservation) {
            draw(Kind::Reservation, self.promise(&reservation, at));
        }
    }

    fn moved(&mut self, at: Nanos, place: Whereabouts, mut draw: impl FnMut(Kind, Mark)) {
        // A switch that is inferred may lie before what is known.
        let at = at.max(self.placed);
        let ready = |place| matches!(place, Whereabouts::Queued(_) | Whereabouts::On(_));
        let was = std::mem::replace(&mut self.place, place);
        if was == Whereabouts::Throttled && place != Whereabouts::Throttled {
            let numbers = Vec::new();
            let slice = Mark::Slice { from: self.placed, to: at, name: "throttled".to_owned(), numbers };
            draw(Kind::Throttled, slice);
        }
        if let Some(server) = &mut self.server {
            let before = server.budget;
            if matches!(was, Whereabouts::On(_)) {
                server.budget = server.budget.saturating_sub(at.saturating_sub(self.placed));
            }
            match was {
                Whereabouts::Throttled if ready(place) => server.replenish(),
                Whereabouts::Asleep | Whereabouts::Unknown if ready(place) => server.wake(at),
                _ => {}
            }
            if server.budget != before || was == Whereabouts::Unknown {
                draw(Kind::Budget, Mark::Counter { at, value: server.budget.get() });
            }
        }
        if was != place || matches!(place, Whereabouts::On(_)) {
            self.placed = at;
        }
    }

    fn complete(&mut self, job: &Job, mut draw: impl FnMut(Kind, Mark)) {
        let number = job.index.unwrap_or(self.drawn);
        self.drawn += 1;
        let numbers = vec![
            ("release_ns", job.release.get()),
            ("response_ns", job.completion.saturating_sub(job.release).get()),
            ("execution_ns", job.execution.get()),
            ("interrupted_ns", job.interrupted.get()),
            ("preemptions", job.preemptions.into()),
            ("throttled_ns", job.throttled.get()),
        ];
        // Slices of one track do not overlap.
        let (from, to) = (job.release.max(self.job_end), job.completion.max(self.job_end));
        self.job_end = to;
        let Some(overlay) = &self.overlay else { return };
        draw(Kind::Jobs, Mark::Slice { from, to, name: format!("job {number}"), numbers });
        let limit = overlay.response_limit.or(overlay.reservation.map(|reservation| reservation.deadline));
        let Some(limit) = limit else { return };
        let deadline = job.release.saturating_add(limit);
        draw(Kind::Deadlines, Mark::Instant { at: deadline, name: format!("deadline of job {number}") });
        if job.completion > deadline {
            let (from, to) = (deadline.max(self.miss_end), job.completion.max(self.miss_end));
            self.miss_end = to;
            let late = job.completion.saturating_sub(deadline);
            let numbers = vec![("late_ns", late.get())];
            draw(
                Kind::Misses,
                Mark::Slice { from, to, name: format!("job {number} late by {late}"), numbers },
            );
        }
    }

    /// The slice of the reservation.
    fn promise(&self, reservation: &Reservation, last: Nanos) -> Mark {
        let Reservation { runtime, deadline, period, .. } = *reservation;
        let numbers =
            vec![("runtime_ns", runtime.get()), ("deadline_ns", deadline.get()), ("period_ns", period.get())];
        let name = format!("{runtime} / {deadline} / {period}");
        Mark::Slice { from: self.since, to: last.max(self.since), name, numbers }
    }

    fn track(&self, kind: Kind) -> u64 {
        FIRST_TRACK + self.position * 8 + kind as u64
    }

    /// Writes the descriptor of a track once.
    fn describe<W: Write>(&mut self, kind: Kind, name: &str, out: &mut Packets<W>) -> io::Result<()> {
        let bit = 1 << kind as u8;
        if self.described & bit != 0 {
            return Ok(());
        }
        self.described |= bit;
        out.track(|m| {
            m.message(packet::TRACK_DESCRIPTOR, |m| {
                m.count(track::UUID, self.track(kind));
                m.put(track::NAME, name.as_bytes());
                if kind != Kind::Group {
                    m.count(track::PARENT, self.track(Kind::Group));
                }
                if kind == Kind::Budget {
                    m.message(track::COUNTER, |m| m.count(track::COUNTER_UNIT, track::UNIT_TIME_NS));
                }
            });
        })
    }
}

impl Mark {
    fn write<W: Write>(&self, id: u64, out: &mut Packets<W>) -> io::Result<()> {
        match self {
            Mark::Slice { from, to, name, numbers } => out.slice(id, (*from, *to), name, numbers),
            Mark::Instant { at, name } => {
                out.point(*at, track::INSTANT, id, |m| m.put(track::EVENT_NAME, name.as_bytes()))
            }
            Mark::Counter { at, value } => out.counted(*at, id, *value),
        }
    }
}
