//! What the profiles give, beside the published figures they were made from.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]

use surety_device::profile::Profile;
use surety_device::{Model, Op, Request, SECTOR};
use surety_stats::random::Pcg;
use surety_units::Nanos;

/// Where the requests of a run go.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Anywhere on the device.
    Random,
    /// One after the other, from the given percentage of the device on.
    Sequential(u64),
}

/// What a run measured.
struct Measured {
    /// Mean of the response times, in microseconds.
    mean_us: f64,
    iops: f64,
    megabytes: f64,
}

/// Keeps so many requests of a size in a device; `skip` completions are not counted.
fn run(name: &str, op: Op, order: Order, bytes: u64, depth: usize, skip: usize, count: usize) -> Measured {
    let profile = Profile::named(name).unwrap();
    let mut device = profile.build(1);
    let sectors = (bytes / SECTOR) as u32;
    let mut chance = Pcg::new(7, 7);
    let places = profile.sectors() / u64::from(sectors);
    let mut at = match order {
        Order::Random => 0,
        Order::Sequential(percent) => places / 100 * percent,
    };
    let mut request = || {
        at = match order {
            Order::Random => chance.below(places),
            Order::Sequential(_) => at + 1,
        };
        Request::new(op, at * u64::from(sectors), sectors)
    };
    let (mut done, mut begin, mut now, mut sum) = (0, Nanos::ZERO, Nanos::ZERO, 0.0);
    for tag in 0..depth {
        device.accept(now, tag as u32, &request());
    }
    while done < skip + count {
        now = device.next().unwrap();
        while let Some(completion) = device.advance(now) {
            done += 1;
            if done <= skip {
                begin = now;
            } else {
                sum += completion.service.total().get() as f64 / 1e3;
            }
            if device.queued() < depth {
                device.accept(now, completion.tag, &request());
            }
        }
    }
    let seconds = (now - begin).as_secs_f64();
    let counted = (done - skip) as f64;
    Measured {
        mean_us: sum / counted,
        iops: counted / seconds,
        megabytes: counted * bytes as f64 / seconds / 1e6,
    }
}

#[test]
fn t() {
    for (name, op, order, bytes, depth, skip, count) in [
        ("hdd-7200", Op::Read, Order::Random, 4096, 1, 10, 2000),
        ("hdd-7200", Op::Read, Order::Random, 4096, 32, 100, 2000),
        ("hdd-7200", Op::Read, Order::Sequential(0), 1 << 20, 1, 10, 1000),
        ("hdd-7200", Op::Read, Order::Sequential(50), 1 << 20, 1, 10, 1000),
        ("hdd-7200", Op::Write, Order::Sequential(50), 1 << 20, 1, 200, 1000),
        ("hdd-7200", Op::Write, Order::Random, 4096, 1, 2000, 2000),
        ("hdd-2004", Op::Read, Order::Sequential(50), 1 << 17, 1, 10, 1000),
        ("hdd-2004", Op::Read, Order::Random, 4096, 1, 10, 1000),
        ("ssd-sata", Op::Read, Order::Random, 4096, 1, 10, 2000),
        ("ssd-sata", Op::Read, Order::Random, 4096, 32, 100, 20000),
        ("ssd-sata", Op::Read, Order::Sequential(0), 1 << 17, 32, 100, 2000),
        ("ssd-sata", Op::Write, Order::Sequential(0), 1 << 17, 32, 20000, 8000),
        ("ssd-sata", Op::Write, Order::Random, 4096, 1, 10, 1000),
        ("ssd-sata", Op::Write, Order::Random, 4096, 32, 200000, 50000),
        ("nvme", Op::Read, Order::Random, 4096, 1, 10, 2000),
        ("nvme", Op::Read, Order::Random, 4096, 512, 1000, 50000),
        ("nvme", Op::Read, Order::Sequential(0), 1 << 17, 32, 100, 5000),
        ("nvme", Op::Write, Order::Sequential(0), 1 << 17, 32, 20000, 8000),
        ("nvme", Op::Write, Order::Random, 4096, 1, 10, 1000),
        ("nvme", Op::Write, Order::Random, 4096, 32, 200000, 50000),
        ("emmc", Op::Read, Order::Random, 4096, 1, 10, 1000),
        ("emmc", Op::Write, Order::Random, 4096, 1, 20000, 20000),
        ("emmc", Op::Read, Order::Sequential(0), 1 << 19, 1, 10, 1000),
        ("emmc", Op::Write, Order::Sequential(0), 1 << 19, 1, 10000, 5000),
        ("null", Op::Read, Order::Random, 4096, 1, 10, 1000),
        ("virtio-hdd", Op::Read, Order::Random, 4096, 1, 10, 1000),
    ] {
        let t = std::time::Instant::now();
        let m = run(name, op, order, bytes, depth, skip, count);
        println!(
            "{name} {op:?} {order:?} {bytes} qd{depth}: mean {:.1} us, {:.0} iops, {:.1} MB/s  [{:?}]",
            m.mean_us,
            m.iops,
            m.megabytes,
            t.elapsed()
        );
    }
    let p = Profile::named("hdd-7200").unwrap();
    println!("{}", surety_device::profile::show(&p));
    println!("{}", surety_device::profile::show(&Profile::named("hdd-2004").unwrap()));
    println!("{}", surety_device::profile::show(&Profile::named("emmc").unwrap()));
    println!("{:#?}", surety_device::profile::list());
}
