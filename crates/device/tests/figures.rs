//! What the profiles give, beside the published figures they were made from.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]
#![allow(clippy::print_stdout, reason = "the figures are what the test is for")]

use surety_device::profile::Profile;
use surety_device::{Op, Request, SECTOR};
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

/// A figure of a data sheet, or measured and published, and how far the model may be from it.
struct Figure {
    profile: &'static str,
    op: Op,
    order: Order,
    bytes: u64,
    depth: usize,
    /// Completions before the count begins: caches fill, cells wear in.
    skip: usize,
    count: usize,
    value: Value,
    tolerance: f64,
    source: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    MeanUs(f64),
    Iops(f64),
    Megabytes(f64),
}

use Order::{Random, Sequential};
use Value::{Iops, MeanUs, Megabytes};

#[allow(clippy::too_many_arguments, reason = "a row of a table")]
const fn figure(
    profile: &'static str,
    op: Op,
    order: Order,
    bytes: u64,
    depth: usize,
    (skip, count): (usize, usize),
    (value, tolerance): (Value, f64),
    source: &'static str,
) -> Figure {
    Figure { profile, op, order, bytes, depth, skip, count, value, tolerance, source }
}

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;
const R: Op = Op::Read;
const W: Op = Op::Write;

#[rustfmt::skip]
const FIGURES: &[Figure] = &[
    figure("hdd-7200", R, Random, 4 * KIB, 1, (10, 2000), (MeanUs(12_160.0), 0.03), "data sheet: 8.0 ms seek + 4.16 ms latency"),
    figure("hdd-7200", R, Random, 4 * KIB, 32, (100, 2000), (Iops(200.0), 0.1), "usual for a 7200 rpm SATA disk with NCQ"),
    figure("hdd-7200", R, Sequential(0), MIB, 1, (10, 1000), (Megabytes(255.0), 0.03), "data sheet: sustained, outside"),
    figure("hdd-7200", R, Sequential(50), MIB, 1, (10, 1000), (Megabytes(205.0), 0.1), "data sheet: internal rate"),
    figure("hdd-7200", W, Sequential(50), MIB, 4, (400, 1000), (Megabytes(205.0), 0.1), "data sheet: internal rate"),
    figure("hdd-2004", R, Sequential(50), 128 * KIB, 1, (10, 1000), (Megabytes(10.7), 0.02), "fit to the ABISS table"),
    figure("ssd-sata", R, Random, 4 * KIB, 1, (10, 2000), (MeanUs(120.0), 0.03), "data sheet"),
    figure("ssd-sata", R, Random, 4 * KIB, 32, (100, 20_000), (Iops(98_000.0), 0.03), "data sheet"),
    figure("ssd-sata", R, Sequential(0), 128 * KIB, 32, (100, 2000), (Megabytes(550.0), 0.03), "data sheet"),
    figure("ssd-sata", W, Sequential(0), 128 * KIB, 32, (1000, 8000), (Megabytes(520.0), 0.08), "data sheet"),
    figure("ssd-sata", W, Random, 4 * KIB, 1, (10, 1000), (MeanUs(40.0), 0.03), "data sheet"),
    figure("ssd-sata", W, Random, 4 * KIB, 32, (100_000, 150_000), (Iops(25_000.0), 0.12), "data sheet, worn in"),
    figure("nvme", R, Random, 4 * KIB, 1, (10, 2000), (MeanUs(80.0), 0.03), "data sheet"),
    figure("nvme", R, Random, 4 * KIB, 512, (1000, 50_000), (Iops(850_000.0), 0.05), "data sheet"),
    figure("nvme", R, Sequential(0), 128 * KIB, 32, (100, 5000), (Megabytes(6800.0), 0.03), "data sheet"),
    figure("nvme", W, Sequential(0), 128 * KIB, 32, (1000, 8000), (Megabytes(2700.0), 0.05), "data sheet"),
    figure("nvme", W, Random, 4 * KIB, 1, (10, 1000), (MeanUs(14.3), 0.05), "published by users; the data sheet says 30"),
    figure("nvme", W, Random, 4 * KIB, 32, (200_000, 200_000), (Iops(130_000.0), 0.1), "data sheet, worn in"),
    figure("emmc", R, Random, 4 * KIB, 1, (10, 1000), (Iops(11_000.0), 0.03), "Samsung's figure"),
    figure("emmc", W, Random, 4 * KIB, 1, (10_000, 200_000), (Iops(13_000.0), 0.15), "Samsung's figure"),
    figure("emmc", R, Sequential(0), 512 * KIB, 1, (10, 1000), (Megabytes(250.0), 0.05), "Samsung's figure"),
    figure("emmc", W, Sequential(0), 512 * KIB, 1, (100, 5000), (Megabytes(125.0), 0.05), "Samsung's figure"),
    figure("null", R, Random, 4 * KIB, 1, (10, 1000), (MeanUs(10.0), 0.0), "null_blk: completion_nsec=10000"),
    figure("virtio-hdd", R, Random, 4 * KIB, 1, (10, 2000), (MeanUs(12_215.0), 0.03), "the disk behind and 55 us of the thread"),
];

#[test]
fn profiles_give_the_figures_they_were_made_from() {
    let mut far = Vec::new();
    for figure in FIGURES {
        let Figure { profile, op, order, bytes, depth, value, tolerance, source, .. } = figure;
        let measured = run(profile, *op, *order, *bytes, *depth, figure.skip, figure.count);
        let (published, found, unit) = match *value {
            MeanUs(published) => (published, measured.mean_us, "us"),
            Iops(published) => (published, measured.iops, "/s"),
            Megabytes(published) => (published, measured.megabytes, "MB/s"),
        };
        let row = format!(
            "{profile:<10} {op:?} {order:?} of {bytes} at depth {depth}: {found:.1} {unit}, published {published} ({source})"
        );
        println!("{row}");
        if (found / published - 1.0).abs() > *tolerance + 1e-9 {
            far.push(row);
        }
    }
    assert!(far.is_empty(), "{far:#?}");
}

/// A flush after scattered writes takes an access of each; with power-loss protection it takes nothing.
#[test]
fn a_flush_costs_what_the_buffer_holds() {
    let flush_us = |name: &str, writes: u64| {
        let profile = Profile::named(name).unwrap();
        let mut device = profile.build(1);
        let mut chance = Pcg::new(5, 5);
        let mut now = Nanos::ZERO;
        let mut serve = |request: Request| {
            let accepted = now;
            device.accept(now, 0, &request);
            loop {
                now = device.next().unwrap();
                if let Some(done) = device.advance(now) {
                    now = done.completed;
                    return (now - accepted).get() / 1000;
                }
            }
        };
        for _ in 0..writes {
            serve(Request::new(Op::Write, chance.below(profile.sectors() / 8) * 8, 8));
        }
        serve(Request::new(Op::Flush, 0, 0))
    };
    // Of a 7200 rpm disk a write and a flush take 13 to 16 ms in production; a single random access takes 12.2 on average.
    let (one, eight, many) = (flush_us("hdd-7200", 1), flush_us("hdd-7200", 8), flush_us("hdd-7200", 64));
    println!("hdd-7200: a flush after 1, 8, 64 scattered writes: {one} {eight} {many} us");
    assert!((4_000..25_000).contains(&one) && (50_000..110_000).contains(&eight), "{one} {eight}");
    assert!((200_000..500_000).contains(&many), "{many}");
    assert!(flush_us("ssd-sata", 8) < 60 && flush_us("nvme", 8) < 20);
    assert!(flush_us("emmc", 8) > 1_000);
}
