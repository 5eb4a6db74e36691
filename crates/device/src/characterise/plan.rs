//! [`Plan`]: which requests tell what a device is, one after the other, within a time.
//!
//! It has no clock and issues nothing itself, as the models have none: whoever drives it says what time it is and carries its
//! requests to a device, or to a model of one.
//!
//! ```text
//! loop { match plan.next(now) { Issue(tag, request) => ..., Wait => complete(tag, now) of one that is inside, Done => break } }
//! ```
//!
//! It begins with random reads and with reads of the same places over and over, which say whether the device turns
//! ([`super::turning`]); what follows depends on that. Each part has a number of requests and a share of the time; what a part
//! leaves of its share is the others'.

use std::collections::VecDeque;

use surety_stats::random::{Pcg, stream_of};
use surety_units::Nanos;

use super::samples::{Group, Part, Sample};
use super::turning::{Turning, held_below, turning};
use crate::model::{Op, Request};

/// What is measured, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Sectors that may be read.
    pub sectors: u64,
    /// Sectors that may be written; `None`: nothing is written.
    pub writable: Option<u64>,
    /// The time it takes at most, but for the requests that are inside when it is over.
    pub time: Nanos,
    /// Of the places.
    pub seed: u64,
}

/// A smaller range says nothing: 16 MiB.
pub const SECTORS_MIN: u64 = 32_768;
/// Sectors of 4 KiB, the unit of places.
pub const BLOCK: u32 = 8;
/// Sectors of a read in [`Part::Sequential`].
const PIECE: u32 = 512;
/// Sectors of a request in [`Part::Stream`] and [`Part::WriteStream`], and how many there are at a time.
const STREAM: (u32, usize) = (256, 32);
/// The most places of [`Part::Again`].
const PLACES_MAX: u32 = 512;
/// Reads that the revolution is looked for in, and the fewest.
const AGAIN: u32 = 96;
const AGAIN_MIN: u32 = 48;
/// What is queued once it is known whether it turns weighs about so much.
const REST: u32 = 90;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Issue the request now.
    Issue(u32, Request),
    /// Say when one that is inside is complete.
    Wait,
    Done,
}

/// What came of a plan.
#[derive(Clone, Debug)]
pub struct Measured {
    pub scope: Scope,
    pub groups: Vec<Group>,
    /// It turns.
    pub turning: Option<Turning>,
    /// Places of which all, and the fewest of which not even half, were still in its buffer when they were read again.
    pub held: (Option<u32>, Option<u32>),
}

impl Measured {
    /// The group of a part.
    pub fn group(&self, part: Part) -> Option<&Group> {
        self.groups.iter().find(|group| group.part == part)
    }
}

/// A part to come.
#[derive(Clone, Copy, Debug)]
struct Task {
    part: Part,
    /// Its share of the time, beside those of the others.
    weight: u32,
    /// Requests that count.
    count: u32,
}

/// The part under way.
#[derive(Clone, Debug)]
struct Running {
    group: Group,
    until: Nanos,
    left: u32,
    inside: usize,
    /// Where the next request of a chain begins, or the last one was.
    at: u64,
    /// Of [`Part::Again`].
    places: Vec<u64>,
}

/// The plan.
#[derive(Clone, Debug)]
pub struct Plan {
    scope: Scope,
    end: Option<Nanos>,
    queue: VecDeque<Task>,
    /// Weight of what is not queued yet.
    rest: u32,
    running: Option<Running>,
    measured: Measured,
    chance: Pcg,
}

impl Plan {
    /// A plan for a scope.
    ///
    /// # Panics
    /// With less than [`SECTORS_MIN`].
    pub fn new(scope: Scope) -> Plan {
        assert!(scope.sectors >= SECTORS_MIN && scope.writable.is_none_or(|sectors| sectors >= SECTORS_MIN));
        let first = [(Part::WarmUp, 1, 16), (Part::Random, 10, 2000), (Part::Again(8), 2, 8)];
        Plan {
            scope,
            end: None,
            queue: tasks(&first).collect(),
            rest: REST,
            running: None,
            measured: Measured { scope, groups: Vec::new(), turning: None, held: (None, None) },
            chance: Pcg::for_job(scope.seed, stream_of("characterise"), 0),
        }
    }

    /// What to do at an instant.
    pub fn next(&mut self, now: Nanos) -> Step {
        loop {
            let Some(running) = &mut self.running else {
                if self.begin(now) {
                    continue;
                }
                return Step::Done;
            };
            if running.left == 0 || now >= running.until {
                if running.inside > 0 {
                    return Step::Wait;
                }
                self.conclude();
                continue;
            }
            if running.inside >= running.group.depth {
                return Step::Wait;
            }
            let (request, counts) = running.ask(&self.scope, &mut self.chance);
            running.inside += 1;
            running.left -= u32::from(counts);
            let tag = running.group.samples.len() as u32;
            running.group.samples.push(Sample { request, issued: now, completed: now, counts });
            return Step::Issue(tag, request);
        }
    }

    /// A request is complete.
    pub fn complete(&mut self, tag: u32, now: Nanos) {
        let Some(running) = &mut self.running else { return };
        if let Some(sample) = running.group.samples.get_mut(tag as usize) {
            sample.completed = now;
            running.inside -= 1;
        }
    }

    /// What is being measured.
    pub fn part(&self) -> Option<Part> {
        self.running.as_ref().map(|running| running.group.part)
    }

    /// What came of it.
    pub fn into_measured(self) -> Measured {
        self.measured
    }

    /// Begins the next part; `false`: there is none.
    fn begin(&mut self, now: Nanos) -> bool {
        let end = *self.end.get_or_insert(now + self.scope.time);
        let Some(task) = self.queue.pop_front() else { return false };
        let weights = self.rest + task.weight + self.queue.iter().map(|task| task.weight).sum::<u32>();
        let share = (end - now).max(Nanos::ZERO).mul_ratio(u64::from(task.weight), u64::from(weights));
        let depth = match task.part {
            Part::Depth(depth) | Part::Write(depth) => depth as usize,
            Part::Stream | Part::WriteStream => STREAM.1,
            _ => 1,
        };
        let (blocks, unit) = (self.scope.sectors / u64::from(BLOCK), u64::from(BLOCK));
        let places = match task.part {
            Part::Again(count) => (0..count).map(|_| self.chance.below(blocks) * unit).collect(),
            _ => Vec::new(),
        };
        self.running = Some(Running {
            group: Group { part: task.part, depth, samples: Vec::new() },
            until: now + share,
            left: task.count,
            inside: 0,
            at: if let Part::Sequential(first) = task.part { first } else { 0 },
            places,
        });
        true
    }

    /// Keeps what the part under way gave, and decides on what follows from it.
    fn conclude(&mut self) {
        let Some(running) = self.running.take() else { return };
        let part = running.group.part;
        if part != Part::WarmUp {
            self.measured.groups.push(running.group);
        }
        if let Part::Again(places) = part
            && self.rest > 0
        {
            self.decide(places);
        }
    }

    /// After reads of so many places again: more places, or the rest of the plan.
    fn decide(&mut self, places: u32) {
        let below = held_below(&self.measured.groups);
        let Some(group) = self.measured.groups.last() else { return };
        let again = group.responses();
        let held = again.iter().filter(|response| **response < below).count();
        let (count, is_held) = (again.len() as u32, held * 2 >= again.len());
        if is_held {
            self.measured.held.0 = Some(places).filter(|_| held == again.len()).or(self.measured.held.0);
        } else {
            self.measured.held.1 = self.measured.held.1.or(Some(places));
        }
        let next = match (is_held, count) {
            // No time is left: what there is has to do.
            (_, 0) => None,
            (true, _) if places < PLACES_MAX => Some((2 * places, 2 * places)),
            (false, ..AGAIN_MIN) => Some((places, AGAIN)),
            _ => None,
        };
        if let Some((places, count)) = next {
            self.queue.push_back(Task { part: Part::Again(places), weight: 25, count });
            return;
        }
        self.rest = 0;
        self.measured.turning = turning(&self.measured.groups);
        let parts = if self.measured.turning.is_some() { self.of_turning() } else { self.of_solid() };
        self.queue.extend(parts);
    }

    /// What a turning disk is asked.
    fn of_turning(&self) -> Vec<Task> {
        let mut parts = vec![(Part::Repeat(BLOCK), 2, 32), (Part::Repeat(128), 2, 32)];
        parts.extend(distances(self.scope.sectors).into_iter().map(|far| (Part::Distance(far), 4, 60)));
        parts.extend(sequences(self.scope.sectors, 16).map(|first| (Part::Sequential(first), 2, 200)));
        parts.extend([2, 4, 8, 16, 32, 64].map(|depth| (Part::Depth(depth), 6, 400)));
        parts.extend([32, 128, 512, 2048].map(|size| (Part::Size(size), 2, 48)));
        self.with_writes(parts, 200)
    }

    /// What anything else is asked.
    fn of_solid(&self) -> Vec<Task> {
        let mut parts: Vec<(Part, u32, u32)> =
            [2, 4, 8, 16, 32, 64].map(|depth| (Part::Depth(depth), 8, 4000)).to_vec();
        parts.extend([32, 128, 512, 2048].map(|size| (Part::Size(size), 4, 200)));
        parts.extend(sequences(self.scope.sectors, 8).map(|first| (Part::Sequential(first), 2, 200)));
        parts.push((Part::Stream, 8, 2000));
        self.with_writes(parts, 1000)
    }

    fn with_writes(&self, mut parts: Vec<(Part, u32, u32)>, count: u32) -> Vec<Task> {
        if self.scope.writable.is_some() {
            parts.extend([
                (Part::Write(1), 8, count),
                (Part::Flush, 8, 24),
                (Part::Write(32), 8, 4 * count),
                (Part::WriteStream, 12, 4 * count),
            ]);
        }
        tasks(&parts).collect()
    }
}

fn tasks(parts: &[(Part, u32, u32)]) -> impl Iterator<Item = Task> + '_ {
    parts.iter().map(|(part, weight, count)| Task { part: *part, weight: *weight, count: *count })
}

/// Distances of seeks in sectors, from 4 MiB or 1/131072 of the disk to 0.8 of it, evenly in their logarithm.
fn distances(sectors: u64) -> Vec<u64> {
    /// How many.
    const POINTS: u32 = 14;
    let (near, far) = ((sectors >> 17).max(8192) as f64, 0.8 * sectors as f64);
    let step = libm::log(far / near) / f64::from(POINTS - 1);
    (0..POINTS).map(|i| (near * libm::exp(step * f64::from(i))) as u64).collect()
}

/// Where sequential reads begin, from the first sector to before the last.
fn sequences(sectors: u64, count: u64) -> impl Iterator<Item = u64> {
    let unit = u64::from(BLOCK);
    // What a place reads at most stays inside, at the end of the disk too.
    let last = sectors.saturating_sub(1 << 17).min(sectors / 64 * 63);
    (0..count).map(move |i| last / (count - 1) * i / unit * unit)
}

impl Running {
    /// The next request, and whether it counts.
    fn ask(&mut self, scope: &Scope, chance: &mut Pcg) -> (Request, bool) {
        let number = self.group.samples.len();
        let writable = scope.writable.unwrap_or(scope.sectors);
        let anywhere = |chance: &mut Pcg, range: u64, size: u32| {
            let unit = u64::from(BLOCK);
            chance.below((range - u64::from(size)) / unit + 1) * unit
        };
        match self.group.part {
            Part::WarmUp | Part::Random | Part::Depth(_) => {
                (Request::new(Op::Read, anywhere(chance, scope.sectors, BLOCK), BLOCK), true)
            }
            Part::Size(size) => (Request::new(Op::Read, anywhere(chance, scope.sectors, size), size), true),
            Part::Again(_) => {
                if number > 0 && number.is_multiple_of(self.places.len()) {
                    self.stir(chance);
                }
                let place = self.places[number % self.places.len()];
                (Request::new(Op::Read, place, BLOCK), number >= self.places.len())
            }
            Part::Repeat(size) => {
                let is_again = number % 2 == 1;
                self.at = if is_again { self.at } else { anywhere(chance, scope.sectors, size) };
                (Request::new(Op::Read, self.at, size), is_again)
            }
            Part::Distance(far) => {
                let fits = number > 0 && self.at + far + far / 8 + u64::from(BLOCK) <= scope.sectors;
                self.at = if fits {
                    // Around the distance, so that the angles are all there.
                    self.at + (far - far / 8) / 8 * 8 + anywhere(chance, far / 4 + u64::from(BLOCK), BLOCK)
                } else {
                    anywhere(chance, (scope.sectors - far - far / 8).max(u64::from(BLOCK)), BLOCK)
                };
                (Request::new(Op::Read, self.at, BLOCK), fits)
            }
            Part::Sequential(first) => self.behind(Op::Read, (first, scope.sectors), PIECE, number > 1),
            Part::Stream => self.behind(Op::Read, (0, scope.sectors), STREAM.0, number >= STREAM.1),
            Part::WriteStream => self.behind(Op::Write, (0, writable), STREAM.0, number >= STREAM.1),
            Part::Write(_) => (Request::new(Op::Write, anywhere(chance, writable, BLOCK), BLOCK), true),
            Part::Flush if number % 2 == 1 => (Request::new(Op::Flush, 0, 0), true),
            Part::Flush => (Request::new(Op::Write, anywhere(chance, writable, BLOCK), BLOCK), false),
        }
    }

    /// Changes places by chance with others near in the order. In the same order every read would come as many revolutions after the one before as
    /// it did the time before, and the time between two reads of a sector would say nothing.
    fn stir(&mut self, chance: &mut Pcg) {
        let count = self.places.len();
        for at in 0..count {
            let with = at + chance.below(count as u64 / 6 + 2) as usize;
            self.places.swap(at, with.min(count - 1));
        }
    }

    /// The request behind the one before; from the first sector again at the end.
    fn behind(&mut self, op: Op, (first, end): (u64, u64), size: u32, counts: bool) -> (Request, bool) {
        if self.at < first || self.at + u64::from(size) > end {
            self.at = first;
        }
        let request = Request::new(op, self.at, size);
        self.at = request.end();
        (request, counts)
    }
}
