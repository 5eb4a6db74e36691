//! [`admit`]: streams with a rate that a disk keeps beside best effort, and the bound on every batch of them.
//!
//! A stream is played from a buffer of `S` bytes at a rate `r`, `a` bytes at a time, and fetched in batches of `B` bytes, one at a time in the
//! block layer. A batch is asked for when the buffer has room and the stream credit for it, which accrues at `r` up to `B + r J` and is charged at most `K`
//! before the batch is there (the CPU's part). This is the prefetcher of ABISS (de Nijs et al., Linux Symposium 2005). Nothing here is
//! published of its admission ("framework only"); the formulas are proved below.
//!
//! ```text
//! C  = sum over the requests of a batch of (fixed + bytes / rate)                     service of a batch
//! U  = sum of (C_j + D_j) r_j / B_j < 1                                               bandwidth
//! c_j(t) = B_j + r_j (K + t), at the start B_j + r_j (J_j + K + t)                            credit
//! p_j(t) = B_j - g + S_j mod g + a_j (1 + floor(r_j (K + t) / a_j)), g = gcd(a_j, B_j)  room, and what is played
//! N_j(t) = floor(max(c_j(t), p_j(t)) / B_j)                                           batches of a stream in a span t
//! x_m = m C_i, and what the device does on its own account at that                      m earlier ones of its own
//! o_m = least t with N_i(t) > m, less x_m                                             so much else was over by then
//! F_i(q) = max over m of (least t = H + q C_i + sum over j other than i of C_j N_j(x_m + t)) - o_m   q batches in a row
//! W_i = F_i(1)                                                                        latency of a batch
//! A_i = max over q of r_i (F_i(q) + K) - (q - 1) B_i                                  how far it falls behind
//! A_i later <= B_i + r_i J_i                                                          it keeps up
//! S_i >= max(A_i at the start + a_i + r_i K, B_i + a_i)                               buffer
//! ```
//!
//! `H` is what may be served although a batch waits: the best-effort requests that had left the scheduler when the first came, those that have aged
//! (`prio_aging_expire` of mq-deadline lets them by, one each time it is asked), what goes before all classes, and what the device does on its own account (written data
//! that it holds; `D` of a batch that is written, later).
//!
//! As many have left the scheduler as the driver takes, and one for each CPU: it takes a request first and finds then that the driver has no room
//! (`__blk_mq_do_dispatch_sched`). Where the driver is asked first (`blk_mq_get_dispatch_budget`: SCSI) none has. That is all as long as no thread is preempted between the two, and
//! no CPU is held up there so long that another takes what became free, and one more.
//!
//! Before all classes go flushes, and the block of a journal's commit, behind the flush before it (`blk_flush_complete_seq`, `blk_mq_requeue_work`). While best effort is kept out a thread
//! that waits for what it wrote has one flush at most, for it has to write again before the next; and jbd2 has one commit at most, for the blocks of the next are of best effort and are not
//! asked for before that commit is complete.
//!
//! **W.** While any stream has a batch in the block layer, mq-deadline gives the driver no best-effort request but aged ones
//! (`dd_dispatch_request`: a class that has requests queued or in the device ends the search). Take such a span. At its beginning each stream
//! has no batch under way, so it lacks credit for one or room for one, but for the `K` in which its thread comes to ask. Who lacks credit may ask in a span `t` for less than
//! `B + r (K + t)`; who lacks room has at most the largest below `B`, of those that differ by `g`, and what is played. Only when all begin have they all their credit and an empty
//! buffer: that first span is the start. The disk is never idle in the span and the order among streams is any (mq-deadline goes by
//! sector, not by who is next to run empty), so a run of `q` batches of stream `i`, behind `m` of its own, is complete
//! when `x_m`, `H + q C_i` and all of the others is served. The run cannot begin before `i` may have `m` and one more, and what the disk did until then besides
//! those `m` is over. `m` is as large as the longest span of all allows.
//! "One batch of each" for the others, as proposed with `W = L + sum C_j`, is no bound under that order: who lies ahead of the head and has credit is served
//! again.
//!
//! **A.** Behind is `r t` less what was fetched. In a run of batches it grows by no more than `A`. A stream that has no batch under way and lacks room is
//! ahead; one that lacks credit has been charged, since the last instant its credit was full, at its rate and `r J` more, and at that instant a batch was under way: it is
//! behind by `B + r J` less than then. So where `A` is no more than that it is behind no further than in the first run, and if it were more, credit that is
//! lost could not be caught up. It must not be behind by more than a deadline `D = S / r` is long, less the access that is due.
//!
//! **Gaps.** All this holds where a stream that wants its next batch has asked for it before the driver takes another request, as the prefetcher in the kernel does.
//! A thread asks up to `K` after the one before is there, and where no other stream has one in the block layer then, best effort gets in again
//! ([`DiskTerms::gaps`]):
//!
//! ```text
//! L_j = max over q of r_j (F_j(q) + K) - q B_j, 0 at least        how far it is behind when a batch is there
//! N_j(t) = floor(min(max(c_j(t), p_j(t)) + L_j, at the start) / B_j)
//! F_i(q) = as above, with q H + (q - 1) K for H
//! ```
//!
//! A span then begins while streams are behind, by `L` at most, and may have as much more credit and room. If each was behind by no more until an instant, what follows
//! is behind by no more either, so the least `L` that follow from themselves hold from the first instant on at which none has a batch under way or wants one; until then
//! all is as at the start, for nobody ever has more credit than that. In a run only its own stream's next batches are asked for late, so there are `q` times best effort. `q` ends where the stream has caught up.
//!
//! **Two at a time** (`overlap`). A stream has two batches in the block layer, and begins with credit `B`; the conditions of [`Gap`] say that one is left there when
//! its thread has asked for the next. A run is a chain of batches of which each was asked for before all earlier ones of the stream were there: in it the stream never
//! leaves the block layer, so that best effort gets in once, before it (no gaps, `L = 0`). A run is asked for within `K` of wanting: where both places were taken, that was before the
//! last of the two was there, and in the same run. So its stream lacked credit or room until `K` before, as above, and `c` is that of later from the start on. A batch is there when all
//! before it are; then `x_m` is over as well.
//!
//! ```text
//! F_i(q) = as above, with max(q, N_i(x_m + t) - m) C_i for q C_i      those behind the run may pass it, all that are asked for
//! in turn: (q + 1) C_i for q C_i, and F_i(q) <= H + q C_i + sum over j of C_j min(2 q, N_j) + q n_i R
//! ```
//!
//! The second is where mq-deadline serves each way in the order of coming ([`ORDER`]): what is served before a batch of the run, and was not before an earlier one of it, was in the block
//! layer when that batch was asked for, for what comes behind the earlier one is served behind it; and of a stream that goes the same way two are there at most. But who takes a request from
//! the scheduler hands it to the driver a moment later (`blk_mq_do_dispatch_sched`, `blk_mq_dispatch_rq_list`: no lock is held), and another CPU may pass it with what comes behind. That is one
//! request, as long as a moment is shorter than from one end to the next (those in the device at once are all among the two of each), so each of the `n_i` requests of a batch lets one by, which takes `R`
//! at most, of the longest of all streams; it may be of the stream itself, its next batch.
//!
//! **Writes.** A stream that writes wants a batch when its program has made one, and lacks data instead of room: `p` with `S mod g = 0`, at the start as well. It is there when the device
//! has it; when it is on the medium a flush decides. What waits in the buffer when a run begins is less than `B + a`, and one that lacks credit is behind by an access less little than
//! above:
//!
//! ```text
//! A_i later + a_i <= B_i + r_i J_i
//! S_i >= A_i at the start + B_i + 2 a_i + r_i K        all that waits, and the access that comes: it never waits for room
//! ```
//!
//! Schedulers without classes: see [`Service::InOrder`]. Integers alone decide; products are of 128 bits; times are rounded up.

mod latency;
mod overlap;
mod sizes;
mod terms;

#[cfg(test)]
mod tests;

use std::fmt;

use surety_device::worst::{Cost, Held, Least};
use surety_model::playout::in_whole_batches;
use surety_model::workload::Direction;
use surety_units::{Bytes, Nanos, Rate};

pub use overlap::last_request;
pub use sizes::Sizes;
pub use surety_model::playout::Level;
pub use terms::{CPU, ORDER, Unbounded, demand, memory_for_buffers, terms};

/// Batches are multiples of a page.
pub const PAGE: u64 = 4096;
/// Shares of the disk's time are counted in 2^-40, rounded up.
pub const SHARE: u32 = 40;

/// Alike streams that ask for a guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDemand {
    /// How many there are.
    pub count: u32,
    pub rate: Rate,
    pub direction: Direction,
    /// Bytes of one access.
    pub access: u64,
    /// Bytes of a batch; `None`: it is chosen, the smallest that will do.
    pub batch: Option<u64>,
    /// Bytes of the longest batch that may be chosen: its file has no more.
    pub longest: Option<u64>,
    /// What its credit allows beyond one batch, as a time at its rate.
    pub jitter: Nanos,
    /// Bytes of its buffer; `None`: as many as are needed.
    pub buffer: Option<u64>,
    /// From the release of an access until it is late, where that is before the buffer is empty.
    pub deadline: Option<Nanos>,
    /// Whether two of its batches are in the block layer at a time, and it begins with credit for one.
    pub overlap: bool,
}

impl StreamDemand {
    /// Bytes of its batches: its own, else those `chosen` for all, no more than its file has.
    fn batch_of(&self, chosen: u64) -> u64 {
        self.batch.unwrap_or_else(|| self.longest.map_or(chosen, |longest| chosen.min(longest)))
    }
}

/// In which order the block layer serves what streams ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Streams before best effort, which may have so many requests that have aged and go first.
    ByClass { aged: u64 },
    /// All in the order of coming, so many requests at a time (`nr_requests`), on a device that takes one at a time. A batch then waits for a whole queue.
    InOrder,
}

/// What a disk takes at most, with what else is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskTerms {
    /// Of a read.
    pub read: Cost,
    /// Of a write; `None`: nothing is written, or it has no bound.
    pub write: Option<Cost>,
    /// Bytes of the longest best-effort request; 0: there is none.
    pub beside_bytes: u64,
    /// What the device holds of what was written.
    pub held: Held,
    /// Best-effort requests that may be in the device, or have left the scheduler for it, and how many of those may write.
    pub inside: u64,
    pub inside_writes: u64,
    /// CPUs that may each have taken one of those before they find that the driver has no room (`__blk_mq_do_dispatch_sched`); 0: it is asked first.
    pub handing_on: u64,
    /// Bytes of the longest request: a batch is divided into such.
    pub request_bytes: u64,
    /// Requests of the queue, and how many of them best effort may have at once.
    pub requests: u64,
    pub beside_requests: u64,
    /// Requests of the queue that may write (`async_depth`), and how many of them best effort may have at once.
    pub write_requests: u64,
    pub beside_writes: u64,
    pub service: Service,
    /// Whether what is read, and what is written, is each served in the order of coming within its class.
    pub in_turn: bool,
    /// Whether the driver may have taken best effort again before a thread asks for its next batch, where that is asked for only when the one before is
    /// there; else it is asked for before the driver takes another request.
    pub gaps: bool,
    /// Whether others write to a file system with a journal: the block of a commit goes before all classes (`blk_flush_complete_seq`: behind its flush it is inserted
    /// at the head of all).
    pub commits: bool,
    /// Flushes, which go before all classes as well, that may come while best effort is kept out: one of each thread that waits for what it wrote, and two of a commit.
    pub flushes: u64,
    /// What one takes, beside what the device holds.
    pub flush: Nanos,
    /// The least between the ends of two requests, where the device takes one at a time.
    pub least: Option<Least>,
    /// Bytes of the longest request that the block layer makes of two.
    pub merged_bytes: u64,
    /// From when a stream may have a batch until its thread has asked for it, at most: the CPU's part, of a copy to the program as well.
    pub cpu: Nanos,
    /// Of that, from when the one before is there until a batch is asked for.
    pub asks: Nanos,
}

impl DiskTerms {
    /// What a best-effort request of the longest kind takes of the disk, with what the device puts on the medium later for one that writes.
    pub fn beside(&self) -> Nanos {
        let written = self.write.filter(|_| self.inside_writes > 0);
        let later = if self.held.most > 0 { self.held.each.of(self.held.longest) } else { Nanos::ZERO };
        let write = written.map_or(Nanos::ZERO, |write| write.of(self.beside_bytes) + later);
        self.read.of(self.beside_bytes).max(write)
    }
}

/// What else is to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floors {
    /// Best effort is to have so much, in requests of the longest kind.
    pub best_effort: Rate,
    /// Bytes that all buffers may have, in whole batches.
    pub memory: Option<u64>,
}

/// What a stream is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Bytes of a batch.
    pub batch: u64,
    /// Bytes of its buffer: as asked for, or as many as are needed.
    pub buffer: u64,
    /// As many as are needed.
    pub needed: u64,
    /// C: service of one batch at most.
    pub service: Nanos,
    /// W: from asking for a batch until it is there, at most, once all have no batch under way for the first time.
    pub latency: Nanos,
    /// The same before that.
    pub at_start: Nanos,
    /// A at the start, as a time at its rate: how far it falls behind at most.
    pub behind: Nanos,
    /// The share of the disk's time of all `count` of them, in 2^-40.
    pub share: u64,
}

/// What all streams are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// In the order of the demands.
    pub streams: Vec<Admitted>,
    /// H with no request of a stream: what is served although a batch waits, but for what the device does between requests.
    pub blocking: Nanos,
    /// U, in 2^-40.
    pub share: u64,
    /// What is left to best effort in the long run, in requests of the longest kind.
    pub best_effort: Rate,
    /// Bytes of all buffers, in whole batches.
    pub memory: u64,
}

/// Why streams are not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A stream that writes, where that has no bound.
    Writes,
    /// They would have this share of the disk's time, in 2^-40.
    Bandwidth(u64),
    /// They would have this share, and best effort so much between their batches that one never catches up.
    Behind(u64),
    /// Best effort would keep this, and is to keep that.
    Floor { left: Rate, wanted: Rate },
    /// A stream could fall behind by more than its credit makes up for: both in bytes.
    Credit { behind: u64, credit: u64 },
    /// Its buffer has to have so many bytes.
    Buffer { needed: u64, given: u64 },
    /// An access may take so long from its release, and may not.
    Late { takes: Nanos, limit: Nanos },
    /// The queue has so many requests, and needs more.
    Requests { needed: u64, has: u64 },
    /// Bytes that all buffers need, in whole batches, and may have.
    Memory { needed: u64, has: u64 },
    /// Two batches of a stream at a time leave best effort no gap only under conditions, of which this one does not hold.
    Overlap(Gap),
}

/// How best effort gets in between two batches of a stream that are asked for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The scheduler has no classes.
    InOrder,
    /// That a write is there a thread of the kernel may tell (`iomap_dio_bio_end_io`), which is fair and has no bound.
    Written,
    /// The device takes more than one request at a time, or chance says how long it takes: both may be there at once.
    Together,
    /// The block layer may make one request of both: of batches of so many bytes, up to so many.
    Merged { batch: u64, longest: u64 },
    /// In which requests the block layer divides a batch is not known.
    Divided,
    /// The second may be there so soon after the first, and its thread takes as long as that to ask for the next.
    Brief { least: Nanos, asks: Nanos },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: u64| share as f64 * 100.0 / (1u64 << SHARE) as f64;
        match self {
            Why::Writes => {
                f.write_str("it writes, and how long the device takes for what is written is not known here")
            }
            Why::Bandwidth(share) => {
                write!(f, "streams would take {:.1} % of the disk's time", percent(*share))
            }
            Why::Behind(share) => write!(
                f,
                "streams would take {:.1} % of the disk's time, and with what best effort has between its batches it never catches up",
                percent(*share)
            ),
            Why::Floor { left, wanted } => {
                write!(f, "best effort would keep {left} in the long run, and is to keep {wanted}")
            }
            Why::Credit { behind, credit } => write!(
                f,
                "it may fall {} behind while a batch is fetched, and its credit (a batch, and what its `jitter` saves) makes up for {}",
                Bytes(*behind),
                Bytes(*credit)
            ),
            Why::Buffer { needed, given } => {
                write!(f, "its buffer needs {} and has {}", Bytes(*needed), Bytes(*given))
            }
            Why::Late { takes, limit } => {
                write!(f, "an access may take {takes} from its release, and is late after {limit}")
            }
            Why::Requests { needed, has } => write!(
                f,
                "the queue has {has} requests, of which best effort and streams may want {needed} at once: a batch might wait for one"
            ),
            Why::Memory { needed, has } => write!(
                f,
                "buffers would take {} of memory, which is locked, and may have {}",
                Bytes(*needed),
                Bytes(*has)
            ),
            Why::Overlap(gap) => write!(f, "two of its batches at a time do not keep best effort out: {gap}"),
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::InOrder => f.write_str("without a scheduler all go in the order of coming; use `scheduler = \"mq-deadline\"`"),
            Gap::Written => f.write_str("the kernel reports that a write is complete from a thread of the fair class, whose delay has no bound; leave `overlap` out"),
            Gap::Together => f.write_str(
                "the device takes more than one request at a time, or has random service times, so that both may be complete at once; leave `overlap` out",
            ),
            Gap::Merged { batch, longest } => write!(
                f,
                "requests may have {}, and two batches of {} may become one; use larger batches, or a smaller `request`",
                Bytes(*longest),
                Bytes(*batch)
            ),
            Gap::Divided => f.write_str("kernels divide its batches in different ways; give the disk a `request`"),
            Gap::Brief { least, asks } => write!(
                f,
                "the second may be there {least} after the first, and its thread may take {asks} to ask for the next; use larger batches"
            ),
        }
    }
}

/// Which demand is not admitted, by its place, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub stream: usize,
    pub why: Why,
}

/// Admits all streams, or says which is not and why. Batches that are not given are alike, and the smallest with which everything holds.
///
/// # Errors
/// The first reason found, with the batch that comes nearest.
pub fn admit(demands: &[StreamDemand], disk: &DiskTerms, floors: &Floors) -> Result<Admission, Refused> {
    admit_among(Sizes::All, demands, disk, floors)
}

/// The same with some of the batches that may be chosen.
///
/// # Errors
/// As [`admit`].
pub fn admit_among(
    sizes: Sizes,
    demands: &[StreamDemand],
    disk: &DiskTerms,
    floors: &Floors,
) -> Result<Admission, Refused> {
    let is_unbounded = |demand: &StreamDemand| demand.direction == Direction::Write && disk.write.is_none();
    if let Some(stream) = demands.iter().position(is_unbounded) {
        return Err(Refused { stream, why: Why::Writes });
    }
    let mut refused: Option<Refused> = None;
    for chosen in sizes::candidates(demands, sizes) {
        let batches: Vec<u64> = demands.iter().map(|demand| demand.batch_of(chosen)).collect();
        match with_batches(demands, &batches, disk, floors) {
            Ok(admission) => return Ok(admission),
            // A batch too small for the bandwidth says less than one that is refused for another reason.
            Err(why)
                if refused.as_ref().is_none_or(|r| {
                    matches!(r.why, Why::Bandwidth(_) | Why::Behind(_) | Why::Floor { .. } | Why::Overlap(_))
                }) =>
            {
                refused = Some(why);
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or(Refused { stream: 0, why: Why::Bandwidth(0) }))
}

/// Admits all streams with these batches.
fn with_batches(
    demands: &[StreamDemand],
    batches: &[u64],
    disk: &DiskTerms,
    floors: &Floors,
) -> Result<Admission, Refused> {
    for (stream, (demand, batch)) in demands.iter().zip(batches).enumerate() {
        if let Some(gap) = overlap::gap(demand, *batch, disk) {
            return Err(Refused { stream, why: Why::Overlap(gap) });
        }
    }
    let set = latency::Set::new(demands, batches, disk);
    let largest = (0..demands.len()).max_by_key(|place| set.share(*place)).unwrap_or(0);
    let share = set.shares();
    if share >= 1 << SHARE {
        return Err(Refused { stream: largest, why: Why::Bandwidth(share) });
    }
    let best_effort = sizes::left(disk, share);
    if best_effort < floors.best_effort {
        let why = Why::Floor { left: best_effort, wanted: floors.best_effort };
        return Err(Refused { stream: largest, why });
    }
    let (requests, writes) = set.requests();
    let queued = (requests + disk.beside_requests, disk.requests);
    let written = (if writes > 0 { writes + disk.beside_writes } else { 0 }, disk.write_requests);
    if let Some((needed, has)) = [queued, written].into_iter().find(|(needed, has)| needed > has) {
        return Err(Refused { stream: largest, why: Why::Requests { needed, has } });
    }
    let set = set.with_lags().map_err(|stream| Refused { stream, why: Why::Behind(share) })?;
    let mut streams = Vec::with_capacity(demands.len());
    for place in 0..demands.len() {
        streams.push(set.admit(place).map_err(|why| Refused { stream: place, why })?);
    }
    let memory = demands.iter().zip(&streams).fold(0u64, |sum, (demand, stream)| {
        let whole = in_whole_batches(stream.buffer, stream.batch);
        sum.saturating_add(whole.saturating_mul(demand.count.into()))
    });
    if let Some(has) = floors.memory.filter(|has| memory > *has) {
        return Err(Refused { stream: largest, why: Why::Memory { needed: memory, has } });
    }
    Ok(Admission { streams, blocking: set.blocking(), share, best_effort, memory })
}
