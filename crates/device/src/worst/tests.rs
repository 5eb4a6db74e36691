//! The longest that devices take, held against requests drawn for each profile.

use proptest::prelude::*;
use surety_stats::random::Pcg;
use surety_units::Nanos;

use super::{Asked, Writes};
use crate::SECTOR;
use crate::model::{Op, Request};
use crate::profile::Profile;

/// The shortest and the longest request of the drawn ones.
const LENGTHS: (u32, u32) = (8, 256);

/// What is drawn: whether anything is written, whether sectors are written again or read while the device holds them, whether it is
/// flushed, and whether a write may have to be on the medium.
#[derive(Clone, Copy, Debug)]
struct Mix {
    writes: bool,
    overlap: bool,
    flushes: bool,
    through: bool,
}

impl Mix {
    fn asked(self, profile: &Profile, share: u64) -> Asked {
        let Mix { overlap, flushes, through, .. } = self;
        let writes = Writes { shortest: LENGTHS.0, overlap, flushes, through };
        // A part of the disk that begins a third into it.
        let (first, sectors) = (profile.sectors() / 3, (profile.sectors() / share).max(100_000));
        Asked { range: first..first + sectors, longest: LENGTHS.1, writes: self.writes.then_some(writes) }
    }
}

/// Draws requests; those that write go on after each other in one half of the range where they may not overlap.
struct Drawn {
    chance: Pcg,
    mix: Mix,
    range: std::ops::Range<u64>,
    next_write: u64,
}

impl Drawn {
    fn request(&mut self) -> Request {
        let sectors = LENGTHS.0 + self.chance.below(u64::from(LENGTHS.1 - LENGTHS.0 + 1)) as u32;
        let half = (self.range.end - self.range.start) / 2;
        let op = match self.chance.below(8) {
            0 if self.mix.writes && self.mix.flushes => return Request::new(Op::Flush, 0, 0),
            0..=3 if self.mix.writes => Op::Write,
            _ => Op::Read,
        };
        let near = self.chance.below(4) > 0;
        let offset = match (op, self.mix.overlap) {
            (_, true) if near => self.chance.below(4096),
            (_, true) => self.chance.below(half),
            (Op::Write, false) => {
                // Here and there it leaves sectors out, so that runs end.
                self.next_write = (self.next_write + self.chance.below(2) * 3000) % (half - 4096);
                self.next_write += u64::from(sectors);
                half + self.next_write - u64::from(sectors)
            }
            _ => self.chance.below(half - 512),
        };
        let through = op == Op::Write && self.mix.through && self.chance.below(3) == 0;
        Request { through, ..Request::new(op, self.range.start + offset, sectors) }
    }
}

/// Gives a device so many requests at once again and again, with pauses between; the longest of all, as a share of its bound.
fn tightest(profile: &Profile, mix: Mix, (at_once, rounds, seed): (usize, usize, u64), share: u64) -> f64 {
    let asked = mix.asked(profile, share);
    let worst = profile.worst(&asked).unwrap_or_else(|why| panic!("{}: {why}", profile.name));
    let mut device = profile.build(seed);
    let (mut now, mut tightest) = (Nanos::ZERO, 0.0_f64);
    let chance = Pcg::for_job(seed, 77, 0);
    let mut drawn = Drawn { chance, mix, range: asked.range.clone(), next_write: 0 };
    // The arm comes to the range.
    device.accept(now, 0, &Request::new(Op::Read, asked.range.start, 8));
    for round in 0..=rounds {
        let (begun, mut bound, mut writes, mut requests) = (now, Nanos::ZERO, 0, 0);
        while round > 0 && requests < at_once.min(device.depth()) {
            let request = drawn.request();
            device.accept(now, requests as u32, &request);
            bound += match request.op {
                Op::Read => worst.read.of(request.bytes()),
                Op::Flush => worst.flush,
                _ => worst.write.of(request.bytes()),
            };
            let is_written = request.op == Op::Write || mix.overlap;
            (requests, writes) = (requests + 1, writes + u64::from(is_written));
        }
        bound += worst.held.time(requests as u64, writes);
        while device.queued() > 0 {
            now = device.next().expect("a request is inside");
            while device.advance(now).is_some() {}
        }
        if round > 0 {
            assert!(now - begun <= bound, "{}: {mix:?}: {} after {bound}", profile.name, now - begun);
            tightest = tightest.max((now - begun).as_secs_f64() / bound.as_secs_f64());
        }
        let pause = [0, 0, 100_000, 20_000_000][drawn.chance.below(4) as usize];
        let until = now + Nanos::new(drawn.chance.below(pause + 1) as i64);
        while let Some(at) = device.next().filter(|at| *at <= until) {
            assert!(device.advance(at).is_none(), "nothing is inside");
        }
        now = until;
    }
    tightest
}

const NOTHING: Mix = Mix { writes: false, overlap: false, flushes: false, through: false };

const MIXES: [Mix; 6] = [
    NOTHING,
    Mix { writes: true, ..NOTHING },
    Mix { writes: true, overlap: true, ..NOTHING },
    Mix { writes: true, overlap: true, flushes: true, ..NOTHING },
    Mix { writes: true, flushes: true, ..NOTHING },
    Mix { writes: true, overlap: true, flushes: true, through: true },
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Of no device the requests that are inside at once ever take longer than is said, one or as many as it takes.
    #[test]
    fn no_request_takes_longer(seed in 0u64..1 << 32, at_once in 1usize..40, share in 2u64..200, mix in 0usize..MIXES.len()) {
        for name in ["null", "hdd-2004", "hdd-7200", "virtio-hdd"] {
            let profile = Profile::named(name).expect("it comes with the program");
            tightest(&profile, MIXES[mix], (at_once, 40, seed), share);
        }
        for name in ["ssd-sata", "nvme", "emmc"] {
            let profile = Profile::named(name).expect("it comes with the program");
            tightest(&profile, MIXES[0], (at_once, 40, seed), share);
        }
    }
}

/// For the disk of the published streams the bound on a read is within 1.2 of the longest of two thousand, and with what is
/// written beside it within 1.5.
#[test]
fn the_bound_on_a_hard_disk_is_near() {
    let profile = Profile::named("hdd-2004").expect("it comes with the program");
    let of = |mix, share| tightest(&profile, mix, (1, 2000, 5), share);
    let tightest: Vec<f64> = MIXES.iter().map(|mix| of(*mix, 60)).collect();
    println!("{tightest:?}");
    assert!(tightest[0] > 1.0 / 1.2, "{tightest:?}");
    assert!(tightest.iter().all(|share| *share > 1.0 / 1.5), "{tightest:?}");
}

/// What is chance without an end has no bound, and the refusal says what it is.
#[test]
fn flash_that_is_written_has_no_bound() {
    for name in ["ssd-sata", "nvme", "emmc"] {
        let profile = Profile::named(name).expect("it comes with the program");
        let why = profile.worst(&MIXES[1].asked(&profile, 10)).expect_err("it is refused");
        assert!(why.contains("valid"), "{why}");
    }
}

/// The zone of the sectors decides: outer tracks are faster, and a shorter range has shorter movements.
#[test]
fn the_zone_and_the_range_count() {
    let profile = Profile::named("hdd-7200").expect("it comes with the program");
    let last = profile.sectors();
    let of = |range| profile.worst(&Asked { range, longest: 256, writes: None }).expect("a bound").read;
    let (outer, inner, all) = (of(0..1 << 20), of(last - (1 << 20)..last), of(0..last));
    assert!(outer.rate > inner.rate && inner.rate == all.rate, "{outer:?} {inner:?} {all:?}");
    assert!(outer.fixed < all.fixed);
    // 2710 sectors a revolution of 8.333 ms, less what the changes of tracks take.
    let ideal = 2710 * SECTOR * 120;
    assert!(inner.rate.0 < ideal && inner.rate.0 > ideal * 8 / 10, "{inner:?}");
}

/// Between the ends of two requests of a disk that takes one at a time there is no less than its least, wherever what is read lies.
#[test]
fn nothing_is_there_sooner_than_the_least() {
    let profile = Profile::of_model("hdd-2004", &std::collections::BTreeMap::new()).unwrap();
    let least = profile.least().expect("it takes one at a time");
    let (mut disk, mut chance) = (profile.build(1), Pcg::for_job(5, 6, 7));
    let (mut now, mut last, mut hits) = (Nanos::ZERO, 0, 0);
    for number in 0..4_000 {
        // Mostly behind the one before, or the same again: what the buffer may have.
        let sector = match chance.below(4) {
            0 => chance.below(1 << 20),
            1 => last,
            _ => last + 256,
        };
        let op = if chance.below(4) == 0 { Op::Write } else { Op::Read };
        let request = Request::new(op, sector, 8 + chance.below(249) as u32);
        disk.accept(now, number, &request);
        let completion = loop {
            let at = disk.next().expect("it serves");
            if let Some(completion) = disk.advance(at) {
                break completion;
            }
        };
        let took = completion.completed - now;
        let most_hit = least.of(op == Op::Write, request.bytes());
        assert!(took >= most_hit, "{request:?}: {took}, at least {most_hit}");
        hits += u64::from(took < most_hit + Nanos::MILLISECOND);
        now = completion.completed
            + Nanos::new(chance.below(20_000_000) as i64 * i64::from(chance.below(2) == 0));
        last = sector;
    }
    assert!(hits > 100, "{hits} come from the buffer");
}
