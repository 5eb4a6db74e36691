//! What writers get of a flash disk that is worn in: by the size of their writes, several of them, beside random ones, and after them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where by panicking")]
#![allow(clippy::print_stdout, reason = "the figures are what the test is for")]

use std::collections::VecDeque;

use surety_device::profile::Profile;
use surety_device::{Model, Op, Request, SECTOR};
use surety_stats::random::Pcg;
use surety_units::Nanos;

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;

/// Who writes: one write after the other is complete, or at a rate.
#[derive(Clone, Copy, Debug)]
struct Writer {
    /// Where its first write begins, as a share of the disk.
    from: f64,
    /// Bytes of each write.
    size: u64,
    is_random: bool,
    /// Bytes a second at most.
    at_most: Option<f64>,
}

const fn sequential(from: f64, size: u64) -> Writer {
    Writer { from, size, is_random: false, at_most: None }
}

/// A disk with writers in front of it, in the order they come.
struct Site {
    device: Box<dyn Model + Send>,
    waiting: VecDeque<(u32, Request)>,
    chance: Pcg,
    now: Nanos,
}

impl Site {
    fn new(name: &str) -> Site {
        Site::of(&Profile::named(name).unwrap())
    }

    fn of(profile: &Profile) -> Site {
        let device = profile.build(1);
        Site { device, waiting: VecDeque::new(), chance: Pcg::new(7, 7), now: Nanos::ZERO }
    }

    /// Runs writers side by side for a number of seconds; returns the bytes that each wrote.
    fn run(&mut self, writers: &[Writer], seconds: f64) -> Vec<u64> {
        let begin = self.now;
        let until = begin + Nanos::from_f64_rounded(seconds * 1e9);
        let disk = self.device.sectors();
        let mut at: Vec<u64> =
            writers.iter().map(|writer| (disk as f64 * writer.from) as u64 / 8 * 8).collect();
        let (mut next, mut written) = (vec![Some(begin); writers.len()], vec![0; writers.len()]);
        loop {
            for (tag, writer) in writers.iter().enumerate() {
                if next[tag].is_none_or(|due| due > self.now) || self.now >= until {
                    continue;
                }
                next[tag] = None;
                let sectors = writer.size / SECTOR;
                if writer.is_random {
                    at[tag] = self.chance.below((disk - sectors) / 8) * 8;
                }
                self.waiting.push_back((tag as u32, Request::new(Op::Write, at[tag], sectors as u32)));
                at[tag] += sectors;
            }
            while self.device.queued() < self.device.depth()
                && let Some((tag, request)) = self.waiting.pop_front()
            {
                self.device.accept(self.now, tag, &request);
            }
            if self.now >= until && self.device.queued() == 0 {
                return written;
            }
            let due = next.iter().copied().flatten().filter(|due| *due > self.now && *due < until);
            self.now = self.device.next().into_iter().chain(due).min().unwrap_or(until);
            while let Some(done) = self.device.advance(self.now) {
                let tag = done.tag as usize;
                written[tag] += writers[tag].size;
                let pace = writers[tag].at_most.map_or(0.0, |rate| written[tag] as f64 / rate * 1e9);
                next[tag] = Some(self.now.max(begin + Nanos::from_f64_rounded(pace)));
            }
        }
    }
}

/// MB/s that each writer gets of a disk of a profile for some seconds.
fn rates(name: &str, writers: &[Writer], seconds: f64) -> Vec<f64> {
    let written = Site::new(name).run(writers, seconds);
    written.iter().map(|bytes| *bytes as f64 / seconds / 1e6).collect()
}

const DISKS: [&str; 3] = ["emmc", "ssd-sata", "nvme"];

#[test]
fn larger_writes_are_no_slower() {
    for name in DISKS {
        let of = |size| rates(name, &[sequential(0.1, size)], 5.0)[0];
        let found: Vec<f64> = [64, 128, 256, 512, 1024].map(|kib| of(kib * KIB)).to_vec();
        println!("{name}: 64 KiB to 1 MiB: {found:.1?} MB/s");
        assert!(found.windows(2).all(|pair| pair[1] > 0.99 * pair[0]), "{name}: {found:?}");
    }
}

/// With large writes a disk gives its rate from the first seconds on, as later.
#[test]
fn a_sequential_writer_has_its_rate_from_the_beginning() {
    for name in DISKS {
        let mut site = Site::new(name);
        let writer = [sequential(0.1, MIB)];
        let (early, _) = (site.run(&writer, 1.0)[0] as f64 / 1e6, site.run(&writer, 5.0));
        let later = site.run(&[sequential(0.5, MIB)], 1.0)[0] as f64 / 1e6;
        println!("{name}: {early:.1} MB in the first second, {later:.1} later");
        assert!(early > 0.9 * later, "{name}: {early} {later}");
    }
}

#[test]
fn writers_beside_each_other_have_the_rate_of_one() {
    for name in DISKS {
        for size in [64 * KIB, MIB] {
            let one = rates(name, &[sequential(0.1, size)], 4.0)[0];
            let four: Vec<Writer> = (0..4).map(|i| sequential(0.1 + 0.2 * f64::from(i), size)).collect();
            let all: f64 = rates(name, &four, 4.0).iter().sum();
            println!("{name}, {size}: one {one:.1}, four {all:.1} MB/s");
            assert!(all > 0.95 * one, "{name}: {all} {one}");
        }
    }
}

/// Sequential writers beside each other on `emmc` with another `streams`: as many have the rate of one together, with one more they are
/// slower, each beyond as much as if it wrote at random.
#[test]
fn a_disk_holds_as_many_sequential_writers_as_it_follows() {
    let text = include_str!("../src/profiles/emmc.toml");
    // MB/s of all together.
    let all = |streams: u32, sequential_ones: u32, random_ones: u32| {
        let text = text.replace("streams = 5", &format!("streams = {streams}"));
        let profile = Profile::read("emmc", "emmc", &text).unwrap();
        let writers: Vec<Writer> = (0..sequential_ones + random_ones)
            .map(|i| Writer { is_random: i >= sequential_ones, ..sequential(f64::from(i) / 130.0, 64 * KIB) })
            .collect();
        let written: u64 = Site::of(&profile).run(&writers, 10.0).iter().sum();
        written as f64 / 10.0 / 1e6
    };
    for streams in [1, 5, 64] {
        let (one, as_many) = (all(streams, 1, 0), all(streams, streams, 0));
        println!("streams = {streams}: one {one:.1}, {streams} together {as_many:.1} MB/s");
        assert!(as_many > 0.99 * one, "{streams}: {as_many} {one}");
        for (beyond, at_most) in [(1, 0.99), (30, 0.8)] {
            let (more, random) = (all(streams, streams + beyond, 0), all(streams, streams, beyond));
            println!("{beyond} more: {more:.1}; at random: {random:.1} MB/s");
            assert!(more < at_most * as_many, "{streams} and {beyond}: {more} {as_many}");
            assert!((more / random - 1.0).abs() < 0.03, "{streams} and {beyond}: {more} {random}");
        }
    }
    let (of_36, of_one) = (all(64, 36, 0), all(64, 1, 0));
    assert!(of_36 > 0.99 * of_one, "{of_36} {of_one}");
}

/// 100 random writes of 4 KiB a second are 0.4 MB/s: they cost a sequential writer that, and the copies that they alone make.
#[test]
fn a_few_random_writes_cost_what_their_bytes_make() {
    let few = Writer { from: 0.0, size: 4 * KIB, is_random: true, at_most: Some(400e3) };
    for name in DISKS {
        let alone = rates(name, &[sequential(0.1, MIB)], 5.0)[0];
        let both = rates(name, &[sequential(0.1, MIB), few], 5.0);
        println!("{name}: alone {alone:.1}, beside 0.4 MB/s of 4 KiB {both:.2?} MB/s");
        assert!(both[0] > 0.95 * alone, "{name}: {both:?}, alone {alone}");
        assert!(both[1] > 0.38, "{name}: {both:?}");
    }
}

/// After random writes a sequential writer has its rate again when it has written six times what the disk keeps free, which is two
/// blocks of each die.
#[test]
fn a_disk_recovers_within_a_bounded_number_of_bytes() {
    for (name, free) in [("emmc", 32 * MIB), ("ssd-sata", 256 * MIB), ("nvme", 512 * MIB)] {
        for size in [64 * KIB, MIB] {
            let writer = [sequential(0.1, size)];
            let mut site = Site::new(name);
            // When there is nothing else to remember for long: 16 GB.
            let mut before = 0;
            while before < 16_000_000_000 {
                before += site.run(&writer, 1.0)[0];
            }
            let usual = site.run(&writer, 2.0)[0] as f64 / 2.0;
            let random = Writer { from: 0.0, size: 4 * KIB, is_random: true, at_most: None };
            site.run(&[random; 16], 3.0);
            let mut written = 0;
            // Quarters of a second; the last of them is at the rate.
            while written < 100 * free {
                let of = site.run(&writer, 0.25)[0];
                written += of;
                if of as f64 > 0.9 * usual * 0.25 {
                    break;
                }
            }
            println!("{name}, {size}: {:.1} MB/s again after {} MB", usual / 1e6, written / 1_000_000);
            let most = 6 * free + (usual * 0.25) as u64;
            assert!(written <= most, "{name}: {written} bytes, at most {most}");
        }
    }
}
