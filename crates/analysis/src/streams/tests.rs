//! Bounds of streams: the worked example, laws of admission, and a game in which an adversary orders what the disk serves.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use surety_device::worst::{Cost, Held};
use surety_model::workload::Direction;
use surety_stats::random::Pcg;
use surety_units::{Nanos, Rate};

use super::*;

fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

fn demand(count: u32, rate: u64, batch: Option<u64>, jitter: Nanos) -> StreamDemand {
    let (direction, access) = (Direction::Read, 64 << 10);
    let (rate, buffer, deadline) = (Rate(rate), None, None);
    let (longest, overlap) = (None, false);
    StreamDemand { count, rate, direction, access, batch, longest, jitter, buffer, deadline, overlap }
}

/// A disk of 11 MB/s with 11.13 ms for a request, one at a time, and best effort in requests of 128 KiB.
fn disk() -> DiskTerms {
    let cost = Cost { fixed: Nanos::from_micros(11_130), rate: Rate(11_000_000) };
    DiskTerms {
        read: cost,
        write: None,
        beside_bytes: 128 << 10,
        held: Held::default(),
        inside: 1,
        inside_writes: 0,
        request_bytes: 128 << 10,
        requests: 64,
        beside_requests: 8,
        write_requests: 64,
        beside_writes: 0,
        service: Service::ByClass { aged: 0 },
        in_turn: false,
        gaps: false,
        handing_on: 0,
        commits: false,
        flushes: 0,
        flush: Nanos::ZERO,
        least: None,
        merged_bytes: 128 << 10,
        cpu: Nanos::ZERO,
        asks: Nanos::ZERO,
    }
}

fn micros(time: Nanos) -> i64 {
    time.get() / 1000
}

/// The worked example: 11.1 ms for a request with a rate of 11 MB/s, four streams with batches of 80 KiB beside requests of 128 KiB: 11.9 + 11.1 of best effort,
/// and 7.4 + 11.1 for each stream, 97 ms. That holds while no stream may ask twice in so long, which an access of 4 KiB and 700 kB/s do not allow. At 1 MB/s a batch
/// lasts for 82 ms, and each of the other three may be served once more: 153 ms; and a credit of one batch is not enough then.
#[test]
fn the_worked_example() {
    let of = |rate, jitter| {
        let demands = [StreamDemand { access: 4096, ..demand(4, rate, Some(80 << 10), jitter) }];
        let disk = disk();
        let set = latency::Set::new(&demands, &[80 << 10], &disk).with_lags().expect("they catch up");
        (
            set.shares() as f64 / (1u64 << SHARE) as f64,
            set.admit(0).map(|given| (micros(given.latency), micros(given.at_start))),
        )
    };
    let batch = 11_130 + 81_920 / 11;
    let best_effort = 11_130 + 131_072 / 11;
    assert_eq!((batch, best_effort), (18_577, 23_045));
    let near = |found: i64, batches: i64| (found - best_effort - batches * batch).abs() <= 8;
    let (share, once) = of(700_000, Nanos::ZERO);
    assert!((share - 4.0 * 0.018577 * 700_000.0 / 81_920.0).abs() < 1e-4, "{share}");
    assert!(
        once.as_ref().is_ok_and(|(later, start)| near(*later, 4) && near(*start, 4) && later / 1000 == 97),
        "{once:?}"
    );
    let (_, lost) = of(1_000_000, Nanos::ZERO);
    assert!(matches!(lost, Err(Why::Credit { credit: 81_920, .. })), "{lost:?}");
    let (_, twice) = of(1_000_000, ms(200));
    assert!(twice.as_ref().is_ok_and(|(later, start)| near(*later, 7) && start > later), "{twice:?}");
}

/// More streams than the disk has time for are refused, and with a floor for best effort batches are larger, or fewer are admitted.
#[test]
fn what_is_too_much_is_refused() {
    let (disk, floors) = (disk(), Floors::default());
    let demands = [demand(12, 1_000_000, None, ms(2_000))];
    let refused = admit(&demands, &disk, &floors).expect_err("11 MB/s are not 12");
    assert!(matches!(refused.why, Why::Bandwidth(_)), "{refused:?}");
    let floored = Floors { best_effort: Rate(2_000_000), memory: None };
    let most = |floors| {
        (1..12).filter(|n| admit(&[demand(*n, 1_000_000, None, ms(2_000))], &disk, floors).is_ok()).max()
    };
    assert!(most(&floored) < most(&floors), "{:?} {:?}", most(&floored), most(&floors));
    let batches = |floors| {
        admit(&[demand(2, 1_000_000, None, ms(500))], &disk, floors).map_or(0, |a| a.streams[0].batch)
    };
    let (small, large) = (batches(&floors), batches(&floored));
    assert!(small > 0 && small < large, "the floor needs larger batches: {small:?} {large:?}");
    // One that no batch keeps.
    let floors = Floors { best_effort: Rate(9_000_000), memory: None };
    let refused = admit(&[demand(2, 1_000_000, None, ms(500))], &disk, &floors)
        .expect_err("the disk has no more than that");
    assert!(matches!(refused.why, Why::Floor { wanted: Rate(9_000_000), .. }), "{refused:?}");
}

/// A buffer that is too small is refused with the one that is needed, which is then admitted.
#[test]
fn a_buffer_is_refused_with_the_one_that_is_needed() {
    let small = StreamDemand { buffer: Some(200_000), ..demand(4, 1_000_000, Some(128 << 10), ms(200)) };
    let refused =
        admit(std::slice::from_ref(&small), &disk(), &Floors::default()).expect_err("it is too small");
    let Why::Buffer { needed, given: 200_000 } = refused.why else { panic!("{refused:?}") };
    let of = |buffer| {
        let one = StreamDemand { buffer: Some(buffer), ..small.clone() };
        admit(std::slice::from_ref(&one), &disk(), &Floors::default()).is_ok()
    };
    // A batch and an access that do not go into it make a few bytes of a difference.
    assert!(of(needed + 65_536) && !of(needed - 65_536), "{needed}");
}

/// A promise of responses that is longer than the buffer lasts makes no shorter one do: the program runs dry before.
#[test]
fn a_promise_of_responses_leaves_the_buffer_as_it_is_needed() {
    let plain = demand(2, 1_000_000, Some(128 << 10), ms(400));
    let of = |demand: &StreamDemand| admit(std::slice::from_ref(demand), &disk(), &Floors::default());
    let needed = of(&plain).expect("there is time").streams[0].needed;
    assert!(needed > (128 << 10) + plain.access, "the buffer has to outlast the batches: {needed}");
    let slow = StreamDemand { deadline: Some(ms(2_000)), ..plain.clone() };
    assert_eq!(of(&slow).expect("as before").streams[0].needed, needed);
    let small = StreamDemand { buffer: Some((128 << 10) + plain.access), ..slow };
    let refused = of(&small).expect_err("it is empty before");
    assert!(matches!(refused.why, Why::Buffer { needed: of, .. } if of == needed), "{refused:?}");
    let brief = StreamDemand { deadline: Some(ms(10)), ..plain };
    assert!(matches!(of(&brief).expect_err("no batch is there so soon").why, Why::Late { .. }));
}

/// Sixty-four small streams: each of 64 kB/s in batches of 64 KiB takes 1.7 % of the disk. The disk would be full with twelve of 1 MB/s.
#[test]
fn many_small_streams_are_admitted() {
    let disk = DiskTerms { requests: 128, ..disk() };
    let small = demand(64, 32_000, None, ms(10_000));
    let admission = admit(&[small], &disk, &Floors::default()).expect("there is time for all");
    assert!(admission.streams[0].latency > disk.read.of(64 << 10) * 63, "{admission:?}");
}

/// In the order of coming a batch waits for a whole queue.
#[test]
fn without_classes_a_batch_waits_for_a_whole_queue() {
    let disk = DiskTerms { service: Service::InOrder, ..disk() };
    let one = demand(1, 100_000, Some(256 << 10), ms(1_000));
    let admission = admit(&[one], &disk, &Floors::default()).expect("it is slow enough");
    assert!(admission.streams[0].latency > disk.beside() * 64);
}

fn demands() -> impl Strategy<Value = Vec<StreamDemand>> {
    let one = (1u32..4, 20_000u64..2_000_000, proptest::option::of(1u64..64), 0i64..800, 1u64..40, 0u32..3);
    let one = one.prop_map(|(count, rate, batch, jitter, access, direction)| StreamDemand {
        access: access * 4096,
        direction: if direction == 0 { Direction::Write } else { Direction::Read },
        ..demand(count, rate, batch.map(|pages| pages * 4096), ms(jitter))
    });
    proptest::collection::vec(one, 1..4)
}

fn disks() -> impl Strategy<Value = DiskTerms> {
    let cost = |(fixed, rate)| Cost { fixed: Nanos::from_micros(fixed), rate: Rate(rate) };
    let costs = ((100i64..20_000, 5_000_000u64..200_000_000), (100i64..20_000, 5_000_000u64..200_000_000));
    let before_all = (any::<bool>(), 0u64..3, 0i64..10_000);
    (costs, 0u64..3, 0u64..6, 0u64..3, (0i64..3_000, any::<bool>()), before_all).prop_map(
        move |((read, write), inside, most, aged, (cpu, gaps), (commits, flushes, flush))| DiskTerms {
            read: cost(read),
            write: Some(cost(write)),
            held: Held {
                most,
                per_request: 2,
                per_write: 1,
                flushes: false,
                each: Cost { fixed: ms(5), rate: Rate(30_000_000) },
                longest: 128 << 10,
                bytes: most * (128 << 10),
            },
            inside,
            inside_writes: u64::from(most > 0) * inside,
            requests: 4096,
            write_requests: 4096,
            service: Service::ByClass { aged },
            commits,
            flushes,
            flush: Nanos::from_micros(flush),
            cpu: Nanos::from_micros(cpu),
            gaps,
            ..disk()
        },
    )
}

/// A stream of the game below, in nanoseconds and bytes scaled by 1e9.
struct Player {
    demand: StreamDemand,
    given: Admitted,
    credit: u128,
    /// Bytes of its batches that are there.
    moved: u64,
    /// How long its thread takes to ask for the next batch, and since when that is wanted.
    delay: i64,
    wanted: Option<i64>,
    /// When the batch in the block layer was asked for.
    asked: Option<i64>,
}

const SCALE: u128 = 1_000_000_000;

impl Player {
    fn new(demand: &StreamDemand, given: &Admitted) -> Player {
        let credit = u128::from(given.batch) * SCALE
            + u128::from(demand.jitter.get_unsigned()) * u128::from(demand.rate.0);
        Player {
            demand: demand.clone(),
            given: *given,
            credit,
            moved: 0,
            delay: 0,
            wanted: None,
            asked: None,
        }
    }

    fn rate(&self) -> u128 {
        u128::from(self.demand.rate.0)
    }

    fn is_written(&self) -> bool {
        self.demand.direction == Direction::Write
    }

    fn accrue(&mut self, span: i64) {
        let most = u128::from(self.given.batch) * SCALE
            + u128::from(self.demand.jitter.get_unsigned()) * self.rate();
        self.credit = (self.credit + u128::from(span.unsigned_abs()) * self.rate()).min(most);
    }

    /// When it has credit for a batch and room for it or the data of it, seen from an instant, if it has none under way.
    fn wants_at(&self, now: i64) -> i64 {
        let price = u128::from(self.given.batch) * SCALE;
        let of_credit = now + price.saturating_sub(self.credit).div_ceil(self.rate()) as i64;
        let end = self.moved + self.given.batch;
        let end = if self.is_written() { end } else { end.saturating_sub(self.given.buffer) };
        // Access k is played, or made, when it is released.
        let accesses = end.div_ceil(self.demand.access);
        let of_data = u128::from(accesses.saturating_sub(1) * self.demand.access) * SCALE;
        of_credit.max(of_data.div_ceil(self.rate()) as i64)
    }

    fn asks_at(&self, now: i64) -> i64 {
        (self.wanted.unwrap_or_else(|| self.wants_at(now)) + self.delay).max(now)
    }

    /// It goes on from one instant to another, and asks as soon as its thread does.
    fn go_on(&mut self, from: i64, to: i64) {
        if self.asked.is_none() && self.wanted.is_none() {
            self.wanted = Some(self.wants_at(from)).filter(|at| *at <= to);
        }
        let at = self.asks_at(from);
        if self.asked.is_some() || self.wanted.is_none() || at > to {
            return self.accrue(to - from);
        }
        self.accrue(at - from);
        self.credit -= u128::from(self.given.batch) * SCALE;
        (self.asked, self.wanted) = (Some(at), None);
        self.accrue(to - at);
    }

    /// Its batch is there: whether that took no longer than it may, and nothing is further behind.
    fn is_served(&mut self, now: i64, is_start: bool) -> Result<(), TestCaseError> {
        let asked = self.asked.take().unwrap_or(now);
        let most = if is_start { self.given.at_start } else { self.given.latency };
        prop_assert!(now - asked <= most.get(), "a batch took {} ns, of {:?}", now - asked, self.given);
        let (before, access) = (self.moved, u128::from(self.demand.access));
        self.moved += self.given.batch;
        let released = u128::from(now.unsigned_abs()) * self.rate() / SCALE;
        if self.is_written() {
            let held = (released / access + 1) * access - u128::from(before);
            prop_assert!(held <= u128::from(self.given.needed), "{held} bytes wait, of {:?}", self.given);
            return Ok(());
        }
        let lag = released.saturating_sub(before.into()) * SCALE / self.rate();
        let most = u128::from(self.given.behind.get_unsigned());
        prop_assert!(lag <= most, "{lag} ns behind, of {:?}", self.given);
        Ok(())
    }
}

/// Best effort and the device's own writes in the game: what is left of them while streams wait.
struct Others<'a> {
    disk: &'a DiskTerms,
    aged: u64,
    own: u64,
    /// A commit's block, and flushes.
    before_all: (bool, u64),
}

impl Others<'_> {
    /// Mostly as long as it may take.
    fn part(whole: Nanos, chance: &mut Pcg) -> i64 {
        if chance.below(4) > 0 { whole.get() } else { chance.below(whole.get_unsigned().max(1)) as i64 }
    }

    /// What the device does by itself before `requests`: for each that writes it has room first.
    fn own(&mut self, (requests, is_write): (u64, bool), chance: &mut Pcg) -> i64 {
        let held = self.disk.held;
        let writes = u64::from(is_write && held.most > 0);
        let mut done = 0;
        for _ in 0..requests {
            let least = (self.own + writes).saturating_sub(held.most);
            let most = self.own.min(held.per_request + held.per_write * writes).max(least);
            let count = if chance.below(2) == 0 { most } else { least + chance.below(most - least + 1) };
            self.own = self.own + writes - count;
            done += count;
        }
        (held.each.of(held.longest) * done as i64).get()
    }

    /// A best-effort request, what the device does before it included.
    fn request(&mut self, chance: &mut Pcg) -> i64 {
        let (read, write) = (self.disk.read, self.disk.write.unwrap_or_default());
        let is_write = self.disk.inside_writes > 0 && chance.below(2) == 0;
        let cost = if is_write { write } else { read };
        self.own((1, is_write), chance) + Self::part(cost.of(self.disk.beside_bytes), chance)
    }

    /// One of what goes before all classes, if any is left.
    fn before_all(&mut self, chance: &mut Pcg) -> Option<i64> {
        let (commits, flushes) = self.before_all;
        if commits && (flushes == 0 || chance.below(2) == 0) {
            self.before_all.0 = false;
            let write = self.disk.write.unwrap_or_default().of(PAGE);
            return Some(self.own((1, true), chance) + Self::part(write, chance));
        }
        self.before_all.1 = flushes.checked_sub(1)?;
        Some(self.own((1, false), chance) + Self::part(self.disk.flush, chance))
    }

    /// No stream waits: all that it may have comes again, and some of it is begun.
    fn again(&mut self, chance: &mut Pcg) -> i64 {
        let most = self.disk.held.most;
        let is_written = self.disk.inside_writes > 0;
        (self.aged, self.own) =
            (self.disk.service_aged(), if is_written { most } else { self.own.min(most) });
        self.before_all = (self.disk.commits, self.disk.flushes);
        (0..self.disk.inside).map(|_| self.request(chance)).sum()
    }
}

impl DiskTerms {
    fn service_aged(&self) -> u64 {
        match self.service {
            Service::ByClass { aged } => aged,
            Service::InOrder => 0,
        }
    }
}

/// One disk that serves streams before best effort, in any order among them, each as long as chance says and no longer than it may; holds whether batches and accesses
/// were in time. The streams fetch as the prefetcher does.
fn play(
    demands: &[StreamDemand],
    disk: &DiskTerms,
    admission: &Admission,
    seed: u64,
) -> Result<(), TestCaseError> {
    let mut chance = Pcg::for_job(seed, 1, 2);
    let of = |(demand, given): (&StreamDemand, &Admitted)| {
        (0..demand.count).map(|_| Player::new(demand, given)).collect::<Vec<_>>()
    };
    let mut players: Vec<Player> = demands.iter().zip(&admission.streams).flat_map(of).collect();
    let mut others = Others { disk, aged: 0, own: disk.held.most, before_all: (false, 0) };
    let (mut now, mut served, mut is_start) = (0i64, None, true);
    // What had left the scheduler when all begin.
    players.iter_mut().for_each(|player| player.go_on(0, 0));
    let begun = others.again(&mut chance);
    players.iter_mut().for_each(|player| player.go_on(0, begun));
    now += begun;
    for _ in 0..400 {
        players.iter_mut().for_each(|player| player.go_on(now, now));
        let waiting: Vec<usize> =
            (0..players.len()).filter(|place| players[*place].asked.is_some()).collect();
        let mut done = None;
        let took = if waiting.is_empty() {
            let next = players.iter().map(|player| player.asks_at(now) - now).min().unwrap_or(1).max(1);
            served = None;
            is_start &= disk.gaps && players.iter().any(|player| player.wanted.is_some());
            let best_effort = others.again(&mut chance);
            if chance.below(3) > 0 { best_effort.max(1) } else { next }
        } else if let Some(took) = (chance.below(2) == 0).then(|| others.before_all(&mut chance)).flatten() {
            took
        } else if others.aged > 0 && chance.below(2) == 0 {
            others.aged -= 1;
            others.request(&mut chance)
        } else {
            // Often the one that was served last: it lies ahead of the others on the disk.
            let again = served.filter(|place| waiting.contains(place) && chance.below(4) > 0);
            let place = again.unwrap_or_else(|| waiting[chance.below(waiting.len() as u64) as usize]);
            let player = &players[place];
            let requests = player.given.batch.div_ceil(disk.request_bytes);
            let own = others.own((requests, player.is_written()), &mut chance);
            (served, done) = (Some(place), Some(place));
            own + Others::part(player.given.service, &mut chance)
        };
        players.iter_mut().for_each(|player| player.go_on(now, now + took));
        now += took;
        if let Some(place) = done {
            let player = &mut players[place];
            player.is_served(now, is_start)?;
            let is_chained = !disk.gaps && player.wants_at(now) <= now;
            let late = if is_chained { 0 } else { disk.cpu.get_unsigned() };
            player.delay = if chance.below(3) > 0 { late } else { chance.below(late + 1) } as i64;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// However the disk orders what streams ask for, and whatever best effort does: no batch takes longer than its bound, and no stream is further behind.
    #[test]
    fn nothing_takes_longer_than_its_bound(demands in demands(), disk in disks(), seed in 0u64..1 << 32) {
        if let Ok(admission) = admit(&demands, &disk, &Floors::default()) {
            play(&demands, &disk, &admission, seed)?;
        }
    }

    /// Whoever comes, nobody's bound gets lower and nobody's buffer smaller.
    #[test]
    fn more_streams_never_lower_a_bound(demands in demands(), disk in disks(), more in demands()) {
        let batches = |of: &[StreamDemand]| of.iter().map(|one| one.batch.unwrap_or(128 << 10)).collect::<Vec<_>>();
        let all: Vec<StreamDemand> = demands.iter().chain(&more).cloned().collect();
        let set = |of| latency::Set::new(of, &batches(of), &disk).with_lags();
        let Ok(many) = set(&all) else { return Ok(()) };
        let few = set(&demands).map_err(|place| TestCaseError::fail(format!("{place} catches up beside more")))?;
        for place in 0..demands.len() {
            if let (Ok(alone), Ok(beside)) = (few.admit(place), many.admit(place)) {
                prop_assert!(alone.latency <= beside.latency && alone.needed <= beside.needed);
            } else {
                prop_assert!(many.admit(place).is_err() || few.admit(place).is_ok());
            }
        }
    }

    /// What is admitted takes less than the disk has, in exact numbers, leaves best effort its floor, and has the memory.
    #[test]
    fn admission_never_overcommits(demands in demands(), disk in disks(), floor in 0u64..4_000_000, memory in 1u64..1 << 24) {
        let floors = Floors { best_effort: Rate(floor), memory: Some(memory) };
        if let Ok(admission) = admit(&demands, &disk, &floors) {
            let time: f64 = demands.iter().zip(&admission.streams).map(|(demand, given)| {
                given.service.as_secs_f64() * f64::from(demand.count) * demand.rate.0 as f64 / given.batch as f64
            }).sum();
            prop_assert!(time < 1.0 && admission.share < 1 << SHARE);
            let share = admission.share as f64 / (1u64 << SHARE) as f64;
            // What the device writes later is in it, too.
            prop_assert!(share > time - 1e-6);
            let is_read = demands.iter().all(|demand| demand.direction == Direction::Read);
            prop_assert!(!is_read || (share - time).abs() < 1e-6);
            prop_assert!(admission.best_effort >= floors.best_effort && admission.memory <= memory);
        }
    }

}

/// Drawn sets beside an adversary that has more than was counted, in one term after the other: some batch is beyond its bound. So a bound without the term would be found.
#[test]
fn a_bound_without_one_of_its_terms_is_found() {
    type Without = fn(&mut DiskTerms) -> bool;
    let terms: [(&str, Without); 4] = [
        ("a request out of the scheduler", |disk| {
            let is_there = disk.inside > 0;
            disk.inside = disk.inside.saturating_sub(1);
            disk.inside_writes = disk.inside_writes.min(disk.inside);
            is_there
        }),
        ("commits", |disk| std::mem::replace(&mut disk.commits, false)),
        ("flushes", |disk| std::mem::take(&mut disk.flushes) > 0 && disk.flush > ms(3)),
        ("aged ones", |disk| {
            std::mem::replace(&mut disk.service, Service::ByClass { aged: 0 }) != disk.service
        }),
    ];
    let mut runner = TestRunner::deterministic();
    let mut found = [0; 4];
    for seed in 0..400 {
        let whole = disks().new_tree(&mut runner).expect("it is drawn").current();
        let one = demands().new_tree(&mut runner).expect("it is drawn").current();
        for (found, (_, without)) in found.iter_mut().zip(&terms) {
            let mut less = whole;
            if without(&mut less)
                && let Ok(admission) = admit(&one[..1], &less, &Floors::default())
            {
                *found += u32::from(play(&one[..1], &whole, &admission, seed).is_err());
            }
        }
    }
    for (found, (name, _)) in found.iter().zip(&terms) {
        assert!(*found > 0, "{name}: never missed, of {found:?}");
    }
}

/// A batch that is chosen is no longer than the stream's file, which the others' may be.
#[test]
fn a_batch_is_no_longer_than_its_file() {
    let one = demand(1, 3_000_000, None, ms(400));
    let free = admit(std::slice::from_ref(&one), &disk(), &Floors::default()).unwrap().streams[0];
    let short = StreamDemand { longest: Some(free.batch - PAGE), rate: Rate(100_000), ..one.clone() };
    let both = admit(&[short.clone(), one], &disk(), &Floors::default()).unwrap();
    assert_eq!(both.streams[0].batch, free.batch - PAGE);
    assert!(both.streams[1].batch >= free.batch, "{both:?}");
    let alone = StreamDemand { rate: Rate(3_000_000), ..short };
    assert!(admit(&[alone], &disk(), &Floors::default()).is_err());
}
