//! Requests a second of each model: a queue kept full of random 4 KiB requests, two reads to a write.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use surety_device::profile::{PROFILES, Profile};
use surety_device::{Op, Request};
use surety_stats::random::Pcg;
use surety_units::Nanos;

fn main() {
    divan::main();
}

/// Requests of a run.
const REQUESTS: usize = 20_000;

fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|row| row.0)
}

#[divan::bench(args = names(), sample_count = 10)]
fn random_4k(bencher: Bencher<'_, '_>, name: &str) {
    let profile = Profile::named(name).expect("it is one of ours");
    let depth = profile.depth().min(32);
    bencher.counter(ItemsCount::new(REQUESTS)).bench(|| {
        let mut device = profile.build(1);
        let mut chance = Pcg::new(1, 1);
        let places = profile.sectors() / 8;
        let (mut now, mut asked) = (Nanos::ZERO, 0);
        while asked < REQUESTS || device.queued() > 0 {
            if asked < REQUESTS && device.queued() < depth {
                let op = if asked % 3 == 2 { Op::Write } else { Op::Read };
                device.accept(now, asked as u32, &Request::new(op, chance.below(places) * 8, 8));
                asked += 1;
                continue;
            }
            now = device.next().expect("something is inside");
            while let Some(done) = device.advance(now) {
                black_box(done);
            }
        }
        device.digest()
    });
}

/// The cost of asking a disk for the positioning time of a request.
#[divan::bench]
fn estimate(bencher: Bencher<'_, '_>) {
    let profile = Profile::named("hdd-7200").expect("it is one of ours");
    let device = profile.build(1);
    let mut chance = Pcg::new(1, 1);
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| {
        let sector = chance.below(profile.sectors() / 8) * 8;
        device.estimate(Nanos::ZERO, black_box(&Request::new(Op::Read, sector, 8)))
    });
}
